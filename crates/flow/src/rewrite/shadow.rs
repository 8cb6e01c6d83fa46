//! The shadow file: the changes to blocks, so that blocks torn by a crash can be repaired. Numbers are big-endian.
//!
//! The file is a chain of batches, each at a multiple of 4096 bytes, after the previous one:
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | `INNOKRW1` |
//! | 8 | 8 | tag of the run |
//! | 16 | 8 | number of the chain, random: batches of older chains may follow |
//! | 24 | 8 | number of the batch in its chain, from 0; batch 0 is empty, and opens the chain |
//! | 32 | 4 | files |
//! | 36 | 4 | pieces |
//! | 40 | 8 | bytes of the directory |
//! | 48 | 8 | bytes of the pieces |
//! | 56 | 4 | CRC-32C of directory and pieces |
//! | 60 | 4 | CRC-32C of the 60 bytes before |
//! | 64 | | directory: for each file its number (4), the length of its name (4) and the name; for each piece its file (4), length (4) and offset (8) |
//! | | | the pieces, in the same order |

use std::hash::{BuildHasher, Hasher, RandomState};

use crc_fast::{CrcAlgorithm, Digest};

use crate::{DIRECT_ALIGN, FileId};

/// Alignment of batches: a direct write must be aligned.
pub(super) const ALIGN: usize = DIRECT_ALIGN as usize;
pub(super) const HEADER_SIZE: usize = 64;
const MAGIC: &[u8; 8] = b"INNOKRW1";
const HEADER_CHECKED: usize = 60;

/// Bytes and their place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub file: FileId,
    pub offset: u64,
    pub bytes: &'a [u8],
}

/// The content of a batch.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub names: Vec<(FileId, Vec<u8>)>,
    pub pieces: Vec<Block<'a>>,
}

/// Identifies a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchPlace {
    pub tag: u64,
    pub chain: u64,
    pub number: u64,
}

/// The header of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub place: BatchPlace,
    files: u32,
    pieces: u32,
    directory: usize,
    data: usize,
    crc: u32,
}

/// The number of a new chain, so that old batches after it are not taken for part of it.
pub(super) fn chain_number() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

/// A batch, padded with zeros to a multiple of [`ALIGN`].
pub(super) fn batch<'a>(
    place: BatchPlace,
    names: impl Iterator<Item = (FileId, &'a [u8])>,
    pieces: impl Iterator<Item = Block<'a>> + Clone,
) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_SIZE];
    let (mut files, mut count, mut data) = (0_u32, 0_u32, 0_u64);
    for (file, name) in names {
        files += 1;
        bytes.extend(file.0.to_be_bytes());
        bytes.extend(u32::try_from(name.len()).unwrap_or(0).to_be_bytes());
        bytes.extend(name);
    }
    for piece in pieces.clone() {
        count += 1;
        data += piece.bytes.len() as u64;
        bytes.extend(piece.file.0.to_be_bytes());
        bytes.extend(u32::try_from(piece.bytes.len()).unwrap_or(0).to_be_bytes());
        bytes.extend(piece.offset.to_be_bytes());
    }
    let directory = (bytes.len() - HEADER_SIZE) as u64;
    pieces.for_each(|piece| bytes.extend(piece.bytes));
    let crc = crc32c(bytes.get(HEADER_SIZE..).unwrap_or_default());
    let mut header = MAGIC.to_vec();
    header.extend([place.tag, place.chain, place.number].iter().flat_map(|number| number.to_be_bytes()));
    header.extend(files.to_be_bytes());
    header.extend(count.to_be_bytes());
    header.extend(directory.to_be_bytes());
    header.extend(data.to_be_bytes());
    header.extend(crc.to_be_bytes());
    header.extend(crc32c(&header).to_be_bytes());
    bytes.iter_mut().zip(header).for_each(|(to, from)| *to = from);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
    bytes
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    crc.update(bytes);
    u32::try_from(crc.finalize()).unwrap_or(0)
}

/// Consumes numbers from the front.
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
    /// `None` if these bytes are not a header: the chain ends before them.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let checked = bytes.get(..HEADER_CHECKED)?;
        let mut cursor = Cursor(bytes);
        if cursor.bytes(MAGIC.len())? != MAGIC {
            return None;
        }
        let place = BatchPlace { tag: cursor.u64()?, chain: cursor.u64()?, number: cursor.u64()? };
        let (files, pieces) = (cursor.u32()?, cursor.u32()?);
        let header = Self { place, files, pieces, directory: cursor.len()?, data: cursor.len()?, crc: cursor.u32()? };
        (cursor.u32()? == crc32c(checked)).then_some(header)
    }

    /// Bytes after the header.
    pub const fn body_len(&self) -> usize {
        self.directory.saturating_add(self.data)
    }

    /// Bytes from this batch to the next.
    pub const fn len(&self) -> usize {
        self.body_len().saturating_add(HEADER_SIZE).next_multiple_of(ALIGN)
    }

    /// The content of the body; `None` if it is incomplete or damaged.
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
        let mut pieces = Vec::new();
        for _ in 0..self.pieces {
            let (file, len, offset) = (FileId(directory.u32()?), directory.u32()?, directory.u64()?);
            pieces.push(Block { file, offset, bytes: data.bytes(len as usize)? });
        }
        Some(Batch { names, pieces })
    }
}
