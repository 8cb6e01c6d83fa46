//! What a command that only reads may read: what was named, and what a server that is started on it would read by links.
//!
//! It is decided before the kernel is asked to hold it, so by names alone: of the files of a set only link files are opened, whose text is a
//! path. A link is followed as everywhere else: only to what everybody, or the owner of the link, may read.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// What the process itself may need: facts about itself, the processors and their quotas, and the devices that are none.
const OWN: [&str; 5] = ["/proc/self", "/sys/devices/system", "/sys/fs/cgroup", "/dev/null", "/dev/urandom"];
/// One of these is in each datadir and backup.
const MARKS: [&str; 9] = [
    "ibdata1",
    "mysql.ibd",
    "ib_logfile0",
    "#innodb_redo",
    "innokit.manifest.json",
    "xtrabackup_checkpoints",
    "xtrabackup_info",
    "mariadb_backup_checkpoints",
    "mariadb_backup_info",
];
/// A link file holds one path, and paths are shorter than this.
const LINK_MAX: u64 = 8192;

/// Something that a command may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// A file, or a directory with all that is in it.
    pub path: PathBuf,
    /// Of a directory, only the names in it. The files that may be read are named beside it.
    pub is_list: bool,
}

impl Seen {
    pub const fn whole(path: PathBuf) -> Self {
        Self { path, is_list: false }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.is_list { "the names in " } else { "" };
        write!(f, "{what}{}", self.path.display())
    }
}

/// What may be read of the system, whatever was named.
pub fn own() -> impl Iterator<Item = Seen> {
    OWN.into_iter().map(PathBuf::from).filter(|path| path.exists()).map(Seen::whole)
}

/// The directories and files that a command with these paths may read. A name that is not there, and a pipe without a name, is left out.
pub fn of(named: &[PathBuf]) -> Vec<Seen> {
    let mut sight = Sight::default();
    for path in named.iter().filter(|path| path.as_path() != Path::new("-")) {
        // A link that the user named leads to what the user means.
        let places = [fs::canonicalize(path), std::path::absolute(path)];
        for place in places.into_iter().flatten().filter(|place| place.exists()) {
            sight.name(&place);
        }
    }
    let lists = sight.lists.into_iter().map(|path| Seen { path, is_list: true });
    sight.seen.into_iter().map(Seen::whole).chain(lists).collect()
}

#[derive(Default)]
struct Sight {
    seen: BTreeSet<PathBuf>,
    lists: BTreeSet<PathBuf>,
    walked: BTreeSet<(u64, u64)>,
}

impl Sight {
    fn name(&mut self, place: &Path) {
        if is_of_kernel(place) {
            let kind = fs::metadata(place).map(|meta| meta.file_type());
            if kind.is_ok_and(|kind| kind.is_block_device() || kind.is_char_device()) {
                self.seen.insert(place.to_path_buf());
            }
            return;
        }
        let dir = if place.is_dir() {
            self.walk(place, true);
            place
        } else {
            // What says what a file is lies beside it: its definition, its key, the note of an increment.
            let Some(dir) = place.parent() else { return };
            self.walk(dir, false);
            self.seen.insert(place.to_path_buf());
            dir
        };
        self.seen.insert(dir.to_path_buf());
        // And in the datadir above it: the dictionary, the log.
        let Some(above) = dir.parent() else { return };
        if MARKS.iter().any(|mark| above.join(mark).exists()) {
            self.walk(above, false);
            self.seen.insert(above.to_path_buf());
        } else {
            // Jobs look whether it is one: whether a file in it begins a system tablespace, whatever its name.
            self.lists.insert(above.to_path_buf());
            for entry in fs::read_dir(above).into_iter().flatten().flatten() {
                self.seen.extend(entry.file_type().is_ok_and(|kind| kind.is_file()).then(|| entry.path()));
            }
        }
    }

    /// Finds the links in a directory, and in those below it.
    fn walk(&mut self, dir: &Path, is_deep: bool) {
        let Ok(meta) = fs::metadata(dir) else { return };
        if is_deep && !self.walked.insert((meta.dev(), meta.ino())) {
            return;
        }
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && is_deep {
                self.walk(&entry.path(), true);
            } else if kind.is_symlink() {
                self.follow(&entry.path(), None);
            } else if kind.is_file() && entry.file_name().as_bytes().ends_with(b".isl") {
                let link = entry.path();
                let target = target_of(&link);
                // Whoever wrote it can name no other file by it than a table's: a server run by root has its own for itself.
                if is_table_of(&target, &link) {
                    self.seen.insert(target);
                } else {
                    self.follow(&link, Some(target));
                }
            }
        }
    }

    fn follow(&mut self, link: &Path, target: Option<PathBuf>) {
        let target = target.unwrap_or_else(|| link.to_path_buf());
        let (Ok(own), Ok(meta)) = (fs::symlink_metadata(link), fs::metadata(&target)) else { return };
        let Some(target) = fs::canonicalize(&target).ok().filter(|_| may_follow(&own, &meta)) else { return };
        if meta.is_file() {
            self.seen.insert(target);
        } else if meta.is_dir() && is_of_one_user(&own, &meta) {
            self.seen.insert(target.clone());
            self.walk(&target, true);
        } else if meta.is_dir() && self.lists.insert(target.clone()) {
            // Everybody may list `/`, but not read all that is below it.
            for entry in fs::read_dir(&target).into_iter().flatten().flatten() {
                let is_open = entry.metadata().is_ok_and(|file| file.is_file() && may_follow(&own, &file));
                self.seen.extend(is_open.then(|| entry.path()));
            }
        }
    }
}

