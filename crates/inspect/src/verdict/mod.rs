//! What damage means for tables. `damaged pages -> segment -> tree -> index of a table -> keys, rows, what to do`
//!
//! Runs after a check, and only if there is damage (or every table is to be listed): it then reads the dictionary, the maps of the damaged
//! tablespaces and the parents of their lost leaves once more.

mod advice;
mod counters;
mod keys;
mod moments;
mod place;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use format::Family;
use format::keyring::KeyStore;
use format::schema::IndexKind;

use crate::definitions::Named;
use crate::report::hurt::{Action, Hurt, TableOutcome, TableVerdict};
use crate::tree::{Root, SpaceMap};
use datadir::catalog::{FulltextIndex, fulltext_of};
use datadir::file_kind::FileKind;
use datadir::name::table_of_path;
use datadir::severity::Severity;
use datadir::tablespace::{Opener, Tablespace};

pub(crate) use counters::older_counters;
pub(crate) use moments::later_tables;
pub(crate) use place::{Case, judge, of_space, partitioned, put_off};

/// How a page is damaged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Its content is unusable; otherwise it only conflicts with other pages.
    pub is_lost: bool,
    pub severity: Severity,
    /// The index id on the page itself, for when the maps are lost too.
    pub index_id: Option<u64>,
}

/// Damaged pages by number.
pub(crate) type Marks = BTreeMap<u32, Mark>;

/// A damaged tree.
pub(crate) struct HurtTree<'t> {
    pub space: &'t Tablespace,
    pub map: &'t SpaceMap,
    pub root: &'t Root,
    pub named: Option<&'t Named>,
    /// Its damaged pages.
    pub marks: &'t Marks,
    /// The worst finding, including those without a page.
    pub severity: Severity,
    /// Number of missing rows, if another index counts them.
    pub rows_missing: Option<u64>,
    /// All that is wrong is that rows are in another partition than they belong in.
    pub is_misplaced: bool,
    /// The table's clustered index is damaged too.
    pub is_table_hurt: bool,
}

impl HurtTree<'_> {
    /// Its entry in the report.
    pub fn row(&self, path: &str, opener: &mut Opener) -> Hurt {
        let lost: Vec<u32> = self.marks.iter().filter(|(_, mark)| mark.is_lost).map(|(page_no, _)| *page_no).collect();
        let is_all = lost.contains(&self.root.page_no);
        let told = if lost.is_empty() || is_all { keys::Told::default() } else { keys::tell(self, &lost, opener) };
        let holds_rows = self.kind().is_none_or(|kind| kind == IndexKind::Clustered);
        let (rows, is_estimate) = match (self.rows_missing, told.rows) {
            _ if !holds_rows || self.is_misplaced => (Some(0), false),
            (Some(rows), _) => (Some(rows), false),
            (None, Some(rows)) => (Some(rows), true),
            (None, None) => (None, false),
        };
        let action = match self.severity {
            Severity::Undecided | Severity::Notice => Action::SeeFinding,
            Severity::Damage if self.is_misplaced => Action::RewriteTable,
            Severity::Damage if self.is_sdi() => Action::RestoreTable,
            Severity::Damage if holds_rows || self.is_table_hurt => Action::RestoreTable,
            Severity::Damage => Action::RebuildIndex,
        };
        let row = Hurt {
            path: path.to_owned(),
            kind: FileKind::Tablespace,
            table: self.table(),
            index: self.named.and_then(|named| named.name.clone()),
            index_kind: self.kind_name(),
            index_id: Some(self.root.index_id),
            is_header_lost: false,
            is_frame_lost: self.is_sdi() || self.marks.contains_key(&self.root.page_no),
            severity: self.severity,
            pages: self.marks.len() as u64,
            keys: told.keys,
            rows_at_risk: if self.is_sdi() { Some(0) } else { rows },
            rows_estimated: is_estimate && !self.is_sdi(),
            action,
            commands: Vec::new(),
        };
        advice::advised(row, self.named, Some(self.space))
    }

    /// Its table. Without a dictionary, taken from the file name if the file can hold only one table.
    fn table(&self) -> Option<String> {
        const SHARED: u32 = 1 << 11;
        let format = &self.space.format;
        let is_shared = format.space().0 == 0 || (format.family() == Family::MySql && format.flags() & SHARED != 0);
        let by_path = || if is_shared || self.is_sdi() { None } else { table_of_path(self.space.path()) };
        self.named.and_then(|named| named.table.clone()).or_else(by_path)
    }

    fn is_sdi(&self) -> bool {
        self.named.is_some_and(|named| named.table.is_none() && named.name.as_deref() == Some("SDI"))
    }

    fn kind(&self) -> Option<IndexKind> {
        if self.is_sdi() {
            return None;
        }
        self.named.and_then(|named| named.index.as_ref()).map(|index| index.kind)
    }

    fn kind_name(&self) -> Option<&'static str> {
        if self.is_sdi() {
            return Some("sdi");
        }
        self.kind().map(|kind| match kind {
            IndexKind::Clustered => "clustered",
            IndexKind::Secondary => "secondary",
            IndexKind::Spatial => "spatial",
        })
    }
}

