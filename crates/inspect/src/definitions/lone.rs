//! Definitions for tablespaces missing from every dictionary: from the caller's `CREATE TABLE` statement, from pages of a broken
//! dictionary, or from a `.frm` file whose `ibdata1` is lost. They do not tell where the rows are; the pages do.
//!
//! ```text
//! definition -> the oldest index of the file -> its root, or only its leaves -> do the records have these fields? -> Definitions
//! ```
//!
//! The clustered index is the first one created in a file, so it has the lowest id. The definition is not taken on trust: with it, the
//! records of the first leaves must fill their pages to the byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::fil::PageType;
use format::page::index::IndexPage;
use format::record::{Instant, RecordFields};
use format::schema::filename::partition_name;
use format::schema::frm::from_frm;
use format::schema::sql::from_sql;
use format::schema::{IndexDef, IndexRoot, PartitionDef, TableDef};
use format::{Family, PageNo};

use crate::definitions::known::know;
use crate::definitions::{Definitions, FRM_MAX};
use crate::tree::Root;
use datadir::Error;
use datadir::name::decoded;
use datadir::reading::read_small;
use datadir::tablespace::{Opener, Tablespace, sdi};

/// Longer than any dump of table definitions alone.
const SQL_MAX: u64 = 256 << 20;
/// Leaves tried: a wrong definition fails on the first one with rows.
const LEAVES_TRIED: usize = 8;
/// No tree has more levels.
const LEVELS_MAX: usize = 32;

/// The caller's statements for tablespaces without a definition.
#[derive(Debug, Clone)]
pub struct Statements {
    path: PathBuf,
    sql: String,
}

pub(crate) struct Found {
    pub table: Arc<TableDef>,
    /// Where it came from, as a clause.
    pub from: String,
}

impl Statements {
    /// Reads a file of statements.
    ///
    /// # Errors
    /// It cannot be read, or is not text.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Io { path: path.to_path_buf(), action: "reading the statements", source };
        let bytes = read_small(path, SQL_MAX).map_err(failed)?;
        let sql = String::from_utf8(bytes)
            .map_err(|_| Error::Unusable { path: path.to_path_buf(), why: "is not UTF-8".to_owned() })?;
        Ok(Self { path: path.to_path_buf(), sql })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The definition that the statements give for a tablespace, and the statement.
    ///
    /// # Errors
    /// There is none, it is not supported, or the rows do not match it; as a clause.
    pub(crate) fn define(
        &self,
        space: &Tablespace,
        into: &mut Definitions,
        opener: &mut Opener,
    ) -> Result<(Found, String), String> {
        let names = Names::of(space);
        let path = self.path.display();
        let parsed = from_sql(&self.sql, space.format.family(), (&names.schema, &names.table));
        let parsed = parsed.map_err(|why| format!("{path}: {why}"))?;
        let mut table = parsed.table;
        // This matters for JSON, which MySQL 5.7 checksums differently. Without page 0 the version is unknown.
        let is_old = space.header.is_some() && !space.has_dictionary_information();
        table.server_version = if is_old { 50_700 } else { 80_000 };
        let table = place(space, table, &names, into, opener).map_err(|why| format!("{path} does not fit: {why}"))?;
        Ok((Found { table, from: format!("its definition is from {path}") }, parsed.statement))
    }
}

/// Names of a tablespace, from its path.
struct Names {
    /// The database.
    schema: String,
    table: String,
    partition: Option<String>,
    /// The table name in file name spelling.
    stem: String,
}

impl Names {
    fn of(space: &Tablespace) -> Self {
        let text =
            |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = text(space.path().file_stem());
        let (stem, partition) = match ["#P#", "#p#"].iter().find_map(|mark| stem.split_once(mark)) {
            Some((table, part)) => (table.to_owned(), Some(partition_name(part))),
            None => (stem, None),
        };
        Self {
            schema: decoded(&text(space.path().parent().and_then(Path::file_name))),
            table: decoded(&stem),
            partition,
            stem,
        }
    }
}

