//! One chunk: its header, and the progress through its payload.

use std::collections::VecDeque;

use crc_fast::{CrcAlgorithm, Digest};

use super::{Error, MAGIC, PATH_LEN_MAX, SPARSE_ENTRIES_MAX};
use format::bytes::le;

const POS_FLAGS: usize = MAGIC.len();
const POS_TYPE: usize = POS_FLAGS + 1;
const POS_PATH_LEN: usize = POS_TYPE + 1;
/// Magic, flags, type and length of the path.
pub(super) const HEAD_LEN: usize = POS_PATH_LEN + 4;

/// The file was sent before and is overwritten.
const FLAG_REWRITE: u8 = 2;

const SIZE_LEN: usize = 8;
const SIZE_OFFSET: usize = 8;
const SIZE_CRC: usize = 4;
/// Length, offset and CRC of a payload.
const PAYLOAD_HEAD: usize = SIZE_LEN + SIZE_OFFSET + SIZE_CRC;
const SIZE_MAP_COUNT: usize = 4;
const SPARSE_HEAD: usize = SIZE_MAP_COUNT + PAYLOAD_HEAD;
const SIZE_MAP_ENTRY: usize = 8;
const SIZE_SEEK: usize = 8;
/// A seek, and the magic that identifies it as one.
const SEEK_AND_MAGIC: usize = SIZE_SEEK + MAGIC.len();

/// The fixed part of a chunk's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    position: u64,
    code: u8,
    pub(super) rewrite: bool,
    pub(super) path_len: usize,
}

/// The kind of a chunk, once everything but its payload is here.
#[derive(Debug)]
pub(super) enum ChunkKind {
    Payload(Box<Payload>),
    End,
    Seek(u64),
    Rename(Box<[u8]>),
    Remove,
}

impl Chunk {
    /// Parses the first [`HEAD_LEN`] bytes, whose magic was checked, of the chunk at `position`.
    pub(super) fn parse(head: &[u8], position: u64) -> Result<Self, Error> {
        let short = || Error::NoMagic { position };
        let flags = *head.get(POS_FLAGS).ok_or_else(short)?;
        let code = *head.get(POS_TYPE).ok_or_else(short)?;
        if !b"PESRD".contains(&code) {
            return Err(Error::UnknownType { position, code });
        }
        let path_len = path_len(head, POS_PATH_LEN, position)?;
        Ok(Self { position, code, rewrite: flags & FLAG_REWRITE != 0, path_len })
    }

    /// The number of bytes between path and payload, as far as the first of them, `so_far`, tell.
    pub(super) fn body_len(&self, so_far: &[u8]) -> Result<usize, Error> {
        match self.code {
            b'P' => Ok(PAYLOAD_HEAD),
            b'R' if so_far.len() < 4 => Ok(4),
            b'R' => Ok(4 + path_len(so_far, 0, self.position)?),
            b'S' if so_far.len() < SEEK_AND_MAGIC || is_seek(so_far) => Ok(SEEK_AND_MAGIC),
            b'S' => Ok(SPARSE_HEAD + self.map_len(so_far)?),
            _ => Ok(0),
        }
    }

    /// Whether the stream may end after `so_far`: a seek is identified by what follows it, and nothing follows the last one.
    pub(super) fn is_seek_at_end(&self, so_far: &[u8]) -> bool {
        self.code == b'S' && so_far.len() == SIZE_SEEK
    }

    /// The chunk's kind; `body` has the length that [`Chunk::body_len`] asked for.
    pub(super) fn kind(&self, body: &[u8]) -> Result<ChunkKind, Error> {
        Ok(match self.code {
            b'E' => ChunkKind::End,
            b'D' => ChunkKind::Remove,
            b'R' => ChunkKind::Rename(body.get(4..).unwrap_or_default().into()),
            b'S' if is_seek(body) => ChunkKind::Seek(le::u64_at(body, 0).unwrap_or_default()),
            b'S' => ChunkKind::Payload(self.sparse(body)?),
            _ => ChunkKind::Payload(self.plain(body)?),
        })
    }

    fn map_len(&self, body: &[u8]) -> Result<usize, Error> {
        let entries = le::u32_at(body, 0).unwrap_or_default();
        if entries > SPARSE_ENTRIES_MAX {
            return Err(Error::MapTooLong { position: self.position, entries });
        }
        Ok(entries as usize * SIZE_MAP_ENTRY)
    }

