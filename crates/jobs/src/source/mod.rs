//! Where bytes come from: directories, tablespaces, redo logs.

pub mod datadir;
pub mod name;
pub mod redo_log;
pub mod space;
