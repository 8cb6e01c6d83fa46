//! `innokit unpack`.

use std::path::PathBuf;

use clap::Args;

use crate::options::output::Progress;

pub(super) const UNPACK_EXAMPLES: &str = "\
Examples:
  innokit unpack full.xb /srv/full                 a stream of xtrabackup or mariadb-backup
  ssh db mariadb-backup --backup --stream=xbstream | innokit unpack - /srv/full
  innokit unpack datadir.tar.zst /srv/copy         a tar archive, compressed as a whole
  innokit recover --in-place /srv/full             then the backup is prepared

Exit status:
  0  everything is in DIR, and durable
  1  an archive is damaged or cut off; DIR is as it was
  2  it could not be done (DIR is as it was), or members were left out or are still packed";

/// Options of `unpack`.
#[derive(Debug, Args)]
pub struct UnpackArgs {
    /// xbstream, mbstream or tar archives, also compressed as a whole (gzip, zstd, LZ4); `-` is standard input.
    #[arg(value_name = "ARCHIVE", required = true)]
    pub archives: Vec<PathBuf>,

    /// Where to put the files: a directory that is empty or does not exist yet.
    #[arg(value_name = "DIR", required = true)]
    pub dir: PathBuf,

    /// If the files in an archive are larger than this in all, decompressed, end with an error and leave nothing. The default is the free
    /// space less a twentieth.
    #[arg(long, value_name = "SIZE", value_parser = crate::options::sizes::bytes)]
    pub max_size: Option<u64>,

    /// Show what is done on standard error, in bytes: `auto` if that is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN")]
    pub progress: Progress,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}
