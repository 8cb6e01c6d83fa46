//! Which index is which: names and fields, from the tablespaces themselves (MySQL 8.0 and later) or from the dictionary in `ibdata1` and
//! the `.frm` files (MariaDB, MySQL up to 5.7).

pub(crate) mod known;
pub mod lone;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::fil::PageType;
use format::keyring::KeyStore;
use format::page::index::IndexPage;
use format::page::instant::{self, Metadata};
use format::page::sdi::SdiKind;
use format::record::{Record, RecordFields, redundant};
use format::schema::dictionary::{DICT_HDR_PAGE_NO, DictionaryRoots, SysIndex, SysTable};
use format::schema::filename::{table_name, whole_table};
use format::schema::frm::{DOC_ID_INDEX, from_frm};
use format::schema::sdi::{SdiTableError, from_sdi};
use format::schema::{IndexDef, Placement, TableDef, builtin};
use format::{Family, PageNo};

use crate::tree::{Root, SpaceMap};
use datadir::reading::read_small;
use datadir::tablespace::{FoundFile, Opener, Tablespace, sdi};

/// More than the servers accept in a definition: 4096 columns with the longest comments, and all partitions.
pub(crate) const FRM_MAX: u64 = 16 << 20;

/// What is known of an index.
#[derive(Debug, Clone)]
pub struct Named {
    /// `schema.table`, with the partition if there is one.
    pub table: Option<String>,
    /// Name of the index.
    pub name: Option<String>,
    /// Its fields.
    pub index: Option<IndexDef>,
    /// The whole table.
    pub whole: Option<Arc<TableDef>>,
}

/// The scope of a definition: index and space ids are unique only within a server, and a folder may hold files of several.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum DefinitionPlace {
    /// Described by this file itself.
    File(PathBuf),
    /// This tablespace of the server whose files are in this folder or below it.
    Folder(PathBuf, u32),
}

/// A tablespace, and the tables that it describes itself.
pub(crate) struct Opening {
    pub space: Tablespace,
    pub own: Vec<Arc<TableDef>>,
}

impl Opening {
    pub fn of(space: Tablespace, opener: &mut Opener) -> Self {
        let own = own_tables(&space, opener).unwrap_or_default().into_iter().map(Arc::new).collect();
        Self { space, own }
    }
}

/// All known definitions.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// Keyed by id and root together: in old servers' dictionaries one id can have two roots.
    by_place: HashMap<DefinitionPlace, HashMap<(u64, u32), DescribedIndex>>,
}

/// An index of a tablespace, as defined.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    /// `schema.table`, with the partition if there is one.
    pub table: String,
    /// The index.
    pub index: IndexDef,
    /// The whole table.
    pub whole: Arc<TableDef>,
}

#[derive(Debug)]
struct DescribedIndex {
    table: String,
    root: u32,
    /// Whether the root is in this very tablespace; a partition's file describes the other partitions too.
    is_here: bool,
    index: IndexDef,
    whole: Arc<TableDef>,
}

impl DescribedIndex {
    /// Which rows belong here, if this is the clustered index of a partition.
    fn placement(&self) -> Option<Arc<Placement>> {
        let (_, partition) = self.table.rsplit_once(" partition ").filter(|_| self.index.is_clustered())?;
        Placement::of(&self.whole, partition).map(Arc::new)
    }
}

