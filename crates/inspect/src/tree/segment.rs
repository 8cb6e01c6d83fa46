//! A segment with the address of its inode.

use format::page::inode::Segment;

/// A segment and the address of its inode.
#[derive(Debug, Clone)]
pub struct PlacedSegment {
    /// Page and byte offset of the inode, as roots name it.
    pub at: (u32, u16),
    /// The inode.
    pub segment: Segment,
}
