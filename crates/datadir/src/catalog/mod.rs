//! What a datadir says it holds, compared with the files that are there.
//!
//! ```text
//! Inventory -> datadirs -> dictionary (mysql.ibd, or ibdata1 and .frm files) -> entries ┐
//!                                                       page 0 of each file -> Held ────┼-> findings
//!                                             redo log, notes of backup tools ──────────┘
//! ```
//!
//! The dictionary is read once, before the files, at the cost of its own pages; from each other file it takes the roots of its trees. A
//! file is reported missing only if the dictionary was read to its end.

mod any_case;
mod compare;
mod datadir;
mod ddl_log;
mod entry;
mod frm;
mod history;
mod home;
mod log;
mod mending;
mod mysql;
mod old;
mod other_log;
mod ring;
mod rows;
mod whole;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use format::keyring::KeyStore;
use format::{Encryption, Lsn};

use self::any_case::AnyCase;
use self::compare::Compare;
pub use self::compare::index_of;
use self::datadir::Says;
pub use self::datadir::{Catalog, CatalogFinding, Held};
use self::ddl_log::{FilesInDdl, UnfinishedDdl};
pub use self::entry::DroppedTree;
use self::entry::{Dictionary, Entry, Holds};
use self::frm::{Half, halves};
use self::log::FileEvents;
pub use self::log::{changed_pages, has_counters};
pub use self::mending::{Mending, Mends};
pub use self::mysql::fulltext::FulltextIndex;
pub use self::ring::changes_page;
use super::keys::{NO_KEY, SpaceKey};
use super::name::NameHint;
use super::redo_log::{RedoLogs, unbegun_truncation_logs};
use super::selection::Selection;
use super::{files, remote, system};
use crate::backup_notes::{BackupNotes, is_own_increment};
use crate::inventory::{Candidate, Inventory, Outside};
use crate::log_name::LOG;
use crate::reading::is_unwritten;
use crate::severity::Severity;
use crate::tablespace::{FoundFile, Tablespace, transactions};

/// How often, and at what interval, to recheck differences beside a running server.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);
/// Tables named at most in a finding about several.
const NAMED_MAX: usize = 3;

impl Catalog {
    /// The datadirs that were walked, with their dictionaries.
    #[must_use]
    pub fn all(inventory: &Inventory, keys: &KeyStore, page_size: Option<u32>) -> Vec<Self> {
        let found = datadirs(inventory);
        let selection = &inventory.selection;
        let read = |(root, mut names): (PathBuf, BTreeSet<PathBuf>)| {
            let mut says = Says::read(&root, &names, keys, page_size);
            says.match_case(&names);
            // Of what patterns leave out, nothing is compared.
            names
                .retain(|path| is_of_server(path) || path.parent() == Some(root.as_path()) || selection.has_file(path));
            says.keep(selection);
            Self { root, names, says, home: None, keys: keys.clone(), page_size, selection: selection.clone() }
        };
        home::joined(found.into_iter().map(read).collect())
    }

    /// The root pages of all trees, by file, ascending. A sweep notes them as it passes, so they are not read twice.
    #[must_use]
    pub fn roots(&self) -> HashMap<&Path, Vec<u32>> {
        let Says::All(dictionary) = &self.says else { return HashMap::new() };
        let roots = dictionary.entries.iter().filter_map(|entry| {
            let mut pages: Vec<u32> = entry.trees.iter().map(|tree| tree.page).collect();
            pages.sort_unstable();
            Some((entry.files.first()?.as_path(), pages))
        });
        roots.collect()
    }

