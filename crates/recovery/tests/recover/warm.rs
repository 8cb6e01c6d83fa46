//! The list of pages that a server loads at startup: which pages it contains, and that servers load them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use format::bytes::be;
use format::fil::FIL_PAGE_SPACE_ID;
use innokit_recovery::{RecoverOptions, Recovered, recover};
use tempfile::TempDir;

use crate::files_of;
use crate::server::{Server, copy, datadir, script};

const LIST: &str = "ib_buffer_pool";
const CRASHED: [&str; 2] = ["mariadb-16k-crashed", "mysql-16k-crashed"];
const PAGE: usize = 16384;

fn recovered(datadir: &Path, options: &RecoverOptions) -> Recovered {
    recover(datadir, options).unwrap_or_else(|error| panic!("{options:?}: {error}"))
}

/// A copy of a datadir, with the given page list if any.
fn copied(name: &str, list: Option<&str>) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    copy(&datadir(name), dir.path());
    list.iter().for_each(|list| fs::write(dir.path().join(LIST), list).expect("writes"));
    dir
}

fn list_of(datadir: &Path) -> String {
    fs::read_to_string(datadir.join(LIST)).expect("a list of pages")
}

fn pages_in(list: &str) -> Vec<(u32, u32)> {
    let page = |line: &str| {
        let (space, page_no) = line.split_once(',').expect("two numbers");
        (space.parse().expect("a tablespace"), page_no.parse().expect("a page"))
    };
    list.lines().map(page).collect()
}

