//! `innokit serve`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::{Run, all_datadirs, innokit};
use crate::lab::{can_mount, server_program, signal};
use crate::sums::sums;

const SETS: [(&str, &str); 2] = [("mariadb", "mariadb-16k-crashed"), ("mysql", "mysql-16k-crashed")];

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_answers_one_question_about_a_set_and_leaves_nothing() {
    if !can_mount() {
        return;
    }
    for (kind, name) in SETS {
        let folder = TempDir::new().expect("a folder");
        let (set, program) = (all_datadirs().join(name), server_program(folder.path(), kind));
        let before = sums(&set);
        let serve = |sql: &str| {
            Run::of(
                &innokit()
                    .arg("serve")
                    .arg(&set)
                    .args(["--run", sql, "--"])
                    .arg(&program)
                    .output()
                    .expect("innokit runs"),
            )
        };
        let asked = serve(
            "SELECT COUNT(*) FROM shop.row_dynamic; CHECK TABLE shop.row_dynamic EXTENDED; DELETE FROM shop.row_dynamic",
        );
        assert_eq!((asked.status, asked.text.contains("16000")), (0, true), "{kind}: {}{}", asked.text, asked.errors);
        assert!(asked.text.contains("check\tstatus\tOK"), "{kind}: {}", asked.text);
        if kind == "mariadb" {
            let failed = serve("SELECT * FROM shop.nothing");
            assert_eq!(failed.status, 1, "the client's status: {}", failed.errors);
            assert!(failed.errors.contains("shop.nothing"), "{}", failed.errors);
        }
        assert_eq!(sums(&set), before, "{kind}: the set is only read");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_runs_until_a_signal_and_one_that_cannot_start_is_quoted() {
    if !can_mount() {
        return;
    }
    let (kind, name) = SETS[0];
    let folder = TempDir::new().expect("a folder");
    let (set, program) = (all_datadirs().join(name), server_program(folder.path(), kind));
    let mut child =
        innokit().arg("serve").arg(&set).arg("--").arg(&program).stdout(Stdio::piped()).spawn().expect("innokit runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
    let said: Vec<String> = lines.take(4).collect();
    let socket = said[1].rsplit_once("--socket=").expect("how to connect").1.to_owned();
    let client = folder.path().join("mariadb");
    let asked = Command::new(client)
        .args([&format!("--socket={socket}"), "-N", "-e", "SELECT COUNT(*) FROM shop.row_dynamic"])
        .output();
    assert_eq!(String::from_utf8_lossy(&asked.expect("the client runs").stdout), "16000\n");
    signal(&child, "-INT");
    assert!(child.wait().expect("ended").success());
    assert!(!std::path::Path::new(&socket).parent().expect("a folder").exists(), "nothing is left");

    let cannot = innokit().arg("serve").arg(&set).arg("--").arg(&program).arg("--innodb-page-size=4k").output();
    let cannot = Run::of(&cannot.expect("innokit runs"));
    assert_eq!(cannot.status, 2, "{}", cannot.errors);
    assert!(cannot.errors.contains("the server ended") && cannot.errors.contains("page"), "{}", cannot.errors);
}
