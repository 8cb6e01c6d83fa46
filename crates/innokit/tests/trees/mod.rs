//! The tablespaces of a datadir, read into memory, and the definitions of their indexes.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use datadir::keys::{KeyFiles, SpaceKey};
use format::bytes::be;
use format::codec::{self, Scratch};
use format::fil::{self, PageType};
use format::page::index::IndexPage;
use format::page::instant::{self, Metadata};
use format::page::lob::{LobReader, Reference};
use format::page::sdi::{self, SdiKind, SdiRecord};
use format::page::zip::Unpacker;
use format::record::{Record, RecordFields, redundant};
use format::schema::dictionary::{DictionaryRoots, SysIndex, SysTable};
use format::schema::frm::{DOC_ID_INDEX, from_frm};
use format::schema::{IndexDef, TableDef, builtin};
use format::{
    ExtentMap, PageId, PageNo, Scheme, SpaceFormat, SpaceHeader, Verdict, page_in_use, verify_inside, verify_page,
};

pub struct Tablespace {
    pub name: String,
    pub path: PathBuf,
    pub format: SpaceFormat,
    pub bytes: Vec<u8>,
    key: SpaceKey,
}

/// The tablespaces of a datadir, opened with its keys.
pub fn open_datadir(datadir: &Path) -> Vec<Tablespace> {
    let name = datadir.file_name().expect("a name").to_string_lossy().into_owned();
    let control = datadir.with_file_name(format!(".{name}.server"));
    let (keys, filekey) = (control.join("keys"), control.join("filekey"));
    let opener = filekey.exists().then(|| format!("FILE:{}", filekey.display()));
    let mut files = KeyFiles::default();
    if keys.exists() && name.starts_with("mysql") {
        files.keyrings.push(keys);
    } else if keys.exists() {
        files.key_file = Some((keys, opener));
    }
    let store = files.read().expect("keys");
    let mut paths = Vec::new();
    collect(datadir, &mut paths);
    paths.sort();
    paths.iter().filter_map(|path| open(path, &store)).collect()
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            collect(&entry, out);
        } else if entry.extension().is_some_and(|kind| kind == "ibd") || entry.ends_with("ibdata1") {
            out.push(entry);
        }
    }
}

fn open(path: &Path, keys: &format::keyring::KeyStore) -> Option<Tablespace> {
    let mut bytes = std::fs::read(path).expect("a file");
    if path.ends_with("ibdata1") && path.with_file_name("ibdata2").exists() {
        bytes.extend(std::fs::read(path.with_file_name("ibdata2")).expect("a file"));
    }
    // A server that crashes while it creates a file leaves it without a readable page 0.
    let format = SpaceFormat::from_page0(&bytes).ok()?;
    let key = SpaceKey::unlock(&bytes, &format, keys).expect("a key");
    let parts: Vec<_> = path.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy()).collect();
    Some(Tablespace { name: format!("{}/{}", parts[1], parts[0]), path: path.to_path_buf(), format, bytes, key })
}

impl Tablespace {
    fn stored(&self, number: u32) -> Option<&[u8]> {
        let size = self.format.physical().bytes();
        self.bytes.get(number as usize * size..(number as usize + 1) * size)
    }

    /// The page, decrypted and decompressed; `None` if it is damaged.
    pub fn page(&self, number: u32) -> Option<Vec<u8>> {
        let stored = self.stored(number)?;
        let id = PageId { space: self.format.space(), page_no: PageNo(number) };
        let (context, mut scratch) = (self.key.context(&self.format), Scratch::new());
        let verdict = verify_page(stored, id, &self.format);
        let verdict = verify_inside(stored, id, &self.format, &context, &mut scratch, verdict);
        if !matches!(verdict, Verdict::Ok(_)) {
            return None;
        }
        codec::open_page(stored, id, &context, &mut scratch).ok().map(|opened| opened.page.to_vec())
    }

