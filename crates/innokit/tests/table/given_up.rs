//! What a server has given up, or had not finished when it was killed, and what a repair leaves behind.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{check_json, innokit, reasons};
use crate::rows_lab::Server;

const PAGE: usize = 16384;

/// The last leaf of the second index of a tablespace.
fn leaf_of_second_index(path: &Path) -> usize {
    let bytes = std::fs::read(path).expect("read");
    let pages = bytes.chunks_exact(PAGE).enumerate();
    let index_of = |page: &[u8]| u64::from_be_bytes(page[66..74].try_into().expect("8 bytes"));
    let leaves: Vec<(usize, u64)> = pages
        .filter(|(_, page)| page[24..26] == [0x45, 0xBF] && page[64..66] == [0, 0])
        .map(|(number, page)| (number, index_of(page)))
        .collect();
    let second = leaves.iter().map(|(_, index)| *index).max().expect("leaves");
    leaves.iter().rfind(|(_, index)| *index == second).expect("a leaf").0
}

/// The server notes in its dictionary that an index is corrupt, and uses it no more, whatever the file says later.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_index_that_the_server_has_given_up_is_no_sound_index() {
    let server = Server::empty("mariadb");
    server.sql(
        "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(100), KEY k (b)); \
         INSERT INTO t WITH RECURSIVE n AS (SELECT 1 AS s UNION ALL SELECT s + 1 FROM n WHERE s < 1000) \
         SELECT s, CONCAT(s, REPEAT('x', 80)) FROM n;",
    );
    server.stop();
    let path = server.datadir().join("d/t.ibd");
    let sound = std::fs::read(&path).expect("read");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    file.write_all_at(b"spoilt", (leaf_of_second_index(&path) * PAGE + 8000) as u64).expect("written");
    server.script("start", &[], "");
    let said = server.sql("CHECK TABLE d.t;");
    assert!(said.contains("orrupt"), "{said}");
    server.stop();
    // The file as it was: only the dictionary knows.
    std::fs::write(&path, sound).expect("written");
    let (document, status) = check_json(&server.datadir(), &[]);
    assert_eq!((reasons(&document).as_slice(), status), (&["flagged_index"][..], 1), "{document:#}");
    server.script("start", &[], "");
    server.sql("ALTER TABLE d.t DROP INDEX k; ALTER TABLE d.t ADD INDEX k (b);");
    server.stop();
    let (document, status) = check_json(&server.datadir(), &[]);
    assert_eq!((reasons(&document).as_slice(), status), (&[][..], 0), "{document:#}");
}

/// A server that is killed while it moves rows between partitions is well once it has recovered, and so are the files.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_crash_while_partitions_come_and_go_is_no_damage_where_the_server_is_well() {
    for kind in ["mariadb", "mariadb118", "mysql"] {
        let server = Server::empty(kind);
        server.sql(
            "CREATE DATABASE d; USE d; CREATE TABLE n (id INT PRIMARY KEY); INSERT INTO n VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9); \
             CREATE TABLE par (id INT PRIMARY KEY, b VARCHAR(100)) PARTITION BY HASH (id) PARTITIONS 2; \
             INSERT INTO par SELECT a.id + 10 * b.id + 100 * c.id + 1000 * d.id, REPEAT('x', 90) FROM n a, n b, n c, n d;",
        );
        let turns = "ALTER TABLE d.par ADD PARTITION PARTITIONS 2; ALTER TABLE d.par COALESCE PARTITION 2;".repeat(200);
        for number in 1..=2 {
            let mut client = server
                .command("sql", &["--force"])
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("starts");
            std::io::Write::write_all(&mut client.stdin.take().expect("piped"), turns.as_bytes()).expect("taken");
            std::thread::sleep(Duration::from_millis(700 * number));
            server.script("kill9", &[], "");
            client.wait().expect("ends");
            let recovered = innokit().args(["recover", "--in-place"]).arg(server.datadir()).output().expect("runs");
            assert_eq!(recovered.status.code(), Some(0), "{kind}: {}", String::from_utf8_lossy(&recovered.stderr));
            let (before, status) = check_json(&server.datadir(), &[]);
            server.script("start", &[], "");
            let well = server.sql("CHECK TABLE d.par EXTENDED; SELECT COUNT(*) FROM d.par;");
            let is_well = well.contains("OK") && well.contains("10000");
            assert!(status != 1 || !is_well, "{kind}, crash {number}: the server is well: {well}{before:#}");
        }
        server.stop();
        let (document, status) = check_json(&server.datadir(), &[]);
        assert_ne!(status, 1, "{kind}: {document:#}");
    }
}
