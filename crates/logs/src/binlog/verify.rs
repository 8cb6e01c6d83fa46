//! Walks from event to event.

use std::sync::Arc;

use format::bytes::is_zero;
use format::keyring::KeyStore;
use format::pieces::{clamp, gather, take};

use super::event::{CRC_LEN, EventType, FLAG_IN_USE, FLAG_RELAY, HEADER_LEN, Header};
use super::event_sum::{EventSum, SumOutcome};
use super::format_description::{EncryptedHeader, FormatDescription, LEN_MAX, LEN_MIN};
use super::opening::{Events, Keystream, Opening, StartEncryption};
use super::{Corruption, Error, Event, MAGIC, MAGIC_ENCRYPTED, Summary, Tail, Verdict, Why};

/// The longest event: what fits in a packet, plus headers. Anything longer is not an event.
const EVENT_LEN_MAX: u32 = (1 << 30) + (1 << 20);

/// More than START_ENCRYPTION contains, bytes.
const START_ENCRYPTION_LEN_MAX: usize = 64;

/// Verifies a log that arrives in pieces of any size. Feed it with [`Verifier::next_event`], close it with [`Verifier::end`] and
/// [`Verifier::finish`]. Memory: an event's header, one format description, and 128 KiB if the log is encrypted.
#[derive(Debug)]
pub struct Verifier {
    /// Bytes consumed.
    position: u64,
    /// Start of the current event.
    start: u64,
    state: VerifyState,
    /// The part of a header collected so far.
    head: Vec<u8>,
    checksums: Checksums,
    /// MariaDB's START_ENCRYPTION was seen.
    encrypted: bool,
    /// "Next position" does not refer to this file: it is a relay log, whose events keep the positions of the source's log.
    is_relay: bool,
    /// The previous event was damaged, so it is less certain that one starts here.
    after_damage: bool,
    encrypted_header: Option<EncryptedHeader>,
    keys: Arc<KeyStore>,
    /// Decrypts the input.
    opening: Option<Opening>,
    /// Decrypted bytes, and how many of them were consumed.
    plain: (Vec<u8>, usize),
    /// Where the log starts in the file: its positions count from there.
    base: u64,
    /// The content of START_ENCRYPTION, in a log without checksums.
    start_encryption: Vec<u8>,
    /// Id of the server that started the log, once MariaDB's encrypted events come.
    server_id: Option<u32>,
    summary: Summary,
}

#[derive(Debug)]
enum VerifyState {
    Magic,
    EncryptionHeader,
    Header,
    Body(Box<EventSum>),
    /// An event that cannot be judged without a checksum or a key: bytes remaining.
    Passing(Passing),
    Zeros,
    Unexamined,
    Encrypted,
}

