//! After the last page: what only the whole file can tell. Zero pages that are in use, pages that are missing, files that are no
//! tablespaces, and whether the redo log may still mend any of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::{Family, Scheme, SpaceId, Why};

use super::desk::{FileState, FileTally, Known};
use super::findings::Findings;
use super::usage::{Usage, UsageMap};
use super::words::{about, shown};
use crate::out::report::{FileReport, Finding, Report, Severity, SkippedFile, Totals};
use crate::source::datadir::{Candidate, Inventory};
use crate::source::name::NameHint;
use crate::source::redo_log::RedoLogs;

/// One file with all its sums.
struct Done {
    candidate: Candidate,
    head: Result<Known, String>,
    tally: FileTally,
}

/// A tablespace: its files in order, by their numbers in the run.
struct Space {
    files: Vec<u32>,
    usage: Arc<UsageMap>,
}

struct Settling<'i> {
    inventory: &'i Inventory,
    done: Vec<Done>,
    findings: Findings,
    redo: RedoLogs,
    freed_damage: BTreeMap<u32, Arc<Usage>>,
}

/// Turns what the workers handed in into the report.
pub(super) fn settle(inventory: &Inventory, files: Vec<FileState>, findings: Findings) -> Report {
    let done = files.into_iter().map(finished).collect();
    let mut settling = Settling { inventory, done, findings, redo: RedoLogs::default(), freed_damage: BTreeMap::new() };
    for passed in &inventory.failed {
        let message = passed.why.clone();
        settling.findings.offer(u32::MAX, None, "unreadable_file", Severity::Undecided, || {
            about(&passed.path, "unreadable_file", Severity::Undecided, message)
        });
    }
    for file in 0..settling.done.len() as u32 {
        settling.whole_file(file);
    }
    for space in settling.spaces() {
        settling.space(&space);
    }
    settling.report()
}

fn finished(file: FileState) -> Done {
    let tally = file.tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let head = file.head.into_inner().unwrap_or_else(|| Err("the file is empty".to_owned()));
    Done { candidate: file.candidate, head, tally }
}

