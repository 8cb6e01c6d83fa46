//! MySQL's tablespace encryption (`ENCRYPTION='Y'`, since 5.7.11).
//!
//! # Pages
//!
//! All pages but page 0 are encrypted, from byte 38 on. The type in the header says so:
//!
//! | type | meaning | type of the page inside | encrypted up to |
//! |---|---|---|---|
//! | 15 | encrypted | in bytes 28 and 29 | the end of the page |
//! | 16 | compressed, then encrypted | 14; bytes 26 to 33 as [there](super::mysql_compression) | see below |
//! | 17 | encrypted R-tree page | 17854 | the end of the page |
//!
//! Type 16 is encrypted up to the end of the stream, but at least up to byte 70 (version 2), or up to the end of the file system block in
//! which the stream ends (version 1).
//!
//! AES-256 in CBC mode, with the same initialisation vector for every page. If the length is not a multiple of 16, the whole blocks are
//! encrypted as one run, and then the last 32 bytes *of the result* once more as a separate run.
//!
//! The checksum fields are those of the page inside, so without the key only the header can be checked.
//!
//! # Page 0: encryption information, after the extent descriptors
//!
//! | field | offset | size | meaning |
//! |---|---|---|---|
//! | magic | 0 | 3 | `lCA` 5.7.11, `lCB` from 5.7.12, `lCC` from 8.0.5 on; zeros: none |
//! | master key | 3 | 4 | its number; 0: the master key is the text `DefaultMasterKey`, padded with zeros to 32 bytes |
//! | uuid | 7 | 36 | of the server, as text; absent in `lCA` |
//! | key | 43 | 64 | tablespace key (32) and initialisation vector (32, the first 16 used), AES-256-ECB with the master key |
//! | checksum | 107 | 4 | CRC-32C of those 64 bytes in the clear |
//!
//! In `lCA` and `lCB` four zero bytes may follow the number. The master key's name in the keyring is `INNODBKey-<uuid>-<number>`, in `lCA`
//! `INNODBKey-<server id>-<number>`.
//!
//! Sources: MySQL 8.0 and 9.x `os0enc.cc`, `os0enc.h`; `lCC` checked on files of 8.0 and 9.7, `lCA` and `lCB` from source only.

use aes::cipher::KeyInit;
use aes::{Aes256Dec, Aes256Enc};
use zeroize::Zeroizing;

use super::error::{CodecError, UnlockError};
use super::mysql_compression::{self, CompressionHeader, FIL_PAGE_COMPRESSED, FIL_PAGE_ORIGINAL_TYPE_V1};
use super::opened::{Opened, Steps};
use super::scratch::{Scratch, copy_into, front};
use crate::bytes::{be, is_zero};
use crate::checksum::crc32c;
use crate::cipher::{BLOCK, cbc_decrypt, cbc_encrypt, ecb_decrypt};
use crate::fil::{FIL_PAGE_DATA, FIL_PAGE_TYPE};
use crate::keyring::{KeyStore, Secret};

/// Type of an encrypted page.
pub const FIL_PAGE_ENCRYPTED: u16 = 15;
/// Type of a page that was compressed and then encrypted.
pub const FIL_PAGE_COMPRESSED_AND_ENCRYPTED: u16 = 16;
/// Type of an encrypted R-tree page.
pub const FIL_PAGE_ENCRYPTED_RTREE: u16 = 17;
const FIL_PAGE_RTREE: u16 = 17854;

/// Length of a tablespace key, bytes.
pub const KEY_LEN: usize = 32;
/// Bytes wrapped by the master key: key and initialisation vector.
const WRAPPED_LEN: usize = 2 * KEY_LEN;
const MAGIC_LEN: usize = 3;
const UUID_LEN: usize = 36;
/// Bytes encrypted twice if the length is not a multiple of the block size.
const TAIL_LEN: usize = 2 * BLOCK;
/// Block size of every file system on which version 1 pages were seen, bytes. It is not stored.
const USUAL_FS_BLOCK: usize = 4096;

/// A MySQL tablespace key, ready to use. `Debug` output does not contain it, and it is overwritten when dropped.
#[derive(Clone)]
pub struct TablespaceKey {
    cipher: Aes256Dec,
    encryptor: Aes256Enc,
    iv: [u8; BLOCK],
}

