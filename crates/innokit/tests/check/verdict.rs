//! Damage explained in terms of tables: which index, which keys, how many rows, what to do. Each is told once, also in a JSON document with
//! a schema.

use std::path::{Path, PathBuf};

use crate::broken_table::Ibd;
use crate::common::{Dir, Run, all_datadirs, check, check_json, fixture, innokit, total};
use serde_json::Value;

const ROWS: u64 = 3200;

/// The table of the tests: three indexes of two levels, 3200 rows.
fn table() -> Ibd {
    Ibd::new(std::fs::read(all_datadirs().join("mysql-16k/shop/row_compact.ibd")).expect("a table"))
}

/// The table with these pages damaged, under its name in a datadir.
fn damaged(dir: &Dir, table: &Ibd, pages: &[u32]) -> PathBuf {
    let mut bytes = table.bytes.clone();
    for page in pages {
        bytes[*page as usize * 16384 + 9000] ^= 0x40;
    }
    dir.file("shop/row_compact.ibd", &bytes)
}

fn run(words: &[&str], path: &Path) -> Run {
    Run::of(&innokit().args(words).arg(path).output().expect("innokit runs"))
}

fn hurt(document: &Value) -> Vec<&Value> {
    document["hurt"].as_array().expect("hurt").iter().collect()
}

