//! A tablespace that is open: its files, its format and key, and its pages by number.

pub mod opener;
pub mod sdi;
pub mod space;
pub mod transactions;

pub use self::opener::{Opened, Opener};
pub use self::space::{FoundFile, SpaceFile, Tablespace};
