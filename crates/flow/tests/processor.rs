//! Features of the processor, or of the emulator in its place.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use crossbeam_utils::CachePadded;
use innokit_flow::{Engine, IoMode, ReadOptions, WorkerCounters};
use support::{Files, options, read};

/// Both families prefetch lines of 64 bytes in pairs, or have lines of 128.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn counters_of_two_workers_are_128_bytes_apart() {
    assert_eq!(align_of::<CachePadded<WorkerCounters>>(), 128);
    assert_eq!(align_of::<CachePadded<std::sync::atomic::AtomicU64>>(), 128);
}

/// User-mode emulators have no `io_uring`; `scripts/test-arm.sh` says when there is one.
#[test]
fn without_io_uring_threads_read_the_same_bytes_and_a_note_says_so() {
    let files = Files::new(&[300 << 10, 77]);
    files.make_cold();
    let outcome = read(&files.set(), &ReadOptions { engine: Engine::Auto, ..options(IoMode::Direct) }, 1);
    assert!(outcome.contents == files.contents);
    let is_without = outcome.notes.iter().any(|note| note.contains("io_uring does not work here"));
    assert_eq!(outcome.engines[0], if is_without { "pread threads" } else { "io_uring" }, "{:?}", outcome.notes);
    assert!(is_without || std::env::var_os("INNOKIT_EMULATED").is_none(), "emulators have none: {:?}", outcome.notes);
}
