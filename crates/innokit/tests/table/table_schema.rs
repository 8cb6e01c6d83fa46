//! Definitions read from the files equal the servers' SHOW CREATE TABLE, and executing them makes the same table again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::{Dir, Run, all_datadirs, innokit, repository};

/// A server on a new datadir, stopped on drop.
struct Server {
    kind: &'static str,
    dir: Dir,
}

impl Server {
    fn new(kind: &'static str) -> Self {
        let server = Self { kind, dir: Dir::new() };
        server.script("init", &[], "");
        server.script("start", &[], "");
        server
    }

    fn datadir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Runs `server.sh KIND ACTION DATADIR ARGS`. Returns its output.
    fn script(&self, action: &str, args: &[&str], input: &str) -> String {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(self.datadir()).args(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash runs");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("taken");
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{} {action}", self.kind);
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn sql(&self, statements: &str) -> String {
        self.script("sql", &["--batch", "--raw", "--skip-column-names"], statements)
    }

    /// SHOW CREATE TABLE of every table, by database and name.
    fn definitions(&self) -> BTreeMap<(String, String), String> {
        let tables = self.sql(
            "SELECT table_schema, table_name FROM information_schema.tables
             WHERE table_schema IN ('t', 'odd-db') AND table_type <> 'VIEW'",
        );
        let names: Vec<(String, String)> = tables
            .lines()
            .map(|line| line.split_once('\t').expect("two columns"))
            .map(|(schema, table)| (schema.to_owned(), table.to_owned()))
            .collect();
        let show =
            |(schema, table): &(String, String)| format!("SELECT '\u{1}'; SHOW CREATE TABLE `{schema}`.`{table}`;");
        let all = self.sql(&names.iter().map(show).collect::<String>());
        let shown =
            all.split("\u{1}\n").skip(1).map(|row| row.trim_end().split_once('\t').expect("two columns").1.to_owned());
        names.into_iter().zip(shown).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Runs in a failing test too, so that no server stays behind.
        let mut command = Command::new(repository().join("scripts/server.sh"));
        drop(command.args([self.kind, "stop"]).arg(self.datadir()).status());
    }
}

fn table_schema(args: &[&str]) -> Run {
    Run::of(&innokit().args(["table", "schema"]).args(args).output().expect("innokit runs"))
}

/// Once the table has rows, MySQL stores the counter elsewhere.
fn without_counter(definition: &str) -> String {
    let Some((before, after)) = definition.split_once(" AUTO_INCREMENT=") else { return definition.to_owned() };
    format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn files_tell_what_the_server_shows(kind: &'static str, scripts: &[&str], tables_min: usize) {
    let server = Server::new(kind);
    let script = |name: &&str| {
        std::fs::read_to_string(repository().join("crates/innokit/tests/schema").join(name)).expect("a script")
    };
    server.sql(&scripts.iter().map(script).collect::<String>());
    let before = server.definitions();
    assert!(before.len() >= tables_min, "{} tables", before.len());
    server.script("stop", &[], "");
    let datadir = server.datadir();
    let datadir = datadir.to_str().expect("UTF-8");
    let run = table_schema(&["--json", datadir]);
    assert_eq!((run.status, run.errors.as_str()), (0, ""));
    let report = run.json();
    let mut printed = BTreeMap::new();
    for table in report["tables"].as_array().expect("a list") {
        let text = |key: &str| table[key].as_str().expect("text").to_owned();
        let lacks_counter = table["missing"].to_string().contains("AUTO_INCREMENT");
        printed.insert((text("schema"), text("table")), (text("create_table"), lacks_counter));
    }
    for (name, shown) in &before {
        let (ours, lacks_counter) = printed.remove(name).unwrap_or_else(|| panic!("{kind}: {name:?} was not found"));
        let shown = if lacks_counter { without_counter(shown) } else { shown.clone() };
        assert_eq!(ours, shown, "{kind} {name:?}");
    }
    assert!(printed.is_empty(), "{kind}: tables that the server does not show: {:?}", printed.keys());

    if kind != "mysql" {
        damaged_foreign_keys_are_not_left_out_in_silence(&server);
    }

    // And back: an empty server makes the same tables from the statements.
    let sql = table_schema(&[datadir]);
    assert_eq!(sql.status, 0);
    server.script("start", &[], "");
    server.sql("SET FOREIGN_KEY_CHECKS = 0; DROP DATABASE t; DROP DATABASE `odd-db`;");
    server.sql(&sql.text);
    let after = server.definitions();
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    for (name, again) in &after {
        // No statement can ask for times in the format of MariaDB 5.3: a variable decides. And MySQL takes the collation in its own
        // statement for one that the user named, and prints the charset from then on. Options that the engine does not know are in comments.
        if !["ma_oldtemp", "my_coll2", "ma_engine_options"].contains(&name.1.as_str()) {
            assert_eq!(without_counter(again), without_counter(&before[name]), "{kind} {name:?}");
        }
    }
}

fn damaged_foreign_keys_are_not_left_out_in_silence(server: &Server) {
    let dir = Dir::new();
    let system = std::fs::read(server.datadir().join("ibdata1")).expect("read");
    std::fs::create_dir(dir.path().join("t")).expect("made");
    std::fs::copy(server.datadir().join("t/child.frm"), dir.path().join("t/child.frm")).expect("copied");
    dir.file("ibdata1", &system);
    let frm = dir.path().join("t/child.frm");
    let frm = frm.to_str().expect("UTF-8");
    let sound = table_schema(&[frm]);
    assert!(sound.text.contains("CONSTRAINT `fk_one` FOREIGN KEY (`p`)"), "{}", sound.text);
    let mut damaged = system;
    for page in
        damaged.chunks_mut(16384).filter(|page| page.windows(8).any(|name| name == b"t/fk_one" || name == b"/fk_one\0"))
    {
        page[130] ^= 1;
    }
    dir.file("ibdata1", &damaged);
    let run = table_schema(&[frm]);
    assert!(run.text.contains("-- not in the files: foreign keys"), "{}", run.text);
    assert!(!run.text.contains("FOREIGN KEY"), "{}", run.text);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mysql_s_files_tell_what_it_shows() {
    files_tell_what_the_server_shows("mysql", &["common.sql", "mysql.sql"], 70);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadb_s_files_tell_what_it_shows() {
    files_tell_what_the_server_shows("mariadb", &["common.sql", "mariadb.sql"], 70);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn newer_mariadb_s_files_tell_what_it_shows() {
    files_tell_what_the_server_shows("mariadb118", &["common.sql", "mariadb.sql", "mariadb118.sql"], 70);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_datadir_s_definitions_are_read() {
    for name in ["mysql-4k", "mysql-64k", "mariadb-8k", "mariadb-16k-crc32"] {
        let datadir = all_datadirs().join(name);
        let run = table_schema(&[datadir.to_str().expect("UTF-8"), "--table", "shop.types"]);
        assert_eq!((run.status, run.errors.as_str()), (0, ""), "{name}");
        assert!(run.text.contains("CREATE TABLE `types` (\n  `id` bigint"), "{name}: {}", run.text);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_the_files_do_not_hold_is_said() {
    let source = all_datadirs().join("mariadb-16k/shop");
    let dir = Dir::new();
    for file in ["words.frm", "words.ibd"] {
        dir.file(file, &std::fs::read(source.join(file)).expect("read"));
    }
    let file = dir.path().join("words.ibd");
    let run = table_schema(&[file.to_str().expect("UTF-8")]);
    assert_eq!(run.status, 0);
    assert!(run.text.contains("-- not in the files: foreign keys"), "{}", run.text);
    assert!(run.text.contains("FULLTEXT KEY `title_2` (`title`,`body`)"), "{}", run.text);
    std::fs::remove_file(dir.path().join("words.frm")).expect("removed");
    let run = table_schema(&[file.to_str().expect("UTF-8")]);
    assert_eq!((run.status, run.text.as_str()), (2, ""));
    assert!(run.errors.contains("holds no definition"), "{}", run.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_damaged_definition_is_never_a_shorter_answer() {
    let source = all_datadirs().join("mysql-16k/shop/types.ibd");
    let mut bytes = std::fs::read(source).expect("read");
    let dir = Dir::new();
    // Page 3 is the SDI root. Change one byte of its records.
    bytes[3 * 16384 + 200] ^= 1;
    let file = dir.file("types.ibd", &bytes);
    let run = table_schema(&[file.to_str().expect("UTF-8")]);
    assert_eq!((run.status, run.text.as_str()), (2, ""), "{}", run.errors);
    assert!(run.errors.contains("types.ibd: its dictionary information (SDI)"), "{}", run.errors);
    // A `.frm` file beside an encrypted tablespace is not encrypted, but foreign keys in an encrypted ibdata1 are.
    let encrypted = all_datadirs().join("mariadb-16k-enc");
    let run = table_schema(&[encrypted.to_str().expect("UTF-8"), "--table", "shop.types"]);
    assert_eq!(run.status, 0, "{}", run.errors);
    assert!(run.text.contains("-- not in the files: foreign keys"), "{}", run.text);
    let run = table_schema(&[dir.path().join("gone").to_str().expect("UTF-8")]);
    assert_eq!(run.status, 2, "{}", run.errors);
}
