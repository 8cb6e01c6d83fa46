//! An archive's bytes, from a file or standard input, decompressed if the archive as a whole is compressed.

use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::{Result, UnpackError, damaged, failed, refused};
use datadir::content::{Content, HEAD, Packing, recognise};
use datadir::inventory::plain;

/// The name for standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// The kind of archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveKind {
    Xbstream,
    Tar,
}

/// Opens an archive and recognises its kind.
pub(super) fn open(path: &Path) -> Result<(ArchiveKind, Box<dyn Read + Send>)> {
    let raw: Box<dyn Read + Send> = if path == Path::new(STANDARD_INPUT) {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(failed(path, "opening the archive"))?)
    };
    let in_archive = |error| of_bytes(path, "reading the archive", error);
    let (head, mut bytes) = with_head(raw).map_err(in_archive)?;
    let mut content = recognise(&head);
    if let Some(Content::Packed(packing)) = content {
        let decoded = Decoded::new(packing, bytes).map_err(in_archive)?;
        let (head, inside) = with_head(decoded).map_err(in_archive)?;
        (content, bytes) = (recognise(&head), inside);
    }
    match content {
        Some(Content::Archive) => Ok((ArchiveKind::Xbstream, bytes)),
        Some(Content::Tar) => Ok((ArchiveKind::Tar, bytes)),
        _ => refused(format!("{}: neither an xbstream nor a tar archive", path.display())),
    }
}

/// Classifies a failed read: a device error is not damage to the archive.
pub(super) fn of_bytes(path: &Path, action: &'static str, error: io::Error) -> UnpackError {
    if error.raw_os_error().is_some() {
        return failed(path, action)(error);
    }
    let why = match error.kind() {
        ErrorKind::UnexpectedEof => "the compressed data end early: the rest is missing".to_owned(),
        _ => format!("the compressed data are damaged ({})", plain(&error)),
    };
    UnpackError::Damaged(format!("{}: {why}", path.display()))
}

/// The first bytes, and a reader that still delivers all of them.
fn with_head(mut bytes: impl Read + Send + 'static) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut head = Vec::new();
    bytes.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    Ok((head.clone(), Box::new(Cursor::new(head).chain(bytes))))
}

/// A decoder that fails unless the compressed data is complete.
pub(super) struct Decoded {
    decoder: Box<dyn Read + Send>,
    packing: Packing,
    last: Arc<Mutex<[u8; 8]>>,
}

impl Decoded {
    pub fn new(packing: Packing, packed: impl Read + Send + 'static) -> io::Result<Self> {
        let last = Arc::new(Mutex::new([0xFF; 8]));
        let decoder = packing.unpack(Tail { inner: packed, last: Arc::clone(&last) })?;
        Ok(Self { decoder, packing, last })
    }
}

impl Read for Decoded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(into)?;
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if count == 0 && !into.is_empty() && !self.packing.can_end_with(&last) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }
}

/// Remembers the last bytes read.
struct Tail<R> {
    inner: R,
    last: Arc<Mutex<[u8; 8]>>,
}

impl<R: Read> Read for Tail<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        let mut guard = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last: &mut [u8; 8] = &mut guard;
        for byte in into.get(count.saturating_sub(8)..count).unwrap_or_default() {
            last.rotate_left(1);
            last[7] = *byte;
        }
        Ok(count)
    }
}

/// Passes all bytes on.
pub(super) fn pump(
    bytes: &mut dyn Read,
    of_error: &dyn Fn(io::Error) -> UnpackError,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    const PIECE: usize = 256 << 10;
    let (mut piece, mut len) = (vec![0; PIECE], 0);
    loop {
        match bytes.read(&mut piece) {
            Ok(0) => return Ok(len),
            Ok(count) => {
                len += count as u64;
                take(piece.get(..count).unwrap_or_default())?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(of_error(error)),
        }
    }
}

/// Fails because the archive ended too early.
pub(super) fn cut<T>(path: &Path, why: &str) -> Result<T> {
    damaged(format!("{}: {why}", path.display()))
}
