//! Backups of xtrabackup with tablespaces from outside of the datadir, restored on the host of the server that they were taken from, which has
//! the originals open: the full backup, the full backup as a stream, and an increment. Such a backup has these files inside, where their
//! table's database is, or at the top.
//!
//! Source: Percona XtraBackup 8.4, `xtrabackup.cc` (where copies of remote tablespaces go).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use innokit_recovery::{OutsidePlace, RecoverOptions, RestoreOptions, restore};
use tempfile::TempDir;

use crate::mysql::TELLS;
use crate::server::Server;
use crate::xtrabackup::{OPTIONS, PATIENCE, back_up_with, copy_files, copy_tablespace};
use crate::xtrabackup_increments::{COLUMNS, increment_of, lsn, move_checkpoint};

/// The files outside, below their folder, and their names in a backup.
const FILES: [(&str, &str); 3] =
    [("shop/far.ibd", "shop/far.ibd"), ("shared.ibd", "shared.ibd"), ("more.ibu", "more.ibu")];
/// Less of it than the others: all files of the server are compared again and again.
const LOG: &str = "--innodb-redo-log-capacity=32M";
const ASKED: &str = "CHECK TABLE shop.far, shop.general, shop.near; CHECKSUM TABLE shop.far, shop.general, shop.near; SELECT COUNT(*), SUM(a) FROM shop.far";

/// Holds a process where it is (SIGSTOP), with all its files open.
struct Held(String);

impl Held {
    fn new(server: &Server) -> Self {
        let name = server.0.file_name().expect("a name").to_string_lossy();
        let pid = server.0.with_file_name(format!(".{name}.server")).join("pid");
        let held = Self(fs::read_to_string(pid).expect("a pid").trim().to_owned());
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

/// Everything below some folders: names, contents, owners, modes and times.
fn state(roots: &[&Path]) -> State {
    let (mut found, mut dirs) = (State::new(), roots.iter().map(|root| root.to_path_buf()).collect::<Vec<_>>());
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            let meta = fs::symlink_metadata(&path).expect("there");
            let bytes = if meta.is_file() { fs::read(&path).expect("read") } else { Vec::new() };
            let numbers = [
                i64::from(meta.mode()),
                i64::from(meta.uid()),
                i64::from(meta.gid()),
                i64::try_from(meta.nlink()).expect("few"),
            ];
            found.push((
                path.clone(),
                bytes,
                [numbers[0], numbers[1], numbers[2], numbers[3], meta.mtime(), meta.mtime_nsec()],
            ));
            dirs.extend(meta.is_dir().then_some(path));
        }
    }
    found.sort();
    found
}

/// A stream of all files of a folder, as the tool sends them.
fn stream(folder: &Path) -> Vec<u8> {
    let little = |number: u64, len: usize| number.to_be_bytes().into_iter().rev().take(len).collect::<Vec<u8>>();
    let mut all = Vec::new();
    for (path, bytes, _) in state(&[folder]).into_iter().filter(|(path, ..)| path.is_file()) {
        let name = path.strip_prefix(folder).expect("below").to_str().expect("UTF-8").to_owned();
        let head = |code: u8| [b"XBSTCK01", &[0, code][..], &little(name.len() as u64, 4), name.as_bytes()].concat();
        let mut crc = flate2::Crc::new();
        crc.update(&bytes);
        let numbers = [little(bytes.len() as u64, 8), little(0, 8), little(u64::from(crc.sum()), 4)].concat();
        all.extend([head(b'P'), numbers, bytes, head(b'E')].concat());
    }
    all
}

/// A server with a table, a general tablespace and one of undo outside of its datadir.
struct Lab {
    // Dropped first: it finds its process by a file in the directory.
    server: Server,
    dir: TempDir,
}

