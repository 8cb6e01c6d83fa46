//! Files that `--metrics` and `--map` name: a regular file is replaced, all else is not.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::common::{Dir, Run, fixture, innokit};

fn check(options: &[&Path], paths: &[&Path]) -> Run {
    Run::of(&innokit().args(["check", "-q"]).args(options).args(paths).output().expect("innokit runs"))
}

#[test]
fn devices_pipes_and_links_are_never_replaced_by_metrics_or_a_map() {
    let dir = Dir::new();
    let (path, kept) = (dir.file("t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd")), dir.file("kept", b"kept"));
    let (link, fifo) = (dir.path().join("link.svg"), dir.path().join("fifo.svg"));
    symlink(&kept, &link).expect("linked");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    for option in ["--metrics", "--map"] {
        let command = if option == "--map" { "info" } else { "check" };
        let written = |target: &Path| {
            let mut limited = Command::new("timeout");
            limited.arg("20").arg(innokit().get_program()).arg(command).arg(option).arg(target).arg(&path);
            Run::of(&limited.output().expect("timeout runs"))
        };
        let run = written(&link);
        assert!(run.status == 2 && run.errors.contains("it is a symbolic link"), "{}", run.errors);
        assert!(link.is_symlink() && fs::read(&kept).expect("read") == b"kept");
        // No process reads the pipe: that is an error, and no wait.
        assert_eq!(written(&fifo).status, 2);
        assert!(fs::symlink_metadata(&fifo).expect("there").file_type().is_fifo());
    }
    // Written through. `/dev/stdout` is a link to a link to a pipe.
    let run = check(&[Path::new("--metrics"), Path::new("/dev/stdout")], &[&path]);
    assert!(run.status == 0 && run.text.contains("innokit_check_exit_status 0"), "{} {}", run.text, run.errors);
    assert!(Path::new("/dev/stdout").is_symlink());
}

#[test]
fn a_path_that_is_not_utf_8_has_its_own_metrics() {
    let dir = Dir::new();
    let sound = dir.file("sound.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let odd = dir.path().join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).expect("made");
    fs::write(odd.join("t.ibd"), fixture("broken/flipped-bit-mysql-16k.ibd")).expect("written");
    let metrics = dir.path().join("m.prom");
    assert_eq!(check(&[Path::new("--metrics"), &metrics], &[&sound, &odd]).status, 1);
    let text = fs::read_to_string(&metrics).expect("metrics");
    let damage = |name: &str| {
        let is_it = |line: &&str| line.contains(name) && line.contains("severity=\"damage\"");
        text.lines().find(is_it).and_then(|line| line.rsplit(' ').next()).expect("a row").to_owned()
    };
    assert_eq!((damage("sound.ibd"), damage("odd")), ("0".to_owned(), "1".to_owned()), "{text}");
}
