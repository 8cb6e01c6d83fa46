//! What MariaDB's tool adds to its summary, printed here if one of its options requests it: pages, records and bytes of each index,
//! how full the pages are, and what merging neighbouring leaves would save (`-f -m`).

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use format::SpaceFormat;
use format::bytes::be;
use format::fil::{FIL_PAGE_NEXT, FIL_PAGE_PREV};
use format::page::index::{N_HEAP_COMPACT, PAGE_GARBAGE, PAGE_HEAP_TOP, PAGE_LEVEL, PAGE_N_HEAP, PAGE_N_RECS};
use format::page::view;

/// Where the first user record is, in compact and redundant pages: after the two records that every page has.
const END_OF_SUPREMUM: (u64, u64) = (120, 125);
/// No such page: the first leaf has no neighbour on its left.
const NONE: u32 = u32::MAX;
/// Empty, ten tenths, and overfull.
const BUCKETS: usize = 12;

/// All indexes of one file, by id.
#[derive(Debug, Default)]
pub struct Indexes(BTreeMap<u64, Index>);

#[derive(Debug, Default)]
struct Index {
    pages: u64,
    leaves: u64,
    records: u64,
    bytes: u64,
    filled: [u64; BUCKETS],
    largest: u64,
    first_leaf: Option<u32>,
    /// For each leaf: its right neighbour, and its bytes.
    chain: HashMap<u32, (u32, u64)>,
}

/// What one index page contributes.
#[derive(Clone, Copy, Debug)]
struct Fill {
    id: u64,
    is_leaf: bool,
    records: u64,
    bytes: u64,
}

impl Fill {
    fn of(page: &[u8], format: &SpaceFormat) -> Option<Self> {
        let id = view::index_id(page, format)?;
        // R-trees and MySQL's dictionary copy are not counted.
        if !matches!(view::page_type(page, format)?.0, 17855 | 18) {
            return None;
        }
        let field = |offset| be::u16_at(page, offset).map(u64::from);
        let compact = be::u16_at(page, PAGE_N_HEAP)? & N_HEAP_COMPACT != 0;
        let start = if compact { END_OF_SUPREMUM.0 } else { END_OF_SUPREMUM.1 };
        let bytes = field(PAGE_HEAP_TOP)?.saturating_sub(start).saturating_sub(field(PAGE_GARBAGE)?);
        Some(Self { id, is_leaf: field(PAGE_LEVEL)? == 0, records: field(PAGE_N_RECS)?, bytes })
    }
}

impl Indexes {
    /// Counts a page if it belongs to an index, and names it on `details`. A freed page no longer belongs to its index, but is named too.
    pub fn count(
        &mut self,
        page: &[u8],
        position: u64,
        is_free: bool,
        format: &SpaceFormat,
        details: Option<&mut impl Write>,
    ) -> io::Result<()> {
        let Some(fill) = Fill::of(page, format) else {
            return Ok(());
        };
        if !is_free {
            self.add(fill, page, position, format);
        }
        match details {
            Some(out) => writeln!(
                out,
                "index id={} page {position} leaf {} n_recs {} data_bytes {}",
                fill.id,
                u8::from(fill.is_leaf),
                fill.records,
                fill.bytes
            ),
            None => Ok(()),
        }
    }

    fn add(&mut self, fill: Fill, page: &[u8], position: u64, format: &SpaceFormat) {
        let logical = u64::from(format.logical().get());
        let index = self.0.entry(fill.id).or_default();
        index.pages += 1;
        index.records += fill.records;
        index.bytes += fill.bytes;
        let bucket = if fill.bytes == 0 { 0 } else { 1 + fill.bytes * 10 / logical };
        if let Some(counter) = index.filled.get_mut(usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)) {
            *counter += 1;
        }
        if fill.is_leaf {
            index.leaf(page, position, fill.bytes);
        }
    }

    /// Prints the tables; with `merge`, also what merging that many leaves would save.
    pub fn print(&self, merge: Option<u64>, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "index_id\t#pages\t\t#leaf_pages\t#recs_per_page\t#bytes_per_page")?;
        for (id, index) in &self.0 {
            let mean = |sum: u64| sum / index.pages.max(1);
            let (pages, leaves) = (index.pages, index.leaves);
            writeln!(out, "{id}\t\t{pages}\t\t{leaves}\t\t{}\t\t{}", mean(index.records), mean(index.bytes))?;
        }
        writeln!(out, "\nindex_id\tpage_data_bytes_histgram(empty,...,oversized)")?;
        for (id, index) in &self.0 {
            let counts = index.filled.map(|count| count.to_string());
            writeln!(out, "{id}\t\t{}", counts.join("\t"))?;
        }
        let Some(merge) = merge else {
            return Ok(());
        };
        writeln!(out, "\n{:*<50}", "")?;
        writeln!(out, "index_id\t#leaf_pages\t#actual_leaf_pages\tn_merge\t#leaf_after_merge\tdefrag")?;
        for (id, index) in self.0.iter().filter(|(_, index)| index.leaves > 0 && merge > 0) {
            let (walked, after) = index.merged(merge);
            let saved = 1.0 - after as f64 / walked.max(1) as f64;
            let (leaves, largest) = (index.leaves, index.largest);
            writeln!(out, "{id}\t\t{leaves}\t\t{walked}\t\t{merge}\t\t{after}\t\t{saved:.2}\t{largest}")?;
        }
        Ok(())
    }
}

impl Index {
    fn leaf(&mut self, page: &[u8], position: u64, bytes: u64) {
        let number = u32::try_from(position).unwrap_or(NONE);
        self.leaves += 1;
        self.largest = self.largest.max(bytes);
        self.chain.insert(number, (be::u32_at(page, FIL_PAGE_NEXT).unwrap_or(NONE), bytes));
        if be::u32_at(page, FIL_PAGE_PREV) == Some(NONE) {
            self.first_leaf = Some(number);
        }
    }

    /// The leaves found in the chain, and how many would remain if each run of `merge` leaves were packed as full as the fullest.
    fn merged(&self, merge: u64) -> (u64, u64) {
        let (mut walked, mut after, mut run, mut bytes) = (0, 0, 0, 0);
        let mut next = self.first_leaf;
        // A damaged chain may be a cycle: take no more steps than there are leaves.
        while let Some(&(right, size)) =
            next.and_then(|number| self.chain.get(&number)).filter(|_| walked < self.leaves)
        {
            (walked, run, bytes) = (walked + 1, run + 1, bytes + size);
            next = Some(right);
            if run == merge {
                after += bytes.div_ceil(self.largest.max(1));
                (run, bytes) = (0, 0);
            }
        }
        (walked, after + bytes.div_ceil(self.largest.max(1)))
    }
}