impl std::fmt::Debug for TablespaceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TablespaceKey")
    }
}

impl TablespaceKey {
    /// The key `key` with the initialisation vector `iv`, of which only the first 16 bytes matter.
    #[must_use]
    pub fn new(key: &[u8; KEY_LEN], iv: &[u8; KEY_LEN]) -> Self {
        let [iv, _] = halves(iv);
        Self { cipher: Aes256Dec::new(key.into()), encryptor: Aes256Enc::new(key.into()), iv }
    }

    /// Unwraps `wrapped` with the master key (or, in a `.cfp` file, the transfer key) `master`. Returns the key, and a CRC-32C that shows
    /// whether `master` was right.
    #[must_use]
    pub fn unwrap_with(master: &[u8; KEY_LEN], wrapped: &[u8; WRAPPED_LEN]) -> (Self, u32) {
        let mut clear = Zeroizing::new(*wrapped);
        ecb_decrypt(&Aes256Dec::new(master.into()), clear.as_mut_slice());
        let (pair, _) = clear.as_chunks::<KEY_LEN>();
        let empty = [0; KEY_LEN];
        let [key, iv] = [pair.first().unwrap_or(&empty), pair.last().unwrap_or(&empty)];
        (Self::new(key, iv), crc32c(clear.as_slice()))
    }

    /// Decrypts `bytes` in place. Fewer than 16 bytes cannot be encrypted and stay unchanged.
    pub fn decrypt(&self, bytes: &mut [u8]) {
        if !bytes.len().is_multiple_of(BLOCK)
            && let Some(tail) = bytes.last_chunk_mut::<TAIL_LEN>()
        {
            cbc_decrypt(&self.cipher, &self.iv, tail);
        }
        cbc_decrypt(&self.cipher, &self.iv, bytes);
    }
}

impl TablespaceKey {
    /// Encrypts `bytes` in place: the inverse of [`decrypt`](Self::decrypt).
    pub fn encrypt(&self, bytes: &mut [u8]) {
        cbc_encrypt(&self.encryptor, &self.iv, bytes);
        if !bytes.len().is_multiple_of(BLOCK)
            && let Some(tail) = bytes.last_chunk_mut::<TAIL_LEN>()
        {
            cbc_encrypt(&self.encryptor, &self.iv, tail);
        }
    }
}

/// Encrypts a sealed page as the server does before writing it: everything but the header, whose type then says so.
pub(crate) fn encrypt_page(page: &mut [u8], key: &TablespaceKey) -> Option<()> {
    let page_type = be::u16_at(page, FIL_PAGE_TYPE)?;
    key.encrypt(page.get_mut(FIL_PAGE_DATA..)?);
    if page_type == FIL_PAGE_RTREE {
        return be::put_u16(page, FIL_PAGE_TYPE, FIL_PAGE_ENCRYPTED_RTREE);
    }
    be::put_u16(page, FIL_PAGE_TYPE, FIL_PAGE_ENCRYPTED)?;
    be::put_u16(page, FIL_PAGE_ORIGINAL_TYPE_V1, page_type)
}

/// The two blocks of a stored initialisation vector.
fn halves(iv: &[u8; KEY_LEN]) -> [[u8; BLOCK]; 2] {
    let mut halves = [[0; BLOCK]; 2];
    halves.as_flattened_mut().copy_from_slice(iv);
    halves
}

/// The generation of the encryption information on page 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InfoVersion {
    /// `lCA`: MySQL 5.7.11.
    Lca,
    /// `lCB`: MySQL 5.7.12 and later.
    Lcb,
    /// `lCC`: MySQL 8.0.5 and later.
    Lcc,
}

/// The encryption information on page 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptionInfo {
    /// Its generation.
    pub version: InfoVersion,
    /// Number of the master key.
    pub master_key: u32,
    /// Uuid of the server that created the key, as text. Empty in `lCA`.
    pub server_uuid: String,
    wrapped: [u8; WRAPPED_LEN],
    checksum: u32,
}

