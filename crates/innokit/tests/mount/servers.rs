//! Servers on mounts: of a killed server's datadir, of a backup at a moment, and killed themselves.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, lsn};
use crate::lab::{Mounted, asked, below, can_mount, on_mount};
use crate::sums::sums;

/// Of one test; `make soak` kills as often as a release must stand.
fn kills() -> u32 {
    if crate::common::is_soak() { 70 } else { 3 }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadb_starts_on_mounts_and_keeps_what_it_acknowledged() {
    on_mounts("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadb_11_8_starts_on_mounts_and_keeps_what_it_acknowledged() {
    on_mounts("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mysql_starts_on_mounts_and_keeps_what_it_acknowledged() {
    on_mounts("mysql");
}

fn on_mounts(kind: &'static str) {
    if !can_mount() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let server = Server::start_in(folder, kind, &[]);
    let moment = set_and_archive(&server);
    server.script("sql", &["shop"], "UPDATE a SET b = 'later' WHERE id % 3 = 0; DELETE FROM z WHERE id > 2000; FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS;");
    server.script("kill9", &[], "");
    of_killed(&server);
    // What the versions of MariaDB differ in is how they start and write.
    if kind != "mariadb118" {
        of_moment(&server, moment);
        is_finished(&server);
    }
    killed_again(&server);
}

/// A backup, an archive, and an LSN beyond the backup.
fn set_and_archive(server: &Server) -> u64 {
    let socket = server.socket().display().to_string();
    server.archive();
    let done = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(done.status, 0, "{}: {}", server.kind, done.errors);
    server.script(
        "sql",
        &["shop"],
        "UPDATE a SET b = 'sooner' WHERE id % 7 = 0; INSERT INTO b SELECT * FROM a ON DUPLICATE KEY UPDATE b = a.b;",
    );
    let moment = lsn(&mut Session::of(server));
    server.script("sql", &["shop"], "DELETE FROM b WHERE id > 100;");
    server.archive_up_to(moment + 1);
    moment
}

/// The killed server's datadir, copied while a server works on it, is a datadir of its own at the end.
fn is_finished(server: &Server) {
    let upper = server.of("whole").display().to_string();
    let mounted = Mounted::on(&server.of("while"), &server.data(), &["--upper", &upper, "--hydrate"]);
    let finish = || server.run(&["mount", "--finish", &upper]);
    assert!(finish().errors.contains("another mount uses this directory"));
    server.script_on("while", "start", &[], "");
    server.script_on(
        "while",
        "sql",
        &["shop"],
        "UPDATE a SET b = 'while it is copied'; DROP TABLE z; CREATE TABLE y LIKE b; INSERT INTO y SELECT * FROM b;",
    );
    mounted.is_heard("everything is copied");
    server.script_on("while", "stop", &[], "");
    let expected = below(&mounted.point);
    mounted.end();
    let done = finish();
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_eq!(below(&server.of("whole")), expected, "{}: page by page", server.kind);
    std::fs::rename(server.data(), server.of("away")).expect("renamed");
    server.tables("whole");
    std::fs::rename(server.of("away"), server.data()).expect("renamed");
    assert!(finish().errors.contains("not the directory of a mount"), "{}", server.kind);
}

/// The killed server's datadir.
fn of_killed(server: &Server) {
    let done = server.run(&["recover", "--to", "recovered", "data"]);
    assert_eq!(done.status, 0, "{}", done.errors);
    let expected = server.tables("recovered");
    let before = sums(&server.data());
    let mounted = Mounted::on(&server.of("now"), &server.data(), &["--upper", "tmp"]);
    assert!(mounted.said.contains("at LSN "), "{}", mounted.said);
    if server.kind == "mysql" {
        server.script_on("now", "start", &["--log-error-verbosity=3"], "");
        server.script_on("now", "stop", &[], "");
        recovered_nothing(server, "now");
    }
    assert_eq!(server.tables("now"), expected, "{}", server.kind);
    recovered_nothing(server, "now");
    mounted.end();
    assert_eq!(sums(&server.data()), before, "{}: the base is only read", server.kind);
}

/// Asserts that the server's last start found nothing to recover, in the words of both servers.
fn recovered_nothing(server: &Server, name: &str) {
    let log = std::fs::read_to_string(server.of(&format!(".{name}.server/log"))).expect("a log");
    // MySQL calls it a recovery when it finds the closing record of its log, and says how much it had to apply.
    let applied: Vec<&str> = log.lines().filter(|line| line.contains("Applying a batch of")).collect();
    assert!(applied.iter().all(|line| line.contains("batch of 0 ")), "{} {name}: {applied:?}", server.kind);
    for words in ["Starting final batch", "Starting crash recovery from checkpoint", "To recover:"] {
        assert!(!log.contains(words), "{} {name}: {log}", server.kind);
    }
}

/// A backup as it was later.
fn of_moment(server: &Server, moment: u64) {
    let until = moment.to_string();
    let done = server.restore_until(&until, "then");
    assert_eq!(done.status, 0, "{}", done.errors);
    let expected = server.tables("then");
    let before = sums(&server.of("set"));
    let archive = server.of("redo").display().to_string();
    let options = ["--redo", &archive, "--until", &until, "--upper", "tmp"];
    let mounted = Mounted::on(&server.of("at"), &server.of("set"), &options);
    assert_eq!(server.tables("at"), expected, "{} at LSN {moment}", server.kind);
    mounted.end();
    assert_eq!(sums(&server.of("set")), before, "{}: the set is only read", server.kind);
}

/// Kills the mount, the server, or both, each time after commits that were acknowledged.
fn killed_again(server: &Server) {
    let upper = server.of("upper").display().to_string();
    let (point, base) = (server.of("again"), server.data());
    let before = sums(&base);
    let options = ["--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=O_DIRECT"];
    let mut acknowledged = 0;
    for round in 0..kills() {
        let mounted = Mounted::on(&point, &base, &["--upper", &upper]);
        assert_eq!(mounted.said.contains("with what was written before"), round > 0, "{}", mounted.said);
        on_mount(server, "again", ("start", &options), "");
        acknowledged = is_all_there(server, acknowledged, round);
        match round % 3 {
            0 => {
                mounted.kill();
                // It may have ended by itself: it gets nothing but errors.
                asked(server, "again", ("kill9", &[]), "").ok();
            }
            1 => {
                on_mount(server, "again", ("kill9", &[]), "");
                mounted.end();
            }
            _ => {
                on_mount(server, "again", ("kill9", &[]), "");
                mounted.kill();
            }
        }
    }
    let mounted = Mounted::on(&point, &base, &["--upper", &upper]);
    on_mount(server, "again", ("start", &options), "");
    is_all_there(server, acknowledged, kills());
    on_mount(server, "again", ("stop", &[]), "");
    mounted.end();
    assert_eq!(sums(&base), before, "{}: the base is only read", server.kind);
    println!("{}: {} kills, {acknowledged} acknowledged commits", server.kind, kills());
}

/// Asserts that what was acknowledged is there and the tables are sound, and adds more. Returns how many are acknowledged then.
fn is_all_there(server: &Server, acknowledged: u64, round: u32) -> u64 {
    const MORE: u64 = 150;
    let mut session = Session::on(server, "again");
    if round == 0 {
        session.ask("CREATE TABLE kept (id BIGINT PRIMARY KEY, a VARCHAR(500)) ENGINE=InnoDB");
    }
    let count: u64 = session.ask("SELECT COUNT(*) FROM kept").concat().parse().expect("a number");
    assert!(
        count >= acknowledged,
        "{}: {count} of {acknowledged} acknowledged commits after round {round}",
        server.kind
    );
    for table in ["kept", "a", "b", "z"] {
        let checked = session.ask(&format!("CHECK TABLE {table} EXTENDED"));
        assert!(checked.concat().ends_with("\tOK"), "{}: {checked:?} after round {round}", server.kind);
    }
    for id in count + 1..=count + MORE {
        let said = session.ask(&format!(
            "INSERT INTO kept VALUES ({id}, REPEAT('r', {id} % 500)); UPDATE a SET a = {id} WHERE id = {id} % 3000"
        ));
        assert!(said.is_empty(), "{said:?}");
    }
    count + MORE
}

/// The path of a file of a mount.
pub fn in_mount(mounted: &Mounted, name: &str) -> PathBuf {
    mounted.point.join(Path::new(name))
}
