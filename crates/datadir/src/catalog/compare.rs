//! The dictionary's entries against the files: missing, misplaced, stale, foreign, or in the way.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use format::bytes::be;
use format::fil::{self, PageType};
use format::{Encryption, Family, SpaceFormat, SpaceId};
use redo::mysql::undo_number;

use super::datadir::{Catalog, CatalogFinding, Held};
use super::ddl_log::{FilesInDdl, UnfinishedDdl};
use super::entry::{Dictionary, Entry, Holds, TreeAt};
use super::frm::{Half, halves};
use super::log::FileEvents;
use crate::files;
use crate::finding_code::FindingCode;
use crate::keys::SpaceKey;
use crate::name::NameHint;
use crate::redo_log::IN_DDL;
use crate::severity::Severity;
use crate::tablespace::{Opener, Tablespace};

/// After a clean shutdown there is nothing left to roll back.
const WITHOUT_UNDO: &str =
    "the server starts without it and recreates it, but deleted rows that waited for purge stay forever";

/// The comparison of one datadir.
pub(super) struct Compare<'c> {
    catalog: &'c Catalog,
    dictionary: &'c Dictionary,
    /// The tablespaces that were read, by path.
    by_path: HashMap<&'c Path, &'c Held>,
    by_number: HashMap<u32, Vec<&'c Tablespace>>,
    owners: HashMap<u32, &'c Entry>,
    expected: HashSet<&'c Path>,
    /// Why a difference may not be real, as a clause.
    pub doubt: Option<String>,
    /// What the log does to files, if it was read to its end.
    pub events: Option<FileEvents>,
    /// The files that interrupted statements were changing.
    pub in_ddl: FilesInDdl,
    /// The backup holds only some of the tables.
    pub is_partial: bool,
    /// The backup was not prepared: files created while it ran still have temporary names.
    pub is_unprepared: bool,
    /// Tables that a partial backup leaves out.
    left_out: usize,
    pub findings: Vec<CatalogFinding>,
}

/// Ids of the tablespaces of each table, from the dictionary by the table's name, and from the files by the path of its `.frm` file.
#[derive(Default)]
struct NumbersOfTables<'c> {
    known: HashMap<&'c str, Vec<u32>>,
    beside: HashMap<PathBuf, Vec<u32>>,
}

impl<'c> NumbersOfTables<'c> {
    fn of(compare: &Compare<'c>) -> Self {
        let mut all = Self::default();
        for entry in &compare.dictionary.entries {
            all.known.entry(entry.name.split(" partition ").next().unwrap_or_default()).or_default().push(entry.space);
        }
        for (path, held) in &compare.by_path {
            if let Some(frm) = frm_of(path) {
                all.beside.entry(frm).or_default().push(held.space.format.space().0);
            }
        }
        all
    }

    fn of_table(&self, frm: &Path, table: &str) -> Vec<u32> {
        // A `.par` file has the same stem.
        let beside = self.beside.get(&frm.with_extension("")).into_iter();
        self.known.get(table).into_iter().chain(beside).flatten().copied().collect()
    }
}

/// Where the files of the table that this file belongs to have their names from: the path without extension and partition.
fn frm_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let end = ["#P#", "#p#", "."].iter().filter_map(|mark| name.find(mark)).min()?;
    Some(path.with_file_name(name.get(..end)?))
}