    /// The page as the server sees it, if it is an index page.
    pub fn index_page(&self, number: u32) -> Option<Vec<u8>> {
        let page = self.page(number)?;
        let kind = PageType(be::u16_at(&page, fil::FIL_PAGE_TYPE)?);
        if !kind.is_index(self.format.family()) {
            return None;
        }
        if self.format.scheme() == Scheme::Zip {
            let mut image = vec![0; self.format.logical().bytes()];
            let unpacked = Unpacker::new().unpack(&page, &self.format, &mut image);
            unpacked.unwrap_or_else(|damage| panic!("{} page {number}: {damage}", self.name));
            return Some(image);
        }
        Some(page)
    }

    /// Page numbers of the pages in use.
    pub fn pages_in_use(&self) -> Vec<u32> {
        let Some(page0) = self.page(0) else { return Vec::new() };
        let header = SpaceHeader::parse(&page0).expect("a header");
        let size = self.format.physical().get();
        let pages = (self.bytes.len() / self.format.physical().bytes()) as u32;
        let mut used = Vec::new();
        for first in (0..pages).step_by(size as usize) {
            let Some(page) = self.page(first) else { continue };
            let Ok(map) = ExtentMap::parse(&page, PageNo(first), &self.format) else { continue };
            let numbers = first..pages.min(first + size);
            used.extend(numbers.filter(|number| {
                let id = PageId { space: self.format.space(), page_no: PageNo(*number) };
                page_in_use(PageNo(*number), &header, &map) == Some(true) && !self.format.is_doublewrite_slot(id)
            }));
        }
        used
    }

    /// The tables that the tablespace's own SDI describes (MySQL).
    pub fn tables(&self) -> Vec<TableDef> {
        let Some(root) = self.page(0).and_then(|page0| sdi::root(&page0, &self.format)) else { return Vec::new() };
        let index = builtin::sdi().expect("built in");
        let (mut tables, mut fields) = (Vec::new(), RecordFields::new());
        let mut number = Some(self.leftmost_leaf(root, &index));
        while let Some(PageNo(leaf)) = number {
            let image = self.index_page(leaf).expect("a page of the SDI");
            let page = IndexPage::parse(&image, &self.format).expect("an index page");
            for record in page.records().map(|record| record.expect("a record")) {
                index.layout.locate(&record, &mut fields).expect("fields");
                let object = SdiRecord::read(&record, &fields).expect("an object");
                if object.kind == SdiKind::Table && !record.is_deleted() {
                    let json = object.json(&self.whole(&object)).expect("JSON");
                    tables.push(format::schema::sdi::from_sdi(&json).expect("a table"));
                }
            }
            number = page.next();
        }
        tables
    }

    fn leftmost_leaf(&self, root: PageNo, index: &IndexDef) -> PageNo {
        let (mut number, mut fields) = (root, RecordFields::new());
        loop {
            let image = self.index_page(number.0).expect("a page of the SDI");
            let page = IndexPage::parse(&image, &self.format).expect("an index page");
            if page.is_leaf() {
                return number;
            }
            let first = page.records().next().expect("a record").expect("a record");
            index.layout.locate(&first, &mut fields).expect("fields");
            number = fields.child().expect("a child");
        }
    }

    fn whole(&self, object: &SdiRecord<'_>) -> Vec<u8> {
        let mut packed = object.packed.to_vec();
        if let Some(reference) = object.reference {
            let reference = Reference::parse(reference).expect("a reference");
            packed.extend(self.value(reference));
        }
        packed
    }

    /// The off-page value that a reference points to.
    pub fn value(&self, reference: Reference) -> Vec<u8> {
        let mut reader = LobReader::new(reference, self.format.family(), true);
        while let Some(PageNo(number)) = reader.wants() {
            let page = self.page(number).expect("a page of the value");
            reader.take(&page).unwrap_or_else(|damage| panic!("{}: {reference:?}: {damage}", self.name));
        }
        reader.into_value()
    }
}

