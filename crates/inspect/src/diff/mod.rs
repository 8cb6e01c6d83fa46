//! What differs between the tables of two sets of files, or of one set at two moments.
//!
//! ```text
//! A, B -> Tables of each -> pairs by name -> definitions -> trees of a pair
//!      -> one history: leaves that may differ | none: all leaves -> a thread for each side: rows -> merge by key -> Changes (text, JSON, SQL)
//! ```
//!
//! Rows are compared by the bytes that are stored, and by what they mean where the same value may have other bytes. Memory: of each side a
//! window, a few batches of rows, and a bit for each page of the table; where the order of a key is not known, also the rows between two
//! keys that both have ([`DiffOptions::memory`]).

mod change;
mod definition;
mod found;
mod leaves;
mod merge;
mod pair;
mod plan;
mod report;
mod side;
mod stream;
mod trees;
pub mod write;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use datadir::Error;
use datadir::keys::KeyFiles;
use datadir::selection::Selection;

pub use self::change::{Change, Changes, Compared, Lone, Values};
pub use self::leaves::Lineage;
use self::pair::Pairing;
pub use self::plan::{DiffColumn, DiffPlan};
pub use self::report::{DiffReport, Found, TableDiff};
pub use self::side::Side;
use self::side::SideTables;
use crate::rows::scan::ScanOptions;

/// What to compare, and how.
#[derive(Debug, Clone)]
pub struct DiffOptions {
    /// How to read.
    pub scan: ScanOptions,
    /// Logical page size in bytes; overrides what the files say.
    pub page_size: Option<u32>,
    /// Key files.
    pub keys: KeyFiles,
    /// Of directories, only these tables.
    pub selection: Selection,
    /// Bytes of rows that may be kept while a key is looked for whose order is not known.
    pub memory: usize,
}

/// Compares all tables of both sides. `lineage`: what is known about pages, if both are one set of files at two moments.
///
/// # Errors
/// Keys that cannot be read, options that cannot work, an output that cannot be written.
pub fn diff(
    (a, b): (&Side, &Side),
    options: &DiffOptions,
    lineage: Option<&dyn Lineage>,
    changes: &mut dyn Changes,
) -> Result<DiffReport, Error> {
    let start = Instant::now();
    let (of_a, of_b) = (a.find(options)?, b.find(options)?);
    let mut report = DiffReport {
        tables: Vec::new(),
        same: 0,
        unread: Vec::new(),
        pending: of_a.tables.pending.iter().chain(&of_b.tables.pending).cloned().collect(),
        notes: of_a.notes("A").into_iter().chain(of_b.notes("B")).collect(),
        pages_read: 0,
        seconds: 0.0,
    };
    // Recovery will change rows, so no difference means anything yet.
    if report.pending.is_empty() {
        for (name, pair) in pairs(&of_a, &of_b) {
            let pairing = Pairing { name, sides: (&of_a, &of_b), options, lineage };
            let table = pairing.compare(pair, changes).map_err(|error| pairing.failed(error))?;
            report.pages_read += table.pages_read;
            if table.is_same() && table.is_decided() {
                report.same += 1;
            } else {
                report.tables.push(table);
            }
        }
        let failed = |source| Error::Io { path: PathBuf::from("the differences"), action: "writing", source };
        let is_whole = report.tables.iter().all(|table| !table.is_cut);
        changes.finish(is_whole).map_err(failed)?;
    }
    report.unread = a.unread(&of_a, "A").into_iter().chain(b.unread(&of_b, "B")).collect();
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// The places of each table among those of A and of B.
fn pairs<'s>(a: &'s SideTables, b: &'s SideTables) -> BTreeMap<&'s str, [Option<usize>; 2]> {
    let mut pairs: BTreeMap<&str, [Option<usize>; 2]> = BTreeMap::new();
    for (at, table) in a.tables.tables.iter().enumerate() {
        pairs.entry(&table.name).or_default()[0] = Some(at);
    }
    for (at, table) in b.tables.tables.iter().enumerate() {
        pairs.entry(&table.name).or_default()[1] = Some(at);
    }
    pairs
}

/// Why a table was not compared to its end.
enum Stopped {
    /// The output failed.
    Output(io::Error),
    /// The caller asked for it.
    Error(Error),
}
