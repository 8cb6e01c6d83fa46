//! Paths to files: walks directories, decides which files are worth reading, and says why the rest are not.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::content::{self, Content};
use super::name::{NameHint, table_of_path};
use super::selection::Selection;
use super::{sparse, system};
use crate::backup_notes::BackupNotes;
pub use crate::fault::plain;
use crate::files::{self, File, Metadata};
use crate::reading::{read_small, read_up_to};

/// A file to check: it holds, or by its name should hold, InnoDB pages, a log, or an archive of these.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// As given, or below a given directory.
    pub path: PathBuf,
    /// Of a table outside of the datadir (`DATA DIRECTORY`), the path that it would have inside: its definition is there.
    pub home: Option<PathBuf>,
    /// Length in bytes when the directory was walked.
    pub len: u64,
    /// What the name promises.
    pub hint: NameHint,
    /// The user named this very file, not a directory above it.
    pub named: bool,
    /// What to read it as.
    pub content: Content,
}

impl Candidate {
    /// Where the server has its name.
    fn home(&self) -> &Path {
        self.home.as_deref().unwrap_or(&self.path)
    }
}

/// A file outside of the datadir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Where it is.
    pub path: PathBuf,
    /// Of a table outside of the datadir (`DATA DIRECTORY`), the path that it would have inside.
    pub home: Option<PathBuf>,
}

/// Why a file was skipped that patterns leave out.
const LEFT_OUT: &str = "left out by --database or --table";

/// A file that was skipped, or that could not be examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The file or directory.
    pub path: PathBuf,
    /// Why, as a clause.
    pub why: String,
}

/// Which files to read, and which to skip.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Files to read, in the order of the report.
    pub candidates: Vec<Candidate>,
    /// Files that are not InnoDB tablespaces.
    pub skipped: Vec<Passed>,
    /// Paths that could not be examined: the requested work is incomplete.
    pub failed: Vec<Passed>,
    /// Files that were listed but gone a moment later. Servers remove and rename files all the time; without a running server this is a
    /// failure like any other.
    pub vanished: Vec<Passed>,
    /// The named directories.
    pub walked: Vec<PathBuf>,
    /// The paths the user named.
    pub asked: Vec<PathBuf>,
    /// The tables that the user named: of directories, only their files are candidates.
    pub selection: Selection,
    seen: HashSet<(u64, u64)>,
}

impl Inventory {
    /// Walks `paths`: files are taken as given, directories with everything below them, sorted by name.
    #[must_use]
    pub fn take(paths: &[PathBuf]) -> Self {
        Self::take_selected(paths, &Selection::default())
    }

    /// Like [`Self::take`], of directories only the files of selected tables, and general tablespaces. The others are skipped, so that it
    /// is known that they are there.
    #[must_use]
    pub fn take_selected(paths: &[PathBuf], selection: &Selection) -> Self {
        let mut inventory = Self { asked: paths.to_vec(), selection: selection.clone(), ..Self::default() };
        for path in paths {
            match files::named(path) {
                Ok(meta) if meta.is_dir() => {
                    inventory.walked.push(path.clone());
                    inventory.walk(path, &meta);
                }
                Ok(meta) => inventory.consider(path.clone(), &meta, true),
                Err(error) => inventory.failed.push(Passed { path: path.clone(), why: plain(&error) }),
            }
        }
        inventory.look_again();
        if selection.is_all() {
            inventory.name_system_files();
        }
        inventory
    }

    /// Treats custom-named system tablespace files like `ibdata1` and `ibdata2`: puts them next to each other, in page order, and keeps all
    /// of them.
    fn name_system_files(&mut self) {
        let begins = |file: &&Candidate| {
            let is_odd = file.hint == NameHint::Unknown && file.content == Content::Pages;
            file.hint == NameHint::System(1) || is_odd && system::is_first(&file.path)
        };
        let dirs: Vec<PathBuf> = self
            .candidates
            .iter()
            .filter(|file| !file.named)
            .filter(begins)
            .filter_map(|file| file.path.parent().map(Path::to_path_buf))
            .collect();
        for files in dirs.iter().map(|dir| system::files_of(dir)).filter(|files| !system::are_usual(files)) {
            self.side_by_side(&files);
        }
    }

