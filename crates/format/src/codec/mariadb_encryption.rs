//! MariaDB's tablespace encryption (since 10.1).
//!
//! # Page 0: crypt data, 38 bytes after the end of the extent descriptors
//!
//! | field | offset | size | meaning |
//! |---|---|---|---|
//! | magic | 0 | 6 | `73 0E 0C 52 45 74` (hex); anything else: never configured |
//! | scheme | 6 | 1 | 0 not encrypted, 1 encrypted |
//! | IV length | 7 | 1 | 16 |
//! | IV | 8 | 16 | the page keys are derived from it |
//! | min key version | 24 | 4 | oldest version in use |
//! | key id | 28 | 4 | the key, as the key file numbers it |
//! | mode | 32 | 1 | 0 as the server's default, 1 on, 2 off |
//!
//! # Pages
//!
//! | | older layout | full_crc32 |
//! |---|---|---|
//! | key version (0: not encrypted) | at 26, 4 bytes | at 0, 4 bytes |
//! | encrypted | 38 to `n` - 8, in zip pages too; type 37401: [the stream](super::mariadb_compression) | 26 to `size` - 4 |
//! | checksum without key | at 30, 4 bytes, over the encrypted page | in the last 4 bytes of `size` |
//! | never encrypted | page 0, XDES pages, R-tree pages, page 5 of the system tablespace | the same, but R-tree pages are |
//!
//! The page key is AES-ECB(key, IV), 16 bytes, with the key's own length (16, 24 or 32 bytes). The tweak is the space id, the page number
//! and the LSN, 4 + 4 + 8 bytes, **little-endian**. `aes_cbc`: AES-CBC(page key, tweak) over the whole blocks; the rest is xored with
//! AES-ECB(page key, tweak). `aes_ctr`: AES-CTR(page key, tweak) over everything. No file records which of the two the server uses.
//!
//! Sources: MariaDB 10.5 to 11.8 `fil0crypt.cc`, `encryption.cc`, `my_crypt.cc`; checked on files of 10.11 and 11.8.

use aes::cipher::KeyInit;
use aes::{Aes128Dec, Aes128Enc};
use zeroize::Zeroizing;

use super::error::{CodecError, UnlockError};
use super::inflate::{Compression, Inflater};
use super::mariadb_compression::{
    self, ClassicHeader, FIL_PAGE_PAGE_COMPRESSED, FIL_PAGE_PAGE_COMPRESSED_ENCRYPTED, FULL_CRC32_COMPRESSED,
    FULL_CRC32_TRAILER,
};
use super::opened::{MariaDbLayout, Opened, Steps};
use super::scratch::{Scratch, copy_into, front};
use crate::bytes::be;
use crate::checksum;
use crate::cipher::{BLOCK, CipherMode, cbc_decrypt, cbc_encrypt, ctr_apply, encrypt_block, encrypt_block_with};
use crate::fil::{
    FIL_PAGE_DATA, FIL_PAGE_DATA_END, FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_OFFSET, FIL_PAGE_SPACE_ID, FIL_PAGE_TYPE,
};
use crate::keyring::KeyStore;
use crate::kind::Scheme;
use crate::types::{PageId, SpaceId};

/// Distance of the crypt data from the end of page 0's extent descriptors, bytes.
pub const CRYPT_DATA_AFTER_XDES: usize = 38;
/// The first bytes of crypt data.
pub const CRYPT_MAGIC: [u8; 6] = [0x73, 0x0E, 0x0C, 0x52, 0x45, 0x74];

const FIL_PAGE_RTREE: u16 = 17854;
/// The lower half of a page's LSN. 4 bytes.
const FIL_PAGE_LSN_LOW: usize = 20;
/// The key version in full_crc32 pages.
const FIL_PAGE_FCRC32_KEY_VERSION: usize = 0;

