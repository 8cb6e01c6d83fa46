//! Containers around InnoDB's files: binary logs, xbstream and tar archives, and the changed pages in incremental backups.
//!
//! This crate is pure, like `format`: each parser is pushed bytes in pieces of any size, in stream order, and returns events, verdicts and
//! typed errors. The caller does the reading. Integers are little-endian, unlike in InnoDB's own files; those of deltas are big-endian.
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
pub mod ibb;
pub mod tar;
pub mod xbstream;
