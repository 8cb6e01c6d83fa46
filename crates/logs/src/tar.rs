//! `tar` archives as streams: slices in, members and their bytes out. POSIX ustar and pax, GNU's long names and large sizes.
//!
//! | bytes | of a header of 512 | |
//! |---|---|---|
//! | 0 to 99 | name | |
//! | 124 to 135 | size | octal, or big-endian where the first bit is set |
//! | 148 to 155 | checksum | sum of all bytes, these counted as spaces; octal |
//! | 156 | type | `0`, NUL, `7`: file; `x`, `g`: pax records; `L`, `K`: GNU's long name, long link; `S`: GNU's sparse file |
//! | 257 to 262 | magic | `ustar` and NUL (POSIX) or a space (GNU) |
//! | 345 to 499 | prefix | of the name, POSIX only |
//! | 482 | more | GNU's sparse file: a block of its map follows; in such a block byte 504 says the same |
//!
//! The content follows, padded to whole blocks; two blocks of zeros end the archive. Facts: POSIX `pax`, GNU tar's manual.

use thiserror::Error;

/// Length of a header; everything is a multiple of it.
pub const BLOCK: usize = 512;
/// Longer names, and more pax records per member, are rejected.
const META_MAX: u64 = 1 << 20;

const NAME: std::ops::Range<usize> = 0..100;
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const TYPE: usize = 156;
const MAGIC: std::ops::Range<usize> = 257..263;
const PREFIX: std::ops::Range<usize> = 345..500;
const SPARSE_MORE: usize = 482;
const SPARSE_BLOCK_MORE: usize = 504;

/// The next item in the archive.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// A file starts.
    Member {
        /// Its path.
        path: Box<[u8]>,
        /// Its holes were left out: its bytes are not at their offsets, but are still returned as [`Event::Data`].
        is_sparse: bool,
    },
    /// Bytes of the current file.
    Data(&'i [u8]),
    /// That file is complete.
    End,
    /// A directory; its content follows as separate members.
    Directory {
        /// Its path.
        path: Box<[u8]>,
    },
    /// A member without content that is not a directory: a link, a device.
    Other {
        /// Its path.
        path: Box<[u8]>,
    },
}

/// Why the rest of the archive cannot be read. Positions are bytes from its start.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The bytes are not a header.
    #[error(
        "there is no member header at byte {position} of the tar archive, where one must be: the archive is damaged there or before"
    )]
    NoHeader {
        /// Where it should be.
        position: u64,
    },
    /// A long name or records of absurd length.
    #[error("the header at byte {position} of the tar archive has {len} bytes of names, more than innokit accepts")]
    TooLong {
        /// Its position.
        position: u64,
        /// Bytes.
        len: u64,
    },
    /// The archive ends within a member.
    #[error("the tar archive ends at byte {position}, in the middle of a member: the rest is missing")]
    CutShort {
        /// Where it ends.
        position: u64,
    },
}

#[derive(Debug)]
enum TarState {
    Header,
    /// Blocks of a sparse map, which precede the content.
    SparseMap,
    /// Names and records about the next member.
    Meta {
        kind: u8,
        left: u64,
    },
    Body {
        left: u64,
    },
    /// Skipped bytes: padding, directories, links.
    Skip {
        left: u64,
    },
    Ended,
}

