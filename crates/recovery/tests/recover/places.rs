//! Recovery that ends before the log does, and files in other places: outside the datadir, or in several parts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use datadir::keys::KeyFiles;
use format::Lsn;
use innokit_recovery::{RecoverOptions, RestoreOptions, recover, restore};
use tempfile::TempDir;

use crate::mishaps::{child_until, in_place_until};
use crate::server::{Server, copy, script};
use crate::{assert_sound, assert_started_without_recovery, files_of};

/// A server that flushes no page before it must, not even when idle (`lwm=0`) or when a tenth of its log is in use (the other `lwm`), loses
/// no commit, and has a system tablespace of two files.
pub const OPTIONS: [&str; 8] = [
    "--innodb-log-file-size=256M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-adaptive-flushing-lwm=70",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-data-file-path=ibdata1:4M;ibdata2:8M:autoextend",
];
/// Attempts at a crash that leaves pages unwritten.
pub const TRIES: u32 = 20;
pub const NEWER_CHECKPOINT: &str = "newest checkpoint";
/// Pages of the flushed table, or of another that the server also wrote.
const A_PAGE: &str = ": page ";
pub const TABLES: [&str; 3] = ["near", "far", "kept"];

pub fn lsn(server: &Server) -> Lsn {
    let row = server.ask("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'");
    Lsn(row.split_whitespace().last().and_then(|number| number.parse().ok()).expect("a number"))
}

pub fn insert(server: &Server, rows: u32) {
    for table in TABLES {
        server.ask(&format!(
            "USE shop; INSERT INTO {table} (c) SELECT REPEAT(SHA1(seq), 1+seq%20) FROM seq_1_to_{rows};
             UPDATE {table} SET c = REPEAT('x', id%500) WHERE id%7 = 1; DELETE FROM {table} WHERE id%11 = 1"
        ));
    }
}

/// The tables' rows and checksums, after the server has checked each.
pub fn rows(server: &Server) -> String {
    let mut text = String::new();
    for table in TABLES {
        let status = server.ask(&format!("CHECK TABLE shop.{table} EXTENDED"));
        assert!(status.contains("\tOK"), "{status}");
        text.push_str(&server.ask(&format!("SELECT COUNT(*) FROM shop.{table}; CHECKSUM TABLE shop.{table}")));
    }
    text
}

pub fn run_on(datadir: &Path, lender: &Server) -> Server {
    lender.lend_options(datadir);
    let server = Server::again_kind(lender.1, datadir);
    assert_started_without_recovery(&server);
    server
}

/// A crash of a server with two tables in `elsewhere`.
struct Crash {
    dir: TempDir,
    server: Server,
    elsewhere: PathBuf,
    /// The LSN between the first rows and the others.
    between: Lsn,
    rows_between: String,
}

