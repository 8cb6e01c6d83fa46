//! How much of a tree's upper levels a sweep reads at a time.

/// Limits on what one sweep holds, and how much earlier sweeps have read.
#[derive(Debug, Clone, Copy)]
pub(super) struct SweepLimits {
    /// Leaves known at a time.
    pub leaves_max: usize,
    /// Pages above the leaves held at a time.
    pub parents_max: u64,
    /// Pages above the leaves already read for earlier sweeps.
    pub parents_before: u64,
}