/// Whether a name means a device, or what a process has open (`/dev/stdin`, `/dev/fd/63`). That may be a pipe, or memory, which can be in no rule and
/// needs none; if it is a file, the name that it has elsewhere is in the rules.
fn is_of_kernel(place: &Path) -> bool {
    (place.starts_with("/dev") && !place.starts_with("/dev/shm")) || place.starts_with("/proc")
}

/// As for copies: anybody can have root make a link, by a backup of their own for instance.
fn may_follow(link: &Metadata, target: &Metadata) -> bool {
    target.mode() & 0o004 != 0 || is_of_one_user(link, target)
}

fn is_of_one_user(link: &Metadata, target: &Metadata) -> bool {
    target.uid() == link.uid() && target.uid() != 0
}

/// Whether a link file names the file of its table: `.../shop/far.ibd` for `shop/far.isl`. A name that is a link itself is not taken.
fn is_table_of(target: &Path, link: &Path) -> bool {
    let names = |path: &Path| {
        let schema = path.parent().and_then(Path::file_name).map(OsStr::to_owned);
        schema.zip(path.file_stem().map(OsStr::to_owned))
    };
    let is_plain = || fs::canonicalize(target).is_ok_and(|real| real == target) && target.is_file();
    target.extension().is_some_and(|end| end == "ibd") && names(target) == names(link) && is_plain()
}

/// Whether a dictionary of MySQL's belongs to what was named: it may name files anywhere, and which is not known before it is read.
pub fn is_of_mysql(named: &[PathBuf]) -> bool {
    let is_there = |dir: &Path| dir.join("mysql.ibd").exists();
    let around = |path: &PathBuf| std::path::absolute(path).is_ok_and(|path| path.ancestors().take(3).any(is_there));
    named.iter().any(around)
}

/// The path in a link file; empty if there is none.
fn target_of(link: &Path) -> PathBuf {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits()).unwrap_or(0);
    let mut text = Vec::new();
    let opened = File::options().read(true).custom_flags(flags).open(link);
    drop(opened.and_then(|file| file.take(LINK_MAX).read_to_end(&mut text)));
    let end = text.iter().rposition(|byte| *byte > 0x20).map_or(0, |last| last + 1);
    PathBuf::from(OsStr::from_bytes(text.get(..end).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_is_named_is_seen_with_its_datadir_and_where_its_links_lead() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("a path");
        for name in ["data/shop", "disk/big", "else/shop", "secret"] {
            fs::create_dir_all(dir.join(name)).expect("made");
        }
        for name in ["data/ibdata1", "data/shop/t.ibd", "disk/big/u.ibd", "else/shop/far.ibd", "secret/key"] {
            fs::write(dir.join(name), "").expect("written");
        }
        symlink(dir.join("disk/big"), dir.join("data/big")).expect("linked");
        symlink(dir.join("data"), dir.join("disk/big/back")).expect("linked");
        fs::write(dir.join("data/shop/far.isl"), format!("{}\n", dir.join("else/shop/far.ibd").display()))
            .expect("written");
        let seen = |name: &str| {
            let seen = of(&[dir.join(name)]);
            let below = seen.iter().map(|seen| seen.path.strip_prefix(&dir).expect("below").display().to_string());
            below.filter(|name| !name.is_empty()).collect::<Vec<_>>()
        };
        let is_root = rustix::process::geteuid().is_root();
        // Root's own directory is not given as a whole.
        let linked = if is_root {
            &["disk/big/u.ibd", "else/shop/far.ibd", "disk/big"]
        } else {
            &["disk/big", "else/shop/far.ibd", ""]
        };
        let linked: Vec<&str> = linked.iter().copied().filter(|name| !name.is_empty()).collect();
        assert_eq!(seen("data"), [&["data"][..], &linked[..]].concat());
        assert_eq!(seen("data/shop/t.ibd"), [&["data", "data/shop", "data/shop/t.ibd"][..], &linked[..]].concat());
        assert_eq!(seen("else/shop/far.ibd"), ["else/shop", "else/shop/far.ibd", "else"]);
        assert_eq!(of(&["/dev/null".into()]), [Seen::whole("/dev/null".into())]);
        assert!(of(&["/proc/self/status".into()]).is_empty());
        assert!(seen("missing").is_empty() && of(&["-".into()]).is_empty());

        // A link to what only one user may read.
        let (key, link) = (dir.join("secret/key"), dir.join("data/shop/x.frm"));
        symlink(&key, &link).expect("linked");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a mode");
        let is_seen = || seen("data").contains(&"secret/key".to_owned());
        if !is_root {
            return assert!(is_seen(), "its owner made the link");
        }
        assert!(!is_seen(), "root may read everything");
        std::os::unix::fs::chown(&key, Some(1234), None).expect("given");
        assert!(!is_seen(), "another made the link");
        std::os::unix::fs::lchown(&link, Some(1234), None).expect("given");
        assert!(is_seen(), "its owner made the link");
    }
}
