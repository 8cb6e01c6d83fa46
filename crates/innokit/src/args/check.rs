//! `innokit check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use inspect::Portion;

use crate::monitor::MonitorArgs;
use crate::options::output::OutputArgs;
use crate::options::reading::ReadingArgs;
use crate::options::sizes::{rate, size};
use crate::options::view::ViewArgs;

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  innokit check /var/lib/mysql              a whole datadir
  innokit check backup/ -q && echo good     only findings, then the exit status
  innokit check --json t1.ibd t2.ibd        one JSON document
  innokit check backup.xb                   a backup stream, also compressed
  mariadb-backup --backup --stream=xbstream | innokit check -
  innokit check --live --rate 200M /var/lib/mysql
                                            files that a server has open

Exit status:
  0  all well
  1  damage found
  2  some of the work could not be done: a file could not be read, a page could not be decided
  130  stopped by Ctrl-C: the report covers the work done so far";

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Files, directories (walked; files that are not InnoDB's are skipped and counted), backup streams, or `-` for standard input.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    #[command(flatten)]
    pub reading: ReadingArgs,

    /// I/O engine: `auto` is io_uring if the system permits it, else threads.
    #[arg(long, value_enum, default_value_t = Engine::Auto, value_name = "ENGINE", help_heading = "Reading")]
    pub engine: Engine,

    /// Size of a read request, a multiple of 64K [default: 1M; up to 8M from object storage].
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Reading")]
    pub block_size: Option<u32>,

    /// How closely to look: `structure` also checks every index as `innokit table check` does (not on standard input).
    #[arg(long, value_enum, default_value_t = Level::Pages, value_name = "LEVEL")]
    pub level: Level,

    /// A server has the files open: re-read a bad page before reporting it.
    #[arg(long, help_heading = "Reading")]
    pub live: bool,

    /// Read at most this many bytes per second: 200M, 1G/s.
    #[arg(long, value_name = "SIZE/s", value_parser = rate, help_heading = "Reading")]
    pub rate: Option<u64>,

    /// Check part K of N of the files, e.g. `--part 3/7` on the third of seven nights.
    #[arg(long, value_name = "K/N", value_parser = portion, help_heading = "Reading")]
    pub part: Option<Portion>,

    /// Verify only pages that were changed at this LSN or later (all are read).
    #[arg(long, value_name = "LSN", help_heading = "Reading")]
    pub since_lsn: Option<u64>,

    #[command(flatten)]
    pub view: ViewArgs,

    #[command(flatten)]
    pub monitor: MonitorArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// `--level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Every page by itself.
    Pages,
    /// Also the indexes that the pages make up.
    Structure,
}

/// `--engine`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Engine {
    /// io_uring, else threads.
    Auto,
    /// io_uring or an error.
    Uring,
    /// A pool of pread threads.
    Threads,
}

fn portion(text: &str) -> Result<Portion, String> {
    let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    let portion = numbers.and_then(|(number, of)| Portion::new(number, of));
    portion.ok_or_else(|| "a part is K/N, from 1/N to N/N: 3/7".to_owned())
}
