//! The key of an encrypted redo log of MariaDB 10.5 and later.
//!
//! Key 1 of the key file, in the version that the log names, encrypts a 16-byte message in the log; the result is the log's key. The
//! server's AES mode is not stored, and a wrong key makes no checksum fail. Both are determined where the content is known in advance: at
//! the record that names the checkpoint.
//!
//! | | 10.8 and later | 10.5 to 10.7, in the checkpoint's block |
//! |---|---|---|
//! | key id (1) | at 48, 4 bytes | |
//! | key version | at 52, 4 bytes | at 32, 4 bytes |
//! | message | at 56, 16 bytes | at 40, 16 bytes |
//! | nonce | at 72, 4 bytes | at 36, 4 bytes |
//!
//! Source: MariaDB 10.5 to 11.8 `log0crypt.cc`; checked on logs of MariaDB 10.5, 10.11 and 11.8, except for the early format of 10.8.

use thiserror::Error;
use zeroize::Zeroizing;

use crate::block::{FLUSH_BIT, LOG_BLOCK_CHECKSUM, LOG_BLOCK_SIZE};
use crate::mariadb::StreamEncryption;
use crate::record::{Frame, frame, payload_of_pages};
use format::bytes::be;
use format::cipher::{BLOCK, encrypt_block_with};
use format::codec::CipherMode;
use format::codec::mariadb_encryption::PageKey;
use format::keyring::KeyStore;
use format::types::Lsn;

/// The id of the log's key.
const LOG_KEY_ID: u32 = 1;
pub(super) const MODES: [CipherMode; 2] = [CipherMode::Cbc, CipherMode::Ctr];
/// Offset in a checkpoint block of 10.5 to 10.7.
pub(super) const BLOCKS_KEY: usize = 32;
/// Offset of the message in a log's key information, in any format.
pub(super) const KEY_MESSAGE: usize = 8;
/// The encrypted part of a block.
const BLOCK_ENCRYPTED: std::ops::Range<usize> = 4..BLOCK_KEY_VERSION;
/// The version of the key that encrypts a block. 4 bytes.
const BLOCK_KEY_VERSION: usize = 504;

/// Why the records of an encrypted log cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LogKeyError {
    /// The key was not given.
    #[error("the redo log is encrypted with version {version} of key {LOG_KEY_ID}, which is not among the keys")]
    NoKey {
        /// The version that the log names.
        version: u32,
    },
    /// AES has no keys of this length.
    #[error("key {LOG_KEY_ID} is {len} bytes long, which is not a valid AES key length")]
    KeyLength {
        /// Its length, bytes.
        len: usize,
    },
    /// Too few bytes of the header.
    #[error("the redo log is encrypted, but its header does not say how")]
    NoKeyInformation,
    /// The decrypted bytes are not the record that names the checkpoint.
    #[error(
        "the redo log does not decrypt with version {version} of key {LOG_KEY_ID}: is it the key of this server? \
         (Or the log is damaged at its newest checkpoint.)"
    )]
    WrongKey {
        /// The version that the log names.
        version: u32,
    },
}

/// The key of a log. `Debug` does not print it.
#[derive(Clone)]
pub struct LogKey {
    pub(super) key: PageKey,
    pub(super) mode: CipherMode,
    /// Whether the other mode was ruled out.
    pub(super) is_sure: bool,
    pub(super) nonce: [u8; 4],
    pub(super) version: u32,
    pub(super) message: [u8; BLOCK],
}

impl std::fmt::Debug for LogKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogKey").finish_non_exhaustive()
    }
}

impl LogKey {
    /// The key for a log that replaces this key's log and starts over at `lsn`. A server will use the same LSNs again, and with them the
    /// same initialisation vectors, for different records. So this is a different key, derived from the same one in `keys` with a message
    /// that no log has used. Equal logs that start over at the same LSN get the same key.
    ///
    /// # Errors
    /// [`LogKeyError::NoKey`], [`LogKeyError::KeyLength`].
    pub fn renewed(&self, keys: &KeyStore, lsn: Lsn) -> Result<Self, LogKeyError> {
        let mut message = (u128::from_be_bytes(self.message) ^ u128::from(lsn.0)).to_be_bytes();
        self.key.encrypt(CipherMode::Cbc, &[0; BLOCK], &mut message);
        Ok(Self { key: derive(keys, self.version, &message)?, message, ..self.clone() })
    }

    /// Writes this key's message to the key information at `at` in `bytes`. Everything else stays unchanged.
    pub(super) fn put_message(&self, bytes: &mut [u8], at: usize) -> Option<()> {
        bytes.get_mut(at + KEY_MESSAGE..)?.get_mut(..BLOCK)?.copy_from_slice(&self.message);
        Some(())
    }

    /// The server's AES mode, used in its tablespaces too. `None` if the part of the log read so far is the same in both modes.
    #[must_use]
    pub fn mode(&self) -> Option<CipherMode> {
        self.is_sure.then_some(self.mode)
    }

    /// The key version of a block of 10.5 to 10.7, if it is not this one.
    pub(super) fn other_version(&self, block: &[u8]) -> Option<u32> {
        be::u32_at(block, BLOCK_KEY_VERSION).filter(|&version| version != self.version)
    }

