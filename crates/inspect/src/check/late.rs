//! Beside a running server, what looks lost may merely be late. Only a page changed after the newest checkpoint may still be missing on
//! disk. Where no LSN can tell, a file that is not being written is as damaged as it looks.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use format::bytes::be;
use format::fil::FIL_PAGE_LSN;
use format::keyring::KeyStore;
use format::{ExtentMap, Lsn, PageNo, SpaceHeader, Verdict, verify_page};

use super::fate;
use super::file_state::Known;
use super::settling::Settling;
use super::words::about;
use crate::report::document::Finding;
use datadir::catalog::changes_page;
use datadir::files::{self, File};
use datadir::finding_code::FindingCode;
use datadir::reading::is_unwritten;
use datadir::redo_log::RedoLogs;
use datadir::severity::Severity;
use datadir::space::{self, SpacePart};

/// Reread lost pages this often before calling them undecided.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);
/// Pages sampled to tell a file's age.
const PAGES_ASKED: u32 = 256;

/// Judges a file that is not a tablespace but may be about to become one, since the log has work to do.
pub(super) fn not_yet_made(path: &Path, finding: Finding) -> Finding {
    let made = || about(path, "replaced_file", Severity::Notice, "the file was created meanwhile".to_owned());
    if space::part_now(path).is_some() {
        return made();
    }
    if finding.severity != Severity::Undecided {
        return finding;
    }
    if is_unwritten(path) && files::metadata(path).is_ok_and(|file| file.len() > 0) {
        return about(path, FindingCode::NOT_FLUSHED_YET, Severity::Notice, "not flushed yet, not verified".to_owned());
    }
    let is_still = fate::holds_still(path);
    match space::part_now(path) {
        Some(_) => made(),
        None if fate::is_gone(path, None, None) => {
            about(path, "replaced_file", Severity::Notice, "the file vanished while the check ran".to_owned())
        }
        None if is_still => still(finding),
        None => finding,
    }
}

/// Judges an all-zero page 0. In a new tablespace the server changes page 0 first, so as long as that is late, all other pages are too.
pub(super) fn first_page(
    live: bool,
    path: &Path,
    redo: &mut RedoLogs,
    head: &Result<Known, String>,
    finding: Finding,
) -> Option<Finding> {
    if !live {
        return Some(finding);
    }
    if space::part_now(path).is_some() {
        return None;
    }
    let oldest = head.as_ref().ok().and_then(|known| oldest_lsn(path, &known.part));
    if finding.severity != Severity::Undecided {
        return Some(finding);
    }
    if oldest > redo.checkpoint_for(path).map(|(_, checkpoint)| checkpoint) {
        let message = "the page is all zeros: not flushed yet, not verified".to_owned();
        return Some(Finding { severity: Severity::Notice, message, ..finding });
    }
    let is_still = fate::holds_still(path);
    (space::part_now(path).is_none()).then(|| if is_still { still(finding) } else { finding })
}

/// The severity of zero pages that are in use; `None` if they hold data or are free by now.
pub(super) fn lost_pages(
    path: &Path,
    part: &SpacePart,
    (page, pages): (u32, u32),
    (redo, keys): (&mut RedoLogs, &KeyStore),
    severity: Severity,
) -> Option<Severity> {
    let descriptors = page - page % part.format.physical().get();
    for tries in 0..TRIES {
        if settled_meanwhile(path, part, descriptors, (page, pages)) {
            return None;
        }
        if severity != Severity::Undecided {
            return Some(severity);
        }
        // The extent descriptors were changed after the checkpoint, so the page was allocated after it and may not be flushed.
        if descriptors >= part.first_page && is_newer(path, part, descriptors, redo) {
            return Some(Severity::Notice);
        }
        if tries + 1 < TRIES {
            std::thread::sleep(PAUSE);
        }
    }
    // A page freed before it was ever flushed is never written. The descriptor that frees it may itself be changed but not yet flushed.
    let id = part.at(PageNo(descriptors)).id;
    let dir = redo.checkpoint_for(path).map(|(dir, _)| dir);
    if dir.is_some_and(|dir| changes_page(&dir, keys, id)) {
        return Some(Severity::Notice);
    }
    // The log does not change these descriptors, so those on disk are current and decide.
    (!settled_meanwhile(path, part, descriptors, (page, pages))).then_some(severity)
}

