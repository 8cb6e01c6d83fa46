//! Pages against the end of the redo log. A server writes a page only after the log that changed it, so a page newer than the log's end
//! belongs to another server or another point in time. A server that meets such a page refuses the table.

use std::path::Path;

use format::{Lsn, PageId, PageNo};

use super::examined::LogEnd;
use super::late;
use super::settling::Settling;
use super::words::about;
use crate::report::document::Finding;
use datadir::files::File;
use datadir::finding_code::FindingCode;
use datadir::name::NameHint;
use datadir::severity::Severity;
use datadir::space::SpacePart;

impl Settling<'_> {
    /// Compares the newest page of a tablespace with the end of its datadir's log.
    pub fn newer_than_log(&mut self, file: u32) {
        let Some(done) = self.done.get(file as usize).filter(|done| done.share.any) else { return };
        let (path, newest) = (&done.candidate.path, done.tally.newest);
        let Ok(known) = &done.head else { return };
        let is_temporary = known.part.format.is_temporary() || done.candidate.hint == NameHint::Temporary;
        if done.gone || done.member.is_some() || is_temporary || newest == Lsn(0) {
            return;
        }
        let Some((dir, _)) = self.redo.checkpoint_for(path).filter(|(_, checkpoint)| newest > *checkpoint) else {
            return;
        };
        let (path, part, len) = (path.clone(), known.part.clone(), done.candidate.len);
        // A server's log is never clean, and each look at it reads it again.
        let clean_end = if self.live { None } else { self.redo.clean_end_for(&path) };
        let end = match clean_end {
            Some(lsn) => Some(LogEnd { lsn, is_whole: true }),
            None => self.end_of_log(&dir),
        };
        let Some(end) = end.filter(|end| newest > end.lsn) else { return };
        let NewerPages { first, pages, newest } = NewerPages::of(&path, &part, len, end.lsn);
        if pages == 0 {
            return;
        }
        let (severity, doubt) = match (self.live, end.is_whole) {
            (true, _) => (Severity::Undecided, ", as far as it could be read while the server writes it"),
            (false, false) => (Severity::Undecided, ", as far as it is sound"),
            (false, true) => (Severity::Damage, ""),
        };
        if let Some(done) = self.done.get_mut(file as usize) {
            done.tally.counts.ok_turned(pages, severity);
        }
        let what = if pages == 1 { "this page is".to_owned() } else { format!("{pages} pages from here on are") };
        let message = format!(
            "{what} newer than the redo log: LSN {newest}, but the log ends at LSN {}{doubt}; the file is from another server or a later time than the log, or the log was replaced: restore both from one backup",
            end.lsn
        );
        let finding = about(&path, FindingCode::NEWER_THAN_LOG, severity, message);
        let values = Finding { stored: Some(newest.0), computed: Some(end.lsn.0), ..finding };
        self.offer(file, Finding { page: Some(first), pages: 1, ..values });
    }

    /// The end of the log in `dir`: as read by this run, unless the server has gone on writing.
    fn end_of_log(&mut self, dir: &Path) -> Option<LogEnd> {
        let is_of_dir = |path: &Path| path.ancestors().skip(1).take(2).any(|above| above == dir);
        let in_run = self.done.iter().filter(|done| is_of_dir(&done.candidate.path));
        let known = in_run.filter_map(|done| done.log.as_ref()?.end).next();
        if self.live { self.ends.of(dir) } else { known.or_else(|| self.ends.of(dir)) }
    }
}

/// The pages of a file that are newer than the end of the log.
struct NewerPages {
    /// Number of the first; 0 if there is none.
    first: u32,
    pages: u64,
    /// The highest LSN; the end of the log if there is none.
    newest: Lsn,
}

impl NewerPages {
    fn of(path: &Path, part: &SpacePart, len: u64, end: Lsn) -> Self {
        let mut newer = Self { first: 0, pages: 0, newest: end };
        let Ok(file) = File::open(path) else { return newer };
        for index in 0..u32::try_from(part.pages_in(len)).unwrap_or(u32::MAX) {
            let page_no = PageNo(part.first_page.saturating_add(index));
            let id = PageId { space: part.format.space(), page_no };
            match late::lsn_at(&file, part, index) {
                Some(lsn) if lsn > end && !part.format.is_doublewrite_slot(id) => newer.add(page_no, lsn),
                _ => {}
            }
        }
        newer
    }

    fn add(&mut self, page_no: PageNo, lsn: Lsn) {
        if self.pages == 0 {
            self.first = page_no.0;
        }
        self.pages += 1;
        self.newest = self.newest.max(lsn);
    }
}
