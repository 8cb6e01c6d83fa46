//! The doublewrite area: complete copies of pages that a crash may have torn. It is in the system tablespace; MySQL 8.0.20 and later has
//! files for it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use format::bytes::be;
use format::fil::{FIL_PAGE_LSN, FIL_PAGE_OFFSET, FIL_PAGE_SPACE_ID};
use format::page::doublewrite::{DoublewriteArea, TRX_SYS_PAGE_NO};
use format::{Lsn, PageId, PageNo, SpaceFormat, SpaceId, Verdict, verify_page};

use super::error::{Result, failed};
use super::system::SystemFiles;
use crate::door;
use datadir::page::{PageAt, PageOpener};

/// Copies in the doublewrite area: one slot per page, with the slot's own page number.
#[derive(Debug, Default)]
pub(super) struct Copies {
    slots: Vec<(PageNo, Vec<u8>)>,
    /// The pages of the system tablespace that make up the area.
    area: Vec<Range<u32>>,
}

/// The slot number of copies in doublewrite files, whose slots are not pages of the system tablespace.
const NO_PLACE: PageNo = PageNo(u32::MAX);

/// Bytes of a doublewrite file read at a time.
const READ_SIZE: usize = 1 << 20;

impl Copies {
    /// Reads the doublewrite area of the system tablespace from these files.
    pub fn read(datadir: &Path, files: &SystemFiles, system: &SpaceFormat) -> Result<Self> {
        let size = system.physical().bytes();
        let run = |first: PageNo, pages: usize| files.read(datadir, system.physical().offset_of(first.0), pages * size);
        let trx_sys = run(TRX_SYS_PAGE_NO, 1)?;
        // The page that locates the area may itself be torn.
        let area = DoublewriteArea::parse(&trx_sys).unwrap_or_else(|| DoublewriteArea::usual(system.logical()));
        let pages = system.extent_pages() as usize;
        let mut copies = Vec::new();
        for first in [area.block1, area.block2] {
            let bytes = run(first, pages)?;
            // A damaged page may give the highest page number as the first. There are no bytes to read there, so the numbers do not
            // overflow.
            let slots = bytes.chunks_exact(size).zip((first.0..).map(PageNo));
            let used = slots.filter(|(slot, _)| be::u64_at(slot, FIL_PAGE_LSN) != Some(0));
            copies.extend(used.map(|(slot, place)| (place, slot.to_vec())));
        }
        let area = [area.block1, area.block2].map(|first| first.0..first.0.saturating_add(system.extent_pages()));
        Ok(Self { slots: copies, area: area.to_vec() })
    }

    /// Reads the doublewrite files of a MySQL server before 8.0.30, or the area in the system tablespace if it is older than 8.0.20 and has
    /// none. Not both: after an upgrade the area keeps copies that have long been out of date.
    pub fn of_older_mysql(datadir: &Path, files: &SystemFiles, system: &SpaceFormat) -> Result<Self> {
        let has_files = !files_in(datadir, system.logical().bytes())?.is_empty();
        if has_files { Self::of_files(datadir, system) } else { Self::read(datadir, files, system) }
    }

    /// Reads the doublewrite files of MySQL 8.0.20 and later: one page per slot, and nothing else.
    pub fn of_files(datadir: &Path, system: &SpaceFormat) -> Result<Self> {
        let size = system.logical().bytes();
        let paths = files_in(datadir, size)?;
        let mut copies = Vec::new();
        for path in paths {
            let keep = |slot: &[u8], _| {
                if be::u64_at(slot, FIL_PAGE_LSN) != Some(0) {
                    copies.push((NO_PLACE, slot.to_vec()));
                }
                Ok(())
            };
            each_slot(&path, size, keep).map_err(failed(&path, "reading the doublewrite file"))?;
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

/// Zeroes copies newer than `end` in MySQL's doublewrite files: the server does not check the LSN before it replaces a page with its copy.
/// MariaDB has no doublewrite files.
pub(super) fn forget_in_files(datadir: &Path, system: &SpaceFormat, end: Lsn) -> Result<()> {
    let size = system.logical().bytes();
    for path in files_in(datadir, size)? {
        let wipe = || {
            let file = door::change(datadir, path.file_name().unwrap_or_default())?;
            each_slot(&path, size, |slot, at| {
                let is_later = be::u64_at(slot, FIL_PAGE_LSN).is_some_and(|copied| copied > end.0);
                if is_later { file.write_all_at(&vec![0; size], at) } else { Ok(()) }
            })?;
            file.sync_all()
        };
        wipe().map_err(failed(&path, "wiping out copies of later pages"))?;
    }
    Ok(())
}

/// Passes on each whole slot of a doublewrite file with its offset. Not all at once: the files have as many slots as the server was told, and
/// few of them are in use.
fn each_slot(path: &Path, size: usize, mut take: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
    let (file, mut slot) = (door::open_file(path)?, vec![0; size]);
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
fn files_in(datadir: &Path, size: usize) -> Result<Vec<PathBuf>> {
    let prefix = format!("#ib_{size}_");
    let entries = fs::read_dir(datadir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(failed(datadir, "reading the directory"))?;
    let mut paths: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
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

#[cfg(test)]
mod tests {
    use format::{Family, PageSize, Scheme};

    use super::*;

    #[test]
    fn copies_of_later_pages_are_wiped_out_and_no_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let size = PageSize::DEFAULT;
        let format = SpaceFormat::new(Family::MySql, Scheme::Classic, size, size, SpaceId::SYSTEM).expect("a format");
        let slot = |lsn: u64| {
            let mut slot = vec![7; size.bytes()];
            be::put_u64(&mut slot, FIL_PAGE_LSN, lsn).expect("fits");
            slot
        };
        let path = |name| dir.path().join(name);
        let slots = [slot(100), slot(101), slot(0), slot(5000), slot(7)].concat();
        for name in ["#ib_16384_0.dblwr", "#ib_4096_0.dblwr", "#ib_16384_0.bdblwr"] {
            fs::write(path(name), &slots).expect("written");
        }
        forget_in_files(dir.path(), &format, Lsn(100)).expect("wiped");
        let empty = vec![0; size.bytes()];
        let expected = [slot(100), empty.clone(), slot(0), empty, slot(7)].concat();
        assert!(fs::read(path("#ib_16384_0.dblwr")).expect("reads") == expected);
        // Files for other page sizes, and those for batches, whose format differs, are left alone.
        for name in ["#ib_4096_0.dblwr", "#ib_16384_0.bdblwr"] {
            assert!(fs::read(path(name)).expect("reads") == slots, "{name}");
        }
    }
}
