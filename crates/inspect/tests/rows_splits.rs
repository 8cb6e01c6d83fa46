//! A table in splits: together they are the table, and each reads only its own pages and reports damage in them.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datadir::Error;
use datadir::keys::KeyFiles;
use flow::{Counters, IoMode};
use innokit_inspect::rows::checksum::{ChecksumOptions, checksum_of};
use innokit_inspect::rows::count::count_rows;
use innokit_inspect::rows::key_range::KeyBounds;
use innokit_inspect::rows::reader::OnDamage;
use innokit_inspect::rows::scan::ScanOptions;
use innokit_inspect::rows::source::Wish;
use innokit_inspect::rows::{OpenTable, Split, SplitSize, Tables, splits};
use sha2::{Digest, Sha256};

const PAGE: u64 = 16384;
const ROWS: u64 = 10_000;

struct Table {
    dir: tempfile::TempDir,
}

impl Table {
    /// 10,000 rows on 1,700 leaves in random order.
    fn scattered() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scattered/scattered-16k.ibd.zst");
        let bytes = zstd::decode_all(File::open(packed).expect("the fixture")).expect("fixtures are zstd");
        std::fs::write(dir.path().join("scattered.ibd"), bytes).expect("written");
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("scattered.ibd")
    }

    fn splits(&self, size: SplitSize, keys: Option<&KeyBounds>) -> Vec<Split> {
        let tables = find(&self.path());
        let of = OpenTable { tables: &tables, table: &tables.tables[0], split: None };
        splits(of, size, keys).expect("no error").expect("no damage")
    }

    /// Changes a page without updating its checksum.
    fn break_page(&self, page_no: u32) {
        let file = File::options().write(true).open(self.path()).expect("opens");
        file.write_all_at(b"broken", u64::from(page_no) * PAGE + 5000).expect("written");
    }
}

fn find(path: &Path) -> Tables {
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
    Tables::find(&[path.to_path_buf()], wish).expect("tables")
}

fn one_worker() -> ScanOptions {
    let mut options = ScanOptions { workers: 1, ..ScanOptions::default() };
    options.read.io = IoMode::Buffered;
    options
}

fn opened(split: &Split) -> Tables {
    split.open(&KeyFiles::default()).expect("its files")
}

/// Number of rows, checksum, and bytes read for the rows.
fn read(split: &Split) -> (u64, u32, u64) {
    let tables = opened(split);
    let of = OpenTable { tables: &tables, table: &tables.tables[0], split: Some(split) };
    let counters = Counters::new(1);
    let count = count_rows(of, &one_worker(), &counters).expect("counted");
    assert_eq!(count.damage, []);
    let options = ChecksumOptions { scan: one_worker(), ..ChecksumOptions::default() };
    let sum = checksum_of(of, &options, &Counters::new(1)).expect("summed").checksum.expect("a checksum");
    (count.rows, sum, counters.total().bytes_read)
}

#[test]
fn splits_together_are_the_table_and_read_each_page_once() {
    let table = Table::scattered();
    let tables = find(&table.path());
    let whole = OpenTable { tables: &tables, table: &tables.tables[0], split: None };
    let options = ChecksumOptions { scan: one_worker(), ..ChecksumOptions::default() };
    let expected = checksum_of(whole, &options, &Counters::new(1)).expect("summed").checksum.expect("a checksum");
    for count in [1, 2, 7, 64, 100_000] {
        let splits = table.splits(SplitSize::Count(count), None);
        let leaves: usize = splits.iter().flat_map(|split| &split.parts).map(|part| part.units.len()).sum();
        assert_eq!(splits.len(), count.min(leaves), "{leaves} leaves");
        if count > leaves {
            continue;
        }
        let (mut rows, mut sum) = (0, 0_u32);
        for split in &splits {
            let (its_rows, its_sum, bytes) = read(split);
            let pages = split.parts.iter().map(|part| part.units.len() as u64).sum::<u64>();
            assert_eq!((bytes, split.bytes()), (pages * PAGE, pages * PAGE), "its leaves and nothing else");
            rows += its_rows;
            sum = sum.wrapping_add(its_sum);
        }
        assert_eq!((rows, sum), (ROWS, expected), "{count} splits");
        let sizes = || splits.iter().map(Split::bytes);
        let (least, most) = (sizes().min().expect("some"), sizes().max().expect("some"));
        assert!(most - least <= PAGE, "{count} splits of {least} to {most} bytes");
    }
    let sized = table.splits(SplitSize::Bytes(1 << 20), None);
    assert!(sized.iter().all(|split| split.bytes() <= (1 << 20) + PAGE), "about as large as asked for");
    assert!(sized.len() > 20, "{}", sized.len());
}