/// Parses an archive from slices of any length.
#[derive(Debug)]
pub struct Parser {
    state: TarState,
    /// The part of a header, or of names, received so far.
    held: Vec<u8>,
    position: u64,
    /// A member is open; its content may be complete or empty.
    is_open: bool,
    filling: u64,
    sparse_len: u64,
    long_name: Option<Box<[u8]>>,
    pax_name: Option<Box<[u8]>>,
    pax_size: Option<u64>,
    pax_sparse: bool,
    /// Number of zero blocks found in place of a header.
    zeros: u32,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// A parser at the start of an archive.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: TarState::Header,
            held: Vec::new(),
            position: 0,
            is_open: false,
            filling: 0,
            sparse_len: 0,
            long_name: None,
            pax_name: None,
            pax_size: None,
            pax_sparse: false,
            zeros: 0,
        }
    }

    /// The next event; advances `input` past what it consumed. `None` if more bytes are needed.
    ///
    /// # Errors
    /// The bytes are not a tar archive from some position on.
    pub fn next_event<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, Error> {
        loop {
            match self.state {
                TarState::Body { left: 0 } => {
                    self.state = TarState::Skip { left: std::mem::take(&mut self.filling) };
                    self.is_open = false;
                    return Ok(Some(Event::End));
                }
                TarState::Skip { left: 0 } => self.state = TarState::Header,
                _ if input.is_empty() => return Ok(None),
                TarState::Body { left } => {
                    let bytes = self.take(input, left);
                    self.state = TarState::Body { left: left - bytes.len() as u64 };
                    return Ok(Some(Event::Data(bytes)));
                }
                TarState::Skip { left } => {
                    let bytes = self.take(input, left);
                    self.state = TarState::Skip { left: left - bytes.len() as u64 };
                }
                TarState::Ended => *input = &[],
                TarState::Meta { kind, left } => {
                    let bytes = self.take(input, left);
                    self.held.extend_from_slice(bytes);
                    let left = left - bytes.len() as u64;
                    self.state = TarState::Meta { kind, left };
                    if left == 0 {
                        self.end_of_meta(kind);
                    }
                }
                TarState::Header | TarState::SparseMap => {
                    let bytes = self.take(input, (BLOCK - self.held.len()) as u64);
                    self.held.extend_from_slice(bytes);
                    if self.held.len() == BLOCK
                        && let Some(event) = self.block()?
                    {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    /// Whether the archive has an end mark.
    ///
    /// # Errors
    /// It ends within a member.
    pub fn finish(&self) -> Result<bool, Error> {
        let is_between = matches!(self.state, TarState::Header) && self.held.is_empty() && !self.has_meta();
        match self.state {
            TarState::Ended => Ok(true),
            // Some writers leave out the second block of zeros, and the padding at the very end.
            _ if is_between => Ok(self.zeros > 0),
            TarState::Skip { .. } if !self.has_meta() => Ok(false),
            _ => Err(Error::CutShort { position: self.position }),
        }
    }

    fn has_meta(&self) -> bool {
        self.long_name.is_some() || self.pax_name.is_some() || self.pax_size.is_some()
    }

    fn take<'i>(&mut self, input: &mut &'i [u8], most: u64) -> &'i [u8] {
        let count = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
        let (bytes, rest) = input.split_at(count);
        *input = rest;
        self.position += count as u64;
        bytes
    }

    /// Handles a complete block: a header, or part of a sparse file's map.
    fn block(&mut self) -> Result<Option<Event<'static>>, Error> {
        let block = std::mem::take(&mut self.held);
        if matches!(self.state, TarState::SparseMap) {
            if block.get(SPARSE_BLOCK_MORE) == Some(&0) {
                self.state = TarState::Body { left: self.sparse_len };
            }
            return Ok(None);
        }
        if block.iter().all(|byte| *byte == 0) {
            self.zeros += 1;
            if self.zeros == 2 {
                self.state = TarState::Ended;
            }
            return Ok(None);
        }
        let position = self.position - BLOCK as u64;
        let header = Header::parse(&block).ok_or(Error::NoHeader { position })?;
        self.zeros = 0;
        self.header(&header, position)
    }

    fn header(&mut self, header: &Header, position: u64) -> Result<Option<Event<'static>>, Error> {
        if matches!(header.kind, b'x' | b'g' | b'L' | b'K') {
            if header.size > META_MAX {
                return Err(Error::TooLong { position, len: header.size });
            }
            self.filling = filling(header.size);
            self.state = TarState::Meta { kind: header.kind, left: header.size };
            if header.size == 0 {
                self.end_of_meta(header.kind);
            }
            return Ok(None);
        }
        let size = self.pax_size.take().unwrap_or(header.size);
        let long = self.pax_name.take().or(self.long_name.take());
        self.long_name = None;
        let is_sparse = header.kind == b'S' || std::mem::take(&mut self.pax_sparse);
        if !matches!(header.kind, b'0' | 0 | b'7' | b'S') {
            // Links, devices and directories have no content, whatever their size field says.
            let len = if matches!(header.kind, b'1'..=b'6') { 0 } else { size };
            self.state = TarState::Skip { left: len.saturating_add(filling(len)) };
            let path = long.unwrap_or_else(|| header.path.clone());
            return Ok(match header.kind {
                b'5' => Some(Event::Directory { path }),
                // The name of a volume, not of a member.
                b'V' => None,
                _ => Some(Event::Other { path }),
            });
        }
        self.filling = filling(size);
        self.is_open = true;
        self.sparse_len = size;
        let has_map = header.kind == b'S' && header.has_more;
        self.state = if has_map { TarState::SparseMap } else { TarState::Body { left: size } };
        Ok(Some(Event::Member { path: long.unwrap_or_else(|| header.path.clone()), is_sparse }))
    }

    fn end_of_meta(&mut self, kind: u8) {
        let held = std::mem::take(&mut self.held);
        self.state = TarState::Skip { left: std::mem::take(&mut self.filling) };
        match kind {
            b'L' => self.long_name = Some(until_nul(&held).into()),
            b'x' => self.records(&held),
            // Global records have no names or sizes, and link targets are not needed.
            _ => {}
        }
    }

    /// Pax records: `LENGTH KEY=VALUE\n`, where the length is that of the whole record.
    fn records(&mut self, mut bytes: &[u8]) {
        while let Some(space) = bytes.iter().position(|byte| *byte == b' ') {
            let len = bytes.get(..space).and_then(|digits| str::from_utf8(digits).ok()?.parse::<usize>().ok());
            let record = len.and_then(|len| bytes.get(space + 1..len.checked_sub(1)?).map(|record| (len, record)));
            let Some((len, record)) = record else { return };
            if let Some(equals) = record.iter().position(|byte| *byte == b'=') {
                let (key, value) = record.split_at(equals);
                self.record(key, value.get(1..).unwrap_or_default());
            }
            bytes = bytes.get(len..).unwrap_or_default();
        }
    }

    fn record(&mut self, key: &[u8], value: &[u8]) {
        let number = || str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
        match key {
            b"path" if !self.pax_sparse => self.pax_name = Some(value.into()),
            b"GNU.sparse.name" => self.pax_name = Some(value.into()),
            b"size" => self.pax_size = number(),
            _ => {}
        }
        self.pax_sparse |= key.starts_with(b"GNU.sparse.");
    }
}

