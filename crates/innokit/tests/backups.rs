//! Backups that mariadb-backup takes of a server at work: all of it, some databases, some tables, what was changed since, and streamed;
//! prepared and not. Nothing of that is damaged, and what `innokit recover` makes of it is what the tool prepares.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Run, innokit, repository};
use tempfile::TempDir;

const COLUMNS: &str = "id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(100), c TEXT, KEY (a), KEY (b)";
/// How often the load goes around: longer than the backups take.
const ROUNDS: u32 = 3000;

/// A server, and a folder for its backups.
struct Server {
    kind: &'static str,
    folder: TempDir,
    load: Option<Child>,
}

impl Server {
    fn start(kind: &'static str) -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let server = Self { kind, folder, load: None };
        // mariadb-backup gives up where the server overwrites its log before it is copied.
        server.script("init", &["--innodb-undo-tablespaces=2", "--innodb-log-file-size=512M"], "");
        server.script("start", &[], "");
        let tables = format!(
            "CREATE DATABASE shop; CREATE DATABASE other; USE shop; CREATE TABLE a ({COLUMNS}) ENGINE=InnoDB; \
             INSERT INTO a (a, b, c) SELECT seq, SHA2(seq, 256), REPEAT('x', seq % 500) FROM seq_1_to_3000; \
             CREATE TABLE b LIKE a; INSERT INTO b SELECT * FROM a; CREATE TABLE other.c LIKE a; INSERT INTO other.c SELECT * FROM a; \
             CREATE TABLE parts (id INT PRIMARY KEY, a INT) ENGINE=InnoDB PARTITION BY RANGE (id) \
             (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000)); INSERT INTO parts VALUES (1, 1), (20, 2); \
             CREATE TABLE words (id INT PRIMARY KEY AUTO_INCREMENT, b TEXT, FULLTEXT (b)) ENGINE=InnoDB; \
             INSERT INTO words (b) VALUES ('once upon a time'); CREATE TABLE z LIKE a; ALTER TABLE z ROW_FORMAT=COMPRESSED; \
             INSERT INTO z SELECT * FROM a; CREATE TABLE left_0 LIKE a; CREATE TABLE right_0 LIKE a; INSERT INTO left_0 SELECT * FROM a LIMIT 9;"
        );
        server.script("sql", &[], &tables);
        // The tool notes what becomes of tables that are older than its log. This server writes its pages soon, so that increments hold some.
        server.script("stop", &[], "");
        server.script("start", &["--innodb-max-dirty-pages-pct=0", "--innodb-max-dirty-pages-pct-lwm=0"], "");
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, action: &str, options: &[&str], input: &str) {
        self.script_on("data", action, options, input);
    }

    /// What the script prints that runs a server on the folder `name`.
    fn script_on(&self, name: &str, action: &str, options: &[&str], input: &str) -> String {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(self.of(name)).args(options);
        let said = tempfile::tempfile().expect("a file");
        // A server that is started keeps what it inherits: a pipe would never end.
        let output = said.try_clone().expect("the same file");
        let mut child = command.stdin(Stdio::piped()).stdout(output).stderr(Stdio::piped()).spawn().expect("bash runs");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
        let ended = child.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{action} {}: {}", self.kind, String::from_utf8_lossy(&ended.stderr));
        let mut text = String::new();
        (&said).seek(SeekFrom::Start(0)).and_then(|_| (&said).read_to_string(&mut text)).expect("read");
        text
    }

    fn copy(&self, from: &str, to: &str) {
        let copied = Command::new("cp").arg("-a").args([self.of(from), self.of(to)]).status().expect("cp runs");
        assert!(copied.success(), "{from} to {to}");
    }

