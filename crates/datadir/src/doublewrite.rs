//! The doublewrite area: complete copies of pages that a crash may have torn. It is in the system tablespace; MySQL 8.0.20 and later has
//! files for it. `recover` puts the copies back, and `check` calls a page that has one undecided, not damaged: both ask here.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use format::bytes::be;
use format::fil::{FIL_PAGE_LSN, FIL_PAGE_OFFSET, FIL_PAGE_SPACE_ID};
use format::page::doublewrite::{DoublewriteArea, TRX_SYS_PAGE_NO};
use format::{Lsn, PageId, PageNo, SpaceFormat, SpaceId, Verdict, verify_page};

use super::page::{PageAt, PageOpener};
use crate::files;
use crate::open::open_file;

/// Copies in the doublewrite area: one slot per page, with the slot's own page number.
#[derive(Debug, Default)]
pub struct Copies {
    slots: Vec<(PageNo, Vec<u8>)>,
    /// The pages of the system tablespace that make up the area.
    area: Vec<Range<u32>>,
}

/// The slot number of copies in doublewrite files, whose slots are not pages of the system tablespace.
const NO_PLACE: PageNo = PageNo(u32::MAX);

/// Bytes of a doublewrite file read at a time.
const READ_SIZE: usize = 1 << 20;

impl Copies {
    /// Reads the doublewrite area of the system tablespace. `run` reads so many pages from one on, fewer at the end.
    pub fn in_area<E>(system: &SpaceFormat, run: impl Fn(PageNo, usize) -> Result<Vec<u8>, E>) -> Result<Self, E> {
        let size = system.physical().bytes();
        let trx_sys = run(TRX_SYS_PAGE_NO, 1)?;
        // The page that locates the area may itself be torn.
        let area = DoublewriteArea::parse(&trx_sys).unwrap_or_else(|| DoublewriteArea::usual(system.logical()));
        let mut copies = Vec::new();
        for first in [area.block1, area.block2] {
            let bytes = run(first, system.extent_pages() as usize)?;
            // A damaged page may give the highest page number as the first. There are no bytes to read there, so the numbers do not
            // overflow.
            let slots = bytes.chunks_exact(size).zip((first.0..).map(PageNo));
            let used = slots.filter(|(slot, _)| be::u64_at(slot, FIL_PAGE_LSN) != Some(0));
            copies.extend(used.map(|(slot, place)| (place, slot.to_vec())));
        }
        let area = [area.block1, area.block2].map(|first| first.0..first.0.saturating_add(system.extent_pages()));
        Ok(Self { slots: copies, area: area.to_vec() })
    }

    /// Reads the doublewrite files of MySQL 8.0.20 and later: one page per slot, and nothing else. An error comes with its file.
    pub fn in_files(paths: &[PathBuf], system: &SpaceFormat) -> Result<Self, (PathBuf, io::Error)> {
        let mut copies = Vec::new();
        for path in paths {
            let keep = |slot: &[u8], _| {
                if be::u64_at(slot, FIL_PAGE_LSN) != Some(0) {
                    copies.push((NO_PLACE, slot.to_vec()));
                }
                Ok(())
            };
            each_slot(path, system.logical().bytes(), keep).map_err(|error| (path.clone(), error))?;
        }
        Ok(Self { slots: copies, area: Vec::new() })
    }

    /// The newest sound copy of a page with an LSN in this range.
    pub fn find(&self, at: PageAt<'_>, (from, to): (Lsn, Lsn), opener: &mut PageOpener) -> Option<&[u8]> {
        let size = at.format.physical().bytes();
        let copies =
            self.slots.iter().filter_map(|(_, slot)| Some((be::u64_at(slot, FIL_PAGE_LSN)?, slot.get(..size)?)));
        let sound = copies.filter(|&(lsn, copy)| {
            (from.0..=to.0).contains(&lsn)
                && be::u32_at(copy, FIL_PAGE_OFFSET) == Some(at.id.page_no.0)
                && is_copy_of(copy, at, opener)
        });
        sound.max_by_key(|&(lsn, _)| lsn).map(|(_, copy)| copy)
    }

    /// The slots in the area whose copies are newer than `lsn`.
    pub fn later_than(&self, lsn: Lsn) -> Vec<PageNo> {
        let later = |slot: &[u8]| be::u64_at(slot, FIL_PAGE_LSN).is_some_and(|copied| copied > lsn.0);
        let places = self.slots.iter().filter(|(_, slot)| later(slot)).map(|(place, _)| *place);
        places.filter(|place| *place != NO_PLACE).collect()
    }

    /// Whether the page is part of the area, which no server reads as a page.
    pub fn is_inside(&self, id: PageId) -> bool {
        id.space == SpaceId::SYSTEM && self.area.iter().any(|block| block.contains(&id.page_no.0))
    }

    /// The pages that the slots may be copies of: the pages that their headers name, and the page of the same number in each tablespace in
    /// `hidden`, whose stored pages do not show the tablespace's number.
    pub fn ids(&self, hidden: &BTreeSet<SpaceId>) -> Vec<PageId> {
        let mut ids = Vec::new();
        for (_, slot) in &self.slots {
            let (Some(space), Some(page_no)) = (be::u32_at(slot, FIL_PAGE_SPACE_ID), be::u32_at(slot, FIL_PAGE_OFFSET))
            else {
                continue;
            };
            ids.push(PageId::new(space, page_no));
            ids.extend(hidden.iter().map(|space| PageId::new(space.0, page_no)));
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Passes on each whole slot of a doublewrite file with its offset. Not all at once: the files have as many slots as the server was told, and
/// few of them are in use.
pub fn each_slot(path: &Path, size: usize, mut take: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
    let (file, mut slot) = (open_file(path)?, vec![0; size]);
    let mut file = BufReader::with_capacity(READ_SIZE, file);
    for at in (0..).step_by(size) {
        match file.read_exact(&mut slot) {
            Ok(()) => take(&slot, at)?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// MySQL's doublewrite files, for pages of `size` bytes.
pub fn files_in(datadir: &Path, size: usize) -> io::Result<Vec<PathBuf>> {
    let prefix = format!("#ib_{size}_");
    let mut paths: Vec<_> = files::read_dir(datadir)?.iter().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix(&prefix).is_some_and(|rest| rest.ends_with(".dblwr"))
    });
    paths.sort();
    Ok(paths)
}

/// Whether the copy is sound and of this page. A compressed or encrypted copy must be opened to see the tablespace's number.
fn is_copy_of(copy: &[u8], at: PageAt<'_>, opener: &mut PageOpener) -> bool {
    match verify_page(copy, at.id, at.format) {
        Verdict::Ok(_) | Verdict::Unverifiable(_) => {}
        _ => return false,
    }
    let opened = opener.open(copy, at);
    opened.is_ok_and(|opened| be::u32_at(opened.page, FIL_PAGE_SPACE_ID) == Some(at.id.space.0))
}
