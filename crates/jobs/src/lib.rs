//! The jobs: each joins a plan (which bytes, in which order), `flow` (how they come) and `format` (what they mean), and returns
//! data. Nothing in here prints; only the command line does.

pub mod job;
pub mod out;
pub mod redo_batch;
pub mod source;
pub mod tree;

mod error;

pub use error::Error;
pub use job::check::{Check, CheckOptions};
pub use job::info::report::{FileInfo, InfoReport, Tablespace};
pub use job::info::{InfoOptions, info};
#[doc(hidden)]
pub use job::recover::Simulated;
pub use job::recover::{RecoverError, RecoverOptions, Recovered, recover};
pub use job::redo_info::report::RedoInfo;
pub use job::redo_info::{RedoInfoOptions, redo_info};
pub use job::table::{TableOptions, TableReport, tables, tables_watched};
pub use out::report::{Counts, FileReport, Finding, Report, Severity};
