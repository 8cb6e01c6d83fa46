//! Recovery that ends before the log does: what the names and first pages of files tell. `run/checked_plan.rs` looks at the other pages.
//!
//! Redo cannot be undone: a page written after the end, or a file created, renamed, deleted or truncated after it, cannot be taken back. So
//! the rest of the log is read too, and compared with the files: they must be as if the server had died at the end. Pages that the log
//! initializes before the end may be newer, since their content is not read.

use std::path::{Path, PathBuf};

use format::{Lsn, SpaceId};

use crate::recover::error::{Result, refused};
use crate::recover::space::head::Head;
use crate::recover::survey::rest::{LogRest, OperationKind};
use crate::recover::survey::tablespaces::{NewestPage, Survey};
use crate::recover::survey::wanted::Wanted;
use datadir::redo_log::Truncation;

/// Fails if a file operation in the rest of the log is already carried out.
pub(in crate::recover) fn check_files(rest: &LogRest, datadir: &Path, wanted: &Wanted, survey: &Survey) -> Result<()> {
    if let Some((space, lsn)) = rest.trimmed.first() {
        return rest.refuse(&format!("tablespace {space} was cut down"), *lsn);
    }
    let firsts = rest.files.iter().filter_map(|(space, operations)| Some((operations.first()?, space, operations)));
    let mut firsts: Vec<_> = firsts.collect();
    // By LSN, so that the same files always give the same message: a map has no order.
    firsts.sort_by_key(|(first, ..)| first.lsn);
    for (first, space, operations) in firsts {
        let found = survey.files.get(space).map(Vec::as_slice).unwrap_or_default();
        let name = first.names.first().map(|name| name.display().to_string()).unwrap_or_default();
        // Its first page may not have been written yet.
        let unwritten = |name: &&PathBuf| matches!(Head::read(&datadir.join(name)), Ok(None));
        if first.kind == OperationKind::Made {
            let names = operations.iter().flat_map(|operation| &operation.names);
            // It is there already, under any of its names, and what made it cannot be undone.
            if !found.is_empty() || names.into_iter().any(|name| unwritten(&name)) {
                return rest.refuse(&format!("{name} was made"), first.lsn);
            }
            continue;
        }
        // Any of the earlier names will do: the log renames the file up to the end. A later one means that the server did it already.
        let before: Vec<&PathBuf> = wanted.names_of(*space).iter().chain(first.names.first()).collect();
        let is_there = |name: &&PathBuf| found.contains(name) || (found.is_empty() && unwritten(name));
        if !before.iter().any(is_there) {
            let what = if first.kind == OperationKind::Renamed { "renamed" } else { "deleted" };
            return rest.refuse(&format!("{name} was {what}"), first.lsn);
        }
    }
    Ok(())
}

/// Fails if MySQL may have changed files after the end without redo. It empties undo tablespaces and builds indexes without redo, and none
/// of its records builds a page from nothing, so no page may be newer than the end.
pub(in crate::recover) fn check_unlogged(rest: &LogRest, datadir: &Path, survey: &Survey, end: Lsn) -> Result<()> {
    let NewestPage { path, page_no, lsn } = &survey.newest;
    if *lsn > end {
        return rest.refuse(&format!("{}: page {page_no} was written", path.display()), *lsn);
    }
    let mut spaces = survey.files.keys().copied();
    let may_be_truncated =
        |space: &SpaceId| Truncation::of(datadir, *space).is_some_and(|it| it != Truncation::Unbegun);
    match spaces.find(may_be_truncated) {
        Some(space) => refuse_truncated(rest, space),
        None => Ok(()),
    }
}

/// Refuses an undo tablespace that was truncated or was being truncated: it may have held undo that was needed at the end.
pub(in crate::recover) fn refuse_truncated(rest: &LogRest, space: SpaceId) -> Result<()> {
    refused(format!(
        "undo tablespace {space} was truncated, and it is unknown whether that was after LSN {}: recover the whole log",
        rest.until
    ))
}
