//! Backups of xtrabackup taken while tables were created, dropped and renamed (`--lock-ddl=REDUCED`): files are copied at one moment and
//! examined again later. The tool then copies or notes the differences. A server recovers a full copy of the later moment, and both must
//! have the same content.
//!
//! Source: Percona XtraBackup 8.4, `ddl_tracker.cc`. The tool learns from the log what happened; here the space ids of the files tell.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use datadir::keys::KeyFiles;
use format::SpaceFormat;
use innokit_recovery::RecoverOptions;
use tempfile::TempDir;

use crate::mysql::{TELLS, answers, assert_same_content, assert_started_without_recovery, run};
use crate::server::Server;
use crate::xtrabackup::{COPY, NOTE, OPTIONS, back_up, back_up_with, copy_files, is_tablespace, make_log_of_copy};
use crate::xtrabackup_increments::{COLUMNS, increment_of, lsn, move_checkpoint, truncate_undo};
use crate::{KeptOnFailure, assert_sound, files_of};

const TABLES: [&str; 8] = ["one", "two", "moved", "cut", "indexed", "dropped", "same", "twice"];

fn tables(server: &Server) {
    let tables = TABLES.map(|name| {
        format!("CREATE TABLE mine.{name} {COLUMNS}; INSERT INTO mine.{name} (a, b) SELECT seq, REPEAT('{name}', seq%90) FROM mine.nums; ")
    });
    server.ask(&format!(
        "SET GLOBAL innodb_purge_rseg_truncate_frequency = 1; CREATE UNDO TABLESPACE spare ADD DATAFILE 'spare.ibu'; CREATE DATABASE mine;
         CREATE TABLE mine.nums (seq INT PRIMARY KEY);
         INSERT INTO mine.nums WITH RECURSIVE n AS (SELECT 1 AS seq UNION ALL SELECT seq+1 FROM n WHERE seq < 1000) SELECT seq FROM n;
         CREATE TABLESPACE earlier ADD DATAFILE 'earlier.ibd'; {}",
        tables.concat()
    ));
}

/// DDL that runs while the files are being copied.
fn meanwhile(server: &Server) {
    server.ask(&format!(
        "RENAME TABLE mine.one TO mine.away, mine.two TO mine.one, mine.away TO mine.two; INSERT INTO mine.one (a, b) VALUES (1, 'was two');
         CREATE DATABASE fresh; RENAME TABLE mine.moved TO fresh.moved; TRUNCATE mine.cut; INSERT INTO mine.cut (a) VALUES (7);
         ALTER TABLE mine.indexed ADD KEY (a), ALGORITHM=INPLACE; DROP TABLE mine.dropped; CREATE TABLE mine.dropped {COLUMNS};
         INSERT INTO mine.dropped (a) SELECT seq FROM mine.nums; CREATE TABLE mine.brief {COLUMNS}; DROP TABLE mine.brief;
         DROP TABLESPACE earlier; CREATE TABLESPACE later ADD DATAFILE 'later.ibd'; CREATE TABLE fresh.g {COLUMNS} TABLESPACE later;
         INSERT INTO fresh.g (a) SELECT seq FROM mine.nums; UPDATE mine.same SET a = a+1; RENAME TABLE mine.twice TO mine.once;
         ALTER TABLE mine.once ADD KEY (a), ALGORITHM=INPLACE; BEGIN; UPDATE mine.same SET a = 0; ROLLBACK"
    ));
    truncate_undo(server, "spare");
}

/// The tablespaces by space id.
fn numbers(dir: &Path) -> BTreeMap<u32, String> {
    let files =
        files_of(dir).into_iter().filter(|(name, _, _)| is_tablespace(name.rsplit('/').next().expect("a name")));
    let number = |name: &str| {
        SpaceFormat::from_page0(&fs::read(dir.join(name)).expect("reads")).ok().map(|format| format.space().0)
    };
    files.filter_map(|(name, _, _)| Some((number(&name)?, name))).collect()
}

/// Adds the notes and the new files (with this extension) that turn the earlier files into the later ones.
fn note_changes(earlier: &Path, later: &Path) {
    let (was, is) = (numbers(earlier), numbers(later));
    let place = |name: &str| Path::new(name).parent().expect("a directory").to_path_buf();
    let rebuilt = |name: &str| ["mine/indexed.ibd", "mine/once.ibd"].contains(&name);
    for (number, name) in &was {
        let note = |kind: &str| earlier.join(place(name)).join(format!("{number}.{kind}"));
        match is.get(number) {
            None => fs::write(note("del"), "").expect("writes"),
            // A table that was also rebuilt is copied again, and its older file is to be removed.
            Some(now) if now != name && rebuilt(now) => fs::write(note("del"), "").expect("writes"),
            Some(now) if now != name => fs::write(note("ren"), format!("1\n{now}")).expect("writes"),
            Some(_) => {}
        }
    }
    for (_, name) in is.iter().filter(|(number, name)| !was.contains_key(*number) || rebuilt(name)) {
        let new = earlier.join(format!("{name}.new"));
        fs::create_dir_all(new.parent().expect("a directory")).expect("makes the directory");
        fs::copy(later.join(name), new).expect("copies");
    }
}

