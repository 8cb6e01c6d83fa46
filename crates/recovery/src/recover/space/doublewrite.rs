//! The doublewrite area as recovery reads and clears it.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use format::bytes::be;
use format::fil::FIL_PAGE_LSN;
use format::{Lsn, SpaceFormat};

use super::system::SystemFiles;
use crate::door;
use crate::recover::error::{Result, failed};
use datadir::doublewrite::{self, Copies, each_slot};

/// Reads the doublewrite area of the system tablespace from these files.
pub(in crate::recover) fn copies_in_area(datadir: &Path, files: &SystemFiles, system: &SpaceFormat) -> Result<Copies> {
    let size = system.physical();
    Copies::in_area(system, |first, pages| files.read(datadir, size.offset_of(first.0), pages * size.bytes()))
}

/// Reads the doublewrite files of a MySQL server before 8.0.30, or the area in the system tablespace if it is older than 8.0.20 and has
/// none. Not both: after an upgrade the area keeps copies that have long been out of date.
pub(in crate::recover) fn copies_of_older_mysql(
    datadir: &Path,
    files: &SystemFiles,
    system: &SpaceFormat,
) -> Result<Copies> {
    let has_files = !files_in(datadir, system.logical().bytes())?.is_empty();
    if has_files { copies_in_files(datadir, system) } else { copies_in_area(datadir, files, system) }
}

/// Reads the doublewrite files of MySQL 8.0.20 and later.
pub(in crate::recover) fn copies_in_files(datadir: &Path, system: &SpaceFormat) -> Result<Copies> {
    let paths = files_in(datadir, system.logical().bytes())?;
    Copies::in_files(&paths, system).map_err(|(path, error)| failed(&path, "reading the doublewrite file")(error))
}

/// Zeroes copies newer than `end` in MySQL's doublewrite files: the server does not check the LSN before it replaces a page with its copy.
/// MariaDB has no doublewrite files.
pub(in crate::recover) fn forget_in_files(datadir: &Path, system: &SpaceFormat, end: Lsn) -> Result<()> {
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

fn files_in(datadir: &Path, size: usize) -> Result<Vec<PathBuf>> {
    doublewrite::files_in(datadir, size).map_err(failed(datadir, "reading the directory"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use format::{Family, PageSize, Scheme, SpaceId};

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
