//! `innokit backup --incremental-since` of busy servers: a full backup and its increments restore the moment of the last increment, and
//! sets that do not belong together are refused.
//!
//! The command talks to the server through a proxy that shows the tests each statement before the server gets it. So a test acts at a given
//! stage of the backup, not at a given time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, ended, killed, lsn, sums};
use crate::common::Run;
use crate::sql_proxy::{Fate, Proxy};
use format::{Algorithm, Lsn, Scheme, SpaceFormat, seal_page};
use serde_json::Value;
use tempfile::TempDir;

/// On MariaDB, commits are blocked from this statement on.
const COMMITS_BLOCKED: &str = "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS";
/// MySQL does not block commits, so the tests stop all changes at this statement.
const LOCKED: &str = "LOCK INSTANCE FOR BACKUP";
/// Definitions cannot change from here on.
const BLOCKED: [&str; 2] = ["BACKUP STAGE FLUSH", "LOCK INSTANCE FOR BACKUP"];

/// Before the full backup.
const BEFORE: &str = "CREATE TABLE shop.isam (id INT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=MyISAM; \
                      CREATE TABLE shop.dropped LIKE shop.a; INSERT INTO shop.dropped SELECT * FROM shop.a; \
                      CREATE TABLE shop.again LIKE shop.a; INSERT INTO shop.again SELECT * FROM shop.a; \
                      CREATE TABLE shop.one LIKE shop.a; INSERT INTO shop.one SELECT * FROM shop.a LIMIT 700; \
                      CREATE TABLE shop.two LIKE shop.a; INSERT INTO shop.two SELECT * FROM shop.a LIMIT 900; \
                      CREATE TABLE shop.emptied LIKE shop.a; INSERT INTO shop.emptied SELECT * FROM shop.a; \
                      CREATE TABLE shop.rebuilt LIKE shop.a; INSERT INTO shop.rebuilt SELECT * FROM shop.a; \
                      CREATE TABLE shop.indexed LIKE shop.a; INSERT INTO shop.indexed SELECT * FROM shop.a; \
                      CREATE TABLE shop.imported (id INT PRIMARY KEY, a INT) ENGINE=InnoDB; INSERT INTO shop.imported SELECT id, a FROM shop.a; \
                      CREATE TABLE shop.still LIKE shop.a; INSERT INTO shop.still SELECT * FROM shop.a; \
                      CREATE DATABASE gone; CREATE TABLE gone.t LIKE shop.a; INSERT INTO gone.t SELECT * FROM shop.a LIMIT 50;";
/// Between the full backup and the first increment.
const FIRST: &str = "DROP TABLE shop.dropped; DROP TABLE shop.again; CREATE TABLE shop.again (id INT PRIMARY KEY, other TEXT) ENGINE=InnoDB; \
                     INSERT INTO shop.again SELECT id, c FROM shop.still LIMIT 40; TRUNCATE shop.emptied; \
                     RENAME TABLE shop.one TO shop.away, shop.two TO shop.one, shop.away TO shop.two; INSERT INTO shop.one (a) VALUES (77); \
                     ALTER TABLE shop.rebuilt FORCE; ALTER TABLE shop.indexed ADD KEY more (c(20), a); \
                     CREATE TABLE shop.made LIKE shop.a; INSERT INTO shop.made SELECT * FROM shop.still LIMIT 800; \
                     RENAME TABLE shop.parts TO other.moved; DROP DATABASE gone; INSERT INTO shop.isam (a) VALUES (1), (2);";
/// Between the increments.
const SECOND: &str = "RENAME TABLE shop.one TO shop.away, shop.two TO shop.one, shop.away TO shop.two; UPDATE shop.two SET a = a + 9 WHERE id < 20; \
                      TRUNCATE shop.made; INSERT INTO shop.made SELECT * FROM shop.still LIMIT 30; DROP TABLE shop.again; \
                      ALTER TABLE shop.indexed DROP KEY more; ALTER TABLE shop.indexed ADD KEY later (b, a); \
                      CREATE DATABASE late; CREATE TABLE late.t LIKE shop.a; INSERT INTO late.t SELECT * FROM shop.still LIMIT 60; \
                      INSERT INTO shop.isam (a) VALUES (3); DELETE FROM shop.emptied;";

