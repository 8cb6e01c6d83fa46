//! Recovery of a MySQL datadir that ends before its log does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use datadir::keys::KeyFiles;
use format::Lsn;
use innokit_recovery::{RecoverOptions, recover};
use tempfile::TempDir;

use crate::mishaps::{child_until, in_place_until};
use crate::mysql::assert_applied_nothing;
use crate::places::{NEWER_CHECKPOINT, TABLES, TRIES, rows};
use crate::server::{Server, copy, script};
use crate::until::recovered_beside;
use crate::{assert_sound, files_of};

/// A server that flushes no page before it must, not even when idle, and loses no commit.
const OPTIONS: &[&str] = &[
    "--innodb-redo-log-capacity=256M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-idle-flush-pct=0",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=1",
];

/// The same for servers before 8.0.18, which still flush when idle.
#[cfg(target_arch = "x86_64")]
const OPTIONS_80: &[&str] = &[
    "--innodb-log-file-size=128M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=1",
];

fn lsn(server: &Server) -> Lsn {
    let status = server.ask("SHOW ENGINE INNODB STATUS");
    let number = status.split("Log sequence number").nth(1).expect("an LSN").trim_start();
    let end = number.find(|digit: char| !digit.is_ascii_digit()).expect("more of it");
    Lsn(number[..end].parse().expect("a number"))
}

fn insert(server: &Server, rows: u32) {
    for table in TABLES {
        server.ask(&format!(
            "USE shop; SET cte_max_recursion_depth = {rows};
             INSERT INTO {table} (c) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
             SELECT REPEAT(SHA2(n, 256), 1 + n % 20) FROM s;
             UPDATE {table} SET c = REPEAT('x', id % 500) WHERE id % 7 = 1; DELETE FROM {table} WHERE id % 11 = 1"
        ));
    }
}

/// The next value of AUTO_INCREMENT of each table.
fn counters(server: &Server) -> Vec<u64> {
    let counter = |table: &str| {
        let text = server.ask(&format!("SHOW CREATE TABLE shop.{table}"));
        let number = text.split("AUTO_INCREMENT=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a counter");
        number.parse().expect("a number")
    };
    TABLES.into_iter().map(counter).collect()
}

fn newest_ids(server: &Server) -> Vec<u64> {
    let newest = |table| server.ask(&format!("SELECT MAX(id) FROM shop.{table}")).trim().parse().expect("a number");
    TABLES.into_iter().map(newest).collect()
}

fn until(until: Lsn, to: &Path) -> RecoverOptions {
    RecoverOptions { until: Some(until), to: Some(to.to_path_buf()), ..RecoverOptions::default() }
}

fn start_with_tables(kind: &'static str, options: &[&str], dir: &Path) -> Server {
    let server = Server::start_kind(kind, &dir.join("crashed"), options);
    server.ask("CREATE DATABASE shop");
    for table in TABLES {
        server.ask(&format!("CREATE TABLE shop.{table} (id INT PRIMARY KEY AUTO_INCREMENT, c TEXT) ENGINE=InnoDB"));
    }
    server
}

/// A killed server whose recovery can end between some of its rows and the others.
struct Crash {
    dir: TempDir,
    server: Server,
    between: Lsn,
    rows_between: String,
    /// A running server has reserved more values than survive a crash.
    counters_between: Vec<u64>,
}

/// How many bytes earlier a recovery is also tried.
const BACK_MAX: u64 = 2000;

impl Crash {
    fn make(kind: &'static str, options: &[&str]) -> Self {
        let dir = TempDir::new().expect("a directory");
        let server = start_with_tables(kind, options, dir.path());
        for _ in 0..TRIES {
            insert(&server, 800);
            let (rows_between, counters_between, between) = (rows(&server), counters(&server), lsn(&server));
            insert(&server, 1500);
            server.kill();
            let dry = RecoverOptions { dry_run: true, ..until(Lsn(between.0 - BACK_MAX), dir.path()) };
            match recover(&server.0, &dry) {
                Ok(_) => return Self { dir, server, between, rows_between, counters_between },
                // The server may flush its pages at any time.
                Err(error) => println!("again: {error}"),
            }
            script("server.sh", &[kind, "start", server.path()]);
        }
        panic!("the server had written its pages each time");
    }

