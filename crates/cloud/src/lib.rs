//! Objects in buckets, read like files.
//!
//! ```text
//! s3://bucket/prefix -> Place -> Store (credentials, client) -> listing -> Object (length, ETag)
//! flow's Queue -> ranges of 1 MiB, many in flight, each with If-Match -> Buffer
//!                 failed: about the object -> final      about the way to it -> again, after a pause, for a limited time
//! ```
//!
//! # Sketch
//!
//! For a sweep over `n` MiB with the default sizes: `n` requests, as many in flight as the readers' windows hold together, each 0.2 to
//! 0.4 ms of processor time; memory is the windows' buffers, a connection's few hundred KiB for each request in flight, and 16 MiB that
//! heads of files were read from. At 20 ms latency, 8 in flight carry 230 MB/s.
//!
//! [`Cloud`] is what [`jobs::source::remote::Remote`] asks for. It is a crate of its own because its clients bring some hundred others: a build that only
//! reads files of this system leaves it out.

#![forbid(unsafe_code)]

mod blocks;
mod carrier;
mod clients;
mod cloud;
mod engine;
mod fault;
mod fetch;
mod known;
mod listing;
mod place;
mod policy;
mod profile;
mod store;
mod tally;
mod visits;

pub use cloud::Cloud;
pub use policy::{Policy, PolicyError};
