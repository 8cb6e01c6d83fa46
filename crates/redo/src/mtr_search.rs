//! Finds all mini-transactions in a run of bytes, wherever they start: in one pass, from the end to the start.
//!
//! Parsing at every byte would look at the same bytes again and again: the records starting at one byte may extend over a mebibyte, and so
//! may those of the next byte. But what follows a record does not depend on how it was reached. So the pass goes backwards and takes one
//! step per byte: where the record starting there ends, and which end marker was found from there.
//!
//! The checksum is not recomputed for each start either. A CRC is a polynomial remainder over GF(2): appending n bytes multiplies it by
//! x^(8n) and adds the remainder of those bytes. Let V(p) be the remainder of all bytes from p to the end of the run, N bytes in all.
//! Records from b to the marker at e then have the checksum state C exactly if
//!
//! ```text
//! start * x^(8(N-b)) + V(b)  =  C * x^(8(N-e)) + V(e)          start: the state before the first byte, all ones
//! ```
//!
//! The right side is stored with each end marker; the left side depends on b.

use std::ops::Range;

use crate::mtr::{MTR_SIZE_MAX, Marker, Rest, record_rest};
use format::bytes::{be, is_zero};

/// The polynomial of CRC-32C without its highest term, lowest power in the highest bit: x^32 as a remainder.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// The number 1 in this bit order.
const ONE: u32 = 1 << 31;
/// State of a CRC-32C before the first byte, and the value added after the last.
const ALL_ONES: u32 = u32::MAX;
/// Length of a checksum, bytes.
const CRC_SIZE: usize = 4;
/// Zeros skipped in one step, bytes. Most of a log that was never full is zeros.
const ZEROS: usize = 4096;
/// The factor for [`ZEROS`] zero bytes: x^(8 * [`ZEROS`]).
const POWER_OF_ZEROS: u32 = {
    let (mut power, mut passed) = (ONE, 0);
    while passed < 8 * ZEROS {
        power = times_x(power);
        passed += 1;
    }
    power
};

/// Where the log continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resumption {
    /// The first place, from the requested one on, where two mini-transactions start, or one followed by a zero.
    pub proof: usize,
    /// The first place from which mini-transactions lead to `proof` without a gap.
    pub resumed: usize,
}

/// The result of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    Found(Resumption),
    /// Nowhere in these bytes.
    Nowhere,
    /// Undecided: something that starts in these bytes extends beyond them.
    MoreBytes,
}

/// Searches `bytes` for the log, from `from` on. `marker` gives the end marker expected at an offset; `nonce` bytes separate it from
/// the checksum. Returns [`Search::MoreBytes`] only if not `is_all`.
pub(crate) fn resumption(
    bytes: &[u8],
    from: usize,
    nonce: usize,
    is_all: bool,
    marker: impl Fn(usize) -> Marker,
) -> Search {
    let mut pass = Pass::new(bytes, nonce, marker);
    let (mut proof, mut unknown) = (None, None);
    for start in (0..bytes.len()).step_by(ZEROS).rev() {
        let piece = start..bytes.len().min(start + ZEROS);
        if pass.skip_zeros(&piece) {
            continue;
        }
        for at in piece.rev() {
            let leads = pass.step(at);
            if at < from.max(1) {
                continue;
            }
            match leads {
                Begin::Mtr(len) => match pass.goes_on(at + len) {
                    Some(true) => proof = Some(at),
                    Some(false) => {}
                    None => unknown = Some(at),
                },
                Begin::Unknown => unknown = Some(at),
                Begin::Nothing => {}
            }
        }
    }
    match (proof, unknown) {
        (Some(proof), unknown) if is_all || unknown.is_none_or(|unknown| unknown > proof) => {
            Search::Found(Resumption { proof, resumed: pass.first_leading_to(proof) })
        }
        (None, Some(_)) | (Some(_), _) if !is_all => Search::MoreBytes,
        _ => Search::Nowhere,
    }
}

/// What starts at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// A mini-transaction of that length.
    Mtr(usize),
    Nothing,
    /// More bytes are needed.
    Unknown,
}

/// Where the records that start at a place lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LeadsTo(u32);

impl LeadsTo {
    const NOWHERE: Self = Self(u32::MAX);
    /// Beyond the bytes.
    const OUTSIDE: Self = Self(u32::MAX - 1);
}

