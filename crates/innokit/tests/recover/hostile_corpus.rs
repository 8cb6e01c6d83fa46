//! Hostile sets by the kind: every field of every format that bears a name, set to all that a name should not be, against every command that
//! takes such a set. The second wall is switched off. Nothing may change in the victims around the target, nothing may wait, and nothing may
//! take memory out of proportion.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::common::limited::{PATIENCE, limited};
use crate::common::{Run, innokit};
use crate::hostile::{Place, crc32, pipe, state};
use format::checksum::crc32c;
use recovery::manifest::Manifest;
use serde_json::{Value, json};

/// Signs that steer a terminal or turn the text around on it.
const STEERING: [char; 7] = ['\x1b', '\x07', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}'];

/// Runs innokit without its second wall, in the folder of the place.
pub fn attack(place: &Place, words: &[&[u8]]) -> Run {
    let mut command = innokit();
    command
        .arg("--no-landlock")
        .args(words.iter().map(|word| std::ffi::OsStr::from_bytes(word)))
        .current_dir(place.path(""));
    let run = limited(&mut command, PATIENCE);
    assert!((0..3).contains(&run.status), "{command:?}: {} {}", run.status, run.errors);
    // Statements and rows on their way to a program are what they are.
    let is_for_programs = words.iter().any(|word| [b"export" as &[u8], b"schema"].contains(word));
    let said = if is_for_programs { run.errors.clone() } else { format!("{}{}", run.text, run.errors) };
    assert!(!said.contains(STEERING), "{command:?}: {said:?}");
    run
}

/// What a name should not be. `victim` is an absolute path.
pub fn names(victim: &str) -> Vec<Vec<u8>> {
    let text = |name: &str| name.as_bytes().to_vec();
    vec![
        text(".."),
        text("../victim/crontab"),
        text("shop/../../victim/crontab"),
        text("./../victim/new"),
        text(victim),
        text("/"),
        text("."),
        text(""),
        text("shop//t.ibd"),
        text("shop/t.ibd/"),
        text("innokit-recover.shadow"),
        text("innokit-unpack.unfinished"),
        text("shop/t.ibd.innokit-ren"),
        text("innokit.manifest.json"),
        text("linked/crontab"),
        vec![b'n'; 4096],
        b"d/".repeat(2048),
        b"shop/\xff\xfe\x80.ibd".to_vec(),
        b"shop/a\0b.ibd".to_vec(),
        b"shop/\x1b]0;x\x07\n.ibd".to_vec(),
        text("shop/\u{9b}2J\u{202e}\u{2066}\u{200f}\u{61c}.ibd"),
    ]
}

fn little(number: usize, len: usize) -> Vec<u8> {
    (number as u64).to_be_bytes().into_iter().rev().take(len).collect()
}

fn chunk(code: u8, name: &[u8], rest: &[u8]) -> Vec<u8> {
    [b"XBSTCK01\0", &[code][..], &little(name.len(), 4), name, rest].concat()
}

fn member(name: &[u8], bytes: &[u8]) -> Vec<u8> {
    let crc = crc32(bytes) as usize;
    let rest = [little(bytes.len(), 8), little(0, 8), little(crc, 4), bytes.to_vec()].concat();
    [chunk(b'P', name, &rest), chunk(b'E', name, &[])].concat()
}

/// Streams in which each field that bears a name bears this one: members, renamed and removed files, the file in a packed member.
fn streams(name: &[u8]) -> Vec<Vec<u8>> {
    let renamed = [little(name.len(), 4), name.to_vec()].concat();
    let packed = zstd::encode_all(&b"victim"[..], 1).expect("memory");
    vec![
        [member(b"shop/a", b"1"), member(name, b"owned")].concat(),
        [member(b"shop/a", b"1"), chunk(b'R', b"shop/a", &renamed)].concat(),
        [member(b"shop/a", b"1"), chunk(b'D', name, &[])].concat(),
        member(&[name, b".zst"].concat(), &packed),
    ]
}

