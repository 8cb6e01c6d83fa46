//! Pages of MariaDB's dictionary that an archive changes after a base copy: columns and indexes added or dropped in place.
//!
//! The roots of the dictionary's trees have fixed page numbers, and every other page of a tree has the tree's index id.

use std::path::Path;

use format::bytes::be;
use format::fil::FIL_PAGE_TYPE;
use format::{Lsn, SpaceId};

use super::RecoverPlan;
use crate::door;
use crate::recover::error::{Result, failed};
use crate::recover::space::SpacePart;
use datadir::reading::read_up_to;

/// Roots of SYS_COLUMNS, SYS_INDEXES and SYS_FIELDS, fixed by every server.
const ROOTS: std::ops::RangeInclusive<u32> = 10..=12;
/// The index ids of these trees.
const TREES: std::ops::RangeInclusive<u64> = 2..=4;
const PAGE_INDEX_ID: usize = 66;
const FIL_PAGE_INDEX: u16 = 17855;

/// Fails if the archive changes the columns or indexes of a table after the base copy, and does not have the definitions. Called before the
/// recovery and again after it: in between a tree may have grown into pages that did not belong to it before.
pub(in crate::recover) fn check(datadir: &Path, plan: &RecoverPlan) -> Result<()> {
    let Some(definitions) = plan.wanted.definitions.as_ref().filter(|definitions| !definitions.is_archived) else {
        return Ok(());
    };
    first(datadir, plan)?
        .map_or(Ok(()), |lsn| definitions.refuse("the columns or indexes of a table were changed", lsn))
}

/// Where the archive first changes the columns or indexes of a table after the base copy, if it does.
pub(in crate::recover) fn first(datadir: &Path, plan: &RecoverPlan) -> Result<Option<Lsn>> {
    first_in(plan, |part, at, size| {
        let path = datadir.join(&part.path);
        let page = door::open_file(&path).and_then(|file| read_up_to(&file, at - part.start, size));
        page.map_err(failed(&path, "reading the dictionary"))
    })
}

/// The same, with pages from `read`, which gets a file of the system tablespace, a place in the tablespace and a length.
pub(in crate::recover) fn first_in(
    plan: &RecoverPlan,
    read: impl Fn(&SpacePart, u64, usize) -> Result<Vec<u8>>,
) -> Result<Option<Lsn>> {
    let (Some(definitions), Some(system)) = (&plan.wanted.definitions, plan.spaces.get(&SpaceId::SYSTEM)) else {
        return Ok(None);
    };
    let size = system.format.physical().bytes();
    let mut first = None;
    for (&page_no, &lsn) in &definitions.pages {
        let at = u64::from(page_no) * size as u64;
        let Some(part) = system.parts_now().into_iter().rfind(|part| part.start <= at) else { continue };
        let page = read(&part, at, size)?;
        let is_index = be::u16_at(&page, FIL_PAGE_TYPE) == Some(FIL_PAGE_INDEX);
        let is_tree = be::u64_at(&page, PAGE_INDEX_ID).is_some_and(|tree| TREES.contains(&tree));
        if ROOTS.contains(&page_no) || (is_index && is_tree) {
            first = first.into_iter().chain([lsn]).min();
        }
    }
    Ok(first)
}
