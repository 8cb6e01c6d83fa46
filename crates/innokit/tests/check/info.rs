//! `innokit info` on real tablespaces, intact and damaged, and on files that are not tablespaces.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail tests")]

use std::path::Path;
use std::process::Output;

use crate::common::{Dir, fixture, innokit};
use serde_json::Value;

fn info(options: &[&str], paths: &[&Path]) -> Output {
    innokit().arg("info").args(options).args(paths).output().expect("innokit runs")
}

/// The JSON document about one file, and the exit status.
fn described(path: &Path) -> (Value, Option<i32>) {
    let output = info(&["--json"], &[path]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (document["files"][0].clone(), output.status.code())
}

/// Writes a fixture as `shop/NAME.ibd` and describes it.
fn described_fixture(name: &str) -> (Value, Option<i32>) {
    let dir = Dir::new();
    described(&dir.file("shop/sample.ibd", &fixture(name)))
}

fn text(path: &Path) -> String {
    String::from_utf8(info(&[], &[path]).stdout).expect("UTF-8")
}

fn rows<'v>(space: &'v Value, list: &str) -> &'v Vec<Value> {
    space[list].as_array().unwrap_or_else(|| panic!("no list {list}"))
}

#[test]
fn a_mysql_table_is_described_with_the_names_of_its_own_dictionary() {
    let (file, status) = described_fixture("mysql-9.7/dynamic-16k.ibd");
    let space = &file["tablespace"];
    assert_eq!(status, Some(0));
    assert_eq!((&file["kind"], &space["family"]), (&"tablespace".into(), &"MySQL".into()));
    assert_eq!(space["server_version"], "9.7.4");
    assert_eq!((&space["page_size"], &space["page_format"]), (&16384.into(), &"classic".into()));
    let name = &space["name"];
    assert_eq!(
        (&name["source"], &name["schema"], &name["row_format"]),
        (&"sdi".into(), &"fx".into(), &"DYNAMIC".into())
    );
    let indexes: Vec<_> = rows(space, "indexes").iter().filter_map(|index| index["name"].as_str()).collect();
    assert_eq!(indexes, ["PRIMARY", "a", "b"]);
    let flags: Vec<_> = rows(&space["flags"], "fields").iter().filter_map(|field| field["name"].as_str()).collect();
    assert_eq!(flags, ["POST_ANTELOPE", "ATOMIC_BLOBS", "SDI"]);
}

/// See `fixtures/*/MANIFEST.toml`: 800 (or 200) rows inserted and every tenth deleted, in a table with three indexes.
#[test]
fn every_index_counts_the_rows_that_the_server_left_in_the_table() {
    for (name, rows_left) in [
        ("mysql-9.7/dynamic-16k.ibd", 720),
        ("mariadb-10.11/dynamic-16k.ibd", 720),
        ("mysql-9.7/dynamic-4k.ibd", 180),
        ("mariadb-10.11/dynamic-4k.ibd", 180),
    ] {
        let (file, _) = described_fixture(name);
        let trees = rows(&file["tablespace"], "indexes").iter().filter(|index| index["tree"] == "B-tree");
        let records: Vec<_> = trees.filter_map(|index| index["records"].as_u64()).collect();
        assert_eq!(records, [rows_left; 3], "{name}");
    }
}

#[test]
fn pages_add_up_by_verdict_and_by_use() {
    for name in [
        "mysql-9.7/dynamic-64k.ibd",
        "mysql-9.7/zip-1k.ibd",
        "mysql-9.7/undo-16k.ibd",
        "mysql-9.7/system-16k.ibd",
        "mariadb-10.11/zip-8k.ibd",
        "mariadb-10.11/spatial-16k.ibd",
        "broken/flipped-bit-mysql-16k.ibd",
    ] {
        let (file, _) = described_fixture(name);
        let space = &file["tablespace"];
        let sum = |names: &[&str]| names.iter().filter_map(|name| space["pages"][name].as_u64()).sum::<u64>();
        let total = file["bytes"].as_u64().expect("bytes") / space["page_size"].as_u64().expect("a size");
        assert_eq!(sum(&["total"]), total, "{name}");
        assert_eq!(sum(&["ok", "empty", "corrupt", "unverifiable"]), total, "{name}");
        assert_eq!(sum(&["used", "free", "never_used", "use_unknown"]), total, "{name}");
        let typed: u64 = rows(space, "page_types").iter().filter_map(|row| row["pages"].as_u64()).sum();
        assert_eq!(typed, sum(&["ok", "unverifiable"]), "{name}");
    }
}