    /// Starts on a recovered copy; nothing is left to apply.
    fn run_on(&self, datadir: &Path) -> Server {
        self.server.lend_options(datadir);
        let server = Server::again_kind(self.server.1, datadir);
        let log = server.log();
        assert_applied_nothing(&log);
        assert!(log.contains("ready for connections") && !log.contains("[ERROR]"), "{log}");
        server
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mysql_log_may_be_recovered_until_an_lsn() {
    assert_ends_where_asked(&Crash::make("mysql", OPTIONS));
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_ring_of_mysql_80_may_be_recovered_until_an_lsn() {
    assert_ends_where_asked(&Crash::make("mysql80", OPTIONS_80));
}

fn assert_ends_where_asked(crash: &Crash) {
    let before = files_of(&crash.server.0);
    let [to, rounds] = ["until", "rounds"].map(|name| crash.dir.path().join(name));
    let done = recover(&crash.server.0, &until(crash.between, &to)).expect("recovers");
    assert!(done.mtrs_dropped > 0 && done.mtrs > 0 && done.end_lsn <= crash.between.0, "{done:?}");
    let in_rounds = RecoverOptions { memory: 0, round: 256 << 10, ..until(crash.between, &rounds) };
    assert!(recover(&crash.server.0, &in_rounds).expect("recovers").rounds > 1);
    assert_eq!(files_of(&rounds), files_of(&to), "many rounds come to what one does");
    assert!(in_place_until(&to, None).expect("there is nothing to do").was_clean);
    assert_sound(&to, &KeyFiles::default());
    let dry = |until| {
        let options = RecoverOptions { dry_run: true, until, ..RecoverOptions::default() };
        recover(&crash.server.0, &options).expect("a dry run")
    };
    assert_eq!(dry(Some(Lsn(u64::MAX))), dry(None), "past the end of the log means all of it");
    let error = in_place_until(&crash.server.0, Some(Lsn(done.checkpoint_lsn - 1))).expect_err("too early");
    assert!(!error.is_damage() && error.to_string().contains(NEWER_CHECKPOINT), "{error}");
    assert_eq!(files_of(&crash.server.0), before, "the input is as it was");
    every_end_between_is_one(crash);
    killed_before_its_end_it_goes_on_to_the_same_bytes(crash, &to);
    let server = crash.run_on(&to);
    assert_eq!(rows(&server), crash.rows_between, "what came later is not there");
    let (counters, newest) = (counters(&server), newest_ids(&server));
    assert!(counters.iter().zip(&newest).all(|(next, newest)| next > newest), "{counters:?} {newest:?}");
    assert!(counters.iter().zip(&crash.counters_between).all(|(next, then)| next <= then), "{counters:?}");
    the_server_goes_on(crash, &server);
}

/// A server starts wherever in a block the log ends, and tables and trees are intact.
fn every_end_between_is_one(crash: &Crash) {
    for back in [1, BACK_MAX] {
        let (to, end) = (crash.dir.path().join("earlier"), Lsn(crash.between.0 - back));
        let done = recover(&crash.server.0, &until(end, &to)).expect("recovers");
        assert!(done.end_lsn <= end.0, "{done:?}");
        rows(&crash.run_on(&to));
        fs::remove_dir_all(to).expect("removes");
    }
}

fn killed_before_its_end_it_goes_on_to_the_same_bytes(crash: &Crash, undisturbed: &Path) {
    let expected = files_of(undisturbed);
    let killed: PathBuf = crash.dir.path().join("killed");
    let keys = KeyFiles::default();
    copy(&crash.server.0, &killed);
    let start = Instant::now();
    assert!(child_until(&killed, crash.between, &keys).status().expect("starts").success());
    let took = start.elapsed();
    assert_eq!(files_of(&killed), expected);
    for number in 1..4 {
        fs::remove_dir_all(&killed).expect("removes");
        copy(&crash.server.0, &killed);
        let mut child = child_until(&killed, crash.between, &keys).spawn().expect("starts");
        std::thread::sleep(took * number / 4);
        // It may have ended already.
        drop(child.kill());
        child.wait().expect("ends");
        match in_place_until(&killed, Some(crash.between)) {
            Ok(_) => assert_eq!(files_of(&killed), expected, "kill {number}"),
            // The log is closed after every LSN that it had.
            Err(error) => {
                assert!(error.to_string().contains(NEWER_CHECKPOINT), "kill {number}: {error}");
                assert!(in_place_until(&killed, None).expect("it is done").was_clean, "kill {number}");
            }
        }
    }
}

fn the_server_goes_on(crash: &Crash, server: &Server) {
    insert(server, 1000);
    let expected = rows(server);
    let (ours, theirs) = recovered_beside(server, crash.dir.path(), |ours| {
        in_place_until(ours, None).expect("recovers");
    });
    let ours = crash.run_on(&ours);
    assert_eq!(rows(&theirs), expected);
    assert_eq!((rows(&ours), counters(&ours)), (expected, counters(&theirs)));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_mysql_has_done_to_files_and_pages_since_cannot_be_taken_back() {
    let dir = TempDir::new().expect("a directory");
    let server = start_with_tables("mysql", OPTIONS, dir.path());
    server.ask("CREATE UNDO TABLESPACE more ADD DATAFILE 'more.ibu'");
    insert(&server, 100);
    let (row, any) = ("INSERT INTO shop.near (c) VALUES ('x')", ": page ");
    for (change, says) in [
        (format!("{row}; USE shop; FLUSH TABLES near FOR EXPORT; UNLOCK TABLES"), "near.ibd: page "),
        ("CREATE TABLE shop.late (id INT)".into(), "shop/late.ibd was made"),
        ("RENAME TABLE shop.late TO shop.later".into(), "shop/late.ibd was renamed"),
        ("DROP TABLE shop.later".into(), "shop/later.ibd was deleted"),
        (format!("{row}; ALTER UNDO TABLESPACE more SET INACTIVE"), "more.ibu"),
    ] {
        let at = lsn(&server);
        server.ask(&change);
        if change.contains("UNDO") {
            let state = "SELECT state FROM information_schema.innodb_tablespaces WHERE name = 'more'";
            while server.ask(state).trim() != "empty" {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
        server.kill();
        let before = files_of(&server.0);
        let error =
            in_place_until(&server.0, Some(at)).map(|done| format!("{change}: {done:?}")).expect_err("too late");
        let text = error.to_string();
        println!("{change}: {text}");
        // The server may have written another page, or all of them.
        assert!([says, any, NEWER_CHECKPOINT, "truncated"].iter().any(|says| text.contains(says)), "{change}: {text}");
        assert!(!error.is_damage() && files_of(&server.0) == before, "{change}: {text}");
        script("server.sh", &["mysql", "start", server.path()]);
    }
}
