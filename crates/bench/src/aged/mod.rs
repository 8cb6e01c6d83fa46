//! A table that was used for some time: `rows in key order -> rounds of growing, deleting and appending -> leaves -> tablespace`
//!
//! It lies between the two tables that are easy to make: leaves in the order of the file, and leaves in no order. Most of its leaves still
//! have their successor behind them, so that a system's read-ahead helps; the others were split, merged, or put where a page was free.
//! The same size gives the same table everywhere. No server runs: `leaves.rs` and `extents.rs` do what InnoDB does, and `file.rs` writes
//! pages of MySQL that `check` and `table check` verify.
//!
//! The recipe: rows of 178 to 278 bytes are inserted in key order. Each of three rounds then
//!
//! 1. makes a random tenth of the rows 32 to 96 bytes longer,
//! 2. deletes a random hundredth of the rows,
//! 3. deletes another hundredth in runs of 2,000 neighbouring keys,
//! 4. appends as many rows as were deleted.
//!
//! Memory: 8 bytes a row, some 35 MB for each GiB.

mod extents;
mod file;
mod leaves;
mod page;
mod sdi;

use std::io::BufWriter;

use serde::Serialize;

use super::scratch::Nameless;
use super::{Watch, failed};
use datadir::Error;
use extents::{Extents, Owner};
use file::Fixed;
use flow::queue::sim::Random;
use leaves::{Leaves, Row};

/// Rounds of use.
const ROUNDS: u32 = 3;
/// Neighbouring rows that are deleted together.
const RUN: u32 = 2000;
/// Sizes, bytes: below, the table is not a tree worth scanning; above, it takes too much memory.
const SIZE_MIN: u64 = 8 << 20;
/// See [`SIZE_MIN`].
const SIZE_MAX: u64 = 64 << 30;
/// Bytes of the file for each row that is inserted first: 66 rows fill 15/16 of a page.
const ROW: u64 = 16384 / 66;
/// Where the random numbers start.
const SEED: u64 = 15;
/// Rows between two looks whether to go on.
const LOOK: u32 = 1 << 16;

/// How a table aged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Aged {
    /// Rows inserted in key order at first.
    pub inserted: u64,
    /// Rounds of use.
    pub rounds: u32,
    /// Updates that made a row longer.
    pub grown: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Rows appended after that.
    pub appended: u64,
    /// Leaves that were split.
    pub splits: u64,
    /// Leaves that were merged into a neighbour.
    pub merges: u64,
    /// Leaves in the end.
    pub leaves: u64,
    /// Of these, leaves whose successor in key order is the next page of the file.
    pub followed: u64,
}

/// Writes a table that had about `size` bytes when it was new. It grows by about a half while it ages.
///
/// # Errors
/// A size out of bounds, a file that cannot be written, or an interrupted run.
pub(crate) fn make(target: &Nameless, size: u64, watch: Watch<'_>) -> Result<Aged, Error> {
    if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
        return Err(Error::Usage(format!("an aged table has {} MiB to {} GiB", SIZE_MIN >> 20, SIZE_MAX >> 30)));
    }
    let mut aging = Aging::new();
    aging.insert(u32::try_from(size / ROW).unwrap_or(u32::MAX), watch)?;
    for _ in 0..ROUNDS {
        aging.round(watch)?;
    }
    let written = |source| failed(&target.path, "writing the aged table")(source);
    let mut out = BufWriter::with_capacity(1 << 20, &target.file);
    file::write(&mut aging.space, &aging.table, &aging.fixed, &mut out).map_err(written)?;
    target.file.sync_data().map_err(written)?;
    Ok(aging.result())
}

struct Aging {
    random: Random,
    space: Extents,
    fixed: Fixed,
    table: Leaves,
    /// The key of the next row.
    next: u32,
    aged: Aged,
}

impl Aging {
    fn new() -> Self {
        let mut space = Extents::new();
        let inodes = space.allocate_own();
        let fixed =
            Fixed { inodes, sdi: space.allocate(Owner::SdiTop, 0, false), root: space.allocate(Owner::Top, 0, false) };
        let table = Leaves::new(&mut space);
        let aged = Aged {
            inserted: 0,
            rounds: 0,
            grown: 0,
            deleted: 0,
            appended: 0,
            splits: 0,
            merges: 0,
            leaves: 0,
            followed: 0,
        };
        Self { random: Random::new(SEED), space, fixed, table, next: 1, aged }
    }

    fn append(&mut self, count: u32, watch: Watch<'_>) -> Result<(), Error> {
        for number in 0..count {
            if number % LOOK == 0 {
                watch.go_on()?;
            }
            let text = 150 + self.random.below(101) as u16;
            self.table.append(Row { key: self.next, text }, &mut self.space);
            self.next += 1;
        }
        Ok(())
    }

