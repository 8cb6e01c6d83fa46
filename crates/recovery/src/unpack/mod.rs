//! `unpack`: extracts the files of backup streams and tar archives.
//!
//! ```text
//! archive, or standard input -> decompressed as a whole -> chunks or headers verified -> files written and decompressed
//!   -> everything made durable -> the marker of an unfinished directory removed
//! ```
//!
//! All or nothing: if an archive is damaged, or a name leads outside the directory, everything is removed again.

mod error;
mod holes;
mod source;
mod target;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use logs::tar;
use logs::xbstream::{Event, MemberId, Parser};

pub use self::error::UnpackError;
use self::error::{Result, damaged, refused};
use self::source::{ArchiveKind, cut, of_bytes, open, pump};
pub(crate) use self::target::MARKER;
use self::target::UnpackDir;
use crate::manifest::MANIFEST;
use datadir::crc32c::{Crc32c, FileSums};
use datadir::fault;

/// What was unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Unpacked {
    /// Files now in the directory.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Members that are not files (links, devices) and were left out.
    pub left_out: Vec<String>,
    /// Files compressed or encrypted in an unsupported way, left as they were.
    pub still_packed: Vec<String>,
    /// The files as they were written. Those that an archive changes after their end are left out.
    #[serde(skip)]
    pub(crate) sums: FileSums,
}

/// Unpacks archives into a directory, which must be empty or not exist. `-` is standard input.
///
/// # Errors
/// [`UnpackError`]. Everything unpacked before the error is removed.
pub fn unpack(archives: &[PathBuf], dir: &Path) -> Result<Unpacked> {
    unpack_at_most(archives, dir, None)
}

/// The same, with a limit to the bytes that are written, decompressed ones included. `None`: nineteen twentieths of the free space.
///
/// # Errors
/// As those of [`unpack()`], and if there is more.
pub fn unpack_at_most(archives: &[PathBuf], dir: &Path, max: Option<u64>) -> Result<Unpacked> {
    if archives.iter().filter(|path| path.as_path() == Path::new(source::STANDARD_INPUT)).count() > 1 {
        return refused("standard input can be used for one archive only");
    }
    let mut work = Work { target: UnpackDir::make(dir, max)?, archive: 0, open: HashMap::new(), left_out: Vec::new() };
    let done = work.all(archives).and_then(|done| fault::refuse_unread().map(|()| done).map_err(UnpackError::from));
    if done.is_err() {
        work.target.discard();
    }
    done
}

/// The state of one unpack.
struct Work {
    target: UnpackDir,
    /// Index of the current archive.
    archive: usize,
    open: HashMap<MemberId, Open>,
    left_out: Vec<String>,
}

/// A member that is being written.
struct Open {
    place: PathBuf,
    file: File,
    /// Whether the file is new, as opposed to overwritten.
    is_new: bool,
    /// Of what was written so far. `None` if it was not written from front to back.
    sum: Option<Crc32c>,
}

impl Open {
    fn new(place: PathBuf, file: File, is_new: bool) -> Self {
        Self { place, file, is_new, sum: is_new.then(Crc32c::new) }
    }

    /// Bytes were written at this offset.
    fn wrote(&mut self, offset: u64, bytes: &[u8]) {
        self.sum = self.sum.take().filter(|sum| offset >= sum.len);
        if let Some(sum) = &mut self.sum {
            sum.add_hole(offset);
            sum.add(bytes);
        }
    }
}

