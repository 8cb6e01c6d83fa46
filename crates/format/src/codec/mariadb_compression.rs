//! MariaDB's page compression (`PAGE_COMPRESSED=1`, since 10.1).
//!
//! The whole page is compressed, from byte 0, including header and trailer: the result has exactly the size of a page and is a complete
//! page. FSP, XDES and untyped pages are not compressed, nor is page 5 of the system tablespace.
//!
//! # Byte map, older layout
//!
//! | field | offset | size | type 34354: compressed | type 37401: compressed and encrypted |
//! |---|---|---|---|---|
//! | checksum | 0 | 4 | `DEADBEEF` | `DEADBEEF` |
//! | type | 24 | 2 | 34354 | 37401 |
//! | algorithm | 26 | 8 | 1 zlib, 2 lz4, 3 lzo, 4 lzma, 5 bzip2, 6 snappy | (key version and checksum) |
//! | length | 38 | 2 | bytes of the stream | bytes of the stream |
//! | algorithm | 40 | 2 | | as above |
//! | stream | 40 or 42 | length | at 40 | at 42, encrypted over exactly its length |
//!
//! # Byte map, full_crc32
//!
//! | field | offset | size | meaning |
//! |---|---|---|---|
//! | type | 24 | 2 | 8000 (hex) + `size` / 256, where `size` is what the page takes, less than a page |
//! | stream | 26 | | the algorithm is the one in the flags word of the tablespace |
//! | end | `size` - 5 | 1 | lz4, lzo, snappy: low byte of where the stream ends; 0: it ends here |
//! | checksum | `size` - 4 | 4 | CRC-32C of everything before it |
//!
//! With an end byte `v` other than 0 the stream ends at `size` - 256 + `v` - 5. Bytes from `size` on are zero.
//!
//! Sources: MariaDB 10.5 to 11.8 `fil0pagecompress.cc`, `buf0buf.cc`; all algorithms checked on files of 10.11 and 11.8.

use super::error::CodecError;
use super::inflate::{Compression, Inflater};
use crate::bytes::be;
use crate::page::fil::{FIL_PAGE_DATA, FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_TYPE};

/// A page of the older layout, compressed.
pub const FIL_PAGE_PAGE_COMPRESSED: u16 = 34354;
/// A page of the older layout, compressed and then encrypted.
pub const FIL_PAGE_PAGE_COMPRESSED_ENCRYPTED: u16 = 37401;
/// Type bit that marks compressed full_crc32 pages.
pub const FULL_CRC32_COMPRESSED: u16 = 1 << 15;

const FIL_PAGE_COMP_SIZE: usize = FIL_PAGE_DATA;
const FIL_PAGE_COMP_ALGO: usize = FIL_PAGE_COMP_SIZE + 2;
const STREAM: usize = FIL_PAGE_DATA + 2;
const STREAM_ENCRYPTED: usize = FIL_PAGE_COMP_ALGO + 2;
const STREAM_FULL_CRC32: usize = FIL_PAGE_FILE_FLUSH_LSN;
/// Length of the checksum at the end of a full_crc32 page, bytes.
pub(super) const FULL_CRC32_TRAILER: usize = 4;

/// The position of the stream in a compressed page of the older layout, and its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassicHeader {
    /// The algorithm.
    pub compression: Compression,
    /// Offset of the stream.
    pub start: usize,
    /// End of the stream, within the page.
    pub end: usize,
}

impl ClassicHeader {
    /// Reads the header of `page`, of type 34354 or 37401. Even in the latter it is not encrypted.
    ///
    /// # Errors
    /// [`CodecError`] if the algorithm is unknown or the stream would end beyond the page.
    pub fn parse(page: &[u8]) -> Result<Self, CodecError> {
        let too_short = CodecError::PageSize { len: page.len() };
        let encrypted = be::u16_at(page, FIL_PAGE_TYPE) == Some(FIL_PAGE_PAGE_COMPRESSED_ENCRYPTED);
        let (start, id) = if encrypted {
            (STREAM_ENCRYPTED, be::u16_at(page, FIL_PAGE_COMP_ALGO).map(u64::from))
        } else {
            (STREAM, be::u64_at(page, FIL_PAGE_FILE_FLUSH_LSN))
        };
        let id = id.ok_or(too_short)?;
        let compression = Compression::from_mariadb_id(id).ok_or(CodecError::UnknownAlgorithm { id })?;
        let stream_len = be::u16_at(page, FIL_PAGE_COMP_SIZE).ok_or(too_short)?;
        let room = page.len().checked_sub(start).ok_or(too_short)?;
        if usize::from(stream_len) > room {
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            return Err(CodecError::StreamBeyondPage { len: stream_len.into(), room });
        }
        Ok(Self { compression, start, end: start + usize::from(stream_len) })
    }
}

/// Inflates a compressed page of the older layout, decrypted if it was encrypted, into `out`, which has the same length.
///
/// # Errors
/// [`CodecError`] if header or stream is damaged; `out` is then useless.
pub fn inflate_classic(page: &[u8], out: &mut [u8], inflater: &mut Inflater) -> Result<Compression, CodecError> {
    let header = ClassicHeader::parse(page)?;
    let stream = page.get(header.start..header.end).unwrap_or_default();
    inflater.inflate(header.compression, stream, out)?;
    Ok(header.compression)
}

/// The space that a compressed full_crc32 page of `page.len()` bytes takes, including the checksum; `None` if it is not compressed.
///
/// # Errors
/// [`CodecError::BadHeader`] if that is no less than the page, or too little for header and checksum.
pub fn full_crc32_size(page: &[u8]) -> Result<Option<usize>, CodecError> {
    let page_type = be::u16_at(page, FIL_PAGE_TYPE).ok_or(CodecError::PageSize { len: page.len() })?;
    if page_type & FULL_CRC32_COMPRESSED == 0 {
        return Ok(None);
    }
    let size = usize::from(page_type & !FULL_CRC32_COMPRESSED) << 8;
    if size == 0 || size >= page.len() {
        let found = u32::try_from(size).unwrap_or(u32::MAX);
        return Err(CodecError::BadHeader { field: "size", found });
    }
    Ok(Some(size))
}

/// Inflates a full_crc32 page, of which `used` is the part it takes, into `out`, which has the size of a page.
///
/// # Errors
/// [`CodecError`] if the end mark or the stream is damaged; `out` is then useless.
pub fn inflate_full_crc32(
    used: &[u8],
    compression: Compression,
    out: &mut [u8],
    inflater: &mut Inflater,
) -> Result<(), CodecError> {
    let bad_end = |found| CodecError::BadHeader { field: "end of the stream", found };
    let mut end = used.len().saturating_sub(FULL_CRC32_TRAILER);
    if !compression.is_self_terminated() {
        end = end.checked_sub(1).ok_or(bad_end(0))?;
        let mark = *used.get(end).ok_or(bad_end(0))?;
        if mark != 0 {
            end = (end + usize::from(mark)).checked_sub(256).ok_or(bad_end(mark.into()))?;
        }
    }
    let stream = used.get(STREAM_FULL_CRC32..end).ok_or(bad_end(0))?;
    inflater.inflate(compression, stream, out)
}
