//! `innokit serve`: a server on a mount that is thrown away, with a socket in a private folder and no network.
//!
//! ```text
//! private folder (files/, socket, the server's pid, log and temporary files) -> mount on files/ -> server -> its socket answers
//!   -> `--run`: the client asks, its status is ours; else: how to connect, until a signal or the server ends -> server stopped -> unmounted
//! ```

use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mount::{Mount, UpperAt};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::args::ServeArgs;
use crate::mount::{Signals, begin};
use crate::terminal;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A server that was stopped in an orderly way has this long; a large buffer pool takes its time.
const STOP_MAX: Duration = Duration::from_secs(300);
/// Lines of the server's log that are shown when it fails.
const LOG_LINES: usize = 20;

/// Serves, and returns the exit status.
pub fn run(args: &ServeArgs) -> Result<u8, Box<dyn Error>> {
    let mut signals = Signals::catch()?;
    let room = Room::make()?;
    let program = Program::find(args)?;
    let mount = begin((&args.set, &args.moment), &room.files(), UpperAt::Throwaway)?;
    let served = serve(args, &program, &room, &mut signals);
    let ended = end(mount, &mut signals);
    let status = served?;
    ended?;
    room.end()?;
    Ok(status)
}

fn serve(args: &ServeArgs, program: &Program, room: &Room, signals: &mut Signals) -> Result<u8, Box<dyn Error>> {
    let mut server = Server::start(program, room)?;
    if !server.answers(room, signals)? {
        server.stop();
        return Ok(crate::COULD_NOT);
    }
    let status = match &args.run {
        Some(sql) => program.ask(room, sql).map(|status| status.code().and_then(|code| u8::try_from(code).ok()))?,
        None => {
            tell(args, program, room)?;
            while signals.count() == 0 && server.child.try_wait()?.is_none() {
                sleep(LOOK_EVERY);
            }
            Some(0)
        }
    };
    server.stop();
    Ok(status.unwrap_or(crate::COULD_NOT))
}

fn tell(args: &ServeArgs, program: &Program, room: &Room) -> io::Result<()> {
    let mut out = terminal::out();
    writeln!(out, "serving {}: {} on a throw-away copy, without a network", args.set.display(), program.name())?;
    writeln!(out, "connect   {} --no-defaults --user=root --socket={}", program.client(), room.socket().display())?;
    writeln!(out, "log       {}", room.log().display())?;
    writeln!(out, "end       Ctrl-C here, or SHUTDOWN there")?;
    out.flush()
}

/// The server may need a moment to let go of its files.
fn end(mount: Mount, signals: &mut Signals) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    while !mount.unmount()? && began.elapsed() < Duration::from_secs(10) && signals.count() < 2 {
        sleep(LOOK_EVERY);
    }
    Ok(mount.end()?)
}

/// A private folder for everything but the files: it goes at the end.
struct Room(TempDir);

impl Room {
    fn make() -> io::Result<Self> {
        // A socket's path has at most some hundred bytes, so not in a deep TMPDIR.
        let room = Self(tempfile::Builder::new().prefix("innokit-serve-").tempdir_in("/tmp")?);
        for folder in [room.files(), room.0.path().join("tmp")] {
            DirBuilder::new().mode(0o700).create(folder)?;
        }
        Ok(room)
    }

    fn files(&self) -> PathBuf {
        self.0.path().join("files")
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("socket")
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("server.log")
    }

    /// The end of the server's log.
    fn last_lines(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n")
    }

    fn end(self) -> io::Result<()> {
        self.0.close()
    }
}

/// The server's program, and the words in front of what we add.
struct Program {
    words: Vec<OsString>,
}

impl Program {
    /// What was given, or the one in PATH of the kind that wrote the set.
    fn find(args: &ServeArgs) -> Result<Self, String> {
        if !args.server.is_empty() {
            return Ok(Self { words: args.server.clone() });
        }
        let is_mysql = args.set.join("mysql.ibd").exists();
        let names: &[&str] = if is_mysql { &["mysqld"] } else { &["mariadbd", "mysqld"] };
        let found = names.iter().find_map(|name| in_path(name));
        found.map(|path| Self { words: vec![path.into()] }).ok_or_else(|| {
            format!(
                "no {} in PATH: name the server behind --, such as `-- /usr/sbin/{}`",
                names.join(" or "),
                names.join("")
            )
        })
    }

