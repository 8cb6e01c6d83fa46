//! Files of different moments: the server's own account of its transactions is of yesterday, the tables are of today; or the pages of an index that
//! the dictionary has dropped already.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Run, check_json, innokit, reasons};
use crate::rows_lab::{Server, table};

/// More transactions than the 256 by which MySQL's account may lag behind, and more than it skips at each start.
const TRANSACTIONS: u32 = 900;

/// The files in which a server keeps account.
fn accounts(datadir: &Path) -> Vec<PathBuf> {
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    let files = fs::read_dir(datadir).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| name(path) == "ibdata1" || name(path).starts_with("undo")).collect();
    files.sort();
    files
}

/// `check` and `table check` of the datadir.
fn verdicts(server: &Server) -> [(Vec<String>, i32, String); 2] {
    let (document, status) = check_json(&server.datadir(), &[]);
    let run = table(&["check", "--progress", "never"], &[&server.datadir()]);
    let found = run.text.lines().filter(|line| line.contains("[stale_file]")).map(|_| "stale_file".to_owned());
    let found_by_check = reasons(&document).iter().map(|reason| (*reason).to_owned()).collect();
    [(found_by_check, status, format!("{document:#}")), (found.collect(), run.status, run.text)]
}

/// Whether the server starts and reads every row.
fn is_read_by(server: &Server) -> bool {
    let mut start = server.command("start", &[]);
    if !start.stderr(Stdio::null()).status().expect("bash runs").success() {
        server.command("kill9", &[]).stderr(Stdio::null()).status().ok();
        return false;
    }
    let mut sql = server.command("sql", &["-e", "SELECT COUNT(*), SUM(a) FROM d.t"]);
    let is_read = sql.stderr(Stdio::null()).status().expect("bash runs").success();
    server.command("kill9", &[]).stderr(Stdio::null()).status().expect("bash runs");
    is_read
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn tables_of_today_over_an_account_of_yesterday_are_noticed() {
    for kind in ["mariadb", "mariadb118", "mysql"] {
        let server = Server::empty(kind);
        server
            .sql("CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (0, 0);");
        server.stop();
        let kept: Vec<(PathBuf, Vec<u8>)> =
            accounts(&server.datadir()).into_iter().map(|path| (path.clone(), fs::read(path).expect("read"))).collect();
        server.script("start", &[], "");
        let rows: String = (1..=TRANSACTIONS).map(|id| format!("INSERT INTO d.t VALUES ({id}, {id});\n")).collect();
        server.sql(&rows);
        server.stop();
        for (found, status, text) in verdicts(&server) {
            assert_eq!((found.len(), status), (0, 0), "{kind}: {text}");
        }
        for (path, bytes) in kept {
            fs::write(path, bytes).expect("written");
        }
        for (found, status, text) in verdicts(&server) {
            assert_eq!((found, status), (vec!["stale_file".to_owned()], 1), "{kind}: {text}");
            assert!(text.contains("ibdata1") && text.contains("restore all files from one backup"), "{kind}: {text}");
            // MySQL's dictionary tells too, if its rows are as new as the tables'.
            assert!(text.contains("d/t.ibd") || text.contains("mysql.ibd"), "{kind}: {text}");
        }
        assert!(!is_read_by(&server), "{kind}: the server minds");
    }
}

/// Statements whose rows and pages could pass for those of another moment: tables of a server with far more transactions, rows of transactions
/// that were rolled back or wait for their coordinator, tables built without undo logs.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn tables_that_were_imported_and_changes_that_were_undone_are_of_this_moment() {
    for kind in ["mariadb118", "mysql"] {
        let [other, server] = [(), ()].map(|()| Server::empty(kind));
        let create = "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY (a));";
        let rows: String = (0..TRANSACTIONS).map(|id| format!("INSERT INTO t VALUES ({id}, {id});\n")).collect();
        other.sql(&format!("CREATE DATABASE d; USE d; {create} {rows}"));
        server.sql(&format!("CREATE DATABASE d; USE d; {create} ALTER TABLE t DISCARD TABLESPACE;"));
        export(&other, &server);
        let steps = [
            "ALTER TABLE t IMPORT TABLESPACE;",
            "DELETE FROM t WHERE id < 5;",
            "CREATE TABLE u LIKE t; START TRANSACTION; INSERT INTO u SELECT * FROM t; UPDATE u SET a = a + 1; ROLLBACK;",
            "INSERT INTO u SELECT * FROM t; ALTER TABLE u ADD c INT DEFAULT 1, ALGORITHM=COPY;",
            "CREATE TABLE s AS SELECT * FROM u; ALTER TABLE u FORCE;",
            "XA START 'x'; UPDATE u SET a = 0; XA END 'x'; XA PREPARE 'x';",
            "XA ROLLBACK 'x';",
        ];
        for step in steps {
            server.sql(&format!("USE d; {step}"));
            server.stop();
            let (document, status) = check_json(&server.datadir(), &[]);
            assert_eq!((reasons(&document).len(), status), (0, 0), "{kind}: {step}: {document:#}");
            server.script("start", &[], "");
        }
        [other, server].iter().for_each(Server::stop);
    }
}

