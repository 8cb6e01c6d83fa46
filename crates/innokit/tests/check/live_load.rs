//! `check --live` and `table check --live` next to real servers under a mixed DML and DDL load. No round may report damage, nor the first
//! anything undecided, and a page damaged on purpose in an idle table is still found.
//!
//! `INNOKIT_LIVE_SECONDS` sets how long each server and page size is under load (default 10).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{check_json, innokit, repository, total};
use serde_json::Value;
use tempfile::TempDir;

/// Generous for the slowest machine: it only keeps a hung test from running forever.
const PATIENCE: Duration = Duration::from_secs(600);

/// A server on its own datadir, killed by pid on drop.
struct Server {
    kind: &'static str,
    folder: TempDir,
}

impl Server {
    fn start(kind: &'static str, page_kib: u32) -> Self {
        // Not below /tmp, which may be in memory: reads and writes should race on a real file system.
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let server = Self { kind, folder };
        let temporary = server.folder.path().join("tmp");
        std::fs::create_dir(&temporary).expect("a folder");
        let mut options = vec![
            format!("--innodb-page-size={page_kib}k"),
            format!("--tmpdir={}", temporary.display()),
            // A small buffer pool and an eager page cleaner keep pages being written, and undo tablespaces are truncated as they grow.
            "--innodb-buffer-pool-size=32M".to_owned(),
            "--innodb-max-dirty-pages-pct=10".to_owned(),
            "--innodb-io-capacity=1000".to_owned(),
            "--innodb-undo-log-truncate=ON".to_owned(),
            "--innodb-max-undo-log-size=10M".to_owned(),
            "--innodb-purge-rseg-truncate-frequency=1".to_owned(),
            "--server-id=1".to_owned(),
            "--log-bin=binlog".to_owned(),
            "--max-binlog-size=4M".to_owned(),
        ];
        if kind != "mysql" {
            options.push("--innodb-undo-tablespaces=2".to_owned());
        }
        server.script("init", &options);
        server.script("start", &[]);
        server
    }

    fn datadir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, action: &str) -> Command {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(self.datadir());
        command
    }

    fn script(&self, action: &str, options: &[String]) {
        let output = self.command(action).args(options).stdin(Stdio::null()).output().expect("bash runs");
        assert!(output.status.success(), "{action} {}: {}", self.kind, String::from_utf8_lossy(&output.stderr));
    }

    /// A client that reads statements from standard input.
    fn client(&self, options: &[&str]) -> Child {
        let mut command = self.command("sql");
        let errors = self.folder.path().join("errors");
        let errors = std::fs::OpenOptions::new().create(true).append(true).open(errors).expect("a file");
        let piped = command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        piped.spawn().expect("the client runs")
    }

    /// The server's answer to `statements`, all of which must succeed.
    fn sql(&self, statements: &str) -> String {
        let mut client = self.client(&["--skip-column-names"]);
        client.stdin.take().expect("piped").write_all(statements.as_bytes()).expect("written");
        let output = client.wait_with_output().expect("the client ends");
        assert!(output.status.success(), "{statements}: {}", self.errors());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default()
    }

    /// A status counter of the server.
    fn status(&self, name: &str) -> u64 {
        let answer = self.sql(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
        let number = answer.split_whitespace().last().and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{name}: {answer}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let killed = self.command("kill9").stdin(Stdio::null()).output();
        // A server that never started has no pid to kill.
        drop(killed);
    }
}

