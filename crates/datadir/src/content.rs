//! What to read a file as. The first bytes decide; the name helps only if they cannot tell.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use logs::delta::Meta;
use logs::{binlog, ibb, tar, xbstream};

use super::name::NameHint;
use super::space;
use crate::reading::read_small;

/// What to read a file as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Pages of a tablespace, which may be read in any order.
    Pages,
    /// A file of a redo log.
    Redo,
    /// MySQL's doublewrite copies of pages, or just the page numbers.
    Doublewrite,
    /// Changed pages in an incremental backup.
    Delta,
    /// A binary or relay log.
    Binlog,
    /// A binary log that MariaDB keeps within InnoDB.
    InnodbBinlog,
    /// An `xbstream` or `mbstream` archive.
    Archive,
    /// A `tar` archive.
    Tar,
    /// Any of these, compressed as a whole.
    Packed(Packing),
}

/// The compression of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// RFC 1952: `gzip`, `pigz`.
    Gzip,
    /// RFC 8878: `zstd`.
    Zstd,
    /// The LZ4 frame format: `lz4`.
    Lz4,
}

/// Magic numbers of the compression formats.
const MAGIC: [(&[u8], Packing); 3] =
    [(b"\x1F\x8B\x08", Packing::Gzip), (b"\x28\xB5\x2F\xFD", Packing::Zstd), (b"\x04\x22\x4D\x18", Packing::Lz4)];

/// Extensions appended by backup tools and compressors, with the format they stand for.
const EXTENSIONS: [(&str, Option<Packing>); 6] = [
    ("gz", Some(Packing::Gzip)),
    ("zst", Some(Packing::Zstd)),
    ("lz4", Some(Packing::Lz4)),
    // Not supported: qpress, and xtrabackup's encryption.
    ("qp", None),
    ("xbcrypt", None),
    ("qp.xbcrypt", None),
];

impl Packing {
    /// For messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }

    /// Whether compressed data can end with these bytes. The LZ4 decoder accepts input that ends between two blocks, but a frame ends with
    /// four zero bytes and, optionally, a content checksum.
    pub fn can_end_with(self, last: &[u8; 8]) -> bool {
        self != Self::Lz4 || last.ends_with(&[0; 4]) || last.starts_with(&[0; 4])
    }

    /// Decompresses `packed`, a series of frames or members, to its end.
    ///
    /// # Errors
    /// No memory for the decoder.
    pub fn unpack<'r, R: Read + Send + 'r>(self, packed: R) -> io::Result<Box<dyn Read + Send + 'r>> {
        Ok(match self {
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::new(packed)?),
            Self::Lz4 => Box::new(Lz4Frames(Some(lz4_flex::frame::FrameDecoder::new(BufReader::new(packed))))),
        })
    }
}

/// LZ4 frames, one after the other, as `lz4` reads them too. The decoder reports each frame's end like the end of the input, and cannot go on
/// with a frame of larger blocks: each frame has a decoder of its own.
struct Lz4Frames<R: Read>(Option<lz4_flex::frame::FrameDecoder<BufReader<R>>>);

impl<R: Read> Read for Lz4Frames<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.0 {
            let read = frame.read(bytes)?;
            if read > 0 || bytes.is_empty() || frame.get_mut().fill_buf()?.is_empty() {
                return Ok(read);
            }
            self.0 = self.0.take().map(|frame| lz4_flex::frame::FrameDecoder::new(frame.into_inner()));
        }
        Ok(0)
    }
}

/// More bytes than the note about a delta has: three short lines.
pub const DELTA_NOTE_MAX: usize = 4096;

/// Bytes read from the start of a file whose name says nothing; always enough for [`recognise`].
pub const HEAD: usize = space::HEAD;

/// What the first [`HEAD`] bytes of a file show, whatever its name. `None`: nothing that we check.
#[must_use]
pub fn recognise(head: &[u8]) -> Option<Content> {
    const TABLESPACE_MIN: usize = 4096;
    let packing = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, packing)| *packing);
    match packing {
        Some(packing) => Some(Content::Packed(packing)),
        None if head.starts_with(&xbstream::MAGIC) => Some(Content::Archive),
        None if head.starts_with(&binlog::MAGIC) || head.starts_with(&binlog::MAGIC_ENCRYPTED) => Some(Content::Binlog),
        None if head.starts_with(&ibb::MAGIC) => Some(Content::InnodbBinlog),
        None if tar::begins(head) => Some(Content::Tar),
        None if is_redo(head) => Some(Content::Redo),
        None if head.len() >= TABLESPACE_MIN && space::looks_like_tablespace(head) => Some(Content::Pages),
        None => None,
    }
}

