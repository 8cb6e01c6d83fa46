//! Incremental backups of xtrabackup, applied to the full one that they follow. The server's files are copied as for a full backup, and the
//! increment is made from that copy as the tool makes one: file by file, every page whose LSN is not below that of the previous backup. So
//! there is a full backup of the same moment, which a server recovers, and both must have the same content.
//!
//! Source: Percona XtraBackup 8.0 and 8.4, `write_filt.cc` (deltas and their metadata), `xtrabackup.cc` (notes; how deltas are applied,
//! which files are removed), `backup_copy.cc` (all other files).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use datadir::keys::KeyFiles;
use format::bytes::be;
use format::fil::FIL_PAGE_LSN;
use format::page::fsp::FSP_SPACE_FLAGS;
use format::{Scheme, SpaceFormat};
use innokit_recovery::{RecoverError, RecoverOptions, recover};
use tempfile::TempDir;

use crate::mysql::{TELLS, answers, assert_same_content, assert_started_without_recovery, content, load, run};
use crate::mysql_load::{self, COMES_LATER};
use crate::server::{Server, copy};
use crate::xtrabackup::{COPY, NOTE, OPTIONS, PATIENCE, back_up, is_tablespace, make_log_of_copy};
use crate::{KeptOnFailure, assert_sound, files_of};

pub const COLUMNS: &str = "(id INT PRIMARY KEY AUTO_INCREMENT, a INT, b TEXT)";

/// A value from a backup's checkpoint file.
pub fn lsn(backup: &Path, key: &str) -> u64 {
    let note = fs::read_to_string(backup.join(NOTE)).expect("a note");
    let value = note.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    value.expect("a value").parse().expect("an LSN")
}

/// The pages of a tablespace changed since an LSN, as the tool stores them, and their metadata file.
fn delta_of(tablespace: &[u8], from: u64) -> (Vec<u8>, String) {
    let format = SpaceFormat::from_page0(tablespace).expect("a tablespace");
    let size = format.physical().bytes();
    let is_newer = |page: &[u8]| be::u64_at(page, FIL_PAGE_LSN).expect("an LSN") >= from;
    let changed: Vec<_> = tablespace.chunks_exact(size).enumerate().filter(|(_, page)| is_newer(page)).collect();
    let (room, mut delta) = (size / 4 - 1, Vec::new());
    let mut clusters: Vec<_> = changed.chunks(room).collect();
    if clusters.last().is_none_or(|last| last.len() == room) {
        clusters.push(&[]);
    }
    for (number, pages) in clusters.iter().enumerate() {
        let mut head = vec![0; size];
        let is_last = number + 1 == clusters.len();
        head[..4].copy_from_slice(if is_last { b"XTRA" } else { b"xtra" });
        for (place, (number, _)) in pages.iter().enumerate() {
            be::put_u32(&mut head, 4 + place * 4, u32::try_from(*number).expect("a page number")).expect("room");
        }
        if pages.len() < room {
            be::put_u32(&mut head, 4 + pages.len() * 4, u32::MAX).expect("room");
        }
        delta.extend(head);
        pages.iter().for_each(|(_, page)| delta.extend(*page));
    }
    let zip = if format.scheme() == Scheme::Zip { size } else { 0 };
    let (space, flags) = (format.space().0, be::u32_at(tablespace, FSP_SPACE_FLAGS).expect("flags"));
    (delta, format!("page_size = {size}\nzip_size = {zip} \nspace_id = {space}\nspace_flags = {flags}\n"))
}

/// Makes an increment from a copy of the whole server.
pub fn increment_of(whole: &Path, from: u64, to: &Path) {
    fs::create_dir_all(to).expect("makes the directory");
    for entry in fs::read_dir(whole).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            increment_of(&path, from, &to.join(name));
        } else if is_tablespace(&name) {
            let (delta, meta) = delta_of(&fs::read(&path).expect("reads"), from);
            fs::write(to.join(format!("{name}.delta")), delta).expect("writes");
            fs::write(to.join(format!("{name}.meta")), meta).expect("writes");
        } else {
            fs::copy(&path, to.join(name)).expect("copies");
        }
    }
    if let Ok(note) = fs::read_to_string(to.join(NOTE)) {
        let note = note.replace("full-backuped", "incremental").replace("from_lsn = 0", &format!("from_lsn = {from}"));
        fs::write(to.join(NOTE), note).expect("writes");
    }
}