impl Work {
    fn all(&mut self, archives: &[PathBuf]) -> Result<Unpacked> {
        let mut has_streams = false;
        for (number, path) in archives.iter().enumerate() {
            self.archive = number;
            let (kind, mut bytes) = open(path)?;
            has_streams |= kind == ArchiveKind::Xbstream;
            let of_error = |error| of_bytes(path, "reading the archive", error);
            match kind {
                ArchiveKind::Xbstream => self.xbstream(path, |take| pump(&mut *bytes, &of_error, take).map(drop))?,
                ArchiveKind::Tar => self.tar(path, |take| pump(&mut *bytes, &of_error, take).map(drop))?,
            }
        }
        // A stream has no end mark; the tools' last members show that it is complete.
        let has = |name| self.target.has(name);
        let has_notes = has("xtrabackup_checkpoints") || has("mariadb_backup_checkpoints") || has(MANIFEST);
        if has_streams && has("ibdata1") && !has_notes {
            return damaged(format!(
                "the backup holds a system tablespace, but neither xtrabackup_checkpoints nor {MANIFEST}, which backup tools write last: it is \
                 cut off, or one of its streams is missing"
            ));
        }
        let (files, bytes) = self.target.finish()?;
        let still_packed = self.target.packed.iter().map(|path| path.display().to_string()).collect();
        let (left_out, sums) = (std::mem::take(&mut self.left_out), std::mem::take(&mut self.target.sums));
        Ok(Unpacked { files, bytes, left_out, still_packed, sums })
    }

    fn xbstream(
        &mut self,
        path: &Path,
        feed: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut parser = Parser::new();
        feed(&mut |mut input| {
            loop {
                match parser.next_event(&mut input) {
                    Ok(Some(event)) => self.event(path, event)?,
                    Ok(None) => return Ok(()),
                    Err(error) => return cut(path, &error.to_string()),
                }
            }
        })?;
        match parser.finish() {
            Err(error) => cut(path, &error.to_string()),
            Ok(unfinished) => match unfinished.first() {
                Some(member) => {
                    let name = String::from_utf8_lossy(&member.path);
                    cut(path, &format!("the archive ends without the end of {name}, after {} bytes of it", member.len))
                }
                None => Ok(()),
            },
        }
    }

    fn event(&mut self, path: &Path, event: Event<'_>) -> Result<()> {
        let archive = self.archive;
        match event {
            Event::Member { id, path: name, rewrite } => {
                let place = UnpackDir::place(&name)?;
                let is_new = !rewrite;
                let file = if is_new { self.target.file(&place, archive) } else { self.target.again(&place, archive) };
                self.open.insert(id, Open::new(place, file?, is_new));
                Ok(())
            }
            Event::Data { id, offset, bytes } => {
                let Some(open) = self.open.get_mut(&id) else { return Ok(()) };
                open.wrote(offset, bytes);
                self.target.write(&open.place, &open.file, offset, bytes)
            }
            // Skipped bytes read as zeros in a new file, and keep their content in an old one.
            Event::Skip { .. } => Ok(()),
            Event::End { id, len } => {
                let Some(mut open) = self.open.remove(&id) else { return Ok(()) };
                self.target.set_len(&open.place, &open.file, len, open.is_new)?;
                open.wrote(len, &[]);
                self.target.complete(&open.place, (open.file, open.sum), archive)
            }
            Event::Misplaced { id, position, expected, found } => {
                let name = self.name(id);
                cut(
                    path,
                    &format!(
                        "the chunk at byte {position} continues {name} at byte {found} instead of byte {expected}"
                    ),
                )
            }
            Event::BadChunk { id, position, .. } => {
                let name = self.name(id);
                cut(path, &format!("the chunk at byte {position}, of {name}, does not match its checksum"))
            }
            Event::Rename { from, to } => {
                let (from, to) = (UnpackDir::place(&from)?, UnpackDir::place(&to)?);
                for open in self.open.values_mut().filter(|open| open.place == from) {
                    open.place.clone_from(&to);
                }
                self.target.rename(&from, &to, archive)
            }
            Event::Remove { path } => self.target.remove(&UnpackDir::place(&path)?, archive),
        }
    }

    fn name(&self, id: MemberId) -> String {
        self.open.get(&id).map_or_else(String::new, |open| open.place.display().to_string())
    }

