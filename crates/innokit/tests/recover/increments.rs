//! Incremental backups of a busy server by mariadb-backup. `innokit recover` turns a full backup and its increments into the same bytes as
//! the tool. Increments that are damaged or do not belong together are refused before anything is written.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[cfg(feature = "sql")]
use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, WRITTEN, assert_same, contents, is_well};
#[cfg(feature = "sql")]
use crate::backup_lab::{lsn, sums};
use crate::common::{Run, innokit, is_soak};
use crate::hostile_links::no_name_that_a_preparation_writes_to_may_be_a_link;

/// Page size of the servers, bytes.
const PAGE: u64 = 16384;

fn command(server: &Server, full: &str, increments: &[&str], to: Option<&str>) -> Command {
    let mut command = innokit();
    command.arg("recover").arg(server.of(full));
    for name in increments {
        command.arg("--increment").arg(server.of(name));
    }
    match to {
        Some(to) => command.arg("--to").arg(server.of(to)),
        None => command.arg("--in-place"),
    };
    command
}

fn recover(server: &Server, full: &str, increments: &[&str], to: Option<&str>) -> Run {
    Run::of(&command(server, full, increments, to).output().expect("innokit runs"))
}

fn is_done(server: &Server, full: &str, increments: &[&str], to: Option<&str>) -> String {
    let run = recover(server, full, increments, to);
    assert_eq!(run.status, 0, "{} {full} {increments:?}: {}", server.kind, run.errors);
    run.text
}

/// A server under load with a full backup and two increments. Tables and databases are created, altered, renamed and dropped between the
/// backups. Not during one: the tool then sometimes fails, or leaves a table under two names.
fn taken(kind: &'static str) -> Server {
    let mut server = Server::start(kind);
    server.script(
        "sql",
        &[],
        "CREATE DATABASE gone; CREATE TABLE gone.t LIKE shop.a; CREATE TABLE shop.m (a INT) ENGINE=MyISAM; CREATE TABLE shop.one LIKE shop.a; \
         CREATE TABLE shop.two LIKE shop.b; INSERT INTO shop.two SELECT * FROM shop.b;",
    );
    server.load_with(|round| format!("INSERT INTO m VALUES ({round});"));
    std::thread::sleep(Duration::from_millis(500));
    server.back_up("full", &[]);
    let between = "DROP DATABASE gone; CREATE DATABASE fresh; CREATE TABLE fresh.t LIKE shop.b; INSERT INTO fresh.t SELECT * FROM shop.b; \
                   USE shop; DROP TABLE words; RENAME TABLE one TO away, two TO one, away TO two; RENAME TABLE left_0 TO left_1; \
                   CREATE TABLE p LIKE b; INSERT INTO p SELECT * FROM b; ALTER TABLE p ADD KEY k (c(10)); ALTER TABLE other.c FORCE;";
    server.script("sql", &[], between);
    std::thread::sleep(Duration::from_millis(500));
    server.script("sql", &[], WRITTEN);
    server.back_up("inc1", &[&format!("--incremental-basedir={}", server.of("full").display())]);
    server.script(
        "sql",
        &["shop"],
        "RENAME TABLE one TO x, left_1 TO left_2, right_0 TO left_1; ALTER TABLE parts ADD PARTITION (PARTITION p2 VALUES LESS THAN (5000)); \
         TRUNCATE p; ALTER TABLE other.c FORCE",
    );
    std::thread::sleep(Duration::from_millis(500));
    server.script("sql", &[], WRITTEN);
    server.back_up("inc2", &[&format!("--incremental-basedir={}", server.of("inc1").display())]);
    assert!(
        server.load.as_mut().is_some_and(|load| load.try_wait().is_ok_and(|ended| ended.is_none())),
        "{kind}: no load"
    );
    server
}