    /// Files that statements were changing when the server crashed: the server finishes the job when it starts.
    #[must_use]
    pub fn in_ddl(&self) -> Vec<PathBuf> {
        let Says::All(dictionary) = &self.says else { return Vec::new() };
        let mut files: Vec<PathBuf> = self.files_in_ddl(dictionary).files().map(Path::to_path_buf).collect();
        if !dictionary.is_in_files {
            // MariaDB logs no such steps: the names tell. The index or the table is dropped when the server starts. A crash may also
            // come between the creation of the file and that of the dictionary's row.
            let unfinished = dictionary.entries.iter().filter(|entry| entry.is_being_indexed || entry.is_intermediate);
            files.extend(unfinished.flat_map(|entry| entry.files.iter().cloned()));
            files.extend(self.names.iter().filter(|path| is_intermediate(path)).cloned());
            let parts = UnfinishedDdl::of(&self.root).partitions;
            files.extend(parts.into_iter().map(|part| self.root.join(part)).filter(|path| self.names.contains(path)));
        }
        files
    }

    fn files_in_ddl(&self, dictionary: &Dictionary) -> FilesInDdl {
        if dictionary.ddl_steps.is_empty() {
            return FilesInDdl::default();
        }
        // If the undo logs cannot be read, any transaction may still be open.
        let open = transactions::numbers_in(&self.root, &self.keys).unwrap_or_else(|| Ok(BTreeSet::new())).ok();
        let has_ended = |transaction| open.as_ref().is_some_and(|open| !open.contains(&transaction));
        FilesInDdl::new(&dictionary.ddl_steps, &dictionary.entries, has_ended)
    }

    /// Files that are named like those of tables, but that no table of the dictionary uses, and whose content does not matter: servers leave
    /// them alone whatever is in them. MySQL reads the headers of all such files, and does not start if it finds a space id twice.
    #[must_use]
    pub fn orphans(&self) -> Vec<PathBuf> {
        let Says::All(dictionary) = &self.says else { return Vec::new() };
        let used: BTreeSet<&Path> = dictionary.entries.iter().flat_map(Entry::paths).collect();
        let is_orphan = |path: &&PathBuf| NameHint::of(path) == NameHint::Table && !used.contains(path.as_path());
        let is_ignored = |path: &&PathBuf| !dictionary.is_in_files || is_unwritten(path);
        self.names.iter().filter(is_orphan).filter(is_ignored).cloned().collect()
    }

    /// Files outside the datadir that its dictionary names: walking does not find them.
    #[must_use]
    pub fn outside(&self) -> Vec<Outside> {
        let Says::All(dictionary) = &self.says else { return Vec::new() };
        let entries = dictionary.entries.iter().filter(|entry| !entry.is_discarded);
        let files = entries.flat_map(|entry| entry.files.iter().map(|file| (entry.holds, file)));
        let outside = files.filter(|(_, file)| !file.starts_with(&self.root));
        let of_table = |(holds, file): (Holds, &PathBuf)| {
            let home = home(&self.root, file).filter(|_| holds == Holds::Table);
            Outside { path: file.clone(), home }
        };
        outside.map(of_table).collect()
    }
}

/// Adds the files outside of the datadirs of MySQL that their dictionaries name. (Those of MariaDB have link files, which are followed.) What
/// cannot be read of a dictionary adds nothing. A datadir in a bucket has nothing outside, and its dictionary is not fetched to learn that.
pub fn add_outside(inventory: &mut Inventory, keys: &KeyStore) {
    let of_mysql = |file: &&Candidate| file.hint == NameHint::Dictionary && !file.named && !remote::is_url(&file.path);
    let roots: Vec<PathBuf> = inventory
        .candidates
        .iter()
        .filter(of_mysql)
        .filter_map(|file| Some(file.path.parent()?.to_path_buf()))
        .collect();
    for root in roots {
        let files = outside_of_mysql(&root, keys).unwrap_or_default().into_iter();
        inventory.add(files.map(|path| Outside { home: home(&root, &path), path }));
    }
}

/// Where the file outside of a table would be inside: in the folder of its database, as it is there.
fn home(root: &Path, file: &Path) -> Option<PathBuf> {
    let folder = root.join(file.parent()?.file_name()?);
    files::is_dir(&folder).then(|| Some(folder.join(file.file_name()?))).flatten()
}

