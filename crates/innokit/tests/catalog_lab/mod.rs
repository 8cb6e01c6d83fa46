//! Datadirs of real servers, in three ages and by two servers, to take files from. The server is the judge.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

pub mod cells;
pub mod rows;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::common::{copy, repository};

/// The ages of a datadir. Tests put files of the old and the new one into [`Age::Now`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// Before TRUNCATE, ALTER, RENAME and DROP.
    Old,
    /// The datadir that is damaged.
    Now,
    /// After more of these statements.
    New,
    /// Another server's, with tables of the same names.
    Other,
}

/// A server's verdict on a datadir.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judge {
    /// It starts, and every table can be read and written.
    Fine,
    /// It starts, but a statement fails.
    Hurt,
    /// It does not start.
    Refuses,
}

/// Everything needed to try the rows on one server.
pub struct Lab {
    pub kind: &'static str,
    folder: TempDir,
}

/// Tables that every age has; the judge reads and writes them all.
const TABLES: [&str; 11] = [
    "shop.orders",
    "shop.customers",
    "shop.items",
    "shop.renamed",
    "shop.imported",
    "shop.parts",
    "shop.subparts",
    "shop.words",
    "shop.far",
    "shop.other_engine",
    "`odd-name`.`t@k ble`",
];

/// All other tables except the discarded one, as the server lists them: including those of `.frm` files without a table.
const NAMES_SQL: &str = "
    SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables
    WHERE table_schema IN ('shop', 'odd-name') AND table_type <> 'VIEW' AND table_type <> 'SEQUENCE'
    AND table_name NOT IN ('discarded', 'orders', 'customers', 'items', 'renamed', 'imported', 'parts', 'subparts', 'words', 'far',
        'other_engine', 't@k ble');";

/// Time limit in seconds for the statements that judge a damaged datadir: servers may read a damaged file forever.
const PATIENCE_S: u32 = 60;
/// Time limit in seconds for everything else, on any machine.
const END_S: u32 = 600;
/// The exit status of `timeout` when the limit is exceeded.
const HANGS: i32 = 124;
/// MySQL writes its changed pages after it has been idle for a second. On a slow machine that second fits between a statement and the kill
/// after it: then the log has no work left. MariaDB has no such option, and leaves such pages unwritten.
const LEAVES_PAGES_UNWRITTEN: &str = "--loose-innodb-idle-flush-pct=0";

const TABLES_SQL: &str = "
    CREATE DATABASE shop; CREATE DATABASE `odd-name`; USE shop;
    CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(100), KEY (a)) ENGINE=InnoDB;
    INSERT INTO orders (a, b) VALUES (1, 'x'), (2, 'y'), (3, 'z');
    INSERT INTO orders (a, b) SELECT o.a, o.b FROM orders o, orders p, orders q;
    CREATE TABLE customers LIKE orders; INSERT INTO customers SELECT * FROM orders;
    CREATE TABLE items LIKE orders; INSERT INTO items SELECT * FROM orders;
    CREATE TABLE first_name LIKE orders; INSERT INTO first_name SELECT * FROM orders;
    CREATE TABLE imported LIKE orders; INSERT INTO imported SELECT * FROM orders;
    CREATE TABLE gone LIKE orders; INSERT INTO gone SELECT * FROM orders;
    CREATE TABLE discarded LIKE orders; ALTER TABLE discarded DISCARD TABLESPACE;
    CREATE TABLE parts (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id)
        (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000));
    INSERT INTO parts VALUES (1, 1), (20, 2);
    CREATE TABLE subparts (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2
        (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000));
    INSERT INTO subparts VALUES (1, 1), (20, 2);
    CREATE TABLE words (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b TEXT, FULLTEXT (b)) ENGINE=InnoDB;
    INSERT INTO words (a, b) VALUES (1, 'once upon a time');
    CREATE TABLE far (id INT PRIMARY KEY AUTO_INCREMENT, a INT) DATA DIRECTORY='FAR'; INSERT INTO far (a) VALUES (1);
    CREATE TABLE other_engine (id INT PRIMARY KEY AUTO_INCREMENT, a INT) ENGINE=MyISAM; INSERT INTO other_engine (a) VALUES (1);
    CREATE TABLE `odd-name`.`t@k ble` (id INT PRIMARY KEY AUTO_INCREMENT, a INT); INSERT INTO `odd-name`.`t@k ble` (a) VALUES (1);
    CREATE TEMPORARY TABLE shop.for_now (id INT PRIMARY KEY);
    CREATE VIEW shop.seen AS SELECT id FROM orders;
    RENAME TABLE first_name TO renamed;