/// What the administrator requested when the tablespace was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CryptMode {
    /// No request: encrypted if the server's settings say so.
    Default,
    /// `ENCRYPTED=YES`.
    On,
    /// `ENCRYPTED=NO`.
    Off,
}

/// The crypt data on page 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CryptData {
    /// 0 not encrypted, 1 encrypted.
    pub scheme: u8,
    /// The page keys are derived from it.
    pub iv: [u8; BLOCK],
    /// The oldest key version that pages may use.
    pub min_key_version: u32,
    /// The key's id in the key file.
    pub key_id: u32,
    /// The requested mode.
    pub mode: CryptMode,
}

impl CryptData {
    /// Size, bytes.
    pub const SIZE: usize = 33;

    /// Reads crypt data from `area`, which starts [`CRYPT_DATA_AFTER_XDES`] bytes after the end of page 0's extent descriptors. `None` if
    /// the tablespace has no crypt data.
    ///
    /// # Errors
    /// [`UnlockError::UnknownScheme`] for a scheme that no server writes, [`UnlockError::Truncated`] if `area` is too short.
    pub fn parse(area: &[u8]) -> Result<Option<Self>, UnlockError> {
        let Some(fields) = area.strip_prefix(&CRYPT_MAGIC) else { return Ok(None) };
        let [scheme, iv_len, ..] = *fields else { return Err(UnlockError::Truncated) };
        if scheme > 1 || usize::from(iv_len) != BLOCK {
            return Err(UnlockError::UnknownScheme { scheme, iv_len });
        }
        Self::parse_fields(scheme, fields).map(Some).ok_or(UnlockError::Truncated)
    }

    fn parse_fields(scheme: u8, fields: &[u8]) -> Option<Self> {
        let iv = *fields.get(2..)?.first_chunk()?;
        let rest = fields.get(2 + BLOCK..)?;
        let mode = match rest.get(8)? {
            1 => CryptMode::On,
            2 => CryptMode::Off,
            _ => CryptMode::Default,
        };
        Some(Self { scheme, iv, min_key_version: be::u32_at(rest, 0)?, key_id: be::u32_at(rest, 4)?, mode })
    }

    /// Whether pages of the tablespace may be encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.scheme != 0
    }

    /// The page keys for all versions of the tablespace's key in `keys`.
    ///
    /// # Errors
    /// [`UnlockError::NoKey`] if `keys` has no version of the key. Whether the keys are right shows only on the first encrypted page.
    pub fn unlock(&self, keys: &KeyStore) -> Result<SpaceKeys, UnlockError> {
        let mut versions = Vec::new();
        for (version, key) in keys.versions(self.key_id) {
            let bytes = key.bytes();
            let page_key = encrypt_block_with(bytes, &self.iv)
                .map(Zeroizing::new)
                .ok_or_else(|| UnlockError::KeyLength { name: format!("{}", self.key_id), len: bytes.len() })?;
            versions.push((version, PageKey::new(&page_key)));
        }
        if versions.is_empty() {
            return Err(UnlockError::NoKey { key_id: self.key_id });
        }
        Ok(SpaceKeys { key_id: self.key_id, versions })
    }
}

/// The page keys of a MariaDB tablespace, one for each version of its key. `Debug` output does not contain them.
#[derive(Clone)]
pub struct SpaceKeys {
    key_id: u32,
    versions: Vec<(u32, PageKey)>,
}

impl std::fmt::Debug for SpaceKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpaceKeys").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl SpaceKeys {
    /// The key's id in the key file.
    #[must_use]
    pub const fn key_id(&self) -> u32 {
        self.key_id
    }

    fn version(&self, version: u32) -> Result<&PageKey, CodecError> {
        let found = self.versions.iter().find(|(have, _)| *have == version);
        found.map(|(_, key)| key).ok_or(CodecError::NoKeyVersion { key_id: self.key_id, version })
    }

    /// The version that the server encrypts with: its newest.
    fn newest(&self) -> Option<(u32, &PageKey)> {
        self.versions.last().map(|(version, key)| (*version, key))
    }
}

