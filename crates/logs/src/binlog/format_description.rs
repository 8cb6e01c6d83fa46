//! The first event of a log, and the header of a file encrypted by MySQL.

use format::bytes::le;

use super::event::{CRC_LEN, HEADER_LEN};

const POS_VERSION: usize = HEADER_LEN;
const POS_SERVER: usize = POS_VERSION + 2;
const SIZE_SERVER: usize = 50;
const POS_CREATED: usize = POS_SERVER + SIZE_SERVER;
const POS_HEADER_LEN: usize = POS_CREATED + 4;
/// Algorithm and checksum at the end of the event.
const SIZE_ALGORITHM: usize = 1;

/// Length of a format description without any post-header lengths.
pub(super) const LEN_MIN: usize = POS_HEADER_LEN + 1;
/// Length with post-header lengths for 255 types, algorithm and checksum.
pub(super) const LEN_MAX: usize = LEN_MIN + 255 + SIZE_ALGORITHM + CRC_LEN;

/// More types than any server without checksums had (MySQL 5.5: 27).
const TYPES_BEFORE_CHECKSUMS: usize = 30;

/// A log's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatDescription {
    /// Format version: 4.
    pub binlog_version: u16,
    /// The server that wrote it, for example `10.11.19-MariaDB-log`.
    pub server_version: String,
    /// Whether later events have a CRC-32; `None` for algorithms that no server has yet.
    pub checksums: Option<bool>,
    /// Whether this event itself has one, as it does since MySQL 5.6.1 and MariaDB 5.3, whatever the algorithm.
    pub has_own_checksum: bool,
}

impl FormatDescription {
    /// Parses a complete event, including its header. `None` if it is too short.
    pub(super) fn parse(event: &[u8]) -> Option<Self> {
        let binlog_version = le::u16_at(event, POS_VERSION)?;
        let name = event.get(POS_SERVER..POS_CREATED)?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let server_version = String::from_utf8_lossy(name).into_owned();
        event.get(POS_HEADER_LEN)?;
        // A damaged version must not look like an old server's: those had few types, and so a short list of lengths.
        let is_long = event.len() > LEN_MIN + TYPES_BEFORE_CHECKSUMS;
        let has_own_checksum = knows_checksums(&server_version) || is_long;
        let checksums = if has_own_checksum {
            match *event.get(event.len().checked_sub(SIZE_ALGORITHM + CRC_LEN)?)? {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            }
        } else {
            Some(false)
        };
        Some(Self { binlog_version, server_version, checksums, has_own_checksum })
    }
}

/// Whether a server of that version includes the algorithm in its format descriptions.
fn knows_checksums(server_version: &str) -> bool {
    let mut numbers = server_version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0_u32));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let since = if server_version.contains("MariaDB") { (5, 3, 0) } else { (5, 6, 1) };
    version >= since
}

/// Length of the header of a file encrypted by MySQL; positions in the decrypted log count from its end.
pub(super) const ENCRYPTED_HEADER_LEN: usize = 512;
const SIZE_MAGIC: usize = 4;
const ENCRYPTION_VERSION: u8 = 1;
const FIELD_KEY_ID: u8 = 1;
const FIELD_PASSWORD: u8 = 2;
const FIELD_IV: u8 = 3;

/// The header of a file encrypted by MySQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptedHeader {
    /// Name of the key in the keyring.
    pub key_id: String,
    /// The file's password, encrypted with that key.
    pub encrypted_password: [u8; 32],
    /// The initialisation vector for that.
    pub iv: [u8; 16],
}

impl EncryptedHeader {
    /// Bytes in a file before its encrypted part.
    pub const LEN: usize = ENCRYPTED_HEADER_LEN;

    /// Parses the first [`EncryptedHeader::LEN`] bytes of a file whose magic was checked. `None` if they are not supported.
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        if *header.get(SIZE_MAGIC)? != ENCRYPTION_VERSION {
            return None;
        }
        let (mut key_id, mut password, mut iv) = (None, None, None);
        let mut rest = header.get(SIZE_MAGIC + 1..)?;
        while let Some((&field, value)) = rest.split_first().filter(|(field, _)| **field != 0) {
            let (value, after) = match field {
                FIELD_KEY_ID => {
                    let (&len, value) = value.split_first()?;
                    value.split_at_checked(len.into())?
                }
                FIELD_PASSWORD => value.split_at_checked(32)?,
                FIELD_IV => value.split_at_checked(16)?,
                _ => return None,
            };
            match field {
                FIELD_KEY_ID => key_id = Some(String::from_utf8_lossy(value).into_owned()),
                FIELD_PASSWORD => password = value.first_chunk().copied(),
                _ => iv = value.first_chunk().copied(),
            }
            rest = after;
        }
        Some(Self { key_id: key_id?, encrypted_password: password?, iv: iv? })
    }
}
