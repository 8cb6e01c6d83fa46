//! MariaDB's redo log kept as an archive (`innodb_log_archive=ON`, 13.0): files that the server never overwrites.
//!
//! Each is named for the LSN of its first payload byte, `ib_0000000000003000.log`. From [`START_OFFSET`] on it has what a ring would have; the
//! next file begins where it ends. The bytes before are numbers of 8 bytes, big-endian, one for each checkpoint that was made while the
//! server wrote this file: the offset in the file of the records that belong to the checkpoint, FILE_MODIFY and then FILE_CHECKPOINT. A number
//! that leads to no such records ends the list; the last one before it counts. If all 1536 are used, the last one is overwritten.
//!
//! | the header begins with | it is |
//! |---|---|
//! | an offset, 8 bytes | a list of checkpoints |
//! | zeros, 12 KiB | a file made before it is needed, or without a checkpoint so far |
//! | the header of a ring with a sound checksum | a ring whose server was interrupted while it changed between the two forms |
//! | 1, 8 bytes | an encrypted log, which this build does not read |
//! | an offset, 4 bytes | the form of a preview of 13.0, which this build does not read |
//!
//! The end markers of mini-transactions mean nothing here. A server writes 1; what it wrote while the file was a ring may have 0.
//!
//! Source: MariaDB 13.0 `log0recv.cc` (`recv_sys_t::find_checkpoint`, `find_checkpoint_archived`, `log_parse_start`), `buf0flu.cc`
//! (`log_t::write_checkpoint`), `log0log.cc` (`log_t::header_rewrite`, `set_archive`), `innodb/t/log_archive.test`. No file of a server was at
//! hand: the tests write such files by these rules.

use crate::mariadb::{Checkpoint, LOG_HEADER_CHECKSUM, LOG_HEADER_FORMAT, START_OFFSET};
use crate::mtr::{self, MTR_SIZE_MAX, Marker, Parsed};
use crate::{LogVendor, check_crc, identify};
use format::bytes::{be, is_zero};
use format::types::Lsn;

/// No file is shorter, and its length is a multiple of [`FILE_ALIGNMENT`]: the server ignores others.
pub const FILE_SIZE_MIN: u64 = 4 << 20;
/// What the length of every file is a multiple of.
pub const FILE_ALIGNMENT: u64 = 4096;
/// Bytes of an entry in the list of checkpoints.
pub const SLOT_SIZE: usize = 8;
/// Entries in the list.
pub const SLOTS: usize = START_OFFSET / SLOT_SIZE;
/// The first number in the header of an encrypted log.
const ENCRYPTED: u64 = 1;
/// High halves of the first bytes of the records that belong to a checkpoint.
const FILE_MODIFY: u8 = 0xB0;
const FILE_CHECKPOINT: u8 = 0xF0;
/// Bytes of the record that names a checkpoint after its first one: space 0, page 0, the LSN.
const FILE_CHECKPOINT_BODY_SIZE: usize = 10;
/// Bytes of file names before the checkpoints of one list, at most: no server has so many files.
const NAMES_MAX: usize = 64 << 20;
/// Bytes read at the place of a checkpoint at first.
const READ_FIRST: usize = 4096;

/// The LSN that the name of such a file gives.
#[must_use]
pub fn first_lsn(name: &str) -> Option<Lsn> {
    let digits = name.strip_prefix("ib_")?.strip_suffix(".log")?;
    let is_number = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let lsn = is_number.then(|| u64::from_str_radix(digits, 16).ok()).flatten()?;
    (lsn >= START_OFFSET as u64).then_some(Lsn(lsn))
}

/// The name of the file that begins at `first`.
#[must_use]
pub fn file_name(first: Lsn) -> String {
    format!("ib_{:016x}.log", first.0)
}

/// What the first [`START_OFFSET`] bytes of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A list of checkpoints: offsets in the file, each at least as high as the one before. Nothing says yet that records are there.
    List(Vec<u64>),
    /// All zeros.
    Blank,
    /// The header of a ring.
    Ring,
    /// An encrypted log.
    Encrypted,
    /// The form of a preview, if there are a checkpoint's records at this offset.
    Preview(u64),
    /// None of these.
    Unknown,
}

impl Head {
    /// Reads the header of a file of `size` bytes.
    #[must_use]
    pub fn read(header: &[u8], size: u64) -> Self {
        let (Some(header), Some(first)) = (header.get(..START_OFFSET), be::u64_at(header, 0)) else {
            return Self::Unknown;
        };
        let is_place = |place: u64| (START_OFFSET as u64..size).contains(&place);
        if is_place(first) {
            let mut last = first;
            let is_next = |place: &u64| {
                let is_next = is_place(*place) && *place >= last;
                last = last.max(*place);
                is_next
            };
            let places = (0..SLOTS).filter_map(|slot| be::u64_at(header, slot * SLOT_SIZE));
            return Self::List(places.take_while(is_next).collect());
        }
        let is_ring = identify(header) == Ok(LogVendor::MariaDb) && check_crc(header, LOG_HEADER_CHECKSUM).is_ok();
        match be::u32_at(header, LOG_HEADER_FORMAT) {
            _ if is_zero(header) => Self::Blank,
            _ if is_ring => Self::Ring,
            _ if first == ENCRYPTED => Self::Encrypted,
            Some(place) if is_place(u64::from(place)) => Self::Preview(u64::from(place)),
            _ => Self::Unknown,
        }
    }
}

