//! `paths -> Inventory -> SDI of each tablespace, .frm files beside the others -> foreign keys and counters of ibdata1 -> SchemaReport`
//!
//! Definitions are read, not guessed: what the source lacks is named in [`TableSchema::missing`].

mod dictionary;
mod frm;
mod triggers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datadir::Outcome;
use format::Family;
use format::schema::TableDef;
use format::show_create::{create_table, missing};
use serde::Serialize;

use self::dictionary::Dictionary;
pub use self::triggers::{TableTriggers, Trigger, triggers};
use crate::definitions::lone::{self, Statements};
use crate::definitions::{Definitions, own_definitions};
use crate::table::{groups, open};
use datadir::inventory::Inventory;
use datadir::keys::KeyFiles;
use datadir::name::frm_beside;
use datadir::selection::Selection;
use datadir::tablespace::{Opener, Tablespace};
use datadir::{Error, catalog, fault, files};

/// Which definitions to read.
#[derive(Clone, Debug, Default)]
pub struct SchemaOptions {
    /// Key files.
    pub keys: KeyFiles,
    /// Logical page size in bytes; overrides what the files say.
    pub page_size: Option<u32>,
    /// Of directories, only these tables.
    pub selection: Selection,
    /// A file of `CREATE TABLE` statements for tablespaces without a definition.
    pub create_table: Option<PathBuf>,
}

/// The definition of a table.
#[derive(Clone, Debug, Serialize)]
pub struct TableSchema {
    /// The database; empty if the source does not tell.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The server that wrote the definition: `mysql` or `mariadb`.
    pub server: &'static str,
    /// Its version as a number: 90704 is MySQL 9.7.4.
    pub server_version: u32,
    /// The file with the definition.
    pub source: PathBuf,
    /// The statement.
    pub create_table: String,
    /// What it says; `None` for a statement that the caller gave.
    #[serde(skip)]
    pub definition: Option<Box<TableDef>>,
    /// What the source lacks.
    pub missing: Vec<String>,
}

/// A file whose definition could not be read.
#[derive(Clone, Debug, Serialize)]
pub struct UnreadSchema {
    /// The file.
    pub path: PathBuf,
    /// Why, as a clause.
    pub why: String,
}

/// All definitions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SchemaReport {
    /// By database and name.
    pub tables: Vec<TableSchema>,
    /// Files that could not be read.
    pub unread: Vec<UnreadSchema>,
}

impl TableSchema {
    /// Whether it is a sequence of MariaDB.
    #[must_use]
    pub fn is_sequence(&self) -> bool {
        self.definition.as_ref().is_some_and(|definition| definition.declared.is_sequence)
    }

    /// Foreign keys that are known.
    #[must_use]
    pub fn foreign_keys(&self) -> usize {
        let keys = self.definition.as_ref().and_then(|definition| definition.declared.foreign_keys.as_ref());
        keys.map_or(0, Vec::len)
    }
}

impl SchemaReport {
    /// 0 if everything was read; 2 if something was not, or there was nothing to read.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        Outcome::of(false, !self.unread.is_empty() || self.tables.is_empty()).exit_status()
    }
}

/// Definitions found so far, by database, name and file.
type Found = BTreeMap<(String, String, PathBuf), TableDef>;

/// Reads the definitions of the tables in `paths`.
///
/// # Errors
/// Keys that cannot be read. What is damaged or missing is in the report.
pub fn schema(paths: &[PathBuf], options: &SchemaOptions) -> Result<SchemaReport, Error> {
    let keys = options.keys.read()?;
    let statements = options.create_table.as_deref().map(Statements::read).transpose()?;
    let (frms, others): (Vec<PathBuf>, Vec<PathBuf>) = paths.iter().cloned().partition(|path| frm::is_frm(path));
    let mut inventory = Inventory::take_selected(&others, &options.selection);
    let mut report = SchemaReport::default();
    let mut found = Found::new();
    let mut given = Vec::new();
    let mut wanted: Vec<PathBuf> = frms;
    for path in others.iter().filter(|path| files::is_dir(path)) {
        wanted.extend(frm::below(path, &options.selection));
    }
    let mut opener = Opener::new();
    catalog::add_outside(&mut inventory, &keys);
    for files in groups(&mut inventory) {
        let home = files.first().map(|file| file.home().to_path_buf()).unwrap_or_default();
        let (path, opened) = open(&files, (&keys, options.page_size), &mut opener);
        match opened {
            Ok(space) => {
                let failed = of_space(&space, &path, &mut opener, (&mut found, &mut wanted), &mut report);
                let failed = failed.filter(|_| is_tablespace_of_table(&path));
                given.extend(failed.and_then(|why| {
                    otherwise(&space, statements.as_ref(), &mut opener, &mut report).or_else(|| {
                        report.unread.push(UnreadSchema { path, why });
                        None
                    })
                }));
            }
            Err(why) => match frm_beside(&home).filter(|beside| files::is_file(beside)) {
                // Encrypted or damaged, but there is a definition beside it.
                Some(beside) => wanted.push(beside),
                None if is_tablespace_of_table(&path) => report.unread.push(UnreadSchema { path, why }),
                // The report on each table names what the missing system tablespace would have added.
                None => {}
            },
        }
    }
    report
        .unread
        .extend(inventory.failed.into_iter().map(|passed| UnreadSchema { path: passed.path, why: passed.why }));
    wanted.sort();
    wanted.dedup();
    let mut dictionaries: BTreeMap<PathBuf, Option<Dictionary>> = BTreeMap::new();
    for path in wanted {
        let datadir = path.parent().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
        let dictionary =
            dictionaries.entry(datadir).or_insert_with_key(|datadir| Dictionary::read(datadir, &keys, &mut opener));
        match frm::read(&path, dictionary.as_ref()) {
            Ok(Some(table)) => drop(found.insert((table.schema.clone(), table.name.clone(), path), table)),
            Ok(None) => {}
            Err(why) => report.unread.push(UnreadSchema { path, why }),
        }
    }
    for missed in fault::noted().into_iter().chain(fault::noted_parts()) {
        if !report.unread.iter().any(|unread| unread.path == missed.path) {
            report.unread.push(UnreadSchema { path: missed.path, why: missed.why });
        }
    }
    let named: Vec<&PathBuf> = paths.iter().filter(|path| files::is_file(path)).collect();
    let chosen = found
        .into_iter()
        .filter(|((.., source), table)| is_wanted(table, &options.selection, (source, named.contains(&source))));
    report.tables = chosen.map(|((schema, table, source), def)| shown(schema, table, source, &def)).collect();
    let given = given.into_iter().filter(|(_, table)| is_wanted(table, &options.selection, (Path::new(""), true)));
    report.tables.extend(given.map(|(schema, _)| schema));
    report.tables.sort_by(|a, b| (&a.schema, &a.table, &a.source).cmp(&(&b.schema, &b.table, &b.source)));
    Ok(report)
}