/// What a broken dictionary still has for a tablespace: SDI leaves, or the `.frm` file beside it.
pub(crate) fn remains(
    space: &Tablespace,
    into: &mut Definitions,
    opener: &mut Opener,
) -> Option<Result<Found, String>> {
    if space.format.family() == Family::MySql
        && let Some(found) = from_leaves(space, into, opener)
    {
        return Some(Ok(found));
    }
    let names = Names::of(space);
    let path = space.path().with_file_name(format!("{}.frm", names.stem));
    let bytes = read_small(&path, FRM_MAX).ok()?;
    // Only the lost dictionary knew whether rows keep a hidden document id from dropped full-text indexes: try both.
    let mut why = None;
    for has_doc_id in [false, true] {
        let table = match from_frm(&bytes, has_doc_id) {
            Ok(table) => table,
            Err(error) => return Some(Err(format!("{}: {error}", path.display()))),
        };
        match place(space, table, &names, into, opener) {
            Ok(table) => {
                let from = format!("no dictionary names it: its definition is from {}", path.display());
                return Some(Ok(Found { table, from }));
            }
            Err(error) => why = Some(format!("{} does not fit: {error}", path.display())),
        }
    }
    why.map(Err)
}

/// Uses every sound SDI leaf, wherever it is: page 0 or the pages above are lost.
fn from_leaves(space: &Tablespace, into: &mut Definitions, opener: &mut Opener) -> Option<Found> {
    let mut tables = sdi::tables_in_leaves(space, opener);
    let first = Arc::new(tables.pop()?);
    for table in tables.into_iter().map(Arc::new) {
        into.add_own(space, &table);
    }
    into.add_own(space, &first);
    let from = "its definition is from leaves of its dictionary information (SDI) found by searching the whole file";
    Some(Found { table: first, from: from.to_owned() })
}

/// Finds the rows of `table` in a tablespace that holds no other table, and adds it to the definitions.
fn place(
    space: &Tablespace,
    table: TableDef,
    names: &Names,
    into: &mut Definitions,
    opener: &mut Opener,
) -> Result<Arc<TableDef>, String> {
    let table = TableDef { schema: names.schema.clone(), name: names.table.clone(), ..table };
    let (mut empty, mut why) = (None, None);
    for place in candidates(space, opener) {
        let table = Arc::new(rooted(table.clone(), names.partition.as_deref(), &place));
        match fits(space, &table, &place, opener) {
            Ok(0) => empty = empty.or(Some(table)),
            Ok(_) => {
                into.add_own(space, &table);
                return Ok(table);
            }
            // The oldest index is the most likely one, so report its error.
            Err(error) => why = why.or(Some(error)),
        }
    }
    match (empty, why) {
        (Some(table), None) => {
            into.add_own(space, &table);
            Ok(table)
        }
        (_, why) => Err(why.unwrap_or_else(|| "no index page can be read".to_owned())),
    }
}

/// The definition with its root set.
fn rooted(mut table: TableDef, part: Option<&str>, place: &Clustered) -> TableDef {
    let root = IndexRoot { id: place.id, space: None, root: PageNo(place.root) };
    match part {
        Some(part) => {
            let mut roots: Vec<Option<IndexRoot>> = table.indexes.iter().map(|_| None).collect();
            roots.iter_mut().take(1).for_each(|first| *first = Some(root));
            table.partitions = vec![PartitionDef { name: part.to_owned(), roots, instant: Instant::None }];
        }
        None => table.indexes.iter_mut().take(1).for_each(|first| first.root = Some(root)),
    }
    table
}

/// Where the rows may be.
struct Clustered {
    id: u64,
    root: u32,
    /// Leaves, if the root cannot be used to find them.
    leaves: Vec<u32>,
}

/// What a search of all pages has seen of an index.
#[derive(Default)]
struct Seen {
    top: Option<(u16, u32)>,
    leaves: Vec<u32>,
}