/// Repeats the query until the server gives this answer.
fn wait_for(server: &Server, question: &str, answer: &str) {
    let started = Instant::now();
    loop {
        let now = server.try_ask(question);
        if now.trim() == answer {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{question}: {now}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the load has changed definitions again.
fn wait_for_load(server: &Server) {
    let newest = || {
        let names = fs::read_dir(server.0.join("shop")).expect("a directory").flatten().map(|entry| entry.file_name());
        let number = |name: &str| name.strip_prefix(COMES_LATER)?.strip_suffix(".ibd")?.parse::<u32>().ok();
        names.filter_map(|name| number(&name.to_string_lossy())).max().unwrap_or(0)
    };
    let (started, before) = (Instant::now(), newest());
    while newest() <= before {
        assert!(started.elapsed() < PATIENCE, "the load goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes the server flush pages until its checkpoint is past the end of a backup, so that the next one begins at another LSN.
pub fn move_checkpoint(server: &Server, backup: &Path) {
    let last = lsn(backup, "last_lsn");
    server.ask("SET GLOBAL innodb_max_dirty_pages_pct = 0");
    let is_behind =
        format!("SELECT storage_engines->'$.InnoDB.LSN_checkpoint' > {last} FROM performance_schema.log_status");
    wait_for(server, &is_behind, "1");
    server.ask("SET GLOBAL innodb_max_dirty_pages_pct = 99");
}

/// Makes the server truncate an undo tablespace, which then has another space id.
pub fn truncate_undo(server: &Server, name: &str) {
    let about = |what: &str| format!("SELECT {what} FROM information_schema.innodb_tablespaces WHERE name = '{name}'");
    let before = server.ask(&about("space"));
    server.ask(&format!("ALTER UNDO TABLESPACE {name} SET INACTIVE"));
    wait_for(server, &about("state"), "empty");
    assert_ne!(server.ask(&about("space")), before, "{name} was truncated");
}

const BEFORE: [&str; 9] = ["one", "two", "moved", "cut", "copied", "placed", "instant", "dropped", "same"];

fn before(server: &Server) {
    let tables = BEFORE.map(|name| {
        format!("CREATE TABLE mine.{name} {COLUMNS}; INSERT INTO mine.{name} (a, b) SELECT seq, REPEAT('{name}', seq%90) FROM shop.nums; ")
    });
    server.ask(&format!(
        "SET GLOBAL innodb_purge_rseg_truncate_frequency = 1; CREATE UNDO TABLESPACE spare ADD DATAFILE 'spare.ibu';
         CREATE DATABASE mine; CREATE DATABASE gone; CREATE TABLE gone.t {COLUMNS}; CREATE TABLE mine.m (a INT) ENGINE=MyISAM;
         CREATE TABLESPACE earlier ADD DATAFILE 'earlier.ibd'; CREATE TABLE gone.g {COLUMNS} TABLESPACE earlier; {}
         INSERT INTO mine.m VALUES (1); CREATE TABLE mine.n (a INT) ENGINE=MyISAM;",
        tables.concat()
    ));
}

fn between(server: &Server) {
    server.ask(&format!(
        "DROP DATABASE gone; DROP TABLESPACE earlier; CREATE DATABASE fresh; CREATE TABLE fresh.t {COLUMNS};
         INSERT INTO fresh.t (a, b) SELECT seq, REPEAT('f', seq) FROM shop.nums; INSERT INTO mine.m VALUES (2); DROP TABLE mine.n;
         CREATE TABLESPACE later ADD DATAFILE 'later.ibd'; CREATE TABLE fresh.g {COLUMNS} TABLESPACE later;
         RENAME TABLE mine.one TO mine.away, mine.two TO mine.one, mine.away TO mine.two; RENAME TABLE mine.moved TO fresh.moved;
         INSERT INTO mine.one (a, b) VALUES (1, 'was two'); TRUNCATE mine.cut; INSERT INTO mine.cut (a) VALUES (7);
         ALTER TABLE mine.copied ADD KEY (a), ALGORITHM=COPY; ALTER TABLE mine.placed ADD KEY (a), ALGORITHM=INPLACE;
         ALTER TABLE mine.instant ADD COLUMN n INT DEFAULT 5, ALGORITHM=INSTANT; DROP TABLE mine.dropped;"
    ));
    truncate_undo(server, "innodb_undo_001");
    server.ask("ALTER UNDO TABLESPACE innodb_undo_001 SET ACTIVE");
}

fn at_last(server: &Server) {
    truncate_undo(server, "spare");
    server.ask(&format!(
        "DROP UNDO TABLESPACE spare; RENAME TABLE mine.one TO mine.away, mine.two TO mine.one, mine.away TO fresh.two, fresh.t TO mine.two;
         TRUNCATE mine.cut; INSERT INTO mine.m VALUES (3); ALTER TABLE mine.placed FORCE; UPDATE mine.instant SET n = a WHERE a % 3 = 0;
         ALTER TABLE mine.instant DROP COLUMN b, ALGORITHM=INSTANT; INSERT INTO fresh.g (a) VALUES (1);
         CREATE TABLE mine.small {COLUMNS} ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=2; INSERT INTO mine.small (a) SELECT seq FROM shop.nums;
         CREATE TABLE mine.late {COLUMNS}; INSERT INTO mine.late (a, b) SELECT seq, REPEAT('l', seq) FROM shop.nums;"
    ));
}

/// Increments with pages that only the log creates: the server has not written the first page since it created the file.
fn new_without_head(increment: &Path) -> Vec<PathBuf> {
    let (files, mut found) = (files_of(increment), Vec::new());
    for (name, _, _) in files.iter().filter(|(name, _, _)| name.ends_with(".delta")) {
        let head = fs::read(increment.join(name)).expect("reads");
        if be::u32_at(&head, 4).is_some_and(|first| first != 0) {
            found.push(PathBuf::from(name));
        }
    }
    found
}

/// A server under load with a full backup, two increments, and a full backup of the moment of the second.
struct Taken {
    dir: TempDir,
    server: Server,
}

impl Taken {
    fn of(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn take() -> Self {
        let dir = TempDir::new().expect("a directory");
        let server = Server::start_kind("mysql", &dir.path().join("live"), &[&OPTIONS[..], &[TELLS]].concat());
        let taken = Self { dir, server };
        let server = &taken.server;
        let mut client = load(server, 16, &mysql_load::changes(&mysql_load::zip_names(16)));
        before(server);
        back_up(server, &taken.of("full"));
        wait_for_load(server);
        move_checkpoint(server, &taken.of("full"));
        between(server);
        wait_for_load(server);
        back_up(server, &taken.of("whole1"));
        increment_of(&taken.of("whole1"), lsn(&taken.of("full"), "to_lsn"), &taken.of("inc1"));
        wait_for_load(server);
        move_checkpoint(server, &taken.of("whole1"));
        at_last(server);
        back_up(server, &taken.of("whole2"));
        increment_of(&taken.of("whole2"), lsn(&taken.of("whole1"), "to_lsn"), &taken.of("inc2"));
        server.kill();
        client.wait().expect("it loses its server");
        println!("{:?} have no first page yet", new_without_head(&taken.of("inc2")).len());
        // A server's binary log: the tool copies the newest file, and an index that lists only this one.
        for (backup, number) in [("full", 7), ("inc1", 9), ("inc2", 11)] {
            let name = format!("binlog.{number:06}");
            fs::write(taken.of(backup).join(&name), backup).expect("writes");
            fs::write(taken.of(backup).join("binlog.index"), format!("/var/lib/mysql/{name}\n")).expect("writes");
        }
        taken
    }

    fn options(&self, increments: &[&str]) -> RecoverOptions {
        RecoverOptions {
            increments: increments.iter().map(|name| self.of(name)).collect(),
            ..RecoverOptions::default()
        }
    }

    /// Asserts that nothing is written, and that the error has these words.
    fn is_refused(&self, full: &str, increments: &[&str], words: &[&str]) -> RecoverError {
        let (before, to) = (files_of(&self.of(full)), self.of("refused"));
        let options = RecoverOptions { to: Some(to.clone()), ..self.options(increments) };
        let error = recover(&self.of(full), &options).expect_err("is refused");
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{full} {increments:?}: {words:?}: {text}");
        assert!(!to.exists(), "{full} {increments:?}: something is left");
        recover(&self.of(full), &self.options(increments)).expect_err("is refused");
        assert!(files_of(&self.of(full)) == before, "{full} {increments:?}: it was changed");
        error
    }
}

fn come_to_what_the_server_recovers(taken: &Taken) {
    let [ours, whole] = ["ours", "whole2"].map(|name| taken.of(name));
    ["full", "inc1", "inc2"].iter().for_each(|name| assert_sound(&taken.of(name), &KeyFiles::default()));
    let inputs = ["full", "inc1", "inc2"].map(|name| files_of(&taken.of(name)));
    let done = run(&taken.of("full"), RecoverOptions { to: Some(ours.clone()), ..taken.options(&["inc1", "inc2"]) });
    println!("{done:?}");
    assert!(
        done.was_backup && done.increments.len() == 2 && done.increments.iter().all(|put| put.pages > 0),
        "{done:?}"
    );
    assert_eq!(["full", "inc1", "inc2"].map(|name| files_of(&taken.of(name))), inputs, "they are only read");
    assert!(!ours.join(COPY).exists() && ours.join("#innodb_redo/#ib_redo0").exists());
    let note = fs::read_to_string(ours.join(NOTE)).expect("reads");
    assert!(note.contains("backup_type = full-prepared"), "{note}");
    for key in ["to_lsn", "last_lsn", "flushed_lsn"] {
        assert_eq!(lsn(&ours, key), lsn(&whole, key), "{key}");
    }
    assert!(run(&ours, taken.options(&["inc1", "inc2"])).was_clean, "there is nothing more to do");
    assert_sound(&ours, &KeyFiles::default());
    let binlogs = fs::read_dir(&ours).expect("a directory").flatten().map(|entry| entry.file_name());
    let mut binlogs: Vec<_> = binlogs.filter(|name| name.to_string_lossy().starts_with("binlog")).collect();
    binlogs.sort();
    assert_eq!(binlogs, ["binlog.000011", "binlog.index"], "those of the last increment");
    // Asserts that the files are those of the recovered full backup of that moment.
    let direct = taken.of("direct");
    run(&whole, RecoverOptions { to: Some(direct.clone()), ..RecoverOptions::default() });
    let names = |dir: &Path| {
        let names = files_of(dir).into_iter().filter(|(name, _, _)| !name.starts_with("binlog"));
        names.map(|(name, len, _)| (name, len)).collect::<Vec<_>>()
    };
    assert_eq!(names(&ours), names(&direct));
}

/// One after the other, or continued after a run that died within the first: the same bytes.
fn comes_to_the_same_in_place(taken: &Taken) {
    let (ours, steps) = (files_of(&taken.of("ours")), taken.of("steps"));
    copy(&taken.of("full"), &steps);
    run(&steps, RecoverOptions::default());
    copy(&steps, &taken.of("prepared"));
    run(&steps, taken.options(&["inc1"]));
    run(&steps, taken.options(&["inc1", "inc2"]));
    assert!(files_of(&steps) == ours, "step by step");
    let inc1 = taken.of("inc1");
    let begun = format!("{} {} {}\n", lsn(&inc1, "from_lsn"), lsn(&inc1, "to_lsn"), lsn(&inc1, "last_lsn"));
    let mut random = 88_172_645_463_325_252_u64;
    for is_log_there in [false, true] {
        let half = taken.of(if is_log_there { "half2" } else { "half1" });
        copy(&taken.of("prepared"), &half);
        fs::write(half.join("innokit-recover.increment"), &begun).expect("writes");
        let mixed = mix(&inc1, &half, &mut random);
        assert!(mixed > 50, "{mixed}");
        if is_log_there {
            fs::copy(inc1.join(COPY), half.join(COPY)).expect("copies");
            fs::remove_dir_all(half.join("#innodb_redo")).expect("removes");
        }
        let error = recover(&half, &RecoverOptions::default()).expect_err("it is between two states").to_string();
        assert!(error.contains("--increment"), "{error}");
        run(&half, taken.options(&["inc1", "inc2"]));
        assert!(files_of(&half) == ours, "half done, {is_log_there}");
    }
}

/// Writes some sectors of an increment's pages into the files with the same name and space id. Returns the number of pages.
fn mix(increment: &Path, half: &Path, random: &mut u64) -> usize {
    let mut mixed = 0;
    for (name, _, _) in files_of(increment).iter().filter(|(name, _, _)| name.ends_with(".delta")) {
        let delta = fs::read(increment.join(name)).expect("reads");
        let path = half.join(name.strip_suffix(".delta").expect("a delta"));
        let Ok(mut bytes) = fs::read(&path) else { continue };
        let size = SpaceFormat::from_page0(&bytes).expect("a tablespace").physical().bytes();
        let space = bytes[34..38].to_vec();
        let numbers = delta[4..size].chunks_exact(4).map(|number| u32::from_be_bytes(number.try_into().expect("four")));
        let pages = numbers.take_while(|number| *number != u32::MAX).zip(delta[size..].chunks_exact(size));
        for (number, page) in pages.map(|(number, page)| (number as usize, page)) {
            if page[34..38] != space || (number + 1) * size > bytes.len() {
                continue;
            }
            for (sector, new) in bytes[number * size..].chunks_mut(512).zip(page.chunks(512)) {
                *random ^= *random << 13;
                *random ^= *random >> 7;
                *random ^= *random << 17;
                if random.is_multiple_of(3) {
                    sector.copy_from_slice(new);
                }
            }
            mixed += 1;
        }
        fs::write(&path, bytes).expect("writes");
    }
    mixed
}

fn what_does_not_follow_is_refused(taken: &Taken) {
    taken.is_refused("full", &["inc2"], &["does not follow", "is missing"]);
    taken.is_refused("full", &["inc2", "inc1"], &["does not follow"]);
    taken.is_refused("full", &["inc1", "inc1"], &["does not follow"]);
    taken.is_refused("full", &["whole2"], &["not an incremental backup"]);
    taken.is_refused("inc1", &["inc2"], &["an incremental backup"]);
    let bad = |name: &str, file: &str, change: &dyn Fn(String) -> String| {
        let dir = taken.of(name);
        copy(&taken.of("inc1"), &dir);
        let text = fs::read_to_string(dir.join(file)).expect("reads");
        fs::write(dir.join(file), change(text)).expect("writes");
    };
    let from = lsn(&taken.of("inc1"), "from_lsn");
    bad("bad.from", NOTE, &|note| note.replace(&format!("from_lsn = {from}"), &format!("from_lsn = {}", from + 1)));
    taken.is_refused("full", &["bad.from"], &["does not follow"]);
    bad("bad.tool", "xtrabackup_info", &|info| info.replace("xtrabackup", "mariadb-backup"));
    taken.is_refused("full", &["bad.tool"], &["mariadb-backup", "a backup of xtrabackup"]);
    // The full backup lacks a table of which the increment has only the changes.
    copy(&taken.of("full"), &taken.of("less"));
    fs::remove_file(taken.of("less").join("sys/sys_config.ibd")).expect("removes");
    let error = taken.is_refused("less", &["inc1"], &["sys/sys_config.ibd.delta", "does not hold"]);
    assert!(!error.is_damage(), "{error}");
}

fn what_is_damaged_is_refused(taken: &Taken) {
    let delta = "shop/dynamic.ibd.delta";
    let attack = |what: &str, words: &[&str], change: &dyn Fn(&Path)| {
        let bad = format!("bad.{what}");
        copy(&taken.of("inc2"), &taken.of(&bad));
        change(&taken.of(&bad));
        taken.is_refused("full", &["inc1", &bad], words)
    };
    let open = |dir: &Path, name: &str| fs::File::options().read(true).write(true).open(dir.join(name)).expect("opens");
    let len = fs::metadata(taken.of("inc2").join(delta)).expect("a delta").len();
    let cut = |to: u64| move |dir: &Path| open(dir, delta).set_len(to).expect("cuts");
    let write =
        |at: u64, with: &'static [u8]| move |dir: &Path| open(dir, delta).write_all_at(with, at).expect("writes");
    let is_damage = [
        attack("page", &[delta, "cut off"], &cut(len - 16384)),
        attack("bytes", &[delta, "cut off"], &cut(len - 100)),
        attack("list", &[delta, "cut off"], &cut(9)),
        attack("empty", &[delta, "cut off"], &cut(0)),
        attack("flipped", &[delta, "at byte 32768: page ", "is damaged"], &write(32768 + 5000, b"flipped")),
        attack("magic", &[delta, "at byte 0"], &write(0, b"data")),
        attack("longer", &[delta, "continues"], &write(len, b"more")),
        attack("number", &[delta], &|dir| {
            let (file, mut head) = (open(dir, delta), vec![0; 16384]);
            file.read_exact_at(&mut head, 0).expect("reads");
            let end = head.chunks_exact(4).position(|number| number == [255; 4]).expect("an end") - 1;
            let number = be::u32_at(&head, end * 4).expect("a number") + 1;
            file.write_all_at(&number.to_be_bytes(), end as u64 * 4).expect("writes");
        }),
        attack("log", &[COPY], &|dir| {
            let file = open(dir, COPY);
            file.set_len(file.metadata().expect("a log").len() / 2 / 512 * 512).expect("cuts");
        }),
    ];
    assert!(is_damage.iter().all(RecoverError::is_damage), "{is_damage:?}");
    attack("meta", &["dynamic.ibd.meta"], &|dir| fs::remove_file(dir.join("shop/dynamic.ibd.meta")).expect("removes"));
    attack("nolog", &[COPY], &|dir| fs::remove_file(dir.join(COPY)).expect("removes"));
    attack("whole", &["a whole tablespace"], &|dir| fs::write(dir.join("mine/x.ibd"), "x").expect("writes"));
}

/// A backup modified since innokit recovered it accepts no increments.
fn what_others_prepared_is_refused(taken: &Taken) {
    let theirs = taken.of("tool");
    copy(&taken.of("full"), &theirs);
    make_log_of_copy(&theirs);
    let note = fs::read_to_string(theirs.join(NOTE)).expect("reads");
    fs::write(theirs.join(NOTE), note.replace("full-backuped", "full-prepared")).expect("writes");
    taken.is_refused("tool", &["inc1"], &["no longer fit"]);
    let started = taken.of("prepared");
    taken.server.lend_options(&started);
    let server = Server::again_kind("mysql", &started);
    assert_eq!(server.ask("SELECT 1").trim(), "1");
    server.stop();
    taken.is_refused("prepared", &["inc1"], &["no longer fit"]);
}

/// Every table outside of `shop`.
fn others(server: &Server) -> BTreeMap<String, String> {
    let tables = server.ask(
        "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema IN ('mine', 'fresh', 'gone')",
    );
    let mut all = answers(server, &tables.lines().map(str::to_owned).collect::<Vec<_>>());
    // Undo tablespaces that the load creates and drops may be empty already.
    let undo = "SELECT name, state FROM information_schema.innodb_tablespaces WHERE space_type = 'Undo' AND name NOT LIKE 'more%' ORDER BY 1";
    all.insert("undo".to_owned(), server.ask(undo));
    all
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn increments_of_xtrabackup_are_put_into_the_full_backup() {
    let taken = Taken::take();
    let _kept = KeptOnFailure(taken.dir.path(), 0);
    come_to_what_the_server_recovers(&taken);
    comes_to_the_same_in_place(&taken);
    what_does_not_follow_is_refused(&taken);
    what_is_damaged_is_refused(&taken);
    what_others_prepared_is_refused(&taken);
    let [ours, theirs] = ["ours", "whole2"].map(|name| taken.of(name));
    make_log_of_copy(&theirs);
    taken.server.lend_options(&ours);
    taken.server.lend_options(&theirs);
    let (ours, theirs) = (Server::again_kind("mysql", &ours), Server::again_kind("mysql", &theirs));
    assert_started_without_recovery(&ours, &theirs);
    assert_same_content(&content(&ours, 16), &content(&theirs, 16), 0);
    let (ours, theirs) = (others(&ours), others(&theirs));
    assert_same_content(&ours, &theirs, 0);
    assert!(
        ours.contains_key("mine.late") && ours.contains_key("fresh.moved") && !ours.contains_key("gone.t"),
        "{ours:?}"
    );
}
