//! `innokit recover`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{ArgGroup, Args};

use super::keys::key_file;
use super::sizes::bytes;

pub(super) const RECOVER_EXAMPLES: &str = "\
Examples:
  innokit recover --to /srv/recovered /mnt/snapshot   recover a copy, leave the snapshot as it is
  innokit recover --dry-run /mnt/snapshot             show what would be done
  innokit recover --in-place /srv/datadir             write to its own files; if killed, run it again
  innokit recover --until 80703969 --to new /mnt/snap what was committed by that LSN, if no file is later
  innokit recover --to new /backup/full --increment /backup/mon --increment /backup/tue   a full backup and what changed since
  innokit recover --redo /backup/redo --until 80703969 --to new /backup/base   a base copy and the archived log
  innokit recover --in-place --key-file keys.txt /srv/datadir   an encrypted one, with the server's keys

For MariaDB 10.5 and later, and MySQL 8.0 and later. The server rolls back unfinished transactions when it starts.
Encrypted logs and tablespaces need their keys; without them nothing is written.

Exit status:
  0  recovered, or there was nothing to do
  1  the log, or a page that it changes, is damaged
  2  it could not be done";

/// Where a recovery ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At an LSN.
    Lsn(u64),
    /// Where the archive was at a time.
    Time(SystemTime),
}

pub(super) fn until(text: &str) -> Result<Until, String> {
    let lsn = text.parse().map(Until::Lsn).ok();
    let says = "an LSN, or a time in UTC such as 2026-11-23T20:15:00";
    lsn.or_else(|| time(text).map(Until::Time)).ok_or_else(|| says.to_owned())
}

/// `2026-11-23T20:15:00`, with a space instead of the T, or with a Z at the end.
fn time(text: &str) -> Option<SystemTime> {
    let (date, clock) = text.trim_end_matches('Z').split_once(['T', ' '])?;
    let numbers = |text: &str, mark: char| -> Option<[u64; 3]> {
        let is_number = |part: &str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let parts: Vec<&str> = text.split(mark).collect();
        let parts: [&str; 3] =
            parts.try_into().ok().filter(|parts: &[&str; 3]| parts.iter().all(|part| is_number(part)))?;
        let [first, second, third] = parts.map(|part| part.parse().ok());
        Some([first?, second?, third?])
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(clock, ':')?);
    let is_valid = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_valid || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years start in March here, so that the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    UNIX_EPOCH.checked_add(Duration::from_secs(days * 86_400 + hour * 3600 + minute * 60 + second))
}

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

    /// An incremental backup of mariadb-backup to merge into the full one in DATADIR (repeat for several, in the order in which they were
    /// taken). It is only read.
    #[arg(long, value_name = "DIR")]
    pub increment: Vec<PathBuf>,

    /// Do everything except write, and show what would be done.
    #[arg(long)]
    pub dry_run: bool,

    /// Stop at this LSN, as if the server had crashed there, and discard the rest of the log. Refused if a file is already newer. With
    /// --redo it may be a time in UTC (2026-11-23T20:15:00): what the archive had by then.
    #[arg(long, value_name = "LSN|TIME", value_parser = until)]
    pub until: Option<Until>,

    /// An archive of the redo log (`innokit redo archive`) to read from the base copy's checkpoint on, instead of the log in DATADIR: a base
    /// copy is recovered to the archive's end, or to --until. With --increment it continues the last of them.
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    pub redo: Option<PathBuf>,

    /// Leave ib_buffer_pool as it is. Otherwise it names the pages that the log changes, for the server to load when it starts.
    #[arg(long)]
    pub no_warm: bool,

    /// Memory to work in, at least 64M. If the redo does not fit, the log is read several times.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "512M")]
    pub memory: u64,

    /// Report the memory used on standard error.
    #[arg(short, long)]
    pub verbose: bool,

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let seconds = |text| time(text)?.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
        let cases = [
            ("1970-01-01T00:00:00", 0),
            ("2000-02-29 23:59:59", 951_868_799),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("2026-11-23T20:15:00", 1_795_464_900),
            ("2100-12-31T12:00:00", 4_133_937_600),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in
            ["2026-11-23", "2026-13-01T00:00:00", "2026-11-23T24:00:00", "1969-12-31T23:59:59", "x", "2026-11-23T20:15"]
        {
            assert_eq!((seconds(text), until(text).is_err()), (None, true), "{text}");
        }
        assert_eq!(until("80703969"), Ok(Until::Lsn(80_703_969)));
    }
}
