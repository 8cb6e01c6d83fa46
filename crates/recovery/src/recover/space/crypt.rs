//! Encrypted tablespaces: the keys that open their pages, and how to encrypt them again.
//!
//! Each page says whether it is encrypted. Page 0 says whether the tablespace should be encrypted, and with which key. The log may change
//! that, so pages from before and after the change coexist. Therefore both versions of page 0 matter, the one in the file and the one after
//! redo: pages are opened by either, and written as the latter says.
//!
//! Pages of MariaDB's page_compressed tablespaces are compressed before they are encrypted.

use std::path::Path;
use std::sync::Arc;

use format::codec::{CipherMode, Compression, CryptData, CryptMode, Deflater, EncryptionInfo, SpaceKeys, UnlockError};
use format::keyring::KeyStore;
use format::page::fsp;
use format::page::seal::{SealError, seal_encrypted, seal_mysql, seal_page_compressed, seal_recovered};
use format::{Encryption, Family, PageId, Scheme, SpaceFormat};

use crate::recover::error::{Result, locked_out};
use datadir::keys::{CRYPT_DATA_AFTER_XDES, SpaceKey};

/// The encryption of one tablespace.
#[derive(Debug, Default)]
pub(in crate::recover) struct SpaceCrypt {
    /// The key for its pages.
    pub key: SpaceKey,
    /// Whether its pages are encrypted when they are written.
    encrypts: bool,
    /// The cipher mode, once known.
    pub mode: Option<CipherMode>,
}

impl SpaceCrypt {
    /// Evaluates page 0 as it is in the file (`now`) and after redo (`then`). Also returns the format of pages, encrypted if either says
    /// so.
    pub fn find(
        path: &Path,
        now: Option<&[u8]>,
        then: &[u8],
        format: SpaceFormat,
        keys: &KeyStore,
    ) -> Result<(Self, SpaceFormat)> {
        if format.family() == Family::MySql {
            return Self::find_mysql(path, now, then, format, keys);
        }
        let unusable = |error: &UnlockError| locked_out(format!("{}: {error}", path.display()));
        let (data_now, data_then) =
            match (now.map_or(Ok(None), |page0| crypt_data(page0, &format)), crypt_data(then, &format)) {
                (Ok(now), Ok(then)) => (now, then),
                (Err(error), _) | (_, Err(error)) => return unusable(&error),
            };
        let is_needed = [&data_now, &data_then].into_iter().flatten().any(CryptData::is_encrypted);
        let page0 = if data_then.is_some() { then } else { now.unwrap_or_default() };
        let Some(key_id) = data_then.as_ref().or(data_now.as_ref()).map(|data| data.key_id) else {
            return Ok((Self::default(), format));
        };
        let encrypted = format.with_encryption(Encryption::MariaDb);
        let key = match SpaceKey::unlock(page0, &encrypted, keys) {
            Ok(SpaceKey::None) if is_needed => {
                let name = path.display();
                return locked_out(format!(
                    "{name} is encrypted with key {key_id}: name the server's key file (--key-file)"
                ));
            }
            Err(error) if is_needed => return unusable(&error),
            // No longer encrypted, or never was: none of its pages should be encrypted now.
            Ok(SpaceKey::None) | Err(_) => return Ok((Self::default(), format)),
            Ok(key) => key,
        };
        let encrypts = data_then.is_some_and(|data| data.is_encrypted() && data.mode != CryptMode::Off);
        Ok((Self { key, encrypts, mode: None }, encrypted))
    }

    /// [`Self::find`] for a MySQL tablespace. Its key never changes, even if the master key that wraps it does.
    fn find_mysql(
        path: &Path,
        now: Option<&[u8]>,
        then: &[u8],
        format: SpaceFormat,
        keys: &KeyStore,
    ) -> Result<(Self, SpaceFormat)> {
        let encrypted = format.with_encryption(Encryption::MySql);
        let encrypts = format.encryption() == Encryption::MySql;
        let at = fsp::xdes_array_end(format.logical(), format.physical());
        let info = |page0: &[u8]| EncryptionInfo::parse(page0.get(at..).unwrap_or_default());
        let found = match (info(then), now.map_or(Ok(None), info)) {
            (Ok(then), Ok(now)) => then.or(now),
            (Err(error), _) | (_, Err(error)) => return locked_out(format!("{}: {error}", path.display())),
        };
        let Some(info) = found else { return Ok((Self::default(), format)) };
        match info.unlock(keys) {
            Ok(key) => Ok((Self { key: SpaceKey::MySql(Arc::new(key)), encrypts, mode: None }, encrypted)),
            Err(error) => {
                let name = path.display();
                locked_out(format!("{name} is encrypted, and {error}: name the server's keyring (--keyring)"))
            }
        }
    }

    /// Seals a page of the tablespace, after compressing and encrypting it where the tablespace asks for that. `stored` is the algorithm
    /// that compressed the page in its file, if any.
    pub fn seal(
        &self,
        page: &mut [u8],
        id: PageId,
        format: &SpaceFormat,
        (stored, deflater): (Option<Compression>, &mut Deflater),
    ) -> std::result::Result<(), SealError> {
        if format.family() == Family::MySql {
            return match &self.key {
                _ if !self.encrypts => seal_mysql(page, id, format, None),
                SpaceKey::MySql(key) => seal_mysql(page, id, format, Some(key)),
                _ => Err(SealError::NoKey),
            };
        }
        let crypt = match (self.keys(), self.mode) {
            (Some(keys), Some(mode)) if self.encrypts => Some((keys, mode)),
            _ if self.encrypts => return Err(SealError::NoKey),
            _ => None,
        };
        match (page_compression(format, stored), crypt) {
            (Some(compression), crypt) => seal_page_compressed(page, id, format, crypt, compression, deflater),
            (None, Some((keys, mode))) => seal_encrypted(page, id, format, keys, mode),
            (None, None) => seal_recovered(page, id, format),
        }
    }

    /// Whether pages are encrypted before they are written.
    pub const fn encrypts(&self) -> bool {
        self.encrypts
    }

    pub fn keys(&self) -> Option<&SpaceKeys> {
        match &self.key {
            SpaceKey::MariaDb(keys) => Some(keys),
            _ => None,
        }
    }
}

/// The algorithm for a page of a page_compressed tablespace of MariaDB; `None` in any other tablespace.
fn page_compression(format: &SpaceFormat, stored: Option<Compression>) -> Option<Compression> {
    if !format.is_page_compressed() {
        return None;
    }
    match format.scheme() {
        Scheme::FullCrc32 => Compression::from_full_crc32_flags(format.flags()),
        // Each page has its own algorithm. A new page gets zlib, which every server can read without a plugin.
        Scheme::Classic => Some(stored.unwrap_or(Compression::Zlib)),
        Scheme::Zip => None,
    }
}

fn crypt_data(page0: &[u8], format: &SpaceFormat) -> std::result::Result<Option<CryptData>, UnlockError> {
    let at = fsp::xdes_array_end(format.logical(), format.physical()) + CRYPT_DATA_AFTER_XDES;
    CryptData::parse(page0.get(at..).unwrap_or_default())
}
