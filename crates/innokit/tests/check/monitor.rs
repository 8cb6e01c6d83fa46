//! The interfaces to monitoring, shells and `man`: `--metrics`, `--nagios`, completions, manual pages.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Run, innokit, repository};

fn unpack(fixture: &str, file: &Path) {
    let packed = fs::File::open(repository().join("fixtures").join(fixture)).expect("the fixture");
    fs::write(file, zstd::decode_all(packed).expect("fixtures are zstd")).expect("written");
}

/// A directory with a sound tablespace in `good` and one with a flipped bit in `bad`.
fn good_and_bad() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let (good, bad) = (dir.path().join("good"), dir.path().join("bad"));
    fs::create_dir_all(&good).expect("made");
    fs::create_dir_all(&bad).expect("made");
    unpack("mysql-9.7/dynamic-16k.ibd.zst", &good.join("t.ibd"));
    unpack("broken/flipped-bit-mysql-16k.ibd.zst", &bad.join("t.ibd"));
    (dir, good, bad)
}

fn run(arguments: &[&str], paths: &[&Path]) -> Run {
    Run::of(&innokit().args(arguments).args(paths).output().expect("innokit runs"))
}

fn value(metrics: &str, row: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(row));
    line.unwrap_or_else(|| panic!("no {row} in\n{metrics}")).trim().parse().expect("a number")
}

#[test]
fn metrics_hold_the_verdicts_of_each_path() {
    let (dir, good, bad) = good_and_bad();
    let file = dir.path().join("innokit.prom");
    let ran = run(&["check", "-q", "--metrics", file.to_str().unwrap()], &[&good, &bad]);
    assert_eq!(ran.status, 1, "{}", ran.errors);
    let metrics = fs::read_to_string(&file).expect("the metrics");
    let row = |metric: &str, path: &Path, label: &str| {
        value(&metrics, &format!("innokit_{metric}{{path=\"{}\",{label}}}", path.display()))
    };
    assert_eq!(row("check_pages", &good, "verdict=\"corrupt\""), 0.0);
    assert_eq!(row("check_pages", &bad, "verdict=\"corrupt\""), 1.0);
    assert_eq!(row("check_findings", &bad, "severity=\"damage\""), 1.0);
    assert_eq!(row("check_findings", &good, "severity=\"damage\""), 0.0);
    assert!(row("check_pages", &good, "verdict=\"ok\"") > 10.0);
    assert_eq!(value(&metrics, "innokit_check_exit_status "), 1.0);
    assert!(value(&metrics, "innokit_check_end_timestamp_seconds ") > 1.7e9);
}

#[test]
fn runs_over_rows_have_metrics_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let table = dir.path().join("t.ibd");
    unpack("scattered/scattered-16k.ibd.zst", &table);
    for command in ["checksum", "export"] {
        let file = dir.path().join(format!("{command}.prom"));
        let ran = run(&["table", command, "--metrics", file.to_str().unwrap()], &[&table]);
        assert_eq!(ran.status, 0, "{}", ran.errors);
        let metrics = fs::read_to_string(&file).expect("the metrics");
        let one = |name: &str| value(&metrics, &format!("innokit_table_{command}_{name} "));
        assert_eq!((one("exit_status"), one("rows"), one("unread_files")), (0.0, 10_000.0, 0.0));
        assert!(one("end_timestamp_seconds") > 1.7e9 && one("bytes") > 0.0);
        assert_eq!(value(&metrics, &format!("innokit_table_{command}_tables{{state=\"sound\"}} ")), 1.0);
        assert_eq!(value(&metrics, &format!("innokit_table_{command}_tables{{state=\"damaged\"}} ")), 0.0);
    }
    // Metrics that cannot be written are a failure.
    let ran = run(&["table", "checksum", "--metrics", "/nowhere/x.prom"], &[&table]);
    assert!(ran.status == 2 && ran.errors.contains("could not be written"), "{}", ran.errors);
}

