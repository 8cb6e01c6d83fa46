//! File systems of programs (sshfs, s3fs, gocryptfs): one page fails, or replies are short. With `direct_io`, Linux 6.18 then completes
//! requests of io_uring with their full length and other bytes. The bad page alone is named, and sound ones are well.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::common::{Dir, Run, fixture, innokit, repository};

const SAMPLE: &str = "mariadb-10.11/dynamic-16k.ibd";
const PAGE: usize = 16384;
const BAD: usize = 4;
/// What the script says if it may not mount.
const SKIPPED: i32 = 77;

/// The sample in a file system of its own.
struct Mount {
    dir: Dir,
    program: Child,
    input: Option<ChildStdin>,
}

impl Mount {
    /// `None` if this process may not mount.
    fn with(options: &[String]) -> Option<Self> {
        let dir = Dir::new();
        dir.file("t.ibd", &fixture(SAMPLE));
        Self::of(dir, "t.ibd", options)
    }

    /// Of a file in the folder.
    fn of(dir: Dir, name: &str, options: &[String]) -> Option<Self> {
        let below = dir.path().join("m");
        fs::create_dir(&below).expect("made");
        let mut command = Command::new(repository().join("scripts/fuse.py"));
        command.arg(below).arg(dir.path().join(name)).args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().expect("python3 runs");
        let (input, mut said) = (program.stdin.take(), String::new());
        BufReader::new(program.stdout.take().expect("piped")).read_line(&mut said).expect("it says something");
        if said.contains("skipped") {
            assert_eq!(program.wait().expect("it ends").code(), Some(SKIPPED));
            println!("{said}");
            return None;
        }
        assert_eq!(said, "ready\n");
        Some(Self { dir, program, input })
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("m/t.ibd")
    }

    fn check(&self, engine: &str, io: &str) -> Run {
        let mut command = innokit();
        command.args(["check", "--json", "--engine", engine, "--io", io]).arg(self.file());
        Run::of(&command.output().expect("innokit runs"))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.input.take());
        self.program.wait().expect("it ends");
    }
}

/// A disk with a bad sector: an ext4 file system on a loop device, over a file of which 16 KiB fail. The device goes with the mount
/// namespace. `None` if this process may not have one.
#[test]
fn a_page_that_a_block_device_cannot_read_is_the_only_one_named() {
    let (dir, bytes) = (Dir::new(), fixture(SAMPLE));
    dir.file("files/t.ibd", &bytes);
    let image = dir.file("image", b"");
    fs::File::options().write(true).open(&image).and_then(|file| file.set_len(16 << 20)).expect("a length");
    let mut mkfs = Command::new("/sbin/mkfs.ext4");
    mkfs.args(["-q", "-F", "-b", "4096", "-d"]).arg(dir.path().join("files")).arg(&image);
    if !mkfs.status().is_ok_and(|status| status.success()) {
        println!("skipped: no mkfs.ext4");
        return;
    }
    let page = &bytes[BAD * PAGE..(BAD + 1) * PAGE];
    let made = fs::read(&image).expect("read");
    let at = (0..made.len()).step_by(4096).find(|at| made[*at..].starts_with(page)).expect("the page in one piece");
    let Some(mount) = Mount::of(dir, "image", &["--eio".to_owned(), at.to_string()]) else { return };
    fs::create_dir(mount.dir.path().join("disk")).expect("made");
    for (engine, io) in ways() {
        let line = "mount -o ro,noload,loop m/image disk || exit 77; exec \"$0\" check --json --engine \"$1\" --io \"$2\" disk/t.ibd";
        let mut command = Command::new("unshare");
        command.args(["--mount", "bash", "-c", line, env!("CARGO_BIN_EXE_innokit"), engine, io]);
        let Ok(output) = command.current_dir(mount.dir.path()).output() else { return };
        let run = Run::of(&output);
        if run.status == 77 || run.errors.contains("unshare failed") {
            println!("skipped: no loop device: {}", run.errors);
            return;
        }
        assert_eq!(run.status, 2, "{engine} {io}: {}{}", run.text, run.errors);
        let report = run.json();
        let findings = report["findings"].as_array().expect("findings");
        assert_eq!(findings.len(), 1, "{engine} {io}: {}", run.text);
        assert_eq!(findings[0]["page"].as_u64(), Some(BAD as u64), "{engine} {io}: {}", run.text);
        assert!(run.text.contains("unreadable_page") && run.text.contains("Input/output error"), "{}", run.text);
    }
}

