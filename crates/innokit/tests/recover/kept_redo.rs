//! Recovery from a redo log that MariaDB 13.0 keeps as an archive, written by the rules of its sources: the pages become those that the same
//! log makes as a ring.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::{Dir, all_datadirs, check, copy, innokit};
use crate::kept_lab::keep;

fn recover(args: &[&str], paths: &[&Path]) -> Output {
    innokit().arg("recover").args(args).args(paths).output().expect("innokit runs")
}

fn succeeded(run: &Output) {
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// All files but those of the log, with a sum of their bytes.
fn files(dir: &Path) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() {
                left.push(path);
            } else if !name.starts_with("ib_") || name == "ib_buffer_pool" {
                let sum = format::checksum::crc32c(&fs::read(&path).expect("readable"));
                found.insert(path.strip_prefix(dir).expect("beneath it").display().to_string(), sum);
            }
        }
    }
    found
}

fn info(datadir: &Path) -> serde_json::Value {
    let run = innokit().args(["redo", "info", "--json"]).arg(datadir).output().expect("innokit runs");
    serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&run.stderr)))
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_pages_become_what_the_ring_makes_of_them() {
    let dir = Dir::new();
    let at = |name: &str| dir.path().join(name);
    copy(&all_datadirs().join("mariadb-16k-crashed"), &at("ring"));
    copy(&at("ring"), &at("kept"));
    let log = keep(&at("kept"), 1000);
    for until in [None, Some(log.checkpoint + (log.end - log.checkpoint) * 3 / 4)] {
        let until = until.map(|lsn| lsn.to_string());
        let args: Vec<&str> = until.iter().flat_map(|lsn| ["--until", lsn.as_str()]).chain(["--to"]).collect();
        for from in ["ring", "kept"] {
            succeeded(&recover(&args, &[&at(&format!("{from}.new")), &at(from)]));
        }
        assert_eq!(files(&at("kept.new")), files(&at("ring.new")), "{until:?}");
        let (ring, kept) = (info(&at("ring.new")), info(&at("kept.new")));
        assert_eq!((&kept["state"], &kept["checkpoint"]), (&serde_json::json!("clean"), &ring["checkpoint"]));
        let run = check(&at("kept.new"), &[]);
        assert_eq!(run.status, check(&at("ring.new"), &[]).status, "{}", run.text);
        // Nothing is left of what came after the moment.
        let names = fs::read_dir(at("kept.new")).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        let is_log = |name: &str| name.starts_with("ib_") && name.ends_with(".log");
        let logs = names.filter(|name| is_log(&name.to_string_lossy())).count();
        assert_eq!(logs, if until.is_some() { 1 } else { log.files.len() });
        for made in ["ring.new", "kept.new"] {
            fs::remove_dir_all(at(made)).expect("removed");
        }
    }
    // As a view, and in place.
    let run = check(&at("kept"), &["--recovered"]);
    assert_eq!(run.status, check(&at("ring"), &["--recovered"]).status, "{}", run.text);
    let run = recover(&["--in-place", "--until", &log.end.to_string()], &[&at("kept")]);
    assert!(String::from_utf8_lossy(&run.stderr).contains("name a directory for a recovered copy"));
    succeeded(&recover(&["--in-place"], &[&at("kept")]));
    succeeded(&recover(&["--in-place"], &[&at("ring")]));
    assert_eq!(files(&at("kept")), files(&at("ring")));
    let again = recover(&["--in-place"], &[&at("kept")]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing to recover"), "it was closed");
}

/// A file of the log, what breaks it, and the words of the refusal.
type Case<'c> = (usize, &'c dyn Fn(&mut Vec<u8>), &'c str);

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_damaged_one_is_refused_before_anything_is_written() {
    let dir = Dir::new();
    let (kept, new) = (dir.path().join("kept"), dir.path().join("new"));
    copy(&all_datadirs().join("mariadb-16k-crashed"), &kept);
    let log = keep(&kept, 1000);
    let sound: Vec<Vec<u8>> = log.files.iter().map(|file| fs::read(file).expect("readable")).collect();
    let in_second = |file: &mut Vec<u8>| file[1 << 20] ^= 1;
    let list = |file: &mut Vec<u8>| file[..8].fill(0xff);
    let cases: [Case<'_>; 3] = [
        (1, &in_second, "the redo log is damaged from LSN"),
        (0, &list, "its header is neither"),
        (0, &Vec::clear, "names no checkpoint"),
    ];
    for (file, act, words) in cases {
        let mut bytes = sound[file].clone();
        act(&mut bytes);
        fs::write(&log.files[file], bytes).expect("written");
        let run = recover(&["--to"], &[&new, &kept]);
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && errors.contains(words), "{words}: {errors}");
        assert!(!new.exists(), "nothing is made");
        fs::write(&log.files[file], &sound[file]).expect("written");
    }
}
