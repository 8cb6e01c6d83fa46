//! The container in which `xtrabackup --stream=xbstream` and `mariadb-backup --stream=xbstream` send a backup.
//!
//! ```text
//! stream = chunk chunk chunk ...        chunks of several files may be mixed; those of one file are in order
//! chunk  = magic "XBSTCK01" 8 | flags 1 | type 1 | path length u32 | path | what the type asks for
//! ```
//!
//! All integers are little-endian. By type:
//!
//! | type | written by | after the path |
//! |------|------------|----------------|
//! | `P` payload | both | length u64, file offset u64, CRC-32 u32, then `length` bytes, which the CRC covers |
//! | `E` end of the file | both | nothing |
//! | `S` sparse payload | XtraBackup 8 | map entries u32, length u64, file offset u64, CRC-32 u32, map, bytes; the CRC covers both |
//! | `S` seek | MariaDB 10.11 and later | file offset u64 at which the next payload goes |
//! | `R` rename | MariaDB 10.11 and later | length u32 and bytes of the new path |
//! | `D` remove | MariaDB 10.11 and later | nothing |
//!
//! An entry of the sparse map is a pair: skip u32, write u32. The two meanings of `S` are distinguished by what follows: after the 8 bytes
//! of a seek comes the next chunk's magic, or the end of the stream, and in a sparse chunk the same bytes would make it longer than any
//! file. Flag 2 (MariaDB) means that the file was sent before and is now overwritten. CRC-32 uses the zlib polynomial.
//!
//! Sources: Percona XtraBackup's documentation describes the layout; MariaDB's types `S`, `R` and `D`, the flag and the limits were
//! observed by feeding chunks to `mbstream` 10.11.19.
//!
//! [`Parser`] consumes the stream in pieces of any size and keeps at most one chunk's header. [`payload_head`] and [`end`] write one.

mod chunk;
mod layout;
mod write;

use std::collections::{HashMap, VecDeque};

use thiserror::Error;

use chunk::{Chunk, ChunkKind, Payload};
use format::pieces::{clamp, gather, take};
pub use layout::{MAGIC, PATH_LEN_MAX};
pub use write::{end, payload_head};

/// Sparse map entries accepted at most: 128 times what a writer with 10 MiB chunks needs for 1 KiB pages.
pub const SPARSE_ENTRIES_MAX: u32 = 1 << 20;
/// Members open at once, at most. Writers have one per copying thread.
pub const OPEN_MEMBERS_MAX: usize = 1 << 14;

/// A file in the stream, numbered in order of appearance from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// An item in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'i> {
    /// The first chunk of a file.
    Member {
        /// Its id from now on.
        id: MemberId,
        /// Path as stored, relative to the backup's directory.
        path: Box<[u8]>,
        /// The file was sent before, and this overwrites parts of it.
        rewrite: bool,
    },
    /// Bytes of a file, passed on before the CRC of their chunk is known: see [`Event::BadChunk`].
    Data {
        /// The file.
        id: MemberId,
        /// Their offset in the file.
        offset: u64,
        /// The bytes, never empty.
        bytes: &'i [u8],
    },
    /// Bytes that the stream leaves out: a hole that reads as zeros, or unchanged bytes in a rewritten file.
    Skip {
        /// The file.
        id: MemberId,
        /// Offset of the gap in the file.
        offset: u64,
        /// Its length in bytes, not 0.
        len: u64,
    },
    /// A chunk does not continue where the previous one ended: one is missing, duplicated or out of order.
    Misplaced {
        /// The file.
        id: MemberId,
        /// Position of the chunk in the stream.
        position: u64,
        /// The expected offset in the file.
        expected: u64,
        /// The offset that the chunk gives.
        found: u64,
    },
    /// The CRC of a chunk is wrong, after all its bytes were passed on.
    BadChunk {
        /// The file.
        id: MemberId,
        /// Position of the chunk in the stream.
        position: u64,
        /// Offset of the chunk's bytes in the file.
        offset: u64,
        /// Length of the payload.
        len: u64,
        /// The CRC in the chunk.
        stored: u32,
        /// The CRC of the bytes.
        computed: u32,
    },
    /// The file is complete.
    End {
        /// The file.
        id: MemberId,
        /// Its size in bytes, assuming it was written from the first chunk to the last.
        len: u64,
    },
    /// A file sent before is renamed.
    Rename {
        /// The old path.
        from: Box<[u8]>,
        /// The new path.
        to: Box<[u8]>,
    },
    /// A file sent before is to be removed.
    Remove {
        /// Its path.
        path: Box<[u8]>,
    },
}