/// Files of tables, general tablespaces and undo logs that the dictionary of MySQL names outside of the datadir `root`.
///
/// # Errors
/// Why the dictionary cannot be read, as a clause. In a crashed datadir its pages may be torn.
pub fn outside_of_mysql(root: &Path, keys: &KeyStore) -> Result<Vec<PathBuf>, String> {
    let space = open_dictionary(&[root.join("mysql.ibd")], keys, None)?;
    let dictionary = mysql::read(&space, root)?;
    let entries = dictionary.entries.into_iter();
    let is_wanted =
        |entry: &Entry| !entry.is_discarded && matches!(entry.holds, Holds::Table | Holds::Several | Holds::Undo);
    let files = entries.filter(is_wanted).flat_map(|entry| entry.files);
    Ok(files.filter(|file| file.is_absolute() && !file.starts_with(root)).collect())
}

/// The files of a copy of MySQL's that its dictionary names outside, by their names inside.
pub fn moved_in_of_mysql(root: &Path, keys: &KeyStore) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let space = open_dictionary(&[root.join("mysql.ibd")], keys, None)?;
    let entries = mysql::read(&space, root)?.entries.into_iter();
    let moved = |entry: Entry| {
        let name = entry.files.first()?.strip_prefix(root).ok()?.to_path_buf();
        Some((name, entry.original?))
    };
    Ok(entries.filter_map(moved).collect())
}

/// The files outside of a datadir of MariaDB 10.5 that its dictionary names.
pub fn outside_of_mariadb(root: &Path, keys: &KeyStore) -> Result<Vec<PathBuf>, String> {
    let space = open_dictionary(&system::files_of(root), keys, None)?;
    let files = old::outside(&space)?.into_iter();
    Ok(files.filter(|file| !file.starts_with(root)).collect())
}

impl Says {
    fn read(root: &Path, names: &BTreeSet<PathBuf>, keys: &KeyStore, page_size: Option<u32>) -> Self {
        let own = root.join("mysql.ibd");
        if names.contains(&own) {
            return match open_dictionary(std::slice::from_ref(&own), keys, page_size)
                .and_then(|space| mysql::read(&space, root))
            {
                Ok(dictionary) => Self::All(dictionary),
                Err(why) => Self::Unread(own, why),
            };
        }
        let parts = system::files_of(root);
        let Some(first) = parts.first() else {
            let own_redo = names.iter().any(|name| name.starts_with(root.join("#innodb_redo")));
            return match (whole::is_datadir(root, names.iter()), own_redo || names.contains(&root.join("undo_001"))) {
                (false, _) => Self::Folder,
                (true, true) => Self::Lost(own, "MySQL's data dictionary"),
                (true, false) => Self::Lost(root.join("ibdata1"), "the system tablespace"),
            };
        };
        match open_dictionary(&parts, keys, page_size) {
            Ok(space) if whole::has_sdi(&space) => Self::Lost(own, "MySQL's data dictionary"),
            Ok(space) => match old::read(&space, root) {
                Ok(dictionary) => Self::All(dictionary),
                Err(why) => Self::Unread(first.clone(), why),
            },
            Err(why) => Self::Unread(first.clone(), why),
        }
    }
}

/// Whether the file is none of a table's.
fn is_of_server(path: &Path) -> bool {
    !matches!(NameHint::of(path), NameHint::Table | NameHint::Link | NameHint::Unknown)
}

impl Says {
    /// Drops the tablespaces of tables that patterns leave out.
    fn keep(&mut self, selection: &Selection) {
        let is_kept = |entry: &Entry| entry.holds != Holds::Table || entry.paths().any(|path| selection.has_file(path));
        if let Self::All(dictionary) = self {
            dictionary.entries.retain(is_kept);
        }
    }

