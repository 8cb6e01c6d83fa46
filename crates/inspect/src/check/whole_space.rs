//! Findings about a whole tablespace, once all its pages were seen: lost pages, and its length.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use format::{Family, Scheme, SpaceHeader};

use super::empty::EmptyIndexes;
use super::file_state::Known;
use super::late;
use super::settling::{SettledFile, SettledSpace, Settling};
use super::usage::Usage;
use super::words::{about, append, severity_unless};
use crate::report::document::Finding;
use datadir::finding_code::FindingCode;
use datadir::inventory::Candidate;
use datadir::name::NameHint;
use datadir::redo_log::datadirs_of;
use datadir::severity::Severity;
use datadir::space::SpacePart;
use datadir::{files, system};

impl Settling<'_> {
    pub fn space(&mut self, space: &SettledSpace) {
        let usage = Arc::new(space.usage.finish());
        let Some(first) = space.files.first().and_then(|file| self.done.get(*file as usize)) else {
            return;
        };
        let Ok(known) = first.head.clone() else {
            return;
        };
        let temporary = known.part.format.is_temporary() || first.candidate.hint == NameHint::Temporary;
        if first.gone {
            return;
        }
        for file in &space.files {
            self.damage_on_free_pages(*file, &usage);
        }
        if temporary {
            return;
        }
        for (page, pages) in usage.lost.iter() {
            self.lost_pages(space, page, pages);
        }
        let is_cut = space.files.iter().filter_map(|file| self.done.get(*file as usize)).any(|done| done.is_cut);
        if known.part.first_page == 0 && !is_cut {
            self.length(space, &known, &usage);
        }
    }

    /// Damage on free pages is harmless: counted separately, not as damage.
    fn damage_on_free_pages(&mut self, file: u32, usage: &Arc<Usage>) {
        let Some(done) = self.done.get_mut(file as usize) else { return };
        let Ok(known) = &done.head else { return };
        let pages = known.part.pages_in(done.candidate.len).try_into().unwrap_or(u32::MAX);
        let first = known.part.first_page;
        let freed = u64::from(usage.freed_damage.count_within(first, first.saturating_add(pages)));
        // Overlapping files count the same page number twice.
        let freed = freed.min(done.tally.counts.corrupt);
        done.tally.counts.corrupt -= freed;
        done.tally.counts.freed_damage += freed;
        self.findings.damage_turned_notice(file, freed);
        if !usage.freed_damage.is_empty() {
            self.freed_damage.insert(file, Arc::clone(usage));
        }
    }

    /// Zero pages that the extent descriptors show in use. A run that crosses into the space's next file is reported once per file.
    fn lost_pages(&mut self, space: &SettledSpace, page: u32, pages: u32) {
        let (mut page, end) = (page, page.saturating_add(pages));
        while page < end {
            let Some(file) = self.file_with(space, page) else { return };
            let Some(done) = self.done.get(file as usize) else { return };
            let Ok(known) = &done.head else { return };
            let in_file =
                known.part.pages_in(done.candidate.len).saturating_sub(u64::from(page - known.part.first_page));
            let pages = u32::try_from(in_file).unwrap_or(u32::MAX).clamp(1, end - page);
            self.lost_in_file(file, page, pages);
            page = page.saturating_add(pages);
        }
    }

    fn lost_in_file(&mut self, file: u32, page: u32, pages: u32) {
        let Some(done) = self.done.get(file as usize) else { return };
        let path = done.candidate.path.clone();
        // Read the log's state first: if recovery was done by then, a page still zero afterwards is not in flight.
        let recovery = self.redo.pending_for(&path).map(str::to_owned);
        let mut severity = severity_unless(recovery.as_deref());
        if self.live
            && let Ok(known) = &done.head
        {
            let log = (&mut self.redo, self.ends.keys());
            match late::lost_pages(&path, &known.part, (page, pages), log, severity) {
                Some(now) => severity = now,
                None => return,
            }
        }
        if severity != Severity::Notice && self.is_gone(file) {
            return;
        }
        let Some(done) = self.done.get_mut(file as usize) else { return };
        done.tally.counts.empty_turned(u64::from(pages), severity);
        let mut message = "all zeros, but in use by the extent descriptors: the content is lost".to_owned();
        if severity == Severity::Notice {
            "all zeros, but in use: not flushed yet, not verified".clone_into(&mut message);
        } else if let Some(open) =
            (severity == Severity::Damage).then(|| self.not_yet_filled(file, page, pages)).flatten()
        {
            severity = Severity::Undecided;
            message = format!("all zeros, but in use by an index without records, perhaps for a bulk insert; {open}");
        } else {
            append(&mut message, recovery.as_deref(), "crash recovery may yet fill it");
        }
        let finding = about(&path, FindingCode::ZERO_PAGE_IN_USE, severity, message);
        self.offer(file, Finding { page: Some(page), pages: u64::from(pages), ..finding });
    }

    /// What the open transactions leave undecided, if a bulk insert may have allocated these pages.
    fn not_yet_filled(&mut self, file: u32, page: u32, pages: u32) -> Option<String> {
        let done = self.done.get(file as usize).filter(|done| done.member.is_none())?;
        let open = self.open.waiting_in(&datadirs_of(&done.candidate.path))?.to_owned();
        if self.empty.as_ref().is_none_or(|empty| empty.file != file) {
            self.empty = Some(EmptyIndexes::of(file, &done.tablespace()?.space));
        }
        let empty = self.empty.as_ref()?;
        (page..page.saturating_add(pages)).all(|page| empty.own(page)).then_some(open)
    }

    fn file_with(&self, space: &SettledSpace, page: u32) -> Option<u32> {
        let starts = |file: &u32| {
            self.done.get(*file as usize).and_then(|done| done.head.as_ref().ok()).map(|known| known.part.first_page)
        };
        space.files.iter().rev().find(|file| starts(file).is_some_and(|first| first <= page)).copied()
    }

    /// Compares the size in the space header with the files' size.
    fn length(&mut self, space: &SettledSpace, known: &Known, usage: &Usage) {
        let Some(header) = &usage.header else { return };
        let Some(last) = space.files.last().copied() else {
            return;
        };
        let files: Vec<&SettledFile> = space.files.iter().filter_map(|file| self.done.get(*file as usize)).collect();
        let is_end_here = files.last().is_some_and(|done| done.share.last);
        let candidates: Vec<&Candidate> = files.iter().map(|done| &done.candidate).collect();
        let (Some(first), Some(last_candidate)) = (candidates.first(), candidates.last()) else { return };
        let (page0, path) = (first.path.clone(), last_candidate.path.clone());
        let elsewhere = match files.as_slice() {
            [SettledFile { member: Some(member), .. }] => member.later_parts.clone(),
            [SettledFile { member: Some(_), .. }, ..] => Vec::new(),
            _ => later_parts(&path, candidates.last().map(|candidate| candidate.hint)),
        };
        let Some(known_last) = files.last().and_then(|done| done.head.as_ref().ok()).map(|known| known.part.clone())
        else {
            return;
        };
        let bytes = candidates.iter().map(|candidate| candidate.len);
        let have: u64 = bytes.chain(elsewhere).map(|len| known.part.pages_in(len)).sum();
        let (have, size) = (u32::try_from(have).unwrap_or(u32::MAX), header.size);
        if self.live && late::grown_meanwhile(&path, known, have, size) || self.is_gone(last) {
            return;
        }
        if size > have && is_end_here {
            self.truncated(last, &path, known, usage, have, size);
        }
        let limit = size.min(header.free_limit.0);
        if let Some(end) = usage.last_with_data.filter(|end| *end >= limit) {
            self.data_beyond(last, (&page0, &path), (known, &known_last), header, limit..=end);
        }
    }

    /// Pages that hold data although `header`, read from `page0`, counts fewer or says that they were never used.
    fn data_beyond(
        &mut self,
        last: u32,
        (page0, path): (&Path, &Path),
        (known, known_last): (&Known, &SpacePart),
        header: &SpaceHeader,
        pages: RangeInclusive<u32>,
    ) {
        let (size, limit, end) = (header.size, *pages.start(), *pages.end());
        let recovery = self.redo.pending_for(path);
        let mut message = if end >= size {
            format!(
                "the space header counts {size} pages, but pages up to {end} hold data: the server would not reach them"
            )
        } else {
            format!(
                "by the space header no page from {limit} on was ever used, but pages up to {end} hold data: the server would allocate them again"
            )
        };
        append(&mut message, recovery, "crash recovery may yet correct the header");
        let mut severity = severity_unless(recovery);
        if self.live {
            let is_open = severity == Severity::Undecided;
            if is_open && late::is_unwritten_header(path, known, size) {
                self.unflushed.push(path.to_owned());
                return;
            }
            if is_open && late::is_newer(path, known_last, end, &mut self.redo) {
                severity = Severity::Notice;
            } else if late::header_changed(page0, header) {
                // `is_newer` has just read the checkpoint. The server counts a page in the header before it writes to the page, so with a
                // page older than the checkpoint the header that counts it is on disk by now. It need not have been when page 0 was read.
                return;
            }
        }
        let finding = about(path, FindingCode::DATA_BEYOND_SPACE_SIZE, severity, message);
        let values = Finding { stored: Some(u64::from(limit)), computed: Some(u64::from(end) + 1), ..finding };
        self.offer(last, Finding { page: Some(limit), pages: u64::from(end - limit) + 1, ..values });
    }

    fn truncated(&mut self, file: u32, path: &Path, known: &Known, usage: &Usage, have: u32, size: u32) {
        let missing = size - have;
        let in_use = usage.in_use_among(have, size);
        let format = &known.part.format;
        // MariaDB leaves its smallest compressed tables a few free pages short and reads them without trouble.
        let spared =
            format.family() == Family::MariaDb && format.scheme() == Scheme::Zip && format.physical().get() <= 2048;
        if spared && missing <= 3 && in_use == 0 {
            return;
        }
        let recovery = self.redo.pending_for(path);
        let mut message = format!(
            "the file is too short: the space header counts {size} pages, but the file has {have}: {missing} missing, {in_use} of them in use"
        );
        append(&mut message, recovery, "crash recovery may yet extend the file");
        let severity = late::of_length(self.live, path, severity_unless(recovery));
        if self.is_gone(file) {
            return;
        }
        if let Some(done) = self.done.get_mut(file as usize) {
            done.tally.counts.missing += u64::from(missing);
        }
        let finding = about(path, FindingCode::TRUNCATED, severity, message);
        let values = Finding { stored: Some(u64::from(size)), computed: Some(u64::from(have)), ..finding };
        self.offer(file, Finding { page: Some(have), pages: u64::from(missing), ..values });
    }
}

/// Lengths of files that continue the system tablespace but are not part of this run, as when the user named only one.
fn later_parts(last: &Path, hint: Option<NameHint>) -> Vec<u64> {
    let is_system = match hint {
        Some(NameHint::System(_)) => true,
        Some(NameHint::Unknown) => system::is_first(last),
        _ => false,
    };
    let Some(dir) = last.parent().filter(|_| is_system) else { return Vec::new() };
    let files = system::files_of(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let Some(place) = system::place_of(last, &files) else { return Vec::new() };
    let later = files.iter().skip(place as usize);
    later.map_while(|path| files::metadata(path).ok()).map(|meta| meta.len()).collect()
}
