//! Looks into the tables that got indexes while they were copied. Their pages may all be sound although one index lacks entries: MySQL fills
//! new indexes without redo. So these tables are recovered in copies, and each index is compared with the rows.

use std::fs;
use std::path::{Path, PathBuf};

use format::SpaceId;

use super::error::{BackupError, Result, failed};
use super::table_look::{SeenFile, SeenTree, TableLook};
use super::vendor::Altered;
use super::verify::trial;
use crate::door;
use crate::manifest::BackupTablespace;
use crate::recover::recover_some;
use datadir::keys::KeyFiles;
use datadir::name::NameHint;
use datadir::reading::copy_all;

/// Where copies are recovered. In the set, because there must be room for as much there anyway.
const PLACE: &str = "innokit.proof";

/// Fails if an index of a table that got indexes does not have the entries that it should have. A prepared set is recovered already.
pub(super) fn prove_indexes(
    set: &Path,
    tablespaces: &[BackupTablespace],
    altered: &Altered,
    keys: &KeyFiles,
    (look, is_prepared): (TableLook, bool),
) -> Result<()> {
    let is_altered = |entry: &&BackupTablespace| altered.spaces.contains(&SpaceId(entry.space));
    let names: Vec<&str> = tablespaces.iter().filter(is_altered).map(|entry| entry.path.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    if is_prepared {
        return compare(set, &names, altered, keys, look);
    }
    let place = set.join(PLACE);
    let proved =
        recovered(set, &place, tablespaces, altered, keys).and_then(|()| compare(&place, &names, altered, keys, look));
    let removed = fs::remove_dir_all(&place).map_err(failed(&place, "removing the directory"));
    proved.and(removed)
}

/// Recovers the altered tablespaces in `place`, with those that tell which transactions are open.
fn recovered(
    set: &Path,
    place: &Path,
    tablespaces: &[BackupTablespace],
    altered: &Altered,
    keys: &KeyFiles,
) -> Result<()> {
    let is_wanted = |entry: &&BackupTablespace| {
        let hint = NameHint::of(Path::new(&entry.path));
        altered.spaces.contains(&SpaceId(entry.space)) || matches!(hint, NameHint::System(_) | NameHint::Undo)
    };
    let wanted: Vec<&BackupTablespace> = tablespaces.iter().filter(is_wanted).collect();
    for entry in &wanted {
        let to = place.join(&entry.path);
        let copied = door::make_parents(set, Path::new(PLACE).join(&entry.path)).and_then(|()| {
            let mut from = door::read(set, &entry.path)?;
            copy_all(&mut from, &mut door::create(set, Path::new(PLACE).join(&entry.path))?)
        });
        copied.map_err(failed(&to, "copying a table to look at it"))?;
    }
    let spaces = wanted.iter().map(|entry| SpaceId(entry.space)).collect();
    Ok(recover_some(set, place, &spaces, &trial(keys))?)
}

fn compare(place: &Path, names: &[&str], altered: &Altered, keys: &KeyFiles, look: TableLook) -> Result<()> {
    let paths: Vec<PathBuf> = names.iter().map(|name| place.join(name)).collect();
    let seen = look.0(&paths, keys)?;
    let damage = seen.damage.first().map(|finding| {
        let table = finding.table.as_deref().unwrap_or(&finding.path);
        let index = finding.index.as_ref().map(|index| format!(", index {index}")).unwrap_or_default();
        format!("{table}{index}: {}", finding.message)
    });
    match damage.or_else(|| seen.files.iter().find_map(|file| lacking(file, altered))) {
        None => Ok(()),
        Some(what) => Err(BackupError::Unproved(format!(
            "the definition of a table changed while it was copied, and the finished backup does not have all of it: {what}: take the backup \
             again; innokit table check on a copy of the server's own file tells whether it is the same there"
        ))),
    }
}

/// Names an index without any entry that the log says to have some. A multi-valued index may have any number of entries for a row, so
/// numbers alone do not tell.
fn lacking(file: &SeenFile, altered: &Altered) -> Option<String> {
    let rows = |table: &Option<String>| {
        let rows = file.indexes.iter().find(|index| index.tree == SeenTree::Rows && index.table == *table);
        rows.map_or(0, |rows| rows.rows)
    };
    let is_empty = |index: &&super::table_look::SeenIndex| {
        let has_none = index.rows == 0 && index.deleted == 0;
        has_none && index.tree == SeenTree::Entries && altered.filled.contains(&index.id) && rows(&index.table) > 0
    };
    let index = file.indexes.iter().find(is_empty)?;
    let (table, name) =
        (index.table.as_deref().unwrap_or(&file.path), index.name.as_deref().unwrap_or("without a name"));
    Some(format!("{table}, index {name}: it is empty, and the table has {} rows", rows(&index.table)))
}

#[cfg(test)]
mod tests {
    use super::super::table_look::SeenIndex;
    use super::*;

    fn index(tree: SeenTree, id: u64, rows: u64) -> SeenIndex {
        SeenIndex { table: Some("shop.docs".to_owned()), name: Some("tags".to_owned()), tree, id, rows, deleted: 0 }
    }

    fn docs(rows: u64, entries: u64) -> SeenFile {
        let indexes = vec![index(SeenTree::Rows, 7, rows), index(SeenTree::Entries, 8, entries)];
        SeenFile { path: "shop/docs.ibd".to_owned(), indexes }
    }

    #[test]
    fn an_index_that_the_log_fills_and_that_is_empty_is_named() {
        let altered = Altered { filled: [8].into(), ..Altered::default() };
        let says = lacking(&docs(2000, 0), &altered);
        assert_eq!(says.as_deref(), Some("shop.docs, index tags: it is empty, and the table has 2000 rows"));
        assert_eq!(lacking(&docs(2000, 1), &altered), None);
        assert_eq!(lacking(&docs(0, 0), &altered), None);
        assert_eq!(lacking(&docs(2000, 0), &Altered::default()), None, "arrays may all be empty");
    }
}
