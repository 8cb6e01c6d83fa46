//! Containers around InnoDB's files that hold no pages of their own: binary logs, xbstream and tar archives, and the
//! changed pages in incremental backups.
//!
//! This crate is pure, as `format` is: each parser is pushed bytes in pieces of any size, in the order of the stream, and returns events,
//! verdicts and typed errors. The caller does the reading. Integers are little-endian, unlike those in InnoDB's own files;
//! those of deltas are not.
//!
//! ```text
//! binary log -> binlog::Verifier -> an event, its checksum right or wrong -> Summary
//! xbstream   -> xbstream::Parser -> a member begins, its bytes, it ends   -> the member's own check
//! tar        -> tar::Parser      -> the same
//! delta      -> delta::Parser    -> a changed page and its number         -> where it belongs
//! ```

#![forbid(unsafe_code)]

pub mod binlog;
pub mod delta;
pub mod tar;
pub mod xbstream;
