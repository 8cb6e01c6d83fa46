//! Verifies logs made of blocks: MySQL's, and MariaDB's of 10.5 to 10.7.
//!
//! A log does not record its end: it ends before the first block that does not belong there, or in the first that is not full. So a damaged
//! block looks like the end until a later block turns out to belong to the same log: [`BlockVerifier`] waits for that before it calls a
//! block damaged. After a crash, the end is followed by zeros or by sound blocks of an earlier lap. If neither follows, the end is reported
//! as [`BlockEnd::Torn`]: a server would end its recovery there too, and the log cannot tell an incomplete write from a damaged one.

use thiserror::Error;

use crate::block::{
    EPOCH_BLOCKS, FLUSH_BIT, LOG_BLOCK_CHECKSUM, LOG_BLOCK_EPOCH_NO, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_HDR_NO,
    LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, block_number, block_start, offset_in_block,
};
use crate::log_key::LogKey;
use format::bytes::{be, is_zero};
use format::checksum::{NO_CHECKSUM_MAGIC, crc32c};
use format::codec::TablespaceKey;
use format::pieces::{gather, take};
use format::types::Lsn;

/// Flag in the length (MySQL): payload and checksum are encrypted.
const ENCRYPTED_BIT: u16 = 0x8000;

/// The origin of the blocks, which decides what their headers hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockScheme {
    /// MySQL up to 8.0.29 (formats 1 to 5).
    MySqlRing,
    /// MySQL 8.0.30 and later (format 6): blocks have an epoch.
    MySqlFiles,
    /// MariaDB 10.5 to 10.7.
    MariaDb,
    /// MariaDB 10.5 to 10.7, encrypted. The checksum covers the stored bytes and can be verified without a key. Lengths are encrypted, so
    /// without the key all blocks are taken as full.
    MariaDbEncrypted,
}

impl BlockScheme {
    const fn is_mysql(self) -> bool {
        matches!(self, Self::MySqlRing | Self::MySqlFiles)
    }
}

/// Why a block does not belong where it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Misfit {
    /// All zeros.
    #[error("the log block is all zeros")]
    Zero,
    /// Sound, but from another place: left over from an earlier lap, or moved here.
    #[error("the log block has number {found}, but {expected} belongs here")]
    OtherBlock {
        /// Its number.
        found: u32,
        /// The number of the block that belongs here.
        expected: u32,
    },
    /// Right number, wrong epoch: 512 GiB of log away.
    #[error("the log block is of epoch {found}, but {expected} belongs here")]
    OtherEpoch {
        /// Its epoch.
        found: u32,
        /// The epoch that belongs here.
        expected: u32,
    },
    /// An impossible length.
    #[error("the log block claims {len} bytes of data")]
    Length {
        /// Its length.
        len: u16,
    },
    /// The checksum does not match.
    #[error("the log block's checksum is {stored:08x}, but its content gives {computed:08x}")]
    Checksum {
        /// The checksum in the block.
        stored: u32,
        /// The checksum of its content.
        computed: u32,
    },
    /// The block is marked as encrypted, and its checksum proves that it is not.
    #[error("the log block is marked as encrypted, but is not")]
    NotEncrypted,
    /// The block is encrypted with another key version than the checkpoint names.
    #[error(
        "the log block is encrypted with version {found} of the key, but the newest checkpoint with version {expected}"
    )]
    OtherKey {
        /// The version that the block names.
        found: u32,
        /// The version that the checkpoint names.
        expected: u32,
    },
    /// The block is sound and not full, yet the log continues after it: a later version of it was lost.
    #[error("the log block is an old version: it ends after {len} bytes, but the log continues after it")]
    OldVersion {
        /// Bytes used in it.
        len: u16,
    },
}

/// Consecutive damaged blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDamage {
    /// LSN of the first.
    pub lsn: Lsn,
    /// Number of blocks.
    pub blocks: u64,
    /// What is wrong with the first.
    pub misfit: Misfit,
    /// Whether recovery needs them. Blocks before the checkpoint are merely kept until their file is reused.
    pub is_needed: bool,
}

/// How the log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockEnd {
    /// In a block that is not full.
    InBlock,
    /// With a full block, before zeros or a block of an earlier lap.
    BetweenBlocks,
    /// With the last block in the files.
    WithTheFiles,
    /// Before a block that is neither sound nor zero: an incomplete write, or damage.
    Torn(Misfit),
}

