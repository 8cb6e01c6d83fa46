//! The jobs that write: recover, archive, backup, restore, unpack, innochecksum. Each returns data and prints nothing; only the command line
//! prints. What they write, they write beneath a directory that the caller named, through one door.
//!
//! | what you want | where it is |
//! |---|---|
//! | recover after a crash, without a server | [`recover()`] |
//! | archive a live server's redo log | [`archive()`], [`verify_archive`] |
//! | back up a running server, verify a backup | [`backup::backup`], [`backup::verify_backup`] |
//! | turn a backup into a datadir | [`restore()`] |
//! | verify or rewrite one file's checksums | [`innochecksum`] |
//! | unpack backup streams and tar archives | [`unpack()`] |

pub mod archive;
pub mod backup;
mod binlog_at;
mod bounded;
mod door;
pub mod innochecksum;
pub mod manifest;
pub mod recover;
pub mod redo_batch;
mod replica;
pub mod restore;
mod server_home;
mod unlogged;
pub mod unpack;

#[cfg(fuzzing)]
pub use archive::fuzzed_mark;
pub use archive::{
    ArchiveError, ArchiveEvent, ArchiveMark, ArchiveOptions, ArchiveReport, ArchiveStatus, ArchiveUntil, ArchivedRange,
    Beyond, BeyondKind, Unlogged, archive, archive_beside, verify_archive,
};
pub use datadir::Error;
#[doc(hidden)]
pub use door::on_target_made;
#[doc(hidden)]
pub use recover::Simulated;
#[cfg(fuzzing)]
pub use recover::fuzzed_outside;
pub use recover::{
    EntryKind, Increment, OutsidePlace, ReachedMoment, RecoverError, RecoverOptions, Recovered, View, ViewEntry,
    ViewFile, ViewOptions, Waiting, recover,
};
pub use restore::{FileOwner, RestoreError, RestoreOptions, Restored, restore};
pub use unpack::{UnpackError, Unpacked, unpack, unpack_at_most};
