//! The tables in some files: their definitions, and the roots of the trees with their rows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::FileSet;
use format::keyring::KeyStore;
use format::page::index::IndexPage;
use format::page::lob::{LobReader, Reference};
use format::record::{RecordFields, Stored};
use format::schema::{IndexDef, InstantDefault, TableDef};
use format::{Family, PageNo};

use crate::definitions::known::{self, Known, know};
use crate::definitions::lone::{self, Statements};
use crate::definitions::{Definitions, Described, Dictionaries, own_definitions};
use crate::table::{GIVE_BACK_EVERY, batches, groups, in_parallel, open_described};
use crate::tree::SpaceMap;
use datadir::content::Content;
use datadir::inventory::{Inventory, Passed};
use datadir::keys::KeyFiles;
use datadir::name::table_of_path;
use datadir::redo_log::{Pending, RedoLogs};
use datadir::remote::Missed;
use datadir::selection::Selection;
use datadir::tablespace::{FoundFile, Opener, Tablespace};
use datadir::{Error, catalog, fault, files};

/// Tablespaces whose definitions and maps are in memory at a time; afterwards only their tables are.
const BATCH: usize = 1024;
/// No tree has more levels.
const LEVELS_MAX: usize = 32;

/// The rows of a table, or of one of its partitions.
#[derive(Debug, Clone)]
pub struct TreeSource {
    /// Index of its tablespace in [`Tables::spaces`].
    pub space: usize,
    /// Name of the partition, if it is one.
    pub partition: Option<String>,
    /// The index, in the layout of its records.
    pub index: IndexDef,
    /// The values of rows older than a field's column, if the tree itself stores them (MariaDB).
    pub defaults: Option<Vec<Option<InstantDefault>>>,
    /// Why its rows cannot be read, if known already.
    pub unreadable: Option<String>,
}

/// A table.
#[derive(Debug, Clone)]
pub struct TableSource {
    /// `schema.table`.
    pub name: String,
    /// Its definition.
    pub table: Arc<TableDef>,
    /// Its trees, in file order.
    pub trees: Vec<TreeSource>,
    /// Damage to the files themselves, not to the rows.
    pub damage: Vec<String>,
    /// Where the definition came from, if not from the usual place.
    pub notes: Vec<String>,
}

/// A file without a readable table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The file.
    pub path: PathBuf,
    /// Why, as a clause.
    pub why: String,
}

/// Which tables to find, and what helps to find them.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'w> {
    /// Key files.
    pub keys: &'w KeyFiles,
    /// Of directories, only these tables.
    pub selection: Option<&'w Selection>,
    /// Logical page size in bytes; overrides what the files say.
    pub page_size: Option<u32>,
    /// Workers.
    pub workers: usize,
    /// The index whose leaves to read; the clustered one if `None`.
    pub index: Option<&'w str>,
    /// A file of `CREATE TABLE` statements for tablespaces without a definition.
    pub create_table: Option<&'w Path>,
    /// Look whether the datadirs of the files need crash recovery.
    pub pending: bool,
}

/// All tables of some files.
#[derive(Debug)]
pub struct Tables {
    /// The files.
    pub set: FileSet,
    /// The tablespaces.
    pub spaces: Vec<Tablespace>,
    /// The tables, by name.
    pub tables: Vec<TableSource>,
    /// Files that should hold a table but have none that can be read.
    pub unread: Vec<Unread>,
    /// Files without tables.
    pub skipped: usize,
    /// Data files of other engines, by table: such a table is not missing, but its rows are not read.
    pub of_others: BTreeMap<String, PathBuf>,
    /// Datadirs of these files that still need crash recovery, which will change the rows.
    pub pending: Vec<Pending>,
}

