//! Archives of the redo logs of busy servers.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

pub mod blocks;
pub mod ends;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use format::Lsn;
use recovery::RecoverOptions;
use redo::follow::{WRITE_BLOCK_MAX, Walk};
use redo::mariadb::{LogFile, START_OFFSET};
use redo::segment::SegmentHeader;
use tempfile::TempDir;

use crate::backup_lab::killed::{
    has_copied, is_marked, is_refused_as_unfinished, killed_in_some_try, names_the_leftover,
};
use crate::backup_lab::{Server, ended, said};
use crate::common::{all_datadirs, innokit, repository};
use crate::view_lab::assert_shows;

/// Time limit for the archiver to reach an LSN.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// An archiver at work; killed when it goes out of scope.
pub struct Archiver(Child);

impl Archiver {
    pub fn start(server: &Server) -> Self {
        Self::start_with(server, &[])
    }

    pub fn start_with(server: &Server, more: &[&str]) -> Self {
        let mut command = innokit();
        command.args(["redo", "archive", "--poll", "20", "--segment-size", "1M"]).args(more).arg("--to");
        command.arg(server.of("redo")).arg(server.data()).stdout(Stdio::null());
        Self(command.spawn().expect("innokit runs"))
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("ended");
    }
}

/// A load that changes rows until it is stopped; its last statement completes.
pub struct Load {
    stop: Arc<AtomicBool>,
    client: JoinHandle<()>,
}

impl Load {
    /// Starts a load that also does what `more` says in each round.
    pub fn start(server: &Server, more: &'static str) -> Self {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([server.kind, "sql"]).arg(server.data()).args(["-N", "-n", "--force", "shop"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the client runs");
        let stop = Arc::new(AtomicBool::new(false));
        let client = thread::spawn({
            let (stop, mut input) = (Arc::clone(&stop), child.stdin.take().expect("piped"));
            let (mut output, mut line) = (BufReader::new(child.stdout.take().expect("piped")), String::new());
            move || {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let statements = format!(
                        "INSERT INTO a (a, b, c) SELECT a, b, c FROM b LIMIT 300; UPDATE a SET a = a + 1 WHERE id % 7 = {}; \
                         DELETE FROM a LIMIT 200; UPDATE z SET a = a + 1 WHERE id % 5 = {}; {more} SELECT SLEEP(0.05);\n",
                        round % 7,
                        round % 5
                    );
                    let asked = input.write_all(statements.as_bytes()).and_then(|()| input.flush());
                    // Wait for the answer, so that nothing is left to do when the load is stopped. The server may be gone.
                    if asked.is_err() || output.read_line(&mut line).is_ok_and(|len| len == 0) {
                        break;
                    }
                }
                drop(input);
                child.wait().expect("ended");
            }
        });
        Self { stop, client }
    }

    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.client.join().expect("ended");
    }
}

/// The backup `set` with the archive `redo`, at an LSN.
pub fn options_at(server: &Server, lsn: u64) -> RecoverOptions {
    RecoverOptions { redo: Some(server.of("redo")), until: Some(Lsn(lsn)), ..RecoverOptions::default() }
}

/// A view of the backup `set` at a moment has what the recovery wrote to `out`, and sums up the same rows: those of `sums.txt`.
pub fn assert_viewed_alike(server: &Server, options: &RecoverOptions, sums: &str) {
    let lsn = options.until.expect("a moment").0.to_string();
    let made = assert_shows(&server.of("set"), &server.of("out"), options);
    println!("LSN {lsn}: a view made {made} pages");
    let viewed = server.run(&["table", "checksum", "--redo", "redo", "--until", &lsn, "--compare", "sums.txt", "set"]);
    let equal = viewed.text.lines().filter(|line| line.ends_with("\tequal")).count();
    assert_eq!(equal, sums.lines().count(), "LSN {lsn}: {}{}", viewed.text, viewed.errors);
}

pub fn wait_for(server: &Server, lsn: u64) {
    let started = Instant::now();
    while server.archived_to() < lsn {
        assert!(started.elapsed() < PATIENCE, "LSN {lsn} is never archived");
        thread::sleep(Duration::from_millis(200));
    }
}

/// The segments of an archive and where each starts, oldest first.
fn segments(server: &Server) -> Vec<(u64, PathBuf)> {
    let paths = fs::read_dir(server.of("redo")).expect("read").map(|entry| entry.expect("one").path());
    let named = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("redo.")?.to_owned();
        let (lsn, timeline) = name.split_once('.').unwrap_or((name.as_str(), "1"));
        let timeline = timeline.parse::<u32>().ok().filter(|_| lsn.len() == 16)?;
        Some((timeline, u64::from_str_radix(lsn, 16).expect("an LSN"), path))
    };
    let mut found: Vec<_> = paths.filter_map(named).collect();
    found.sort();
    found.into_iter().map(|(_, start, path)| (start, path)).collect()
}

