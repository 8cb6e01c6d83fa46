//! A log that MariaDB 13.0 keeps as an archive: closed by a checkpoint in the file where it ends, or replaced by a new file.
//!
//! Source: see [`redo::archived`]. A server starts on such a log without recovery if its newest checkpoint is its end.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use format::{Lsn, SpaceId};
use redo::archived::{FILE_SIZE_MIN, file_name, header, next_entry};
use redo::checkpoint::closing;
use redo::mariadb::{LogFile, START_OFFSET};
use redo::verify_mariadb::StreamVerifier;

use super::new_log::{ClosedFile, NEW_LOG, made};
use crate::door;
use crate::recover::error::{RecoverError, Result, damaged, failed, refused};
use crate::recover::place::durable::sync_directory_of;
use datadir::kept_log::{KeptError, KeptFile, KeptLog, kept_files};

/// Bytes of the log's end per read.
const PIECE: usize = 2 << 20;

/// The files of the log.
#[derive(Debug)]
pub(in crate::recover) struct KeptFiles(KeptLog);

impl KeptFiles {
    /// Opens the log of a datadir.
    pub fn open(datadir: &Path) -> Result<Self> {
        let files = kept_files(datadir);
        let path = |place: usize| {
            files.get(place).map_or_else(|| datadir.display().to_string(), |file| file.path.display().to_string())
        };
        match KeptLog::open(files.clone()) {
            Ok(log) => Ok(Self(log)),
            Err(KeptError::Io(place, error)) => Err(failed(Path::new(&path(place)), "reading the redo log")(error)),
            Err(KeptError::Unknown(place, why)) => refused(format!("{}: {why}", path(place))),
            Err(KeptError::Damaged(place, why)) => damaged(format!("{}: {why}", path(place))),
        }
    }

    /// The log.
    pub const fn log(&self) -> &KeptLog {
        &self.0
    }

    /// The path of the file whose header has the newest checkpoint.
    pub fn path(&self) -> PathBuf {
        self.0.files().get(self.0.listed.0).map(|file| file.path.clone()).unwrap_or_default()
    }

    /// Paths and lengths of all files, in log order.
    pub fn paths(&self) -> Vec<(PathBuf, u64)> {
        self.0.files().iter().map(|file| (file.path.clone(), file.len)).collect()
    }

    /// The size of a file that replaces them.
    pub fn own_size(&self) -> u64 {
        self.0.files().last().map_or(FILE_SIZE_MIN, |file| file.len)
    }

    /// Fails if the log goes on after `end`, where its mini-transactions ended.
    pub fn check_end(&self, end: Lsn) -> Result<()> {
        let mut verifier = StreamVerifier::at(&self.0.parsed, end);
        let mut at = end;
        while !verifier.is_done() {
            let bytes = self.read(at, PIECE)?;
            if let Some(found) = verifier.next_damage(&mut bytes.as_slice()) {
                return self.damaged_between(found.from, found.to);
            }
            if bytes.is_empty() {
                break;
            }
            at = Lsn(at.0.saturating_add(bytes.len() as u64));
        }
        if let Some(found) = verifier.finish().0.first() {
            return self.damaged_between(found.from, found.to);
        }
        let used = self.0.used_behind(end);
        let used = used.map_err(|(_, error)| failed(&self.path(), "reading the redo log")(error))?;
        match used.first().and_then(|place| self.0.files().get(*place)) {
            Some(file) => self.damaged_between(end, file.first),
            None => Ok(()),
        }
    }

    fn damaged_between(&self, from: Lsn, to: Lsn) -> Result<()> {
        let path = self.file_of(from).map(|file| file.path.clone()).unwrap_or_default();
        damaged(format!("{}: the redo log is damaged from LSN {from} to LSN {to}", path.display()))
    }

    /// `len` bytes of the log from `lsn` on; fewer where the files end.
    pub fn read(&self, lsn: Lsn, len: usize) -> Result<Vec<u8>> {
        self.0.read(lsn, len).map_err(|error| failed(&self.path(), "reading the redo log")(error))
    }

    /// The file with the byte at `lsn`.
    fn file_of(&self, lsn: Lsn) -> Option<&KeptFile> {
        self.0.files().iter().find(|file| (file.first..file.end()).contains(&lsn))
    }

    /// Fails if there is no room for `len` bytes at `end`.
    pub fn has_room(&self, end: Lsn, len: usize) -> bool {
        end.0.saturating_add(len as u64) <= self.0.end_of_files().0
    }