impl Definitions {
    /// Reads the definitions in the tablespaces and in the files beside them.
    pub fn read<'s>(spaces: impl Iterator<Item = &'s Tablespace> + Clone, keys: &KeyStore) -> Self {
        let mut dictionaries = Dictionaries { keys, by_datadir: HashMap::new() };
        for space in spaces.clone().filter(|space| space.format.space().0 == 0) {
            dictionaries.add(space);
        }
        let mut opener = Opener::new();
        let openings: Vec<Opening> = spaces.map(|space| Opening::of(space.clone(), &mut opener)).collect();
        Self::read_with(openings.iter(), &mut dictionaries)
    }

    /// The same for some of the tablespaces, with the tables that each describes itself: the dictionaries are read once for all.
    pub fn read_with<'s>(spaces: impl Iterator<Item = &'s Opening>, dictionaries: &mut Dictionaries<'_>) -> Self {
        let mut definitions = Self::default();
        let mut datadirs = BTreeSet::new();
        let mut opener = Opener::new();
        let mut numbers = BTreeSet::new();
        for Opening { space, own } in spaces {
            numbers.insert(space.format.space().0);
            for table in own {
                definitions.add_own(space, table);
            }
            let has_own = space.header.is_some_and(|header| header.flags & 1 << 14 != 0);
            if space.format.family() == Family::MariaDb || !has_own {
                let folder = folder(space);
                let datadir =
                    if space.format.space().0 == 0 { Some(folder) } else { folder.parent().map(Path::to_path_buf) };
                datadirs.extend(datadir);
            }
        }
        for datadir in datadirs {
            if let Some(dictionary) = dictionaries.of_datadir(&datadir, &mut opener) {
                definitions.add_old(&datadir, dictionary, &numbers);
            }
        }
        definitions
    }

    pub(crate) fn add_own(&mut self, space: &Tablespace, table: &Arc<TableDef>) {
        for (part, index) in table.trees() {
            let Some(root) = index.root else { continue };
            let part = part.map(|part| format!(" partition {}", part.name)).unwrap_or_default();
            let name = format!("{}.{}{part}", table.schema, table.name);
            let own = space.format.space();
            let elsewhere = root.space.filter(|other| *other != own);
            let entry = |is_here| DescribedIndex {
                table: name.clone(),
                root: root.root.0,
                is_here,
                index: index.clone(),
                whole: Arc::clone(table),
            };
            if let Some(other) = elsewhere {
                self.add(DefinitionPlace::Folder(folder(space), other.0), root.id, entry(true));
            }
            self.add(DefinitionPlace::File(space.path().to_path_buf()), root.id, entry(elsewhere.is_none()));
        }
    }

    fn add(&mut self, place: DefinitionPlace, id: u64, entry: DescribedIndex) {
        self.by_place.entry(place).or_default().insert((id, entry.root), entry);
    }

    /// Adds the tables of the old dictionary that are in one of the tablespaces. Each has a file of its own, and a bucket may have ten thousand
    /// where one is wanted.
    fn add_old(&mut self, datadir: &Path, dictionary: &OldDictionary, numbers: &BTreeSet<u32>) {
        // The partitions of a table follow each other, and have one file together.
        let (mut last, mut def): (Option<(&str, bool)>, Option<Arc<TableDef>>) = (None, None);
        for table in numbers.iter().filter_map(|number| dictionary.tables.get(number)).flatten() {
            let whole = whole_table(&table.name);
            let entries = dictionary.indexes.get(&table.id).map_or(&[][..], Vec::as_slice);
            let has_doc_id = entries.iter().any(|entry| entry.name == DOC_ID_INDEX);
            if last != Some((whole, has_doc_id)) {
                let frm = read_small(&datadir.join(format!("{whole}.frm")), FRM_MAX).ok();
                def = frm.and_then(|frm| from_frm(&frm, has_doc_id).ok()).map(Arc::new);
                last = Some((whole, has_doc_id));
            }
            let Some(def) = &def else { continue };
            for entry in entries {
                let Some(index) = def.indexes.iter().find(|index| index.name == entry.name) else { continue };
                let name = table_name(&table.name);
                let place = DefinitionPlace::Folder(datadir.to_path_buf(), table.space.0);
                let index = index.clone().at(entry.root);
                let (id, root, whole) = (entry.root.id, entry.root.root.0, Arc::clone(def));
                self.add(place, id, DescribedIndex { table: name, root, is_here: true, index, whole });
            }
        }
    }

    /// The definitions for a tablespace: its own if it has any, otherwise those of its folder or the folders above.
    fn described(&self, space: &Tablespace) -> impl Iterator<Item = &HashMap<(u64, u32), DescribedIndex>> {
        let own = self.by_place.get(&DefinitionPlace::File(space.path().to_path_buf()));
        let number = space.format.space().0;
        let folder = folder(space);
        let above = folder.parent().map(Path::to_path_buf);
        let folders = [Some(folder), above].into_iter().flatten().filter(move |_| own.is_none());
        let others = folders.filter_map(move |folder| self.by_place.get(&DefinitionPlace::Folder(folder, number)));
        own.into_iter().chain(others)
    }

    fn entries(&self, space: &Tablespace) -> impl Iterator<Item = &DescribedIndex> {
        self.described(space).flat_map(HashMap::values)
    }

    /// The root pages of this tablespace according to a dictionary.
    pub fn roots_of(&self, space: &Tablespace) -> Vec<u32> {
        // The dictionary has no roots for a discarded table.
        let here = self.entries(space).filter(|entry| entry.is_here && entry.root != u32::MAX);
        let mut roots: Vec<u32> = here.map(|entry| entry.root).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// The tables of this tablespace according to a dictionary, by name.
    pub fn tables_in(&self, space: &Tablespace) -> Vec<String> {
        let here = self.entries(space).filter(|entry| entry.is_here);
        let tables: BTreeSet<&str> = here.map(|entry| entry.table.as_str()).collect();
        tables.into_iter().map(str::to_owned).collect()
    }

    /// All indexes of this tablespace according to a dictionary, by root.
    pub fn in_space(&self, space: &Tablespace) -> Vec<Described> {
        let mut entries: Vec<&DescribedIndex> = self.entries(space).filter(|entry| entry.is_here).collect();
        entries.sort_by_key(|entry| entry.root);
        let described = |entry: &DescribedIndex| Described {
            table: entry.table.clone(),
            index: entry.index.clone(),
            whole: Arc::clone(&entry.whole),
        };
        entries.into_iter().map(described).collect()
    }

    /// The index with its root on this page, according to a dictionary.
    pub fn at_root(&self, space: &Tablespace, page_no: u32) -> Option<(&str, &str)> {
        let entry = self.entries(space).find(|entry| entry.is_here && entry.root == page_no);
        entry.map(|entry| (entry.table.as_str(), entry.index.name.as_str()))
    }

    /// What is known of the tree with this root.
    pub fn named(&self, space: &Tablespace, root: &Root, map: &SpaceMap, opener: &mut Opener) -> Option<Named> {
        if root.page_type == PageType::SDI {
            return Some(Named { table: None, name: Some("SDI".to_owned()), index: builtin::sdi(), whole: None });
        }
        let key = (root.index_id, root.page_no);
        let entry = self.described(space).find_map(|entries| entries.get(&key))?;
        // MySQL's definition tells how rows were instantly altered, MariaDB's does not.
        let index = match root.instant_core {
            Some(core) if entry.index.is_clustered() => {
                altered(space, (root, map), &entry.whole, &entry.index, core, opener)
            }
            _ => Some(entry.index.clone()),
        };
        let index = index.map(|index| IndexDef { placement: entry.placement(), ..index });
        let (table, name) = (Some(entry.table.clone()), Some(entry.index.name.clone()));
        Some(Named { table, name, index, whole: Some(Arc::clone(&entry.whole)) })
    }
}

