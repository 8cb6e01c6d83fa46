//! The journal's records as bytes.
//!
//! ```text
//! length of the content: 4 | CRC-32C of the content: 4 | content: the record's kind: 1, its fields (numbers big-endian; names with their length: 4)
//! ```

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use format::bytes::be;
use format::checksum::crc32c;

/// Changes when an older innokit could not read what a newer one writes.
pub const VERSION: u32 = 1;
/// Bytes before a record's content.
const FRAME: usize = 8;
/// The longest content: names are at most some hundred bytes, and lists of ranges are cut.
const CONTENT_MAX: usize = 1 << 20;
/// Ranges in one record.
pub const RANGES_MAX: usize = 10_000;

/// Owner, permissions and time of a file or a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attrs {
    /// Permissions.
    pub mode: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// When it was written: seconds and nanoseconds.
    pub modified: (i64, u32),
}

/// What a name is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A socket.
    Socket,
}

/// What the journal begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Which base, at which moment.
    pub identity: [u8; 32],
    /// The LSN of the moment; 0 for a base as it lies.
    pub lsn: u64,
    /// The boot during which the journal was begun: what was not synced then is there while it lasts.
    pub boot: String,
    /// The lowest number that no file has had.
    pub next: u64,
}

/// A step of the upper's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The first one.
    Head(Head),
    /// A file or a directory.
    Node {
        /// Its number, for good.
        id: u64,
        /// The directory that it is in.
        parent: u64,
        /// Its name there.
        name: OsString,
        /// What it is.
        kind: Kind,
        /// Its owner, permissions and time.
        attrs: Attrs,
        /// Its path in the base, and how much of it is visible.
        base: Option<(PathBuf, u64)>,
        /// Its length.
        size: u64,
    },
    /// Blocks of the file are in the upper now.
    Blocks {
        /// The file.
        id: u64,
        /// Its length.
        size: u64,
        /// Its time.
        modified: (i64, u32),
        /// The blocks.
        ranges: Vec<Range<u64>>,
        /// Whether their bytes were durable before this was written. Otherwise it holds until the machine stops.
        is_durable: bool,
    },
    /// The file has another length.
    Size {
        /// The file.
        id: u64,
        /// Its length.
        size: u64,
        /// How much of the base is visible.
        base_len: u64,
        /// Its time.
        modified: (i64, u32),
    },
    /// It has another owner, or other permissions.
    Attrs {
        /// The file or directory.
        id: u64,
        /// Owner, permissions and time.
        attrs: Attrs,
    },
    /// It has another name, and what had that name is gone.
    Rename {
        /// The file or directory.
        id: u64,
        /// The directory that it is in now.
        parent: u64,
        /// Its name there.
        name: OsString,
    },
    /// It is gone.
    Remove {
        /// The file or directory.
        id: u64,
    },
}

impl Record {
    /// The record as it stands in the journal.
    pub fn framed(&self) -> Vec<u8> {
        let mut content = Content(Vec::with_capacity(64));
        self.put(&mut content);
        let mut bytes = Vec::with_capacity(content.0.len() + FRAME);
        bytes.extend_from_slice(&u32::try_from(content.0.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(&crc32c(&content.0).to_be_bytes());
        bytes.extend_from_slice(&content.0);
        bytes
    }

    fn put(&self, to: &mut Content) {
        match self {
            Self::Head(head) => {
                to.tag(1).number(u64::from(VERSION)).number(head.lsn).number(head.next);
                to.bytes(&head.identity).bytes(head.boot.as_bytes());
            }
            Self::Node { id, parent, name, kind, attrs, base, size } => {
                let kind = match kind {
                    Kind::File => 0,
                    Kind::Directory => 1,
                    Kind::Socket => 2,
                };
                to.tag(2).number(*id).number(*parent).bytes(name.as_bytes()).number(kind).attrs(attrs).number(*size);
                let (path, len) = base.as_ref().map_or((OsStr::new(""), 0), |(path, len)| (path.as_os_str(), *len));
                to.bytes(path.as_bytes()).number(len);
            }
            Self::Blocks { id, size, modified, ranges, is_durable } => {
                to.tag(if *is_durable { 3 } else { 4 }).number(*id).number(*size).time(*modified);
                for range in ranges {
                    to.number(range.start).number(range.end);
                }
            }
            Self::Size { id, size, base_len, modified } => {
                to.tag(5).number(*id).number(*size).number(*base_len).time(*modified);
            }
            Self::Attrs { id, attrs } => drop(to.tag(6).number(*id).attrs(attrs)),
            Self::Rename { id, parent, name } => drop(to.tag(7).number(*id).number(*parent).bytes(name.as_bytes())),
            Self::Remove { id } => drop(to.tag(8).number(*id)),
        }
    }

    /// The record at the beginning of `bytes`, and how many bytes it has. `None` if there is none that is whole.
    pub fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let len = be::u32_at(bytes, 0)? as usize;
        if len == 0 || len > CONTENT_MAX {
            return None;
        }
        let content = bytes.get(FRAME..FRAME + len)?;
        if be::u32_at(bytes, 4)? != crc32c(content) {
            return None;
        }
        Some((Fields { bytes: content, at: 0 }.record()?, FRAME + len))
    }
}

struct Content(Vec<u8>);

impl Content {
    fn tag(&mut self, tag: u8) -> &mut Self {
        self.0.push(tag);
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    fn time(&mut self, (seconds, nanos): (i64, u32)) -> &mut Self {
        self.number(seconds.cast_unsigned()).number(u64::from(nanos))
    }

    fn attrs(&mut self, attrs: &Attrs) -> &mut Self {
        self.number(u64::from(attrs.mode))
            .number(u64::from(attrs.uid))
            .number(u64::from(attrs.gid))
            .time(attrs.modified)
    }
}

struct Fields<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Fields<'_> {
    fn number(&mut self) -> Option<u64> {
        let number = be::u64_at(self.bytes, self.at)?;
        self.at += 8;
        Some(number)
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        let len = be::u32_at(self.bytes, self.at)? as usize;
        let bytes = self.bytes.get(self.at + 4..)?.get(..len)?;
        self.at += 4 + len;
        Some(bytes.to_vec())
    }

