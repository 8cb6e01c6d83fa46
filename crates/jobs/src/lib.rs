//! The jobs. Each joins a plan (which bytes, in which order), `flow` (how to read them) and `format` (what they mean), and returns data.
//! Nothing here prints; only the command line does.
//!
//! From "is this file sound" to its rows:
//!
//! ```
//! use innokit_jobs::rows::{TableSource, export::{ExportOptions, TextFormat, export}};
//! use innokit_jobs::{Check, CheckOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let packed = std::fs::File::open("../../fixtures/mysql-9.7/dynamic-16k.ibd.zst")?;
//! # let dir = tempfile::tempdir()?;
//! # let (path, jsonl) = (dir.path().join("orders.ibd"), dir.path().join("orders.jsonl"));
//! # std::fs::write(&path, zstd::decode_all(packed)?)?;
//! let report = Check::plan(&[path.clone()], CheckOptions::default())?.run(None)?;
//! assert_eq!((report.exit_status(), report.totals.counts.corrupt), (0, 0));
//!
//! let options = ExportOptions { columns: Some(vec!["id".into(), "a".into()]), limit: Some(2), ..ExportOptions::default() };
//! let file = std::fs::File::create(&jsonl)?;
//! let mut output = |_: &TableSource| Ok(Box::new(file.try_clone().expect("a handle")) as Box<dyn std::io::Write + Send>);
//! let exported = export(&[path], &options, &TextFormat::JsonLines, &mut output, None)?;
//! assert_eq!((exported.tables[0].table.as_str(), exported.tables[0].rows), ("fx.dyn", 2));
//! assert_eq!(std::fs::read_to_string(jsonl)?, "{\"id\":0,\"a\":0}\n{\"id\":1,\"a\":7919}\n");
//! # Ok(())
//! # }
//! ```
//!
//! | what you want | where it is |
//! |---|---|
//! | verify files, datadirs, backups, streams | [`Check`] |
//! | check trees against their rules, count rows | [`tables`] |
//! | read rows as cells, batch by batch | [`rows::RowReader`]; as text: [`rows::export`]; `CHECKSUM TABLE`: [`rows::checksum`] |
//! | get `CREATE TABLE` statements | [`schema`] |
//! | see what a file contains, what a redo log would change | [`info()`], [`redo_info()`] |
//! | recover after a crash, without a server | [`recover()`] |
//! | archive a live server's redo log | [`archive()`], [`verify_archive`] |
//! | back up a running server, verify a backup | [`backup::backup`], [`backup::verify_backup`] |
//! | turn a backup into a datadir | [`restore()`] |
//! | verify or rewrite one file's checksums | [`innochecksum`] |
//! | unpack backup streams and tar archives | [`unpack()`] |

pub mod archive;
pub mod backup;
mod bounded;
pub mod check;
pub(crate) mod definitions;
pub mod info;
pub mod innochecksum;
pub mod manifest;
pub mod recover;
pub mod redo_batch;
pub mod redo_info;
pub mod report;
pub mod restore;
pub mod rows;
pub mod schema;
mod server_home;
pub mod table;
pub mod tree;
pub mod unpack;
mod verdict;

mod binlog_at;
mod door;
mod replica;
mod unlogged;

#[cfg(fuzzing)]
pub use archive::fuzzed_mark;
pub use archive::{
    ArchiveError, ArchiveEvent, ArchiveMark, ArchiveOptions, ArchiveReport, ArchiveStatus, ArchiveUntil, ArchivedRange,
    Beyond, BeyondKind, Unlogged, archive, archive_beside, verify_archive,
};
pub use check::{Check, CheckOptions, Portion};
pub use datadir::{Error, FindingCode, Severity};
#[doc(hidden)]
pub use door::on_target_made;
pub use info::report::{FileInfo, InfoReport, TablespaceInfo};
pub use info::{InfoOptions, info};
#[doc(hidden)]
pub use recover::Simulated;
#[cfg(fuzzing)]
pub use recover::fuzzed_outside;
pub use recover::{Increment, OutsidePlace, ReachedMoment, RecoverError, RecoverOptions, Recovered, Waiting, recover};
pub use redo_info::report::{RedoInfo, RedoState};
pub use redo_info::{RedoInfoOptions, redo_info};
pub use report::document::{Counts, FileReport, Finding, Report};
pub use restore::{FileOwner, RestoreError, RestoreOptions, Restored, restore};
pub use table::{TableOptions, TableReport, tables, tables_watched};
pub use unpack::{UnpackError, Unpacked, unpack, unpack_at_most};