/// Schemas whose tables every server creates for itself.
const OF_THE_SERVER: [&str; 4] = ["mysql", "sys", "performance_schema", "information_schema"];

/// Include the server's own tables only if their file, or they themselves, are named.
fn is_wanted(table: &TableDef, selection: &Selection, (source, is_named): (&Path, bool)) -> bool {
    let is_own = table.declared.is_hidden || OF_THE_SERVER.contains(&table.schema.as_str());
    // A file goes by its own name, and a tablespace of several tables by theirs.
    let is_selected = selection.has(&table.schema, &table.name) || selection.has_file(source);
    is_selected && (!is_own || is_named || selection.is_by_name())
}

/// A definition from the remains of a broken dictionary, or from the caller's statements.
fn otherwise(
    space: &Tablespace,
    statements: Option<&Statements>,
    opener: &mut Opener,
    report: &mut SchemaReport,
) -> Option<(TableSchema, Arc<TableDef>)> {
    let mut into = Definitions::default();
    let unread = |why: String| UnreadSchema { path: space.path().to_path_buf(), why };
    let from_leaves = lone::remains(space, &mut into, opener).and_then(Result::ok);
    if let Some(found) = from_leaves {
        report.unread.push(unread(found.from));
        let source = space.path().to_path_buf();
        let table = &found.table;
        return Some((shown(table.schema.clone(), table.name.clone(), source, table), found.table));
    }
    match statements?.define(space, &mut into, opener) {
        Ok((found, statement)) => {
            let table = &found.table;
            let source = statements?.path().to_path_buf();
            let mut schema = shown(table.schema.clone(), table.name.clone(), source, table);
            schema.create_table = statement;
            schema.definition = None;
            schema.missing =
                vec![format!("the definition: the rows of {} fit the statement below", space.path().display())];
            schema.server_version = 0;
            Some((schema, found.table))
        }
        Err(why) => {
            report.unread.push(unread(why));
            None
        }
    }
}

/// Collects the definitions in a tablespace, or the path of the `.frm` file beside it. Returns why there are none, as a clause.
fn of_space(
    space: &Tablespace,
    path: &Path,
    opener: &mut Opener,
    (found, wanted): (&mut Found, &mut Vec<PathBuf>),
    report: &mut SchemaReport,
) -> Option<String> {
    if space.has_dictionary_information() {
        let unread = |why: String| UnreadSchema { path: path.to_path_buf(), why };
        let Some((tables, broken)) = own_definitions(space, opener) else {
            return Some("its dictionary information (SDI) cannot be read: innokit check says why".to_owned());
        };
        let is_lost = tables.is_empty();
        for table in tables {
            match table {
                Ok(table) => {
                    let key = (table.schema.clone(), table.name.clone(), path.to_path_buf());
                    found.insert(key, table);
                }
                Err(error) => report.unread.push(unread(error.to_string())),
            }
        }
        let broken = broken.map(|why| format!("its dictionary information (SDI) ends early: {why}"));
        if is_lost {
            return broken;
        }
        report.unread.extend(broken.map(unread));
    } else if let Some(beside) = frm_beside(space.home()) {
        if files::is_file(&beside) {
            wanted.push(beside);
        } else {
            return Some(format!("it holds no definition, and {} does not exist", beside.display()));
        }
    }
    None
}

/// Whether the file should hold a table that its server shows: not a system or undo tablespace, nor a part of a full-text index.
fn is_tablespace_of_table(path: &Path) -> bool {
    let is_part = path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem.starts_with("FTS_0"));
    path.extension().is_some_and(|extension| extension == "ibd") && !is_part
}

fn shown(schema: String, table: String, source: PathBuf, def: &TableDef) -> TableSchema {
    let server = match def.family {
        Family::MySql => "mysql",
        Family::MariaDb => "mariadb",
    };
    TableSchema {
        schema,
        table,
        server,
        server_version: def.server_version,
        source,
        create_table: create_table(def),
        definition: Some(Box::new(def.clone())),
        missing: missing(def),
    }
}
