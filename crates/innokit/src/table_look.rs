//! Looks into tables for a backup: the jobs that recover do not know those that inspect.

use std::path::PathBuf;

use datadir::keys::KeyFiles;
use datadir::{Error, Severity};
use inspect::table::{IndexReport, TableFile, TreeKind};
use inspect::{TableOptions, tables};
use recovery::backup::{SeenDamage, SeenFile, SeenIndex, SeenTables, SeenTree, TableLook};

/// As `table check --extended`.
pub const TABLE_LOOK: TableLook = TableLook(&look);

fn look(paths: &[PathBuf], keys: &KeyFiles) -> Result<SeenTables, Error> {
    let report = tables(paths, &TableOptions { keys: keys.clone(), extended: true, ..TableOptions::default() })?;
    let damage = report.findings.into_iter().filter(|finding| finding.severity == Severity::Damage);
    let damage = damage.map(|finding| SeenDamage {
        path: finding.path,
        table: finding.table,
        index: finding.index,
        message: finding.message,
    });
    Ok(SeenTables { files: report.files.into_iter().map(seen).collect(), damage: damage.collect() })
}

fn seen(file: TableFile) -> SeenFile {
    let index = |index: IndexReport| SeenIndex {
        table: index.table,
        name: index.name,
        tree: match index.kind {
            TreeKind::Clustered => SeenTree::Rows,
            TreeKind::Secondary => SeenTree::Entries,
            TreeKind::Spatial | TreeKind::Sdi | TreeKind::Unknown => SeenTree::Other,
        },
        id: index.id,
        rows: index.rows,
        deleted: index.deleted,
    };
    SeenFile { path: file.path, indexes: file.indexes.into_iter().map(index).collect() }
}
