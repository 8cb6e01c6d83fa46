//! A sample of what `make soak` does with every command: system calls fail under it, and it runs in odd surroundings. Status, result and
//! leftovers keep the law that `scripts/faults.py` states.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::repository;

/// What the script says if it may not trace.
const SKIPPED: i32 = 77;
/// Of some 15,000. `INNOKIT_FAULTS=SEED` draws others.
const CASES: &str = "15";
/// Of some 1,900.
const AROUND: &str = "10";

/// Where `scripts/install-strace.sh` unpacks it.
fn fetched() -> PathBuf {
    let root = env::var_os("INNOKIT_SERVERS").map(PathBuf::from);
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/innokit");
    root.unwrap_or_else(home).join("strace/bin")
}

/// Runs the script on files that it makes first if they are not there.
fn keep_the_law(dir: &Path, words: &[&str], cases: Option<&str>) {
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(env::split_paths(&path).chain([fetched()])).expect("a path");
    let mut script = Command::new(repository().join("scripts/faults.py"));
    // A machine that does much else is no hang.
    script.args(["--innokit", env!("CARGO_BIN_EXE_innokit"), "--limit", "120"]).env("PATH", path).env("TMPDIR", dir);
    let set = dir.join("set");
    if !set.exists() {
        script.arg("--make").arg(&set);
    }
    let run = script.arg("--set").arg(&set).args(words).output().expect("python3 runs");
    let said = String::from_utf8_lossy(&run.stdout);
    println!("{said}");
    let is_kept = run.status.success() && cases.is_none_or(|cases| said.contains(&format!("{cases} cases")));
    assert!(is_kept || run.status.code() == Some(SKIPPED), "{said}{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_sample_of_failing_system_calls_and_odd_surroundings_is_no_damage_and_never_all_well() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let seed = env::var("INNOKIT_FAULTS").unwrap_or_else(|_| "1".to_owned());
    // Those that were wrong once.
    keep_the_law(dir.path(), &["--known"], None);
    keep_the_law(dir.path(), &["--known", "--around"], None);
    keep_the_law(dir.path(), &["--seed", &seed, "--sample", CASES], Some(CASES));
    keep_the_law(dir.path(), &["--around", "--seed", &seed, "--sample", AROUND], Some(AROUND));
}
