//! How a log is laid out, and how it is written.

use super::LogError;

/// What the files of a new log are made of. Each kind of space has its price for a commit, which the file system takes: a
/// file that grows, or an extent that was never written, changes the file system's own metadata at every sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Space {
    /// Empty files that grow with what is written. Only in the first round; then the files have been written once.
    Growing,
    /// Allocated, but never written (`fallocate`): the first write to each extent converts it.
    Allocated,
    /// Written with zeros and synced: neither size nor extents change any more.
    #[default]
    Zeroed,
    /// The files of an earlier log, written over as they are. Files that are missing or shorter are written with zeros.
    Recycled,
}

/// What a write carries beside new log blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fill {
    /// Nothing: new log blocks only. Into a block of the file system that is not cached, this costs a hidden read.
    Nothing,
    /// Zeros to the end of the file system's block, the first time that block is written to; later writes to the same block
    /// carry only what is new. The system reads nothing, because the first write covers the whole block.
    #[default]
    FirstTouch,
    /// Always whole blocks of the file system, from the first one touched on; what is there already is written once more.
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

/// When a file of the ring may be written over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recycle {
    /// Once [`LogWriter::release`](super::LogWriter::release) has said that nobody needs what is in it; before that, appends
    /// fail with [`LogError::Full`].
    #[default]
    Released,
    /// As soon as the ring comes round: the log keeps what fits and forgets the oldest.
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
    /// Files in the ring, 2 to 1000. An existing log keeps its own.
    pub files: u32,
    /// Bytes of each file, header included; a multiple of `block_size`. An existing log keeps its own.
    pub file_size: u64,
    /// The file system's block in bytes, a power of two from 4096 to 65536, or 0 to ask the file system. An existing log
    /// keeps its own.
    pub block_size: u32,
    /// What the files of a new log are made of.
    pub space: Space,
    /// What a write carries beside new log blocks. With `direct` it is [`Fill::Whole`] whatever is said here.
    pub fill: Fill,
    /// Past the page cache (`O_DIRECT`), from the log's own aligned buffer.
    pub direct: bool,
    /// What makes a write durable.
    pub sync: SyncBy,
    /// When a file of the ring may be written over.
    pub recycle: Recycle,
    /// The most bytes of log blocks that one group takes, and so one write and the longest record; a multiple of 512. Memory
    /// is twice that.
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

/// The most blocks that a group can count.
pub(super) const GROUP_MAX: u32 = 16 << 20;

impl LogOptions {
    /// The fill that is really done.
    pub(super) fn fill(&self) -> Fill {
        if self.direct { Fill::Whole } else { self.fill }
    }

    /// Refuses a group that cannot work.
    pub(super) fn check_group(&self, bytes_in_file: u64) -> Result<(), LogError> {
        let max = u64::from(GROUP_MAX).min(bytes_in_file);
        if self.group_max < 512 || !self.group_max.is_multiple_of(512) || u64::from(self.group_max) > max {
            return Err(LogError::GroupMax { group_max: self.group_max, max });
        }
        Ok(())
    }
}
