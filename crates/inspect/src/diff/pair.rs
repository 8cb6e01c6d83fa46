//! Two tables of one name, or one that only one side has.

use std::io;
use std::path::PathBuf;

use datadir::Error;

use super::change::{Changes, Compared, Lone};
use super::definition::differences;
use super::found::FoundRows;
use super::leaves::Lineage;
use super::plan::{DiffPlan, SideOf};
use super::report::{Found, TableDiff};
use super::side::SideTables;
use super::trees::{SideTree, compare};
use super::{DiffOptions, Stopped};
use crate::rows::damage::RowDamage;
use crate::rows::source::{TableSource, TreeSource};

/// The comparison of the tables of one name.
pub(super) struct Pairing<'p> {
    pub name: &'p str,
    pub sides: (&'p SideTables, &'p SideTables),
    pub options: &'p DiffOptions,
    pub lineage: Option<&'p dyn Lineage>,
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl<'p> Pairing<'p> {
    pub fn failed(&self, stopped: Stopped) -> Error {
        let path = PathBuf::from(self.name);
        match stopped {
            Stopped::Output(source) => Error::Io { path, action: "writing the differences", source },
            Stopped::Error(error) => error,
        }
    }

    pub fn compare(&self, [in_a, in_b]: [Option<usize>; 2], changes: &mut dyn Changes) -> Result<TableDiff, Stopped> {
        let table = |side: &'p SideTables, at: Option<usize>| at.and_then(|at| side.tables.tables.get(at));
        match (table(self.sides.0, in_a), table(self.sides.1, in_b)) {
            (Some(a), Some(b)) => self.both(a, b, changes),
            (Some(table), None) => self.lone(table, Lone::Removed, changes),
            (None, Some(table)) => self.lone(table, Lone::Added, changes),
            (None, None) => Ok(TableDiff::new(self.name, Found::InBoth)),
        }
    }

    /// A table that only one side has.
    fn lone(&self, table: &TableSource, side: Lone, changes: &mut dyn Changes) -> Result<TableDiff, Stopped> {
        let found = if side == Lone::Added { Found::OnlyInB } else { Found::OnlyInA };
        let mut diff = TableDiff::new(self.name, found);
        let (name, other) = if side == Lone::Added { ("A", self.sides.0) } else { ("B", self.sides.1) };
        if let Some(why) = other.may_have(self.name) {
            diff.refused = Some(format!("whether {name} has it is not known: {why}"));
            return Ok(diff);
        }
        let plan = match DiffPlan::new(table, table) {
            Ok(plan) => plan,
            Err(why) => {
                diff.refused = Some(why);
                return Ok(diff);
            }
        };
        let compared = Compared { name: self.name, table: &table.table, plan: &plan, is_altered: false };
        if !changes.lone(compared, side)? {
            return Ok(diff);
        }
        let mut rows = FoundRows::new(compared, self.sides, diff, changes).begun();
        for tree in &table.trees {
            let tree = SideTree { of: SideOf::B, side: self.sides.1, table, tree };
            compare((None, Some(tree)), (self.options, None), &mut rows)?;
        }
        Ok(rows.end()?)
    }

    fn both(&self, a: &TableSource, b: &TableSource, changes: &mut dyn Changes) -> Result<TableDiff, Stopped> {
        let mut diff = TableDiff::new(self.name, Found::InBoth);
        diff.damage = a.damage.iter().chain(&b.damage).map(RowDamage::of_table).collect();
        diff.definition = differences(&a.table, &b.table);
        let is_altered = !diff.definition.is_empty();
        if is_altered {
            changes.definition(self.name, &diff.definition)?;
        }
        let plans = matched(a, b).and_then(|trees| Ok((trees, DiffPlan::new(a, b)?)));
        let (trees, plan) = match plans {
            Ok(plans) => plans,
            Err(why) => {
                diff.refused = Some(format!("its rows are not compared: {why}"));
                return Ok(diff);
            }
        };
        if is_altered {
            diff.not_compared.clone_from(&plan.not_compared);
        }
        let compared = Compared { name: self.name, table: &b.table, plan: &plan, is_altered };
        let mut rows = FoundRows::new(compared, self.sides, diff, changes);
        for (tree_a, tree_b) in trees {
            let of_a = SideTree { of: SideOf::A, side: self.sides.0, table: a, tree: tree_a };
            let of_b = SideTree { of: SideOf::B, side: self.sides.1, table: b, tree: tree_b };
            compare((Some(of_a), Some(of_b)), (self.options, self.lineage), &mut rows)?;
            if !rows.diff.is_decided() {
                break;
            }
        }
        Ok(rows.end()?)
    }
}

/// The trees of both: partitions by name.
fn matched<'t>(a: &'t TableSource, b: &'t TableSource) -> Result<Vec<(&'t TreeSource, &'t TreeSource)>, String> {
    let twin = |tree: &TreeSource| b.trees.iter().find(|other| other.partition == tree.partition);
    let pairs: Option<Vec<_>> = a.trees.iter().map(|tree| Some((tree, twin(tree)?))).collect();
    let pairs = pairs.filter(|_| a.trees.len() == b.trees.len());
    pairs.ok_or_else(|| "the partitions differ".to_owned())
}
