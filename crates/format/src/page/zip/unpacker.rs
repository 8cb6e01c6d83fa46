//! Memory for unpacking pages.

use flate2::Decompress;

use crate::record::RecordFields;

/// Unpacks pages and owns the memory for that: about three logical pages.
pub struct Unpacker {
    /// Made with the first compressed page: most tablespaces have none, and its state is 40 KiB of zeros.
    pub(super) zlib: Option<Decompress>,
    /// Output of the stream: field descriptions, then records.
    pub(super) described: Vec<u8>,
    pub(super) data: Vec<u8>,
    /// Origins of all heap records, ascending, which is the order of their heap numbers.
    pub(super) origins: Vec<u16>,
    /// Scratch space for a log record while its length is unknown.
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
    /// An unpacker that has unpacked nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            zlib: None,
            described: Vec::new(),
            data: Vec::new(),
            origins: Vec::new(),
            draft: Vec::new(),
            fields: RecordFields::new(),
        }
    }
}
