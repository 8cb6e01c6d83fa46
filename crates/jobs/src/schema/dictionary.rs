//! What `ibdata1` knows of tables that their `.frm` files do not: foreign keys, and where the counter of a table lies.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use flow::FileId;
use format::PageNo;
use format::keyring::KeyStore;
use format::page::index::IndexPage;
use format::record::{RecordFields, redundant};
use format::schema::declared::ForeignKey;
use format::schema::dictionary::{DICT_HDR_PAGE_NO, DictionaryRoots, SysForeign, SysForeignColumn, SysIndex, SysTable};
use format::schema::frm::DOC_ID_INDEX;

use crate::source::name::decoded;
use crate::table::definitions::leaves;
use crate::tree::{Opener, Tablespace};

/// Of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// It numbers its rows for full-text indexes.
    pub has_doc_id: bool,
    /// The next number of its AUTO_INCREMENT column.
    pub next_auto_increment: Option<u64>,
}

/// The dictionary of a datadir.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    tables: HashMap<String, Known>,
    /// By the name of the table that has them; `None` where not all of them could be read.
    foreign: Option<BTreeMap<String, Vec<ForeignKey>>>,
}

impl Dictionary {
    /// Reads the dictionary of `datadir`; `None` where there is none.
    pub fn read(datadir: &Path, keys: &KeyStore, opener: &mut Opener) -> Option<Self> {
        let file = |path: PathBuf| {
            let len = std::fs::metadata(&path).ok()?.len();
            Some((path, FileId(0), len))
        };
        let first = file(datadir.join("ibdata1"))?;
        let more = (2..100).map_while(|number| file(datadir.join(format!("ibdata{number}"))));
        let files: Vec<(PathBuf, FileId, u64)> = std::iter::once(first).chain(more).collect();
        let system = Tablespace::open(&files, keys, None).ok()?;
        let page = system.sound(DICT_HDR_PAGE_NO.0, opener).ok()?;
        let roots = DictionaryRoots::read(&page)?;
        let tables = leaves(&system, roots.tables, opener, SysTable::read);
        let mut indexes: HashMap<u64, Vec<SysIndex>> = HashMap::new();
        for index in leaves(&system, roots.indexes, opener, SysIndex::read) {
            indexes.entry(index.table_id).or_default().push(index);
        }
        let foreign = read_foreign(&system, &tables, &indexes, opener);
        let mut dictionary = Self { foreign, ..Self::default() };
        for table in tables {
            let own = indexes.get(&table.id).map_or(&[][..], Vec::as_slice);
            let whole = table.name.split(['#']).next().unwrap_or(&table.name).to_owned();
            let counter = own
                .iter()
                .find(|index| index.kind & 1 == 1)
                .and_then(|index| next_number(datadir, (&system, &table), index, keys, opener));
            let known = dictionary.tables.entry(whole).or_default();
            known.has_doc_id |= own.iter().any(|index| index.name == DOC_ID_INDEX);
            // Each partition has a counter of its own; the greatest is the table's.
            known.next_auto_increment = known.next_auto_increment.max(counter);
        }
        Some(dictionary)
    }

    /// What is known of the table `database/table`, both as their files are called.
    pub fn table(&self, name: &str) -> Option<Known> {
        self.tables.get(name).cloned()
    }

    /// Its foreign keys, if they are known.
    pub fn foreign_keys(&self, name: &str) -> Option<Vec<ForeignKey>> {
        self.foreign.as_ref().map(|foreign| foreign.get(name).cloned().unwrap_or_default())
    }
}

/// The foreign keys of all tables; `None` where one of their trees is damaged, for then any table may have more of them.
fn read_foreign(
    system: &Tablespace,
    tables: &[SysTable],
    indexes: &HashMap<u64, Vec<SysIndex>>,
    opener: &mut Opener,
) -> Option<BTreeMap<String, Vec<ForeignKey>>> {
    let root = |name: &str| {
        let table = tables.iter().find(|table| table.name == name)?;
        indexes.get(&table.id)?.iter().find(|index| index.kind & 1 == 1).map(|index| index.root.root)
    };
    let (keys, columns) = (root("SYS_FOREIGN")?, root("SYS_FOREIGN_COLS")?);
    if !(is_whole(system, keys, opener) && is_whole(system, columns, opener)) {
        return None;
    }
    let mut by_key: HashMap<String, Vec<SysForeignColumn>> = HashMap::new();
    for column in leaves(system, columns, opener, SysForeignColumn::read) {
        by_key.entry(column.key.clone()).or_default().push(column);
    }
    let mut foreign: BTreeMap<String, Vec<ForeignKey>> = BTreeMap::new();
    for key in leaves(system, keys, opener, SysForeign::read) {
        let mut columns = by_key.remove(&key.id).unwrap_or_default();
        columns.sort_by_key(|column| column.position);
        let (schema, table) = key.other_table.split_once('/').unwrap_or(("", &key.other_table));
        // Names that the server gives begin with the database; those of users may do without.
        let name = key.id.split_once('/').map_or(key.id.as_str(), |(_, name)| name);
        foreign.entry(key.table.clone()).or_default().push(ForeignKey {
            name: name.to_owned(),
            columns: columns.iter().map(|column| column.column.clone()).collect(),
            other_schema: decoded(schema),
            other_table: decoded(table),
            other_columns: columns.iter().map(|column| column.other_column.clone()).collect(),
            on_delete: key.on_delete,
            on_update: key.on_update,
        });
    }
    Some(foreign)
}

/// Whether every leaf of a REDUNDANT tree can be read.
fn is_whole(space: &Tablespace, root: PageNo, opener: &mut Opener) -> bool {
    let (mut number, mut fields) = (Some(root), RecordFields::new());
    // No list of pages is longer than the tablespace.
    for _ in 0..space.pages() {
        let Some(at) = number else { return true };
        let Ok(image) = space.sound(at.0, opener) else { return false };
        let Ok(page) = IndexPage::parse(&image, &space.format) else { return false };
        number = page.next();
        if !page.is_leaf() {
            let Some(Ok(first)) = page.records().next() else { return false };
            number = redundant::locate_stored(&first, &mut fields).ok().and_then(|()| fields.child());
            if number.is_none() {
                return false;
            }
        } else if page.records().any(|record| record.is_err()) {
            return false;
        }
    }
    false
}

/// MariaDB keeps the last number given on the root page of the rows.
fn next_number(
    datadir: &Path,
    (system, table): (&Tablespace, &SysTable),
    index: &SysIndex,
    keys: &KeyStore,
    opener: &mut Opener,
) -> Option<u64> {
    let own;
    let space = if table.space.0 == 0 {
        system
    } else {
        let path = datadir.join(format!("{}.ibd", table.name));
        let len = std::fs::metadata(&path).ok()?.len();
        own = Tablespace::open(&[(path, FileId(0), len)], keys, None).ok()?;
        &own
    };
    let image = space.sound(index.root.root.0, opener).ok()?;
    let page = IndexPage::parse(&image, &space.format).ok()?;
    let last = page.auto_increment(space.format.family()).filter(|last| *last > 0)?;
    (page.index_id() == index.root.id).then(|| last.saturating_add(1))
}