impl Tables {
    /// Finds the tables of the files and directories in `paths`. InnoDB's own tables, and those of the schemas `mysql` and `sys`, are
    /// included only if their files are named.
    ///
    /// # Errors
    /// Keys or statements that cannot be read.
    pub fn find(paths: &[PathBuf], wish: Wish<'_>) -> Result<Self, Error> {
        let keys = wish.keys.read()?;
        let mut inventory = Inventory::take_selected(paths, wish.selection.unwrap_or(&Selection::default()));
        let archives = archives(&inventory);
        catalog::add_outside(&mut inventory, &keys);
        let groups = groups(&mut inventory);
        let set = files::set(groups.iter().flatten().map(|file| (file.path.clone(), file.len)));
        // A requested file that is missing is reported: that is not the same as an empty table.
        let passed = inventory.failed.iter().chain(&inventory.vanished);
        let passed = passed.map(|passed| Unread { path: passed.path.clone(), why: passed.why.clone() });
        let mut search = Search {
            wish,
            keys: &keys,
            statements: wish.create_table.map(Statements::read).transpose()?,
            named: paths.iter().map(PathBuf::as_path).collect(),
            dictionaries: Dictionaries::of(&groups, &keys, wish.page_size),
            opener: Opener::new(),
            spaces: Vec::new(),
            found: Found::default(),
            unread: passed.chain(archives).collect(),
            undefined: Vec::new(),
        };
        let mut unreturned = 0;
        for batch in batches(&groups, BATCH) {
            search.batch(batch);
            unreturned += batch.len();
            if unreturned >= GIVE_BACK_EVERY {
                flow::give_back_memory();
                unreturned = 0;
            }
        }
        let Search { spaces, mut found, mut unread, mut undefined, dictionaries, .. } = search;
        drop((dictionaries, groups));
        unread.append(&mut undefined);
        found.tables.sort_by(|a, b| a.name.cmp(&b.name));
        // Why a definition was not found may be that the file beside the table could not be read.
        let of_spaces = spaces.iter().flat_map(|space| &space.files).map(|file| &file.path);
        let known: HashSet<&PathBuf> = unread.iter().map(|unread| &unread.path).chain(of_spaces).collect();
        let beside = files::failures_of(paths).into_iter().filter(|missed| !known.contains(&missed.path));
        let beside: Vec<_> = beside.map(|missed| Unread { path: missed.path, why: missed.why }).collect();
        unread.extend(beside);
        let mut redo = RedoLogs::new(false);
        for space in spaces.iter().filter(|_| wish.pending) {
            redo.pending_for(space.path());
        }
        let mut passed: Vec<Passed> = std::mem::take(&mut inventory.skipped);
        passed.retain(|passed| files::is_file(&passed.path));
        let of_others = passed.iter().filter_map(|passed| Some((table_of_other(&passed.path)?, passed.path.clone())));
        Ok(Self {
            set,
            spaces,
            tables: found.tables,
            unread,
            skipped: passed.len(),
            of_others: of_others.collect(),
            pending: redo.pending(),
        })
    }
}

/// A search for tables, batch by batch of tablespaces: of each batch, only its tables stay.
struct Search<'s> {
    wish: Wish<'s>,
    keys: &'s KeyStore,
    statements: Option<Statements>,
    /// The paths that the user named.
    named: HashSet<&'s Path>,
    dictionaries: Dictionaries<'s>,
    opener: Opener,
    spaces: Vec<Tablespace>,
    found: Found,
    unread: Vec<Unread>,
    /// Files without a definition.
    undefined: Vec<Unread>,
}

impl Search<'_> {
    fn batch(&mut self, batch: &[Vec<FoundFile>]) {
        let Wish { workers, index, page_size, .. } = self.wish;
        let how = (self.keys, page_size);
        let opened = in_parallel(workers, batch, |files, opener| open_described(files, how, opener));
        let of_batch = opened.iter().filter_map(|(_, opened)| opened.as_ref().ok());
        let mut definitions = Definitions::read_with(of_batch, &mut self.dictionaries);
        let first = self.spaces.len();
        for (path, opened) in opened {
            match opened {
                Ok(opening) => self.spaces.push(opening.space),
                Err(why) => self.unread.push(Unread { path, why }),
            }
        }
        let (named, spaces) = (&self.named, self.spaces.get(first..).unwrap_or(&[]));
        let is_named = |space: &Tablespace| named.contains(space.path());
        let mut help = |space: &Tablespace| {
            let is_wanted = holds_a_table(space, is_named(space));
            let help =
                is_wanted.then(|| Help::find(space, self.statements.as_ref(), &mut definitions, &mut self.opener));
            help.unwrap_or_default()
        };
        let help: Vec<Help> = spaces.iter().map(&mut help).collect();
        let known = in_parallel(workers, spaces, |space, opener| trees(space, &definitions, index, opener));
        for ((number, space), (trees, help)) in (first..).zip(spaces).zip(known.into_iter().zip(help)) {
            if trees.is_empty() && !help.is_empty && holds_a_table(space, is_named(space)) {
                let why = help.why.clone().unwrap_or_else(|| "no definition of its table was found".to_owned());
                self.undefined.push(Unread { path: space.path().to_path_buf(), why });
            }
            let is_wanted = |(described, _): &(Described, TreeSource)| {
                // The name of a tablespace of several tables selects none of them.
                let is_one = is_named(space) && !known::is_shared(space) && space.format.space().0 != 0;
                let is_selected = self.wish.selection.is_none_or(|selection| {
                    selection.is_all()
                        || is_one
                        || selection.has_file(space.path())
                        || selection.has_table(&described.table)
                });
                is_selected && (is_named(space) || !is_the_servers(&described.table))
            };
            for tree in trees.into_iter().filter(is_wanted) {
                self.found.add(number, tree, &help, &self.spaces);
            }
        }
    }
}