/// The old dictionaries of the datadirs, each read when it is first asked for.
pub(crate) struct Dictionaries<'k> {
    keys: &'k KeyStore,
    by_datadir: HashMap<PathBuf, Option<OldDictionary>>,
}

/// The rows of an old dictionary that say where trees are.
#[derive(Debug, Default)]
struct OldDictionary {
    /// By space id.
    tables: HashMap<u32, Vec<SysTable>>,
    /// By table id.
    indexes: HashMap<u64, Vec<SysIndex>>,
}

impl<'k> Dictionaries<'k> {
    /// Reads those of the system tablespaces among these files; others follow as they are needed.
    pub fn of(groups: &[Vec<FoundFile>], keys: &'k KeyStore, page_size: Option<u32>) -> Self {
        let mut dictionaries = Self { keys, by_datadir: HashMap::new() };
        let is_table = |file: &FoundFile| file.path.extension().is_some_and(|extension| extension == "ibd");
        for files in groups.iter().filter(|files| !files.first().is_some_and(is_table)) {
            let opened = Tablespace::open(files, keys, page_size).ok();
            if let Some(space) = opened.filter(|space| space.format.space().0 == 0) {
                dictionaries.add(&space);
            }
        }
        dictionaries
    }

    fn add(&mut self, system: &Tablespace) {
        let dictionary = OldDictionary::read(system, &mut Opener::new());
        self.by_datadir.insert(folder(system), dictionary);
    }