#[test]
fn a_mariadb_table_is_named_by_its_path() {
    let dir = Dir::new();
    let path = dir.file("odd@002dname/t.ibd", &fixture("mariadb-10.11/dynamic-16k.ibd"));
    let (file, status) = described(&path);
    let space = &file["tablespace"];
    assert_eq!(status, Some(0));
    assert_eq!((&space["family"], &space["page_format"]), (&"MariaDB".into(), &"full_crc32".into()));
    assert_eq!((&space["name"]["source"], &space["name"]["schema"]), (&"path".into(), &"odd-name".into()));
    assert_eq!(space["server_version"], Value::Null);
}

#[test]
fn the_dictionary_tablespace_names_the_indexes_of_all_its_tables() {
    let dir = Dir::new();
    let (file, _) = described(&dir.file("mysql.ibd", &fixture("mysql-9.7/dictionary-16k.ibd")));
    let space = &file["tablespace"];
    assert_eq!(space["name"]["tablespace"], "mysql");
    assert!(space["name"]["tables"].as_u64().is_some_and(|tables| tables > 30), "{}", space["name"]);
    let columns =
        rows(space, "indexes").iter().find(|index| index["table"] == "mysql.columns" && index["name"] == "PRIMARY");
    assert!(columns.is_some_and(|index| index["levels"] == 2), "{columns:?}");
}

#[test]
fn a_damaged_page_is_counted_named_and_ends_in_status_1() {
    let dir = Dir::new();
    let path = dir.file("shop/t.ibd", &fixture("broken/flipped-bit-mysql-16k.ibd"));
    let (file, status) = described(&path);
    assert_eq!(status, Some(1));
    assert_eq!(file["tablespace"]["pages"]["corrupt"], 1);
    let damaged = &file["tablespace"]["damaged_pages"][0];
    assert_eq!((&damaged["page"], &damaged["reason"]), (&4.into(), &"checksum_mismatch".into()));
    assert!(text(&path).contains("DAMAGE"), "{}", text(&path));
}

#[test]
fn a_damaged_page_0_leaves_the_rest_described() {
    let (file, status) = described_fixture("broken/flipped-bit-page-0-mysql-16k.ibd");
    assert_eq!(status, Some(1));
    assert_eq!(file["tablespace"]["flags"], Value::Null);
    assert_eq!(file["tablespace"]["pages"]["used"], 0);
    assert!(rows(&file["tablespace"], "indexes").len() >= 3);
}

#[test]
fn files_that_are_no_tablespaces_are_named_and_end_in_status_0() {
    let dir = Dir::new();
    for (name, bytes, kind) in [
        ("backup.xb", &b"XBSTCK01\0P\x03\0\0\0a/b"[..], "xbstream"),
        ("dump.sql.gz", b"\x1f\x8b\x08\0", "compressed"),
        ("notes.txt", b"drop nothing\n", "text"),
    ] {
        let (file, status) = described(&dir.file(name, bytes));
        assert_eq!((file["kind"].as_str(), status), (Some(kind), Some(0)), "{name}");
    }
    let (file, status) = described(Path::new(env!("CARGO_BIN_EXE_innokit")));
    assert_eq!((file["kind"].as_str(), status), (Some("executable"), Some(0)));
}

#[test]
fn a_tablespace_by_name_only_is_damage() {
    let dir = Dir::new();
    let (file, status) = described(&dir.file("shop/t.ibd", b"\x7fELF and so on"));
    assert_eq!(status, Some(1));
    assert!(file["damage"].as_str().is_some_and(|why| why.contains("tablespace")), "{file}");
}

