//! Files of terabytes that are nearly all hole: one command makes them, and reading them would take hours.

use std::fs::File;
use std::process::Command;

use crate::common::{Dir, Run, fixture, innokit};

#[test]
fn a_file_of_8_tib_that_is_all_hole_is_refused_at_once() {
    let dir = Dir::new();
    let path = dir.file("db/t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    // Some file systems have no files of this length.
    if File::options().write(true).open(&path).and_then(|file| file.set_len(8 << 40)).is_err() {
        return;
    }
    for command in ["check", "info"] {
        let mut limited = Command::new("timeout");
        limited.arg("20").arg(innokit().get_program()).arg(command).arg(&path);
        let run = Run::of(&limited.output().expect("timeout runs"));
        let both = format!("{}{}", run.text, run.errors);
        assert!(run.status == 2 && both.contains("no tablespace is so sparse"), "{command}: {} {both}", run.status);
    }
}
