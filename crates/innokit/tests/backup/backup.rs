//! `innokit backup` of busy servers: recovery yields the moment at which commits were blocked.
//!
//! The command talks to the server through a proxy that shows the tests each statement before the server gets it. So a test acts at a given
//! stage of the backup, not at a given time.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::backup_lab::load::Load;
use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, ended, lsn, sums_of};
use crate::sql_proxy::{Fate, Proxy};
use format::Lsn;
use redo::follow::Walk;
use redo::mariadb::{LogFile, START_OFFSET};

/// From this statement on, commits are blocked.
const COMMITS_BLOCKED: &str = "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS";
/// Tables that recovery brings to the moment of the backup, and tables that are copied while they cannot change.
const INNODB: &str = "engine = 'InnoDB'";
const OTHERS: &str = "engine != 'InnoDB'";
const STAGES: [&str; 6] = [
    "BACKUP STAGE START",
    "BACKUP STAGE FLUSH",
    "BACKUP STAGE BLOCK_DDL",
    "BACKUP STAGE BLOCK_COMMIT",
    COMMITS_BLOCKED,
    "BACKUP STAGE END",
];

fn backup(server: &Server, socket: &Path, more: &[&str]) -> Command {
    let mut command = server.innokit();
    command.args(["backup", "--user", "root", "--to", "set", "--socket"]).arg(socket).args(more).arg("data");
    command
}

/// Creates, alters, swaps and drops tables until it is told to stop.
fn definitions(server: &Server, stop: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let mut session = Session::of(server);
    thread::spawn(move || {
        for round in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            session.ask(&format!(
                "CREATE TABLE p_{round} LIKE a; INSERT INTO p_{round} SELECT * FROM a LIMIT 500; ALTER TABLE p_{round} ADD KEY k (c(10)); \
                 TRUNCATE p_{round}; INSERT INTO p_{round} SELECT * FROM a LIMIT 100; ALTER TABLE other.c FORCE; \
                 RENAME TABLE left_0 TO away, right_0 TO left_0, away TO right_0; INSERT INTO left_0 SELECT * FROM a LIMIT 3; \
                 ALTER TABLE p_{round} ADD COLUMN later INT, ALGORITHM=COPY; ALTER TABLE p_{round} ADD COLUMN more INT DEFAULT 5; \
                 RENAME TABLE p_{round} TO other.q_{round}; DROP TABLE IF EXISTS other.q_{old}",
                old = round - 3,
            ));
        }
    })
}

/// Runs a command that changes the backup in place, on a system that refuses writes behind the first MiB of any file: it fails halfway.
fn is_cut_off_and_can_be_finished(server: &Server, how: &[&str]) {
    let innokit = server.innokit();
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\""]).arg(innokit.get_program()).args(how);
    let cut = ended(limited.current_dir(server.folder.path()));
    assert!(cut.status == 2 && !server.of("out").exists(), "{how:?}: {}: {}", cut.status, cut.errors);
    assert_eq!(cut.errors.contains("run the same command again"), how.contains(&"--move"), "{}", cut.errors);
    let verified = server.run(&["backup", "verify", "set"]);
    let says = "innokit was interrupted while it made a datadir of this backup";
    assert!(verified.status == 2 && verified.errors.contains(says), "{how:?}: {}{}", verified.text, verified.errors);
}

