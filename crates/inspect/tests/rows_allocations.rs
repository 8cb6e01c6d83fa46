//! Reading rows allocates for pages and ranges, but not for each row or leaf.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use datadir::keys::KeyFiles;
use flow::IoMode;
use innokit_inspect::rows::Tables;
use innokit_inspect::rows::checksum::{ChecksumOptions, checksums};
use innokit_inspect::rows::export::{ExportOptions, SeparatedOptions, TextFormat, export};
use innokit_inspect::rows::source::Wish;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Number of allocations with one worker.
fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

/// The only test here, so that nothing else allocates meanwhile.
#[test]
fn neither_a_row_nor_a_leaf_takes_memory_of_its_own() {
    const ROWS: u64 = 10_000;
    // The reader allocates for each block, and each of this table's 1,700 leaves is its own block.
    const MOST: usize = 2400;
    let dir = tempfile::tempdir().expect("a directory");
    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scattered/scattered-16k.ibd.zst");
    let bytes = zstd::decode_all(File::open(packed).expect("the fixture")).expect("fixtures are zstd");
    let path = dir.path().join("scattered.ibd");
    std::fs::write(&path, &bytes).expect("written");
    let paths: [PathBuf; 1] = [path];

    let keys = KeyFiles::default();
    let wish = Wish {
        keys: &keys,
        selection: None,
        page_size: None,
        workers: 1,
        index: None,
        create_table: None,
        pending: true,
    };
    let found = allocations(|| assert_eq!(Tables::find(&paths, wish).expect("tables").tables.len(), 1));

    let mut options = ChecksumOptions::default();
    options.scan.workers = 1;
    options.scan.read.io = IoMode::Buffered;
    let mut rows = 0;
    let summed = allocations(|| rows = checksums(&paths, &options, None).expect("a report").rows);
    assert_eq!(rows, ROWS);

    let mut options = ExportOptions::default();
    options.scan.workers = 1;
    options.scan.read.io = IoMode::Buffered;
    let format = TextFormat::Separated(SeparatedOptions::csv());
    let mut outputs = |_: &_| Ok(Box::new(std::io::sink()) as Box<dyn std::io::Write + Send>);
    let exported = allocations(|| {
        let report = export(&paths, &options, &format, &mut outputs, None).expect("a report");
        assert_eq!(report.tables.iter().map(|table| table.rows).sum::<u64>(), ROWS);
    });
    println!("{found} to find the table, {summed} for its checksum, {exported} for its rows");
    // Besides the definition, the ranges and the pages above the leaves allocate.
    assert!(summed < found + MOST, "{summed} allocations for the checksum, {found} to find the table");
    assert!(exported < found + MOST, "{exported} allocations for the export, {found} to find the table");
}