#[derive(Debug, Clone, Copy)]
struct Passing {
    kind: Option<EventType>,
    len: u32,
    left: u32,
    server_id: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checksums {
    Unknown,
    Off,
    On,
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Verifier {
    /// A verifier at the beginning of a file, without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::with_keys(Arc::default())
    }

    /// A verifier at the start of a file, with `keys` in case it is encrypted: the replication key that MySQL's header names, or MariaDB's
    /// key 1.
    #[must_use]
    pub fn with_keys(keys: Arc<KeyStore>) -> Self {
        Self {
            position: 0,
            start: 0,
            state: VerifyState::Magic,
            head: Vec::new(),
            checksums: Checksums::Unknown,
            encrypted: false,
            is_relay: false,
            after_damage: false,
            encrypted_header: None,
            keys,
            opening: None,
            plain: (Vec::new(), 0),
            base: 0,
            start_encryption: Vec::new(),
            server_id: None,
            summary: Summary {
                events: 0,
                ok: 0,
                no_checksum: 0,
                unverifiable: 0,
                corrupt: 0,
                in_use: false,
                tail: Tail::Whole,
                missing_key: None,
                format: None,
            },
        }
    }

    /// The header of a file encrypted by MySQL, once it was read.
    #[must_use]
    pub const fn encrypted_header(&self) -> Option<&EncryptedHeader> {
        self.encrypted_header.as_ref()
    }

    /// The verdict on the next event; consumes what it needs from the front of `input`. `None` if `input` is used up: call again with more.
    ///
    /// # Errors
    /// [`Error::NotBinlog`], [`Error::EncryptionHeader`], [`Error::WrongKey`].
    pub fn next_event(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Error> {
        loop {
            let step = if self.opening.is_some() { self.open_step(input)? } else { self.walk(input)? };
            match step {
                EventStep::Event(event) => {
                    self.count(event.verdict);
                    return Ok(Some(event));
                }
                EventStep::More => return Ok(None),
                EventStep::Again => {}
            }
        }
    }

    /// The file has ended. Bytes held back while its encryption was unclear come out of [`Verifier::next_event`] with an empty input.
    ///
    /// # Errors
    /// [`Error::WrongKey`].
    pub fn end(&mut self) -> Result<(), Error> {
        let Some(opening) = &mut self.opening else { return Ok(()) };
        self.plain.0.drain(..self.plain.1);
        self.plain.1 = 0;
        opening.finish(&mut self.plain.0)
    }

    /// Takes a step and counts the bytes consumed.
    fn walk(&mut self, input: &mut &[u8]) -> Result<EventStep, Error> {
        let before = input.len();
        let step = self.step(input);
        self.position = self.position.saturating_add((before - input.len()) as u64);
        step
    }

    /// Takes a step over decrypted bytes, decrypting more if there are none.
    fn open_step(&mut self, input: &mut &[u8]) -> Result<EventStep, Error> {
        let (mut plain, mut taken) = std::mem::take(&mut self.plain);
        if taken == plain.len() {
            plain.clear();
            taken = 0;
            let opened = self.opening.as_mut().map_or(Ok(false), |opening| opening.open(input, &mut plain))?;
            if !opened {
                return Ok(if input.is_empty() { EventStep::More } else { EventStep::Again });
            }
        }
        let mut rest = plain.get(taken..).unwrap_or_default();
        let step = self.walk(&mut rest);
        taken = plain.len() - rest.len();
        self.plain = (plain, taken);
        Ok(match step? {
            EventStep::More => EventStep::Again,
            step => step,
        })
    }

    /// The summary, once all events were read.
    ///
    /// # Errors
    /// [`Error::TooShort`] if it ends before the first event.
    pub fn finish(mut self) -> Result<Summary, Error> {
        let (position, len) = (self.start, self.position.saturating_sub(self.start));
        self.summary.tail = match &self.state {
            VerifyState::Magic | VerifyState::EncryptionHeader => {
                return Err(Error::TooShort { len: self.position });
            }
            VerifyState::Header if self.head.is_empty() => Tail::Whole,
            // The shorter of two possible lengths was wrong, and the longer one exceeds the file.
            VerifyState::Body(sum) if sum.was_refuted() => Tail::Unexamined { position, len },
            VerifyState::Header | VerifyState::Body(_) | VerifyState::Passing(_) => {
                Tail::Cut { position, present: len }
            }
            VerifyState::Zeros => Tail::Zeros { position, len },
            VerifyState::Unexamined => Tail::Unexamined { position, len },
            VerifyState::Encrypted => Tail::Encrypted { position, len },
        };
        Ok(self.summary)
    }

    fn count(&mut self, verdict: Verdict) {
        self.summary.events += 1;
        match verdict {
            Verdict::Ok => self.summary.ok += 1,
            Verdict::NoChecksum => self.summary.no_checksum += 1,
            Verdict::Unverifiable(_) => self.summary.unverifiable += 1,
            Verdict::Corrupt(_) => self.summary.corrupt += 1,
        }
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<EventStep, Error> {
        match std::mem::replace(&mut self.state, VerifyState::Header) {
            VerifyState::Magic => self.magic(input),
            VerifyState::EncryptionHeader => self.encryption_header(input),
            VerifyState::Header => Ok(self.header(input)),
            VerifyState::Body(sum) => Ok(self.body(input, sum)),
            VerifyState::Passing(event) => Ok(self.pass(input, event)),
            VerifyState::Zeros => {
                let all_zero = is_zero(input);
                *input = &[];
                self.state = if all_zero { VerifyState::Zeros } else { VerifyState::Unexamined };
                Ok(EventStep::More)
            }
            rest @ (VerifyState::Unexamined | VerifyState::Encrypted) => {
                *input = &[];
                self.state = rest;
                Ok(EventStep::More)
            }
        }
    }

    fn magic(&mut self, input: &mut &[u8]) -> Result<EventStep, Error> {
        self.state = VerifyState::Magic;
        if !gather(&mut self.head, input, MAGIC.len()) {
            return Ok(EventStep::More);
        }
        self.state = match &self.encrypted_header {
            _ if self.head == MAGIC => VerifyState::Header,
            Some(header) => return Err(Error::WrongKey { key: header.key_id.clone() }),
            None if self.head == MAGIC_ENCRYPTED => {
                self.state = VerifyState::EncryptionHeader;
                return Ok(EventStep::Again);
            }
            None => return Err(Error::NotBinlog),
        };
        self.head.clear();
        Ok(EventStep::Again)
    }

    fn encryption_header(&mut self, input: &mut &[u8]) -> Result<EventStep, Error> {
        self.state = VerifyState::EncryptionHeader;
        if !gather(&mut self.head, input, EncryptedHeader::LEN) {
            return Ok(EventStep::More);
        }
        let header = EncryptedHeader::parse(&self.head).ok_or(Error::EncryptionHeader)?;
        self.start = EncryptedHeader::LEN as u64;
        self.state = VerifyState::Encrypted;
        if let Some(key) = self.keys.by_name(&header.key_id) {
            let stream = Keystream::new(&header, key).map(Box::new);
            self.opening = Some(Opening::MySql(stream.ok_or_else(|| Error::WrongKey { key: header.key_id.clone() })?));
            self.base = self.start;
            self.head.clear();
            self.state = VerifyState::Magic;
        } else {
            self.summary.missing_key = Some(header.key_id.clone());
        }
        self.encrypted_header = Some(header);
        Ok(EventStep::Again)
    }

    /// Handles a START_ENCRYPTION event of `len` bytes.
    fn encryption_starts(&mut self, body: &[u8], len: u32, server_id: u32) {
        // Another one within encrypted events is a damaged event.
        if self.opening.is_some() {
            return;
        }
        self.encrypted = true;
        let Some(start) = StartEncryption::parse(body) else { return };
        let Some(key) = start.key(&self.keys) else {
            self.summary.missing_key = Some(start.key_name());
            return;
        };
        let position = self.start.saturating_add(len.into());
        self.opening = Some(Opening::MariaDb(Box::new(Events::new(start, key, position, server_id))));
        (self.encrypted, self.server_id) = (false, Some(server_id));
    }

    fn header(&mut self, input: &mut &[u8]) -> EventStep {
        if self.head.is_empty() {
            self.start = self.position;
        }
        let whole = gather(&mut self.head, input, HEADER_LEN);
        let Some(header) = whole.then(|| Header::parse(&self.head)).flatten() else {
            return EventStep::More;
        };
        if self.summary.in_use && is_zero(&self.head) {
            self.head.clear();
            self.state = VerifyState::Zeros;
            return EventStep::Again;
        }
        self.head.clear();
        let claimed = self.claimed_by_position(&header).filter(|_| self.trusts_header(&header));
        if self.encrypted {
            return self.pass_or_give_up(&header, None);
        }
        if !self.begins_event(&header, claimed) {
            return self.give_up(&header);
        }
        let keeps = header.kind == EventType::FORMAT_DESCRIPTION || self.summary.events == 0;
        let is_start = header.kind == EventType::START_ENCRYPTION && self.checksums != Checksums::Off;
        self.start_encryption.clear();
        if self.checksums == Checksums::Off && !keeps {
            return self.pass_or_give_up(&header, Some(header.kind));
        }
        self.state =
            VerifyState::Body(Box::new(EventSum::new(header, self.log_position(), claimed, keeps || is_start)));
        EventStep::Again
    }

    /// Position of the current event, as the log counts.
    const fn log_position(&self) -> u64 {
        self.start.saturating_sub(self.base)
    }

    /// The length according to the next position, if that is in this file.
    fn claimed_by_position(&self, header: &Header) -> Option<u32> {
        let start = (self.log_position() & 0xFFFF_FFFF) as u32;
        let len = header.next.wrapping_sub(start);
        let usable = !self.is_relay && header.next != 0 && (len_min()..=EVENT_LEN_MAX).contains(&len);
        usable.then_some(len)
    }

    /// Whether to believe a header. In an event encrypted by MariaDB, one damaged bit changes everything but the length.
    fn trusts_header(&self, header: &Header) -> bool {
        self.server_id.is_none_or(|server_id| server_id == header.server_id() && header.kind.is_plausible())
    }

    /// Whether an event may start with this header: its length is possible, or the next position gives one that is; and its type exists, or
    /// length and next position agree. After a damaged event both must hold.
    fn begins_event(&self, header: &Header, claimed: Option<u32>) -> bool {
        let len_fits = (len_min()..=EVENT_LEN_MAX).contains(&header.len)
            || (self.checksums == Checksums::Off && header.len >= HEADER_LEN as u32);
        let agrees = claimed == Some(header.len);
        let known = header.kind.is_plausible();
        if !self.trusts_header(header) && header.kind != EventType::FORMAT_DESCRIPTION {
            return len_fits && (known || self.checksums == Checksums::On);
        }
        if header.kind == EventType::FORMAT_DESCRIPTION {
            let fits = |len: u32| (LEN_MIN..=LEN_MAX).contains(&clamp(len.into()));
            return fits(header.len) || claimed.is_some_and(fits);
        }
        if self.after_damage && !self.is_relay && self.checksums == Checksums::On {
            return agrees || (len_fits && known && header.next == 0);
        }
        (len_fits && (known || agrees)) || (claimed.is_some() && self.checksums == Checksums::On)
    }

    fn give_up(&mut self, header: &Header) -> EventStep {
        self.state = VerifyState::Unexamined;
        let corruption = Corruption::NoEvent { code: header.kind.0, len: header.len };
        self.event(None, header.len, Verdict::Corrupt(corruption))
    }

    fn pass_or_give_up(&mut self, header: &Header, kind: Option<EventType>) -> EventStep {
        match header.len.checked_sub(HEADER_LEN as u32) {
            Some(left) if header.len <= EVENT_LEN_MAX => {
                self.state =
                    VerifyState::Passing(Passing { kind, len: header.len, left, server_id: header.server_id() });
                EventStep::Again
            }
            _ => self.give_up(header),
        }
    }

    fn pass(&mut self, input: &mut &[u8], mut event: Passing) -> EventStep {
        let passed = take(input, clamp(event.left.into()));
        event.left = event.left.saturating_sub(u32::try_from(passed.len()).unwrap_or(u32::MAX));
        let is_start = event.kind == Some(EventType::START_ENCRYPTION);
        if is_start && self.start_encryption.len() < START_ENCRYPTION_LEN_MAX {
            self.start_encryption.extend_from_slice(passed.get(..START_ENCRYPTION_LEN_MAX).unwrap_or(passed));
        }
        if event.left > 0 {
            self.state = VerifyState::Passing(event);
            return EventStep::More;
        }
        if is_start {
            let body = std::mem::take(&mut self.start_encryption);
            self.encryption_starts(&body, event.len, event.server_id);
        }
        let verdict = if event.kind.is_some() { Verdict::NoChecksum } else { Verdict::Unverifiable(Why::Encrypted) };
        self.event(event.kind, event.len, verdict)
    }

    fn body(&mut self, input: &mut &[u8], mut sum: Box<EventSum>) -> EventStep {
        let Some(outcome) = sum.take(input) else {
            self.state = VerifyState::Body(sum);
            return EventStep::More;
        };
        let header = *sum.header();
        let is_first = self.summary.events == 0;
        let (len, verdict) = match outcome {
            SumOutcome::Sound { len } => {
                // The checksum covers the next position, so it is as written. If it does not fit, it refers to another file.
                self.is_relay |= header.next != 0 && self.claimed_by_position(&header) != Some(len);
                (len, Verdict::Ok)
            }
            SumOutcome::Repaired { len, corruption } => (len, Verdict::Corrupt(corruption)),
            SumOutcome::Unsound { len, .. } if sum.is_without_checksum() && self.server_id.is_none() => {
                (len, Verdict::NoChecksum)
            }
            SumOutcome::Unsound { len, .. } if is_first && header.kind != EventType::FORMAT_DESCRIPTION => {
                (len, self.not_format_description(header.kind))
            }
            SumOutcome::Unsound { len, stored, computed } if self.trusts_checksums(&header) => {
                (len, Verdict::Corrupt(Corruption::Checksum { stored, computed }))
            }
            SumOutcome::Unsound { len, .. } => (len, Verdict::Unverifiable(Why::UnknownFormat)),
            SumOutcome::Nowhere => return self.give_up(&header),
        };
        // Within MariaDB's encrypted events, any damaged event may look like a format description.
        let is_description = header.kind == EventType::FORMAT_DESCRIPTION;
        if is_description && (self.server_id.is_none() || verdict == Verdict::Ok) {
            self.adopt(&header, &sum, verdict);
        } else if verdict == Verdict::Ok && self.checksums == Checksums::Unknown {
            // One event in four billion has a right checksum by chance.
            self.checksums = Checksums::On;
        }
        if header.kind == EventType::START_ENCRYPTION {
            self.encryption_starts(sum.kept().get(HEADER_LEN..).unwrap_or_default(), len, header.server_id());
        }
        self.event(Some(header.kind), len, verdict)
    }

    /// A format description has a checksum whatever it says about other events.
    fn trusts_checksums(&self, header: &Header) -> bool {
        self.checksums == Checksums::On || header.kind == EventType::FORMAT_DESCRIPTION
    }

    /// Logs from before MySQL 5.0 start with another type; whether they are sound cannot be told.
    fn not_format_description(&self, kind: EventType) -> Verdict {
        if kind == EventType::START_V3 {
            Verdict::Unverifiable(Why::UnknownFormat)
        } else {
            Verdict::Corrupt(Corruption::NotFormatDescription { code: kind.0 })
        }
    }

    /// Adopts what a format description says about later events.
    fn adopt(&mut self, header: &Header, sum: &EventSum, verdict: Verdict) {
        let format = FormatDescription::parse(sum.kept());
        let is_sound =
            matches!(verdict, Verdict::Ok | Verdict::NoChecksum | Verdict::Corrupt(Corruption::NextPosition { .. }));
        self.checksums = match format.as_ref().filter(|_| is_sound).and_then(|format| format.checksums) {
            Some(true) => Checksums::On,
            Some(false) => Checksums::Off,
            None => Checksums::Unknown,
        };
        self.is_relay |= header.flags & FLAG_RELAY != 0;
        if self.summary.format.is_none() {
            self.summary.in_use = header.flags & FLAG_IN_USE != 0;
            self.summary.format = format;
        }
    }

    fn event(&mut self, kind: Option<EventType>, len: u32, verdict: Verdict) -> EventStep {
        self.after_damage = matches!(verdict, Verdict::Corrupt(Corruption::Checksum { .. }));
        EventStep::Event(Event { position: self.start, len, kind, verdict })
    }
}

/// The shortest event with a checksum.
const fn len_min() -> u32 {
    (HEADER_LEN + CRC_LEN) as u32
}

enum EventStep {
    Event(Event),
    More,
    Again,
}