    fn plain(&self, body: &[u8]) -> Result<Box<Payload>, Error> {
        let (len, offset, stored) = payload_head(body);
        let end = offset.checked_add(len).ok_or(Error::TooLarge { position: self.position })?;
        let segments = VecDeque::from([Segment { skip: 0, write: len }]);
        let digest = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
        Ok(Box::new(Payload { offset, len, end, stored, at: offset, segments, digest }))
    }

    fn sparse(&self, body: &[u8]) -> Result<Box<Payload>, Error> {
        let (len, offset, stored) = payload_head(body.get(SIZE_MAP_COUNT..).unwrap_or_default());
        let map = body.get(SPARSE_HEAD..).unwrap_or_default();
        let segments: VecDeque<_> = map.chunks_exact(SIZE_MAP_ENTRY).filter_map(Segment::parse).collect();
        // A sum of 2^20 pairs of 32-bit numbers fits in 64 bits.
        let mapped = segments.iter().map(|segment| segment.write).sum();
        let skipped: u64 = segments.iter().map(|segment| segment.skip).sum();
        if mapped != len {
            return Err(Error::MapMismatch { position: self.position, len, mapped });
        }
        let end = offset.checked_add(len).and_then(|end| end.checked_add(skipped));
        let end = end.ok_or(Error::TooLarge { position: self.position })?;
        let mut digest = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
        digest.update(map);
        Ok(Box::new(Payload { offset, len, end, stored, at: offset, segments, digest }))
    }
}

/// Whether the bytes after the path of an `S` chunk are a seek.
fn is_seek(body: &[u8]) -> bool {
    body.get(SIZE_SEEK..SEEK_AND_MAGIC) == Some(&MAGIC)
}

fn path_len(bytes: &[u8], offset: usize, position: u64) -> Result<usize, Error> {
    let len = le::u32_at(bytes, offset).unwrap_or_default();
    match usize::try_from(len) {
        Ok(small) if small <= PATH_LEN_MAX => Ok(small),
        _ => Err(Error::PathTooLong { position, len }),
    }
}

/// Length, offset and CRC.
fn payload_head(bytes: &[u8]) -> (u64, u64, u32) {
    (
        le::u64_at(bytes, 0).unwrap_or_default(),
        le::u64_at(bytes, SIZE_LEN).unwrap_or_default(),
        le::u32_at(bytes, SIZE_LEN + SIZE_OFFSET).unwrap_or_default(),
    )
}

/// The payload of a chunk being read.
#[derive(Debug)]
pub(super) struct Payload {
    /// Its offset in the file.
    pub(super) offset: u64,
    /// Its bytes in the stream.
    pub(super) len: u64,
    /// Its end in the file, including holes.
    pub(super) end: u64,
    /// The CRC in the chunk.
    pub(super) stored: u32,
    /// Where the next byte belongs in the file.
    at: u64,
    /// Segments remaining, in order.
    segments: VecDeque<Segment>,
    digest: Digest,
}

/// Part of a payload: first a gap in the file, then bytes for it.
#[derive(Debug, Clone, Copy)]
struct Segment {
    skip: u64,
    write: u64,
}

impl Segment {
    fn parse(entry: &[u8]) -> Option<Self> {
        Some(Self { skip: le::u32_at(entry, 0)?.into(), write: le::u32_at(entry, 4)?.into() })
    }
}

impl Payload {
    /// The gap that comes first, if there is one: offset in the file and length.
    pub(super) fn next_skip(&mut self) -> Option<(u64, u64)> {
        while self.segments.front().is_some_and(|segment| segment.skip == 0 && segment.write == 0) {
            self.segments.pop_front();
        }
        let segment = self.segments.front_mut()?;
        let len = std::mem::take(&mut segment.skip);
        let offset = self.at;
        self.at = self.at.saturating_add(len);
        (len > 0).then_some((offset, len))
    }

    /// Bytes of the stream that are contiguous in the file; 0 at the end of the payload.
    pub(super) fn writable(&self) -> u64 {
        self.segments.front().map_or(0, |segment| segment.write)
    }

    /// Consumes `bytes`, at most [`Payload::writable`] of them, and returns their offset in the file.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> u64 {
        self.digest.update(bytes);
        let offset = self.at;
        self.at = self.at.saturating_add(bytes.len() as u64);
        if let Some(segment) = self.segments.front_mut() {
            segment.write = segment.write.saturating_sub(bytes.len() as u64);
        }
        offset
    }

    /// The CRC of the bytes received, including the map of a sparse payload.
    pub(super) fn computed(&self) -> u32 {
        // The library holds every CRC, even a CRC-32, in a wider integer.
        (self.digest.finalize() & 0xFFFF_FFFF) as u32
    }
}