/// Every engine with and without the page cache.
fn ways() -> impl Iterator<Item = (&'static str, &'static str)> {
    ["auto", "uring", "threads"].into_iter().flat_map(|engine| ["auto", "direct"].map(|io| (engine, io)))
}

#[test]
fn a_page_that_fails_on_fuse_is_the_only_one_named() {
    for more in [None, Some("--cached".to_owned())] {
        let bad = ["--eio".to_owned(), (BAD * PAGE).to_string()];
        let Some(mount) = Mount::with(&bad.into_iter().chain(more).collect::<Vec<_>>()) else { return };
        for (engine, io) in ways() {
            let run = mount.check(engine, io);
            assert_eq!(run.status, 2, "{engine} {io}: {}{}", run.text, run.errors);
            let report = run.json();
            let findings = report["findings"].as_array().expect("findings");
            assert_eq!(findings.len(), 1, "{engine} {io}: {}", run.text);
            assert_eq!(findings[0]["page"].as_u64(), Some(BAD as u64), "{engine} {io}: {}", run.text);
            assert!(run.text.contains("unreadable_page") && run.text.contains("Input/output error"), "{}", run.text);
            let pages = (fixture(SAMPLE).len() / PAGE) as u64;
            let totals = |name: &str| report["totals"][name].as_u64().expect("a number");
            assert_eq!((totals("pages"), totals("corrupt"), totals("unverifiable")), (pages, 0, 1), "{engine} {io}");
        }
    }
}

#[test]
fn short_replies_of_fuse_are_continued_wherever_they_end() {
    for end in [BAD * PAGE, BAD * PAGE + 4096, BAD * PAGE + 4464] {
        let Some(mount) = Mount::with(&["--short".to_owned(), end.to_string()]) else { return };
        for (engine, io) in ways() {
            let run = mount.check(engine, io);
            assert_eq!(run.status, 0, "{end}, {engine} {io}: {}{}", run.text, run.errors);
        }
    }
}

/// Every reply is short, wherever a command reads.
#[test]
fn commands_that_get_only_short_replies_find_no_damage() {
    for most in ["4096", "5000"] {
        let Some(mount) = Mount::with(&["--most".to_owned(), most.to_owned()]) else { return };
        for words in ["check", "table check", "table check --extended", "table count", "info", "innochecksum"] {
            let output = innokit().args(words.split(' ')).arg(mount.file()).output();
            let run = Run::of(&output.expect("innokit runs"));
            assert_eq!(run.status, 0, "{most}, {words}: {}{}", run.text, run.errors);
        }
    }
}

#[test]
fn threads_read_fuse_unless_another_engine_is_named() {
    let Some(mount) = Mount::with(&[]) else { return };
    let engine = |name: &str| {
        let mut command = innokit();
        command.args(["check", "--verbose", "--io", "direct", "--engine", name]).arg(mount.file());
        let run = Run::of(&command.output().expect("innokit runs"));
        (run.status, run.errors)
    };
    let (status, said) = engine("auto");
    assert!(status == 0 && said.contains("engine pread threads"), "{said}");
    // Where io_uring is forbidden, naming it is refused.
    let (status, said) = engine("uring");
    assert!(status == 2 || said.contains("engine io_uring"), "{said}");
}