/// The result for a whole log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSummary {
    /// Blocks with the right checksum.
    pub ok: u64,
    /// Blocks without a checksum (`innodb_log_checksums=OFF`); number and length are right.
    pub no_checksum: u64,
    /// MySQL's encrypted blocks without a key, whose checksum is encrypted too; number, epoch and length are right.
    pub unverifiable: u64,
    /// Damaged blocks that recovery needs.
    pub damaged: u64,
    /// Damaged blocks before the checkpoint.
    pub damaged_unneeded: u64,
    /// Where the log ends: the LSN after its last byte.
    pub end: Lsn,
    /// How it ends there.
    pub ends: BlockEnd,
}

/// Verifies the blocks of a log, fed in the order of the log, in pieces of any size. Memory: one block.
#[derive(Debug)]
pub struct BlockVerifier {
    scheme: BlockScheme,
    checkpoint: Lsn,
    /// Keys of MySQL's encrypted blocks; a log may have been encrypted with several.
    keys: Vec<TablespaceKey>,
    /// MariaDB's log key.
    log_key: Option<Box<LogKey>>,
    /// LSN of the next block.
    at: Lsn,
    block: Vec<u8>,
    /// Misfits since the last valid block: damage if another one follows, otherwise the end.
    run: Option<BlockDamage>,
    /// The last valid block was not full; it used this many bytes.
    short: Option<u16>,
    summary: BlockSummary,
}

enum Fit {
    Ok { len: u16 },
    NoChecksum { len: u16 },
    Encrypted { len: u16 },
    Misfit(Misfit),
}

impl BlockVerifier {
    /// For a log whose newest checkpoint is `checkpoint`, fed from the block at `start`, a multiple of 512.
    #[must_use]
    pub const fn new(scheme: BlockScheme, start: Lsn, checkpoint: Lsn) -> Self {
        let ends = BlockEnd::WithTheFiles;
        let summary =
            BlockSummary { ok: 0, no_checksum: 0, unverifiable: 0, damaged: 0, damaged_unneeded: 0, end: start, ends };
        Self {
            scheme,
            checkpoint,
            keys: Vec::new(),
            log_key: None,
            at: start,
            block: Vec::new(),
            run: None,
            short: None,
            summary,
        }
    }

    /// Adds the keys of MySQL's encrypted blocks: each block is then verified with the key that fits.
    #[must_use]
    pub fn with_keys(self, keys: Vec<TablespaceKey>) -> Self {
        Self { keys, ..self }
    }

    /// Adds the key of an encrypted MariaDB log: the lengths of blocks are then known.
    #[must_use]
    pub fn with_log_key(self, log_key: Option<LogKey>) -> Self {
        Self { log_key: log_key.map(Box::new), ..self }
    }

    /// The next certain damage; consumes what it needs from the front of `input`. `None` if `input` is used up.
    pub fn next_damage(&mut self, input: &mut &[u8]) -> Option<BlockDamage> {
        while !input.is_empty() {
            let found = if self.block.is_empty() && input.len() >= LOG_BLOCK_SIZE {
                let block = take(input, LOG_BLOCK_SIZE);
                self.judge(block)
            } else {
                if !gather(&mut self.block, input, LOG_BLOCK_SIZE) {
                    return None;
                }
                let block = std::mem::take(&mut self.block);
                self.judge(&block)
            };
            if let Some(damage) = found {
                return Some(damage);
            }
        }
        None
    }

    /// The files have ended: returns remaining damage, and the summary.
    #[must_use]
    pub fn finish(mut self) -> (Option<BlockDamage>, BlockSummary) {
        let left = self.run.take().and_then(|run| self.end_at(run));
        // After a block that is not full nothing belongs to the log, whatever it looks like.
        if self.short.is_some() && left.is_none() {
            self.summary.ends = BlockEnd::InBlock;
        }
        (left, self.summary)
    }