impl Tables {
    /// Which of the table's files could not be read to its end, if one could not: what is missing from it is then not damage.
    #[must_use]
    pub fn missed(&self, table: &TableSource) -> Option<Missed> {
        let spaces = table.trees.iter().filter_map(|tree| self.spaces.get(tree.space));
        spaces.flat_map(|space| &space.files).find_map(|file| match &file.object {
            Some(object) => object.failure(),
            None => fault::of_file(&file.path),
        })
    }

    /// Whether some bytes of the table's files could not be read.
    pub(super) fn is_unread(&self, table: &TableSource) -> bool {
        let spaces = table.trees.iter().filter_map(|tree| self.spaces.get(tree.space));
        self.missed(table).is_some() || spaces.flat_map(|space| &space.files).any(|file| fault::is_unread(&file.path))
    }

    /// The same as a sentence.
    pub(super) fn out_of_reach(&self, table: &TableSource) -> Option<String> {
        let missed = self.missed(table)?;
        Some(format!("{} cannot be read: {}", missed.path.display(), missed.why))
    }

    /// Files that could not be read, with the reason: those known from the start, and those whose failure shows only at the end.
    pub(crate) fn all_unread(&self) -> Vec<String> {
        let spaces = self.tables.iter().flat_map(|table| &table.trees).filter_map(|tree| self.spaces.get(tree.space));
        let of_tables = spaces.flat_map(|space| &space.files).map(|file| &file.path);
        let known: HashSet<&PathBuf> = self.unread.iter().map(|unread| &unread.path).chain(of_tables).collect();
        let later = files::failures().into_iter().filter(|missed| !known.contains(&missed.path));
        let text = |path: &Path, why: &str| format!("{}: {why}", path.display());
        let known = self.unread.iter().map(|unread| text(&unread.path, &unread.why));
        let parts = fault::noted_parts().into_iter().map(|missed| text(&missed.path, &missed.why));
        known.chain(parts).chain(later.map(|missed| text(&missed.path, &missed.why))).collect()
    }

    /// Bytes of the tablespaces with the tables: an upper bound of what is read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let trees = self.tables.iter().flat_map(|table| &table.trees);
        let spaces: std::collections::BTreeSet<usize> = trees.map(|tree| tree.space).collect();
        let size = |space: &Tablespace| u64::from(space.pages()) * u64::from(space.format.physical().get());
        spaces.into_iter().filter_map(|space| self.spaces.get(space)).map(size).sum()
    }
}

/// Archives that are named as if they were tables.
fn archives(inventory: &Inventory) -> Vec<Unread> {
    let is_archive = |content| matches!(content, Content::Archive | Content::Tar | Content::Packed(_));
    let named = inventory.candidates.iter().filter(|file| file.named && is_archive(file.content));
    let why = "an archive, whose tables can be read once it is unpacked: innokit unpack";
    named.map(|file| Unread { path: file.path.clone(), why: why.to_owned() }).collect()
}

/// The table with its data in this file of another engine: MyISAM, Aria, ARCHIVE, CSV, MERGE.
fn table_of_other(path: &Path) -> Option<String> {
    const DATA: [&str; 6] = ["MYD", "MAD", "MAI", "ARZ", "CSV", "MRG"];
    if !path.extension().is_some_and(|extension| DATA.iter().any(|data| extension == *data)) {
        return None;
    }
    // As if it were a tablespace.
    table_of_path(&path.with_extension("ibd"))
}

