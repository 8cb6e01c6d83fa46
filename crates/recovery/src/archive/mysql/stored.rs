//! A segment of MySQL's blocks in the archive.

use std::path::{Path, PathBuf};

use format::Lsn;
use format::checksum::crc32c;
use redo::block::LOG_BLOCK_SIZE;
use redo::mysql::follow::SoundBlocks;
use redo::mysql::mtr_reader::MtrReader;
use redo::mysql::segment::SegmentHeader;
use redo::mysql::{FORMAT_MANY_FILES, LOG_FILE_HDR_SIZE};
use redo::segment::EndRecord;

use crate::archive::error::Result;
use crate::archive::name::SegmentName;
use crate::archive::stored::read_segment;

/// A segment, read whole.
#[derive(Debug)]
pub(crate) struct StoredBlocks {
    pub name: SegmentName,
    pub path: PathBuf,
    pub header: SegmentHeader,
    /// The whole file.
    bytes: Vec<u8>,
    blocks: SoundBlocks,
}

impl StoredBlocks {
    pub fn read(dir: &Path, name: SegmentName) -> Result<Self> {
        let path = name.path(dir);
        let (bytes, header) =
            read_segment(&path, name, SegmentHeader::parse, |header| (header.start, header.timeline))?;
        let blocks = SoundBlocks::of(bytes.get(LOG_FILE_HDR_SIZE..).unwrap_or_default(), header.start);
        Ok(Self { name, path, header, bytes, blocks })
    }

    /// The LSN behind the full blocks.
    pub fn next(&self) -> Lsn {
        Lsn(self.name.start.0 + self.blocks.full as u64)
    }

    /// Where the data ends: in the last block, or behind it if it is full.
    pub fn end(&self) -> Lsn {
        self.blocks.end.unwrap_or_else(|| self.next())
    }

    /// Bytes of the header and the full blocks, and of the partly filled block behind them (0 without one).
    pub const fn len(&self) -> (u64, u64) {
        let last = if self.blocks.end.is_some() { LOG_BLOCK_SIZE as u64 } else { 0 };
        ((LOG_FILE_HDR_SIZE + self.blocks.full) as u64, last)
    }

    pub const fn file_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The sound blocks, the last of which may be partly filled.
    pub fn blocks(&self) -> &[u8] {
        let (full, last) = self.len();
        self.bytes.get(LOG_FILE_HDR_SIZE..usize::try_from(full + last).unwrap_or(0)).unwrap_or_default()
    }

    pub fn full_blocks(&self) -> &[u8] {
        self.blocks().get(..self.blocks.full).unwrap_or_default()
    }

    /// The partly filled block at the end, if there is one.
    pub fn last_block(&self) -> Option<[u8; LOG_BLOCK_SIZE]> {
        self.blocks().get(self.blocks.full..)?.first_chunk().copied()
    }

    /// The end record that closes the segment.
    pub fn end_record(&self) -> EndRecord {
        let mut reader = MtrReader::new(FORMAT_MANY_FILES, self.name.start, Vec::new());
        let (mut input, mut mtrs) = (self.blocks(), 0);
        while reader.next_mtr(&mut input).is_some() {
            mtrs += 1;
        }
        let (full, last) = self.len();
        let crc = crc32c(self.bytes.get(..usize::try_from(full + last).unwrap_or(0)).unwrap_or_default());
        let (start, timeline) = (self.header.start, self.header.timeline);
        EndRecord { start, end: self.end(), mtrs, timeline, crc }
    }
}
