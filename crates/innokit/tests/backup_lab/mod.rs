//! Busy servers, and the backups that mariadb-backup takes of them.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

pub mod killed;
pub mod load;
pub mod replica;
pub mod session;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use self::session::Session;
use crate::common::{Run, copy, innokit, repository};

pub const COLUMNS: &str = "id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(100), c TEXT, KEY (a), KEY (b)";
/// MySQL lacks MariaDB's sequence tables.
const NUMBERS_OF_MYSQL: &str = "(WITH RECURSIVE seq_to_3000 (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM seq_to_3000 WHERE seq < 3000) \
                                SELECT /*+ SET_VAR(cte_max_recursion_depth = 3000) */ seq FROM seq_to_3000) AS numbers";
/// Rounds of the load: enough to outlast every backup.
pub const ROUNDS: u32 = 10_000;
/// Changes pages of these tables and has them written: an increment holds only what is on disk, and a busy server writes when it likes.
pub const WRITTEN: &str = "USE shop; LOCK TABLES a WRITE, b WRITE; UPDATE a SET a = a + 1; UPDATE b SET a = a + 1; UNLOCK TABLES; \
                           FLUSH TABLES a, b FOR EXPORT; UNLOCK TABLES;";
/// Time limit for the archive to reach an LSN of the server.
const ARCHIVED_WITHIN: Duration = Duration::from_secs(120);
/// Time limit for the purge that a server does after it starts.
const PURGED_WITHIN: Duration = Duration::from_secs(120);
/// Attempts at a backup: the tool may give up.
const TRIES: u32 = 30;

/// A server, and a folder for its backups.
pub struct Server {
    pub kind: &'static str,
    pub folder: TempDir,
    pub load: Option<Child>,
    /// Its options. Every other server that starts on a backup gets them too.
    options: Vec<String>,
}

impl Server {
    pub fn start(kind: &'static str) -> Self {
        let folder = TempDir::new().expect("a folder");
        Self::start_in(folder, kind, &[])
    }

