//! How a log is laid out, and how it is written.

use super::LogError;

/// The space of a new log's files. A file that grows, or an extent that was never written, makes the file system change its own metadata at
/// every sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Space {
    /// Empty files that grow with the log. Only in the first round: after that, the files are fully written.
    Growing,
    /// Allocated, but never written (`fallocate`): the first write to each extent converts it.
    Allocated,
    /// Filled with zeros and synced: neither size nor extents change any more.
    #[default]
    Zeroed,
    /// The files of an earlier log, overwritten as they are. Missing or short files are filled with zeros.
    Recycled,
}

/// What a write contains besides new log blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fill {
    /// Nothing: new log blocks only. If the file system's block is not cached, this costs a hidden read.
    Nothing,
    /// Zeros to the end of the file system's block on its first write; later writes to the same block contain only new log blocks. The
    /// system reads nothing, because the first write covers the whole block.
    #[default]
    FirstTouch,
    /// Always whole file system blocks, from the first one touched; their old part is written again.
    Whole,
}

/// What makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncBy {
    /// `fdatasync` after the write.
    #[default]
    Fdatasync,
    /// The write itself, by `O_DSYNC`.
    Dsync,
}

/// When a file of the ring may be overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recycle {
    /// After [`LogWriter::release`](super::LogWriter::release) has freed all of it; until then, appends fail with [`LogError::Full`].
    #[default]
    Released,
    /// As soon as the ring wraps around: the log keeps what fits and drops the oldest.
    Oldest,
}

/// How a log is laid out, and how it is written.
///
/// | way of writing | options |
/// |---|---|
/// | naive | `fill: Nothing` |
/// | zero-fill at first touch | the default |
/// | always 4 KiB | `fill: Whole` |
/// | direct | `direct: true` |
/// | `O_DSYNC` | `sync: Dsync` |
/// | growing, fallocated, zeroed, recycled | `space` |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Files in the ring, 2 to 1000. An existing log keeps its number.
    pub files: u32,
    /// Bytes of each file, including the header; a multiple of `block_size`. An existing log keeps its size.
    pub file_size: u64,
    /// The file system's block size in bytes, a power of two from 4096 to 65536, or 0 to ask the file system. An existing log keeps its
    /// size.
    pub block_size: u32,
    /// The space of a new log's files.
    pub space: Space,
    /// What a write contains besides new log blocks. `direct` implies [`Fill::Whole`].
    pub fill: Fill,
    /// Direct I/O (`O_DIRECT`), from the log's own aligned buffer.
    pub direct: bool,
    /// What makes a write durable.
    pub sync: SyncBy,
    /// When a file of the ring may be overwritten.
    pub recycle: Recycle,
    /// Maximum bytes of log blocks in a group, and so in a write, which also limits a record; a multiple of 512. Memory is twice that.
    pub group_max: u32,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            files: 4,
            file_size: 64 << 20,
            block_size: 0,
            space: Space::Zeroed,
            fill: Fill::FirstTouch,
            direct: false,
            sync: SyncBy::Fdatasync,
            recycle: Recycle::Released,
            group_max: 1 << 20,
        }
    }
}

/// Maximum size of a group, bytes: `in_group` must be able to count its blocks.
pub(super) const GROUP_MAX: u32 = 16 << 20;

impl LogOptions {
    /// The fill in effect.
    pub(super) fn fill(&self) -> Fill {
        if self.direct { Fill::Whole } else { self.fill }
    }

    /// Refuses an impossible group size.
    pub(super) fn check_group(&self, bytes_in_file: u64) -> Result<(), LogError> {
        let max = u64::from(GROUP_MAX).min(bytes_in_file);
        if self.group_max < 512 || !self.group_max.is_multiple_of(512) || u64::from(self.group_max) > max {
            return Err(LogError::GroupMax { group_max: self.group_max, max });
        }
        Ok(())
    }
}
