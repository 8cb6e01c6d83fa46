//! Which index is which: names and fields, from the tablespaces themselves (MySQL 8.0 and later), or from the dictionary in `ibdata1`
//! and the `.frm` files (MariaDB, MySQL up to 5.7).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::FileId;
use format::keyring::KeyStore;
use format::page::index::IndexPage;
use format::page::lob::{LobReader, Reference};
use format::page::sdi::{self, SdiKind, SdiRecord};
use format::record::{Record, RecordFields, redundant};
use format::schema::dictionary::{DICT_HDR_PAGE_NO, DictionaryRoots, SysIndex, SysTable};
use format::schema::frm::{DOC_ID_INDEX, from_frm};
use format::schema::instant::{self, Metadata};
use format::schema::{IndexDef, TableDef, builtin};
use format::{Family, PageNo};

use crate::tree::{Opener, Root, Space, SpaceMap};

/// An index and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    /// `schema.table`, with the partition, if it is one.
    pub table: Option<String>,
    /// Name of the index.
    pub name: Option<String>,
    /// Its fields.
    pub index: Option<IndexDef>,
    /// The whole table.
    pub whole: Option<Arc<TableDef>>,
}

/// Where an index is described, as far as it tells servers apart: a folder, a tablespace, an id.
type Key = (PathBuf, u32, u64);

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    by_key: HashMap<Key, Entry>,
}

#[derive(Debug)]
struct Entry {
    table: String,
    root: u32,
    index: IndexDef,
    whole: Arc<TableDef>,
}

impl Definitions {
    /// Reads what the tablespaces, and the files beside them, say.
    pub fn read<'s>(spaces: impl Iterator<Item = &'s Space> + Clone, keys: &KeyStore) -> Self {
        let mut definitions = Self::default();
        let mut datadirs = BTreeMap::new();
        let mut opener = Opener::new();
        for space in spaces {
            for table in own_tables(space, &mut opener).unwrap_or_default() {
                definitions.add_own(space, &Arc::new(table));
            }
            let has_own = space.header.is_some_and(|header| header.flags & 1 << 14 != 0);
            if space.format.family() == Family::MariaDb || !has_own {
                let folder = folder(space);
                let datadir =
                    if space.format.space().0 == 0 { Some(folder) } else { folder.parent().map(Path::to_path_buf) };
                if let Some(datadir) = datadir {
                    let system = datadirs.entry(datadir).or_insert(None);
                    if space.format.space().0 == 0 {
                        *system = Some(space.clone());
                    }
                }
            }
        }
        for (datadir, system) in datadirs {
            let system = system.or_else(|| {
                let path = datadir.join("ibdata1");
                let len = std::fs::metadata(&path).ok()?.len();
                Space::open(&[(path, FileId(0), len)], keys, None).ok()
            });
            if let Some(system) = system {
                definitions.add_old(&datadir, &system, &mut opener);
            }
        }
        definitions
    }

    fn add_own(&mut self, space: &Space, table: &Arc<TableDef>) {
        for (part, index) in table.trees() {
            let Some(root) = index.root else { continue };
            let part = part.map(|part| format!(" partition {}", part.name)).unwrap_or_default();
            let name = format!("{}.{}{part}", table.schema, table.name);
            let key = (folder(space), root.space.unwrap_or(space.format.space()).0, root.id);
            self.by_key.insert(key, Entry { table: name, root: root.root.0, index, whole: Arc::clone(table) });
        }
    }

    /// The tables of the old dictionary. What is damaged there is a finding of its own, and leaves tables without a name here.
    fn add_old(&mut self, datadir: &Path, system: &Space, opener: &mut Opener) {
        let Some(roots) = system.sound(DICT_HDR_PAGE_NO.0, opener).ok().and_then(|page| DictionaryRoots::read(&page))
        else {
            return;
        };
        let tables = leaves(system, roots.tables, opener, SysTable::read);
        let mut indexes: HashMap<u64, Vec<SysIndex>> = HashMap::new();
        for index in leaves(system, roots.indexes, opener, SysIndex::read) {
            indexes.entry(index.table_id).or_default().push(index);
        }
        for table in tables {
            let whole = table.name.split("#P#").next().unwrap_or(&table.name);
            let frm = std::fs::read(datadir.join(format!("{whole}.frm"))).ok();
            let entries = indexes.get(&table.id).map_or(&[][..], Vec::as_slice);
            let has_doc_id = entries.iter().any(|entry| entry.name == DOC_ID_INDEX);
            let Some(def) = frm.and_then(|frm| from_frm(&frm, has_doc_id).ok()).map(Arc::new) else { continue };
            for entry in entries {
                let Some(index) = def.indexes.iter().find(|index| index.name == entry.name) else { continue };
                let name = table.name.replacen('/', ".", 1).replacen("#P#", " partition ", 1);
                let key = (datadir.to_path_buf(), table.space.0, entry.root.id);
                let index = index.clone().at(entry.root);
                let root = entry.root.root.0;
                self.by_key.insert(key, Entry { table: name, root, index, whole: Arc::clone(&def) });
            }
        }
    }

    fn get(&self, space: &Space, id: u64) -> Option<&Entry> {
        let number = space.format.space().0;
        let folder = folder(space);
        let above = folder.parent().map(Path::to_path_buf);
        [Some(folder), above].into_iter().flatten().find_map(|folder| self.by_key.get(&(folder, number, id)))
    }

    /// The pages that a dictionary has as roots in this tablespace.
    pub fn roots_of(&self, space: &Space) -> Vec<u32> {
        let number = space.format.space().0;
        let folder = folder(space);
        let here = |key: &Key| key.1 == number && (key.0 == folder || Some(key.0.as_path()) == folder.parent());
        let roots: HashSet<u32> =
            self.by_key.iter().filter(|(key, _)| here(key)).map(|(_, entry)| entry.root).collect();
        roots.into_iter().collect()
    }

    /// The index whose root a dictionary has on this page.
    pub fn at_root(&self, space: &Space, page_no: u32) -> Option<(&str, &str)> {
        let number = space.format.space().0;
        let folder = folder(space);
        let here = |key: &Key| key.1 == number && (key.0 == folder || Some(key.0.as_path()) == folder.parent());
        let entry = self.by_key.iter().find(|(key, entry)| here(key) && entry.root == page_no);
        entry.map(|(_, entry)| (entry.table.as_str(), entry.index.name.as_str()))
    }

    /// What is known of the tree that begins at `root`.
    pub fn named(&self, space: &Space, root: &Root, map: &SpaceMap, opener: &mut Opener) -> Option<Named> {
        let page = IndexPage::parse(&root.image, &space.format).ok()?;
        if page.page_type() == format::page::fil::PageType::SDI {
            return Some(Named { table: None, name: Some("SDI".to_owned()), index: builtin::sdi(), whole: None });
        }
        let entry = self.get(space, root.index_id)?;
        // MariaDB's definition does not tell how rows were altered, MySQL's does.
        let index = match page.instant_core() {
            Some(core) if entry.index.is_clustered() => {
                altered(space, (root, map), &entry.whole, &entry.index, core, opener)
            }
            _ => Some(entry.index.clone()),
        };
        let (table, name) = (Some(entry.table.clone()), Some(entry.index.name.clone()));
        Some(Named { table, name, index, whole: Some(Arc::clone(&entry.whole)) })
    }
}

