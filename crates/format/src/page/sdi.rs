//! Where MySQL 8.0 and later keep a tablespace's serialised dictionary information (SDI): a B-tree of its own whose records are compressed
//! JSON. For its fields see [`crate::schema::builtin::sdi`], for its JSON [`crate::schema::sdi`].
//!
//! Facts: `dict0sdi.cc`, `fsp0fsp.h` and `ibd2sdi.cc` of MySQL 8.0; every file of MySQL 9.7 has the root at this place.

use std::cell::RefCell;

use flate2::{Decompress, FlushDecompress, Status};
use thiserror::Error;

use crate::bytes::be;
use crate::kind::Family;
use crate::page::fsp;
use crate::page::space_format::SpaceFormat;
use crate::record::{Record, RecordFields};
use crate::schema::builtin::SDI_DATA_FIELD;
use crate::types::PageNo;

/// Distance from the end of the extent descriptors to the SDI version. 4 bytes.
const SDI_VERSION: usize = 115;
/// The number of the root page. 4 bytes.
const SDI_ROOT: usize = SDI_VERSION + 4;
/// Tablespace flag: the tablespace has SDI.
pub const SDI_FLAG: u32 = 1 << 14;

/// Upper limit of an object's JSON, bytes. A column takes less than 4 KiB, and a table has at most 4096 columns.
pub const SDI_JSON_MAX: usize = 64 << 20;

/// The highest ratio of deflate: two bits can encode 258 bytes.
const RATIO_MAX: usize = 1032;

/// The kind of object in an SDI record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SdiKind {
    /// A table.
    Table,
    /// The tablespace itself.
    Tablespace,
    /// A number that MySQL does not write.
    Other(u32),
}

/// An SDI record: its kind, and its compressed JSON or the start of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SdiRecord<'a> {
    /// The kind of object.
    pub kind: SdiKind,
    /// Id of the object.
    pub id: u64,
    /// Length of the JSON in bytes, according to the record.
    pub plain_len: u32,
    /// Length of the compressed JSON in bytes, according to the record.
    pub packed_len: u32,
    /// The compressed JSON; only its start if there is a `reference`.
    pub packed: &'a [u8],
    /// The reference to the rest: see [`crate::page::lob`].
    pub reference: Option<&'a [u8]>,
}

/// Why the JSON of an object could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SdiError {
    /// The compressed bytes are damaged, or give another length than the record says.
    #[error("the dictionary information cannot be decompressed: it gave {found} bytes instead of {expected}")]
    Inflate {
        /// Bytes decompressed.
        found: usize,
        /// Bytes expected.
        expected: u32,
    },
}

/// The root of the tree, from a complete page 0; `None` if the tablespace has no SDI.
#[must_use]
pub fn root(page0: &[u8], format: &SpaceFormat) -> Option<PageNo> {
    if format.family() != Family::MySql || format.flags() & SDI_FLAG == 0 {
        return None;
    }
    root_behind_descriptors(page0, format)
}

/// The root without regard to the flags, if the version before it is one that servers write.
pub(super) fn stored_root(page0: &[u8], format: &SpaceFormat) -> Option<PageNo> {
    let end = fsp::xdes_array_end(format.logical(), format.physical());
    root_behind_descriptors(page0, format).filter(|_| be::u32_at(page0, end + SDI_VERSION) == Some(1))
}

fn root_behind_descriptors(page0: &[u8], format: &SpaceFormat) -> Option<PageNo> {
    let end = fsp::xdes_array_end(format.logical(), format.physical());
    let root = be::u32_at(page0, end + SDI_ROOT).filter(|root| *root != 0).map(PageNo);
    root.filter(|root| *root != PageNo::NONE)
}

thread_local! {
    /// A decoder takes more than 40 KiB, and a datadir has an object or two for each table. One for all leaves no holes between what is kept.
    static ZLIB: RefCell<Decompress> = RefCell::new(Decompress::new(true));
}

impl<'a> SdiRecord<'a> {
    /// Reads a leaf record whose fields were located with [`crate::schema::builtin::sdi`]. `None` if one is missing.
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

    /// The JSON, from its compressed bytes: [`SdiRecord::packed`], plus the off-page bytes if there are any.
    ///
    /// # Errors
    /// The bytes are damaged, or do not give the length in the record.
    pub fn json(&self, packed: &[u8]) -> Result<Vec<u8>, SdiError> {
        let expected = self.plain_len as usize;
        // A single call into a buffer of the exact size: a reader's own buffers would cost more than the few hundred bytes of most objects.
        // The extra byte detects an object that is longer than the record says.
        let mut json = Vec::with_capacity(expected.min(SDI_JSON_MAX).min(packed.len().saturating_mul(RATIO_MAX)) + 1);
        let state = ZLIB.with_borrow_mut(|zlib| {
            zlib.reset(true);
            zlib.decompress_vec(packed, &mut json, FlushDecompress::Finish)
        });
        if !matches!(state, Ok(Status::StreamEnd)) || json.len() != expected {
            return Err(SdiError::Inflate { found: json.len(), expected: self.plain_len });
        }
        Ok(json)
    }
}