    fn tar(&mut self, path: &Path, feed: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>) -> Result<()> {
        let (mut parser, mut offset) = (tar::Parser::new(), 0);
        feed(&mut |mut input| {
            loop {
                match parser.next_event(&mut input) {
                    Ok(Some(event)) => self.tar_event(path, event, &mut offset)?,
                    Ok(None) => return Ok(()),
                    Err(error) => return cut(path, &error.to_string()),
                }
            }
        })?;
        match parser.finish() {
            Ok(true) => Ok(()),
            Ok(false) => cut(path, "the tar archive has no end mark: it is cut between two members"),
            Err(error) => cut(path, &error.to_string()),
        }
    }

    /// A tar archive has one member open at a time.
    fn tar_event(&mut self, path: &Path, event: tar::Event<'_>, offset: &mut u64) -> Result<()> {
        const ONLY: MemberId = MemberId(0);
        match event {
            tar::Event::Member { path: name, is_sparse } => {
                let place = UnpackDir::place(&name)?;
                if is_sparse {
                    let (archive, name) = (path.display(), place.display());
                    return refused(format!(
                        "{archive}: {name} is a sparse file, whose holes tar left out: create the archive without --sparse"
                    ));
                }
                *offset = 0;
                let file = self.target.file(&place, self.archive)?;
                self.open.insert(ONLY, Open::new(place, file, true));
                Ok(())
            }
            tar::Event::Data(bytes) => {
                let Some(open) = self.open.get_mut(&ONLY) else { return Ok(()) };
                open.wrote(*offset, bytes);
                self.target.write(&open.place, &open.file, *offset, bytes)?;
                *offset += bytes.len() as u64;
                Ok(())
            }
            tar::Event::End => {
                let Some(open) = self.open.remove(&ONLY) else { return Ok(()) };
                self.target.complete(&open.place, (open.file, open.sum), self.archive)
            }
            tar::Event::Directory { path: name } => {
                // The directory itself, which exists.
                if matches!(&*name, b"." | b"./") { Ok(()) } else { self.target.directory(&UnpackDir::place(&name)?) }
            }
            tar::Event::Other { path: name } => {
                self.left_out.push(String::from_utf8_lossy(&name).into_owned());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use format::checksum::crc32c;
    use logs::xbstream::{end, payload_head};

    use super::*;

    #[test]
    fn the_checksums_are_those_of_the_files_on_disk() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut stream, to) = (Vec::new(), dir.path().join("to"));
        let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let packed = zstd::encode_all(&large[..], 1).expect("packed");
        for (name, content) in
            [("large", &large), ("db/small", &vec![7; 10]), ("empty", &vec![]), ("more.zst", &packed)]
        {
            for (number, piece) in content.chunks(1 << 20).enumerate() {
                stream.extend(payload_head(name, (number << 20) as u64, piece).expect("a short name"));
                stream.extend(piece);
            }
            stream.extend(end(name).expect("a short name"));
        }
        let path = dir.path().join("stream.xb");
        fs::write(&path, stream).expect("written");
        let unpacked = unpack(&[path], &to).expect("unpacked");
        let names: Vec<&str> = unpacked.sums.keys().filter_map(|name| name.to_str()).collect();
        assert_eq!(names, ["db/small", "empty", "large", "more"]);
        for (name, sum) in &unpacked.sums {
            let bytes = fs::read(to.join(name)).expect("read");
            assert_eq!(*sum, (bytes.len() as u64, crc32c(&bytes)), "{}", name.display());
        }
        // What was not written from front to back is not known.
        let mut open = Open::new(PathBuf::from("t"), File::open(to.join("large")).expect("open"), true);
        open.wrote(100, b"abc");
        assert_eq!(
            open.sum.as_ref().map(|sum| (sum.len, sum.value())),
            Some((103, crc32c(&[&[0; 100][..], b"abc"].concat())))
        );
        open.wrote(50, b"abc");
        assert!(open.sum.is_none());
    }
}
