//! Logs that a server is writing: `alarm -> list the files again -> rerun the check -> what persists is damage`
//!
//! While we read a redo log, its server creates and recycles files and moves the checkpoint, so the parts may not match. Reading takes
//! milliseconds and a file lasts a second or more, so one of a few readings falls between two such changes.
//! A binary log is marked closed in its header, and a reader may see that mark although the file was still growing when its length was
//! taken.

use std::fs;
use std::path::Path;
use std::time::Duration;

use flow::{ReaderError, WorkerCounters};
use format::keyring::KeyStore;

use super::examined::Examined;
use super::file_state::FileState;
use super::findings::Findings;
use super::redo::RedoCheck;
use super::sequential::{Outcomes, Phase};
use crate::report::document::Finding;
use datadir::content::Content;
use datadir::finding_code::FindingCode;
use datadir::inventory::Candidate;
use datadir::kept_log::kept_files;
use datadir::log_name::is_kept;
use datadir::name::NameHint;
use datadir::redo_log::is_kept_file;
use datadir::severity::Severity;

/// Readings after the first.
const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

/// Findings about how the files fit together: in a log being written, true for a moment only.
const OF_THE_MOMENT: [FindingCode; 4] =
    [FindingCode::REDO_FILES, FindingCode::REDO_HEADER, FindingCode::REDO_NO_CHECKPOINT, FindingCode::UNREADABLE_FILE];

/// Reads logs that look unsound again.
///
/// # Errors
/// No reader could be made.
pub(super) fn read_again(
    phase: &Phase<'_>,
    outcomes: &mut Outcomes,
    counters: &WorkerCounters,
) -> Result<(), ReaderError> {
    let findings_max = phase.context.options.findings_max;
    read_redo_again(phase, outcomes, counters, findings_max);
    for (number, state) in (0..).zip(phase.files).filter(|(_, state)| is_binlog(state.candidate.content)) {
        let Some(outcome) = outcomes.get_mut(&number) else { continue };
        for _ in 0..TRIES {
            if outcome.findings.damage + outcome.findings.undecided == 0 {
                break;
            }
            std::thread::sleep(PAUSE);
            match fs::metadata(&state.candidate.path) {
                Ok(meta) => {
                    *outcome = phase.stream(&Candidate { len: meta.len(), ..state.candidate.clone() }, counters)?
                }
                // Purged: settling reports it.
                Err(_) => outcome.findings = Findings::new(findings_max),
            }
        }
    }
    Ok(())
}

fn is_binlog(content: Content) -> bool {
    matches!(content, Content::Binlog | Content::InnodbBinlog)
}

fn read_redo_again(phase: &Phase<'_>, outcomes: &mut Outcomes, counters: &WorkerCounters, findings_max: usize) {
    let is_log = |state: &FileState| state.candidate.content == Content::Redo;
    let numbered: Vec<(u32, &Candidate)> = (0..)
        .zip(phase.files)
        .filter(|(_, state)| is_log(state))
        .map(|(number, state)| (number, &state.candidate))
        .collect();
    let log_of =
        |candidate: &Candidate| (candidate.path.parent().map(Path::to_path_buf), is_kept_file(&candidate.path));
    for log in numbered.chunk_by(|(_, a), (_, b)| log_of(a) == log_of(b)) {
        let alarms = |number: &u32| {
            outcomes.get(number).map_or(0, |outcome| outcome.findings.damage + outcome.findings.undecided)
        };
        if log.iter().map(|(number, _)| alarms(number)).sum::<u64>() == 0 {
            continue;
        }
        let known: Vec<&Candidate> = log.iter().map(|(_, candidate)| *candidate).collect();
        let (rows, findings) = settled(&known, counters, findings_max, &phase.context.keys);
        replace(log, outcomes, rows, &findings, findings_max);
    }
}

/// Rows and findings of the first sound reading, or of the last one.
fn settled(
    known: &[&Candidate],
    counters: &WorkerCounters,
    findings_max: usize,
    keys: &KeyStore,
) -> (Vec<Examined>, Vec<Finding>) {
    let mut before: Vec<Finding> = Vec::new();
    let mut tries = 0;
    loop {
        tries += 1;
        std::thread::sleep(PAUSE);
        let now = files_now(known);
        let (rows, findings) = RedoCheck { files: now.iter().collect(), counters, findings_max, keys }.run();
        let sound = findings.damage + findings.undecided == 0;
        let findings: Vec<Finding> = findings.into_sorted().into_iter().map(|(_, finding)| finding).collect();
        if sound || tries == TRIES {
            return (rows, findings.into_iter().map(|finding| unless_it_stays(finding, &before)).collect());
        }
        before = findings;
    }
}

/// Turns a finding of the last reading into a notice unless the previous reading had it too.
fn unless_it_stays(mut finding: Finding, before: &[Finding]) -> Finding {
    let same = |other: &Finding| {
        (other.reason, other.lsn, other.position) == (finding.reason, finding.lsn, finding.position)
            && other.path == finding.path
    };
    if OF_THE_MOMENT.contains(&finding.reason) || !before.iter().any(same) {
        finding.severity = Severity::Notice;
        finding.message.push_str(" (the server writes the log while it is read)");
    }
    finding
}

/// The log's files as the directory lists them now.
fn files_now(known: &[&Candidate]) -> Vec<Candidate> {
    let Some(first) = known.first() else { return Vec::new() };
    let dir = first.path.parent().unwrap_or(Path::new(""));
    // A ring under the name of an archive.
    if first.path.file_name().is_some_and(|name| is_kept(Path::new(name))) && !is_kept_file(&first.path) {
        return vec![(*first).clone()];
    }
    if is_kept_file(&first.path) {
        let now = kept_files(dir).into_iter();
        return now.map(|file| Candidate { path: file.path, len: file.len, ..(*first).clone() }).collect();
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<(u64, Candidate)> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let len = entry.metadata().ok()?.len();
            let name = path.file_name()?.to_str()?;
            let number = name.strip_prefix("#ib_redo").or_else(|| name.strip_prefix("ib_logfile"))?.parse().ok()?;
            Some((number, Candidate { path, len, hint: NameHint::Redo, content: Content::Redo, ..(*first).clone() }))
        })
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Replaces the old reading. New files have no row of their own, so their findings go to the first file.
fn replace(
    log: &[(u32, &Candidate)],
    outcomes: &mut Outcomes,
    rows: Vec<Examined>,
    findings: &[Finding],
    findings_max: usize,
) {
    let mut rows = rows;
    for (place, (number, candidate)) in log.iter().enumerate() {
        let Some(outcome) = outcomes.get_mut(number) else { continue };
        if let Some(at) = rows.iter().position(|row| row.state.candidate.path == candidate.path) {
            outcome.rows = vec![rows.swap_remove(at)];
        }
        outcome.findings = Findings::new(findings_max);
        let here = |finding: &&Finding| {
            let path = Path::new(&finding.path);
            path == candidate.path || (place == 0 && !log.iter().any(|(_, file)| file.path == path))
        };
        for (order, finding) in (0..).zip(findings.iter().filter(here)) {
            outcome.findings.offer_at(0, order, finding.clone());
        }
    }
}