impl Crash {
    fn make() -> Self {
        let dir = TempDir::new().expect("a directory");
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("made");
        let server = Server::start(&dir.path().join("crashed"), &OPTIONS);
        let columns = "(id INT PRIMARY KEY AUTO_INCREMENT, c TEXT) ENGINE=InnoDB";
        let outside = format!("DATA DIRECTORY='{}'", elsewhere.display());
        server.ask(&format!(
            "CREATE DATABASE shop; USE shop; CREATE TABLE near {columns}; CREATE TABLE kept {columns} {outside};
             CREATE TABLE before_far {columns} {outside}; CREATE TABLE gone {columns} {outside};
             RENAME TABLE before_far TO far; DROP TABLE gone"
        ));
        for _ in 0..TRIES {
            insert(&server, 800);
            let (between, rows_between) = (lsn(&server), rows(&server));
            insert(&server, 1500);
            script("server.sh", &["mariadb", "kill9", server.path()]);
            let options = RecoverOptions { dry_run: true, until: Some(between), ..RecoverOptions::default() };
            match recover(&server.0, &options) {
                Ok(_) => return Self { dir, server, elsewhere, between, rows_between },
                // The server may flush its pages at any time.
                Err(error) => println!("again: {error}"),
            }
            script("server.sh", &["mariadb", "start", server.path()]);
        }
        panic!("the server had written its pages each time");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A copy as an interrupted innokit leaves it: outside files are inside, and a marker says so.
    fn begun_copy(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        copy(&self.server.0, &path);
        for (name, ..) in files_of(&self.elsewhere) {
            fs::copy(self.elsewhere.join(&name), path.join(&name)).expect("copies");
            fs::remove_file(path.join(&name).with_extension("isl")).expect("a link file");
        }
        fs::write(path.join("innokit-recover.moved"), "").expect("writes");
        path
    }

    fn both(&self) -> [Vec<(String, u64, u64)>; 2] {
        [files_of(&self.server.0), files_of(&self.elsewhere)]
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn files_outside_and_an_end_before_that_of_the_log() {
    let crash = Crash::make();
    a_copy_gets_inside_what_lies_outside(&crash);
    a_copy_that_was_begun_is_ended_inside(&crash);
    until_an_lsn_a_copy_holds_what_was_committed_by_then(&crash);
    killed_before_its_end_it_goes_on_to_the_same_bytes(&crash);
    files_that_are_not_those_of_the_system_tablespace_are_refused(&crash);
    unless_it_is_told_to_nothing_outside_is_touched(&crash);
    in_place_files_outside_become_what_the_server_makes_of_them(&crash);
}

fn a_copy_gets_inside_what_lies_outside(crash: &Crash) {
    let before = crash.both();
    let to = crash.path("copy");
    let dry =
        recover(&crash.server.0, &RecoverOptions { dry_run: true, ..RecoverOptions::default() }).expect("a dry run");
    let done = recover(&crash.server.0, &RecoverOptions { to: Some(to.clone()), ..RecoverOptions::default() });
    let done = done.expect("recovers");
    assert!(done.pages_changed > 0 && done.pages_changed == dry.pages_changed, "{done:?} {dry:?}");
    assert_eq!(crash.both(), before, "the original is as it was, outside of the datadir too");
    let names: Vec<String> = files_of(&to).into_iter().map(|(name, ..)| name).collect();
    assert!(names.contains(&"shop/far.ibd".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".isl") || name.contains("innokit")), "{names:?}");
    assert_sound(&to, &KeyFiles::default());
    // The server has only the copy.
    let hidden = crash.path("hidden");
    fs::rename(&crash.elsewhere, &hidden).expect("renames");
    let server = run_on(&to, &crash.server);
    assert!(rows(&server) != crash.rows_between);
    insert(&server, 10);
    drop(server);
    fs::rename(&hidden, &crash.elsewhere).expect("renames");
    assert_eq!(crash.both(), before);
}

fn a_copy_that_was_begun_is_ended_inside(crash: &Crash) {
    let (before, to) = (crash.both(), crash.path("once"));
    recover(&crash.server.0, &RecoverOptions { to: Some(to.clone()), ..RecoverOptions::default() }).expect("recovers");
    let begun = crash.begun_copy("begun");
    in_place_until(&begun, None).expect("recovers");
    assert_eq!(files_of(&begun), files_of(&to));
    assert_eq!(crash.both(), before);
}

fn until_an_lsn_a_copy_holds_what_was_committed_by_then(crash: &Crash) {
    let to = crash.path("until");
    let until = |until: Lsn, to: &Path| RecoverOptions {
        to: Some(to.to_path_buf()),
        until: Some(until),
        ..RecoverOptions::default()
    };
    let before = crash.both();
    let done = recover(&crash.server.0, &until(crash.between, &to)).expect("recovers");
    assert!(done.mtrs_dropped > 0 && done.end_lsn <= crash.between.0, "{done:?}");
    let again = recover(&to, &RecoverOptions::default()).expect("there is nothing to do");
    assert!(again.was_clean && again.checkpoint_lsn == done.end_lsn, "{again:?}");
    assert_sound(&to, &KeyFiles::default());
    let error = recover(&crash.server.0, &until(Lsn(done.checkpoint_lsn), &crash.path("none"))).expect_err("too early");
    assert!(!error.is_damage() && error.to_string().contains("checkpoint"), "{error}");
    assert_eq!(crash.both(), before);
    let server = run_on(&to, &crash.server);
    assert_eq!(rows(&server), crash.rows_between, "what came later is not there");
    the_server_goes_on_and_later_files_are_refused(crash, server);
}

/// The server reuses LSNs that were in the old log.
fn the_server_goes_on_and_later_files_are_refused(crash: &Crash, server: Server) {
    server.ask("USE shop; CREATE TABLE extra (id INT PRIMARY KEY) ENGINE=InnoDB; CREATE TABLE other LIKE extra");
    insert(&server, 300);
    let steps = [
        ("CREATE TABLE new (id INT PRIMARY KEY) ENGINE=InnoDB", "new.ibd was made"),
        ("RENAME TABLE other TO another", "other.ibd was renamed"),
        ("DROP TABLE extra", "extra.ibd was deleted"),
        ("INSERT INTO far (c) VALUES ('x'); FLUSH TABLES far FOR EXPORT; UNLOCK TABLES", A_PAGE),
    ];
    let mut lsns = Vec::new();
    for (sql, says) in steps {
        lsns.push((lsn(&server), says));
        server.ask(&format!("USE shop; {sql}"));
    }
    let expected = rows(&server);
    script("server.sh", &["mariadb", "kill9", server.path()]);
    let before = files_of(&server.0);
    for (until, says) in lsns {
        let error = in_place_until(&server.0, Some(until)).expect_err("files are later");
        let text = error.to_string();
        // The server may have taken a checkpoint meanwhile.
        assert!(text.contains(says) || text.contains(NEWER_CHECKPOINT), "{says}: {text}");
        assert!(!error.is_damage() && files_of(&server.0) == before, "{text}");
    }
    let ours = crash.path("gone on");
    recover(&server.0, &RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() }).expect("recovers");
    let theirs = Server::again(&server.0);
    assert!(theirs.log().contains("Starting crash recovery"), "{}", theirs.log());
    assert_eq!(rows(&theirs), expected);
    assert_eq!(rows(&run_on(&ours, &crash.server)), expected);
    pages_that_the_log_initializes_may_be_newer(&theirs, &crash.path("lacks"));
}

/// A table of a database whose directory is missing, as if it had not reached the disk.
fn what_is_missing_is_made_as_the_server_makes_it(crashed: &Path, lacks: &Path) {
    copy(crashed, lacks);
    fs::remove_dir_all(lacks.join("new")).expect("removes");
    match in_place_until(lacks, None) {
        Ok(done) if done.files_made > 0 => {}
        // The server may have taken a checkpoint meanwhile, after which the log does not contain its creation.
        other => return println!("not tried: {:?}", other.map_err(|error| error.to_string())),
    }
    let mode = |path: &str| fs::metadata(lacks.join(path)).expect("is there").mode();
    assert_eq!((mode("new/t.ibd"), mode("new")), (mode("ibdata1"), mode("")));
}

fn pages_that_the_log_initializes_may_be_newer(server: &Server, lacks: &Path) {
    server.ask("USE shop; CREATE TABLE fresh (id INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO fresh VALUES (1)");
    server.ask("CREATE DATABASE new; CREATE TABLE new.t (id INT PRIMARY KEY) ENGINE=InnoDB");
    let until = lsn(server);
    server.ask("USE shop; INSERT INTO fresh VALUES (2); FLUSH TABLES fresh FOR EXPORT; UNLOCK TABLES");
    script("server.sh", &["mariadb", "kill9", server.path()]);
    what_is_missing_is_made_as_the_server_makes_it(&server.0, lacks);
    match in_place_until(&server.0, Some(until)) {
        // The server may also write other pages.
        Err(error) if !error.is_damage() && !error.to_string().contains("fresh.ibd") => {
            return println!("not tried: {error}");
        }
        other => drop(other.expect("recovers")),
    }
    let again = Server::again(&server.0);
    assert_started_without_recovery(&again);
    assert_eq!(
        again.ask("SELECT id FROM shop.fresh; CHECK TABLE shop.fresh").trim(),
        "1\nshop.fresh\tcheck\tstatus\tOK"
    );
}

fn files_that_are_not_those_of_the_system_tablespace_are_refused(crash: &Crash) {
    let refused = |datadir: &Path, says: &str| {
        let before = files_of(datadir);
        let error = in_place_until(datadir, None).expect_err("not recovered");
        assert!(!error.is_damage() && error.to_string().contains(says), "{error}");
        assert_eq!(files_of(datadir), before);
    };
    let lacks = crash.begun_copy("lacks");
    fs::rename(lacks.join("ibdata2"), lacks.join("more")).expect("renames");
    refused(&lacks, "innodb_data_file_path");
    fs::rename(lacks.join("more"), lacks.join("ibdata3")).expect("renames");
    refused(&lacks, "ibdata2 is missing");
    fs::rename(lacks.join("ibdata3"), lacks.join("ibdata2")).expect("renames");
    fs::write(lacks.join("ibdata3"), vec![0; 1 << 20]).expect("writes");
    refused(&lacks, "ibdata3 is not part of the system tablespace");
}

fn killed_before_its_end_it_goes_on_to_the_same_bytes(crash: &Crash) {
    let undisturbed = crash.begun_copy("undisturbed");
    let start = Instant::now();
    assert!(child_until(&undisturbed, crash.between, &KeyFiles::default()).status().expect("starts").success());
    let took = start.elapsed();
    let expected = files_of(&undisturbed);
    for number in 1..4 {
        let killed = crash.begun_copy("killed");
        let mut child = child_until(&killed, crash.between, &KeyFiles::default()).spawn().expect("starts");
        std::thread::sleep(took * number / 4);
        // It may have ended already.
        drop(child.kill());
        child.wait().expect("ends");
        in_place_until(&killed, Some(crash.between)).expect("recovers");
        assert_eq!(files_of(&killed), expected, "kill {number}");
        fs::remove_dir_all(killed).expect("removes");
    }
}

fn unless_it_is_told_to_nothing_outside_is_touched(crash: &Crash) {
    let before = crash.both();
    let refused = recover(&crash.server.0, &RecoverOptions::default()).expect_err("they are outside").to_string();
    assert!(refused.contains("shop/far (") && refused.contains("--with-outside"), "{refused}");
    assert_eq!(crash.both(), before, "{refused}");
    // An archive has what is in the datadir, and the names of the original's files.
    let (archive, to) = (crash.path("datadir.tar"), crash.path("from archive"));
    let tar = Command::new("tar").args(["-c", "-f"]).arg(&archive).arg("-C").arg(&crash.server.0).arg(".").status();
    assert!(tar.expect("tar runs").success());
    let options = RestoreOptions { to: to.clone(), ..RestoreOptions::default() };
    let refused = restore(&archive, &options).expect_err("tables are missing").to_string();
    assert!(refused.contains("shop/far (") && refused.contains("missing in the backup"), "{refused}");
    assert!(!to.exists() && crash.both() == before, "{refused}");
    let moved = crash.path("moved");
    copy(&crash.server.0, &moved);
    let inside = files_of(&moved);
    let refused = restore(&moved, &RestoreOptions { moves: true, ..options.clone() }).expect_err("outside").to_string();
    assert!(refused.contains("shop/far (") && refused.contains("--with-outside"), "{refused}");
    assert!(!to.exists() && files_of(&moved) == inside && crash.both() == before, "{refused}");
    // With their files in it they are restored inside.
    for (name, ..) in files_of(&crash.elsewhere) {
        fs::copy(crash.elsewhere.join(&name), moved.join(&name)).expect("copies");
    }
    let tar = Command::new("tar").args(["-c", "-f"]).arg(&archive).arg("-C").arg(&moved).arg(".").status();
    assert!(tar.expect("tar runs").success());
    restore(&archive, &options).expect("restored");
    let names: Vec<String> = files_of(&to).into_iter().map(|(name, ..)| name).collect();
    assert!(
        names.contains(&"shop/far.ibd".to_owned()) && !names.iter().any(|name| name.ends_with(".isl")),
        "{names:?}"
    );
    assert_sound(&to, &KeyFiles::default());
    assert_eq!(crash.both(), before);
}

fn in_place_files_outside_become_what_the_server_makes_of_them(crash: &Crash) {
    let (place, kept) = (&crash.server.0, [crash.path("kept datadir"), crash.path("kept elsewhere")]);
    copy(place, &kept[0]);
    copy(&crash.elsewhere, &kept[1]);
    in_place_until(place, None).expect("recovers");
    let server = Server::again(place);
    assert_started_without_recovery(&server);
    let ours = rows(&server);
    drop(server);
    for (kept, path) in kept.iter().zip([place, &crash.elsewhere]) {
        fs::remove_dir_all(path).expect("removes");
        copy(kept, path);
    }
    let theirs = Server::again(place);
    assert!(theirs.log().contains("Starting crash recovery"), "{}", theirs.log());
    assert_eq!(ours, rows(&theirs));
    // The server keeps using the files outside, and a copy of the datadir still names them.
    insert(&theirs, 500);
    script("server.sh", &["mariadb", "stop", theirs.path()]);
    let (before, outside) = (files_of(&kept[0]), files_of(&crash.elsewhere));
    let error = in_place_until(&kept[0], None).expect_err("the files outside are another's");
    assert!(
        !error.is_damage() && error.to_string().contains("outside the datadir, belongs to another server"),
        "{error}"
    );
    assert!(files_of(&kept[0]) == before && files_of(&crash.elsewhere) == outside, "{error}");
}