";

const DDL_SQL: &str = "
    USE shop; TRUNCATE orders; INSERT INTO orders (a, b) SELECT a, b FROM items;
    ALTER TABLE customers ADD KEY in_place (b), ALGORITHM=INPLACE;
    ALTER TABLE items ADD COLUMN c INT, ALGORITHM=COPY;
    ALTER TABLE `odd-name`.`t@k ble` ADD COLUMN c INT;
    DROP TABLE IF EXISTS gone; CREATE TABLE made (id INT PRIMARY KEY);
    ALTER TABLE parts ADD PARTITION (PARTITION p2 VALUES LESS THAN (2000));
    DROP TABLE made;
";

impl Lab {
    /// Makes the datadirs in all ages.
    pub fn new(kind: &'static str) -> Self {
        let lab = Self { kind, folder: TempDir::new().expect("a folder") };
        let data = lab.data();
        std::fs::create_dir(lab.far()).expect("a folder");
        lab.init(&data);
        lab.start(&data).expect("the server starts");
        lab.sql(&data, &lab.tables_sql());
        lab.import(&data);
        lab.stop(&data);
        lab.keep(Age::Old);
        lab.start(&data).expect("the server starts");
        lab.sql(&data, DDL_SQL);
        lab.stop(&data);
        lab.keep(Age::Now);
        lab.start(&data).expect("the server starts");
        lab.sql(
            &data,
            &DDL_SQL
                .replace("in_place", "again")
                .replace("COLUMN c", "COLUMN d")
                .replace("p2", "p3")
                .replace("2000", "3000"),
        );
        lab.stop(&data);
        lab.keep(Age::New);
        lab.another();
        lab
    }

    /// A cleanly stopped datadir whose system tablespace consists of these files, written as in `innodb_data_file_path`.
    pub fn with_files(kind: &'static str, files: &str) -> Self {
        let lab = Self { kind, folder: TempDir::new().expect("a folder") };
        let (data, option) = (lab.data(), format!("--innodb-data-file-path={files}"));
        let output = lab.run("init", &data, &[&option], "");
        assert!(output.status.success(), "init {kind}: {}", String::from_utf8_lossy(&output.stderr));
        lab.start(&data).expect("the server starts");
        lab.sql(
            &data,
            "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO d.t VALUES (1);",
        );
        lab.stop(&data);
        lab
    }

    /// A server killed with work in its log. It ran `before` earlier, which may use the table `d.first`. [`Age::Old`] has its datadir as of
    /// the last clean stop, [`Age::Now`] as of the kill.
    pub fn killed(kind: &'static str, before: &str) -> Self {
        let lab = Self { kind, folder: TempDir::new().expect("a folder") };
        let data = lab.data();
        std::fs::create_dir(lab.far()).expect("a folder");
        lab.init(&data);
        lab.start(&data).expect("the server starts");
        lab.sql(
            &data,
            &format!(
                "CREATE DATABASE d; USE d; CREATE TABLE first (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(200)) ENGINE=InnoDB; \
                 INSERT INTO first (a) VALUES ('x'), ('y'); {before}; \
                 CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, a INT, KEY (a)) ENGINE=InnoDB; \
                 INSERT INTO orders (a) VALUES (1), (2), (3); INSERT INTO orders (a) SELECT o.a FROM orders o, orders p, orders q;"
            ),
        );
        lab.stop(&data);
        lab.keep(Age::Old);
        lab.work_and_kill();
        lab.keep(Age::Now);
        lab
    }