    /// The version of the key.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Decrypts the records of a mini-transaction into `plain`. `nonce` follows its end marker.
    pub(super) fn open_mtr(&self, records: &[u8], nonce: [u8; 8], scheme: StreamEncryption, plain: &mut Vec<u8>) {
        plain.clear();
        plain.extend_from_slice(records);
        transform(plain, nonce, scheme, |iv, bytes| self.key.decrypt(self.mode, iv, bytes));
    }

    /// Encrypts the records of a mini-transaction; the inverse of [`open_mtr`](Self::open_mtr).
    pub(super) fn seal_mtr(&self, records: &[u8], nonce: [u8; 8], scheme: StreamEncryption) -> Vec<u8> {
        let mut sealed = records.to_vec();
        let encrypt = |iv: &[u8; BLOCK], bytes: &mut [u8]| self.key.encrypt(self.mode, iv, bytes);
        transform(&mut sealed, nonce, scheme, encrypt);
        sealed
    }

    /// Decrypts a block of 10.5 to 10.7 that starts at `lsn`.
    pub(super) fn open_block(&self, block: &mut [u8; LOG_BLOCK_SIZE], lsn: Lsn) {
        let iv = self.block_iv(block, lsn);
        self.key.decrypt(self.mode, &iv, block.get_mut(BLOCK_ENCRYPTED).unwrap_or_default());
    }

    /// Encrypts a block of 10.5 to 10.7 that starts at `lsn`; its checksum comes later.
    pub fn seal_block(&self, block: &mut [u8; LOG_BLOCK_SIZE], lsn: Lsn) {
        let iv = self.block_iv(block, lsn);
        self.key.encrypt(self.mode, &iv, block.get_mut(BLOCK_ENCRYPTED).unwrap_or_default());
        if let Some(version) = block.get_mut(BLOCK_KEY_VERSION..LOG_BLOCK_CHECKSUM) {
            version.copy_from_slice(&self.version.to_be_bytes());
        }
    }

    fn block_iv(&self, block: &[u8; LOG_BLOCK_SIZE], lsn: Lsn) -> [u8; BLOCK] {
        let number = be::u32_at(block, 0).unwrap_or(0) & !FLUSH_BIT;
        let nonce = u32::from_be_bytes(self.nonce);
        (u128::from(number) << 96 | u128::from(nonce) << 64 | u128::from(lsn.0)).to_be_bytes()
    }
}

/// Derives a key by encrypting a message with the server's key.
pub(super) fn derive(keys: &KeyStore, version: u32, message: &[u8; BLOCK]) -> Result<PageKey, LogKeyError> {
    let key = keys.by_id(LOG_KEY_ID, version).ok_or(LogKeyError::NoKey { version })?.bytes();
    let log_key = encrypt_block_with(key, message).map(Zeroizing::new);
    let log_key = log_key.ok_or(LogKeyError::KeyLength { len: key.len() })?;
    Ok(PageKey::new(&log_key))
}

/// Encrypts or decrypts the records of a mini-transaction: `change` handles one stretch, given its initialisation vector.
fn transform(records: &mut [u8], nonce: [u8; 8], scheme: StreamEncryption, change: impl Fn(&[u8; BLOCK], &mut [u8])) {
    match scheme {
        StreamEncryption::Everything => transform_stream(records, nonce, change),
        StreamEncryption::PlainFileRecords => {
            let pages: Vec<_> = payload_of_pages(records).collect();
            for (id, range) in pages {
                let low = u128::from(id.space.0) << 32 | u128::from(id.page_no.0);
                let iv = (u128::from(u64::from_be_bytes(nonce)) << 64 | low).to_be_bytes();
                change(&iv, records.get_mut(range).unwrap_or_default());
            }
        }
    }
}

/// Everything but the records' types and lengths is one stream.
fn transform_stream(records: &mut [u8], nonce: [u8; 8], change: impl Fn(&[u8; BLOCK], &mut [u8])) {
    let mut iv = [0; BLOCK];
    let mut stream = Vec::with_capacity(records.len());
    for (head, body) in frames(records) {
        if stream.is_empty() {
            let given = nonce.iter().chain(records.get(head).unwrap_or_default());
            iv.iter_mut().zip(given).for_each(|(byte, given)| *byte = *given);
        }
        stream.extend_from_slice(records.get(body).unwrap_or_default());
    }
    change(&iv, &mut stream);
    let bodies: Vec<_> = frames(records).map(|(_, body)| body).collect();
    let mut rest = stream.as_slice();
    for body in bodies {
        let (changed, later) = rest.split_at_checked(body.len()).unwrap_or((rest, &[]));
        records.get_mut(body).unwrap_or_default().copy_from_slice(changed);
        rest = later;
    }
}

/// Ranges of the head and the body of each record.
fn frames(records: &[u8]) -> impl Iterator<Item = (std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let Frame { head_len, len, .. } = frame(records.get(at..)?)?;
        let (start, end) = (at, at.checked_add(len).filter(|&end| end <= records.len())?);
        at = end;
        Some((start..start + head_len, start + head_len..end))
    })
}
