//! After the last page: what only the whole file can tell. Zero pages in use, missing pages, files that are not tablespaces, and whether
//! the redo log may still repair any of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use flow::FileId;
use format::keyring::KeyStore;
use format::{Family, SpaceId};

use super::examined::Examined;
use super::findings::Findings;
use super::log_ends::LogEnds;
use super::settling::{SettledFile, SettledSpace, Settling};
use super::words::{
    about, first_page_lost, first_pages_missing, header_fault, not_a_tablespace, nothing_verified, of_orphan,
    overlapping, shown, undecided_pages, with_dropped, with_freed,
};
use super::{fate, late};
use crate::report::document::{FileReport, Finding, Report, SkippedFile, Totals, Unit};
use crate::report::hurt::Hurt;
use crate::verdict::{self, Case, Mark, Marks};
use datadir::catalog::{Catalog, Held};
use datadir::file_kind::FileKind;
use datadir::finding_code::FindingCode;
use datadir::inventory::Inventory;
use datadir::name::NameHint;
use datadir::redo_log::{Pending, RedoLogs, UNPREPARED};
use datadir::severity::Severity;
use datadir::tablespace::FoundFile;
use datadir::tablespace::transactions::OpenTransactions;

/// Pages of one finding that are assigned to tables one by one, at most.
const MARKED_MAX: u64 = 1 << 20;

/// The message for a file that its server removed or replaced during the check.
const VANISHED: &str = "the file vanished while the check ran";
/// The options that settling needs.
pub(super) struct Wish<'o> {
    pub live: bool,
    pub keys: &'o KeyStore,
    pub page_size: Option<u32>,
    pub list_tables: bool,
}

/// Turns the workers' results into the report.
pub(super) fn settle(
    inventory: &Inventory,
    catalogs: &[Catalog],
    rows: Vec<Examined>,
    findings: Findings,
    wish: &Wish<'_>,
) -> Report {
    let live = wish.live;
    let done = rows.into_iter().map(|file| finished(file, live)).collect();
    let (redo, freed_damage) = (RedoLogs::new(live), BTreeMap::new());
    let mut settling = Settling {
        inventory,
        done,
        findings,
        redo,
        freed_damage,
        needed: BTreeMap::new(),
        dropped: BTreeMap::new(),
        live,
        orphans: catalogs.iter().flat_map(Catalog::orphans).collect(),
        unflushed: Vec::new(),
        ends: LogEnds::new(wish.keys),
        open: OpenTransactions::new(wish.keys),
        empty: None,
    };
    let vanished = inventory.vanished.iter().map(|passed| (passed, live));
    for (passed, is_expected) in inventory.failed.iter().map(|passed| (passed, false)).chain(vanished) {
        let (reason, severity, message) = if is_expected {
            ("replaced_file".into(), Severity::Notice, "the file vanished before it was read".to_owned())
        } else {
            (FindingCode::UNREADABLE_FILE, Severity::Undecided, passed.why.clone())
        };
        settling.findings.offer(u32::MAX, None, reason, severity, || about(&passed.path, reason, severity, message));
    }
    for done in &settling.done {
        if let Some(member) = &done.member {
            settling.redo.say(done.candidate.path.clone(), member.pending);
        }
    }
    settling.redo.say_in_ddl(catalogs.iter().flat_map(Catalog::in_ddl));
    for file in 0..settling.done.len() as u32 {
        settling.whole_file(file);
    }
    for space in settling.spaces() {
        settling.space(&space);
    }
    settling.mended_by_recovery(wish.keys);
    settling.dropped_indexes(catalogs, wish.keys);
    for file in 0..settling.done.len() as u32 {
        settling.newer_than_log(file);
    }
    settling.unflushed();
    let mut hurt = settling.catalogs(catalogs);
    let judged = verdict::judge(&settling.cases(wish.list_tables), wish.keys, wish.page_size, wish.list_tables);
    let report = settling.report();
    hurt.extend(judged.hurt);
    verdict::name_fulltext(&mut hurt, wish.keys);
    verdict::repaired_first(&mut hurt);
    Report { hurt, tables: wish.list_tables.then_some(judged.tables), ..report }
}

