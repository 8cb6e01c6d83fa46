//! A damaged page need not cost the backup of all others, if the user says so.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::backup_lab::Server;
use crate::backup_lab::session::Session;
use crate::sql_proxy::{Fate, Proxy};

/// A leaf in the middle of the table, which no statement of this test touches.
const PAGE: u64 = 12;

fn damaged_pages_are_copied_if_allowed(kind: &'static str) {
    let server = Server::start(kind);
    // The server writes the page no more.
    server.script("stop", &["0"], "");
    let table = File::options().write(true).open(server.of("data/other/c.ibd")).expect("open");
    table.write_all_at(&[0x55; 64], PAGE * (16 << 10) + 8000).expect("written");
    server.script("start", &[], "");
    let socket = server.socket().display().to_string();
    let backup = |to: &str, more: &[&str]| {
        server.run(&[&["backup", "--user", "root", "--socket", &socket, "--to", to], more, &["data"]].concat())
    };
    let refused = backup("void", &[]);
    let says = "c.ibd: page 12 is damaged in the server's own file";
    assert!(refused.status == 1 && refused.errors.contains(says), "{kind}: {}", refused.errors);
    assert!(refused.errors.contains("--allow-damage"), "{kind}: {}", refused.errors);
    let taken = backup("set", &["--allow-damage"]);
    assert!(
        taken.status == 1 && taken.text.contains("DAMAGED   other/c.ibd: page 12, copied"),
        "{kind}: {}{}",
        taken.text,
        taken.errors
    );
    let verified = server.run(&["backup", "verify", "set"]);
    assert!(
        verified.status == 1 && verified.text.contains("other/c.ibd: page 12 is damaged, as it was"),
        "{kind}: {}",
        verified.text
    );
    let allowed = server.run(&["backup", "verify", "--allow-damage", "set"]);
    assert_eq!(allowed.status, 0, "{kind}: {}{}", allowed.text, allowed.errors);
    for command in [&["restore", "--to", "out", "set"][..], &["recover", "--to", "out", "set"]] {
        let refused = server.run(command);
        let is_named =
            refused.errors.contains("1 pages in 1 files of this backup") && refused.errors.contains("--allow-damage");
        assert!(refused.status == 2 && is_named && !server.of("out").exists(), "{kind}: {}", refused.errors);
    }
    let increment = backup("more", &["--incremental-since", "set"]);
    assert!(increment.status == 2 && increment.errors.contains("take a full backup"), "{kind}: {}", increment.errors);
    let restored = server.run(&["restore", "--allow-damage", "--to", "out", "set"]);
    assert_eq!(restored.status, 0, "{kind}: {}", restored.errors);
    let counted = server.run(&["table", "count", "out/shop/a.ibd"]);
    assert_eq!(counted.status, 0, "{kind}: {}", counted.errors);

    // The others are as good as ever, to the last entry.
    let sound = server.run(&["restore", "--allow-damage", "--move", "--to", "moved", "set"]);
    assert_eq!(sound.status, 0, "{kind}: {}", sound.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn damaged_pages_of_mariadb_are_copied_if_that_is_allowed() {
    damaged_pages_are_copied_if_allowed("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn damaged_pages_of_mysql_are_copied_if_that_is_allowed() {
    damaged_pages_are_copied_if_allowed("mysql");
}

/// Fills a page with something else.
fn spoil(path: &std::path::Path, page: u64) {
    let file = File::options().write(true).open(path).expect("open");
    file.write_all_at(&[0x55; 64], page * (16 << 10) + 8000).expect("written");
}

/// A page of the copy changes after it was copied: a bad disk. The server's own page is sound, or has gone bad too.
/// `stage`: a statement of the backup after the copies are made.
fn a_failed_proof_asks_whose_page_it_is(kind: &'static str, stage: &'static str, purge: &'static str) {
    let server = Server::start(kind);
    let made = "CREATE TABLE own (id INT PRIMARY KEY, c CHAR(200)); INSERT INTO own SELECT id, 'x' FROM a";
    Session::of(&server).ask(made);
    for spoils_server in [false, true] {
        // The redo of the backup begins later, so it does not make the pages from nothing.
        server.script("stop", &["0"], "");
        server.script("start", &[], "");
        let (table, staged) = (server.of("data/shop/own.ibd"), server.of("set/innokit.copying"));
        let (mut session, mut is_due) = (Session::of(&server), true);
        let proxy = Proxy::before(server.socket(), move |statement| {
            if statement == stage && std::mem::take(&mut is_due) {
                // The redo of the backup changes every page of the table. The server writes them, and has no reason to do so again.
                session.ask(&format!(
                    "UPDATE own SET c = CONCAT(c, 'y'); {purge}FLUSH TABLES own FOR EXPORT; UNLOCK TABLES"
                ));
                let mut space = [0; 4];
                File::open(&table).and_then(|file| file.read_exact_at(&mut space, 34)).expect("read");
                spoil(&staged.join(u32::from_be_bytes(space).to_string()), PAGE);
                if spoils_server {
                    spoil(&table, PAGE);
                }
            }
            Fate::Pass
        });
        let socket = proxy.socket().display().to_string();
        let failed = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
        let says = &failed.errors;
        let is_right = if spoils_server {
            failed.status == 1 && says.contains("own.ibd: page 12 is damaged in the server's own file")
        } else {
            failed.status == 2 && says.contains("own file was read again now, and is sound")
        };
        assert!(is_right && says.contains("own.ibd"), "{kind}, {spoils_server}: {} {says}", failed.status);
        fs::remove_dir_all(server.of("set")).expect("removed");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_failed_proof_of_mariadb_asks_whose_page_it_is() {
    let purge = "SET GLOBAL innodb_max_purge_lag_wait = 0; ";
    a_failed_proof_asks_whose_page_it_is("mariadb118", "BACKUP STAGE FLUSH", purge);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_failed_proof_of_mysql_asks_whose_page_it_is() {
    a_failed_proof_asks_whose_page_it_is("mysql", "LOCK INSTANCE FOR BACKUP", "");
}
