//! Two trees, or one that has no twin: which of their leaves are read, and a thread for each side that reads them.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use datadir::Error;
use flow::Counters;

use super::definition::has_same_records;
use super::found::FoundRows;
use super::leaves::{Leaves, Lineage, Tree, differing};
use super::merge::{Ended, merge};
use super::plan::SideOf;
use super::side::SideTables;
use super::stream::{Block, Sending, Stream};
use super::{DiffOptions, Stopped};
use crate::rows::damage::RowDamage;
use crate::rows::plan::RowPlan;
use crate::rows::scan::{ScanOptions, scan};
use crate::rows::source::{TableSource, TreeSource};
use crate::tree::ranges::Ranges;

/// Batches of rows that wait for the merge.
const BATCHES: usize = 8;

/// A tree of a table of one side.
#[derive(Clone, Copy)]
pub(super) struct SideTree<'t> {
    pub of: SideOf,
    pub side: &'t SideTables,
    pub table: &'t TableSource,
    pub tree: &'t TreeSource,
}

/// The rows of a tree that are to be read.
struct Reading<'r> {
    side: &'r SideTables,
    space: usize,
    plan: Arc<RowPlan>,
    ranges: Ranges,
}

/// Why a tree is not read.
enum Unreadable {
    Damage(RowDamage),
    Refused(String),
}

impl<'t> SideTree<'t> {
    fn tree(&self) -> Result<Tree<'t>, Unreadable> {
        let space = self.side.tables.spaces.get(self.tree.space);
        let space = space.ok_or_else(|| Unreadable::Refused("its tablespace was not found".to_owned()))?;
        match &self.tree.unreadable {
            Some(why) => Err(Unreadable::Damage(RowDamage::of_file(space.path(), why))),
            None => Ok(Tree { space, tree: self.tree, job: &self.side.job }),
        }
    }

    fn reading(&self, found: &FoundRows<'_>, ranges: Ranges) -> Result<Reading<'t>, Unreadable> {
        let plan = found.compared.plan.rows(self.of, &self.table.table, self.tree).map_err(Unreadable::Refused)?;
        Ok(Reading { side: self.side, space: self.tree.space, plan, ranges })
    }

    /// Reads all its rows.
    fn whole(&self, found: &mut FoundRows<'_>) -> Result<Reading<'t>, Unreadable> {
        let (ranges, above) = self.tree()?.ranges().map_err(Unreadable::Damage)?;
        found.diff.pages_read += above;
        self.reading(found, ranges)
    }
}

/// Compares the rows of two trees, or passes those of one on.
pub(super) fn compare(
    (a, b): (Option<SideTree<'_>>, Option<SideTree<'_>>),
    (options, lineage): (&DiffOptions, Option<&dyn Lineage>),
    found: &mut FoundRows<'_>,
) -> Result<(), Stopped> {
    let space = |tree: &Option<SideTree<'_>>| tree.as_ref().map_or(0, |tree| tree.tree.space);
    found.spaces = (space(&a), space(&b));
    let readings = match (a, b) {
        (Some(a), Some(b)) => both((a, b), lineage, found),
        (a, b) => {
            let of_a = a.map(|tree| tree.whole(found)).transpose();
            of_a.and_then(|of_a| Ok((of_a, b.map(|tree| tree.whole(found)).transpose()?)))
        }
    };
    match readings {
        Ok(readings) => read(readings, options, found),
        Err(Unreadable::Damage(damage)) => {
            found.diff.damage.push(damage);
            Ok(())
        }
        Err(Unreadable::Refused(why)) => {
            found.diff.refused = Some(why);
            Ok(())
        }
    }
}

type Readings<'r> = (Option<Reading<'r>>, Option<Reading<'r>>);

fn both<'t>(
    (a, b): (SideTree<'t>, SideTree<'t>),
    lineage: Option<&dyn Lineage>,
    found: &mut FoundRows<'_>,
) -> Result<Readings<'t>, Unreadable> {
    let (tree_a, tree_b) = (a.tree()?, b.tree()?);
    let is_same_tree = tree_a.is_same_tree(&tree_b)
        && a.tree.defaults == b.tree.defaults
        && has_same_records((&a.table.table, &a.tree.index), (&b.table.table, &b.tree.index));
    let Some(lineage) = lineage.filter(|_| is_same_tree) else {
        if found.compared.plan.is_by_row_id {
            return Err(Unreadable::Refused(
                "it has no primary key, and the two are not one table at two moments: nothing says which rows belong together"
                    .to_owned(),
            ));
        }
        return Ok((Some(a.whole(found)?), Some(b.whole(found)?)));
    };
    let leaves = differing(tree_a, tree_b, lineage).map_err(Unreadable::Damage)?;
    found.diff.pages_read += leaves.iter().map(|leaves| leaves.above).sum::<u64>();
    let [of_a, of_b] = leaves.map(|Leaves { pages, .. }| Ranges { units: pages, ..Ranges::default() });
    Ok((Some(a.reading(found, of_a)?), Some(b.reading(found, of_b)?)))
}

