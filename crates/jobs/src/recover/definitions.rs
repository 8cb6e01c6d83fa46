//! Definitions that change after a base copy. MariaDB keeps them twice: in its dictionary, which the redo covers, and in `.frm` files, which
//! it does not. The recovered copy has the base's `.frm` files, so a recovery beyond such a change is refused.
//!
//! Tables that are made, renamed or dropped show in file records. Columns and indexes that come and go in place show in pages of the
//! dictionary's trees: their roots are where every server has put them, and other pages name their tree.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use format::bytes::be;
use format::page::fil::FIL_PAGE_TYPE;
use format::{Lsn, SpaceId};
use redo::record::{FileRecord, Subject};

use super::error::{Result, failed, refused};
use super::log::{Scanned, file_record};
use super::plan::RecoverPlan;
use crate::source::read_up_to;

/// Roots of SYS_COLUMNS, SYS_INDEXES and SYS_FIELDS, fixed by every server.
const ROOTS: std::ops::RangeInclusive<u32> = 10..=12;
/// The numbers of these trees.
const TREES: std::ops::RangeInclusive<u64> = 2..=4;
const PAGE_INDEX_ID: usize = 66;
const FIL_PAGE_INDEX: u16 = 17855;

/// What a log says about definitions from an LSN on.
#[derive(Debug)]
pub(super) struct Definitions {
    /// The end of the base copy.
    after: Lsn,
    /// Pages of the system tablespace, and when they first changed.
    pages: BTreeMap<u32, Lsn>,
}

impl Definitions {
    pub const fn after(after: Lsn) -> Self {
        Self { after, pages: BTreeMap::new() }
    }

    /// Adds a mini-transaction. Fails if it makes, renames or drops a table.
    pub fn add(&mut self, scanned: &Scanned<'_>) -> Result<()> {
        let mtr = &scanned.mtr;
        if mtr.start < self.after {
            return Ok(());
        }
        for (subject, bytes) in scanned.records() {
            match subject {
                Subject::File => {
                    file_record(mtr.grammar, bytes).map_or(Ok(()), |record| self.check_file(&record, mtr.start))?;
                }
                Subject::Page(id, _) if id.space == SpaceId::SYSTEM => {
                    self.pages.entry(id.page_no.0).or_insert(mtr.start);
                }
                Subject::Page(..) => {}
            }
        }
        Ok(())
    }

    fn check_file(&self, record: &FileRecord<'_>, lsn: Lsn) -> Result<()> {
        let text = |name: &[u8]| String::from_utf8_lossy(name.strip_prefix(b"./").unwrap_or(name)).into_owned();
        match *record {
            FileRecord::Create { name, .. } => self.refuse(&format!("{} was made", text(name)), lsn),
            FileRecord::Delete { name, .. } => self.refuse(&format!("{} was dropped", text(name)), lsn),
            FileRecord::Rename { from, to, .. } => {
                self.refuse(&format!("{} was renamed to {}", text(from), text(to)), lsn)
            }
            _ => Ok(()),
        }
    }

    fn refuse(&self, what: &str, lsn: Lsn) -> Result<()> {
        refused(format!(
            "{what} at LSN {lsn}, after the base copy (LSN {}), whose .frm files do not know that: recover to that LSN at most (--until \
             {lsn}), or take a base copy from after it",
            self.after
        ))
    }
}

/// Fails if the archive changes the columns or indexes of a table after the base copy. The pages are looked at before the recovery and after
/// it: a tree may have grown in between.
pub(super) fn check(datadir: &Path, plan: &RecoverPlan) -> Result<()> {
    let (Some(definitions), Some(system)) = (&plan.wanted.definitions, plan.spaces.get(&SpaceId::SYSTEM)) else {
        return Ok(());
    };
    let size = system.format.physical().bytes();
    for (&page_no, &lsn) in &definitions.pages {
        let at = u64::from(page_no) * size as u64;
        let Some(part) = system.parts_now().into_iter().rfind(|part| part.start <= at) else { continue };
        let path = datadir.join(&part.path);
        let page = File::open(&path).and_then(|file| read_up_to(&file, at - part.start, size));
        let page = page.map_err(failed(&path, "reading the dictionary"))?;
        let is_index = be::u16_at(&page, FIL_PAGE_TYPE) == Some(FIL_PAGE_INDEX);
        let is_tree = be::u64_at(&page, PAGE_INDEX_ID).is_some_and(|tree| TREES.contains(&tree));
        if ROOTS.contains(&page_no) || (is_index && is_tree) {
            definitions.refuse("the columns or indexes of a table were changed", lsn)?;
        }
    }
    Ok(())
}
