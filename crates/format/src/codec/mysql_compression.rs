//! MySQL's transparent page compression (`COMPRESSION='zlib'` or `'lz4'`, since 5.7.8).
//!
//! # Byte map
//!
//! Offsets count from the start of a page of `n` bytes; all integers are big-endian.
//!
//! | field | offset | size | meaning |
//! |---|---|---|---|
//! | `FIL_PAGE_TYPE` | 24 | 2 | 14 |
//! | `FIL_PAGE_VERSION` | 26 | 1 | 1 up to 8.0.21, 2 from 8.0.22 on |
//! | `FIL_PAGE_ALGORITHM_V1` | 27 | 1 | 1 zlib, 2 lz4 (one raw block) |
//! | `FIL_PAGE_ORIGINAL_TYPE_V1` | 28 | 2 | type of the page inside |
//! | `FIL_PAGE_ORIGINAL_SIZE_V1` | 30 | 2 | bytes inside: `n` - 38 |
//! | `FIL_PAGE_COMPRESS_SIZE_V1` | 32 | 2 | bytes of the stream |
//! | `FIL_PAGE_DATA` | 38 | | the stream: bytes 38 to `n` of the page inside, its trailer included |
//!
//! Bytes 0 to 23 and 34 to 37 are those of the page inside, including its checksum: the compressed page has none of its own. After the
//! stream come zeros up to the end of the file system block, then a hole, which reads as zeros.
//!
//! The servers never compress page 0 or R-tree pages. No tablespace flag announces the compression.
//!
//! Sources: MySQL 8.0 and 9.x `os0file.cc`, `fil0types.h`; checked on files of 5.7.37, 8.0 and 9.7.

use super::error::CodecError;
use super::inflate::{Compression, Inflater};
use crate::bytes::be;
use crate::fil::{FIL_PAGE_DATA, FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_TYPE};

/// Type of a compressed page.
pub const FIL_PAGE_COMPRESSED: u16 = 14;

const FIL_PAGE_VERSION: usize = 26;
const FIL_PAGE_ALGORITHM_V1: usize = FIL_PAGE_VERSION + 1;
pub(super) const FIL_PAGE_ORIGINAL_TYPE_V1: usize = FIL_PAGE_ALGORITHM_V1 + 1;
const FIL_PAGE_ORIGINAL_SIZE_V1: usize = FIL_PAGE_ORIGINAL_TYPE_V1 + 2;
const FIL_PAGE_COMPRESS_SIZE_V1: usize = FIL_PAGE_ORIGINAL_SIZE_V1 + 2;

/// A compressed page's description of itself in bytes 26 to 33. Pages that are also encrypted have it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionHeader {
    /// 1 or 2. If the page is also encrypted, the version decides how many bytes are encrypted.
    pub version: u8,
    /// The algorithm.
    pub compression: Compression,
    /// Type of the page inside.
    pub original_type: u16,
    /// Length of the stream in bytes; it starts at byte 38 and ends within the page.
    pub stream_len: usize,
}

impl CompressionHeader {
    /// Reads the header of `page`, which must be complete.
    ///
    /// # Errors
    /// [`CodecError`] if a field has a value that no server writes, or the stream would end beyond the page.
    pub fn parse(page: &[u8]) -> Result<Self, CodecError> {
        let too_short = CodecError::PageSize { len: page.len() };
        let room = page.len().checked_sub(FIL_PAGE_DATA).ok_or(too_short)?;
        let half = |offset| be::u16_at(page, offset).ok_or(too_short);
        let [version, algorithm] = half(FIL_PAGE_VERSION)?.to_be_bytes();
        if !(1..=2).contains(&version) {
            return Err(CodecError::BadHeader { field: "version", found: version.into() });
        }
        let compression =
            Compression::from_mysql_id(algorithm).ok_or(CodecError::UnknownAlgorithm { id: algorithm.into() })?;
        let original_size = half(FIL_PAGE_ORIGINAL_SIZE_V1)?;
        if usize::from(original_size) != room {
            return Err(CodecError::BadHeader { field: "original size", found: original_size.into() });
        }
        let stream_len = half(FIL_PAGE_COMPRESS_SIZE_V1)?;
        if usize::from(stream_len) > room {
            let room = u32::from(original_size);
            return Err(CodecError::StreamBeyondPage { len: stream_len.into(), room });
        }
        Ok(Self {
            version,
            compression,
            original_type: half(FIL_PAGE_ORIGINAL_TYPE_V1)?,
            stream_len: stream_len.into(),
        })
    }
}

/// Inflates the compressed page `page` into `out`, which has the same length: the original page with its type restored and bytes 26 to 33
/// zeroed.
///
/// # Errors
/// [`CodecError`] if header or stream is damaged; `out` is then useless.
pub fn inflate(page: &[u8], out: &mut [u8], inflater: &mut Inflater) -> Result<Compression, CodecError> {
    let header = CompressionHeader::parse(page)?;
    let len = page.len();
    let not_a_page = CodecError::PageSize { len };
    let (fil_header, body) = page.split_at_checked(FIL_PAGE_DATA).ok_or(not_a_page)?;
    let stream = body.get(..header.stream_len).ok_or(not_a_page)?;
    if out.len() != len {
        return Err(CodecError::PageSize { len: out.len() });
    }
    let (out_header, out_body) = out.split_at_mut_checked(FIL_PAGE_DATA).ok_or(not_a_page)?;
    inflater.inflate(header.compression, stream, out_body)?;
    out_header.copy_from_slice(fil_header);
    restore_header(out_header, header.original_type).ok_or(not_a_page)?;
    Ok(header.compression)
}

/// Restores the original type and clears the fields that described the undone step.
pub(super) fn restore_header(page: &mut [u8], original_type: u16) -> Option<()> {
    be::put_u16(page, FIL_PAGE_TYPE, original_type)?;
    be::put_u64(page, FIL_PAGE_FILE_FLUSH_LSN, 0)
}