/// A key that encrypts data: pages of one tablespace and key version, or a redo log.
#[derive(Clone)]
pub struct PageKey {
    decrypt: Aes128Dec,
    encrypt: Aes128Enc,
}

impl PageKey {
    /// Prepares the key for both directions.
    #[must_use]
    pub fn new(key: &[u8; BLOCK]) -> Self {
        Self { decrypt: Aes128Dec::new(key.into()), encrypt: Aes128Enc::new(key.into()) }
    }

    /// Decrypts bytes that were encrypted with `tweak`, in place.
    pub fn decrypt(&self, mode: CipherMode, tweak: &[u8; BLOCK], bytes: &mut [u8]) {
        if mode == CipherMode::Ctr {
            return ctr_apply(&self.encrypt, tweak, bytes);
        }
        cbc_decrypt(&self.decrypt, tweak, bytes);
        self.mask_tail(tweak, bytes);
    }

    /// Encrypts; the inverse of [`decrypt`](Self::decrypt).
    pub fn encrypt(&self, mode: CipherMode, tweak: &[u8; BLOCK], bytes: &mut [u8]) {
        if mode == CipherMode::Ctr {
            return ctr_apply(&self.encrypt, tweak, bytes);
        }
        cbc_encrypt(&self.encrypt, tweak, bytes);
        self.mask_tail(tweak, bytes);
    }

