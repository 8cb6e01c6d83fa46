//! `innokit completions` and `innokit man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that loads them.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command to describe, word by word: `man table check` [default: innokit itself].
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub command: Vec<String>,

    /// Write the pages of all commands into this directory, one file each, as packages install them.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