fn finished(row: Examined, live: bool) -> SettledFile {
    let Examined { state: file, log, is_cut, member, .. } = row;
    let tally = file.tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let nothing = if file.candidate.len == 0 { "the file is empty" } else { "the file is all zeros" };
    let head = file.head.into_inner().unwrap_or_else(|| Err(nothing.to_owned()));
    let space = head.as_ref().ok().filter(|known| known.part.first_page == 0).map(|known| known.part.format.space());
    let key = file.key;
    let gone = live && member.is_none() && (tally.gone || fate::is_gone(&file.candidate.path, key, space));
    SettledFile {
        candidate: file.candidate,
        key,
        head,
        tally,
        log,
        is_cut,
        share: file.share,
        member,
        is_new: false,
        gone,
    }
}

impl Settling<'_> {
    pub fn offer(&mut self, file: u32, finding: Finding) {
        if let (Some(page), false) = (finding.page, finding.severity == Severity::Notice) {
            let last = u64::from(page) + finding.pages.clamp(1, MARKED_MAX) - 1;
            (page..=u32::try_from(last).unwrap_or(u32::MAX)).for_each(|page| self.findings.note_page(file, page));
        }
        self.findings.offer(file, finding.page, finding.reason, finding.severity, || finding);
    }

    /// Compares each datadir's dictionary with the tablespaces that were read. Returns the tables hurt by missing files.
    fn catalogs(&mut self, catalogs: &[Catalog]) -> Vec<Hurt> {
        let mut hurt = Vec::new();
        if catalogs.is_empty() {
            return hurt;
        }
        let known = self.done.iter().filter(|done| done.member.is_none() && !done.gone);
        let held: Vec<Held> = known.filter_map(SettledFile::tablespace).collect();
        for catalog in catalogs {
            let found = catalog.findings(&held, &mut self.redo, self.live);
            let later = if self.live { None } else { verdict::later_tables(catalog, &held, &found, &mut self.redo) };
            let counters = if self.live { None } else { verdict::older_counters(catalog, &held, &mut self.redo) };
            for found in found.into_iter().chain(later).chain(counters) {
                let finding =
                    about(&found.path, found.reason, found.severity.unless_unread(&found.path), found.message);
                hurt.extend(verdict::of_missing(&finding.path, found.table, finding.severity));
                self.offer(u32::MAX, finding);
            }
        }
        hurt
    }

    /// Whether the server has removed or replaced the file since it was read. A worker asks when it finishes a file, but the server may
    /// drop the table while the verdict still waits for a late page, so ask again before reporting.
    pub fn is_gone(&mut self, file: u32) -> bool {
        let Some(done) = self.done.get_mut(file as usize) else { return false };
        if done.gone || !self.live || done.member.is_some() {
            return done.gone;
        }
        let first = done.head.as_ref().ok().filter(|known| known.part.first_page == 0);
        done.gone = fate::is_gone(&done.candidate.path, done.key, first.map(|known| known.part.format.space()));
        if done.gone {
            let path = done.candidate.path.clone();
            self.offer(file, about(&path, "replaced_file", Severity::Notice, VANISHED.to_owned()));
        }
        self.done.get(file as usize).is_some_and(|done| done.gone)
    }

    /// Findings about one file by itself.
    fn whole_file(&mut self, file: u32) {
        let Some(done) = self.done.get(file as usize).filter(|done| done.share.any) else { return };
        if done.gone {
            let words = done.tally.failure.clone().unwrap_or_else(|| VANISHED.to_owned());
            let finding = about(&done.candidate.path, "replaced_file", Severity::Notice, words);
            return self.offer(file, finding);
        }
        let mut found = self.about_content(file);
        found.extend(self.about_head(file));
        found.extend(self.about_first_page(file));
        if found.iter().any(|finding| finding.severity != Severity::Notice) && self.is_gone(file) {
            return;
        }
        for finding in found {
            if let Some(done) = self.done.get_mut(file as usize) {
                let fault = done.head.as_ref().ok().and_then(|known| known.part.fault.as_ref());
                if finding.reason == FindingCode::ZERO_PAGE_IN_USE {
                    done.tally.counts.empty_turned(1, finding.severity);
                } else if fault.is_some_and(|fault| FindingCode::from(fault.reason()) == finding.reason) {
                    done.tally.counts.ok_turned(1, finding.severity);
                }
            }
            self.offer(file, finding);
        }
    }

    /// A file that could not be read, or is not a tablespace.
    fn about_content(&mut self, file: u32) -> Vec<Finding> {
        let Some(done) = self.done.get_mut(file as usize) else { return Vec::new() };
        let path = &done.candidate.path;
        let finding = match (&done.tally.failure, &done.head) {
            (Some(_), _) if done.is_cut => return Vec::new(),
            (Some(words), head) => {
                let finding = about(path, FindingCode::UNREADABLE_FILE, Severity::Undecided, words.clone());
                // A server extends a new file and truncates it again before it writes page 0. A file that had a header is not new.
                let is_in_the_making = self.live && done.tally.became_shorter && head.is_err();
                let now = is_in_the_making.then(|| late::not_yet_made(path, finding.clone()));
                match now.filter(|now| now.severity == Severity::Notice) {
                    Some(now) => now,
                    None => return vec![finding],
                }
            }
            (None, Err(words)) if done.log.is_none() => {
                let finding = not_a_tablespace(&done.candidate, words, &mut self.redo);
                let finding = if self.live { late::not_yet_made(path, finding) } else { finding };
                match finding.severity {
                    Severity::Damage if self.orphans.contains(path) => of_orphan(&finding, self.live),
                    _ => finding,
                }
            }
            (None, _) => return Vec::new(),
        };
        done.is_new = finding.severity == Severity::Notice;
        if finding.reason == FindingCode::NOT_FLUSHED_YET {
            self.unflushed.push(path.clone());
            return Vec::new();
        }
        vec![finding]
    }

    /// Findings from the tablespace header and the file's length.
    fn about_head(&mut self, file: u32) -> Vec<Finding> {
        let Some(done) = self.done.get(file as usize) else { return Vec::new() };
        let Ok(known) = &done.head else { return Vec::new() };
        let (path, mut found) = (&done.candidate.path, Vec::new());
        let size = u64::from(known.part.format.physical().get());
        let tail = done.candidate.len % size;
        if tail > 0 && !done.is_cut && done.share.last {
            let whole = done.candidate.len / size;
            let message = format!(
                "{tail} bytes follow the last whole page ({whole} pages of {size} bytes): the server ignores them"
            );
            let finding = about(path, "partial_page", Severity::Notice, message);
            found.push(Finding { page: u32::try_from(whole).ok(), pages: 1, ..finding });
        }
        if let Some(fault) = known.part.fault.as_ref().filter(|_| done.share.first) {
            // Recovery completes the encryption of a tablespace that a crash interrupted.
            let recovery = self.redo.pending_for(path).is_some();
            let is_open = fault.may_be_newer() || recovery || self.live;
            found.push(header_fault(path, fault, if is_open { Severity::Undecided } else { Severity::Damage }));
        }
        if done.share.first && known.part.first_page > 0 {
            found.extend(first_pages_missing(&done.candidate, &known.part));
        }
        if let Some(next) = known.overlaps.filter(|_| done.share.first) {
            found.push(overlapping(path, known.part.first_page, next));
        }
        if let Some(words) = &known.key_error {
            found.push(about(path, "wrong_key", Severity::Undecided, words.to_string()));
        }
        found
    }

    /// An all-zero page 0, and the undecided pages, summed by reason.
    fn about_first_page(&mut self, file: u32) -> Vec<Finding> {
        let Some(done) = self.done.get(file as usize) else { return Vec::new() };
        let path = &done.candidate.path;
        let mut found = Vec::new();
        if done.tally.first_page_zero {
            let finding = first_page_lost(path, &mut self.redo);
            found.extend(late::first_page(self.live, path, &mut self.redo, &done.head, finding));
        }
        found.extend(done.tally.undecided.iter().map(|(reason, undecided)| undecided_pages(path, *reason, undecided)));
        found
    }

    /// The files, grouped by tablespace.
    fn spaces(&self) -> Vec<SettledSpace> {
        let mut spaces: Vec<SettledSpace> = Vec::new();
        for (file, done) in self.done.iter().enumerate() {
            let Some(known) = done.head.as_ref().ok().filter(|_| done.share.any) else { continue };
            match spaces.last_mut() {
                Some(space) if Arc::ptr_eq(&space.usage, &known.usage) => space.files.push(file as u32),
                _ => spaces.push(SettledSpace { files: vec![file as u32], usage: Arc::clone(&known.usage) }),
            }
        }
        spaces
    }

    /// The findings by tablespace or file, as input for the verdicts on tables; with `all`, also where there are none.
    fn cases(&mut self, all: bool) -> Vec<Case> {
        if !all && !(0..self.done.len() as u32).any(|file| self.findings.has_trouble(file)) {
            return Vec::new();
        }
        let spaces = self.spaces();
        let in_space: BTreeSet<u32> = spaces.iter().flat_map(|space| space.files.iter().copied()).collect();
        let is_read = |file: &u32| self.done.get(*file as usize).is_some_and(|done| done.share.any);
        let alone = (0..self.done.len() as u32).filter(|file| !in_space.contains(file) && is_read(file));
        let alone = alone.map(|file| vec![file]);
        let mut groups: Vec<Vec<u32>> = spaces.into_iter().map(|space| space.files).chain(alone).collect();
        let has_trouble = |files: &Vec<u32>| files.iter().any(|file| self.findings.has_trouble(*file));
        let path = |files: &Vec<u32>| self.done.get(*files.first()? as usize).map(|done| &done.candidate.path);
        let table = |files: &Vec<u32>| path(files).and_then(|path| verdict::partitioned(path));
        // Another partition may have the definition of those in trouble.
        let hurt: BTreeSet<_> = groups.iter().filter(|files| has_trouble(files)).filter_map(table).collect();
        groups.retain(|files| all || has_trouble(files) || table(files).is_some_and(|table| hurt.contains(&table)));
        groups.sort_unstable();
        groups.iter().filter_map(|files| self.case(files)).collect()
    }

    fn case(&mut self, files: &[u32]) -> Option<Case> {
        let first = self.done.get(*files.first()? as usize)?;
        let path = first.candidate.path.clone();
        let mut case =
            Case { files: Vec::new(), path, kind: kind_of(first), marks: Marks::new(), severity: None, awaits: None };
        for file in files {
            let done = self.done.get(*file as usize)?;
            if done.member.is_none() && done.log.is_none() && done.head.is_ok() {
                let (path, len) = (done.candidate.path.clone(), done.candidate.len);
                case.files.push(FoundFile { path, home: None, file: FileId(*file), len });
            }
            let harmless = self.harmless(*file);
            let is_harmless = |page: u32| harmless.is_freed(page) || harmless.is_dropped(page);
            let damaged = self.findings.pages_of(*file).filter(|page| !is_harmless(*page));
            // Every damaged page gets a mark; the kept findings below refine some of them.
            let mark = Mark { is_lost: true, severity: Severity::Damage, index_id: None };
            case.marks.extend(damaged.map(|page| (page, mark)));
            for finding in self.findings.of_file(*file).filter(|finding| finding.severity != Severity::Notice) {
                let Some(page) = finding.page else {
                    let worse = case.severity.is_none_or(|before| before != Severity::Damage);
                    case.severity = if worse { Some(finding.severity) } else { case.severity };
                    continue;
                };
                let (severity, index_id) = (finding.severity, finding.index_id);
                if harmless.is_dropped(page) && !OF_THE_FILE.contains(&finding.reason) {
                    continue;
                }
                let last = u64::from(page) + finding.pages.clamp(1, MARKED_MAX) - 1;
                for page in page..=u32::try_from(last).unwrap_or(u32::MAX) {
                    case.marks.entry(page).and_modify(|mark| *mark = Mark { severity, index_id, ..*mark });
                }
            }
            if !self.findings.has_trouble(*file) {
                case.marks.clear();
            }
        }
        if case.severity.is_some() || !case.marks.is_empty() {
            case.awaits = self.redo.awaits(&case.path);
        }
        Some(case)
    }

    /// Datadirs that still need crash recovery. A running server's always would.
    fn pending(&mut self) -> Vec<Pending> {
        let on_disk = self.done.iter().filter(|done| done.member.is_none() && done.head.is_ok() && !self.live);
        for done in on_disk {
            self.redo.pending_for(&done.candidate.path);
        }
        if self.live {
            return Vec::new();
        }
        // An archive has no log beside it, but a note inside. Without a note that says whether it is prepared, it may not be a backup at
        // all.
        let members = self.done.iter().filter_map(|done| done.member.as_ref());
        let unprepared = members.filter(|member| member.pending == Some(UNPREPARED));
        let archives: BTreeSet<&str> = unprepared.map(|member| member.archive.as_str()).collect();
        let of_archive = |path: &str| Pending { path: path.to_owned(), why: UNPREPARED.to_owned() };
        archives.into_iter().map(of_archive).chain(self.redo.pending()).collect()
    }

    fn report(mut self) -> Report {
        let pending = self.pending();
        let vanished = if self.live { 0 } else { self.inventory.vanished.len() };
        let failed = self.inventory.failed.len() + vanished;
        let findings = std::mem::replace(&mut self.findings, Findings::new(0));
        let mut nothing = Vec::new();
        let (total, damage, undecided) = (findings.total, findings.damage, findings.undecided);
        let mut totals = Totals { findings: total, damage, undecided, ..Totals::default() };
        // A part of the files may well be empty, or be a stretch that was never written.
        let is_part = self.done.iter().any(|done| !done.share.is_whole());
        let done = std::mem::take(&mut self.done);
        let files: Vec<FileReport> = done.into_iter().filter(|done| done.share.any).map(file_report).collect();
        for file in &files {
            totals.add(file);
        }
        totals.failed_files += failed as u64;
        let inventory = self.inventory;
        totals.skipped_files = inventory.skipped.len() as u64;
        if totals.nothing_verified() && totals.findings == 0 && !is_part {
            // Standard input has no path.
            let stdin = PathBuf::from("-");
            let asked = if inventory.asked.is_empty() { std::slice::from_ref(&stdin) } else { &inventory.asked };
            totals.findings += asked.len() as u64;
            totals.undecided += asked.len() as u64;
            nothing.extend(asked.iter().map(PathBuf::as_path).map(nothing_verified));
        }
        let findings = findings.into_sorted().into_iter().map(|(file, finding)| {
            let harmless = self.harmless(file);
            let freed = finding.page.is_some_and(|page| harmless.is_freed(page));
            let of_dropped = finding.page.is_some_and(|page| harmless.is_dropped(page));
            // Only findings about the page itself were reclassified as harmless, not those about the file that happen to name it.
            match finding.severity == Severity::Damage && !OF_THE_FILE.contains(&finding.reason) {
                true if freed => with_freed(finding),
                true if of_dropped => with_dropped(finding),
                _ => finding,
            }
        });
        let skipped = inventory.skipped.iter();
        Report {
            incomplete: false,
            part: None,
            since_lsn: None,
            totals,
            files,
            findings: findings.chain(nothing).collect(),
            skipped: skipped.map(|file| SkippedFile { path: shown(&file.path), why: file.why.clone() }).collect(),
            hurt: Vec::new(),
            tables: None,
            pending,
            effort: crate::report::document::Effort::default(),
        }
    }
}

