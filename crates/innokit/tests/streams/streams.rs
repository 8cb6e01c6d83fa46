//! Backup streams get the same verdicts as the unpacked directory, with every compression and wherever they are cut.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::common::{Dir, check, check_json, check_stdin, fixture, innokit, reasons, repository, total};
use serde_json::Value;

const SAMPLE: &str = "mysql-9.7/dynamic-16k.ibd";

fn script() -> Command {
    Command::new(repository().join("scripts/server.sh"))
}

fn server(args: &[&str], input: &str) {
    let mut child = script().arg("mariadb").args(args).stdin(Stdio::piped()).spawn().expect("bash runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("taken");
    assert!(child.wait().expect("ends").success(), "{args:?}");
}

/// Runs `mbstream ARGS` in `dir` with `input`. Returns its output.
fn mbstream(dir: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = script()
        .args(["mariadb", "tool", "mbstream"])
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash runs");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("ends");
    writer.join().expect("the writer does not panic");
    assert!(output.status.success(), "mbstream {args:?}");
    output.stdout
}

/// A backup as `mariadb-backup --stream=xbstream` sends it: the stream, and what `mbstream` unpacks from it.
fn backup() -> &'static (Vec<u8>, PathBuf, Dir) {
    static BACKUP: OnceLock<(Vec<u8>, PathBuf, Dir)> = OnceLock::new();
    BACKUP.get_or_init(|| {
        let dir = Dir::new();
        let data = dir.path().join("data");
        let data = data.to_str().expect("UTF-8");
        server(&["init", data, "--innodb-data-file-path=ibdata1:6M;ibdata2:6M:autoextend"], "");
        server(&["start", data], "");
        server(&["sql", data], SQL);
        // A clean restart writes all pages, so there is something to verify.
        server(&["stop", data, "0"], "");
        server(&["start", data], "");
        server(&["sql", data], "INSERT INTO shop.plain (a, b) SELECT a, b FROM shop.plain LIMIT 500;");
        let socket = socket_of(data);
        let output = script()
            .args([
                "mariadb",
                "tool",
                "mariadb-backup",
                "--no-defaults",
                "--backup",
                "--stream=xbstream",
                "--parallel=3",
            ])
            .args(["--user=root", &format!("--socket={socket}"), &format!("--datadir={data}")])
            .output()
            .expect("bash runs");
        server(&["stop", data], "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let unpacked = dir.path().join("unpacked");
        std::fs::create_dir(&unpacked).expect("a directory");
        mbstream(&unpacked, &["-x"], &output.stdout);
        (output.stdout, unpacked, dir)
    })
}

const SQL: &str = "
CREATE DATABASE shop; USE shop;
CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(300), KEY (a), KEY (b)) ENGINE=InnoDB;
INSERT INTO plain (a, b) SELECT seq % 97, SHA2(seq, 512) FROM seq_1_to_20000;
CREATE TABLE zip (id INT PRIMARY KEY, b VARCHAR(300)) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4;
INSERT INTO zip SELECT id, b FROM plain WHERE id < 3000;
CREATE TABLE punched (id INT PRIMARY KEY, b VARCHAR(900)) ENGINE=InnoDB PAGE_COMPRESSED=1;
INSERT INTO punched SELECT id, REPEAT(b, 6) FROM plain WHERE id < 5000;
CREATE TABLE other (id INT PRIMARY KEY) ENGINE=MyISAM;
";

/// The socket that `scripts/server.sh` gives the datadir.
fn socket_of(data: &str) -> String {
    let user = Command::new("id").arg("-u").output().expect("id runs").stdout;
    let real = std::fs::canonicalize(data).expect("there");
    let mut child = Command::new("cksum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cksum runs");
    child.stdin.take().expect("piped").write_all(real.to_str().expect("UTF-8").as_bytes()).expect("taken");
    let sum = String::from_utf8(child.wait_with_output().expect("ends").stdout).expect("a number");
    let user = String::from_utf8(user).expect("a number");
    format!("/tmp/innokit-{}-{}.sock", user.trim(), sum.split(' ').next().expect("a number"))
}