/// Asserts that the archived bytes that the stopped server's log still holds are the same in both. Returns how many were compared.
pub fn assert_same_bytes(server: &Server) -> u64 {
    let log = fs::read(server.data().join("ib_logfile0")).expect("read");
    let file = LogFile::parse(&log[..START_OFFSET], log.len() as u64).expect("a log");
    let (end, segments) = (server.archived_to(), segments(server));
    assert!(file.checkpoint.lsn.0 <= end, "the archive lacks the end of the log");
    // The last block that the server wrote may reach into the lap before.
    let kept = segments[0].0.max(file.first_lsn.0).max((end + WRITE_BLOCK_MAX).saturating_sub(file.capacity()));
    let at = file.offset_of(Lsn(kept)).expect("a place") as usize;
    let ring = [&log[at..], &log[START_OFFSET..at]].concat();
    for (index, (start, path)) in segments.iter().enumerate() {
        let (low, high) = (kept.max(*start), segments.get(index + 1).map_or(end, |(next, _)| *next));
        if low >= high {
            continue;
        }
        let segment = fs::read(path).expect("read");
        let header = SegmentHeader::parse(&segment).expect("a segment");
        let mut of_server = ring[(low - kept) as usize..(high - kept) as usize].to_vec();
        // Give the markers of the last lap the values of a log that never wraps, as in the archive.
        Walk::over(&header.as_log(), Lsn(*start), &segment[START_OFFSET..]).straighten_from(low, &mut of_server);
        let archived = &segment[START_OFFSET + (low - start) as usize..START_OFFSET + (high - start) as usize];
        assert!(*archived == of_server, "LSN {low} to {high}");
    }
    end - kept
}

/// Recovers a crashed datadir from its own log, and from an archive of that log. Both must report the same work. Returns how their files
/// differ.
pub fn recovered_alike(crashed: &str) -> Vec<String> {
    let dir = TempDir::new().expect("a folder");
    let crashed = all_datadirs().join(crashed);
    let innokit = |words: &[&str]| {
        let run = ended(innokit().args(words).arg(&crashed).current_dir(dir.path()));
        assert_eq!(run.status, 0, "{words:?}: {}", run.errors);
        run
    };
    innokit(&["redo", "archive", "--until-caught-up", "--to", "redo", "--segment-size", "1M"]);
    let own = innokit(&["recover", "--to", "own", "--json"]).json();
    let archived = innokit(&["recover", "--to", "archived", "--redo", "redo", "--json"]).json();
    for field in ["checkpoint_lsn", "end_lsn", "mtrs", "pages_changed", "tablespaces"] {
        assert_eq!(own[field], archived[field], "{field}");
    }
    assert!(own["mtrs"].as_u64() > Some(100), "{own:#}");
    let differing = Command::new("diff").args(["-rq", "own", "archived"]).current_dir(dir.path()).output();
    let differing = String::from_utf8(differing.expect("diff runs").stdout).expect("text");
    differing.lines().map(str::to_owned).collect()
}

/// A crashed datadir, an archive of its log, and the copy that a recovery makes, with that archive or without.
struct Base {
    dir: TempDir,
    crashed: PathBuf,
    options: &'static [&'static str],
}

impl Base {
    fn of(crashed: &str, options: &'static [&'static str]) -> Self {
        let dir = TempDir::new().expect("a folder");
        let base = Self { dir, crashed: all_datadirs().join(crashed), options };
        let words = ["redo", "archive", "--until-caught-up", "--to", "redo", "--segment-size", "1M"];
        let archived = ended(base.innokit(&words).arg(&base.crashed));
        assert_eq!(archived.status, 0, "{}", archived.errors);
        let whole = ended(base.recover("whole").arg(&base.crashed));
        assert_eq!(whole.status, 0, "{}", whole.errors);
        assert!(!is_marked(&base.of_name("whole")));
        base
    }

    fn of_name(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn innokit(&self, words: &[&str]) -> Command {
        let mut command = innokit();
        command.args(words).current_dir(self.dir.path());
        command
    }

    fn recover(&self, to: &str) -> Command {
        let mut command = self.innokit(&["recover", "--json", "--to", to]);
        command.args(self.options);
        command
    }

    fn is_whole(&self, name: &str) {
        let diff = Command::new("diff").args(["-rq", "whole", name]).current_dir(self.dir.path()).output();
        let diff = String::from_utf8(diff.expect("diff runs").stdout).expect("text");
        assert!(diff.is_empty(), "{diff}");
    }
}

/// Kills recoveries of copies. Their leftovers are refused by name and have no log, so no server takes them for a datadir; and a new run
/// into an emptied directory gives the same bytes as an undisturbed one.
pub fn killed_copies_are_refused(crashed: &str) {
    for options in [&["--redo", "redo"][..], &[]] {
        killed_copy_is_refused(&Base::of(crashed, options));
    }
}

fn killed_copy_is_refused(base: &Base) {
    let (out, run) = (base.of_name("out"), |mut command: Command| ended(command.arg(&base.crashed)));
    let killed = |is_time: &dyn Fn(&Path) -> bool| {
        let command = || {
            fs::remove_dir_all(&out).ok();
            let mut command = base.recover("out");
            command.arg(&base.crashed);
            command
        };
        let has_no_log = || ["ib_logfile0", "#innodb_redo"].iter().all(|log| !out.join(log).exists());
        killed_in_some_try(&command, &|| is_time(&out), &|| is_marked(&out) && has_no_log());
        is_refused_as_unfinished(base.dir.path(), "out");
        names_the_leftover(&run(base.recover("out")));
        names_the_leftover(&run(base.innokit(&["restore", "--to", "out"])));
    };
    killed(&is_marked);
    killed(&has_copied);
    let (_, damage) = said(&["check"], &out);
    assert!(!damage.iter().any(|finding| finding.contains("unfinished")), "{damage:?}");
    for entry in fs::read_dir(&out).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        let removed = if entry.is_dir() { fs::remove_dir_all(entry) } else { fs::remove_file(entry) };
        removed.expect("removed");
    }
    let again = run(base.recover("out"));
    assert_eq!(again.status, 0, "{}", again.errors);
    base.is_whole("out");
}
