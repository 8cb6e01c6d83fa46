//! From a page as stored in the file to the page as the server sees it: decrypted and inflated.
//!
//! ```text
//! page 0 -> mysql_encryption::EncryptionInfo  ┐
//!        -> mariadb_encryption::CryptData     ├-> unlock -> TablespaceKey | SpaceKeys -> Context
//! keyring files -> KeyStore                   ┘
//!
//! page, PageId, Context, Scratch -> open_page -> Opened { page: what the ordinary rules judge, .. } | CodecError
//! ```
//!
//! [`open_page`] decides by the page's own header which steps are needed; a page that needs none is returned without copying. The caller
//! must *first* verify what can be verified without opening (MariaDB's checksum over the stored bytes): a page with damaged stored bytes
//! fails here too, but then damage and a wrong key look the same.
//!
//! No allocation depends on the input: every output is one page, in buffers owned by [`Scratch`].
//!
//! Sketch, for one core and 16 KiB pages: a copy (under 1 µs), AES-CBC in parallel blocks (about 5 µs), zlib (about 50 µs), lz4 (about 5
//! µs). Inflating, not decrypting, decides how many cores keep up with a disk. Measured, µs per page of text-like rows (x86-64 with
//! AES-NI): AES-256-CBC 3.5, AES-128-CBC 2.4, AES-128-CTR 3.2, zlib 36, lz4 6, lzo 21, snappy 17, lzma 380, bzip2 610.

mod deflate;
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
use crate::checksum::NO_CHECKSUM_MAGIC;
use crate::types::{PageId, PageSize};

pub use crate::cipher::CipherMode;
pub use deflate::Deflater;
pub use error::{CodecError, ErrorKind, UnlockError};
pub use inflate::{Compression, Inflater};
pub use mariadb_encryption::{CryptData, CryptMode, SpaceKeys};
pub use mysql_encryption::{EncryptionInfo, InfoVersion, TablespaceKey};
pub use opened::{MariaDbLayout, Opened, Steps};
pub use scratch::Scratch;
pub use transfer_key::tablespace_key_from_cfp;

/// The facts about a tablespace that are needed to open its pages. A copy in a doublewrite area is opened with the context of the
/// tablespace it was copied from.
#[derive(Debug, Clone, Copy)]
pub enum Context<'k> {
    /// MySQL: apart from the key, each page has all that is needed.
    MySql {
        /// The tablespace key, if there is one.
        key: Option<&'k TablespaceKey>,
    },
    /// MariaDB.
    MariaDb {
        /// The layout of its pages.
        layout: MariaDbLayout,
        /// Whether the tablespace has crypt data that is switched on ([`CryptData::is_encrypted`]). Without it, the field that marks an
        /// encrypted page means nothing in the layouts `Classic` and `Zip`, where old servers left other bytes.
        encrypted: bool,
        /// The keys of the tablespace, if there are any.
        keys: Option<&'k SpaceKeys>,
    },
}

/// The steps needed by `page`, stored at `id`. A damaged header is left to [`open_page`] to report.
#[inline]
#[must_use]
pub fn steps(page: &[u8], id: PageId, context: &Context<'_>) -> Steps {
    match *context {
        Context::MySql { .. } => mysql_encryption::steps(page),
        Context::MariaDb { layout, encrypted, .. } => mariadb_encryption::steps(page, id, layout, encrypted),
    }
}

/// Decrypts and inflates `page`, as its own header says.
///
/// `page` is one physical page, stored at `id`. The result is `page` itself if no step is needed, otherwise it is in `scratch`.
///
/// # Errors
/// [`CodecError`], whose [`kind`](CodecError::kind) distinguishes a missing key, a wrong key and damage.
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

/// The mode in which a MariaDB server encrypted `page`. `None` if it is not encrypted, or the modes cannot be told apart on this page.
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
    // Without an inner checksum, `open_page` takes the mode it tries first.
    let is_full = matches!(layout, MariaDbLayout::FullCrc32 { .. });
    let is_sure = is_full || opened.inflated.is_some() || be::u32_at(opened.page, 0) != Some(NO_CHECKSUM_MAGIC);
    let tells = opened.decrypted && is_sure;
    Ok(tells.then_some(scratch.mode))
}