/// MySQL replaces an undo tablespace that it truncates by one with another space id.
const UNDO: (&str, &str) =
    (" CREATE UNDO TABLESPACE more ADD DATAFILE 'more.ibu';", " ALTER UNDO TABLESPACE more SET INACTIVE;");

/// A server that flushes its pages soon, so that increments contain some.
const WRITES_SOON: [&str; 2] = ["--innodb-max-dirty-pages-pct=0", "--innodb-max-dirty-pages-pct-lwm=0"];

fn started(kind: &'static str) -> Server {
    Server::start_in(TempDir::new().expect("a folder"), kind, &[])
}

fn backup(server: &Server, socket: &Path, to: &str, more: &[&str]) -> Run {
    let mut command = server.innokit();
    ended(
        command.args(["backup", "--user", "root", "--to", to, "--json", "--socket"]).arg(socket).args(more).arg("data"),
    )
}

/// Takes a backup of an idle server. Returns its manifest.
fn quiet(server: &Server, to: &str, more: &[&str]) -> Value {
    let done = backup(server, &server.socket(), to, more);
    assert_eq!(done.status, 0, "{} {to}: {}", server.kind, done.errors);
    done.json()["manifest"].clone()
}

/// Runs these statements in a loop until it is told to stop.
fn load(server: &Server, stop: &Arc<AtomicBool>, statements: fn(i32) -> String) -> JoinHandle<()> {
    let (mut session, stop) = (Session::of(server), Arc::clone(stop));
    thread::spawn(move || {
        for round in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            session.ask(&statements(round));
        }
    })
}

/// Creates, alters, swaps and drops tables.
fn definitions(round: i32) -> String {
    format!(
        "CREATE TABLE p_{round} LIKE a; INSERT INTO p_{round} SELECT * FROM a LIMIT 300; ALTER TABLE p_{round} ADD KEY k (c(10)); \
         TRUNCATE p_{round}; INSERT INTO p_{round} SELECT * FROM a LIMIT 100; ALTER TABLE other.c FORCE; \
         RENAME TABLE left_0 TO away, right_0 TO left_0, away TO right_0; INSERT INTO left_0 SELECT * FROM a LIMIT 3; \
         DROP TABLE IF EXISTS other.p_{round}; RENAME TABLE p_{round} TO other.p_{round}; DROP TABLE IF EXISTS other.p_{old}",
        old = round - 3,
    )
}

/// Changes rows.
fn rows(round: i32) -> String {
    let (seventh, fifth) = (round % 7, round % 5);
    format!(
        "INSERT INTO a (a, b, c) SELECT a, b, c FROM b LIMIT 300; UPDATE a SET a = a + 1 WHERE id % 7 = {seventh}; DELETE FROM a LIMIT 200; \
         UPDATE z SET a = a + 1, c = REPEAT('{fifth}', 200) WHERE id % 5 = {fifth}; INSERT INTO words (b) VALUES ('round {round} of many')"
    )
}

