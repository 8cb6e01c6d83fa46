//! What a mount refuses, and how it ends.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{all_datadirs, copy};
use crate::lab::{Mounted, below, can_mount};
use crate::servers::in_mount;
use crate::sums::sums;

/// A killed server's datadir, in a folder of its own.
struct Killed {
    folder: TempDir,
}

impl Killed {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        copy(&all_datadirs().join("mariadb-16k-crashed"), &folder.path().join("data"));
        Self { folder }
    }

    fn of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn upper(&self) -> String {
        self.of("upper").display().to_string()
    }

    fn mount(&self, options: &[&str]) -> Mounted {
        Mounted::on(&self.of("point"), &self.of("data"), options)
    }

    fn is_refused(&self, (set, point): (&str, &str), options: &[&str], words: &str) {
        let errors = Mounted::try_on(&self.of(point), &self.of(set), options).err().unwrap_or_default();
        assert!(errors.contains(words), "{set} on {point} {options:?}: {errors}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mount_refuses_what_would_mix_sets_or_lead_out() {
    if !can_mount() {
        return;
    }
    let killed = Killed::new();
    let (upper, data) = (killed.upper(), killed.of("data"));
    let before = sums(&data);
    let mounted = killed.mount(&["--upper", &upper]);
    killed.is_refused(("data", "other"), &["--upper", &upper], "another mount uses this directory");
    killed.is_refused(("data", "data/point"), &["--upper", "tmp"], "is in the set, which is only read");
    killed.is_refused(("data", "other"), &["--upper", &format!("{}/up", data.display())], "is in the set");
    killed.is_refused(("data", "folder"), &["--upper", &killed.folder.path().display().to_string()], "not empty");
    mounted.end();
    fs::remove_dir(data.join("point")).expect("made by the test");
    assert_eq!(sums(&data), before);

    // The same set at another time.
    copy(&data, &killed.of("older"));
    File::options()
        .append(true)
        .open(killed.of("older/shop/n.ibd"))
        .and_then(|file| file.set_len(1 << 20))
        .expect("longer");
    killed.is_refused(("older", "point"), &["--upper", &upper], "belongs to another set");

    for (name, words) in
        [("shop/t.isl", "DATA DIRECTORY"), ("shop/m.MYD", "a symbolic link"), ("bin.index", "outside of the mount")]
    {
        let path = data.join(name);
        match name {
            "shop/m.MYD" => symlink("/nowhere/m.MYD", &path).expect("made"),
            _ => fs::write(&path, "/nowhere/shop/t.ibd\n").expect("written"),
        }
        killed.is_refused(("data", "point"), &["--upper", "tmp"], words);
        fs::remove_file(path).expect("removed");
    }
    killed.mount(&["--upper", &upper]).end();
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mount_ends_when_its_files_are_closed_and_is_there_again_after_its_process_died() {
    if !can_mount() {
        return;
    }
    let killed = Killed::new();
    let upper = killed.upper();
    let mut mounted = killed.mount(&["--upper", &upper]);
    let mut file = File::create(in_mount(&mounted, "shop/notes.txt")).expect("made");
    file.write_all(b"first").expect("written");
    mounted.terminate();
    mounted.is_heard("files are open");
    file.write_all(b" second").expect("it goes on");
    drop(file);
    assert_eq!(mounted.status(), Some(0));

    let mounted = killed.mount(&["--upper", &upper]);
    let notes = in_mount(&mounted, "shop/notes.txt");
    assert_eq!(fs::read(&notes).expect("kept"), b"first second");
    fs::rename(&notes, in_mount(&mounted, "kept.txt")).expect("renamed");
    let ibdata = File::options().read(true).write(true).open(in_mount(&mounted, "ibdata1")).expect("opened");
    ibdata.write_all_at(b"in the middle of a page", 16384 * 3 + 1000).expect("written");
    drop(ibdata);
    // Nothing was synced, and nothing is lost: the machine goes on.
    mounted.kill();

    // The dead mount is taken away by the next one.
    let mounted = killed.mount(&["--upper", &upper]);
    assert_eq!(fs::read(in_mount(&mounted, "kept.txt")).expect("kept"), b"first second");
    let mut bytes = [0; 23];
    File::open(in_mount(&mounted, "ibdata1"))
        .and_then(|file| file.read_exact_at(&mut bytes, 16384 * 3 + 1000))
        .expect("read");
    assert_eq!(&bytes, b"in the middle of a page");
    assert!(!in_mount(&mounted, "shop/notes.txt").exists());
    assert!(Command::new("umount").arg(&mounted.point).status().expect("umount runs").success());
    let mut mounted = mounted;
    assert_eq!(mounted.status(), Some(0), "who unmounts it ends it");
    let finished = crate::common::innokit().args(["mount", "--finish", &upper]).output().expect("innokit runs");
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert!(finished.status.code() == Some(2) && said.contains("bytes of the set were not copied yet"), "{said}");
}

/// A file system of a few megabytes, unmounted at the end.
struct Small(PathBuf);

impl Small {
    fn new(path: PathBuf) -> Option<Self> {
        fs::create_dir(&path).expect("made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "small"]).arg(&path);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        is_mounted.then_some(Self(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_full_upper_and_a_base_that_is_gone_are_errors_that_are_named_and_lose_nothing() {
    if !can_mount() {
        return;
    }
    let killed = Killed::new();
    let Some(small) = Small::new(killed.of("small")) else {
        println!("skipped: only root mounts a tmpfs");
        return;
    };
    let upper = small.0.join("upper").display().to_string();
    let mounted = killed.mount(&["--upper", &upper]);
    let (kept, large) = (in_mount(&mounted, "kept.txt"), in_mount(&mounted, "large"));
    let file = File::create(&kept).expect("made");
    file.write_all_at(b"kept", 0).and_then(|()| file.sync_all()).expect("synced");
    let full = fs::write(&large, vec![7; 16 << 20]).expect_err("there is no room");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    mounted.is_heard("No space left on device");
    file.write_all_at(b"KEPT", 0).and_then(|()| file.sync_all()).expect("what has its place is written");
    drop(file);
    fs::remove_file(&large).expect("removed");
    fs::write(in_mount(&mounted, "after.txt"), "room again").expect("written");

    let (data, away) = (killed.of("data"), killed.of("away"));
    fs::rename(&data, &away).expect("renamed");
    let untouched = in_mount(&mounted, "shop/words.ibd");
    fs::read(&untouched).expect_err("its pages are gone");
    mounted.is_heard("shop/words.ibd: reading");
    assert_eq!(fs::read(&kept).expect("of the upper"), b"KEPT");
    fs::rename(&away, &data).expect("renamed");
    assert_eq!(
        fs::read(&untouched).expect("it is back").len() as u64,
        fs::metadata(data.join("shop/words.ibd")).expect("there").len()
    );
    mounted.end();

    let mounted = killed.mount(&["--upper", &upper]);
    assert_eq!(fs::read(in_mount(&mounted, "kept.txt")).expect("kept"), b"KEPT");
    assert_eq!(fs::read(in_mount(&mounted, "after.txt")).expect("kept"), b"room again");
    mounted.end();
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_file_of_a_mount_is_that_of_the_recovered_copy() {
    if !can_mount() {
        return;
    }
    let killed = Killed::new();
    let mut recover = crate::common::innokit();
    recover.args(["recover", "--no-warm", "--to"]).arg(killed.of("recovered")).arg(killed.of("data"));
    assert!(recover.output().expect("innokit runs").status.success());
    let mounted = killed.mount(&["--upper", "tmp"]);
    let mut recovered = below(&killed.of("recovered"));
    recovered.remove(Path::new("innokit.manifest.json"));
    assert_eq!(below(&mounted.point), recovered);
    mounted.end();
}
