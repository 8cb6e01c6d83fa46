//! What the bytes of InnoDB files mean.
//!
//! This crate is pure: byte slices in, facts and typed errors out. It opens no file, starts no thread, logs nothing, and does not panic on
//! any input. Other crates read the bytes.
//!
//! A page's path through this crate:
//!
//! ```text
//! first bytes of a file -> SpaceFormat::from_page0 (or ::guess) -> SpaceFormat
//! one page, its PageId, the SpaceFormat -> verify_page -> Verdict: Ok | Empty | Corrupt(why) | Unverifiable(why)
//! page 0 -> SpaceHeader, every XDES page -> ExtentMap -> which pages are in use
//! ```
//!
//! All integers in the files are big-endian and unsigned unless a structure's documentation says otherwise.

#![forbid(unsafe_code)]

pub mod bytes;
mod calendar;
pub mod charset;
pub mod checksum;
pub mod cipher;
pub mod codec;
pub mod corruption;
pub mod fil;
mod fold;
pub(crate) mod index_rule;
pub mod keyring;
pub mod kind;
pub mod layout;
pub mod page;
pub mod pieces;
pub mod printable;
pub mod record;
mod rules;
pub mod schema;
pub mod show_create;
pub mod types;
pub mod value;
pub mod zip_damage;

pub use crate::checksum::Algorithm;
pub use crate::fil::PageType;
pub use crate::kind::{Encryption, Family, Scheme};
pub use corruption::{ChecksumField, Corruption};
pub use page::fsp::SpaceHeader;
pub use page::guess::Guess;
pub use page::header::{HeaderFault, judge_header};
pub use page::run::PageRun;
pub use page::seal::{SealError, seal_page};
pub use page::space_format::SpaceFormat;
pub use page::verify::verify_page;
pub use page::view::index_id;
pub use page::xdes::{ExtentMap, ExtentState, page_in_use};
pub use page::{NotTablespace, Verdict, Why, damage_inside, verify_inside};
pub use types::{Lsn, PageId, PageNo, PageSize, SpaceId};
