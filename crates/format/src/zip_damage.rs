//! Faults of compressed pages.

use thiserror::Error;

use crate::index_rule::IndexFinding;

/// Why a page of ROW_FORMAT=COMPRESSED cannot be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ZipDamage {
    /// The sizes of page and buffer do not match the tablespace.
    #[error("{len} bytes cannot be unpacked as a compressed page into {out}")]
    Size {
        /// Bytes of the page.
        len: u32,
        /// Bytes of the buffer.
        out: u32,
    },
    /// Its directory is invalid.
    #[error("the dense directory of the compressed page names byte {origin} as a record, where no record can be")]
    Directory {
        /// The origin in the slot, or the offset where the slot has no room.
        origin: u32,
    },
    /// The page header counts more records than the page has room for.
    #[error("the compressed page counts {records} records, but its heap has {heap}")]
    Counts {
        /// Records in the chain.
        records: u16,
        /// Records in the heap.
        heap: u16,
    },
    /// Its zlib stream is damaged.
    #[error("the zlib stream of the compressed page is damaged")]
    Stream,
    /// The field descriptions in the stream are impossible.
    #[error("the compressed page describes impossible fields")]
    Fields,
    /// The stream has more bytes than fit in the page.
    #[error("the zlib stream of the compressed page holds {more} bytes more than the page")]
    TooLong {
        /// Bytes that fit in no record.
        more: u32,
    },
    /// An entry of the modification log is invalid.
    #[error("the modification log of the compressed page breaks off at byte {at}")]
    Log {
        /// Where the entry starts.
        at: u32,
    },
    /// A record missing from both stream and log.
    #[error("neither the stream nor the log of the compressed page holds the record at byte {origin}")]
    Missing {
        /// Its origin in the unpacked page.
        origin: u16,
    },
    /// A record breaks a rule.
    #[error("the compressed page cannot be unpacked: {0}")]
    Record(IndexFinding),
    /// The directory of the unpacked page would have another size than its header says.
    #[error("the compressed page marks {found} directory slots, but its header counts {expected}")]
    Slots {
        /// Slots marked, including those of infimum and supremum.
        found: u32,
        /// Slots counted.
        expected: u32,
    },
}