impl EncryptionInfo {
    /// Bytes reserved for it on page 0.
    pub const SIZE: usize = 115;

    /// Reads the information from `area`, which starts where page 0's extent descriptors end. `None` if the tablespace has none.
    ///
    /// # Errors
    /// [`UnlockError::UnknownInfo`] if it is of an unknown kind, [`UnlockError::Truncated`] if `area` is too short.
    pub fn parse(area: &[u8]) -> Result<Option<Self>, UnlockError> {
        let magic = *area.first_chunk::<MAGIC_LEN>().ok_or(UnlockError::Truncated)?;
        let version = match &magic {
            b"lCA" => InfoVersion::Lca,
            b"lCB" => InfoVersion::Lcb,
            b"lCC" => InfoVersion::Lcc,
            other if is_zero(other) => return Ok(None),
            _ => return Err(UnlockError::UnknownInfo { magic }),
        };
        Self::parse_fields(version, area).map(Some).ok_or(UnlockError::Truncated)
    }

    fn parse_fields(version: InfoVersion, area: &[u8]) -> Option<Self> {
        let (_, rest) = area.split_at_checked(MAGIC_LEN)?;
        let master_key = be::u32_at(rest, 0)?;
        let mut rest = rest.get(4..)?;
        if version != InfoVersion::Lcc && rest.starts_with(&[0; 4]) {
            rest = rest.get(4..)?;
        }
        let mut server_uuid = String::new();
        if version != InfoVersion::Lca {
            let (uuid, after) = rest.split_at_checked(UUID_LEN)?;
            server_uuid = String::from_utf8_lossy(uuid).into_owned();
            rest = after;
        }
        let wrapped = *rest.first_chunk()?;
        let checksum = be::u32_at(rest, WRAPPED_LEN)?;
        Some(Self { version, master_key, server_uuid, wrapped, checksum })
    }

    /// The master key's name in the keyring; in `lCA`, which lacks the server id, with `*` in its place.
    #[must_use]
    pub fn master_key_name(&self) -> String {
        let server = match self.version {
            InfoVersion::Lca => "*",
            InfoVersion::Lcb | InfoVersion::Lcc => &self.server_uuid,
        };
        format!("INNODBKey-{server}-{}", self.master_key)
    }

    /// The tablespace key, unwrapped with the master key in `keys`.
    ///
    /// # Errors
    /// [`UnlockError::NoMasterKey`], or [`UnlockError::WrongMasterKey`] if the checksum shows that the key is not the right one.
    pub fn unlock(&self, keys: &KeyStore) -> Result<TablespaceKey, UnlockError> {
        let name = self.master_key_name();
        if self.master_key == 0 {
            return self.unlock_with(&name, &Secret::new(default_master_key().to_vec()));
        }
        if self.version != InfoVersion::Lca {
            let master = keys.by_name(&name).ok_or(UnlockError::NoMasterKey { name: name.clone() })?;
            return self.unlock_with(&name, master);
        }
        // Any server's key with the right number may fit: the checksum decides.
        let suffix = format!("-{}", self.master_key);
        let mut outcome = Err(UnlockError::NoMasterKey { name });
        for (name, master) in keys.named().filter(|(name, _)| name.ends_with(&suffix)) {
            outcome = self.unlock_with(name, master);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// The tablespace key, unwrapped with `master`; `name` is for the error.
    ///
    /// # Errors
    /// [`UnlockError::WrongMasterKey`] if it is the wrong one, [`UnlockError::KeyLength`] if its length is impossible.
    pub fn unlock_with(&self, name: &str, master: &Secret) -> Result<TablespaceKey, UnlockError> {
        let name = || name.to_owned();
        let len = master.bytes().len();
        let master = master.bytes().try_into().map_err(|_| UnlockError::KeyLength { name: name(), len })?;
        let (key, computed) = TablespaceKey::unwrap_with(master, &self.wrapped);
        if computed == self.checksum {
            Ok(key)
        } else {
            Err(UnlockError::WrongMasterKey { name: name(), stored: self.checksum, computed })
        }
    }
}

/// The well-known master key used before a real one exists.
fn default_master_key() -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    key.iter_mut().zip(b"DefaultMasterKey").for_each(|(to, from)| *to = *from);
    key
}

/// The steps that a MySQL page needs, from its type.
#[inline]
pub(super) fn steps(page: &[u8]) -> Steps {
    match be::u16_at(page, FIL_PAGE_TYPE) {
        Some(FIL_PAGE_COMPRESSED) => Steps { decrypt: false, inflate: true },
        Some(FIL_PAGE_ENCRYPTED | FIL_PAGE_ENCRYPTED_RTREE) => Steps { decrypt: true, inflate: false },
        Some(FIL_PAGE_COMPRESSED_AND_ENCRYPTED) => Steps { decrypt: true, inflate: true },
        _ => Steps::default(),
    }
}

/// Opens a page that needs `steps`.
pub(super) fn open<'a>(
    page: &[u8],
    steps: Steps,
    key: Option<&TablespaceKey>,
    scratch: &'a mut Scratch,
) -> Result<Opened<'a>, CodecError> {
    if !steps.decrypt {
        let image = front(&mut scratch.image, page.len())?;
        let compression = mysql_compression::inflate(page, image, &mut scratch.inflater)?;
        return Ok(Opened { page: image, decrypted: false, inflated: Some(compression) });
    }
    let key = key.ok_or(CodecError::NoKey)?;
    if steps.inflate {
        return open_compressed(page, key, scratch);
    }
    let plain = copy_into(page, &mut scratch.plain)?;
    let not_a_page = CodecError::PageSize { len: page.len() };
    key.decrypt(plain.get_mut(FIL_PAGE_DATA..).ok_or(not_a_page)?);
    restore_type(plain).ok_or(not_a_page)?;
    Ok(Opened { page: plain, decrypted: true, inflated: None })
}

