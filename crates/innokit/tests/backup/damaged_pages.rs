//! A damaged page need not cost the backup of all others, if the user says so.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::backup_lab::Server;

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
