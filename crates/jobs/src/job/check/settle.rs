//! After the last page: what only the whole file can tell. Zero pages that are in use, pages that are missing, files that are no
//! tablespaces, and whether the redo log may still mend any of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::{Family, Scheme, SpaceHeader, SpaceId};

use super::desk::{FileTally, Known, Undecided};
use super::findings::Findings;
use super::stream::{Examined, Log, Member};
use super::usage::{Usage, UsageMap};
use super::words::{about, shown};
use crate::out::report::{FileReport, Finding, Report, Severity, SkippedFile, Totals, Unit};
use crate::source::datadir::{Candidate, Inventory};
use crate::source::name::NameHint;
use crate::source::redo_log::RedoLogs;
use crate::source::space::{self, Part};

/// One file with all its sums.
struct Done {
    candidate: Candidate,
    head: Result<Known, String>,
    tally: FileTally,
    /// What it is, if it is no tablespace.
    log: Option<Log>,
    /// Its bytes ended early, which a finding says already.
    is_cut: bool,
    member: Option<Member>,
    /// It is not a tablespace yet: its server is making it.
    is_new: bool,
    /// Removed, replaced or cut while its server had it open, as servers do: nothing that depends on the rest of it is known.
    gone: bool,
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
    /// A server may be writing the files.
    live: bool,
}

/// Turns what the workers handed in into the report.
pub(super) fn settle(inventory: &Inventory, rows: Vec<Examined>, findings: Findings, live: bool) -> Report {
    let done = rows.into_iter().map(|file| finished(file, live)).collect();
    let mut settling =
        Settling { inventory, done, findings, redo: RedoLogs::new(live), freed_damage: BTreeMap::new(), live };
    let vanished = inventory.vanished.iter().map(|passed| (passed, live));
    for (passed, is_expected) in inventory.failed.iter().map(|passed| (passed, false)).chain(vanished) {
        let (reason, severity, message) = if is_expected {
            ("replaced_file", Severity::Notice, "the file vanished before it was read".to_owned())
        } else {
            ("unreadable_file", Severity::Undecided, passed.why.clone())
        };
        settling.findings.offer(u32::MAX, None, reason, severity, || about(&passed.path, reason, severity, message));
    }
    for done in &settling.done {
        if let Some(member) = &done.member {
            settling.redo.say(done.candidate.path.clone(), member.pending);
        }
    }
    for file in 0..settling.done.len() as u32 {
        settling.whole_file(file);
    }
    for space in settling.spaces() {
        settling.space(&space);
    }
    settling.report()
}