/// Takes a backup during all kinds of changes. Returns its manifest, and the row counts and checksums of the tables at its moment.
fn at_work(server: &Server, to: &str, more: &[&str], mut import: Option<Import>) -> (Value, Vec<String>) {
    let (no_definitions, no_rows) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut defining = Some(load(server, &no_definitions, definitions));
    let mut changing = Some(load(server, &no_rows, rows));
    let snapshot = Arc::new(Mutex::new(Vec::new()));
    let (held, mut session, is_mysql) = (Arc::clone(&snapshot), Session::of(server), server.kind == "mysql");
    let stop = |flag: &AtomicBool, thread: &mut Option<JoinHandle<()>>| {
        flag.store(true, Ordering::Relaxed);
        thread.take().map_or(Ok(()), JoinHandle::join).expect("ended");
    };
    let rows_end = Arc::clone(&no_rows);
    let proxy = Proxy::before(server.socket(), move |statement| {
        let mut held = held.lock().expect("whole");
        if BLOCKED.contains(&statement) {
            // Tables cannot be read while their definitions change.
            stop(&no_definitions, &mut defining);
            import.take().into_iter().for_each(|mut import| import.finish());
        }
        if statement == LOCKED {
            stop(&rows_end, &mut changing);
        }
        if held.is_empty() && statement == if is_mysql { LOCKED } else { COMMITS_BLOCKED } {
            *held = sums(&mut session);
            rows_end.store(true, Ordering::Relaxed);
        }
        Fate::Pass
    });
    let done = backup(server, &proxy.socket(), to, more);
    assert_eq!(done.status, 0, "{} {to}: {}", server.kind, done.errors);
    let held = snapshot.lock().expect("whole").clone();
    assert!(held.len() > 24 && no_rows.load(Ordering::Relaxed), "{held:?}");
    (done.json()["manifest"].clone(), held)
}

/// Replaces a table's file with that of another table, whose pages have LSNs of their own.
struct Import {
    session: Session,
    folder: PathBuf,
}

impl Import {
    /// Copy the file that will replace it.
    fn of(server: &Server) -> Self {
        server.script(
            "sql",
            &[],
            "DROP TABLE IF EXISTS shop.export; CREATE TABLE shop.export (id INT PRIMARY KEY, a INT) ENGINE=InnoDB; \
             INSERT INTO shop.export SELECT id, a * 2 FROM shop.still;",
        );
        let (mut session, folder) = (Session::of(server), server.folder.path().to_path_buf());
        session.ask("FLUSH TABLES export FOR EXPORT");
        for ending in ["ibd", "cfg"] {
            let from = folder.join(format!("data/shop/export.{ending}"));
            fs::copy(from, folder.join(format!("imported.{ending}"))).expect("copied");
        }
        session.ask("UNLOCK TABLES; DROP TABLE export");
        Self { session, folder }
    }

    /// Copy the table that is imported twice, with different rows, and discard it.
    fn again(server: &Server) -> Self {
        let mut import = Self { session: Session::of(server), folder: server.folder.path().to_path_buf() };
        for state in ["older", "newer"] {
            import.session.ask("FLUSH TABLES imported FOR EXPORT");
            for ending in ["ibd", "cfg"] {
                import.copy(&format!("data/shop/imported.{ending}"), &format!("{state}.{ending}"));
            }
            import.session.ask("UNLOCK TABLES; UPDATE imported SET a = a + 3");
        }
        import.session.ask("ALTER TABLE imported DISCARD TABLESPACE");
        import
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.folder.join(from), self.folder.join(to)).expect("copied");
    }

    /// The file exists, but the server does not know it yet. Next to it is one that has no table at all.
    fn begin(&mut self, server: &Server) {
        self.session = Session::of(server);
        self.copy("older.ibd", "data/shop/imported.ibd");
        self.copy("stray.ibd", "data/shop/stray.ibd");
    }

    /// Replaces what is in the file, and imports it.
    fn finish(&mut self) {
        fs::remove_file(self.folder.join("data/shop/stray.ibd")).expect("removed");
        for ending in ["ibd", "cfg"] {
            self.copy(&format!("newer.{ending}"), &format!("data/shop/imported.{ending}"));
        }
        self.session.ask("ALTER TABLE imported IMPORT TABLESPACE");
    }

    fn take_place(&mut self) {
        self.copy("imported.ibd", "stray.ibd");
        self.session.ask("ALTER TABLE imported DISCARD TABLESPACE");
        for ending in ["ibd", "cfg"] {
            let name = format!("imported.{ending}");
            fs::rename(self.folder.join(&name), self.folder.join("data/shop").join(&name)).expect("moved");
        }
        self.session.ask("ALTER TABLE imported IMPORT TABLESPACE");
        assert_eq!(self.session.ask("SELECT COUNT(*) FROM imported"), ["3000"]);
    }
}