fn is_what_the_tool_makes(server: &Server) {
    for (from, to) in [("full", "theirs"), ("inc1", "theirs1"), ("inc2", "theirs2")] {
        server.copy(from, to);
    }
    let text = is_done(server, "full", &["inc1", "inc2"], Some("ours"));
    assert!(text.contains("The backup is prepared") && text.matches("increment ").count() == 2, "{text}");
    for (was, is) in [("theirs1", "inc1"), ("theirs2", "inc2"), ("theirs", "full")] {
        assert_same(server, is, was, "it was changed, and is needed again");
    }
    server.prepare("theirs", &[]);
    for increment in ["theirs1", "theirs2"] {
        server.prepare("theirs", &[&format!("--incremental-dir={}", server.of(increment).display())]);
    }
    let files = |name| {
        let mut files = contents(server, name);
        // Both logs are empty, but ours has the same checkpoint in another header slot. The content of the other file is in other files of
        // the backup too.
        files.remove(Path::new("ib_logfile0"));
        files.remove(Path::new("xtrabackup_binlog_pos_innodb"));
        // If no checkpoint lies between two increments, the tool keeps the older end of the log in its note.
        let note = files.get_mut(Path::new(server.note())).expect("a note");
        let text = String::from_utf8_lossy(note).into_owned();
        *note = text.lines().filter(|line| !line.starts_with("last_lsn")).collect::<Vec<_>>().join("\n").into_bytes();
        files
    };
    assert_equal(server, &files("ours"), &files("theirs"));
    is_well(server, "ours");
    is_well(server, "theirs");
    let (ours, theirs) = (server.of("ours").join("ib_logfile0"), server.of("theirs").join("ib_logfile0"));
    let len = |path: &Path| fs::metadata(path).expect("a log").len();
    assert_eq!(len(&ours), len(&theirs), "{}", server.kind);
}

fn assert_equal(server: &Server, ours: &BTreeMap<PathBuf, Vec<u8>>, theirs: &BTreeMap<PathBuf, Vec<u8>>) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{}", server.kind);
    let different = ours.iter().filter(|(name, bytes)| theirs[*name] != **bytes);
    let told = different.map(|(name, bytes)| (name, bytes.len(), theirs[name].len(), differ(bytes, &theirs[name])));
    // The content of freed pages does not matter: the tool writes some of them and skips others.
    let told: Vec<_> = told.filter(|(_, ours, theirs, pages)| ours != theirs || !pages.is_empty()).collect();
    assert!(told.is_empty(), "{}: {told:?}", server.kind);
}

/// The pages in use that differ: the number, the first byte that differs, and both LSNs.
fn differ(ours: &[u8], theirs: &[u8]) -> Vec<(usize, usize, u64, u64)> {
    let lsn = |page: &[u8]| page.get(16..24).map_or(0, |lsn| u64::from_be_bytes(lsn.try_into().expect("eight")));
    let pages = ours.chunks(PAGE as usize).zip(theirs.chunks(PAGE as usize)).enumerate();
    let pages =
        pages.filter(|(number, (mine, other))| mine != other && !(is_free(ours, *number) && is_free(theirs, *number)));
    let told = pages.map(|(number, (mine, other))| {
        let at = mine.iter().zip(other).position(|(mine, other)| mine != other).unwrap_or(0);
        (number, at, lsn(mine), lsn(other))
    });
    told.take(20).collect()
}

