//! Datadirs of real servers (`scripts/make-datadirs.sh`, run by `make test`): no false alarms, and the same page counts as the servers' own
//! tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Dir, all_datadirs, check, check_json, is_torn_end, repository, total};
use serde_json::Value;

/// All datadirs whose name starts with `family`.
fn of_family(family: &str) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(all_datadirs()).expect("datadirs").map(|entry| entry.expect("an entry").path());
    let mut dirs: Vec<_> = entries
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), path))
        .filter(|(name, path)| name.starts_with(family) && path.is_dir())
        // Encrypted and page-compressed datadirs have their own tests.
        .filter(|(name, _)| !name.ends_with("-tde") && !name.ends_with("-enc") && !name.ends_with("-compressed"))
        .collect();
    dirs.sort();
    dirs
}

/// The number of pages in a file according to the server's own tool.
fn innochecksum_count(family: &str, path: &Path) -> u64 {
    let script = repository().join("scripts/server.sh");
    let output = Command::new(script).args([family, "innochecksum", "--count"]).arg(path).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split(|letter: char| !letter.is_ascii_digit()).find_map(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("{}: {text}{}", path.display(), String::from_utf8_lossy(&output.stderr)))
}

fn files(document: &Value) -> &Vec<Value> {
    document["files"].as_array().expect("files")
}

/// What must hold for every datadir of a cleanly stopped server.
fn assert_sound(name: &str, dir: &Path, options: &[&str]) -> Value {
    let (document, status) = check_json(dir, options);
    assert_eq!(document["findings"].as_array().map(Vec::len), Some(0), "{name}: {:#}", document["findings"]);
    assert_eq!(status, 0, "{name}");
    assert_eq!(total(&document, "corrupt") + total(&document, "unverifiable") + total(&document, "failed_files"), 0);
    assert!(total(&document, "files") > 40 && total(&document, "ok") > 300, "{name}: {:#}", document["totals"]);
    for file in files(&document) {
        let path = file["path"].as_str().expect("a path");
        let len = std::fs::metadata(path).expect("there").len();
        assert_eq!(file["bytes"].as_u64(), Some(len), "{path}: every byte once");
    }
    document
}

fn assert_family(family: &str, expected: &[&str]) {
    let dirs = of_family(family);
    for name in expected {
        assert!(dirs.iter().any(|(dir, _)| dir == name), "no datadir {name}");
    }
    for (name, dir) in dirs.iter().filter(|(name, _)| !name.ends_with("-crashed")) {
        let document = assert_sound(name, dir, &["--io", "direct"]);
        assert_sound(name, dir, &["--io", "auto", "--engine", "threads"]);
        for file in files(&document) {
            let path = Path::new(file["path"].as_str().expect("a path"));
            // Their tools read only tablespaces, and cannot read a later file of the system tablespace alone because it has no header.
            if path.ends_with("ibdata2") || file["unit"] != "pages" {
                continue;
            }
            assert_eq!(file["pages"].as_u64(), Some(innochecksum_count(family, path)), "{}", path.display());
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_file_of_mysql_is_sound() {
    let sizes = ["mysql-4k", "mysql-8k", "mysql-16k", "mysql-32k", "mysql-64k"];
    assert_family("mysql", &[&sizes[..], &["mysql-16k-innodb", "mysql-16k-none"]].concat());
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_file_of_mariadb_is_sound() {
    let sizes = ["mariadb-4k", "mariadb-8k", "mariadb-16k", "mariadb-32k", "mariadb-64k"];
    assert_family("mariadb", &[&sizes[..], &["mariadb-16k-crc32"]].concat());
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn each_kind_of_file_and_checksum_is_among_them() {
    let (mut kinds, mut sizes) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for family in ["mysql", "mariadb"] {
        for (_, dir) in of_family(family) {
            let (document, _) = check_json(&dir, &[]);
            for file in files(&document) {
                let algorithm = file["algorithm"].as_str().unwrap_or("-");
                kinds.insert(format!("{family}: {}", file["kind"].as_str().expect("a kind")));
                kinds.insert(format!("{family}: {algorithm}"));
                sizes.insert(file["page_size"].as_u64().unwrap_or(0));
            }
        }
    }
    let wanted = [
        "mysql: system tablespace",
        "mysql: undo tablespace",
        "mysql: dictionary tablespace",
        "mysql: temporary tablespace",
        "mysql: tablespace",
        "mysql: crc32",
        "mysql: innodb",
        "mysql: none",
        "mariadb: system tablespace",
        "mariadb: undo tablespace",
        "mariadb: tablespace",
        "mariadb: crc32",
        "mariadb: full_crc32",
    ];
    for kind in wanted {
        assert!(kinds.contains(kind), "{kind} is not in {kinds:?}");
    }
    for size in [1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        assert!(sizes.contains(&size), "no pages of {size} bytes in {sizes:?}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn nothing_of_a_crashed_server_is_called_damaged() {
    for family in ["mysql", "mariadb"] {
        let dir = all_datadirs().join(format!("{family}-16k-crashed"));
        let (document, status) = check_json(&dir, &[]);
        assert_eq!(total(&document, "damage"), 0, "{:#}", document["findings"]);
        assert_ne!(status, 1);
        let undecided = document["findings"].as_array().expect("findings").iter();
        for finding in undecided.filter(|finding| finding["severity"] == "undecided" && !is_torn_end(finding)) {
            let message = finding["message"].as_str().expect("a message");
            assert!(message.contains("the redo log still has work to do"), "{message}");
        }
    }
}

/// The same zeroed page: lost if the log is clean, possibly not yet written if it is not.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_lost_page_is_damage_unless_the_redo_log_may_still_write_it() {
    for family in ["mysql", "mariadb"] {
        for (state, status) in [("-crashed", 2), ("", 1)] {
            let source = all_datadirs().join(format!("{family}-16k{state}"));
            let dir = Dir::new();
            let mut table = std::fs::read(source.join("shop/row_compact.ibd")).expect("a table");
            table[5 * 16384..6 * 16384].fill(0);
            let path = dir.file("shop/row_compact.ibd", &table);
            let redo = if family == "mysql" { "#innodb_redo" } else { "." };
            for entry in std::fs::read_dir(source.join(redo)).expect("redo logs").map(|entry| entry.expect("an entry"))
            {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("#ib_redo") || name.starts_with("ib_logfile") {
                    dir.file(&format!("{redo}/{name}"), &std::fs::read(entry.path()).expect("a log"));
                }
            }
            let run = check(&path, &[]);
            assert_eq!(run.status, status, "{family}{state}: {}", run.text);
            assert!(run.text.contains("page 5: "), "{}", run.text);
            assert_eq!(run.text.contains("crash recovery may yet fill it"), status == 2, "{}", run.text);
        }
    }
}
