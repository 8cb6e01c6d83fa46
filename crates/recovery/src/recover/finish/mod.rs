//! What is left once all pages have their redo: definitions and transactions of a moment, the list of pages for the server's start, the
//! closed log, and the report.

pub(super) mod definition_files;
pub(super) mod ending;
pub(super) mod recovered;
pub(super) mod waiting;
pub(super) mod warm;
