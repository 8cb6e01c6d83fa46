//! `innokit recover` on a killed server's datadir, and on directories that are not datadirs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Dir, all_datadirs, innokit, keys_of};
use format::{Algorithm, Lsn, Scheme, SpaceFormat, seal_page};
use serde_json::Value;
use tempfile::TempDir;

/// Standard output, standard error, exit status.
fn recover(datadir: &Path, options: &[&str]) -> (String, String, Option<i32>) {
    let output = innokit().arg("recover").args(options).arg(datadir).output().expect("innokit runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_copy_is_recovered_once_and_is_clean_then() {
    let crashed = all_datadirs().join("mariadb-16k-crashed");
    let dir = TempDir::new().expect("a directory");
    let copy = dir.path().join("copy");
    let to = copy.to_str().expect("a name");
    let (text, errors, status) = recover(&crashed, &["--dry-run"]);
    assert!(status == Some(0) && text.contains("would be changed"), "{text}{errors}");
    let (text, errors, status) = recover(&crashed, &["--to", to, "--json"]);
    assert_eq!(status, Some(0), "{errors}");
    let done: Value = serde_json::from_str(&text).expect("JSON");
    assert!(done["pages_changed"].as_u64() > Some(0) && done["was_clean"] == false, "{text}");
    let listed = fs::read_to_string(copy.join("ib_buffer_pool")).expect("a list").lines().count();
    assert_eq!(done["pages_to_load"].as_u64(), Some(listed as u64), "{text}");
    let cold = dir.path().join("cold");
    let (text, errors, status) = recover(&crashed, &["--to", cold.to_str().expect("a name"), "--no-warm"]);
    assert!(status == Some(0) && !text.contains("ib_buffer_pool"), "{text}{errors}");
    assert!(!cold.join("ib_buffer_pool").exists());
    let (text, errors, status) = recover(&copy, &["--in-place"]);
    assert!(status == Some(0) && text.starts_with("nothing to recover"), "{text}{errors}");
    let (_, errors, status) = recover(&crashed, &["--dry-run", "--until", "1"]);
    assert!(status == Some(2) && errors.contains("checkpoint"), "{errors}");
    let (text, errors, status) = recover(&crashed, &["--dry-run", "--until", &u64::MAX.to_string(), "--json"]);
    assert_eq!(status, Some(0), "{errors}");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    assert!(all["end_lsn"] == done["end_lsn"] && all["mtrs_dropped"] == 0, "{text}");
    let (_, errors, status) = recover(&crashed, &["--to", to]);
    assert!(status == Some(2) && errors.contains("not empty"), "{errors}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn it_writes_in_place_only_when_it_is_told_to_and_says_so() {
    let dir = TempDir::new().expect("a directory");
    let from = all_datadirs().join("mariadb-16k-crashed");
    for (path, bytes) in contents(&from) {
        let to = dir.path().join(path.strip_prefix(&from).expect("below it"));
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        fs::write(to, bytes).expect("written");
    }
    let before = contents(dir.path());
    let (_, errors, status) = recover(dir.path(), &[]);
    assert!(status == Some(2) && errors.contains("--in-place") && errors.contains("--to"), "{errors}");
    let (_, errors, status) = recover(dir.path(), &["--in-place", "--to", "elsewhere"]);
    assert!(status == Some(2) && errors.contains("--in-place"), "{errors}");
    let (_, errors, status) = recover(dir.path(), &["--in-place", "--dry-run"]);
    assert!(status == Some(0) && !errors.contains("in place"), "{errors}");
    assert!(contents(dir.path()) == before, "nothing was written");
    let (_, errors, status) = recover(dir.path(), &["--in-place"]);
    assert!(status == Some(0) && errors.starts_with("recovering ") && errors.contains(" in place: "), "{errors}");
    assert!(contents(dir.path()) != before);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_copy_that_could_not_be_recovered_is_not_left_behind() {
    let dir = TempDir::new().expect("a directory");
    let (crashed, to) = (dir.path().join("crashed"), dir.path().join("to"));
    let from = all_datadirs().join("mariadb-16k-crashed");
    for (path, mut bytes) in contents(&from) {
        let name = path.strip_prefix(&from).expect("below it");
        if name.starts_with("shop") && name.extension().is_some_and(|extension| extension == "ibd") {
            // Damage pages that the log changes, whichever they are. Never-written pages stay zero.
            let written = |page: &&mut [u8]| page.iter().any(|byte| *byte != 0);
            bytes.chunks_exact_mut(16384).skip(4).filter(written).for_each(|page| page[9000] ^= 1);
        }
        fs::create_dir_all(crashed.join(name).parent().expect("a folder")).expect("made");
        fs::write(crashed.join(name), bytes).expect("written");
    }
    let options = ["--to", to.to_str().expect("UTF-8")];
    let (_, errors, status) = recover(&crashed, &options);
    assert_eq!(status, Some(1), "{errors}");
    assert!(!to.exists(), "{errors}");
    // Foreign files stay.
    fs::create_dir(&to).expect("made");
    fs::write(to.join("mine"), b"x").expect("written");
    assert_eq!(recover(&crashed, &options).2, Some(2));
    assert!(to.join("mine").exists());
}

/// Gives pages from `first` on of the tables in `shop` an LSN past the end of every log here, under correct checksums.
fn from_the_future(from: &Path, to: &Path, first: usize) {
    const LSN: Lsn = Lsn(1 << 40);
    for (path, mut bytes) in contents(from) {
        let name = path.strip_prefix(from).expect("below it");
        let is_table = name.starts_with("shop") && name.extension().is_some_and(|extension| extension == "ibd");
        if let (true, Ok(format)) = (is_table, SpaceFormat::from_page0(&bytes)) {
            let size = format.physical().bytes();
            let algorithm = if format.scheme() == Scheme::FullCrc32 { Algorithm::FullCrc32 } else { Algorithm::Crc32 };
            let written = |page: &&mut [u8]| page.iter().any(|byte| *byte != 0);
            for page in bytes.chunks_exact_mut(size).skip(first).filter(written) {
                seal_page(page, LSN, algorithm, &format).expect("sealed");
            }
        }
        fs::create_dir_all(to.join(name).parent().expect("a folder")).expect("made");
        fs::write(to.join(name), bytes).expect("written");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn pages_newer_than_the_log_are_refused() {
    // The header of a log that is to be applied and of one that is not, and pages that the redo changes, which nothing reads before.
    let cases = [("mysql-16k", 0), ("mariadb-16k", 0), ("mysql-16k-crashed", 0), ("mariadb-16k-crashed", 0)];
    let later = [("mysql-16k-crashed", 5), ("mariadb-16k-crashed", 5)];
    for (name, first) in cases.into_iter().chain(later) {
        let dir = TempDir::new().expect("a directory");
        from_the_future(&all_datadirs().join(name), dir.path(), first);
        let before = contents(dir.path());
        let (text, errors, status) = recover(dir.path(), &["--in-place"]);
        assert!(status == Some(1) && errors.contains("was written at LSN 1099511627776"), "{name}: {text}{errors}");
        assert!(errors.contains("the redo log ends at LSN") && errors.contains("another server"), "{name}: {errors}");
        assert!(first > 0 || contents(dir.path()) == before, "{name}: nothing is written");
    }
}

#[test]
fn a_log_of_an_older_server_is_refused_and_says_whose_it_is() {
    let dir = TempDir::new().expect("a directory");
    fs::write(dir.path().join("ibdata1"), [0; 4096]).expect("written");
    for (format, server) in [(1_u32, "MariaDB 10.2"), (103, "MariaDB 10.3"), (0x8000_0068, "MariaDB 10.4")] {
        let mut log = vec![0; 1 << 20];
        log[..4].copy_from_slice(&format.to_be_bytes());
        fs::write(dir.path().join("ib_logfile0"), log).expect("written");
        let (_, errors, status) = recover(dir.path(), &["--dry-run"]);
        assert_eq!(status, Some(2), "{errors}");
        assert!(errors.contains(server), "{errors}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_encrypted_datadir_is_read_with_its_key_file_plain_or_encrypted() {
    for name in ["mariadb-16k-enc", "mariadb-16k-crc32-enc"] {
        let keys = keys_of(name);
        let options: Vec<&str> = ["--dry-run"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let (text, errors, status) = recover(&all_datadirs().join(name), &options);
        assert!(status == Some(0) && text.starts_with("nothing to recover"), "{text}{errors}");
        let dir = Dir::new();
        let wrong = dir.file("keys", b"1;00000000000000000000000000000001\n");
        let wrong = ["--dry-run", "--key-file", wrong.to_str().expect("a name")];
        let (text, errors, status) = recover(&all_datadirs().join(name), &wrong);
        assert!(status == Some(2) && errors.contains("is it the key of this server?"), "{text}{errors}");
    }
}

/// MiB of itself that the tests' program may have in memory beyond what users' has: it is not optimised, and three times as large. The kernel
/// maps more or less of it around each page that is used.
const LARGER: u64 = 24;

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn it_takes_no_more_memory_than_it_may() {
    let crashed = all_datadirs().join("mariadb-16k-crashed");
    let dir = TempDir::new().expect("a directory");
    let to = dir.path().join("copy");
    for options in [vec!["--dry-run"], vec!["--to", to.to_str().expect("a name")]] {
        let (text, errors, status) = recover(&crashed, &[&options[..], &["--verbose", "--memory", "64M"]].concat());
        assert_eq!(status, Some(0), "{text}{errors}");
        let peak = errors.split("peak memory ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
        let peak: u64 = peak.parse().expect("MiB");
        assert!(peak <= 64 + LARGER, "{errors}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_is_not_recovered_is_refused_with_a_reason() {
    let dir = TempDir::new().expect("a directory");
    let made = all_datadirs();
    for (datadir, why) in [
        (dir.path().to_path_buf(), "not a datadir"),
        (made.join("mariadb-16k-enc"), "encrypted"),
        (made.join("mariadb-16k-crc32-enc"), "encrypted"),
    ] {
        let (text, errors, status) = recover(&datadir, &["--dry-run"]);
        assert!(status == Some(2) && errors.contains(why) && text.is_empty(), "{text}{errors}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn more_tablespaces_than_a_process_may_have_open_at_first_are_recovered() {
    let crashed = all_datadirs().join("mariadb-16k-crashed");
    let (text, errors, status) = recover(&crashed, &["--dry-run", "--json"]);
    assert_eq!(status, Some(0), "{errors}");
    let done: Value = serde_json::from_str(&text).expect("JSON");
    let few = done["tablespaces"].as_u64().expect("a number");
    let mut limited = Command::new("bash");
    limited.args(["-c", &format!("ulimit -Sn {few}; exec \"$0\" \"$@\"")]);
    limited.arg(env!("CARGO_BIN_EXE_innokit")).args(["recover", "--dry-run", "--json"]).arg(&crashed);
    let output = limited.output().expect("bash runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut again: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    again["started_at"] = done["started_at"].clone();
    assert_eq!(again, done);
}

/// Path and bytes of every file below a directory.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.push((path.clone(), fs::read(&path).expect("reads")));
        }
    }
    all.sort();
    all
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn each_idea_of_recovery_is_measured_and_the_datadir_is_only_read() {
    let crashed = all_datadirs().join("mariadb-16k-crashed");
    let before = contents(&crashed);
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let chart = dir.path().join("recover.svg");
    let on_device = dir.path().join("device");
    fs::create_dir(&on_device).expect("a directory");
    let mut bench = innokit();
    bench.args(["bench", "recover", "--json", "--rounds=1", "--chart"]).arg(&chart);
    let output = bench.arg("--on-device").arg(&on_device).arg(&crashed).output().expect("innokit runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let steps = report["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 7);
    let number = |step: &Value, name: &str| step["simulated"][name].as_f64().expect("a number");
    // The last case has no meaning on a device that reads the log first.
    let (serial, all) = (&steps[0], &steps[5]);
    assert_eq!(steps[6]["simulated"], Value::Null);
    assert!(number(serial, "in_flight_max") <= 1.0 && number(all, "in_flight_max") > 8.0, "{report}");
    assert!(number(all, "reads") < number(serial, "reads") / 2.0, "neighbours share a request: {report}");
    assert!(number(all, "times_serial") >= 3.0, "{report}");
    assert!(steps.iter().all(|step| step["seconds"]["median"].as_f64() > Some(0.0)), "{report}");
    roxmltree::Document::parse(&fs::read_to_string(&chart).expect("drawn")).expect("XML");
    assert_eq!(fs::read_dir(&on_device).expect("is there").count(), 0, "nothing is left behind");
    assert!(contents(&crashed) == before, "the datadir was only read");
    let clean = innokit().args(["bench", "recover"]).arg(all_datadirs().join("mariadb-16k")).output().expect("runs");
    assert_eq!(clean.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&clean.stderr).contains("nothing to recover"), "{clean:?}");
}
