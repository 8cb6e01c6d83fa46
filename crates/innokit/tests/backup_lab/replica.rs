//! Replicas started on restored files.

use std::io;
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use super::Server;
use crate::common::repository;

/// Time limit for a replica to catch up, seconds.
pub const CATCH_UP_MAX: u32 = 300;

/// Opens a port that forwards to the primary's socket: our servers listen only on sockets, and replicas connect only to ports.
pub fn port_to(socket: PathBuf) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) =
                (client.expect("accepted"), UnixStream::connect(&socket).expect("connected"));
            let (mut answers, mut back) =
                (server.try_clone().expect("the same"), client.try_clone().expect("the same"));
            thread::spawn(move || {
                io::copy(&mut client, &mut server).ok();
                server.shutdown(Shutdown::Both).ok();
            });
            thread::spawn(move || {
                io::copy(&mut answers, &mut back).ok();
                back.shutdown(Shutdown::Both).ok();
            });
        }
    });
    port
}

/// A server on restored files; killed when it goes out of scope.
pub struct Replica<'s> {
    server: &'s Server,
    pub name: &'static str,
}

impl<'s> Replica<'s> {
    /// Starts a replica on the folder `name`. It follows its primary after the statements `follow`. The `id` must be its own: a primary
    /// drops a replica when another one with the same number connects.
    pub fn start(server: &'s Server, (name, id): (&'static str, u32), follow: &str) -> Self {
        let replica = Self { server, name };
        let id = format!("--server-id={id}");
        let of_primary = server.options.iter().map(String::as_str);
        // If an option is given twice, the later one wins.
        let options: Vec<&str> = of_primary.chain([id.as_str(), "--log-bin=replica"]).collect();
        server.script_on(name, "start", &options, "");
        server.script_on(name, "sql", &[], follow);
        replica
    }

    /// Waits until the server's function call `wait` reports that everything was executed, then asserts that replication runs without an
    /// error.
    pub fn wait(&self, wait: &str) {
        let words = if self.server.kind == "mysql" { "REPLICA" } else { "SLAVE" };
        let waited = self.server.script_on(self.name, "sql", &["-N"], &format!("SELECT {wait};"));
        let status = self.server.script_on(self.name, "sql", &["-E"], &format!("SHOW {words} STATUS;"));
        assert!(!waited.contains("NULL") && !waited.starts_with('-'), "{}: {waited}{status}", self.name);
        for runs in ["_IO_Running: Yes", "_SQL_Running: Yes", "Last_Errno: 0"] {
            assert!(status.contains(runs), "{}: {status}", self.name);
        }
    }
}

impl Drop for Replica<'_> {
    fn drop(&mut self) {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        drop(command.args([self.server.kind, "kill9"]).arg(self.server.of(self.name)).stderr(Stdio::null()).status());
    }
}
