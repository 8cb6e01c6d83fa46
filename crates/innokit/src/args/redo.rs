//! `innokit redo`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::keys::key_file;

pub(super) const REDO_INFO_EXAMPLES: &str = "\
Examples:
  innokit redo info /var/lib/mysql                       the log of a datadir
  innokit redo info --json ib_logfile0                   one JSON document
  innokit redo info --key-file keys.txt /var/lib/mysql   an encrypted log of MariaDB

Exit status:
  0  described
  1  the log is damaged at its newest checkpoint
  2  it could not be read, or is no redo log";

/// The commands of `redo`.
#[derive(Debug, Subcommand)]
pub enum RedoCommand {
    /// Describe a redo log: checkpoints, LSNs, what it changes since the checkpoint, by record type, tablespace and page.
    #[command(after_help = REDO_INFO_EXAMPLES)]
    Info(RedoInfoArgs),
}

/// Options of `redo info`.
#[derive(Debug, Args)]
pub struct RedoInfoArgs {
    /// A datadir, or a file of its redo log.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// List the N pages with the most records.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pages: usize,

    /// MariaDB's key file (file_key_management) and, if it is encrypted, its key or `FILE:` and a path.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file)]
    pub key_file: Option<(PathBuf, Option<String>)>,

    /// MySQL's keyring: the data file of component_keyring_file or of the keyring_file plugin (may be given several times).
    #[arg(long, value_name = "FILE")]
    pub keyring: Vec<PathBuf>,
}
