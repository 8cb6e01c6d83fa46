//! Verifies logs made of blocks: MySQL's, and MariaDB's of 10.5 to 10.7.
//!
//! A log does not say where it ends: it ends before the first block that does not belong there, or in the first that is not
//! full. A damaged block therefore looks like the end, until a later block turns out to belong to the same log: this is what
//! [`BlockVerifier`] waits for before it calls a block damaged. What a crash leaves behind the end is zeros or blocks of an
//! earlier lap, sound in themselves; a last block that is neither is reported as [`BlockEnd::Torn`]: a server would end its
//! recovery there as well, and nothing in the log tells a write that was cut from a damaged one.

use thiserror::Error;

use crate::block::{
    EPOCH_BLOCKS, FLUSH_BIT, LOG_BLOCK_CHECKSUM, LOG_BLOCK_EPOCH_NO, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_HDR_NO,
    LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, block_number, block_start, offset_in_block,
};
use crate::log_key::LogKey;
use format::bytes::{be, is_zero};
use format::codec::TablespaceKey;
use format::page::checksum::{NO_CHECKSUM_MAGIC, crc32c};
use format::pieces::{gather, take};
use format::types::Lsn;

/// In the length (MySQL): the payload and the checksum are encrypted.
const ENCRYPTED_BIT: u16 = 0x8000;

/// Whose blocks they are: what is in their headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockScheme {
    /// MySQL up to 8.0.29 (formats 1 to 5).
    MySqlRing,
    /// MySQL 8.0.30 and later (format 6): blocks name their epoch.
    MySqlFiles,
    /// MariaDB 10.5 to 10.7.
    MariaDb,
    /// The same, encrypted. The checksum covers what is on disk, so that it is verified without a key; lengths are encrypted: without
    /// the key all blocks pass for full ones.
    MariaDbEncrypted,
}

impl BlockScheme {
    const fn is_mysql(self) -> bool {
        matches!(self, Self::MySqlRing | Self::MySqlFiles)
    }
}

/// Why a block does not belong where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Misfit {
    /// Nothing but zeros.
    #[error("the log block is all zeros")]
    Zero,
    /// Sound, but of another place: left from an earlier lap, or brought here.
    #[error("the log block has number {found}, {expected} belongs here")]
    OtherBlock {
        /// The number that it has.
        found: u32,
        /// The number of the block that belongs here.
        expected: u32,
    },
    /// Right in number, but of another epoch: 512 GiB of log away.
    #[error("the log block is of epoch {found}, {expected} belongs here")]
    OtherEpoch {
        /// The epoch that it names.
        found: u32,
        /// The epoch that belongs here.
        expected: u32,
    },
    /// A length that no block has.
    #[error("the log block claims {len} bytes of data")]
    Length {
        /// The length that it claims.
        len: u16,
    },
    /// The checksum does not fit.
    #[error("the log block's checksum is {stored:08x}, its content gives {computed:08x}")]
    Checksum {
        /// The checksum in the block.
        stored: u32,
        /// The checksum of its content.
        computed: u32,
    },
    /// The block says that it is encrypted, and its checksum proves that it is not.
    #[error("the log block is marked as encrypted and is not")]
    NotEncrypted,
    /// The block is encrypted with a version of the key that is not the one that the checkpoint names.
    #[error(
        "the log block is encrypted with version {found} of the key, and the newest checkpoint with version {expected}"
    )]
    OtherKey {
        /// The version that the block names.
        found: u32,
        /// The version that the checkpoint names.
        expected: u32,
    },
    /// The block is sound and not full, and yet the log goes on behind it: a later version of it was lost.
    #[error("the log block is an old version: it ends after {len} bytes, and the log goes on behind it")]
    OldVersion {
        /// Bytes used in it.
        len: u16,
    },
}

/// Blocks of the log that are damaged, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDamage {
    /// LSN of the first.
    pub lsn: Lsn,
    /// How many.
    pub blocks: u64,
    /// What is wrong with the first.
    pub misfit: Misfit,
    /// Whether recovery needs them. Blocks before the checkpoint are only kept until their file is used again.
    pub is_needed: bool,
}

