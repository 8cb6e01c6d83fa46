//! Tests of the passes, on files without a server.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use super::super::follower::Followed;
use super::super::pace::BackupWatcher;
use super::*;

fn table() -> Vec<u8> {
    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mariadb-10.11/dynamic-16k.ibd.zst");
    zstd::decode_all(File::open(packed).expect("the fixture")).expect("unpacked")
}

/// A datadir with these tables in the database `shop`, and a directory for the copies.
fn datadir(tables: &[&str]) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    for name in ["data/shop", "data/z", "set"] {
        fs::create_dir_all(dir.path().join(name)).expect("made");
    }
    for name in tables {
        fs::write(dir.path().join("data/shop").join(name), table()).expect("written");
    }
    dir
}

/// Calls `act` with the tablespaces of a datadir and a follower of its log, in which nothing happens.
fn with<T>(dir: &Path, act: impl FnOnce(&mut Tablespaces<'_>, &mut Follower<'_>) -> T) -> T {
    let (followed, keys, stop) = (Followed::default(), KeyStore::new(), AtomicBool::new(false));
    let pace = Pace::new(None, false, BackupWatcher::default(), &stop);
    let mut tablespaces = Tablespaces::new((&dir.join("data"), true), dir.join("set"), &keys, pace);
    thread::scope(|scope| {
        let follow = || {
            followed.reached(Lsn(1));
            while !datadir::stop::is_told(followed.stopped()) {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        let mut follower = Follower::start(scope, &followed, follow).expect("started");
        act(&mut tablespaces, &mut follower)
    })
}

#[test]
fn a_second_file_of_a_tablespace_is_refused_once_files_keep_their_names() {
    for (other, is_link) in [("z/t.ibd", false), ("shop/a.ibd", false), ("z/t.ibd", true)] {
        let dir = datadir(&["t.ibd"]);
        let data = dir.path().join("data");
        with(dir.path(), |tablespaces, follower| {
            let mut pass = |tablespaces: &mut Tablespaces<'_>| tablespaces.pass(follower, &|| Ok(()));
            assert_eq!(pass(tablespaces).expect("copied"), 1);
            let (from, to) = (data.join("shop/t.ibd"), data.join(other));
            let added = if is_link { fs::hard_link(from, to) } else { fs::copy(from, to).map(drop) };
            added.expect("added");
            pass(tablespaces).expect("may be a rename");
            tablespaces.lock().expect("locked");
            let refused = pass(tablespaces).expect_err("two files").to_string();
            let names = ["shop/t.ibd", other].iter().all(|name| refused.contains(name));
            assert!(names && refused.contains("are both tablespace"), "{other}: {refused}");
            fs::remove_file(data.join(other)).expect("removed");
            pass(tablespaces).expect("one file");
            assert_eq!(tablespaces.names().collect::<Vec<_>>(), [Path::new("shop/t.ibd")]);
            // Renamed.
            fs::rename(data.join("shop/t.ibd"), data.join(other)).expect("renamed");
            pass(tablespaces).expect("one file");
            assert_eq!(tablespaces.names().collect::<Vec<_>>(), [Path::new(other)]);
        });
    }
}

#[test]
fn a_tablespace_that_is_imported_after_it_was_copied_is_copied_again() {
    let (dir, before) = (datadir(&["t.ibd"]), table());
    let (path, copy) = (dir.path().join("data/shop/t.ibd"), dir.path().join("set"));
    // Writes the pages in place, at a time of its own whatever the file system's clock counts.
    let write = |bytes: &[u8], second: u64| {
        let file = File::options().write(true).open(&path).expect("open");
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).expect("written");
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(second)).expect("set");
    };
    let with_lsn = |lsn: Lsn| {
        let part = part_of(&File::open(&path).expect("open"), &path, &KeyStore::new()).expect("read").expect("sound");
        let mut bytes = before.clone();
        for page in bytes.chunks_mut(16 << 10).filter(|page| page.iter().any(|byte| *byte != 0)) {
            format::seal_page(page, lsn, format::checksum::Algorithm::FullCrc32, &part.format).expect("sealed");
        }
        bytes
    };
    let (imported, changed) = (with_lsn(Lsn(0)), with_lsn(Lsn(1 << 40)));
    // What is in the file when it is copied, and when the server holds still.
    for (first, then, again) in
        [(&before, &imported, 1), (&before, &changed, 0), (&imported, &changed, 0), (&imported, &imported, 0)]
    {
        write(first, 1);
        with(dir.path(), |tablespaces, follower| {
            let mut pass = |tablespaces: &mut Tablespaces<'_>| tablespaces.pass(follower, &|| Ok(())).expect("passed");
            assert_eq!(pass(tablespaces), 1);
            write(then, 2);
            assert_eq!(pass(tablespaces), 0);
            tablespaces.lock().expect("locked");
            assert_eq!(pass(tablespaces), again);
            let (space, _) = tablespaces.present().next().expect("one");
            let expected = if again == 1 { then } else { first };
            assert!(&fs::read(copy.join(space.to_string())).expect("read") == expected);
            tablespaces.forget(space).expect("removed");
        });
    }
    // MySQL says which tablespaces may be imported.
    with(dir.path(), |tablespaces, follower| {
        let mut pass = |tablespaces: &mut Tablespaces<'_>| tablespaces.pass(follower, &|| Ok(())).expect("passed");
        assert_eq!(pass(tablespaces), 1);
        tablespaces.discarded = tablespaces.present().map(|(space, _)| space).collect();
        tablespaces.lock().expect("locked");
        assert_eq!((pass(tablespaces), pass(tablespaces)), (1, 0));
    });
}

#[test]
fn a_file_that_the_server_is_making_is_not_damaged() {
    let dir = datadir(&["half.ibd"]);
    let path = dir.path().join("data/shop/half.ibd");
    let (whole, mut half) = (table(), table());
    half.get_mut(100..8000).expect("a page").fill(0x55);
    let met = |first: &[u8], then: &dyn Fn()| {
        fs::write(&path, first).expect("written");
        with(dir.path(), |tablespaces, follower| {
            let pass = tablespaces.pass(follower, &|| Ok(()));
            assert_eq!(pass.expect("passed"), 0);
            assert_eq!(tablespaces.names().collect::<Vec<_>>(), [Path::new("shop/half.ibd")]);
            then();
            tablespaces.is_current().expect("looked at")
        })
    };
    for first in [half.as_slice(), &[], &vec![0; half.len()]] {
        assert!(met(first, &|| {}), "it stays damaged");
        assert!(!met(first, &|| fs::write(&path, &whole).expect("written")), "it is sound by now");
        assert!(!met(first, &|| fs::remove_file(&path).expect("removed")), "it is gone");
        thread::scope(|scope| {
            let soon = || {
                thread::sleep(Duration::from_millis(120));
                fs::write(&path, &whole).expect("written");
            };
            assert!(!met(first, &|| drop(scope.spawn(soon))), "it is sound a little later");
        });
    }
}
