//! How much memory a recovery needs.

/// Memory in bytes that every recovery needs: the program itself, log buffers, chunks of log, pages being changed.
pub(in crate::recover) const MEMORY_FIXED: usize = 32 << 20;
/// The plan gets one part in this many of the memory that is not fixed: about 50 bytes per page that is freed or initialized.
pub(in crate::recover) const PLAN_PART: usize = 4;

/// Memory in bytes with which a plan of `plan` bytes fits.
pub(in crate::recover) const fn needed_for(plan: u64) -> u64 {
    let needed = plan.saturating_mul(PLAN_PART as u64).saturating_add(MEMORY_FIXED as u64);
    // Rounded up to what people type.
    needed.div_ceil(64 << 20).saturating_mul(64 << 20)
}
