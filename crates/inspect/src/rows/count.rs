//! `Tables -> Ranges -> RowReader -> the number of rows`: each leaf is read and verified, the values are not.

use std::ops::ControlFlow;
use std::sync::Arc;

use flow::Counters;
use format::record::Record;

use super::batch::Batch;
use super::damage::RowDamage;
use super::plan::RowPlan;
use super::reader::{OnDamage, Problem};
use super::scan::{RowSink, ScanOptions, scan};
use super::split::{OpenTable, leaves, with_tree};
use datadir::Error;
use datadir::tablespace::Opener;

/// How many rows a table has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowCount {
    /// Rows counted: all of them, if nothing is damaged.
    pub rows: u64,
    /// What could not be read. With [`OnDamage::Stop`] counting ended there.
    pub damage: Vec<RowDamage>,
}

/// Counts the rows of a table or split as `SELECT COUNT(*)` does: those of a system-versioned table that are valid now.
///
/// # Errors
/// The table's key cannot be compared with the split's range, or the scan was stopped.
pub fn count_rows(of: OpenTable<'_>, options: &ScanOptions, counters: &Counters) -> Result<RowCount, Error> {
    let mut count = RowCount::default();
    count.damage.extend(of.table.damage.iter().map(RowDamage::of_table));
    for (tree, part) in of.trees().map_err(Error::Usage)? {
        if !count.damage.is_empty() && options.on_damage == OnDamage::Stop {
            break;
        }
        let Some(space) = of.tables.spaces.get(tree.space) else { continue };
        if let Some(why) = &tree.unreadable {
            count.damage.push(RowDamage::of_file(space.path(), why));
            continue;
        }
        let plan = RowPlan::new(&of.table.table, tree.index.clone(), Some(&[])).map_err(Error::Usage)?.current();
        let plan = Arc::new(with_tree(plan, of, tree).map_err(Error::Usage)?);
        let ranges = leaves(space, tree, part, plan.keys.as_ref(), &mut Opener::new());
        count.damage.extend(ranges.lost.iter().map(|lost| RowDamage::of_lost(space, lost)));
        let (sinks, problems) = scan((space, &of.tables.set), &plan, &ranges, options, counters, |_| Counting(0))?;
        count.damage.extend(problems.iter().map(|problem| RowDamage::of_problem(space, problem)));
        count.rows += sinks.iter().map(|sink| sink.0).sum::<u64>();
    }
    Ok(count)
}

/// A worker's rows.
struct Counting(u64);

impl RowSink for Counting {
    fn begin(&mut self, _range: usize) {}

    fn record(&mut self, _record: &Record<'_>, _limit: usize) -> bool {
        self.0 += 1;
        true
    }

    fn batch(&mut self, batch: &Batch, _problems: &mut Vec<Problem>) -> ControlFlow<()> {
        self.0 += batch.len() as u64;
        ControlFlow::Continue(())
    }

    fn end(&mut self, outcome: ControlFlow<()>) -> ControlFlow<()> {
        outcome
    }
}
