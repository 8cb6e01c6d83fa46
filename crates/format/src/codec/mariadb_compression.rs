//! MariaDB's page compression (`PAGE_COMPRESSED=1`, since 10.1).
//!
//! The whole page is compressed, from byte 0, including header and trailer, so inflating gives a complete page. FSP, XDES and untyped pages
//! are not compressed, nor is page 5 of the system tablespace.
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
//! | type | 24 | 2 | 8000 (hex) + `size` / 256, where `size` is the number of bytes that the page takes, less than a page |
//! | stream | 26 | | the algorithm is the one in the flags word of the tablespace |
//! | end | `size` - 5 | 1 | lz4, lzo, snappy: low byte of the offset where the stream ends; 0: it ends here |
//! | checksum | `size` - 4 | 4 | CRC-32C of everything before it |
//!
//! With an end byte `v` other than 0 the stream ends at `size` - 256 + `v` - 5. Bytes from `size` on are zero.
//!
//! Sources: MariaDB 10.5 to 11.8 `fil0pagecompress.cc`, `buf0buf.cc`; all algorithms checked on files of 10.11 and 11.8.

use super::deflate::Deflater;
use super::error::CodecError;
use super::inflate::{Compression, Inflater};
use crate::bytes::be;
use crate::checksum::{self, NO_CHECKSUM_MAGIC};
use crate::fil::{FIL_PAGE_DATA, FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_SPACE_OR_CHKSUM, FIL_PAGE_TYPE};

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
/// Unit in which the type of a compressed full_crc32 page counts the page's size, bytes.
const FULL_CRC32_UNIT: usize = 256;
/// The smallest block of any device, bytes. A server writes a page uncompressed unless compression frees at least one block.
const BLOCK_MIN: usize = 512;

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
    /// Reads the header of `page`, of type 34354 or 37401. The header is never encrypted.
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

/// Inflates a compressed page of the older layout into `out`, which has the same length. An encrypted page must be decrypted before.
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
/// [`CodecError::BadHeader`] if that space is no less than the page, or too small for header and checksum.
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

/// Inflates a full_crc32 page into `out`, which has the size of a page. `used` is the part of the page before its unused end.
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

/// Compresses a sealed page of the older layout in place, in the form to be encrypted next if `is_encrypted`. `None`, with nothing changed,
/// if compression would free no block.
pub(crate) fn compress_classic(
    page: &mut [u8],
    compression: Compression,
    is_encrypted: bool,
    deflater: &mut Deflater,
) -> Option<()> {
    let stream = deflater.deflate(compression, page)?;
    let (start, page_type) = if is_encrypted {
        (STREAM_ENCRYPTED, FIL_PAGE_PAGE_COMPRESSED_ENCRYPTED)
    } else {
        (STREAM, FIL_PAGE_PAGE_COMPRESSED)
    };
    let stream_len = u16::try_from(stream.len()).ok()?;
    put_stream(page, start, stream, start + stream.len())?;
    be::put_u32(page, FIL_PAGE_SPACE_OR_CHKSUM, NO_CHECKSUM_MAGIC)?;
    be::put_u16(page, FIL_PAGE_TYPE, page_type)?;
    be::put_u16(page, FIL_PAGE_COMP_SIZE, stream_len)?;
    if is_encrypted {
        be::put_u16(page, FIL_PAGE_COMP_ALGO, compression.mariadb_id())
    } else {
        be::put_u64(page, FIL_PAGE_FILE_FLUSH_LSN, compression.mariadb_id().into())
    }
}

/// Compresses a sealed full_crc32 page in place and sets its checksum. `None`, with nothing changed, if compression would free no block.
pub(crate) fn compress_full_crc32(page: &mut [u8], compression: Compression, deflater: &mut Deflater) -> Option<()> {
    let stream = deflater.deflate(compression, page)?;
    let stream_end = STREAM_FULL_CRC32 + stream.len();
    let mark_len = usize::from(!compression.is_self_terminated());
    let size = (stream_end + mark_len + FULL_CRC32_TRAILER).next_multiple_of(FULL_CRC32_UNIT);
    put_stream(page, STREAM_FULL_CRC32, stream, size)?;
    be::put_u16(page, FIL_PAGE_TYPE, FULL_CRC32_COMPRESSED | u16::try_from(size / FULL_CRC32_UNIT).ok()?)?;
    let checksum_at = size - FULL_CRC32_TRAILER;
    if mark_len != 0 {
        let [.., mark] = (stream_end + mark_len + FULL_CRC32_TRAILER).to_be_bytes();
        *page.get_mut(checksum_at - mark_len)? = mark;
    }
    let crc = checksum::full_crc32(page.get(..size)?);
    be::put_u32(page, checksum_at, crc)
}

/// Puts `stream` at `start`, followed by zeros. The page then takes `size` bytes. `None`, with nothing changed, if that is still all its
/// blocks.
fn put_stream(page: &mut [u8], start: usize, stream: &[u8], size: usize) -> Option<()> {
    if size.next_multiple_of(BLOCK_MIN) >= page.len() {
        return None;
    }
    let (room, rest) = page.get_mut(start..)?.split_at_mut_checked(stream.len())?;
    room.copy_from_slice(stream);
    rest.fill(0);
    Some(())
}
