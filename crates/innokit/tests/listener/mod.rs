//! Programs that a script of this repository fetches or builds, and that listen on a local port for a test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::repository;

/// The folder `name` of the programs of `script`, which is run first.
pub fn programs(script: &str, name: &str) -> PathBuf {
    let path = repository().join("scripts").join(script);
    assert!(Command::new(path).status().expect("bash runs").success(), "scripts/{script} failed");
    let cache = std::env::var_os("INNOKIT_SERVERS").map(PathBuf::from);
    let home = || Path::new(&std::env::var_os("HOME").expect("a home")).join(".cache/innokit");
    cache.unwrap_or_else(home).join(name)
}

/// A program that listens on a local port until the test ends.
pub struct Listener {
    child: Child,
    pub port: u16,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.child.kill().expect("ours to end");
        self.child.wait().expect("ended");
    }
}

impl Listener {
    /// Starts it on a free port, and returns when it `is_up`, which is asked after each `pause`. Another process may take the port first:
    /// the program ends then, and the next port is tried.
    pub fn start(
        command: impl Fn(u16) -> Command,
        is_up: impl Fn(&Self) -> bool,
        (patience, pause): (Duration, Duration),
    ) -> Self {
        for _ in 0..10 {
            let port = free_port();
            let child = command(port).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            let mut listener = Self { child, port };
            let end = Instant::now() + patience;
            while Instant::now() < end && listener.child.try_wait().expect("a child").is_none() {
                if is_up(&listener) {
                    return listener;
                }
                std::thread::sleep(pause);
            }
        }
        panic!("it never listened");
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port()
}
