//! What a datadir of MySQL 8.0 or later holds: read from the dictionary's own tables in `mysql.ibd`. Their definitions are in that file
//! too, so no version's layout is hard-coded.
//!
//! ```text
//! tablespaces + tablespace_files        -> number, state, files
//! schemata, tables, table_partitions    -> names
//! indexes, index_partitions             -> which tree of which tablespace begins where
//! innodb_dynamic_metadata               -> AUTO_INCREMENT counters
//! innodb_ddl_log                        -> what interrupted statements left to do
//! ```
//!
//! Facts: `sql/dd/impl/tables/` and `dict0dd.cc` of MySQL 8.0; compared with the datadirs of MySQL 9.7.

pub mod fulltext;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::bytes::be;
use format::fil::FIL_PAGE_SPACE_ID;
use format::page::sdi::SdiKind;
use format::schema::TableDef;
use format::schema::sdi::from_sdi;
use redo::record::mysql_reader::counter_in;

use super::entry::{DdlStep, Dictionary, Entry, Holds, TreeAt};
use super::rows::{DictionaryRow, DictionaryTable, Which};
use crate::files::File;
use crate::name::{NameHint, places_inside};
use crate::reading::read_up_to;
use crate::tablespace::{Opener, Tablespace, sdi};

/// Value of `tables.hidden`: an intermediate table of an ALTER TABLE.
const HIDDEN_DDL: u8 = 4;
/// Space id of the shared temporary tablespace.
const TEMPORARY: u64 = 0xFFFF_FFFD;
/// Space ids from here on belong to undo tablespaces: 127 of them, with 400,000 ids each.
const UNDO_MIN: u64 = 0xFFFF_FFF0 - 127 * 400_000;
/// The dictionary's own space id.
const DICTIONARY: u64 = 0xFFFF_FFFE;

/// The dictionary tables to read.
const NAMES: [&str; 9] = [
    "schemata",
    "tables",
    "table_partitions",
    "indexes",
    "index_partitions",
    "tablespaces",
    "tablespace_files",
    "innodb_dynamic_metadata",
    "innodb_ddl_log",
];

struct Reader<'s> {
    space: &'s Tablespace,
    definitions: HashMap<String, TableDef>,
    opener: Opener,
    newest_transaction: u64,
    counters: Counters,
}

/// AUTO_INCREMENT counters.
#[derive(Default)]
struct Counters {
    /// The tables of InnoDB's numbers: several for one that is partitioned.
    tables: HashMap<u64, Arc<str>>,
    /// The last value given out; of a partitioned table the greatest.
    last: HashMap<Arc<str>, u64>,
}

impl Counters {
    fn raise(&mut self, table: &Arc<str>, value: Option<u64>) {
        if let Some(value) = value.filter(|value| *value > 0) {
            let last = self.last.entry(Arc::clone(table)).or_default();
            *last = value.max(*last);
        }
    }
}

/// A user table, or a partition of one.
struct Piece {
    name: Arc<str>,
    is_intermediate: bool,
    is_discarded: bool,
}

/// Reads the dictionary in `space`, which is `mysql.ibd`, for the datadir `root`.
///
/// # Errors
/// Why it cannot be read to its end, as a clause.
pub(super) fn read(space: &Tablespace, root: &Path) -> Result<Dictionary, String> {
    let mut reader = Reader::open(space, &NAMES)?;
    let mut entries = reader.tablespaces(root)?;
    let pieces = reader.tables()?;
    let parts = reader.partitions(&pieces)?;
    let none: Arc<str> = Arc::from("");
    let roots = |entries: &mut BTreeMap<u64, Entry>, owner: Option<&Piece>, row: &DictionaryRow<'_>, name: String| {
        let (Some(id), Some(root)) = (row.option("se_private_data", "id"), row.option("se_private_data", "root"))
        else {
            return;
        };
        let Some(entry) = row.option("se_private_data", "space_id").and_then(|space| entries.get_mut(&space)) else {
            return;
        };
        let Some(owner) = owner else { return };
        if entry.holds == Holds::Table {
            owner.name.as_ref().clone_into(&mut entry.name);
        }
        entry.is_intermediate |= owner.is_intermediate && entry.holds == Holds::Table;
        entry.is_discarded |= owner.is_discarded && entry.holds == Holds::Table;
        // A root page number has 32 bits. A full-text index has no root: its words are in auxiliary tables.
        if let Some(page) = u32::try_from(root).ok().filter(|page| *page != u32::MAX) {
            entry.trees.push(TreeAt {
                table: Arc::clone(&owner.name),
                stored: Arc::clone(&none),
                index: name.into(),
                id,
                page,
                is_flagged: false,
            });
        }
    };
    let mut names = HashMap::new();
    reader.each("indexes", |row| {
        let name = row.text("name").unwrap_or_default();
        let table = row.id("table_id").and_then(|id| pieces.get(&id));
        roots(&mut entries, table, row, name.clone());
        names.extend(row.id("id").map(|id| (id, name)));
        Ok(())
    })?;
    reader.each("index_partitions", |row| {
        let name = row.id("index_id").and_then(|id| names.get(&id)).cloned().unwrap_or_default();
        let part = row.id("partition_id").and_then(|id| parts.get(&id));
        roots(&mut entries, part, row, name);
        Ok(())
    })?;
    reader.dynamic_metadata();
    let ddl_steps = reader.ddl_steps(root)?;
    let newest_transaction = reader.newest_transaction;
    Ok(Dictionary {
        is_in_files: true,
        dropped: Vec::new(),
        newest_transaction,
        ddl_steps,
        counters: reader.counters.last,
        entries: entries.into_values().map(Entry::settled).collect(),
    })
}

