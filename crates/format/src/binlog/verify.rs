//! The walk from event to event.

use crate::bytes::is_zero;
use crate::pieces::{clamp, gather, take};

use super::event::{CRC_LEN, EventType, FLAG_IN_USE, FLAG_RELAY, HEADER_LEN, Header};
use super::event_sum::{EventSum, Outcome};
use super::format_description::{EncryptedHeader, FormatDescription, LEN_MAX, LEN_MIN};
use super::{Corruption, Error, Event, MAGIC, MAGIC_ENCRYPTED, Summary, Tail, Verdict, Why};

/// Longest event: the most that a packet carries, and room for headers. What claims more is no event.
const EVENT_LEN_MAX: u32 = (1 << 30) + (1 << 20);

/// Verifies a log that arrives in pieces of any size. Feed it with [`Verifier::next_event`], close it with
/// [`Verifier::finish`]. Memory: an event's header, and one format description.
#[derive(Debug)]
pub struct Verifier {
    /// Bytes taken in.
    position: u64,
    /// Where the current event begins.
    start: u64,
    state: State,
    /// What is being collected of a header.
    head: Vec<u8>,
    checksums: Checksums,
    /// MariaDB's START_ENCRYPTION was met.
    encrypted: bool,
    /// "Next position" is not a position in this file: it is a relay log, whose events keep those of the source's log.
    is_relay: bool,
    /// The event before was damaged, so that it is less sure that one begins here.
    after_damage: bool,
    encrypted_header: Option<EncryptedHeader>,
    summary: Summary,
}