/// The report's kind and counts for each file, by its path below `root`.
fn verdicts(document: &Value, root: &str) -> BTreeMap<String, String> {
    let files = document["files"].as_array().expect("files").iter();
    let rows = files.filter(|file| file["kind"] != "backup archive").map(|file| {
        let path = file["path"].as_str().expect("a path").trim_start_matches(root);
        let fields =
            ["kind", "family", "space_id", "page_size", "algorithm", "unit", "pages", "ok", "empty", "corrupt"];
        let mut words: Vec<String> = fields.iter().map(|field| file[*field].to_string()).collect();
        words.extend(["unverifiable", "missing", "bytes"].iter().map(|field| file[*field].to_string()));
        (path.to_owned(), words.join(" "))
    });
    rows.collect()
}

/// The chunks of a stream: offset, type and path.
fn chunks(stream: &[u8]) -> Vec<(usize, u8, String)> {
    let number =
        |at: usize, len: usize| stream[at..at + len].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (mut chunks, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        let path_end = at + 14 + number(at + 10, 4);
        let kind = stream[at + 9];
        chunks.push((at, kind, String::from_utf8_lossy(&stream[at + 14..path_end]).into_owned()));
        at = if kind == b'P' { path_end + 20 + number(path_end, 8) } else { path_end };
    }
    chunks
}

/// A chunk with a payload. With a `map` of (skip, write) in bytes it is a sparse one.
fn chunk(path: &str, offset: u64, map: Option<&[(u32, u32)]>, bytes: &[u8]) -> Vec<u8> {
    let little = |value: u64, len: usize| value.to_be_bytes().into_iter().rev().take(len).collect::<Vec<u8>>();
    let map_bytes: Vec<u8> = map
        .unwrap_or_default()
        .iter()
        .flat_map(|(skip, write)| [little(u64::from(*skip), 4), little(u64::from(*write), 4)])
        .flatten()
        .collect();
    let mut chunk = b"XBSTCK01\0".to_vec();
    chunk.push(if map.is_some() { b'S' } else { b'P' });
    chunk.extend(little(path.len() as u64, 4));
    chunk.extend(path.bytes());
    if map.is_some() {
        chunk.extend(little(map_bytes.len() as u64 / 8, 4));
    }
    chunk.extend(little(bytes.len() as u64, 8));
    chunk.extend(little(offset, 8));
    let mut crc = flate2::Crc::new();
    crc.update(&map_bytes);
    crc.update(bytes);
    chunk.extend(little(u64::from(crc.sum()), 4));
    chunk.extend(map_bytes);
    chunk.extend(bytes);
    chunk
}

fn end(path: &str) -> Vec<u8> {
    let mut chunk = b"XBSTCK01\0E".to_vec();
    chunk.extend((path.len() as u64).to_be_bytes().into_iter().rev().take(4));
    chunk.extend(path.bytes());
    chunk
}

fn member(path: &str, bytes: &[u8]) -> Vec<u8> {
    [chunk(path, 0, None, bytes), end(path)].concat()
}