/// A header of tar, with the bytes that follow it.
fn tar_entry(kind: u8, name: &[u8], link: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut head = vec![0; 512];
    let mut put = |at: usize, field: &[u8], room: usize| {
        let len = field.len().min(room);
        head[at..at + len].copy_from_slice(&field[..len]);
    };
    put(0, name, 100);
    put(100, b"0000644\x000000000\x000000000\0", 24);
    put(124, format!("{:011o}\0", bytes.len()).as_bytes(), 12);
    put(136, b"00000000000\0        ", 20);
    put(156, &[kind], 1);
    put(157, link, 100);
    put(257, b"ustar\x0000", 8);
    put(329, b"0000001\x000000001\0", 16);
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut all = [head, bytes.to_vec()].concat();
    all.resize(all.len().next_multiple_of(512), 0);
    all
}

/// Tars with this name in each field: members of all kinds, links and what they lead to, long names of GNU and of pax.
fn tars(name: &[u8]) -> Vec<Vec<u8>> {
    let pax = |key: &str| {
        let body = [b" ", key.as_bytes(), b"=", name, b"\n"].concat();
        let len = (body.len()..).find(|len| len.to_string().len() + body.len() == *len).expect("a length");
        tar_entry(b'x', b"pax", b"", &[len.to_string().as_bytes(), &body].concat())
    };
    let file = |name: &[u8]| tar_entry(b'0', name, b"", b"owned");
    let mut all: Vec<Vec<u8>> = vec![
        file(name),
        // A link to the folder or the file of the victim, then a file through it.
        [tar_entry(b'2', b"linked", b"victim", b""), tar_entry(b'2', b"shop", name, b""), file(b"shop/crontab")]
            .concat(),
        [tar_entry(b'1', b"shop/hard", name, b""), file(b"shop/hard")].concat(),
        [tar_entry(b'L', b"././@LongLink", b"", &[name, b"\0"].concat()), file(b"short")].concat(),
        [tar_entry(b'K', b"././@LongLink", b"", &[name, b"\0"].concat()), tar_entry(b'2', b"short", b"x", b"")]
            .concat(),
        [pax("path"), file(b"short")].concat(),
        [pax("linkpath"), tar_entry(b'1', b"short", b"x", b"")].concat(),
    ];
    // Character and block device, folder, pipe.
    all.extend([b'3', b'4', b'5', b'6'].map(|kind| [tar_entry(kind, name, b"", b""), file(b"shop/t")].concat()));
    all.iter_mut().for_each(|tar| tar.extend([0; 1024]));
    all
}

/// The archive as it is, or packed in one of the ways that are read.
fn packed(number: usize, bytes: Vec<u8>) -> Vec<u8> {
    match number % 4 {
        0 => zstd::encode_all(bytes.as_slice(), 1).expect("memory"),
        1 => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(&bytes).and_then(|()| out.finish()).expect("memory")
        }
        2 => {
            let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
            out.write_all(&bytes).expect("memory");
            out.finish().expect("memory")
        }
        _ => bytes,
    }
}

#[test]
fn no_name_in_an_archive_leads_out_of_the_target() {
    let place = Place::in_memory();
    let victim = place.text("victim/crontab");
    let mut runs = 0;
    for name in names(&victim) {
        let archives = streams(&name).into_iter().map(|bytes| ("a.xb", bytes));
        for (number, (file, bytes)) in archives.chain(tars(&name).into_iter().map(|bytes| ("a.tar", bytes))).enumerate()
        {
            place.dir.file(file, &packed(number + name.len(), bytes));
            // Each archive goes through the command that writes; the others take turns.
            let file = file.as_bytes();
            let reading = match number % 3 {
                0 => vec![b"check" as &[u8], file],
                1 => vec![b"restore" as &[u8], file, b"--to", b"to"],
                _ => vec![b"info" as &[u8], file],
            };
            for words in [vec![b"unpack" as &[u8], file, b"to"], reading] {
                attack(&place, &words);
                place.assert_untouched(&format!("{:?} {number}: {words:?}", String::from_utf8_lossy(&name)));
                assert!(!place.path("new").exists());
                fs::remove_dir_all(place.path("to")).ok();
                runs += 1;
            }
        }
    }
    assert!(runs > 500, "{runs} runs");
}