/// Whether the first page of an undo tablespace says that a page is free. It describes 64 pages in each 40 bytes from byte 150 on, with two
/// bits per page from byte 24 of these.
fn is_free(tablespace: &[u8], page: usize) -> bool {
    const UNDO: u16 = 2;
    let is_undo = tablespace.chunks(PAGE as usize).skip(1).any(|page| page.get(24..26) == Some(&UNDO.to_be_bytes()));
    let (extent, bit) = (page / 64, page % 64 * 2);
    let bitmap = tablespace.get(150 + extent * 40 + 24 + bit / 8).filter(|_| is_undo && page < PAGE as usize);
    bitmap.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

/// Increments applied one by one, together, again, and by runs killed at any moment: the same bytes.
fn comes_to_the_same_in_place(server: &Server) {
    for copy in ["steps", "killed"] {
        server.copy("full", copy);
    }
    is_done(server, "steps", &[], None);
    is_done(server, "steps", &["inc1"], None);
    assert!(is_done(server, "steps", &["inc1"], None).contains("nothing to recover"));
    is_done(server, "steps", &["inc1", "inc2"], None);
    assert_same(server, "steps", "ours", "step by step");
    assert!(is_done(server, "steps", &["inc1", "inc2"], None).contains("nothing to recover"));
    let mut halfway = 0;
    let every = if is_soak() { 3 } else { 13 };
    for wait_ms in (2..80).step_by(every).chain([120, 200]) {
        let mut command = command(server, "killed", &["inc1", "inc2"], None);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("innokit runs");
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().and_then(|()| child.wait()).expect("ends");
        if server.of("killed").join("innokit-recover.increment").exists() {
            halfway += 1;
            let alone = recover(server, "killed", &[], None);
            assert!(alone.status == 2 && alone.errors.contains("--increment"), "{}", alone.errors);
            let other = recover(server, "killed", &["inc1", "inc2"], Some("none"));
            assert!(other.status == 2 && !server.of("none").exists(), "{}", other.errors);
        }
    }
    is_done(server, "killed", &["inc1", "inc2"], None);
    assert_same(server, "killed", "ours", "killed");
    println!("{}: killed {halfway} times with an increment halfway in", server.kind);
}

/// The page size of a delta of one cluster, and its pages with their numbers.
fn pages_of(delta: &[u8], note: &str) -> (usize, Vec<(usize, Vec<u8>)>) {
    let size = note
        .lines()
        .find_map(|line| line.strip_prefix("page_size = "))
        .expect("a size")
        .trim()
        .parse()
        .expect("a number");
    let numbers = delta[4..size].chunks_exact(4).map(|number| u32::from_be_bytes(number.try_into().expect("four")));
    let numbers = numbers.take_while(|number| *number != u32::MAX);
    (
        size,
        numbers.zip(delta[size..].chunks_exact(size)).map(|(number, page)| (number as usize, page.to_vec())).collect(),
    )
}

/// A run that died in the middle of an increment has written some pages of it, left others, and written half of some. The next run must end
/// with the same bytes as one that was left alone.
fn ends_what_was_half_done(server: &Server) {
    server.copy("full", "before");
    is_done(server, "before", &[], None);
    server.copy("before", "after");
    is_done(server, "after", &["inc1"], None);
    let note = fs::read_to_string(server.of("inc1").join(server.note())).expect("a note");
    let lsn = |key: &str| {
        note.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).expect("an LSN").to_owned()
    };
    let (increment, mut random) = (contents(server, "inc1"), 88_172_645_463_325_252_u64);
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for run in 0..if is_soak() { 5 } else { 2 } {
        let half = format!("half{run}");
        server.copy("before", &half);
        let begun = format!("{} {} {}\n", lsn("from_lsn"), lsn("to_lsn"), lsn("last_lsn"));
        fs::write(server.of(&half).join("innokit-recover.increment"), begun).expect("written");
        let mut mixed = 0;
        for (name, delta) in increment.iter().filter(|(name, _)| name.extension().is_some_and(|kind| kind == "delta")) {
            let (path, meta) =
                (server.of(&half).join(name.with_extension("")), &increment[&name.with_extension("meta")]);
            let (size, pages) = pages_of(delta, &String::from_utf8_lossy(meta));
            let Ok(mut bytes) = fs::read(&path) else { continue };
            let (space, len) = (bytes[34..38].to_vec(), bytes.len());
            let is_here = |number: usize, page: &[u8]| page[34..38] == space && (number + 1) * size <= len;
            for (number, page) in pages.iter().filter(|(number, page)| is_here(*number, page)) {
                let sectors = bytes[number * size..].chunks_mut(512).zip(page.chunks(512));
                sectors.filter(|_| next() % 3 == 0).for_each(|(sector, new)| sector.copy_from_slice(new));
                mixed += 1;
            }
            fs::write(&path, bytes).expect("written");
        }
        assert!(mixed > 50, "{}: {mixed}", server.kind);
        is_done(server, &half, &["inc1"], None);
        assert_same(server, &half, "after", "half done");
    }
}

