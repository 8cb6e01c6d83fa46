//! Names that promise something small, with something endless behind them.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{Dir, Run, all_datadirs, fixture, innokit};

/// Runs a command that must end by itself, and not wait for a pipe.
fn ends(words: &[&str], path: &Path) -> Run {
    let mut child = innokit()
        .args(words)
        .arg(path)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("innokit runs");
    let (mut waited, step) = (Duration::ZERO, Duration::from_millis(50));
    while child.try_wait().expect("asked").is_none() && waited < Duration::from_secs(60) {
        std::thread::sleep(step);
        waited += step;
    }
    if child.try_wait().expect("asked").is_none() {
        child.kill().expect("killed");
        panic!("{words:?} waits");
    }
    Run::of(&child.wait_with_output().expect("ended"))
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

fn peak_mib(run: &Run) -> u64 {
    let line = run.errors.lines().find(|line| line.contains("peak memory")).expect("the peak");
    line.split_whitespace().nth_back(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn small_files_that_are_huge_are_not_read_whole() {
    let dir = Dir::new();
    let from = all_datadirs().join("mariadb-16k");
    for name in ["ibdata1", "shop/row_compact.ibd"] {
        dir.file(name, &std::fs::read(from.join(name)).expect("a file"));
    }
    let encrypted = all_datadirs().join("mysql-16k-tde/shop");
    let locked = std::fs::read_dir(encrypted).expect("a folder").flatten().map(|entry| entry.path());
    let locked =
        locked.filter(|path| path.extension().is_some_and(|extension| extension == "ibd")).min().expect("a table");
    dir.file("shop/locked.ibd", &std::fs::read(locked).expect("a file"));
    for name in ["shop/x.isl", "shop/row_compact.frm", "shop/locked.cfp", "xtrabackup_checkpoints"] {
        let path = dir.file(name, b"/nowhere");
        std::fs::OpenOptions::new().write(true).open(path).expect("opens").set_len(1_500_000_000).expect("grows");
    }
    for words in [&["check", "-v", "--tables"][..], &["table", "check", "-v"]] {
        let run = ends(words, dir.path());
        assert!(peak_mib(&run) < 400, "{words:?}: {} MiB", peak_mib(&run));
    }
    let run = ends(&["check"], dir.path());
    assert!(run.text.contains("x.isl: not checked: longer than the 8192 bytes"), "{}", run.text);
}

#[test]
fn pipes_and_what_the_kernel_makes_up_are_passed_over_with_a_word() {
    let dir = Dir::new();
    let mut damaged = fixture("mariadb-10.11/dynamic-16k.ibd");
    damaged[4 * 16384 + 9000] ^= 1;
    dir.file("shop/t.ibd", &damaged);
    dir.file("ibdata1", &fixture("mariadb-10.11/dynamic-16k.ibd"));
    for name in ["shop/t.frm", "shop/t.cfp", "shop/l.isl", "shop/p.ibd", "ib_logfile0", "xtrabackup_checkpoints", "odd"]
    {
        pipe(&dir.path().join(name));
    }
    let run = ends(&["check", "-v"], dir.path());
    assert!(run.text.contains("shop/p.ibd: skipped: a named pipe"), "{}", run.text);
    ends(&["table", "check"], dir.path());
    assert_eq!(ends(&["check"], &dir.path().join("odd")).status, 2);
    if Path::new("/proc/self").exists() {
        let run = ends(&["check", "-v"], Path::new("/proc/self"));
        assert!(run.text.contains("made up by the kernel"), "{}", run.text);
        assert_eq!(ends(&["check"], Path::new("/proc/self/status")).status, 2);
    }
}
