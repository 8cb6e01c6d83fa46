//! A proxy between innokit and a server: it shows each statement to a test before the server gets it.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

/// The first byte of a statement.
const QUERY: u8 = 3;

/// What the proxy does with a statement.
pub enum Fate {
    Pass,
    /// Close both connections.
    Cut,
}

type Watch = Arc<Mutex<dyn FnMut(&str) -> Fate + Send>>;

/// A socket on which the server seems to listen.
pub struct Proxy {
    dir: TempDir,
}

impl Proxy {
    /// Starts a proxy for the socket `server`. It shows each statement to `watch`, which may take its time.
    pub fn before(server: PathBuf, watch: impl FnMut(&str) -> Fate + Send + 'static) -> Self {
        // Socket paths must be short.
        let dir = TempDir::new_in("/tmp").expect("a directory");
        let listener = UnixListener::bind(dir.path().join("s")).expect("bound");
        let watch: Watch = Arc::new(Mutex::new(watch));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (server, watch) = (server.clone(), Arc::clone(&watch));
                thread::spawn(move || client.and_then(|client| serve(&client, &server, &watch)));
            }
        });
        Self { dir }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }
}

fn serve(client: &UnixStream, server: &Path, watch: &Watch) -> io::Result<()> {
    let server = UnixStream::connect(server)?;
    let (mut answers, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let back = thread::spawn(move || {
        drop(io::copy(&mut answers, &mut to_client));
        to_client.shutdown(Shutdown::Both)
    });
    let ended = hand_on(client, &server, watch);
    // The server sees that its client is gone when both are closed.
    for end in [client, &server] {
        drop(end.shutdown(Shutdown::Both));
    }
    drop(back.join());
    ended
}

fn hand_on(mut client: &UnixStream, mut server: &UnixStream, watch: &Watch) -> io::Result<()> {
    loop {
        let mut head = [0; 4];
        client.read_exact(&mut head)?;
        let [a, b, c, number] = head;
        let mut body = vec![0; usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16];
        client.read_exact(&mut body)?;
        if let (0, Some((&QUERY, text))) = (number, body.split_first()) {
            let fate = watch.lock().expect("whole")(&String::from_utf8_lossy(text));
            if matches!(fate, Fate::Cut) {
                return Ok(());
            }
        }
        server.write_all(&head)?;
        server.write_all(&body)?;
    }
}