/// Asserts that nothing is written, and that the exit status and the words are these.
fn is_refused(server: &Server, full: &str, increments: &[&str], status: i32, words: &[&str]) {
    let what = format!("{} {full} {increments:?}", server.kind);
    let run = recover(server, full, increments, Some("refused"));
    assert_eq!(run.status, status, "{what}: {}", run.errors);
    assert!(words.iter().all(|word| run.errors.contains(word)), "{what}: {words:?}: {}", run.errors);
    assert!(!server.of("refused").exists(), "{what}: something is left");
    let before = contents(server, full);
    assert_eq!(recover(server, full, increments, None).status, status, "{what}, in place");
    assert!(contents(server, full) == before, "{what}: it was changed");
}

fn what_does_not_follow_is_refused(server: &Server) {
    let dir = |name| server.of(name).display().to_string();
    is_refused(server, "full", &["inc2"], 2, &["does not follow", "is missing"]);
    is_refused(server, "full", &["inc2", "inc1"], 2, &["does not follow"]);
    is_refused(server, "full", &["inc1", "inc1"], 2, &["does not follow"]);
    is_refused(server, "full", &["full"], 2, &["not an incremental backup"]);
    is_refused(server, "inc1", &["inc2"], 2, &["an incremental backup", "full"]);
    is_refused(server, "inc1", &[], 2, &["--increment", &dir("inc1")]);
    is_refused(server, "full", &["nowhere"], 2, &["not an incremental backup"]);
}

/// The delta of `shop/a`, of which every increment has pages.
fn delta(server: &Server, increment: &str) -> PathBuf {
    server.of(increment).join("shop/a.ibd.delta")
}

/// A tar archive of members of a backup, in this order.
fn archived(server: &Server, backup: &str, members: &[&str]) -> PathBuf {
    let to = server.of("members.tar");
    let made = Command::new("tar").arg("-C").arg(server.of(backup)).arg("-cf").arg(&to).args(members).status();
    assert!(made.expect("tar runs").success());
    to
}

/// The files of changed pages, with their numbers of pages, that `check` lists for an increment: a directory or an archive.
fn changed_pages(path: &Path, what: &str) -> BTreeMap<String, u64> {
    let (document, status) = crate::common::check_json(path, &[]);
    assert_ne!(status, 1, "{what}: {document:#}");
    let files = document["files"].as_array().expect("a list").iter();
    let of_deltas = files.filter(|file| file["kind"] == "changed pages of an increment");
    let pages = of_deltas.map(|file| {
        let (path, pages) = (file["path"].as_str().expect("a path"), file["pages"].as_u64().expect("a number"));
        // In an archive `archive: name`.
        let name = path.rsplit([' ', '/']).next().expect("a name");
        (name.to_owned(), pages)
    });
    pages.collect()
}

