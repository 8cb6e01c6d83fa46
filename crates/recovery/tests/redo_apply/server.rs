//! A test's own server and the files around it.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::load;

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Runs a script of the repository. Returns its output.
pub fn script(name: &str, args: &[&str]) -> String {
    let mut command = Command::new(repository().join("scripts").join(name));
    let output = command.args(args).output().expect("bash runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{name} {args:?}: {text}");
    text
}

/// A datadir in the folder that the tests share.
pub fn datadir(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = PathBuf::from(std::env::var_os("INNOKIT_DATADIRS").expect(
            "this test reads what real servers wrote, so it takes `make test`; mark it as its neighbours: \
             #[cfg_attr(not(servers), ignore = \"needs real servers: make test\")]",
        ));
        script("make-datadirs.sh", &[folder.to_str().expect("a name")]);
        folder
    });
    folder.join(name)
}

/// Copies what is in a folder. Zeros become holes: they are three quarters of a small datadir, and writing them takes the longest.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("makes the directory");
    let copied = Command::new("cp").args(["-rL", "--sparse=always"]).arg(from.join(".")).arg(to).status();
    assert!(copied.expect("cp runs").success(), "copying {}", from.display());
}

/// A test's own server: its datadir and its kind for `server.sh`. Dropping it stops the server, so no failing test leaves one running.
pub struct Server(pub PathBuf, pub &'static str);

impl Server {
    pub fn start(datadir: &Path, options: &[&str]) -> Self {
        Self::start_kind("mariadb", datadir, options)
    }

    pub fn start_kind(kind: &'static str, datadir: &Path, options: &[&str]) -> Self {
        let server = Self(datadir.to_path_buf(), kind);
        script("server.sh", &[&[kind, "init", server.path()], options].concat());
        script("server.sh", &[kind, "start", server.path()]);
        server
    }

    /// Starts on an existing datadir.
    pub fn again(datadir: &Path) -> Self {
        Self::again_kind("mariadb", datadir)
    }

    pub fn again_kind(kind: &'static str, datadir: &Path) -> Self {
        let server = Self(datadir.to_path_buf(), kind);
        script("server.sh", &[kind, "start", server.path()]);
        server
    }

    /// Waits for purge to complete, then shuts the server down.
    pub fn stop(&self) {
        script("server.sh", &[self.1, "stop", self.path(), "0"]);
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("a name")
    }

    /// Its socket, log and pid file are beside the datadir.
    fn control(datadir: &Path) -> PathBuf {
        let name = datadir.file_name().expect("a name").to_string_lossy();
        datadir.with_file_name(format!(".{name}.server"))
    }

    /// Runs another datadir with the same options.
    pub fn lend_options(&self, to: &Path) {
        fs::create_dir_all(Self::control(to)).expect("makes the directory");
        fs::copy(Self::control(&self.0).join("options"), Self::control(to).join("options")).expect("copies");
    }

    pub fn log(&self) -> String {
        let bytes = fs::read(Self::control(&self.0).join("log")).expect("a log");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The result of a statement, without headings.
    pub fn ask(&self, sql: &str) -> String {
        script("server.sh", &[self.1, "sql", self.path(), "-N", "-B", "-e", sql])
    }

    /// The same, or the server's error.
    pub fn try_ask(&self, sql: &str) -> String {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        let output = command.args([self.1, "sql", self.path(), "-N", "-B", "-e", sql]).output().expect("bash runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// The answers to questions about each of these tables, such as `CHECK TABLE`, all of a table's as one text. An error is an answer too. A
    /// client for each would take longer than the answers.
    pub fn ask_of_each(&self, questions: &[&str], tables: &[String]) -> Vec<String> {
        const NEXT: &str = "-- the next table";
        let lines =
            |table: &String| questions.iter().map(|question| format!("{question} {table};\n")).collect::<String>();
        let file = self.0.with_extension("questions");
        let all: String = tables.iter().map(|table| format!("{}SELECT '{NEXT}';\n", lines(table))).collect();
        fs::write(&file, all).expect("writes");
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.1, "sql", self.path(), "-N", "-B", "--force"]).stdin(fs::File::open(&file).expect("opens"));
        let output = command.output().expect("bash runs");
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let mut answers: Vec<String> = text.split(&format!("{NEXT}\n")).map(str::to_owned).collect();
        assert_eq!(answers.len(), tables.len() + 1, "{text}{errors}");
        answers.truncate(tables.len());
        // An error names its line, and each question has one of its own.
        let at_line = |error: &str| {
            let (what, rest) = error.split_once(" at line ")?;
            let (line, why) = rest.split_once(':')?;
            Some(((line.parse::<usize>().ok()? - 1) / (questions.len() + 1), format!("{what}:{why}\n")))
        };
        for error in errors.lines() {
            let (table, error) = at_line(error).unwrap_or_else(|| panic!("{errors}"));
            answers[table].push_str(&error);
        }
        answers
    }

    /// Runs statements until they have completed.
    pub fn run(&self, sql: &str) {
        assert!(self.client(sql).wait().expect("ends").success(), "the statements run");
    }

    /// A client that runs the statements.
    fn client(&self, sql: &str) -> Child {
        self.client_of("sql", sql)
    }

    /// A client that runs the statements, one of several at a time with different names.
    pub fn client_of(&self, name: &str, sql: &str) -> Child {
        let file = self.0.with_extension(name);
        fs::write(&file, sql).expect("writes");
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.1, "sql", self.path()]).stdin(fs::File::open(&file).expect("opens"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash runs")
    }

    /// Kills the server.
    pub fn kill(&self) {
        script("server.sh", &[self.1, "kill9", self.path()]);
    }

    /// Kills the server under load, once the load has changed every table and continued for a while.
    pub fn crash(&self, after: Duration) {
        self.run(&load::tables());
        let mut client = self.client(&load::changes());
        let has_begun = || {
            let names =
                fs::read_dir(self.0.join("shop")).expect("a directory").flatten().map(|entry| entry.file_name());
            names.into_iter().any(|name| name.to_string_lossy().starts_with(load::COMES_LATER))
        };
        while !has_begun() {
            assert!(client.try_wait().expect("is a process").is_none(), "the load ended before it was under way");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(after);
        self.kill();
        client.wait().expect("it loses its server");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = Command::new(repository().join("scripts/server.sh"));
        drop(stop.args([self.1, "kill9", self.path()]).stderr(Stdio::null()).status());
    }
}
