//! `--redo`, `--until`, `--recovered`: the files as a recovery would leave them, without one.

use std::path::{Path, PathBuf};

use clap::Args;
use datadir::files::AskPath;

use super::sizes::bytes;
use super::until::{Until, until};

/// Options of every command that reads files of a datadir or a backup.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Read the files as crash recovery would leave them: the pending redo log is applied to each page that is read, in memory. PATH is a
    /// datadir or a backup, or is in one. Nothing is written.
    #[arg(long, help_heading = "View")]
    pub recovered: bool,

    /// Read the files as they were later: an archive of the redo log (`innokit redo archive`) is applied, to its end or to --until. PATH is
    /// a base copy, such as a backup, or is in one.
    #[arg(long, value_name = "DIR", help_heading = "View")]
    pub redo: Option<PathBuf>,

    /// Read the files as they were at this LSN, or with --redo at this time. Refused if a file is already newer.
    #[arg(long, value_name = "LSN|TIME", value_parser = until, help_heading = "View")]
    pub until: Option<Until>,

    /// Memory for the redo. What does not fit goes into an unnamed file in the folder for such files (TMPDIR).
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "512M", help_heading = "View")]
    pub memory: u64,
}

impl ViewArgs {
    /// Whether a view was asked for.
    pub const fn is_wanted(&self) -> bool {
        self.recovered || self.redo.is_some() || self.until.is_some()
    }

    /// What a view reads besides the paths that its command names: the whole datadir, and the archive.
    pub fn seen(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        if !self.is_wanted() {
            return Vec::new();
        }
        paths.iter().filter_map(|path| base_of(path)).chain(self.redo.clone()).collect()
    }
}

/// The datadir that the path is, or is in.
pub fn base_of(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find(|dir| dir.join("ibdata1").is_file_there()).map(Path::to_path_buf)
}