/// A backup is refused if the log drops a tablespace that exists again by the backup's moment.
fn a_table_that_is_imported_meanwhile_is_no_part_of_a_backup(server: &Server) -> Import {
    let mut import = Some(Import::of(server));
    let proxy = Proxy::before(server.socket(), move |statement| {
        if BLOCKED.contains(&statement) {
            import.take().expect("once").take_place();
        }
        Fate::Pass
    });
    let refused = backup(server, &proxy.socket(), "void", &[]);
    let says = "shop/imported.ibd: the tablespace was discarded and imported";
    assert!(refused.status == 2 && refused.errors.contains(says), "{}: {}", server.kind, refused.errors);
    fs::remove_dir_all(server.of("void")).expect("removed");
    let mut again = Import::again(server);
    // No backup is possible as long as the log begins before the import.
    server.script("stop", &[], "");
    server.script("start", &WRITES_SOON, "");
    again.begin(server);
    again
}

/// Asserts that a restore with these increments and options yields the tables of a snapshot, and no others.
fn is_moment(server: &Server, increments: &[&str], more: &[&str], expected: &[String]) {
    let mut words = vec!["restore", "full", "--to", "out", "--json"];
    words.extend(increments.iter().flat_map(|increment| ["--increment", increment]));
    let restored = server.run(&[&words, more].concat());
    assert_eq!(restored.status, 0, "{} {increments:?}: {}", server.kind, restored.errors);
    assert_eq!(restored.json()["recovered"]["increments"].as_array().map(Vec::len), Some(increments.len()));
    let rows = server.tables("out");
    let missing: Vec<&String> = expected.iter().filter(|line| !rows.lines().any(|row| row == line.as_str())).collect();
    let more: Vec<&str> = rows.lines().filter(|row| !expected.iter().any(|line| line == row)).collect();
    let what = format!("{} {increments:?}", server.kind);
    assert!(missing.is_empty() && more.is_empty(), "{what}: {missing:#?} are missing, {more:#?} are there");
    fs::remove_dir_all(server.of("out")).expect("removed");
}

/// Bytes that a directory occupies on disk.
fn space(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let own = |path: PathBuf| {
        let metadata = fs::symlink_metadata(&path).expect("is there");
        if metadata.is_dir() { space(&path) } else { metadata.blocks() * 512 }
    };
    entries.map(own).sum()
}

