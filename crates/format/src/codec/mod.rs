//! From the page as it lies in the file to the page as the server sees it: decrypted and inflated.
//!
//! ```text
//! page 0 -> mysql_encryption::EncryptionInfo  ┐
//!        -> mariadb_encryption::CryptData     ├-> unlock -> TablespaceKey | SpaceKeys -> Context
//! keyring files -> KeyStore                   ┘
//!
//! page, PageId, Context, Scratch -> open_page -> Opened { page: what the ordinary rules judge, .. } | CodecError
//! ```
//!
//! [`open_page`] decides by the page's own marks which steps are due; a page that needs none comes back as it is, uncopied.
//! What can be verified before a page is opened (MariaDB's checksum over the stored bytes) is for the caller to verify *first*:
//! a page whose stored bytes are damaged fails here too, but then nobody can tell a wrong key from damage.
//!
//! Nothing here allocates by what the bytes say: every output is one page, in buffers that [`Scratch`] owns.
//!
//! Sketch, for one core and pages of 16 KiB: a copy (under 1 µs), AES-CBC in parallel blocks (about 5 µs), zlib (about 50 µs),
//! lz4 (about 5 µs): inflating, not decrypting, decides how many cores keep up with a disk. Measured, µs a page of text-like rows
//! (x86-64 with AES-NI): AES-256-CBC 3.5, AES-128-CBC 2.4, AES-128-CTR 3.2, zlib 36, lz4 6, lzo 21, snappy 17, lzma 380, bzip2 610.

pub(crate) mod cipher;
mod error;
mod inflate;
pub mod mariadb_compression;
pub mod mariadb_encryption;
pub mod mysql_compression;
pub mod mysql_encryption;

use crate::bytes::be;
use crate::page::checksum::NO_CHECKSUM_MAGIC;
use crate::types::PageId;

pub use error::{CodecError, ErrorKind, UnlockError};
pub use inflate::{Compression, Inflater};
pub use mariadb_encryption::{CipherMode, CryptData, CryptMode, SpaceKeys};
pub use mysql_encryption::{EncryptionInfo, InfoVersion, TablespaceKey};

/// The largest page there is, bytes.
const PAGE_SIZE_MAX: usize = 1 << 16;
/// The smallest page there is, bytes.
const PAGE_SIZE_MIN: usize = 1 << 10;

// Fields of the FIL header that are read here; what they mean differs by family and is told in the submodules.
const FIL_PAGE_OFFSET: usize = 4;
const FIL_PAGE_LSN_LOW: usize = 20;
const FIL_PAGE_TYPE: usize = 24;
const FIL_PAGE_FILE_FLUSH_LSN: usize = 26;
const FIL_PAGE_SPACE_ID: usize = 34;
const FIL_PAGE_DATA: usize = 38;

/// What must be known about a tablespace to open its pages. A copy of a page in a doublewrite area is opened with the context of
/// the tablespace that it is a copy of.
#[derive(Debug, Clone, Copy)]
pub enum Context<'k> {
    /// MySQL: the pages say all themselves, but for the key.
    MySql {
        /// The key of the tablespace, where there is one.
        key: Option<&'k TablespaceKey>,
    },
    /// MariaDB.
    MariaDb {
        /// How its pages are laid out.
        layout: MariaDbLayout,
        /// Whether the tablespace has crypt data that are switched on ([`CryptData::is_encrypted`]). Without them the mark of
        /// an encrypted page means nothing in the layouts `Classic` and `Zip`, where old servers left other bytes there.
        encrypted: bool,
        /// The keys of the tablespace, where there are any.
        keys: Option<&'k SpaceKeys>,
    },
}

/// The layouts of MariaDB's pages, as far as they matter here.
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

/// Which steps a page needs, by its own marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps {
    /// It is encrypted.
    pub decrypt: bool,
    /// It is page-compressed. (Not ROW_FORMAT=COMPRESSED, which is the page's own business.)
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
    /// All bytes of the page. The type is the original one; in MySQL's pages bytes 26 to 33 are zero where they described the
    /// step that was undone. The checksum fields are those of the original page, except in full_crc32, where no checksum of
    /// the original page exists: there its LSN halves, page number and tablespace are what can be compared.
    pub page: &'a [u8],
    /// Whether it was encrypted.
    pub decrypted: bool,
    /// The algorithm, if it was page-compressed.
    pub inflated: Option<Compression>,
}

