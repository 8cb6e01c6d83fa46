//! `--database` and `--table`: which tables of a directory.

use std::path::{Path, PathBuf};

use clap::Args;
use datadir::selection::Selection;

/// Options of every command that takes a directory with many tables.
#[derive(Debug, Args)]
pub struct SelectionArgs {
    /// Of directories, take only the tables of databases with such a name: `*` stands for any letters, `?` for one. May be given several
    /// times.
    #[arg(long, value_name = "PATTERN", help_heading = "Selection")]
    pub database: Vec<String>,

    /// Of directories, take only the tables with such a name, or such a DATABASE.TABLE. May be given several times.
    #[arg(long, value_name = "PATTERN", help_heading = "Selection")]
    pub table: Vec<String>,
}

impl SelectionArgs {
    /// What they select.
    pub fn selection(&self) -> Selection {
        Selection::new(&self.database, &self.table)
    }

    /// A pattern that selects nothing there would look like an answer.
    pub fn refuse_without_directory(&self, paths: &[PathBuf]) -> Result<(), String> {
        if self.selection().is_all() || !paths.iter().any(|path| path == Path::new("-")) {
            return Ok(());
        }
        Err("`--database` and `--table` select tables of directories: they cannot be combined with standard input"
            .to_owned())
    }
}