    /// Gives tables the names that their files have, if those differ in case only and are no other table's.
    fn match_case(&mut self, names: &BTreeSet<PathBuf>) {
        let Self::All(dictionary) = self else { return };
        let is_absent = |file: &&PathBuf| !names.contains(*file);
        let files =
            || dictionary.entries.iter().filter(|entry| entry.holds == Holds::Table).flat_map(|entry| &entry.files);
        let any = match files().find(is_absent) {
            Some(_) => AnyCase::of(names),
            None => return,
        };
        let found = files().filter(is_absent).filter_map(|file| Some((file.clone(), any.find(file)?.to_path_buf())));
        let mut found: HashMap<PathBuf, PathBuf> = found.collect();
        let taken: BTreeSet<&PathBuf> = files().filter(|file| names.contains(*file)).collect();
        found.retain(|_, name| !taken.contains(name));
        for file in dictionary.entries.iter_mut().flat_map(|entry| &mut entry.files) {
            if let Some(name) = found.get(file) {
                file.clone_from(name);
            }
        }
    }
}

/// The tablespaces of tables in MySQL's dictionary in the datadir `root`, by id, with their names, and whether there is a file in any place where
/// it may be. Not those that are discarded, nor those of statements that have not ended.
///
/// # Errors
/// Why the dictionary cannot be read, as a clause.
pub fn tablespaces_of(root: &Path, keys: &KeyStore) -> Result<BTreeMap<u32, (String, bool)>, String> {
    let names = BTreeSet::from([root.join("mysql.ibd")]);
    match Says::read(root, &names, keys, None) {
        Says::All(dictionary) => {
            let is_table = |entry: &Entry| matches!(entry.holds, Holds::Table | Holds::Several);
            let is_used = |entry: &Entry| is_table(entry) && !entry.is_discarded && !entry.is_intermediate;
            let known = |entry: Entry| (entry.space, (entry.name.clone(), entry.paths().any(files::exists)));
            Ok(dictionary.entries.into_iter().filter(is_used).map(known).collect())
        }
        Says::Unread(_, why) => Err(why),
        Says::Folder | Says::Lost(..) => Err("it is missing".to_owned()),
    }
}

/// The full-text indexes of MySQL's tables in the datadir `root`.
///
/// # Errors
/// Why the dictionary cannot be read, as a clause.
pub fn fulltext_of(root: &Path, keys: &KeyStore) -> Result<Vec<FulltextIndex>, String> {
    mysql::fulltext::read(&open_dictionary(&[root.join("mysql.ibd")], keys, None)?)
}

/// Whether a transaction is open in the datadir `root` that has written steps into MySQL's DDL log: statements that drop do that. The server
/// carries the steps out when it starts, and then rolls the transaction back: it has a table without its file, or an index without its pages.
///
/// # Errors
/// Why the dictionary cannot be read, as a clause.
pub fn has_open_steps(root: &Path, keys: &KeyStore) -> Result<bool, String> {
    let open = transactions::numbers_in(root, keys).unwrap_or_else(|| Ok(BTreeSet::new()))?;
    let dictionary = mysql::read(&open_dictionary(&[root.join("mysql.ibd")], keys, None)?, root)?;
    Ok(dictionary.ddl_steps.iter().any(|step| !step.is_deleted && open.contains(&step.transaction)))
}

/// The tables and partitions in MariaDB's dictionary in the datadir `root` that have files of their own: space id, name, file. Not those that
/// are discarded, nor those of statements that a crash interrupted.
///
/// # Errors
/// Why the dictionary cannot be read, as a clause.
pub fn files_of_tables(root: &Path, keys: &KeyStore) -> Result<Vec<(u32, String, PathBuf)>, String> {
    let dictionary = old::read(&open_dictionary(&system::files_of(root), keys, None)?, root)?;
    let of_table = |entry: Entry| {
        let has_file = entry.holds == Holds::Table && !entry.is_discarded && !entry.is_intermediate;
        let file = entry.files.into_iter().next().filter(|_| has_file)?;
        Some((entry.space, entry.name, file))
    };
    Ok(dictionary.entries.into_iter().filter_map(of_table).collect())
}

/// A table of which InnoDB's dictionary and the `.frm` file, or the `.par` file, disagree.
#[derive(Debug)]
pub struct FrmProblem {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, as a clause.
    pub why: String,
    /// The dictionary has no such table.
    pub is_extra: bool,
}

