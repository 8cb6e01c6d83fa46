//! Random tables, changed and altered at random until their server is killed: what `innokit recover` makes of the files is what the
//! server's own recovery makes of them.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::{Dir, Run, innokit};
use crate::rows_lab::Server;

/// The longest that a load runs before its server is killed, milliseconds.
const LOAD_MS: u64 = 6000;

/// A client that sends statements, some of which may fail, until its server is gone.
struct Load {
    client: Child,
    sender: JoinHandle<()>,
}

impl Load {
    fn start(server: &Server, statements: String) -> Self {
        let mut command = server.command("sql", &["--force", "--default-character-set=utf8mb4"]);
        let mut client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash runs");
        let mut input = client.stdin.take().expect("piped");
        // Fails once the client has lost its server and ends.
        let sender = std::thread::spawn(move || drop(input.write_all(statements.as_bytes())));
        Self { client, sender }
    }

    fn wait(mut self) {
        self.client.wait().expect("ends");
        self.sender.join().expect("does not panic");
    }
}

/// Starts a server on these files. Returns each table's definition, checksum and CHECK TABLE verdict.
fn content(kind: &'static str, dir: Dir) -> BTreeMap<String, String> {
    let server = Server { kind, dir };
    server.script("start", &[], "");
    let tables = server.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'rnd' ORDER BY 1");
    tables.lines().map(|table| (table.to_owned(), answer(&server, table))).collect()
}

/// What the server says about a table, errors included: a crash may leave it half made.
fn answer(server: &Server, table: &str) -> String {
    let questions = format!("CHECKSUM TABLE rnd.`{table}`; CHECK TABLE rnd.`{table}`; SHOW CREATE TABLE rnd.`{table}`");
    let mut command = server.command("sql", &["--batch", "--skip-column-names", "--force", "-e", &questions]);
    let output = command.stdin(Stdio::null()).output().expect("bash runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn a_killed_server_is_recovered(kind: &'static str, seed: u64) {
    let server = Server::empty(kind);
    server.attempt(&crate::random_tables::every_type(kind, seed));
    let more: String = (0..4).map(|part| crate::random_tables::altered(kind, 1000 * seed + part)).collect();
    let load = Load::start(&server, more);
    std::thread::sleep(Duration::from_millis(seed * 977 % LOAD_MS));
    server.script("kill9", &[], "");
    load.wait();
    let (ours, theirs) = (Dir::new(), Dir::new());
    crate::common::copy(&server.datadir(), &theirs.path().join("data"));
    let to = ours.path().join("data");
    let recovered = innokit().args(["recover", "--to"]).args([&to, &server.datadir()]).output().expect("innokit runs");
    let recovered = Run::of(&recovered);
    assert_eq!(recovered.status, 0, "{kind}, seed {seed}: {}", recovered.errors);
    let checked = crate::common::check(&to, &["-q"]);
    assert_ne!(checked.status, 1, "{kind}, seed {seed}: {}", checked.text);
    let (ours, theirs) = (content(kind, ours), content(kind, theirs));
    assert!(theirs.len() > 4, "{kind}, seed {seed}: {:?}", theirs.keys());
    let differ = |table: &&String| ours.get(*table) != theirs.get(*table);
    let differing: Vec<_> = ours.keys().chain(theirs.keys()).filter(differ).collect();
    let first = differing.first().map(|table| (ours.get(*table), theirs.get(*table)));
    assert!(differing.is_empty(), "{kind}, seed {seed}: {differing:?}: {first:#?}");
}

/// One crash for each of the seeds in `INNOKIT_RANDOM_CRASHES`, by default one.
fn killed_servers_are_recovered(kind: &'static str) {
    crate::random_tables::seeds("INNOKIT_RANDOM_CRASHES", 3..4)
        .for_each(|seed| a_killed_server_is_recovered(kind, seed));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_crashes_of_mysql_are_recovered_as_it_recovers_them() {
    killed_servers_are_recovered("mysql");
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_crashes_of_mysql_8_0_15_are_recovered_as_it_recovers_them() {
    killed_servers_are_recovered("mysql80");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_crashes_of_mariadb_10_11_are_recovered_as_it_recovers_them() {
    killed_servers_are_recovered("mariadb");
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_crashes_of_mariadb_11_4_are_recovered_as_it_recovers_them() {
    killed_servers_are_recovered("mariadb114");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_crashes_of_mariadb_11_8_are_recovered_as_it_recovers_them() {
    killed_servers_are_recovered("mariadb118");
}
