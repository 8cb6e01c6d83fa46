//! A datadir, a snapshot or a backup at a moment, as files for a server.
//!
//! ```text
//! SET -> recovery::View (each page as its recovery would leave it)
//!     -> base.rs: what would lead a server elsewhere is refused
//!     -> upper/: what the server writes, copied into a directory of its own, crash-safe
//!     -> files.rs: the kernel's requests (FUSE)
//!     -> mount.rs: the directory's lock, the mount's beginning and end
//!     -> finish.rs: the directory as an ordinary datadir, once everything was copied into it
//! ```
//!
//! The base is never written, whatever the server does: there is no code here that opens a file of it for writing.

#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod base;
mod error;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod finish;
#[cfg(target_os = "linux")]
mod mount;
#[cfg(target_os = "linux")]
mod place;
pub mod upper;

pub use error::MountError;
#[cfg(target_os = "linux")]
pub use finish::{Finished, finish};
#[cfg(target_os = "linux")]
pub use mount::{Mount, MountOptions, UpperAt};
