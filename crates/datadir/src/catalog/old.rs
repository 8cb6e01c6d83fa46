//! What a datadir of MariaDB, or MySQL up to 5.7, holds: SYS_TABLES and SYS_INDEXES in `ibdata1`, undo tablespaces in TRX_SYS, and the
//! `.frm` files beside the tables.
//!
//! Facts: `dict0crea.cc`, `dict0load.cc`, `trx0sys.h` of MariaDB 10.11; compared with its datadirs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::PageNo;
use format::bytes::be;
use format::page::rollback::{RSEGS_MAX, TRX_SYS_PAGE_NO, TRX_SYS_RSEGS};
use format::record::redundant;
use format::schema::dictionary::{DICT_HDR_PAGE_NO, DictionaryRoots, SysDatafile, SysIndex, SysTable};
use format::schema::filename::table_name;

use super::entry::{Dictionary, Dropped, DroppedTree, Entry, Holds, TreeAt};
use super::rows::{Which, each_row};
use crate::files;
use crate::inventory::{is_of_backup, link_target};
use crate::tablespace::{Opener, Tablespace};

const NONE: u32 = u32::MAX;
/// The root of SYS_COLUMNS, which is the same in every server.
const SYS_COLUMNS_ROOT: PageNo = PageNo(10);
/// The field of SYS_INDEXES with the transaction, behind the key.
const TRX_ID_OF_INDEX: usize = 2;
/// Type bit of an index that the server found corrupt.
const INDEX_CORRUPT: u32 = 16;
/// Type bit of an index without a tree.
const INDEX_FULLTEXT: u32 = 32;
/// The table that records the paths of tablespaces.
const SYS_DATAFILES: &str = "SYS_DATAFILES";
/// Prefix of the name of a table that an ALTER TABLE creates to replace another.
pub(super) const INTERMEDIATE: &str = "#sql";
/// Prefix of the name of an index under construction: the byte 0xFF, which is not UTF-8.
const BEING_BUILT: char = '\u{FFFD}';

/// Reads the dictionary in `system`, which is the system tablespace, for the datadir `root`.
///
/// # Errors
/// Why it cannot be read to its end, as a clause.
pub(super) fn read(system: &Tablespace, root: &Path) -> Result<Dictionary, String> {
    let mut opener = Opener::new();
    let (tables, indexes, dropped) = tables_and_indexes(system, &mut opener)?;
    let files = general_files(system, &tables, &indexes, &mut opener)?;
    let mut general: BTreeMap<u32, Entry> = BTreeMap::new();
    let mut entries: Vec<Entry> = undo(system, &mut opener)?;
    let mut in_system = Entry::new("innodb_system".to_owned(), 0, Holds::System);
    in_system.files = system.files.iter().map(|file| file.path.clone()).collect();
    for table in tables {
        let own = indexes.get(&table.id).map_or(&[][..], Vec::as_slice);
        let (trees, is_being_indexed) = (trees(&table, own), own.iter().any(is_being_built));
        if table.space.0 == 0 {
            in_system.trees.extend(trees);
            in_system.is_being_indexed |= is_being_indexed;
            continue;
        }
        if let Some(file) = files.get(&table.space.0) {
            let shared =
                || Entry { files: vec![root.join(file)], ..Entry::new(stem_of(file), table.space.0, Holds::Several) };
            let general = general.entry(table.space.0).or_insert_with(shared);
            general.trees.extend(trees);
            general.is_being_indexed |= is_being_indexed;
            continue;
        }
        entries.push(
            Entry {
                files: vec![place(root, &table.name)],
                trees,
                is_discarded: table.is_discarded,
                is_intermediate: last_of(&table.name).starts_with(INTERMEDIATE),
                is_being_indexed,
                stored: table.name.clone(),
                columns: Some(table.columns),
                ..Entry::new(table_name(&table.name), table.space.0, Holds::Table)
            }
            .settled(),
        );
    }
    entries.push(in_system);
    entries.extend(general.into_values());
    Ok(Dictionary { entries, dropped, ..Dictionary::default() })
}

/// The tree of an index whose row is delete-marked, if it is not freed yet.
fn dropped(row: &SysIndex, transaction: Option<&[u8]>) -> Option<Dropped> {
    let root = Some(row.root.root.0).filter(|root| *root != NONE)?;
    let tree = DroppedTree { space: row.root.space?.0, root, index_id: row.root.id };
    Some(Dropped { tree, transaction: number(transaction?) })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The transactions that last wrote or deleted rows about tables, indexes and columns.
pub(super) fn writers(system: &Tablespace) -> Result<BTreeSet<u64>, String> {
    let mut opener = Opener::new();
    let header = system.sound(DICT_HDR_PAGE_NO.0, &mut opener)?;
    let roots = DictionaryRoots::read(&header).ok_or("its page 7 names no dictionary")?;
    let locate = |record: &format::record::Record<'_>, fields: &mut format::record::RecordFields| {
        redundant::locate_stored(record, fields)
    };
    let mut writers = BTreeSet::new();
    // The number of the field behind the key.
    for (root, field) in [(roots.tables, 1), (roots.indexes, TRX_ID_OF_INDEX), (SYS_COLUMNS_ROOT, 2)] {
        each_row(system, root, &mut opener, &locate, Which::WithDeleted, &mut |record, fields| {
            let number = fields.bytes(record.page(), field).ok_or("a record of the dictionary lacks a field")?;
            writers.insert(self::number(number));
            Ok(())
        })?;
    }
    Ok(writers)
}

/// The indexes of tables, by table id.
type Indexes = HashMap<u64, Vec<SysIndex>>;

