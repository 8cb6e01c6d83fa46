//! Sets made to reach beyond their own folder: forged notes of innokit, links and pipes where it writes or reads. Beside each set stands a
//! tree of victim files in which nothing may change, and no command may wait for a pipe.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::limited::{PATIENCE, limited};
use crate::common::{Dir, Run, all_datadirs, copy, fixture, innokit};
use format::checksum::crc32c;
use serde_json::Value;

const SHADOW: &str = "innokit-recover.shadow";
/// Runs innokit. It fails the test if it does not end.
fn run(args: &[&str]) -> Run {
    limited(innokit().args(args), PATIENCE)
}

/// Everything below a folder: names, kinds, contents, owners, modes and times.
pub fn state(root: &Path) -> Vec<(PathBuf, Vec<u8>, [i64; 6])> {
    let (mut found, mut dirs) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            let meta = fs::symlink_metadata(&path).expect("there");
            let bytes = if meta.is_file() { fs::read(&path).expect("read") } else { Vec::new() };
            let numbers = [i64::from(meta.mode()), i64::from(meta.uid()), i64::from(meta.gid()), meta.nlink() as i64];
            found.push((
                path.clone(),
                bytes,
                [numbers[0], numbers[1], numbers[2], numbers[3], meta.mtime(), meta.mtime_nsec()],
            ));
            if meta.is_dir() {
                dirs.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A folder with a victim tree, and room for sets beside it.
pub struct Place {
    pub dir: Dir,
    before: Vec<(PathBuf, Vec<u8>, [i64; 6])>,
}

impl Place {
    pub fn new() -> Self {
        Self::of(Dir::new())
    }

    /// For many short runs, each of which waits for a disk elsewhere.
    pub fn in_memory() -> Self {
        Self::of(Dir::in_memory())
    }

    fn of(dir: Dir) -> Self {
        for name in ["victim/crontab", "victim/shop/t.ibd", "victim/ib_logfile0"] {
            dir.file(name, &[7; 20_000]);
        }
        let before = state(&dir.path().join("victim"));
        Self { dir, before }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A copy of a crashed datadir.
    pub fn crashed(&self, kind: &str, name: &str) -> PathBuf {
        let to = self.path(name);
        copy(&all_datadirs().join(format!("{kind}-16k-crashed")), &to);
        to
    }

    pub fn assert_untouched(&self, what: &str) {
        assert!(state(&self.path("victim")) == self.before, "{what}: the victim changed");
    }
}

pub fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

pub fn tar(folder: &Path) -> Vec<u8> {
    let output = Command::new("tar").args(["-c", "-f", "-", "-C"]).arg(folder).arg(".").output().expect("tar runs");
    assert!(output.status.success());
    output.stdout
}

/// A file as backup tools send it in a stream: a chunk of bytes, then the end chunk.
pub fn member(name: &str, bytes: &[u8]) -> Vec<u8> {
    let little = |number: u64, len: usize| number.to_be_bytes().into_iter().rev().take(len).collect::<Vec<u8>>();
    let head = |code: u8| [b"XBSTCK01", &[0, code][..], &little(name.len() as u64, 4), name.as_bytes()].concat();
    let numbers = [little(bytes.len() as u64, 8), little(0, 8), little(u64::from(crc32(bytes)), 4)].concat();
    [&head(b'P'), &numbers, bytes, &head(b'E')].concat()
}

/// zlib's CRC-32.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[test]
fn archives_cannot_bring_notes_about_innokits_own_work() {
    let place = Place::new();
    let own = [
        SHADOW,
        "innokit-recover.moved",
        "innokit-unpack.unfinished",
        "shop/t.ibd.innokit-ren",
        "innokit-recover.increment",
    ];
    for name in own {
        fs::create_dir_all(place.path("data/shop")).expect("made");
        place.dir.file("data/ibdata1", b"a file");
        place.dir.file(&format!("data/{name}"), b"forged");
        let archives =
            [("a.tar", tar(&place.path("data"))), ("a.xb", [member("a", b"1"), member(name, b"forged")].concat())];
        for (archive, bytes) in archives {
            place.dir.file(archive, &bytes);
            for command in [vec!["unpack"], vec!["restore", "--to"]] {
                let (archive, to) = (place.text(archive), place.text("to"));
                let args = if command.len() == 1 {
                    vec!["unpack", &archive, &to]
                } else {
                    vec!["restore", &archive, "--to", &to]
                };
                let run = run(&args);
                assert!(
                    run.status == 2 && run.errors.contains(name) && run.errors.contains("leave that file out"),
                    "{args:?}: {}",
                    run.errors
                );
                assert!(!place.path("to").exists(), "{args:?}");
            }
        }
        fs::remove_dir_all(place.path("data")).expect("removed");
    }
    place.assert_untouched("own names");
}

/// A shadow file with this tag, whose only batch writes `bytes` at the start of the file called `name`.
fn shadow(tag: u64, name: &str, bytes: &[u8]) -> Vec<u8> {
    let be32 = |number: usize| u32::try_from(number).expect("small").to_be_bytes();
    let names = [&be32(0)[..], &be32(name.len()), name.as_bytes()].concat();
    let pieces = [&be32(0)[..], &be32(bytes.len()), &0_u64.to_be_bytes()].concat();
    let (directory, data) = ([names, pieces].concat(), bytes);
    let head = [
        &b"INNOKRW1"[..],
        &tag.to_be_bytes(),
        &12_345_u64.to_be_bytes(),
        &0_u64.to_be_bytes(),
        &be32(1),
        &be32(1),
        &(directory.len() as u64).to_be_bytes(),
        &(data.len() as u64).to_be_bytes(),
        &crc32c(&[&directory, data].concat()).to_be_bytes(),
    ]
    .concat();
    let mut all = [&head[..], &crc32c(&head).to_be_bytes(), &directory, data].concat();
    all.resize(all.len().next_multiple_of(4096), 0);
    all
}

/// The commands that would finish an interrupted run.
fn finishing<'t>(set: &'t str, to: &'t str) -> [Vec<&'t str>; 4] {
    [
        vec!["recover", "--in-place", set],
        vec!["recover", "--to", to, set],
        vec!["restore", set, "--to", to],
        vec!["restore", set, "--to", to, "--move"],
    ]
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_shadow_file_is_believed_only_where_it_was_made_and_leads_nowhere_else() {
    let place = Place::new();
    let set = place.crashed("mariadb", "set");
    let (from, to) = (place.text("set"), place.text("to"));
    let plan: Value = serde_json::from_str(&run(&["recover", "--dry-run", "--json", &from]).text).expect("JSON");
    let number = |name: &str| plan[name].as_u64().expect("an LSN");
    let of_log = number("checkpoint_lsn").rotate_left(32) ^ number("end_lsn");
    let victim = place.text("victim/crontab");
    // Who makes one in the folder itself knows the inodes.
    let of_folder = || {
        let inode = |path: &Path| fs::metadata(path).expect("there").ino().to_be_bytes();
        crc32c(&[inode(&set), inode(&set.join(SHADOW))].concat())
    };
    for (name, is_of_folder) in [
        (victim.as_str(), false),
        (&victim, true),
        ("../victim/crontab", true),
        ("ib_buffer_pool", true),
        ("ibdata1", false),
    ] {
        for args in finishing(&from, &to).into_iter().take(if is_of_folder { 1 } else { 4 }) {
            fs::write(set.join(SHADOW), "").expect("made");
            let tag = if is_of_folder {
                u64::from(crc32c(&of_log.to_be_bytes())) << 32 | u64::from(of_folder())
            } else {
                of_log
            };
            fs::write(set.join(SHADOW), shadow(tag, name, b"* * * * * root sh")).expect("written");
            let before = state(&set);
            let run = run(&args);
            let says = if is_of_folder {
                "to which no run would have written"
            } else {
                "did not make this file for this folder"
            };
            assert!(
                run.status == 2 && run.errors.contains(says) && run.errors.contains(SHADOW),
                "{args:?} {name}: {}",
                run.errors
            );
            let after = state(&set);
            let files = |state: &[(PathBuf, Vec<u8>, [i64; 6])]| {
                state.iter().map(|(path, bytes, _)| (path.clone(), bytes.clone())).collect::<Vec<_>>()
            };
            assert!(files(&before) == files(&after), "{args:?} {name}: the set changed");
            place.assert_untouched(&format!("{args:?} {name}"));
            assert!(!Path::new(&to).exists(), "{args:?}");
        }
    }
    fs::remove_file(set.join(SHADOW)).expect("removed");
    let run = run(&["recover", "--in-place", &from]);
    assert_eq!(run.status, 0, "{}", run.errors);
}

/// The names that root writes to in a datadir are links: to a victim, or to the datadir's own file, which lies beside it.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn nothing_is_written_through_a_link() {
    const CLOSING: &str = "#innodb_redo/#ib_redo_tmp";
    let replaced = ["ib_buffer_pool.incomplete", "ib_buffer_pool", "innokit-recover.moved", "ib_logfile101"];
    for (kind, names, is_refused) in [
        ("mariadb", &replaced[..], false),
        ("mariadb", &[SHADOW], true),
        ("mariadb", &["ib_logfile0"], true),
        ("mysql", &["ib_buffer_pool.incomplete", CLOSING], false),
        ("mysql", &["mysql.ibd"], true),
    ] {
        let place = Place::new();
        let (set, beside) = (place.crashed(kind, "set"), place.path("beside"));
        for name in names {
            let link = if *name == CLOSING { next_log(&set) } else { set.join(name) };
            if link.exists() && is_refused {
                fs::rename(&link, &beside).expect("moved");
                symlink(&beside, &link).expect("linked");
            } else {
                fs::remove_file(&link).ok();
                symlink(place.path("victim/ib_logfile0"), &link).expect("linked");
            }
        }
        let moved = beside.exists().then(|| fs::read(&beside).expect("read"));
        let run = run(&["recover", "--in-place", &place.text("set")]);
        place.assert_untouched(names[0]);
        assert!(moved == beside.exists().then(|| fs::read(&beside).expect("read")), "{names:?}: {}", run.errors);
        let last = names[0].trim_end_matches(".ibd");
        assert_eq!(
            (run.status, is_refused && run.errors.contains(last)),
            (if is_refused { 2 } else { 0 }, is_refused),
            "{names:?}: {}",
            run.errors
        );
    }
}

/// The name under which MySQL's log is closed, before it is in its place.
fn next_log(set: &Path) -> PathBuf {
    let names =
        fs::read_dir(set.join("#innodb_redo")).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let numbers = names.filter_map(|name| name.to_str()?.strip_prefix("#ib_redo")?.parse::<u64>().ok());
    set.join(format!("#innodb_redo/#ib_redo{}_tmp", numbers.max().expect("a log") + 1))
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_a_link_leads_to_is_not_copied_unless_it_is_the_datadirs() {
    let place = Place::new();
    let set = place.crashed("mariadb", "set");
    fs::create_dir_all(set.join("shop")).expect("made");
    let secret = place.dir.file("secret", b"a key of root");
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
    symlink(&secret, set.join("shop/x.frm")).expect("linked");
    let (from, to) = (place.text("set"), place.text("to"));
    for args in [["recover", "--to", &to, &from], ["restore", "--to", &to, &from]] {
        let run = run(&args);
        assert!(
            run.status == 2 && run.errors.contains("shop/x.frm") && run.errors.contains("a link"),
            "{}",
            run.errors
        );
        assert!(!place.path("to").exists());
    }
    // Which a server would read.
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("a mode");
    let run = run(&["recover", "--to", &to, &from]);
    assert_eq!(run.status, 0, "{}", run.errors);
    assert_eq!(fs::read(place.path("to/shop/x.frm")).expect("copied"), b"a key of root");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_pipe_is_waited_for() {
    let place = Place::new();
    let apart = ["ib_buffer_pool", "ib_buffer_pool.incomplete", "shop/z.frm", "shop/z.ibd", "xtrabackup_info"];
    for names in [&["ibdata1"][..], &["aria_log_control"], &["ib_logfile0"], &[SHADOW], &apart] {
        let set = place.crashed("mariadb", "set");
        fs::create_dir_all(set.join("shop")).expect("made");
        for name in names {
            fs::remove_file(set.join(name)).ok();
            pipe(&set.join(name));
        }
        let (from, to) = (place.text("set"), place.text("to"));
        for args in [
            vec!["table", "check", &from],
            vec!["recover", "--dry-run", &from],
            vec!["restore", &from, "--to", &to],
            vec!["recover", "--in-place", &from],
        ] {
            run(&args);
        }
        for made in [set.as_path(), Path::new(&to)].into_iter().filter(|made| made.exists()) {
            fs::remove_dir_all(made).expect("removed");
        }
        place.assert_untouched(names[0]);
    }
}

/// What root changes in place lies elsewhere, behind a link: files one by one, and the folders on the way to them. Afterwards what lies there is
/// as it was, and the run said which name it refused; or it did not need that file.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_lies_behind_a_link_is_not_changed_in_place() {
    for (kind, names) in [
        ("mariadb", &["ibdata1", "undo001", "shop", "mysql", "ib_logfile0"][..]),
        ("mysql", &["mysql.ibd", "ibdata1", "undo_001", "shop", "#ib_16384_0.dblwr"]),
    ] {
        let (place, mut refused) = (Place::new(), 0);
        let (mut set, beside) = (place.crashed(kind, "set"), place.path("beside"));
        for name in names {
            fs::rename(set.join(name), &beside).expect("moved");
            symlink(&beside, set.join(name)).expect("linked");
            let of_beside = || {
                if beside.is_dir() {
                    state(&beside)
                } else {
                    vec![(beside.clone(), fs::read(&beside).expect("read"), [0; 6])]
                }
            };
            let before = of_beside();
            let run = run(&["recover", "--in-place", "--no-landlock", &place.text("set")]);
            assert!(of_beside() == before, "{kind} {name}: what the link leads to was changed: {}", run.errors);
            place.assert_untouched(name);
            let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str()).expect("a name");
            let says = run.errors.contains(stem) && (run.errors.contains("link") || run.errors.contains("outside"));
            assert!(run.status == 0 || (run.status == 2 && says), "{kind} {name}: {} {}", run.status, run.errors);
            refused += i32::from(run.status == 2);
            fs::remove_file(set.join(name)).expect("a link");
            fs::rename(&beside, set.join(name)).expect("moved back");
            if run.status == 0 {
                fs::remove_dir_all(&set).expect("removed");
                set = place.crashed(kind, "set");
            }
        }
        assert!(refused >= 4, "{kind}: {refused}");
    }
}

/// A debug build that opens whatever a name leads to writes through a link. Only the kernel is left to refuse it.
#[test]
#[cfg(debug_assertions)]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_second_wall_holds_where_the_first_is_open() {
    let place = Place::new();
    let set = place.crashed("mariadb", "set");
    let (undo, beside) = (set.join("undo001"), place.path("beside"));
    fs::rename(&undo, &beside).expect("moved");
    symlink(&beside, &undo).expect("linked");
    let before = fs::read(&beside).expect("read");
    let recover = |options: &[&str]| {
        let mut command = innokit();
        command.args(["recover", "--in-place", "-v"]).arg(&set).args(options).env("INNOKIT_DEBUG_OPEN_DOOR", "1");
        Run::of(&command.output().expect("innokit runs"))
    };
    let said =
        Run::of(&innokit().args(["recover", "--dry-run", "-v"]).arg(&set).output().expect("innokit runs")).errors;
    if said.contains("no Landlock") {
        return;
    }
    assert!(said.contains("wall    Landlock: nothing can be written"), "{said}");
    let run = recover(&[]);
    assert!(
        run.status == 2 && run.errors.contains("(os error 13)") && run.errors.contains("--no-landlock"),
        "{}",
        run.errors
    );
    assert!(fs::read(&beside).expect("read") == before, "the second wall let a write pass");
    let run = recover(&["--no-landlock"]);
    assert_eq!(run.status, 0, "{}", run.errors);
    assert!(run.errors.contains("as --no-landlock says"), "{}", run.errors);
    assert!(fs::read(&beside).expect("read") != before, "the hook opened nothing, so this test shows nothing");
}

/// A link and a link file lead to what only root may read. A check follows both as a server would, so here only the kernel refuses it.
#[test]
fn the_second_wall_refuses_to_read_what_was_not_named() {
    let place = Place::new();
    let space = fixture("mysql-9.7/dynamic-16k.ibd");
    place.dir.file("set/shop/t.ibd", &space);
    for (name, mode) in [("secret/one.ibd", 0o600), ("secret/two.ibd", 0o600), ("elsewhere/three.ibd", 0o644)] {
        let path = place.dir.file(name, &space);
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode");
    }
    if fs::metadata(place.path("secret/one.ibd")).expect("there").uid() != 0 {
        return;
    }
    symlink(place.path("secret/one.ibd"), place.path("set/shop/one.ibd")).expect("linked");
    fs::write(place.path("set/shop/two.isl"), place.text("secret/two.ibd")).expect("written");
    symlink(place.path("elsewhere/three.ibd"), place.path("set/shop/three.ibd")).expect("linked");
    let set = place.text("set");
    let walled = run(&["check", "-v", &set]);
    if walled.errors.contains("no Landlock") {
        return;
    }
    let both = format!("{}{}", walled.text, walled.errors);
    assert!(
        both.contains(&format!("nothing can be written; nothing read but {}", place.text("elsewhere/three.ibd"))),
        "{both}"
    );
    assert!(walled.status == 2 && both.contains("one.ibd") && both.contains("two.i"), "{} {both}", walled.status);
    assert!(both.contains("Permission denied"), "{both}");
    let failed = |run: &Run| {
        let json: Value = serde_json::from_str(&run.text).expect("JSON");
        json["totals"]["failed_files"].as_u64().expect("a number")
    };
    let (walled, free) = (run(&["check", "--json", &set]), run(&["check", "--json", "--no-landlock", &set]));
    assert_eq!((walled.status, free.status), (2, 0), "{}{}", walled.errors, free.errors);
    assert_eq!((failed(&walled), failed(&free)), (2, 0), "{}", walled.text);
    let named = run(&["check", &set, &place.text("secret")]);
    assert_eq!(named.status, 0, "{}{}", named.text, named.errors);
}
