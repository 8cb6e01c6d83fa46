//! From log positions to file offsets: the ring, and the header of its files.

use super::block::LOG_BLOCK_SIZE;
use super::fields::{get4, get8, put};
use super::{LogError, LogOptions};

/// The ring, the same in the header of each of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ring {
    /// Distinguishes this log's blocks from those of another log that used the same space.
    pub(super) id: u32,
    pub(super) files: u32,
    pub(super) file_size: u64,
    /// The file system's block size; also where data starts in each file.
    pub(super) block_size: u32,
}

/// Where a log position is in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilePlace {
    pub(super) file: u32,
    /// Offset in the file.
    pub(super) offset: u64,
    /// Bytes from there to the end of the file.
    pub(super) rest: u64,
}

impl Ring {
    pub(super) fn new(id: u32, options: &LogOptions, block_size: u32) -> Result<Self, LogError> {
        let (files, file_size) = (options.files, options.file_size);
        Self { id, files, file_size, block_size }.checked()
    }

    /// Refuses impossible sizes, and those that would overflow.
    fn checked(self) -> Result<Self, LogError> {
        let Self { files, file_size, block_size, .. } = self;
        let block = u64::from(block_size);
        let fits = block_size.is_power_of_two()
            && (4096..=65536).contains(&block_size)
            && (2..=1000).contains(&files)
            && (2 * block..=1 << 48).contains(&file_size)
            && file_size.is_multiple_of(block);
        if fits { Ok(self) } else { Err(LogError::Layout { files, file_size, block_size }) }
    }

    /// Bytes of log in one file.
    pub(super) fn in_file(&self) -> u64 {
        self.file_size - u64::from(self.block_size)
    }

    /// Bytes of log in all files.
    pub(super) fn in_ring(&self) -> u64 {
        self.in_file() * u64::from(self.files)
    }

    pub(super) fn place(&self, position: u64) -> FilePlace {
        let within = position % self.in_file();
        let file = (position / self.in_file()) % u64::from(self.files);
        FilePlace { file: file as u32, offset: u64::from(self.block_size) + within, rest: self.in_file() - within }
    }

    pub(super) fn align_down(&self, position: u64) -> u64 {
        position - position % u64::from(self.block_size)
    }

    pub(super) fn align_up(&self, position: u64) -> u64 {
        position.next_multiple_of(u64::from(self.block_size))
    }

    /// How far the log may go if everything before `released` may be overwritten.
    pub(super) fn limit(&self, released: u64) -> u64 {
        released - released % self.in_file() + self.in_ring()
    }
}

pub(super) const HEADER_SIZE: usize = 4096;
const SLOT_SIZE: usize = 512;
const MAGIC: [u8; 8] = *b"flow log";
const VERSION: u32 = 1;

const POS_CRC: usize = 0;
const POS_VERSION: usize = POS_CRC + 4;
const POS_MAGIC: usize = POS_VERSION + 4;
const POS_ID: usize = POS_MAGIC + MAGIC.len();
const POS_INDEX: usize = POS_ID + 4;
const POS_FILES: usize = POS_INDEX + 4;
const POS_BLOCK_SIZE: usize = POS_FILES + 4;
const POS_FILE_SIZE: usize = POS_BLOCK_SIZE + 4;
const POS_EPOCH: usize = POS_FILE_SIZE + 8;
const POS_END: usize = POS_EPOCH + 4;
const _: () = assert!(POS_END <= SLOT_SIZE && 2 * SLOT_SIZE <= HEADER_SIZE && SLOT_SIZE == LOG_BLOCK_SIZE);

/// The header of one file, from the newer of its two slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) ring: Ring,
    pub(super) index: u32,
    /// How often the log was opened for writing; kept only in the first file.
    pub(super) epoch: u32,
}

