//! Sends a finished backup as an xbstream: for `mbstream`, `xbstream`, `innokit unpack` and `innokit restore`.
//!
//! ```text
//! manifest -> files, each compared with its size and checksum -> the redo log -> the manifest -> zstd -> out
//! ```
//!
//! A stream has no end mark, so the files that are indispensable come last: a set without its log cannot be recovered, and `unpack` calls a
//! set without its manifest cut off.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use logs::xbstream::{end, payload_head};

use super::error::{BackupError, Result, failed, refused};
use crate::door;
use crate::manifest::{BackupFile, BackupState, MANIFEST, Manifest, SIGNATURE};
use datadir::content::is_delta_note;
use datadir::crc32c::Crc32c;
use datadir::files::AskPath;
use datadir::log_name::is_of_log;
use datadir::reading::read_into;
use datadir::stop;

/// Bytes per chunk, as in the tools' own streams.
const CHUNK: usize = 10 << 20;

/// Sends the backup in `set` to `out`, compressed with zstd at this `level`; 0 sends it uncompressed.
///
/// # Errors
/// [`BackupError`] if the set is not complete or was changed since it was taken, or if `out` fails. What was sent by then has no manifest,
/// so it is void.
pub fn send_backup(set: &Path, level: i32, out: impl Write, stop: &AtomicBool) -> Result<()> {
    let (manifest, is_sound) = Manifest::read(set)?;
    if !is_sound || !matches!(manifest.state, BackupState::Complete | BackupState::Prepared) {
        return refused(format!("{}: not a complete backup: innokit backup verify says more", set.display()));
    }
    let sending = failed(Path::new("-"), "sending the backup");
    if level == 0 {
        let mut sender = Sender { set, out, stop };
        sender.all(&manifest)?;
        return sender.out.flush().map_err(sending);
    }
    let encoder = match zstd::Encoder::new(out, level) {
        Ok(encoder) => encoder,
        Err(error) => return Err(sending(error)),
    };
    let mut sender = Sender { set, out: encoder, stop };
    sender.all(&manifest)?;
    sender.out.finish().and_then(|mut out| out.flush()).map_err(sending)
}

struct Sender<'s, W> {
    set: &'s Path,
    out: W,
    stop: &'s AtomicBool,
}

impl<W: Write> Sender<'_, W> {
    fn all(&mut self, manifest: &Manifest) -> Result<()> {
        let (log, files): (Vec<_>, Vec<_>) = manifest.files.iter().partition(|file| is_of_log(Path::new(&file.path)));
        // Before the changed pages that they describe, so that these can be verified as they pass.
        let (notes, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| is_delta_note(Path::new(&file.path)));
        for file in notes.into_iter().chain(files).chain(log) {
            self.file(file)?;
        }
        if self.set.join(SIGNATURE).is_there() {
            self.about(SIGNATURE)?;
        }
        self.about(MANIFEST)
    }

    /// A file that is in no list.
    fn about(&mut self, name: &str) -> Result<()> {
        let path = self.set.join(name);
        let bytes = door::read_file(&path).map_err(failed(&path, "reading what is known about the backup"))?;
        for (index, piece) in bytes.chunks(CHUNK).enumerate() {
            self.chunk(name, (index * CHUNK) as u64, piece)?;
        }
        self.end(name)
    }

    fn file(&mut self, known: &BackupFile) -> Result<()> {
        let path = self.set.join(&known.path);
        let file = door::open_file(&path).map_err(failed(&path, "opening the file"))?;
        let (mut bytes, mut sum) = (vec![0; CHUNK], Crc32c::new());
        loop {
            if stop::is_told(self.stop) {
                return Err(BackupError::Interrupted);
            }
            let offset = sum.len;
            let len = read_into(&file, offset, &mut bytes).map_err(failed(&path, "reading the file"))?;
            let Some(piece) = bytes.get(..len).filter(|piece| !piece.is_empty()) else { break };
            sum.add(piece);
            self.chunk(&known.path, offset, piece)?;
        }
        if (sum.len, &sum.text()) != (known.size, &known.crc32c) {
            return Err(BackupError::Damaged(format!("{}: changed since it was backed up", path.display())));
        }
        self.end(&known.path)
    }

    fn chunk(&mut self, path: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(head) = payload_head(path, offset, bytes) else { return too_long(path) };
        self.put(&head)?;
        self.put(bytes)
    }

    fn end(&mut self, path: &str) -> Result<()> {
        let Some(chunk) = end(path) else { return too_long(path) };
        self.put(&chunk)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let written: io::Result<()> = self.out.write_all(bytes);
        written.map_err(failed(Path::new("-"), "sending the backup"))
    }
}

fn too_long<T>(path: &str) -> Result<T> {
    refused(format!("{path}: an xbstream has no room for such a long name: back up into a directory"))
}