/// Why the rest of the stream cannot be read. Positions are bytes from its start.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The bytes are not a chunk.
    #[error(
        "no chunk begins at byte {position} of the stream, where one must: the stream is damaged before it, or is not an xbstream"
    )]
    NoMagic {
        /// Where the chunk should start.
        position: u64,
    },
    /// A type that neither XtraBackup nor mariadb-backup writes.
    #[error("the chunk at byte {position} of the stream has the unknown type 0x{code:02x}")]
    UnknownType {
        /// Where the chunk starts.
        position: u64,
        /// The type's byte.
        code: u8,
    },
    /// The path is longer than the format allows.
    #[error("the chunk at byte {position} of the stream claims a path of {len} bytes; {PATH_LEN_MAX} is the limit")]
    PathTooLong {
        /// Where the chunk starts.
        position: u64,
        /// The claimed length.
        len: u32,
    },
    /// The sparse map is larger than any that is written.
    #[error(
        "the sparse chunk at byte {position} of the stream claims {entries} map entries; {SPARSE_ENTRIES_MAX} is the limit"
    )]
    MapTooLong {
        /// Where the chunk starts.
        position: u64,
        /// The claimed number of entries.
        entries: u32,
    },
    /// The map of a sparse chunk places more or fewer bytes than the chunk has, or would make the file too long.
    #[error("the sparse chunk at byte {position} of the stream has {len} bytes of data and a map for {mapped}")]
    MapMismatch {
        /// Where the chunk starts.
        position: u64,
        /// Bytes of data in the chunk.
        len: u64,
        /// Bytes placed by its map.
        mapped: u64,
    },
    /// Offset and length exceed the largest possible file.
    #[error("the chunk at byte {position} of the stream would end beyond the largest possible file")]
    TooLarge {
        /// Where the chunk starts.
        position: u64,
    },
    /// More members are open than any writer would open.
    #[error("more than {OPEN_MEMBERS_MAX} files are open at byte {position} of the stream: their ends are missing")]
    TooManyOpen {
        /// Where the chunk starts.
        position: u64,
    },
    /// The stream ends within a chunk.
    #[error("the stream ends at byte {end}, within the chunk that begins at byte {position}")]
    CutShort {
        /// Where the chunk starts.
        position: u64,
        /// The length of the stream.
        end: u64,
    },
}

/// A file whose end is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Its id.
    pub id: MemberId,
    /// Its path.
    pub path: Box<[u8]>,
    /// Length up to where it was written, bytes.
    pub len: u64,
}

/// Parses the stream. Feed it with [`Parser::next_event`], close it with [`Parser::finish`].
///
/// Memory: one chunk's header, at most 8 MiB of a sparse map, and the paths of open files.
#[derive(Debug, Default)]
pub struct Parser {
    /// Bytes consumed.
    position: u64,
    state: ChunkState,
    /// The part of a chunk's header collected so far.
    head: Vec<u8>,
    /// Position of the current chunk.
    chunk_start: u64,
    open: HashMap<Box<[u8]>, Open>,
    members: u64,
    /// Events found ahead of the one being returned.
    pending: VecDeque<Event<'static>>,
    failed: Option<Error>,
}

#[derive(Debug, Default)]
enum ChunkState {
    #[default]
    Head,
    Path(Chunk),
    /// Everything between path and payload; its size may become known only step by step.
    Body(Chunk, Box<[u8]>),
    Payload(MemberId, Box<Payload>),
}

#[derive(Debug)]
struct Open {
    id: MemberId,
    /// Where the next chunk should continue in the file.
    offset: u64,
}