    fn of_datadir(&mut self, datadir: &Path, opener: &mut Opener) -> Option<&OldDictionary> {
        let (keys, dictionaries) = (self.keys, &mut self.by_datadir);
        let read = || {
            let file = FoundFile::of(datadir.join("ibdata1")).ok()?;
            OldDictionary::read(&Tablespace::open(&[file], keys, None).ok()?, opener)
        };
        dictionaries.entry(datadir.to_path_buf()).or_insert_with(read).as_ref()
    }
}

impl OldDictionary {
    /// Damage in it is reported elsewhere; here it just leaves tables without a name.
    fn read(system: &Tablespace, opener: &mut Opener) -> Option<Self> {
        let page = system.sound(DICT_HDR_PAGE_NO.0, opener).ok()?;
        let roots = DictionaryRoots::read(&page)?;
        let mut dictionary = Self::default();
        for table in leaves(system, roots.tables, opener, SysTable::read) {
            dictionary.tables.entry(table.space.0).or_default().push(table);
        }
        for index in leaves(system, roots.indexes, opener, SysIndex::read) {
            dictionary.indexes.entry(index.table_id).or_default().push(index);
        }
        Some(dictionary)
    }
}

fn folder(space: &Tablespace) -> PathBuf {
    space.home().parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The tables that a tablespace of MySQL 8.0 or later describes itself. Damage in its SDI is reported elsewhere; here it just leaves tables
/// without a name.
fn own_tables(space: &Tablespace, opener: &mut Opener) -> Option<Vec<TableDef>> {
    Some(own_definitions(space, opener)?.0.into_iter().filter_map(Result::ok).collect())
}

/// A table, or why its definition is not supported.
pub(crate) type Defined = Result<TableDef, SdiTableError>;

/// All tables that a tablespace describes itself, including unsupported ones, and why the list may be incomplete. `None` if there is no
/// SDI.
pub(crate) fn own_definitions(space: &Tablespace, opener: &mut Opener) -> Option<(Vec<Defined>, Option<String>)> {
    // Page 0 was read and is sound, so it need not be read again for its flag.
    if space.header.is_some() && !space.has_dictionary_information() {
        return None;
    }
    let page0 = space.sound(0, opener).ok()?;
    let found = sdi::read(space, &page0, opener)?;
    let tables = found.objects.iter().filter(|(kind, _)| *kind == SdiKind::Table);
    Some((tables.map(|(_, json)| from_sdi(json)).collect(), found.broken))
}

/// Applies `read` to the leaf records of a REDUNDANT tree.
pub(crate) fn leaves<T>(
    space: &Tablespace,
    root: PageNo,
    opener: &mut Opener,
    read: impl Fn(&Record<'_>, &RecordFields) -> Option<T>,
) -> Vec<T> {
    let (mut out, mut fields, mut number) = (Vec::new(), RecordFields::new(), Some(root));
    // No page list is longer than the tablespace.
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

/// The clustered index of an instantly altered MariaDB table, in the layout of its rows.
fn altered(
    space: &Tablespace,
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
        root.image.page()
    } else {
        // The inner pages cannot be read yet: their layout depends on this leaf.
        let mut leaves = root.leaf_segment.into_iter().flat_map(|segment| map.pages_of(segment));
        leaves.find_map(|page_no| space.sound(page_no, opener).ok().filter(|image| is_leftmost(image)))?
    };
    let leaf = IndexPage::parse(&leaf, &space.format).ok()?;
    let place = index.root?;
    match instant::metadata(&leaf, index)? {
        Metadata::None => Some(index.clone()),
        Metadata::Added => Some(instant::altered(table, core, None).ok()?.at(place)),
        Metadata::Map(reference) => {
            let map = sdi::value(space, reference, opener).ok()?;
            Some(instant::altered(table, core, Some(&map)).ok()?.at(place))
        }
    }
}