/// A manifest of innokit with a right checksum.
fn sealed(manifest: Value) -> Vec<u8> {
    let mut manifest: Manifest = serde_json::from_value(manifest).expect("a manifest");
    manifest.checksum = format!("{:08x}", crc32c(&serde_json::to_vec(&manifest).expect("JSON")));
    serde_json::to_vec_pretty(&manifest).expect("JSON")
}

/// MariaDB's notes about a statement under way, with this name in place of its engine, databases, tables and files.
fn ddl_log(name: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64 << 10;
    let block = |head: &[u8], names: &[&[u8]]| {
        let mut block = vec![0; 56];
        block[..head.len()].copy_from_slice(head);
        for name in names {
            block.extend(little(name.len(), 2));
            block.extend(*name);
            block.push(0);
        }
        block.resize(BLOCK, 0);
        block
    };
    let head = [b"\xfe\xfe\x0b\x02" as &[u8], &little(BLOCK - 1, 2), &little(56, 2)].concat();
    // The block size has two bytes: the largest that fits.
    let mut log = block(&head, &[]);
    log.truncate(BLOCK - 1);
    for (kind, next) in [(1, 2), (2, 0)] {
        let mut block = block(&[kind, 0, 0, 0, next], &[name; 8]);
        block.truncate(BLOCK - 1);
        log.extend(block);
    }
    log
}

#[test]
fn no_name_in_the_notes_of_a_backup_leads_out_of_the_target() {
    let place = Place::in_memory();
    let victim = place.text("victim/crontab");
    for name in names(&victim) {
        let set = place.path("set");
        fs::create_dir_all(set.join("shop")).expect("made");
        fs::create_dir_all(set.join("linked")).expect("made");
        let text = String::from_utf8_lossy(&name).into_owned();
        let manifest = json!({
            "schema_version": 1, "id": text, "state": "complete", "base": null, "why": null, "innokit_version": "0.1.0",
            "server_version": text, "started_at": 1, "taken_at": 2, "from_lsn": 1000, "to_lsn": 2000, "binlog": null,
            "needs_keys": false, "cipher": "", "locks": {"ddl_ms": 0, "commit_ms": 0}, "pages": 1, "pages_read_again": 0,
            "left_out": [text], "tablespaces": [{
                "path": text, "space": 5, "flags": 0, "page_size": 16384, "size": 0, "first_page": "00000000", "settled": [],
            }],
            "files": [{"path": text, "size": 0, "crc32c": "00000000"}], "checksum": "",
        });
        place.dir.file("set/innokit.manifest.json", &sealed(manifest));
        let notes = "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 2000\nlast_lsn = 2000\n";
        place.dir.file("set/xtrabackup_checkpoints", notes.as_bytes());
        place.dir.file(
            "set/xtrabackup_info",
            &[b"server_version = " as &[u8], &name, b"\nbinlog_pos = filename '"].concat(),
        );
        // Renamed, new and dropped tablespaces, as mariadb-backup and xtrabackup note them; link files; the notes of changed pages.
        for (file, bytes) in [
            ("shop/t.ibd.ren", &name[..]),
            ("shop/5.ren", &name),
            ("shop/t.isl", &name),
            ("shop/t.new", b"x"),
            ("shop/t.ibd.meta", &[b"page_size = 16384\nzip_size = 0\nspace_id = 5\npath = " as &[u8], &name].concat()),
            ("shop/t.ibd.delta", b"XTRA"),
            ("shop/t.frm", &[b"\xfe\x01", &name[..]].concat()),
            ("shop/t.cfg", &name),
            ("binlog.index", &name),
            ("ib_buffer_pool", &name),
            ("my.cnf", &[b"innodb_data_file_path = " as &[u8], &name, b":12M:autoextend\n"].concat()),
            ("ddl_recovery.log", &ddl_log(&name)),
        ] {
            place.dir.file(&format!("set/{file}"), bytes);
        }
        let before = state(&set);
        for words in [
            &[b"check" as &[u8], b"set"][..],
            &[b"table", b"check", b"set"],
            &[b"info", b"set/innokit.manifest.json", b"set/shop/t.isl", b"set/shop/t.ibd.meta"],
            &[b"backup", b"verify", b"set"],
            &[b"recover", b"--dry-run", b"set"],
            &[b"recover", b"--to", b"to", b"set"],
            &[b"restore", b"set", b"--to", b"to"],
            &[b"restore", b"set", b"--increment", b"set", b"--to", b"to"],
        ] {
            attack(&place, words);
            place.assert_untouched(&format!("{text:?}: {words:?}"));
            assert!(state(&set) == before, "{text:?}: {words:?} changed the set");
            fs::remove_dir_all(place.path("to")).ok();
        }
        for words in
            [&[b"recover" as &[u8], b"--in-place", b"set"][..], &[b"restore", b"set", b"--move", b"--to", b"to"]]
        {
            attack(&place, words);
            place.assert_untouched(&format!("{text:?}: {words:?}"));
        }
        fs::remove_dir_all(&set).ok();
        fs::remove_dir_all(place.path("to")).ok();
    }
}