/// Increments in archives are verified as they pass, if the notes come before the pages that they describe.
fn archives_are_verified_as_they_pass(server: &Server) {
    let kind = server.kind;
    let in_directory = changed_pages(&server.of("inc2"), kind);
    assert!(in_directory.len() > 5 && in_directory.values().sum::<u64>() > 20, "{kind}: {in_directory:?}");
    let names = |extension: &str| {
        let files =
            contents(server, "inc2").into_keys().filter(|name| name.extension().is_some_and(|is| is == extension));
        files.map(|name| name.display().to_string()).collect::<Vec<_>>()
    };
    let (notes, deltas) = (names("meta"), names("delta"));
    let in_order: Vec<&str> = notes.iter().chain(&deltas).map(String::as_str).collect();
    assert_eq!(changed_pages(&archived(server, "inc2", &in_order), kind), in_directory, "{kind}");
    let (document, status) =
        crate::common::check_json(&archived(server, "inc2", &["shop/a.ibd.delta", "shop/a.ibd.meta"]), &[]);
    assert!(status == 2 && document.to_string().contains("without their .meta file"), "{kind}: {status}: {document:#}");
    let since = format!("--incremental-basedir={}", server.of("inc1").display());
    fs::write(server.of("inc.xb"), server.back_up("streamed", &["--stream=xbstream", &since])).expect("written");
    let streamed = changed_pages(&server.of("inc.xb"), kind);
    assert!(streamed.len() >= in_directory.len() && streamed.values().sum::<u64>() > 20, "{kind}: {streamed:?}");
}

fn what_is_damaged_is_refused(server: &Server) {
    let attack = |what: &str, words: &[&str], change: &dyn Fn(&Path)| {
        let bad = format!("bad.{what}");
        server.copy("inc2", &bad);
        change(&delta(server, &bad));
        is_refused(server, "full", &["inc1", &bad], 1, words);
        let found = |path: &Path| {
            let (document, status) = crate::common::check_json(path, &[]);
            assert_eq!(status, 1, "{} {what}: check of {}", server.kind, path.display());
            let findings = document["findings"].as_array().expect("a list").iter();
            let of_delta =
                findings.filter(|finding| finding["path"].as_str().is_some_and(|path| path.ends_with("a.ibd.delta")));
            of_delta.map(|finding| (finding["reason"].clone(), finding["message"].clone())).collect::<Vec<_>>()
        };
        let found = [found(&server.of(&bad)), found(&archived(server, &bad, &["shop/a.ibd.meta", "shop/a.ibd.delta"]))];
        assert!(!found[0].is_empty() && found[0] == found[1], "{} {what}: {found:?}", server.kind);
    };
    let len = fs::metadata(delta(server, "inc2")).expect("a delta").len();
    let open = |path: &Path| fs::File::options().read(true).write(true).open(path).expect("a delta");
    let cut = |to: u64| move |path: &Path| open(path).set_len(to).expect("cut off");
    attack("page", &["a.ibd.delta", "cut off"], &cut(len - PAGE));
    attack("bytes", &["a.ibd.delta", "cut off"], &cut(len - 100));
    attack("empty", &["a.ibd.delta", "cut off"], &cut(0));
    let write = |at: u64, with: &'static [u8]| move |path: &Path| open(path).write_all_at(with, at).expect("written");
    attack("flipped", &["a.ibd.delta", "at byte 32768: page ", "is damaged"], &write(2 * PAGE + 5000, b"flipped"));
    attack("magic", &["a.ibd.delta", "at byte 0"], &write(0, b"data"));
    attack("longer", &["a.ibd.delta", "continues"], &write(len, b"more"));
    // A sound page in another's place: the number of the last one is raised by one.
    attack("number", &["a.ibd.delta", "is damaged"], &|path: &Path| {
        let (file, mut head) = (open(path), vec![0; PAGE as usize]);
        file.read_exact_at(&mut head, 0).expect("a head");
        let end = head.chunks_exact(4).position(|number| number == [255; 4]).expect("an end") - 1;
        let number = u32::from_be_bytes(head[end * 4..end * 4 + 4].try_into().expect("four")) + 1;
        file.write_all_at(&number.to_be_bytes(), end as u64 * 4).expect("written");
    });
    server.copy("inc2", "bad.log");
    let log = server.of("bad.log").join("ib_logfile0");
    let len = fs::metadata(&log).expect("a log").len();
    open(&log).set_len(len - 4096).expect("cut off");
    is_refused(server, "full", &["inc1", "bad.log"], 1, &["ib_logfile0"]);
    server.copy("inc2", "bad.note");
    fs::remove_file(server.of("bad.note").join("shop/a.ibd.meta")).expect("removed");
    is_refused(server, "full", &["inc1", "bad.note"], 2, &["a.ibd.meta"]);
}

