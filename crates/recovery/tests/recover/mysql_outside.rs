//! MySQL's tablespaces outside the datadir: tables and partitions with `DATA DIRECTORY`, a general tablespace and one of undo.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use datadir::keys::KeyFiles;
use innokit_recovery::{RecoverOptions, recover};
use tempfile::TempDir;

use crate::mysql::{answers, assert_started_without_recovery, run, set_options};
use crate::server::{Server, copy, datadir};
use crate::{assert_sound, files_of, findings_of};

const TABLES: [&str; 6] = ["far.near", "far.t", "far.kept", "far.parts", "far.general", "far.late"];
/// File names below the outside directory.
const FILES: [&str; 7] =
    ["far/kept.ibd", "far/late.ibd", "far/parts#p#p0.ibd", "far/parts#p#p1.ibd", "far/t.ibd", "more.ibu", "shared.ibd"];

/// The files that a run said it would change, and what was in them then.
static TOLD: Mutex<Vec<(PathBuf, Vec<u8>)>> = Mutex::new(Vec::new());

fn tell(paths: &[PathBuf]) {
    TOLD.lock().expect("no panic").extend(paths.iter().map(|path| (path.clone(), fs::read(path).expect("there"))));
}

/// A crash of a server whose log changes all tables except `kept`, which only the dictionary names. Only the log names `late`.
struct Crash {
    datadir: PathBuf,
    elsewhere: PathBuf,
}

impl Crash {
    fn make(dir: &Path) -> Self {
        let crash = Self { datadir: dir.join("crashed"), elsewhere: dir.join("elsewhere") };
        copy(&datadir("mysql-16k"), &crash.datadir);
        fs::create_dir(&crash.elsewhere).expect("made");
        crash.set_options(&crash.datadir);
        let server = Server::again_kind("mysql", &crash.datadir);
        let (at, columns) =
            (crash.elsewhere.display(), "(id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(200), KEY (a))");
        server.run(&format!(
            "CREATE DATABASE far; USE far; CREATE TABLE near {columns}; CREATE TABLE t {columns} DATA DIRECTORY='{at}';
             CREATE TABLE kept {columns} DATA DIRECTORY='{at}'; INSERT INTO kept (a, b) VALUES (1, 'kept');
             CREATE TABLE parts {columns} PARTITION BY HASH (id)
                 (PARTITION p0 DATA DIRECTORY='{at}', PARTITION p1 DATA DIRECTORY='{at}');
             CREATE TABLESPACE shared ADD DATAFILE '{at}/shared.ibd'; CREATE TABLE general {columns} TABLESPACE shared;
             CREATE UNDO TABLESPACE more ADD DATAFILE '{at}/more.ibu';"
        ));
        server.stop();
        let server = Server::again_kind("mysql", &crash.datadir);
        let fill = |table: &str| {
            format!(
                "INSERT INTO {table} (a, b) WITH RECURSIVE n AS (SELECT 1 AS s UNION ALL SELECT s+1 FROM n WHERE s < 2000)
                     SELECT s, REPEAT(SHA2(s, 224), 3) FROM n;
                 UPDATE {table} SET a = a + 1 WHERE id % 3 = 0; DELETE FROM {table} WHERE id % 7 = 1;"
            )
        };
        let fills: String = TABLES.into_iter().filter(|table| *table != "far.kept").map(fill).collect();
        server.run(&format!(
            "SET SESSION cte_max_recursion_depth = 10000; CREATE TABLE far.late {columns} DATA DIRECTORY='{at}'; {fills}"
        ));
        server.kill();
        crash
    }

    /// The log keeps everything since the second start, and no page is flushed before it must be.
    fn set_options(&self, datadir: &Path) {
        let known = format!("--innodb-directories={}", self.elsewhere.display());
        let options = [
            "--innodb-page-size=16k",
            "--innodb-redo-log-capacity=64M",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-adaptive-flushing=OFF",
            "--innodb-idle-flush-pct=0",
            "--innodb-max-dirty-pages-pct=99",
            "--innodb-max-dirty-pages-pct-lwm=0",
            "--log-error-verbosity=3",
            &known,
        ];
        set_options(datadir, &options);
    }

    fn both(&self) -> [Vec<(String, u64, u64)>; 2] {
        [files_of(&self.datadir), files_of(&self.elsewhere)]
    }
}

fn content(server: &Server) -> Vec<String> {
    answers(server, &TABLES.map(str::to_owned)).into_values().collect()
}