    fn name(&self) -> String {
        let is_program = |word: &&OsString| !word.to_string_lossy().starts_with('-');
        let last = self.words.iter().take_while(is_program).last();
        last.map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The client that comes with it: beside it, or in PATH.
    fn client(&self) -> String {
        let server = PathBuf::from(self.name());
        let is_mariadb = server.file_name().is_some_and(|name| name.to_string_lossy().contains("mariadb"));
        let names = if is_mariadb { ["mariadb", "mysql"] } else { ["mysql", "mariadb"] };
        let beside = server.parent().into_iter().flat_map(|dir| [dir.to_path_buf(), dir.join("../bin")]);
        let dirs: Vec<PathBuf> = beside.filter(|dir| !dir.as_os_str().is_empty()).collect();
        let near = names.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name))).find(|path| path.is_file());
        let found = near.or_else(|| names.iter().find_map(|name| in_path(name)));
        found.map_or_else(|| (*names.first().unwrap_or(&"mysql")).to_owned(), |path| path.display().to_string())
    }

    /// Has the client ask, with this command's own output.
    fn ask(&self, room: &Room, sql: &str) -> io::Result<ExitStatus> {
        let mut client = Command::new(self.client());
        client.arg("--no-defaults").arg("--user=root").arg(format!("--socket={}", room.socket().display()));
        client.arg("-e").arg(sql).status()
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(is_program)
}

/// Whether an option says which option files are read. Servers take it as their first only.
fn is_about_defaults(word: &str) -> bool {
    ["--no-defaults", "--defaults-file", "--defaults-extra-file"].iter().any(|option| word.starts_with(option))
}

/// A server at work.
struct Server {
    child: Child,
}

impl Server {
    fn start(program: &Program, room: &Room) -> Result<Self, Box<dyn Error>> {
        let log = File::create(room.log())?;
        let (first, given) = program.words.split_first().ok_or("no server was named")?;
        let mut command = Command::new(first);
        // The host's option files are another server's: they may name its log, or its binary logs.
        if !given.first().is_some_and(|word| is_about_defaults(&word.to_string_lossy())) {
            command.arg("--no-defaults");
        }
        command.args(given);
        let in_room = |option: &str, name: &str| format!("--{option}={}", room.0.path().join(name).display());
        command.args([in_room("datadir", "files"), in_room("socket", "socket"), in_room("pid-file", "pid")]);
        command.args([in_room("tmpdir", "tmp"), in_room("secure-file-priv", "tmp")]);
        command.args(["--skip-networking", "--skip-grant-tables"]);
        // It replicates from no server and to none; settings that came with the set (`mysqld-auto.cnf`) could send its logs anywhere. What a server does
        // not know is passed over.
        command.args([
            "--loose-persisted-globals-load=OFF",
            "--skip-log-bin",
            "--loose-skip-slave-start",
            "--loose-skip-replica-start",
            "--loose-mysqlx=OFF",
        ]);
        if rustix::process::geteuid().is_root() {
            // Servers refuse to run as root unless told so, and the folder is root's.
            command.arg("--user=root");
        }
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let child = child.map_err(|error| format!("{}: starting the server: {error}", Path::new(first).display()))?;
        Ok(Self { child })
    }

    /// Waits until it answers. `false` if a signal came first.
    fn answers(&mut self, room: &Room, signals: &mut Signals) -> Result<bool, Box<dyn Error>> {
        while UnixStream::connect(room.socket()).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended ({status}); the end of its log:\n{}", room.last_lines()).into());
            }
            if signals.count() > 0 {
                return Ok(false);
            }
            sleep(LOOK_EVERY);
        }
        Ok(true)
    }

    /// Stops it in an orderly way, so that a client's last words are written; what it wrote is thrown away in any case.
    fn stop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.child.try_wait().is_ok_and(|status| status.is_none())) {
            kill_process(pid, Signal::TERM).ok();
        }
        let began = Instant::now();
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if began.elapsed() > STOP_MAX {
                self.child.kill().ok();
            }
            sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Server {
    /// Whatever failed: no server stays behind.
    fn drop(&mut self) {
        self.stop();
    }
}