/// Puts something that is no regular file at a path.
fn put(kind: &str, at: &Path, victim: &Path) {
    fs::create_dir_all(at.parent().expect("below the set")).expect("made");
    fs::remove_file(at).ok();
    match kind {
        "link" => symlink(victim, at).expect("linked"),
        "dangling" => symlink(victim.with_file_name("new"), at).expect("linked"),
        "pipe" => pipe(at),
        "device" => symlink("/dev/zero", at).expect("linked"),
        "socket" => drop(UnixListener::bind(at).expect("bound")),
        _ => fs::create_dir(at).expect("made"),
    }
}

/// Every name of a datadir that some command opens, in groups: the first three are needed, so they come one by one.
fn opened(kind: &str) -> Vec<Vec<&'static str>> {
    let (log, control) =
        if kind == "mysql" { ("#innodb_redo/#ib_redo99", "mysql.ibd") } else { ("ib_logfile0", "aria_log_control") };
    let others = [
        "ib_buffer_pool",
        "ib_buffer_pool.incomplete",
        "shop/z.frm",
        "shop/z.isl",
        "shop/z.ibd",
        "shop/z.cfg",
        "shop/z.cfp",
        "shop/z.par",
        "shop/db.opt",
        "xtrabackup_info",
        "xtrabackup_checkpoints",
        "innokit-recover.moved",
        "backup-my.cnf",
        "innokit-recover.increment",
        "ib_logfile101",
        "binlog.index",
        "binlog.000001",
        "undo_1_trunc.log",
        "auto.cnf",
        "my.cnf",
        "ddl_recovery.log",
        "tablespaces.open.1",
        "#innodb_redo/#ib_redo100_tmp",
        "#ib_16384_9.dblwr",
        "innokit.manifest.json",
        "xtrabackup_logfile",
        "shop/z.ibd.delta",
        "shop/z.ibd.meta",
        "multi-master.info",
        "aria_log.00000009",
        "ibtmp1",
    ];
    vec![vec!["ibdata1"], vec![log], vec![control], others.to_vec()]
}