/// Statements that several connections send until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    connections: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(server: &Server, connections: &[fn(u64) -> String]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let started = connections.iter().map(|statements| {
            let (statements, stop) = (*statements, Arc::clone(&stop));
            let mut client = server.client(&["--force", "--unbuffered", "--skip-column-names", "shop"]);
            std::thread::spawn(move || {
                let mut stdin = client.stdin.take().expect("piped");
                let mut answers = BufReader::new(client.stdout.take().expect("piped")).lines();
                for round in 0.. {
                    // One round at a time: statements already in the pipe could not be stopped.
                    let sent = stdin.write_all(format!("{}\nSELECT 'done';\n", statements(round)).as_bytes());
                    let answered = answers.next().is_some_and(|line| line.is_ok());
                    if stop.load(Ordering::Relaxed) || sent.is_err() || !answered {
                        break;
                    }
                }
                drop(stdin);
                client.wait().expect("the client ends");
            })
        });
        Self { connections: started.collect(), stop }
    }

    /// Waits for the statements already sent, but not forever.
    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + PATIENCE;
        for connection in self.connections {
            while !connection.is_finished() {
                assert!(Instant::now() < deadline, "the server does not come to the end of its load");
                std::thread::sleep(Duration::from_millis(20));
            }
            connection.join().expect("a connection");
        }
    }
}

const COLUMNS: &str = "id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(100), c TEXT, KEY (a), KEY (b)";

fn tables(kind: &str, page_kib: u32) -> String {
    let compressed_rows = if page_kib <= 16 { "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8" } else { "ROW_FORMAT=COMPACT" };
    let page_compressed = if kind == "mysql" { "COMPRESSION='zlib'" } else { "PAGE_COMPRESSED=1" };
    format!(
        "CREATE DATABASE shop; USE shop; CREATE TABLE d (d INT PRIMARY KEY); \
         INSERT INTO d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9); CREATE TABLE n (i INT PRIMARY KEY); \
         INSERT INTO n SELECT x.d + 10*y.d + 100*z.d FROM d x, d y, d z; \
         CREATE TABLE rows_dynamic ({COLUMNS}); CREATE TABLE rows_compressed ({COLUMNS}) {compressed_rows}; \
         CREATE TABLE rows_page ({COLUMNS}) {page_compressed}; CREATE TABLE rows_ddl ({COLUMNS}); \
         CREATE TABLE blobs (id INT PRIMARY KEY, body LONGBLOB); \
         CREATE TABLE idle ({COLUMNS}) STATS_AUTO_RECALC=0; \
         INSERT INTO idle (a, b, c) SELECT i, SHA2(i, 256), REPEAT(SHA2(i, 256), 8) FROM n; \
         FLUSH TABLES idle FOR EXPORT; UNLOCK TABLES;"
    )
}

/// Inserts, updates and deletes that keep the tables at a few thousand rows.
fn dml(round: u64) -> String {
    let mut text = String::new();
    for table in ["rows_dynamic", "rows_compressed", "rows_page"] {
        text += &format!(
            "INSERT INTO {table} (a, b, c) SELECT i, SHA2(i+{round}, 256), REPEAT(SHA2(i*{round}, 256), i%12) FROM n WHERE i < 300; \
             UPDATE {table} SET a = a+1, b = SHA2(id, 256), c = REPEAT(SHA2(a, 256), id%9) WHERE id%13 = {};\n\
             DELETE FROM {table} WHERE id%7 = {} ORDER BY id LIMIT 350;\n",
            round % 13,
            round % 7,
        );
    }
    text
}

/// Values of up to a few hundred KiB, and rolled-back transactions.
fn blobs(round: u64) -> String {
    format!(
        "REPLACE INTO blobs VALUES ({}, REPEAT(UNHEX(SHA2({round}, 256)), {}));\n\
         BEGIN; UPDATE blobs SET body = REPEAT('x', id*1000) WHERE id < 20; ROLLBACK;\n\
         DELETE FROM blobs WHERE id = {};\n",
        round % 60,
        100 + round * 37 % 9000,
        round * 7 % 60,
    )
}