/// Whether these bytes begin a redo log: a header with a valid checksum.
fn is_redo(head: &[u8]) -> bool {
    match redo::identify(head) {
        Ok(redo::LogVendor::MySql) => redo::mysql::LogFile::parse(head, u64::MAX >> 1).is_ok(),
        Ok(redo::LogVendor::MariaDb) => redo::mariadb::LogFile::parse(head, u64::MAX >> 1).is_ok(),
        Err(_) => false,
    }
}

/// If the name marks the file as compressed: the name without that extension (`t.ibd` for `t.ibd.zst`) and the format, `None` if we cannot
/// read it.
#[must_use]
pub fn packed_name(path: &Path) -> Option<(&Path, Option<Packing>)> {
    let text = path.to_str()?;
    let inner = |extension: &str| text.strip_suffix(extension)?.strip_suffix('.').map(Path::new);
    EXTENSIONS.iter().rev().find_map(|(extension, packing)| inner(extension).map(|name| (name, *packing)))
}

/// Why a file that by its name should hold pages cannot be read.
#[must_use]
pub fn unread(path: &Path) -> Option<&'static str> {
    match packed_name(path) {
        Some((inner, None)) if NameHint::of(inner).promises_pages() => {
            Some("a tablespace, compressed or encrypted in a way that innokit does not read")
        }
        _ if is_delta(path) => Some(
            "changed pages of an incremental backup, which cannot be checked without their .meta file: beside them, or before them in an archive",
        ),
        _ => None,
    }
}

/// Whether the name is that of an incremental backup's file of changed pages.
#[must_use]
pub fn is_delta(path: &Path) -> bool {
    let inner = packed_name(path).map_or(path, |(inner, _)| inner);
    let name = inner.to_str().and_then(|name| name.strip_suffix(".delta"));
    name.is_some_and(|name| NameHint::of(Path::new(name)).promises_pages())
}

/// Whether the name is that of the note beside such a file.
pub fn is_delta_note(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "meta") && is_delta(&path.with_extension("delta"))
}

/// The note beside `delta`: `t.ibd.meta` for `t.ibd.delta`.
pub fn delta_note(delta: &Path) -> PathBuf {
    delta.with_extension("meta")
}

/// Reads that note. `None` if it does not give the page size.
pub fn read_delta_note(note: &Path) -> io::Result<Option<Meta>> {
    Ok(Meta::parse(&read_small(note, DELTA_NOTE_MAX as u64)?))
}

/// Whether the contents of a compressed file with this name are worth checking: a tablespace, or an archive by its extension.
#[must_use]
pub fn packed_is_wanted(path: &Path) -> bool {
    let Some((inner, _)) = packed_name(path) else { return false };
    let extension = inner.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    NameHint::of(inner).promises_pages() || matches!(extension, "xb" | "xbstream" | "mbstream" | "tar")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_members_that_follow_each_other_are_one_file() {
        let lz4 = |bytes: &[u8]| {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            std::io::Write::write_all(&mut encoder, bytes).expect("memory");
            encoder.finish().expect("memory")
        };
        let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).expect("memory");
        let parts: [&[u8]; 4] = [b"one", b"", &[7; 300_000], b"three"];
        for (packing, packed) in [(Packing::Lz4, parts.map(lz4).concat()), (Packing::Zstd, parts.map(zstd).concat())] {
            let mut bytes = Vec::new();
            packing.unpack(&packed[..]).expect("memory").read_to_end(&mut bytes).expect("sound");
            assert_eq!(bytes, parts.concat(), "{packing:?}");
        }
    }

    #[test]
    fn a_packed_name_gives_what_is_inside() {
        let inner =
            |name: &'static str| packed_name(Path::new(name)).map(|(inner, packing)| (inner.to_path_buf(), packing));
        assert_eq!(inner("db/t.ibd.zst"), Some(("db/t.ibd".into(), Some(Packing::Zstd))));
        assert_eq!(inner("t.ibd.qp"), Some(("t.ibd".into(), None)));
        assert_eq!(inner("t.ibd.qp.xbcrypt"), Some(("t.ibd".into(), None)));
        assert_eq!(inner("t.ibd"), None);
        assert!(packed_is_wanted(Path::new("t.ibd.lz4")) && packed_is_wanted(Path::new("full.xb.gz")));
        assert!(!packed_is_wanted(Path::new("error.log.gz")) && !packed_is_wanted(Path::new("t.ibd")));
    }

    #[test]
    fn content_is_recognised_by_magic_numbers() {
        assert_eq!(recognise(b"\x1F\x8B\x08rest"), Some(Content::Packed(Packing::Gzip)));
        assert_eq!(recognise(b"XBSTCK01"), Some(Content::Archive));
        assert_eq!(recognise(b"\xFEbin"), Some(Content::Binlog));
        assert_eq!(recognise(b"\xFDbin"), Some(Content::Binlog));
        assert_eq!(recognise(b"\xFE\xFE\x0D\x01"), Some(Content::InnodbBinlog));
        assert_eq!(recognise(&[0; 70_000]), None);
        assert_eq!(recognise(b""), None);
    }
}
