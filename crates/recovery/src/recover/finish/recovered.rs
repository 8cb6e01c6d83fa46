//! What a recovery reports.

use super::waiting::Waiting;
use crate::archive::Beyond;
use crate::recover::increments::Increment;
use crate::recover::options::reached::ReachedMoment;
use crate::recover::plan::RecoverPlan;
use crate::recover::replay::Counts;
use crate::recover::replay::files::Done;
use datadir::server::BinlogPosition;

/// What was done, or would be in a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Recovered {
    /// LSN of the log's newest checkpoint before the recovery.
    pub checkpoint_lsn: u64,
    /// LSN at which the recovery ended and the server will continue.
    pub end_lsn: u64,
    /// There was nothing to do.
    pub was_clean: bool,
    /// Mini-transactions since the checkpoint.
    pub mtrs: u64,
    /// Mini-transactions after the end of the recovery, which were left out.
    pub mtrs_dropped: u64,
    /// Tablespaces that the log changes.
    pub tablespaces: u64,
    /// Rounds in which the log was applied.
    pub rounds: u64,
    /// Pages read, counted once per round that changes them.
    pub pages_read: u64,
    /// Pages changed, counted once per round.
    pub pages_changed: u64,
    /// Pages that already had all their redo.
    pub pages_unchanged: u64,
    /// Pages no longer in use.
    pub pages_freed: u64,
    /// Torn pages restored from the server's doublewrite copies.
    pub pages_restored: u64,
    /// Pages that the log changes and `ib_buffer_pool` names: the server loads them when it starts.
    pub pages_to_load: u64,
    /// Transactions that waited for a binary log which is no part of the copy.
    pub waiting: Waiting,
    /// Pieces of pages that an interrupted run was writing, written again from its shadow file.
    pub pieces_replayed: u64,
    /// Tablespaces renamed.
    pub files_renamed: u64,
    /// Tablespaces created.
    pub files_made: u64,
    /// Tablespaces resized.
    pub files_resized: u64,
    /// It was an unprepared backup and is prepared now.
    pub was_backup: bool,
    /// Tablespaces changed by a backup's log but missing in the backup, by their names in the log.
    pub not_in_backup: Vec<String>,
    /// Tablespaces of a copy that are outside of it now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<String>,
    /// Increments put into the backup.
    pub increments: Vec<Increment>,
    /// Files of a backup by innokit that were compared with its manifest. A restore reports them itself.
    #[serde(skip)]
    pub files_compared: u64,
    /// With an archive of the redo log: the binary log position after the last commit in the datadir.
    pub binlog: Option<BinlogPosition>,
    /// With an archive of the redo log: the statements that make a server on the datadir a replica of the server that it came from.
    pub replica: Vec<String>,
    /// With an archive whose archiver read the binary log: what the server did since the base copy that is in no redo, and so not in the
    /// datadir.
    pub not_in_redo: Vec<Beyond>,
    /// With an archive that has the definitions (MariaDB): how many of their files changed since the base copy.
    pub definitions: Option<u64>,
    /// The binary log position is not known, because definitions changed and the archive does not say where.
    pub is_position_unknown: bool,
    /// With a time to recover to: how much of what was committed before it is there.
    pub moment: Option<ReachedMoment>,
}

impl Recovered {
    /// Adds the increment merged next and the recovery that followed it.
    pub(in crate::recover) fn and(mut self, put: Increment, next: Self) -> Self {
        let is_first = self == Self::default();
        self.increments.push(put);
        let increments = self.increments;
        Self {
            checkpoint_lsn: if is_first { next.checkpoint_lsn } else { self.checkpoint_lsn },
            was_clean: false,
            mtrs: self.mtrs + next.mtrs,
            tablespaces: self.tablespaces.max(next.tablespaces),
            rounds: self.rounds + next.rounds,
            pages_read: self.pages_read + next.pages_read,
            pages_changed: self.pages_changed + next.pages_changed,
            pages_unchanged: self.pages_unchanged + next.pages_unchanged,
            pages_freed: self.pages_freed + next.pages_freed,
            pages_restored: self.pages_restored + next.pages_restored,
            pieces_replayed: self.pieces_replayed + next.pieces_replayed,
            files_renamed: self.files_renamed + next.files_renamed,
            files_made: self.files_made + next.files_made,
            files_resized: self.files_resized + next.files_resized,
            was_backup: true,
            increments,
            ..next
        }
    }

    /// The result of carrying out a plan, or of a dry run.
    pub(in crate::recover) fn of(plan: &RecoverPlan, counts: Counts, done: Done, replayed: u64) -> Self {
        Self {
            checkpoint_lsn: plan.checkpoint.0,
            end_lsn: plan.wanted.end.0,
            was_clean: plan.wanted.is_clean,
            mtrs: plan.wanted.mtrs,
            mtrs_dropped: plan.wanted.rest.as_ref().map_or(0, |rest| rest.mtrs),
            tablespaces: plan.spaces.len() as u64,
            rounds: counts.rounds,
            pages_read: counts.read,
            pages_changed: counts.changed,
            pages_unchanged: counts.unchanged,
            pages_freed: counts.freed,
            pages_restored: counts.restored,
            pages_to_load: 0,
            waiting: Waiting::default(),
            pieces_replayed: replayed,
            files_renamed: done.renamed,
            files_made: done.made,
            files_resized: done.resized,
            was_backup: plan.wanted.kind.is_backup,
            not_in_backup: plan.not_in_backup.clone(),
            outside: Vec::new(),
            increments: Vec::new(),
            files_compared: 0,
            binlog: None,
            replica: Vec::new(),
            not_in_redo: Vec::new(),
            definitions: None,
            is_position_unknown: false,
            moment: None,
        }
    }
}
