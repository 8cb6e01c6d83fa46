//! Where MySQL 8.0 and later keep the dictionary information of a tablespace (SDI): a B-tree of its own, whose records are
//! compressed JSON. Its fields are [`crate::schema::builtin::sdi`], its JSON is for [`crate::schema::sdi`].
//!
//! Facts: `dict0sdi.cc`, `fsp0fsp.h` and `ibd2sdi.cc` of MySQL 8.0; the root lies there in every file of MySQL 9.7.

use flate2::{Decompress, FlushDecompress, Status};
use thiserror::Error;

use crate::bytes::be;
use crate::page::fsp;
use crate::page::kind::Family;
use crate::page::space_format::SpaceFormat;
use crate::record::{Record, RecordFields};
use crate::schema::builtin::SDI_DATA_FIELD;
use crate::types::PageNo;

/// From the end of the extent descriptors to the version of the SDI. 4 bytes.
const SDI_VERSION: usize = 115;
/// The root page's number follows. 4 bytes.
const SDI_ROOT: usize = SDI_VERSION + 4;
/// In the flags of the tablespace: it describes itself.
pub const SDI_FLAG: u32 = 1 << 14;

/// No object is as large: one column takes less than 4 KiB, and a table has at most 4096 of them.
pub const SDI_JSON_MAX: usize = 64 << 20;

/// The most bytes that deflate makes of one byte: it can say 258 bytes in two bits.
const RATIO_MAX: usize = 1032;

/// What kind of object a record of the SDI holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SdiKind {
    /// A table.
    Table,
    /// The tablespace itself.
    Tablespace,
    /// A number that MySQL does not write.
    Other(u32),
}

/// A record of the SDI: what it is, and its compressed JSON, or the beginning of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SdiRecord<'a> {
    /// What it describes.
    pub kind: SdiKind,
    /// Number of the object.
    pub id: u64,
    /// Bytes of the JSON, by the record's word.
    pub plain_len: u32,
    /// Bytes of the compressed JSON, by the record's word.
    pub packed_len: u32,
    /// The compressed JSON; where `reference` is there, its beginning.
    pub packed: &'a [u8],
    /// Where the rest lies: see [`crate::page::lob`].
    pub reference: Option<&'a [u8]>,
}

/// Why the JSON of an object could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SdiError {
    /// The compressed bytes are damaged, or fewer or more than the record says.
    #[error("the dictionary information cannot be inflated: {found} bytes came where {expected} are announced")]
    Inflate {
        /// Bytes that came.
        found: usize,
        /// Bytes that the record announces.
        expected: u32,
    },
}

/// The root of the tree, by page 0 (all of it); `None` where the tablespace has none.
#[must_use]
pub fn root(page0: &[u8], format: &SpaceFormat) -> Option<PageNo> {
    if format.family() != Family::MySql || format.flags() & SDI_FLAG == 0 {
        return None;
    }
    root_behind_descriptors(page0, format)
}

/// The same whatever the flags say, where the version before it is one that servers write.
pub(super) fn stored_root(page0: &[u8], format: &SpaceFormat) -> Option<PageNo> {
    let end = fsp::xdes_array_end(format.logical(), format.physical());
    root_behind_descriptors(page0, format).filter(|_| be::u32_at(page0, end + SDI_VERSION) == Some(1))
}

fn root_behind_descriptors(page0: &[u8], format: &SpaceFormat) -> Option<PageNo> {
    let end = fsp::xdes_array_end(format.logical(), format.physical());
    let root = be::u32_at(page0, end + SDI_ROOT).filter(|root| *root != 0).map(PageNo);
    root.filter(|root| *root != PageNo::NONE)
}

impl<'a> SdiRecord<'a> {
    /// Reads a leaf record whose fields were found by the layout of [`crate::schema::builtin::sdi`]. `None` where one is missing.
    #[must_use]
    pub fn read(record: &Record<'a>, fields: &RecordFields) -> Option<Self> {
        let page = record.page();
        let number = |at: usize| be::u32_at(fields.bytes(page, at)?, 0);
        let stored = fields.bytes(page, SDI_DATA_FIELD)?;
        let reference = fields.references(page).map(|(_, reference)| reference).next();
        let local = stored.len().checked_sub(reference.map_or(0, <[u8]>::len))?;
        let kind = match number(0)? {
            1 => SdiKind::Table,
            2 => SdiKind::Tablespace,
            other => SdiKind::Other(other),
        };
        Some(Self {
            kind,
            id: be::u64_at(fields.bytes(page, 1)?, 0)?,
            plain_len: number(4)?,
            packed_len: number(5)?,
            packed: stored.get(..local)?,
            reference,
        })
    }

    /// The JSON, from its compressed bytes: [`SdiRecord::packed`], or these and those that lie elsewhere.
    ///
    /// # Errors
    /// The bytes are damaged, or do not come to the length that the record names.
    pub fn json(&self, packed: &[u8]) -> Result<Vec<u8>, SdiError> {
        let expected = self.plain_len as usize;
        // One call on memory that fits: a reader with buffers of its own would cost more than the few hundred bytes of most objects.
        // The byte more is for an object that is longer than it says.
        let mut json = Vec::with_capacity(expected.min(SDI_JSON_MAX).min(packed.len().saturating_mul(RATIO_MAX)) + 1);
        let state = Decompress::new(true).decompress_vec(packed, &mut json, FlushDecompress::Finish);
        if !matches!(state, Ok(Status::StreamEnd)) || json.len() != expected {
            return Err(SdiError::Inflate { found: json.len(), expected: self.plain_len });
        }
        Ok(json)
    }
}
