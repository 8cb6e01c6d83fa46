//! Moments before and after definitions changed, on MariaDB: the archive has the files that the redo lacks.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use crate::backup_lab::Server;
use crate::backup_lab::session::Session;
use tempfile::TempDir;

/// Statements after the backup, in steps.
const STEPS: [&str; 3] = [
    "CREATE TABLE made (id INT PRIMARY KEY, v INT); INSERT INTO made VALUES (1, 7); ALTER TABLE a ADD COLUMN later INT DEFAULT 5, ADD KEY later (later); \
     CREATE VIEW seen AS SELECT id, later FROM a; CREATE DATABASE extra; CREATE TABLE extra.t LIKE a; DROP TABLE brief; \
     CREATE TRIGGER counted BEFORE INSERT ON b FOR EACH ROW SET NEW.a = 1; ALTER TABLE parts ADD PARTITION (PARTITION p2 VALUES LESS THAN (5000))",
    "RENAME TABLE made TO moved; ALTER TABLE a DROP COLUMN b, ALGORITHM=COPY; ALTER TABLE b MODIFY COLUMN a INT DEFAULT 77; DROP VIEW seen; \
     ALTER TABLE parts DROP PARTITION p0; ALTER TABLE z ADD KEY more (a, id)",
    "DROP DATABASE extra; DROP TABLE moved; DROP TRIGGER counted; ALTER TABLE z DROP KEY more, FORCE; TRUNCATE left_0; CREATE TABLE made (x DATE)",
];

const DESCRIBED: &str = "SELECT table_schema, table_name, column_name, column_type, column_default FROM information_schema.columns \
    WHERE table_schema IN ('shop', 'other', 'extra') ORDER BY 1, 2, ordinal_position; \
    SELECT table_schema, table_name, index_name, column_name FROM information_schema.statistics WHERE table_schema IN ('shop', 'other', 'extra') \
    ORDER BY 1, 2, 3, seq_in_index; SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = 'shop'; \
    SELECT table_name, partition_name FROM information_schema.partitions WHERE table_schema = 'shop' AND partition_name IS NOT NULL ORDER BY 1, 2";

fn described(session: &mut Session) -> Vec<String> {
    let mut found = session.ask(DESCRIBED);
    let names = session.ask(
        "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema IN ('shop', 'other', 'extra') ORDER BY 1",
    );
    for name in names {
        found.extend(session.ask(&format!("CHECKSUM TABLE {name}; CHECK TABLE {name}")));
    }
    found
}

fn lsn(session: &mut Session) -> String {
    let answer =
        session.ask("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS; SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'").concat();
    answer.split_whitespace().last().expect("an LSN").to_owned()
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn moments_go_past_changes_of_definitions_on_mariadb() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start_in(folder, "mariadb", &["--log-bin=bin", "--server-id=7"].map(str::to_owned));
    let mut session = Session::of(&server);
    // Else FLUSH ENGINE LOGS flushes nothing, and what the archiver has seen is as of up to a second ago.
    session.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    server.archive();
    // Made so shortly before the backup that its file may not be written, and dropped after it.
    session.ask("CREATE TABLE brief LIKE a; INSERT INTO brief SELECT * FROM b LIMIT 50");
    // Of an engine without redo: the backup has it.
    session.ask("CREATE TABLE logged (id INT) ENGINE=Aria; INSERT INTO logged VALUES (1)");
    let socket = server.socket().display().to_string();
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    what_changed_right_after_a_backup_is_refused_with_the_moment_of_the_backup(&server, &mut session);
    server.archive();
    let mut moments = vec![(lsn(&mut session), described(&mut session))];
    for step in STEPS {
        server.archive();
        for statement in step.split(';') {
            session.ask(statement);
        }
        // The archiver looks at the files here: what changed until now was there before the next moment.
        server.archive();
        session.ask("UPDATE z SET a = a + 1 LIMIT 5");
        moments.push((lsn(&mut session), described(&mut session)));
    }
    server.archive();
    for (number, (until, expected)) in moments.iter().enumerate() {
        let out = format!("out{number}");
        let done = server.restore_until(until, &out);
        assert_eq!(done.status, 0, "{number}: {}", done.errors);
        server.script_on(&out, "start", &[], "");
        let found = described(&mut Session::on(&server, &out));
        server.script_on(&out, "stop", &[], "");
        let differs: Vec<_> = found.iter().zip(expected).filter(|(one, other)| one != other).collect();
        assert!(
            differs.is_empty() && found.len() == expected.len(),
            "moment {number}: {differs:#?} {} {}",
            found.len(),
            expected.len()
        );
        // Nothing that the copy has is called missing.
        assert!(!done.text.contains("missing "), "{}", done.text);
        assert!(done.text.contains("files of definitions changed"), "{}", done.text);
    }
    what_changed_between_two_looks_is_refused_with_ways_out(&server, &mut session);
    // A table of an engine without redo.
    session.ask("CREATE TABLE flat (id INT) ENGINE=Aria");
    server.archive();
    session.ask("UPDATE a SET a = a + 1 LIMIT 1");
    let until = lsn(&mut session);
    session.ask("INSERT INTO a (a) VALUES (1)");
    server.archive();
    let refused = server.restore_until(&until, "flat");
    assert!(refused.status == 2 && refused.errors.contains("altered or dropped: shop/flat"), "{}", refused.errors);
    let done = server.run(&["restore", "--stale-tables", "--redo", "redo", "--until", &until, "--to", "flat", "set"]);
    assert_eq!(done.status, 0, "{}", done.errors);
}

