//! Every kind of page that real servers write. Intact ones pass, with their keys and as far as possible without. One damaged byte is found,
//! and reported on its page, wherever the server's checksums cover it.
//!
//! The datadirs are those of `scripts/make-datadirs.sh --with encrypted,compressed`. For each way of storing a page, [`Layout`] lists the
//! bytes that the server neither verifies nor uses. Changing one of those is no damage.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::{Dir, Run, all_datadirs, check, check_json, innokit, keys_of, reasons, repository, total};
use crate::kinds_layouts::{
    ANY, FLIP, FULL_BOTH, FULL_ENCRYPTED, INDEX, Kind, MARIADB, MARIADB_BOTH, MARIADB_ENCRYPTED, MYSQL, Said, page_type,
};
use serde_json::Value;

const ENCRYPTED: [&str; 3] = ["mysql-16k-tde", "mariadb-16k-enc", "mariadb-16k-crc32-enc"];
const COMPRESSED: [&str; 3] = ["mysql-16k-compressed", "mariadb-16k-compressed", "mariadb-16k-crc32-compressed"];

fn check_with(path: &Path, options: &[String]) -> (Value, i32) {
    check_json(path, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

fn findings(document: &Value) -> &Vec<Value> {
    document["findings"].as_array().expect("findings")
}

// --- No false alarms --------------------------------------------------------------------------------------------------------

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn with_their_keys_all_files_are_sound_to_the_last_page() {
    for name in ENCRYPTED.iter().chain(&COMPRESSED) {
        let (document, status) = check_with(&all_datadirs().join(name), &keys_of(name));
        assert_eq!(findings(&document).len(), 0, "{name}: {:#}", document["findings"]);
        assert_eq!((status, total(&document, "unverifiable"), total(&document, "corrupt")), (0, 0, 0), "{name}");
        assert!(total(&document, "ok") > 1000, "{name}: {:#}", document["totals"]);
    }
}

/// MySQL computes its checksum before encrypting the page, MariaDB (also) after.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn without_keys_nothing_is_called_corrupt_and_what_cannot_be_verified_says_why() {
    for (name, is_mysql) in [("mysql-16k-tde", true), ("mariadb-16k-enc", false), ("mariadb-16k-crc32-enc", false)] {
        let (document, status) = check_with(&all_datadirs().join(name), &[]);
        // The dictionaries are encrypted too, so whether any table is missing stays undecided.
        assert_eq!((status, total(&document, "corrupt")), (2, 0), "{name}: {:#}", document["findings"]);
        assert_eq!(total(&document, "unverifiable") > 1000, is_mysql, "{name}: {:#}", document["totals"]);
        for finding in findings(&document) {
            assert_eq!(finding["severity"], "undecided", "{name}: {finding:#}");
            // Without its key, MySQL's dictionary cannot tell whether any table is missing either.
            let reason = finding["reason"].as_str().expect("a reason");
            assert!(["encrypted_no_key", "dictionary_unread"].contains(&reason), "{name}: {finding:#}");
            assert!(finding["message"].as_str().is_some_and(|words| words.contains("encrypted, and there is no key")));
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_wrong_key_is_an_error_that_says_so_and_never_damage() {
    let dir = Dir::new();
    let key_file =
        dir.file("keys", b"1;00000000000000000000000000000001\n2;000000000000000000000000000000000000000000000002\n");
    let keyring = std::fs::read_to_string(all_datadirs().join(".mysql-16k-tde.server/keys")).expect("a keyring");
    let keyring = dir.file("keyring", other_keys(&keyring).as_bytes());
    for (name, option, keys) in [
        ("mysql-16k-tde", "--keyring", &keyring),
        ("mariadb-16k-enc", "--key-file", &key_file),
        ("mariadb-16k-crc32-enc", "--key-file", &key_file),
    ] {
        let options = [option.to_owned(), keys.display().to_string()];
        let (document, status) = check_with(&all_datadirs().join(name), &options);
        assert_eq!((status, total(&document, "corrupt")), (2, 0), "{name}: {:#}", document["findings"]);
        assert!(total(&document, "unverifiable") > 1000, "{name}: {:#}", document["totals"]);
        let wrong = findings(&document).iter().filter(|finding| finding["reason"] == "wrong_key");
        let words: Vec<_> = wrong.map(|finding| finding["message"].as_str().expect("a message")).collect();
        assert!(words.len() > 20, "{name}: {} findings of a wrong key", words.len());
        let say_so = |words: &&str| words.contains("does not open it") || words.contains("is not the one");
        assert!(words.iter().all(say_so), "{name}: {words:?}");
        let table = all_datadirs().join(name).join("shop/n.ibd").display().to_string();
        for job in [["table", "check"], ["table", "count"], ["table", "export"]] {
            let run = Run::of(&innokit().args(job).args(&options).arg(&table).output().expect("innokit runs"));
            assert_eq!(run.status, 2, "{name}: {job:?}: {} {}", run.text, run.errors);
            let said = format!("{}{}", run.text, run.errors);
            assert!(
                !said.contains("damage") && (said.contains("does not open it") || said.contains("is not the one")),
                "{said}"
            );
        }
    }
}

/// The same keyring with different keys under the same names.
fn other_keys(keyring: &str) -> String {
    let mut document: Value = serde_json::from_str(keyring).expect("the component's file is JSON");
    let elements = document["elements"].as_array_mut().expect("elements");
    assert_eq!(elements.len(), 2, "a master key and the one after its rotation");
    for element in elements {
        element["data"] = "0123456789ABCDEF".repeat(4).into();
    }
    document.to_string()
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_key_file_that_its_password_does_not_open_is_refused() {
    let keys = all_datadirs().join(".mariadb-16k-crc32-enc.server/keys").display().to_string();
    let run = check(&all_datadirs().join("mariadb-16k-crc32-enc"), &["--key-file", &format!("{keys},another")]);
    assert_eq!((run.status, run.text.as_str()), (2, ""));
    assert!(run.errors.contains("does not decrypt with the key given for it"), "{}", run.errors);
}

// --- One damaged byte ------------------------------------------------------------------------------------------------------

/// The file of a datadir, with the `*` of its name filled in.
fn path_of(file: &str) -> PathBuf {
    let path = all_datadirs().join(file);
    let (folder, name) = (path.parent().expect("a folder"), path.file_name().expect("a name").to_string_lossy());
    let Some((start, end)) = name.split_once('*') else { return path.clone() };
    let names = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut fitting: Vec<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with(start) && name.ends_with(end))
        .collect();
    fitting.sort();
    folder.join(fitting.first().unwrap_or_else(|| panic!("no {file}")))
}

/// Whether the first extent descriptors have the page in use. Damage to a free page loses nothing.
fn in_use(page0: &[u8], page: usize) -> bool {
    const DESCRIPTORS: usize = 150;
    // With 16 KiB pages: 64 pages per extent, 40 bytes per descriptor, its bitmap at 24, and the low bit of each pair means "free".
    let byte = DESCRIPTORS + 40 * (page / 64) + 24 + page % 64 / 4;
    page0.get(byte).is_some_and(|bits| byte < page0.len() - 64 && bits >> (page % 4 * 2) & 1 == 0)
}

/// Pages of this kind that are in use, before the second descriptor page.
fn pages_of(bytes: &[u8], size: usize, kind: &Kind) -> Vec<usize> {
    let Kind(_, _, layout, wanted) = kind;
    let pages = bytes.chunks_exact(size).enumerate().skip(1).take(size / 64 * 64 - 1);
    let fits = |page: &[u8]| page.iter().any(|byte| *byte != 0) && (layout.is)(page);
    let typed = |page: &[u8]| wanted.is_none_or(|wanted| page_type(page) == wanted);
    pages
        .filter(|(number, page)| in_use(&bytes[..size], *number) && typed(page) && fits(page))
        .map(|(at, _)| at)
        .collect()
}

/// Damages one byte in each of many pages, checks the file, and compares the reported pages with the expected ones. Returns the number of
/// bytes; mismatches go to `faults`.
fn damage_each_place(kind: &Kind, faults: &mut Vec<String>) -> usize {
    let Kind(title, file, layout, _) = kind;
    let source = path_of(file);
    let bytes = std::fs::read(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let keys = keys_of(file.split('/').next().expect("a datadir"));
    let dir = Dir::new();
    let path = dir.file(&source.file_name().expect("a name").to_string_lossy(), &bytes);
    let copy = std::fs::OpenOptions::new().write(true).open(&path).expect("a copy");
    let (sound, status) = check_with(&path, &keys);
    assert_eq!(status, 0, "{file}: {:#}", sound["findings"]);
    let size = sound["files"][0]["page_size"].as_u64().expect("a size") as usize;
    let pages = pages_of(&bytes, size, kind);
    assert!(!pages.is_empty(), "{title}: no such page in {file}");
    let flip = |page: usize, run: &Range<usize>, mask: u8| {
        let run = page * size + run.start..page * size + run.end;
        let flipped: Vec<u8> = bytes[run.clone()].iter().map(|byte| byte ^ mask).collect();
        copy.write_all_at(&flipped, run.start as u64).expect("written");
    };
    let places = layout.places(&bytes[pages[0] * size..][..size]).len();
    for first in (0..places).step_by(pages.len()) {
        // The end of the stored part differs from page to page.
        let place_of = |(page, place): (&usize, usize)| {
            Some((*page, layout.places(&bytes[page * size..][..size]).get(place)?.clone()))
        };
        let chosen: Vec<(usize, (Range<usize>, Said))> = pages.iter().zip(first..places).filter_map(place_of).collect();
        chosen.iter().for_each(|(page, (run, _))| flip(*page, run, FLIP));
        let (document, status) = check_with(&path, &keys);
        let damage = findings(&document).iter().filter(|finding| finding["severity"] == "damage");
        let told: BTreeSet<usize> = damage.map(|finding| finding["page"].as_u64().expect("a page") as usize).collect();
        let pages_of = |said| chosen.iter().filter(move |(_, (_, expected))| *expected == said).map(|(page, _)| *page);
        let (expected, undecided) =
            (pages_of(Said::Damage).collect::<BTreeSet<_>>(), pages_of(Said::Undecided).count());
        let expected_status = if !expected.is_empty() { 1 } else { 2 * i32::from(undecided > 0) };
        if told != expected || total(&document, "unverifiable") != undecided as u64 || status != expected_status {
            let missed: Vec<_> =
                chosen.iter().filter(|(page, _)| told.contains(page) != expected.contains(page)).collect();
            faults.push(format!(
                "{title}: {file}: {missed:?} of {chosen:?}: status {status}, {:#}",
                document["findings"]
            ));
        }
        chosen.iter().for_each(|(page, (run, _))| flip(*page, run, 0));
    }
    places
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn one_damaged_byte_in_any_kind_of_mysql_page_is_found_where_it_lies() {
    let mut faults = Vec::new();
    let places: usize = MYSQL.iter().map(|kind| damage_each_place(kind, &mut faults)).sum();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(places > 500, "{places} places");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn one_damaged_byte_in_any_kind_of_mariadb_page_is_found_where_it_lies() {
    let mut faults = Vec::new();
    let places: usize = MARIADB.iter().map(|kind| damage_each_place(kind, &mut faults)).sum();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(places > 600, "{places} places");
}

/// Their checksum covers the encrypted bytes. On pages that are also compressed, the server does not verify it under the older scheme, so
/// it can only show that a page is intact.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn without_keys_damage_to_the_encrypted_bytes_of_mariadb_is_found() {
    let both = Kind("both", "mariadb-16k-crc32-enc/shop/secret_page_lz4.ibd", &MARIADB_BOTH, ANY);
    let kinds = [
        (Kind("full_crc32", "mariadb-16k-enc/shop/row_dynamic.ibd", &FULL_ENCRYPTED, ANY), 1, "checksum_mismatch"),
        (Kind("both", "mariadb-16k-enc/shop/secret_page_lz4.ibd", &FULL_BOTH, ANY), 1, "checksum_mismatch"),
        (Kind("crc32", "mariadb-16k-crc32-enc/shop/row_dynamic.ibd", &MARIADB_ENCRYPTED, ANY), 1, "checksum_mismatch"),
        (Kind("zip", "mariadb-16k-crc32-enc/shop/zip_8k.ibd", &MARIADB_ENCRYPTED, INDEX), 1, "checksum_mismatch"),
        (both, 2, "encrypted_no_key"),
    ];
    for (kind, expected, reason) in kinds {
        let Kind(title, file, layout, _) = &kind;
        let mut bytes = std::fs::read(path_of(file)).expect("a table");
        let size = if file.contains("zip_8k") { 8192 } else { 16384 };
        let page = pages_of(&bytes, size, &kind)[3];
        let middle = layout.start.midpoint((layout.end)(&bytes[page * size..][..size]));
        bytes[page * size + middle] ^= 1;
        let dir = Dir::new();
        let (document, status) = check_json(&dir.file("t.ibd", &bytes), &[]);
        assert_eq!((status, reasons(&document)), (expected, vec![reason]), "{title}: {:#}", document["findings"]);
        let named = document["findings"][0]["page"].as_u64();
        assert_eq!(named, (expected == 1).then_some(page as u64), "{title}");
    }
}

// --- What is reported about opened pages ------------------------------------------------------------------------------------

/// The records of each index by id, delete-marked ones included: once from `info`, which adds up page headers, and once from `table count`,
/// which walks the tree.
fn records(path: &Path, keys: &[String]) -> [Vec<(u64, u64)>; 2] {
    let run = |command: &[&str]| -> Value {
        let output = innokit().args(command).arg("--json").args(keys).arg(path).output().expect("innokit runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let (info, count) = (run(&["info"]), run(&["table", "count"]));
    let tablespace = &info["files"][0]["tablespace"];
    assert_eq!(tablespace["pages"]["unopened"], 0, "{}", path.display());
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{}: no number: {info:#}", path.display()));
    let rows = |list: &Value, id: &str, sum: &[&str]| {
        let rows = list.as_array().expect("rows").iter();
        let mut rows: Vec<_> =
            rows.map(|row| (number(&row[id]), sum.iter().map(|field| number(&row[*field])).sum())).collect();
        rows.sort_unstable();
        rows
    };
    [
        rows(&tablespace["indexes"], "index_id", &["records"]),
        rows(&count["files"][0]["indexes"], "id", &["rows", "deleted"]),
    ]
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn with_their_keys_files_are_described_as_if_they_were_plain() {
    for name in ENCRYPTED.iter().chain(&COMPRESSED) {
        let mut tables = 0;
        for entry in std::fs::read_dir(all_datadirs().join(name).join("shop")).expect("a directory") {
            let path = entry.expect("an entry").path();
            // MariaDB stores the definition of instantly added or dropped columns as one extra record.
            let is_table = path.extension().is_some_and(|extension| extension == "ibd");
            if is_table && !path.to_string_lossy().contains("/instant") {
                let [info, count] = records(&path, &keys_of(name));
                assert_eq!(info, count, "{}", path.display());
                tables += 1;
            }
        }
        assert!(tables > 3, "{name}: {tables} tables");
    }
}

// --- The documentation's table ----------------------------------------------------------------------------------------------

/// Every test that the documentation page names exists, and every row of its tables names one.
fn assert_tests_of_page(page: &str, at_least: usize) {
    let page = std::fs::read_to_string(repository().join(page)).expect(page);
    let quoted = page.split('`').skip(1).step_by(2);
    let is_test = |words: &&str| {
        ["innokit::", "format::", "logs::", "flow::", "datadir::", "inspect::", "recovery::", "redo::"]
            .iter()
            .any(|crate_| words.starts_with(crate_))
    };
    let names: BTreeSet<&str> = quoted.filter(is_test).collect();
    assert!(names.len() >= at_least, "{} tests are named", names.len());
    for name in names {
        let parts: Vec<&str> = name.split("::").collect();
        let tests = |package: &str| repository().join(format!("crates/{package}/tests"));
        let (places, test) = match parts[..] {
            [package, file, test] => {
                // Programs of several files have a folder each, and pages name the file.
                let programs = std::fs::read_dir(tests(package)).expect("tests").map(|entry| entry.expect("an entry"));
                let within = programs.map(|program| program.path().join(file).with_extension("rs"));
                // A test beside the code is named by the file of the code.
                let beside = repository().join(format!("crates/{package}/src/{file}.rs"));
                let file = tests(package).join(file);
                let alone = [file.with_extension("rs"), file.join("main.rs"), beside];
                (alone.into_iter().chain(within).collect(), test)
            }
            [package, file, module, test] => (vec![tests(package).join(file).join(module).with_extension("rs")], test),
            _ => panic!("{name}: crate::file::test, or crate::file::module::test"),
        };
        // A program and one of its files may share a name.
        let sources: Vec<String> = places.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        assert!(!sources.is_empty(), "{name}: {places:?}");
        let test = format!("fn {test}(");
        assert!(sources.iter().any(|source| source.contains(&test)), "{name} does not exist");
    }
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.contains("---"));
    let without = rows.filter(|row| !row.contains("::") && !row.ends_with("| test |") && !row.ends_with("| more |"));
    assert_eq!(without.collect::<Vec<_>>(), [""; 0], "rows without a test");
}

#[test]
fn every_test_that_the_page_of_formats_names_exists() {
    assert_tests_of_page("docs/formats.md", 50);
}

#[test]
fn every_test_that_the_page_of_faults_names_exists() {
    assert_tests_of_page("docs/faults.md", 25);
}

#[test]
fn every_test_that_a_decision_names_exists() {
    let folder = std::fs::read_dir(repository().join("docs/decisions")).expect("docs/decisions");
    for entry in folder {
        let path = entry.expect("an entry").path();
        let page = std::fs::read_to_string(&path).expect("a page");
        // Packages are tested by a separate target that takes too long for the suite.
        if let Some(target) = page.split_once("**Held by** `make ").and_then(|(_, rest)| rest.split('`').next()) {
            let makefile = std::fs::read_to_string(repository().join("Makefile")).expect("Makefile");
            assert!(makefile.contains(&format!("\n{target}:")), "{}: make {target}", path.display());
        } else {
            assert_tests_of_page(path.to_str().expect("a path"), 1);
        }
    }
}