/// Findings about a file: their page says where something begins.
pub(super) const OF_THE_FILE: [FindingCode; 4] = [
    FindingCode::DATA_BEYOND_SPACE_SIZE,
    FindingCode::TRUNCATED,
    FindingCode::ZERO_PAGE_IN_USE,
    FindingCode::NEWER_THAN_LOG,
];

fn kind_of(done: &SettledFile) -> FileKind {
    let kind = match (&done.head, done.candidate.hint) {
        (Err(_), hint) if hint.promises_pages() => FileKind::Unrecognised,
        (Err(_), _) => FileKind::Other,
        (Ok(known), NameHint::Table | NameHint::Unknown) if known.part.format.space() == SpaceId::SYSTEM => {
            FileKind::SystemTablespace
        }
        (Ok(_), hint) => hint.tablespace_kind(),
    };
    done.log.as_ref().map_or(kind, |log| log.kind)
}

fn file_report(done: SettledFile) -> FileReport {
    let kind = kind_of(&done);
    let known = done.head.as_ref().ok();
    let format = known.map(|known| &known.part.format);
    let error = match &done.log {
        Some(_) => done.tally.failure.clone(),
        None => done.tally.failure.clone().or_else(|| done.head.as_ref().err().cloned()),
    };
    let log = done.log.as_ref();
    FileReport {
        path: shown(&done.candidate.path),
        archive: done.member.map(|member| member.archive),
        unit: log.map_or(Unit::Pages, |log| log.unit),
        kind,
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
