//! `innokit recover`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::keys::key_file;
use super::sizes::bytes;

pub(super) const RECOVER_EXAMPLES: &str = "\
Examples:
  innokit recover --to /srv/recovered /mnt/snapshot   recover a copy, leave the snapshot as it is
  innokit recover --dry-run /mnt/snapshot             say what would be done
  innokit recover --in-place /srv/datadir             write to its own files; if killed, run it again
  innokit recover --until 80703969 --to new /mnt/snap what was committed by that LSN, if no file is later
  innokit recover --in-place --key-file keys.txt /srv/datadir   an encrypted one, with the server's keys

For MariaDB 10.5 and later, and MySQL 8.0.30 and later. The server rolls back unfinished transactions when it starts.
Encrypted logs and tablespaces need their keys; without them nothing is written.

Exit status:
  0  recovered, or there was nothing to do
  1  the log, or a page that it changes, is damaged
  2  it could not be done";

/// Options of `recover`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("where").required(true).multiple(true).args(["to", "in_place", "dry_run"]))]
pub struct RecoverArgs {
    /// A datadir on which no server runs.
    #[arg(value_name = "DATADIR")]
    pub datadir: PathBuf,

    /// Recover a copy, made here (blocks are shared where the file system can), and leave the datadir as it is.
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,

    /// Write to the files of the datadir itself. An interrupted run is completed by the next one.
    #[arg(long, conflicts_with = "to")]
    pub in_place: bool,

    /// Do everything but write, and say what would be done.
    #[arg(long)]
    pub dry_run: bool,

    /// Stop at this LSN, as if the server had crashed there, and discard the rest of the log. Refused if a file is newer already.
    #[arg(long, value_name = "LSN")]
    pub until: Option<u64>,

    /// Bytes of memory to work in, at least 64M. If the redo does not fit, the log is read several times.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "512M")]
    pub memory: u64,

    /// Say on standard error how much memory was used.
    #[arg(short, long)]
    pub verbose: bool,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// The server's key file (file_key_management), and what opens it if it is encrypted: the key, or `FILE:` and a path. Encrypted
    /// logs and tablespaces are recovered with it, and stay encrypted.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file)]
    pub key_file: Option<(PathBuf, Option<String>)>,

    /// MySQL's keyring: the data file of component_keyring_file or of the keyring_file plugin (may be given several times).
    #[arg(long, value_name = "FILE")]
    pub keyring: Vec<PathBuf>,
}