fn tables_and_indexes(
    system: &Tablespace,
    opener: &mut Opener,
) -> Result<(Vec<SysTable>, Indexes, Vec<Dropped>), String> {
    let header = system.sound(DICT_HDR_PAGE_NO.0, opener)?;
    let roots = DictionaryRoots::read(&header).ok_or("its page 7 names no dictionary")?;
    let locate = |record: &format::record::Record<'_>, fields: &mut format::record::RecordFields| {
        redundant::locate_stored(record, fields)
    };
    let mut tables: Vec<SysTable> = Vec::new();
    each_row(system, roots.tables, opener, &locate, Which::Present, &mut |record, fields| {
        tables.push(SysTable::read(record, fields).ok_or("a record of SYS_TABLES lacks a field")?);
        Ok(())
    })?;
    let (mut indexes, mut gone): (Indexes, Vec<Dropped>) = (HashMap::new(), Vec::new());
    each_row(system, roots.indexes, opener, &locate, Which::WithDeleted, &mut |record, fields| {
        let index = SysIndex::read(record, fields);
        if record.is_deleted() {
            let transaction = fields.bytes(record.page(), TRX_ID_OF_INDEX);
            gone.extend(index.and_then(|index| dropped(&index, transaction)));
            return Ok(());
        }
        let index = index.ok_or("a record of SYS_INDEXES lacks a field")?;
        indexes.entry(index.table_id).or_default().push(index);
        Ok(())
    })?;
    Ok((tables, indexes, gone))
}

/// The files outside of the datadir that a dictionary names. MariaDB 10.6 and later have link files only.
pub(super) fn outside(system: &Tablespace) -> Result<Vec<PathBuf>, String> {
    let mut opener = Opener::new();
    let (tables, indexes, _) = tables_and_indexes(system, &mut opener)?;
    let files = data_files(system, &tables, &indexes, &mut opener)?.into_values();
    Ok(files.filter(|path| path.is_absolute()).collect())
}

/// The files of MySQL 5.7's general tablespaces, by space id. They live in the datadir itself, unlike tables.
fn general_files(
    system: &Tablespace,
    tables: &[SysTable],
    indexes: &Indexes,
    opener: &mut Opener,
) -> Result<HashMap<u32, PathBuf>, String> {
    let mut files = data_files(system, tables, indexes, opener)?;
    files.retain(|_, path| path.components().count() == 1);
    Ok(files)
}

/// The files that SYS_DATAFILES names, by space id.
fn data_files(
    system: &Tablespace,
    tables: &[SysTable],
    indexes: &Indexes,
    opener: &mut Opener,
) -> Result<HashMap<u32, PathBuf>, String> {
    let mut files = HashMap::new();
    // MariaDB 10.6 and later have no such table.
    let own = tables.iter().find(|table| table.name == SYS_DATAFILES && table.space.0 == 0);
    let Some(index) = own.and_then(|table| indexes.get(&table.id)?.first()) else { return Ok(files) };
    let locate = |record: &format::record::Record<'_>, fields: &mut format::record::RecordFields| {
        redundant::locate_stored(record, fields)
    };
    each_row(system, index.root.root, opener, &locate, Which::Present, &mut |record, fields| {
        let file = SysDatafile::read(record, fields).ok_or("a record of SYS_DATAFILES lacks a field")?;
        let path = PathBuf::from(file.path.replace('\\', "/"));
        files.insert(file.space.0, path.strip_prefix("./").unwrap_or(&path).to_path_buf());
        Ok(())
    })?;
    Ok(files)
}

fn stem_of(file: &Path) -> String {
    file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

fn trees(table: &SysTable, indexes: &[SysIndex]) -> Vec<TreeAt> {
    let rooted =
        |index: &&SysIndex| index.kind & INDEX_FULLTEXT == 0 && index.root.root.0 != NONE && !is_being_built(index);
    let (name, stored): (Arc<str>, Arc<str>) = (table_name(&table.name).into(), table.name.as_str().into());
    let tree = |index: &SysIndex| TreeAt {
        table: Arc::clone(&name),
        stored: Arc::clone(&stored),
        index: index.name.as_str().into(),
        id: index.root.id,
        page: index.root.root.0,
        is_flagged: index.kind & INDEX_CORRUPT != 0,
    };
    indexes.iter().filter(rooted).map(tree).collect()
}

fn is_being_built(index: &SysIndex) -> bool {
    index.name.starts_with(BEING_BUILT)
}

/// The undo tablespaces with rollback segments. Their files are identified by space id, not by name.
fn undo(system: &Tablespace, opener: &mut Opener) -> Result<Vec<Entry>, String> {
    let page = system.sound(TRX_SYS_PAGE_NO.0, opener)?;
    let slot = |number: usize| be::u32_at(&page, TRX_SYS_RSEGS + 8 * number);
    let spaces: BTreeSet<u32> = (0..RSEGS_MAX).filter_map(slot).filter(|space| *space != 0 && *space != NONE).collect();
    Ok(spaces.into_iter().map(|space| Entry::new(format!("number {space}"), space, Holds::Undo)).collect())
}

fn last_of(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

/// The file of table `name`: in its database's folder, or where its link file points. A backup has both, and the file is in the folder.
fn place(root: &Path, name: &str) -> PathBuf {
    let own = root.join(format!("{name}.ibd"));
    if files::exists(&own) {
        return own;
    }
    let link = root.join(format!("{name}.isl"));
    // A backup contains all its files; its links point to the server's.
    if is_of_backup(&link) { own } else { link_target(&link).unwrap_or(own) }
}