/// Whether a transaction is open in the datadir `root` that changed MariaDB's dictionary: the server rolls it back when it starts.
///
/// # Errors
/// Why that cannot be read, as a clause.
pub fn has_open_definitions(root: &Path, keys: &KeyStore) -> Result<bool, String> {
    let writers = old::writers(&open_dictionary(&system::files_of(root), keys, None)?)?;
    let open = transactions::numbers_in(root, keys).unwrap_or_else(|| Ok(BTreeSet::new()))?;
    Ok(!writers.is_disjoint(&open))
}

/// Compares the `.frm` and `.par` files in the datadir `root` with the dictionary.
///
/// # Errors
/// Why the dictionary cannot be read, as a clause.
pub fn frm_problems(root: &Path, keys: &KeyStore) -> Result<Vec<FrmProblem>, String> {
    let listed = |dir: &Path| {
        files::read_dir(dir).map_err(|error| format!("{}: {}", dir.display(), crate::inventory::plain(&error)))
    };
    let mut names = BTreeSet::new();
    for entry in listed(root)? {
        let path = entry.path();
        if files::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            names.extend(listed(&path)?.into_iter().map(|entry| entry.path()));
        } else {
            names.insert(path);
        }
    }
    let dictionary = match Says::read(root, &names, keys, None) {
        Says::All(dictionary) => dictionary,
        Says::Unread(path, why) => return Err(format!("{}: {why}", path.display())),
        Says::Folder | Says::Lost(..) => return Err(format!("{}: it holds none", root.display())),
    };
    let problem = |half: Half| match half {
        Half::LacksFrm(path, _) | Half::LacksPar(path, _) => {
            Some(FrmProblem { path, why: "it is missing".to_owned(), is_extra: false })
        }
        Half::LacksTable(path, _) => {
            Some(FrmProblem { path, why: "the dictionary has no such table".to_owned(), is_extra: true })
        }
        Half::OtherFrm(path, _, why) | Half::OtherPar(path, _, why) => Some(FrmProblem { path, why, is_extra: false }),
        Half::Unfinished(..) => None,
    };
    Ok(halves(root, &names, &dictionary).into_iter().filter_map(problem).collect())
}

fn unbegun_truncation(note: PathBuf) -> CatalogFinding {
    let message = "not complete: MySQL was killed after it created this file and before it truncated the undo tablespace, and cannot start while the file exists; run innokit recover, which removes it, or remove it";
    CatalogFinding {
        path: note,
        table: None,
        reason: "empty_truncation_log".into(),
        severity: Severity::Undecided,
        message: message.to_owned(),
    }
}

/// Whether the file is that of a table that an ALTER TABLE creates to replace another.
fn is_intermediate(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    NameHint::of(path) == NameHint::Table && stem.is_some_and(|stem| stem.starts_with(old::INTERMEDIATE))
}

fn is_undecided(finding: &CatalogFinding) -> bool {
    finding.severity == Severity::Undecided
}

/// Opens the tablespace made of these files.
fn open(files: &[PathBuf], keys: &KeyStore, page_size: Option<u32>) -> Result<Tablespace, String> {
    let files: Result<Vec<_>, _> = files.iter().cloned().map(FoundFile::of).collect();
    let files = files.map_err(|error| format!("it cannot be examined: {}", crate::inventory::plain(&error)))?;
    Tablespace::open(&files, keys, page_size)
}

/// Opens the tablespace that holds the dictionary.
fn open_dictionary(files: &[PathBuf], keys: &KeyStore, page_size: Option<u32>) -> Result<Tablespace, String> {
    let space = open(files, keys, page_size)?;
    if space.format.encryption() != Encryption::None && matches!(space.key, SpaceKey::None) {
        return Err(format!("it is {NO_KEY}"));
    }
    Ok(space)
}