    /// Judges one block. Returns the damage that it proves.
    fn judge(&mut self, block: &[u8]) -> Option<BlockDamage> {
        let lsn = self.at;
        self.at = Lsn(lsn.0.saturating_add(LOG_BLOCK_SIZE as u64));
        let (count, len) = match self.fit(block, lsn) {
            // It does belong to this log, which continues here.
            Fit::Misfit(misfit @ Misfit::OtherKey { .. }) => {
                (self.short, self.summary.end) = (None, self.at);
                let first = BlockDamage { lsn, blocks: 1, misfit, is_needed: true };
                let damage = self.run.take().unwrap_or(first);
                return Some(self.damaged(damage));
            }
            Fit::Misfit(misfit) => {
                let run = self.run.get_or_insert(BlockDamage { lsn, blocks: 0, misfit, is_needed: true });
                run.blocks += 1;
                return None;
            }
            Fit::Ok { len } => (&mut self.summary.ok, len),
            Fit::NoChecksum { len } => (&mut self.summary.no_checksum, len),
            Fit::Encrypted { len } => (&mut self.summary.unverifiable, len),
        };
        *count += 1;
        let is_full = usize::from(len) == LOG_BLOCK_SIZE;
        let before = self.summary.end;
        let short = std::mem::replace(&mut self.short, (!is_full).then_some(len));
        self.summary.end = Lsn(lsn.0.saturating_add(len.into()));
        match (self.run.take(), short) {
            // This explains a misfit after a block that was not full: the log went on, and both are old.
            (run, Some(used)) => {
                let lsn = block_start(before);
                let blocks = 1 + run.map_or(0, |run| run.blocks);
                let misfit = Misfit::OldVersion { len: used };
                Some(self.damaged(BlockDamage { lsn, blocks, misfit, is_needed: true }))
            }
            (Some(run), None) => Some(self.damaged(run)),
            (None, None) => None,
        }
    }

    /// Counts damage, and says whether recovery needs it.
    fn damaged(&mut self, mut damage: BlockDamage) -> BlockDamage {
        let end = damage.lsn.0.saturating_add(damage.blocks.saturating_mul(LOG_BLOCK_SIZE as u64));
        damage.is_needed = end > self.checkpoint.0;
        let count = if damage.is_needed { &mut self.summary.damaged } else { &mut self.summary.damaged_unneeded };
        *count = count.saturating_add(damage.blocks);
        damage
    }

    /// The log ends before `run`, unless it would then end before its checkpoint: it reaches at least that far.
    fn end_at(&mut self, run: BlockDamage) -> Option<BlockDamage> {
        let in_block = offset_in_block(self.checkpoint);
        let block_start = self.checkpoint.0 - in_block as u64;
        // A checkpoint at the first payload byte needs only the blocks before its own.
        let must_reach = if in_block <= LOG_BLOCK_HDR_SIZE { block_start } else { self.checkpoint.0 };
        if run.lsn.0 < must_reach {
            let blocks = must_reach.saturating_sub(run.lsn.0).div_ceil(LOG_BLOCK_SIZE as u64).min(run.blocks);
            self.summary.ends = BlockEnd::Torn(run.misfit);
            return Some(self.damaged(BlockDamage { blocks, ..run }));
        }
        self.summary.ends = match run.misfit {
            Misfit::Zero | Misfit::OtherBlock { .. } | Misfit::OtherEpoch { .. } => BlockEnd::BetweenBlocks,
            misfit => BlockEnd::Torn(misfit),
        };
        None
    }

    fn fit(&self, block: &[u8], lsn: Lsn) -> Fit {
        let (Some(number), Some(length), Some(epoch), Some(stored), Some(covered)) = (
            be::u32_at(block, LOG_BLOCK_HDR_NO),
            be::u16_at(block, LOG_BLOCK_HDR_DATA_LEN),
            be::u32_at(block, LOG_BLOCK_EPOCH_NO),
            be::u32_at(block, LOG_BLOCK_CHECKSUM),
            block.get(..LOG_BLOCK_CHECKSUM),
        ) else {
            return Fit::Misfit(Misfit::Zero);
        };
        if is_zero(block) {
            return Fit::Misfit(Misfit::Zero);
        }
        let is_encrypted = self.scheme.is_mysql() && length & ENCRYPTED_BIT != 0;
        let length = if self.scheme == BlockScheme::MariaDbEncrypted { self.opened_length(block, lsn) } else { length };
        let len = if is_encrypted { length & !ENCRYPTED_BIT } else { length };
        let sum = if is_encrypted { self.encrypted_sum(block, stored) } else { self.sum(stored, crc32c(covered)) };
        let used = usize::from(len);
        let number = if self.scheme == BlockScheme::MySqlFiles { number } else { number & !FLUSH_BIT };
        let (expected, expected_epoch) = (block_number(lsn), epoch_of(lsn));
        match sum {
            // A leftover of an encrypted log was encrypted with another key, so check its number first.
            Sum::Unfit { stored, computed } if number == expected || !is_encrypted => {
                Fit::Misfit(Misfit::Checksum { stored, computed })
            }
            _ if number != expected => Fit::Misfit(Misfit::OtherBlock { found: number, expected }),
            _ if used != LOG_BLOCK_SIZE && !(LOG_BLOCK_HDR_SIZE..=LOG_BLOCK_CHECKSUM).contains(&used) => {
                Fit::Misfit(Misfit::Length { len })
            }
            _ if self.scheme == BlockScheme::MySqlFiles && epoch != expected_epoch => {
                Fit::Misfit(Misfit::OtherEpoch { found: epoch, expected: expected_epoch })
            }
            Sum::Marked => Fit::Misfit(Misfit::NotEncrypted),
            Sum::Unknown => Fit::Encrypted { len },
            Sum::Fits => self.other_key(block).map_or(Fit::Ok { len }, Fit::Misfit),
            Sum::Missing => Fit::NoChecksum { len },
            Sum::Unfit { stored, computed } => Fit::Misfit(Misfit::Checksum { stored, computed }),
        }
    }

