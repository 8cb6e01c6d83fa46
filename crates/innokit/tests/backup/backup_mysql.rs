//! `innokit backup` of busy MySQL servers: the restored set is at the moment that the manifest names, a replica can continue from there,
//! and a backup that fails leaves no lock and a void set.
//!
//! The command talks to the server through a proxy that shows the tests each statement before the server gets it. So a test acts at a given
//! stage of the backup, not at a given time.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::backup_lab::load::Load;
use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, ended, sums};
use crate::common::repository;
use crate::sql_proxy::{Fate, Proxy};
use tempfile::TempDir;

const LOCK: &str = "LOCK INSTANCE FOR BACKUP";
const MOMENT: &str = "SELECT local, storage_engines FROM performance_schema.log_status";
/// This statement keeps tables without transactions unchanged.
const TABLES: &str = "FLUSH TABLES `shop`";
/// The query that the log's follower repeats on its own connection.
const FOLLOWER: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_flushed_to_disk_lsn'";
/// Rounds of the load after the moment of the backup.
const AFTER: u32 = 5;
/// This account has exactly the privileges that are required.
const GRANTS: &str = "CREATE USER bup@localhost; GRANT BACKUP_ADMIN, PROCESS ON *.* TO bup@localhost; \
                      GRANT SELECT ON performance_schema.log_status TO bup@localhost;";

fn started(options: &[&str]) -> Server {
    let folder = TempDir::new().expect("a folder");
    Server::start_in(folder, "mysql", &options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>())
}

fn backup(server: &Server, socket: &Path, more: &[&str]) -> Command {
    let mut command = server.innokit();
    command.args(["backup", "--to", "set", "--socket"]).arg(socket).args(more);
    if !more.contains(&"--user") {
        command.args(["--user", "root"]);
    }
    command.arg("data");
    command
}

/// Asserts that the rows are the expected lines and no others, the view aside.
fn assert_tables(expected: &[String], rows: &str, what: &str) {
    let missing: Vec<&String> = expected.iter().filter(|line| !rows.lines().any(|row| row == line.as_str())).collect();
    let more: Vec<&str> =
        rows.lines().filter(|row| !row.contains("seen") && !expected.iter().any(|line| line == row)).collect();
    assert!(missing.is_empty() && more.is_empty(), "{what}: {missing:#?} are missing, {more:#?} are there");
    // Eleven tables always exist; of the others there may be none.
    assert!(expected.len() >= 22, "{what}: {expected:?}");
}

/// Changes rows, and creates, alters, swaps and drops tables of all kinds.
fn load(server: &Server) -> Load {
    let mut load = Load::default();
    load.add_statements(server, true, |round| {
        format!(
            "INSERT INTO a (a, b, c) SELECT a, b, c FROM b LIMIT 200;UPDATE a SET a = a + 1 WHERE id % 7 = {};DELETE FROM a LIMIT 150;\
             UPDATE z SET a = a + 1, c = REPEAT('{}', 300) WHERE id % 5 = {}",
            round % 7,
            round % 10,
            round % 5
        )
    });
    load.add_statements(server, true, |round| {
        format!(
            "INSERT INTO general (a) VALUES ({round});UPDATE other.c SET a = a + 1 WHERE id % 9 = {};INSERT INTO words (b) VALUES ('round {round} of many');\
             INSERT INTO parts VALUES ({}, {round})",
            round % 9,
            round + 1000
        )
    });
    // These wait for the backup's own lock.
    load.add_statements(server, false, |round| {
        format!("INSERT INTO isam (a) VALUES ({round});INSERT INTO commas VALUES ({round});DO SLEEP(0.05)")
    });
    // Definitions change whether or not rows do.
    load.add_statements(server, false, |round| {
        format!(
            "CREATE TABLE p_{round} LIKE a;INSERT INTO p_{round} SELECT * FROM a LIMIT 500;ALTER TABLE p_{round} ADD KEY k (c(10));\
             TRUNCATE p_{round};INSERT INTO p_{round} SELECT * FROM a LIMIT 100;RENAME TABLE p_{round} TO other.q_{round};\
             ALTER TABLE other.q_{round} ADD COLUMN more INT DEFAULT 5, ALGORITHM=INSTANT;\
             ALTER TABLE other.q_{round} ADD COLUMN later INT, ALGORITHM=COPY;DROP TABLE IF EXISTS other.q_{}",
            round.wrapping_sub(3)
        )
    });
    load.add_statements(server, false, |_| {
        "RENAME TABLE left_0 TO away, right_0 TO left_0, away TO right_0;INSERT INTO left_0 SELECT * FROM a LIMIT 3;\
         ALTER TABLE other.c FORCE;ALTER TABLE other.c ADD KEY new (a, b), ALGORITHM=INPLACE;ALTER TABLE other.c DROP KEY new;\
         ALTER TABLE b ADD KEY later (b(20), a), ALGORITHM=INPLACE;ALTER TABLE b DROP KEY later"
            .to_owned()
    });
    load.add_statements(server, false, |round| {
        format!(
            "ALTER TABLE parts ADD PARTITION (PARTITION n VALUES LESS THAN ({}));ALTER TABLE parts DROP PARTITION n;\
             ALTER TABLE z ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE={};OPTIMIZE TABLE z",
            2_000_000 + round,
            4 << (round % 2)
        )
    });
    load
}

