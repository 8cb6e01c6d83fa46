//! How files are read.

use clap::{Args, ValueEnum};
use flow::{IoMode, ReadOptions};

use super::keys::KeyArgs;
use super::selection::SelectionArgs;
use super::sizes::page_size;

/// Options of every command that reads whole files or tables.
#[derive(Debug, Args)]
pub struct ReadingArgs {
    /// How to read: `auto` uses the page cache for cached blocks and reads the rest directly from the device.
    #[arg(long, value_enum, default_value_t = Io::Auto, value_name = "MODE", help_heading = "Reading")]
    io: Io,

    /// Workers [default: the cores available to the process].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Reading")]
    threads: Option<u16>,

    /// Read requests in flight per worker [default: 8; 32 for `table check` and `table count`].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Reading")]
    depth: Option<u32>,

    /// Use this page size (4K to 64K), whatever the files say.
    #[arg(long, value_name = "SIZE", value_parser = page_size, help_heading = "Reading")]
    pub page_size: Option<u32>,

    #[command(flatten)]
    pub keys: KeyArgs,

    #[command(flatten)]
    pub selected: SelectionArgs,
}

impl ReadingArgs {
    /// `defaults`, but for what was asked for.
    pub fn options(&self, defaults: ReadOptions) -> ReadOptions {
        let io = match self.io {
            Io::Auto => IoMode::Auto,
            Io::Direct => IoMode::Direct,
            Io::Buffered => IoMode::Buffered,
        };
        ReadOptions { io, depth: self.depth.unwrap_or(defaults.depth), ..defaults }
    }

    /// How many workers.
    pub fn workers(&self, default: usize) -> usize {
        self.threads.map_or(default, usize::from)
    }
}

/// `--io`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Io {
    /// Each block from where it is fastest, without filling the page cache.
    Auto,
    /// Always the device.
    Direct,
    /// Always through the page cache.
    Buffered,
}
