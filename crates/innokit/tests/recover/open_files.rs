//! More tablespaces with changes in the log than a process may have open.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{innokit, repository};

/// Runs `recover` with a hard limit of open files.
fn recover(limit: u32, words: &[&str], data: &Path) -> Output {
    let program = innokit();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -Sn {limit} && ulimit -Hn {limit} && exec \"$0\" \"$@\"")]);
    shell.arg(program.get_program()).arg("recover").args(words).arg(data);
    shell.output().expect("sh runs")
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn more_changed_tables_than_open_files_are_recovered() {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let made = Command::new(repository().join("scripts/make-many-tables.sh"))
        .arg(&data)
        .args(["mariadb", "300", "100", "--dirty", "300"])
        .status()
        .expect("bash runs");
    assert!(made.success());
    a_log_with_many_tablespaces_is_summed_up(&data);
    let (few, many) = (folder.path().join("few"), folder.path().join("many"));
    for (limit, to) in [(64, &few), (1000, &many)] {
        let output = recover(limit, &["--json", "--to", to.to_str().expect("a path")], &data);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{limit}: {errors}");
        let done: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(done["tablespaces"].as_u64() >= Some(300), "{done}");
    }
    let none = folder.path().join("none");
    let refused = recover(48, &["--to", none.to_str().expect("a path")], &data);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && !none.exists(), "{errors}");
    assert!(["48 files open", "needs 64", "ulimit -n"].iter().all(|word| errors.contains(word)), "{errors}");
    for number in 0..300 {
        let name = format!("d{:05}/t{number:06}.ibd", number / 100);
        let [one, other] = [&few, &many].map(|to| fs::read(to.join(&name)).expect("there"));
        assert!(one == other && one != fs::read(data.join(&name)).expect("there"), "{name}");
    }
    let output = recover(64, &["--in-place"], &data);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for number in 0..300 {
        let name = format!("d{:05}/t{number:06}.ibd", number / 100);
        assert!(fs::read(data.join(&name)).expect("there") == fs::read(many.join(&name)).expect("there"), "{name}");
    }
}

fn a_log_with_many_tablespaces_is_summed_up(data: &Path) {
    let info = |more: &[&str]| {
        let output =
            innokit().args(["redo", "info", "--pages", "0"]).args(more).arg(data).output().expect("innokit runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let tables = |text: &str| text.lines().filter(|line| line.contains("/t0") && line.contains(".ibd")).count();
    let short = info(&[]);
    assert!(short.contains(" tablespaces are changed, in ") && short.contains("(--all lists them)"), "{short}");
    assert!(["d00000", "d00001", "d00002"].iter().all(|name| short.contains(name)) && tables(&short) <= 20, "{short}");
    assert_eq!(tables(&info(&["--all"])), 300);
}