/// `bytes` in each of the three compressions.
fn packed(bytes: &[u8]) -> [(&'static str, Vec<u8>); 3] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).expect("packed");
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(bytes).expect("packed");
    [
        ("gz", gzip.finish().expect("packed")),
        ("zst", zstd::encode_all(bytes, 1).expect("packed")),
        ("lz4", lz4.finish().expect("packed")),
    ]
}

// --- Backups of a real server ----------------------------------------------------------------------------------------------

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_stream_has_the_verdicts_of_the_unpacked_directory() {
    let (stream, unpacked, _) = backup();
    let root = format!("{}/", unpacked.display());
    let (directory, status) = check_json(unpacked, &[]);
    assert_eq!(status, 0, "{:#}", directory["findings"]);
    let expected = verdicts(&directory, &root);
    assert!(expected.len() > 8 && expected.contains_key("ibdata2"), "{expected:#?}");
    assert!(expected["shop/punched.ibd"].contains("tablespace") && total(&directory, "ok") > 100, "{expected:#?}");
    assert!(directory["totals"]["mini_transactions"]["ok"].as_u64() > Some(0), "{:#}", directory["totals"]);

    let dir = Dir::new();
    let path = dir.file("full.xb", stream);
    let of_file = check_json(&path, &[]);
    assert_eq!(verdicts(&of_file.0, &format!("{}: ", path.display())), expected);
    let of_pipe = check_stdin(stream, &["--json"]);
    assert_eq!(verdicts(&of_pipe.json(), "-: "), expected);
    for (document, status) in [of_file, (of_pipe.json(), of_pipe.status)] {
        assert_eq!((reasons(&document).len(), status), (0, 0), "{:#}", document["findings"]);
        for sum in ["pages", "ok", "empty", "corrupt", "unverifiable"] {
            assert_eq!(total(&document, sum), total(&directory, sum), "{sum}");
        }
        assert_eq!(total(&document, "bytes"), stream.len() as u64, "each byte of the archive once");
    }
    for (extension, bytes) in packed(stream) {
        let path = dir.file(&format!("full.xb.{extension}"), &bytes);
        assert_eq!(verdicts(&check_json(&path, &[]).0, &format!("{}: ", path.display())), expected, "{extension}");
    }
    // In a directory, archives are recognised by content, and compressed ones by name.
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!((total(&document, "pages"), status), (4 * total(&directory, "pages"), 0));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_report_on_an_archive_does_not_depend_on_how_its_bytes_came() {
    let (stream, _, _) = backup();
    let dir = Dir::new();
    let middle = stream.len() / 2;
    let mut damaged = stream.clone();
    damaged[middle] ^= 1;
    dir.file("a.xb", stream);
    dir.file("b.xb", &damaged);
    dir.file("c.xb", &stream[..middle]);
    dir.file("d.xb.zst", &packed(&damaged)[1].1);
    dir.file("e.xb.lz4", &packed(stream)[2].1[..100_000]);
    let text = |options: &[&str]| {
        let run = check(dir.path(), &[options, &["--json"]].concat());
        let lines = run.text.lines().filter(|line| !line.contains("\"seconds\"") && !line.contains("\"started_at\""));
        format!("{}\nexit {}", lines.collect::<Vec<_>>().join("\n"), run.status)
    };
    let first = text(&["--threads", "1"]);
    assert!(first.contains("archive_cut") && first.contains("compression_cut") && first.ends_with("exit 1"), "{first}");
    for options in [["--threads", "8"], ["--io", "direct"], ["--io", "buffered"], ["--block-size", "64K"]] {
        assert_eq!(text(&options), first, "{options:?}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_stream_cut_anywhere_is_damage_and_what_came_before_is_reported() {
    let (stream, _, _) = backup();
    let dir = Dir::new();
    let path = dir.path().join("cut.xb");
    let chunks = chunks(stream);
    std::fs::write(&path, stream).expect("written");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opens");
    // Cuts counted from the end: inside headers, paths and payloads.
    let mut cuts: Vec<usize> = chunks.iter().rev().step_by(9).flat_map(|(at, ..)| [at + 30, at + 12, at + 3]).collect();
    cuts.sort_unstable_by(|a, b| b.cmp(a));
    for cut in cuts.into_iter().filter(|cut| *cut < stream.len()) {
        file.set_len(cut as u64).expect("cut");
        let (document, status) = check_json(&path, &[]);
        let start = chunks.iter().rev().map(|(at, ..)| *at).find(|at| *at <= cut).expect("a chunk");
        let finding =
            document["findings"].as_array().expect("findings").iter().find(|found| found["reason"] == "archive_cut");
        let ended = chunks.iter().filter(|(at, kind, path)| *kind == b'E' && *at < start && path.ends_with(".ibd"));
        if start == cut || cut < start + 8 && finding.is_none() {
            continue;
        }
        assert_eq!(status, 1, "cut at {cut}: {:#}", document["findings"]);
        assert_eq!(finding.and_then(|found| found["position"].as_u64()), Some(start as u64), "cut at {cut}");
        let rows = document["files"].as_array().expect("files");
        let whole = rows
            .iter()
            .filter(|row| row["error"].is_null() && row["path"].as_str().is_some_and(|path| path.ends_with(".ibd")));
        assert_eq!(whole.count(), ended.count(), "cut at {cut}");
        assert_eq!(total(&document, "corrupt"), 0, "what is there is sound");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_stream_cut_between_two_files_is_at_least_doubtful() {
    let (stream, _, _) = backup();
    let chunks = chunks(stream);
    let (at, ..) =
        chunks.iter().find(|(_, _, path)| path == "xtrabackup_checkpoints").expect("mariadb-backup writes it");
    let run = check_stdin(&stream[..*at], &["--json"]);
    assert_eq!((reasons(&run.json()), run.status), (vec!["archive_cut"], 2), "{}", run.text);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_flipped_byte_is_named_with_its_chunk_and_its_page() {
    let (stream, _, _) = backup();
    let chunks = chunks(stream);
    let (at, ..) = chunks.iter().find(|(_, kind, path)| *kind == b'P' && path == "shop/plain.ibd").expect("a table");
    let payload = at + 14 + "shop/plain.ibd".len() + 20;
    let mut damaged = stream.clone();
    damaged[payload + 4 * 16384 + 700] ^= 4;
    let run = check_stdin(&damaged, &["--json"]);
    let document = run.json();
    assert_eq!(run.status, 1);
    let findings = document["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert_eq!(
        (findings[0]["reason"].as_str(), findings[0]["position"].as_u64()),
        (Some("chunk_checksum"), Some(*at as u64))
    );
    assert_eq!((findings[1]["path"].as_str(), findings[1]["page"].as_u64()), (Some("-: shop/plain.ibd"), Some(4)));
    // Damage in a header ends the reading; earlier files are reported.
    let mut damaged = stream.clone();
    damaged[*at + 3] ^= 4;
    let run = check_stdin(&damaged, &["--json"]);
    assert_eq!((run.status, run.json()["findings"][0]["position"].as_u64()), (1, Some(*at as u64)), "{}", run.text);
}

// --- Handmade archives, for what this server does not write ------------------------------------------------------------------

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn members_compressed_one_by_one_are_checked_without_unpacking() {
    let table = fixture(SAMPLE);
    let dir = Dir::new();
    for (extension, bytes) in packed(&table) {
        dir.file(&format!("shop/{extension}.ibd.{extension}"), &bytes);
    }
    dir.file("shop/x.frm.zst", &packed(b"not a tablespace")[1].1);
    let names = ["shop/gz.ibd.gz", "shop/zst.ibd.zst", "shop/lz4.ibd.lz4", "shop/x.frm.zst"];
    let stream = mbstream(dir.path(), &[&["-c"], &names[..]].concat(), b"");
    let run = check_stdin(&stream, &["--json"]);
    let document = run.json();
    assert_eq!((reasons(&document).len(), run.status), (0, 0), "{}", run.text);
    assert_eq!(total(&document, "pages"), 3 * table.len() as u64 / 16384);
    assert_eq!(total(&document, "skipped_files"), 1);
    // The same outside archives.
    assert_eq!(total(&check_json(dir.path(), &[]).0, "pages"), 3 * table.len() as u64 / 16384);
    // Files compressed with qpress or encrypted by xtrabackup cannot be read, and the report says so.
    let run = check_stdin(&member("t.ibd.qp", b"qpress10"), &["--json"]);
    assert_eq!((reasons(&run.json()), run.status), (vec!["unreadable_file"], 2), "{}", run.text);
}

#[test]
fn damage_inside_a_compressed_member_is_found() {
    let table = fixture(SAMPLE);
    let mut damaged = table.clone();
    damaged[3 * 16384 + 200] ^= 1;
    for (extension, bytes) in packed(&damaged) {
        let run = check_stdin(&member(&format!("t.ibd.{extension}"), &bytes), &["--json"]);
        assert_eq!((run.status, run.json()["findings"][0]["page"].as_u64()), (1, Some(3)), "{extension}: {}", run.text);
    }
    for (extension, bytes) in packed(&table) {
        let run = check_stdin(&member(&format!("t.ibd.{extension}"), &bytes[..bytes.len() / 2]), &["--json"]);
        assert_eq!((reasons(&run.json()), run.status), (vec!["compression_cut"], 1), "{extension}: {}", run.text);
    }
}

#[test]
fn chunks_of_several_files_may_be_mixed_and_holes_may_be_left_out() {
    let table = fixture(SAMPLE);
    let half = 2 * 16384 + 5000;
    let mixed = [
        chunk("a.ibd", 0, None, &table[..half]),
        chunk("b.ibd", 0, None, &table[..16384]),
        chunk("a.ibd", half as u64, None, &table[half..]),
        end("a.ibd"),
        chunk("b.ibd", 16384, None, &table[16384..]),
        end("b.ibd"),
    ];
    let run = check_stdin(&mixed.concat(), &["--json"]);
    assert_eq!((total(&run.json(), "pages"), run.status), (2 * table.len() as u64 / 16384, 0), "{}", run.text);

    // Pages of zeros are left out, as XtraBackup leaves out holes.
    let pages: Vec<&[u8]> = table.chunks(16384).collect();
    let (mut map, mut bytes, mut skip) = (Vec::new(), Vec::new(), 0);
    for page in &pages {
        if page.iter().all(|byte| *byte == 0) {
            skip += 16384;
        } else {
            map.push((skip, 16384));
            bytes.extend_from_slice(page);
            skip = 0;
        }
    }
    map.push((skip, 0));
    assert!(bytes.len() < table.len(), "the sample has empty pages");
    let sparse = [chunk("s.ibd", 0, Some(&map), &bytes), end("s.ibd")].concat();
    let run = check_stdin(&sparse, &["--json"]);
    assert_eq!((total(&run.json(), "pages"), run.status), (pages.len() as u64, 0), "{}", run.text);
}

#[test]
fn a_missing_chunk_is_damage_of_the_archive() {
    let table = fixture(SAMPLE);
    let stream =
        [chunk("t.ibd", 0, None, &table[..65536]), chunk("t.ibd", 81920, None, &table[81920..]), end("t.ibd")].concat();
    let run = check_stdin(&stream, &["--json"]);
    assert_eq!((reasons(&run.json()), run.status), (vec!["misplaced_chunk", "unreadable_file"], 1), "{}", run.text);
    assert_eq!(total(&run.json(), "ok") + total(&run.json(), "empty"), 4);
}

#[test]
fn a_lost_page_of_an_unprepared_backup_is_undecided() {
    let mut table = fixture("mariadb-10.11/dynamic-16k.ibd");
    table[3 * 16384..4 * 16384].fill(0);
    for (said, status) in [("full-backuped", 2), ("full-prepared", 1)] {
        let checkpoints = format!("backup_type = {said}\nfrom_lsn = 0\n");
        let stream = [member("shop/t.ibd", &table), member("xtrabackup_checkpoints", checkpoints.as_bytes())].concat();
        let run = check_stdin(&stream, &["--json"]);
        assert_eq!((reasons(&run.json()), run.status), (vec!["zero_page_in_use"], status), "{}", run.text);
        // A person who is woken by it reads first that the backup has yet to be prepared, which explains the page.
        let line = check_stdin(&stream, &["--nagios"]).text;
        let (word, reason) = if status == 2 { ("WARNING", "has not been prepared") } else { ("CRITICAL", "page ") };
        let said = line.strip_prefix(&format!("INNOKIT {word} - ")).and_then(|line| line.split(" | ").next());
        let told = said.unwrap_or_else(|| panic!("{line}"));
        assert!(told.contains(reason) && told.find(reason) <= told.find("page "), "{line}");
    }
}

#[test]
fn an_archive_of_an_unprepared_backup_says_so_as_its_directory_does() {
    let table = fixture("mariadb-10.11/dynamic-16k.ibd");
    for (said, is_told) in [("full-backuped", true), ("full-prepared", false)] {
        let checkpoints = format!("backup_type = {said}\nfrom_lsn = 0\n");
        let stream = [member("shop/t.ibd", &table), member("xtrabackup_checkpoints", checkpoints.as_bytes())].concat();
        let run = check_stdin(&stream, &["--json"]);
        assert_eq!(run.status, 0, "{}", run.text);
        let told = run.json()["pending"].as_array().map_or(0, Vec::len);
        assert_eq!(told == 1, is_told, "{said}: {}", run.text);
        let run = check_stdin(&stream, &[]);
        assert_eq!(
            run.text.contains("pending") && run.text.contains("has not been prepared"),
            is_told,
            "{said}: {}",
            run.text
        );
    }
}

#[test]
fn a_file_sent_again_counts_once() {
    let table = fixture(SAMPLE);
    let mut damaged = table.clone();
    damaged[3 * 16384 + 200] ^= 1;
    let stream = [member("t.ibd", &damaged), member("t.ibd", &table)].concat();
    let run = check_stdin(&stream, &["--json"]);
    assert_eq!((reasons(&run.json()).len(), run.status), (0, 0), "{}", run.text);
    assert_eq!(total(&run.json(), "pages"), table.len() as u64 / 16384);
}

// --- One tablespace, and memory --------------------------------------------------------------------------------------------

#[test]
fn a_compressed_tablespace_on_standard_input_has_the_verdict_of_the_file() {
    let mut table = fixture(SAMPLE);
    table[3 * 16384 + 200] ^= 1;
    let plain = check_stdin(&table, &["--json"]).json();
    assert_eq!(reasons(&plain).len(), 1);
    for (extension, bytes) in packed(&table) {
        let document = check_stdin(&bytes, &["--json"]).json();
        assert_eq!(document["findings"], plain["findings"], "{extension}");
        assert_eq!(document["files"], plain["files"], "{extension}");
    }
    // The first page is unrecognisable. The pages after it tell the format, as in a file.
    table[..16384].fill(0x5A);
    let dir = Dir::new();
    let (of_file, _) = check_json(&dir.file("t.ibd", &table), &[]);
    let of_stream = check_stdin(&member("t.ibd", &table), &["--json"]).json();
    assert_eq!(total(&of_stream, "pages"), total(&of_file, "pages"));
    assert_eq!(reasons(&of_stream), reasons(&of_file));
}

#[test]
fn memory_does_not_grow_with_the_stream() {
    const LIMIT_MIB: u64 = 100;
    let table = fixture(SAMPLE);
    let mut child = innokit()
        .args(["check", "--verbose", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || {
        let mut archive = zstd::Encoder::new(&mut stdin, 1).expect("packs");
        let bytes = zstd::encode_all(table.as_slice(), 1).expect("packed");
        for number in 0..1000 {
            archive.write_all(&member(&format!("shop/t{number}.ibd"), &table)).expect("taken");
            archive.write_all(&member(&format!("shop/z{number}.ibd.zst"), &bytes)).expect("taken");
        }
        archive.finish().expect("packed");
    });
    let output = child.stderr.take().expect("piped");
    let lines: Vec<String> = std::io::BufReader::new(output).lines().map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("ends").code(), Some(0), "{lines:?}");
    writer.join().expect("the writer does not panic");
    let line = lines.iter().find(|line| line.contains("peak memory")).expect("said");
    let peak: u64 =
        line.split("peak memory ").nth(1).and_then(|rest| rest.split(' ').next()).expect("MiB").parse().expect("MiB");
    assert!(peak < LIMIT_MIB, "{peak} MiB");
}
