//! What is printed, and how.

use clap::{ArgAction, Args, ValueEnum};

/// Options of commands that report what they found.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Print one JSON document instead of text.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Show a progress bar with bytes, rate and time left: `auto` if standard error is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Output")]
    pub progress: Progress,

    /// Print findings as they are made, one JSON line each, and the document as the last line.
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub json_lines: bool,

    /// Also list every table with its verdict.
    #[arg(long, help_heading = "Output")]
    pub tables: bool,

    /// List at most N findings (all are counted).
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Output")]
    pub max_findings: usize,

    /// Print every finding, and `table count` every index, however many there are [default: the first 100, or a summary; --json has all].
    #[arg(long, help_heading = "Output")]
    pub all: bool,

    /// Also list each file or index, skipped checks, skipped files, and how the bytes were read.
    #[arg(short, long, action = ArgAction::SetTrue, conflicts_with = "quiet", help_heading = "Output")]
    pub verbose: bool,

    /// Print only damage, undecided findings and what is hurt; nothing if all is well.
    #[arg(short, long, action = ArgAction::SetTrue, help_heading = "Output")]
    pub quiet: bool,
}

/// `--progress`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Progress {
    /// When standard error is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
