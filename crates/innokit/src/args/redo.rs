//! `innokit redo`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::server::ServerArgs;
use crate::options::keys::key_file;
use crate::options::selection::SelectionArgs;
use crate::options::sizes::bytes;

pub(super) const REDO_INFO_EXAMPLES: &str = "\
Examples:
  innokit redo info /var/lib/mysql                       the log of a datadir
  innokit redo info --database shop /var/lib/mysql       only what concerns one database
  innokit redo info --json ib_logfile0                   one JSON document
  innokit redo info --key-file keys.txt /var/lib/mysql   an encrypted log of MariaDB

Exit status:
  0  described
  1  the log is damaged at its newest checkpoint
  2  it could not be read, or is no redo log";

pub(super) const REDO_ARCHIVE_EXAMPLES: &str = "\
Examples:
  innokit redo archive --to /backup/redo /var/lib/mysql                    follow the server until stopped
  innokit redo archive --until-caught-up --to /backup/redo /var/lib/mysql  archive what there is now
  innokit redo archive --metrics redo.prom --to /backup/redo /var/lib/mysql
  innokit redo archive --socket /run/mysqld/mysqld.sock --to /backup/redo /var/lib/mysql

For MariaDB 10.8 and later, and MySQL 8.0.30 and later. The log is only read; the server needs no setting and notices nothing. Only what \
the server cannot write differently any more is archived: beside a busy server, the last few kilobytes wait for the next look. With \
--socket or --port the server is asked instead what is durable, and nothing waits. A run that was killed goes on where it ended.

Exit status:
  0  archived, until a signal or the option said to stop
  1  the server had overwritten something before it was archived: there is a gap
  2  it could not be done";

pub(super) const REDO_VERIFY_EXAMPLES: &str = "\
Examples:
  innokit redo verify /backup/redo          every segment, and whether they follow each other
  innokit redo verify --json /backup/redo   one JSON document

Exit status:
  0  one sound stretch of the log
  1  there are gaps, or damage; an index that MySQL built without redo is only named
  2  it could not be read, or is no archive";

/// The commands of `redo`.
#[derive(Debug, Subcommand)]
pub enum RedoCommand {
    /// Describe a redo log: checkpoints, LSNs, what it changes since the checkpoint, by record type, tablespace and page.
    #[command(after_help = REDO_INFO_EXAMPLES)]
    Info(RedoInfoArgs),
    /// Follow a live server's redo log into an archive, from which any moment can be recovered on top of a base copy.
    #[command(after_help = REDO_ARCHIVE_EXAMPLES)]
    Archive(RedoArchiveArgs),
    /// Verify a redo archive: every mini-transaction of every segment, and that there is no gap between them.
    #[command(after_help = REDO_VERIFY_EXAMPLES)]
    Verify(RedoVerifyArgs),
}

/// Options of `redo archive`.
#[derive(Debug, Args)]
pub struct RedoArchiveArgs {
    /// The datadir of the server.
    #[arg(value_name = "DATADIR")]
    pub datadir: PathBuf,

    /// The archive: a directory for this server alone. It is made if it is missing.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,

    /// Archive what is certain now, and stop.
    #[arg(long, conflicts_with = "until_caught_up")]
    pub once: bool,

    /// Stop when everything is archived that the log held at the start. The last block of a server with nothing to do takes 3 seconds.
    #[arg(long)]
    pub until_caught_up: bool,

    /// Milliseconds between two looks at the log.
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub poll: u64,

    /// Size of a segment, 1M to 1G.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "64M")]
    pub segment_size: u64,

    /// Also write where the archive is as Prometheus metrics into this file, every ten seconds and at the end.
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,

    /// Print one JSON document at the end instead of text.
    #[arg(long)]
    pub json: bool,

    /// The server to ask how far its log is durable, if it is named.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Options of `redo verify`.
#[derive(Debug, Args)]
pub struct RedoVerifyArgs {
    /// The archive.
    #[arg(value_name = "DIR")]
    pub archive: PathBuf,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
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

    /// List every tablespace [default: of more than 40, the 20 with the most redo].
    #[arg(long)]
    pub all: bool,

    /// List the N pages with the most records.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pages: usize,

    #[command(flatten)]
    pub selected: SelectionArgs,

    /// MariaDB's key file (file_key_management) and, if it is encrypted, its key or `FILE:` and a path.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file)]
    pub key_file: Option<(PathBuf, Option<String>)>,

    /// MySQL's keyring: the data file of component_keyring_file or of the keyring_file plugin (may be given several times).
    #[arg(long, value_name = "FILE")]
    pub keyring: Vec<PathBuf>,
}
