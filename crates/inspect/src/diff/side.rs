//! One side of a comparison: where its files are, and its tables.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use datadir::Error;
use flow::Job;

use super::DiffOptions;
use crate::rows::export::{Open, open_transactions};
use crate::rows::source::{Tables, Wish};

/// Files of one side.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// Tablespaces, and directories to search for them.
    pub paths: Vec<PathBuf>,
    /// The job that reads them. It may look through a view.
    pub job: Job,
}

/// The tables of a side.
#[derive(Debug)]
pub(super) struct SideTables {
    pub tables: Tables,
    pub job: Job,
    /// For each tablespace, the transactions that had not committed, if they are known.
    open: Open,
}

impl Side {
    pub(super) fn find(&self, options: &DiffOptions) -> Result<SideTables, Error> {
        let _in_job = self.job.enter();
        let wish = Wish {
            keys: &options.keys,
            selection: Some(&options.selection),
            page_size: options.page_size,
            workers: options.scan.workers,
            index: None,
            create_table: None,
            pending: true,
        };
        let tables = Tables::find(&self.paths, wish)?;
        let open = open_transactions(&tables, &options.keys)?;
        Ok(SideTables { tables, job: self.job.clone(), open })
    }

    /// Files that could not be read, with the reason, once all is read.
    pub(super) fn unread(&self, tables: &SideTables, name: &str) -> Vec<String> {
        let _in_job = self.job.enter();
        tables.tables.all_unread().iter().map(|why| format!("{name}: {why}")).collect()
    }
}

impl SideTables {
    /// Why the table may be there although it was not found, as a clause.
    pub fn may_have(&self, table: &str) -> Option<String> {
        if let Some(file) = self.tables.of_others.get(table) {
            return Some(format!("{} is of another engine", file.display()));
        }
        let unread = self.tables.unread.first();
        unread.map(|unread| format!("{} cannot be read: {}", unread.path.display(), unread.why))
    }

    /// Whether the transaction had not committed.
    pub fn is_open(&self, space: usize, transaction: u64) -> bool {
        let open = self.open.get(space).and_then(|open| open.as_ref().ok());
        open.is_some_and(|open| open.contains(&transaction))
    }

    pub fn notes(&self, name: &str) -> Vec<String> {
        let all: BTreeSet<u64> =
            self.open.iter().flatten().flat_map(|open: &Arc<BTreeSet<u64>>| open.iter().copied()).collect();
        if all.is_empty() {
            return Vec::new();
        }
        let (count, first): (usize, Vec<String>) = (all.len(), all.iter().take(3).map(u64::to_string).collect());
        let word = if count == 1 { "transaction" } else { "transactions" };
        let more = if count > 3 { ", …" } else { "" };
        vec![format!(
            "{name}: {count} {word} had not committed ({}{more}): their rows are among the differences, and rows that they deleted count as removed",
            first.join(", ")
        )]
    }
}