    fn side_by_side(&mut self, files: &[PathBuf]) {
        let Some(at) = self.candidates.iter().position(|file| Some(&file.path) == files.first()) else { return };
        let (mut parts, mut number) = (Vec::new(), 0);
        for path in files {
            let known = self.candidates.iter().position(|file| file.path == *path);
            let known = known.map(|place| self.candidates.remove(place));
            let len = files::metadata(path).map_or(0, |meta| meta.len());
            number += 1;
            let (hint, content) = (NameHint::System(number), Content::Pages);
            let fresh = || Candidate { path: path.clone(), home: None, len, hint, named: false, content };
            parts.push(Candidate { hint, content, ..known.unwrap_or_else(fresh) });
        }
        self.skipped.retain(|passed| !files.contains(&passed.path));
        // Candidates before the first of them have not moved.
        let at = at.min(self.candidates.len());
        self.candidates.splice(at..at, parts);
    }

    /// Adds files named by a dictionary, unless they are already known or do not exist. The partitions of a table stay together.
    pub fn add(&mut self, files: impl IntoIterator<Item = Outside>) {
        let before = self.candidates.len();
        for Outside { path, home } in files {
            let meta = files::metadata(&path).ok().filter(|meta| meta.is_file());
            if let Some(meta) = meta.filter(|meta| !self.seen.contains(&meta.identity())) {
                self.consider_as(path, &meta, home);
            }
        }
        if self.candidates.len() > before {
            self.put_beside_siblings(before);
        }
    }

    /// Moves the candidates from this number on to the other partitions of their tables, in the order that these have.
    fn put_beside_siblings(&mut self, from: usize) {
        let table_of = |file: &Candidate| {
            let table = table_of_path(file.home())?;
            table.split_once(" partition ").map(|(table, _)| table.to_owned())
        };
        let mut places: HashMap<String, usize> =
            self.candidates.iter().skip(from).filter_map(table_of).map(|table| (table, usize::MAX)).collect();
        if places.is_empty() {
            return;
        }
        let mut placed = Vec::with_capacity(self.candidates.len());
        for (number, file) in std::mem::take(&mut self.candidates).into_iter().enumerate() {
            let first = table_of(&file).and_then(|table| places.get_mut(&table));
            let order = first.map(|first| {
                *first = number.min(*first);
                (*first, file.home().to_path_buf())
            });
            placed.push((order.unwrap_or_else(|| (number, PathBuf::new())), file));
        }
        placed.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.candidates = placed.into_iter().map(|(_, file)| file).collect();
    }

    /// Adds a file outside of the datadir.
    fn consider_as(&mut self, path: PathBuf, meta: &Metadata, home: Option<PathBuf>) {
        let number = self.candidates.len();
        self.consider(path, meta, false);
        if let Some(file) = self.candidates.get_mut(number) {
            file.home = home;
        }
    }

    /// Examines vanished files once more: while a table is rebuilt, its name is missing for a moment, between two renames.
    fn look_again(&mut self) {
        for passed in std::mem::take(&mut self.vanished) {
            let followed = files::metadata(&passed.path);
            // A dangling link has only metadata of its own; a file may be back by now.
            match followed.or_else(|_| files::symlink_metadata(&passed.path)) {
                Ok(meta) if meta.is_file() => self.consider(passed.path, &meta, false),
                Ok(meta) if meta.is_dir() => self.walk(&passed.path, &meta),
                // A dangling link stays dangling.
                Ok(_) => self.failed.push(passed),
                Err(_) => self.vanished.push(passed),
            }
        }
    }

    /// A directory entry that could not be examined.
    fn fail(&mut self, path: PathBuf, error: &io::Error) {
        let list = if error.kind() == io::ErrorKind::NotFound { &mut self.vanished } else { &mut self.failed };
        list.push(Passed { path, why: plain(error) });
    }

    fn skip(&mut self, path: PathBuf, why: &str) {
        self.skipped.push(Passed { path, why: why.to_owned() });
    }

