//! The memory in which pages are unpacked.

use flate2::Decompress;

use crate::record::RecordFields;

/// Unpacks pages; owns the memory that this takes: about three logical pages.
pub struct Unpacker {
    pub(super) zlib: Decompress,
    /// What came out of the stream: descriptions of the fields, then of the records.
    pub(super) described: Vec<u8>,
    pub(super) data: Vec<u8>,
    /// Origins of all records in the heap, ascending: the order of their heap numbers.
    pub(super) origins: Vec<u16>,
    /// Where a record of the log is put together before its length is known.
    pub(super) draft: Vec<u8>,
    pub(super) fields: RecordFields,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Default for Unpacker {
    fn default() -> Self {
        Self::new()
    }
}

impl Unpacker {
    /// One that has unpacked nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            zlib: Decompress::new(true),
            described: Vec::new(),
            data: Vec::new(),
            origins: Vec::new(),
            draft: Vec::new(),
            fields: RecordFields::new(),
        }
    }
}