/// The walked folders that are datadirs, or hold tables but no dictionary, each with every file below it.
fn datadirs(inventory: &Inventory) -> Vec<(PathBuf, BTreeSet<PathBuf>)> {
    let named: BTreeSet<&Path> =
        inventory.candidates.iter().filter(|file| file.named).map(|file| file.path.as_path()).collect();
    let read = inventory.candidates.iter().map(|file| &file.path);
    let passed =
        inventory.skipped.iter().chain(&inventory.failed).chain(&inventory.vanished).map(|passed| &passed.path);
    let walked: BTreeSet<&PathBuf> = read.chain(passed).filter(|path| !named.contains(path.as_path())).collect();
    // A system tablespace file under a custom name marks a datadir too: the walk has set its hint.
    let is_mark = |file: &&Candidate| matches!(file.hint, NameHint::System(_) | NameHint::Dictionary) && !file.named;
    let marks = inventory.candidates.iter().filter(is_mark).map(|file| &file.path);
    let is_lost = |path: &&PathBuf| matches!(NameHint::of(path), NameHint::System(_) | NameHint::Dictionary);
    let lost = walked.iter().copied().filter(is_lost);
    let mut roots: BTreeSet<PathBuf> =
        marks.chain(lost).filter_map(|path| path.parent().map(Path::to_path_buf)).collect();
    roots.extend(whole::roots_without_dictionary(&inventory.walked, &walked, &roots));
    if roots.is_empty() {
        return Vec::new();
    }
    let mut found: BTreeMap<PathBuf, BTreeSet<PathBuf>> =
        roots.into_iter().map(|root| (root, BTreeSet::new())).collect();
    for path in walked {
        // The deepest one, since a backup may lie within a datadir.
        let root = path.ancestors().skip(1).find(|above| found.contains_key(*above)).map(Path::to_path_buf);
        if let Some(names) = root.and_then(|root| found.get_mut(&root)) {
            names.insert(path.clone());
        }
    }
    found.into_iter().collect()
}

impl Catalog {
    /// Findings about the datadir, given the tablespaces that were read.
    #[must_use]
    pub fn findings(&self, held: &[Held], redo: &mut RedoLogs, live: bool) -> Vec<CatalogFinding> {
        if is_own_increment(&self.root) {
            return vec![self.increment()];
        }
        let notes = BackupNotes::of(&self.root);
        let mut findings = self.as_a_whole(notes.as_ref());
        if !live {
            findings.extend(unbegun_truncation_logs(&self.root).into_iter().map(unbegun_truncation));
        }
        let Says::All(dictionary) = &self.says else { return findings };
        let undo = self.undo_beside(held);
        let held = &held.iter().chain(&undo).collect::<Vec<_>>();
        // Not beside a server, whose log moves while it is read, nor in a backup, whose log was copied by the tool, nor of some tables, whose
        // log is that of all.
        if !live && notes.is_none() && self.selection.is_all() {
            findings.append(&mut self.other_log(dictionary, held, redo));
            findings.extend(self.older_system(dictionary, held, redo));
        }
        let mut differences = self.differences(dictionary, held, (redo, notes.as_ref()));
        for _ in 0..TRIES {
            if !live || differences.is_empty() {
                break;
            }
            // A server creates, renames and removes files between two looks, so recheck every difference.
            std::thread::sleep(PAUSE);
            let mut says = Says::read(&self.root, &self.names, &self.keys, self.page_size);
            says.keep(&self.selection);
            let Says::All(dictionary) = says else { break };
            let held: Vec<Held> = held.iter().filter_map(|held| self.opened_again(held, &differences)).collect();
            differences = self.differences(&dictionary, &held.iter().collect::<Vec<_>>(), (redo, notes.as_ref()));
        }
        match redo.pending_for(&self.probe()) {
            Some(doubt) if live && !differences.is_empty() => findings.push(self.in_flux(&differences, doubt)),
            _ => findings.append(&mut differences),
        }
        findings
    }

