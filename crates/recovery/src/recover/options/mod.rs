//! How to recover.

pub(super) mod reached;
pub(super) mod tuning;

use std::path::PathBuf;
use std::time::SystemTime;

use format::Lsn;

use self::reached::ReachedMoment;
use self::tuning::Tuning;
use datadir::keys::KeyFiles;

/// What was beneath the first directory in the original goes beneath the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsidePlace {
    /// The directory in the paths that the server knew.
    pub old: PathBuf,
    /// The directory in which the copy's files are to be. It exists.
    pub new: PathBuf,
}

/// How to recover.
#[derive(Debug, Clone)]
pub struct RecoverOptions {
    /// Recover a copy created here and leave the datadir unchanged.
    pub to: Option<PathBuf>,
    /// Compare the files of a backup that innokit took with its manifest, and refuse one that was changed: with `to` while they are copied,
    /// else before they are changed in place. A dry run does not compare them.
    pub compare: bool,
    /// Incremental backups to put into the full one, in the order in which they were taken.
    pub increments: Vec<PathBuf>,
    /// The datadir itself is a copy that the caller has just made, and that nobody uses before it is finished: it is marked as unfinished
    /// until it is recovered, and made again if that is interrupted.
    #[doc(hidden)]
    pub is_fresh: bool,
    /// In place, write to tablespaces outside of the datadir too, and through links in it. Otherwise they are refused if the log changes
    /// them. A copy gets them inside.
    pub outside: bool,
    /// With `outside`: gets the files outside that the run changes, before it changes any file.
    pub on_outside: Option<fn(&[PathBuf])>,
    /// Where tablespaces go that were outside of the datadir. Only with `to`, and in a restore. Others are inside of the copy.
    pub places: Vec<OutsidePlace>,
    /// Do everything except write.
    pub dry_run: bool,
    /// End with the last mini-transaction that ends at or before this LSN, as if the server had died there. Refused if the files already
    /// contain later changes.
    pub until: Option<Lsn>,
    /// An archive of the redo log, read from the checkpoint on in place of the datadir's own log. Only with `to`, or in a dry run.
    pub redo: Option<PathBuf>,
    /// The timeline of that archive to which `until` refers; `None` accepts any.
    #[doc(hidden)]
    pub redo_timeline: Option<u32>,
    /// Instead of `until`: end at the LSN that the archive's marks give for this time.
    pub until_time: Option<SystemTime>,
    /// Fail if the archive may lack something that was committed before `until_time`.
    pub require_until: bool,
    /// Recover to a moment of the archive although rows of tables without redo were, or may have been, written after the base copy.
    pub stale_tables: bool,
    /// Use a backup although pages of it were damaged when they were copied.
    pub allow_damage: bool,
    /// What `until_time` became.
    #[doc(hidden)]
    pub moment: Option<ReachedMoment>,
    /// Name the pages that the log changes in `ib_buffer_pool`, so that the server loads them when it starts.
    pub warm: bool,
    /// Keys of encrypted logs and tablespaces.
    pub keys: KeyFiles,
    /// Memory to work in, bytes; less than 64 MiB counts as 64 MiB. A log with more redo than fits is applied in parts or rounds.
    pub memory: usize,
    /// Upper limit of log bytes per round. Tests lower it to get more rounds than their logs need.
    #[doc(hidden)]
    pub round: u64,
    /// How the device is used.
    pub tuning: Tuning,
}

impl RecoverOptions {
    /// Passes the files outside that the run is about to change to `on_outside`.
    pub(in crate::recover) fn tell_outside(&self, paths: impl FnOnce() -> Vec<PathBuf>) {
        if let Some(tell) = self.on_outside.filter(|_| self.outside) {
            tell(&paths());
        }
    }
}

impl Default for RecoverOptions {
    fn default() -> Self {
        let (memory, round, tuning) = (512 << 20, u64::MAX, Tuning::default());
        let (increments, keys) = (Vec::new(), KeyFiles::default());
        Self {
            to: None,
            compare: false,
            increments,
            is_fresh: false,
            outside: false,
            on_outside: None,
            places: Vec::new(),
            dry_run: false,
            until: None,
            redo: None,
            redo_timeline: None,
            until_time: None,
            require_until: false,
            stale_tables: false,
            allow_damage: false,
            moment: None,
            warm: true,
            keys,
            memory,
            round,
            tuning,
        }
    }
}
