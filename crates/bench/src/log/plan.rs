//! What to measure: how a log is written, on which space, by how many callers.

use std::time::Duration;

use flow::log_writer::{Fill, Space, SyncBy};
use flow::queue::sim::SimOptions;
use serde::Serialize;

/// What to measure, and for how long.
#[derive(Clone, Debug)]
pub struct LogBenchOptions {
    /// Rounds.
    pub rounds: usize,
    /// Duration of one measurement.
    pub time: Duration,
    /// Size of each log, over both files of its ring, bytes.
    pub size: u64,
    /// Bytes of a record; up to 480 fit in one log block.
    pub record: usize,
    /// Numbers of callers.
    pub callers: Vec<usize>,
    /// Bytes that a plain loop fills ahead with zeros, besides one block of the file system: powers of two, 512 to 65536.
    pub write_ahead: Vec<u32>,
    /// The simulated device; `None` to leave it out.
    pub sim: Option<SimOptions>,
    /// Scattered writes of 4 KiB on it.
    pub scattered: u64,
}

impl Default for LogBenchOptions {
    fn default() -> Self {
        Self {
            rounds: 3,
            time: Duration::from_millis(300),
            size: 64 << 20,
            record: 400,
            callers: vec![1, 2, 4, 8, 16, 32, 64],
            write_ahead: vec![8 << 10, 16 << 10, 64 << 10],
            sim: Some(SimOptions::default()),
            scattered: 256_000,
        }
    }
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// `pwrite` of 512 bytes and `fdatasync`, without a log writer: the minimum cost of a commit, including hidden reads.
    BareLoop,
    /// Log blocks without padding.
    Naive,
    /// On first touch of a file system block, zeros up to its end.
    ZeroFill,
    /// Always whole file system blocks.
    Whole,
    /// The same with direct I/O.
    Direct,
    /// Zeros on first touch, and synchronous writes (`O_DSYNC`).
    Dsync,
    /// Direct I/O, and synchronous writes (`O_DSYNC`).
    DirectDsync,
}

impl Method {
    pub(super) const ALL: [Self; 7] =
        [Self::BareLoop, Self::Naive, Self::ZeroFill, Self::Whole, Self::Direct, Self::Dsync, Self::DirectDsync];

    pub(super) const fn fill(self) -> Fill {
        match self {
            Self::BareLoop | Self::Naive => Fill::Nothing,
            Self::ZeroFill | Self::Dsync => Fill::FirstTouch,
            Self::Whole | Self::Direct | Self::DirectDsync => Fill::Whole,
        }
    }

    pub(super) const fn direct(self) -> bool {
        matches!(self, Self::Direct | Self::DirectDsync)
    }

    pub(super) const fn sync(self) -> SyncBy {
        match self {
            Self::Dsync | Self::DirectDsync => SyncBy::Dsync,
            _ => SyncBy::Fdatasync,
        }
    }
}

/// The kind of space of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// The files grow.
    Growing,
    /// Allocated by `fallocate`.
    Fallocated,
    /// Filled with zeros beforehand.
    Zeroed,
    /// An old log, overwritten.
    Recycled,
}

impl Ground {
    pub(super) const ALL: [Self; 4] = [Self::Growing, Self::Fallocated, Self::Zeroed, Self::Recycled];

    pub(super) const fn space(self) -> Space {
        match self {
            Self::Growing => Space::Growing,
            Self::Fallocated => Space::Allocated,
            Self::Zeroed => Space::Zeroed,
            Self::Recycled => Space::Recycled,
        }
    }
}

/// One row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LogPlan {
    pub method: Method,
    pub ground: Ground,
    pub callers: usize,
}