/// A server extends the file before it counts the new pages, so a count ahead of an idle file is not in flight: it is damage.
pub(super) fn of_length(live: bool, path: &Path, severity: Severity) -> Severity {
    let is_still = live && severity == Severity::Undecided && fate::holds_still(path);
    if is_still { Severity::Damage } else { severity }
}

/// Whether page `page` was changed after the newest checkpoint.
pub(super) fn is_newer(path: &Path, part: &SpacePart, page: u32, redo: &mut RedoLogs) -> bool {
    let Some(lsn) = page.checked_sub(part.first_page).and_then(|index| lsn_at(&File::open(path).ok()?, part, index))
    else {
        return false;
    };
    redo.checkpoint_for(path).is_some_and(|(_, checkpoint)| lsn > checkpoint)
}

/// Whether page 0 is still the one that the file was created with. The server writes that one without an LSN and with no pages counted; the
/// real header is flushed later, with the other pages.
pub(super) fn is_unwritten_header(path: &Path, known: &Known, size: u32) -> bool {
    let lsn = || lsn_at(&File::open(path).ok()?, &known.part, 0);
    size == 0 && known.part.first_page == 0 && lsn() == Some(Lsn(0))
}

/// Whether the file or its header has changed since it was read: then the two were read at different times.
pub(super) fn grown_meanwhile(path: &Path, known: &Known, have: u32, size: u32) -> bool {
    let len = files::metadata(path).map(|meta| known.part.pages_in(meta.len()));
    let header = space::part_now(path).and_then(|part| part.header).map(|header: SpaceHeader| header.size);
    len.is_ok_and(|pages| pages != u64::from(have)) || header.is_some_and(|now| now != size)
}

/// Whether page 0 has another size or free limit by now than `before`. A page 0 that cannot be read is being written.
pub(super) fn header_changed(path: &Path, before: &SpaceHeader) -> bool {
    for tries in 0..TRIES {
        if tries > 0 {
            std::thread::sleep(PAUSE);
        }
        if let Some(now) = space::part_now(path).and_then(|part| part.header) {
            return (now.size, now.free_limit) != (before.size, before.free_limit);
        }
    }
    false
}

/// Whether each of these pages, zero when read, now holds data or is free. A server may punch a hole when it frees a page, while
/// descriptors read before that still show it in use.
fn settled_meanwhile(path: &Path, part: &SpacePart, descriptors: u32, (page, pages): (u32, u32)) -> bool {
    let Ok(file) = File::open(path) else { return fate::is_gone(path, None, None) };
    let extents = extents_now(&file, part, descriptors);
    let is_free = |page| extents.as_ref().and_then(|extents| extents.is_free(PageNo(page))) == Some(true);
    let mut bytes = vec![0; part.format.physical().bytes()];
    (page..page + pages).all(|page| match file.read_exact_at(&mut bytes, part.offset_of(page)) {
        Ok(()) => bytes.iter().any(|byte| *byte != 0) || is_free(page),
        Err(_) => fate::is_shrunk(path),
    })
}

/// The extent descriptors now on disk; `None` unless they are readable and sound.
fn extents_now(file: &File, part: &SpacePart, page: u32) -> Option<ExtentMap> {
    let mut bytes = vec![0; part.format.physical().bytes()];
    page.checked_sub(part.first_page)?;
    file.read_exact_at(&mut bytes, part.offset_of(page)).ok()?;
    let id = part.at(PageNo(page)).id;
    let is_sound = matches!(verify_page(&bytes, id, &part.format), Verdict::Ok(_));
    is_sound.then(|| ExtentMap::parse(&bytes, id.page_no, &part.format).ok())?
}