    /// Starts the server, lets it do a little, and kills it.
    pub fn work_and_kill(&self) {
        let data = self.data();
        self.start(&data).expect("the server starts");
        self.sql(
            &data,
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1; USE d; INSERT INTO first (a) SELECT a FROM orders; UPDATE orders SET a = a + 7;",
        );
        self.kill(&data);
    }

    /// A server with other ids: it had two tables before.
    fn another(&self) {
        let data = self.data();
        std::fs::remove_dir_all(&data).expect("removed");
        std::fs::remove_dir_all(self.far()).expect("removed");
        std::fs::create_dir(self.far()).expect("a folder");
        self.init(&data);
        self.start(&data).expect("the server starts");
        self.sql(&data, "CREATE DATABASE before_all; CREATE TABLE before_all.a (id INT PRIMARY KEY); CREATE TABLE before_all.b (id INT PRIMARY KEY);");
        self.sql(&data, &self.tables_sql());
        self.import(&data);
        self.stop(&data);
        self.keep(Age::Other);
    }

    fn tables_sql(&self) -> String {
        let more = match self.kind {
            "mysql" => "CREATE TABLESPACE roomy ADD DATAFILE 'roomy.ibd'; CREATE TABLE shop.in_roomy (id INT PRIMARY KEY) TABLESPACE roomy;
                CREATE UNDO TABLESPACE more ADD DATAFILE 'more.ibu';",
            _ => "CREATE SEQUENCE shop.numbers; CREATE TABLE shop.versioned (id INT PRIMARY KEY) WITH SYSTEM VERSIONING;
                CREATE TABLE shop.aria (id INT PRIMARY KEY) ENGINE=Aria;
                SET GLOBAL innodb_file_per_table = 0; CREATE TABLE shop.inside (id INT PRIMARY KEY) ENGINE=InnoDB; SET GLOBAL innodb_file_per_table = 1;",
        };
        format!("{}\n{more}", TABLES_SQL.replace("FAR", &self.far().display().to_string()))
    }

    /// Imports the file of one table as another's, as DBAs do.
    pub fn import(&self, data: &Path) {
        self.sql(data, "USE shop; ALTER TABLE imported DISCARD TABLESPACE;");
        // The lock on the exported table, and the file that describes it, last only as long as the connection.
        let mut command = self.command("sql", data, &["--skip-column-names", "--unbuffered", "shop"]);
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash runs");
        let mut stdin = client.stdin.take().expect("piped");
        stdin.write_all(b"FLUSH TABLES orders FOR EXPORT; SELECT 'locked';\n").expect("written");
        let mut answers = BufReader::new(client.stdout.take().expect("piped")).lines();
        assert_eq!(answers.next().expect("an answer").expect("text"), "locked");
        for extension in ["ibd", "cfg"] {
            let file = |name: &str| data.join("shop").join(name).with_extension(extension);
            std::fs::copy(file("orders"), file("imported")).expect("copied");
        }
        stdin.write_all(b"UNLOCK TABLES;\n").expect("written");
        drop(stdin);
        client.wait().expect("the client ends");
        self.sql(data, "USE shop; ALTER TABLE imported IMPORT TABLESPACE;");
        std::fs::remove_file(data.join("shop/imported.cfg")).expect("removed");
    }

    /// The datadir that servers run on.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Where tables with a DATA DIRECTORY lie.
    pub fn far(&self) -> PathBuf {
        self.folder.path().join("far")
    }

    /// The datadir of that age.
    pub fn of(&self, age: Age) -> PathBuf {
        self.folder.path().join(format!("{age:?}"))
    }

    fn keep(&self, age: Age) {
        copy(&self.data(), &self.of(age));
        copy(&self.far(), &self.of(age).with_extension("far"));
    }

    /// Puts the datadir of [`Age::Now`] in place.
    pub fn lay_out(&self) {
        self.lay_out_as(Age::Now);
    }