/// An end marker that may belong to the log.
#[derive(Debug, Clone, Copy)]
struct EndMarker {
    at: usize,
    /// The right side of the equation in the module's documentation.
    wanted: u32,
}

/// The pass over the bytes, from last to first.
struct Pass<'b, S> {
    bytes: &'b [u8],
    nonce: usize,
    expected: S,
    /// For each place, an index into `markers`, or one of the two constants.
    targets: Vec<LeadsTo>,
    markers: Vec<EndMarker>,
    /// Starts of mini-transactions and their lengths; last place first.
    starts: Vec<(usize, usize)>,
    /// After n bytes: x^(8n), x^(8n + 32), the start state times x^(8n), V of the place.
    power: u32,
    power_of_next: u32,
    start: u32,
    sum: u32,
}

impl<'b, S: Fn(usize) -> Marker> Pass<'b, S> {
    fn new(bytes: &'b [u8], nonce: usize, expected: S) -> Self {
        Self {
            bytes,
            nonce,
            expected,
            targets: vec![LeadsTo::NOWHERE; bytes.len()],
            markers: Vec::new(),
            starts: Vec::new(),
            power: ONE,
            power_of_next: POLYNOMIAL,
            start: ALL_ONES,
            sum: 0,
        }
    }

    /// Moves one place towards the start.
    fn step(&mut self, at: usize) -> Begin {
        let Some(&byte) = self.bytes.get(at) else { return Begin::Nothing };
        self.pass(byte);
        let target = if byte <= 1 { self.marker(at, byte) } else { self.record(at) };
        if let Some(slot) = self.targets.get_mut(at) {
            *slot = target;
        }
        if byte <= 1 {
            return Begin::Nothing;
        }
        if target == LeadsTo::OUTSIDE {
            return Begin::Unknown;
        }
        let Some(marker) = self.markers.get(target.0 as usize) else { return Begin::Nothing };
        if self.start ^ self.sum != marker.wanted || marker.at - at > MTR_SIZE_MAX {
            return Begin::Nothing;
        }
        let len = marker.at - at + 1 + self.nonce + CRC_SIZE;
        self.starts.push((at, len));
        Begin::Mtr(len)
    }

    /// Skips a piece at once if it is [`ZEROS`] zeros that cannot be end markers: nothing starts in them.
    fn skip_zeros(&mut self, piece: &Range<usize>) -> bool {
        // Both ends suffice: the bit changes once per lap of the log, which is longer than this piece.
        let is_marker = |at| (self.expected)(at).allows(0);
        let bytes = self.bytes.get(piece.clone()).filter(|bytes| bytes.len() == ZEROS && is_zero(bytes));
        if bytes.is_none() || is_marker(piece.start) || is_marker(piece.end - 1) {
            return false;
        }
        self.power = product(self.power, POWER_OF_ZEROS);
        self.power_of_next = product(self.power_of_next, POWER_OF_ZEROS);
        self.start = product(self.start, POWER_OF_ZEROS);
        true
    }

    /// Adds a byte in front of those passed so far.
    #[inline]
    fn pass(&mut self, byte: u8) {
        self.power = times_byte(self.power);
        self.start = times_byte(self.start);
        if byte == 0 {
            self.power_of_next = times_byte(self.power_of_next);
            return;
        }
        let mut power = self.power_of_next;
        for bit in (0..8).rev() {
            self.sum ^= power & 0_u32.wrapping_sub(u32::from(byte >> bit & 1));
            power = times_x(power);
        }
        self.power_of_next = power;
    }

    /// The end marker at a place, if the log can have one there.
    fn marker(&mut self, at: usize, byte: u8) -> LeadsTo {
        if !(self.expected)(at).allows(byte) {
            return LeadsTo::NOWHERE;
        }
        let nonce = self.bytes.get(at + 1..at + 1 + self.nonce);
        let (Some(nonce), Some(stored)) = (nonce, be::u32_at(self.bytes, at + 1 + self.nonce)) else {
            return LeadsTo::OUTSIDE;
        };
        let state = nonce.iter().rev().fold(stored ^ ALL_ONES, |state, &byte| before_byte(state, byte));
        let wanted = product(state, self.power) ^ self.sum;
        self.markers.push(EndMarker { at, wanted });
        u32::try_from(self.markers.len() - 1).map_or(LeadsTo::NOWHERE, LeadsTo)
    }

