//! `innokit table` prints the same bytes for any number of workers, on intact and on damaged files. The damage is that of
//! `fixtures/broken`, that made here, and that of `table_damage`, which checks every file with one, two and eight workers.

use std::path::{Path, PathBuf};

use crate::any_workers::report_on;
use crate::broken_table::Ibd;
use crate::common::{CRASHED, Dir, Run, SOUND, all_datadirs, fixture, innokit, keys_of, manifest};
use datadir::keys::KeyFiles;
use inspect::TableOptions;
use inspect::tree::walk::Depth;

/// A table whose two indexes have hundreds of leaves each, scattered over the file.
const SCATTERED: &str = "scattered/scattered-16k.ibd";

/// The table, intact and damaged, with and without wrong checksums.
fn scattered(dir: &Dir) {
    let sound = fixture(SCATTERED);
    dir.file("scattered/sound.ibd", &sound);
    let sealed = |name: &str, act: &dyn Fn(&mut Ibd)| {
        let mut ibd = Ibd::new(sound.clone());
        act(&mut ibd);
        dir.file(&format!("scattered/{name}.ibd"), &ibd.sealed());
    };
    let (first, last) = {
        let leaves = Ibd::new(sound.clone()).leaves("PRIMARY");
        (leaves[1], *leaves.last().expect("leaves"))
    };
    sealed("zeroed", &|ibd| ibd.page(first).fill(0));
    sealed("link", &|ibd| ibd.page(last)[11] ^= 3);
    sealed("twice", &|ibd| {
        let (from, to) = (ibd.stored(last).to_vec(), ibd.page(first));
        to[38..16384 - 8].copy_from_slice(&from[38..16384 - 8]);
    });
    // The highest byte of a row's key: now out of order, and different from the other index.
    sealed("key", &|ibd| {
        let record = ibd.records(first)[5];
        ibd.page(first)[record] ^= 0x40;
    });
    let mut torn = sound.clone();
    for page in [first, last] {
        torn[page as usize * 16384 + 9000] ^= 1;
    }
    dir.file("scattered/torn.ibd", &torn);
    dir.file("scattered/cut.ibd", &sound[..sound.len() / 2]);
}

/// Intact, damaged and odd files.
fn mixed() -> Dir {
    let dir = Dir::new();
    for folder in ["mysql-9.7", "mariadb-10.11", "broken"] {
        for entry in manifest(folder) {
            dir.file(&entry.name, &entry.bytes());
        }
    }
    scattered(&dir);
    dir
}

/// Output without the lines that contain the time or the options.
fn output(paths: &Path, words: &[&str], more: &[String]) -> String {
    let output = innokit().arg("table").args(words).args(more).arg(paths).output().expect("innokit runs");
    let run = Run::of(&output);
    let is_timeless = |line: &&str| {
        !["\"seconds\"", "\"started_at\""].iter().any(|word| line.contains(word)) && !line.starts_with("time ")
    };
    let without_time = |line: &str| {
        let is_time = |part: &&str| part.strip_suffix(" s").is_some_and(|number| number.parse::<f64>().is_ok());
        line.split(", ").filter(|part| !is_time(part)).collect::<Vec<_>>().join(", ")
    };
    let lines: Vec<String> = run.text.lines().filter(is_timeless).map(without_time).collect();
    format!("{}\nexit {}", lines.join("\n"), run.status)
}

fn assert_same_output(paths: &Path, words: &[&str], keys: &[String]) -> String {
    let by = |threads: &str| output(paths, &[words, &["--threads", threads]].concat(), keys);
    let alone = by("1");
    for threads in ["2", "8"] {
        assert_eq!(by(threads), alone, "{words:?}, {threads} threads, {}", paths.display());
    }
    alone
}

#[test]
fn text_and_json_are_the_same_for_any_number_of_threads() {
    let dir = mixed();
    for words in [&["check", "--extended", "--all"][..], &["check", "--extended", "--json"], &["count", "--all"]] {
        let text = assert_same_output(dir.path(), words, &[]);
        assert!(text.lines().count() > 40 && text.ends_with("exit 1"), "{text}");
        assert!(text.contains("scattered/torn.ibd"), "{text}");
    }
}

#[test]
fn workers_who_share_the_smallest_trees_say_what_one_says() {
    let dir = mixed();
    let paths = [dir.path().to_path_buf()];
    for options in each_depth() {
        let report = report_on(&paths, &options);
        let broken = |name: &str| {
            let is_it = |finding: &&inspect::report::table_finding::TableFinding| {
                finding.path.ends_with(&format!("scattered/{name}.ibd"))
            };
            report.findings.iter().filter(is_it).count()
        };
        assert_eq!(broken("sound"), 0);
        for name in ["zeroed", "torn", "cut", "link"] {
            assert!(broken(name) > 0, "{name}");
        }
        // Counting does not compare keys.
        let is_check = options.depth == Depth::Check;
        assert!(["key", "twice"].iter().all(|name| (broken(name) > 0) == is_check), "{:?}", options.depth);
    }
}

fn each_depth() -> [TableOptions; 2] {
    let extended = TableOptions { extended: true, findings_max: 100_000, ..TableOptions::default() };
    [TableOptions { depth: Depth::Count, extended: false, ..extended.clone() }, extended]
}

/// The key files that the options from `keys_of` name.
fn key_files(words: &[String]) -> KeyFiles {
    let mut keys = KeyFiles::default();
    match words {
        [option, file] if option == "--keyring" => keys.keyrings = vec![file.into()],
        [_, files] => {
            let (file, opener) = files.split_once(',').map_or((files.as_str(), None), |(file, by)| (file, Some(by)));
            keys.key_file = Some((PathBuf::from(file), opener.map(str::to_owned)));
        }
        _ => {}
    }
    keys
}

fn assert_same_reports(datadirs: &[&str]) {
    for name in datadirs {
        let words = keys_of(name);
        let options =
            TableOptions { extended: true, list_tables: true, keys: key_files(&words), ..TableOptions::default() };
        let report = report_on(&[all_datadirs().join(name)], &options);
        assert!(report.totals.entries > 10_000, "{name}: {}", report.totals.entries);
        assert!(CRASHED.contains(name) || report.exit_status() == 0, "{name}: {:#?}", report.findings);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_datadir_of_mysql_gets_the_same_report() {
    let mysql: Vec<&str> = SOUND.iter().chain(&CRASHED).copied().filter(|name| name.starts_with("mysql")).collect();
    assert_same_reports(&mysql);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_datadir_of_mariadb_gets_the_same_report() {
    let mariadb: Vec<&str> = SOUND.iter().chain(&CRASHED).copied().filter(|name| name.starts_with("mariadb")).collect();
    assert_same_reports(&mariadb);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_datadir_prints_the_same_for_any_number_of_threads() {
    for name in ["mysql-16k", "mariadb-16k-crashed"] {
        let datadir = all_datadirs().join(name);
        for words in [&["check", "--extended", "--json"][..], &["count"]] {
            assert_same_output(&datadir, words, &keys_of(name));
        }
    }
}
