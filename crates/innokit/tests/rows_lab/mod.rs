//! A server with tables to export and to compute checksums of.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Dir, Run, innokit, repository};

const TABLES: &str = include_str!("../rows/tables.sql");

/// A server on a datadir of its own. Stopped when it goes out of scope, whatever happens.
pub struct Server {
    pub kind: &'static str,
    pub dir: Dir,
}

impl Server {
    /// With tables of every type, including the vendor's own types.
    pub fn new(kind: &'static str, own: &str) -> Self {
        let server = Self::empty(kind);
        server.script("sql", &["--force"], &format!("{TABLES}{own}"));
        server
    }

    /// Whether `scripts/install-servers.sh` could fetch it: MySQL 5.6 takes npm.
    pub fn is_here(kind: &str) -> bool {
        let version = Command::new(repository().join("scripts/server.sh")).args([kind, "version"]).output();
        let is_here = version.expect("bash runs").status.success();
        if !is_here {
            println!("{kind} is not here: left out");
        }
        is_here
    }

    pub fn empty(kind: &'static str) -> Self {
        let server = Self { kind, dir: Dir::new() };
        server.script("init", &[], "");
        server.script("start", &[], "");
        server
    }

    pub fn datadir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn command(&self, action: &str, args: &[&str]) -> Command {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(self.datadir()).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    pub fn script(&self, action: &str, args: &[&str], input: &str) -> String {
        let mut child = self.command(action, args).spawn().expect("bash runs");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("taken");
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{} {action}", self.kind);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn sql(&self, statements: &str) -> String {
        self.script("sql", &["--batch", "--skip-column-names"], statements)
    }

    /// Runs statements, some of which may fail.
    pub fn attempt(&self, statements: &str) {
        let args = ["--force", "--default-character-set=utf8mb4"];
        let mut child = self.command("sql", &args).stderr(Stdio::null()).spawn().expect("bash runs");
        child.stdin.take().expect("piped").write_all(statements.as_bytes()).expect("taken");
        child.wait().expect("ends");
    }

    pub fn tables(&self) -> Vec<String> {
        let query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'ty' ORDER BY 1";
        self.sql(query).lines().map(str::to_owned).collect()
    }

    /// `ty.t<tab>value` lines.
    pub fn checksums(&self, schema: &str, tables: &[String]) -> String {
        let statements: String = tables.iter().map(|table| format!("CHECKSUM TABLE `{schema}`.`{table}`;")).collect();
        self.sql(&statements)
    }

    /// Shuts down cleanly, so that all pages are on disk.
    pub fn stop(&self) {
        self.script("stop", &["0"], "");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that fails leaves no server behind.
        drop(self.command("stop", &[]).status());
    }
}

/// Runs `innokit table ARGUMENTS PATHS`.
pub fn table(arguments: &[&str], paths: &[&Path]) -> Run {
    Run::of(&innokit().arg("table").args(arguments).args(paths).output().expect("innokit runs"))
}
