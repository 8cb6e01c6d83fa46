//! Backups of servers that call their datadirs by other names, and backups onto disks without room.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, ended};
use crate::common::{Run, repository};
use crate::sql_proxy::{Fate, Proxy};

/// Where the server has its folder, below that folder.
const INSIDE: &str = "inside";

/// A server whose folder has another name in a mount namespace of its own, as in a container.
struct Contained(Server);

impl Contained {
    /// `None` if the machine does not allow that.
    fn start(kind: &'static str) -> Option<Self> {
        let server = Server::start(kind);
        server.script("stop", &[], "");
        fs::create_dir(server.of(INSIDE)).expect("made");
        let contained = Self(server);
        let tried = contained.script("start");
        if tried.errors.contains("unshare failed") {
            println!("skipped: no mount namespace: {}", tried.errors);
            return None;
        }
        assert_eq!(tried.status, 0, "{}", tried.errors);
        Some(contained)
    }

    /// Runs the server script where the folder has its other name.
    fn script(&self, action: &str) -> Run {
        let line = "mount --bind . inside && exec \"$@\" >log 2>&1";
        let mut command = Command::new("unshare");
        command.args(["--mount", "bash", "-c", line, "bash"]).arg(repository().join("scripts/server.sh"));
        command.args([self.0.kind, action]).arg(self.0.of(INSIDE).canonicalize().expect("a path").join("data"));
        ended(command.current_dir(self.0.folder.path()))
    }

    fn socket(&self) -> PathBuf {
        PathBuf::from(self.0.script_on(&format!("{INSIDE}/data"), "socket", &[], "").trim())
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        self.script("kill9");
    }
}

