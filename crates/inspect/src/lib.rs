//! The jobs that look at files and change none: check, table, rows, schema, info. Each joins a plan (which bytes, in which order), `flow` (how to
//! read them) and `format` (what they mean), and returns data. Nothing here prints; only the command line does.
//!
//! Nothing here writes to the files of a server or of a set either: what opens files for writing is in `innokit-recovery`, which this crate does
//! not know.
//!
//! From "is this file sound" to its rows:
//!
//! ```
//! use innokit_inspect::rows::{TableSource, export::{ExportOptions, TextFormat, export}};
//! use innokit_inspect::{Check, CheckOptions};
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

pub mod check;
mod definitions;
pub mod diff;
pub mod info;
pub mod redo_info;
pub mod report;
pub mod rows;
pub mod schema;
pub mod table;
pub mod tree;
mod verdict;

pub use check::{Check, CheckOptions, Portion};
pub use datadir::{Error, FindingCode, Severity};
pub use info::report::{FileInfo, InfoReport, TablespaceInfo};
pub use info::{InfoOptions, info};
pub use redo_info::report::{RedoInfo, RedoState};
pub use redo_info::{RedoInfoOptions, redo_info};
pub use report::document::{Counts, FileReport, Finding, Report};
pub use table::{TableOptions, TableReport, tables, tables_watched};