/// System and undo tablespaces, and those of the server's own schemas, hold no user tables.
fn holds_a_table(space: &Tablespace, is_named: bool) -> bool {
    let name = space.path().file_name().and_then(|name| name.to_str()).unwrap_or("");
    let in_server = space.path().parent().and_then(|folder| folder.file_name());
    let in_server = in_server.is_some_and(|folder| folder == "mysql" || folder == "sys");
    // Auxiliary tables of full-text indexes and MariaDB's vector indexes.
    let of_an_index = name.starts_with("FTS_") || name.starts_with("fts_") || name.contains("#i#");
    name.ends_with(".ibd") && (is_named || !in_server) && !of_an_index
}

fn is_the_servers(table: &str) -> bool {
    let schema = table.split('.').next().unwrap_or("");
    matches!(schema, "mysql" | "sys" | "information_schema" | "performance_schema")
        || table.contains(".fts_")
        || table.contains(".FTS_")
}

/// Notes on a tablespace whose definition or page 0 is missing from its usual place.
#[derive(Default)]
struct Help {
    damage: Option<String>,
    note: Option<String>,
    /// Why it has no definition.
    why: Option<String>,
    /// It is for several tables, and holds none.
    is_empty: bool,
}

impl Help {
    /// Looks for a definition that the dictionaries lack: in their remains, and in the caller's statements.
    fn find(
        space: &Tablespace,
        statements: Option<&Statements>,
        definitions: &mut Definitions,
        opener: &mut Opener,
    ) -> Self {
        let mut help = Self::default();
        if space.header.is_none()
            && let Err(why) = space.sound(0, opener)
        {
            help.damage = Some(format!("{why}: page size and format are derived from the pages after it"));
        }
        if !definitions.in_space(space).is_empty() {
            return help;
        }
        if is_empty(space, opener) {
            return Self { is_empty: true, ..help };
        }
        if space.has_dictionary_information() {
            // Only one file of a partitioned table has it; the others have an empty tree.
            let broken = own_definitions(space, opener).map_or_else(|| Some(String::new()), |(_, broken)| broken);
            help.damage =
                broken.map(|why| format!("its dictionary information (SDI) is damaged {why}").trim_end().to_owned());
        }
        let mut tried = lone::remains(space, definitions, opener);
        if let Some(statements) = statements.filter(|_| !matches!(tried, Some(Ok(_)))) {
            tried = Some(statements.define(space, definitions, opener).map(|(found, _)| found));
        }
        match tried {
            Some(Ok(found)) => help.note = Some(found.from),
            Some(Err(why)) => help.why = Some(why),
            None => {
                let why = "no definition of its table was found; give one with --create-table";
                help.why = Some(help.damage.iter().fold(why.to_owned(), |why, damage| format!("{damage}; {why}")));
            }
        }
        help
    }
}

/// Whether this is a general tablespace in which nothing is allocated but its dictionary information.
fn is_empty(space: &Tablespace, opener: &mut Opener) -> bool {
    /// Leaves and the pages above them.
    const OF_DICTIONARY_INFORMATION: usize = 2;
    if !known::is_shared(space) {
        return false;
    }
    let map = SpaceMap::read(space, opener);
    map.findings.is_empty() && map.segments.len() <= OF_DICTIONARY_INFORMATION
}

/// The tables found so far.
#[derive(Default)]
struct Found {
    tables: Vec<TableSource>,
    /// Where those of each name are.
    places: HashMap<String, Vec<usize>>,
    /// Where the tree of each table's partition is among its trees.
    parts: HashMap<(usize, Option<String>), usize>,
}

impl Found {
    fn add(&mut self, space: usize, (described, tree): (Described, TreeSource), help: &Help, spaces: &[Tablespace]) {
        let mut words = described.table.splitn(2, " partition ");
        let name = words.next().unwrap_or_default().to_owned();
        let tree = TreeSource { space, partition: words.next().map(str::to_owned), ..tree };
        let damage = help.damage.iter().cloned();
        let path = |tree: &TreeSource| spaces.get(tree.space).map_or(Path::new(""), Tablespace::path);
        for place in self.places.get(&name).into_iter().flatten() {
            let Some(table) = self.tables.get_mut(*place) else { continue };
            let part = (*place, tree.partition.clone());
            let Some(twin) = self.parts.get(&part).and_then(|at| table.trees.get_mut(*at)) else {
                self.parts.insert(part, table.trees.len());
                table.trees.push(tree);
                table.damage.extend(damage);
                return;
            };
            let (before, now) = (path(twin).to_path_buf(), path(&tree).to_path_buf());
            let (kept, left_out) = match (is_its_file(&before, &described.table), is_its_file(&now, &described.table)) {
                (true, false) => (before, now),
                (false, true) => {
                    *twin = tree;
                    table.damage.extend(damage);
                    (now, before)
                }
                (false, false) if before.parent() == now.parent() => (before, now),
                // The table of the same name of another datadir.
                _ => continue,
            };
            table.notes.push(format!(
                "{} says that it is the same tablespace, but the table's file is {}: its rows are left out",
                left_out.display(),
                kept.display()
            ));
            return;
        }
        self.places.entry(name.clone()).or_default().push(self.tables.len());
        self.parts.insert((self.tables.len(), tree.partition.clone()), 0);
        self.tables.push(TableSource {
            name,
            table: described.whole,
            trees: vec![tree],
            damage: damage.collect(),
            notes: help.note.iter().cloned().collect(),
        });
    }
}

