//! What opens encrypted files.

use std::path::PathBuf;

use clap::Args;
use datadir::keys::KeyFiles;

/// Options that name what opens encrypted files.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// MySQL's keyring: the data file of component_keyring_file or of the keyring_file plugin (may be given several times).
    #[arg(long, value_name = "FILE", help_heading = "Keys")]
    pub keyring: Vec<PathBuf>,

    /// MariaDB's key file (file_key_management) and, if it is encrypted, its key or `FILE:` and a path.
    #[arg(long, value_name = "FILE[,FILEKEY]", value_parser = key_file, help_heading = "Keys")]
    pub key_file: Option<(PathBuf, Option<String>)>,
}

impl KeyArgs {
    /// All files that were named, that of the key of a key file too.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.keyring.iter().cloned().chain(self.key_file.iter().flat_map(key_paths)).collect()
    }

    /// The files that were named.
    pub fn files(&self) -> KeyFiles {
        KeyFiles { keyrings: self.keyring.clone(), key_file: self.key_file.clone() }
    }
}

/// The files that `--key-file` names.
pub fn key_paths((path, key): &(PathBuf, Option<String>)) -> Vec<PathBuf> {
    let key = key.as_deref().and_then(|key| key.strip_prefix("FILE:")).map(PathBuf::from);
    std::iter::once(path.clone()).chain(key).collect()
}

pub(crate) fn key_file(text: &str) -> Result<(PathBuf, Option<String>), String> {
    Ok(match text.split_once(',') {
        Some((path, key)) => (PathBuf::from(path), Some(key.to_owned())),
        None => (PathBuf::from(text), None),
    })
}