    /// Walks one directory, sorted by name, so that the report does not depend on the file system's order.
    fn walk(&mut self, dir: &Path, meta: &Metadata) {
        if is_made_up(dir) {
            return self.skip(dir.to_path_buf(), "generated by the kernel when it is read: nothing of it is on a disk");
        }
        if !self.seen.insert(meta.identity()) {
            return self.skip(dir.to_path_buf(), "this directory has already been walked (a link leads back to it)");
        }
        let mut entries = match files::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => return self.fail(dir.to_path_buf(), &error),
        };
        entries.sort_by_cached_key(|entry| (order(entry.file_name().as_encoded_bytes()), entry.file_name()));
        let is_mark =
            |name: &OsStr| matches!(NameHint::of(Path::new(name)), NameHint::System(_) | NameHint::Dictionary);
        let is_datadir = !self.selection.is_all() && entries.iter().any(|entry| is_mark(&entry.file_name()));
        for entry in entries {
            let path = entry.path();
            // The name of a general tablespace does not tell whose tables it holds.
            let is_general = is_datadir && NameHint::of(&path) == NameHint::Table;
            match entry.metadata() {
                Ok(meta) if !meta.is_dir() && !is_general && !self.selection.has_file(&path) => {
                    self.skip(path, LEFT_OUT)
                }
                Ok(meta) if meta.is_dir() => self.walk(&path, &meta),
                Ok(meta) => self.consider(path, &meta, false),
                Err(error) => self.fail(path, &error),
            }
        }
    }

    fn consider(&mut self, path: PathBuf, meta: &Metadata, named: bool) {
        if let Some(why) = sparse::refused(meta) {
            return self.failed.push(Passed { path, why });
        }
        let len = match length(&path, meta, named) {
            Ok(Some(len)) => len,
            Ok(None) if named => {
                let why = format!("{}, not a regular file", kind_of(meta));
                return self.failed.push(Passed { path, why });
            }
            Ok(None) => return self.skip(path, kind_of(meta)),
            Err(error) => return self.fail(path, &error),
        };
        if !self.seen.insert(meta.identity()) {
            return self.skip(path, "the same file was already found under another name");
        }
        let hint = NameHint::of(&path);
        let content = match hint {
            _ if hint.promises_pages() => Content::Pages,
            NameHint::Redo if is_spare_log(&path) => return self.skip(path, "spare file of the redo log, not in use"),
            NameHint::Redo => Content::Redo,
            NameHint::Doublewrite => Content::Doublewrite,
            NameHint::InnodbBinlog => Content::InnodbBinlog,
            NameHint::Link => return self.follow(path),
            _ if content::is_delta(&path) && files::is_file(content::delta_note(&path)) => Content::Delta,
            // It consists of whole pages, so its content looks like a tablespace.
            _ if content::is_delta(&path) => return self.unknown(path),
            _ => match probe(&path, len) {
                Ok(Some(Content::Packed(_))) if !named && !content::packed_is_wanted(&path) => {
                    return self.skip(path, "compressed, and not a tablespace or an archive by its name");
                }
                Ok(Some(content)) => content,
                // What it is stays unknown: read as pages, an archive would be damaged.
                Err(error) => return self.fail(path, &error),
                // The user named this file: let its reader report why there is nothing to check.
                Ok(None) if named => Content::Pages,
                Ok(None) => return self.unknown(path),
            },
        };
        self.candidates.push(Candidate { path, home: None, len, hint, named, content });
    }

    /// A file of unknown content, though its name may say that it holds pages.
    fn unknown(&mut self, path: PathBuf) {
        match content::unread(&path) {
            Some(why) => self.failed.push(Passed { path, why: why.to_owned() }),
            None => self.skip(path, "not an InnoDB tablespace"),
        }
    }

    /// A link file names a tablespace elsewhere; if that file is missing, the user should know.
    fn follow(&mut self, link: PathBuf) {
        if is_of_backup(&link) {
            let beside = ["ibd", "ibd.delta", "new", "del"].map(|extension| link.with_extension(extension));
            if beside.iter().map(PathBuf::as_path).any(files::is_file) {
                return self.skip(link, "link file of a backup, which holds the tablespace itself");
            }
            let why = "the backup should hold the tablespace of this link file, but does not".to_owned();
            return self.failed.push(Passed { path: link, why });
        }
        let target = match link_target(&link) {
            Ok(target) => target,
            Err(error) => return self.fail(link, &error),
        };
        match files::metadata(&target) {
            Ok(meta) => {
                let home = link.with_extension("ibd");
                self.skip(link, "link file, followed");
                if !self.seen.contains(&meta.identity()) {
                    self.consider_as(target, &meta, Some(home));
                }
            }
            Err(error) => {
                let why = format!("links to {}, which cannot be read: {}", target.display(), plain(&error));
                self.failed.push(Passed { path: link, why });
            }
        }
    }
}