fn is_backed_up_under_another_name(kind: &'static str) {
    let Some(contained) = Contained::start(kind) else { return };
    let server = &contained.0;
    let socket = contained.socket().display().to_string();
    let named = ["--user", "root", "--socket", &socket];
    let run = |first: &[&str], rest: &[&str]| server.run(&[first, &named, rest].concat());
    // The server's own name leads elsewhere from here.
    let inside = format!("{INSIDE}/data");
    server.copy("data", &inside);
    for command in [&["backup"][..], &["redo", "archive", "--once"]] {
        let refused = run(command, &["--to", "refused", &inside]);
        assert!(refused.status == 2 && refused.errors.contains("another directory here"), "{kind}: {}", refused.errors);
        assert!(!server.of("refused").exists());
    }
    fs::remove_dir_all(server.of(&inside)).expect("removed");

    let archived = run(&["redo", "archive", "--once"], &["--to", "redo", "data"]);
    assert_eq!(archived.status, 0, "{kind}: {}", archived.errors);
    let taken = run(&["backup"], &["--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{kind}: {}", taken.errors);
    let counted = |session: &mut Session| session.ask("SELECT COUNT(*), SUM(a LIKE '1%') FROM a; CHECKSUM TABLE a, z");
    let mut session = Session::on(server, &inside);
    session.ask("DELETE FROM a WHERE id % 3 = 0; FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");
    let expected = counted(&mut session);
    drop(session);
    let archived = run(&["redo", "archive", "--until-caught-up"], &["--to", "redo", "data"]);
    assert_eq!(archived.status, 0, "{kind}: {}", archived.errors);
    let restored = server.run(&["restore", "--redo", "redo", "--to", "out", "set"]);
    assert_eq!(restored.status, 0, "{kind}: {}", restored.errors);
    server.script_on("out", "start", &[], "");
    assert_eq!(counted(&mut Session::on(server, "out")), expected, "{kind}");
    server.script_on("out", "stop", &[], "");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mariadb_server_with_other_paths_is_backed_up_and_archived() {
    is_backed_up_under_another_name("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mysql_server_with_other_paths_is_backed_up_and_archived() {
    is_backed_up_under_another_name("mysql");
}

/// A backup and an archive by a process that sees no other, as in a container beside that of the server.
fn is_backed_up_from_another_container(kind: &'static str) {
    let Some(contained) = Contained::start(kind) else { return };
    let server = &contained.0;
    let socket = contained.socket().display().to_string();
    let own = contained.0.of(INSIDE).canonicalize().expect("a path").join("data").display().to_string();
    let beside = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_innokit")]).args(arguments);
        ended(command.args(["--user", "root", "--socket", &socket]).current_dir(server.folder.path()))
    };
    let backup = |to: &str, own: &str, datadir: &str| beside(&["backup", "--to", to, "--datadir-as", own, datadir]);
    let archive = |to: &str, own: &str, datadir: &str| {
        beside(&["redo", "archive", "--until-caught-up", "--to", to, "--datadir-as", own, datadir])
    };
    let unseen = beside(&["backup", "--to", "refused", "data"]);
    if unseen.errors.contains("unshare failed") {
        println!("skipped: no namespace of processes: {}", unseen.errors);
        return;
    }
    assert!(unseen.status == 2 && unseen.errors.contains("--datadir-as"), "{kind}: {}", unseen.errors);

    // The name, the files and the server must fit. A copy is no server's until one starts on it.
    server.copy("data", "twin");
    let mut wrong =
        vec![("/var/lib/mysql", "data", "not on /var/lib/mysql"), (&own, "twin", "no server has its files")];
    for is_running in [false, true] {
        if is_running {
            server.script_on("twin", "start", &[], "");
            let why = if kind == "mysql" { "has the UUID" } else { "checkpoint" };
            wrong = vec![(&own, "twin", why)];
            if kind == "mysql" {
                fs::copy(server.of("data/auto.cnf"), server.of("twin/auto.cnf")).expect("copied");
                wrong = vec![(&own, "twin", "")];
            }
        }
        for (own, datadir, why) in &wrong {
            for refused in [backup("refused", own, datadir), archive("refused", own, datadir)] {
                let says = &refused.errors;
                assert!(refused.status == 2 && says.contains(why) && says.contains("--datadir-as"), "{kind}: {says}");
                assert!(!server.of("refused").exists());
            }
        }
    }
    server.script_on("twin", "stop", &[], "");

    let archived = archive("redo", &own, "data");
    assert_eq!(archived.status, 0, "{kind}: {}", archived.errors);
    let taken = backup("set", &own, "data");
    assert_eq!(taken.status, 0, "{kind}: {}", taken.errors);
    let mut session = Session::on(server, &format!("{INSIDE}/data"));
    session.ask("DELETE FROM a WHERE id % 3 = 0; FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");
    let expected = session.ask("CHECKSUM TABLE a, z");
    drop(session);
    let archived = archive("redo", &own, "data");
    assert_eq!(archived.status, 0, "{kind}: {}", archived.errors);
    let restored = server.run(&["restore", "--redo", "redo", "--to", "out", "set"]);
    assert_eq!(restored.status, 0, "{kind}: {}", restored.errors);
    server.script_on("out", "start", &[], "");
    assert_eq!(Session::on(server, "out").ask("CHECKSUM TABLE a, z"), expected, "{kind}");
    server.script_on("out", "stop", &[], "");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mariadb_server_is_backed_up_from_another_container() {
    is_backed_up_from_another_container("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mysql_server_is_backed_up_from_another_container() {
    is_backed_up_from_another_container("mysql");
}

/// Runs a backup onto a disk of this many MiB, and looks at what is left on it. `None` if the machine does not allow that.
fn onto_a_disk_of(server: &Server, mib: u64, socket: &str) -> Option<(Run, String)> {
    let line = "mount -t tmpfs -o size=\"$0\" none disk || exit 77; \"$@\"; status=$?; \
                ls disk >left; \"$1\" backup verify disk/set >>left 2>&1; exit $status";
    let mut command = Command::new("unshare");
    fs::create_dir_all(server.of("disk")).expect("made");
    command.args(["--mount", "bash", "-c", line, &format!("{mib}M"), env!("CARGO_BIN_EXE_innokit")]);
    command.args(["backup", "--user", "root", "--to", "disk/set", "--socket", socket, "data"]);
    let run = ended(command.current_dir(server.folder.path()).env("HOME", server.folder.path()));
    if run.status == 77 || run.errors.contains("unshare failed") {
        println!("skipped: no file system of its own: {}", run.errors);
        return None;
    }
    Some((run, fs::read_to_string(server.of("left")).expect("read")))
}

/// `stage`: a statement of the backup after which the server gets rows, of which the log takes more than the disk has.
fn a_disk_is_full(kind: &'static str, stage: &'static str, engine: &str) {
    let server = Server::start(kind);
    // Tables of all engines count.
    server.script(
        "sql",
        &[],
        &format!(
            "CREATE TABLE shop.flat (c LONGBLOB) ENGINE={engine}; \
             INSERT INTO shop.flat SELECT REPEAT(UUID(), 30000) FROM shop.a LIMIT 40;"
        ),
    );
    let socket = server.socket().display().to_string();
    let whole = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(whole.status, 0, "{kind}: {}", whole.errors);
    let du = Command::new("du").args(["-sm", "set"]).current_dir(server.folder.path()).output().expect("du runs");
    let mib = String::from_utf8_lossy(&du.stdout).split_whitespace().next().map(str::parse::<u64>);
    let mib = mib.expect("a number").expect("a number");
    fs::remove_dir_all(server.of("set")).expect("removed");

    let Some((refused, left)) = onto_a_disk_of(&server, mib - 35, &socket) else { return };
    assert!(
        refused.status == 2 && refused.errors.contains("MiB are free there") && refused.errors.contains("make room"),
        "{kind}: {}",
        refused.errors
    );
    assert!(!left.starts_with("set"), "nothing is made: {left}");

    let (mut session, mut is_due) = (Session::of(&server), true);
    let proxy = Proxy::before(server.socket(), move |statement| {
        if statement == stage && std::mem::take(&mut is_due) {
            session.ask("CREATE TABLE filler (c LONGBLOB)");
            for _ in 0..4 {
                session.ask("INSERT INTO filler SELECT REPEAT(UUID(), 30000) FROM a LIMIT 20");
            }
            session.ask("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");
        }
        Fate::Pass
    });
    let (full, left) = onto_a_disk_of(&server, mib + 40, &proxy.socket().display().to_string()).expect("as before");
    assert!(
        full.status == 2 && full.errors.contains("No space left on device") && full.errors.contains("remove disk/set"),
        "{kind}: {} {}",
        full.status,
        full.errors
    );
    assert!(left.starts_with("set") && left.contains("is void"), "{kind}: {left}");
    // No lock is left.
    server.script("sql", &[], "CREATE TABLE shop.free (a INT); DROP TABLE shop.free;");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_mariadb_onto_a_full_disk_says_what_to_remove() {
    a_disk_is_full("mariadb118", "BACKUP STAGE FLUSH", "Aria");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_mysql_onto_a_full_disk_says_what_to_remove() {
    a_disk_is_full("mysql", "LOCK INSTANCE FOR BACKUP", "MyISAM");
}