    /// Rows and sums of all tables as a server sees them that starts on the folder `name`, and that each is sound. Such a server recovers
    /// nothing.
    fn tables(&self, name: &str) -> String {
        const NAMES: &str = "SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables \
                             WHERE table_schema IN ('shop', 'other') ORDER BY 1";
        self.script_on(name, "start", &["--innodb-undo-tablespaces=2"], "");
        let log = fs::read_to_string(self.of(&format!(".{name}.server/log"))).expect("a log");
        assert!(!log.contains("Starting crash recovery"), "{} {name}: {log}", self.kind);
        let names = self.script_on(name, "sql", &["-N"], NAMES);
        let ask = |what: &dyn Fn(&str) -> String| {
            let questions: String = names.lines().map(what).collect();
            self.script_on(name, "sql", &["-N"], &questions)
        };
        let mut unsound = Vec::new();
        // While it still purges, a server may count entries that go at that moment.
        for _ in 0..5 {
            let checked = ask(&|table| format!("CHECK TABLE {table};"));
            unsound = checked.lines().filter(|line| !line.ends_with("\tOK")).map(str::to_owned).collect();
            if unsound.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        assert_eq!(unsound, Vec::<String>::new(), "{} {name}", self.kind);
        let rows = ask(&|table| format!("SELECT '{table}', COUNT(*) FROM {table}; CHECKSUM TABLE {table};"));
        self.script_on(name, "stop", &[], "");
        assert!(rows.lines().count() > 12, "{rows}");
        rows
    }

    /// Changes rows and makes, alters and drops tables, until it is killed.
    fn load(&mut self) {
        let rounds = (0..ROUNDS).map(|round| {
            format!(
                "INSERT INTO a (a, b, c) SELECT a, b, c FROM b LIMIT 300; UPDATE a SET a = a + 1 WHERE id % 7 = {}; DELETE FROM a LIMIT 200; \
                 CREATE TABLE p_{round} LIKE a; INSERT INTO p_{round} SELECT * FROM a LIMIT 500; ALTER TABLE p_{round} ADD KEY k (c(10)); \
                 TRUNCATE p_{round}; DROP TABLE p_{round}; ALTER TABLE other.c FORCE; UPDATE z SET a = a + 1 WHERE id % 5 = {}; \
                 RENAME TABLE left_{round} TO left_{next}, right_{round} TO right_{next}; \
                 RENAME TABLE left_{next} TO away, right_{next} TO left_{next}, away TO right_{next}; DO SLEEP(0.05);\n",
                round % 7,
                round % 5,
                next = round + 1,
            )
        });
        let statements = self.of("load.sql");
        fs::write(&statements, rounds.collect::<String>()).expect("written");
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, "sql"]).arg(self.data()).args(["--force", "shop"]);
        command.stdin(fs::File::open(statements).expect("a file")).stdout(Stdio::null()).stderr(Stdio::null());
        self.load = Some(command.spawn().expect("the client runs"));
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, "tool", "mariadb-backup", "--no-defaults"]).args(options);
        command
    }

    /// Takes a backup into the folder `name`; where it goes to standard output, that is what comes of it.
    fn back_up(&self, name: &str, options: &[&str]) -> Vec<u8> {
        let socket = Command::new("bash")
            .arg("-c")
            .arg("printf '/tmp/innokit-%s-%s.sock' \"$(id -u)\" \"$(printf '%s' \"$0\" | cksum | cut -d' ' -f1)\"")
            .arg(self.data().canonicalize().expect("a path"))
            .output();
        let socket = String::from_utf8(socket.expect("bash runs").stdout).expect("a path");
        let mut said = String::new();
        // The tool itself gives up now and then beside DDL. That is not what is tested.
        for _ in 0..10 {
            let mut command = self.command(&["--backup", "--user=root"]);
            command.arg(format!("--socket={socket}")).arg(format!("--datadir={}", self.data().display()));
            command.arg(format!("--target-dir={}", self.of(name).display())).args(options);
            let output = command.output().expect("bash runs");
            if output.status.success() {
                return output.stdout;
            }
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            fs::remove_dir_all(self.of(name)).ok();
        }
        panic!("{} {name}: {said}", self.kind);
    }

    /// The note of the state of a backup.
    fn note(&self) -> &'static str {
        if self.kind == "mariadb118" { "mariadb_backup_checkpoints" } else { "xtrabackup_checkpoints" }
    }

    fn prepare(&self, name: &str, options: &[&str]) {
        let target = format!("--target-dir={}", self.of(name).display());
        let output = self.command(&["--prepare", &target]).args(options).output().expect("bash runs");
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

/// The exit status, and what was found to be damaged.
fn said(words: &[&str], path: &Path) -> (i32, Vec<String>) {
    let run = Run::of(&innokit().args(words).arg("--json").arg(path).output().expect("innokit runs"));
    let document = run.json();
    let findings = document["findings"].as_array().expect("findings").iter();
    let damage = findings.filter(|finding| finding["severity"] == "damage").map(ToString::to_string);
    (run.status, damage.collect())
}

fn is_well(server: &Server, name: &str) {
    for words in [&["check"][..], &["table", "check"]] {
        assert_eq!(said(words, &server.of(name)), (0, Vec::new()), "{} {name}, prepared: {words:?}", server.kind);
    }
}

/// Until it is prepared, pages may be missing; they are not called damaged.
fn is_not_damaged(server: &Server, name: &str) {
    for words in [&["check"][..], &["table", "check"]] {
        let (status, damage) = said(words, &server.of(name));
        assert!(status != 1 && damage.is_empty(), "{} {name}, not prepared: {words:?}: {damage:#?}", server.kind);
    }
}

/// Recovers the folder `name`, in place.
fn recover(server: &Server, name: &str) -> Run {
    Run::of(&innokit().args(["recover", "--in-place"]).arg(server.of(name)).output().expect("innokit runs"))
}

fn is_prepared(server: &Server, name: &str) {
    let run = recover(server, name);
    assert_eq!(run.status, 0, "{} {name}: {}", server.kind, run.errors);
    assert!(run.text.contains("The backup is prepared"), "{}", run.text);
    let again = recover(server, name);
    assert!(again.status == 0 && again.text.contains("nothing to recover"), "{}{}", again.text, again.errors);
    is_well(server, name);
}

/// Every file below the folder `name`, and its bytes.
fn contents(server: &Server, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
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

/// Killed after ever longer, a last run ends with the same bytes as the one that was left alone.
fn goes_on_when_killed(server: &Server, name: &str, whole: &str) {
    for wait_ms in [1, 4, 8, 12, 16, 24, 40, 80] {
        let mut command = innokit();
        command.args(["recover", "--in-place"]).arg(server.of(name)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("innokit runs");
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().and_then(|()| child.wait()).expect("ends");
    }
    let run = recover(server, name);
    assert_eq!(run.status, 0, "{} {name}: {}", server.kind, run.errors);
    assert_same(server, name, whole, "killed");
}

fn assert_same(server: &Server, name: &str, other: &str, why: &str) {
    let (files, others) = (contents(server, name), contents(server, other));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&files), names(&others), "{}: {why}", server.kind);
    let different: Vec<_> =
        files.iter().filter(|(path, bytes)| others[*path] != **bytes).map(|(path, _)| path).collect();
    assert_eq!(different, Vec::<&PathBuf>::new(), "{}: {why}", server.kind);
}

/// A log whose end is missing is damage, and found before anything is written.
fn notices_a_log_that_was_cut_off(server: &Server, name: &str) {
    let path = server.of(name).join("ib_logfile0");
    let len = fs::metadata(&path).expect("a log").len();
    fs::File::options().write(true).open(&path).and_then(|log| log.set_len(len - 4096)).expect("cut off");
    server.copy(name, "before");
    let run = recover(server, name);
    assert!(run.status == 1 && run.errors.contains("ends at LSN"), "{} {}: {}", server.kind, run.status, run.errors);
    assert_same(server, name, "before", "it was refused");
}

fn is_recovered_as_the_tool_prepares(server: &Server) {
    for copy in ["ours", "killed", "cut", "theirs"] {
        server.copy("full", copy);
    }
    let dry = innokit().args(["recover", "--dry-run"]).arg(server.of("ours")).output().expect("innokit runs");
    assert!(dry.status.success(), "{}", String::from_utf8_lossy(&dry.stderr));
    assert_same(server, "ours", "full", "a dry run wrote");
    is_prepared(server, "ours");
    goes_on_when_killed(server, "killed", "ours");
    notices_a_log_that_was_cut_off(server, "cut");
    for name in ["databases", "tables"] {
        let copy = format!("{name}.ours");
        server.copy(name, &copy);
        is_prepared(server, &copy);
    }
    let unpacked = innokit().arg("unpack").args([server.of("full.xb"), server.of("streamed.ours")]).output();
    let unpacked = Run::of(&unpacked.expect("innokit runs"));
    assert_eq!(unpacked.status, 0, "{}: {}", server.kind, unpacked.errors);
    is_prepared(server, "streamed.ours");
    server.prepare("theirs", &[]);
    let files = |name| {
        let mut files = contents(server, name);
        // Where the server's transactions stood in its binary log, which other notes say too.
        files.remove(Path::new("xtrabackup_binlog_pos_innodb"));
        files
    };
    let (ours, theirs) = (files("ours"), files("theirs"));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{}", server.kind);
    assert_eq!(ours[Path::new(server.note())], theirs[Path::new(server.note())], "{}", server.kind);
    assert_eq!(server.tables("ours"), server.tables("theirs"), "{}", server.kind);
}

fn backups_are_sound(kind: &'static str) {
    let mut server = Server::start(kind);
    server.load();
    server.back_up("full", &[]);
    server.back_up("databases", &["--databases=shop"]);
    server.back_up("tables", &["--tables=shop[.]b"]);
    server.back_up("increment", &[&format!("--incremental-basedir={}", server.of("full").display())]);
    let stream = server.back_up("streamed", &["--stream=xbstream"]);
    fs::write(server.of("full.xb"), stream).expect("written");
    assert!(
        server.load.as_mut().is_some_and(|load| load.try_wait().is_ok_and(|ended| ended.is_none())),
        "{kind}: that was no load"
    );

    for name in ["full", "databases", "tables"] {
        is_not_damaged(&server, name);
    }
    let (status, damage) = said(&["check"], &server.of("full.xb"));
    assert!(status != 1 && damage.is_empty(), "{kind}, streamed: {damage:#?}");
    // Of the pages in an increment nothing is known until they are applied.
    let (status, damage) = said(&["check"], &server.of("increment"));
    assert_eq!((status, damage), (2, Vec::new()), "{kind}, increment");

    is_recovered_as_the_tool_prepares(&server);
    server.prepare("full", &[]);
    is_well(&server, "full");
    server.prepare("databases", &[]);
    is_well(&server, "databases");
    server.prepare("tables", &[]);
    is_well(&server, "tables");
    server.prepare("full", &[&format!("--incremental-dir={}", server.of("increment").display())]);
    is_well(&server, "full");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_mariadb_are_not_called_damaged() {
    backups_are_sound("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_the_newest_mariadb_are_not_called_damaged() {
    backups_are_sound("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_mariadb_whose_log_is_made_of_blocks_are_not_called_damaged() {
    backups_are_sound("mariadb105");
}