/// Restores the header of the page inside. In R-tree pages bytes 26 to 33 belong to the page; in other pages bytes 28 and 29 held the type.
fn restore_type(plain: &mut [u8]) -> Option<()> {
    if be::u16_at(plain, FIL_PAGE_TYPE)? == FIL_PAGE_ENCRYPTED_RTREE {
        return be::put_u16(plain, FIL_PAGE_TYPE, FIL_PAGE_RTREE);
    }
    be::put_u16(plain, FIL_PAGE_TYPE, be::u16_at(plain, FIL_PAGE_ORIGINAL_TYPE_V1)?)?;
    be::put_u16(plain, FIL_PAGE_ORIGINAL_TYPE_V1, 0)
}

/// Opens a page of type 16.
fn open_compressed<'a>(page: &[u8], key: &TablespaceKey, scratch: &'a mut Scratch) -> Result<Opened<'a>, CodecError> {
    let header = CompressionHeader::parse(page)?;
    let image = front(&mut scratch.image, page.len())?;
    let mut outcome = Err(CodecError::Stream(header.compression));
    for end in encrypted_ends(header, page.len()) {
        let plain = copy_into(page, &mut scratch.plain)?;
        key.decrypt(plain.get_mut(FIL_PAGE_DATA..end).unwrap_or_default());
        outcome = mysql_compression::inflate(plain, image, &mut scratch.inflater);
        if outcome.is_ok() {
            break;
        }
    }
    let compression = outcome?;
    Ok(Opened { page: image, decrypted: true, inflated: Some(compression) })
}

/// Possible ends of the encrypted part of a page of type 16, likeliest first. Version 1 depends on the block size of the file system on
/// which the page was written, which is not stored.
fn encrypted_ends(header: CompressionHeader, len: usize) -> impl Iterator<Item = usize> {
    let stream_end = FIL_PAGE_DATA + header.stream_len;
    let exact = (header.version != 1).then_some(stream_end.max(FIL_PAGE_DATA + TAIL_LEN));
    let blocks = [USUAL_FS_BLOCK, 512, 1024, 2048, 8192, 16384, 32768, 65536];
    let mut last = 0;
    let rounded =
        blocks.into_iter().filter(move |_| exact.is_none()).map(move |block| stream_end.next_multiple_of(block));
    exact.into_iter().chain(rounded).filter(move |&end| end <= len && std::mem::replace(&mut last, end) != end)
}