/// Every index that the datadir describes anywhere, by index id.
pub fn definitions(spaces: &[Tablespace]) -> BTreeMap<u64, IndexDef> {
    let mut indexes = BTreeMap::new();
    for table in spaces.iter().flat_map(Tablespace::tables) {
        indexes.extend(table.trees().map(|(_, index)| (index.root.expect("a root").id, index)));
    }
    let system = spaces.iter().find(|space| space.path.ends_with("ibdata1")).expect("a system tablespace");
    let roots = if indexes.is_empty() { DictionaryRoots::read(&system.page(7).expect("page 7")) } else { None };
    if let Some(roots) = roots {
        for (table, index) in old_definitions(system, roots) {
            let root = index.root.expect("a root");
            let space = spaces.iter().find(|space| Some(space.format.space()) == root.space);
            indexes.insert(root.id, space.map_or(index.clone(), |space| space.altered(&table, index)));
        }
    }
    indexes
}

/// Tables from their `.frm` files, and indexes with their roots from the dictionary in the system tablespace.
fn old_definitions(system: &Tablespace, roots: DictionaryRoots) -> Vec<(TableDef, IndexDef)> {
    let tables = system.leaf_records(roots.tables, |record, fields| SysTable::read(record, fields).expect("a table"));
    let entries =
        system.leaf_records(roots.indexes, |record, fields| SysIndex::read(record, fields).expect("an index"));
    let datadir = system.path.parent().expect("a folder");
    let mut indexes = Vec::new();
    for table in tables {
        let name = table.name.split("#P#").next().expect("a name");
        let Ok(frm) = std::fs::read(datadir.join(name).with_extension("frm")) else { continue };
        let has_doc_id = entries.iter().any(|entry| entry.table_id == table.id && entry.name == DOC_ID_INDEX);
        let def = from_frm(&frm, has_doc_id).unwrap_or_else(|error| panic!("{name}: {error}"));
        for index in &def.indexes {
            let entry = entries.iter().find(|entry| entry.table_id == table.id && entry.name == index.name);
            let root = entry.unwrap_or_else(|| panic!("{name}: no index {}", index.name)).root;
            indexes.push((def.clone(), index.clone().at(root)));
        }
    }
    indexes
}

impl Tablespace {
    /// Applies `read` to the leaf records of a REDUNDANT tree. No definition is needed: each record stores its own field ends.
    fn leaf_records<T>(&self, root: PageNo, read: impl Fn(&Record<'_>, &RecordFields) -> T) -> Vec<T> {
        let (mut out, mut fields, mut number) = (Vec::new(), RecordFields::new(), Some(root));
        while let Some(PageNo(at)) = number {
            let image = self.index_page(at).expect("a page of the dictionary");
            let page = IndexPage::parse(&image, &self.format).expect("an index page");
            number = page.next();
            for record in page.records().map(|record| record.expect("a record")) {
                redundant::locate_stored(&record, &mut fields).expect("fields");
                if let Some(child) = fields.child() {
                    number = Some(child);
                    break;
                }
                if !record.is_deleted() {
                    out.push(read(&record, &fields));
                }
            }
        }
        out
    }

    /// The clustered index of an instantly altered MariaDB table, with the fields in stored order.
    fn altered(&self, table: &TableDef, index: IndexDef) -> IndexDef {
        let root = index.root.expect("a root");
        let image = self.index_page(root.root.0);
        let Some(image) = image.filter(|_| index.is_clustered()) else { return index };
        let Some(core) = IndexPage::parse(&image, &self.format).expect("a page").instant_core() else { return index };
        let leaf = self.pages_in_use().into_iter().find_map(|number| {
            let image = self.index_page(number)?;
            let page = IndexPage::parse(&image, &self.format).ok()?;
            (page.index_id() == root.id && page.is_leaf() && page.prev().is_none()).then_some(image)
        });
        let leaf = leaf.expect("a leftmost leaf");
        let leaf = IndexPage::parse(&leaf, &self.format).expect("a page");
        let altered = match instant::metadata(&leaf, &index).expect("metadata") {
            Metadata::None => return index,
            Metadata::Added => instant::altered(table, core, None),
            Metadata::Map(reference) => instant::altered(table, core, Some(&self.value(reference))),
        };
        altered.expect("a table").at(root)
    }
}
