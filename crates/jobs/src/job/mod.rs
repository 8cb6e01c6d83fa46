//! One module per job; each opens with its flow in one line.

pub mod bench;
pub mod check;
pub mod info;
pub mod recover;
pub mod redo_info;
pub mod table;
