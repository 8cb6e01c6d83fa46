//! `innokit mount` and `innokit serve`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::options::Until;
use crate::options::keys::KeyArgs;
use crate::options::sizes::bytes;
use crate::options::until::until;

pub(super) const MOUNT_EXAMPLES: &str = "\
Examples:
  innokit mount /mnt/snapshot /mnt/now --upper tmp          a crashed datadir, as its recovery would leave it; nothing is kept
  innokit mount --redo /backup/redo --until 2026-11-23T14:05:00Z /backup/monday /mnt/then --upper /var/lib/then
  umount /mnt/now                                           ends it
  innokit mount /backup/monday /mnt/new --upper /var/lib/new --hydrate    a server at once; everything is copied while it runs
  innokit mount --finish /var/lib/new                       when the server and the mount have ended: now it is a datadir

Start a server on it like on any datadir: mysqld --datadir=/mnt/now. SET is only read. What the server writes goes to --upper.

Exit status:
  0  mounted, and unmounted again
  2  it could not be done";

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  innokit serve /mnt/snapshot -- mariadbd                       until Ctrl-C; prints how to connect
  innokit serve /backup/monday --run 'CHECK TABLE shop.orders EXTENDED' -- /usr/sbin/mysqld
  innokit serve --redo /backup/redo --until 2026-11-23T14:05:00Z /backup/monday -- mysqld

Exit status:
  0  the server ran, and was stopped
  2  it could not be done
  with --run: that of the client";

/// At which moment a set is shown.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// Show the files as they were later: an archive of the redo log (`innokit redo archive`) is applied, to its end or to --until.
    #[arg(long, value_name = "DIR", help_heading = "Moment")]
    pub redo: Option<PathBuf>,

    /// Show the files as they were at this LSN, or with --redo at this time. Refused if a file is already newer.
    #[arg(long, value_name = "LSN|TIME", value_parser = until, help_heading = "Moment")]
    pub until: Option<Until>,

    /// Memory for the redo. What does not fit goes into an unnamed file in the folder for such files (TMPDIR).
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "512M", help_heading = "Moment")]
    pub memory: u64,

    #[command(flatten)]
    pub keys: KeyArgs,
}

/// Options of `mount`.
#[derive(Debug, Args)]
pub struct MountArgs {
    /// A datadir, a snapshot or a backup. It is only read.
    #[arg(value_name = "SET", required_unless_present = "finish")]
    pub set: Option<PathBuf>,

    /// Where the files appear: an empty directory.
    #[arg(value_name = "MOUNTPOINT", required_unless_present = "finish")]
    pub point: Option<PathBuf>,

    /// Where what is written goes: a directory, which the next mount continues from, or `tmp` for nothing that is kept.
    #[arg(long, value_name = "DIR|tmp", required_unless_present = "finish")]
    pub upper: Option<PathBuf>,

    /// Copy what nobody has read yet into the directory of --upper, while files are read and written, until it holds everything.
    #[arg(long, requires = "upper")]
    pub hydrate: bool,

    /// With --hydrate: copy at most so much a second.
    #[arg(long, value_name = "SIZE", value_parser = bytes, requires = "hydrate")]
    pub rate: Option<u64>,

    /// Turn the directory of an earlier mount's --upper, which holds everything, into an ordinary datadir. Nothing is mounted.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["set", "point", "upper", "hydrate", "redo", "until"])]
    pub finish: Option<PathBuf>,

    #[command(flatten)]
    pub moment: SetArgs,
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// A datadir, a snapshot or a backup. It is only read.
    #[arg(value_name = "SET")]
    pub set: PathBuf,

    #[command(flatten)]
    pub moment: SetArgs,

    /// Ask this and end: the statements are given to the server's client, whose output is printed and whose exit status is returned.
    #[arg(long, value_name = "SQL")]
    pub run: Option<String>,

    /// The server's program and options for it [default: mariadbd or mysqld in PATH, whichever wrote SET].
    #[arg(last = true, value_name = "SERVER")]
    pub server: Vec<OsString>,
}