impl Settling<'_> {
    fn offer(&mut self, file: u32, finding: Finding) {
        self.findings.offer(file, finding.page, finding.reason, finding.severity, || finding);
    }

    /// What can be said of a file without its neighbours.
    fn whole_file(&mut self, file: u32) {
        let Some(done) = self.done.get_mut(file as usize) else { return };
        let path = done.candidate.path.clone();
        let mut found = Vec::new();
        if let Some(words) = &done.tally.failure {
            found.push(about(&path, "unreadable_file", Severity::Undecided, words.clone()));
        } else if let Err(words) = &done.head {
            found.push(not_a_tablespace(&done.candidate, words, &mut self.redo));
        }
        if let Ok(known) = &done.head {
            let size = u64::from(known.part.format.physical().get());
            let tail = done.candidate.len % size;
            if tail > 0 {
                let whole = done.candidate.len / size;
                let message = format!(
                    "{tail} bytes follow the last whole page ({whole} pages of {size} bytes): the server ignores them"
                );
                let finding = about(&path, "partial_page", Severity::Notice, message);
                found.push(Finding { page: u32::try_from(whole).ok(), pages: 1, ..finding });
            }
        }
        if done.tally.first_page_zero {
            let finding = first_page_lost(&path, &mut self.redo);
            done.tally.counts.empty_turned(1, finding.severity);
            found.push(finding);
        }
        for (pages, why) in done.tally.undecided.values() {
            found.push(Finding { pages: *pages, ..undecided_pages(&path, *pages, *why) });
        }
        for finding in found {
            self.offer(file, finding);
        }
    }

    /// Files grouped by the tablespace that they belong to.
    fn spaces(&self) -> Vec<Space> {
        let mut spaces: Vec<Space> = Vec::new();
        for (file, done) in self.done.iter().enumerate() {
            let Ok(known) = &done.head else { continue };
            match spaces.last_mut() {
                Some(space) if Arc::ptr_eq(&space.usage, &known.usage) => space.files.push(file as u32),
                _ => spaces.push(Space { files: vec![file as u32], usage: Arc::clone(&known.usage) }),
            }
        }
        spaces
    }

    fn space(&mut self, space: &Space) {
        let usage = Arc::new(space.usage.finish());
        let Some(first) = space.files.first().and_then(|file| self.done.get(*file as usize)) else {
            return;
        };
        let Ok(known) = first.head.clone() else {
            return;
        };
        for file in &space.files {
            self.freed_damage.insert(*file, Arc::clone(&usage));
        }
        let temporary = known.part.format.is_temporary() || first.candidate.hint == NameHint::Temporary;
        if temporary {
            return;
        }
        for (page, pages) in usage.lost.iter() {
            self.lost_pages(space, page, pages);
        }
        if known.part.first_page == 0 {
            self.length(space, &known, &usage);
        }
    }

    /// Pages that are zero though the extent descriptors say that they are in use.
    fn lost_pages(&mut self, space: &Space, page: u32, pages: u32) {
        let Some(file) = self.file_with(space, page) else {
            return;
        };
        let Some(done) = self.done.get_mut(file as usize) else {
            return;
        };
        let recovery = self.redo.pending_for(&done.candidate.path);
        let severity = severity_unless(recovery);
        done.tally.counts.empty_turned(u64::from(pages), severity);
        let mut message = "all zeros, but in use by the extent descriptors: the content is lost".to_owned();
        append(&mut message, recovery, "crash recovery may yet fill it");
        let path = done.candidate.path.clone();
        let finding = about(&path, "zero_page_in_use", severity, message);
        self.offer(file, Finding { page: Some(page), pages: u64::from(pages), ..finding });
    }

    fn file_with(&self, space: &Space, page: u32) -> Option<u32> {
        let starts = |file: &u32| {
            self.done.get(*file as usize).and_then(|done| done.head.as_ref().ok()).map(|known| known.part.first_page)
        };
        space.files.iter().rev().find(|file| starts(file).is_some_and(|first| first <= page)).copied()
    }

    /// The space header's size against the files' size.
    fn length(&mut self, space: &Space, known: &Known, usage: &Usage) {
        let Some(header) = &usage.header else { return };
        let Some(last) = space.files.last().copied() else {
            return;
        };
        let candidates: Vec<&Candidate> =
            space.files.iter().filter_map(|file| self.done.get(*file as usize)).map(|done| &done.candidate).collect();
        let Some(path) = candidates.last().map(|candidate| candidate.path.clone()) else {
            return;
        };
        let elsewhere = later_parts(&path, candidates.last().map(|candidate| candidate.hint));
        let bytes = candidates.iter().map(|candidate| candidate.len);
        let have: u64 = bytes.chain(elsewhere).map(|len| known.part.pages_in(len)).sum();
        let (have, size) = (u32::try_from(have).unwrap_or(u32::MAX), header.size);
        if size > have {
            self.truncated(last, &path, known, usage, have, size);
        }
        if let Some(end) = usage.last_with_data.filter(|end| *end >= size) {
            let recovery = self.redo.pending_for(&path);
            let mut message = format!(
                "the space header counts {size} pages, but pages up to {end} hold data: the server would not reach them"
            );
            append(&mut message, recovery, "crash recovery may yet correct the header");
            let severity = severity_unless(recovery);
            let finding = about(&path, "data_beyond_space_size", severity, message);
            let values = Finding { stored: Some(u64::from(size)), computed: Some(u64::from(end) + 1), ..finding };
            self.offer(last, Finding { page: Some(size), pages: u64::from(end - size) + 1, ..values });
        }
    }

    fn truncated(&mut self, file: u32, path: &Path, known: &Known, usage: &Usage, have: u32, size: u32) {
        let missing = size - have;
        let in_use = usage.in_use_among(have, size);
        let format = &known.part.format;
        // MariaDB leaves its smallest compressed tables short of a few free pages, and reads them well.
        let spared =
            format.family() == Family::MariaDb && format.scheme() == Scheme::Zip && format.physical().get() <= 2048;
        if spared && missing <= 3 && in_use == 0 {
            return;
        }
        let recovery = self.redo.pending_for(path);
        let mut message = format!(
            "the file is too short: the space header counts {size} pages, the file has {have}: {missing} missing, {in_use} of them in use"
        );
        append(&mut message, recovery, "crash recovery may yet extend the file");
        if let Some(done) = self.done.get_mut(file as usize) {
            done.tally.counts.missing += u64::from(missing);
        }
        let finding = about(path, "truncated", severity_unless(recovery), message);
        let values = Finding { stored: Some(u64::from(size)), computed: Some(u64::from(have)), ..finding };
        self.offer(file, Finding { page: Some(have), pages: u64::from(missing), ..values });
    }

    fn report(self) -> Report {
        let Self { inventory, done, findings, freed_damage, .. } = self;
        let (total, damage, undecided) = (findings.total, findings.damage, findings.undecided);
        let mut totals = Totals { findings: total, damage, undecided, ..Totals::default() };
        let files: Vec<FileReport> = done.into_iter().map(file_report).collect();
        for file in &files {
            totals.files += 1;
            totals.counts.add(&file.counts);
            totals.failed_files += u64::from(file.error.is_some());
        }
        totals.failed_files += inventory.failed.len() as u64;
        totals.skipped_files = inventory.skipped.len() as u64;
        let findings = findings.into_sorted().into_iter().map(|(file, finding)| {
            let usage = freed_damage.get(&file);
            let freed = finding.page.is_some_and(|page| usage.is_some_and(|usage| usage.freed_damage.contains(page)));
            if freed { with_freed(finding) } else { finding }
        });
        let skipped = inventory.skipped.iter();
        Report {
            totals,
            files,
            findings: findings.collect(),
            skipped: skipped.map(|file| SkippedFile { path: shown(&file.path), why: file.why.clone() }).collect(),
            effort: crate::out::report::Effort::default(),
        }
    }
}

