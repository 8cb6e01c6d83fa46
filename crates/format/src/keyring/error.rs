//! Why a key file cannot be used.

use thiserror::Error;

/// Why a key file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyringError {
    /// The file starts like none of MySQL's keyring files.
    #[error(
        "this is not a keyring file that can be read offline: neither component_keyring_file's JSON nor keyring_file's format"
    )]
    NotAKeyring,
    /// The JSON of a `component_keyring_file` is invalid.
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
    /// The file, or a record in it, ends too early.
    #[error("the keyring is damaged at byte {offset}")]
    Record {
        /// Where the damaged record starts.
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
    /// The key file does not decrypt to lines of keys.
    #[error(
        "the key file does not decrypt with the key given for it (tried SHA-1 to SHA-512, with and without PBKDF2)"
    )]
    WrongFileKey,
    /// The file has no keys.
    #[error("there is no key in the file")]
    Empty,
    /// Not a `.cfp` file: the length is not 100 bytes, or the first bytes differ.
    #[error("this is not a transfer key file (.cfp): it has {len} bytes instead of 100")]
    NotCfp {
        /// Its length, bytes.
        len: usize,
    },
}
