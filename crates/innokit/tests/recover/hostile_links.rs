//! Every name that root writes to in a datadir of `mysql`'s, each a link made by `mysql`. Which names these are is not believed to any list: the
//! kernel names what a run makes, changes, renames and removes (inotify). That includes files that are gone when the run ends.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::inotify;

use crate::backup_lab::Server;
use crate::common::limited::{PATIENCE, limited};
use crate::common::{Run, copy, innokit};
use crate::hostile::{Place, state};

/// The user that owns the datadir. Root gives files back to it.
const MYSQL: u32 = 1234;
/// Names of one kind that are tried: what a run does to one tablespace it does to all.
const OF_A_KIND: usize = 2;

/// Every kind of name that root writes to, without digits; in the folder of a database, what follows the name of the table. `docs/security.md` has
/// this list.
const WRITTEN: [&str; 44] = [
    // Tablespaces, on their way to another name too.
    "ibdata",
    ".ibd",
    "undo",
    "undo_",
    "undo_extra.ibu",
    "mysql.ibd",
    ".ibd.innokit-ren",
    ".ibu",
    // Logs.
    "ib_logfile",
    "#innodb_redo/#ib_redo",
    "#innodb_redo/#ib_redo_tmp",
    "#ib__.dblwr",
    "undo__trunc.log",
    // What the server loads first.
    "ib_buffer_pool",
    "ib_buffer_pool.incomplete",
    // The lock of Aria, which is opened for writing.
    "aria_log_control",
    // Notes of innokit.
    "innokit-recover.shadow",
    "innokit-recover.increment",
    "innokit-recover.note",
    "innokit-recover.moved",
    // Notes of backup tools.
    "xtrabackup_checkpoints",
    "xtrabackup_info",
    "mariadb_backup_checkpoints",
    "mariadb_backup_info",
    ".new",
    ".ren",
    ".del",
    // From an increment: what is not InnoDB's, and folders of databases.
    ".CSM",
    ".CSV",
    ".MAD",
    ".MAI",
    ".MYD",
    ".MYI",
    ".frm",
    ".opt",
    ".par",
    ".TRG",
    ".TRN",
    "aria_log.",
    "fresh",
    "gone",
    ".isl",
    "binlog.index",
    "xtrabackup_binlog_info",
];
/// A file from an increment, before it has its name.
const NEW: &str = ".innokit-new";

fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_path_buf()];
    let mut at = 0;
    while let Some(dir) = found.get(at).cloned() {
        let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
        found.extend(entries.filter(|path| path.is_dir() && !path.is_symlink()));
        at += 1;
    }
    found
}

/// Notes what happens to the entries of some folders.
struct Watch {
    queue: OwnedFd,
    folders: HashMap<i32, PathBuf>,
}

impl Watch {
    fn new(root: &Path) -> Self {
        let queue = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).expect("inotify");
        let what = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::MOVE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::CLOSE_WRITE;
        let watched = folders(root);
        let named = watched.iter().map(|folder| {
            let number = inotify::add_watch(&queue, folder, what).expect("watched");
            (number, folder.strip_prefix(root).expect("below").to_path_buf())
        });
        let folders = named.collect();
        Self { queue, folders }
    }

    /// The names so far, below the root.
    fn names(&self) -> BTreeSet<PathBuf> {
        let mut room = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.queue, &mut room);
        let mut found = BTreeSet::new();
        while let Ok(event) = events.next() {
            assert!(!event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW), "names are lost");
            if let (Some(name), Some(folder)) = (event.file_name(), self.folders.get(&event.wd())) {
                found.insert(folder.join(name.to_str().expect("UTF-8")));
            }
        }
        found
    }
}

/// A set as `mysql` owns it, with a command that writes in it, and what it then says.
struct Attacked<'a> {
    place: Place,
    kind: &'a str,
    /// Makes the set at a path.
    make: &'a dyn Fn(&Path),
    /// Further words of the command.
    words: Vec<String>,
    runs: u32,
    refused: u32,
}

impl<'a> Attacked<'a> {
    fn new(kind: &'a str, make: &'a dyn Fn(&Path), words: &[String]) -> Self {
        let place = Place::in_memory();
        let attacked = Self { place, kind, make, words: words.to_vec(), runs: 0, refused: 0 };
        attacked.again();
        attacked
    }

    fn set(&self) -> PathBuf {
        self.place.path("set")
    }

    fn again(&self) {
        fs::remove_dir_all(self.set()).ok();
        (self.make)(&self.set());
        if is_root() {
            let all = state(&self.set()).into_iter().map(|(path, ..)| path).chain([self.set()]);
            all.for_each(|path| lchown(path, Some(MYSQL), Some(MYSQL)).expect("given"));
        }
    }

    fn run(&self) -> Run {
        let mut command = innokit();
        command.args(["recover", "--in-place", "--no-landlock"]).arg(self.set()).args(&self.words);
        limited(&mut command, PATIENCE)
    }

    /// What a run writes to.
    fn written(&self) -> BTreeSet<PathBuf> {
        let watch = Watch::new(&self.set());
        let run = self.run();
        assert_eq!(run.status, 0, "{}: {}", self.kind, run.errors);
        watch.names()
    }