    fn insert(&mut self, count: u32, watch: Watch<'_>) -> Result<(), Error> {
        self.append(count, watch)?;
        self.aged.inserted = u64::from(count);
        Ok(())
    }

    /// A key that may have a row.
    fn any(&mut self) -> u32 {
        1 + self.random.below(u64::from(self.next - 1)) as u32
    }

    fn delete(&mut self, key: u32) -> u32 {
        u32::from(self.table.delete(key, &mut self.space))
    }

    fn round(&mut self, watch: Watch<'_>) -> Result<(), Error> {
        let rows = (self.aged.inserted + self.aged.appended - self.aged.deleted) as u32;
        for number in 0..rows / 10 {
            if number % LOOK == 0 {
                watch.go_on()?;
            }
            let (key, by) = (self.any(), 32 + self.random.below(65) as u16);
            self.aged.grown += u64::from(self.table.grow(key, by, &mut self.space));
        }
        let mut deleted = 0;
        for _ in 0..rows / 100 {
            let key = self.any();
            deleted += self.delete(key);
        }
        watch.go_on()?;
        for _ in 0..(rows / 100).div_ceil(RUN) {
            let first = self.any();
            for key in first..first + RUN {
                deleted += self.delete(key);
            }
        }
        self.append(deleted, watch)?;
        self.aged.deleted += u64::from(deleted);
        self.aged.appended += u64::from(deleted);
        self.aged.rounds += 1;
        Ok(())
    }

    fn result(&self) -> Aged {
        let pages = || self.table.in_order().map(|(_, leaf)| leaf.page_no);
        let followed = pages().zip(pages().skip(1)).filter(|(page, next)| page + 1 == *next).count();
        Aged {
            splits: self.table.splits,
            merges: self.table.merges,
            leaves: pages().count() as u64,
            followed: followed as u64,
            ..self.aged
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::scratch::Scratch;

    fn made(scratch: &Scratch, size: u64) -> (Nameless, Aged) {
        let stop = AtomicBool::new(false);
        let file = scratch.file("aged.ibd").expect("made");
        let aged = make(&file, size, Watch { step: &|_| (), stop: &stop }).expect("written");
        (file, aged)
    }

    #[test]
    fn check_and_table_check_find_nothing_wrong_with_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let scratch = Scratch::new(dir.path(), 64 << 20).expect("room");
        let (file, aged) = made(&scratch, 16 << 20);
        let path = dir.path().join("aged.ibd");
        std::fs::copy(file.again(), &path).expect("copied");
        let options = inspect::TableOptions { extended: true, ..inspect::TableOptions::default() };
        let report = inspect::tables(std::slice::from_ref(&path), &options).expect("a report");
        let text = serde_json::to_string(&report).expect("JSON");
        assert_eq!(report.exit_status(), 0, "{text}");
        let index = report.files.iter().flat_map(|file| &file.indexes).find(|index| index.id == sdi::INDEX_ID);
        let index = index.expect("the clustered index");
        assert_eq!((index.table.as_deref(), index.levels), (Some("bench.aged"), 3), "{text}");
        assert_eq!(index.rows, aged.inserted - aged.deleted + aged.appended);
        let check = inspect::Check::plan(&[path], inspect::CheckOptions::default()).expect("options");
        let report = check.run(None).expect("a report");
        assert_eq!(report.exit_status(), 0, "{}", serde_json::to_string(&report).expect("JSON"));
    }

    #[test]
    fn the_same_size_gives_the_same_bytes_and_the_table_is_neither_in_order_nor_in_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let scratch = Scratch::new(dir.path(), 64 << 20).expect("room");
        let ((one, aged), (other, again)) = (made(&scratch, 16 << 20), made(&scratch, 16 << 20));
        assert_eq!(aged, again);
        assert!(std::fs::read(one.again()).expect("read") == std::fs::read(other.again()).expect("read"));
        assert!(aged.splits > 0 && aged.merges > 0, "{aged:?}");
        assert!((25..=80).contains(&(100 * aged.followed / aged.leaves)), "{aged:?}");
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused_and_an_interrupted_run_ends() {
        let dir = tempfile::tempdir().expect("a directory");
        let scratch = Scratch::new(dir.path(), 1).expect("room");
        let file = scratch.file("aged.ibd").expect("made");
        let stop = AtomicBool::new(true);
        let watch = Watch { step: &|_| (), stop: &stop };
        assert!(make(&file, SIZE_MIN, watch).expect_err("stopped").to_string().contains("interrupted"));
        for size in [SIZE_MIN - 1, SIZE_MAX + 1] {
            assert!(make(&file, size, watch).expect_err("refused").to_string().contains("MiB"));
        }
    }
}