/// Whether the server looks for `table` in a file of this name.
fn is_its_file(path: &Path, table: &str) -> bool {
    // The servers of some systems keep names in lower case.
    table_of_path(path).is_some_and(|named| named.to_lowercase() == table.to_lowercase())
}

/// The trees with rows in a tablespace.
fn trees(
    space: &Tablespace,
    definitions: &Definitions,
    index: Option<&str>,
    opener: &mut Opener,
) -> Vec<(Described, TreeSource)> {
    let known = know(space, definitions, opener);
    let described = definitions.in_space(space);
    let wanted = |described: &Described| match index {
        Some(name) => described.index.name.eq_ignore_ascii_case(name),
        None => described.index.is_clustered(),
    };
    described
        .into_iter()
        .filter(wanted)
        .map(|described| {
            let tree = tree(space, &known, definitions, &described, opener);
            (described, tree)
        })
        .collect()
}

fn tree(
    space: &Tablespace,
    known: &Known,
    definitions: &Definitions,
    described: &Described,
    opener: &mut Opener,
) -> TreeSource {
    let id = described.index.root.map(|root| root.id);
    let root = known.roots.iter().find(|root| Some(root.index_id) == id);
    let mut tree =
        TreeSource { space: 0, partition: None, index: described.index.clone(), defaults: None, unreadable: None };
    if space.format.family() == Family::MySql || !tree.index.is_clustered() {
        return tree;
    }
    let Some(root) = root else { return tree };
    if root.instant_core.is_none() {
        return tree;
    }
    match definitions.named(space, root, &known.map, opener).and_then(|named| named.index) {
        Some(index) => {
            tree.defaults = defaults(space, root.page_no, &index, opener);
            tree.index = index;
        }
        None => {
            tree.unreadable = Some("it was altered instantly, and the record of the change cannot be read".to_owned());
        }
    }
    tree
}

/// The defaults in the metadata record of the leftmost leaf.
fn defaults(
    space: &Tablespace,
    root: u32,
    index: &IndexDef,
    opener: &mut Opener,
) -> Option<Vec<Option<InstantDefault>>> {
    let (mut page_no, mut fields) = (root, RecordFields::new());
    for _ in 0..LEVELS_MAX {
        let image = space.sound(page_no, opener).ok()?;
        let page = IndexPage::parse(&image, &space.format).ok()?;
        let first = page.records().next()?.ok()?;
        index.layout.locate(&first, &mut fields).ok()?;
        if let Some(PageNo(child)) = fields.child() {
            page_no = child;
            continue;
        }
        if !first.is_metadata() {
            return None;
        }
        let value = |(number, slot): (usize, &format::record::Slot)| match slot.stored {
            Stored::Null => Some(InstantDefault::Null),
            Stored::Missing => None,
            Stored::Inline => Some(InstantDefault::Bytes(fields.bytes(page.bytes(), number)?.to_vec())),
            Stored::Extern => {
                let stored = fields.bytes(page.bytes(), number)?;
                let (local, reference) = stored.split_at(stored.len().checked_sub(20)?);
                let mut whole = local.to_vec();
                whole.extend(outside(space, Reference::parse(reference)?, opener)?);
                Some(InstantDefault::Bytes(whole))
            }
        };
        return Some(fields.slots().iter().enumerate().map(value).collect());
    }
    None
}

fn outside(space: &Tablespace, reference: Reference, opener: &mut Opener) -> Option<Vec<u8>> {
    let mut reader = LobReader::new(reference, space.format.family(), true);
    while let Some(PageNo(number)) = reader.wants() {
        reader.take(&space.sound(number, opener).ok()?).ok()?;
    }
    Some(reader.into_value())
}