impl<'c> Compare<'c> {
    pub fn new(catalog: &'c Catalog, dictionary: &'c Dictionary, held: &[&'c Held]) -> Self {
        let mut by_number: HashMap<u32, Vec<&Tablespace>> = HashMap::new();
        for space in held.iter().map(|held| &held.space).filter(|space| space.path().starts_with(&catalog.root)) {
            by_number.entry(space.format.space().0).or_default().push(space);
        }
        Self {
            catalog,
            dictionary,
            by_path: held.iter().map(|held| (held.space.path(), *held)).collect(),
            by_number,
            owners: dictionary.entries.iter().map(|entry| (entry.space, entry)).collect(),
            expected: dictionary.entries.iter().flat_map(|entry| &entry.files).map(PathBuf::as_path).collect(),
            doubt: None,
            events: None,
            in_ddl: FilesInDdl::default(),
            is_partial: false,
            is_unprepared: false,
            left_out: 0,
            findings: Vec::new(),
        }
    }

    pub fn run(&mut self) {
        let mut opener = Opener::new();
        for entry in &self.dictionary.entries {
            self.entry(entry, &mut opener);
            self.twin(entry);
        }
        let mut unclaimed: Vec<&Tablespace> = self.by_number.values().flatten().copied().collect();
        unclaimed.retain(|space| !self.expected.contains(space.path()));
        unclaimed.sort_by_key(|space| space.path());
        for space in unclaimed {
            self.unclaimed(space);
        }
        if !self.dictionary.is_in_files {
            self.halves();
        }
        if self.left_out > 0 {
            let message = format!("a partial backup: it lacks {} tables that its dictionary names", self.left_out);
            self.say(self.catalog.root.clone(), None, ("partial_backup", Severity::Notice), message);
        }
    }

    /// MySQL starts on a copy of a datadir that has the files from outside inside, but not if it sees the others too.
    fn twin(&mut self, entry: &Entry) {
        let (Some(file), Some(twin)) = (entry.files.first(), &entry.twin) else { return };
        let message = format!(
            "{} is also {}, where the dictionary has it: MySQL takes the file in the datadir, but does not start if innodb_directories names \
             the other one's directory",
            entry.called(),
            twin.display()
        );
        self.say(file.clone(), None, ("duplicate_space", Severity::Notice), message);
    }

    fn say(
        &mut self,
        path: PathBuf,
        table: Option<&str>,
        (reason, severity): (impl Into<FindingCode>, Severity),
        message: String,
    ) {
        let table = table.map(str::to_owned);
        self.findings.push(CatalogFinding { path, table, reason: reason.into(), severity, message });
    }

    /// Reports a difference between dictionary and files: damage, unless the log may still resolve it. `numbers` are the ids of the
    /// tablespaces concerned.
    fn differs(
        &mut self,
        path: PathBuf,
        entry: &Entry,
        reason: impl Into<FindingCode>,
        (mut message, numbers): (String, &[u32]),
    ) {
        let reason = reason.into();
        let is_explained = self.events.as_ref().is_some_and(|events| match reason {
            FindingCode::MISSING_FILE => numbers.iter().all(|space| events.explain_missing(*space)),
            // Index ids and roots come from pages of the dictionary and the table, not from file operations.
            FindingCode::STALE_FILE => false,
            _ => events.concern(numbers),
        });
        let severity = match &self.doubt {
            None if self.in_ddl.concern(&path, numbers) => {
                message = format!("{message} ({IN_DDL})");
                Severity::Undecided
            }
            None => Severity::Damage,
            Some(_) if is_explained => {
                message.push_str(
                    " (the redo log creates, renames or deletes this file: crash recovery finishes what the server began)",
                );
                Severity::Notice
            }
            Some(doubt) => {
                message = format!("{message} ({doubt}, which may explain it)");
                Severity::Undecided
            }
        };
        let table = (entry.holds == Holds::Table).then_some(entry.name.as_str());
        self.say(path, table, (reason, severity), message);
    }

    fn entry(&mut self, entry: &'c Entry, opener: &mut Opener) {
        if entry.holds == Holds::Temporary {
            return;
        }
        self.flagged(entry);
        let Some(first) = entry.files.first() else { return self.by_number_alone(entry) };
        for file in &entry.files {
            if !self.is_there(file) {
                self.missing(file, entry);
            }
        }
        let Some(held) = self.by_path.get(first.as_path()).copied() else { return };
        let space = &held.space;
        if entry.is_discarded || entry.is_intermediate {
            return;
        }
        let (number, expected) = (space.format.space().0, entry.space);
        match entry.holds {
            // Every truncation gives an undo tablespace a new id.
            Holds::Undo if undo_number(SpaceId(number)) == undo_number(SpaceId(expected)) => {}
            _ if number == expected => self.trees(held, entry, opener),
            _ => self.wrong_number(space, entry),
        }
    }

    /// Indexes that the server itself has given up.
    fn flagged(&mut self, entry: &Entry) {
        for tree in entry.trees.iter().filter(|tree| tree.is_flagged) {
            let message = format!(
                "the dictionary marks index {} of table {} as corrupt: the server found it so and refuses to use it (error 1712) until it is \
                 dropped and added again",
                tree.index, tree.table
            );
            let path = entry.files.first().cloned().unwrap_or_else(|| self.catalog.root.clone());
            self.say(path, Some(&tree.table), ("flagged_index", Severity::Damage), message);
        }
    }

    /// Whether the file exists at all; damage inside it is reported elsewhere.
    fn is_there(&self, path: &Path) -> bool {
        let has = |path: &Path| self.catalog.names.contains(path);
        let is_new = self.is_unprepared && has(&path.with_extension("new"));
        has(path) || is_new || self.by_path.contains_key(path) || files::exists(path)
    }

    /// Checks one of MariaDB's undo tablespaces, whose names the dictionary does not keep.
    fn by_number_alone(&mut self, entry: &'c Entry) {
        if entry.holds != Holds::Undo || self.undo_under_its_name(entry) {
            return;
        }
        // An undo file that cannot be recognised may be the missing one.
        let in_root = |path: &&PathBuf| path.parent() == Some(self.catalog.root.as_path());
        let undo = self.catalog.names.iter().filter(in_root).filter(|path| NameHint::of(path) == NameHint::Undo);
        let undo: Vec<&PathBuf> = undo.collect();
        if undo.iter().any(|path| !self.by_path.contains_key(path.as_path())) {
            return;
        }
        let number = entry.space;
        let path = self.catalog.root.join(format!("undo{number:03}"));
        let message = format!(
            "missing: undo tablespace {number} holds rollback segments, but no file here is that tablespace; without it the server does not start"
        );
        if undo.is_empty() {
            let message = format!("{message} (if innodb_undo_directory names another directory, name that here too)");
            return self.say(path, None, ("missing_undo", Severity::Undecided), message);
        }
        self.differs(path, entry, "missing_undo", (message, &[entry.space]));
    }

    /// Whether MariaDB's undo tablespace has the name it must have: `undo001` for the first one, `undo002` for the next.
    fn undo_under_its_name(&mut self, entry: &'c Entry) -> bool {
        let numbers =
            self.dictionary.entries.iter().filter(|entry| entry.holds == Holds::Undo).map(|entry| entry.space);
        let first = numbers.min().unwrap_or(entry.space);
        let name = |number: u32| self.catalog.root.join(format!("undo{:03}", number - first + 1));
        let in_root = |space: &&Tablespace| space.path().parent() == Some(self.catalog.root.as_path());
        let files = self.by_number.get(&entry.space).into_iter().flatten().copied();
        let here: Vec<&Tablespace> = files.filter(in_root).collect();
        // The names may start at any number if all of them keep the same distance from the space ids.
        let named = self.by_number.values().flatten().copied().filter(in_root);
        let offsets: HashSet<i64> =
            named.filter_map(|space| Some(undo_file(space.path())? - space_number(space))).collect();
        if offsets.len() == 1 && here.iter().any(|space| undo_file(space.path()).is_some()) {
            return true;
        }
        if here.iter().any(|space| space.path() == name(entry.space)) {
            return true;
        }
        let Some(space) = here.first() else { return false };
        let message = format!(
            "this is undo tablespace {}, which must be called {}: the server does not start with it under another name",
            entry.space,
            name(entry.space).display()
        );
        self.differs(space.path().to_path_buf(), entry, "misplaced_file", (message, &[entry.space]));
        true
    }

    fn missing(&mut self, file: &Path, entry: &'c Entry) {
        let table = (entry.holds == Holds::Table).then_some(entry.name.as_str());
        if entry.is_discarded {
            let message = format!(
                "the tablespace of table {} was discarded (ALTER TABLE ... DISCARD TABLESPACE), so it has no file",
                entry.name
            );
            return self.say(file.to_path_buf(), table, ("discarded", Severity::Notice), message);
        }
        if entry.is_intermediate {
            let message =
                format!("{} was left by an ALTER TABLE that did not finish; its file is already gone", entry.called());
            return self.say(file.to_path_buf(), table, ("intermediate_table", Severity::Notice), message);
        }
        let elsewhere = self.by_number.get(&entry.space).into_iter().flatten().copied();
        let moved = elsewhere.filter(|space| !self.expected.contains(space.path())).min_by_key(|space| space.path());
        if let Some(space) = moved {
            // The log may rename it, and so may preparing a backup, whose tool gives some files names of its own (`t.ibd.new`).
            let advice = if self.doubt.is_some() { "" } else { ": rename it back" };
            let message = format!(
                "this is the file of {}, which the dictionary expects at {}{advice}",
                entry.called(),
                file.display()
            );
            if entry.holds == Holds::Undo && self.doubt.is_none() {
                let path = space.path().to_path_buf();
                return self.say(
                    path,
                    None,
                    ("misplaced_file", Severity::Undecided),
                    format!("{message}; {WITHOUT_UNDO}"),
                );
            }
            return self.differs(space.path().to_path_buf(), entry, "misplaced_file", (message, &[entry.space]));
        }
        if self.is_partial && entry.holds == Holds::Table {
            self.left_out += 1;
            return;
        }
        if file.is_absolute()
            && !file.starts_with(&self.catalog.root)
            && file.parent().is_some_and(|dir| !files::exists(dir))
        {
            let message = format!(
                "the dictionary expects the file of {} here, outside the datadir, but this machine has no such directory: if the datadir is \
                 another machine's, name the place of the file too",
                entry.called()
            );
            return self.say(file.to_path_buf(), table, (FindingCode::MISSING_FILE, Severity::Undecided), message);
        }
        let message = format!("missing: the dictionary expects the file of {} here", entry.called());
        if entry.holds == Holds::Undo && self.doubt.is_none() {
            let message = format!("{message}; {WITHOUT_UNDO}");
            return self.say(file.to_path_buf(), None, (FindingCode::MISSING_FILE, Severity::Undecided), message);
        }
        self.differs(file.to_path_buf(), entry, FindingCode::MISSING_FILE, (message, &[entry.space]));
    }

    /// Reports a file that holds a different tablespace than the dictionary puts there.
    fn wrong_number(&mut self, space: &Tablespace, entry: &'c Entry) {
        let (number, expected) = (space.format.space().0, entry.space);
        let whose = match self.owners.get(&number) {
            Some(owner) => format!("it is the file of {} (swapped, or copied over)", owner.called()),
            None => "the dictionary knows no such tablespace: it is from another server, or was copied at another time"
                .to_owned(),
        };
        let message = format!(
            "wrong file: it says that it is tablespace {number}, but {} is tablespace {expected}; {whose}",
            entry.called()
        );
        self.differs(space.path().to_path_buf(), entry, "wrong_file", (message, &[number, expected]));
    }

    /// Checks that each tree begins where the dictionary says.
    fn trees(&mut self, held: &Held, entry: &'c Entry, opener: &mut Opener) {
        let space = &held.space;
        let seen: HashMap<u32, Option<u64>> = held.roots.iter().copied().collect();
        let is_locked = space.format.encryption() != Encryption::None && matches!(space.key, SpaceKey::None);
        let is_cut = space.header.is_some_and(|header| header.size > space.pages());
        let mut strange: Vec<(&TreeAt, Root)> = Vec::new();
        for tree in &entry.trees {
            let root = match seen.get(&tree.page) {
                Some(id) => id.map_or(Root::NoIndex, Root::Of),
                // A truncated file is reported elsewhere.
                None if tree.page >= space.pages() && is_cut => continue,
                None if tree.page >= space.pages() => Root::Beyond,
                None if is_locked => continue,
                None => match root(space, tree.page, opener) {
                    Some(root) => root,
                    None => continue,
                },
            };
            if root != Root::Of(tree.id) {
                strange.push((tree, root));
            }
        }
        let Some((tree, root)) = strange.first() else { return };
        let more = match strange.len() {
            1 => String::new(),
            count => format!(" ({} more indexes are misplaced)", count - 1),
        };
        let message = format!(
            "the file is not the one that the dictionary describes: index {} of table {} should begin on page {} with number {}, but that page {root}{more}; it was copied at another time, or from another server",
            tree.index, tree.table, tree.page, tree.id
        );
        self.differs(space.path().to_path_buf(), entry, FindingCode::STALE_FILE, (message, &[entry.space]));
    }

    /// Tables with a `.frm` file but no dictionary row, or the reverse.
    fn halves(&mut self) {
        let unfinished = UnfinishedDdl::of(&self.catalog.root);
        let halves = halves(&self.catalog.root, &self.catalog.names, self.dictionary);
        let numbers = if halves.is_empty() { NumbersOfTables::default() } else { NumbersOfTables::of(self) };
        for half in halves {
            let (path, table, reason, message) = match half {
                Half::LacksFrm(_, _) | Half::LacksPar(_, _) if self.is_partial => continue,
                // MySQL 5.7 keeps partitions in the table definition.
                Half::LacksPar(_, _) if self.is_of_mysql() => continue,
                // A table created during the backup is in its log.
                Half::LacksTable(_, _) if self.is_unprepared => continue,
                Half::LacksFrm(path, table) => {
                    let message =
                        format!("missing: the definition of table {table}, without which the server cannot open it");
                    (path, table, "missing_frm", message)
                }
                Half::LacksPar(path, table) => {
                    let message =
                        format!("missing: the partitions of table {table}, without which the server cannot open it");
                    (path, table, "missing_par", message)
                }
                Half::OtherFrm(path, table, why) => {
                    let message = format!(
                        "this file does not define table {table}: {why}; it was swapped, cut, or copied at another time"
                    );
                    (path, table, "wrong_frm", message)
                }
                Half::OtherPar(path, table, why) => {
                    let message = format!(
                        "this file does not name the partitions of table {table}: {why}; it was swapped, cut, or copied at another time"
                    );
                    (path, table, "wrong_par", message)
                }
                Half::Unfinished(path, table, partition) => {
                    let message = format!(
                        "the dictionary still has the partition {partition} of table {table}, which an ALTER TABLE made that did not \
                         finish: the server does not use it"
                    );
                    self.say(path, Some(&table), ("unfinished_partition", Severity::Undecided), message);
                    continue;
                }
                Half::LacksTable(path, table) => {
                    let message = format!(
                        "the definition of table {table}, but the dictionary in ibdata1 has no such table: the server does not know it"
                    );
                    (path, table, "frm_without_table", message)
                }
            };
            if unfinished.names(&table) {
                let message = format!(
                    "{message} (a crash interrupted a statement on this table, and ddl_recovery.log names it: the server finishes or \
                     undoes the statement when it starts)"
                );
                self.say(path, Some(&table), (reason, Severity::Notice), message);
                continue;
            }
            let numbers = numbers.of_table(&path, &table);
            let entry = Entry::new(table, 0, Holds::Table);
            self.differs(path, &entry, reason, (message, &numbers));
        }
    }

    fn is_of_mysql(&self) -> bool {
        let system = self.by_number.get(&0).into_iter().flatten();
        system.map(|space| space.format.family()).any(|family| family == Family::MySql)
    }

    /// A tablespace in a place unknown to the dictionary.
    fn unclaimed(&mut self, space: &Tablespace) {
        let (path, number) = (space.path(), space.format.space().0);
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        // Servers look for tables only in files with this name pattern.
        if NameHint::of(path) != NameHint::Table {
            return;
        }
        let owner = self.owners.get(&number).copied();
        let is_owner_here = owner.is_some_and(|owner| {
            let mut files = owner.files.iter();
            files.any(|file| self.by_path.get(file.as_path()).is_some_and(|held| held.space.format.space().0 == number))
        });
        match owner {
            Some(owner) if is_owner_here => {
                let message = format!(
                    "a second file that says it is tablespace {number}: that is {}, whose file is {}",
                    owner.called(),
                    owner.files.first().map(|file| file.display().to_string()).unwrap_or_default()
                );
                if self.dictionary.is_in_files {
                    let message = format!("{message}; MySQL does not start with two of them");
                    return self.differs(path.to_path_buf(), owner, "duplicate_space", (message, &[number]));
                }
                self.say(path.to_path_buf(), None, ("duplicate_space", Severity::Notice), message);
            }
            Some(owner) if owner.files.iter().any(|file| !self.is_there(file)) => {}
            _ if name.starts_with("#sql") => {
                let message =
                    "left by an ALTER TABLE that did not finish: no table of the dictionary uses it".to_owned();
                self.say(path.to_path_buf(), None, ("orphan_file", Severity::Notice), message);
            }
            _ => {
                let message = "no table of the dictionary uses this file: the server leaves it alone".to_owned();
                self.say(path.to_path_buf(), None, ("orphan_file", Severity::Notice), message);
            }
        }
    }
}

/// The index id of an opened page; `None` if it is not an index page.
#[must_use]
pub fn index_of(opened: &[u8], format: &SpaceFormat) -> Option<u64> {
    let kind = PageType(be::u16_at(opened, fil::FIL_PAGE_TYPE)?);
    if kind.is_index(format.family()) { be::u64_at(opened, fil::PAGE_INDEX_ID) } else { None }
}

/// What is found on a page where a tree should begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    /// A page of this index.
    Of(u64),
    /// Something else.
    NoIndex,
    /// All zeros.
    Zero,
    /// The file ends before it.
    Beyond,
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(id) => write!(f, "belongs to index number {id}"),
            Self::NoIndex => f.write_str("is not an index page"),
            Self::Zero => f.write_str("is all zeros"),
            Self::Beyond => f.write_str("is not in the file"),
        }
    }
}

/// Reads a page where a tree should begin. `None` if it is damaged, which is reported elsewhere.
fn root(space: &Tablespace, page: u32, opener: &mut Opener) -> Option<Root> {
    let stored = space.stored(page).ok()?;
    if stored.iter().all(|byte| *byte == 0) {
        return Some(Root::Zero);
    }
    let image = space.opened(page, &stored, opener).ok()?;
    Some(index_of(&image, &space.format).map_or(Root::NoIndex, Root::Of))
}

fn space_number(space: &Tablespace) -> i64 {
    i64::from(space.format.space().0)
}

/// The number in the name of MariaDB's undo tablespace: `undo001`.
fn undo_file(path: &Path) -> Option<i64> {
    path.file_name()?.to_str()?.strip_prefix("undo")?.parse().ok()
}
