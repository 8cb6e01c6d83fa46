//! `innokit restore`.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use recovery::{FileOwner, OutsidePlace};

use super::recover::outside;
use crate::options::keys::key_file;
use crate::options::memory::RedoMemory;
use crate::options::output::Progress;
use crate::options::sizes::bytes;
use crate::options::until::{Until, until};

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  innokit restore /backup/monday --to /var/lib/mysql --owner mysql         a backup of innokit, mariadb-backup or xtrabackup
  innokit restore /backup/monday --to /var/lib/mysql --owner mysql --move  no room for a second copy: the backup becomes the datadir
  innokit restore full.xb.zst --to /var/lib/mysql --owner mysql            a stream or a tar archive
  innokit restore /backup/sun --increment /backup/mon --increment /backup/tue --to /srv/restored           and what changed since
  innokit restore /backup/monday --redo /backup/redo --until 80703969 --to /srv/restored   as of an LSN since then
  innokit restore /backup/monday --redo /backup/redo --until 2026-11-23T20:15:00+01:00 --to /srv/restored

The files of a backup that innokit took are compared with its manifest. The backup itself is only read, unless --move is given.

Exit status:
  0  restored, and recovered: a server can start on it
  1  the backup is damaged; nothing is left of it in DIR
  2  it could not be done";

/// Options of `restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// A directory that holds a backup or a snapshot, or an xbstream, mbstream or tar archive (`-` is standard input).
    #[arg(value_name = "BACKUP")]
    pub backup: PathBuf,

    /// The datadir: a directory that is empty or does not exist yet.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,

    /// An increment to merge into the full backup (`innokit backup --incremental-since`; also of mariadb-backup or xtrabackup); repeat for
    /// several, in the order in which they were taken. It is only read.
    #[arg(long, value_name = "DIR")]
    pub increment: Vec<PathBuf>,

    /// Recover the backup where it is, and rename its directory to DIR: takes no second space, and leaves no backup. Both on one file system.
    #[arg(long = "move", conflicts_with_all = ["increment", "redo"])]
    pub moves: bool,

    /// With --move, write to tablespaces outside of the datadir too (DATA DIRECTORY), and leave them there. Without it they are refused: they
    /// may be another server's.
    #[arg(long, requires = "moves")]
    pub with_outside: bool,

    /// Put tablespaces that were outside of the datadir (DATA DIRECTORY, general and undo tablespaces) and beneath the directory OLD to the same
    /// place beneath NEW, which exists; repeat for several directories. All others are put inside of DIR.
    #[arg(long, value_name = "OLD=NEW", value_parser = outside, conflicts_with = "moves")]
    pub outside: Vec<OutsidePlace>,

    /// Restore only what was signed (`innokit backup --sign`) with the key in this file, and not changed since: the backup, and each increment
    /// (may be given several times).
    #[arg(long, value_name = "KEYFILE", conflicts_with = "redo")]
    pub trusted: Vec<PathBuf>,

    /// Give the datadir and all that is in it to this user and group, by names or numbers: the user that the server runs as.
    #[arg(long, value_name = "USER[:GROUP]", value_parser = owner)]
    pub owner: Option<FileOwner>,

    /// An archive of the redo log (`innokit redo archive`) that continues the backup or its last increment: restores its end, or the moment
    /// of --until.
    #[arg(long, value_name = "DIR")]
    pub redo: Option<PathBuf>,

    /// The moment to restore, since the end of the backup: an LSN or a time. Behind the time may stand an offset (+01:00), a zone
    /// (Europe/Berlin) or the word local; without one it is UTC.
    #[arg(long, value_name = "LSN|TIME", value_parser = until, requires = "redo")]
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

    #[command(flatten)]
    pub memory: RedoMemory,

    /// If the files in an archive are larger than this in all, decompressed, end with an error and leave nothing. The default is the free
    /// space less a twentieth.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub max_size: Option<u64>,

    /// Show what is done on standard error, in bytes: `auto` if that is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN")]
    pub progress: Progress,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,

    /// MariaDB's key file (file_key_management) and, if it is encrypted, its key or `FILE:` and a path.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file)]
    pub key_file: Option<(PathBuf, Option<String>)>,

    /// MySQL's keyring: the data file of component_keyring_file or of the keyring_file plugin (may be given several times).
    #[arg(long, value_name = "FILE")]
    pub keyring: Vec<PathBuf>,
}

/// `mysql`, `mysql:dba` or `999:999`. Without a group it is the user's own.
fn owner(text: &str) -> Result<FileOwner, String> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let entry = entry("/etc/passwd", user);
    let number = |entry: &Option<Vec<String>>, field: usize| entry.as_ref()?.get(field)?.parse().ok();
    let uid =
        number(&entry, 2).or_else(|| user.parse().ok()).ok_or_else(|| format!("no user {user} in /etc/passwd"))?;
    let gid = match group {
        Some(group) => number(&self::entry("/etc/group", group), 2)
            .or_else(|| group.parse().ok())
            .ok_or_else(|| format!("no group {group} in /etc/group"))?,
        None => number(&entry, 3)
            .ok_or_else(|| format!("{user} has no group in /etc/passwd: name one, as in {user}:{user}"))?,
    };
    Ok(FileOwner { uid, gid })
}

/// The fields of the line that begins with `name`.
fn entry(file: &str, name: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(file).ok()?;
    let mut lines = text.lines().map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>());
    lines.find(|fields| fields.first().is_some_and(|first| first == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_names_or_numbers() {
        assert_eq!(owner("root"), Ok(FileOwner { uid: 0, gid: 0 }));
        assert_eq!(owner("root:0"), Ok(FileOwner { uid: 0, gid: 0 }));
        assert_eq!(owner("12345:54321"), Ok(FileOwner { uid: 12_345, gid: 54_321 }));
        for text in ["12345", "no such user", "root:no such group", ""] {
            assert!(owner(text).is_err(), "{text}");
        }
    }
}
