//! Indexes that MySQL builds without redo and without a note of it: a backup has their entries, and an archive says where they are.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, ended};
use crate::sql_proxy::{Fate, Proxy};
use tempfile::TempDir;

/// Indexes, and how to build each. Only the last is an online build, of which the log has a note.
const BUILDS: [(&str, &str); 6] = [
    ("shared", "ALTER TABLE docs_N ADD KEY shared (a), ALGORITHM=INPLACE, LOCK=SHARED"),
    ("exclusive", "ALTER TABLE docs_N ADD KEY exclusive (b), ALGORITHM=INPLACE, LOCK=EXCLUSIVE"),
    ("new", "ALTER TABLE docs_N ADD COLUMN v INT AS (a + 1) VIRTUAL, ADD KEY new (v)"),
    ("computed", "ALTER TABLE docs_N ADD KEY computed ((a * 2))"),
    ("tags", "ALTER TABLE docs_N ADD KEY tags ((CAST(j->'$' AS UNSIGNED ARRAY)))"),
    ("online", "ALTER TABLE docs_N ADD KEY online (b, a)"),
];
const ROWS: usize = 3000;

fn build(session: &mut Session, table: &str) {
    for (_, statement) in BUILDS {
        session.ask(&statement.replace("docs_N", table));
    }
}

/// Reads a table through each index.
fn counted(session: &mut Session, table: &str) -> Vec<String> {
    let through = ["shared (a)", "exclusive (b)", "new (v)", "computed (a * 2)", "online (b)"].map(|index| {
        let (name, value) = index.trim_end_matches(')').split_once(" (").expect("two words");
        format!("SELECT '{name}', COUNT({value}) FROM {table} FORCE INDEX ({name}) WHERE {value} IS NOT NULL")
    });
    let member = format!("SELECT 'tags', COUNT(*) FROM {table} FORCE INDEX (tags) WHERE 77 MEMBER OF (j->'$')");
    session.ask(&[&through[..], &[member]].concat().join(";"))
}

fn archive(server: &Server) -> String {
    server.script("sql", &[], "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS;");
    let socket = server.socket().display().to_string();
    let words = ["redo", "archive", "--until-caught-up", "--user", "root", "--socket", &socket, "--to", "redo", "data"];
    let done = server.run(&words);
    assert_eq!(done.status, 0, "{}", done.errors);
    done.errors
}

fn without_redo(server: &Server) -> Vec<String> {
    let verified = server.run(&["redo", "verify", "redo"]);
    assert_eq!(verified.status, 0, "{}{}", verified.text, verified.errors);
    verified.text.lines().filter(|line| line.starts_with("NO REDO")).map(str::to_owned).collect()
}

/// What adds indexes, pages and tables with redo.
const LOGGED: &str = "CREATE TABLE bare (id INT PRIMARY KEY, a INT); ALTER TABLE bare ADD KEY shared (a), ALGORITHM=INPLACE, LOCK=SHARED; \
    INSERT INTO bare SELECT id, a FROM a; CREATE TABLE copied (KEY (a)) SELECT id, a, b, c FROM a; ALTER TABLE copied ADD COLUMN q INT, ALGORITHM=COPY; \
    CREATE TABLE places (id INT PRIMARY KEY, p POINT NOT NULL SRID 0); INSERT INTO places SELECT id, POINT(id, a) FROM a; \
    ALTER TABLE places ADD SPATIAL KEY (p); CREATE TABLESPACE beside ADD DATAFILE 'beside.ibd'; CREATE TABLE general (id INT PRIMARY KEY, a INT, KEY (a)) TABLESPACE beside; \
    INSERT INTO general SELECT id, a FROM a; TRUNCATE copied; INSERT INTO copied (id, c) SELECT id, REPEAT(c, 200) FROM a LIMIT 300; DROP TABLE general";

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn indexes_that_mysql_builds_without_a_note_are_in_backups_and_named_in_archives() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start_in(folder, "mysql", &[]);
    let mut session = Session::of(&server);
    for table in ["docs_0", "docs_1", "docs_2"] {
        session.ask(&format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(100), j JSON); \
             INSERT INTO {table} (a, b, j) SELECT a, b, JSON_ARRAY(id % 100, id) FROM a"
        ));
    }
    build(&mut session, "docs_0");
    let expected = counted(&mut session, "docs_0");
    assert_eq!(expected.len(), BUILDS.len(), "{expected:?}");
    archive(&server);
    // The archive begins at a checkpoint from before these builds.
    let first = without_redo(&server);
    session.ask(LOGGED);
    assert_eq!((archive(&server).as_str(), without_redo(&server)), ("", first.clone()));

    // Built after the files were copied and before they are copied for the last time.
    let mut builder = Session::of(&server);
    let proxy = Proxy::before(server.socket(), move |statement| {
        if statement == "LOCK INSTANCE FOR BACKUP" {
            build(&mut builder, "docs_1");
        }
        Fate::Pass
    });
    let mut backup = server.innokit();
    backup.args(["backup", "--user", "root", "--to", "set", "--socket"]).arg(proxy.socket()).arg("data");
    let taken = ended(&mut backup);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    assert_eq!(counted(&mut session, "docs_1"), expected);
    let verified = server.run(&["backup", "verify", "--spool", ".", "set"]);
    assert!(verified.status == 0 && verified.text.contains("every entry has its row"), "{}", verified.text);
    archive(&server);
    let before = without_redo(&server).len();
    assert_eq!(before, first.len() + BUILDS.len());
    let restored = server.run(&["restore", "--redo", "redo", "--to", "out", "set"]);
    assert_eq!(restored.status, 0, "{}", restored.errors);
    server.script_on("out", "start", &[], "");
    let held = counted(&mut Session::on(&server, "out"), "docs_1");
    server.script_on("out", "stop", &[], "");
    assert_eq!(held, expected, "restored");

    build(&mut session, "docs_2");
    let told = archive(&server);
    assert_eq!(told.matches("was built without redo").count(), BUILDS.len(), "{told}");
    let named = without_redo(&server);
    assert_eq!(named.len(), before + BUILDS.len(), "{named:#?}");
    let refused = server.run(&["restore", "--redo", "redo", "--to", "refused", "set"]);
    assert!(refused.status == 2 && refused.errors.contains("(shop/docs_2.ibd)"), "{}", refused.errors);
    let until = refused.errors.rsplit("(--until ").next().and_then(|rest| rest.split(')').next()).expect("an LSN");
    assert!(named.iter().any(|line| line.contains(&format!("LSN {until}:"))), "{until}: {named:#?}");
    let up_to = server.run(&["restore", "--redo", "redo", "--until", until, "--to", "earlier", "set"]);
    assert_eq!(up_to.status, 0, "{}", up_to.errors);
    let rows = server.run(&["table", "count", "earlier/shop/docs_2.ibd"]);
    assert!(rows.text.contains(&format!("{ROWS}")) || rows.text.contains("3,000"), "{}", rows.text);
}
