//! `innokit backup`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::server::ServerArgs;
use crate::options::keys::key_file;
use crate::options::output::Progress;
use crate::options::sizes::rate;

pub(super) const BACKUP_EXAMPLES: &str = "\
Examples:
  innokit backup --socket /run/mysqld/mysqld.sock --to /backup/monday /var/lib/mysql
  innokit backup --prepare --to /backup/monday /var/lib/mysql    recovered at once
  innokit backup --to - --spool /var/tmp /var/lib/mysql | ssh store 'cat > monday.xb.zst'   as a stream
  innokit backup --datadir-as /var/lib/mysql --to /backup/monday /volume/mysql   from another container
  innokit backup --incremental-since /backup/sun --to /backup/mon /var/lib/mysql   only what changed since
  innokit backup verify /backup/monday                           every file and every page, and a trial recovery

For MariaDB 10.8 and later and MySQL 8.0.30 and later, on the server's own machine; it may run in a container or a chroot there. The account \
needs these privileges:
  MariaDB  GRANT RELOAD, BINLOG MONITOR ON *.* TO it
  MySQL    GRANT BACKUP_ADMIN, PROCESS ON *.* TO it, and GRANT SELECT ON performance_schema.log_status TO it
           for tables without transactions also GRANT FLUSH_TABLES, LOCK TABLES, SELECT ON *.* TO it
The copy is finished by `innokit recover`; status 0 means that a trial of that succeeded. Takes a build with the feature sql.

Exit status:
  0  backed up, and proved
  1  a file of the server is damaged: there is no backup, or, with --allow-damage, one with that damage
  2  it could not be done: there is no backup";

pub(super) const BACKUP_VERIFY_EXAMPLES: &str = "\
Examples:
  innokit backup verify /backup/monday          every file and every page, and a trial recovery
  innokit backup verify /backup/sun --increment /backup/mon --increment /backup/tue   whether they fit together too
  innokit backup verify --spool /var/tmp /backup/monday   every index of every table too
  innokit backup verify --json /backup/monday   one JSON document

Exit status:
  0  the backup is as it was taken, and can be recovered
  1  it is void, or something is missing, changed or damaged
  2  it could not be read, or is no backup";

/// Options of `backup`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct BackupArgs {
    /// What else to do with backups.
    #[command(subcommand)]
    pub command: Option<BackupCommand>,

    /// The datadir of the server.
    #[arg(value_name = "DATADIR", required = true)]
    pub datadir: Option<PathBuf>,

    /// The backup: a directory that is empty or does not exist yet; or `-`, to send it to standard output as an xbstream.
    #[arg(long, value_name = "DIR|-", required = true)]
    pub to: Option<PathBuf>,

    /// Take an increment: only what has changed since this backup, which is a full one or an increment itself. Only its manifest is read.
    #[arg(long, value_name = "BACKUP", conflicts_with = "prepare")]
    pub incremental_since: Option<PathBuf>,

    /// Copy damaged pages as they are, list them in the manifest, and end with status 1: of a table that is damaged anyway, a backup has the
    /// rest. `restore`, `recover` and `backup verify` refuse the backup unless they are given the same option.
    #[arg(long, conflicts_with = "incremental_since")]
    pub allow_damage: bool,

    /// With `--to -`: take and prove the backup in a new directory in this one, send it from there, and remove it. There must be room for it.
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,

    /// With `--to -`: how hard zstd compresses the stream, 1 to 19; 0 sends it as it is, for `mbstream -x`.
    #[arg(long, value_name = "LEVEL", default_value_t = 3, value_parser = clap::value_parser!(i32).range(0..=19), requires = "spool")]
    pub compress: i32,

    /// Sign the finished backup with the key in this file (32 bytes or more, readable by its owner only), for `innokit restore --trusted`. All
    /// files are read once more.
    #[arg(long, value_name = "KEYFILE")]
    pub sign: Option<PathBuf>,

    /// Copy InnoDB's files no faster than this, such as 100M/s, while the server holds no lock for the backup.
    #[arg(long, value_name = "SIZE/s", value_parser = rate)]
    pub rate: Option<u64>,

    /// Let the device serve everybody else first while the server holds no lock for the backup (ionice -c idle).
    #[arg(long)]
    pub idle: bool,

    /// Show a progress bar with bytes, rate and time left: `auto` if standard error is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN")]
    pub progress: Progress,

    /// Recover the backup at once, so that a server can start on a copy of it.
    #[arg(long)]
    pub prepare: bool,

    /// Seconds to wait for the locks of other connections, such as another backup or a long ALTER TABLE.
    #[arg(long, visible_alias = "max-wait", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub lock_wait: u64,

    /// Print one JSON document, the manifest, instead of text.
    #[arg(long)]
    pub json: bool,

    /// MariaDB's key file (file_key_management) and, if it is encrypted, its key or `FILE:` and a path: for an encrypted redo log.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file)]
    pub key_file: Option<(PathBuf, Option<String>)>,

    /// MySQL's keyring, the data file of component_keyring_file: for encrypted tablespaces and an encrypted redo log. It is not part of the
    /// backup (may be given several times).
    #[arg(long, value_name = "FILE")]
    pub keyring: Vec<PathBuf>,

    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// The commands of `backup`.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Verify a backup: its files against its manifest, every page, and a trial recovery.
    #[command(after_help = BACKUP_VERIFY_EXAMPLES)]
    Verify(BackupVerifyArgs),
}

/// Options of `backup verify`.
#[derive(Debug, Args)]
pub struct BackupVerifyArgs {
    /// The backup.
    #[arg(value_name = "DIR")]
    pub backup: PathBuf,

    /// An increment that continues it (repeat for several, in the order in which they were taken): verified too, and that all its pages fit.
    #[arg(long, value_name = "DIR")]
    pub increment: Vec<PathBuf>,

    /// Restore the backup, with its increments, into a new directory in this one, and compare every index of every table with its rows. The
    /// directory is removed. There must be room for the whole server.
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,

    /// Verify that the backup and its increments were signed with the key in this file, and not changed since (repeat for several keys).
    #[arg(long, value_name = "KEYFILE")]
    pub trusted: Vec<PathBuf>,

    /// Damaged pages that the manifest lists (`backup --allow-damage`) are no fault.
    #[arg(long)]
    pub allow_damage: bool,

    /// Show what is done on standard error, in bytes: `auto` if that is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN")]
    pub progress: Progress,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// MariaDB's key file (file_key_management) and, if it is encrypted, its key or `FILE:` and a path: for an encrypted redo log.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file)]
    pub key_file: Option<(PathBuf, Option<String>)>,

    /// MySQL's keyring: the data file of component_keyring_file or of the keyring_file plugin (may be given several times).
    #[arg(long, value_name = "FILE")]
    pub keyring: Vec<PathBuf>,
}
