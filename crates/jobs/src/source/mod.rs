//! Where bytes come from: directories, tablespaces, redo logs.

pub mod content;
pub mod datadir;
pub mod keys;
pub mod name;
pub mod redo_log;
pub mod space;
