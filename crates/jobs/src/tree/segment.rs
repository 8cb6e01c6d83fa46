//! A segment, where it is looked up by its number.

use format::page::inode::Segment;

/// A segment and where its inode lies.
#[derive(Debug, Clone)]
pub struct PlacedSegment {
    /// Page and byte of the inode: what roots name.
    pub at: (u32, u16),
    /// The inode.
    pub segment: Segment,
}
