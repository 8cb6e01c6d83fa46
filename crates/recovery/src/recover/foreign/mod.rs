//! Unprepared backups that other tools took: what their notes say, and the steps that their own `--prepare` would take. Merging their
//! increments is a job of its own (`increments`), since it needs the log.

pub(super) mod backup;
pub(super) mod backup_files;
pub(super) mod reduced_files;