impl Parser {
    /// A parser at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of the stream consumed so far.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// The next event; consumes what it needs from the front of `input`. `None` if `input` is used up: call again with more.
    ///
    /// # Errors
    /// If the rest of the stream cannot be read; every later call returns the same error.
    pub fn next_event<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let before = input.len();
        let start = self.position;
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            let step = self.step(input);
            self.position = start.saturating_add((before - input.len()) as u64);
            match step {
                Ok(ChunkStep::Event(event)) => return Ok(Some(event)),
                Ok(ChunkStep::More) => return Ok(None),
                Ok(ChunkStep::Again) => {}
                Err(error) => {
                    self.failed = Some(error.clone());
                    return Err(error);
                }
            }
        }
    }

    /// The stream has ended. Returns the files whose end is missing, in order of appearance.
    ///
    /// # Errors
    /// [`Error::CutShort`] if it ends within a chunk, or the earlier error.
    pub fn finish(mut self) -> Result<Vec<Unfinished>, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let whole = match &self.state {
            ChunkState::Head => self.head.is_empty(),
            ChunkState::Body(chunk, _) => chunk.is_seek_at_end(&self.head),
            ChunkState::Path(_) | ChunkState::Payload(..) => false,
        };
        if !whole {
            return Err(Error::CutShort { position: self.chunk_start, end: self.position });
        }
        let mut unfinished: Vec<_> =
            self.open.into_iter().map(|(path, open)| Unfinished { id: open.id, path, len: open.offset }).collect();
        unfinished.sort_by_key(|member| member.id);
        Ok(unfinished)
    }

    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<ChunkStep<'i>, Error> {
        match std::mem::take(&mut self.state) {
            ChunkState::Head => self.head(input),
            ChunkState::Path(chunk) => {
                if !gather(&mut self.head, input, chunk.path_len) {
                    self.state = ChunkState::Path(chunk);
                    return Ok(ChunkStep::More);
                }
                let path = std::mem::take(&mut self.head).into_boxed_slice();
                self.state = ChunkState::Body(chunk, path);
                Ok(ChunkStep::Again)
            }
            ChunkState::Body(chunk, path) => self.body(input, chunk, path),
            ChunkState::Payload(id, payload) => Ok(self.payload(input, id, payload)),
        }
    }

    fn head<'i>(&mut self, input: &mut &'i [u8]) -> Result<ChunkStep<'i>, Error> {
        if self.head.is_empty() {
            self.chunk_start = self.position;
        }
        let whole = gather(&mut self.head, input, chunk::HEAD_LEN);
        // Report wrong magic as soon as its bytes are here: a file that is no stream may be shorter than a header.
        if !self.head.iter().zip(&MAGIC).all(|(found, magic)| found == magic) {
            return Err(Error::NoMagic { position: self.chunk_start });
        }
        if !whole {
            return Ok(ChunkStep::More);
        }
        let chunk = Chunk::parse(&self.head, self.chunk_start)?;
        self.head.clear();
        self.state = ChunkState::Path(chunk);
        Ok(ChunkStep::Again)
    }

    fn body<'i>(&mut self, input: &mut &'i [u8], chunk: Chunk, path: Box<[u8]>) -> Result<ChunkStep<'i>, Error> {
        let want = chunk.body_len(&self.head)?;
        if self.head.len() < want {
            let whole = gather(&mut self.head, input, want);
            self.state = ChunkState::Body(chunk, path);
            return Ok(if whole { ChunkStep::Again } else { ChunkStep::More });
        }
        let body = std::mem::take(&mut self.head);
        match chunk.kind(&body)? {
            ChunkKind::Remove => Ok(ChunkStep::Event(Event::Remove { path })),
            ChunkKind::Rename(to) => Ok(ChunkStep::Event(Event::Rename { from: path, to })),
            ChunkKind::End => {
                let id = self.member(&chunk, &path)?;
                let len = self.open.remove(&path).map_or(0, |open| open.offset);
                self.pending.push_back(Event::End { id, len });
                Ok(ChunkStep::Again)
            }
            ChunkKind::Seek(target) => {
                let id = self.member(&chunk, &path)?;
                self.seek(&path, id, target);
                // The next chunk's magic was needed to identify this one.
                self.head.extend_from_slice(&MAGIC);
                self.chunk_start = self.chunk_start.saturating_add((chunk::HEAD_LEN + chunk.path_len + 8) as u64);
                Ok(ChunkStep::Again)
            }
            ChunkKind::Payload(payload) => {
                let id = self.member(&chunk, &path)?;
                self.place(&path, id, &payload);
                self.state = ChunkState::Payload(id, payload);
                Ok(ChunkStep::Again)
            }
        }
    }

    /// The open member with that path; opens and announces it if necessary.
    fn member(&mut self, chunk: &Chunk, path: &[u8]) -> Result<MemberId, Error> {
        if let Some(open) = self.open.get(path) {
            return Ok(open.id);
        }
        if self.open.len() >= OPEN_MEMBERS_MAX {
            return Err(Error::TooManyOpen { position: self.chunk_start });
        }
        let id = MemberId(self.members);
        self.members += 1;
        self.open.insert(path.into(), Open { id, offset: 0 });
        self.pending.push_back(Event::Member { id, path: path.into(), rewrite: chunk.rewrite });
        Ok(id)
    }

    fn seek(&mut self, path: &[u8], id: MemberId, target: u64) {
        if let Some(open) = self.open.get_mut(path) {
            if let Some(len) = target.checked_sub(open.offset).filter(|len| *len > 0) {
                self.pending.push_back(Event::Skip { id, offset: open.offset, len });
            }
            open.offset = target;
        }
    }

    /// Compares a payload's offset with where its file stands, and moves the file to the payload's end.
    fn place(&mut self, path: &[u8], id: MemberId, payload: &Payload) {
        if let Some(open) = self.open.get_mut(path) {
            if open.offset != payload.offset {
                let (expected, found) = (open.offset, payload.offset);
                self.pending.push_back(Event::Misplaced { id, position: self.chunk_start, expected, found });
            }
            open.offset = payload.end;
        }
    }

    fn payload<'i>(&mut self, input: &mut &'i [u8], id: MemberId, mut payload: Box<Payload>) -> ChunkStep<'i> {
        if let Some((offset, len)) = payload.next_skip() {
            self.state = ChunkState::Payload(id, payload);
            return ChunkStep::Event(Event::Skip { id, offset, len });
        }
        let remaining = payload.writable();
        if remaining > 0 {
            let bytes = take(input, clamp(remaining));
            let offset = payload.advance(bytes);
            self.state = ChunkState::Payload(id, payload);
            return if bytes.is_empty() {
                ChunkStep::More
            } else {
                ChunkStep::Event(Event::Data { id, offset, bytes })
            };
        }
        let (stored, computed) = (payload.stored, payload.computed());
        if stored == computed {
            return ChunkStep::Again;
        }
        let (offset, len) = (payload.offset, payload.len);
        ChunkStep::Event(Event::BadChunk { id, position: self.chunk_start, offset, len, stored, computed })
    }
}

enum ChunkStep<'i> {
    Event(Event<'i>),
    More,
    Again,
}
