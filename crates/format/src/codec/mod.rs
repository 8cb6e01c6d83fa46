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

pub mod cipher;
mod error;
mod inflate;
pub mod mariadb_compression;
pub mod mariadb_encryption;
pub mod mysql_compression;
pub mod mysql_encryption;
mod opened;
mod scratch;
mod transfer_key;

use crate::bytes::be;
use crate::page::checksum::NO_CHECKSUM_MAGIC;
use crate::types::{PageId, PageSize};

pub use cipher::CipherMode;
pub use error::{CodecError, ErrorKind, UnlockError};
pub use inflate::{Compression, Inflater};
pub use mariadb_encryption::{CryptData, CryptMode, SpaceKeys};
pub use mysql_encryption::{EncryptionInfo, InfoVersion, TablespaceKey};
pub use opened::{MariaDbLayout, Opened, Steps};
pub use scratch::Scratch;
pub use transfer_key::tablespace_key_from_cfp;

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
    if !(PageSize::MIN.bytes()..=PageSize::MAX.bytes()).contains(&page.len()) {
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