/// The first byte after the list of checkpoints of a header that is not as a server leaves it: neither zero nor left from a ring.
#[must_use]
pub fn stray_byte(header: &[u8], entries: usize) -> Option<usize> {
    use crate::mariadb::{CHECKPOINT_1, CHECKPOINT_2};
    let from = entries.checked_mul(SLOT_SIZE)?;
    // A server that was interrupted while it began to keep its log has not come to these yet.
    let left = [CHECKPOINT_1, CHECKPOINT_2].into_iter().filter(|slot| {
        header.get(*slot..).is_some_and(|slot| check_crc(slot, crate::mariadb::CHECKPOINT_CHECKSUM).is_ok())
    });
    let left: Vec<usize> = left.collect();
    let is_left = |at: usize| left.iter().any(|slot| (*slot..*slot + crate::checkpoint::SLOT_SIZE).contains(&at));
    let rest = header.get(from..START_OFFSET)?;
    (from..).zip(rest).find(|(at, byte)| **byte != 0 && !is_left(*at)).map(|(at, _)| at)
}

/// The newest checkpoint of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// How many entries of the list count.
    pub entries: usize,
    /// The end marker of the records of the first checkpoint in the list. A server that begins to keep its ring enters the checkpoint that was
    /// the newest then: so this is the marker of the ring's last lap, and what is left of the lap before has the other one.
    pub first_marker: u8,
}

/// The newest checkpoint in the list `places` of a file that begins at `first`. `read` gives bytes of the log from an LSN on, fewer where it
/// ends. `None` if not even the first place has the records of a checkpoint.
///
/// # Errors
/// Those of `read`.
pub fn newest<E>(
    places: &[u64],
    first: Lsn,
    mut read: impl FnMut(Lsn, usize) -> Result<Vec<u8>, E>,
) -> Result<Option<Newest>, E> {
    let (mut newest, mut names): (Option<Newest>, usize) = (None, NAMES_MAX);
    for (entry, place) in places.iter().enumerate() {
        let end_lsn = Lsn(first.0.saturating_add(place.saturating_sub(START_OFFSET as u64)));
        let Some((lsn, marker)) = named_at(end_lsn, &mut names, &mut read)? else { break };
        let first_marker = newest.map_or(marker, |newest| newest.first_marker);
        newest = Some(Newest { checkpoint: Checkpoint { lsn, end_lsn }, entries: entry + 1, first_marker });
    }
    Ok(newest)
}

/// The checkpoint that the records at `at` name, behind up to `names` bytes of file names, and the end marker of the first of their
/// mini-transactions.
fn named_at<E>(
    at: Lsn,
    names: &mut usize,
    read: &mut impl FnMut(Lsn, usize) -> Result<Vec<u8>, E>,
) -> Result<Option<(Lsn, u8)>, E> {
    let (mut from, mut marker, mut len) = (at, None, READ_FIRST);
    loop {
        let bytes = read(from, len)?;
        let mut done = 0;
        loop {
            let rest = bytes.get(done..).unwrap_or_default();
            let Parsed::Mtr(records, len) = mtr::parse(rest, 0, |_| Marker::Either) else { break };
            marker = marker.or_else(|| rest.get(records.len()).copied());
            match named_by(records) {
                Named::Checkpoint(lsn) if lsn <= at => return Ok(Some((lsn, marker.unwrap_or(1)))),
                Named::Files => done += len,
                Named::Checkpoint(_) | Named::Nothing => return Ok(None),
            }
        }
        let Some(left) = names.checked_sub(done) else { return Ok(None) };
        *names = left;
        from = Lsn(from.0.saturating_add(done as u64));
        // Files without end may be named before the checkpoint; a mini-transaction is never longer than that.
        len = match done {
            0 if len > MTR_SIZE_MAX || bytes.len() < len => return Ok(None),
            0 => 2 * MTR_SIZE_MAX,
            _ => len,
        };
    }
}

enum Named {
    Checkpoint(Lsn),
    Files,
    Nothing,
}

/// What a mini-transaction names: files, or, with its last record, a checkpoint.
fn named_by(records: &[u8]) -> Named {
    let mut named = Named::Files;
    for (first, body) in mtr::records(records) {
        named = match (first & 0xF0, named) {
            (FILE_MODIFY, Named::Files) => Named::Files,
            // Padding.
            (FILE_CHECKPOINT, Named::Files) if is_zero(body) => Named::Files,
            (FILE_CHECKPOINT, Named::Files) if body.len() == FILE_CHECKPOINT_BODY_SIZE && body.starts_with(&[0, 0]) => {
                be::u64_at(body, 2).map_or(Named::Nothing, |lsn| Named::Checkpoint(Lsn(lsn)))
            }
            _ => Named::Nothing,
        };
    }
    named
}

/// The first [`START_OFFSET`] bytes of a file with one checkpoint, whose records are at `place` in the file.
#[must_use]
pub fn header(place: u64) -> Vec<u8> {
    let mut header = place.to_be_bytes().to_vec();
    header.resize(START_OFFSET, 0);
    header
}

/// The entry that the next checkpoint gets in a header whose first `entries` count, and its bytes, for records at `place` in the file.
#[must_use]
pub fn next_entry(entries: usize, place: u64) -> (usize, [u8; SLOT_SIZE]) {
    (entries.min(SLOTS - 1) * SLOT_SIZE, place.to_be_bytes())
}