#[test]
fn a_range_of_keys_makes_fewer_splits_with_its_rows_only() {
    let table = Table::scattered();
    // The keys are the first 60 bits of hashes, so they are spread evenly.
    let key =
        |row: u64| Sha256::digest(row.to_string()).iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte)) >> 4;
    let (from, to) = (1 << 58, (1 << 58) + (1 << 57));
    let inside = (0..ROWS).filter(|row| (from..=to).contains(&key(*row))).count() as u64;
    assert!((1000..1500).contains(&inside), "{inside}");
    let keys = KeyBounds { from: Some(from.to_string()), to: Some(to.to_string()) };
    let splits = table.splits(SplitSize::Count(4), Some(&keys));
    let whole = table.splits(SplitSize::Count(1), None);
    let bytes = |splits: &[Split]| splits.iter().map(Split::bytes).sum::<u64>();
    assert!(bytes(&splits) * 7 < bytes(&whole), "{} of {}", bytes(&splits), bytes(&whole));
    assert_eq!(splits.iter().map(|split| read(split).0).sum::<u64>(), inside);
    let none = KeyBounds { from: Some((1_u64 << 60).to_string()), to: None };
    let splits = table.splits(SplitSize::Count(4), Some(&none));
    assert!(!splits.is_empty() && splits.iter().all(|split| read(split).0 == 0), "there is one, and it is empty");
}

#[test]
fn a_split_says_what_is_damaged_in_it_and_others_do_not_see_it() {
    let table = Table::scattered();
    let before = table.splits(SplitSize::Count(7), None);
    let broken = before[3].parts[0].units[9];
    let lost = read(&before[3]).0;
    table.break_page(broken);
    let splits = table.splits(SplitSize::Count(7), None);
    for (number, split) in splits.iter().enumerate() {
        let tables = opened(split);
        let of = OpenTable { tables: &tables, table: &tables.tables[0], split: Some(split) };
        let options = one_worker();
        let stopped = count_rows(of, &options, &Counters::new(1)).expect("counted");
        let skipping = ScanOptions { on_damage: OnDamage::Skip, ..options };
        let skipped = count_rows(of, &skipping, &Counters::new(1)).expect("counted");
        if number != 3 {
            assert_eq!((stopped.damage.len(), skipped.damage.len()), (0, 0), "split {number}");
            continue;
        }
        assert!(stopped.rows < skipped.rows && skipped.rows < lost, "{} {} {lost}", stopped.rows, skipped.rows);
        assert_eq!(stopped.damage, skipped.damage);
        let damage = &stopped.damage[0];
        let place = (damage.path.clone(), damage.page_no, damage.offset);
        assert_eq!(place, (table.path(), Some(broken), Some(u64::from(broken) * PAGE)));
        assert!(damage.to_string().contains(&format!("page {broken} is damaged: ")), "{damage}");
    }
}

#[test]
fn a_split_goes_by_json_and_refuses_a_file_that_has_changed() {
    let table = Table::scattered();
    let splits = table.splits(SplitSize::Count(3), None);
    let text = serde_json::to_string(&splits[1]).expect("JSON");
    let split: Split = serde_json::from_str(&text).expect("a split");
    assert_eq!(split, splits[1]);
    assert_eq!(read(&split), read(&splits[1]));
    table.break_page(100);
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    File::options().write(true).open(table.path()).expect("opens").set_modified(time).expect("set");
    let refused = split.open(&KeyFiles::default()).expect_err("changed").to_string();
    assert!(refused.contains("scattered.ibd: it has changed since the split was made"), "{refused}");
    std::fs::remove_file(table.path()).expect("removed");
    let refused = split.open(&KeyFiles::default()).expect_err("gone");
    assert!(matches!(&refused, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound), "{refused}");
}

#[test]
fn a_scan_that_is_stopped_is_no_shorter_answer() {
    let table = Table::scattered();
    let tables = find(&table.path());
    let of = OpenTable { tables: &tables, table: &tables.tables[0], split: None };
    let options = ScanOptions { stop: Some(Arc::new(AtomicBool::new(true))), ..one_worker() };
    let stopped = count_rows(of, &options, &Counters::new(1));
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
}
