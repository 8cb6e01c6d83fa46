//! MySQL's redo log files: found, checked as a set, and cut down to what recovery reads.
//!
//! ```text
//! paths -> headers -> verify_mysql::plan -> newest checkpoint -> stretches of blocks from the checkpoint's on
//!                                                              -> or from an earlier block that the files still have
//! ```

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use format::Lsn;
use format::codec::{EncryptionInfo, TablespaceKey, UnlockError};
use format::keyring::KeyStore;
use redo::RedoError;
use redo::block::block_start;
use redo::mysql::mtr_reader::MtrReader;
use redo::mysql::{self, CheckpointPlace, LOG_FILE_HDR_SIZE, LogFile};
use redo::record::Mtr;
use redo::verify_mysql::{self, Breach};

use crate::error::Error;
use crate::files::File;
use crate::reading::read_up_to;

/// Byte ranges of files, consecutive in the log: the file's index and the range in it.
pub type Stretches = Vec<(usize, Range<u64>)>;

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// How far [`MySqlLog::feed`] got.
#[derive(Debug, Clone, Copy)]
pub struct Fed {
    /// Bytes of the log read.
    pub bytes: u64,
    /// A file was shorter than its header says.
    pub is_cut: bool,
}

#[derive(Debug)]
pub struct MySqlFile {
    pub path: PathBuf,
    pub file: File,
    pub header: Vec<u8>,
    pub parsed: LogFile,
}

/// Why there is no log to read.
#[derive(Debug, thiserror::Error)]
pub enum MySqlLogError {
    /// A file cannot be read.
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The files do not make up a log.
    #[error("{}: {error}", .path.display())]
    Redo { path: PathBuf, error: RedoError },
    /// A key that was given does not fit.
    #[error("{}: {error}", .path.display())]
    Key { path: PathBuf, error: UnlockError },
}

impl From<MySqlLogError> for Error {
    fn from(error: MySqlLogError) -> Self {
        match error {
            MySqlLogError::Io { path, source } => Self::Io { path, action: "reading the redo log", source },
            MySqlLogError::Redo { path, error } => Self::RedoLog { path, source: Box::new(error) },
            MySqlLogError::Key { path, error } => Self::RedoLog { path, source: Box::new(error) },
        }
    }
}

/// Why [`MySqlLog::each_mtr`] has no answer: the log cannot be read, or `take` has seen enough.
struct Stopped;

impl From<MySqlLogError> for Stopped {
    fn from(_: MySqlLogError) -> Self {
        Self
    }
}

#[derive(Debug)]
pub struct MySqlLog {
    /// Files with a header; spare files have another name, and no header or an old one.
    pub files: Vec<MySqlFile>,
    pub checkpoint: CheckpointPlace,
    /// What a server would refuse.
    pub breaches: Vec<Breach>,
    /// Where the blocks are, from the checkpoint's block on.
    pub stretches: Stretches,
    /// The same from the chain's oldest block on. Empty for a ring, which overwrites older blocks.
    chain: Stretches,
    /// Keys of encrypted blocks.
    pub keys: Vec<TablespaceKey>,
}

impl MySqlLog {
    /// Opens the files at `paths`; `keys` open encrypted blocks. Having no key is not an error.
    pub fn open(paths: &[PathBuf], keys: &KeyStore) -> Result<Self, MySqlLogError> {
        Self::open_from(paths, keys, mysql::newest_checkpoint)
    }

    /// Opens segments of an archive, to be read from `checkpoint` on.
    pub fn of_segments(paths: &[PathBuf], checkpoint: Lsn) -> Result<Self, MySqlLogError> {
        Self::open_from(paths, &KeyStore::new(), |files| mysql::place_of(files, checkpoint))
    }

    fn open_from(
        paths: &[PathBuf],
        keys: &KeyStore,
        find: impl Fn(&[LogFile]) -> Result<CheckpointPlace, RedoError>,
    ) -> Result<Self, MySqlLogError> {
        let mut files = Vec::new();
        for path in paths {
            let io = |source| MySqlLogError::Io { path: path.clone(), source };
            let file = File::open(path).map_err(io)?;
            let (header, len) =
                (read_up_to(&file, 0, LOG_FILE_HDR_SIZE).map_err(io)?, file.metadata().map_err(io)?.len());
            let parsed = if header.iter().all(|&byte| byte == 0) {
                // A spare file that was never used has no header, and neither has a file of a ring that the log has not reached yet.
                let first: Option<&LogFile> = files.first().map(|first: &MySqlFile| &first.parsed);
                let Some(first) = first.filter(|first| first.format < mysql::FORMAT_MANY_FILES) else { continue };
                first.unreached(len)
            } else {
                LogFile::parse(&header, len).map_err(|error| MySqlLogError::Redo { path: path.clone(), error })?
            };
            files.push(MySqlFile { path: path.clone(), file, header, parsed });
        }
        let first = paths.first().map_or(Path::new(""), PathBuf::as_path);
        let redo = |error| MySqlLogError::Redo { path: first.to_path_buf(), error };
        let parsed: Vec<LogFile> = files.iter().map(|file| file.parsed.clone()).collect();
        let checkpoint = find(&parsed).map_err(redo)?;
        let plan = verify_mysql::plan_from(&parsed, checkpoint).map_err(redo)?;
        // A chain may begin before the checkpoint; a ring begins at it.
        let is_chain = checkpoint.format >= mysql::FORMAT_MANY_FILES;
        let segments: Stretches =
            plan.segments.iter().map(|part| (part.file, part.offset..part.offset + part.len)).collect();
        let chain = if is_chain { segments.clone() } else { Vec::new() };
        let mut stretches: Stretches =
            segments.into_iter().skip_while(|(file, _)| is_chain && *file != checkpoint.file).collect();
        if let Some((_, first)) = stretches.first_mut() {
            first.start = first.start.max(checkpoint.offset);
        }
        stretches.retain(|(_, bytes)| !bytes.is_empty());
        let keys = keys_of(&files, keys)?;
        Ok(Self { files, checkpoint, breaches: plan.breaches, stretches, chain, keys })
    }

