//! An append-only log over a ring of recycled files: many callers, one write and one sync for all that wait, no hidden read.
//!
//! ```text
//! append(record) -> group (gathers while the previous one is written) -> log blocks sealed -> zeros to the end of the file system's block
//! on first touch -> one write -> one sync -> every caller of the group has its log position
//! ```
//!
//! # What a commit costs
//! One write and one sync, however many callers wait for it: 512 bytes for a record of up to 480, or 4096 on the first touch of a file
//! system block. No read: a write of 512 bytes into an uncached block makes the system read that block first, in the middle of the commit.
//! A write of the whole block does not, and after it the block is cached. (If the log is idle until the system evicts its last block, the
//! next append costs one read.) No change of metadata: the files are already fully written, so neither their size nor their extents change;
//! see [`Space`] for the alternatives. With direct I/O ([`LogOptions::direct`]), only whole blocks can be written, and the content of the
//! last one is written again.
//!
//! # What is promised
//! * A record is acknowledged once it is durable, with the [`LogPosition`] after it. From then on every [`LogReader`] hands it over, whole,
//!   until its file is overwritten, which does not happen before it was [released](LogWriter::release).
//! * A record that was not acknowledged may be in the log or not, but never in part; once a reader has handed it over and
//!   [`LogWriter::resume`] continued after it, it is durable too.
//! * Blocks of an earlier round of the ring, of a torn write, or of another log in the same space are never taken for part of this log.
//! * The first write or sync that fails stops the writer: every later call gets that error. A failed sync is never repeated, because the
//!   system may have dropped what it could not write, and would report success.
//!
//! This relies on a medium that writes each 512-byte sector atomically and honours syncs ([`LogStorage`]). Damage to blocks that were
//! durable is distinguished from the end of the log if there is a later write ([`LogError::Damaged`]); damage to the last write looks like
//! a torn write.
//!
//! # The format, byte by byte
//! All numbers are big-endian; checksums are CRC-32C. Each file starts with a header, in its own file system block; data follows. The log
//! goes through the data of all files in turn, round after round: a [`LogPosition`] counts its bytes, whole log blocks without the file
//! headers. With `D` = file size - block size, log position `n` is in file `n / D % files` at offset `block size + n % D`.
//!
//! File header: two slots of 512 bytes at offsets 0 and 512, used in turn; the sound one with the higher epoch counts.
//!
//! | offset | bytes | field | meaning |
//! |---:|---:|---|---|
//! | 0 | 4 | `crc` | of bytes 4 to 511 |
//! | 4 | 4 | `version` | 1 |
//! | 8 | 8 | `magic` | `flow log` |
//! | 16 | 4 | `id` | of the log, random |
//! | 20 | 4 | `index` | of the file, from 0 |
//! | 24 | 4 | `files` | in the ring |
//! | 28 | 4 | `block_size` | of the file system; where data starts |
//! | 32 | 8 | `file_size` | bytes of the file, header included |
//! | 40 | 4 | `epoch` | openings for writing, kept in the first file: made durable before the first write of each |
//!
//! Log block of 512 bytes:
//!
//! | offset | bytes | field | meaning |
//! |---:|---:|---|---|
//! | 0 | 4 | `crc` | of bytes 4 to 511 |
//! | 4 | 4 | `epoch` | of the writer; never falls from one block to the next |
//! | 8 | 8 | `number` | log position / 512: the place and the round |
//! | 16 | 4 | `id` | of the log |
//! | 20 | 2 | `data_len` | bytes of data, 0 to 484 |
//! | 22 | 2 | `first_record` | where in the data the first record starts that starts here, or 65535 |
//! | 24 | 2 | `in_group` | blocks between the start of its write and this one |
//! | 26 | 2 | | 0 |
//! | 28 | 484 | data | records, each a length of 4 bytes and its bytes, across blocks; zeros after them |
//!
//! A group starts with a new block. If a group spans two files, the first file's part is written and synced before the second's, so that
//! the first block of a file proves that everything before it is durable.
//!
//! **The end** is the first block that is damaged, not of this log, not of this place and round, or of a lower epoch than the block before:
//! the rest of a torn write, which may be after the next writer's end, has a lower one. A record that is incomplete there does not count,
//! and the next writer starts a new block. **The start** is the file after the newest, in the round before, or the one after that if a torn
//! write has begun to overwrite it; in it, the first record that starts there.
//!
//! # Example
//! ```
//! use innokit_flow::log_writer::{LogOptions, LogReader, LogWriter};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let options = LogOptions { files: 2, file_size: 64 << 10, group_max: 16 << 10, ..LogOptions::default() };
//! let log = LogWriter::create(dir, &options)?;
//! let position = log.append(b"is durable when append returns")?;
//! log.submit(b"not yet")?;
//! let last = log.submit(b"nor this one")?;
//! log.wait(last)?;
//! drop(log);
//!
//! let mut reader = LogReader::open(dir)?;
//! while let Some(record) = reader.next() {
//!     let record = record?;
//!     println!("{} to {}: {} bytes", record.start, record.end, record.bytes.len());
//! }
//! assert!(reader.position() >= last && last > position);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod block;
mod error;
mod fields;
mod group;
mod handshake;
mod layout;
mod options;
mod position;
mod reader;
mod simulated;
mod storage;
mod writer;

pub use block::LOG_BLOCK_SIZE;
pub use error::LogError;
pub use options::{Fill, LogOptions, Recycle, Space, SyncBy};
pub use position::LogPosition;
pub use reader::{LogReader, LogRecord};
pub use simulated::SimLog;
pub use storage::{LogFiles, LogStorage};
pub use writer::{LogCounts, LogWriter};
