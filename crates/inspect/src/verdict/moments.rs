//! Files of different moments. A server gives every transaction the next number, writes it into the rows that it changes, and keeps account of
//! the numbers in the system tablespace and the rollback segments. Rows of transactions that these do not know yet are of a later moment: the
//! server calls the table corrupt, or gives the same numbers again.
//!
//! A transaction writes its rollback segment when it ends, after its rows. So of a sound datadir, few tables have pages that are newer than all
//! rollback segments, and only the rows on such pages are read.

use std::path::Path;

use format::Lsn;
use format::bytes::be;
use format::fil::FIL_PAGE_LSN;
use format::page::index::IndexPage;
use format::record::RecordFields;
use format::schema::IndexDef;

use crate::definitions::known::know;
use crate::definitions::{Definitions, Dictionaries, Opening};
use crate::tree::{Root, SpaceMap};
use datadir::catalog::{Catalog, CatalogFinding, Held};
use datadir::finding_code::FindingCode;
use datadir::name::NameHint;
use datadir::redo_log::RedoLogs;
use datadir::severity::Severity;
use datadir::system;
use datadir::tablespace::transactions::{NewestKnown, newest_known_in};
use datadir::tablespace::{Opener, Tablespace};

/// Tables whose newest pages are read, at most: those with the newest.
const TABLES_MAX: usize = 64;
/// Pages read of a table, at most: half of them its last, the others spread over it.
const PAGES_MAX: usize = 4096;
const TRX_ID_BYTES: usize = 6;

/// A row of a transaction that the datadir does not know.
struct LaterRow {
    page_no: u32,
    transaction: u64,
}

/// Whether tables of the datadir are of a later moment than its system tablespace and its rollback segments. Not if that tablespace was found to
/// be old already.
pub(crate) fn later_tables(
    catalog: &Catalog,
    held: &[Held],
    found: &[CatalogFinding],
    redo: &mut RedoLogs,
) -> Option<CatalogFinding> {
    let (root, keys, end) = catalog.at_rest(redo)?;
    let path = system::files_of(root).into_iter().next()?;
    if found.iter().any(|found| found.reason == FindingCode::STALE_FILE && found.path == path) {
        return None;
    }
    let mut later: Vec<&Held> = held.iter().filter(|held| is_table_of(&held.space, root)).collect();
    if later.is_empty() {
        return None;
    }
    let known = newest_known_in(root, keys)?;
    // A table that is newer than the log is of a later moment than all else, and is called so.
    later.retain(|held| held.newest > known.written && end.is_none_or(|end| held.newest <= end));
    later.sort_by_key(|held| std::cmp::Reverse(held.newest));
    let mut dictionaries = Dictionaries::of(&[], keys, None);
    let (held, row) = later.into_iter().take(TABLES_MAX).find_map(|held| {
        let row = later_row(&held.space, &known, &mut dictionaries)?;
        Some((held, row))
    })?;
    let (what, knows, was) = match known.has_undo_spaces {
        true => ("it or an undo tablespace is older", "together they know", "the older file was"),
        false => ("older", "it knows", "it was"),
    };
    let message = format!(
        "{what} than the tables: {knows} transactions up to number {}, but number {} wrote to page {} of {}; {was} copied at another time, or \
         from another server, and the server calls such tables corrupt or changes them wrongly: restore all files from one backup",
        known.transaction,
        row.transaction,
        row.page_no,
        held.space.path().display()
    );
    Some(CatalogFinding { path, table: None, reason: FindingCode::STALE_FILE, severity: Severity::Damage, message })
}

pub(super) fn is_table_of(space: &Tablespace, root: &Path) -> bool {
    let mut above = space.path().ancestors().skip(1);
    NameHint::of(space.path()) == NameHint::Table && above.by_ref().take(2).any(|folder| folder == root)
}

fn later_row(space: &Tablespace, known: &NewestKnown, dictionaries: &mut Dictionaries<'_>) -> Option<LaterRow> {
    let mut opener = Opener::new();
    let opening = Opening::of(space.clone(), &mut opener);
    let definitions = Definitions::read_with(std::iter::once(&opening), dictionaries);
    let of = know(space, &definitions, &mut opener);
    of.roots.iter().find_map(|root| {
        let named = definitions.named(space, root, &of.map, &mut opener)?;
        let index = named.index.filter(IndexDef::is_clustered)?;
        let tree = Tree { space, index: &index, id: root.index_id };
        tree.later_row(&pages_of(root, &of.map), known, &mut opener)
    })
}