fn folder(space: &Space) -> PathBuf {
    space.path().parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The tables that a tablespace of MySQL 8.0 or later describes itself.
fn own_tables(space: &Space, opener: &mut Opener) -> Option<Vec<TableDef>> {
    let page0 = space.sound(0, opener).ok()?;
    let root = sdi::root(&page0, &space.format)?;
    let index = builtin::sdi()?;
    let (mut tables, mut fields) = (Vec::new(), RecordFields::new());
    let mut number = Some(root);
    for _ in 0..space.pages() {
        let Some(at) = number else { break };
        let image = space.sound(at.0, opener).ok()?;
        let page = IndexPage::parse(&image, &space.format).ok()?;
        number = page.next();
        for record in page.records() {
            let record = record.ok()?;
            index.layout.locate(&record, &mut fields).ok()?;
            if !page.is_leaf() {
                number = fields.child();
                break;
            }
            let object = SdiRecord::read(&record, &fields)?;
            if object.kind == SdiKind::Table && !record.is_deleted() {
                let mut packed = object.packed.to_vec();
                if let Some(reference) = object.reference {
                    packed.extend(value(space, Reference::parse(reference)?, opener)?);
                }
                let json = object.json(&packed).ok()?;
                tables.extend(format::schema::sdi::from_sdi(&json).ok());
            }
        }
    }
    Some(tables)
}

/// An off-page value.
fn value(space: &Space, reference: Reference, opener: &mut Opener) -> Option<Vec<u8>> {
    let mut reader = LobReader::new(reference, space.format.family(), true);
    while let Some(PageNo(number)) = reader.wants() {
        let page = space.sound(number, opener).ok()?;
        reader.take(&page).ok()?;
    }
    Some(reader.into_value())
}

/// What `read` makes of the leaf records of a REDUNDANT tree.
fn leaves<T>(
    space: &Space,
    root: PageNo,
    opener: &mut Opener,
    read: impl Fn(&Record<'_>, &RecordFields) -> Option<T>,
) -> Vec<T> {
    let (mut out, mut fields, mut number) = (Vec::new(), RecordFields::new(), Some(root));
    // No list of pages is longer than the tablespace.
    for _ in 0..space.pages() {
        let Some(image) = number.and_then(|at| space.sound(at.0, opener).ok()) else { break };
        let Ok(page) = IndexPage::parse(&image, &space.format) else { break };
        number = page.next();
        for record in page.records().map_while(Result::ok) {
            if redundant::locate_stored(&record, &mut fields).is_err() {
                continue;
            }
            if let Some(child) = fields.child() {
                number = Some(child);
                break;
            }
            if !record.is_deleted() {
                out.extend(read(&record, &fields));
            }
        }
    }
    out
}

/// The clustered index of a table that MariaDB altered instantly, as its rows are.
fn altered(
    space: &Space,
    (root, map): (&Root, &SpaceMap),
    table: &TableDef,
    index: &IndexDef,
    core: u16,
    opener: &mut Opener,
) -> Option<IndexDef> {
    let is_leftmost = |image: &[u8]| {
        let page = IndexPage::parse(image, &space.format).ok();
        page.is_some_and(|page| page.index_id() == root.index_id && page.is_leaf() && page.prev().is_none())
    };
    let leaf = if root.level == 0 {
        root.image.clone()
    } else {
        // The layout of the parents hangs on what this leaf says.
        let mut leaves = root.leaf_segment.into_iter().flat_map(|segment| map.pages_of(segment));
        leaves.find_map(|page_no| space.sound(page_no, opener).ok().filter(|image| is_leftmost(image)))?
    };
    let leaf = IndexPage::parse(&leaf, &space.format).ok()?;
    let place = index.root?;
    match instant::metadata(&leaf, index)? {
        Metadata::None => Some(index.clone()),
        Metadata::Added => Some(instant::altered(table, core, None).ok()?.at(place)),
        Metadata::Map(reference) => {
            let map = value(space, reference, opener)?;
            Some(instant::altered(table, core, Some(&map)).ok()?.at(place))
        }
    }
}