/// Files about which `check` says that the dictionary has another one outside.
fn twins(datadir: &Path) -> usize {
    let findings = findings_of(datadir, &KeyFiles::default());
    findings.iter().filter(|finding| finding.message.contains("innodb_directories names")).count()
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn tablespaces_outside_a_datadir_of_mysql_are_recovered_where_they_are_and_move_into_copies() {
    let dir = TempDir::new().expect("a directory");
    let crash = Crash::make(dir.path());
    let (kept, kept_elsewhere) = (dir.path().join("kept"), dir.path().join("kept-elsewhere"));
    copy(&crash.datadir, &kept);
    copy(&crash.elsewhere, &kept_elsewhere);
    let before = crash.both();
    assert_eq!(before[1].iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), FILES);

    let copied = dir.path().join("copied");
    run(&crash.datadir, RecoverOptions { to: Some(copied.clone()), ..RecoverOptions::default() });
    assert_eq!(crash.both(), before, "the original is as it was");
    assert!(FILES.iter().all(|name| copied.join(name).is_file()), "{:?}", files_of(&copied));
    assert_sound(&copied, &KeyFiles::default());
    assert_eq!(twins(&copied), FILES.len());

    // If a process has one of the files open, they may belong to another server.
    let open = fs::File::open(crash.elsewhere.join("far/kept.ibd")).expect("opens");
    let mut other = std::process::Command::new("sleep").arg("600").stdin(open).spawn().expect("sleep runs");
    let in_place = || RecoverOptions { outside: true, on_outside: Some(tell), ..RecoverOptions::default() };
    let error = recover(&crash.datadir, &in_place()).expect_err("it is in use").to_string();
    other.kill().and_then(|()| other.wait()).expect("ends");
    assert!(error.contains("has this file open"), "{error}");
    assert_eq!(crash.both(), before, "{error}");

    let refused = recover(&crash.datadir, &RecoverOptions::default()).expect_err("they are outside").to_string();
    assert!(refused.contains("far/t (") && refused.contains("--with-outside"), "{refused}");
    assert_eq!(crash.both(), before, "{refused}");
    let done = run(&crash.datadir, in_place());
    assert!(done.pages_changed > 50, "{done:?}");
    let told = TOLD.lock().expect("no panic").clone();
    let changed = ["far/late.ibd", "far/parts#p#p0.ibd", "far/parts#p#p1.ibd", "far/t.ibd", "more.ibu", "shared.ibd"];
    assert_eq!(
        told.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>(),
        changed.map(|name| crash.elsewhere.join(name))
    );
    for (path, bytes) in told {
        let name = path.strip_prefix(&crash.elsewhere).expect("outside");
        assert!(
            bytes == fs::read(kept_elsewhere.join(name)).expect("kept"),
            "{name:?} was changed before it was named"
        );
    }
    assert_sound(&crash.datadir, &KeyFiles::default());
    let server = Server::again_kind("mysql", &crash.datadir);
    let (ours, log) = (content(&server), server.log());
    server.kill();

    // The server's own recovery of the same files in the same places.
    for (from, to) in [(&kept, &crash.datadir), (&kept_elsewhere, &crash.elsewhere)] {
        fs::remove_dir_all(to).expect("removed");
        copy(from, to);
    }
    let theirs = Server::again_kind("mysql", &crash.datadir);
    assert_eq!(ours, content(&theirs));
    assert!(!log.contains("Applying a batch of") || log.contains("Applying a batch of 0"), "{log}");
    theirs.kill();

    assert!(ours.iter().filter(|answer| answer.starts_with("1714\n")).count() == TABLES.len() - 1, "{ours:?}");

    // A copy does not need the outside directory, and a server on it forgets that.
    fs::rename(&crash.elsewhere, dir.path().join("away")).expect("renamed");
    set_options(&copied, &["--innodb-page-size=16k", "--log-error-verbosity=3"]);
    assert_eq!(twins(&copied), 0);
    let server = Server::again_kind("mysql", &copied);
    let at = crash.elsewhere.display();
    let clauses = [format!(" DATA DIRECTORY='{at}/'"), format!(" DATA DIRECTORY = '{at}'")];
    let forgotten = |answer: &String| clauses.iter().fold(answer.clone(), |answer, clause| answer.replace(clause, ""));
    assert_eq!(content(&server), ours.iter().map(forgotten).collect::<Vec<_>>());
    assert_started_without_recovery(&server, &theirs);
}
