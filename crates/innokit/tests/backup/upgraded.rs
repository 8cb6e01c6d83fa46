//! A newer server is started on the datadir between two runs of `backup` and `redo archive`.

use std::process::{Command, Stdio};

use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, WRITTEN, ended, sums};
use crate::common::{check, repository};

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn increments_and_archives_go_on_over_an_upgrade_of_mariadb() {
    let mut server = Server::start("mariadb");
    let backup = |server: &Server, more: &[&str], to: &str| {
        let mut command = server.innokit();
        command.args(["backup", "--progress", "never", "--user", "root", "--to", to, "--socket"]).arg(server.socket());
        let done = ended(command.args(more).arg("data"));
        assert_eq!(done.status, 0, "{to}: {}", done.errors);
    };
    server.archive();
    backup(&server, &[], "full");
    server.script("sql", &[], WRITTEN);
    server.archive();
    server.script("stop", &[], "");
    server.kind = "mariadb118";
    server.script("start", &[], "");
    server.script("sql", &[], WRITTEN);
    backup(&server, &["--incremental-since", "full"], "increment");
    backup(&server, &[], "second");
    server.archive();
    let expected = sums(&mut Session::of(&server));
    server.script("stop", &[], "");

    let verified = server.run(&["redo", "verify", "redo"]);
    assert_eq!(verified.status, 0, "{}{}", verified.text, verified.errors);
    let ways: [&[&str]; 3] = [
        &["restore", "full", "--increment", "increment", "--to", "of-increment"],
        &["restore", "second", "--to", "of-second"],
        &["recover", "full", "--redo", "redo", "--to", "of-archive"],
    ];
    for words in ways {
        let done = server.run(words);
        assert_eq!(done.status, 0, "{words:?}: {}", done.errors);
        let to = words.last().expect("a target");
        server.script_on(to, "start", &["--innodb-undo-tablespaces=2"], "");
        let found = sums(&mut Session::on(&server, to));
        server.script_on(to, "stop", &[], "");
        assert_eq!(found, expected, "{words:?}");
    }
}

/// MySQL 9.7 refuses the datadir of 8.0.15, but only after it has opened it.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_datadir_that_a_newer_mysql_has_refused_is_as_well_as_before() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let data = dir.path().join("data");
    let script = |kind: &str, action: &str| {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([kind, action]).arg(&data).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("bash runs").success()
    };
    assert!(script("mysql80", "init") && script("mysql80", "start") && script("mysql80", "stop"));
    assert!(!script("mysql", "start"), "9.7 starts on a datadir of 8.0.15");
    let after = check(&data, &["--progress", "never"]);
    assert_eq!(after.status, 0, "{}{}", after.text, after.errors);
    assert!(script("mysql80", "start") && script("mysql80", "stop"), "8.0 goes on");
}
