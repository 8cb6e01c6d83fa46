//! Servers killed within a bulk load: the build of an index, the rebuild of a table, an insert into an empty table.
//!
//! A bulk load allocates a page before it fills it, and links its pages to the root when all are full. What a crash leaves of it is in use,
//! all zeros or out of reach, and is no damage: the server frees it when it starts. Only MySQL writes such pages without redo.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use datadir::Severity;
use datadir::keys::KeyFiles;
use innokit_recovery::{RecoverOptions, recover};
use inspect::report::hurt::Action;
use inspect::{TableOptions, tables};
use tempfile::TempDir;

use crate::server::Server;
use crate::versions::{NEW, OLD};
use crate::{KeptOnFailure, assert_sound};

/// Each commit makes the log durable, with what the bulk load has logged by then.
const OPTIONS: [&str; 1] = ["--innodb-flush-log-at-trx-commit=1"];
const ROWS: u32 = 200_000;
/// The server is killed when the bulk load has added this much, bytes: a fifth of the smallest of them.
const GROWN: u64 = 4 << 20;
/// Time limit for the growth. It only keeps a hung test from running forever.
const GROWN_WITHIN: Duration = Duration::from_secs(60);

fn make_tables(server: &Server) {
    let columns = "id INT PRIMARY KEY, a INT, b VARCHAR(120)";
    server.run(&format!(
        "CREATE DATABASE shop; CREATE TABLE shop.full ({columns}); CREATE TABLE shop.empty ({columns}, KEY (b));
         CREATE TABLE shop.commits (a INT);"
    ));
    let rows = "n, n*7, REPEAT(CHAR(97+n%26), 100)";
    server.run(&match server.1 {
        "mysql" => format!(
            "SET cte_max_recursion_depth={ROWS};
             INSERT INTO shop.full WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n+1 FROM s WHERE n<{ROWS})
             SELECT {rows} FROM s;"
        ),
        _ => format!("USE shop; INSERT INTO full SELECT {} FROM seq_1_to_{ROWS};", rows.replace('n', "seq")),
    });
}

/// The bytes of all tables.
fn size(server: &Server) -> u64 {
    let tables = fs::read_dir(server.0.join("shop")).expect("a directory").flatten();
    tables.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

/// Kills the server within the bulk load.
fn kill_within(server: &Server, bulk_load: &str) {
    let before = size(server);
    let commits = server.client_of("commits", &"INSERT INTO shop.commits VALUES (1);".repeat(200_000));
    let mut load = server.client_of("load", bulk_load);
    let started = Instant::now();
    while size(server) < before + GROWN {
        // If this thread has waited so long that the load has ended, what must hold within it holds after it too.
        if let Some(ended) = load.try_wait().expect("is a process") {
            assert!(ended.success(), "{bulk_load} failed");
            break;
        }
        assert!(started.elapsed() < GROWN_WITHIN, "{bulk_load} adds nothing");
        std::thread::sleep(Duration::from_millis(2));
    }
    server.kill();
    for mut client in [commits, load] {
        client.wait().expect("it loses its server");
    }
}

fn assert_trees_sound(datadir: &Path) {
    let report = tables(&[datadir.to_path_buf()], &TableOptions::default()).expect("options");
    let damage: Vec<_> = report.findings.iter().filter(|finding| finding.severity == Severity::Damage).collect();
    assert!(damage.is_empty(), "{damage:?}");
    let unhelpful: Vec<_> = report.hurt.iter().filter(|row| row.action != Action::StartServer).collect();
    assert!(unhelpful.is_empty(), "{unhelpful:?}");
}

fn try_kill(kind: &'static str, number: u32, bulk_load: &str) {
    let dir = TempDir::new().expect("a directory");
    let server = Server::start_kind(kind, &dir.path().join("crashed"), &OPTIONS);
    make_tables(&server);
    kill_within(&server, bulk_load);
    let _kept = KeptOnFailure(&server.0, number);
    let ours = dir.path().join("ours");
    recover(&server.0, &RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() }).expect("recovers");
    assert_sound(&ours, &KeyFiles::default());
    assert_trees_sound(&ours);
    server.lend_options(&ours);
    let ours = Server::again_kind(kind, &ours);
    assert!(ours.ask("CHECK TABLE shop.full").contains("\tstatus\tOK"));
    assert!(ours.ask("CHECK TABLE shop.empty").contains("\tstatus\tOK"));
    assert_eq!(ours.ask("SELECT COUNT(*) FROM shop.full").trim(), ROWS.to_string());
    ours.stop();
    assert_sound(&ours.0, &KeyFiles::default());
    assert_trees_sound(&ours.0);
}

/// Servers whose DDL a crash may interrupt anywhere. Before 10.6 it is not safe at its end, where a slow kill may come: the dictionary has
/// the index, the `.frm` file does not.
const SAFE: [&str; 3] = ["mariadb", NEW, "mysql"];
const INDEX: &str = "ALTER TABLE shop.full ADD INDEX (b);";
const REBUILD: &str = "ALTER TABLE shop.full FORCE;";
/// As the dumps of both vendors insert their rows.
const INSERT: &str = "SET unique_checks=0, foreign_key_checks=0; INSERT INTO shop.empty SELECT * FROM shop.full;";

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_a_crash_leaves_of_an_index_under_construction_is_no_damage() {
    SAFE.into_iter().zip(0..).for_each(|(kind, number)| try_kill(kind, number, INDEX));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_a_crash_leaves_of_a_table_that_is_rebuilt_is_no_damage() {
    SAFE.into_iter().zip(10..).for_each(|(kind, number)| try_kill(kind, number, REBUILD));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_a_crash_leaves_of_an_insert_into_an_empty_table_is_no_damage() {
    ["mariadb", OLD, "mysql"].into_iter().zip(20..).for_each(|(kind, number)| try_kill(kind, number, INSERT));
}