fn number(key: &Value) -> u64 {
    let text = key.as_str().expect("a key");
    text.strip_prefix("id = ").and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// The id of the first row of a leaf: a signed integer, with its sign bit flipped.
fn first_id(table: &Ibd, page: u32) -> u64 {
    let at = table.records(page)[0];
    let bytes: [u8; 4] = table.stored(page)[at..at + 4].try_into().expect("four bytes");
    u64::from(u32::from_be_bytes(bytes) ^ 1 << 31)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn lost_leaves_of_rows_are_one_line_with_their_keys_and_the_way_back() {
    let (dir, table) = (Dir::new(), table());
    let leaves = table.leaves("PRIMARY");
    let path = damaged(&dir, &table, &leaves[5..9]);
    // The pages' own fields, which innokit must no longer trust.
    let rows: usize = leaves[5..9].iter().map(|page| table.records(*page).len()).sum();
    let (document, status) = check_json(&path, &[]);
    assert_eq!(status, 1);
    let [row] = hurt(&document)[..] else { panic!("{:#}", document["hurt"]) };
    assert_eq!((&row["table"], &row["index"]), (&"shop.row_compact".into(), &"PRIMARY".into()));
    assert_eq!((&row["index_kind"], row["pages"].as_u64()), (&"clustered".into(), Some(4)));
    let [range] = &row["keys"].as_array().expect("keys")[..] else { panic!("{:#}", row["keys"]) };
    let ends = (number(&range["from"]), number(&range["before"]));
    assert_eq!(ends, (first_id(&table, leaves[5]), first_id(&table, leaves[9])));
    let at_risk = row["rows_at_risk"].as_u64().expect("a guess");
    assert!(row["rows_estimated"] == true && at_risk.abs_diff(rows as u64) < rows as u64 / 4, "{at_risk} of {rows}");
    assert_eq!(row["action"], "restore_table");
    let commands = row["commands"].as_array().expect("commands");
    let dropped = commands
        .iter()
        .filter_map(Value::as_str)
        .position(|command| command.contains("DROP TABLE `shop`.`row_compact`;"));
    assert_eq!((dropped, commands.len()), (Some(4), 8), "what can be read is kept first: {commands:#?}");

    let text = check(&path, &[]).text;
    let about = |words: &str| text.lines().filter(|line| line.contains(words)).count();
    assert_eq!((about("checksum mismatch"), about("and 3 more like it")), (1, 1), "{text}");
    assert_eq!(about("restore this table"), 1, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("result  DAMAGE FOUND")).count(), 1, "{text}");
    assert_eq!(check(&path, &["-v"]).text.lines().filter(|line| line.contains("checksum mismatch")).count(), 4);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_count_of_rows_that_another_index_tells_is_no_guess() {
    let (dir, table) = (Dir::new(), table());
    let leaves = table.leaves("PRIMARY");
    let rows: usize = leaves[5..9].iter().map(|page| table.records(*page).len()).sum();
    let run = run(&["table", "check", "--json"], &damaged(&dir, &table, &leaves[5..9]));
    assert_eq!(run.status, 1);
    let document = run.json();
    let [row] = hurt(&document)[..] else { panic!("{:#}", document["hurt"]) };
    assert_eq!((row["rows_at_risk"].as_u64(), &row["rows_estimated"]), (Some(rows as u64), &false.into()));
    assert_eq!(
        (&row["index"], row["pages"].as_u64(), &row["action"]),
        (&"PRIMARY".into(), Some(4), &"restore_table".into())
    );
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_secondary_index_is_rebuilt_and_costs_no_row() {
    let (dir, table) = (Dir::new(), table());
    let leaves = table.leaves("a");
    let path = damaged(&dir, &table, &leaves[1..2]);
    for words in [&["check", "--json"][..], &["table", "check", "--json"], &["check", "--level", "structure", "--json"]]
    {
        let document = run(words, &path).json();
        let [row] = hurt(&document)[..] else { panic!("{words:?}: {:#}", document["hurt"]) };
        assert_eq!((&row["index"], &row["index_kind"]), (&"a".into(), &"secondary".into()), "{words:?}");
        assert_eq!((row["pages"].as_u64(), row["rows_at_risk"].as_u64()), (Some(1), Some(0)), "{words:?}");
        assert_eq!(row["action"], "rebuild_index", "{words:?}");
        let expected = ["ALTER TABLE `shop`.`row_compact` FORCE;"];
        assert_eq!(row["commands"], serde_json::json!(expected), "{words:?}");
    }
}

/// MySQL writes a partitioned table's definition into one of its files: it names the indexes of all others.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_index_of_a_partition_has_its_name() {
    let dir = Dir::new();
    for part in ["p0", "p1", "rest"] {
        let name = format!("shop/parts#p#{part}.ibd");
        let mut bytes = std::fs::read(all_datadirs().join("mysql-16k").join(&name)).expect("a partition");
        let id = |page: &[u8]| u64::from_be_bytes(page[66..74].try_into().expect("eight bytes"));
        let is_index = |page: &&mut [u8]| page[24..26] == 17855_u16.to_be_bytes();
        // The index that was made last: the key on `a`.
        let last = bytes.chunks_mut(16384).filter(is_index).map(|page| id(page)).max().expect("an index");
        let page = bytes.chunks_mut(16384).filter(is_index).find(|page| id(page) == last).expect("its page");
        page[9000] ^= u8::from(part != "p0");
        dir.file(&name, &bytes);
    }
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!((status, hurt(&document).len()), (1, 2), "{:#}", document["hurt"]);
    for row in hurt(&document) {
        assert_eq!((&row["index"], &row["index_kind"]), (&"a".into(), &"secondary".into()), "{row:#}");
        assert_eq!((&row["action"], row["rows_at_risk"].as_u64()), (&"rebuild_index".into(), Some(0)), "{row:#}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_secondary_index_of_a_table_that_lost_rows_comes_back_with_it() {
    let (dir, table) = (Dir::new(), table());
    let pages = [table.leaves("a")[1], table.leaves("PRIMARY")[5]];
    let path = damaged(&dir, &table, &pages);
    for words in [&["check", "--json"][..], &["table", "check", "--json"]] {
        let document = run(words, &path).json();
        let actions: Vec<&Value> = hurt(&document).iter().map(|row| &row["action"]).collect();
        assert_eq!(actions, ["restore_table", "restore_table"], "{words:?}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn one_damaged_page_is_told_once() {
    let (dir, table) = (Dir::new(), table());
    let path = damaged(&dir, &table, &[table.leaves("PRIMARY")[5], table.leaves("a")[1]]);
    let run = run(&["check", "--level", "structure", "--json"], &path);
    let document = run.json();
    let pages = document["findings"].as_array().expect("findings");
    assert_eq!((run.status, pages.len()), (1, 2), "{:#}", document["findings"]);
    assert_eq!(document["tables"]["findings"], serde_json::json!([]));
    assert_eq!(document["tables"]["totals"]["damage"], 0);
    assert_eq!(hurt(&document).len(), 2);
    let text = check(&path, &["--level", "structure"]).text;
    assert_eq!(text.matches("checksum mismatch").count(), 2, "{text}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadbs_dictionary_names_what_is_hurt() {
    let dir = Dir::new();
    let from = all_datadirs().join("mariadb-16k");
    for name in ["ibdata1", "shop/row_compact.frm"] {
        dir.file(name, &std::fs::read(from.join(name)).expect("a file of the datadir"));
    }
    let table = Ibd::at(&from.join("shop/row_compact.ibd"));
    let path = damaged(&dir, &table, &[table.leaves("PRIMARY")[3], table.leaves("b")[0]]);
    let (document, status) = check_json(&path, &[]);
    assert_eq!(status, 1);
    let named: Vec<_> = hurt(&document).iter().map(|row| (row["table"].clone(), row["index"].clone())).collect();
    assert_eq!(named.len(), 2);
    assert!(named.iter().all(|(table, _)| table == "shop.row_compact"), "{named:?}");
    assert!(
        named.iter().any(|(_, index)| index == "PRIMARY") && named.iter().any(|(_, index)| index == "b"),
        "{named:?}"
    );
    // Without a dictionary or .frm file, only the file's name is left.
    let lone = Dir::new();
    let path = damaged(&lone, &table, &[table.leaves("PRIMARY")[3]]);
    let (document, _) = check_json(&path, &[]);
    let [row] = hurt(&document)[..] else { panic!("{:#}", document["hurt"]) };
    assert_eq!((&row["table"], &row["pages"]), (&"shop.row_compact".into(), &1.into()));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_lost_header_is_damage_of_the_whole_table() {
    let (dir, table) = (Dir::new(), table());
    let path = damaged(&dir, &table, &[0]);
    let (document, status) = check_json(&path, &[]);
    let [row] = hurt(&document)[..] else { panic!("{:#}", document["hurt"]) };
    assert_eq!((status, &row["table"], &row["index"]), (1, &"shop.row_compact".into(), &Value::Null));
    assert_eq!(row["action"], "restore_table");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn sound_files_have_nothing_hurt_and_every_table_is_listed_on_request() {
    let datadir = all_datadirs().join("mysql-16k");
    let (document, status) = check_json(&datadir, &["--tables"]);
    assert_eq!((status, hurt(&document).len()), (0, 0), "{:#}", document["hurt"]);
    let tables = document["table_verdicts"].as_array().expect("tables");
    assert!(tables.iter().all(|table| table["verdict"] == "all_well"), "{tables:#?}");
    assert_eq!(tables.iter().filter(|table| table["table"] == "shop.row_compact").count(), 1);
    assert_eq!(check_json(&datadir, &[]).0["table_verdicts"], Value::Null);

    let (dir, table) = (Dir::new(), table());
    let path = damaged(&dir, &table, &[table.leaves("a")[1]]);
    dir.file("shop/sound.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    for words in [&["check", "--tables"][..], &["table", "check", "--tables"]] {
        let text = run(words, path.parent().expect("a folder")).text;
        assert_eq!(text.matches("DAMAGE     shop.row_compact\n").count(), 1, "{text}");
        assert_eq!(text.matches("all well   ").count(), 1, "{text}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_json_document_says_what_it_is_and_how_it_went() {
    let (dir, table) = (Dir::new(), table());
    let sound = dir.file("sound.ibd", &table.bytes);
    for words in [&["check", "--json"][..], &["table", "check", "--json"], &["table", "count", "--json"]] {
        let document = run(words, &sound).json();
        assert_eq!((&document["result"], &document["exit_status"]), (&"all_well".into(), &0.into()), "{words:?}");
        assert_eq!((&document["schema_version"], &document["version"]), (&1.into(), &env!("CARGO_PKG_VERSION").into()));
        assert!(document["started_at"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')));
    }
    let document = run(&["check", "--json"], &damaged(&dir, &table, &[7])).json();
    assert_eq!((&document["result"], &document["exit_status"]), (&"damage".into(), &1.into()));
    let gone = dir.path().join("gone");
    for words in [
        &["check", "--json"][..],
        &["table", "check", "--json"],
        &["info", "--json"],
        &["redo", "info", "--json"],
        &["recover", "--json", "--dry-run"],
        &["check", "--json", "--threads", "0"],
    ] {
        let run = run(words, &gone);
        let document = run.json();
        assert_eq!((run.status, &document["exit_status"]), (2, &2.into()), "{words:?}: {document:#}");
        assert!(document["result"] == "undecided" || document["error"]["message"].is_string(), "{words:?}");
    }
}

#[test]
fn names_that_are_not_utf8_or_hold_newlines_stay_exact() {
    use std::os::unix::ffi::OsStrExt;
    let dir = Dir::new();
    let mut names = Vec::new();
    for name in [&b"a\xFFb.ibd"[..], "a\u{FFFD}ffb.ibd".as_bytes(), b"two\nlines.ibd"] {
        let path = dir.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(&path, b"").expect("written");
        names.push(name);
    }
    for words in [&["check", "--json"][..], &["table", "check", "--json"]] {
        let document = run(words, dir.path()).json();
        let files = document["files"].as_array().expect("files");
        let paths: Vec<&str> = files.iter().map(|file| file["path"].as_str().expect("a path")).collect();
        for expected in ["a\u{FFFD}ffb.ibd", "a\u{FFFD}\u{FFFD}ffb.ibd", "two\nlines.ibd"] {
            assert_eq!(
                paths.iter().filter(|path| path.ends_with(expected)).count(),
                1,
                "{words:?} {expected}: {paths:?}"
            );
        }
    }
    let text = check(dir.path(), &[]).text;
    assert_eq!(text.lines().filter(|line| line.contains("two\\nlines.ibd: damage")).count(), 1, "{text}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_limit_of_the_list_does_not_change_the_verdict_per_table() {
    let (dir, table) = (Dir::new(), table());
    let path = damaged(&dir, &table, &table.leaves("PRIMARY")[2..12]);
    let all = check_json(&path, &[]).0;
    let few = check_json(&path, &["--max-findings", "1"]).0;
    assert_eq!((total(&few, "damage"), &few["hurt"]), (10, &all["hurt"]));
    assert_eq!(all["hurt"][0]["pages"], 10);
    assert!(all["hurt"][0]["rows_at_risk"].as_u64().is_some_and(|rows| rows < ROWS));
}
