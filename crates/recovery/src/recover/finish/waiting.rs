//! Transactions that wait for a binary log.
//!
//! A server with a binary log commits in two phases: the engine prepares the transaction, the binary log gets it, the engine commits. After a
//! crash the server asks its binary log which prepared transactions to commit. A backup has no binary log, and a moment in an archive of the
//! redo log lies before the end of the one that there is. MariaDB refuses to start then ("Found 1 prepared transactions"), and a replica
//! that begins after the last commit gets the transaction from its primary once more. So it counts as not committed: it becomes active, and the
//! server rolls it back. Transactions that a user prepared (`XA PREPARE`) stay prepared.
//!
//! A datadir that is no backup is where its server goes on, with its own binary log: there they wait on, and the report says so, because a
//! server on a copy without that log does not start.
//!
//! A backup of xtrabackup does have the binary log that the server was writing, so that the server can ask it (PXB-1770): there they wait on.

use std::collections::BTreeSet;
use std::path::Path;

use format::PageId;
use format::keyring::KeyStore;

use crate::recover::error::Result;
use crate::recover::increments::binlogs;
use crate::recover::log::RedoLog;
use crate::recover::replay::Work;
use datadir::tablespace::transactions::waiting_for_binlog_in;

/// How many transactions waited for a binary log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Waiting {
    /// Active now: the server rolls them back when it starts.
    pub given_up: u64,
    /// Still prepared, because the recovery does not change their undo tablespaces.
    pub left: u64,
    /// Still prepared, because the backup has the binary log in which the server looks.
    pub for_server: u64,
    /// Still prepared in a datadir that is no backup: the server finds its own binary log, unless that was left behind.
    pub for_own_log: u64,
}

/// Gives up waiting where the binary log is no part of the copy. `work` has applied the log.
pub(in crate::recover) fn give_up(
    datadir: &Path,
    log: &RedoLog,
    work: &mut Work<'_>,
    keys: &KeyStore,
) -> Result<Waiting> {
    // Undo logs that cannot be read are the server's to report: it cannot start without them either.
    let waiting = waiting_for_binlog_in(datadir, keys).unwrap_or_default();
    let pages: BTreeSet<PageId> = waiting.iter().map(|(page, _)| *page).collect();
    if pages.is_empty() {
        return Ok(Waiting::default());
    }
    let transactions = |is_one: &dyn Fn(&PageId) -> bool| count(&waiting, is_one);
    if log.backup.is_none() && log.base_end().is_none() {
        return Ok(Waiting { for_own_log: transactions(&|_| true), ..Waiting::default() });
    }
    if log.is_of_xtrabackup() && !binlogs::of(datadir)?.is_empty() {
        return Ok(Waiting { for_server: transactions(&|_| true), ..Waiting::default() });
    }
    let left = work.give_up_waiting(&pages)?;
    let (given_up, left) = (transactions(&|page| !left.contains(page)), transactions(&|page| left.contains(page)));
    Ok(Waiting { given_up, left, ..Waiting::default() })
}

/// What waits in a datadir whose log has nothing left to apply. Nothing is changed there.
pub(in crate::recover) fn left_in(datadir: &Path, log: &RedoLog, keys: &KeyStore) -> Waiting {
    let waiting = waiting_for_binlog_in(datadir, keys).unwrap_or_default();
    let all = count(&waiting, &|_| true);
    if log.backup.is_none() && log.base_end().is_none() {
        Waiting { for_own_log: all, ..Waiting::default() }
    } else {
        Waiting { left: all, ..Waiting::default() }
    }
}

/// The number of transactions on the pages for which the condition holds.
fn count(waiting: &[(PageId, u64)], is_one: &dyn Fn(&PageId) -> bool) -> u64 {
    let of = waiting.iter().filter(|(page, _)| is_one(page));
    of.map(|(_, transaction)| *transaction).collect::<BTreeSet<u64>>().len() as u64
}