/// Whether an object's JSON has this name. MySQL writes no spaces between tokens.
fn has_name(json: &[u8], name: &str) -> bool {
    let key = format!("\"dd_object\":{{\"name\":\"{name}\"");
    let head = json.get(..400.min(json.len())).unwrap_or_default();
    head.windows(key.len()).any(|window| window == key.as_bytes())
}

impl<'s> Reader<'s> {
    /// Reads the definitions of these tables of the dictionary.
    fn open(space: &'s Tablespace, names: &[&str]) -> Result<Self, String> {
        let mut opener = Opener::new();
        let wanted = |json: &[u8]| names.iter().any(|name| has_name(json, name));
        let page0 = space.sound(0, &mut opener)?;
        let described = sdi::read(space, &page0, &mut opener).ok_or("it does not describe itself")?;
        if let Some(why) = described.broken {
            return Err(format!("its description of itself cannot be read completely: {why}"));
        }
        let own = described.objects.iter().filter(|(kind, json)| *kind == SdiKind::Table && wanted(json));
        let tables = own.filter_map(|(_, json)| from_sdi(json).ok());
        let definitions = tables.map(|table| (table.name.clone(), table)).collect();
        Ok(Self { space, definitions, opener, newest_transaction: 0, counters: Counters::default() })
    }

