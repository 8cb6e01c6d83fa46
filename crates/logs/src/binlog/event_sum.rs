//! The checksum of one event while it streams by, under each possible reading of its header.
//!
//! Length and next position say the same thing twice. If they disagree, one of them is damaged, or the log is a relay log. The checksum
//! decides: it is computed with the header as stored, with the next position corrected, and with the length corrected, and the reading
//! whose checksum matches is proven. So a damaged length costs one event, not the rest of the log.

use crc_fast::{CrcAlgorithm, Digest};

use format::bytes::le;
use format::pieces::{gather, take};

use super::Corruption;
use super::event::{CRC_LEN, EventType, HEADER_LEN, Header, POS_LEN, POS_NEXT};
use super::format_description::{FormatDescription, LEN_MAX};

/// The result at the end of an event.
#[derive(Debug, Clone, Copy)]
pub(super) enum SumOutcome {
    /// The checksum matches the event as stored.
    Sound { len: u32 },
    /// The checksum matches with a corrected header.
    Repaired { len: u32, corruption: Corruption },
    /// The checksum does not match.
    Unsound { len: u32, stored: u32, computed: u32 },
    /// It matches at neither of two lengths.
    Nowhere,
}

/// One reading of the header, and its checksum.
#[derive(Debug)]
struct Reading {
    len: u32,
    /// What is wrong if this reading is right.
    corruption: Option<Corruption>,
    digest: Digest,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct EventSum {
    header: Header,
    /// Shortest first; among equals, the event as stored first.
    readings: Vec<Reading>,
    /// Bytes of the event included in the checksums.
    summed: u32,
    /// The checksum at the end of the shortest reading, as received so far.
    crc: Vec<u8>,
    /// The whole event, if it is to be kept: at most [`LEN_MAX`] bytes.
    kept: Option<Vec<u8>>,
    was_refuted: bool,
}

impl EventSum {
    /// For the event at `start` in the file. `by_position`: its length according to the next position.
    pub(super) fn new(header: Header, start: u64, by_position: Option<u32>, keeps: bool) -> Self {
        let reading = |len, corruption, bytes: [u8; HEADER_LEN]| {
            let mut digest = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
            digest.update(&bytes);
            Reading { len, corruption, digest }
        };
        let mut readings = vec![reading(header.len, None, header.summed())];
        if let Some(actual) = by_position.filter(|len| *len != header.len) {
            let next = ((start & 0xFFFF_FFFF) as u32).wrapping_add(header.len);
            let corruption = Corruption::NextPosition { stored: header.next, actual: next };
            readings.push(reading(header.len, Some(corruption), header.summed_with(POS_NEXT, next)));
            let corruption = Corruption::Length { stored: header.len, actual };
            readings.push(reading(actual, Some(corruption), header.summed_with(POS_LEN, actual)));
            readings.retain(|reading| reading.len >= (HEADER_LEN + CRC_LEN) as u32);
            readings.sort_by_key(|reading| reading.len);
        }
        let kept = keeps.then(|| header.bytes.to_vec());
        Self { header, readings, summed: HEADER_LEN as u32, crc: Vec::new(), kept, was_refuted: false }
    }

    pub(super) const fn header(&self) -> &Header {
        &self.header
    }

    /// The event, if it was to be kept: at most as many bytes as a format description can have.
    pub(super) fn kept(&self) -> &[u8] {
        self.kept.as_deref().unwrap_or_default()
    }

    /// Whether a reading was tried and did not match.
    pub(super) const fn was_refuted(&self) -> bool {
        self.was_refuted
    }

    /// Whether this is a format description from a server without checksums.
    pub(super) fn is_without_checksum(&self) -> bool {
        self.header.kind == EventType::FORMAT_DESCRIPTION
            && FormatDescription::parse(self.kept()).is_some_and(|format| !format.has_own_checksum)
    }

    /// Consumes bytes of the event. Returns the outcome once all are here.
    pub(super) fn take(&mut self, input: &mut &[u8]) -> Option<SumOutcome> {
        loop {
            let Some(len) = self.readings.first().map(|reading| reading.len) else {
                return Some(SumOutcome::Nowhere);
            };
            let left = len.saturating_sub(CRC_LEN as u32).saturating_sub(self.summed);
            let bytes = take(input, left as usize);
            self.sum(bytes);
            if bytes.len() < left as usize || !gather(&mut self.crc, input, CRC_LEN) {
                return None;
            }
            if let Some(outcome) = self.judge(len) {
                return Some(outcome);
            }
            self.go_on_from(len);
        }
    }

    /// Continues with the next longer reading, for which the checksum at length `len` is ordinary data, or partly checksum.
    fn go_on_from(&mut self, len: u32) {
        let next = self.readings.first().map_or(len, |reading| reading.len);
        let mut rest = std::mem::take(&mut self.crc);
        let summed: Vec<u8> = rest.drain(..(next.saturating_sub(len) as usize).min(CRC_LEN).min(rest.len())).collect();
        self.sum(&summed);
        self.crc = rest;
    }

    fn sum(&mut self, bytes: &[u8]) {
        for reading in &mut self.readings {
            reading.digest.update(bytes);
        }
        self.summed = self.summed.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            let room = LEN_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        }
    }

    /// Compares all readings of that length with the checksum. `None` if none matches and longer ones remain.
    fn judge(&mut self, len: u32) -> Option<SumOutcome> {
        let stored = le::u32_at(&self.crc, 0)?;
        let (here, longer): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.readings).into_iter().partition(|r| r.len == len);
        let fitting = here.iter().find(|reading| reading.sum() == stored);
        let outcome = match (fitting.map(|reading| reading.corruption), here.first()) {
            (Some(None), _) => SumOutcome::Sound { len },
            (Some(Some(corruption)), _) => SumOutcome::Repaired { len, corruption },
            (None, Some(as_stored)) if longer.is_empty() && !self.was_refuted => {
                SumOutcome::Unsound { len, stored, computed: as_stored.sum() }
            }
            (None, _) => {
                self.was_refuted = true;
                self.readings = longer;
                return self.readings.is_empty().then_some(SumOutcome::Nowhere);
            }
        };
        let crc = std::mem::take(&mut self.crc);
        self.keep(&crc);
        Some(outcome)
    }
}

impl Reading {
    fn sum(&self) -> u32 {
        // The library holds every CRC, even a CRC-32, in a wider integer.
        (self.digest.finalize() & 0xFFFF_FFFF) as u32
    }
}
