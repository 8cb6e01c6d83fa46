//! Errors in opening a stored page.

use thiserror::Error;

use super::inflate::Compression;

/// Why a page could not be opened. Small and `Copy`: a tablespace without a key gives one per page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum CodecError {
    /// The page is encrypted, and there is no key.
    #[error("the page is encrypted, and there is no key for its tablespace")]
    NoKey,
    /// MariaDB: the tablespace has keys, but not the version that the page names.
    #[error("the page is encrypted with version {version} of key {key_id}, which is not among the keys")]
    NoKeyVersion {
        /// The key, as named by the tablespace.
        key_id: u32,
        /// Its version, as named by the page.
        version: u32,
    },
    /// MariaDB: the page decrypts to something that cannot be a page. (MySQL detects a wrong key on page 0: [`UnlockError`].)
    #[error("the page does not decrypt with version {version} of key {key_id}: is it the key of this server?")]
    WrongKey {
        /// The key that was tried.
        key_id: u32,
        /// Its version.
        version: u32,
    },
    /// MariaDB: the key has opened other pages of the tablespace, so this page is damaged.
    #[error("the page is not sound when decrypted with version {version} of key {key_id}, which opens other pages")]
    DamagedCiphertext {
        /// The key that was tried.
        key_id: u32,
        /// Its version.
        version: u32,
    },
    /// An algorithm that no known server writes.
    #[error("the page is compressed with algorithm {id}, which is unknown")]
    UnknownAlgorithm {
        /// The number in the page.
        id: u64,
    },
    /// A full_crc32 page is marked as page_compressed in a tablespace whose flags name no algorithm.
    #[error("the page is marked as compressed, but its tablespace names no compression algorithm")]
    NoAlgorithm,
    /// A field of the compression or encryption header has an impossible value.
    #[error("the {field} in the page's compression header is {found}, which is impossible")]
    BadHeader {
        /// The field, as named in the submodule's documentation.
        field: &'static str,
        /// The value in the page.
        found: u32,
    },
    /// The compressed stream would end beyond the page.
    #[error("the compressed stream is {len} bytes long, but the page has room for only {room}")]
    StreamBeyondPage {
        /// Length in the page, bytes.
        len: u32,
        /// Bytes between the header and the end of the page.
        room: u32,
    },
    /// The compressed stream is damaged.
    #[error("the {0} stream is damaged")]
    Stream(Compression),
    /// The compressed stream is sound, but holds more or less than the page.
    #[error("the {compression} stream holds {produced} bytes, but the page has {expected}")]
    Length {
        /// The algorithm.
        compression: Compression,
        /// Bytes produced; counting stops at the first one too many.
        produced: u32,
        /// Bytes expected.
        expected: u32,
    },
    /// The bytes are not a page.
    #[error("{len} bytes are not a page")]
    PageSize {
        /// Number of bytes.
        len: usize,
    },
}

/// What a [`CodecError`] means for the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Nothing can be said without a key: unverifiable.
    NoKey,
    /// The given key is probably wrong. On a tablespace's first encrypted page this is a usage error; once the same key has opened other
    /// pages, it is damage.
    WrongKey,
    /// Written by an unknown server: unverifiable.
    Unknown,
    /// Damage.
    Damaged,
}

impl CodecError {
    /// What the error means for the verdict.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NoKey | Self::NoKeyVersion { .. } => ErrorKind::NoKey,
            Self::WrongKey { .. } => ErrorKind::WrongKey,
            Self::UnknownAlgorithm { .. } => ErrorKind::Unknown,
            Self::DamagedCiphertext { .. }
            | Self::NoAlgorithm
            | Self::BadHeader { .. }
            | Self::StreamBeyondPage { .. }
            | Self::Stream(_)
            | Self::Length { .. }
            | Self::PageSize { .. } => ErrorKind::Damaged,
        }
    }

    /// A stable code for programs, in snake case.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoKey => "no_key",
            Self::NoKeyVersion { .. } => "no_key_version",
            Self::WrongKey { .. } => "wrong_key",
            Self::DamagedCiphertext { .. } => "damaged_ciphertext",
            Self::UnknownAlgorithm { .. } => "unknown_compression_algorithm",
            Self::NoAlgorithm => "no_compression_algorithm",
            Self::BadHeader { .. } => "bad_compression_header",
            Self::StreamBeyondPage { .. } => "compressed_stream_beyond_page",
            Self::Stream(_) => "damaged_compressed_stream",
            Self::Length { .. } => "wrong_inflated_length",
            Self::PageSize { .. } => "not_a_page",
        }
    }
}

/// Why page 0 and the given keys did not yield the tablespace's key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnlockError {
    /// MySQL: the master key that wraps the tablespace key is not in the keyring.
    #[error("the keyring does not hold the master key {name} that the file needs")]
    NoMasterKey {
        /// Its name in the keyring.
        name: String,
    },
    /// MySQL: there is a key of the right name, but it unwraps to something with a wrong checksum.
    #[error(
        "the key {name} of the keyring is not the one that this file was encrypted with (checksum of the file's own \
         key stored {stored:08x}, computed {computed:08x}); is it the keyring of another server, or an older copy?"
    )]
    WrongMasterKey {
        /// Its name in the keyring.
        name: String,
        /// The checksum on page 0.
        stored: u32,
        /// The checksum of what the master key unwrapped.
        computed: u32,
    },
    /// MariaDB: the key file does not name the key.
    #[error("the key file does not hold key {key_id}, which the tablespace needs")]
    NoKey {
        /// The key's id in the key file.
        key_id: u32,
    },
    /// A key has a length that AES, or this use of it, does not allow.
    #[error("the key {name} is {len} bytes long, which is not a valid AES key length here")]
    KeyLength {
        /// Name or id of the key.
        name: String,
        /// Its length, bytes.
        len: usize,
    },
    /// MySQL: the encryption information on page 0 starts with bytes that no known server writes.
    #[error(
        "page 0 holds encryption information of an unknown kind ({magic:02x?}); was it written by another server than MySQL?"
    )]
    UnknownInfo {
        /// Its first bytes.
        magic: [u8; 3],
    },
    /// MariaDB: an encryption scheme that no known server writes.
    #[error("page 0 names encryption scheme {scheme} with an IV of {iv_len} bytes, which is unknown")]
    UnknownScheme {
        /// The scheme.
        scheme: u8,
        /// Length of the initialisation vector.
        iv_len: u8,
    },
    /// The area ends in the middle of the encryption information.
    #[error("page 0 ends in the middle of its encryption information")]
    Truncated,
}
