//! MySQL's clone plugin: a server that is cloned, and a server that receives a clone, whose files are then another server's.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::backup_lab::Server;
use crate::backup_lab::session::Session;
use crate::sql_proxy::{Fate, Proxy};

/// Time limit for the end of a server that has received a clone.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
const PLUGIN: &str = "INSTALL PLUGIN clone SONAME 'mysql_clone.so'";
const LSN: &str = "SELECT JSON_EXTRACT(storage_engines, '$.InnoDB.LSN') FROM performance_schema.log_status";
const ROWS: &str = "CHECKSUM TABLE a, z, other.c";

fn rows(server: &Server, name: &str) -> Vec<String> {
    server.script_on(name, "start", &[], "");
    let rows = Session::on(server, name).ask(ROWS);
    server.script_on(name, "stop", &[], "");
    rows
}

/// Takes a backup while the server runs `statements`, after its files were copied.
fn backup_beside(server: &Server, to: &str, statements: String) -> crate::common::Run {
    let (mut session, mut is_due) = (Session::of(server), true);
    let proxy = Proxy::before(server.socket(), move |statement| {
        if statement == "LOCK INSTANCE FOR BACKUP" && std::mem::take(&mut is_due) {
            session.ask(&statements);
        }
        Fate::Pass
    });
    let socket = proxy.socket().display().to_string();
    server.run(&["backup", "--user", "root", "--socket", &socket, "--to", to, "data"])
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_that_is_cloned_is_backed_up_and_archived() {
    let server = Server::start("mysql");
    let mut session = Session::of(&server);
    session.ask(PLUGIN);
    server.archive();
    let clone = format!("CLONE LOCAL DATA DIRECTORY = '{}'", server.of("clone").display());
    let taken =
        backup_beside(&server, "set", format!("UPDATE a SET a = a + 1; {clone}; UPDATE z SET b = 'later' LIMIT 9"));
    assert_eq!(taken.status, 0, "{}", taken.errors);
    let at_backup = session.ask(ROWS);
    session.ask("UPDATE other.c SET a = 7");
    let now = session.ask(ROWS);
    server.archive();
    for (command, expected) in [
        (&["restore", "--to", "first", "set"][..], &at_backup),
        (&["restore", "--redo", "redo", "--to", "later", "set"], &now),
    ] {
        let restored = server.run(command);
        assert_eq!(restored.status, 0, "{}", restored.errors);
        assert_eq!(&rows(&server, if expected == &now { "later" } else { "first" }), expected);
    }
    // The clone is a datadir with a log to recover.
    let recovered = server.run(&["recover", "--to", "recovered", "clone"]);
    assert_eq!(recovered.status, 0, "{}", recovered.errors);
    assert_eq!(rows(&server, "recovered"), rows(&server, "clone"));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_that_receives_a_clone_begins_another_history() {
    let donor = Server::start("mysql");
    donor.script("stop", &[], "");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    donor.script("start", &["--skip-networking=OFF", "--bind-address=127.0.0.1", &format!("--port={port}")], "");
    let mut of_donor = Session::of(&donor);
    of_donor.ask(&format!(
        "{PLUGIN}; CREATE USER giver@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT BACKUP_ADMIN ON *.* TO giver@'127.0.0.1'; \
         UPDATE a SET a = 1"
    ));

    let server = Server::start("mysql");
    let mut session = Session::of(&server);
    session.ask(PLUGIN);
    let socket = server.socket().display().to_string();
    // The archive first: begun later, it may begin behind the base copy.
    server.archive();
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    session.ask("UPDATE a SET a = 2");
    let (before, until) = (session.ask(ROWS), session.ask(LSN).concat());
    server.archive_up_to(until.parse().expect("an LSN"));
    drop(session);

    // No supervisor starts the server again, so it ends. The backup that runs then is void.
    let from = format!(
        "SET GLOBAL clone_valid_donor_list = '127.0.0.1:{port}'; CLONE INSTANCE FROM giver@'127.0.0.1':{port} IDENTIFIED BY 'secret'"
    );
    let void = backup_beside(&server, "void", from);
    assert_eq!(void.status, 2, "{}{}", void.text, void.errors);
    let refused = server.run(&["restore", "--to", "never", "void"]);
    assert!(refused.status != 0 && !server.of("never").exists(), "{}", refused.errors);

    // Until it starts, the files of both lie side by side.
    let (begun, process) = (Instant::now(), fs::read_to_string(server.of(".data.server/pid")).expect("a number"));
    while Path::new("/proc").join(process.trim()).exists() {
        assert!(begun.elapsed() < ENDS_WITHIN, "the server does not end");
        thread::sleep(Duration::from_millis(50));
    }
    for command in [&["recover", "--dry-run", "data"][..], &["recover", "--to", "never", "data"]] {
        let refused = server.run(command);
        assert!(refused.status == 2 && refused.errors.contains("CLONE INSTANCE"), "{}", refused.errors);
    }
    let checked = server.run(&["check", "data"]);
    assert!(checked.status != 1 && checked.text.contains("CLONE INSTANCE"), "{} {}", checked.status, checked.text);
    server.script("start", &[], "");
    let expected = of_donor.ask(ROWS);
    let mut session = Session::of(&server);
    assert_eq!(session.ask(ROWS), expected);

    // The archive goes on in another timeline. What the base copy knows is restored up to there, and nothing beyond.
    let archive =
        ["redo", "archive", "--until-caught-up", "--user", "root", "--socket", &socket, "--to", "redo", "data"];
    let archived = server.run(&archive);
    assert!(archived.status == 1, "{}{}", archived.text, archived.errors);
    let verified = server.run(&["redo", "verify", "redo"]);
    assert!(verified.status == 1 && verified.text.contains("timeline 2"), "{}", verified.text);
    let restored = server.restore_until(&until, "earlier");
    assert_eq!(restored.status, 0, "{}", restored.errors);
    assert_eq!(rows(&server, "earlier"), before);
    let again = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "again", "data"]);
    assert_eq!(again.status, 0, "{}", again.errors);
    session.ask("UPDATE z SET a = 3; FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");
    let (now, lsn) = (session.ask(ROWS), session.ask(LSN).concat().parse::<u64>().expect("an LSN"));
    // What the server tells about its log may be a second old.
    let (begun, mut reached) = (Instant::now(), 0);
    while reached < lsn {
        assert!(begun.elapsed() < ENDS_WITHIN, "LSN {lsn} is never archived: {reached}");
        let archived = server.run(&archive);
        assert_eq!(archived.status, 0, "{}{}", archived.text, archived.errors);
        let ranges = server.run(&["redo", "verify", "--json", "redo"]).json()["ranges"].clone();
        reached = ranges.as_array().and_then(|ranges| ranges.last()?["end_lsn"].as_u64()).expect("an LSN");
    }
    let restored = server.run(&["restore", "--redo", "redo", "--to", "new", "again"]);
    assert_eq!(restored.status, 0, "{}", restored.errors);
    assert_eq!(rows(&server, "new"), now);
}