/// Where the log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockEnd {
    /// In a block that is not full.
    InBlock,
    /// With a full block, before zeros or a block of an earlier lap.
    BetweenBlocks,
    /// With the last block there is: the next is in no file.
    WithTheFiles,
    /// Before a block that is neither sound nor zero: a write that was cut, or damage.
    Torn(Misfit),
}

/// What was found in a whole log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSummary {
    /// Blocks whose checksum is right.
    pub ok: u64,
    /// Blocks without checksum (`innodb_log_checksums=OFF`); number and length are right.
    pub no_checksum: u64,
    /// Encrypted blocks of MySQL without a key, whose checksum is encrypted too; number, epoch and length are right.
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
    /// What opens MySQL's encrypted blocks; a log may have been encrypted with more than one key.
    keys: Vec<TablespaceKey>,
    /// What opens MariaDB's.
    log_key: Option<Box<LogKey>>,
    /// Of the next block.
    at: Lsn,
    block: Vec<u8>,
    /// Misfits since the last block of the log: damage if another follows, the end if not.
    run: Option<BlockDamage>,
    /// The last block of the log was not full; so much of it was used.
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
    /// For a log whose newest checkpoint is `checkpoint` and whose first block to come is at `start`, a multiple of 512.
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

    /// With the keys of MySQL's encrypted blocks: each such block is then verified with the key that fits.
    #[must_use]
    pub fn with_keys(self, keys: Vec<TablespaceKey>) -> Self {
        Self { keys, ..self }
    }

    /// With the key of an encrypted log of MariaDB: then the lengths of blocks are known.
    #[must_use]
    pub fn with_log_key(self, log_key: Option<LogKey>) -> Self {
        Self { log_key: log_key.map(Box::new), ..self }
    }

    /// The next damage that is certain; takes what it needs off the front of `input`. `None` when `input` is used up.
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

    /// The files have ended: what is left of damage, and the sum of it all.
    #[must_use]
    pub fn finish(mut self) -> (Option<BlockDamage>, BlockSummary) {
        let left = self.run.take().and_then(|run| self.end_at(run));
        // Behind a block that is not full nothing belongs to the log, whatever it looks like.
        if self.short.is_some() && left.is_none() {
            self.summary.ends = BlockEnd::InBlock;
        }
        (left, self.summary)
    }

    /// Takes in one block; returns the damage that it proves.
    fn judge(&mut self, block: &[u8]) -> Option<BlockDamage> {
        let lsn = self.at;
        self.at = Lsn(lsn.0.saturating_add(LOG_BLOCK_SIZE as u64));
        let (count, len) = match self.fit(block, lsn) {
            // It is of this log all the same, which goes on here.
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
            // A misfit behind a block that was not full is explained by it: the log went on, and both are old.
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

    /// The log ends before `run`, unless it must be longer: it reaches at least to the checkpoint.
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
            // What is left of an encrypted log was encrypted with a key of its own: its number comes first.
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

    /// The length of a block of which all but the number is encrypted: that of a full one, where it is not known.
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

    /// The checksum of a block that says that it is encrypted.
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

    /// Only MySQL could be told to write no checksums; a magic number stands for them.
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

/// What became of a block's checksum.
#[derive(Debug, Clone, Copy)]
enum Sum {
    Fits,
    Unfit {
        stored: u32,
        computed: u32,
    },
    /// Written without one.
    Missing,
    /// Encrypted, and there is no key.
    Unknown,
    /// It fits the block as it is, which says that it is encrypted.
    Marked,
}

/// A block without the mark of encryption, which its checksum does not know.
fn without_mark(block: &[u8]) -> Option<Vec<u8>> {
    let mut plain = block.to_vec();
    let length = be::u16_at(block, LOG_BLOCK_HDR_DATA_LEN)?;
    be::put_u16(&mut plain, LOG_BLOCK_HDR_DATA_LEN, length & !ENCRYPTED_BIT)?;
    Some(plain)
}

/// The epoch that a block at `lsn` names.
fn epoch_of(lsn: Lsn) -> u32 {
    u32::try_from(lsn.0 / LOG_BLOCK_SIZE as u64 / EPOCH_BLOCKS).map_or(u32::MAX, |epoch| epoch.saturating_add(1))
}