    /// The newest file, whose header says most about the server; in a ring the first, whose header is the only one kept up to date.
    pub fn newest(&self) -> Option<&MySqlFile> {
        if self.is_ring() { self.files.first() } else { self.files.iter().max_by_key(|file| file.parsed.start_lsn) }
    }

    /// Whether the files form a ring, as before MySQL 8.0.30.
    pub const fn is_ring(&self) -> bool {
        self.checkpoint.format < mysql::FORMAT_MANY_FILES
    }

    /// The first `len` bytes from the checkpoint's block on, or fewer if that file ends before.
    pub fn at_checkpoint(&self, len: usize) -> io::Result<Vec<u8>> {
        let Some(file) = self.files.get(self.checkpoint.file) else { return Ok(Vec::new()) };
        read_up_to(&file.file, self.checkpoint.offset, len)
    }

    /// The block with `lsn`, or the oldest later one still in the files, and where the blocks from there on are.
    pub fn stretches_from(&self, lsn: Lsn) -> Option<(Lsn, Stretches)> {
        let start_lsn = |file: usize| Some(self.files.get(file)?.parsed.start_lsn.0);
        let holds = |(file, bytes): &(usize, Range<u64>)| {
            start_lsn(*file).is_some_and(|start| start + (bytes.end - bytes.start) > lsn.0)
        };
        let mut stretches: Vec<_> = self.chain.iter().skip_while(|stretch| !holds(stretch)).cloned().collect();
        let (file, bytes) = stretches.first_mut()?;
        let start = start_lsn(*file)?;
        let ahead = block_start(lsn).0.saturating_sub(start);
        bytes.start += ahead;
        Some((Lsn(start + ahead), stretches))
    }

    /// A reader of mini-transactions that starts at the checkpoint.
    pub fn reader(&self) -> MtrReader {
        MtrReader::new(self.checkpoint.format, self.checkpoint.lsn, self.keys.clone())
    }

    /// Feeds `reader` these stretches until the log ends, `bytes_max` or a little more is read, or `take` fails. A file shorter than its
    /// header says contributes what it has, and the next one follows.
    pub fn feed<E: From<MySqlLogError>>(
        &self,
        reader: &mut MtrReader,
        stretches: &[(usize, Range<u64>)],
        bytes_max: u64,
        mut take: impl FnMut(&MySqlFile, &Mtr<'_>) -> Result<(), E>,
    ) -> Result<Fed, E> {
        let mut fed = Fed { bytes: 0, is_cut: false };
        for (number, stretch) in stretches {
            let Some(file) = self.files.get(*number) else { continue };
            let mut at = stretch.start;
            while at < stretch.end && !reader.has_ended() && fed.bytes < bytes_max {
                let len = usize::try_from(stretch.end - at).unwrap_or(PIECE).min(PIECE);
                let piece = read_up_to(&file.file, at, len)
                    .map_err(|source| MySqlLogError::Io { path: file.path.clone(), source })?;
                if piece.is_empty() {
                    fed.is_cut = true;
                    break;
                }
                at += piece.len() as u64;
                fed.bytes += piece.len() as u64;
                let mut rest = piece.as_slice();
                while let Some(mtr) = reader.next_mtr(&mut rest) {
                    take(file, &mtr)?;
                }
            }
        }
        Ok(fed)
    }

    /// Passes the mini-transactions of these stretches, which start with the block of `from`, to `take` until it returns `None` or about
    /// `bytes_max` of log are read. Returns where that ended, and whether it is the end of the log; `None` if part of it cannot be read.
    pub fn each_mtr(
        &self,
        (from, stretches): (Lsn, &[(usize, Range<u64>)]),
        bytes_max: u64,
        mut take: impl FnMut(&Mtr<'_>) -> Option<()>,
    ) -> Option<(Lsn, bool)> {
        let mut reader = MtrReader::new(self.checkpoint.format, from, self.keys.clone());
        let take = |_: &MySqlFile, mtr: &Mtr<'_>| take(mtr).ok_or(Stopped);
        let fed = self.feed(&mut reader, stretches, bytes_max, take).ok()?;
        // Log that is unreadable, for lack of a key or because it is damaged, may say anything.
        let is_read = !fed.is_cut && !reader.lacks_key() && reader.fault().is_none();
        is_read.then(|| (reader.at(), reader.has_ended() || fed.bytes < bytes_max))
    }

    /// The LSN of the checkpoint.
    pub const fn checkpoint_lsn(&self) -> Lsn {
        self.checkpoint.lsn
    }
}

/// Each file names its own key, wrapped by the master key current when the file was created.
fn keys_of(files: &[MySqlFile], keys: &KeyStore) -> Result<Vec<TablespaceKey>, MySqlLogError> {
    let mut seen: Vec<EncryptionInfo> = Vec::new();
    let mut found = Vec::new();
    for file in files.iter().filter(|_| !keys.is_empty()) {
        let failed = |error| MySqlLogError::Key { path: file.path.clone(), error };
        let info = mysql::encryption_info(&file.header).map_err(failed)?;
        let Some(info) = info.filter(|info| !seen.contains(info)) else { continue };
        found.push(info.unlock(keys).map_err(failed)?);
        seen.push(info);
    }
    Ok(found)
}