fn every_name_of_a_datadir(kind: &'static str) {
    let place = Place::in_memory();
    let set = place.crashed(kind, "set");
    let victim = place.path("victim/shop/t.ibd");
    fs::create_dir_all(place.path("kept")).expect("made");
    for group in opened(kind) {
        let is_needed = group.len() == 1;
        // What is needed ends a run at once, whatever stands for it.
        let odd = ["link", "pipe", "directory", "dangling", "device", "socket"];
        for odd in odd.iter().take(if is_needed { 3 } else { odd.len() }) {
            let kept: Vec<(PathBuf, PathBuf)> =
                group.iter().map(|name| (set.join(name), place.path("kept").join(name.replace('/', "_")))).collect();
            for (at, aside) in &kept {
                fs::rename(at, aside).ok();
                put(odd, at, &victim);
            }
            let needed: &[&[&[u8]]] = &[&[b"table", b"check", b"set"], &[b"recover", b"--in-place", b"set"]];
            let all: &[&[&[u8]]] = &[
                &[b"check", b"--level", b"pages", b"set/shop"],
                &[b"table", b"schema", b"set/shop"],
                &[b"redo", b"info", b"set"],
            ];
            let always: &[&[&[u8]]] =
                &[&[b"info", b"set/ibdata1", b"set/shop", b"set/ib_buffer_pool"], &[b"recover", b"--dry-run", b"set"]];
            for words in always.iter().chain(if is_needed { needed } else { all }) {
                attack(&place, words);
                place.assert_untouched(&format!("{kind}, {odd} at {group:?}: {words:?}"));
            }
            for (at, aside) in &kept {
                fs::remove_file(at).or_else(|_| fs::remove_dir_all(at)).ok();
                fs::rename(aside, at).ok();
            }
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn nothing_that_stands_for_a_file_of_mariadb_is_followed_or_waited_for() {
    every_name_of_a_datadir("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn nothing_that_stands_for_a_file_of_mysql_is_followed_or_waited_for() {
    every_name_of_a_datadir("mysql");
}

/// The log's header says who made it.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_maker_of_a_log_steers_no_terminal() {
    let place = Place::in_memory();
    let log = place.crashed("mariadb", "set").join("ib_logfile0");
    let mut bytes = fs::read(&log).expect("a log");
    let maker = "\x1b]0;x\x07\u{202e}MariaDB\n";
    bytes[16..48].fill(0);
    bytes[16..16 + maker.len()].copy_from_slice(maker.as_bytes());
    let crc = crc32c(&bytes[..508]);
    bytes[508..512].copy_from_slice(&crc.to_be_bytes());
    fs::write(&log, bytes).expect("written");
    for (words, maker) in [
        (&[b"redo" as &[u8], b"info", b"set"][..], r"\u{1b}]0;x\u{7}\u{202e}MariaDB"),
        (&[b"redo", b"info", b"--json", b"set"], r"\u001b]0;x\u0007\u202eMariaDB"),
    ] {
        let run = attack(&place, words);
        assert!(run.text.contains(maker), "{}{}", run.text, run.errors);
    }
}

/// An archive of the redo log whose files are none, or have names that no archiver gives.
#[test]
fn nothing_that_stands_for_a_file_of_an_archive_is_followed_or_waited_for() {
    let place = Place::in_memory();
    let victim = place.path("victim/shop/t.ibd");
    let segment = "redo.0000000000002000";
    let groups: [&[&str]; 6] = [
        &[segment],
        &["redo.0000000000002000.end"],
        &["redo.0000000000002000.gap"],
        &["marks"],
        &["marks/log.000", "marks/log.001"],
        &[
            "beyond.jsonl",
            "definitions.jsonl",
            "definitions",
            "archive.lock",
            "redo.disabled",
            "marks.new",
            "redo.ffffffffffffffff",
            "redo.0000000000003000.2",
            "redo.0000000000003000.99999999999",
        ],
    ];
    for odd in ["link", "pipe", "directory", "dangling", "device", "socket"] {
        for group in groups {
            place.dir.file(&format!("redo/{segment}"), &[0; 4096]);
            place.dir.file(&format!("redo/{}", String::from_utf8_lossy(&[b'n'; 200])), b"x");
            fs::write(place.path("redo").join(std::ffi::OsStr::from_bytes(b"redo.\xff\xfe\x1b[2J")), "x")
                .expect("written");
            for name in group {
                put(odd, &place.path("redo").join(name), &victim);
            }
            for words in [
                &[b"redo" as &[u8], b"verify", b"redo"][..],
                &[b"redo", b"info", b"redo"],
                &[b"check", b"redo"],
                &[b"recover", b"--to", b"to", b"--redo", b"redo", b"redo"],
            ] {
                attack(&place, words);
                place.assert_untouched(&format!("{odd} at {group:?}: {words:?}"));
            }
            fs::remove_dir_all(place.path("redo")).expect("removed");
            fs::remove_dir_all(place.path("to")).ok();
        }
    }
}
