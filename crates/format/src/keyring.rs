//! The files in which the servers keep their keys.
//!
//! | file | server | by which name keys are found |
//! |---|---|---|
//! | `component_keyring_file`: JSON | MySQL 8.0.24 and later | `INNODBKey-<uuid>-<number>` |
//! | `keyring_file` plugin: binary, versions 1.0 and 2.0 | MySQL 5.7.11 to 8.4 | the same |
//! | `.cfp` beside an exported tablespace | MySQL | it *is* the tablespace key |
//! | `file_key_management` key file: text, plain or encrypted | MariaDB | key id; the version is always 1 |
//!
//! Keyrings that encrypt themselves or live on the network (vault, KMS, `keyring_encrypted_file`) cannot be read offline.
//!
//! Keys never appear in errors or `Debug` output, and are overwritten when dropped.

mod mariadb;
mod mysql_component;
mod mysql_plugin;

use std::collections::BTreeMap;

use thiserror::Error;
use zeroize::Zeroizing;

use crate::bytes::be;
use crate::codec::TablespaceKey;

pub use mariadb::FileKey;

/// Bytes that `Debug` does not show and that are overwritten when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The secret `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes themselves.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret of {} bytes", self.0.len())
    }
}

/// Why a file with keys cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyringError {
    /// It begins like none of MySQL's keyring files.
    #[error(
        "this is no keyring file that can be read offline: neither component_keyring_file's JSON nor keyring_file's format"
    )]
    NotAKeyring,
    /// The JSON of a `component_keyring_file` is not what it should be.
    #[error("the keyring's JSON is damaged at line {line}, column {column}")]
    Json {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// A key is not written in hexadecimal digits.
    #[error("the key {name} is not written in pairs of hexadecimal digits")]
    NotHex {
        /// Name of the key.
        name: String,
    },
    /// The file ends, or a record in it does, before all is said.
    #[error("the keyring is damaged at byte {offset}")]
    Record {
        /// Where the damaged record begins.
        offset: usize,
    },
    /// The digest at the end of a 2.0 file does not match its content.
    #[error("the keyring's SHA-256 does not match its content: the file is damaged")]
    Digest,
    /// A line of a MariaDB key file is neither `id;key` nor a comment.
    #[error("line {line} of the key file is not of the form `id;hexadecimal key` (16, 24 or 32 bytes)")]
    Line {
        /// The line, from 1.
        line: usize,
    },
    /// The key file is encrypted, and no key for it was given.
    #[error("the key file is encrypted (it begins with `Salted__`): the key of the key file is needed")]
    FileKeyNeeded,
    /// A key for the key file was given, but the file is not encrypted.
    #[error("a key for the key file was given, but the key file is not encrypted")]
    NotEncrypted,
    /// The key file does not decrypt to a key file.
    #[error(
        "the key file does not decrypt with the key given for it (tried SHA-1 to SHA-512, with and without PBKDF2)"
    )]
    WrongFileKey,
    /// There is not one key in the file.
    #[error("there is no key in the file")]
    Empty,
    /// A `.cfp` file is of another length or begins otherwise.
    #[error("this is no transfer key file (.cfp): {len} bytes, where 100 were expected")]
    NotCfp {
        /// Its length, bytes.
        len: usize,
    },
}

/// All keys that were given, from any number of files.
#[derive(Debug, Clone, Default)]
pub struct KeyStore {
    named: BTreeMap<String, Secret>,
    numbered: BTreeMap<(u32, u32), Secret>,
}

impl KeyStore {
    /// A store without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is no key at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.numbered.is_empty()
    }

    /// Adds the keys of a MySQL keyring file, of the component or the plugin: the content tells. Returns how many there were.
    ///
    /// # Errors
    /// [`KeyringError`]; the store is then as it was.
    pub fn add_mysql_keyring(&mut self, file: &[u8]) -> Result<usize, KeyringError> {
        let keys = if file.starts_with(mysql_plugin::MAGIC) {
            mysql_plugin::parse(file)?
        } else if file.trim_ascii_start().starts_with(b"{") {
            mysql_component::parse(file)?
        } else {
            return Err(KeyringError::NotAKeyring);
        };
        if keys.is_empty() {
            return Err(KeyringError::Empty);
        }
        let count = keys.len();
        self.named.extend(keys);
        Ok(count)
    }

    /// Adds the keys of a MariaDB key file, with the key by which it is encrypted, if it is. Returns how many there were.
    ///
    /// # Errors
    /// [`KeyringError`]; the store is then as it was.
    pub fn add_mariadb_key_file(&mut self, file: &[u8], file_key: Option<&FileKey>) -> Result<usize, KeyringError> {
        let keys = mariadb::parse(file, file_key)?;
        let count = keys.len();
        for (id, key) in keys {
            self.insert_numbered(id, mariadb::VERSION, key);
        }
        Ok(count)
    }

    /// Adds a key under its MySQL name.
    pub fn insert_named(&mut self, name: impl Into<String>, key: Secret) {
        self.named.insert(name.into(), key);
    }

    /// Adds version `version` of the MariaDB key `id`.
    pub fn insert_numbered(&mut self, id: u32, version: u32, key: Secret) {
        self.numbered.insert((id, version), key);
    }

    /// The key of the MySQL name `name`.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Secret> {
        self.named.get(name)
    }

    /// Version `version` of the MariaDB key `id`.
    #[must_use]
    pub fn by_id(&self, id: u32, version: u32) -> Option<&Secret> {
        self.numbered.get(&(id, version))
    }

    /// All keys with MySQL names, in the order of the names.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.named.iter().map(|(name, key)| (name.as_str(), key))
    }

    /// All versions of the MariaDB key `id`, oldest first.
    pub fn versions(&self, id: u32) -> impl Iterator<Item = (u32, &Secret)> {
        self.numbered.range((id, 0)..=(id, u32::MAX)).map(|(&(_, version), key)| (version, key))
    }
}

/// The tablespace key in a `.cfp` file, which `FLUSH TABLES ... FOR EXPORT` leaves beside an encrypted tablespace: the length 32
/// (4 bytes), a transfer key (32), and key and initialisation vector (64) wrapped with it. Nothing in it tells whether it is whole.
///
/// # Errors
/// [`KeyringError::NotCfp`] where it is not such a file.
pub fn tablespace_key_from_cfp(file: &[u8]) -> Result<TablespaceKey, KeyringError> {
    const TRANSFER_KEY_LEN: u32 = 32;
    let parts = || {
        let (transfer, rest) = file.get(4..)?.split_first_chunk::<32>()?;
        let wrapped: &[u8; 64] = rest.try_into().ok()?;
        (be::u32_at(file, 0)? == TRANSFER_KEY_LEN).then_some((transfer, wrapped))
    };
    let (transfer, wrapped) = parts().ok_or(KeyringError::NotCfp { len: file.len() })?;
    Ok(TablespaceKey::unwrap_with(transfer, wrapped).0)
}

/// The bytes that pairs of hexadecimal digits stand for.
fn unhex(digits: &[u8]) -> Option<Secret> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>().map(Secret::new);
    bytes.filter(|_| rest.is_empty())
}
