//! The frame of a mini-transaction of MariaDB 10.8 and later: where it ends, and whether it is complete. Its records are not interpreted,
//! except to tell checkpoints from everything else.

use crc_fast::{CrcAlgorithm, Digest};

use format::bytes::be;
use format::checksum::crc32c;

/// The largest mini-transaction; anything longer means the end of the log.
pub(crate) const MTR_SIZE_MAX: usize = 1 << 20;

/// The result of parsing at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// A complete mini-transaction: its records, and its length including end marker and checksum.
    Mtr(&'a [u8], usize),
    /// No mini-transaction: the log ends here.
    End,
    /// More bytes are needed.
    MoreBytes,
}

/// The rest of a record after its first byte. `None` if more bytes are needed.
pub(crate) fn record_rest(bytes: &[u8]) -> Option<Rest> {
    let first = bytes.first()?;
    match usize::from(first & 15) {
        0 => match varint(bytes.get(1..)?)? {
            Varint::Value(value) => Some(Rest::Len(value + 15)),
            Varint::Bad => Some(Rest::Bad),
        },
        rest => Some(Rest::Len(rest)),
    }
}

/// The length of a record, from its first bytes.
pub(crate) enum Rest {
    /// Bytes after the first.
    Len(usize),
    /// No record starts like this.
    Bad,
}

enum Varint {
    Value(usize),
    Bad,
}

/// Lengths take at most 3 bytes. `None` if more bytes are needed.
fn varint(bytes: &[u8]) -> Option<Varint> {
    let byte = |at: usize| bytes.get(at).map(|&byte| usize::from(byte));
    let first = byte(0)?;
    Some(match first {
        0..=0x7F => Varint::Value(first),
        0x80..=0xBF => Varint::Value(128 + ((first & 0x3F) << 8 | byte(1)?)),
        0xC0..=0xDF => Varint::Value(16_512 + ((first & 0x1F) << 16 | byte(1)? << 8 | byte(2)?)),
        _ => Varint::Bad,
    })
}

/// The byte that ends a mini-transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// In a ring: it changes with every lap.
    Of(u8),
    /// In a log that is kept as an archive: it means nothing.
    Either,
}

impl Marker {
    /// Whether a mini-transaction may end with this byte.
    #[inline]
    pub(crate) const fn allows(self, byte: u8) -> bool {
        match self {
            Self::Of(marker) => byte == marker,
            Self::Either => byte <= 1,
        }
    }
}

/// Parses the mini-transaction at the start of `bytes`. `marker` gives the end marker expected at an offset from the start of `bytes`;
/// `nonce` bytes separate marker and checksum.
pub(crate) fn parse(bytes: &[u8], nonce: usize, marker: impl Fn(usize) -> Marker) -> Parsed<'_> {
    let mut end = 0;
    loop {
        if end > MTR_SIZE_MAX {
            return Parsed::End;
        }
        let Some(rest) = bytes.get(end..) else { return Parsed::MoreBytes };
        match rest.first() {
            None => return Parsed::MoreBytes,
            Some(0 | 1) => break,
            Some(_) => {}
        }
        match record_rest(rest) {
            Some(Rest::Len(len)) => end += 1 + len,
            Some(Rest::Bad) => return Parsed::End,
            None => return Parsed::MoreBytes,
        }
    }
    let (records, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
    if records.is_empty() || !rest.first().is_some_and(|byte| marker(end).allows(*byte)) {
        return Parsed::End;
    }
    let (Some(nonce_bytes), Some(stored)) = (rest.get(1..1 + nonce), be::u32_at(rest, 1 + nonce)) else {
        return Parsed::MoreBytes;
    };
    if checksum(records, nonce_bytes) == stored { Parsed::Mtr(records, end + 5 + nonce) } else { Parsed::End }
}

/// The checksum does not cover the end marker.
fn checksum(records: &[u8], nonce: &[u8]) -> u32 {
    if nonce.is_empty() {
        return crc32c(records);
    }
    let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    crc.update(records);
    crc.update(nonce);
    u32::try_from(crc.finalize()).unwrap_or(0)
}

/// First byte and body of each record; the body includes the ids.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let Some(Rest::Len(len)) = record_rest(bytes) else { return None };
        let (record, rest) = bytes.split_at_checked(1 + len)?;
        bytes = rest;
        record.split_first().map(|(&first, body)| (first, body))
    })
}