    /// Puts the datadir of another age in place.
    pub fn lay_out_as(&self, age: Age) {
        for (from, to) in [(self.of(age), self.data()), (self.of(age).with_extension("far"), self.far())] {
            if to.exists() {
                std::fs::remove_dir_all(&to).expect("removed");
            }
            copy(&from, &to);
        }
    }

    fn command(&self, action: &str, data: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(data).args(options);
        command
    }

    fn run(&self, action: &str, data: &Path, options: &[&str], input: &str) -> Output {
        self.run_within(END_S, action, data, options, input)
    }

    fn run_within(&self, seconds: u32, action: &str, data: &Path, options: &[&str], input: &str) -> Output {
        let mut command = Command::new("timeout");
        command.arg(seconds.to_string()).arg(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(data).args(options);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash runs");
        // A client that reads nothing may have closed already.
        drop(child.stdin.take().expect("piped").write_all(input.as_bytes()));
        child.wait_with_output().expect("it ends")
    }

    /// Without a path among the options, so that `server.sh` copies a datadir that it has made before.
    fn init(&self, data: &Path) {
        let options: &[&str] = if self.kind == "mysql" { &[] } else { &["--innodb-undo-tablespaces=3"] };
        let output = self.run("init", data, options, "");
        assert!(output.status.success(), "init {}: {}", self.kind, String::from_utf8_lossy(&output.stderr));
    }

    pub fn start(&self, data: &Path) -> Result<(), String> {
        let far = format!("--innodb-directories={}", self.far().display());
        let is_far = self.kind == "mysql" && self.far().exists();
        let options = if is_far { vec![LEAVES_PAGES_UNWRITTEN, &far] } else { vec![LEAVES_PAGES_UNWRITTEN] };
        let output = self.run("start", data, &options, "");
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    pub fn stop(&self, data: &Path) {
        self.run("stop", data, &[], "");
    }

    pub fn kill(&self, data: &Path) {
        self.run("kill9", data, &[], "");
    }

    /// Runs statements that must all succeed. Returns the server's answer.
    pub fn sql(&self, data: &Path, statements: &str) -> String {
        let output = self.run("sql", data, &["--skip-column-names"], statements);
        assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts the server on the datadir, and reads and writes every table. Returns the verdict and what the server said.
    pub fn judge(&self) -> (Judge, String) {
        let data = self.data();
        if let Err(why) = self.start(&data) {
            return (Judge::Refuses, why);
        }
        let named = self.run_within(PATIENCE_S, "sql", &data, &["--skip-column-names"], NAMES_SQL);
        let named = String::from_utf8_lossy(&named.stdout).into_owned();
        let others = named.lines();
        let each = TABLES.iter().map(|table| {
            format!("SELECT COUNT(*) FROM {table}; CHECK TABLE {table}; INSERT INTO {table} (id, a) VALUES (777, 7); SELECT MAX(a) FROM {table};\n")
        });
        let others = others.map(|table| {
            format!("SELECT COUNT(*) FROM {table}; CHECK TABLE {table}; INSERT INTO {table} (id) VALUES (777);\n")
        });
        let output = self.run_within(
            PATIENCE_S,
            "sql",
            &data,
            &["--skip-column-names", "--force"],
            &each.chain(others).collect::<String>(),
        );
        if output.status.code() == Some(HANGS) {
            self.kill(&data);
            return (Judge::Hurt, format!("a statement did not end within {PATIENCE_S} s"));
        }
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let complaints: Vec<&str> = text
            .lines()
            .filter(|line| {
                line.starts_with("ERROR")
                    || line.contains("\tError\t")
                    || line.contains("\terror\t")
                    || line.contains("orrupt")
            })
            .collect();
        let alive = self.run_within(PATIENCE_S, "sql", &data, &["-e", "SELECT 1"], "").status.success();
        if alive {
            self.stop(&data);
        }
        match (complaints.is_empty(), alive) {
            (true, true) => (Judge::Fine, String::new()),
            _ => (Judge::Hurt, complaints.join("\n")),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kill(&self.data());
    }
}
