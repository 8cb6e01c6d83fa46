//! B-trees: from the root, level by level, to the leaves. Parents name the pages to read well ahead of need.
//!
//! ```text
//! Space (files, format, key) -> SpaceMap (extents, segments) -> roots -> Walk: parents -> gather -> pages in key order -> rules
//! ```
//!
//! Damage is data: a walk continues after a finding, visits no page twice, and holds a bounded number of pages whatever the size of the
//! table ([`walk`]).

mod extents;
pub mod finding;
mod inodes;
pub mod linear;
pub mod links;
mod lists;
pub mod map;
pub mod matching;
pub mod ranges;
pub mod roots;
mod segment;
pub mod walk;

pub use crate::tree::finding::{Rule, TreeFinding};
pub use crate::tree::map::SpaceMap;
pub use crate::tree::roots::Root;
pub use crate::tree::walk::{Leaves, TreeCounts, TreeReport, Walk};
