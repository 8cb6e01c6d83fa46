//! Verifies the redo log of MySQL, formats 1 to 6: which bytes of which files to read, in which order, and what is wrong with the set.
//!
//! ```text
//! LogFile::parse for each file -> plan -> MySqlVerifyPlan { segments, breaches, verifier }
//! bytes of each segment in order -> BlockVerifier -> damage, summary
//! ```
//!
//! Format 6 is a chain of files, each starting at the LSN at which the previous one ends. Formats up to 5 form a ring, which is read around
//! once from the newest checkpoint's block.

use thiserror::Error;

use crate::RedoError;
use crate::block::{LOG_BLOCK_SIZE, block_start};
use crate::mysql::{CheckpointPlace, FORMAT_MANY_FILES, LOG_FILE_HDR_SIZE, LogFile, newest_checkpoint};
use crate::verify_blocks::{BlockScheme, BlockVerifier};
use format::types::Lsn;

/// Header flag: the file is full, and the next one is in use.
const FLAG_FULL: u32 = 8;

/// A range of blocks in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Index of the file in the order given to [`plan`].
    pub file: usize,
    /// Where it begins in the file, bytes.
    pub offset: u64,
    /// Its length in bytes, a multiple of 512.
    pub len: u64,
}

/// What is wrong with the set of files. A server would not start on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Breach {
    /// A file is missing between two others, or two overlap.
    #[error("the redo log continues at LSN {expected}, but the next file begins at LSN {found}")]
    Gap {
        /// Index of the file after the gap.
        file: usize,
        /// Where the previous file ends.
        expected: Lsn,
        /// Where this file starts.
        found: Lsn,
    },
    /// A file of another log: its number or its format differs.
    #[error("the redo log file beginning at LSN {start} belongs to another log")]
    OtherLog {
        /// Index of the file.
        file: usize,
        /// Where it starts.
        start: Lsn,
    },
    /// The newest file says that the log continues in another one.
    #[error("the newest redo log file is full and the one after it is missing: the log continues at LSN {end}")]
    NewestMissing {
        /// Where the missing file starts.
        end: Lsn,
    },
    /// The files of a ring differ in size.
    #[error("the files of the redo log differ in size: {found} bytes, but the first has {expected}")]
    SizesDiffer {
        /// Index of the file.
        file: usize,
        /// Size of the first file.
        expected: u64,
        /// Its size.
        found: u64,
    },
}

/// How to verify a log.
#[derive(Debug)]
pub struct MySqlVerifyPlan {
    /// What to read, in the order in which to feed the verifier.
    pub segments: Vec<Segment>,
    /// What is wrong with the set. The segments end at the first breach after the checkpoint.
    pub breaches: Vec<Breach>,
    /// The newest checkpoint.
    pub checkpoint: Lsn,
    /// Consumes the bytes of the segments.
    pub verifier: BlockVerifier,
}

/// Plans the verification of the log in `files`: those of `#innodb_redo` (without the spare `_tmp` ones, in any order), or `ib_logfile0`
/// and the files after it in order of their numbers.
///
/// # Errors
/// [`RedoError::NoCheckpoint`].
pub fn plan(files: &[LogFile]) -> Result<MySqlVerifyPlan, RedoError> {
    match files.first() {
        Some(first) if first.format < FORMAT_MANY_FILES => plan_ring(files),
        _ => plan_chain(files),
    }
}

fn plan_chain(files: &[LogFile]) -> Result<MySqlVerifyPlan, RedoError> {
    plan_from(files, newest_checkpoint(files)?)
}

/// Like [`plan`], but of a chain of files from the given checkpoint instead of the newest. A ring has no older one to begin at.
///
/// # Errors
/// [`RedoError::NoCheckpoint`] if no file has it.
pub fn plan_from(files: &[LogFile], checkpoint: CheckpointPlace) -> Result<MySqlVerifyPlan, RedoError> {
    if checkpoint.format < FORMAT_MANY_FILES {
        return plan(files);
    }
    let mut order: Vec<(usize, &LogFile)> = files.iter().enumerate().collect();
    order.sort_by_key(|(_, file)| file.start_lsn);
    let log = files.get(checkpoint.file).ok_or(RedoError::NoCheckpoint)?;
    let mut breaches = Vec::new();
    order.retain(|&(index, file)| {
        let is_same = file.log_uuid == log.log_uuid && file.format == log.format;
        if !is_same {
            breaches.push(Breach::OtherLog { file: index, start: file.start_lsn });
        }
        is_same
    });
    // The verifier needs one chain: that of the checkpoint.
    let mut chain: Vec<(usize, &LogFile)> = Vec::new();
    let mut is_past = false;
    for (index, file) in order {
        let expected = chain.last().map(|(_, before)| end_of(before));
        if let Some(expected) = expected.filter(|expected| *expected != file.start_lsn) {
            breaches.push(Breach::Gap { file: index, expected, found: file.start_lsn });
            if chain.iter().any(|(index, _)| *index == checkpoint.file) {
                is_past = true;
            } else {
                chain.clear();
            }
        }
        if !is_past {
            chain.push((index, file));
        }
    }
    if let Some((_, newest)) =
        chain.last().filter(|(_, newest)| newest.flags & FLAG_FULL != 0 && !newest.is_copy() && !is_past)
    {
        breaches.push(Breach::NewestMissing { end: end_of(newest) });
    }
    let start = chain.first().map_or(checkpoint.lsn, |(_, file)| file.start_lsn);
    let segments = chain.iter().map(|&(file, log)| segment(file, LOG_FILE_HDR_SIZE as u64, log.size)).collect();
    let verifier = BlockVerifier::new(BlockScheme::MySqlFiles, start, checkpoint.lsn);
    Ok(MySqlVerifyPlan { segments, breaches, checkpoint: checkpoint.lsn, verifier })
}

fn plan_ring(files: &[LogFile]) -> Result<MySqlVerifyPlan, RedoError> {
    let checkpoint = newest_checkpoint(files)?;
    if checkpoint.file >= files.len() {
        return Err(RedoError::NoCheckpoint);
    }
    let size = files.first().map_or(0, |file| file.size);
    let sizes = files.iter().enumerate().filter(|(_, file)| file.size != size);
    let breaches = sizes.map(|(file, log)| Breach::SizesDiffer { file, expected: size, found: log.size }).collect();
    let around = (0..files.len()).map(|ahead| (checkpoint.file + ahead) % files.len());
    let mut segments: Vec<Segment> =
        around.filter_map(|file| Some(segment(file, LOG_FILE_HDR_SIZE as u64, files.get(file)?.size))).collect();
    if let Some(first) = segments.first_mut() {
        let ahead = checkpoint.offset.saturating_sub(first.offset).min(first.len);
        let last = Segment { len: ahead, ..*first };
        first.offset += ahead;
        first.len -= ahead;
        segments.push(last);
    }
    let start = block_start(checkpoint.lsn);
    let verifier = BlockVerifier::new(BlockScheme::MySqlRing, start, checkpoint.lsn);
    Ok(MySqlVerifyPlan { segments, breaches, checkpoint: checkpoint.lsn, verifier })
}

/// From `offset` to the last whole block of a file of `size` bytes.
const fn segment(file: usize, offset: u64, size: u64) -> Segment {
    let len = size.saturating_sub(offset);
    Segment { file, offset, len: len - len % LOG_BLOCK_SIZE as u64 }
}

/// The LSN at which the next file starts.
fn end_of(file: &LogFile) -> Lsn {
    Lsn(file.start_lsn.0.saturating_add(file.size.saturating_sub(LOG_FILE_HDR_SIZE as u64)))
}
