//! `table count` of many tables: totals, the databases and tables with the most rows, and the indexes that could not be counted.

use std::collections::BTreeMap;
use std::io::{self, Write};

use inspect::TableReport;
use inspect::table::{IndexReport, TreeKind};

use crate::print::grouped;
use crate::table_print::one_index;
use crate::terminal::shown;

/// With more indexes than this a summary is printed instead of all of them.
const INDEXES_MAX: usize = 200;
/// Rows of a list.
const ROWS_MAX: usize = 10;

/// Whether there are too many indexes to list each.
pub fn is_needed(report: &TableReport) -> bool {
    report.files.iter().map(|file| file.indexes.len()).sum::<usize>() > INDEXES_MAX
}

/// Tables, indexes and rows.
#[derive(Default, Clone, Copy)]
struct Sum {
    tables: u64,
    indexes: u64,
    rows: u64,
}

impl Sum {
    /// The rows of a table are those of its clustered indexes: one, or one for each partition.
    fn add(&mut self, index: &IndexReport) {
        self.indexes += 1;
        if index.kind == TreeKind::Clustered {
            self.rows += index.rows;
        }
    }
}

/// The summary.
pub fn text(report: &TableReport, out: &mut impl Write) -> io::Result<()> {
    let mut tables: BTreeMap<&str, Sum> = BTreeMap::new();
    let indexes = || report.files.iter().flat_map(|file| file.indexes.iter().map(move |index| (&file.path, index)));
    for (_, index) in indexes().filter(|(_, index)| index.kind != TreeKind::Sdi) {
        let name = index.table.as_deref().unwrap_or("(tables without a definition)");
        let name = name.split(" partition ").next().unwrap_or(name);
        tables.entry(name).or_default().add(index);
    }
    let (mut all, mut databases) = (Sum::default(), BTreeMap::<&str, Sum>::new());
    for (name, table) in &tables {
        let database = name.split_once('.').map_or(*name, |(database, _)| database);
        for sum in [&mut all, databases.entry(database).or_default()] {
            *sum = Sum { tables: sum.tables + 1, indexes: sum.indexes + table.indexes, rows: sum.rows + table.rows };
        }
    }
    let (of_tables, of_indexes, rows) = (grouped(all.tables), grouped(all.indexes), grouped(all.rows));
    writeln!(out, "tables  {of_tables} with {rows} rows, {of_indexes} indexes")?;
    most("databases", databases, out)?;
    most("tables", tables, out)?;
    uncounted(indexes().filter(|(_, index)| !index.complete).collect(), out)?;
    writeln!(out, "\nEvery index: --all, or --json")
}

/// Those with the most rows.
fn most(what: &str, sums: BTreeMap<&str, Sum>, out: &mut impl Write) -> io::Result<()> {
    let mut sums: Vec<(&str, Sum)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.rows));
    writeln!(out, "\n{what} with the most rows, of {}", grouped(sums.len() as u64))?;
    for (name, sum) in sums.iter().take(ROWS_MAX) {
        let tables = if what == "databases" { format!("{:>9} tables", grouped(sum.tables)) } else { String::new() };
        writeln!(out, "  {:>15}{tables}  {}", grouped(sum.rows), shown(name))?;
    }
    Ok(())
}

fn uncounted(indexes: Vec<(&String, &IndexReport)>, out: &mut impl Write) -> io::Result<()> {
    if indexes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{} indexes were not counted to the end", grouped(indexes.len() as u64))?;
    for (path, index) in indexes.iter().take(ROWS_MAX) {
        one_index(path, index, out)?;
    }
    match indexes.len().saturating_sub(ROWS_MAX) {
        0 => Ok(()),
        more => writeln!(out, "... and {} more", grouped(more as u64)),
    }
}