/// Puts the other server's table in the place of the discarded one.
fn export(other: &Server, server: &Server) {
    let [from, to] = [other, server].map(|server| server.datadir().join("d"));
    // The locks last as long as the session: the server's own client waits in it until the files are copied.
    let mut client = other.command("sql", &["--unbuffered", "--skip-column-names"]).spawn().expect("bash runs");
    let mut input = client.stdin.take().expect("piped");
    let mut output = client.stdout.take().expect("piped");
    std::io::Write::write_all(&mut input, b"FLUSH TABLES d.t FOR EXPORT; SELECT 'locked';\n").expect("taken");
    let mut word = [0; 6];
    std::io::Read::read_exact(&mut output, &mut word).expect("locked");
    for name in ["t.ibd", "t.cfg"] {
        fs::copy(from.join(name), to.join(name)).expect("copied");
    }
    drop(input);
    assert!(client.wait().expect("ends").success());
}

/// A leaf of the tablespace's newest index.
fn leaf_of_the_newest_index(bytes: &[u8], page_size: usize) -> usize {
    let number =
        |at: usize, len: usize| bytes[at..at + len].iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let is_leaf = |page: &usize| number(page * page_size + 24, 2) == 17855 && number(page * page_size + 64, 2) == 0;
    let leaves: Vec<usize> = (0..bytes.len() / page_size).filter(is_leaf).collect();
    let index = |page: &usize| number(page * page_size + 66, 8);
    let newest = leaves.iter().map(index).max().expect("leaves");
    leaves.into_iter().filter(|page| index(page) == newest).nth(3).expect("an index of several leaves")
}

/// What a DBA sees who has rebuilt a damaged index and has had no purge since: an older snapshot was open, then the server was killed.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn damage_in_a_dropped_index_is_a_note() {
    let server = Server::empty("mariadb");
    let double = "INSERT INTO t (b) SELECT CONCAT(b, id) FROM t;".repeat(11);
    server.sql(&format!(
        "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(200), KEY k (b));
        INSERT INTO t (b) VALUES (REPEAT('x', 80)); {double}"
    ));
    server.stop();
    let path = server.datadir().join("d/t.ibd");
    let mut bytes = fs::read(&path).expect("read");
    let page = leaf_of_the_newest_index(&bytes, 16384);
    bytes[page * 16384 + 5000..][..8].copy_from_slice(b"XXXXXXXX");
    fs::write(&path, bytes).expect("written");
    let (document, status) = check_json(&server.datadir(), &[]);
    assert_eq!((reasons(&document).as_slice(), status), (&["checksum_mismatch"][..], 1), "{document:#}");
    server.script("start", &[], "");
    // As long as this session sees the index's row, the server does not purge it.
    let mut client = server.command("sql", &["--unbuffered", "--skip-column-names"]).spawn().expect("bash runs");
    let mut input = client.stdin.take().expect("piped");
    let mut output = client.stdout.take().expect("piped");
    let snapshot = b"START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT 'locked';\n";
    std::io::Write::write_all(&mut input, snapshot).expect("taken");
    std::io::Read::read_exact(&mut output, &mut [0; 6]).expect("begun");
    server.sql("USE d; ALTER TABLE t DROP INDEX k; ALTER TABLE t ADD INDEX again (b), ALGORITHM=INPLACE;");
    server.script("kill9", &[], "");
    drop(input);
    client.wait().expect("ends");
    let recovered = innokit().args(["recover", "--in-place"]).arg(server.datadir()).output().expect("innokit runs");
    assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let [check, of_tables] = [&["check"][..], &["table", "check"]].map(|words| {
        let command = innokit().args(words).args(["--progress", "never"]).arg(server.datadir()).output();
        Run::of(&command.expect("innokit runs"))
    });
    for run in [check, of_tables] {
        assert_eq!(run.status, 0, "{}{}", run.text, run.errors);
        let note = run.text.lines().find(|line| line.contains("t.ibd") && line.contains(&format!("page {page}")));
        let note = note.expect("a note about the page");
        assert!(note.contains(": note: ") && note.contains("an index that was dropped"), "{note}");
        assert!(!run.text.contains("restore this table"), "{}", run.text);
    }
    server.script("start", &[], "");
    assert!(server.sql("CHECK TABLE d.t;").contains("\tOK"), "the server minds");
    server.stop();
}