    /// A server with these options, in a folder that holds the files that they name.
    pub fn start_in(folder: TempDir, kind: &'static str, more: &[String]) -> Self {
        let is_mysql = kind == "mysql";
        // MySQL always has two undo tablespaces.
        let undo = Some("--innodb-undo-tablespaces=2".to_owned()).filter(|_| !is_mysql);
        let server = Self { kind, folder, load: None, options: undo.into_iter().chain(more.iter().cloned()).collect() };
        // Tools give up if the server overwrites its log before they have copied it.
        let log = if is_mysql { "--innodb-redo-log-capacity=512M" } else { "--innodb-log-file-size=512M" };
        let options = [log].into_iter().chain(server.options.iter().map(String::as_str));
        server.script("init", &options.collect::<Vec<_>>(), "");
        server.script("start", &[], "");
        let numbers = if is_mysql { NUMBERS_OF_MYSQL } else { "seq_1_to_3000" };
        let tables = format!(
            "CREATE DATABASE shop; CREATE DATABASE other; USE shop; CREATE TABLE a ({COLUMNS}) ENGINE=InnoDB; \
             INSERT INTO a (a, b, c) SELECT seq, SHA2(seq, 256), REPEAT('x', seq % 500) FROM {numbers}; \
             CREATE TABLE b LIKE a; INSERT INTO b SELECT * FROM a; CREATE TABLE other.c LIKE a; INSERT INTO other.c SELECT * FROM a; \
             CREATE TABLE parts (id INT PRIMARY KEY, a INT) ENGINE=InnoDB PARTITION BY RANGE (id) \
             (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000)); INSERT INTO parts VALUES (1, 1), (20, 2); \
             CREATE TABLE words (id INT PRIMARY KEY AUTO_INCREMENT, b TEXT, FULLTEXT (b)) ENGINE=InnoDB; \
             INSERT INTO words (b) VALUES ('once upon a time'); CREATE TABLE z LIKE a; ALTER TABLE z ROW_FORMAT=COMPRESSED; \
             INSERT INTO z SELECT * FROM a; CREATE TABLE left_0 LIKE a; CREATE TABLE right_0 LIKE a; INSERT INTO left_0 SELECT * FROM a LIMIT 9;"
        );
        server.script("sql", &[], &tables);
        // The tool records what happens to tables that are older than its log, so restart. The server then writes its pages soon, so that
        // increments hold some.
        server.script("stop", &[], "");
        server.script("start", &["--innodb-max-dirty-pages-pct=0", "--innodb-max-dirty-pages-pct-lwm=0"], "");
        server
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn script(&self, action: &str, options: &[&str], input: &str) {
        self.script_on("data", action, options, input);
    }

    /// Runs the server script on the folder `name`. Returns what it prints.
    pub fn script_on(&self, name: &str, action: &str, options: &[&str], input: &str) -> String {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(self.of(name)).args(options);
        let said = tempfile::tempfile().expect("a file");
        // A started server keeps the descriptors it inherits open: reading from a pipe would never end.
        let output = said.try_clone().expect("the same file");
        let mut child = command.stdin(Stdio::piped()).stdout(output).stderr(Stdio::piped()).spawn().expect("bash runs");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
        let ended = child.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{action} {}: {}", self.kind, String::from_utf8_lossy(&ended.stderr));
        let mut text = String::new();
        (&said).seek(SeekFrom::Start(0)).and_then(|_| (&said).read_to_string(&mut text)).expect("read");
        text
    }

    pub fn copy(&self, from: &str, to: &str) {
        copy(&self.of(from), &self.of(to));
    }

    /// Starts a server on the folder `name`, asserts that it finds all tables sound, and returns their row counts and checksums. The server
    /// must have nothing to recover.
    pub fn tables(&self, name: &str) -> String {
        self.tables_with(name, false)
    }

    /// Like [`Server::tables`]; with `recovers`, the server may do crash recovery.
    pub fn tables_with(&self, name: &str, recovers: bool) -> String {
        const NAMES: &str = "SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables \
                             WHERE table_schema IN ('shop', 'other') ORDER BY 1";
        self.script_on(name, "start", &self.options.iter().map(String::as_str).collect::<Vec<_>>(), "");
        let log = fs::read_to_string(self.of(&format!(".{name}.server/log"))).expect("a log");
        assert!(recovers || !log.contains("Starting crash recovery"), "{} {name}: {log}", self.kind);
        let names = self.script_on(name, "sql", &["-N"], NAMES);
        let ask = |what: &dyn Fn(&str) -> String| {
            let questions: String = names.lines().map(what).collect();
            self.script_on(name, "sql", &["-N"], &questions)
        };
        let started = Instant::now();
        // CHECK TABLE may count entries that purge removes at that moment, so wait for purge to end.
        loop {
            let checked = ask(&|table| format!("CHECK TABLE {table} EXTENDED;"));
            let unsound: Vec<&str> = checked.lines().filter(|line| !line.ends_with("\tOK")).collect();
            if unsound.is_empty() {
                break;
            }
            assert!(started.elapsed() < PURGED_WITHIN, "{} {name}: {unsound:?}", self.kind);
            std::thread::sleep(Duration::from_millis(300));
        }
        let rows = ask(&|table| format!("SELECT '{table}', COUNT(*) FROM {table}; CHECKSUM TABLE {table};"));
        self.script_on(name, "stop", &[], "");
        assert!(rows.lines().count() > 12, "{rows}");
        rows
    }

    /// Changes rows, and creates, alters, renames and drops tables, until it is killed.
    pub fn load(&mut self) {
        let definitions = |round: u32| {
            let next = round + 1;
            format!(
                "CREATE TABLE p_{round} LIKE a; INSERT INTO p_{round} SELECT * FROM a LIMIT 500; ALTER TABLE p_{round} ADD KEY k (c(10)); \
                 TRUNCATE p_{round}; DROP TABLE p_{round}; ALTER TABLE other.c FORCE; \
                 RENAME TABLE left_{round} TO left_{next}, right_{round} TO right_{next}; \
                 RENAME TABLE left_{next} TO away, right_{next} TO left_{next}, away TO right_{next}; "
            )
        };
        self.load_with(definitions);
    }

    /// Changes rows, and runs `more` in each round.
    pub fn load_with(&mut self, more: impl Fn(u32) -> String) {
        let rounds = (0..ROUNDS).map(|round| {
            format!(
                "INSERT INTO a (a, b, c) SELECT a, b, c FROM b LIMIT 300; UPDATE a SET a = a + 1 WHERE id % 7 = {}; DELETE FROM a LIMIT 200; \
                 UPDATE z SET a = a + 1 WHERE id % 5 = {}; {more} DO SLEEP(0.05);\n",
                round % 7,
                round % 5,
                more = more(round),
            )
        });
        let statements = self.of("load.sql");
        fs::write(&statements, rounds.collect::<String>()).expect("written");
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, "sql"]).arg(self.data()).args(["--force", "shop"]);
        command.stdin(fs::File::open(statements).expect("a file")).stdout(Stdio::null()).stderr(Stdio::null());
        self.load = Some(command.spawn().expect("the client runs"));
    }

    pub fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, "tool", "mariadb-backup"]).args(options);
        command
    }

    /// `innokit`, run in the server's folder. It does not see the option files or the password of the user who runs the tests.
    pub fn innokit(&self) -> Command {
        let mut command = innokit();
        command.current_dir(self.folder.path()).env_remove("INNOKIT_PASSWORD").env("HOME", self.folder.path());
        command
    }

    /// Runs [`Self::innokit`] with these arguments.
    pub fn run(&self, words: &[&str]) -> Run {
        ended(self.innokit().args(words))
    }

    /// Restores the set `set` with its archive, up to a moment.
    pub fn restore_until(&self, until: &str, to: &str) -> Run {
        self.run(&["restore", "--redo", "redo", "--until", until, "--to", to, "set"])
    }

    /// Archives all redo that the server has written so far.
    pub fn archive(&self) {
        // Servers write their logs lazily, and only what is written is archived.
        self.script("sql", &[], "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS;");
        let socket = self.socket().display().to_string();
        let words =
            ["redo", "archive", "--until-caught-up", "--user", "root", "--socket", &socket, "--to", "redo", "data"];
        let done = self.run(&words);
        assert_eq!(done.status, 0, "{}: {}", self.kind, done.errors);
    }

    /// The same, until the archive has reached `lsn`.
    pub fn archive_up_to(&self, lsn: u64) {
        let started = Instant::now();
        while self.archived_to() < lsn {
            assert!(started.elapsed() < ARCHIVED_WITHIN, "{}: LSN {lsn} is never archived", self.kind);
            self.archive();
        }
    }

    /// The LSN that the archive of its redo log reaches. Beyond a gap it would never reach anything that a test waits for.
    pub fn archived_to(&self) -> u64 {
        let report = self.run(&["redo", "verify", "--json", "redo"]).json();
        assert_eq!(report["ranges"].as_array().map(Vec::len), Some(1), "{}: {report}", self.kind);
        report["ranges"][0]["end_lsn"].as_u64().expect("an LSN")
    }

    /// The socket on which it listens, named as scripts/server.sh names it.
    pub fn socket(&self) -> PathBuf {
        let socket = Command::new("bash")
            .arg("-c")
            .arg("printf '/tmp/innokit-%s-%s.sock' \"$(id -u)\" \"$(printf '%s' \"$0\" | cksum | cut -d' ' -f1)\"")
            .arg(self.data().canonicalize().expect("a path"))
            .output();
        String::from_utf8(socket.expect("bash runs").stdout).expect("a path").into()
    }

    /// Takes a backup with the server's tool into the folder `name`. Returns the tool's standard output: the backup itself, if it is
    /// streamed.
    pub fn back_up(&self, name: &str, options: &[&str]) -> Vec<u8> {
        let socket = self.socket().display().to_string();
        let mut said = String::new();
        // With DDL running, the tool itself fails now and then. That is not what we test.
        for _ in 0..TRIES {
            let mut command = self.command(&["--no-defaults", "--backup", "--user=root", "--skip-ssl"]);
            command.arg(format!("--socket={socket}")).arg(format!("--datadir={}", self.data().display()));
            command.arg(format!("--target-dir={}", self.of(name).display())).args(options);
            let output = command.output().expect("bash runs");
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                let twice = self.copied_twice(name);
                if twice.is_empty() {
                    return output.stdout;
                }
                said = format!("the tool left one table under several names: {twice:?}");
            }
            fs::remove_dir_all(self.of(name)).ok();
        }
        panic!("{} {name}: {said}", self.kind);
    }

    /// Files of tables that a backup holds under several names, none of them marked for removal by the tool: the tables were renamed while
    /// it listed them.
    fn copied_twice(&self, name: &str) -> Vec<PathBuf> {
        let (mut spaces, mut twice) = (BTreeMap::new(), Vec::new());
        let dirs = fs::read_dir(self.of(name)).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = dirs.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten()).map(|entry| entry.path());
        for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "ibd")) {
            let bytes = fs::read(&path).expect("read");
            let space = bytes.get(34..38).map(<[u8]>::to_vec).filter(|space| *space != [0; 4]);
            let is_kept = !path.with_extension("del").exists();
            if let Some(space) = space.filter(|_| is_kept)
                && let Some(other) = spaces.insert(space, path.clone())
            {
                twice.extend([other, path]);
            }
        }
        twice
    }

    /// The name of the file in which the tool records a backup's state.
    pub fn note(&self) -> &'static str {
        if self.kind == "mariadb118" { "mariadb_backup_checkpoints" } else { "xtrabackup_checkpoints" }
    }

    pub fn prepare(&self, name: &str, options: &[&str]) {
        let (backup, mut command) = (self.of(name), self.command(&[]));
        // The plugin that decrypts is named in the backup's own option file.
        command.arg(format!("--defaults-file={}", backup.join("backup-my.cnf").display()));
        command.arg("--prepare").arg(format!("--target-dir={}", backup.display()));
        let output = command.args(options).output().expect("bash runs");
        assert!(output.status.success(), "{} {name}: {}", self.kind, String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let killed = Command::new(repository().join("scripts/server.sh"))
            .args([self.kind, "kill9"])
            .arg(self.data())
            .stderr(Stdio::null())
            .status();
        drop(killed);
        if let Some(mut load) = self.load.take() {
            drop(load.kill());
            drop(load.wait());
        }
    }
}

