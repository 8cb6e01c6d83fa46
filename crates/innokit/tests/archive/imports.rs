//! Imported tables, whose pages are in no redo log: no moment goes past an import, and each refusal names one that does not.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::fs;

use crate::backup_lab::Server;
use crate::backup_lab::session::Session;

/// Type of a page that is compressed, and where the type is.
const COMPRESSED: [u8; 2] = [0, 14];
const PAGE: usize = 16 << 10;

/// Copies a table's files as they are for export.
fn export(server: &Server, session: &mut Session) {
    session.ask("FLUSH TABLES giver FOR EXPORT");
    for ending in ["ibd", "cfg"] {
        fs::copy(server.data().join(format!("shop/giver.{ending}")), server.of(&format!("giver.{ending}")))
            .expect("copied");
    }
    session.ask("UNLOCK TABLES");
}

/// Replaces the table `taker` by what was exported.
fn import(server: &Server, session: &mut Session) {
    session.ask("ALTER TABLE taker DISCARD TABLESPACE");
    for ending in ["ibd", "cfg"] {
        fs::copy(server.of(&format!("giver.{ending}")), server.data().join(format!("shop/taker.{ending}")))
            .expect("copied");
    }
    session.ask("ALTER TABLE taker IMPORT TABLESPACE");
}

/// Restores to the moment that each refusal names, until one is granted: on MariaDB the file goes before the statement ends. The first refusal
/// is about the import.
fn restored_before(server: &Server, out: &str) {
    let whole = ["restore", "--redo", "redo", "--to", out, "set"];
    let mut done = server.run(&whole);
    assert!(done.status == 2 && done.errors.contains("imported"), "{}: {} {}", server.kind, done.status, done.errors);
    for _ in 0..2 {
        let named = done.errors.rsplit("(--until ").next().and_then(|rest| rest.split(')').next()).unwrap_or_default();
        assert!(named.parse::<u64>().is_ok() && !server.of(out).exists(), "{}: {}", server.kind, done.errors);
        done = server.run(&[&whole[..], &["--until", named]].concat());
        if done.status == 0 {
            return;
        }
    }
    panic!("{}: advice in a circle: {}", server.kind, done.errors)
}

fn no_moment_goes_past_an_import(kind: &'static str, compression: &str) {
    let server = Server::start(kind);
    let mut session = Session::of(&server);
    session.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    for table in ["giver", "taker"] {
        session.ask(&format!("CREATE TABLE {table} (id INT PRIMARY KEY, c LONGTEXT) {compression}"));
    }
    // Free pages of zeros remain behind what is deleted.
    session.ask(
        "INSERT INTO giver SELECT id, REPEAT(SHA2(id, 256), 400) FROM a LIMIT 200; DELETE FROM giver WHERE id > 20",
    );
    if kind == "mysql" {
        export(&server, &mut session);
        import(&server, &mut session);
        assert_eq!(
            session.ask("SELECT COUNT(*) FROM taker; CHECK TABLE taker"),
            ["20", "shop.taker\tcheck\tstatus\tOK"]
        );
    }
    server.archive();
    let socket = server.socket().display().to_string();
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{kind}: {}", taken.errors);
    if kind == "mysql" {
        let bytes = fs::read(server.of("set/shop/taker.ibd")).expect("read");
        let is_free = |page: &&[u8]| page[24..26] == COMPRESSED && page[..4] == [0; 4] && page[16..24] == [0; 8];
        assert!(
            bytes.chunks(PAGE).filter(is_free).count() > 0,
            "the server left no compressed page without a checksum"
        );
    }
    let verified = server.run(&["backup", "verify", "set"]);
    assert_eq!(verified.status, 0, "{kind}: {}{}", verified.text, verified.errors);

    // In the window of the archive.
    session.ask("UPDATE a SET a = a + 1 LIMIT 5");
    let expected = session.ask("CHECKSUM TABLE a, giver, taker");
    session.ask("INSERT INTO giver VALUES (1000, 'later')");
    export(&server, &mut session);
    import(&server, &mut session);
    assert_eq!(session.ask("SELECT COUNT(*) FROM taker"), ["21"]);
    server.archive();
    restored_before(&server, "out");
    session.ask("UPDATE taker SET c = 'other' WHERE id = 2");
    server.archive();
    restored_before(&server, "more");
    for out in ["out", "more"] {
        server.script_on(out, "start", &[], "");
        let mut restored = Session::on(&server, out);
        // The row that was added to the other table may be in: only the table itself is as it was.
        let found = restored.ask("CHECKSUM TABLE a, giver, taker");
        assert_eq!((&found[0], &found[2]), (&expected[0], &expected[2]), "{kind}");
        drop(restored);
        server.script_on(out, "stop", &[], "");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_moment_of_mariadb_goes_past_an_import() {
    no_moment_goes_past_an_import("mariadb", "PAGE_COMPRESSED=1");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_moment_of_mysql_goes_past_an_import_and_what_an_import_compressed_is_no_damage() {
    no_moment_goes_past_an_import("mysql", "COMPRESSION='zlib'");
}
