//! What lies in a datadir, a backup or a bucket, and how it is opened: files by name and by content, keys, redo logs, the dictionary, and
//! tablespaces page by page. Everything here reads; the jobs above decide what to read, and what to make of it.
//!
//! The jobs that inspect and the jobs that recover stand on this crate and do not know each other.

#![allow(
    missing_docs,
    reason = "for the crates of innokit above this one, which say at their roots what is for others"
)]

pub mod ahead;
pub mod backup_notes;
pub mod catalog;
pub mod content;
pub mod crc32c;
pub mod doublewrite;
pub mod error;
pub mod fault;
pub mod file_kind;
pub mod files;
pub mod finding_code;
pub mod inventory;
pub mod kept_log;
pub mod keys;
pub mod known_servers;
pub mod log_name;
pub mod logged_key;
pub mod mysql_log;
pub mod name;
pub mod open;
pub mod outcome;
pub mod page;
pub mod reading;
pub mod redo_log;
pub mod remote;
pub mod selection;
pub mod server;
pub mod severity;
pub mod space;
pub mod sparse;
pub mod stop;
pub mod system;
pub mod tablespace;

pub use error::Error;
pub use finding_code::FindingCode;
pub use outcome::Outcome;
pub use severity::Severity;