/// Takes a backup during all kinds of changes, and compares it with a snapshot taken while commits were blocked.
fn a_backup_is_the_moment_without_commits(kind: &'static str, how: &[&str], name: &str) {
    let mut server = Server::start_in(
        tempfile::TempDir::new().expect("a folder"),
        kind,
        &["--log-bin".to_owned(), "--server-id=7".to_owned()],
    );
    server.script(
        "sql",
        &[],
        "CREATE TABLE shop.aria (id INT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=Aria; \
         CREATE TABLE shop.isam (id INT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=MyISAM; \
         CREATE VIEW shop.seen AS SELECT a FROM shop.aria;",
    );
    server.load_with(|round| format!("INSERT INTO isam (a) VALUES ({round});"));
    // An insert into an Aria table keeps the table locked while it waits for commits to be allowed. The snapshot, without which the backup
    // does not go on, would wait for that table.
    let mut aria = Load::default();
    aria.add_statements(&server, true, |round| format!("INSERT INTO aria (a) VALUES ({round});DO SLEEP(0.02)"));
    let gate = Arc::clone(&aria.gate);
    let stop = Arc::new(AtomicBool::new(false));
    let mut changing = Some(definitions(&server, Arc::clone(&stop)));
    let snapshot = Arc::new(Mutex::new((Session::of(&server), Vec::new(), String::new())));
    let taken = Arc::clone(&snapshot);
    let proxy = Proxy::before(server.socket(), move |statement| {
        match statement {
            // A snapshot cannot read tables whose definition changes.
            "BACKUP STAGE FLUSH" => {
                stop.store(true, Ordering::Relaxed);
                changing.take().map(thread::JoinHandle::join).expect("once").expect("ended");
            }
            "BACKUP STAGE BLOCK_COMMIT" => gate.close(),
            "BACKUP STAGE END" => gate.open(),
            COMMITS_BLOCKED => {
                let (session, others, gtid) = &mut *taken.lock().expect("whole");
                if others.is_empty() {
                    session.ask("START TRANSACTION WITH CONSISTENT SNAPSHOT");
                    *others = sums_of(session, OTHERS);
                    *gtid = session.ask("SELECT @@gtid_binlog_pos").concat();
                }
            }
            _ => {}
        }
        Fate::Pass
    });
    let done = ended(&mut backup(&server, &proxy.socket(), &["--json"]));
    assert_eq!(done.status, 0, "{kind}: {}", done.errors);
    let manifest = &done.json()["manifest"];
    let (session, others, gtid) = &mut *snapshot.lock().expect("whole");
    let mut expected = sums_of(session, INNODB);
    assert!(expected.len() > 12 && others.len() == 4, "{expected:?} {others:?}");
    expected.append(others);
    assert!(!gtid.is_empty() && manifest["binlog"]["gtid"] == gtid.as_str(), "{gtid}: {}", manifest["binlog"]);
    assert_eq!(manifest["state"], "complete");
    let verified = server.run(&["backup", "verify", "set"]);
    assert_eq!(verified.status, 0, "{kind}: {}{}", verified.text, verified.errors);
    if name == "set" || how.contains(&"--move") {
        is_cut_off_and_can_be_finished(&server, how);
    }
    let recovered = server.run(how);
    assert_eq!(recovered.status, 0, "{kind}: {}", recovered.errors);
    let rows = server.tables(name);
    let missing: Vec<&String> = expected.iter().filter(|line| !rows.lines().any(|row| row == line.as_str())).collect();
    assert!(missing.is_empty(), "{kind}: {missing:?} of {rows}");
    // No other tables are there; the view is listed with them, so leave it out.
    let of_tables = rows.lines().filter(|row| !row.contains("seen")).count();
    assert_eq!(of_tables, expected.len(), "{kind}: {rows}\n{expected:?}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_mariadb_10_11_at_work_is_the_moment_without_commits() {
    a_backup_is_the_moment_without_commits("mariadb", &["recover", "--to", "out", "set"], "out");
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_mariadb_11_4_at_work_is_the_moment_without_commits() {
    a_backup_is_the_moment_without_commits("mariadb114", &["recover", "--in-place", "set"], "set");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_mariadb_11_8_at_work_is_the_moment_without_commits() {
    a_backup_is_the_moment_without_commits("mariadb118", &["restore", "--move", "--to", "out", "set"], "out");
}

/// Asserts that nothing holds the server's locks and that the set is void.
fn is_void(server: &Server, why: &str) {
    // These statements wait for locks that are held, and fail if they stay held.
    server.script("sql", &[], "BACKUP STAGE START; BACKUP STAGE BLOCK_COMMIT; BACKUP STAGE END; CREATE TABLE shop.free (a INT); DROP TABLE shop.free;");
    let verified = server.run(&["backup", "verify", "set"]);
    assert!(verified.status == 1 && verified.text.contains("is void"), "{why}: {}{}", verified.text, verified.errors);
    let recovered = server.run(&["recover", "--to", "out", "set"]);
    assert!(recovered.status == 2 && recovered.errors.contains("is void"), "{why}: {}", recovered.errors);
    fs::remove_dir_all(server.of("set")).expect("removed");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_that_is_killed_or_cut_off_in_any_stage_leaves_no_lock_and_a_void_set() {
    let server = Server::start("mariadb");
    for stage in STAGES {
        let ((reached, when), (go_on, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let proxy = Proxy::before(server.socket(), move |statement| {
            if statement != stage {
                return Fate::Pass;
            }
            reached.send(()).expect("awaited");
            // Wait until the command is dead.
            released.recv().ok();
            Fate::Cut
        });
        let mut killed = backup(&server, &proxy.socket(), &[]).stdout(Stdio::null()).spawn().expect("innokit runs");
        when.recv().expect("reached");
        killed.kill().and_then(|()| killed.wait()).expect("killed");
        drop(go_on);
        is_void(&server, stage);

        let proxy =
            Proxy::before(server.socket(), move |statement| if statement == stage { Fate::Cut } else { Fate::Pass });
        let cut = ended(&mut backup(&server, &proxy.socket(), &[]));
        let says = format!("the connection to the server was lost at {stage}");
        assert!(cut.status == 2 && cut.errors.contains(&says), "{stage}: {}", cut.errors);
        is_void(&server, stage);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_does_not_outlive_a_restart_of_its_server() {
    let server = Arc::new(Server::start("mariadb118"));
    for stage in ["BACKUP STAGE FLUSH", COMMITS_BLOCKED] {
        // Weakly: the proxy never ends, and only when the last strong reference is dropped does the server stop.
        let (restarted, (up, is_up)) = (Arc::downgrade(&server), mpsc::channel());
        let mut up = Some(up);
        let proxy = Proxy::before(server.socket(), move |statement| {
            if let Some(up) = up.take_if(|_| statement == stage) {
                let server = restarted.upgrade().expect("in use");
                server.script("stop", &[], "");
                server.script("start", &[], "");
                up.send(()).expect("awaited");
            }
            Fate::Pass
        });
        let stopped = ended(&mut backup(&server, &proxy.socket(), &[]));
        // The log's follower loses its connection earlier, so the command may end before the server is up again.
        is_up.recv().expect("started");
        assert!(stopped.status == 2 && stopped.errors.contains("was lost at"), "{stage}: {}", stopped.errors);
        is_void(&server, stage);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn two_privileges_are_enough_and_what_is_missing_or_in_the_way_is_named() {
    let server = Server::start("mariadb118");
    server.script(
        "sql",
        &[],
        "CREATE USER bup@localhost IDENTIFIED BY 'se#cret'; GRANT RELOAD, BINLOG MONITOR ON *.* TO bup@localhost; \
         CREATE USER reload@localhost; GRANT RELOAD ON *.* TO reload@localhost; \
         CREATE USER monitor@localhost; GRANT BINLOG MONITOR ON *.* TO monitor@localhost; CREATE USER none@localhost;",
    );
    let file = server.of("backup.cnf");
    fs::write(&file, "[innokit]\nuser=bup\npassword=\"se#cret\"\n").expect("written");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
    let as_user = |more: &[&str]| {
        let mut command = server.innokit();
        command.args(["backup", "--socket"]).arg(server.socket()).args(more);
        command
    };
    let refused = |command: &mut Command, words: &str| {
        let run = ended(command);
        assert!(run.status == 2 && run.errors.contains(words), "{words}: {}: {}", run.status, run.errors);
    };
    let to = ["--to", "set", "data"];
    refused(as_user(&["--user", "bup"]).args(to), "refuses the login");
    refused(as_user(&["--user", "bup"]).args(to).env("INNOKIT_PASSWORD", "wrong"), "refuses the login");
    let lacking = [("reload", "BINLOG MONITOR"), ("monitor", "RELOAD"), ("none", "RELOAD, BINLOG MONITOR")];
    for (user, lacks) in lacking {
        let says = format!("privileges that a backup needs: GRANT {lacks} ON *.* TO '{user}'@'localhost'\n");
        refused(as_user(&["--user", user]).args(to), &says);
        assert!(!server.of("set").exists());
    }
    refused(
        as_user(&["--user", "bup"]).args(["--to", "data/set", "data"]).env("INNOKIT_PASSWORD", "se#cret"),
        "inside the datadir",
    );
    refused(as_user(&["--user", "bup"]).args(["--to", ".", "data"]).env("INNOKIT_PASSWORD", "se#cret"), "not empty");
    let mut other = Session::of(&server);
    other.ask("BACKUP STAGE START");
    let waits = ["--defaults-file", "backup.cnf", "--lock-wait", "1"];
    refused(as_user(&waits).args(to), "BACKUP STAGE START waited too long for a lock that another connection holds");
    other.ask("BACKUP STAGE END");
    is_void(&server, "another backup");
    let done = ended(as_user(&["--defaults-file", "backup.cnf", "--prepare"]).args(to));
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_eq!(server.run(&["backup", "verify", "set"]).status, 0);
    server.copy("set", "out");
    let before = server.script_on(
        "data",
        "sql",
        &["-N"],
        "SELECT COUNT(*) FROM shop.a; CHECKSUM TABLE shop.a, other.c, shop.z;",
    );
    let after = server.tables("out");
    assert!(before.lines().skip(1).all(|line| after.lines().any(|row| row == line)), "{before} {after}");
    // The set itself is unchanged.
    assert_eq!(server.run(&["backup", "verify", "set"]).status, 0);
    refused(as_user(&["--defaults-file", "backup.cnf"]).args(to), "not empty");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn older_servers_and_other_datadirs_are_refused() {
    let (old, server) = (Server::start("mariadb105"), Server::start("mariadb"));
    let run = ended(&mut backup(&old, &old.socket(), &[]));
    assert!(run.status == 2 && run.errors.contains("only MariaDB 10.8 and later"), "{}", run.errors);
    let run = ended(&mut backup(&server, &Server::start("mariadb118").socket(), &[]));
    assert!(run.status == 2 && run.errors.contains("the server that was named works on"), "{}", run.errors);
    assert!(!server.of("set").exists() && !old.of("set").exists());
}

/// Asserts that a changed backup is refused, whether it is to be copied or moved, and that nothing is left of it in the datadir.
fn nothing_is_restored(server: &Server, name: &str, keys: &Path) {
    for moves in [&[][..], &["--move"]] {
        let mut command = server.innokit();
        let run = ended(command.args(["restore", "bad", "--to", "nothing", "--key-file"]).arg(keys).args(moves));
        let is_refused = run.status == 1 && run.errors.contains("not as it was backed up: ");
        assert!(is_refused && !server.of("nothing").exists(), "{name} {moves:?}: {}{}", run.text, run.errors);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn whatever_is_done_to_a_backup_its_verification_tells() {
    let server = Server::start("mariadb");
    let done = ended(&mut backup(&server, &server.socket(), &["--json"]));
    assert_eq!(done.status, 0, "{}", done.errors);
    let change = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let path = server.of("bad").join(name);
        let mut bytes = fs::read(&path).expect("read");
        change(&mut bytes);
        fs::write(path, bytes).expect("written");
    };
    type Attack<'a> = (&'a str, &'a dyn Fn(), &'a str);
    let manifest = done.json()["manifest"].clone();
    let lsn = |name: &str| manifest[name].as_u64().expect("an LSN");
    // The offsets at which the log's last mini-transaction begins and ends.
    let log = fs::read(server.of("set/ib_logfile0")).expect("read");
    let parsed = LogFile::parse(&log[..START_OFFSET], log.len() as u64).expect("a log");
    let (last, _) = Walk::over(&parsed, Lsn(lsn("from_lsn")), &log[START_OFFSET..]).up_to(Lsn(lsn("to_lsn") - 1));
    let end = usize::try_from(lsn("to_lsn") - lsn("from_lsn")).expect("a short log");
    let attacks: [Attack<'_>; 10] = [
        ("removed", &|| fs::remove_file(server.of("bad/shop/a.frm")).expect("removed"), "shop/a.frm: missing"),
        (
            "added",
            &|| fs::write(server.of("bad/shop/new.frm"), "x").expect("written"),
            "shop/new.frm: not part of the backup",
        ),
        ("cut", &|| change("shop/a.ibd", &|bytes| bytes.truncate(bytes.len() / 2)), "shop/a.ibd: "),
        ("flipped", &|| change("shop/a.frm", &|bytes| bytes[40] ^= 1), "shop/a.frm: changed"),
        ("a page", &|| change("shop/a.ibd", &|bytes| bytes[5 * 16384 + 200] ^= 1), "shop/a.ibd: page 5 is damaged"),
        // A page with a correct checksum, but not the one that was backed up.
        ("another page", &|| change("shop/a.ibd", &|bytes| bytes[5 * 16384..6 * 16384].fill(0)), "shop/a.ibd: changed"),
        ("log cut", &|| change("ib_logfile0", &|bytes| bytes.truncate(START_OFFSET + 16)), "ib_logfile0: "),
        // An intact log that ends before the files do.
        (
            "log shortened",
            &|| change("ib_logfile0", &|bytes| bytes[START_OFFSET..][last..end].fill(0)),
            "the file was cut off",
        ),
        ("log emptied", &|| change("ib_logfile0", &|bytes| bytes[START_OFFSET..].fill(0)), "it cannot be recovered"),
        (
            "manifest",
            &|| {
                let text = fs::read_to_string(server.of("bad/innokit.manifest.json")).expect("read");
                let edited = text.replacen("\"needs_keys\": false", "\"needs_keys\": true", 1);
                assert_ne!(text, edited);
                fs::write(server.of("bad/innokit.manifest.json"), edited).expect("written");
            },
            "changed since it was written",
        ),
    ];
    for (name, attack, says) in attacks {
        server.copy("set", "bad");
        attack();
        let keys = server.of("keys.txt");
        fs::write(&keys, format!("1;{}\n", "5c".repeat(32))).expect("written");
        let verified = ended(server.innokit().args(["backup", "verify", "bad", "--key-file"]).arg(&keys));
        assert!(verified.status == 1 && verified.text.contains(says), "{name}: {}{}", verified.text, verified.errors);
        nothing_is_restored(&server, name, &keys);
        let after = ended(server.innokit().args(["backup", "verify", "bad", "--key-file"]).arg(&keys));
        assert_eq!(after.text, verified.text, "{name}: the files are as they were");
        fs::remove_dir_all(server.of("bad")).expect("removed");
    }
    let sound = server.run(&["backup", "verify", "set"]);
    assert!(sound.status == 0 && sound.text.contains("sound, to LSN"), "{}{}", sound.text, sound.errors);
    assert_eq!(server.run(&["recover", "--in-place", "set"]).status, 0);
    let recovered = server.run(&["backup", "verify", "set"]);
    assert!(
        recovered.status == 2 && recovered.errors.contains("has made a datadir of this backup"),
        "{}",
        recovered.errors
    );
    fs::remove_file(server.of("set/innokit.manifest.json")).expect("removed");
    let none = server.run(&["backup", "verify", "set"]);
    assert!(none.status == 2 && none.errors.contains("no backup of innokit"), "{}", none.errors);
}

/// An LSN, and the row counts and checksums of the tables at that LSN.
fn moment(server: &Server) -> (u64, Vec<String>) {
    let mut session = Session::of(server);
    session.ask("FLUSH TABLES WITH READ LOCK");
    let lsn = lsn(&mut session);
    let mut held = sums_of(&mut session, INNODB);
    held.extend(sums_of(&mut session, OTHERS));
    (lsn, held)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_and_the_archive_are_every_moment_since_and_none_before() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let server = Server::start_in(folder, "mariadb118", &["--log-bin=bin".to_owned(), "--server-id=7".to_owned()]);
    server.archive();
    let done = ended(&mut backup(&server, &server.socket(), &["--json"]));
    assert_eq!(done.status, 0, "{}", done.errors);
    let to_lsn = done.json()["manifest"]["to_lsn"].as_u64().expect("an LSN");
    server.script("sql", &[], "UPDATE shop.a SET a = a + 5 WHERE id % 3 = 0; DELETE FROM shop.b WHERE id % 4 = 0;");
    let (lsn, held) = moment(&server);
    let binlog = Session::of(&server).ask("SHOW MASTER STATUS").concat();
    server.script("sql", &[], "DELETE FROM shop.a;");
    server.archive();
    let recover = |until: u64| {
        let until = until.to_string();
        server.run(&["restore", "--json", "--redo", "redo", "--until", until.as_str(), "--to", "out", "set"])
    };
    // Some of the set's files are newer than that LSN.
    let early = recover(to_lsn - 1);
    assert!(early.status == 2 && early.errors.contains("before the end of the backup"), "{}", early.errors);
    let early = server.run(&["recover", "--until", (to_lsn - 1).to_string().as_str(), "--to", "out", "set"]);
    assert!(early.status == 2 && early.errors.contains("before the end of the backup"), "{}", early.errors);
    let late = recover(lsn + (1 << 30));
    assert!(late.status == 2 && late.errors.contains("the archive of the redo log ends at LSN"), "{}", late.errors);
    let done = recover(lsn);
    assert_eq!(done.status, 0, "{}", done.errors);
    // The last commit before that moment recorded its position in the binary log.
    let noted = &done.json()["binlog"];
    let noted = format!("{}\t{}", noted["file"].as_str().unwrap_or_default(), noted["position"]);
    assert!(!binlog.is_empty() && binlog.starts_with(&format!("{noted}\t")), "{noted} is not {binlog}");
    let rows = server.tables("out");
    let missing: Vec<&String> = held.iter().filter(|line| !rows.lines().any(|row| row == line.as_str())).collect();
    assert!(missing.is_empty() && held.len() > 12, "{missing:?} of {rows}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_an_encrypted_server_needs_its_keys_and_does_not_hold_them() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (keys, key) = (folder.path().join("keys.txt"), "5c".repeat(32));
    fs::write(&keys, format!("1;{key}\n")).expect("written");
    let options = [
        "--plugin-load-add=file_key_management".to_owned(),
        format!("--loose-file-key-management-filename={}", keys.display()),
        "--innodb-encrypt-log=ON".to_owned(),
        "--innodb-encrypt-tables=ON".to_owned(),
    ];
    let server = Server::start_in(folder, "mariadb", &options);
    let keys = keys.display().to_string();
    let locked = ended(&mut backup(&server, &server.socket(), &[]));
    assert!(locked.status == 2 && locked.errors.contains("--key-file"), "{}", locked.errors);
    assert!(!server.of("set").exists());
    let done = ended(&mut backup(&server, &server.socket(), &["--key-file", &keys, "--json"]));
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_eq!(done.json()["manifest"]["needs_keys"], true);
    let (_, held) = moment(&server);
    server.script("stop", &[], "");
    let locked = server.run(&["backup", "verify", "set"]);
    assert!(locked.status == 2 && locked.errors.contains("--key-file"), "{}", locked.errors);
    let verified = server.run(&["backup", "verify", "set", "--key-file", &keys]);
    assert_eq!(verified.status, 0, "{}{}", verified.text, verified.errors);
    let holds_key = Command::new("grep").args(["-rqai", &key]).arg(server.of("set")).status().expect("grep runs");
    assert_eq!(holds_key.code(), Some(1), "the set holds the key");
    let recovered = server.run(&["recover", "--to", "out", "--key-file", &keys, "set"]);
    assert_eq!(recovered.status, 0, "{}", recovered.errors);
    let rows = server.tables("out");
    let missing: Vec<&String> = held.iter().filter(|line| !rows.lines().any(|row| row == line.as_str())).collect();
    assert!(missing.is_empty() && held.len() > 12, "{missing:?} of {rows}");
}

/// Nothing on disk shows how the server encrypts: its first encrypted table is in memory only. The server says it.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_first_encrypted_table_of_a_server_is_backed_up_before_it_is_on_disk() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let keys = folder.path().join("keys.txt");
    fs::write(&keys, format!("1;{}\n", "5c".repeat(32))).expect("written");
    let options = [
        "--plugin-load-add=file_key_management".to_owned(),
        format!("--loose-file-key-management-filename={}", keys.display()),
        "--loose-file-key-management-encryption-algorithm=aes_ctr".to_owned(),
    ];
    let server = Server::start_in(folder, "mariadb", &options);
    let keys = keys.display().to_string();
    server.script(
        "sql",
        &["shop"],
        "SET GLOBAL innodb_max_dirty_pages_pct = 99; SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0; \
         CREATE TABLE fresh (id INT PRIMARY KEY) ENGINE=InnoDB ENCRYPTED=YES; INSERT INTO fresh VALUES (1), (2), (3);",
    );
    let done = ended(&mut backup(&server, &server.socket(), &["--key-file", &keys, "--json"]));
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_eq!(done.json()["manifest"]["cipher"], "aes_ctr");
    let restored = server.run(&["restore", "set", "--to", "out", "--key-file", &keys]);
    assert_eq!(restored.status, 0, "{}", restored.errors);
    server.script("stop", &[], "");
    assert!(server.tables("out").contains("`shop`.`fresh`\t3"));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_target_that_takes_no_more_leaves_no_lock_and_a_void_set() {
    let server = Server::start("mariadb118");
    server.script(
        "sql",
        &[],
        "USE shop; CREATE TABLE big (id INT PRIMARY KEY, c LONGTEXT); \
         INSERT INTO big SELECT seq, REPEAT(SHA2(seq, 256), 2000) FROM seq_1_to_250;",
    );
    // A limit on the length of files stands in for a full file system: the first stops the follower, the second the copy.
    for kib in [1024, 18 << 10] {
        let mut limited = Command::new("bash");
        limited.args(["-c", &format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"")]);
        let whole = backup(&server, &server.socket(), &[]);
        limited.arg(whole.get_program()).args(whole.get_args()).current_dir(server.folder.path());
        let stopped = ended(limited.env_remove("INNOKIT_PASSWORD").env("HOME", server.folder.path()));
        assert!(stopped.status == 2 && stopped.errors.contains("File too large"), "{kib}: {}", stopped.errors);
        is_void(&server, "no space");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_is_restored_whole_or_not_at_all() {
    let server = Server::start("mariadb");
    let done = ended(&mut backup(&server, &server.socket(), &[]));
    assert_eq!(done.status, 0, "{}", done.errors);
    let (_, held) = moment(&server);
    server.script("stop", &[], "");
    let tar = Command::new("tar").args(["-cf", "set.tar", "-C", "set", "."]).current_dir(server.folder.path()).status();
    assert!(tar.expect("tar runs").success());
    let verified = server.run(&["backup", "verify", "--progress", "always", "set"]);
    assert!(verified.status == 0 && verified.errors.contains("innokit: read "), "{}", verified.errors);
    for (backup, to) in [("set", "out"), ("set.tar", "unpacked")] {
        let restored = server.run(&["restore", backup, "--to", to, "--owner", "65534:65533", "--progress", "always"]);
        assert!(restored.status == 0 && restored.errors.contains("innokit: read "), "{backup}: {}", restored.errors);
        for file in [to.to_owned(), format!("{to}/ibdata1"), format!("{to}/shop"), format!("{to}/shop/a.ibd")] {
            let owned = fs::metadata(server.of(&file)).expect("is there");
            assert_eq!((owned.uid(), owned.gid()), (65_534, 65_533), "{file}");
        }
        let says = ["files are as they were backed up", "Next: start a server of 10.11."];
        assert!(says.iter().all(|words| restored.text.contains(words)), "{}", restored.text);
        let rows = server.tables(to);
        let missing: Vec<&String> = held.iter().filter(|line| !rows.lines().any(|row| row == line.as_str())).collect();
        assert!(missing.is_empty() && held.len() > 12, "{backup}: {missing:?} of {rows}");
    }

    let refused = |backup: &str, to: &str, status: i32, words: &str| {
        let run = server.run(&["restore", backup, "--to", to]);
        assert!(run.status == status && run.errors.contains(words), "{words}: {}: {}", run.status, run.errors);
    };
    refused("set", "out", 2, "the directory is not empty");
    server.copy("set", "bad");
    let frm = server.of("bad/shop/a.frm");
    let mut bytes = fs::read(&frm).expect("read");
    bytes[40] ^= 1;
    fs::write(&frm, bytes).expect("written");
    refused("bad", "nothing", 1, "shop/a.frm: changed");
    let tar = Command::new("tar").args(["-cf", "bad.tar", "-C", "bad", "."]).current_dir(server.folder.path()).status();
    assert!(tar.expect("tar runs").success());
    refused("bad.tar", "nothing", 1, "shop/a.frm: changed");
    let tar = File::options().write(true).open(server.of("set.tar")).expect("open");
    tar.set_len(tar.metadata().expect("known").len() / 2).expect("cut");
    refused("set.tar", "nothing", 1, "set.tar");
    assert!(!server.of("nothing").exists());
    refused("data/shop", "nothing", 2, "not a datadir");
    assert!(!server.of("nothing").exists());
}