/// Whether these are the first bytes of a tar archive.
#[must_use]
pub fn begins(head: &[u8]) -> bool {
    head.get(..BLOCK).is_some_and(|block| Header::parse(block).is_some())
}

struct Header {
    path: Box<[u8]>,
    size: u64,
    kind: u8,
    has_more: bool,
}

impl Header {
    fn parse(block: &[u8]) -> Option<Self> {
        let magic = block.get(MAGIC)?;
        if !magic.starts_with(b"ustar") {
            return None;
        }
        let stored = octal(block.get(CHECKSUM)?)?;
        let field: u64 = block.get(CHECKSUM)?.iter().map(|byte| u64::from(*byte)).sum();
        let all: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        if stored != all - field + 8 * u64::from(b' ') {
            return None;
        }
        let name = until_nul(block.get(NAME)?);
        let prefix = if magic.ends_with(&[0]) { until_nul(block.get(PREFIX)?) } else { &[] };
        let path = if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() };
        let (size, kind) = (number(block.get(SIZE)?)?, *block.get(TYPE)?);
        Some(Self { path: path.into(), size, kind, has_more: block.get(SPARSE_MORE) != Some(&0) })
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn filling(len: u64) -> u64 {
    (BLOCK as u64 - len % BLOCK as u64) % BLOCK as u64
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = str::from_utf8(field).ok()?.trim_matches(|letter| matches!(letter, ' ' | '\0'));
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

/// Sizes of 8 GiB and more are binary.
fn number(field: &[u8]) -> Option<u64> {
    match field.split_first() {
        Some((first, rest)) if first & 0x80 != 0 => {
            let high = u64::from(first & 0x7F);
            rest.iter().try_fold(high, |number, byte| number.checked_mul(256)?.checked_add(u64::from(*byte)))
        }
        _ => octal(field),
    }
}