#[derive(Debug)]
enum State {
    Magic,
    EncryptionHeader,
    Header,
    Body(Box<EventSum>),
    /// An event whose bytes say nothing without a checksum or a key: so many are still to come.
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
    /// A verifier at the beginning of a file.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            position: 0,
            start: 0,
            state: State::Magic,
            head: Vec::new(),
            checksums: Checksums::Unknown,
            encrypted: false,
            is_relay: false,
            after_damage: false,
            encrypted_header: None,
            summary: Summary {
                events: 0,
                ok: 0,
                no_checksum: 0,
                unverifiable: 0,
                corrupt: 0,
                in_use: false,
                tail: Tail::Whole,
                format: None,
            },
        }
    }

    /// The header of a file that MySQL encrypted, once it has passed. With the key, the rest can be decrypted and given to a new
    /// verifier: it is a whole log, its magic included.
    #[must_use]
    pub const fn encrypted_header(&self) -> Option<&EncryptedHeader> {
        self.encrypted_header.as_ref()
    }

    /// The verdict on the next event; takes what it needs off the front of `input`. `None` when `input` is used up: come again
    /// with more.
    ///
    /// # Errors
    /// [`Error::NotBinlog`], [`Error::EncryptionHeader`].
    pub fn next_event(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Error> {
        loop {
            let before = input.len();
            let step = self.step(input);
            self.position = self.position.saturating_add((before - input.len()) as u64);
            match step? {
                Step::Event(event) => {
                    self.count(event.verdict);
                    return Ok(Some(event));
                }
                Step::More => return Ok(None),
                Step::Again => {}
            }
        }
    }

    /// The file has ended.
    ///
    /// # Errors
    /// [`Error::TooShort`] where it ends before the first event.
    pub fn finish(mut self) -> Result<Summary, Error> {
        let (position, len) = (self.start, self.position.saturating_sub(self.start));
        self.summary.tail = match &self.state {
            State::Magic | State::EncryptionHeader => {
                return Err(Error::TooShort { len: self.position });
            }
            State::Header if self.head.is_empty() => Tail::Whole,
            // The shorter of two possible lengths proved wrong, and the longer leads out of the file.
            State::Body(sum) if sum.was_refuted() => Tail::Unexamined { position, len },
            State::Header | State::Body(_) | State::Passing(_) => Tail::Cut { position, present: len },
            State::Zeros => Tail::Zeros { position, len },
            State::Unexamined => Tail::Unexamined { position, len },
            State::Encrypted => Tail::Encrypted { position, len },
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

    fn step(&mut self, input: &mut &[u8]) -> Result<Step, Error> {
        match std::mem::replace(&mut self.state, State::Header) {
            State::Magic => self.magic(input),
            State::EncryptionHeader => self.encryption_header(input),
            State::Header => Ok(self.header(input)),
            State::Body(sum) => Ok(self.body(input, sum)),
            State::Passing(event) => Ok(self.pass(input, event)),
            State::Zeros => {
                let all_zero = is_zero(input);
                *input = &[];
                self.state = if all_zero { State::Zeros } else { State::Unexamined };
                Ok(Step::More)
            }
            rest @ (State::Unexamined | State::Encrypted) => {
                *input = &[];
                self.state = rest;
                Ok(Step::More)
            }
        }
    }

    fn magic(&mut self, input: &mut &[u8]) -> Result<Step, Error> {
        self.state = State::Magic;
        if !gather(&mut self.head, input, MAGIC.len()) {
            return Ok(Step::More);
        }
        if self.head == MAGIC_ENCRYPTED {
            self.state = State::EncryptionHeader;
        } else if self.head == MAGIC {
            self.head.clear();
            self.state = State::Header;
        } else {
            return Err(Error::NotBinlog);
        }
        Ok(Step::Again)
    }

    fn encryption_header(&mut self, input: &mut &[u8]) -> Result<Step, Error> {
        self.state = State::EncryptionHeader;
        if !gather(&mut self.head, input, EncryptedHeader::LEN) {
            return Ok(Step::More);
        }
        self.encrypted_header = Some(EncryptedHeader::parse(&self.head).ok_or(Error::EncryptionHeader)?);
        self.start = EncryptedHeader::LEN as u64;
        self.state = State::Encrypted;
        Ok(Step::Again)
    }

    fn header(&mut self, input: &mut &[u8]) -> Step {
        if self.head.is_empty() {
            self.start = self.position;
        }
        let whole = gather(&mut self.head, input, HEADER_LEN);
        let Some(header) = whole.then(|| Header::parse(&self.head)).flatten() else {
            return Step::More;
        };
        if self.summary.in_use && is_zero(&self.head) {
            self.head.clear();
            self.state = State::Zeros;
            return Step::Again;
        }
        self.head.clear();
        let claimed = self.claimed_by_position(&header);
        if self.encrypted {
            return self.pass_or_give_up(&header, None);
        }
        if !self.begins_event(&header, claimed) {
            return self.give_up(&header);
        }
        let keeps = header.kind == EventType::FORMAT_DESCRIPTION || self.summary.events == 0;
        if self.checksums == Checksums::Off && !keeps {
            return self.pass_or_give_up(&header, Some(header.kind));
        }
        self.state = State::Body(Box::new(EventSum::new(header, self.start, claimed, keeps)));
        Step::Again
    }

    /// The length that follows from the next position, where that is one in this file.
    fn claimed_by_position(&self, header: &Header) -> Option<u32> {
        let start = (self.start & 0xFFFF_FFFF) as u32;
        let len = header.next.wrapping_sub(start);
        let usable = !self.is_relay && header.next != 0 && (len_min()..=EVENT_LEN_MAX).contains(&len);
        usable.then_some(len)
    }

    /// Whether an event can begin with this header: its length is possible, or the next position gives one that is; and the
    /// type is one, or length and next position agree. After a damaged event both must hold.
    fn begins_event(&self, header: &Header, claimed: Option<u32>) -> bool {
        let len_fits = (len_min()..=EVENT_LEN_MAX).contains(&header.len)
            || (self.checksums == Checksums::Off && header.len >= HEADER_LEN as u32);
        let agrees = claimed == Some(header.len);
        let known = header.kind.is_plausible();
        if header.kind == EventType::FORMAT_DESCRIPTION {
            let fits = |len: u32| (LEN_MIN..=LEN_MAX).contains(&clamp(len.into()));
            return fits(header.len) || claimed.is_some_and(fits);
        }
        if self.after_damage && !self.is_relay && self.checksums == Checksums::On {
            return agrees || (len_fits && known && header.next == 0);
        }
        (len_fits && (known || agrees)) || (claimed.is_some() && self.checksums == Checksums::On)
    }

    fn give_up(&mut self, header: &Header) -> Step {
        self.state = State::Unexamined;
        let corruption = Corruption::NoEvent { code: header.kind.0, len: header.len };
        self.event(None, header.len, Verdict::Corrupt(corruption))
    }

    fn pass_or_give_up(&mut self, header: &Header, kind: Option<EventType>) -> Step {
        match header.len.checked_sub(HEADER_LEN as u32) {
            Some(left) if header.len <= EVENT_LEN_MAX => {
                self.state = State::Passing(Passing { kind, len: header.len, left });
                Step::Again
            }
            _ => self.give_up(header),
        }
    }

    fn pass(&mut self, input: &mut &[u8], mut event: Passing) -> Step {
        let passed = take(input, clamp(event.left.into())).len();
        event.left = event.left.saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX));
        if event.left > 0 {
            self.state = State::Passing(event);
            return Step::More;
        }
        self.encrypted |= event.kind == Some(EventType::START_ENCRYPTION);
        let verdict = if event.kind.is_some() { Verdict::NoChecksum } else { Verdict::Unverifiable(Why::Encrypted) };
        self.event(event.kind, event.len, verdict)
    }

    fn body(&mut self, input: &mut &[u8], mut sum: Box<EventSum>) -> Step {
        let Some(outcome) = sum.take(input) else {
            self.state = State::Body(sum);
            return Step::More;
        };
        let header = *sum.header();
        let is_first = self.summary.events == 0;
        let (len, verdict) = match outcome {
            Outcome::Sound { len } => {
                // The checksum covers the next position, so it is meant as it stands: not for this file.
                self.is_relay |= header.next != 0 && self.claimed_by_position(&header) != Some(len);
                (len, Verdict::Ok)
            }
            Outcome::Repaired { len, corruption } => (len, Verdict::Corrupt(corruption)),
            Outcome::Unsound { len, .. } if sum.is_without_checksum() => (len, Verdict::NoChecksum),
            Outcome::Unsound { len, .. } if is_first && header.kind != EventType::FORMAT_DESCRIPTION => {
                (len, self.not_format_description(header.kind))
            }
            Outcome::Unsound { len, stored, computed } if self.trusts_checksums(&header) => {
                (len, Verdict::Corrupt(Corruption::Checksum { stored, computed }))
            }
            Outcome::Unsound { len, .. } => (len, Verdict::Unverifiable(Why::UnknownFormat)),
            Outcome::Nowhere => return self.give_up(&header),
        };
        if header.kind == EventType::FORMAT_DESCRIPTION {
            self.adopt(&header, &sum, verdict);
        } else if verdict == Verdict::Ok && self.checksums == Checksums::Unknown {
            // One event in four thousand million has a right checksum by chance.
            self.checksums = Checksums::On;
        }
        self.encrypted |= header.kind == EventType::START_ENCRYPTION;
        self.event(Some(header.kind), len, verdict)
    }

    /// A format description has a checksum whatever it says of the others.
    fn trusts_checksums(&self, header: &Header) -> bool {
        self.checksums == Checksums::On || header.kind == EventType::FORMAT_DESCRIPTION
    }

    /// Logs from before MySQL 5.0 begin with another type; there is no telling what is right in them.
    fn not_format_description(&self, kind: EventType) -> Verdict {
        if kind == EventType::START_V3 {
            Verdict::Unverifiable(Why::UnknownFormat)
        } else {
            Verdict::Corrupt(Corruption::NotFormatDescription { code: kind.0 })
        }
    }

    /// Takes over what a format description says of the events behind it.
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

    fn event(&mut self, kind: Option<EventType>, len: u32, verdict: Verdict) -> Step {
        self.after_damage = matches!(verdict, Verdict::Corrupt(Corruption::Checksum { .. }));
        Step::Event(Event { position: self.start, len, kind, verdict })
    }
}

/// The shortest event with a checksum.
const fn len_min() -> u32 {
    (HEADER_LEN + CRC_LEN) as u32
}

enum Step {
    Event(Event),
    More,
    Again,
}