fn a_full_backup_and_two_increments_are_each_moment(kind: &'static str) {
    let server = started(kind);
    let (undo_made, undo_emptied) = if kind == "mysql" { UNDO } else { ("", "") };
    server.script("sql", &[], &[BEFORE, undo_made].concat());
    let (full, _) = at_work(&server, "full", &[], None);
    server.script("sql", &[], &[FIRST, undo_emptied].concat());
    let import = a_table_that_is_imported_meanwhile_is_no_part_of_a_backup(&server);
    // Discarded before the log begins. Only the import happens while the log covers it, and an import writes no redo.
    let (first, held_first) = at_work(&server, "first", &["--incremental-since", "full"], Some(import));
    assert!(!server.of("first/shop/stray.ibd").exists());
    server.script("sql", &[], SECOND);
    let (second, held_second) = at_work(&server, "second", &["--incremental-since", "first"], None);
    assert_eq!((&first["base"]["id"], &second["base"]["id"]), (&full["id"], &first["id"]));
    // It must be copied whole: its pages have another table's LSNs.
    assert!(server.of("first/shop/imported.ibd").exists());

    let words = ["backup", "verify", "full", "--increment", "first", "--increment", "second"];
    let verified = server.run(&words);
    assert!(verified.status == 0 && verified.text.contains("2 increments"), "{}{}", verified.text, verified.errors);
    is_moment(&server, &["first"], &[], &held_first);
    is_moment(&server, &["first", "second"], &[], &held_second);
    what_does_not_belong_together_is_refused(&server);
    nothing_changes_for_little(&server, &full);
    an_archive_goes_on_from_the_last_increment(&server);
    a_restored_server_is_another(&server);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_full_backup_of_mariadb_and_two_increments_are_each_moment() {
    a_full_backup_and_two_increments_are_each_moment("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_full_backup_of_mysql_and_two_increments_are_each_moment() {
    a_full_backup_and_two_increments_are_each_moment("mysql");
}

fn what_does_not_belong_together_is_refused(server: &Server) {
    let refused = |sets: &[&str], status: i32, words: &str| {
        let (base, increments) = sets.split_first().expect("a base");
        let increments: Vec<&str> = increments.iter().flat_map(|set| ["--increment", set]).collect();
        let restored = server.run(&[&["restore", base, "--to", "out"], &increments[..]].concat());
        let said = format!("{sets:?}: {}{}", restored.text, restored.errors);
        assert!(restored.status == status && said.contains(words), "{words}: {}: {said}", restored.status);
        assert!(!server.of("out").exists(), "{sets:?}: something is left");
        let verified = server.run(&[&["backup", "verify", base], &increments[..]].concat());
        assert_eq!(verified.status, status, "{sets:?}: {}{}", verified.text, verified.errors);
    };
    refused(
        &["full", "second"],
        2,
        "second: this increment does not continue full: the backup that it continues, which reaches LSN",
    );
    refused(
        &["full", "second", "first"],
        2,
        "second: this increment does not continue full: it continues first: name increments in the order",
    );
    refused(&["full", "first", "first"], 2, "first: this increment does not continue first");
    refused(&["first", "second"], 2, "first: an incremental backup: name the full one first");
    refused(&["full", "full"], 2, "full: a full backup: name it first");
    let alone = server.run(&["restore", "first", "--to", "out"]);
    assert!(alone.status == 2 && alone.errors.contains("an incremental backup"), "{}", alone.errors);
    assert!(!server.of("out").exists());
    let verified = server.run(&["backup", "verify", "second"]);
    assert!(
        verified.status == 0 && verified.text.contains("It continues a backup"),
        "{}{}",
        verified.text,
        verified.errors
    );
    let (_, damage) = crate::backup_lab::said(&["check"], &server.of("second"));
    assert!(damage.is_empty(), "{}: {damage:?}", server.kind);
    let recovered = server.run(&["recover", "--to", "out", "full", "--increment", "first"]);
    assert!(recovered.status == 2 && recovered.errors.contains("innokit restore full"), "{}", recovered.errors);
    what_was_changed_since_it_was_taken_is_named(server);
}

fn what_was_changed_since_it_was_taken_is_named(server: &Server) {
    let delta = "shop/a.ibd.delta";
    type Attack<'a> = (&'a str, &'a dyn Fn(&Path), &'a str);
    let change = |path: &Path, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(path).expect("read");
        change(&mut bytes);
        fs::write(path, bytes).expect("written");
    };
    let attacks: [Attack<'_>; 4] = [
        ("removed", &|set| fs::remove_file(set.join(delta)).expect("removed"), "shop/a.ibd.delta: missing"),
        ("flipped", &|set| change(&set.join(delta), &|bytes| bytes[2 * 16384 + 300] ^= 1), "shop/a.ibd.delta"),
        ("cut", &|set| change(&set.join(delta), &|bytes| bytes.truncate(bytes.len() - 16384)), "shop/a.ibd.delta"),
        ("note", &|set| fs::remove_file(set.join("shop/a.ibd.meta")).expect("removed"), "shop/a.ibd.meta"),
    ];
    for (name, attack, words) in attacks {
        server.copy("first", "bad");
        attack(&server.of("bad"));
        let restored = server.run(&["restore", "full", "--increment", "bad", "--to", "out"]);
        assert!(
            restored.status == 1 && restored.errors.contains(words),
            "{name}: {}: {}",
            restored.status,
            restored.errors
        );
        assert!(!server.of("out").exists(), "{name}: something is left");
        let verified = server.run(&["backup", "verify", "bad"]);
        assert!(verified.status == 1 && verified.text.contains(words), "{name}: {}{}", verified.text, verified.errors);
        fs::remove_dir_all(server.of("bad")).expect("removed");
    }
    // Another row in the base, with a right checksum and the page's own LSN: only the manifest tells.
    server.copy("full", "bad");
    change(&server.of("bad/shop/a.ibd"), &|bytes| {
        let format = SpaceFormat::from_page0(bytes).expect("a tablespace");
        let is_full = format.scheme() == Scheme::FullCrc32;
        let algorithm = if is_full { Algorithm::FullCrc32 } else { Algorithm::Crc32 };
        let page = &mut bytes[5 * 16384..6 * 16384];
        let lsn = Lsn(u64::from_be_bytes(page[16..24].try_into().expect("eight bytes")));
        page[8000] ^= 1;
        seal_page(page, lsn, algorithm, &format).expect("sealed");
    });
    let restored = server.run(&["restore", "bad", "--increment", "first", "--to", "out"]);
    let is_refused =
        restored.status == 1 && restored.errors.contains("bad: not as it was backed up: shop/a.ibd: changed");
    assert!(is_refused && !server.of("out").exists(), "{}: {}", server.kind, restored.errors);
    fs::remove_dir_all(server.of("bad")).expect("removed");
}

