//! Moments within a statement that drops files before it ends: the server rolls it back when it starts, and the files do not come back.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::fs;

use crate::backup_lab::Server;
use crate::backup_lab::session::Session;

const OF_MYSQL: &str = "SELECT JSON_EXTRACT(storage_engines, '$.InnoDB.LSN') FROM performance_schema.log_status";
const OF_MARIADB: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'";

fn lsn(server: &Server, session: &mut Session) -> u64 {
    let answer = session.ask(if server.kind == "mysql" { OF_MYSQL } else { OF_MARIADB }).concat();
    answer.split_whitespace().last().and_then(|lsn| lsn.parse().ok()).expect("an LSN")
}

/// Restores a moment. Returns whether the files of the full-text index are gone there, or the moments that a refusal names.
fn has_lost_words(server: &Server, until: u64) -> Result<bool, Vec<u64>> {
    if server.of("out").exists() {
        fs::remove_dir_all(server.of("out")).expect("removed");
    }
    let until = until.to_string();
    let done = server.restore_until(&until, "out");
    if done.status != 0 {
        let named = done.errors.split("(--until ").skip(1).filter_map(|rest| rest.split(')').next());
        assert_eq!(done.status, 2, "{}: {}", server.kind, done.errors);
        return Err(named.map(|moment| moment.parse().expect("an LSN")).collect());
    }
    let names = fs::read_dir(server.of("out/shop")).expect("a folder").map(|entry| entry.expect("one").file_name());
    let mut names = names.map(|name| name.to_string_lossy().to_lowercase());
    Ok(!names.any(|name| name.starts_with("fts_") && name.contains("_index_1")))
}

fn files_that_are_gone_are_not_missed(kind: &'static str) {
    let server = Server::start(kind);
    let mut session = Session::of(&server);
    session.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1; DROP TABLE words");
    session.ask("CREATE TABLE texts (id INT PRIMARY KEY, t TEXT, FULLTEXT KEY ft (t)) ENGINE=InnoDB; INSERT INTO texts SELECT id, 'once more' FROM a");
    server.archive();
    let socket = server.socket().display().to_string();
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{kind}: {}", taken.errors);
    session.ask("UPDATE a SET a = a + 1 LIMIT 10");
    let before = lsn(&server, &mut session);
    // On MariaDB the archiver looks at definitions: what it has seen by now was so at that LSN.
    server.archive();
    session.ask("ALTER TABLE texts DROP KEY ft");
    server.archive();
    session.ask("UPDATE a SET a = a + 1 LIMIT 10");
    let after = lsn(&server, &mut session);
    session.ask("UPDATE a SET a = a + 1 LIMIT 10");
    server.archive();
    assert_eq!((has_lost_words(&server, before), has_lost_words(&server, after)), (Ok(false), Ok(true)), "{kind}");
    // A refused moment: tried at ever finer steps.
    let steps = (1..=7).flat_map(|depth| (0..1_u64 << (depth - 1)).map(move |part| (2 * part + 1, 1_u64 << depth)));
    let mut tried = steps.map(|(part, parts)| before + (after - before) * part / parts);
    let (refused, named) =
        tried.find_map(|at| Some((at, has_lost_words(&server, at).err()?))).expect("a moment within the statement");
    let way_out = *named.last().expect("a moment that is possible");
    assert_eq!(has_lost_words(&server, way_out), Ok(false), "{kind}: {way_out}");
    // The last one before it that is granted, and the first one after it. MariaDB's archiver knows no more than what it saw before and after.
    let (last, first) = match named[..] {
        [first, last] if kind == "mysql" => {
            assert!(last < refused && refused < first, "{named:?}");
            (last, first)
        }
        _ => {
            assert_eq!(kind, "mariadb", "{named:?}");
            let edge = |mut inside: u64, mut outside: u64| {
                while inside.abs_diff(outside) > 1 {
                    let middle = inside.midpoint(outside);
                    *(if has_lost_words(&server, middle).is_err() { &mut inside } else { &mut outside }) = middle;
                }
                outside
            };
            (edge(refused, before), edge(refused, after))
        }
    };
    // The index is there with its words, or not at all: a server that has it without them aborts.
    for (at, words) in [(last, vec!["3000".to_owned()]), (first, Vec::new())] {
        assert!(has_lost_words(&server, at).is_ok(), "{kind}: {at}");
        server.script_on("out", "start", &[], "");
        let mut restored = Session::on(&server, "out");
        let asked = restored.ask("SELECT COUNT(*) FROM texts WHERE MATCH (t) AGAINST ('more')");
        assert_eq!(asked, words, "{kind}: {at}");
        let checked = restored.ask("CHECK TABLE texts");
        assert_eq!(checked, ["shop.texts\tcheck\tstatus\tOK"], "{kind}: {at}");
        drop(restored);
        server.script_on("out", "stop", &[], "");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_moment_of_mysql_has_an_index_without_its_files() {
    files_that_are_gone_are_not_missed("mysql");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_moment_of_mariadb_has_an_index_without_its_files() {
    files_that_are_gone_are_not_missed("mariadb");
}