/// Kinds of tables that the other tests here do not use.
const MORE_TABLES: &str = "USE shop; CREATE TABLE isam (id INT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=MyISAM; \
    CREATE TABLE commas (a INT NOT NULL) ENGINE=CSV; CREATE TABLESPACE beside ADD DATAFILE 'beside.ibd'; \
    CREATE TABLE general (id INT AUTO_INCREMENT PRIMARY KEY, a INT) TABLESPACE beside; CREATE UNDO TABLESPACE more ADD DATAFILE 'more.ibu'; \
    CREATE VIEW seen AS SELECT a FROM isam; CREATE DATABASE nothing; \
    ALTER TABLE parts ADD PARTITION (PARTITION p2 VALUES LESS THAN (1000000));";

/// The row counts and checksums of the tables at the moment of the backup, and the transactions executed by then.
#[derive(Default)]
struct Snapshot {
    sums: Vec<String>,
    gtids: String,
}

/// Takes a backup during all kinds of changes, which continue for a while. Returns its manifest, and a snapshot of its moment.
fn taken_at_work(server: &Server, load: &Load) -> (serde_json::Value, Snapshot) {
    let snapshot = Arc::new(Mutex::new(Snapshot::default()));
    let (taken, gate) = (Arc::clone(&snapshot), Arc::clone(&load.gate));
    let (rounds, stop) = (Arc::clone(&load.rounds), Arc::clone(&load.stop));
    let (mut session, mut is_locked) = (Session::of(server), false);
    let proxy = Proxy::before(server.socket(), move |statement| {
        match statement {
            FOLLOWER => {}
            LOCK => is_locked = true,
            MOMENT if is_locked => {
                gate.close();
                let gtids = session.ask("SELECT REPLACE(@@gtid_executed, '\\n', '')").concat();
                *taken.lock().expect("whole") = Snapshot { sums: sums(&mut session), gtids };
            }
            // The next statement proves that the moment's answer has arrived.
            _ => gate.open(),
        }
        if statement.starts_with("DO RELEASE_LOCK") {
            let at = rounds.load(Ordering::Relaxed);
            let (rounds, stop) = (Arc::clone(&rounds), Arc::clone(&stop));
            thread::spawn(move || {
                while rounds.load(Ordering::Relaxed) < at + AFTER {
                    thread::sleep(Duration::from_millis(20));
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
        Fate::Pass
    });
    let done = ended(&mut backup(server, &proxy.socket(), &["--json"]));
    load.gate.open();
    assert_eq!(done.status, 0, "{}", done.errors);
    let snapshot = std::mem::take(&mut *snapshot.lock().expect("whole"));
    (done.json()["manifest"].clone(), snapshot)
}

/// Executes on the server on `name` what follows the position in the other server's binary log.
fn replay(server: &Server, name: &str, binlog: &serde_json::Value) {
    let (first, position) = (binlog["file"].as_str().expect("a name"), binlog["position"].as_u64().expect("a number"));
    let index = fs::read_to_string(server.of("data/bin.index")).expect("an index");
    let files =
        index.lines().map(|line| line.trim_start_matches("./").to_owned()).filter(|file| file.as_str() >= first);
    let script = repository().join("scripts/server.sh").display().to_string();
    let replayed = Command::new("bash")
        .args(["-c", "set -eo pipefail; script=$1 position=$2 to=$3; shift 3; \
                      $script mysql tool mysqlbinlog --no-defaults --start-position=$position \"$@\" | $script mysql sql \"$to\""])
        .args(["replay", &script, &position.to_string()])
        .arg(server.of(name))
        .args(files.map(|file| server.of("data").join(file)))
        .output()
        .expect("bash runs");
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_mysql_at_work_is_its_moment_and_a_replica_goes_on_from_there() {
    let server = started(&["--log-bin=bin", "--server-id=7", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]);
    server.script("sql", &[], MORE_TABLES);
    let mut load = load(&server);
    load.go_on(2);
    let (manifest, snapshot) = taken_at_work(&server, &load);
    assert!(!snapshot.gtids.is_empty() && manifest["binlog"]["gtid"] == snapshot.gtids.as_str(), "{manifest}");
    assert_eq!((&manifest["state"], &manifest["locks"]["commit_ms"]), (&"complete".into(), &0.into()));
    load.end();
    let last = sums(&mut Session::of(&server));
    assert_ne!(snapshot.sums, last);
    server.script("stop", &[], "");

    let verified = server.run(&["backup", "verify", "set"]);
    assert!(verified.status == 0 && verified.text.contains("of MySQL "), "{}{}", verified.text, verified.errors);
    let restored = server.run(&["restore", "set", "--to", "out"]);
    assert_eq!(restored.status, 0, "{}", restored.errors);
    assert!(server.of("out/nothing").is_dir() && !server.of("out/auto.cnf").exists());
    assert_tables(&snapshot.sums, &server.tables("out"), "restored");
    // From that position on, nothing is missing and nothing is repeated.
    server.script_on("out", "start", &["--log-bin=other"], "");
    let gtids = Session::on(&server, "out").ask("SELECT REPLACE(@@gtid_executed, '\\n', '')").concat();
    assert_eq!(gtids, snapshot.gtids);
    replay(&server, "out", &manifest["binlog"]);
    assert_eq!(sums(&mut Session::on(&server, "out")), last);
    server.script_on("out", "stop", &[], "");
    // The server itself recovers the set as well.
    assert_tables(&snapshot.sums, &server.tables_with("set", true), "recovered by the server");
}

/// A proxy that shows `act` the statements of the connection that takes the backup, and whether definitions are blocked by then. If `both`,
/// it shows those of the log's follower too.
fn watched(server: &Server, both: bool, mut act: impl FnMut(&str, bool) -> Fate + Send + 'static) -> Proxy {
    let mut is_locked = false;
    Proxy::before(server.socket(), move |statement| {
        let fate = if both || statement != FOLLOWER { act(statement, is_locked) } else { Fate::Pass };
        is_locked |= statement == LOCK;
        fate
    })
}

/// Asserts that nothing holds the server's locks and that the set is void.
fn is_void(server: &Server, why: &str) {
    // These statements wait for locks that are held, and fail if they stay held.
    let free = server.script_on(
        "data",
        "sql",
        &["-N"],
        "SET lock_wait_timeout = 20; CREATE TABLE shop.free (a INT); DROP TABLE shop.free; INSERT INTO shop.isam (a) VALUES (1); \
         SELECT CONCAT('free: ', GET_LOCK('innokit backup', 20));",
    );
    assert!(free.contains("free: 1"), "{why}: {free}");
    let verified = server.run(&["backup", "verify", "set"]);
    assert!(verified.status == 1 && verified.text.contains("is void"), "{why}: {}{}", verified.text, verified.errors);
    let restored = server.run(&["restore", "set", "--to", "out"]);
    assert!(restored.status == 2 && restored.errors.contains("is void"), "{why}: {}", restored.errors);
    fs::remove_dir_all(server.of("set")).expect("removed");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_mysql_that_is_cut_off_in_any_stage_leaves_no_lock_and_a_void_set() {
    let server = Arc::new(started(&[]));
    server.script("sql", &[], "CREATE TABLE shop.isam (id INT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=MyISAM;");
    let stages: [(&'static str, bool); 8] = [
        ("SELECT GET_LOCK", false),
        (LOCK, false),
        (MOMENT, true),
        (TABLES, true),
        ("SELECT path", true),
        ("SHOW GLOBAL STATUS LIKE 'Com_alter_instance'", true),
        (FOLLOWER, true),
        ("UNLOCK INSTANCE", true),
    ];
    for (stage, locked) in stages {
        let is_it = move |statement: &str, is_locked: bool| statement.starts_with(stage) && is_locked == locked;
        let proxy = watched(
            &server,
            true,
            move |statement, is_locked| {
                if is_it(statement, is_locked) { Fate::Cut } else { Fate::Pass }
            },
        );
        let cut = ended(&mut backup(&server, &proxy.socket(), &[]));
        let says = format!("the connection to the server was lost at {stage}");
        assert!(cut.status == 2 && cut.errors.contains(&says), "{stage}: {}", cut.errors);
        is_void(&server, stage);
        if ![LOCK, TABLES].contains(&stage) {
            continue;
        }
        let ((reached, when), (go_on, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let proxy = watched(&server, true, move |statement, is_locked| {
            if !is_it(statement, is_locked) {
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
    }
    a_full_target_is_told(&server);
    an_overtaken_log_is_told(&server);
    a_restart_is_told(&server);
}

fn a_full_target_is_told(server: &Server) {
    // A limit on the length of files stands in for a full file system: the first stops the follower, the second the copy.
    for kib in [1, 10 << 10] {
        let mut limited = Command::new("bash");
        limited.args(["-c", &format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"")]);
        let whole = backup(server, &server.socket(), &[]);
        limited.arg(whole.get_program()).args(whole.get_args()).current_dir(server.folder.path());
        let stopped = ended(limited.env_remove("INNOKIT_PASSWORD").env("HOME", server.folder.path()));
        assert!(stopped.status == 2 && stopped.errors.contains("File too large"), "{kib}: {}", stopped.errors);
        is_void(server, "no space");
    }
}

/// The server overwrites its log several times before the follower looks at it again.
fn an_overtaken_log_is_told(server: &Server) {
    server.script("sql", &[], "SET GLOBAL innodb_redo_log_capacity = 8388608; CREATE TABLE shop.big (c LONGTEXT);");
    let (mut session, mut looks) = (Session::of(server), 0);
    let proxy = watched(server, true, move |statement, _| {
        looks += u32::from(statement == FOLLOWER);
        if looks == 3 && statement == FOLLOWER {
            for _ in 0..4 {
                session.ask("INSERT INTO big SELECT REPEAT(SHA2(id, 256), 200) FROM b LIMIT 1500; TRUNCATE big");
            }
        }
        Fate::Pass
    });
    let lost = ended(&mut backup(server, &proxy.socket(), &[]));
    assert!(lost.status == 2 && lost.errors.contains("has overwritten it from LSN"), "{}", lost.errors);
    is_void(server, "overtaken");
}

fn a_restart_is_told(server: &Arc<Server>) {
    // Weakly: the proxy never ends, and only when the last strong reference is dropped does the server stop.
    let (restarted, (up, is_up)) = (Arc::downgrade(server), mpsc::channel());
    let mut up = Some(up);
    let proxy = watched(server, false, move |statement, is_locked| {
        if let Some(up) = up.take_if(|_| statement == MOMENT && is_locked) {
            let server = restarted.upgrade().expect("in use");
            server.script("stop", &[], "");
            server.script("start", &[], "");
            up.send(()).expect("awaited");
        }
        Fate::Pass
    });
    let stopped = ended(&mut backup(server, &proxy.socket(), &[]));
    // The log's follower loses its connection earlier, so the command may end before the server is up again.
    is_up.recv().expect("started");
    assert!(stopped.status == 2 && stopped.errors.contains("was lost at"), "{}", stopped.errors);
    is_void(server, "restarted");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn three_privileges_are_enough_for_mysql_and_what_is_missing_or_in_the_way_is_named() {
    let folder = TempDir::new().expect("a folder");
    let outside = folder.path().join("outside").display().to_string();
    fs::create_dir(&outside).expect("made");
    let server = Server::start_in(folder, "mysql", &[format!("--innodb-directories={outside}")]);
    let log_status = "GRANT SELECT ON performance_schema.log_status TO";
    server.script(
        "sql",
        &[],
        &format!(
            "{GRANTS} CREATE USER a@localhost; GRANT BACKUP_ADMIN ON *.* TO a@localhost; {log_status} a@localhost; \
             CREATE USER b@localhost; GRANT PROCESS ON *.* TO b@localhost; {log_status} b@localhost; \
             CREATE USER c@localhost; GRANT PROCESS, BACKUP_ADMIN ON *.* TO c@localhost; CREATE USER d@localhost;"
        ),
    );
    let refused = |user: &str, more: &[&str], words: &str| {
        let run = ended(backup(&server, &server.socket(), &["--user", user]).args(more));
        assert!(run.status == 2 && run.errors.contains(words), "{words}: {}: {}", run.status, run.errors);
    };
    let of_status = "GRANT SELECT ON performance_schema.log_status TO";
    let lacking = [
        ("a", "GRANT PROCESS ON *.* TO 'a'@'localhost'\n".to_owned()),
        ("b", "GRANT BACKUP_ADMIN ON *.* TO 'b'@'localhost'\n".to_owned()),
        ("c", format!("{of_status} 'c'@'localhost'\n")),
        ("d", format!("GRANT BACKUP_ADMIN, PROCESS ON *.* TO 'd'@'localhost'; {of_status} 'd'@'localhost'\n")),
    ];
    for (user, grants) in &lacking {
        refused(user, &[], &format!("the account lacks privileges that a backup needs: {grants}"));
    }
    assert!(!server.of("set").exists());

    let done = ended(backup(&server, &server.socket(), &["--user", "bup"]).arg("--prepare"));
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_eq!(server.run(&["backup", "verify", "set"]).status, 0);
    let held = sums(&mut Session::of(&server));
    fs::rename(server.of("set"), server.of("prepared")).expect("renamed");
    let rows = server.tables("prepared");
    let missing: Vec<&String> = held.iter().filter(|line| !rows.lines().any(|row| row == line.as_str())).collect();
    assert!(missing.is_empty() && held.len() > 12, "{missing:?} of {rows}");

    // Tables without redo require more privileges: all are named at once, before anything is copied.
    server.script("sql", &[], "CREATE TABLE shop.isam (id INT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=MyISAM;");
    let lacks = |grants: &[&str]| {
        let grants: Vec<String> = grants.iter().map(|what| format!("GRANT {what} TO 'bup'@'localhost'")).collect();
        refused("bup", &[], &format!("the account lacks privileges that a backup needs: {}\n", grants.join("; ")));
        assert!(!server.of("set").exists());
        server.script("sql", &[], &(grants.join("; ") + ";"));
    };
    server.script("sql", &[], "GRANT SELECT ON shop.isam TO bup@localhost;");
    lacks(&["FLUSH_TABLES ON *.*", "LOCK TABLES ON `shop`.*"]);
    server.script("sql", &[], "CREATE TABLE shop.more LIKE shop.isam;");
    lacks(&["SELECT ON `shop`.`more`"]);
    let done = ended(&mut backup(&server, &server.socket(), &["--user", "bup"]));
    assert_eq!(done.status, 0, "{}", done.errors);
    fs::remove_dir_all(server.of("set")).expect("removed");

    // Another backup, and a statement that blocks DDL.
    let mut other = Session::of(&server);
    other.ask("DO GET_LOCK('innokit backup', 9)");
    refused("bup", &["--lock-wait", "1"], "another backup by innokit is running");
    other.ask("DO RELEASE_LOCK('innokit backup')");
    is_void(&server, "another backup");
    other.ask("BEGIN; SELECT COUNT(*) FROM a");
    let mut waiting = Session::of(&server);
    let altering = thread::spawn(move || waiting.ask("ALTER TABLE a COMMENT 'waits'"));
    while !other.ask("SHOW FULL PROCESSLIST").iter().any(|line| line.contains("Waiting for table metadata lock")) {
        thread::sleep(Duration::from_millis(20));
    }
    refused("bup", &["--lock-wait", "1"], &format!("{LOCK} waited too long"));
    other.ask("COMMIT");
    altering.join().expect("ended");
    is_void(&server, "a lock");

    what_is_not_backed_up_is_refused(&server, &outside, &refused);
}

fn what_is_not_backed_up_is_refused(server: &Server, outside: &str, refused: &dyn Fn(&str, &[&str], &str)) {
    // What an administrator might do during a backup.
    let whatever = [
        (
            "ALTER INSTANCE DISABLE INNODB REDO_LOG; ALTER INSTANCE ENABLE INNODB REDO_LOG",
            "an ALTER INSTANCE statement ran",
        ),
        ("CREATE TABLE away (a INT) DATA DIRECTORY = '{}'", "a tablespace outside the datadir"),
    ];
    for (statements, words) in whatever {
        let (statements, mut session) = (statements.replace("{}", outside), Session::of(server));
        let proxy = watched(server, false, move |statement, _| {
            if statement == LOCK {
                session.ask(&statements);
            }
            Fate::Pass
        });
        let run = ended(&mut backup(server, &proxy.socket(), &[]));
        assert!(run.status == 2 && run.errors.contains(words), "{words}: {}", run.errors);
        is_void(server, words);
    }
    refused("root", &[], "a tablespace outside the datadir");
    server.script("sql", &[], "DROP TABLE shop.away; ALTER INSTANCE DISABLE INNODB REDO_LOG;");
    refused("root", &[], "redo logging is switched off");
    server.script("sql", &[], "ALTER INSTANCE ENABLE INNODB REDO_LOG;");
    assert!(!server.of("set").exists());
}

/// Its first page, which names its key, stays in the server's memory until the server needs to write. The log has the key.
fn a_new_encrypted_table_that_is_not_on_disk_is_backed_up(server: &Server, keys: &str) {
    let settings = "innodb_idle_flush_pct innodb_adaptive_flushing innodb_max_dirty_pages_pct_lwm";
    let set = |value: &str| settings.split(' ').map(|name| format!("SET GLOBAL {name} = {value};")).collect::<String>();
    let table =
        "CREATE TABLE shop.fresh (id INT PRIMARY KEY) ENCRYPTION='Y'; INSERT INTO shop.fresh VALUES (1), (2), (3);";
    server.script("sql", &[], &(set("0") + table));
    let names_key =
        |dir: &str| fs::read(server.of(dir).join("shop/fresh.ibd")).expect("a table")[10390..10393] == *b"lCC";
    let done = ended(&mut backup(server, &server.socket(), &["--keyring", keys]));
    assert!(done.status == 0 && !names_key("data") && !names_key("set"), "{}", done.errors);
    let verified = server.run(&["backup", "verify", "set", "--keyring", keys]);
    assert_eq!(verified.status, 0, "{}{}", verified.text, verified.errors);
    let restored = server.run(&["restore", "set", "--to", "out", "--keyring", keys]);
    assert!(restored.status == 0 && names_key("out"), "{}", restored.errors);
    let rows = server.run(&["table", "count", "--keyring", keys, "out/shop/fresh.ibd"]);
    assert!(rows.status == 0 && rows.text.contains("3 rows"), "{}{}", rows.text, rows.errors);
    ["set", "out"].iter().for_each(|dir| fs::remove_dir_all(server.of(dir)).expect("removed"));
    server.script("sql", &[], &("DROP TABLE shop.fresh;".to_owned() + &set("DEFAULT")));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_an_encrypted_mysql_needs_its_keyring_and_does_not_hold_it() {
    let server = started(&[]);
    server.script("stop", &[], "");
    let keys = server.of("keys").display().to_string();
    fs::write(server.of("data/mysqld.my"), "{ \"components\": \"file://component_keyring_file\" }\n").expect("written");
    let config = format!("{{ \"path\": \"{keys}\", \"read_only\": false }}\n");
    fs::write(server.of("data/component_keyring_file.cnf"), &config).expect("written");
    server.script("start", &[], "");
    a_new_encrypted_table_that_is_not_on_disk_is_backed_up(&server, &keys);
    server.script(
        "sql",
        &[],
        "ALTER TABLE shop.a ENCRYPTION='Y'; ALTER TABLE shop.z ENCRYPTION='Y'; ALTER TABLESPACE mysql ENCRYPTION='Y';",
    );
    let locked = ended(&mut backup(&server, &server.socket(), &[]));
    assert!(locked.status == 2 && locked.errors.contains("--keyring"), "{}", locked.errors);
    fs::remove_dir_all(server.of("set")).expect("void");
    server.script(
        "sql",
        &[],
        "SET GLOBAL innodb_redo_log_encrypt=ON; SET GLOBAL innodb_undo_log_encrypt=ON; UPDATE shop.a SET a = a + 1;",
    );
    // The log is encrypted too by now, and rows change while it is copied.
    let mut load = Load::default();
    load.add_statements(&server, true, |round| {
        format!("UPDATE a SET a = a + 1 WHERE id % 7 = {};UPDATE z SET a = a + 1", round % 7)
    });
    let locked = ended(&mut backup(&server, &server.socket(), &[]));
    assert!(locked.status == 2 && locked.errors.contains("--keyring"), "{}", locked.errors);
    fs::remove_dir_all(server.of("set")).expect("void");
    let snapshot = Arc::new(Mutex::new(Vec::new()));
    let (taken, gate, mut session) = (Arc::clone(&snapshot), Arc::clone(&load.gate), Session::of(&server));
    let proxy = watched(&server, false, move |statement, is_locked| {
        if statement == MOMENT && is_locked {
            gate.close();
            *taken.lock().expect("whole") = sums(&mut session);
        } else {
            gate.open();
        }
        Fate::Pass
    });
    let done = ended(&mut backup(&server, &proxy.socket(), &["--keyring", &keys, "--json"]));
    load.gate.open();
    load.end();
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_eq!(done.json()["manifest"]["needs_keys"], true);
    server.script("stop", &[], "");

    let locked = server.run(&["backup", "verify", "set"]);
    assert!(locked.status == 2 && locked.errors.contains("--keyring"), "{}", locked.errors);
    let verified = server.run(&["backup", "verify", "set", "--keyring", &keys]);
    assert_eq!(verified.status, 0, "{}{}", verified.text, verified.errors);
    let names = Command::new("find").arg(server.of("set")).args(["-name", "*key*", "-o", "-name", "*.my"]).output();
    let names = String::from_utf8(names.expect("find runs").stdout).expect("paths");
    assert!(names.lines().all(|name| name.contains("/performance_schema/")), "{names}");
    let restored = server.run(&["restore", "set", "--to", "out", "--keyring", &keys]);
    assert_eq!(restored.status, 0, "{}", restored.errors);
    let snapshot = snapshot.lock().expect("whole");
    for (name, recovers) in [("out", false), ("set", true)] {
        for file in ["mysqld.my", "component_keyring_file.cnf"] {
            fs::copy(server.of("data").join(file), server.of(name).join(file)).expect("copied");
        }
        let rows = server.tables_with(name, recovers);
        let missing: Vec<&String> =
            snapshot.iter().filter(|line| !rows.lines().any(|row| row == line.as_str())).collect();
        assert!(missing.is_empty() && snapshot.len() > 12, "{name}: {missing:?} of {rows}");
    }
}