    /// Masks the bytes after the whole blocks, which CBC leaves alone. The same operation in both directions.
    fn mask_tail(&self, tweak: &[u8; BLOCK], bytes: &mut [u8]) {
        let mask = encrypt_block(&self.encrypt, tweak);
        let (_, tail) = bytes.as_chunks_mut::<BLOCK>();
        tail.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// Encrypts an otherwise sealed page with the newest of `keys`, as a server with these keys would. `None`, with nothing changed, if there
/// is no key or the bytes are no page that can be encrypted.
pub(crate) fn encrypt(page: &mut [u8], id: PageId, scheme: Scheme, keys: &SpaceKeys, mode: CipherMode) -> Option<()> {
    let (version, key) = keys.newest()?;
    let layout = match scheme {
        Scheme::FullCrc32 => MariaDbLayout::FullCrc32 { compression: None },
        Scheme::Classic => MariaDbLayout::Classic,
        Scheme::Zip => MariaDbLayout::Zip,
    };
    // In the older layout the type says whether to encrypt a stream or the whole page. In full_crc32 it says how many bytes.
    let is_stream =
        layout == MariaDbLayout::Classic && be::u16_at(page, FIL_PAGE_TYPE) == Some(FIL_PAGE_PAGE_COMPRESSED_ENCRYPTED);
    let job = Job::new(page, id, Steps { decrypt: false, inflate: is_stream }, layout).ok()?;
    let ((start, end), tweak, used) = (job.encrypted_range().ok()?, job.tweak(), job.used);
    key.encrypt(mode, &tweak, page.get_mut(start..end)?);
    match scheme {
        Scheme::FullCrc32 => {
            be::put_u32(page, FIL_PAGE_FCRC32_KEY_VERSION, version)?;
            let checksum = checksum::full_crc32(page.get(..used)?);
            be::put_u32(page, used.checked_sub(FULL_CRC32_TRAILER)?, checksum)
        }
        Scheme::Classic | Scheme::Zip => {
            let sum = if scheme == Scheme::Zip { checksum::zip_crc32 } else { checksum::crc32 };
            let checksum = sum(page);
            be::put_u32(page, FIL_PAGE_FILE_FLUSH_LSN, version)?;
            be::put_u32(page, FIL_PAGE_FILE_FLUSH_LSN + 4, checksum)
        }
    }
}

/// Which steps a MariaDB page needs.
#[inline]
pub(super) fn steps(page: &[u8], id: PageId, layout: MariaDbLayout, encrypted: bool) -> Steps {
    let page_type = be::u16_at(page, FIL_PAGE_TYPE).unwrap_or(0);
    let key_version = key_version(page, layout);
    match (layout, page_type) {
        (MariaDbLayout::FullCrc32 { .. }, _) => {
            Steps { decrypt: key_version != 0, inflate: page_type & FULL_CRC32_COMPRESSED != 0 }
        }
        (MariaDbLayout::Classic, FIL_PAGE_PAGE_COMPRESSED) => Steps { decrypt: false, inflate: true },
        (MariaDbLayout::Classic, FIL_PAGE_PAGE_COMPRESSED_ENCRYPTED) => Steps { decrypt: true, inflate: true },
        // R-tree pages have a sequence number in place of the key version.
        (_, FIL_PAGE_RTREE) => Steps::default(),
        _ => Steps { decrypt: encrypted && key_version != 0 && id.page_no.0 != 0, inflate: false },
    }
}

fn key_version(page: &[u8], layout: MariaDbLayout) -> u32 {
    let offset = match layout {
        MariaDbLayout::FullCrc32 { .. } => FIL_PAGE_FCRC32_KEY_VERSION,
        MariaDbLayout::Classic | MariaDbLayout::Zip => FIL_PAGE_FILE_FLUSH_LSN,
    };
    be::u32_at(page, offset).unwrap_or(0)
}

/// A page being opened: the facts known before any step is undone.
#[derive(Clone, Copy)]
struct Job<'p> {
    page: &'p [u8],
    layout: MariaDbLayout,
    /// Bytes that the page takes: the whole page, unless it is a compressed full_crc32 page.
    used: usize,
    /// The algorithm named in the flags.
    compression: Option<Compression>,
    inflate: bool,
    space: SpaceId,
}

/// Opens a page that needs `steps`.
pub(super) fn open<'a>(
    page: &[u8],
    id: PageId,
    steps: Steps,
    layout: MariaDbLayout,
    keys: Option<&SpaceKeys>,
    scratch: &'a mut Scratch,
) -> Result<Opened<'a>, CodecError> {
    let job = Job::new(page, id, steps, layout)?;
    let len = page.len();
    if !steps.decrypt {
        let image = front(&mut scratch.image, len)?;
        let compression = job.inflate_from(page, image, &mut scratch.inflater)?;
        return Ok(Opened { page: image, decrypted: false, inflated: Some(compression) });
    }
    let keys = keys.ok_or(CodecError::NoKey)?;
    let version = key_version(page, layout);
    let key = keys.version(version)?;
    let (start, end) = job.encrypted_range()?;
    let tweak = job.tweak();
    let first = scratch.mode;
    for mode in [first, first.other()] {
        let plain = copy_into(page, &mut scratch.plain)?;
        key.decrypt(mode, &tweak, plain.get_mut(start..end).unwrap_or_default());
        let image = front(&mut scratch.image, len)?;
        if let Some(inflated) = job.fits(plain, image, &mut scratch.inflater) {
            scratch.mode = mode;
            let page =
                if inflated.is_some() { front(&mut scratch.image, len)? } else { front(&mut scratch.plain, len)? };
            return Ok(Opened { page, decrypted: true, inflated });
        }
    }
    Err(CodecError::WrongKey { key_id: keys.key_id, version })
}

impl<'p> Job<'p> {
    fn new(page: &'p [u8], id: PageId, steps: Steps, layout: MariaDbLayout) -> Result<Self, CodecError> {
        let mut job =
            Self { page, layout, used: page.len(), compression: None, inflate: steps.inflate, space: id.space };
        if let MariaDbLayout::FullCrc32 { compression } = layout {
            job.used = mariadb_compression::full_crc32_size(page)?.unwrap_or(page.len());
            job.compression = compression;
            if steps.inflate && compression.is_none() {
                return Err(CodecError::NoAlgorithm);
            }
        }
        Ok(job)
    }

