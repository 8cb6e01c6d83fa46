//! The types through which threads share memory. The models of `tests/models.rs` put `loom`'s types in their place, and compile the files
//! that use them a second time: [`counter`](crate::counter), [`tickets`](crate::tickets) and the log writer's handshake.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;
pub(crate) use std::time::Instant;

/// On cache lines of its own: other threads' writes to what lies beside it do not take it from this core's cache.
pub(crate) use crossbeam_utils::CachePadded as Padded;

/// Sleeps until the word is woken, unless it no longer has this value; may return early.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    atomic_wait::wait(word, value);
}

/// Wakes one sleeper.
pub(crate) fn wake_one(word: &AtomicU32) {
    atomic_wait::wake_one(word);
}

/// Wakes all sleepers.
pub(crate) fn wake_all(word: &AtomicU32) {
    atomic_wait::wake_all(word);
}
