//! What a backup that waits for its server says, and how it is ended: the lock report counts the queue behind a lock, `--max-wait` names
//! who holds it, a signal ends every wait.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, ended};
use crate::common::{Run, innokit};

/// How long the lock is held once the backup waits for it, in milliseconds.
const HELD_MS: u64 = 700;
/// A wait ends within a second; this is for machines that do much else. The waits themselves would last a minute.
const ENDED_WITHIN: Duration = Duration::from_secs(15);

fn backup(server: &Server, to: &str, more: &[&str]) -> Command {
    let mut command = server.innokit();
    command.args(["backup", "--user", "root", "--progress", "never", "--to", to, "--socket"]).arg(server.socket());
    command.args(more).arg("data").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn signalled(mut child: Child, signal: Signal) -> Run {
    let started = Instant::now();
    kill_process(Pid::from_child(&child), signal).expect("signalled");
    while child.try_wait().expect("a status").is_none() {
        if started.elapsed() > ENDED_WITHIN {
            child.kill().expect("killed");
            panic!("{signal:?} did not end it");
        }
        thread::sleep(Duration::from_millis(10));
    }
    Run::of(&child.wait_with_output().expect("its output"))
}

/// A statement of another connection that the backup waits for, and what the backup then waits in.
struct Blocked {
    holder: Session,
    statement: &'static str,
    waits_in: &'static str,
    release: &'static str,
    waiting: thread::JoinHandle<Vec<String>>,
}

impl Blocked {
    fn on(server: &Server) -> Self {
        let mut holder = Session::of(server);
        // MariaDB waits for a write to a table without transactions, which waits itself. On MySQL, a transaction is in the way of a
        // definition, and that one in the way of the backup.
        let (hold, statement, waits_in, release) = match server.kind {
            "mysql" => {
                ("BEGIN; SELECT COUNT(*) FROM a", "ALTER TABLE a COMMENT 'waits'", "LOCK INSTANCE FOR BACKUP", "COMMIT")
            }
            _ => (
                "DO GET_LOCK('held', 0)",
                "UPDATE isam SET a = GET_LOCK('held', 300)",
                "BACKUP STAGE BLOCK_DDL",
                "DO RELEASE_LOCK('held')",
            ),
        };
        holder.ask(hold);
        let mut other = Session::of(server);
        let waiting = thread::spawn(move || other.ask(statement));
        let mut blocked = Self { holder, statement, waits_in, release, waiting };
        blocked.wait_for(statement);
        blocked
    }

    /// Waits until this statement waits for a lock.
    fn wait_for(&mut self, statement: &str) {
        let waits =
            |line: &String| line.contains(statement) && (line.contains("Waiting for") || line.contains("User lock"));
        while !self.holder.ask("SHOW FULL PROCESSLIST").iter().any(waits) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the server waits no longer on behalf of a backup that has ended.
    fn wait_for_end(&mut self) {
        let started = Instant::now();
        while self.holder.ask("SHOW FULL PROCESSLIST").iter().any(|line| line.contains(self.waits_in)) {
            assert!(
                started.elapsed() < ENDED_WITHIN,
                "the server still waits for it, and others in the queue behind it"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_for_backup(&mut self) {
        self.wait_for(self.waits_in);
    }

    fn release(mut self) {
        self.holder.ask(self.release);
        self.waiting.join().expect("ended");
    }
}

/// Definitions can be changed and tables written, and what was begun is void.
fn is_over(server: &Server, set: &str) {
    server.script("sql", &[], "SET lock_wait_timeout = 20; CREATE TABLE shop.free (a INT); DROP TABLE shop.free; INSERT INTO shop.isam VALUES (1);");
    let verified = server.run(&["backup", "verify", set]);
    assert!(verified.status == 1 && verified.text.contains("is void"), "{}{}", verified.text, verified.errors);
}

fn waits(kind: &'static str) {
    let server = Server::start(kind);
    server.script("sql", &[], "CREATE TABLE shop.isam (a INT) ENGINE=MyISAM; INSERT INTO shop.isam VALUES (1)");
    let mut blocked = Blocked::on(&server);
    for signal in [Signal::TERM, Signal::INT] {
        let set = format!("{signal:?}");
        let child = backup(&server, &set, &[]).spawn().expect("innokit runs");
        blocked.wait_for_backup();
        let run = signalled(child, signal);
        let says = format!("interrupted while the server had not answered {}", blocked.waits_in);
        assert!(run.status == 2 && run.errors.contains(&says), "{}: {}{}", run.status, run.text, run.errors);
        blocked.wait_for_end();
    }
    let given_up = ended(&mut backup(&server, "given-up", &["--max-wait", "1"]));
    let words =
        [blocked.waits_in, "waited too long for a lock", "In its way may be thread", "of root, for", blocked.statement];
    let are_said = words.iter().all(|word| given_up.errors.contains(word));
    assert!(given_up.status == 2 && are_said, "{}: {}", given_up.status, given_up.errors);

    let child = backup(&server, "set", &["--json"]).spawn().expect("innokit runs");
    blocked.wait_for_backup();
    thread::sleep(Duration::from_millis(HELD_MS));
    blocked.release();
    let run = Run::of(&child.wait_with_output().expect("its output"));
    assert_eq!(run.status, 0, "{}", run.errors);
    let held = run.json()["manifest"]["locks"]["ddl_ms"].as_u64().expect("a number");
    assert!(
        held >= HELD_MS,
        "definitions waited in the queue for {HELD_MS} ms at least, and the report says {held} ms"
    );
    for set in [format!("{:?}", Signal::TERM), format!("{:?}", Signal::INT), "given-up".to_owned()] {
        is_over(&server, &set);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_that_waits_for_mariadb_counts_the_queue_says_who_blocks_and_ends_with_a_signal() {
    waits("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_that_waits_for_mysql_counts_the_queue_says_who_blocks_and_ends_with_a_signal() {
    waits("mysql");
}

/// Starts a command that waits, and asserts that a signal ends it.
fn a_signal_ends(command: &mut Command, waits: impl FnOnce()) -> i32 {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("innokit runs");
    waits();
    let started = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).expect("signalled");
    let (mut child, mut status) = (child, None);
    while status.is_none() {
        assert!(started.elapsed() < ENDED_WITHIN || child.kill().is_err(), "it did not end: {command:?}");
        thread::sleep(Duration::from_millis(10));
        status = child.try_wait().expect("a status");
    }
    status.and_then(|status| status.code()).unwrap_or(2)
}

#[test]
fn a_signal_ends_the_wait_for_a_silent_server() {
    let dir = TempDir::new_in("/tmp").expect("a directory");
    let (socket, datadir) = (dir.path().join("s"), dir.path().join("data"));
    fs::create_dir(&datadir).expect("made");
    let listener = UnixListener::bind(&socket).expect("bound");
    for words in [&["backup"][..], &["redo", "archive"]] {
        let mut command = innokit();
        command.args(words).args(["--user", "root", "--to", "set", "--socket"]).arg(&socket).arg(&datadir);
        command.current_dir(dir.path()).env("HOME", dir.path());
        let mut accepted = None;
        let status = a_signal_ends(&mut command, || accepted = Some(listener.accept().expect("connected")));
        assert_eq!(status, 2, "{words:?}");
        assert!(!dir.path().join("set").exists());
    }
}

#[test]
fn a_signal_ends_the_wait_for_an_option_file_that_is_a_pipe() {
    let dir = TempDir::new().expect("a directory");
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status().expect("mkfifo runs");
    assert!(made.success());
    for words in [&["backup"][..], &["redo", "archive"]] {
        let mut command = innokit();
        command.args(words).args(["--defaults-file", "pipe", "--socket", "none", "--to", "set", "."]);
        command.current_dir(dir.path()).env("HOME", dir.path());
        let pipe = dir.path().join("pipe");
        // Opening the other end succeeds once the command has opened the pipe; then it waits for bytes.
        let mut held = None;
        let status =
            a_signal_ends(&mut command, || held = Some(fs::File::options().write(true).open(pipe).expect("open")));
        assert_eq!(status, 2, "{words:?}: no exit status of its own, or 2");
    }
}

#[test]
fn a_signal_ends_the_wait_for_keys_from_a_pipe() {
    let dir = TempDir::new().expect("a directory");
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status().expect("mkfifo runs");
    assert!(made.success());
    let datadir = ["--socket", "none", "--to", "set", "."];
    let ways: [(&[&str], &[&str]); 6] = [
        (&["check", "--keyring", "pipe"], &["."]),
        (&["check", "--key-file", "pipe"], &["."]),
        (&["table", "count", "--keyring", "pipe"], &["."]),
        (&["backup", "--keyring", "pipe"], &datadir),
        (&["backup", "--sign", "pipe"], &datadir),
        (&["backup", "verify", "--keyring", "pipe"], &["."]),
    ];
    for (words, rest) in ways {
        let mut command = innokit();
        command.args(words).args(rest).current_dir(dir.path()).env("HOME", dir.path());
        let (pipe, mut held) = (dir.path().join("pipe"), None);
        a_signal_ends(&mut command, || held = Some(fs::File::options().write(true).open(pipe).expect("open")));
    }
}
