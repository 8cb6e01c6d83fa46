//! Mounts for tests.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::backup_lab::Server;
use crate::common::{innokit, repository};
use crate::sums::sums;

const PATIENCE: Duration = Duration::from_secs(60);

/// Whether this system mounts anything; if not, the test says so and ends.
pub fn can_mount() -> bool {
    let is_there = Path::new("/dev/fuse").exists();
    if !is_there {
        println!("skipped: there is no /dev/fuse");
    }
    is_there
}

/// `innokit mount`, mounted.
pub struct Mounted {
    child: Child,
    pub point: PathBuf,
    /// The first line that it printed.
    pub said: String,
    errors: Receiver<String>,
}

impl Mounted {
    /// Mounts on `point`, which is made.
    pub fn on(point: &Path, set: &Path, options: &[&str]) -> Self {
        Self::try_on(point, set, options).unwrap_or_else(|errors| panic!("not mounted: {errors}"))
    }

    /// The same, or what it said.
    pub fn try_on(point: &Path, set: &Path, options: &[&str]) -> Result<Self, String> {
        fs::create_dir_all(point).ok();
        let mut command = innokit();
        command.arg("mount").arg(set).arg(point).args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("innokit runs");
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        lines.read_line(&mut said).expect("a line");
        let mut stderr = child.stderr.take().expect("piped");
        if said.is_empty() {
            let mut errors = String::new();
            stderr.read_to_string(&mut errors).expect("read");
            assert_eq!(child.wait().expect("ended").code(), Some(2), "{errors}");
            return Err(errors);
        }
        let (sender, errors) = channel();
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).ok()
        });
        Ok(Self { child, point: point.to_path_buf(), said, errors })
    }

    /// Waits for a line of standard error that has these words.
    pub fn is_heard(&self, words: &str) {
        let started = Instant::now();
        while let Ok(line) = self.errors.recv_timeout(PATIENCE.saturating_sub(started.elapsed())) {
            if line.contains(words) {
                return;
            }
        }
        panic!("never said: {words}");
    }

    /// As a crash of the process.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        std::mem::forget(self);
    }

    pub fn terminate(&self) {
        signal(&self.child, "-TERM");
    }

    /// Waits for its end, and returns its status.
    pub fn status(&mut self) -> Option<i32> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("asked") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the mount never ends");
    }

    /// Ends it in an orderly way.
    pub fn end(mut self) {
        self.terminate();
        assert_eq!(self.status(), Some(0));
    }
}

impl Drop for Mounted {
    /// A test that failed leaves no mount behind.
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
        Command::new("umount").arg("-l").arg(&self.point).stderr(Stdio::null()).status().ok();
    }
}

pub fn signal(child: &Child, signal: &str) {
    let killed = Command::new("kill").arg(signal).arg(child.id().to_string()).status();
    assert!(killed.expect("kill runs").success());
}

/// Length and checksum of every file below a directory, by the files' names in it.
pub fn below(dir: &Path) -> BTreeMap<PathBuf, (usize, u32)> {
    let named = |(path, sum): (PathBuf, (usize, u32))| (path.strip_prefix(dir).expect("below").to_path_buf(), sum);
    sums(dir).into_iter().map(named).collect()
}

/// A program that starts the server without further words, for `serve`.
pub fn server_program(folder: &Path, kind: &str) -> PathBuf {
    let (program, name) = if kind == "mysql" { ("mysqld", "mysqld") } else { ("mariadbd", "mariadbd") };
    let script = |name: &str| {
        let said = Command::new(repository().join("scripts/server.sh")).args([kind, "command", name]).output();
        String::from_utf8(said.expect("bash runs").stdout).expect("text").trim().to_owned()
    };
    let tree = script(program)
        .split_whitespace()
        .last()
        .map(|path| path.replace(&format!("/sbin/{program}"), ""))
        .expect("a path");
    let client = if kind == "mysql" { "mysql" } else { "mariadb" };
    // A tree that is not installed does not know where its messages and plugins are.
    let share = ["mysql", "mariadb"].map(|name| format!("{tree}/share/{name}"));
    let share = share.iter().find(|path| Path::new(path).join("charsets").is_dir()).expect("messages");
    let more = format!(
        "--no-defaults --basedir={tree} --lc-messages-dir={share} --character-sets-dir={share}/charsets \
         --plugin-dir={tree}/lib/mysql/plugin --innodb-buffer-pool-size=64M"
    );
    let write = |name: &str, words: String| {
        let path = folder.join(name);
        let mut file = fs::File::create(&path).expect("made");
        file.write_all(format!("#!/bin/sh\n[ \"$1\" != --no-defaults ] || shift\nexec {words} \"$@\"\n").as_bytes())
            .expect("written");
        drop(file);
        let mut mode = fs::metadata(&path).expect("there").permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        fs::set_permissions(&path, mode).expect("set");
        path
    };
    write(client, format!("{} --no-defaults", script(client)));
    write(name, format!("{} {more}", script(program)))
}

/// Runs the server script on the mount, with a server that syncs: what it does not sync is nothing to keep.
pub fn on_mount(server: &Server, name: &str, words: (&str, &[&str]), input: &str) -> String {
    asked(server, name, words, input).unwrap_or_else(|errors| panic!("{} {words:?}: {errors}", server.kind))
}

/// The same, or what it said when it failed.
pub fn asked(server: &Server, name: &str, words: (&str, &[&str]), input: &str) -> Result<String, String> {
    let mut command = Command::new(repository().join("scripts/server.sh"));
    command.env("SERVER_SYNC", "1").args([server.kind, words.0]).arg(server.of(name)).args(words.1);
    let said = server.of("said.txt");
    let output = fs::File::create(&said).expect("made");
    let mut child = command.stdin(Stdio::piped()).stdout(output).stderr(Stdio::piped()).spawn().expect("bash runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).ok();
    let ended = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    if ended.status.success() { Ok(fs::read_to_string(said).expect("text")) } else { Err(errors) }
}
