//! Pages: header and trailer, checksums, and the structures that say which pages are in use.

mod classic;
mod content;
pub mod doublewrite;
pub mod fsp;
mod full_crc32;
pub mod guess;
pub mod header;
pub mod index;
pub mod inode;
mod inside;
pub mod instant;
pub mod lob;
mod recognise;
pub mod rollback;
pub mod run;
pub mod sdi;
pub mod seal;
mod slot;
pub mod space_format;
mod verdict;
pub mod verify;
pub mod view;
pub mod xdes;
pub mod zip;

pub use inside::{damage_inside, verify_inside};
pub use recognise::{MIN_HEAD, NotTablespace};
pub use verdict::{Verdict, Why};
