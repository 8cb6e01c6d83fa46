//! Memory that was freed goes back to the system.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "a function of the C library without a safe wrapper")
)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    // It takes the allocator's own locks, and has no other condition.
    safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
}

/// Gives the pages of freed blocks back, also those between blocks in use. The C library keeps them otherwise: what is left of a batch of
/// files lies between the buffers of their pages, and the next batch would take new memory for its own.
#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu")),
    expect(clippy::missing_const_for_fn, reason = "it is none on Linux")
)]
pub fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    malloc_trim(0);
}