/// Runs the command to its end.
pub fn ended(command: &mut Command) -> Run {
    Run::of(&command.output().expect("innokit runs"))
}

/// Row counts and checksums of all tables for which the condition holds, as lines. [`Server::tables`] returns such lines for a restored
/// set.
pub fn sums_of(session: &mut Session, condition: &str) -> Vec<String> {
    let names = session.ask(&format!(
        "SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables \
         WHERE table_schema IN ('shop', 'other') AND table_type = 'BASE TABLE' AND {condition} ORDER BY 1"
    ));
    let ask = |name: &String| session.ask(&format!("SELECT '{name}', COUNT(*) FROM {name}; CHECKSUM TABLE {name}"));
    names.iter().flat_map(ask).collect()
}

/// Row counts and checksums of all tables.
pub fn sums(session: &mut Session) -> Vec<String> {
    sums_of(session, "TRUE")
}

/// An LSN at or after every change that the session sees.
pub fn lsn(session: &mut Session) -> u64 {
    const OF_MYSQL: &str = "SELECT JSON_EXTRACT(storage_engines, '$.InnoDB.LSN') FROM performance_schema.log_status";
    let answer = session.ask("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'");
    let answer = if answer.is_empty() { session.ask(OF_MYSQL) } else { answer };
    answer.concat().split_whitespace().last().and_then(|lsn| lsn.parse().ok()).expect("an LSN")
}