#[test]
fn every_metric_is_described_once_before_its_rows() {
    let (dir, good, bad) = good_and_bad();
    let file = dir.path().join("innokit.prom");
    run(&["check", "-q", "--metrics", file.to_str().unwrap()], &[&good, &bad]);
    let metrics = fs::read_to_string(&file).expect("the metrics");
    let mut typed = Vec::new();
    for line in metrics.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(rest) => {
                let name = rest.strip_suffix(" gauge").expect("all are gauges");
                assert!(!typed.contains(&name), "{name} is described twice");
                typed.push(name);
            }
            None if line.starts_with("# HELP ") => {}
            None => {
                let name = line.split(['{', ' ']).next().unwrap();
                assert_eq!(typed.last(), Some(&name), "{line}");
            }
        }
    }
    assert!(typed.len() >= 8);
}

#[test]
fn metrics_that_cannot_be_written_leave_the_old_ones_and_an_error() {
    let (dir, good, _) = good_and_bad();
    let missing = dir.path().join("not-there/innokit.prom");
    let ran = run(&["check", "-q", "--metrics", missing.to_str().unwrap()], &[&good]);
    assert_eq!(ran.status, 2);
    assert!(ran.errors.contains("metrics") && ran.errors.contains("not-there"), "{}", ran.errors);
    // A run that can write them leaves no temporary file.
    let file = dir.path().join("innokit.prom");
    run(&["check", "-q", "--metrics", file.to_str().unwrap()], &[&good]);
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn damage_stays_exit_1_though_the_metrics_cannot_be_written() {
    let (dir, _, bad) = good_and_bad();
    let missing = dir.path().join("not-there/innokit.prom");
    let ran = run(&["check", "-q", "--metrics", missing.to_str().unwrap()], &[&bad]);
    assert_eq!(ran.status, 1);
    assert!(ran.text.contains("checksum"), "the finding is printed all the same: {}", ran.text);
    assert!(ran.errors.contains("metrics"), "{}", ran.errors);
}

#[test]
fn nagios_gets_one_line_with_performance_data_and_the_plugin_status() {
    let (dir, good, bad) = good_and_bad();
    let cases: [(&[&Path], i32, &str); 3] = [
        (&[&good], 0, "INNOKIT OK"),
        (&[&bad, &good], 2, "INNOKIT CRITICAL"),
        (&[&dir.path().join("none")], 3, "INNOKIT UNKNOWN"),
    ];
    for (paths, status, word) in cases {
        let ran = run(&["check", "--nagios"], paths);
        assert_eq!((ran.status, ran.text.lines().count()), (status, 1), "{}", ran.text);
        assert!(ran.text.starts_with(word), "{}", ran.text);
    }
    let ran = run(&["check", "--nagios"], &[&bad]);
    let (said, data) = ran.text.trim().split_once(" | ").expect("performance data");
    assert!(said.contains("page ") && said.contains("checksum"), "{said}");
    for item in data.split(' ') {
        let (label, rest) = item.split_once('=').expect("label=value");
        let number = rest.split(';').next().unwrap().trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        assert!(!label.is_empty() && number.parse::<f64>().is_ok(), "{item}");
        assert_eq!(rest.split(';').count(), 4, "value;warn;crit;min: {item}");
    }
}

/// What `systemd-analyze verify` says about our units after `change`, with the binary in place.
fn systemd_says(change: impl Fn(String) -> String) -> (bool, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = std::process::Command::new("systemd-analyze");
    command.args(["verify", "--man=no"]).current_dir(dir.path());
    for name in ["innokit-check@.service", "innokit-check@.timer", "innokit-redo-archive@.service"] {
        let unit = fs::read_to_string(repository().join("contrib/systemd").join(name)).expect("a unit");
        let unit = unit.replace("/usr/bin/innokit", env!("CARGO_BIN_EXE_innokit"));
        fs::write(dir.path().join(name), change(unit)).expect("written");
        command.arg(format!("./{}", name.replace('@', "@var-lib-mysql")));
        fs::copy(dir.path().join(name), dir.path().join(name.replace('@', "@var-lib-mysql"))).expect("copied");
    }
    let output = command.output().expect("systemd-analyze runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn systemd_finds_no_fault_with_the_units() {
    assert_eq!(systemd_says(|unit| unit), (true, String::new()));
    // It does report a fault.
    let (_, said) = systemd_says(|unit| unit.replace("MemoryMax", "MemoryMux"));
    assert!(said.contains("MemoryMux"), "{said}");
    let (is_sound, said) = systemd_says(|unit| unit.replace("02:00:00", "26:00:00"));
    assert!(!is_sound && said.contains("26:00:00"), "{said}");
}

#[test]
fn a_wrong_option_is_unknown_to_nagios_and_not_critical() {
    let ran = run(&["check", "--nagios", "--no-such-option"], &[Path::new("x")]);
    assert_eq!(ran.status, 3);
    assert!(ran.text.starts_with("INNOKIT UNKNOWN"), "{}", ran.text);
    // Without `--nagios` the exit status is clap's.
    assert_eq!(run(&["check", "--no-such-option"], &[Path::new("x")]).status, 2);
}

#[test]
fn every_command_has_a_manual_page_and_every_option_is_in_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(&["man", "--dir", dir.path().to_str().unwrap()], &[]);
    assert_eq!(ran.status, 0, "{}", ran.errors);
    for (command, option) in [("innokit", "check"), ("innokit-check", "metrics"), ("innokit-table-check", "extended")] {
        let page = fs::read_to_string(dir.path().join(format!("{command}.1"))).expect(command);
        assert!(page.contains(option), "{option} is missing in {command}.1");
        assert!(page.contains(".TH "), "{command}.1 is no manual page");
    }
    assert_eq!(
        run(&["man", "table", "check"], &[]).text,
        fs::read_to_string(dir.path().join("innokit-table-check.1")).unwrap()
    );
    let ran = run(&["man", "tabel"], &[]);
    assert!(ran.status == 2 && ran.errors.contains("table"), "{}", ran.errors);
}

#[test]
fn completions_know_the_commands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(&["completions", shell], &[]);
        assert_eq!(ran.status, 0);
        for word in ["check", "recover", "metrics"] {
            assert!(ran.text.contains(word), "{word} is missing for {shell}");
        }
    }
}

