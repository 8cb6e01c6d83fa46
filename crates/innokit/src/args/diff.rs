//! `innokit diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::options::sizes::bytes;
use crate::options::until::until;
use crate::options::{Progress, ReadingArgs, Until};

pub(super) const DIFF_EXAMPLES: &str = "\
Examples:
  innokit diff /backup/monday /backup/tuesday --recovered
  innokit diff /backup/monday --redo /backup/redo --from '2026-11-30 14:05 local'            what changed since 14:05
  innokit diff /backup/monday --redo /backup/redo --from 80703969 --until 80712004 --table shop.orders
  innokit diff /backup/monday --redo /backup/redo --from '2026-11-30 14:05 local' --until '2026-11-30 14:07 local' \\
      --reverse --format sql -o undo.sql                                                     takes a bad statement back

Only the pages above the rows and the leaves that the redo log changed between the two moments are read of a table. Two sets of files are \
read whole.

Exit status:
  0  no difference
  1  there are differences
  2  something could not be compared";

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// A line for each row: `+`, `-`, or `~` and its columns that changed.
    Text,
    /// One JSON object per line.
    Jsonl,
    /// Statements that turn A into B.
    Sql,
}

/// Options of `diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// A: a datadir, a backup, or tables in one.
    #[arg(value_name = "A")]
    pub a: PathBuf,

    /// B. Without it, A is compared with itself at two moments (--from, --until).
    #[arg(value_name = "B")]
    pub b: Option<PathBuf>,

    /// Exchange A and B at the end: SQL then takes back what was changed.
    #[arg(long)]
    pub reverse: bool,

    /// Output format.
    #[arg(long, value_enum, default_value_t = DiffFormat::Text, value_name = "FORMAT")]
    pub format: DiffFormat,

    /// Print only how many rows differ, and not which.
    #[arg(long, conflicts_with = "format")]
    pub summary: bool,

    /// Write to this file [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Print the outcome as one JSON document: on standard error, with --summary on standard output.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Show a progress bar: `auto` if standard error is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Output")]
    pub progress: Progress,

    /// Read both as crash recovery would leave them: the pending redo log is applied to each page that is read, in memory.
    #[arg(long, help_heading = "Moments")]
    pub recovered: bool,

    /// Go on with an archive of the redo log (`innokit redo archive`): A up to --from, B up to --until or to the archive's end.
    #[arg(long, value_name = "DIR", help_heading = "Moments")]
    pub redo: Option<PathBuf>,

    /// The moment of A: an LSN, or with --redo a time [default: the end of its own log].
    #[arg(long, value_name = "LSN|TIME", value_parser = until, help_heading = "Moments")]
    pub from: Option<Until>,

    /// The moment of B: an LSN, or with --redo a time [default: the end of the archive, or of its own log].
    #[arg(long, value_name = "LSN|TIME", value_parser = until, help_heading = "Moments")]
    pub until: Option<Until>,

    /// Memory for the redo of each side. What does not fit goes into an unnamed file in the folder for such files (TMPDIR).
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "512M", help_heading = "Moments")]
    pub memory: u64,

    #[command(flatten)]
    pub reading: ReadingArgs,
}

impl DiffArgs {
    /// The files of both.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::once(self.a.clone()).chain(self.b.clone())
    }

    /// Whether each side is read through a view.
    pub const fn views(&self) -> [bool; 2] {
        let is_one = self.b.is_none();
        [
            is_one || self.recovered || self.from.is_some(),
            is_one || self.recovered || self.redo.is_some() || self.until.is_some(),
        ]
    }
}