    /// The length of a block that is encrypted except for its number; that of a full block if no key opens it.
    fn opened_length(&self, block: &[u8], lsn: Lsn) -> u16 {
        let key = self.log_key.as_ref().filter(|key| key.other_version(block).is_none());
        let opened = key.and_then(|key| {
            let mut plain = *block.first_chunk()?;
            key.open_block(&mut plain, lsn);
            be::u16_at(&plain, LOG_BLOCK_HDR_DATA_LEN)
        });
        opened.unwrap_or(LOG_BLOCK_SIZE as u16)
    }

    fn other_key(&self, block: &[u8]) -> Option<Misfit> {
        let key = self.log_key.as_ref()?;
        Some(Misfit::OtherKey { found: key.other_version(block)?, expected: key.version() })
    }

    /// The checksum of a block marked as encrypted.
    fn encrypted_sum(&self, block: &[u8], stored: u32) -> Sum {
        let opened = self.keys.iter().filter_map(|key| {
            let mut plain = without_mark(block)?;
            key.decrypt(plain.get_mut(LOG_BLOCK_HDR_SIZE..)?);
            let stored = be::u32_at(&plain, LOG_BLOCK_CHECKSUM)?;
            Some(self.sum(stored, plain.get(..LOG_BLOCK_CHECKSUM).map(crc32c)?))
        });
        let mut unfit = Sum::Unknown;
        for sum in opened {
            if !matches!(sum, Sum::Unfit { .. }) {
                return sum;
            }
            unfit = sum;
        }
        let as_it_is = without_mark(block).and_then(|plain| plain.get(..LOG_BLOCK_CHECKSUM).map(crc32c));
        if as_it_is == Some(stored) { Sum::Marked } else { unfit }
    }

    /// Only MySQL can be configured to write no checksums; a magic number replaces them.
    fn sum(&self, stored: u32, computed: u32) -> Sum {
        if stored == computed {
            Sum::Fits
        } else if stored == NO_CHECKSUM_MAGIC && self.scheme.is_mysql() {
            Sum::Missing
        } else {
            Sum::Unfit { stored, computed }
        }
    }
}

/// The result of checking a block's checksum.
#[derive(Debug, Clone, Copy)]
enum Sum {
    Fits,
    Unfit {
        stored: u32,
        computed: u32,
    },
    /// Written without a checksum.
    Missing,
    /// Encrypted, and there is no key.
    Unknown,
    /// It matches the block as stored, although that is marked as encrypted.
    Marked,
}

/// A block without its encryption flag, which the checksum does not cover.
fn without_mark(block: &[u8]) -> Option<Vec<u8>> {
    let mut plain = block.to_vec();
    let length = be::u16_at(block, LOG_BLOCK_HDR_DATA_LEN)?;
    be::put_u16(&mut plain, LOG_BLOCK_HDR_DATA_LEN, length & !ENCRYPTED_BIT)?;
    Some(plain)
}

/// The epoch of the block at `lsn`.
fn epoch_of(lsn: Lsn) -> u32 {
    u32::try_from(lsn.0 / LOG_BLOCK_SIZE as u64 / EPOCH_BLOCKS).map_or(u32::MAX, |epoch| epoch.saturating_add(1))
}