    fn encrypted_range(&self) -> Result<(usize, usize), CodecError> {
        let end = |trailer: usize| self.used.saturating_sub(trailer);
        Ok(match self.layout {
            MariaDbLayout::FullCrc32 { .. } => (FIL_PAGE_FILE_FLUSH_LSN, end(FULL_CRC32_TRAILER)),
            _ if self.inflate => {
                let header = ClassicHeader::parse(self.page)?;
                (header.start, header.end)
            }
            MariaDbLayout::Classic | MariaDbLayout::Zip => (FIL_PAGE_DATA, end(FIL_PAGE_DATA_END)),
        })
    }

    /// Tablespace, page number and LSN, each byte-reversed. Uses the numbers in the page where they are readable: then a misplaced page
    /// still decrypts, and we can tell where it belongs.
    fn tweak(&self) -> [u8; BLOCK] {
        let word = |offset| be::u32_at(self.page, offset).unwrap_or(0);
        let space = match self.layout {
            MariaDbLayout::FullCrc32 { .. } => self.space.0,
            MariaDbLayout::Classic | MariaDbLayout::Zip => word(FIL_PAGE_SPACE_ID),
        };
        let [space, page_no] = [space, word(FIL_PAGE_OFFSET)].map(|number| u64::from(number.swap_bytes()));
        let lsn = be::u64_at(self.page, FIL_PAGE_LSN_LOW - 4).unwrap_or(0).swap_bytes();
        (u128::from(space << 32 | page_no) << 64 | u128::from(lsn)).to_be_bytes()
    }

    fn inflate_from(&self, plain: &[u8], image: &mut [u8], inflater: &mut Inflater) -> Result<Compression, CodecError> {
        match self.compression {
            Some(compression) => {
                let used = plain.get(..self.used).unwrap_or_default();
                mariadb_compression::inflate_full_crc32(used, compression, image, inflater)?;
                Ok(compression)
            }
            None => mariadb_compression::inflate_classic(plain, image, inflater),
        }
    }

    /// Whether `plain` can be the right plaintext. If so, returns the algorithm that inflated it into `image`, if it was compressed. This
    /// proves nothing else: the ordinary rules judge the page next.
    fn fits(&self, plain: &mut [u8], image: &mut [u8], inflater: &mut Inflater) -> Option<Option<Compression>> {
        if self.inflate {
            return self.inflate_from(plain, image, inflater).ok().map(Some);
        }
        let fits = match self.layout {
            MariaDbLayout::FullCrc32 { .. } => {
                let lsn_low = be::u32_at(plain, FIL_PAGE_LSN_LOW);
                lsn_low == be::u32_at(plain, plain.len().checked_sub(8)?)
                    && be::u32_at(plain, FIL_PAGE_SPACE_ID) == Some(self.space.0)
            }
            MariaDbLayout::Classic => is_sound(plain, [checksum::crc32, checksum::innodb_new]),
            MariaDbLayout::Zip => is_sound(plain, [checksum::zip_crc32, checksum::zip_adler]),
        };
        if fits && !matches!(self.layout, MariaDbLayout::FullCrc32 { .. }) {
            be::put_u64(plain, FIL_PAGE_FILE_FLUSH_LSN, 0)?;
        }
        fits.then_some(None)
    }
}

/// Whether the first checksum field of a page of the older layout matches one of `algorithms`. If the server computed no checksum
/// (`innodb_checksum_algorithm=none`), the modes cannot be told apart, and the first one tried is taken.
fn is_sound(plain: &[u8], algorithms: [fn(&[u8]) -> u32; 2]) -> bool {
    let stored = be::u32_at(plain, 0).unwrap_or(0);
    stored == checksum::NO_CHECKSUM_MAGIC || algorithms.iter().any(|algorithm| algorithm(plain) == stored)
}