/// The leaves to read. Pages that are not in use may hold anything.
fn pages_of(root: &Root, map: &SpaceMap) -> Vec<u32> {
    let mut pages: Vec<u32> = match root.leaf_segment {
        Some(segment) if root.level > 0 => map.pages_of(segment).collect(),
        _ => vec![root.page_no],
    };
    pages.sort_unstable();
    if pages.len() <= PAGES_MAX {
        return pages;
    }
    let last = pages.split_off(pages.len() - PAGES_MAX / 2);
    let step = pages.len().div_ceil(PAGES_MAX / 2);
    pages.into_iter().step_by(step).chain(last).collect()
}

struct Tree<'t> {
    space: &'t Tablespace,
    index: &'t IndexDef,
    id: u64,
}

impl Tree<'_> {
    fn later_row(&self, pages: &[u32], known: &NewestKnown, opener: &mut Opener) -> Option<LaterRow> {
        let mut found: Option<LaterRow> = None;
        let mut fields = RecordFields::new();
        self.space.each_stored(pages, |page_no, stored| {
            let is_later = |stored: &&[u8]| be::u64_at(stored, FIL_PAGE_LSN).map(Lsn) > Some(known.written);
            let Some(stored) = stored.ok().filter(is_later).filter(|_| found.is_none()) else { return };
            // What a damaged page says means nothing.
            let Ok(image) = self.space.opened(page_no, stored, opener) else { return };
            let newest = self.newest_on(&image, &mut fields).filter(|newest| *newest > known.transaction);
            found = newest.map(|transaction| LaterRow { page_no, transaction });
        });
        found
    }

    /// The newest transaction among the rows of a leaf.
    fn newest_on(&self, image: &[u8], fields: &mut RecordFields) -> Option<u64> {
        let page = IndexPage::parse(image, &self.space.format).ok()?;
        let at = self.index.layout.trx_id().filter(|_| page.is_leaf() && page.index_id() == self.id)?;
        let rows = page.records().map_while(Result::ok).filter(|record| !record.is_metadata());
        let numbers = rows.filter_map(|record| {
            self.index.layout.locate(&record, fields).ok()?;
            let bytes = fields.bytes(page.bytes(), at).filter(|bytes| bytes.len() == TRX_ID_BYTES)?;
            Some(bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte)))
        });
        numbers.max()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use format::keyring::KeyStore;

    use super::*;
    use datadir::tablespace::FoundFile;

    /// The tables of a datadir.
    fn tables_in(root: &Path) -> Vec<PathBuf> {
        let listed =
            |folder: &Path| fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let folders = listed(root).filter(|path| path.is_dir());
        let files = folders.flat_map(|folder| listed(&folder).collect::<Vec<_>>());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "ibd")).collect()
    }

    /// All rows that servers wrote, and not only those on pages that are newer than the account, are of transactions that are in it.
    #[test]
    #[cfg_attr(not(servers), ignore = "needs real servers: make test")]
    fn no_row_of_a_sound_datadir_is_of_an_unknown_transaction() {
        let all = PathBuf::from(std::env::var_os("INNOKIT_DATADIRS").expect("make test sets it"));
        let keys = KeyStore::default();
        let (mut rows, mut families) = (0, Vec::new());
        for root in fs::read_dir(all).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            let is_read = !["crashed", "enc", "tde"].iter().any(|kind| root.to_string_lossy().contains(kind));
            let Some(known) = newest_known_in(&root, &keys).filter(|_| is_read) else { continue };
            let mut dictionaries = Dictionaries::of(&[], &keys, None);
            for path in tables_in(&root) {
                let Ok(space) = Tablespace::open(&[FoundFile::of(path.clone()).expect("there")], &keys, None) else {
                    continue;
                };
                let of_any_age = NewestKnown { written: Lsn(0), ..known };
                let later = later_row(&space, &of_any_age, &mut dictionaries);
                let later = later.map(|row| (row.page_no, row.transaction));
                assert_eq!(later, None, "{}: {known:?}", path.display());
                // The same search finds rows where it should.
                let of_nothing = NewestKnown { transaction: 0, ..of_any_age };
                let found = later_row(&space, &of_nothing, &mut dictionaries).is_some();
                rows += usize::from(found);
                families.extend(found.then_some(space.format.family()));
            }
        }
        families.dedup();
        assert!(rows > 20 && families.len() > 1, "{rows} tables with rows: {families:?}");
    }
}
