//! `innokit diff` of one set at two moments: the statements take the later one back to the earlier, and only what the redo log changed is read.

use tempfile::TempDir;

use crate::backup_lab::Server;
use crate::common::{Run, is_soak};
use crate::random_tables::{history, seeds};

const NAMES: &str = "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables \
                     WHERE table_schema IN ('rnd', 'shop') AND table_type = 'BASE TABLE' ORDER BY 1";
const LSN: &str = "SELECT JSON_EXTRACT(storage_engines, '$.InnoDB.LSN') FROM performance_schema.log_status;";
const LSN_OF_MARIADB: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current';";

/// A server, its state, and where its log is then.
struct Moment {
    lsn: u64,
    sums: Vec<String>,
}

fn ask(server: &Server, question: &str) -> String {
    server.script_on("data", "sql", &["-N"], question)
}

fn moment(server: &Server) -> Moment {
    let names = ask(server, NAMES);
    let sums = format!("CHECKSUM TABLE {};", names.lines().collect::<Vec<_>>().join(", "));
    let lsn = if server.kind == "mysql" { LSN } else { LSN_OF_MARIADB };
    let answer = ask(server, &format!("FLUSH TABLES WITH READ LOCK; {lsn} {sums} UNLOCK TABLES;"));
    let (lsn, sums) = answer.split_once('\n').expect("an LSN");
    let lsn = lsn.split_whitespace().last().and_then(|lsn| lsn.parse().ok()).expect("an LSN");
    Moment { lsn, sums: sums.lines().map(str::to_owned).collect() }
}

/// Runs statements, some of which may fail.
fn attempt(server: &Server, statements: &str) {
    server.script("sql", &["--force", "--default-character-set=utf8mb4"], &format!("{statements}\nDO 0;\n"));
}

fn diff(server: &Server, (from, until): (u64, u64), more: &[&str]) -> Run {
    let [from, until] = [from, until].map(|lsn| lsn.to_string());
    server.run(&[&["diff", "base", "--redo", "redo", "--from", &from, "--until", &until], more].concat())
}

/// A stopped server's copy, and its archive from there on.
fn started(kind: &'static str, before: &str) -> Server {
    let server = Server::start_in(TempDir::new().expect("a folder"), kind, &[]);
    attempt(&server, before);
    server.script("stop", &["0"], "");
    server.copy("data", "base");
    // Before the start: MySQL then removes what it needs no more.
    let done = server.run(&["redo", "archive", "--until-caught-up", "--to", "redo", "data"]);
    assert_eq!(done.status, 0, "{kind}: {}", done.errors);
    server.script("start", &[], "");
    server.archive();
    server
}

/// The table of a line that says so.
fn inexact(line: &str) -> Option<String> {
    let (name, _) = line.split_once(": ").filter(|(_, said)| said.contains("JSON values are written as text"))?;
    Some(format!("{name}\t"))
}

fn a_bad_hour_is_taken_back(kind: &'static str) {
    let default = if is_soak() { 20..32 } else { 20..21 };
    for seed in seeds("INNOKIT_RANDOM_TABLES", default) {
        let [before, after] = history(kind, seed);
        let server = started(kind, &before);
        let lines: Vec<&str> = after.lines().collect();
        let (settings, rest) = lines.split_at(2);
        let (first, second) = rest.split_at(rest.len() / 2);
        attempt(&server, &[settings, first].concat().join("\n"));
        let earlier = moment(&server);
        attempt(&server, &[settings, second].concat().join("\n"));
        let later = moment(&server);
        server.archive_up_to(later.lsn);
        let what = format!("{kind}, seed {seed}");
        let moments = (earlier.lsn, later.lsn);
        let back = diff(&server, moments, &["--format", "sql", "--reverse"]);
        let forth = diff(&server, moments, &["--format", "sql"]);
        assert!(back.status < 2 && forth.status == back.status, "{what}: {}", back.errors);
        assert_eq!(back.status == 0, earlier.sums == later.sums, "{what}: {}", back.errors);
        // Tables with values of which SQL does not say all.
        let inexact: Vec<String> =
            [&back, &forth].iter().flat_map(|run| run.errors.lines()).filter_map(inexact).collect();
        let exact = |sums: &[String]| {
            sums.iter().filter(|line| !inexact.iter().any(|name| line.starts_with(name))).cloned().collect::<Vec<_>>()
        };
        server.script("sql", &[], &back.text);
        assert_eq!(exact(&moment(&server).sums), exact(&earlier.sums), "{what}: back");
        server.script("sql", &[], &forth.text);
        assert_eq!(exact(&moment(&server).sums), exact(&later.sums), "{what}: forth");
    }
}

/// Reads at most three pages for each changed leaf, and the pages above them: here the root, of A twice.
fn only_what_changed_is_read(kind: &'static str) {
    let server = started(kind, "");
    for (statement, leaves) in [
        ("UPDATE shop.a SET c = 'x' WHERE id = 1500", 1),
        ("UPDATE shop.a SET a = a + 1 WHERE id % 500 = 0", 6),
        ("DELETE FROM shop.a WHERE id = 700; INSERT INTO shop.a (id, a) VALUES (4000, 1)", 2),
        // So much more redo that it does not fit in the memory below.
        (
            "UPDATE shop.b SET c = REPEAT('y', 400); UPDATE shop.b SET c = REPEAT('z', 500); UPDATE shop.b SET c = REPEAT('y', 500)",
            0,
        ),
    ] {
        let earlier = moment(&server);
        server.script("sql", &[], statement);
        let later = moment(&server);
        server.archive_up_to(later.lsn);
        let run = diff(&server, (earlier.lsn, later.lsn), &["--summary", "--json", "--table", "shop.a"]);
        let report = run.json();
        assert_eq!(run.status, i32::from(leaves > 0), "{kind}: {statement}: {}", run.text);
        let read = report["pages_read"].as_u64().expect("a number");
        assert!(read <= (3 * leaves + 2).max(3), "{kind}: {statement}: {read} pages read");
        // From records that are spilled to a file.
        let spilled =
            diff(&server, (earlier.lsn, later.lsn), &["--summary", "--json", "--table", "shop.a", "--memory", "4M"]);
        let spilled = spilled.json();
        assert_eq!(
            (&spilled["tables"], &spilled["pages_read"]),
            (&report["tables"], &report["pages_read"]),
            "{kind}: {statement}"
        );
    }
    // From the end of the base copy's own log on.
    let all = server.run(&["diff", "base", "--redo", "redo", "--summary", "--table", "shop.a"]);
    assert!(all.text.starts_with("shop.a: 1 added, 1 removed, 6 changed\n"), "{kind}: {}{}", all.text, all.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn only_leaves_that_changed_are_read() {
    only_what_changed_is_read("mysql");
    only_what_changed_is_read("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_bad_hour_of_mysql_is_taken_back() {
    a_bad_hour_is_taken_back("mysql");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_bad_hour_of_mariadb_10_11_is_taken_back() {
    a_bad_hour_is_taken_back("mariadb");
}
