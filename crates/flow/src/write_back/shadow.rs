//! The shadow file: blocks, whole, with their places. Numbers are big-endian.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | `INNOKWB1` |
//! | 8 | 8 | tag of the run |
//! | 16 | 4 | files |
//! | 20 | 4 | blocks |
//! | 24 | 8 | bytes of the directory |
//! | 32 | 8 | bytes of the blocks |
//! | 40 | 4 | CRC-32C of directory and blocks |
//! | 44 | 4 | CRC-32C of the 44 bytes before |
//! | 4096 | | directory: for each file its number (4), the length of its name (4) and the name; for each block its file (4), length (4) and offset (8) |
//! | | | the blocks, in the same order |

use crc_fast::{CrcAlgorithm, Digest};

use crate::FileId;

pub(super) const HEADER_SIZE: usize = 4096;
const MAGIC: &[u8; 8] = b"INNOKWB1";
const HEADER_CHECKED: usize = 44;

/// A block and its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub file: FileId,
    pub offset: u64,
    pub bytes: &'a [u8],
}

/// What is in a shadow file.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub names: Vec<(FileId, Vec<u8>)>,
    pub blocks: Vec<Block<'a>>,
}

/// The header of a shadow file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub tag: u64,
    files: u32,
    blocks: u32,
    directory: usize,
    data: usize,
    crc: u32,
}

/// Header and directory of a shadow file that holds `blocks`.
pub(super) fn describe<'a>(
    tag: u64,
    names: impl Iterator<Item = (FileId, &'a [u8])>,
    blocks: impl Iterator<Item = Block<'a>> + Clone,
) -> (Vec<u8>, Vec<u8>) {
    let mut directory = Vec::new();
    let (mut files, mut count, mut data) = (0_u32, 0_u32, 0_u64);
    for (file, name) in names {
        files += 1;
        directory.extend(file.0.to_be_bytes());
        directory.extend(u32::try_from(name.len()).unwrap_or(0).to_be_bytes());
        directory.extend(name);
    }
    for block in blocks.clone() {
        count += 1;
        data += block.bytes.len() as u64;
        directory.extend(block.file.0.to_be_bytes());
        directory.extend(u32::try_from(block.bytes.len()).unwrap_or(0).to_be_bytes());
        directory.extend(block.offset.to_be_bytes());
    }
    let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    crc.update(&directory);
    blocks.for_each(|block| crc.update(block.bytes));
    let mut header = MAGIC.to_vec();
    header.extend(tag.to_be_bytes());
    header.extend(files.to_be_bytes());
    header.extend(count.to_be_bytes());
    header.extend((directory.len() as u64).to_be_bytes());
    header.extend(data.to_be_bytes());
    header.extend(value(crc).to_be_bytes());
    header.extend(crc32c(&header).to_be_bytes());
    header.resize(HEADER_SIZE, 0);
    (header, directory)
}

fn value(crc: Digest) -> u32 {
    u32::try_from(crc.finalize()).unwrap_or(0)
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    crc.update(bytes);
    value(crc)
}

/// Takes numbers off the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.bytes(4)?.first_chunk()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(*self.bytes(8)?.first_chunk()?))
    }

    fn len(&mut self) -> Option<usize> {
        usize::try_from(self.u64()?).ok()
    }
}

impl Header {
    /// `None` if these bytes are no header: the shadow is empty, or was not finished.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let checked = bytes.get(..HEADER_CHECKED)?;
        let mut cursor = Cursor(bytes);
        if cursor.bytes(MAGIC.len())? != MAGIC {
            return None;
        }
        let (tag, files, blocks) = (cursor.u64()?, cursor.u32()?, cursor.u32()?);
        let header = Self { tag, files, blocks, directory: cursor.len()?, data: cursor.len()?, crc: cursor.u32()? };
        (cursor.u32()? == crc32c(checked)).then_some(header)
    }

    /// Bytes behind the header.
    pub const fn body_len(&self) -> usize {
        self.directory.saturating_add(self.data)
    }

    /// What the body holds; `None` if it is not whole.
    pub fn open<'a>(&self, body: &'a [u8]) -> Option<Batch<'a>> {
        if body.len() != self.body_len() || crc32c(body) != self.crc {
            return None;
        }
        let (directory, data) = body.split_at_checked(self.directory)?;
        let (mut directory, mut data) = (Cursor(directory), Cursor(data));
        let mut names = Vec::new();
        for _ in 0..self.files {
            let (file, len) = (FileId(directory.u32()?), directory.u32()?);
            names.push((file, directory.bytes(len as usize)?.to_vec()));
        }
        let mut blocks = Vec::new();
        for _ in 0..self.blocks {
            let (file, len, offset) = (FileId(directory.u32()?), directory.u32()?, directory.u64()?);
            blocks.push(Block { file, offset, bytes: data.bytes(len as usize)? });
        }
        Some(Batch { names, blocks })
    }
}