/// Tables that are created, altered and dropped.
fn ddl(round: u64) -> String {
    format!(
        "CREATE TABLE passing_{round} LIKE rows_ddl;\n\
         INSERT INTO passing_{round} (a, b, c) SELECT i, SHA2(i, 256), REPEAT('y', i) FROM n;\n\
         ALTER TABLE passing_{round} ADD COLUMN later INT NOT NULL DEFAULT 7, ALGORITHM=INSTANT;\n\
         ALTER TABLE passing_{round} ADD KEY (c(20)), DROP KEY a;\n\
         ALTER TABLE passing_{round} ENGINE=InnoDB, FORCE;\n\
         ALTER TABLE rows_dynamic ADD COLUMN passing INT, ALGORITHM=INSTANT;\n\
         TRUNCATE TABLE passing_{round};\n\
         INSERT INTO passing_{round} (a, b, c) SELECT i, SHA2(i, 256), 'again' FROM n;\n\
         ALTER TABLE rows_dynamic DROP COLUMN passing, FORCE;\n\
         ALTER TABLE rows_compressed ENGINE=InnoDB, FORCE;\n\
         ALTER TABLE rows_page ENGINE=InnoDB, FORCE;\n\
         DROP TABLE IF EXISTS passing_{};\n",
        round.saturating_sub(2),
    )
}

fn seconds() -> Duration {
    let given = std::env::var("INNOKIT_LIVE_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    Duration::from_secs(given.unwrap_or(10))
}

/// The findings of a round that are worse than notices.
fn alarms(document: &Value) -> Vec<&Value> {
    let findings = document["findings"].as_array().expect("findings").iter();
    findings.filter(|finding| finding["severity"] != "notice").collect()
}

/// The document and the status of `table check --live` of the datadir.
fn table_check(server: &Server, words: &[&str]) -> (Value, Option<i32>) {
    let mut command = innokit();
    let output = command.args(["table", "check", "--live", "--json"]).args(words).arg(server.datadir()).output();
    let output = output.expect("innokit runs");
    let document = serde_json::from_slice(&output.stdout);
    (document.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))), output.status.code())
}

/// The outcome of `check --live`.
#[derive(Default)]
struct Watch {
    pages: u64,
    /// Trees that were checked, and findings about them that could not be decided.
    trees: u64,
    undecided: u64,
    rounds: u64,
    /// Findings that should not have been reported.
    false_reports: Vec<String>,
}

/// The server's work under load: pages written and tables altered.
struct Done {
    written: u64,
    altered: u64,
}

impl Done {
    fn by(server: &Server) -> Self {
        Self { written: server.status("Innodb_pages_written"), altered: server.status("Com_alter_table") }
    }

    fn since(&self, before: &Self) -> Self {
        Self { written: self.written - before.written, altered: self.altered - before.altered }
    }

    /// Whether this is enough to count as load.
    fn is_enough(&self) -> bool {
        self.written > 500 && self.altered > 5
    }
}

/// Checks under load until the time is up and, on a slow machine, until the server has done enough.
fn check_in_a_loop(server: &Server, before: &Done) -> Watch {
    let (deadline, mut watch) = (Instant::now() + seconds(), Watch::default());
    while watch.rounds < 2 || Instant::now() < deadline || !Done::by(server).since(before).is_enough() {
        assert!(Instant::now() < deadline + PATIENCE, "that was no load: {}", server.errors());
        let io = ["auto", "direct", "buffered"][watch.rounds as usize % 3];
        let (document, status) = check_json(&server.datadir(), &["--live", "--threads", "2", "--io", io]);
        let mut say = |words: String| watch.false_reports.push(format!("round {}, --io {io}: {words}", watch.rounds));
        for finding in alarms(&document) {
            say(finding.to_string());
        }
        for file in document["files"].as_array().expect("files").iter().filter(|file| !file["error"].is_null()) {
            say(file.to_string());
        }
        if status != 0 || total(&document, "corrupt") > 0 {
            say(format!("status {status}, {}", document["totals"]));
        }
        watch.pages += total(&document, "pages");
        let words: &[&str] = if watch.rounds.is_multiple_of(2) { &[] } else { &["--extended"] };
        let (document, status) = table_check(server, words);
        if !matches!(status, Some(0 | 2)) || total(&document, "damage") > 0 || total(&document, "failed_files") > 0 {
            let bad = document["findings"].as_array().expect("findings").iter();
            let bad: Vec<_> = bad.filter(|finding| finding["severity"] == "damage").collect();
            watch.false_reports.push(format!("round {}, trees: {bad:#?}, {}", watch.rounds, document["totals"]));
        }
        watch.trees += total(&document, "indexes");
        watch.undecided += total(&document, "undecided");
        watch.rounds += 1;
    }
    watch
}

