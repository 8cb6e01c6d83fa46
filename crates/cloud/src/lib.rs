//! Objects in buckets, read like files.
//!
//! ```text
//! s3://bucket/prefix -> Place -> Store (credentials, client) -> listing -> Object (length, ETag)
//! flow's Queue -> ranges of 1 MiB, many in flight, each with If-Match -> Buffer
//!                 failed: because of the object -> final      because of network or server -> retried after a pause, up to a limit
//! ```
//!
//! # Sketch
//!
//! For a sweep over `n` MiB with the default sizes: `n` requests, as many in flight as the readers' windows hold together, each 0.2 to
//! 0.4 ms of processor time. Memory: the windows' buffers, a few hundred KiB per request in flight for its connection, and a 16 MiB cache
//! of blocks. At 20 ms latency, 8 requests in flight move 230 MB/s.
//!
//! [`Cloud`] implements [`datadir::remote::Remote`]. It is a crate of its own because its clients depend on some hundred others: a
//! build that reads only local files leaves it out.

#![forbid(unsafe_code)]

mod blocks;
mod carrier;
mod clients;
mod cloud;
mod engine;
mod fault;
mod fetch;
mod guard;
mod known;
mod listing;
mod options;
mod place;
mod policy;
mod profile;
mod store;
mod tally;
mod visits;

pub use cloud::Cloud;
pub use policy::{Policy, PolicyError};