/// Whether a link file is part of a backup: its target is then the server's own file, which may be in use.
pub(crate) fn is_of_backup(link: &Path) -> bool {
    link.parent().and_then(Path::parent).is_some_and(|root| BackupNotes::of(root).is_some())
}

/// A link file holds one path, and paths are shorter than this.
const LINK_MAX: u64 = 8192;

/// The path in a link file.
pub fn link_target(link: &Path) -> io::Result<PathBuf> {
    read_small(link, LINK_MAX).map(|text| target_in(&text).to_path_buf())
}

/// The path in the text of a link file.
pub fn target_in(text: &[u8]) -> &Path {
    let end = text.iter().rposition(|byte| *byte > 0x20).map_or(0, |last| last + 1);
    Path::new(OsStr::from_bytes(text.get(..end).unwrap_or_default()))
}

/// Length in bytes of a regular file; `None` for sockets, pipes and other special files. A block device (a raw system tablespace) is read
/// only if the user named it.
fn length(path: &Path, meta: &Metadata, named: bool) -> io::Result<Option<u64>> {
    if meta.is_file() {
        return Ok((has_device(meta) || !is_made_up(path)).then_some(meta.len()));
    }
    if meta.is_block_device() && named {
        use std::io::Seek;
        return File::open(path)?.seek(io::SeekFrom::End(0)).map(Some);
    }
    Ok(None)
}

/// The kind of a special file, for messages.
fn kind_of(meta: &Metadata) -> &'static str {
    let Metadata::Here(meta) = meta else { return "a prefix" };
    let kind = meta.file_type();
    match () {
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_block_device() => "a block device",
        () if kind.is_char_device() => "a device",
        () => "generated by the kernel when it is read",
    }
}

/// Whether the file is on a block device. Virtual file systems are not, so most files need no `statfs`.
#[cfg(target_os = "linux")]
fn has_device(meta: &Metadata) -> bool {
    match meta {
        Metadata::Here(meta) => rustix::fs::major(meta.dev()) != 0,
        Metadata::There(_) => true,
    }
}

#[cfg(not(target_os = "linux"))]
fn has_device(_: &Metadata) -> bool {
    true
}

/// Whether the path is in `/proc`, `/sys` or another virtual file system, whose files may be endless or block forever.
#[cfg(target_os = "linux")]
fn is_made_up(path: &Path) -> bool {
    // proc, sysfs, debugfs, tracefs, cgroup, cgroup2.
    const KINDS: [i64; 6] = [0x9FA0, 0x6265_6572, 0x6462_6720, 0x7472_6163, 0x0027_E0EB, 0x6367_7270];
    // i64 on the processors we test on; other C libraries make it unsigned, or shorter.
    #[allow(clippy::unnecessary_cast, reason = "its type is not the same everywhere")]
    rustix::fs::statfs(path).is_ok_and(|system| KINDS.contains(&(system.f_type as i64)))
}

#[cfg(not(target_os = "linux"))]
fn is_made_up(_: &Path) -> bool {
    false
}

/// Files that servers keep for later use, or while they create others: their content is garbage.
fn is_spare_log(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.ends_with("_tmp") || name == "ib_logfile101"
}

/// Identifies a file of `len` bytes whose name says nothing. Half of the files of many tables are definitions of a kilobyte or two.
fn probe(path: &Path, len: u64) -> io::Result<Option<Content>> {
    let file = File::open(path)?;
    let head = read_up_to(&file, 0, usize::try_from(len).unwrap_or(content::HEAD).min(content::HEAD))?;
    Ok(content::recognise(&head))
}

/// Sort key that compares numbers in names by value: `ibdata10` comes after `ibdata9`.
fn order(name: &[u8]) -> Vec<(u64, u8)> {
    let mut key = Vec::with_capacity(name.len());
    let mut number: Option<u64> = None;
    for byte in name {
        if byte.is_ascii_digit() {
            number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(u64::from(byte - b'0')));
            continue;
        }
        key.extend(number.take().map(|value| (value, b'0')));
        key.push((0, *byte));
    }
    key.extend(number.map(|value| (value, b'0')));
    key
}
