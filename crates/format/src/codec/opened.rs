//! The result of opening a page.

use super::inflate::Compression;

/// The layouts of MariaDB's pages that differ in how they are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MariaDbLayout {
    /// `full_crc32`, from MariaDB 10.4 on.
    FullCrc32 {
        /// The algorithm in the flags word of the tablespace; see [`Compression::from_full_crc32_flags`].
        compression: Option<Compression>,
    },
    /// The older layout.
    Classic,
    /// ROW_FORMAT=COMPRESSED, in the older layout on every server.
    Zip,
}

/// The steps a page needs, according to its own header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps {
    /// Whether it is encrypted.
    pub decrypt: bool,
    /// Whether it is page-compressed. (ROW_FORMAT=COMPRESSED is something else and not undone here.)
    pub inflate: bool,
}

impl Steps {
    /// Whether the page must be opened before it can be read.
    #[must_use]
    pub const fn any(self) -> bool {
        self.decrypt || self.inflate
    }
}

/// A page as the server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened<'a> {
    /// The complete page. Its type is the original one; in MySQL's pages bytes 26 to 33 are zero where they described the undone step. The
    /// checksum fields are those of the original page, except in full_crc32, where the original page has no checksum: there only the LSN
    /// halves, page number and space id can be checked.
    pub page: &'a [u8],
    /// Whether it was encrypted.
    pub decrypted: bool,
    /// The algorithm, if it was page-compressed.
    pub inflated: Option<Compression>,
}

impl<'a> Opened<'a> {
    pub(super) const fn stored(page: &'a [u8]) -> Self {
        Self { page, decrypted: false, inflated: None }
    }
}