/// Takes an increment as a stream, and unpacks it.
fn sent(server: &Server, to: &str, since: &str) {
    let mut command = server.innokit();
    command.args(["backup", "--user", "root", "--to", "-", "--spool", ".", "--incremental-since", since, "--socket"]);
    let output = command.arg(server.socket()).arg("data").output().expect("innokit runs");
    assert!(output.status.success(), "{}: {}", server.kind, String::from_utf8_lossy(&output.stderr));
    fs::write(server.of("stream"), output.stdout).expect("written");
    let unpacked = server.run(&["unpack", "stream", to]);
    assert_eq!(unpacked.status, 0, "{}", unpacked.errors);
    // Changed pages are verified as they pass, as many as in the directory.
    let verified = |name: &str| {
        let (document, status) = crate::common::check_json(&server.of(name), &[]);
        assert_eq!(status, 0, "{}: {name}: {document:#}", server.kind);
        crate::common::total(&document, "ok")
    };
    assert_eq!(verified("stream"), verified(to), "{}", server.kind);
}

fn nothing_changes_for_little(server: &Server, full: &Value) {
    // A restart writes all changes to the files, so the log begins at its end.
    server.script("stop", &[], "");
    server.script("start", &[], "");
    sent(server, "third", "second");
    let fourth = quiet(server, "fourth", &["--incremental-since", "third"]);
    let inside = backup(server, &server.socket(), "third/fifth", &["--incremental-since", "third"]);
    assert!(inside.status == 2 && inside.errors.contains("cannot be inside its base"), "{}", inside.errors);
    let [little, all] = ["fourth", "full"].map(|set| space(&server.of(set)));
    assert!(little * 10 < all, "{} bytes of {} in {}", little, all, server.kind);
    let entries = fourth["tablespaces"].as_array().expect("a list");
    let pages = |of: &dyn Fn(&Value) -> u64| entries.iter().map(of).sum::<u64>();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (changed, all) = (
        pages(&|entry| number(&entry["delta"]["pages"])),
        pages(&|entry| number(&entry["size"]) / number(&entry["page_size"])),
    );
    assert!(changed * 20 < all && entries.iter().all(|entry| entry["delta"].is_object()), "{changed} of {all} pages");
    // Each page was read once.
    assert_eq!((number(&fourth["pages"]), number(&fourth["pages_read_again"])), (all, 0), "{}", server.kind);
    assert_ne!(full["id"], fourth["id"]);
    let chain = ["first", "second", "third", "fourth"].iter().flat_map(|set| ["--increment", set]);
    let verified = server.run(&["backup", "verify", "full"].into_iter().chain(chain).collect::<Vec<_>>());
    assert!(verified.status == 0 && verified.text.contains("4 increments"), "{}{}", verified.text, verified.errors);
}