#[test]
fn a_file_that_cannot_be_read_ends_in_status_2_and_the_others_are_described() {
    let dir = Dir::new();
    let sound = dir.file("shop/t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let output = info(&["--json"], &[&dir.path().join("gone.ibd"), &sound, dir.path()]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(2));
    let kinds: Vec<_> = rows(&document, "files").iter().map(|file| file["kind"].as_str()).collect();
    // A directory means the files in it.
    assert_eq!(kinds, [None, Some("tablespace"), Some("tablespace")]);
    assert!(document["files"][0]["error"].as_str().is_some_and(|why| why.contains("No such file")), "{document}");
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_workers() {
    let dir = Dir::new();
    let path = dir.file("mysql.ibd", &fixture("mysql-9.7/dictionary-16k.ibd"));
    let described = |workers: &str| {
        let output = info(&["--json", "--threads", workers], &[&path]).stdout;
        let mut document: Value = serde_json::from_slice(&output).expect("JSON");
        document["started_at"] = Value::Null;
        document
    };
    assert_eq!(described("1"), described("4"));
}

#[test]
fn a_map_is_drawn_as_svg_and_as_png_without_fonts() {
    let dir = Dir::new();
    let path = dir.file("shop/t.ibd", &fixture("broken/flipped-bit-mysql-16k.ibd"));
    let map = |name: &str| {
        let target = dir.path().join(name);
        let option = format!("--map={}", target.display());
        let status = info(&[&option], &[&path]).status.code();
        (std::fs::read(&target).expect("a map"), status)
    };
    let (svg, status) = map("map.svg");
    let svg = String::from_utf8(svg).expect("text");
    assert_eq!(status, Some(1));
    assert!(svg.starts_with("<svg") && svg.contains("t.ibd") && svg.contains("DAMAGED"), "{svg}");
    for words in
        [">fx.dyn</text>", "damaged pages, 1: 4<", "<title>page 5: a, leaf</title>", "PRIMARY, leaf<", ">20,504,457<"]
    {
        assert!(svg.contains(words), "{words} is missing in {svg}");
    }
    let (png, _) = map("map.png");
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 2000);
    // The picture uses no font of the machine, so it is the same everywhere.
    assert_eq!(png, map("again.png").0);
}

#[test]
fn a_map_of_thousands_of_pages_of_every_age_stays_small() {
    let dir = Dir::new();
    let path = dir.file("fx/scattered.ibd", &fixture("scattered/scattered-16k.ibd"));
    let target = dir.path().join("map.svg");
    info(&[&format!("--map={}", target.display())], &[&path]);
    let svg = std::fs::read_to_string(&target).expect("a map");
    assert!(svg.len() < 100_000, "{} bytes", svg.len());
    roxmltree::Document::parse(&svg).expect("XML");
}

/// The README's picture is what the command above it draws.
#[test]
fn the_picture_of_the_readme_is_what_innokit_draws() {
    let dir = Dir::new();
    let mut bytes = fixture("mysql-9.7/dynamic-16k.ibd");
    for page in [10, 17] {
        bytes[page * 16384 + 200] = 0xff;
    }
    let path = dir.file("fx/dyn.ibd", &bytes);
    let target = dir.path().join("map.svg");
    assert_eq!(info(&[&format!("--map={}", target.display())], &[&path]).status.code(), Some(1));
    let kept = crate::common::repository().join("docs/images/damaged-table.svg");
    let drawn = std::fs::read_to_string(&target).expect("a map");
    assert_eq!(drawn, std::fs::read_to_string(kept).expect("the picture"));
    assert!(drawn.len() < 100_000);
}

#[test]
fn a_map_is_refused_for_several_files_for_no_tablespace_and_over_its_own_file() {
    let dir = Dir::new();
    let path = dir.file("shop/t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let other = dir.file("notes.txt", b"see you\n");
    let target = dir.path().join("map.svg");
    let option = format!("--map={}", target.display());
    assert_eq!(info(&[&option], &[&path, &path]).status.code(), Some(2));
    assert_eq!(info(&[&option], &[&other]).status.code(), Some(2));
    assert!(!target.exists());
    let disguised = dir.file("table.svg", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let before = std::fs::read(&disguised).expect("read");
    assert_eq!(info(&[&format!("--map={}", disguised.display())], &[&disguised]).status.code(), Some(2));
    assert_eq!(std::fs::read(&disguised).expect("read"), before);
}

/// Reseals a 16 KiB page of a MySQL tablespace.
fn seal(bytes: &mut [u8], number: usize, act: impl FnOnce(&mut [u8])) {
    let format = format::SpaceFormat::from_page0(bytes).expect("a tablespace");
    let page = &mut bytes[number * 16384..][..16384];
    act(page);
    format::seal_page(page, format::Lsn(1), format::Algorithm::Crc32, &format).expect("sealed");
}

type Act = fn(&mut [u8]);

#[test]
fn dictionary_information_that_ends_early_is_damage() {
    let dir = Dir::new();
    let sound = fixture("mysql-9.7/dynamic-16k.ibd");
    let root = u32::from_be_bytes(sound[10509..10513].try_into().expect("4 bytes")) as usize;
    let breaks: [(&str, Act); 4] = [
        ("the list of records ends at once", |page| page[97..99].copy_from_slice(&13_u16.to_be_bytes())),
        ("the list leaves the page", |page| page[97..99].copy_from_slice(&20_000_u16.to_be_bytes())),
        ("the next page is not there", |page| page[12..16].copy_from_slice(&9999_u32.to_be_bytes())),
        ("the page is one of an index", |page| page[24..26].copy_from_slice(&[0x45, 0xBF])),
    ];
    for (name, act) in breaks {
        let mut bytes = sound.clone();
        seal(&mut bytes, root, act);
        let (file, status) = described(&dir.file("shop/t.ibd", &bytes));
        assert_eq!(status, Some(1), "{name}: {file}");
        assert!(
            file["damage"].as_str().is_some_and(|words| words.contains("dictionary information")),
            "{name}: {file}"
        );
    }
}

#[test]
fn compressed_tables_are_named_by_their_own_dictionary_too() {
    let (file, status) = described_fixture("mysql-9.7/zip-8k.ibd");
    let name = &file["tablespace"]["name"];
    assert_eq!((status, &name["source"], &name["row_format"]), (Some(0), &"sdi".into(), &"COMPRESSED".into()));
}

#[test]
fn a_first_page_that_says_nothing_is_damage() {
    let dir = Dir::new();
    for name in ["mysql-9.7/dynamic-16k.ibd", "mariadb-10.11/dynamic-16k.ibd"] {
        let mut bytes = fixture(name);
        bytes[..16384].fill(0);
        let (file, status) = described(&dir.file("shop/t.ibd", &bytes));
        assert_eq!((status, &file["tablespace"]["flags"]), (Some(1), &Value::Null), "{name}: {file}");
    }
}

#[test]
fn a_path_steers_no_terminal_and_is_whole_in_json() {
    let dir = Dir::new();
    let path = dir.file("shop/\x1b[2J\u{202e}t\nkind: sound.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let shown = text(&path);
    assert!(shown.lines().next().expect("a line").ends_with("\\u{1b}[2J\\u{202e}t\\nkind: sound.ibd"), "{shown}");
    let output = info(&["--json"], &[&path]).stdout;
    assert!(output.is_ascii() && !output.contains(&0x1B), "{}", String::from_utf8_lossy(&output));
    let document: Value = serde_json::from_slice(&output).expect("JSON");
    assert_eq!(document["files"][0]["path"].as_str(), path.to_str());
}

#[test]
fn a_hollow_temporary_tablespace_is_harmless() {
    let dir = Dir::new();
    let (file, status) = described(&dir.file("data/ibtmp1", &[0; 65536]));
    assert_eq!(status, Some(0), "{file}");
    assert!(file["what"].as_str().is_some_and(|what| what.contains("harmless")), "{file}");
    assert_eq!(file["damage"], Value::Null);
}

#[test]
fn many_files_are_summed_up_and_the_damaged_one_is_described() {
    let dir = Dir::new();
    let sound = fixture("mysql-9.7/dynamic-4k.ibd");
    for number in 0..41 {
        dir.file(&format!("data/d{}/t{number}.ibd", number % 3), &sound);
    }
    dir.file("data/d1/broken.ibd", b"not a tablespace");
    let data = dir.path().join("data");
    let output = info(&[], &[&data]);
    let short = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1));
    assert!(short.contains("files         42,") && short.contains("tablespaces   41,"), "{short}");
    assert!(short.contains("broken.ibd") && short.contains("DAMAGE") && short.lines().count() < 50, "{short}");
    let long = String::from_utf8(info(&["--all"], &[&data]).stdout).expect("UTF-8");
    assert_eq!(long.matches("space id").count(), 41);
}