    fn each(&mut self, name: &str, take: impl FnMut(&DictionaryRow<'_>) -> Result<(), String>) -> Result<(), String> {
        self.rows(name, Which::Present, take)
    }

    fn rows(
        &mut self,
        name: &str,
        which: Which,
        mut take: impl FnMut(&DictionaryRow<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let definition = self.definitions.get(name).ok_or_else(|| format!("it does not describe its table {name}"))?;
        let table = DictionaryTable::new(self.space, definition);
        let newest = &mut self.newest_transaction;
        table.ok_or_else(|| format!("its table {name} has no root"))?.each(&mut self.opener, which, |row| {
            *newest = row.transaction().unwrap_or(0).max(*newest);
            take(row)
        })
    }

    /// InnoDB's tablespaces, by space id.
    fn tablespaces(&mut self, root: &Path) -> Result<BTreeMap<u64, Entry>, String> {
        let (mut numbers, mut entries) = (HashMap::new(), BTreeMap::new());
        self.each("tablespaces", |row| {
            let number = row.option("se_private_data", "id");
            let (Some(id), Some(number)) = (row.id("id"), number) else { return Ok(()) };
            if row.text("engine").is_none_or(|engine| !engine.eq_ignore_ascii_case("InnoDB")) {
                return Ok(());
            }
            let state = row.text_option("se_private_data", "state").unwrap_or_default();
            let name = row.text("name").unwrap_or_default();
            let holds = holds(number, &name);
            let is_discarded = state == "discarded";
            numbers.insert(id, number);
            let space = u32::try_from(number).unwrap_or(u32::MAX);
            entries.insert(number, Entry { is_discarded, ..Entry::new(name, space, holds) });
            Ok(())
        })?;
        self.each("tablespace_files", |row| {
            let number = row.id("tablespace_id").and_then(|id| numbers.get(&id));
            let entry = number.and_then(|number| entries.get_mut(number));
            if let (Some(entry), Some(file)) = (entry, row.text("file_name")) {
                let file = place(root, &file);
                let inside = moved_in(root, entry.space, &file);
                entry.twin = inside.is_some().then(|| file.clone()).filter(|file| is_space(file, entry.space));
                entry.original = inside.is_some().then(|| file.clone());
                entry.files.push(inside.unwrap_or(file));
            }
            Ok(())
        })?;
        Ok(entries)
    }

    /// Counters that have changed since their tables were defined. Without them nothing is said about counters.
    fn dynamic_metadata(&mut self) {
        let mut counters = std::mem::take(&mut self.counters);
        let newest = self.newest_transaction;
        let read = self.each("innodb_dynamic_metadata", |row| {
            let table = row.id("table_id").and_then(|id| counters.tables.get(&id)).cloned();
            if let Some(table) = table {
                counters.raise(&table, row.bytes("metadata").and_then(counter_in));
            }
            Ok(())
        });
        // InnoDB writes these rows without a transaction.
        self.newest_transaction = newest;
        self.counters = if read.is_ok() { counters } else { Counters::default() };
    }

    fn ddl_steps(&mut self, root: &Path) -> Result<Vec<DdlStep>, String> {
        let mut steps = Vec::new();
        self.rows("innodb_ddl_log", Which::WithDeleted, |row| {
            let paths = ["old_file_path", "new_file_path"].into_iter().filter_map(|column| row.text(column));
            // Stored with C's terminating zero.
            let files = paths.map(|path| place(root, path.trim_end_matches('\0'))).collect();
            let transaction = row.transaction().unwrap_or(0);
            steps.push(DdlStep { space: row.number("space_id"), files, transaction, is_deleted: row.is_deleted });
            Ok(())
        })?;
        Ok(steps)
    }

    fn tables(&mut self) -> Result<HashMap<u64, Piece>, String> {
        let mut schemas = HashMap::new();
        self.each("schemata", |row| {
            schemas.extend(row.id("id").zip(row.text("name")));
            Ok(())
        })?;
        let (mut pieces, mut counters) = (HashMap::new(), Counters::default());
        self.each("tables", |row| {
            let schema = row.id("schema_id").and_then(|id| schemas.get(&id)).map_or("?", String::as_str);
            let (Some(id), Some(name)) = (row.id("id"), row.text("name")) else { return Ok(()) };
            let is_intermediate = row.choice("hidden") == Some(HIDDEN_DDL) || name.starts_with("#sql");
            let is_discarded = row.option("se_private_data", "discard") == Some(1);
            let name: Arc<str> = format!("{schema}.{name}").into();
            counters.tables.extend(row.id("se_private_id").map(|id| (id, Arc::clone(&name))));
            counters.raise(&name, row.option("se_private_data", "autoinc"));
            pieces.insert(id, Piece { name, is_intermediate, is_discarded });
            Ok(())
        })?;
        self.counters = counters;
        Ok(pieces)
    }

    fn partitions(&mut self, tables: &HashMap<u64, Piece>) -> Result<HashMap<u64, Piece>, String> {
        let (mut parents, mut parts, mut numbers) = (HashMap::new(), HashMap::new(), Vec::new());
        self.each("table_partitions", |row| {
            let (Some(id), Some(name)) = (row.id("id"), row.text("name")) else { return Ok(()) };
            let Some(table) = row.id("table_id").and_then(|id| tables.get(&id)) else { return Ok(()) };
            parents.insert(id, row.id("parent_partition_id"));
            numbers.extend(row.id("se_private_id").map(|id| (id, Arc::clone(&table.name))));
            let is_discarded = table.is_discarded || row.option("se_private_data", "discard") == Some(1);
            parts.insert(id, (name, table, is_discarded));
            Ok(())
        })?;
        self.counters.tables.extend(numbers);
        let name_of = |id: u64| {
            let (name, table, _) = parts.get(&id)?;
            let parent = parents.get(&id).copied().flatten().and_then(|id| parts.get(&id));
            let above = parent.map(|(parent, ..)| format!("{parent}#")).unwrap_or_default();
            Some(format!("{} partition {above}{name}", table.name))
        };
        let piece = |(id, (_, table, is_discarded)): (&u64, &(String, &Piece, bool))| {
            let (is_intermediate, is_discarded) = (table.is_intermediate, *is_discarded);
            Some((*id, Piece { name: name_of(*id)?.into(), is_intermediate, is_discarded }))
        };
        Ok(parts.iter().filter_map(piece).collect())
    }
}

fn holds(number: u64, name: &str) -> Holds {
    match number {
        0 => Holds::System,
        DICTIONARY => Holds::Dictionary,
        TEMPORARY => Holds::Temporary,
        number if number >= UNDO_MIN => Holds::Undo,
        // A tablespace of a single table or partition is named after its file.
        _ if name.contains('/') => Holds::Table,
        _ => Holds::Several,
    }
}

/// The file inside the datadir of a tablespace whose file is outside by the dictionary. This is a copy in which it was moved inside: a
/// server takes the file that it finds, and notes its place.
fn moved_in(root: &Path, space: u32, file: &Path) -> Option<PathBuf> {
    if file.starts_with(root) {
        return None;
    }
    places_inside(file).map(|place| root.join(place)).find(|path| is_space(path, space))
}

fn is_space(path: &Path, space: u32) -> bool {
    let head = File::open(path).and_then(|file| read_up_to(&file, 0, FIL_PAGE_SPACE_ID + 4));
    head.is_ok_and(|head| be::u32_at(&head, FIL_PAGE_SPACE_ID) == Some(space))
}

/// The file for the dictionary's `name`, in the datadir `root`.
fn place(root: &Path, name: &str) -> PathBuf {
    // Windows servers write backslashes; a Linux server accepts them too.
    let name = name.replace('\\', "/");
    let path = Path::new(&name);
    let path = path.strip_prefix("./").unwrap_or(path);
    // System tablespace names come from `innodb_data_file_path`, options and all.
    let path = match NameHint::of(path) {
        NameHint::System(_) => path.file_name().map_or(path, Path::new),
        _ => path,
    };
    root.join(path)
}