fn with_freed(mut finding: Finding) -> Finding {
    finding.message.push_str(" (the extent descriptors call the page free: no query reads it)");
    finding
}

fn severity_unless(recovery: Option<&str>) -> Severity {
    recovery.map_or(Severity::Damage, |_| Severity::Undecided)
}

fn append(message: &mut String, recovery: Option<&str>, hope: &str) {
    if let Some(log) = recovery {
        message.push_str("; ");
        message.push_str(log);
        message.push_str(", ");
        message.push_str(hope);
    }
}

/// A name that promises pages over content that has none is damage; any other file was just a wrong argument.
fn not_a_tablespace(candidate: &Candidate, words: &str, redo: &mut RedoLogs) -> Finding {
    let path = candidate.path.as_path();
    if !candidate.hint.promises_pages() {
        return about(path, "not_a_tablespace", Severity::Undecided, words.to_owned());
    }
    let recovery = redo.pending_for(path);
    let mut message = words.to_owned();
    append(&mut message, recovery, "crash recovery may yet create the tablespace");
    let reason = if candidate.len == 0 { "empty_file" } else { "not_a_tablespace" };
    about(path, reason, severity_unless(recovery), message)
}

fn first_page_lost(path: &Path, redo: &mut RedoLogs) -> Finding {
    let recovery = redo.pending_for(path);
    let mut message =
        "the page is all zeros: the space header is lost, and with it what says which pages are in use".to_owned();
    append(&mut message, recovery, "crash recovery may yet write it");
    let finding = about(path, "zero_page_in_use", severity_unless(recovery), message);
    Finding { page: Some(0), pages: 1, ..finding }
}

fn undecided_pages(path: &Path, pages: u64, why: Why) -> Finding {
    let noun = if pages == 1 { "page" } else { "pages" };
    let severity = match why {
        // Nothing to verify there, by the servers' design.
        Why::NoChecksum | Why::DoublewriteSlot => Severity::Notice,
        Why::EncryptedNoKey | Why::PageCompressed | Why::OldBigEndianChecksum => Severity::Undecided,
    };
    about(path, why.name(), severity, format!("{pages} {noun} not verifiable: {why}"))
}

/// Lengths of `ibdata` files that continue the system tablespace but are not part of this run, as when the user named one file.
fn later_parts(last: &Path, hint: Option<NameHint>) -> Vec<u64> {
    let Some(NameHint::System(number)) = hint else {
        return Vec::new();
    };
    let part = |number: u32| -> PathBuf { last.with_file_name(format!("ibdata{number}")) };
    (number.saturating_add(1)..)
        .map_while(|number| std::fs::metadata(part(number)).ok())
        .map(|meta| meta.len())
        .collect()
}

fn file_report(done: Done) -> FileReport {
    let known = done.head.as_ref().ok();
    let format = known.map(|known| &known.part.format);
    let kind = match (&done.head, done.candidate.hint) {
        (Err(_), hint) if hint.promises_pages() => "unrecognised",
        (Err(_), _) => "other",
        (Ok(known), NameHint::Table | NameHint::Unknown) if known.part.format.space() == SpaceId::SYSTEM => {
            "system tablespace"
        }
        (Ok(_), hint) => hint.tablespace_kind(),
    };
    FileReport {
        path: shown(&done.candidate.path),
        kind,
        family: format.map(|format| family_name(format.family())),
        space_id: format.map(|format| format.space().0),
        page_size: format.map(|format| format.physical().get()),
        algorithm: done.tally.algorithms.name(),
        error: done.tally.failure.clone().or_else(|| done.head.as_ref().err().cloned()),
        counts: done.tally.counts,
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::MySql => "MySQL",
        Family::MariaDb => "MariaDB",
    }
}