impl<'a> Opened<'a> {
    const fn stored(page: &'a [u8]) -> Self {
        Self { page, decrypted: false, inflated: None }
    }
}

/// The buffers and decoders that opening pages needs: made once for a worker, used for all its pages.
pub struct Scratch {
    /// A page, decrypted.
    plain: Box<[u8]>,
    /// A page, inflated.
    image: Box<[u8]>,
    inflater: Inflater,
    /// MariaDB's cipher mode is not stored anywhere: the one that fitted last is tried first.
    mode: CipherMode,
}

impl Scratch {
    /// Room for pages of every size: 128 KiB and the decoders.
    #[must_use]
    pub fn new() -> Self {
        Self {
            plain: vec![0; PAGE_SIZE_MAX].into_boxed_slice(),
            image: vec![0; PAGE_SIZE_MAX].into_boxed_slice(),
            inflater: Inflater::new(),
            mode: CipherMode::Cbc,
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The buffers hold what was encrypted.
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

/// Which steps `page`, which lies at `id`, needs. Damaged marks are [`open_page`]'s to report.
#[inline]
#[must_use]
pub fn steps(page: &[u8], id: PageId, context: &Context<'_>) -> Steps {
    match *context {
        Context::MySql { .. } => mysql_encryption::steps(page),
        Context::MariaDb { layout, encrypted, .. } => mariadb_encryption::steps(page, id, layout, encrypted),
    }
}

/// Decrypts and inflates `page`, as far as its own marks ask for it.
///
/// `page` is one physical page, `id` the place where it lies. The result lies in `page` itself where no step is due, else in
/// `scratch`.
///
/// # Errors
/// [`CodecError`], whose [`kind`](CodecError::kind) tells a missing key from a wrong key from damage.
pub fn open_page<'a>(
    page: &'a [u8],
    id: PageId,
    context: &Context<'_>,
    scratch: &'a mut Scratch,
) -> Result<Opened<'a>, CodecError> {
    if !(PAGE_SIZE_MIN..=PAGE_SIZE_MAX).contains(&page.len()) {
        return Err(CodecError::PageSize { len: page.len() });
    }
    let steps = steps(page, id, context);
    if !steps.any() {
        return Ok(Opened::stored(page));
    }
    match *context {
        Context::MySql { key } => mysql_encryption::open(page, steps, key, scratch),
        Context::MariaDb { layout, keys, .. } => mariadb_encryption::open(page, id, steps, layout, keys, scratch),
    }
}

/// In which mode MariaDB's server encrypted `page`. `None` where it did not, or where the page does not tell.
///
/// # Errors
/// As [`open_page`].
pub fn cipher_mode(
    page: &[u8],
    id: PageId,
    context: &Context<'_>,
    scratch: &mut Scratch,
) -> Result<Option<CipherMode>, CodecError> {
    let Context::MariaDb { layout, .. } = *context else { return Ok(None) };
    let opened = open_page(page, id, context, scratch)?;
    // Without a checksum inside, whatever was tried first is believed.
    let is_full = matches!(layout, MariaDbLayout::FullCrc32 { .. });
    let is_sure = is_full || opened.inflated.is_some() || be::u32_at(opened.page, 0) != Some(NO_CHECKSUM_MAGIC);
    let tells = opened.decrypted && is_sure;
    Ok(tells.then_some(scratch.mode))
}

/// The first `len` bytes of a buffer of [`Scratch`], which all page sizes fit.
fn front(buffer: &mut [u8], len: usize) -> Result<&mut [u8], CodecError> {
    buffer.get_mut(..len).ok_or(CodecError::PageSize { len })
}

/// A copy of `page` at the front of `buffer`.
fn copy_into<'b>(page: &[u8], buffer: &'b mut [u8]) -> Result<&'b mut [u8], CodecError> {
    let copy = front(buffer, page.len())?;
    copy.copy_from_slice(page);
    Ok(copy)
}
