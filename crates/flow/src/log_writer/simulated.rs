//! A log on the simulated device.

use std::io;

use super::{LogOptions, LogStorage, Space, SyncBy};
use crate::FileId;
use crate::queue::sim::SimDevice;

/// The files of a log on a [`SimDevice`], from `FileId(0)` on.
#[derive(Debug, Clone)]
pub struct SimLog {
    device: SimDevice,
    files: u32,
    block_size: u32,
    syncs_itself: bool,
}

impl SimLog {
    /// Adds the files of a new log to a device that has none yet; those for recycled space are full of meaningless bytes.
    #[must_use]
    pub fn create(device: &SimDevice, options: &LogOptions) -> Self {
        for _ in 0..options.files {
            let bytes = match options.space {
                Space::Growing => Vec::new(),
                Space::Allocated | Space::Zeroed => vec![0; options.file_size as usize],
                Space::Recycled => vec![0xa5; options.file_size as usize],
            };
            device.add_file(bytes);
        }
        Self::open(device, options)
    }

    /// Opens the log's existing files, `options.files` of them.
    #[must_use]
    pub fn open(device: &SimDevice, options: &LogOptions) -> Self {
        let block_size = if options.block_size == 0 { 4096 } else { options.block_size };
        let syncs_itself = options.sync == SyncBy::Dsync;
        Self { device: device.clone(), files: options.files, block_size, syncs_itself }
    }
}

impl LogStorage for SimLog {
    fn files(&self) -> u32 {
        self.files
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn name(&self, file: u32) -> String {
        format!("simulated.{file}")
    }

    fn read_at(&self, file: u32, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while let Some(rest) = bytes.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match self.device.read_at(FileId(file), offset + got as u64, rest)? {
                0 => break,
                more => got += more,
            }
        }
        Ok(got)
    }

    fn write_at(&self, file: u32, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let written = self.device.write_at(FileId(file), offset, bytes)?;
        if self.syncs_itself {
            self.device.sync(FileId(file))?;
        }
        Ok(written)
    }

    fn sync(&self, file: u32) -> io::Result<()> {
        self.device.sync(FileId(file))
    }
}