    /// Where the record at a place leads.
    fn record(&self, at: usize) -> LeadsTo {
        match self.bytes.get(at..).and_then(record_rest) {
            None => LeadsTo::OUTSIDE,
            Some(Rest::Len(len)) if len < MTR_SIZE_MAX => {
                self.targets.get(at + 1 + len).copied().unwrap_or(LeadsTo::OUTSIDE)
            }
            Some(Rest::Len(_) | Rest::Bad) => LeadsTo::NOWHERE,
        }
    }

    /// Whether the log continues at a place: with a mini-transaction, or with the zero after its last one. `None` if more bytes are needed.
    fn goes_on(&self, at: usize) -> Option<bool> {
        let first = *self.bytes.get(at)?;
        if first == 0 || self.start_at(at).is_some() {
            return Some(true);
        }
        (self.targets.get(at) != Some(&LeadsTo::OUTSIDE)).then_some(false)
    }

    fn start_at(&self, at: usize) -> Option<usize> {
        self.starts.binary_search_by(|(start, _)| at.cmp(start)).ok()
    }

    /// The first place other than 0 from which mini-transactions lead to `target` without a gap.
    fn first_leading_to(&self, target: usize) -> usize {
        let mut leading = vec![target];
        for &(start, len) in self.starts.iter().filter(|(start, _)| (1..target).contains(start)) {
            if leading.binary_search_by(|other| (start + len).cmp(other)).is_ok() {
                leading.push(start);
            }
        }
        leading.last().copied().unwrap_or(target)
    }
}

/// A remainder times x.
#[inline]
const fn times_x(value: u32) -> u32 {
    (value >> 1) ^ (POLYNOMIAL & 0_u32.wrapping_sub(value & 1))
}

/// A remainder times x^8: the CRC step for a zero byte.
#[inline]
fn times_byte(value: u32) -> u32 {
    let low = (value & 0xFF) as usize;
    (value >> 8) ^ STEPS.get(low).copied().unwrap_or_default()
}

/// The CRC state from which `byte` led to `state`.
fn before_byte(state: u32, byte: u8) -> u32 {
    let entry = STEP_BY_HIGH_BYTE.get((state >> 24) as usize).copied().unwrap_or_default();
    let step = STEPS.get(usize::from(entry)).copied().unwrap_or_default();
    ((state ^ step) << 8 | u32::from(entry)) ^ u32::from(byte)
}

/// The product of two remainders.
fn product(factor: u32, mut power: u32) -> u32 {
    let mut sum = 0;
    for bit in (0..u32::BITS).rev() {
        sum ^= power & 0_u32.wrapping_sub(factor >> bit & 1);
        power = times_x(power);
    }
    sum
}

/// Each value of a byte, times x^8.
const STEPS: [u32; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    let mut rest: &mut [u32] = &mut steps;
    while let Some((step, after)) = rest.split_first_mut() {
        let mut value = byte;
        let mut bit = 0;
        while bit < 8 {
            value = times_x(value);
            bit += 1;
        }
        *step = value;
        byte += 1;
        rest = after;
    }
    steps
};

