//! A connection on which a test asks one question after another.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::Server;
use crate::common::repository;

const DONE: &str = "that was all";

/// A connection of the server's own client.
pub struct Session {
    client: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Session {
    pub fn of(server: &Server) -> Self {
        Self::on(server, "data")
    }

    /// A session with the server on the folder `name`.
    pub fn on(server: &Server, name: &str) -> Self {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([server.kind, "sql"]).arg(server.of(name)).args(["-N", "-n", "--force", "shop"]);
        let mut client = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the client runs");
        let (input, output) = (client.stdin.take(), BufReader::new(client.stdout.take().expect("piped")));
        Self { client, input, output }
    }

    /// Runs statements, and returns the lines of their answers.
    pub fn ask(&mut self, statements: &str) -> Vec<String> {
        let input = self.input.as_mut().expect("open");
        writeln!(input, "{statements}; SELECT '{DONE}';").and_then(|()| input.flush()).expect("written");
        let lines = (&mut self.output).lines().map(|line| line.expect("text"));
        lines.take_while(|line| line != DONE).collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.input.take());
        self.client.wait().expect("ended");
    }
}
