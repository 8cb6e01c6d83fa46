//! Statements that change definitions, interrupted by a crash. Each server keeps a log of the steps of such statements and finishes them or
//! takes them back when it starts, which crash recovery of the pages alone does not do.

mod mariadb;
mod mysql;

pub(super) use mariadb::UnfinishedDdl;
pub(super) use mysql::FilesInDdl;