/// The index of the entry of [`STEPS`] with a given highest byte: each highest byte occurs once.
const STEP_BY_HIGH_BYTE: [u8; 256] = {
    let mut entries = [0; 256];
    let mut entry = 0_u8;
    let mut steps: &[u32] = &STEPS;
    while let Some((step, after)) = steps.split_first() {
        let (_, from_there) = entries.split_at_mut((*step >> 24) as usize);
        if let Some((place, _)) = from_there.split_first_mut() {
            *place = entry;
        }
        entry = entry.wrapping_add(1);
        steps = after;
    }
    entries
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ALL_ONES, Resumption, Search, ZEROS, before_byte, resumption, times_byte};
    use crate::mtr::{self, Marker, Parsed};
    use format::checksum::crc32c;

    /// The same search, by parsing at each place.
    fn at_each_place(bytes: &[u8], from: usize, nonce: usize, marker: impl Fn(usize) -> Marker) -> Search {
        let mtr_at = |at: usize| match mtr::parse(bytes.get(at..)?, nonce, |within| marker(at + within)) {
            Parsed::Mtr(_, len) => Some(len),
            Parsed::End | Parsed::MoreBytes => None,
        };
        let goes_on =
            |at: &usize| mtr_at(*at).is_some_and(|len| mtr_at(at + len).is_some() || bytes.get(at + len) == Some(&0));
        let leads_to = |mut at: usize, target: usize| {
            while at < target {
                let Some(len) = mtr_at(at) else { return false };
                at += len;
            }
            at == target
        };
        let Some(proof) = (from.max(1)..bytes.len()).find(goes_on) else { return Search::Nowhere };
        let resumed = (1..proof).find(|&at| leads_to(at, proof)).unwrap_or(proof);
        Search::Found(Resumption { proof, resumed })
    }

    /// A log of records and noise: for each part its bytes, whether it is sealed, and with which marker.
    fn log(parts: &[(Vec<u8>, bool, u8)], nonce: usize) -> Vec<u8> {
        let mut log = Vec::new();
        for (payload, is_sealed, marker) in parts {
            if !is_sealed {
                log.extend(payload);
                continue;
            }
            let records: Vec<u8> =
                payload.chunks(15).flat_map(|body| [&[0x30 | body.len() as u8][..], body].concat()).collect();
            let covered = [&records[..], &vec![0xA7; nonce]].concat();
            log.extend(records);
            log.push(*marker);
            log.extend(vec![0xA7; nonce]);
            log.extend(crc32c(&covered).to_be_bytes());
        }
        log
    }

    proptest! {
        #[test]
        fn one_pass_finds_what_parsing_at_each_place_finds(
            parts in proptest::collection::vec(
                (proptest::collection::vec(prop_oneof![0..4u8, any::<u8>()], 1..60), any::<bool>(), 0..2u8), 0..12),
            from in 0usize..100, is_encrypted in any::<bool>(), flip_at in 1usize..500, cut in 0usize..20,
            is_archived in any::<bool>(),
        ) {
            let nonce = if is_encrypted { 8 } else { 0 };
            let bytes = log(&parts, nonce);
            let marker = |at: usize| if is_archived { Marker::Either } else { Marker::Of(u8::from(at < flip_at)) };
            let expected = at_each_place(&bytes, from, nonce, marker);
            prop_assert_eq!(resumption(&bytes, from, nonce, true, marker), expected);
            // With fewer bytes the answer is the same, or more are needed.
            let front = bytes.get(..bytes.len().saturating_sub(cut)).unwrap_or_default();
            let early = resumption(front, from, nonce, false, marker);
            prop_assert!(early == expected || early == Search::MoreBytes || early == Search::Nowhere);
            prop_assert!(early != Search::Nowhere || !matches!(expected, Search::Found(found) if found.proof < front.len()));
        }
    }

    #[test]
    fn zeros_passed_in_one_step_change_nothing() {
        let record = |body: &[u8]| (body.to_vec(), true, 1);
        let first = log(&[record(b"some records"), record(b"and more")], 0);
        let noise = log(&[(b"\x35noise".to_vec(), false, 1)], 0);
        for zeros in [ZEROS - 1, ZEROS, 2 * ZEROS + 1, 7 * ZEROS / 2] {
            for flip_at in [0, noise.len() + zeros / 2, usize::MAX] {
                let bytes = [&noise[..], &vec![0; zeros], &first, &vec![0; zeros], &first].concat();
                let marker = |at: usize| Marker::Of(u8::from(at < flip_at));
                let expected = at_each_place(&bytes, 1, 0, marker);
                assert_eq!(resumption(&bytes, 1, 0, true, marker), expected, "{zeros} zeros, {flip_at}");
                assert_eq!(expected == Search::Nowhere, flip_at != usize::MAX);
            }
        }
    }

    #[test]
    fn the_steps_are_those_of_the_checksum() {
        let state = b"123456789".iter().fold(ALL_ONES, |state, &byte| times_byte(state ^ u32::from(byte)));
        assert_eq!(state ^ ALL_ONES, 0xE306_9283);
        let back = b"123456789".iter().rev().fold(state, |state, &byte| before_byte(state, byte));
        assert_eq!(back, ALL_ONES);
    }
}