/// Changes a byte in a leaf page of the idle table behind the server's back. Returns the page number.
fn damage(table: &Path, page_kib: u32) -> u64 {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(table).expect("the table");
    let size = u64::from(page_kib) * 1024;
    let page = 6;
    let (mut kind, mut byte) = ([0; 2], [0]);
    file.read_exact_at(&mut kind, page * size + 24).expect("read");
    assert_eq!(u16::from_be_bytes(kind), 17855, "page {page} is a B-tree page");
    file.read_exact_at(&mut byte, page * size + size / 2).expect("read");
    file.write_all_at(&[byte[0] ^ 1], page * size + size / 2).expect("written");
    page
}

fn nothing_is_called_damaged_but_what_is(kind: &'static str, page_kib: u32) {
    let title = format!("{kind}, pages of {page_kib} KiB");
    let server = Server::start(kind, page_kib);
    server.sql(&tables(kind, page_kib));
    let before = Done::by(&server);
    let load = Load::start(&server, &[dml, dml, blobs, ddl]);
    let Watch { pages, trees, undecided, rounds, false_reports } = check_in_a_loop(&server, &before);
    assert!(false_reports.is_empty(), "{title}: {rounds} rounds:\n{}", false_reports.join("\n"));

    let idle = server.datadir().join("shop/idle.ibd");
    let page = damage(&idle, page_kib);
    for io in ["auto", "direct", "buffered"] {
        let (document, status) = check_json(&server.datadir(), &["--live", "--io", io]);
        let alarms = alarms(&document);
        assert_eq!((status, alarms.len()), (1, 1), "{title}, --io {io}: {alarms:#?}");
        assert_eq!(alarms[0]["page"].as_u64(), Some(page), "{title}, --io {io}: {alarms:#?}");
        assert_eq!(alarms[0]["path"].as_str(), idle.to_str(), "{title}, --io {io}: {alarms:#?}");
    }

    let (document, status) = table_check(&server, &[]);
    let of_idle = |finding: &&Value| finding["severity"] == "damage" && finding["page"].as_u64() == Some(page);
    let findings = document["findings"].as_array().expect("findings");
    assert_eq!(status, Some(1), "{title}: {findings:#?}");
    let damage: Vec<_> = findings.iter().filter(|finding| finding["severity"] == "damage").collect();
    assert!(damage.iter().any(of_idle), "{title}: {findings:#?}");
    assert!(damage.iter().all(|finding| finding["path"].as_str() == idle.to_str()), "{title}: {damage:#?}");

    load.stop();
    // Without `--live`: that a server runs is said before anything is called damage.
    let output = innokit().args(["table", "check", "-q"]).arg(&idle).output().expect("innokit runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with(&format!(
            "{}: note: a server has this datadir open",
            server.datadir().join("ibdata1").display()
        )),
        "{text}"
    );
    let done = Done::by(&server).since(&before);
    let Done { written, altered } = done;
    eprintln!("{title}: {trees} trees walked, {undecided} findings undecided");
    eprintln!("{title}: {rounds} rounds, {pages} pages checked, {written} pages written, {altered} tables altered");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn beside_mysql_under_load_nothing_is_called_damaged_but_what_is() {
    nothing_is_called_damaged_but_what_is("mysql", 16);
    nothing_is_called_damaged_but_what_is("mysql", 64);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn beside_mariadb_under_load_nothing_is_called_damaged_but_what_is() {
    nothing_is_called_damaged_but_what_is("mariadb", 16);
    nothing_is_called_damaged_but_what_is("mariadb", 64);
}

/// MariaDB 11.8 has no change buffer, and truncates undo tablespaces differently from 10.11.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn beside_the_newest_mariadb_under_load_nothing_is_called_damaged_but_what_is() {
    nothing_is_called_damaged_but_what_is("mariadb118", 16);
}
