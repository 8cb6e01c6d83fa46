//! MariaDB's `file_key_management` key file.
//!
//! Lines `id;key` with a decimal id, from 1, and 16, 24 or 32 bytes of key in hexadecimal digits. Anything after the key on its line is
//! ignored, as are empty lines and lines that start with `#`. A later line for the same id replaces the earlier one. Every key has version
//! 1.
//!
//! The file may be encrypted as by `openssl enc -aes-256-cbc`: `Salted__`, 8 bytes of salt, AES-256-CBC with padding. Key and
//! initialisation vector are derived from the file's own key (a text) and the salt. All servers up to 11.x use OpenSSL's `EVP_BytesToKey`
//! with one round of SHA-1. Newer ones can be configured for a digest of the SHA-2 family, or for PBKDF2 (`file_key_management_digest`,
//! `file_key_management_use_pbkdf2`). The file does not say which was used, so all are tried.
//!
//! Source: MariaDB `plugin/file_key_management`: `parser.cc`, `file_key_management_plugin.cc`; checked with files made by
//! `openssl enc`.

use aes::Aes256Dec;
use aes::cipher::KeyInit;
use pbkdf2::pbkdf2_hmac;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use super::error::KeyringError;
use super::secret::{Secret, unhex};
use crate::cipher::{BLOCK, cbc_decrypt};

/// The only version that `file_key_management` knows.
pub(super) const VERSION: u32 = 1;

const ENCRYPTED_PREFIX: &[u8] = b"Salted__";
const SALT_LEN: usize = 8;
const KEY_LEN: usize = 32;
/// Bytes derived from the file's key: key and initialisation vector.
const DERIVED_LEN: usize = KEY_LEN + BLOCK;
/// The default of `openssl enc -pbkdf2`.
const ITERATIONS_DEFAULT: u32 = 10_000;

/// The key that encrypts a key file (`file_key_management_filekey`).
#[derive(Debug, Clone)]
pub struct FileKey {
    secret: Secret,
    iterations: u32,
}

impl FileKey {
    /// The key as written in the server's configuration, without `FILE:`.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self { secret: Secret::new(text.into()), iterations: ITERATIONS_DEFAULT }
    }

    /// The key in the content of the file named with `FILE:`; trailing line ends are ignored.
    #[must_use]
    pub fn from_file(content: &[u8]) -> Self {
        let end = content.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
        let secret = Secret::new(content.get(..end).unwrap_or_default().to_vec());
        Self { secret, iterations: ITERATIONS_DEFAULT }
    }

    /// The same key, for files encrypted with this many iterations of PBKDF2 (`file_key_management_use_pbkdf2`).
    #[must_use]
    pub fn with_iterations(mut self, iterations: u32) -> Self {
        self.iterations = iterations;
        self
    }
}

/// The keys in the file, with their ids.
pub(super) fn parse(file: &[u8], file_key: Option<&FileKey>) -> Result<Vec<(u32, Secret)>, KeyringError> {
    match (file.strip_prefix(ENCRYPTED_PREFIX), file_key) {
        (None, None) => parse_lines(file),
        (None, Some(_)) => Err(KeyringError::NotEncrypted),
        (Some(_), None) => Err(KeyringError::FileKeyNeeded),
        (Some(encrypted), Some(file_key)) => decrypt(encrypted, file_key),
    }
}

fn parse_lines(text: &[u8]) -> Result<Vec<(u32, Secret)>, KeyringError> {
    let mut keys = Vec::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii_start();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        keys.push(parse_line(line).ok_or(KeyringError::Line { line: index + 1 })?);
    }
    if keys.is_empty() { Err(KeyringError::Empty) } else { Ok(keys) }
}

fn parse_line(line: &[u8]) -> Option<(u32, Secret)> {
    let semicolon = line.iter().position(|&byte| byte == b';')?;
    let (id, key) = line.split_at_checked(semicolon)?;
    let id = id.iter().all(u8::is_ascii_digit).then_some(id)?;
    let id = std::str::from_utf8(id).ok()?.parse().ok().filter(|&id| id > 0)?;
    let key = key.strip_prefix(b";")?;
    let digits = key.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let key = unhex(key.get(..digits)?)?;
    matches!(key.bytes().len(), 16 | 24 | 32).then_some((id, key))
}

/// Ways to derive key and initialisation vector from secret and salt, likeliest first.
type Derive = fn(&FileKey, &[u8], &mut [u8; DERIVED_LEN]);
const DERIVATIONS: [Derive; 10] = [
    bytes_to_key::<Sha1>,
    bytes_to_key::<Sha256>,
    bytes_to_key::<Sha224>,
    bytes_to_key::<Sha384>,
    bytes_to_key::<Sha512>,
    |key, salt, out| pbkdf2_hmac::<Sha256>(key.secret.bytes(), salt, key.iterations, out),
    |key, salt, out| pbkdf2_hmac::<Sha1>(key.secret.bytes(), salt, key.iterations, out),
    |key, salt, out| pbkdf2_hmac::<Sha224>(key.secret.bytes(), salt, key.iterations, out),
    |key, salt, out| pbkdf2_hmac::<Sha384>(key.secret.bytes(), salt, key.iterations, out),
    |key, salt, out| pbkdf2_hmac::<Sha512>(key.secret.bytes(), salt, key.iterations, out),
];

/// OpenSSL's `EVP_BytesToKey` with one round: each digest covers the previous one, the secret and the salt.
fn bytes_to_key<D: Digest>(key: &FileKey, salt: &[u8], out: &mut [u8; DERIVED_LEN]) {
    let mut before = Zeroizing::new(Vec::new());
    for part in out.chunks_mut(<D as Digest>::output_size()) {
        let digest = D::new().chain_update(&*before).chain_update(key.secret.bytes()).chain_update(salt).finalize();
        part.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
        *before = digest.to_vec();
    }
}

/// The keys of an encrypted file; `encrypted` starts with the salt. A derivation is right if the result has valid padding and consists of
/// key lines only.
fn decrypt(encrypted: &[u8], file_key: &FileKey) -> Result<Vec<(u32, Secret)>, KeyringError> {
    let (salt, body) = encrypted.split_at_checked(SALT_LEN).ok_or(KeyringError::WrongFileKey)?;
    if body.is_empty() || !body.len().is_multiple_of(BLOCK) {
        return Err(KeyringError::WrongFileKey);
    }
    let attempt = |derive: Derive| {
        let mut derived = Zeroizing::new([0; DERIVED_LEN]);
        derive(file_key, salt, &mut derived);
        let (key, iv) = derived.split_first_chunk::<KEY_LEN>()?;
        let mut text = Zeroizing::new(body.to_vec());
        cbc_decrypt(&Aes256Dec::new(key.into()), iv.first_chunk()?, &mut text);
        parse_lines(without_padding(&text)?).ok()
    };
    DERIVATIONS.into_iter().find_map(attempt).ok_or(KeyringError::WrongFileKey)
}

/// Removes PKCS #7 padding: 1 to 16 bytes, each of which has their number as its value.
fn without_padding(text: &[u8]) -> Option<&[u8]> {
    let padding = usize::from(*text.last()?);
    let (text, bytes) = text.split_at_checked(text.len().checked_sub(padding)?)?;
    let sound = (1..=BLOCK).contains(&padding) && bytes.iter().all(|&byte| usize::from(byte) == padding);
    sound.then_some(text)
}