/// Reads both sides, each on a thread of its own, and merges their rows.
fn read((a, b): Readings<'_>, options: &DiffOptions, found: &mut FoundRows<'_>) -> Result<(), Stopped> {
    let rule = found.compared.plan.rule.clone();
    let (of_a, of_b) = (sync_channel(BATCHES), sync_channel(BATCHES));
    let (merged, ended) = thread::scope(|scope| {
        let a = a.map(|reading| scope.spawn(move || reading.run(of_a.0, &options.scan)));
        let b = b.map(|reading| scope.spawn(move || reading.run(of_b.0, &options.scan)));
        let (mut rows_a, mut rows_b) = (Stream::new(of_a.1), Stream::new(of_b.1));
        let merged = merge(&mut rows_a, &mut rows_b, (&rule, options.memory), &mut |met| found.take(met));
        // A side that still sends ends now.
        drop((rows_a, rows_b));
        (merged, [a, b].map(|reading| reading.map(join)))
    });
    for ended in ended.into_iter().flatten() {
        let done = ended.map_err(Stopped::Error)?;
        found.diff.pages_read += done.leaves;
        found.diff.damage.extend(done.damage);
    }
    match merged {
        Ok(()) => Ok(()),
        Err(Ended::Failed(error)) => Err(Stopped::Output(error)),
        Err(Ended::TooFarApart) => {
            found.diff.refused = Some(format!(
                "more than {} MiB of rows lie between two keys that both have, and the order of its collation is not known to innokit: give it more memory                  (--memory)",
                options.memory >> 20
            ));
            Ok(())
        }
    }
}

/// What a side read.
struct Done {
    leaves: u64,
    damage: Vec<RowDamage>,
}

impl Reading<'_> {
    fn run(&self, sender: SyncSender<Block>, options: &ScanOptions) -> Result<Done, Error> {
        let _in_job = self.side.job.enter();
        let tables = &self.side.tables;
        let Some(space) = tables.spaces.get(self.space) else { return Ok(Done { leaves: 0, damage: Vec::new() }) };
        // The rows come in order from one worker only.
        let (options, counters) = (ScanOptions { workers: 1, ..options.clone() }, Counters::new(1));
        let sinks = |_| Sending { sender: sender.clone(), leaves: 0 };
        let (sinks, problems) = scan((space, &tables.set), &self.plan, &self.ranges, &options, &counters, sinks)?;
        let parents = if self.ranges.level > 0 { self.ranges.units.len() as u64 } else { 0 };
        Ok(Done {
            leaves: parents + sinks.iter().map(|sink| sink.leaves).sum::<u64>(),
            damage: problems.iter().map(|problem| RowDamage::of_problem(space, problem)).collect(),
        })
    }
}

/// A panic of a side is one of this thread.
fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
