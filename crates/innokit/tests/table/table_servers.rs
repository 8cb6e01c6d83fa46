//! Our counts equal the real servers', and every index entry matches its row: on tables of every kind that the servers made, altered,
//! changed at random and shut down cleanly, with rows that purge has not removed yet.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{Dir, Run, all_datadirs, innokit, repository};
use serde_json::Value;

/// A server of that kind on a copy of a datadir, stopped on drop.
struct Server {
    kind: &'static str,
    dir: Dir,
}

impl Server {
    fn on_copy_of(kind: &'static str, name: &str) -> Self {
        let dir = Dir::new();
        crate::common::copy(&all_datadirs().join(name), &dir.path().join("data"));
        let server = Self { kind, dir };
        // The options that the datadir was made with.
        let options: &[&str] = if kind == "mariadb" { &["--innodb-undo-tablespaces=3"] } else { &[] };
        server.script("start", options, "");
        server
    }

    fn datadir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, action: &str, args: &[&str]) -> Command {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(self.datadir()).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Runs `server.sh KIND ACTION DATADIR ARGS`. Returns its output.
    fn script(&self, action: &str, args: &[&str], input: &str) -> String {
        let mut child = self.command(action, args).spawn().expect("bash runs");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("taken");
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{} {action}", self.kind);
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn sql(&self, statements: &str) -> Vec<Vec<String>> {
        let text = self.script("sql", &["--batch", "--skip-column-names"], statements);
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// A session that keeps deleted rows alive: purge cannot remove what its snapshot still sees.
    fn hold_purge(&self) -> Child {
        let mut holder = self.command("sql", &["--batch", "--unbuffered", "more"]).spawn().expect("bash runs");
        let statements = b"START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT COUNT(*) FROM plain;\n";
        holder.stdin.as_mut().expect("piped").write_all(statements).expect("taken");
        let mut answer = String::new();
        BufReader::new(holder.stdout.as_mut().expect("piped")).read_line(&mut answer).expect("an answer");
        assert!(answer.contains("COUNT"), "{answer}");
        holder
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Runs in a failing test too, so that no server stays behind.
        drop(self.command("stop", &[]).status());
    }
}

/// Rows by table and index as the server counts them: through that index, and in total.
fn counts_of(server: &Server) -> BTreeMap<(String, String), u64> {
    let columns = "DISTINCT table_schema, table_name, index_name, index_type";
    let query = format!(
        "SELECT {columns} FROM information_schema.statistics WHERE table_schema IN ('shop', 'more') AND index_type <> 'FULLTEXT'"
    );
    let indexes: Vec<_> = server.sql(&query).into_iter().filter(|row| row[1] != "tags").collect();
    assert!(indexes.len() > 40, "{indexes:?}");
    let statement = |row: &Vec<String>| {
        let [schema, table, index, kind] = &row[..] else { panic!("{row:?}") };
        // To InnoDB, history versions of rows are rows.
        let all = if table == "versioned" { "FOR SYSTEM_TIME ALL" } else { "" };
        // MySQL takes COUNT(*) from the clustered index, even with FORCE INDEX.
        match kind.as_str() {
            "BTREE" => format!("SELECT IFNULL(SUM(1), 0) FROM `{schema}`.`{table}` {all} FORCE INDEX (`{index}`);"),
            _ => format!("SELECT COUNT(*) FROM `{schema}`.`{table}`;"),
        }
    };
    let statements: Vec<String> = indexes.iter().map(statement).collect();
    let counted = server.sql(&statements.concat());
    assert_eq!(counted.len(), indexes.len());
    let rows = indexes.iter().zip(counted);
    rows.map(|(row, counted)| {
        ((format!("{}.{}", row[0], row[1]), row[2].clone()), counted[0].parse().expect("a number"))
    })
    .collect()
}

fn innokit_table(arguments: &[&str], path: &Path) -> Run {
    Run::of(&innokit().arg("table").args(arguments).arg(path).output().expect("innokit runs"))
}

/// The indexes of a report, without partition names.
fn indexes(document: &Value) -> Vec<(String, String, &Value)> {
    let files = document["files"].as_array().expect("files").iter();
    let all = files.flat_map(|file| file["indexes"].as_array().expect("indexes"));
    all.filter_map(|index| {
        let table = index["table"].as_str()?.split(" partition ").next()?.to_owned();
        Some((table, index["name"].as_str()?.to_owned(), index))
    })
    .collect()
}

fn every_count_is_the_servers(kind: &'static str, datadir: &str, own: &str) {
    let server = Server::on_copy_of(kind, datadir);
    server.sql(include_str!("../more_tables/tables.sql"));
    server.sql(own);
    let mut holder = server.hold_purge();
    server.sql(include_str!("../more_tables/changes.sql"));
    let expected = counts_of(&server);
    drop(holder.stdin.take());
    // Purge has almost no time before the server stops, so deleted rows may still be in the pages.
    server.script("stop", &["1"], "");
    holder.wait().expect("ends");

    let document = innokit_table(&["count", "--json"], &server.datadir()).json();
    let mut counted: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (table, name, index) in indexes(&document) {
        *counted.entry((table, name)).or_default() += index["rows"].as_u64().expect("a number");
    }
    for (place, rows) in &expected {
        assert_eq!(counted.get(place), Some(rows), "{kind}: {place:?}");
    }

    let levels = indexes(&document).iter().filter_map(|(.., index)| index["levels"].as_u64()).collect::<BTreeSet<_>>();
    assert!(levels.last() >= Some(&4), "{kind}: trees of {levels:?} levels");

    let run = innokit_table(&["check", "--extended", "--json", "--max-findings", "10"], &server.datadir());
    let document = run.json();
    assert_eq!(run.status, 0, "{kind}: {}", document["findings"]);
    if kind == "mysql" {
        for (table, values) in [
            ("large", 7),
            ("pieces_1k", 7),
            ("pieces_2k", 7),
            ("pieces_4k", 7),
            ("pieces_8k", 7),
            ("pieces_16k", 7),
            ("pieces_json", 6),
        ] {
            assert_eq!(off_page_values(&document, table), values, "{table}");
        }
    }
    for (table, name, index) in indexes(&document) {
        let is_secondary = matches!(index["kind"].as_str(), Some("secondary" | "spatial"));
        if is_secondary && table != "more.tags" {
            assert_eq!(index["matched"], index["rows"], "{kind}: {table} {name}: {}", index["left_out"]);
        }
    }
}

/// Values of this length are always off page. Each must have been followed to its end.
fn off_page_values(document: &Value, table: &str) -> u64 {
    let all = indexes(document).into_iter().filter(|(name, ..)| name == &format!("more.{table}"));
    all.map(|(.., index)| index["off_page"].as_u64().expect("a number")).sum()
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mysql_counts_what_we_count_and_every_entry_has_its_row() {
    every_count_is_the_servers("mysql", "mysql-16k", include_str!("../more_tables/mysql.sql"));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadb_counts_what_we_count_and_every_entry_has_its_row() {
    every_count_is_the_servers("mariadb", "mariadb-16k", include_str!("../more_tables/mariadb.sql"));
}
