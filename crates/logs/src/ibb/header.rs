//! The first page of a file.

use format::bytes::le::{u32_at, u64_at};
use thiserror::Error;

use super::{HEADER_LEN, MAGIC};

/// Offset of the checksum of the header's own.
const CHECKSUM: usize = HEADER_LEN - 4;

/// What the first page says: `fsp_binlog_extract_header_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of a page.
    pub page_size: usize,
    /// Version of the format, major and minor.
    pub version: (u32, u32),
    /// The number of the file, as in its name.
    pub file: u64,
    /// Pages that the file was made with. `FLUSH BINARY LOGS` leaves fewer.
    pub pages: u64,
    /// LSN at which the file was begun.
    pub start_lsn: u64,
    /// After so many pages the GTID state is written again.
    pub state_interval: u64,
    /// The oldest file whose out-of-band records this file's commits may need.
    pub oldest_out_of_band: Option<u64>,
    /// The oldest file with a prepared transaction that was not yet ended.
    pub oldest_xa: Option<u64>,
}

/// Why the first page is not a header.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HeaderFault {
    /// Not what such a file begins with.
    #[error("the file does not begin as a binary log of InnoDB")]
    Magic,
    /// The checksum of its first 512 bytes does not match.
    #[error("the header's checksum is {stored:08x}, but its content gives {computed:08x}")]
    Checksum {
        /// The checksum at its end.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// No server writes such pages.
    #[error("the header claims pages of 2^{shift} bytes")]
    PageSize {
        /// The logarithm in the header.
        shift: u32,
    },
    /// It is the header of another file.
    #[error("the header is of the file number {stored}, not of {expected}")]
    File {
        /// The number in the header.
        stored: u64,
        /// The number in the file's name.
        expected: u64,
    },
    /// Bytes of the page that must be zero are not.
    #[error("at offset {offset}, the header page is not zero")]
    Padding {
        /// The first of them.
        offset: usize,
    },
}

impl Header {
    /// Reads the first [`HEADER_LEN`] bytes of a file.
    ///
    /// # Errors
    /// The first fault, in the order of [`HeaderFault`]; the number of the file and the padding are the caller's to compare.
    pub fn read(page: &[u8]) -> Result<Self, HeaderFault> {
        if !page.starts_with(&MAGIC) {
            return Err(HeaderFault::Magic);
        }
        Self::fields(page).ok_or(HeaderFault::Magic)?
    }

    fn fields(page: &[u8]) -> Option<Result<Self, HeaderFault>> {
        let (stored, computed) = (u32_at(page, CHECKSUM)?, format::checksum::crc32c(page.get(..CHECKSUM)?));
        if stored != computed {
            return Some(Err(HeaderFault::Checksum { stored, computed }));
        }
        let shift = u32_at(page, 4)?;
        if !(9..=16).contains(&shift) {
            return Some(Err(HeaderFault::PageSize { shift }));
        }
        let file = |offset| u64_at(page, offset).map(|number| (number != u64::MAX).then_some(number));
        Some(Ok(Self {
            page_size: 1 << shift,
            version: (u32_at(page, 8)?, u32_at(page, 12)?),
            file: u64_at(page, 16)?,
            pages: u64_at(page, 24)?,
            start_lsn: u64_at(page, 32)?,
            state_interval: u64_at(page, 40)?,
            oldest_out_of_band: file(48)?,
            oldest_xa: file(56)?,
        }))
    }
}
