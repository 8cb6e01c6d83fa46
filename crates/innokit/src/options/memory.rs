//! Memory of the commands that apply redo.

use std::io::{self, Write};

use clap::Args;
use flow::available_memory;

use super::sizes::bytes;
use crate::print::human;

/// What a command takes at least unless it is told to take less, bytes.
const SHARE_MIN: u64 = 512 << 20;

/// How much memory a command may work in.
#[derive(Debug, Clone, Copy, Args)]
pub struct RedoMemory {
    /// Memory to work in, at least 64M. Without it half of what is available, or 512M if that is more. A log whose redo does not fit is read
    /// several times.
    #[arg(long = "memory", value_name = "SIZE", value_parser = bytes)]
    asked: Option<u64>,
}

/// The memory of one run.
#[derive(Debug, Clone, Copy)]
pub struct WorkingMemory {
    /// In bytes.
    pub bytes: usize,
    /// How it was chosen, if the user left that to the program.
    why: Option<&'static str>,
}

impl RedoMemory {
    /// What the user asked for, or a share of what is available now.
    pub fn choose(self) -> WorkingMemory {
        // Half: a server may start beside the command, and the files that are read and written need the rest as a cache.
        let half = available_memory().map(|available| available / 2).filter(|half| *half > SHARE_MIN);
        let (bytes, why) = match (self.asked, half) {
            (Some(asked), _) => (asked, None),
            (None, Some(half)) => (half, Some("half of what is available")),
            (None, None) => (SHARE_MIN, Some("the least without --memory")),
        };
        WorkingMemory { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), why }
    }
}

impl WorkingMemory {
    /// Says how much the program chose.
    pub fn tell(self, out: &mut dyn Write) -> io::Result<()> {
        self.why.map_or(Ok(()), |why| writeln!(out, "memory    at most {}, {why}", human(self.bytes as f64)))
    }
}