fn still(finding: Finding) -> Finding {
    let message = format!("{}; but the server does not write the file", finding.message);
    Finding { severity: Severity::Damage, message, ..finding }
}

/// The lowest LSN among the first pages that were written.
fn oldest_lsn(path: &Path, part: &SpacePart) -> Option<Lsn> {
    let file = File::open(path).ok()?;
    (0..PAGES_ASKED).filter_map(|index| lsn_at(&file, part, index)).filter(|lsn| lsn.0 > 0).min()
}

/// The LSN of the page at `index` in the file.
pub(super) fn lsn_at(file: &File, part: &SpacePart, index: u32) -> Option<Lsn> {
    let mut header = [0; FIL_PAGE_LSN + 8];
    let offset = part.format.physical().offset_of(index);
    file.read_exact_at(&mut header, offset).ok()?;
    be::u64_at(&header, FIL_PAGE_LSN).map(Lsn)
}

impl Settling<'_> {
    /// One notice for all files that the server has created but only holds in memory.
    pub fn unflushed(&mut self) {
        let Some(first) = self.unflushed.first() else { return };
        let files = self.unflushed.len();
        let message = match files {
            1 => "1 file not flushed yet, not verified: the server has its pages in memory".to_owned(),
            _ => format!("{files} files not flushed yet, not verified: the server has their pages in memory"),
        };
        let finding = about(first, FindingCode::NOT_FLUSHED_YET, Severity::Notice, message);
        self.offer(u32::MAX, finding);
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]
mod tests {
    use std::io::Write;

    use super::*;

    const PAGE_SIZE: usize = 16 << 10;

    /// Whether the zero page `page` is settled by the current content of `table`.
    fn is_settled(part: &SpacePart, table: &[u8], page: u32) -> bool {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(table).expect("written");
        settled_meanwhile(file.path(), part, 0, (page, 1))
    }

    #[test]
    fn a_zero_page_is_settled_once_it_is_free_or_written_and_not_before() {
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mysql-9.7/dynamic-16k.ibd.zst");
        let mut table = zstd::decode_all(File::open(packed).expect("the fixture")).expect("unpacked");
        let part = space::by_page0(&table, None).expect("a tablespace");
        let is_zero = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        let free = table.chunks(PAGE_SIZE).position(is_zero).expect("a page that was never used");
        let free = u32::try_from(free).expect("a small table");
        assert!(is_settled(&part, &table, free), "free");
        assert!(is_settled(&part, &table, 10), "it holds rows");
        table[10 * PAGE_SIZE..11 * PAGE_SIZE].fill(0);
        assert!(!is_settled(&part, &table, 10), "zero, and in use");
        // Unsound descriptors free no page.
        table[PAGE_SIZE - 100] ^= 1;
        assert!(!is_settled(&part, &table, free), "nobody knows");
    }

    #[test]
    fn a_header_has_changed_once_page_0_says_so_and_not_before() {
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mysql-9.7/dynamic-16k.ibd.zst");
        let table = zstd::decode_all(File::open(packed).expect("the fixture")).expect("unpacked");
        let header = space::by_page0(&table, None).and_then(|part| part.header).expect("a header");
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&table).expect("written");
        assert!(!header_changed(file.path(), &header), "as it was read");
        let earlier = SpaceHeader { free_limit: PageNo(header.free_limit.0 - 64), ..header };
        assert!(header_changed(file.path(), &earlier), "another free limit");
        assert!(header_changed(file.path(), &SpaceHeader { size: header.size - 1, ..header }), "another size");
        file.as_file().write_all_at(&[table[100] ^ 1], 100).expect("written");
        assert!(!header_changed(file.path(), &earlier), "an unsound page 0 tells nothing");
    }
}
