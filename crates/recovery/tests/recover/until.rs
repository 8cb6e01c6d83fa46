//! Recovery that ends before the log does, for logs that consist of blocks, are encrypted, or both. `places` has the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use datadir::keys::KeyFiles;
use format::Lsn;
use innokit_recovery::{RecoverError, RecoverOptions, Recovered, recover};
use tempfile::TempDir;

use crate::encrypted::{self, CTR, LOG, TABLES as ENCRYPTED_TABLES};
use crate::mishaps::{child_until, in_place_with};
use crate::places::{OPTIONS, TABLES, TRIES, insert, lsn, rows, run_on};
use crate::server::{Server, copy, script};
use crate::versions::OLD;
use crate::{assert_sound, files_of, shows_the_same};

fn until(until: Lsn, keys: &KeyFiles) -> RecoverOptions {
    RecoverOptions { until: Some(until), keys: keys.clone(), ..RecoverOptions::default() }
}

/// How many bytes earlier a recovery is also tried.
const BACK_MAX: u64 = 2000;

/// A killed server whose recovery can end between some of its rows and the others.
struct Crash {
    dir: TempDir,
    server: Server,
    keys: KeyFiles,
    between: Lsn,
    rows_between: String,
}

impl Crash {
    fn make(kind: &'static str, more: &[&str]) -> Self {
        let dir = TempDir::new().expect("a directory");
        let (server, keys) = encrypted::start_kind(kind, dir.path(), &[&OPTIONS, more].concat());
        server.ask("CREATE DATABASE shop");
        for table in TABLES {
            server.ask(&format!("CREATE TABLE shop.{table} (id INT PRIMARY KEY AUTO_INCREMENT, c TEXT) ENGINE=InnoDB"));
        }
        for _ in 0..TRIES {
            insert(&server, 800);
            let (between, rows_between) = (lsn(&server), rows(&server));
            insert(&server, 1500);
            server.kill();
            // If that much can be dropped, so can less.
            let options = RecoverOptions { dry_run: true, ..until(Lsn(between.0 - BACK_MAX), &keys) };
            match recover(&server.0, &options) {
                Ok(_) => return Self { dir, server, keys, between, rows_between },
                // The server may flush its pages at any time.
                Err(error) => println!("again: {error}"),
            }
            script("server.sh", &[kind, "start", server.path()]);
        }
        panic!("the server had written its pages each time");
    }

    /// Recovers into a copy, up to between the rows.
    fn recovered(&self, name: &str) -> (PathBuf, Recovered) {
        let to = self.dir.path().join(name);
        let options = RecoverOptions { to: Some(to.clone()), ..until(self.between, &self.keys) };
        let done = recover(&self.server.0, &options).expect("recovers");
        shows_the_same(&self.server.0, &to, 0, &options);
        (to, done)
    }

    fn in_place(&self, datadir: &Path, until: Option<Lsn>) -> Result<Recovered, RecoverError> {
        in_place_with(datadir, until, &self.keys)
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_log_of_blocks_may_be_recovered_until_an_lsn() {
    assert_recovered_until(OLD, &[]);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_encrypted_log_of_blocks_may_be_recovered_until_an_lsn() {
    assert_recovered_until(OLD, &[LOG, CTR, ENCRYPTED_TABLES]);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_encrypted_log_may_be_recovered_until_an_lsn() {
    assert_recovered_until("mariadb", &[LOG, CTR, ENCRYPTED_TABLES]);
}

fn assert_recovered_until(kind: &'static str, more: &[&str]) {
    let crash = Crash::make(kind, more);
    let before = files_of(&crash.server.0);
    let (to, done) = crash.recovered("until");
    assert!(done.mtrs_dropped > 0 && done.end_lsn <= crash.between.0, "{done:?}");
    // Then asks again in each way.
    for end in [None, Some(crash.between)] {
        let again = crash.in_place(&to, end).expect("there is nothing to do");
        assert!(again.was_clean && again.checkpoint_lsn == done.end_lsn, "{again:?}");
    }
    assert_sound(&to, &crash.keys);
    let error = crash.in_place(&crash.server.0, Some(Lsn(done.checkpoint_lsn))).expect_err("too early");
    assert!(!error.is_damage() && error.to_string().contains("checkpoint"), "{error}");
    assert_eq!(files_of(&crash.server.0), before);
    every_end_between_is_one(&crash);
    killed_before_its_end_it_goes_on_to_the_same_bytes(&crash, &to);
    let server = run_on(&to, &crash.server);
    assert_eq!(rows(&server), crash.rows_between, "what came later is not there");
    the_server_goes_on(&crash, &server);
}

/// A server starts wherever in a block the log ends.
fn every_end_between_is_one(crash: &Crash) {
    for back in [1, 300, BACK_MAX] {
        let to = crash.dir.path().join("earlier");
        let end = Lsn(crash.between.0 - back);
        let options = RecoverOptions { to: Some(to.clone()), ..until(end, &crash.keys) };
        let done = recover(&crash.server.0, &options).expect("recovers");
        assert!(done.end_lsn <= end.0, "{done:?}");
        // What was not committed by then is rolled back; tables and trees are intact.
        rows(&run_on(&to, &crash.server));
        fs::remove_dir_all(to).expect("removes");
    }
}

fn killed_before_its_end_it_goes_on_to_the_same_bytes(crash: &Crash, undisturbed: &Path) {
    let expected = files_of(undisturbed);
    let killed = crash.dir.path().join("killed");
    copy(&crash.server.0, &killed);
    let start = Instant::now();
    assert!(child_until(&killed, crash.between, &crash.keys).status().expect("starts").success());
    let took = start.elapsed();
    assert_eq!(files_of(&killed), expected);
    for number in 1..4 {
        fs::remove_dir_all(&killed).expect("removes");
        copy(&crash.server.0, &killed);
        let mut child = child_until(&killed, crash.between, &crash.keys).spawn().expect("starts");
        std::thread::sleep(took * number / 4);
        // It may have ended already.
        drop(child.kill());
        child.wait().expect("ends");
        crash.in_place(&killed, Some(crash.between)).expect("recovers");
        assert_eq!(files_of(&killed), expected, "kill {number}");
    }
}

/// Kills the server. Returns a recovered copy of its datadir, and the server after its own recovery.
pub fn recovered_beside(server: &Server, dir: &Path, recover: impl FnOnce(&Path)) -> (PathBuf, Server) {
    server.kill();
    let ours = dir.join("gone on");
    copy(&server.0, &ours);
    recover(&ours);
    (ours, Server::again_kind(server.1, &server.0))
}

/// Past the dropped LSNs, in the log that replaced the old one.
fn the_server_goes_on(crash: &Crash, server: &Server) {
    insert(server, 1000);
    let expected = rows(server);
    let (ours, theirs) = recovered_beside(server, crash.dir.path(), |ours| {
        crash.in_place(ours, None).expect("recovers");
    });
    assert!(theirs.log().contains("Starting crash recovery"), "{}", theirs.log());
    assert_eq!(rows(&theirs), expected);
    assert_eq!(rows(&run_on(&ours, &crash.server)), expected);
}