fn increments_are_put_into_the_full_backup(kind: &'static str) {
    let server = taken(kind);
    is_what_the_tool_makes(&server);
    comes_to_the_same_in_place(&server);
    ends_what_was_half_done(&server);
    what_does_not_follow_is_refused(&server);
    what_is_damaged_is_refused(&server);
    archives_are_verified_as_they_pass(&server);
    // The names are the same with each version, and trying them all takes minutes.
    if kind == "mariadb" {
        no_name_that_a_preparation_writes_to_may_be_a_link(&server, "full", &["inc1", "inc2"]);
    }
    assert_eq!(server.tables("ours"), server.tables("theirs"), "{kind}");
    server.copy("full", "started");
    is_done(&server, "started", &[], None);
    server.tables("started");
    is_refused(&server, "started", &["inc1"], 2, &["a server was started"]);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn increments_of_mariadb_are_put_into_the_full_backup() {
    increments_are_put_into_the_full_backup("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn increments_of_the_newest_mariadb_are_put_into_the_full_backup() {
    increments_are_put_into_the_full_backup("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn increments_of_mariadb_whose_log_is_made_of_blocks_are_put_into_the_full_backup() {
    increments_are_put_into_the_full_backup("mariadb105");
}

/// An archive also continues base copies taken by the tool, and may have begun after the full one.
#[test]
#[cfg(feature = "sql")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_archive_goes_on_from_the_last_increment() {
    let server = Server::start("mariadb");
    let base = |name: &str| format!("--incremental-basedir={}", server.of(name).display());
    server.back_up("full", &[]);
    server.script("sql", &[], WRITTEN);
    server.back_up("inc1", &[&base("full")]);
    // An archive begins at the server's checkpoint: a restart moves it past the end of the first increment.
    server.script("sql", &[], WRITTEN);
    server.script("stop", &[], "");
    server.script("start", &[], "");
    server.archive();
    server.script("sql", &[], WRITTEN);
    server.back_up("inc2", &[&base("inc1")]);
    server.script("sql", &[], "UPDATE shop.a SET a = a + 5 WHERE id % 3 = 0; DELETE FROM other.c WHERE id % 4 = 0;");
    let mut session = Session::of(&server);
    let (held, lsn) = (sums(&mut session), lsn(&mut session));
    server.script("sql", &[], "DELETE FROM shop.a;");
    server.archive_up_to(lsn);
    let until = lsn.to_string();
    let recover = |full: &str, increments: &[&str], more: &[&str]| {
        let increments: Vec<&str> = increments.iter().flat_map(|increment| ["--increment", increment]).collect();
        server.run(&[&["recover", full], &increments[..], more].concat())
    };
    let since = ["--redo", "redo", "--until", &until, "--to", "out"];
    let done = recover("full", &["inc1", "inc2"], &since);
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_eq!(server.tables("out").lines().collect::<Vec<_>>(), held);
    fs::remove_dir_all(server.of("out")).expect("removed");

    let refused = |run: &Run, words: &str| {
        assert!(run.status == 2 && run.errors.contains(words), "{words}: {}: {}", run.status, run.errors);
        assert!(!server.of("out").exists(), "{words}: something is left");
    };
    refused(&recover("full", &["inc1"], &since), "where the redo of the base copy begins");
    refused(&recover("full", &["inc1", "inc2"], &["--until", &until, "--to", "out"]), "leave out --until");
}