fn finished(row: Examined, live: bool) -> Done {
    let Examined { state: file, log, is_cut, member, .. } = row;
    let tally = file.tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let nothing = if file.candidate.len == 0 { "the file is empty" } else { "the file is nothing but zeros" };
    let head = file.head.into_inner().unwrap_or_else(|| Err(nothing.to_owned()));
    let gone = live && member.is_none() && (tally.gone || std::fs::metadata(&file.candidate.path).is_err());
    Done { candidate: file.candidate, head, tally, log, is_cut, member, is_new: false, gone }
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
        match (&done.tally.failure, &done.head) {
            (words, _) if done.gone => {
                let words = words.clone().unwrap_or_else(|| "the file vanished while the check ran".to_owned());
                found.push(about(&path, "replaced_file", Severity::Notice, words));
            }
            (Some(_), _) if done.is_cut => {}
            (Some(words), _) => found.push(about(&path, "unreadable_file", Severity::Undecided, words.clone())),
            (None, Err(_)) if done.log.is_some() => {}
            (None, Err(words)) => {
                let mut finding = not_a_tablespace(&done.candidate, words, &mut self.redo, self.live);
                if self.live && space::part_now(&path).is_some() {
                    finding = about(&path, "replaced_file", Severity::Notice, "the file was made meanwhile".to_owned());
                }
                done.is_new = finding.severity == Severity::Notice;
                found.push(finding);
            }
            (None, Ok(_)) => {}
        }
        if let Ok(known) = &done.head {
            let size = u64::from(known.part.format.physical().get());
            let tail = done.candidate.len % size;
            if tail > 0 && !done.is_cut {
                let whole = done.candidate.len / size;
                let message = format!(
                    "{tail} bytes follow the last whole page ({whole} pages of {size} bytes): the server ignores them"
                );
                let finding = about(&path, "partial_page", Severity::Notice, message);
                found.push(Finding { page: u32::try_from(whole).ok(), pages: 1, ..finding });
            }
            if let Some(words) = &known.key_error {
                found.push(about(&path, "wrong_key", Severity::Undecided, words.to_string()));
            }
        }
        if done.tally.first_page_zero {
            let finding = first_page_lost(&path, &mut self.redo, self.live);
            if !self.live || space::part_now(&path).is_none() {
                done.tally.counts.empty_turned(1, finding.severity);
                found.push(finding);
            }
        }
        for (reason, undecided) in &done.tally.undecided {
            found.push(undecided_pages(&path, reason, undecided));
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

    /// Damage on pages that are free harms nobody: it is told apart, and not counted as damage.
    fn damage_on_free_pages(&mut self, file: u32, usage: &Arc<Usage>) {
        let Some(done) = self.done.get_mut(file as usize) else { return };
        let Ok(known) = &done.head else { return };
        let pages = known.part.pages_in(done.candidate.len).try_into().unwrap_or(u32::MAX);
        let first = known.part.first_page;
        let freed = u64::from(usage.freed_damage.count_within(first, first.saturating_add(pages)));
        done.tally.counts.corrupt -= freed;
        done.tally.counts.freed_damage += freed;
        self.findings.damage_turned_notice(file, freed);
        self.freed_damage.insert(file, Arc::clone(usage));
    }

    /// Pages that are zero though the extent descriptors say that they are in use.
    fn lost_pages(&mut self, space: &Space, page: u32, pages: u32) {
        let Some(file) = self.file_with(space, page) else { return };
        let Some(done) = self.done.get_mut(file as usize) else { return };
        let path = done.candidate.path.clone();
        // The log first: pages that are still zero after it was clean are not on their way.
        let recovery = self.redo.pending_for(&path);
        if self.live && done.head.as_ref().is_ok_and(|known| written_meanwhile(&path, &known.part, page, pages)) {
            return;
        }
        let severity = severity_unless(recovery, self.live);
        done.tally.counts.empty_turned(u64::from(pages), severity);
        let mut message = "all zeros, but in use by the extent descriptors: the content is lost".to_owned();
        append(&mut message, recovery, "crash recovery may yet fill it");
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
        let files: Vec<&Done> = space.files.iter().filter_map(|file| self.done.get(*file as usize)).collect();
        let candidates: Vec<&Candidate> = files.iter().map(|done| &done.candidate).collect();
        let Some(path) = candidates.last().map(|candidate| candidate.path.clone()) else {
            return;
        };
        let elsewhere = match files.as_slice() {
            [Done { member: Some(member), .. }] => member.later_parts.clone(),
            [Done { member: Some(_), .. }, ..] => Vec::new(),
            _ => later_parts(&path, candidates.last().map(|candidate| candidate.hint)),
        };
        let bytes = candidates.iter().map(|candidate| candidate.len);
        let have: u64 = bytes.chain(elsewhere).map(|len| known.part.pages_in(len)).sum();
        let (have, size) = (u32::try_from(have).unwrap_or(u32::MAX), header.size);
        if self.live && grown_meanwhile(&path, known, have, size) {
            return;
        }
        if size > have {
            self.truncated(last, &path, known, usage, have, size);
        }
        if let Some(end) = usage.last_with_data.filter(|end| *end >= size) {
            let recovery = self.redo.pending_for(&path);
            let mut message = format!(
                "the space header counts {size} pages, but pages up to {end} hold data: the server would not reach them"
            );
            append(&mut message, recovery, "crash recovery may yet correct the header");
            let severity = severity_unless(recovery, self.live);
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
        let finding = about(path, "truncated", severity_unless(recovery, self.live), message);
        let values = Finding { stored: Some(u64::from(size)), computed: Some(u64::from(have)), ..finding };
        self.offer(file, Finding { page: Some(have), pages: u64::from(missing), ..values });
    }

    fn report(self) -> Report {
        let vanished = if self.live { 0 } else { self.inventory.vanished.len() };
        let failed = self.inventory.failed.len() + vanished;
        let Self { inventory, done, findings, freed_damage, .. } = self;
        let (total, damage, undecided) = (findings.total, findings.damage, findings.undecided);
        let mut totals = Totals { findings: total, damage, undecided, ..Totals::default() };
        let files: Vec<FileReport> = done.into_iter().map(file_report).collect();
        for file in &files {
            totals.add(file);
        }
        totals.failed_files += failed as u64;
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
    finding.message.push_str(" (the page is free by the extent descriptors: no query reads it)");
    finding.severity = Severity::Notice;
    finding
}

/// What the redo log may yet mend is not damage; where a server is at work it is the order of the day.
fn severity_unless(recovery: Option<&str>, live: bool) -> Severity {
    match recovery {
        None => Severity::Damage,
        Some(_) if live => Severity::Notice,
        Some(_) => Severity::Undecided,
    }
}

/// Whether the file or its header is no longer what it was when it was read: then they were read at different times.
fn grown_meanwhile(path: &Path, known: &Known, have: u32, size: u32) -> bool {
    let len = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let header = space::part_now(path).and_then(|part| part.header).map(|header: SpaceHeader| header.size);
    known.part.pages_in(len) != u64::from(have) || header != Some(size)
}

/// Whether the pages, zero when they were read, hold something by now.
fn written_meanwhile(path: &Path, part: &Part, page: u32, pages: u32) -> bool {
    let size = part.format.physical().bytes();
    let mut bytes = vec![0; size];
    let offset = u64::from(page - part.first_page) * size as u64;
    let end = u64::from(page - part.first_page + pages) * size as u64;
    let Ok(file) = File::open(path) else { return true };
    (offset..end)
        .step_by(size)
        .all(|at| file.read_exact_at(&mut bytes, at).is_err() || bytes.iter().any(|byte| *byte != 0))
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
fn not_a_tablespace(candidate: &Candidate, words: &str, redo: &mut RedoLogs, live: bool) -> Finding {
    let path = candidate.path.as_path();
    if !candidate.hint.promises_pages() {
        return about(path, "not_a_tablespace", Severity::Undecided, words.to_owned());
    }
    if candidate.hint == NameHint::Temporary {
        let message = format!("{words}; that harms nobody: the server makes this file anew whenever it starts");
        return about(path, "temporary_tablespace", Severity::Notice, message);
    }
    let recovery = redo.pending_for(path);
    let mut message = words.to_owned();
    append(&mut message, recovery, "crash recovery may yet create the tablespace");
    let reason = if candidate.len == 0 { "empty_file" } else { "not_a_tablespace" };
    about(path, reason, severity_unless(recovery, live), message)
}

fn first_page_lost(path: &Path, redo: &mut RedoLogs, live: bool) -> Finding {
    let recovery = redo.pending_for(path);
    let mut message =
        "the page is all zeros: the space header is lost, and with it what says which pages are in use".to_owned();
    append(&mut message, recovery, "crash recovery may yet write it");
    let finding = about(path, "zero_page_in_use", severity_unless(recovery, live), message);
    Finding { page: Some(0), pages: 1, ..finding }
}

fn undecided_pages(path: &Path, reason: &'static str, undecided: &Undecided) -> Finding {
    let noun = if undecided.pages == 1 { "page" } else { "pages" };
    let message = format!("{} {noun} not verifiable: {}", undecided.pages, undecided.why);
    Finding { pages: undecided.pages, ..about(path, reason, undecided.severity, message) }
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
    let error = match &done.log {
        Some(_) => done.tally.failure.clone(),
        None => done.tally.failure.clone().or_else(|| done.head.as_ref().err().cloned()),
    };
    let log = done.log.as_ref();
    FileReport {
        path: shown(&done.candidate.path),
        archive: done.member.map(|member| member.archive),
        unit: log.map_or(Unit::Pages, |log| log.unit),
        kind: log.map_or(kind, |log| log.kind),
        family: log.map_or_else(|| format.map(|format| family_name(format.family())), |log| log.family),
        space_id: format.map(|format| format.space().0),
        page_size: format.map(|format| format.physical().get()),
        algorithm: log.map_or_else(|| done.tally.algorithms.name(), |log| log.algorithm.map(str::to_owned)),
        error: error.filter(|_| !done.gone && !done.is_new),
        counts: done.tally.counts,
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::MySql => "MySQL",
        Family::MariaDb => "MariaDB",
    }
}
