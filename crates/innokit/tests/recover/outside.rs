//! Restores of a datadir with tablespaces outside of it, on the host of its own running server: as a folder, as an archive, as a stream, and
//! with increments. Nothing of the running server changes, and a server on the restored datadir finds all tables. The server is stopped while
//! innokit works (SIGSTOP), so that whatever changes was changed by innokit.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::backup_lab::Server;
use crate::hostile::{state, tar};

const COLUMNS: &str = "id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(200), KEY (a)";

/// Holds a server where it is, with all its files open.
struct Held(String);

impl Held {
    fn new(server: &Server) -> Self {
        let held = Self(fs::read_to_string(server.of(".data.server/pid")).expect("a pid").trim().to_owned());
        held.signal("-STOP");
        held
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0]).status().expect("kill runs").success());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

type State = Vec<(PathBuf, Vec<u8>, [i64; 6])>;

/// The files of a held server. What it had asked the kernel to write may still arrive.
fn at_rest(server: &Server) -> [State; 2] {
    let look = || ["data", "else"].map(|name| state(&server.of(name)));
    let mut before = look();
    loop {
        sleep(Duration::from_millis(100));
        let now = look();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// A server with tables outside: one with rows of before a full backup and after it.
fn started(kind: &'static str) -> Server {
    let folder = tempfile::TempDir::new().expect("a folder");
    let log = if kind == "mysql" { "--innodb-redo-log-capacity=16M" } else { "--innodb-log-file-size=16M" };
    let server = Server::start_in(folder, kind, &[log.to_owned()]);
    fs::create_dir_all(server.of("else/disk")).expect("made");
    let at = server.of("else/disk").display().to_string();
    let is_mysql = kind == "mysql";
    if is_mysql {
        // It makes files only where it would look for them.
        server.script("stop", &[], "");
        server.script("start", &[&format!("--innodb-directories={at}")], "");
    }
    server.script(
        "sql",
        &[],
        &format!("SET GLOBAL innodb_flush_log_at_trx_commit = 1; USE shop; CREATE TABLE far ({COLUMNS}) ENGINE=InnoDB DATA DIRECTORY='{at}'; INSERT INTO far (a, b) SELECT a, b FROM a;"),
    );
    if is_mysql {
        server.script(
            "sql",
            &[],
            &format!(
                "CREATE TABLESPACE shared ADD DATAFILE '{at}/shared.ibd'; CREATE TABLE shop.general ({COLUMNS}) TABLESPACE shared; \
                 INSERT INTO shop.general (a, b) SELECT a, b FROM shop.a; CREATE UNDO TABLESPACE more ADD DATAFILE '{at}/more.ibu';"
            ),
        );
        // Its dictionary names the files once it is on disk.
        server.script("stop", &[], "");
        server.script("start", &[&format!("--innodb-directories={at}")], "");
        server.script("sql", &[], "SET GLOBAL innodb_flush_log_at_trx_commit = 1; UPDATE shop.far SET a = a + 1; UPDATE shop.general SET a = a + 1;");
    }
    server
}

/// Makes a set of the datadir of a held server, with the files outside at the places where backup tools put them.
fn snapshot(server: &Server) {
    server.copy("data", "folder");
    server.copy("data", "set");
    server.copy("else/disk/shop/far.ibd", "set/shop/far.ibd");
    for name in ["shared.ibd", "more.ibu"].iter().filter(|name| server.of("else/disk").join(name).exists()) {
        server.copy(&format!("else/disk/{name}"), &format!("set/{name}"));
    }
    fs::write(server.of("set.tar"), tar(&server.of("set"))).expect("written");
}

/// Restores a set beside its running server, which is held, with these options. Returns what a server on it answers about its tables.
fn restored(server: &Server, set: &str, options: &[&str], started_with: &[&str]) -> String {
    let before = at_rest(server);
    let run = server.run(&[&["restore", set, "--to", "to"], options].concat());
    assert_eq!(run.status, 0, "{} {set}: {}", server.kind, run.errors);
    let untouched = |when: &str| {
        for (name, before) in ["data", "else"].iter().zip(&before) {
            let now = state(&server.of(name));
            let changed = now.iter().filter(|file| !before.contains(file)).map(|(path, _, numbers)| (path, numbers));
            assert!(now == *before, "{} {set}: {name} changed {when}: {:?}", server.kind, changed.collect::<Vec<_>>());
        }
    };
    untouched("in the restore");
    server.script_on("to", "start", started_with, "");
    let asked = "SELECT COUNT(*), SUM(a) FROM shop.far; CHECK TABLE shop.far; CHECKSUM TABLE shop.a, shop.b, shop.far;";
    let asked = if server.kind == "mysql" { format!("{asked} CHECKSUM TABLE shop.general;") } else { asked.to_owned() };
    let said = server.script_on("to", "sql", &["-N"], &asked);
    let log = fs::read_to_string(server.of(".to.server/log")).expect("a log");
    assert!(!log.contains("multiple places"), "{} {set}: {log}", server.kind);
    assert!(said.contains("shop.far\tcheck\tstatus\tOK"), "{} {set}: {said}", server.kind);
    server.script_on("to", "sql", &[], "INSERT INTO shop.far (a, b) VALUES (1, 'new')");
    server.script_on("to", "stop", &[], "");
    untouched("by the restored server");
    said
}

fn cleared(server: &Server) {
    for name in ["to", ".to.server", "new"] {
        fs::remove_dir_all(server.of(name)).ok();
    }
}

/// The server is held all the time: it would go on writing to the files outside, of which a copy of the folder has none.
fn every_set(server: &Server) {
    let _held = Held::new(server);
    at_rest(server);
    snapshot(server);
    let said = restored(server, "folder", &[], &[]);
    cleared(server);
    assert_eq!(restored(server, "set.tar", &[], &[]), said, "{} set.tar", server.kind);
    assert!(server.of("to/shop/far.ibd").exists() && !server.of("to/shop/far.isl").exists());
    // To another place.
    let (old, new) = (server.of("else"), server.of("new"));
    let places = format!("{}={}", old.display(), new.display());
    let refused = server.run(&["restore", "set.tar", "--to", "to2", "--outside", &places]);
    assert!(refused.status == 2 && refused.errors.contains("make it first"), "{}", refused.errors);
    for name in ["folder", "set.tar"] {
        cleared(server);
        fs::create_dir(&new).expect("made");
        let known = format!("--innodb-directories={}", new.display());
        let options = if server.kind == "mysql" { vec![known.as_str()] } else { Vec::new() };
        assert_eq!(restored(server, name, &["--outside", &places], &options), said, "{} {name}", server.kind);
        assert!(server.of("new/disk/shop/far.ibd").exists() && !server.of("to/shop/far.ibd").exists());
        if server.kind == "mysql" {
            assert!(server.of("new/disk/shared.ibd").exists() && server.of("new/disk/more.ibu").exists());
        }
        // What is there is another's.
        let refused = server.run(&["restore", name, "--to", "to2", "--outside", &places]);
        let first = if server.kind == "mysql" { "more: " } else { "shop/far: " };
        assert!(refused.status == 2 && refused.errors.contains(first), "{}", refused.errors);
        assert!(refused.errors.contains("is there already") && !server.of("to2").exists(), "{}", refused.errors);
    }
    cleared(server);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn beside_a_running_mysql_nothing_of_it_changes() {
    every_set(&started("mysql"));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn beside_a_running_mariadb_nothing_of_it_changes() {
    let server = started("mariadb");
    server.back_up("full", &[]);
    server.script("sql", &[], "UPDATE shop.far SET a = a + 1; FLUSH TABLES shop.far FOR EXPORT; UNLOCK TABLES;");
    let basedir = format!("--incremental-basedir={}", server.of("full").display());
    server.back_up("inc", &[&basedir]);
    let stream = server.back_up("none", &["--stream=xbstream"]);
    fs::write(server.of("full.xb"), stream).expect("written");
    every_set(&server);
    let _held = Held::new(&server);
    let said = restored(&server, "full.xb", &[], &[]);
    cleared(&server);
    assert_eq!(restored(&server, "full", &["--increment", "inc"], &[]), said);
    cleared(&server);
    fs::create_dir(server.of("new")).expect("made");
    let places = format!("{}={}", server.of("else").display(), server.of("new").display());
    assert_eq!(restored(&server, "full", &["--increment", "inc", "--outside", &places], &[]), said);
    assert!(server.of("new/disk/shop/far.ibd").exists());
    cleared(&server);
    assert_ne!(restored(&server, "full", &[], &[]), said, "the increment has a change");
}

/// MariaDB 10.5 looks where its dictionary says too, so a server on the copy would find the original's file.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_copy_of_mariadb_105_whose_server_would_find_the_original_is_refused() {
    let server = started("mariadb105");
    let held = Held::new(&server);
    let before = at_rest(&server);
    snapshot(&server);
    for set in ["folder", "set.tar"] {
        let refused = server.run(&["restore", set, "--to", "to"]);
        assert!(
            refused.status == 2 && refused.errors.contains("shop/far") && !server.of("to").exists(),
            "{}",
            refused.errors
        );
        assert!(["data", "else"].map(|name| state(&server.of(name))) == before, "{set}");
    }
    drop(held);
    server.script("stop", &[], "");
    fs::rename(server.of("else"), server.of("away")).expect("moved");
    let restored = server.run(&["restore", "set.tar", "--to", "to"]);
    assert_eq!(restored.status, 0, "{}", restored.errors);
    server.script_on("to", "start", &[], "");
    let said = server.script_on("to", "sql", &["-N"], "SELECT COUNT(*) > 1000 FROM shop.far; CHECK TABLE shop.far;");
    assert_eq!(said, "1\nshop.far\tcheck\tstatus\tOK\n");
    server.script_on("to", "stop", &[], "");
}