impl FileHeader {
    /// The newer of the sound slots.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let slots = bytes.chunks_exact(SLOT_SIZE).take(2).filter_map(Self::parse_slot);
        slots.max_by_key(|header| header.epoch)
    }

    fn parse_slot(slot: &[u8]) -> Option<Self> {
        let crc = crc_fast::crc32_iscsi(slot.get(POS_VERSION..)?);
        if get4(slot, POS_CRC)? != crc || get4(slot, POS_VERSION)? != VERSION {
            return None;
        }
        if slot.get(POS_MAGIC..POS_ID)? != MAGIC {
            return None;
        }
        let ring = Ring {
            id: get4(slot, POS_ID)?,
            files: get4(slot, POS_FILES)?,
            file_size: get8(slot, POS_FILE_SIZE)?,
            block_size: get4(slot, POS_BLOCK_SIZE)?,
        };
        Some(Self { ring: ring.checked().ok()?, index: get4(slot, POS_INDEX)?, epoch: get4(slot, POS_EPOCH)? })
    }

    /// Writes the header into the slot whose turn it is; the other slot keeps the previous header.
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let Some(slot) = bytes.chunks_exact_mut(SLOT_SIZE).nth(self.epoch as usize % 2) else { return };
        slot.fill(0);
        put(slot, POS_VERSION, &VERSION.to_be_bytes());
        put(slot, POS_MAGIC, &MAGIC);
        put(slot, POS_ID, &self.ring.id.to_be_bytes());
        put(slot, POS_INDEX, &self.index.to_be_bytes());
        put(slot, POS_FILES, &self.ring.files.to_be_bytes());
        put(slot, POS_BLOCK_SIZE, &self.ring.block_size.to_be_bytes());
        put(slot, POS_FILE_SIZE, &self.ring.file_size.to_be_bytes());
        put(slot, POS_EPOCH, &self.epoch.to_be_bytes());
        let crc = crc_fast::crc32_iscsi(slot.get(POS_VERSION..).unwrap_or_default());
        put(slot, POS_CRC, &crc.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Ring {
        let options = LogOptions { files: 3, file_size: 16384, ..LogOptions::default() };
        Ring::new(7, &options, 4096).expect("fits")
    }

    #[test]
    fn the_log_goes_round_the_data_of_the_files() {
        let place = |position| {
            let FilePlace { file, offset, rest } = ring().place(position);
            (file, offset, rest)
        };
        assert_eq!(place(0), (0, 4096, 12288));
        assert_eq!(place(12287), (0, 16383, 1));
        assert_eq!(place(12288), (1, 4096, 12288));
        assert_eq!(place(3 * 12288 + 512), (0, 4608, 11776), "the second round");
        assert_eq!([ring().limit(0), ring().limit(12287), ring().limit(12288)], [36864, 36864, 49152]);
    }

    #[test]
    fn a_torn_header_leaves_the_one_before() {
        let mut bytes = vec![0; HEADER_SIZE];
        assert_eq!(FileHeader::parse(&bytes), None);
        for epoch in 1..4 {
            FileHeader { ring: ring(), index: 2, epoch }.write(&mut bytes);
        }
        assert_eq!(FileHeader::parse(&bytes), Some(FileHeader { ring: ring(), index: 2, epoch: 3 }));
        bytes[SLOT_SIZE + POS_EPOCH] ^= 1;
        assert_eq!(FileHeader::parse(&bytes).expect("the other slot").epoch, 2);
        bytes[POS_ID] ^= 1;
        assert_eq!(FileHeader::parse(&bytes), None);
    }

    #[test]
    fn byte_map_of_the_file_header_is_that_of_the_code() {
        for (at, size, name) in [
            (POS_CRC, 4, "crc"),
            (POS_VERSION, 4, "version"),
            (POS_MAGIC, MAGIC.len(), "magic"),
            (POS_ID, 4, "id"),
            (POS_INDEX, 4, "index"),
            (POS_FILES, 4, "files"),
            (POS_BLOCK_SIZE, 4, "block_size"),
            (POS_FILE_SIZE, 8, "file_size"),
            (POS_EPOCH, 4, "epoch"),
        ] {
            let row = format!("//! | {at} | {size} | `{name}` | ");
            assert!(include_str!("mod.rs").contains(&row), "{row}");
        }
    }

    #[test]
    fn rings_that_cannot_be_are_refused() {
        let make =
            |files, file_size, block| Ring::new(0, &LogOptions { files, file_size, ..LogOptions::default() }, block);
        assert!(make(2, 8192, 4096).is_ok());
        for (files, size, block) in
            [(1, 8192, 4096), (2, 4096, 4096), (2, 8192, 2048), (2, 9000, 4096), (2, 65536, 65536)]
        {
            let error = make(files, size, block).expect_err("refused").to_string();
            assert!(error.contains(&format!("{files} files of {size} bytes")), "{error}");
        }
    }
}
