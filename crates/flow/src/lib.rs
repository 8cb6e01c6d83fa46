//! How bytes move: which blocks are read, in which order, how many at a time, and who waits for whom.
//!
//! Nothing here knows what the bytes mean. A [`Cursor`] hands out [`Block`]s of a [`FileSet`]; each worker owns one
//! [`Reader`], which keeps a bounded window of blocks in flight through a [`queue::Queue`] and hands the bytes over as
//! [`Piece`]s in the order in which it took the blocks. Workers share the cursor and nothing else.
//!
//! ```text
//! FileSet -> Cursor (one atomic) -> Reader per worker -> page cache?  yes: pread in pieces that stay in the core's cache
//!                                                                     no:  Queue (io_uring or pread threads), O_DIRECT
//! ```
//!
//! ```no_run
//! use innokit_flow::{Counters, Cursor, FileSet, ReadOptions, Reader, run_workers};
//!
//! let options = ReadOptions::default();
//! let files = FileSet::new([("t1.ibd".into(), 114_688)]);
//! let cursor = Cursor::sweep(&files, options.block_size);
//! let counters = Counters::new(2);
//! let sums = run_workers(2, |worker| {
//!     let mut reader = Reader::new(&files, &cursor, &options, counters.worker(worker))?;
//!     let mut bytes = 0;
//!     while let Some(piece) = reader.next() {
//!         match piece {
//!             Ok(piece) => bytes += piece.bytes.len(),
//!             Err(failure) => eprintln!("{failure}"),
//!         }
//!     }
//!     Ok::<_, innokit_flow::ReaderError>(bytes)
//! });
//! # drop(sums);
//! ```
//!
//! [`Devices`] is a cursor for each device, if the files lie on several.
//!
//! A [`Gather`] reads what a caller asks for piece by piece, such as the leaves of a tree, through the same [`Reader`].
//!
//! [`log_writer`] is the other direction: an append-only log for many callers. [`append`] fills one file from the front. [`rewrite`] changes
//! blocks in place. [`queue::sim`] is a device for tests, as slow and as faulty as requested, for trying them.

#![deny(unsafe_code)]

pub mod append;
mod buffer;
#[cfg_attr(not(target_os = "linux"), path = "cache_unknown.rs")]
mod cache;
mod carried;
mod counter;
mod counters;
mod descriptors;
mod devices;
pub mod durable;
mod files;
mod fuse;
mod gather;
mod job;
pub mod lock;
pub mod log_writer;
mod memory;
#[cfg_attr(not(target_os = "linux"), path = "nodes_unknown.rs")]
mod nodes;
mod options;
mod plan;
#[cfg_attr(not(target_os = "linux"), path = "priority_unknown.rs")]
pub mod priority;
pub mod queue;
mod reader;
pub mod rewrite;
mod split;
#[doc(hidden)]
pub mod steps;
mod stream;
mod sync;
mod system;
mod tickets;
mod workers;

pub use buffer::{Buffer, BufferPool};
pub use cache::PageCache;
pub use carried::SharedEngine;
pub use counters::{Counters, Counts, WorkerCounters};
pub use descriptors::Descriptors;
pub use devices::{DeviceShare, Devices};
pub use files::{DIRECT_ALIGN, FileHandle, FileId, FileSet};
pub use gather::{Gather, GatherPlan, Gathered, ReadAhead, Want};
pub use job::{InJob, Job, did_bytes, for_this_job};
pub use memory::{available_memory, give_back_memory};
pub use options::{Engine, IoMode, OptionsError, ReadOptions};
pub use plan::{BLOCK_ALIGN, Block, Cursor, FileRange, Plan};
pub use reader::{FileFailure, Piece, Reader, ReaderError};
pub use split::{Gap, SPLIT_UNIT, WholeFile};
pub use stream::StreamReader;
pub use workers::{WorkList, run_both, run_workers};