/// Runs a check. Returns its exit status, and its findings of damage.
pub fn said(words: &[&str], path: &Path) -> (i32, Vec<String>) {
    let run = Run::of(&innokit().args(words).arg("--json").arg(path).output().expect("innokit runs"));
    let document = run.json();
    let findings = document["findings"].as_array().expect("findings").iter();
    let damage = findings.filter(|finding| finding["severity"] == "damage").map(ToString::to_string);
    (run.status, damage.collect())
}

pub fn is_well(server: &Server, name: &str) {
    is_well_with(server, name, &[]);
}

/// Asserts that checks find nothing in a prepared backup, except rows of open transactions: the load may have been inside one.
pub fn is_well_with(server: &Server, name: &str, options: &[&str]) {
    for words in [&["check"][..], &["table", "check"]] {
        let output = innokit().args(words).arg("--json").args(options).arg(server.of(name)).output();
        let run = Run::of(&output.expect("innokit runs"));
        let is_open = |finding: &Value| {
            finding["message"]
                .as_str()
                .is_some_and(|message| message.contains("to be rolled back: the server does that"))
        };
        says_only(&run.json(), run.status, is_open, &format!("{} {name}, prepared: {words:?}", server.kind));
    }
}

/// Asserts that every finding worse than a notice is undecided and satisfies `is_one`.
pub fn says_only(document: &Value, status: i32, is_one: impl Fn(&Value) -> bool, what: &str) {
    let findings = document["findings"].as_array().expect("findings").iter();
    let findings = findings.filter(|finding| finding["severity"] != "notice");
    let (known, others): (Vec<_>, Vec<_>) = findings.partition(|finding| is_one(finding));
    let expected = if known.is_empty() { 0 } else { 2 };
    assert!(others.is_empty() && status == expected, "{what}: {status}: {others:#?}");
}

/// Unpacks an archive with innokit.
pub fn unpack(server: &Server, archive: &str, to: &str) {
    let output = innokit().arg("unpack").args([server.of(archive), server.of(to)]).output();
    let run = Run::of(&output.expect("innokit runs"));
    assert_eq!(run.status, 0, "{} {archive}: {}", server.kind, run.errors);
}

/// Every file below the folder `name`, and its bytes.
pub fn contents(server: &Server, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let (root, mut files) = (server.of(name), BTreeMap::new());
    let mut dirs = vec![root.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let below = path.strip_prefix(&root).expect("below").to_path_buf();
                files.insert(below, fs::read(&path).expect("read"));
            }
        }
    }
    files
}

pub fn assert_same(server: &Server, name: &str, other: &str, why: &str) {
    let (files, others) = (contents(server, name), contents(server, other));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&files), names(&others), "{}: {why}", server.kind);
    let different: Vec<_> =
        files.iter().filter(|(path, bytes)| others[*path] != **bytes).map(|(path, _)| path).collect();
    assert_eq!(different, Vec::<&PathBuf>::new(), "{}: {why}", server.kind);
}