/// A server may flush its log long after it wrote it, and a definition that the archiver finds is certain from what is written on.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_archive_that_has_caught_up_is_restored_to_its_own_end() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start_in(folder, "mariadb118", &["--innodb-flush-log-at-timeout=4".to_owned()]);
    let mut session = Session::of(&server);
    let socket = server.socket().display().to_string();
    server.archive();
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    // Written at each commit, and flushed every four seconds.
    session.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 2; ALTER TABLE b ALTER COLUMN a SET DEFAULT 123");
    for _ in 0..20 {
        session.ask("UPDATE a SET a = a + 1 LIMIT 1");
    }
    let login = ["--user", "root", "--socket", &socket];
    let archived =
        server.run(&[&["redo", "archive", "--until-caught-up", "--to", "redo", "data"], &login[..]].concat());
    assert_eq!(archived.status, 0, "{}", archived.errors);
    let done = server.run(&["restore", "--redo", "redo", "--to", "out", "set"]);
    assert!(done.status == 0 && done.text.contains("1 files of definitions changed"), "{} {}", done.text, done.errors);
}

/// The archiver has not looked since before the backup.
fn what_changed_right_after_a_backup_is_refused_with_the_moment_of_the_backup(server: &Server, session: &mut Session) {
    session.ask("ALTER TABLE z COMMENT 'changed'; UPDATE a SET a = a + 1 LIMIT 10");
    let until = lsn(session);
    session.ask("UPDATE a SET a = a + 1 LIMIT 10");
    server.archive();
    let refused = server.restore_until(&until, "unsure");
    assert!(refused.status == 2 && refused.errors.contains(".frm: it changed at about"), "{}", refused.errors);
    let named = refused.errors.rsplit("(--until ").next().and_then(|rest| rest.split(')').next()).unwrap_or_default();
    let done = server.restore_until(named, "of_backup");
    assert_eq!(done.status, 0, "{named}: {}", done.errors);
}

/// A default value, which InnoDB does not know, changes while no archiver runs.
fn what_changed_between_two_looks_is_refused_with_ways_out(server: &Server, session: &mut Session) {
    const DEFAULT: &str =
        "SELECT column_default FROM information_schema.columns WHERE table_name = 'b' AND column_name = 'a'";
    let before = session.ask(DEFAULT);
    session.ask("UPDATE a SET a = a + 1 LIMIT 1; ALTER TABLE b ALTER COLUMN a SET DEFAULT 123");
    session.ask("UPDATE a SET a = a + 1 LIMIT 1");
    let until = lsn(session);
    session.ask("UPDATE a SET a = a + 1 LIMIT 1");
    server.archive();
    let refused = server.restore_until(&until, "unsure");
    assert!(refused.status == 2 && refused.errors.contains("shop/b.frm: it changed at about"), "{}", refused.errors);
    let named = |before: &str, after: char| {
        let rest = refused.errors.split(before).nth(1).unwrap_or_default();
        rest.split(after).next().unwrap_or_default().to_owned()
    };
    let ways = [(named("(--until ", ')'), before), (named("recover to LSN ", ' '), vec!["123".to_owned()])];
    for (number, (until, value)) in ways.into_iter().enumerate() {
        let out = format!("way{number}");
        let done = server.restore_until(&until, &out);
        assert_eq!(done.status, 0, "{until}: {} {}", done.errors, refused.errors);
        server.script_on(&out, "start", &[], "");
        assert_eq!(Session::on(server, &out).ask(DEFAULT), value, "{until}");
        server.script_on(&out, "stop", &[], "");
    }
}

/// On MySQL the redo has the definitions. There the file of such a table may not be written either.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_table_of_mysql_from_shortly_before_a_backup_is_there_before_its_drop_and_gone_after_it() {
    const LSN: &str = "SELECT JSON_EXTRACT(storage_engines, '$.InnoDB.LSN') FROM performance_schema.log_status";
    let server = Server::start("mysql");
    let mut session = Session::of(&server);
    server.archive();
    session.ask("CREATE TABLE brief LIKE a; INSERT INTO brief SELECT * FROM b LIMIT 50");
    let socket = server.socket().display().to_string();
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    let mut moments = Vec::new();
    for statement in ["UPDATE a SET a = a + 1 LIMIT 10", "DROP TABLE brief"] {
        session.ask(statement);
        session.ask("UPDATE left_0 SET a = a + 1");
        moments.push((session.ask(LSN).concat(), described(&mut session)));
    }
    session.ask("UPDATE left_0 SET a = a + 1");
    server.archive();
    for (number, (until, expected)) in moments.iter().enumerate() {
        let out = format!("out{number}");
        let done = server.restore_until(until, &out);
        assert_eq!(done.status, 0, "{number}: {}", done.errors);
        server.script_on(&out, "start", &[], "");
        assert_eq!(described(&mut Session::on(&server, &out)), *expected, "{number}");
        server.script_on(&out, "stop", &[], "");
    }
}