impl Lab {
    fn of(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start() -> Self {
        let dir = TempDir::new().expect("a directory");
        fs::create_dir_all(dir.path().join("else")).expect("made");
        let at = dir.path().join("else").display().to_string();
        let known = format!("--innodb-directories={at}");
        let server =
            Server::start_kind("mysql", &dir.path().join("live"), &[&OPTIONS[..], &[TELLS, LOG, &known]].concat());
        let tables = ["far", "general", "near"].map(|name| {
            let place = match name {
                "far" => format!("DATA DIRECTORY='{at}'"),
                "general" => "TABLESPACE shared".to_owned(),
                _ => String::new(),
            };
            format!("CREATE TABLE shop.{name} {COLUMNS} {place}; {}", filled(name))
        });
        server.ask(&format!(
            "CREATE DATABASE shop; CREATE TABLESPACE shared ADD DATAFILE '{at}/shared.ibd'; \
             CREATE UNDO TABLESPACE more ADD DATAFILE '{at}/more.ibu'; {}",
            tables.concat()
        ));
        Self { server, dir }
    }

    fn back_up(&self, name: &str) {
        let to = self.of(name);
        back_up_with(&self.server, &to, &|| {}, &|| {
            copy_files(&self.server.0, &to);
            FILES.iter().for_each(|(from, name)| copy_tablespace(&self.of("else").join(from), &to.join(name)));
        });
    }

    /// Restores a set beside the server, which is held, and asks a server on the outcome.
    fn restored(&self, set: &str, increments: &[&str], places: &[OutsidePlace]) -> String {
        let to = self.of("to");
        let _held = Held::new(&self.server);
        let (live, elsewhere) = (self.of("live"), self.of("else"));
        let look = || state(&[&live, &elsewhere]);
        let mut before = look();
        // What the server had asked the kernel to write may still arrive.
        let started = Instant::now();
        loop {
            sleep(Duration::from_millis(100));
            let now = look();
            if now == before {
                break;
            }
            assert!(started.elapsed() < PATIENCE, "a held server rests");
            before = now;
        }
        let recover = RecoverOptions {
            increments: increments.iter().map(|name| self.of(name)).collect(),
            places: places.to_vec(),
            ..RecoverOptions::default()
        };
        let options = RestoreOptions { to: to.clone(), recover, ..RestoreOptions::default() };
        let done = restore(&self.of(set), &options).unwrap_or_else(|error| panic!("{set} {increments:?}: {error}"));
        assert_eq!(done.recovered.increments.len(), increments.len());
        let untouched = |when: &str| {
            let now = look();
            let changed = now.iter().filter(|file| !before.contains(file)).map(|(path, ..)| path);
            assert!(now == before, "{set} {increments:?}: changed {when}: {:?}", changed.collect::<Vec<_>>());
        };
        untouched("by the restore");
        let inside = if places.is_empty() { to.clone() } else { places[0].new.clone() };
        assert!(
            FILES.iter().all(|(from, name)| inside.join(if places.is_empty() { name } else { from }).is_file()),
            "{set}"
        );
        let mut options = [&OPTIONS[..], &[LOG]].concat().join("\n");
        if let [place, ..] = places {
            options += &format!("\n--innodb-directories={}", place.new.display());
        }
        let control = self.of(".to.server");
        fs::create_dir_all(&control).and_then(|()| fs::write(control.join("options"), options)).expect("writes");
        let server = Server::again_kind("mysql", &to);
        let said = server.ask(ASKED);
        let log = server.log();
        server.stop();
        drop(server);
        untouched("by the restored server");
        assert!(!log.contains("multiple places"), "{set}: {log}");
        for made in [&to, &control, &self.of("new")] {
            fs::remove_dir_all(made).ok();
        }
        said
    }
}

fn filled(table: &str) -> String {
    format!(
        "INSERT INTO shop.{table} (a, b) WITH RECURSIVE n AS (SELECT 1 AS s UNION ALL SELECT s + 1 FROM n WHERE s < 900) \
         SELECT s, REPEAT(SHA2(s, 224), 3) FROM n;"
    )
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn beside_a_running_mysql_backups_of_xtrabackup_with_tablespaces_outside_touch_nothing_of_it() {
    let lab = Lab::start();
    lab.back_up("full");
    let first = lab.server.ask(ASKED);
    move_checkpoint(&lab.server, &lab.of("full"));
    lab.server.ask(&["far", "general", "near"].map(filled).concat());
    lab.back_up("whole");
    increment_of(&lab.of("whole"), lsn(&lab.of("full"), "to_lsn"), &lab.of("inc"));
    let second = lab.server.ask(ASKED);
    assert_ne!(first, second);
    // What changes after the backups is not in them.
    lab.server.ask("UPDATE shop.far SET a = a + 1; DELETE FROM shop.general LIMIT 9;");
    fs::write(lab.of("full.xb"), stream(&lab.of("full"))).expect("writes");
    assert_eq!(lab.restored("full", &[], &[]), first);
    assert_eq!(lab.restored("full.xb", &[], &[]), first);
    assert_eq!(lab.restored("full", &["inc"], &[]), second);
    fs::create_dir(lab.of("new")).expect("made");
    let place = OutsidePlace { old: lab.of("else"), new: lab.of("new") };
    assert_eq!(lab.restored("full", &["inc"], &[place]), second);
}
