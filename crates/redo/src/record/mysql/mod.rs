//! Records of MySQL's redo logs.
pub mod change;
pub(crate) mod cursor;
pub mod index_info;