/// An entry for a missing or wrong file; `None` unless that is damage.
pub(crate) fn of_missing(path: &str, table: Option<String>, severity: Severity) -> Option<Hurt> {
    let kind = if table.is_some() { FileKind::Tablespace } else { FileKind::Datadir };
    (severity == Severity::Damage).then(|| of_file(path, kind, table, severity, 0))
}

/// An entry for a file, or for those of its pages that belong to no index.
pub(crate) fn of_file(path: &str, kind: FileKind, table: Option<String>, severity: Severity, pages: u64) -> Hurt {
    let action = match (severity, kind) {
        (Severity::Undecided | Severity::Notice, _) => Action::SeeFinding,
        (_, FileKind::Tablespace) => Action::RestoreTable,
        (_, FileKind::BinaryLog | FileKind::RelayLog) => Action::ReplaceFile,
        (_, FileKind::BackupArchive) => Action::ReplaceArchive,
        _ => Action::RestoreAll,
    };
    Hurt {
        path: path.to_owned(),
        kind,
        table,
        index: None,
        index_kind: None,
        index_id: None,
        is_header_lost: false,
        is_frame_lost: false,
        severity,
        pages,
        keys: Vec::new(),
        rows_at_risk: None,
        rows_estimated: false,
        action,
        commands: Vec::new(),
    }
}

/// Asks MySQL's dictionary for the full-text indexes of tables whose SDI is damaged, which their repair must name. Where it cannot be read, the
/// advice is about the dictionary.
pub(crate) fn name_fulltext(rows: &mut [Hurt], keys: &KeyStore) {
    let mut known: BTreeMap<PathBuf, Vec<FulltextIndex>> = BTreeMap::new();
    for row in rows.iter_mut().filter(|row| row.index_kind == Some("sdi") && row.severity == Severity::Damage) {
        let Some(datadir) = advice::datadir_of(Path::new(&row.path)) else { continue };
        let read = |datadir: &PathBuf| fulltext_of(datadir, keys).unwrap_or_default();
        let indexes = known.entry(datadir).or_insert_with_key(read);
        advice::without_fulltext(row, indexes);
    }
}

/// Puts tables first that have lost page 0: MySQL ends if it drops another table whose parent is one of them. Where the whole datadir is to be
/// restored, nothing else is to be done in it.
pub(crate) fn repaired_first(rows: &mut [Hurt]) {
    let is_whole = |row: &&Hurt| row.action == Action::RestoreAll && !row.commands.is_empty();
    let whole: Vec<(PathBuf, Vec<String>)> = rows
        .iter()
        .filter(is_whole)
        .filter_map(|row| Some((advice::datadir_of(Path::new(&row.path))?, row.commands.clone())))
        .collect();
    for row in rows.iter_mut().filter(|row| row.severity == Severity::Damage) {
        if let Some((_, commands)) = whole.iter().find(|(datadir, _)| Path::new(&row.path).starts_with(datadir)) {
            (row.action, row.commands) = (Action::RestoreAll, commands.clone());
        }
    }
    // MySQL writes the SDI of a parent when it drops a child, and ends at a damaged one: mended before anything is dropped.
    rows.sort_by_key(|row| (row.index_kind != Some("sdi"), !row.is_header_lost));
}

/// The verdict on a table, from the entries about it.
pub(crate) fn verdict_of(table: Option<&str>, path: &str, hurt: &[Hurt]) -> TableVerdict {
    let about = hurt.iter().filter(|row| row.path == path && (row.table.is_none() || row.table.as_deref() == table));
    let verdict = about.map(|row| match row.severity {
        Severity::Damage => TableOutcome::Damage,
        Severity::Undecided => TableOutcome::Undecided,
        Severity::Notice => TableOutcome::AllWell,
    });
    let verdict = verdict.max().unwrap_or(TableOutcome::AllWell);
    TableVerdict { table: table.map(str::to_owned), path: path.to_owned(), verdict }
}
