//! DDL statements interrupted by a crash. Each server logs their steps and finishes or undoes them at startup; crash recovery of the pages
//! alone does not.

mod mariadb;
mod mysql;

pub(super) use crate::catalog::ddl_log::mariadb::UnfinishedDdl;
pub(super) use crate::catalog::ddl_log::mysql::FilesInDdl;