/// The indexes of a tablespace, oldest first: from the roots if the first one is sound, otherwise from all pages.
fn candidates(space: &Tablespace, opener: &mut Opener) -> Vec<Clustered> {
    let known = know(space, &Definitions::default(), opener);
    let mut roots: Vec<&Root> = known.roots.iter().filter(|root| root.page_type != PageType::SDI).collect();
    roots.sort_by_key(|root| root.index_id);
    let first = if space.has_dictionary_information() { 4 } else { 3 };
    let is_whole = roots.first().is_some_and(|root| root.page_no == first)
        && roots.iter().all(|root| space.sound(root.page_no, opener).is_ok());
    if is_whole {
        let place = |root: &&Root| Clustered { id: root.index_id, root: root.page_no, leaves: Vec::new() };
        return roots.iter().map(place).collect();
    }
    let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
    // A free page may still belong to a dropped index, so skip those.
    let pages: Vec<u32> = (1..space.pages()).filter(|page_no| known.map.is_free(*page_no) != Some(true)).collect();
    space.each_stored(&pages, |page_no, stored| {
        let Ok(image) = stored.and_then(|stored| space.opened(page_no, stored, opener)) else { return };
        let Ok(page) = IndexPage::parse(&image, &space.format) else { return };
        if page.page_type() == PageType::SDI {
            return;
        }
        let index = seen.entry(page.index_id()).or_default();
        // A root has no siblings.
        if page.prev().is_none() && page.next().is_none() && index.top.is_none_or(|(level, _)| level < page.level()) {
            index.top = Some((page.level(), page_no));
        }
        if page.is_leaf() && index.leaves.len() < LEAVES_TRIED {
            index.leaves.push(page_no);
        }
    });
    // If no page looks like a root, report the page where servers put the clustered index as lost.
    let place = |(id, seen): (u64, Seen)| Clustered {
        id,
        root: seen.top.map_or(first, |(_, page_no)| page_no),
        leaves: seen.leaves,
    };
    seen.into_iter().map(place).collect()
}

/// How many records of the first leaves match the definition: the fields of all of them must fill each page's heap exactly.
fn fits(space: &Tablespace, table: &Arc<TableDef>, place: &Clustered, opener: &mut Opener) -> Result<usize, String> {
    let mut own = Definitions::default();
    own.add_own(space, table);
    let described = own.in_space(space).into_iter().next().ok_or("it defines no rows")?;
    let known = know(space, &own, opener);
    let root = known.roots.iter().find(|root| root.index_id == place.id && root.page_no == place.root);
    let named = root.and_then(|root| own.named(space, root, &known.map, opener));
    let index = named.and_then(|named| named.index).unwrap_or(described.index);
    let leaves =
        if place.leaves.is_empty() { first_leaves(space, place.root, &index, opener) } else { place.leaves.clone() };
    let mut records = 0;
    for page_no in leaves {
        records += leaf_fits(space, page_no, &index, opener)?;
    }
    Ok(records)
}

fn first_leaves(space: &Tablespace, root: u32, index: &IndexDef, opener: &mut Opener) -> Vec<u32> {
    let (mut page_no, mut fields, mut leaves) = (root, RecordFields::new(), Vec::new());
    for _ in 0..LEVELS_MAX + LEAVES_TRIED {
        let Ok(image) = space.sound(page_no, opener) else { break };
        let Ok(page) = IndexPage::parse(&image, &space.format) else { break };
        let next = if page.is_leaf() {
            leaves.push(page_no);
            page.next()
        } else {
            let first = page.records().next().and_then(Result::ok);
            first.filter(|first| index.layout.locate(first, &mut fields).is_ok()).and_then(|_| fields.child())
        };
        match next.filter(|_| leaves.len() < LEAVES_TRIED) {
            Some(PageNo(next)) => page_no = next,
            None => break,
        }
    }
    leaves
}

/// How many records of the leaf match the index.
fn leaf_fits(space: &Tablespace, page_no: u32, index: &IndexDef, opener: &mut Opener) -> Result<usize, String> {
    // A damaged leaf is reported when its rows are read.
    let Ok(image) = space.sound(page_no, opener) else { return Ok(0) };
    let Ok(page) = IndexPage::parse(&image, &space.format) else { return Ok(0) };
    // Only secondary index leaves have a max trx id; MariaDB keeps AUTO_INCREMENT in that field of the clustered root.
    if page.max_trx_id() != 0 && page.prev().is_some() {
        return Err(format!("page {page_no} is of a secondary index"));
    }
    let (mut fields, mut bytes, mut records) = (RecordFields::new(), 0, 0);
    for record in page.records() {
        let Ok(record) = record else { return Ok(records) };
        let located = index.layout.locate(&record, &mut fields);
        located.map_err(|why| format!("page {page_no}, record at byte {}: {why}", record.origin()))?;
        bytes += fields.size();
        records += usize::from(!record.is_metadata());
    }
    let used = page.heap_top().saturating_sub(page.style().heap_start()).saturating_sub(page.garbage());
    if bytes == usize::from(used) {
        return Ok(records);
    }
    Err(format!("the columns take {bytes} bytes of the records of page {page_no}, but the records have {used}"))
}