    /// Runs with a link at this name, to what was there or else to a victim. Asserts that what the link leads to is as it was, and that the run
    /// names the link if it fails.
    fn attack(&mut self, name: &Path, leads_to_nothing: bool) {
        let (at, beside) = (self.set().join(name), self.place.path("beside"));
        fs::create_dir_all(&beside).expect("made");
        let aside = beside.join("aside");
        let was_there = fs::symlink_metadata(&at).is_ok();
        if was_there {
            fs::rename(&at, &aside).expect("moved");
        } else if !leads_to_nothing {
            fs::write(&aside, [7; 20_000]).expect("written");
        }
        symlink(&aside, &at).expect("linked");
        let before = state(&beside);
        let run = self.run();
        let told = format!("{}: a link at {}: {} {}", self.kind, name.display(), run.status, run.errors);
        self.place.assert_untouched(&told);
        assert!(state(&beside) == before, "what the link leads to has changed; {told}");
        let stem = name.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let says_so = run.errors.contains(stem);
        assert!(run.status == 0 || says_so, "{told}");
        self.runs += 1;
        self.refused += u32::from(run.status != 0);
        fs::remove_file(&at).ok();
        if was_there {
            fs::rename(&aside, &at).ok();
        }
        fs::remove_dir_all(&beside).expect("removed");
        if run.status == 0 {
            self.again();
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What stands for the names of one kind: digits do not matter, nor do the names of tables.
fn kind_of(name: &Path) -> String {
    let text = name.display().to_string();
    let is_table = text.contains('/') && !text.starts_with('#');
    let kept = if is_table { text[text.find('.').unwrap_or(0)..].to_owned() } else { text };
    kept.chars().filter(|sign| !sign.is_ascii_digit()).collect()
}

/// Attacks each kind of name that a run writes to, and each folder on the way. Returns the kinds.
fn every_name(kind: &str, make: &dyn Fn(&Path), words: &[String], refused_min: u32) -> BTreeSet<String> {
    let mut attacked = Attacked::new(kind, make, words);
    let before: BTreeSet<PathBuf> = state(&attacked.set()).into_iter().map(|(path, ..)| path).collect();
    let written = attacked.written();
    attacked.again();
    let (mut kinds, mut folders) = (HashMap::<String, usize>::new(), BTreeSet::new());
    for name in &written {
        folders.extend(name.parent().filter(|folder| folder.components().next().is_some()).map(Path::to_path_buf));
        let count = kinds.entry(kind_of(name)).or_default();
        *count += 1;
        if *count <= OF_A_KIND {
            attacked.attack(name, false);
            if !before.contains(&attacked.set().join(name)) {
                attacked.attack(name, true);
            }
        }
    }
    folders.retain(|folder| before.contains(&attacked.set().join(folder)));
    for folder in folders.iter().take(3) {
        attacked.attack(folder, false);
    }
    assert!(
        attacked.refused >= refused_min,
        "{kind}: {} of {} runs refused: {written:?}",
        attacked.refused,
        attacked.runs
    );
    let is_known = |kind: &String| WRITTEN.contains(&kind.strip_suffix(NEW).unwrap_or(kind));
    let unknown: Vec<&String> = kinds.keys().filter(|kind| !is_known(kind)).collect();
    assert!(unknown.is_empty(), "not in the list of what root writes: {unknown:?}");
    kinds.into_keys().collect()
}

/// Asserts that these kinds were among those that were tried.
fn were_tried(kinds: &BTreeSet<String>, named: &[&str]) {
    assert!(named.iter().all(|name| kinds.contains(*name)), "{named:?}: {kinds:?}");
}

fn crashed(kind: &str) -> impl Fn(&Path) {
    let from = crate::common::all_datadirs().join(format!("{kind}-16k-crashed"));
    move |to| copy(&from, to)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_name_that_a_recovery_of_mariadb_writes_to_may_be_a_link() {
    let kinds = every_name("mariadb", &crashed("mariadb"), &[], 4);
    were_tried(
        &kinds,
        &["ibdata", ".ibd", "undo", "ib_logfile", "ib_buffer_pool.incomplete", "innokit-recover.shadow"],
    );
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_name_that_a_recovery_of_mysql_writes_to_may_be_a_link() {
    let crashed = crashed("mysql");
    let make = |to: &Path| {
        crashed(to);
        // A truncation of an undo tablespace had ended.
        fs::write(to.join("undo_1_trunc.log"), 76_845_412_u32.to_be_bytes()).expect("written");
    };
    let kinds = every_name("mysql", &make, &[], 4);
    were_tried(
        &kinds,
        &[
            "mysql.ibd",
            ".ibd",
            "undo_",
            "#innodb_redo/#ib_redo_tmp",
            "ib_buffer_pool.incomplete",
            "innokit-recover.shadow",
        ],
    );
}

/// A backup that is prepared where it is, with increments. Statements ran between them, so that tables are made, renamed and removed.
pub fn no_name_that_a_preparation_writes_to_may_be_a_link(server: &Server, full: &str, increments: &[&str]) {
    let (from, words) = (
        server.of(full),
        increments.iter().flat_map(|name| ["--increment".to_owned(), server.of(name).display().to_string()]),
    );
    let kinds = every_name(server.kind, &|to| copy(&from, to), &words.collect::<Vec<_>>(), 4);
    were_tried(
        &kinds,
        &[
            "ibdata",
            ".ibd",
            ".ibd.innokit-ren",
            ".frm",
            ".frm.innokit-new",
            ".MYD",
            "aria_log_control",
            "innokit-recover.increment",
        ],
    );
}