    /// A file that begins and ends at `end`, up to its last byte in use.
    pub fn restarted(end: Lsn, named: &[(SpaceId, Vec<u8>)], format: redo::mariadb::Format) -> Option<Vec<u8>> {
        let named = named.iter().map(|(space, name)| (*space, name.as_slice()));
        let records = closing(&LogFile::straight(format, end), None, end, named)?;
        Some([header(START_OFFSET as u64), records].concat())
    }

    /// What closes the log at `end`, file by file: the records first, then the entry that names them.
    pub fn closed(&self, end: Lsn, closing: &[u8]) -> Result<Vec<ClosedFile>> {
        let files = self.0.files();
        let Some(last) = files.iter().position(|file| (file.first..file.end()).contains(&end)) else {
            return refused("the redo log has no room for the record that closes it");
        };
        let mut closed: Vec<ClosedFile> = Vec::new();
        let (mut at, mut rest) = (end, closing);
        for file in files.iter().skip(last) {
            let room = usize::try_from(file.end().0 - at.0).unwrap_or(usize::MAX).min(rest.len());
            let (here, after) = rest.split_at(room);
            if here.is_empty() {
                break;
            }
            let offset = START_OFFSET as u64 + (at.0 - file.first.0);
            let (path, len) = (file.path.clone(), Some(file.len));
            closed.push(ClosedFile { path, len, has_base: true, writes: vec![(offset, here.to_vec())] });
            (at, rest) = (file.end(), after);
        }
        // What continues in the next file must be there when the entry is.
        closed.reverse();
        let (Some(file), Some(with_entry)) = (files.get(last), closed.last_mut()) else {
            return Err(RecoverError::Internal("the redo log is closed nowhere"));
        };
        let place = START_OFFSET as u64 + (end.0 - file.first.0);
        with_entry.writes.push(if last == self.0.listed.0 {
            let (offset, entry) = next_entry(self.0.listed.1, place);
            (offset as u64, entry.to_vec())
        } else {
            (0, header(place))
        });
        Ok(closed)
    }

    /// Closes the log. Each write is durable before the next.
    pub fn close(&self, datadir: &Path, end: Lsn, closing: &[u8]) -> Result<()> {
        for ClosedFile { path, writes, .. } in self.closed(end, closing)? {
            let name = path.file_name().unwrap_or_default();
            let file = door::change(datadir, name).map_err(failed(&path, "opening the redo log"))?;
            for (offset, bytes) in writes {
                let written = file.write_all_at(&bytes, offset).and_then(|()| file.sync_all());
                written.map_err(failed(&path, "closing the redo log"))?;
            }
        }
        Ok(())
    }

    /// Replaces the files, in a copy that is no server's yet, with one that begins at `end`.
    pub fn replace(&self, datadir: &Path, end: Lsn, bytes: &[u8], size: u64) -> Result<()> {
        let like = self.file_of(self.0.parsed.checkpoint.end_lsn).map(|file| file.path.clone()).unwrap_or_default();
        create(datadir, end, bytes, size, &like)?;
        let new = datadir.join(file_name(end));
        for file in self.0.files().iter().filter(|file| file.path != new) {
            let name = file.path.file_name().unwrap_or_default();
            door::remove(datadir, name).map_err(failed(&file.path, "removing the file of the redo log"))?;
        }
        sync_directory_of(&new)
    }

    /// The same, for who does not write them.
    pub fn replaced(&self, datadir: &Path, end: Lsn, bytes: &[u8], size: u64) -> Vec<ClosedFile> {
        let new = datadir.join(file_name(end));
        let old = self.0.files().iter().filter(|file| file.path != new);
        let gone =
            old.map(|file| ClosedFile { path: file.path.clone(), len: None, has_base: false, writes: Vec::new() });
        let writes = vec![(0, bytes.to_vec())];
        gone.chain([ClosedFile { path: new.clone(), len: Some(size), has_base: false, writes }]).collect()
    }
}

/// Makes a file of such a log that begins at `end`, with the owner and the mode of the file `like`.
pub(in crate::recover) fn create(datadir: &Path, end: Lsn, bytes: &[u8], size: u64, like: &Path) -> Result<()> {
    let like = File::open(like).and_then(|file| file.metadata()).map_err(failed(like, "looking at the redo log"))?;
    let path = datadir.join(file_name(end));
    made(datadir, &like, bytes, size)?;
    door::rename(datadir, NEW_LOG, file_name(end)).map_err(failed(&path, "replacing the redo log"))?;
    sync_directory_of(&path)
}
