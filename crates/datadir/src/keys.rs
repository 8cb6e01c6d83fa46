//! Keys: from the files in which servers keep them to the key of one tablespace.

use crate::reading::read_small;
use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use format::codec::{
    Compression, Context, CryptData, EncryptionInfo, MariaDbLayout, SpaceKeys, TablespaceKey, UnlockError,
};
use format::keyring::{self, FileKey, KeyStore};
use format::page::fsp;
use format::{Encryption, Family, Scheme, SpaceFormat, codec};

use crate::Error;

/// The message about files that cannot be opened, and what to do about it.
pub const NO_KEY: &str =
    "encrypted, and there is no key (name its file with --keyring for MySQL, --key-file for MariaDB)";

/// Distance in bytes from the end of page 0's extent descriptors to MariaDB's crypt data.
pub const CRYPT_DATA_AFTER_XDES: usize = format::codec::mariadb_encryption::CRYPT_DATA_AFTER_XDES;

/// The key files named by the user.
#[derive(Clone, Debug, Default)]
pub struct KeyFiles {
    /// MySQL: `component_keyring_file`'s or `keyring_file`'s data files.
    pub keyrings: Vec<PathBuf>,
    /// MariaDB: `file_key_management`'s file and, if it is encrypted, its key: the key itself, or `FILE:` and a path.
    pub key_file: Option<(PathBuf, Option<String>)>,
}

impl KeyFiles {
    /// Reads all of the key files.
    ///
    /// # Errors
    /// A file that cannot be read, or that is not what it should be.
    pub fn read(&self) -> Result<KeyStore, Error> {
        let mut store = KeyStore::new();
        for path in &self.keyrings {
            store.add_mysql_keyring(&bytes_of(path)?).map_err(|source| unusable(path, source))?;
        }
        if let Some((path, opener)) = &self.key_file {
            let opener = opener.as_deref().map(file_key).transpose()?;
            store.add_mariadb_key_file(&bytes_of(path)?, opener.as_ref()).map_err(|source| unusable(path, source))?;
        }
        Ok(store)
    }

    /// Reads those that are pipes (`--keyring <(vault ...)`) now, and keeps their bytes for this process, because a pipe gives them once. For
    /// programs: called before signals only set a flag, it can be interrupted while nothing comes.
    ///
    /// # Errors
    /// A pipe that cannot be read.
    pub fn hold_pipes(&self) -> Result<(), Error> {
        let (file, opener) =
            self.key_file.as_ref().map_or((None, None), |(file, opener)| (Some(file), opener.as_deref()));
        let opener = opener.and_then(|text| text.strip_prefix("FILE:")).map(PathBuf::from);
        for path in self.keyrings.iter().chain(file).chain(opener.as_ref()) {
            let is_pipe = std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo());
            if is_pipe && !held().contains_key(path) {
                let bytes = bytes_of(path)?;
                held().insert(path.clone(), bytes);
            }
        }
        Ok(())
    }
}

/// What came from pipes.
fn held() -> MutexGuard<'static, BTreeMap<PathBuf, Vec<u8>>> {
    static HELD: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_key(text: &str) -> Result<FileKey, Error> {
    match text.strip_prefix("FILE:") {
        Some(path) => Ok(FileKey::from_file(&bytes_of(Path::new(path))?)),
        None => Ok(FileKey::from_text(text)),
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, Error> {
    if let Some(bytes) = held().get(path) {
        return Ok(bytes.clone());
    }
    std::fs::read(path).map_err(|source| Error::Io { path: path.to_path_buf(), action: "reading the keys", source })
}

fn unusable(path: &Path, source: keyring::KeyringError) -> Error {
    Error::Keys { path: path.to_path_buf(), source }
}

/// The key for the pages of one tablespace.
#[derive(Clone, Debug, Default)]
pub enum SpaceKey {
    /// None, or none needed.
    #[default]
    None,
    /// The tablespace key that MySQL stores, wrapped, on page 0.
    MySql(Arc<TablespaceKey>),
    /// MariaDB's page keys, by version.
    MariaDb(Arc<SpaceKeys>),
}

/// A `.cfp` file holds two keys of 32 bytes and little else.
const CFP_MAX: u64 = 4096;

impl SpaceKey {
    /// Finds the key of the tablespace that begins with `page0`.
    ///
    /// # Errors
    /// The tablespace asks for a key that the files do not hold, or the one they hold does not fit.
    pub fn unlock(page0: &[u8], format: &SpaceFormat, keys: &KeyStore) -> Result<Self, UnlockError> {
        let end = fsp::xdes_array_end(format.logical(), format.physical());
        match format.encryption() {
            Encryption::None => Ok(Self::None),
            _ if keys.is_empty() => Ok(Self::None),
            Encryption::MySql => {
                let info = EncryptionInfo::parse(page0.get(end..).unwrap_or_default())?;
                let key = info.map(|info| info.unlock(keys)).transpose()?;
                Ok(key.map_or(Self::None, |key| Self::MySql(Arc::new(key))))
            }
            Encryption::MariaDb => {
                let data = CryptData::parse(page0.get(end + CRYPT_DATA_AFTER_XDES..).unwrap_or_default())?;
                let keys = data.map(|data| data.unlock(keys)).transpose()?;
                Ok(keys.map_or(Self::None, |keys| Self::MariaDb(Arc::new(keys))))
            }
        }
    }

    /// Whether the first page of a tablespace that MySQL encrypts names a key, sound or not.
    #[must_use]
    pub fn is_named(page0: &[u8], format: &SpaceFormat) -> bool {
        let end = fsp::xdes_array_end(format.logical(), format.physical());
        !matches!(EncryptionInfo::parse(page0.get(end..).unwrap_or_default()), Ok(None))
    }

    /// Like `unlock`; if the given keys do not help, uses the key that an export left beside the tablespace at `path`.
    ///
    /// # Errors
    /// As [`SpaceKey::unlock`].
    pub fn find(page0: &[u8], path: &Path, format: &SpaceFormat, keys: &KeyStore) -> Result<Self, UnlockError> {
        match Self::unlock(page0, format, keys)? {
            Self::None if format.encryption() != Encryption::None => {
                Ok(Self::exported_beside(path).unwrap_or_default())
            }
            key => Ok(key),
        }
    }

    /// The key that `FLUSH TABLES ... FOR EXPORT` left in a `.cfp` file beside the tablespace, if there is one.
    #[must_use]
    pub fn exported_beside(tablespace: &Path) -> Option<Self> {
        let file = read_small(&tablespace.with_extension("cfp"), CFP_MAX).ok()?;
        codec::tablespace_key_from_cfp(&file).ok().map(|key| Self::MySql(Arc::new(key)))
    }

    /// The codec's context for opening the tablespace's pages.
    #[must_use]
    pub fn context(&self, format: &SpaceFormat) -> Context<'_> {
        match format.family() {
            Family::MySql => Context::MySql {
                key: match self {
                    Self::MySql(key) => Some(key),
                    _ => None,
                },
            },
            Family::MariaDb => Context::MariaDb {
                layout: match format.scheme() {
                    Scheme::FullCrc32 => {
                        MariaDbLayout::FullCrc32 { compression: Compression::from_full_crc32_flags(format.flags()) }
                    }
                    Scheme::Classic => MariaDbLayout::Classic,
                    Scheme::Zip => MariaDbLayout::Zip,
                },
                encrypted: format.encryption() == Encryption::MariaDb,
                keys: match self {
                    Self::MariaDb(keys) => Some(keys),
                    _ => None,
                },
            },
        }
    }
}