/// Recovers moments since the last increment, from a chain of increments and an archive that is as old as one of them.
fn an_archive_goes_on_from_the_last_increment(server: &Server) {
    server.archive();
    let last = quiet(server, "fifth", &["--incremental-since", "fourth"]);
    server.script("sql", &[], "UPDATE shop.a SET a = a + 5 WHERE id % 3 = 0; DELETE FROM other.c WHERE id % 4 = 0;");
    let mut session = Session::of(server);
    let (held, lsn) = (sums(&mut session), lsn(&mut session));
    server.script("sql", &[], "DELETE FROM shop.a; DELETE FROM shop.isam;");
    server.archive_up_to(lsn);
    let (increments, until) = (["first", "second", "third", "fourth", "fifth"], lsn.to_string());
    is_killed_and_refused(server, &increments);
    // Rows of a table without redo are deleted after that moment, or the server has no binary log that would tell.
    is_moment(server, &increments, &["--redo", "redo", "--stale-tables", "--until", &until], &held);

    let refused = |increments: &[&str], until: u64, words: &str| {
        let until = until.to_string();
        let all = increments.iter().flat_map(|set| ["--increment", set]);
        let words_of = ["restore", "full", "--to", "out", "--redo", "redo", "--stale-tables", "--until", &until]
            .into_iter()
            .chain(all);
        let restored = server.run(&words_of.collect::<Vec<_>>());
        assert!(restored.status == 2 && restored.errors.contains(words), "{}: {}", server.kind, restored.errors);
        assert!(!server.of("out").exists(), "{}: something is left", server.kind);
    };
    refused(&increments, last["to_lsn"].as_u64().expect("an LSN") - 1, "before the end of the backup");
    refused(&increments, lsn + (1 << 30), "the archive of the redo log ends at LSN");
    // Here the archive begins after this increment.
    refused(&["first"], lsn, "where the redo of the base copy begins");
}

/// A killed restore with an archive leaves a merged set whose pages are newer than its log. Nothing may use it.
fn is_killed_and_refused(server: &Server, increments: &[&str]) {
    let out = server.of("out");
    let restore = || {
        let mut command = server.innokit();
        command.args(["restore", "full", "--to", "out", "--redo", "redo", "--stale-tables"]);
        command.args(increments.iter().flat_map(|increment| ["--increment", increment]));
        command
    };
    let fresh = || {
        fs::remove_dir_all(&out).ok();
        restore()
    };
    // A merged set is void until all its files are in place. From then on its pages are changed.
    let has_merged = |dir: &Path| {
        let manifest = fs::read_to_string(dir.join("innokit.manifest.json")).unwrap_or_default();
        manifest.contains("\"complete\"")
    };
    for is_time in [killed::is_marked, has_merged] {
        killed::killed_in_some_try(&fresh, &|| is_time(&out), &|| killed::is_marked(&out));
        killed::is_refused_as_unfinished(server.folder.path(), "out");
        killed::names_the_leftover(&ended(&mut restore()));
    }
    let merged = server.run(&["backup", "verify", "out", "--increment", "first"]);
    assert!(merged.status == 2 && merged.errors.contains(killed::UNFINISHED), "{}: {}", server.kind, merged.errors);
    fs::remove_dir_all(out).expect("removed");
}

/// The same data in other files, as after a restore: the changes since an older backup cannot be known.
fn a_restored_server_is_another(server: &Server) {
    server.script("stop", &[], "");
    fs::rename(server.data(), server.of("before")).expect("renamed");
    server.copy("before", "data");
    server.script("start", &[], "");
    let refused = backup(server, &server.socket(), "void", &["--incremental-since", "fifth"]);
    let says = "data/ibdata1: not the file of which the base has a copy";
    assert!(refused.status == 2 && refused.errors.contains(says), "{}: {}", server.kind, refused.errors);
    quiet(server, "other", &[]);
    let refused = server.run(&["restore", "other", "--to", "out", "--increment", "first"]);
    let says = "first: this increment does not continue other: the backup that it continues, which reaches LSN";
    assert!(refused.status == 2 && refused.errors.contains(says), "{}: {}", server.kind, refused.errors);
    assert!(!server.of("out").exists());
}