#[test]
fn an_alarm_stands_without_a_reader_and_lost_output_is_never_all_well() {
    let (_dir, good, bad) = good_and_bad();
    for (arguments, paths, unwritten) in [
        (vec!["check", "--nagios"], vec![&*bad], 3),
        (vec!["check", "--nagios", "--no-such-option"], vec![], 3),
        (vec!["check"], vec![&*bad], 2),
        (vec!["table", "checksum"], vec![&*good], 2),
        (vec!["demo"], vec![], 2),
        (vec!["check", "--nagios"], vec![&*good], 3),
        (vec!["table", "export"], vec![&*good], 2),
        (vec!["table", "export", "--format", "parquet"], vec![&*good], 2),
        (vec!["table", "schema"], vec![&*good], 2),
        (vec!["info"], vec![&*good], 2),
        (vec!["man"], vec![], 2),
        (vec!["check", "--help"], vec![], 2),
        (vec!["--version"], vec![], 2),
        (vec!["innochecksum", "--help"], vec![], 1),
    ] {
        let status = match run(&arguments, &paths).status {
            0 => unwritten,
            alarm => alarm,
        };
        let with =
            |out: Stdio| Run::of(&innokit().args(&arguments).args(&paths).stdout(out).output().expect("it runs"));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let unread = with(writer.into());
        assert_eq!((unread.status, unread.errors.as_str()), (status, ""), "{arguments:?}");
        let full = with(fs::File::options().write(true).open("/dev/full").expect("it is there").into());
        assert_eq!(full.status, unwritten, "{arguments:?}: {}", full.errors);
        assert!(!full.errors.contains("panicked"), "{}", full.errors);
        let call = |redirect: &str| {
            let words =
                arguments.iter().copied().map(std::ffi::OsStr::new).chain(paths.iter().map(|path| path.as_os_str()));
            let script = format!("exec \"$0\" \"$@\" {redirect}");
            let mut shell = std::process::Command::new("sh");
            Run::of(&shell.arg("-c").arg(script).arg(innokit().get_program()).args(words).output().expect("sh runs"))
        };
        let closed = call(">&-");
        assert!(closed.status == 2 && closed.errors.contains("standard output is closed"), "{}", closed.errors);
        // Python and daemons give the null device for reading and writing: that is not closed.
        assert_eq!(call("1<>/dev/null").status, run(&arguments, &paths).status, "{arguments:?}");
    }
}
