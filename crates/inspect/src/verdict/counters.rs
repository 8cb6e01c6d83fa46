//! AUTO_INCREMENT counters of another day. MySQL keeps them in `mysql.ibd`, and takes the next value from there, not from the table: with an
//! older `mysql.ibd` the next INSERT is a duplicate key.
//!
//! A server writes all counters when it shuts down, after the rows. So of a sound datadir few tables are newer than the dictionary, and only
//! of those the highest key is looked for. MariaDB keeps the counter on the root page of the table itself, and lets
//! UPDATE pass it, so that a counter below the highest key says nothing there.

use std::collections::HashMap;
use std::sync::Arc;

use format::page::index::IndexPage;
use format::record::RecordFields;
use format::schema::{FieldSource, IndexDef, TableDef};
use format::value::show::shown;
use format::{PageNo, SpaceId};

use super::moments::is_table_of;
use crate::definitions::known::know;
use crate::definitions::{Definitions, Dictionaries, Opening};
use datadir::catalog::{Catalog, CatalogFinding, Held, has_counters};
use datadir::finding_code::FindingCode;
use datadir::redo_log::RedoLogs;
use datadir::severity::Severity;
use datadir::tablespace::{Opener, Tablespace};

/// Tables whose highest key is looked for, at most: the newest.
const TABLES_MAX: usize = 256;
/// No B-tree has more levels.
const LEVELS_MAX: usize = 64;

/// In the first byte of DB_ROLL_PTR: the row is as it was inserted. IMPORT writes zeros there.
const INSERTED: u8 = 0x80;

/// A table with a key that its counter has not reached.
struct Passed {
    table: String,
    counter: u64,
    highest: u64,
}

/// Whether `mysql.ibd` has counters that are behind the tables.
pub(crate) fn older_counters(catalog: &Catalog, held: &[Held], redo: &mut RedoLogs) -> Option<CatalogFinding> {
    let counters = catalog.counters().filter(|counters| !counters.is_empty())?;
    let (root, keys, _) = catalog.at_rest(redo)?;
    let of_dictionary = |held: &&Held| {
        held.space.format.space() == SpaceId::MYSQL_DICTIONARY && held.space.path().parent() == Some(root)
    };
    let dictionary = held.iter().find(of_dictionary)?;
    let mut later: Vec<&Held> = held.iter().filter(|held| held.newest > dictionary.newest).collect();
    later.retain(|held| is_table_of(&held.space, root));
    later.sort_by_key(|held| std::cmp::Reverse(held.newest));
    let mut dictionaries = Dictionaries::of(&[], keys, None);
    let mut later = later.into_iter().take(TABLES_MAX);
    let passed = later.find_map(|held| passed_in(&held.space, counters, &mut dictionaries))?;
    if has_counters(root, keys) {
        return None;
    }
    let message = format!(
        "older than the tables: by its counter the last AUTO_INCREMENT value of {} is {}, but the table has {}; the next INSERT may be a duplicate \
         key. The file was copied at another time, or from another server: restore all files from one backup",
        passed.table, passed.counter, passed.highest
    );
    let (path, severity) = (dictionary.space.path().to_path_buf(), Severity::Damage);
    Some(CatalogFinding { path, table: None, reason: FindingCode::STALE_FILE, severity, message })
}

fn passed_in(
    space: &Tablespace,
    counters: &HashMap<Arc<str>, u64>,
    dictionaries: &mut Dictionaries<'_>,
) -> Option<Passed> {
    let mut opener = Opener::new();
    let opening = Opening::of(space.clone(), &mut opener);
    let definitions = Definitions::read_with(std::iter::once(&opening), dictionaries);
    let of = know(space, &definitions, &mut opener);
    of.roots.iter().find_map(|root| {
        let named = definitions.named(space, root, &of.map, &mut opener)?;
        let (whole, index) = (named.whole?, named.index?);
        let table = format!("{}.{}", whole.schema, whole.name);
        let counter = *counters.get(table.as_str())?;
        let column = counted_by(&whole, &index)?;
        let highest = highest_key(space, PageNo(root.page_no), (&index, &whole, column), &mut opener)?;
        (highest > counter).then_some(Passed { table, counter, highest })
    })
}

/// The AUTO_INCREMENT column, if the rows of a whole table are in its ascending order.
fn counted_by(whole: &TableDef, index: &IndexDef) -> Option<usize> {
    let column = whole.columns.iter().position(|column| column.auto_increment)?;
    let first = index.fields.first().filter(|_| index.is_clustered() && whole.partitions.is_empty())?;
    (first.source == FieldSource::Column(column) && !first.descending).then_some(column)
}

/// The highest key; `None` if it is negative, or not a whole number, or if the row was not inserted: it may have been imported, which may leave
/// the counter behind.
fn highest_key(
    space: &Tablespace,
    root: PageNo,
    (index, whole, column): (&IndexDef, &TableDef, usize),
    opener: &mut Opener,
) -> Option<u64> {
    let (mut at, mut fields) = (root, RecordFields::new());
    for _ in 0..LEVELS_MAX {
        let image = space.sound(at.0, opener).ok()?;
        let page = IndexPage::parse(&image, &space.format).ok()?;
        let records = page.records().map_while(Result::ok).filter(|record| !record.is_metadata());
        if page.is_leaf() {
            let last = records.filter(|record| !record.is_deleted()).last()?;
            index.layout.locate(&last, &mut fields).ok()?;
            let pointer = index.fields.iter().position(|field| field.source == FieldSource::RollPtr)?;
            let is_inserted = fields.bytes(page.bytes(), pointer)?.first()? & INSERTED != 0;
            if !is_inserted {
                return None;
            }
            return shown(whole.columns.get(column), fields.bytes(page.bytes(), 0)).parse().ok();
        }
        index.layout.locate(&records.last()?, &mut fields).ok()?;
        at = fields.child()?;
    }
    None
}
