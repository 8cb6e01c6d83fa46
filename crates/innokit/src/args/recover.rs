//! `innokit recover`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use recovery::OutsidePlace;

use crate::options::keys::key_file;
use crate::options::memory::RedoMemory;
use crate::options::output::Progress;
use crate::options::until::{Until, until};

pub(super) const RECOVER_EXAMPLES: &str = "\
Examples:
  innokit recover --to /srv/recovered /mnt/snapshot   recover a copy, leave the snapshot as it is
  innokit recover --dry-run /mnt/snapshot             show what would be done
  innokit recover --in-place /srv/datadir             write to its own files; if killed, run it again
  innokit recover --until 80703969 --to new /mnt/snap what was committed by that LSN, if no file is later
  innokit recover --to new /backup/full --increment /backup/mon --increment /backup/tue   a full backup and what changed since
  innokit recover --redo /backup/redo --until 80703969 --to new /backup/base   a base copy and the archived log
  innokit recover --in-place --key-file keys.txt /srv/datadir   an encrypted one, with the server's keys

For MariaDB 10.5 and later, and MySQL 8.0 and later. The server rolls back unfinished transactions when it starts. \
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

    /// Copy the datadir to DIR and recover the copy (blocks are shared if the file system supports it).
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,

    /// Write to the datadir itself. If the run is interrupted, the next one continues.
    #[arg(long, conflicts_with = "to")]
    pub in_place: bool,

    /// Write to tablespaces outside of the datadir too (DATA DIRECTORY), and through links in it. Without it they are refused if the log
    /// changes them: they may be another server's. A copy (--to) gets them inside.
    #[arg(long, requires = "in_place")]
    pub with_outside: bool,

    /// With --to, put tablespaces that were outside of the datadir and beneath the directory OLD to the same place beneath NEW, which exists;
    /// repeat for several directories. All others are put inside of DIR.
    #[arg(long, value_name = "OLD=NEW", value_parser = outside, requires = "to")]
    pub outside: Vec<OutsidePlace>,

    /// An incremental backup of mariadb-backup to merge into the full one in DATADIR (repeat for several, in the order in which they were
    /// taken). It is only read.
    #[arg(long, value_name = "DIR")]
    pub increment: Vec<PathBuf>,

    /// Do everything except write, and show what would be done.
    #[arg(long)]
    pub dry_run: bool,

    /// Stop at this LSN, as if the server had crashed there, and discard the rest of the log. Refused if a file is already newer. With
    /// --redo it may be a time: what the archive had by then. Behind the time may stand an offset (+01:00), a zone (Europe/Berlin) or the
    /// word local; without one it is UTC.
    #[arg(long, value_name = "LSN|TIME", value_parser = until)]
    pub until: Option<Until>,

    /// Refuse if the archive may lack something that was committed before the time of --until. Otherwise the report says so.
    #[arg(long, requires = "until")]
    pub require_until: bool,

    /// With --redo: leave tables of engines without redo (Aria, MyISAM, CSV) as they are in the backup, although rows were, or may have been,
    /// written to them since. Otherwise that is refused.
    #[arg(long, requires = "redo")]
    pub stale_tables: bool,

    /// Use a backup although pages of it were damaged when they were copied (`backup --allow-damage`).
    #[arg(long)]
    pub allow_damage: bool,

    /// An archive of the redo log (`innokit redo archive`) to read from the base copy's checkpoint on, instead of the log in DATADIR: a base
    /// copy is recovered to the archive's end, or to --until. With --increment it continues the last of them.
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    pub redo: Option<PathBuf>,

    /// Leave ib_buffer_pool as it is. Otherwise it names the pages that the log changes, for the server to load when it starts.
    #[arg(long)]
    pub no_warm: bool,

    #[command(flatten)]
    pub memory: RedoMemory,

    /// Report the memory used on standard error.
    #[arg(short, long)]
    pub verbose: bool,

    /// Show what is done on standard error, in bytes: `auto` if that is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN")]
    pub progress: Progress,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// The server's key file (file_key_management) and, if it is encrypted, its key or `FILE:` and a path. Encrypted logs and
    /// tablespaces are recovered with it and stay encrypted.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file)]
    pub key_file: Option<(PathBuf, Option<String>)>,

    /// MySQL's keyring: the data file of component_keyring_file or of the keyring_file plugin (may be given several times).
    #[arg(long, value_name = "FILE")]
    pub keyring: Vec<PathBuf>,
}

pub(super) fn outside(text: &str) -> Result<OutsidePlace, String> {
    let parts = text.split_once('=').filter(|(old, new)| old.starts_with('/') && !new.is_empty());
    let place = parts.map(|(old, new)| OutsidePlace { old: old.into(), new: new.into() });
    place.ok_or_else(|| {
        "say the directory that the server had, from the root on, and the new one: /old/disk=/new/disk".to_owned()
    })
}