/// Every page of the datadir's tablespaces and its bytes.
fn pages_of(datadir: &Path) -> Vec<((u32, u32), Vec<u8>)> {
    let is_tablespace =
        |name: &str| name.ends_with(".ibd") || name.ends_with(".ibu") || name == "ibdata1" || name.starts_with("undo");
    let names = files_of(datadir).into_iter().map(|(name, ..)| name).filter(|name| is_tablespace(name));
    let mut pages = Vec::new();
    for name in names {
        let bytes = fs::read(datadir.join(name)).expect("reads");
        let space = be::u32_at(&bytes, FIL_PAGE_SPACE_ID).expect("a first page");
        pages.extend(bytes.chunks_exact(PAGE).zip(0..).map(|(page, page_no)| ((space, page_no), page.to_vec())));
    }
    pages
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_list_names_each_page_that_the_log_changes_and_leaves_in_use() {
    for name in CRASHED {
        let crashed = datadir(name);
        let dry = recovered(&crashed, &RecoverOptions { dry_run: true, ..RecoverOptions::default() });
        assert!(!crashed.join(LIST).exists());
        let dir = TempDir::new().expect("a directory");
        let to = dir.path().join("to");
        let done = recovered(&crashed, &RecoverOptions { to: Some(to.clone()), ..RecoverOptions::default() });
        let list = list_of(&to);
        let pages = pages_in(&list);
        assert!(done.rounds == 1 && done.pages_changed > 0, "{done:?}");
        assert_eq!(done.pages_to_load, done.pages_changed + done.pages_unchanged, "{name}: {done:?}");
        assert_eq!((pages.len() as u64, dry.pages_to_load), (done.pages_to_load, done.pages_to_load), "{name}");
        assert!(pages.is_sorted_by(|one, next| one < next), "{name}: {list}");
        assert!(list.ends_with('\n') && !list.contains(' '));
        // Exactly the pages that differ are listed. The first page of the system tablespace is resealed without any redo.
        let [before, after] = [&crashed, &to].map(|datadir| pages_of(datadir));
        let (named, before): (BTreeSet<_>, BTreeSet<_>) =
            (pages.iter().copied().collect(), before.into_iter().collect());
        let there: BTreeSet<_> = after.iter().map(|(id, _)| *id).collect();
        let written = after.into_iter().filter(|page| !before.contains(page)).map(|(id, _)| id);
        let unnamed: Vec<_> = written.filter(|id| *id != (0, 0) && !named.contains(id)).collect();
        // Pages that extended a file and are not used yet are zeros.
        let known: BTreeSet<_> = before.into_iter().map(|(id, _)| id).collect();
        assert!(unnamed.iter().all(|id| !known.contains(id)), "{name}: {unnamed:?}");
        let missing: Vec<_> = named.difference(&there).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_list_is_the_same_in_place_and_in_rounds_and_belongs_to_whom_the_datadir_does() {
    for name in CRASHED {
        let (at_once, in_rounds) = (copied(name, None), copied(name, None));
        recovered(at_once.path(), &RecoverOptions::default());
        let options = RecoverOptions { memory: 0, round: 256 << 10, ..RecoverOptions::default() };
        assert!(recovered(in_rounds.path(), &options).rounds > 1);
        let list = list_of(at_once.path());
        assert_eq!(list_of(in_rounds.path()), list, "{name}");
        let meta = |name: &str| fs::metadata(at_once.path().join(name)).expect("is there");
        let (listed, system) = (meta(LIST), meta("ibdata1"));
        assert_eq!((listed.uid(), listed.gid(), listed.mode()), (system.uid(), system.gid(), system.mode()));
        assert!(!at_once.path().join("ib_buffer_pool.incomplete").exists());
        // A run killed before it closed the log has left its own list, perhaps half of one.
        let killed = copied(name, Some(&list));
        fs::write(killed.path().join("ib_buffer_pool.incomplete"), "0,").expect("writes");
        recovered(killed.path(), &RecoverOptions::default());
        assert_eq!(files_of(killed.path()), files_of(at_once.path()), "{name}");
        // Now the datadir is clean.
        fs::write(at_once.path().join(LIST), "3,1\n").expect("writes");
        let again = recovered(at_once.path(), &RecoverOptions::default());
        assert!(again.was_clean && again.pages_to_load == 0 && list_of(at_once.path()) == "3,1\n", "{again:?}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_the_server_listed_at_its_last_shutdown_follows_behind() {
    for name in CRASHED {
        let plain = copied(name, None);
        recovered(plain.path(), &RecoverOptions::default());
        let list = list_of(plain.path());
        let first = list.lines().next().expect("a page");
        // A page in the log, pages of a tablespace that is in no log or file, and a list whose end was cut off.
        let old = format!("7777,1\n{first}\n7777,0\n77");
        let dir = copied(name, Some(&old));
        fs::set_permissions(dir.path().join(LIST), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("a mode");
        let done = recovered(dir.path(), &RecoverOptions::default());
        assert_eq!(list_of(dir.path()), format!("{list}7777,1\n7777,0\n"), "{name}");
        assert_eq!(done.pages_to_load, list.lines().count() as u64, "{name}");
        assert_eq!(fs::metadata(dir.path().join(LIST)).expect("is there").mode() & 0o777, 0o600);
        let left = copied(name, Some(&old));
        let done = recovered(left.path(), &RecoverOptions { warm: false, ..RecoverOptions::default() });
        assert!(done.pages_to_load == 0 && list_of(left.path()) == old, "{name}: --no-warm leaves it as it is");
        let without = copied(name, None);
        recovered(without.path(), &RecoverOptions { warm: false, ..RecoverOptions::default() });
        assert!(!without.path().join(LIST).exists(), "{name}");
        // A directory with this name is not the server's list, and a list elsewhere belongs to another datadir.
        let (odd, other) = (copied(name, None), copied(name, Some("7777,1\n")));
        fs::create_dir(odd.path().join(LIST)).expect("made");
        assert_eq!(recovered(odd.path(), &RecoverOptions::default()).pages_to_load, 0, "{name}");
        let linked = copied(name, None);
        std::os::unix::fs::symlink(other.path().join(LIST), linked.path().join(LIST)).expect("linked");
        recovered(linked.path(), &RecoverOptions::default());
        assert_eq!((list_of(other.path()), list_of(linked.path())), ("7777,1\n".into(), format!("{list}7777,1\n")));
    }
}

/// Flushes no page before it must, and writes each commit to the log. By default MySQL flushes pages when idle, and MariaDB when a tenth of
/// its log is in use, even without adaptive flushing. A slow machine would kill them only after that.
const LAZY: [&str; 6] = [
    "--innodb-adaptive-flushing=OFF",
    "--innodb-adaptive-flushing-lwm=70",
    "--loose-innodb-idle-flush-pct=0",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-flush-log-at-trx-commit=1",
];
const LOADS: &str = "--innodb-buffer-pool-load-at-startup=ON";
const LOADED_WITHIN: Duration = Duration::from_secs(300);

/// The pages of a tablespace that are in memory once a server on this datadir has loaded the list.
fn in_memory(kind: &'static str, datadir: &Path, space: u32) -> BTreeSet<(u32, u32)> {
    let server = Server(datadir.to_path_buf(), kind);
    script("server.sh", &[kind, "start", server.path(), LOADS]);
    let start = Instant::now();
    loop {
        let status = server.ask("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_load_status'");
        // Without a list, the server has none to open.
        if status.contains("load completed at") || status.contains("Cannot open") {
            break;
        }
        assert!(start.elapsed() < LOADED_WITHIN, "{status}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let ask = format!("SELECT page_number FROM information_schema.innodb_buffer_page WHERE space = {space}");
    server.ask(&ask).lines().map(|page_no| (space, page_no.parse().expect("a page"))).collect()
}

fn assert_loaded(kind: &'static str) {
    let dir = TempDir::new().expect("a directory");
    let server = Server::start_kind(kind, &dir.path().join("crashed"), &LAZY);
    let doubled = "INSERT INTO shop.t (c) SELECT c FROM shop.t;".repeat(11);
    server.ask(&format!(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, c TEXT) ENGINE=InnoDB
         STATS_PERSISTENT=0; INSERT INTO shop.t (c) VALUES (REPEAT('x', 1000)); {doubled}"
    ));
    server.kill();
    let [warm, cold] = ["warm", "cold"].map(|name| dir.path().join(name));
    for (to, warm) in [(&warm, true), (&cold, false)] {
        recovered(&server.0, &RecoverOptions { to: Some(to.clone()), warm, ..RecoverOptions::default() });
        server.lend_options(to);
    }
    let space = be::u32_at(&fs::read(warm.join("shop/t.ibd")).expect("reads"), FIL_PAGE_SPACE_ID).expect("a page");
    let named: BTreeSet<_> = pages_in(&list_of(&warm)).into_iter().filter(|page| page.0 == space).collect();
    assert!(named.len() > 50, "2,048 rows of 1,000 bytes: {named:?}");
    let (warm, cold) = (in_memory(kind, &warm, space), in_memory(kind, &cold, space));
    let missing: Vec<_> = named.difference(&warm).collect();
    assert!(missing.is_empty(), "{missing:?} of {} pages are not loaded", named.len());
    assert!(cold.intersection(&named).count() < named.len() / 2, "without the list, nobody asked for them: {cold:?}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mariadb_server_has_the_pages_in_memory_when_it_has_started() {
    assert_loaded("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mysql_server_has_the_pages_in_memory_when_it_has_started() {
    assert_loaded("mysql");
}