    fn time(&mut self) -> Option<(i64, u32)> {
        Some((self.number()?.cast_signed(), self.small()?))
    }

    fn attrs(&mut self) -> Option<Attrs> {
        Some(Attrs { mode: self.small()?, uid: self.small()?, gid: self.small()?, modified: self.time()? })
    }

    fn ranges(&mut self) -> Option<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        while self.at < self.bytes.len() {
            ranges.push(self.number()?..self.number()?);
        }
        Some(ranges)
    }

    fn record(mut self) -> Option<Record> {
        let tag = *self.bytes.first()?;
        self.at = 1;
        Some(match tag {
            1 => {
                if self.number()? != u64::from(VERSION) {
                    return None;
                }
                let (lsn, next) = (self.number()?, self.number()?);
                let identity = self.name()?.try_into().ok()?;
                Record::Head(Head { identity, lsn, next, boot: String::from_utf8(self.name()?).ok()? })
            }
            2 => self.node()?,
            3 | 4 => Record::Blocks {
                id: self.number()?,
                size: self.number()?,
                modified: self.time()?,
                ranges: self.ranges()?,
                is_durable: tag == 3,
            },
            5 => Record::Size {
                id: self.number()?,
                size: self.number()?,
                base_len: self.number()?,
                modified: self.time()?,
            },
            6 => Record::Attrs { id: self.number()?, attrs: self.attrs()? },
            7 => Record::Rename { id: self.number()?, parent: self.number()?, name: OsString::from_vec(self.name()?) },
            8 => Record::Remove { id: self.number()? },
            _ => return None,
        })
    }

    fn node(&mut self) -> Option<Record> {
        let (id, parent, name) = (self.number()?, self.number()?, OsString::from_vec(self.name()?));
        let kind = match self.number()? {
            0 => Kind::File,
            1 => Kind::Directory,
            2 => Kind::Socket,
            _ => return None,
        };
        let (attrs, size, path, len) = (self.attrs()?, self.number()?, self.name()?, self.number()?);
        let base = (!path.is_empty()).then(|| (PathBuf::from(OsString::from_vec(path)), len));
        Some(Record::Node { id, parent, name, kind, attrs, base, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Record> {
        let attrs = Attrs { mode: 0o640, uid: 7, gid: 8, modified: (-3, 999) };
        let head = Head { identity: [9; 32], lsn: 77, boot: "a boot".to_owned(), next: 12 };
        let node = |kind, base| Record::Node { id: 4, parent: 1, name: "t.ibd".into(), kind, attrs, base, size: 9 };
        let blocks =
            |is_durable| Record::Blocks { id: 4, size: 9, modified: (1, 2), ranges: vec![0..3, 9..10], is_durable };
        vec![
            Record::Head(head),
            node(Kind::File, Some(("shop/t.ibd".into(), 8))),
            node(Kind::Directory, None),
            node(Kind::Socket, None),
            blocks(true),
            blocks(false),
            Record::Size { id: 4, size: 1, base_len: 0, modified: (5, 6) },
            Record::Attrs { id: 4, attrs },
            Record::Rename { id: 4, parent: 2, name: "u.ibd".into() },
            Record::Remove { id: 4 },
        ]
    }

    #[test]
    fn what_was_written_is_read_and_nothing_that_is_cut_or_changed() {
        for record in all() {
            let bytes = record.framed();
            assert_eq!(Record::read(&bytes), Some((record.clone(), bytes.len())));
            for at in 0..bytes.len() {
                assert!(bytes.get(..at).is_some_and(|cut| Record::read(cut).is_none()), "{record:?} cut at {at}");
                let mut changed = bytes.clone();
                changed.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 4);
                assert!(Record::read(&changed).is_none(), "{record:?} changed at {at}");
            }
        }
        assert!(Record::read(&[0; 64]).is_none(), "zeros are no record");
    }
}