    /// The trees of dropped indexes that MariaDB has yet to free, and the datadir. Whatever they hold, no query reads it. Not of a transaction
    /// that has not ended: its rollback brings the index back.
    pub fn dropped_trees(&self) -> Option<(&Path, HashSet<DroppedTree>)> {
        let Says::All(dictionary) = &self.says else { return None };
        let dropped = Some(&dictionary.dropped).filter(|dropped| !dropped.is_empty())?;
        let open = transactions::numbers_in(&self.root, &self.keys)?.ok()?;
        let live: HashSet<(u32, u32)> = dictionary
            .entries
            .iter()
            .flat_map(|entry| entry.trees.iter().map(|tree| (entry.space, tree.page)))
            .collect();
        let is_gone = |tree: &DroppedTree| !live.contains(&(tree.space, tree.root));
        let ended = dropped.iter().filter(|dropped| !open.contains(&dropped.transaction)).map(|dropped| dropped.tree);
        Some((self.root.as_path(), ended.filter(is_gone).collect()))
    }

    /// The undo tablespaces, which a table check does not read.
    fn undo_beside(&self, held: &[Held]) -> Vec<Held> {
        let paths: HashSet<&Path> = held.iter().map(|held| held.space.path()).collect();
        let is_held = |path: &&PathBuf| paths.contains(path.as_path());
        let undo = self.names.iter().filter(|path| NameHint::of(path) == NameHint::Undo);
        let more = undo.filter(|path| !is_held(path));
        let more = more.filter_map(|path| open(std::slice::from_ref(path), &self.keys, self.page_size).ok());
        more.map(|space| Held { space, roots: Vec::new(), newest: Lsn(0) }).collect()
    }

    fn differences(
        &self,
        dictionary: &Dictionary,
        held: &[&Held],
        (redo, notes): (&mut RedoLogs, Option<&BackupNotes>),
    ) -> Vec<CatalogFinding> {
        let mut compare = Compare::new(self, dictionary, held);
        compare.doubt = redo.pending_for(&self.probe()).map(str::to_owned);
        compare.in_ddl = self.files_in_ddl(dictionary);
        compare.is_partial = notes.is_some_and(|notes| notes.is_partial);
        compare.is_unprepared = notes.is_some_and(|notes| !notes.is_prepared());
        compare.run();
        // Read the log only if it might explain something.
        if compare.doubt.is_some() && compare.findings.iter().any(is_undecided) {
            compare.findings.clear();
            compare.events = FileEvents::read(&self.root, &self.keys, u64::MAX).filter(|events| events.is_whole);
            compare.run();
        }
        compare.findings
    }

    /// A path in the datadir, for asking about its log. No tablespace's: of one, more may be pending than of the others.
    fn probe(&self) -> PathBuf {
        self.root.join(LOG)
    }

    /// The tablespace read again if there was a finding at its path; otherwise unchanged.
    fn opened_again(&self, held: &Held, differences: &[CatalogFinding]) -> Option<Held> {
        if differences.iter().all(|finding| finding.path != held.space.path()) {
            return Some(held.clone());
        }
        let paths: Vec<PathBuf> = held.space.files.iter().map(|file| file.path.clone()).collect();
        Some(Held { space: open(&paths, &self.keys, self.page_size).ok()?, roots: Vec::new(), newest: held.newest })
    }

    /// The dictionary's pages lag behind the server's changes: until they are flushed, nothing is certain.
    fn in_flux(&self, differences: &[CatalogFinding], doubt: &str) -> CatalogFinding {
        let names = differences.iter().map(|finding| match &finding.table {
            Some(table) => table.clone(),
            None => finding.path.display().to_string(),
        });
        let names: Vec<String> = names.take(NAMED_MAX).collect();
        let message = format!(
            "the dictionary on disk and the files differ in {} places ({}{}): {doubt}, so they are not compared now",
            differences.len(),
            names.join(", "),
            if differences.len() > NAMED_MAX { " ..." } else { "" }
        );
        let (path, reason, severity) = (self.root.clone(), "dictionary_in_flux".into(), Severity::Notice);
        CatalogFinding { path, table: None, reason, severity, message }
    }
}
