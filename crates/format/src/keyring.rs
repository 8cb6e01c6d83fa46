//! The files in which the servers store their keys.
//!
//! | file | server | name of a key |
//! |---|---|---|
//! | `component_keyring_file`: JSON | MySQL 8.0.24 and later | `INNODBKey-<uuid>-<number>` |
//! | `keyring_file` plugin: binary, versions 1.0 and 2.0 | MySQL 5.7.11 to 8.4 | the same |
//! | `.cfp` beside an exported tablespace | MySQL | it *is* the tablespace key |
//! | `file_key_management` key file: text, plain or encrypted | MariaDB | key id; the version is always 1 |
//!
//! Keyrings that encrypt themselves or live on the network (vault, KMS, `keyring_encrypted_file`) cannot be read offline.
//!
//! Keys never appear in errors or `Debug` output, and are overwritten when dropped.

mod error;
mod mariadb;
mod mysql_component;
mod mysql_plugin;
mod secret;

use std::collections::BTreeMap;

pub use error::KeyringError;
pub use mariadb::FileKey;
pub use secret::Secret;

/// All given keys, from any number of files.
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

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.numbered.is_empty()
    }

    /// Adds the keys of a MySQL keyring file. The content shows whether the component or the plugin wrote it. Returns the number of keys.
    ///
    /// # Errors
    /// [`KeyringError`]; the store is then unchanged.
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

    /// Adds the keys of a MariaDB key file, decrypted with `file_key` if it is encrypted. Returns the number of keys.
    ///
    /// # Errors
    /// [`KeyringError`]; the store is then unchanged.
    pub fn add_mariadb_key_file(&mut self, file: &[u8], file_key: Option<&FileKey>) -> Result<usize, KeyringError> {
        let keys = mariadb::parse(file, file_key)?;
        let count = keys.len();
        for (id, key) in keys {
            self.insert_numbered(id, mariadb::VERSION, key);
        }
        Ok(count)
    }

    /// Adds a MySQL key by name.
    pub fn insert_named(&mut self, name: impl Into<String>, key: Secret) {
        self.named.insert(name.into(), key);
    }

    /// Adds version `version` of the MariaDB key `id`.
    pub fn insert_numbered(&mut self, id: u32, version: u32, key: Secret) {
        self.numbered.insert((id, version), key);
    }

    /// The MySQL key named `name`.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Secret> {
        self.named.get(name)
    }

    /// Version `version` of the MariaDB key `id`.
    #[must_use]
    pub fn by_id(&self, id: u32, version: u32) -> Option<&Secret> {
        self.numbered.get(&(id, version))
    }

    /// All MySQL keys, sorted by name.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.named.iter().map(|(name, key)| (name.as_str(), key))
    }

    /// All versions of the MariaDB key `id`, oldest first.
    pub fn versions(&self, id: u32) -> impl Iterator<Item = (u32, &Secret)> {
        self.numbered.range((id, 0)..=(id, u32::MAX)).map(|(&(_, version), key)| (version, key))
    }
}