/// Takes a backup of a server that keeps changing definitions: one in the tool's form, and a full copy of its end.
fn back_up_reduced(server: &Server, to: &Path, whole: &Path) {
    let before = || {
        copy_files(&server.0, to);
        meanwhile(server);
    };
    let after = || {
        copy_files(&server.0, whole);
        note_changes(to, whole);
    };
    back_up_with(server, to, &before, &after);
    for name in [COPY, NOTE, "xtrabackup_info"] {
        fs::copy(to.join(name), whole.join(name)).expect("copies");
    }
}

/// Names the new files of an increment as the tool does: `t.ibd.new` became a whole file there.
fn made_of_deltas(increment: &Path, whole: &Path, from: u64) {
    let news: Vec<String> =
        files_of(increment).into_iter().map(|(name, _, _)| name).filter(|name| name.ends_with(".new")).collect();
    assert!(news.len() > 3, "{news:?}");
    let later = increment.with_extension("later");
    increment_of(whole, from, &later);
    for new in news {
        fs::remove_file(increment.join(&new)).expect("removes");
        let name = new.strip_suffix(".new").expect("a new file");
        for kind in ["delta", "meta"] {
            fs::copy(later.join(format!("{name}.{kind}")), increment.join(format!("{new}.{kind}"))).expect("copies");
        }
    }
}

fn content(server: &Server) -> BTreeMap<String, String> {
    let tables = server.ask(
        "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema IN ('mine', 'fresh')",
    );
    let all = answers(server, &tables.lines().map(str::to_owned).collect::<Vec<_>>());
    assert!(all.len() > TABLES.len(), "{all:?}");
    all
}

fn is_what_the_server_recovers(server: &Server, full: &Path, increments: Vec<PathBuf>, whole: &Path, ours: &Path) {
    let before = files_of(full);
    let done = run(full, RecoverOptions { to: Some(ours.to_path_buf()), increments, ..RecoverOptions::default() });
    println!("{done:?}");
    assert!(done.was_backup && done.not_in_backup.is_empty(), "{done:?}");
    assert!(files_of(full) == before, "the backup is as it was");
    assert_sound(ours, &KeyFiles::default());
    let names = |dir: &Path| files_of(dir).into_iter().map(|(name, _, _)| name).collect::<Vec<_>>();
    let noted = |name: &String| [".del", ".ren", ".new", ".crpt"].iter().any(|kind| name.ends_with(kind));
    assert!(!names(ours).iter().any(noted), "{:?}", names(ours));
    make_log_of_copy(whole);
    server.lend_options(ours);
    server.lend_options(whole);
    let (ours, theirs) = (Server::again_kind("mysql", ours), Server::again_kind("mysql", whole));
    assert_started_without_recovery(&ours, &theirs);
    assert_same_content(&content(&ours), &content(&theirs), 0);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_taken_while_tables_came_and_went_is_prepared() {
    let dir = TempDir::new().expect("a directory");
    let [backup, whole, ours] = ["backup", "whole", "ours"].map(|name| dir.path().join(name));
    let server = Server::start_kind("mysql", &dir.path().join("live"), &[&OPTIONS[..], &[TELLS]].concat());
    let _kept = KeptOnFailure(dir.path(), 0);
    tables(&server);
    back_up_reduced(&server, &backup, &whole);
    server.kill();
    is_what_the_server_recovers(&server, &backup, Vec::new(), &whole, &ours);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_increment_taken_while_tables_came_and_went_is_put_into_the_full_backup() {
    let dir = TempDir::new().expect("a directory");
    let [full, copied, increment, whole, ours] =
        ["full", "copied", "inc", "whole", "ours"].map(|name| dir.path().join(name));
    let server = Server::start_kind("mysql", &dir.path().join("live"), &[&OPTIONS[..], &[TELLS]].concat());
    let _kept = KeptOnFailure(dir.path(), 0);
    tables(&server);
    back_up(&server, &full);
    server.ask("INSERT INTO mine.two (a, b) SELECT a, b FROM mine.one; UPDATE mine.dropped SET a = 0");
    move_checkpoint(&server, &full);
    back_up_reduced(&server, &copied, &whole);
    server.kill();
    let from = lsn(&full, "to_lsn");
    increment_of(&copied, from, &increment);
    made_of_deltas(&increment, &whole, from);
    is_what_the_server_recovers(&server, &full, vec![increment], &whole, &ours);
}
