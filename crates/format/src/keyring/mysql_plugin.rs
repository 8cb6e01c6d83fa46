//! The `keyring_file` plugin's file, versions 1.0 and 2.0.
//!
//! | field | size | meaning |
//! |---|---|---|
//! | version | 24 | `Keyring file version:1.0` or `...2.0` |
//! | records | | see below |
//! | tag | 3 | `EOF` |
//! | digest | 32 | SHA-256 of the records; 2.0 only |
//!
//! A record: five numbers (length of the record, of key id, of type, of user, of key), then these four strings, then padding up to the
//! record's length. The numbers are in the machine's own format, 8 or 4 bytes, little- or big-endian; the one that adds up for the whole
//! file is right. Key bytes are xored cyclically with a text that is the same everywhere.
//!
//! Sources: MySQL 8.0 `plugin/keyring`: `buffered_file_io.cc`, `common/keyring_key.cc`, `checker`; the records checked on files of
//! 5.7 and 8.0, the digest from source only.

use sha2::{Digest, Sha256};

use super::error::KeyringError;
use super::secret::Secret;

/// The first bytes of every such file.
pub(super) const MAGIC: &[u8] = b"Keyring file version:";
const VERSION_LEN: usize = 24;
const END_TAG: &[u8] = b"EOF";
const DIGEST_LEN: usize = 32;
const MASK: &[u8] = b"*305=Ljt0*!@$Hnm(*-9-w;:";
/// Bytes before the records, for offsets in errors.
const RECORDS: usize = VERSION_LEN;

/// The machine's number format.
#[derive(Clone, Copy)]
struct Machine {
    width: usize,
    little_endian: bool,
}

/// In the order in which the server tries them.
const MACHINES: [Machine; 4] = [
    Machine { width: 8, little_endian: true },
    Machine { width: 4, little_endian: true },
    Machine { width: 8, little_endian: false },
    Machine { width: 4, little_endian: false },
];

/// The keys in the file, with their names.
pub(super) fn parse(file: &[u8]) -> Result<Vec<(String, Secret)>, KeyringError> {
    let (version, rest) = file.split_at_checked(VERSION_LEN).ok_or(KeyringError::NotAKeyring)?;
    let (body, digest) = match version.strip_prefix(MAGIC) {
        Some(b"1.0") => (rest, None),
        Some(b"2.0") => {
            let split = rest.split_last_chunk::<DIGEST_LEN>();
            let (body, digest) = split.ok_or(KeyringError::Record { offset: RECORDS })?;
            (body, Some(digest))
        }
        _ => return Err(KeyringError::NotAKeyring),
    };
    let records = body.strip_suffix(END_TAG).ok_or(KeyringError::Record { offset: file.len() })?;
    if digest.is_some_and(|stored| Sha256::digest(records).as_slice() != stored) {
        return Err(KeyringError::Digest);
    }
    let mut outcome = Err(KeyringError::Record { offset: RECORDS });
    for machine in MACHINES {
        let attempt = read_records(records, machine);
        if attempt.is_ok() {
            return attempt;
        }
        // The first attempt fits nearly every machine, so its error is the one to report.
        if outcome == Err(KeyringError::Record { offset: RECORDS }) {
            outcome = attempt;
        }
    }
    outcome
}

fn read_records(mut records: &[u8], machine: Machine) -> Result<Vec<(String, Secret)>, KeyringError> {
    let len = records.len();
    let mut keys = Vec::new();
    while !records.is_empty() {
        let damaged = KeyringError::Record { offset: RECORDS + len - records.len() };
        let (key, rest) = read_record(records, machine).ok_or(damaged)?;
        keys.push(key);
        records = rest;
    }
    Ok(keys)
}

/// The first record of `records`, and the rest.
fn read_record(records: &[u8], machine: Machine) -> Option<((String, Secret), &[u8])> {
    let (head, _) = records.split_at_checked(5 * machine.width)?;
    let mut numbers = head.chunks_exact(machine.width).map(|bytes| machine.number(bytes));
    let mut next = || numbers.next().flatten();
    let (record_len, id_len, type_len, user_len, key_len) = (next()?, next()?, next()?, next()?, next()?);
    let (record, rest) = records.split_at_checked(record_len)?;
    let strings = record.get(head.len()..)?;
    let (id, strings) = strings.split_at_checked(id_len)?;
    let (_, strings) = strings.split_at_checked(type_len.checked_add(user_len)?)?;
    let (key, padding) = strings.split_at_checked(key_len)?;
    // In the wrong number format a record adds up only by chance: padding is always shorter than a number.
    if padding.len() >= machine.width {
        return None;
    }
    let key = key.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    Some(((String::from_utf8_lossy(id).into_owned(), Secret::new(key)), rest))
}

impl Machine {
    fn number(self, bytes: &[u8]) -> Option<usize> {
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        let number = if self.little_endian { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) };
        usize::try_from(number).ok()
    }
}
