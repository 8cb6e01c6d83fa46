//! Compares the compressed pages of killed MySQL servers one by one.

use std::time::Duration;

use datadir::keys::KeyFiles;
use innokit_recovery::RecoverOptions;
use tempfile::TempDir;

use crate::mysql::{Compared, compare, crash, number, page_kib, run};
use crate::server::{Server, copy, script};
use crate::{KeptOnFailure, assert_sound, mysql_load as load};

/// Compares pages with a copy after the server's own recovery, which here neither rolls back nor purges.
fn pages_of_a_crash(number: u32, options: &[&str]) -> Compared {
    let dir = TempDir::new().expect("a directory");
    let server = Server::start_kind("mysql", &dir.path().join("crashed"), options);
    let page_kib = page_kib(options);
    crash(
        &server,
        page_kib,
        &load::zip_changes(page_kib),
        Duration::from_millis(u64::from(1500 + number * 977 % 6000)),
    );
    let _kept = KeptOnFailure(&server.0, number);
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    copy(&server.0, &theirs);
    let done = run(&server.0, RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() });
    assert_sound(&ours, &KeyFiles::default());
    server.lend_options(&theirs);
    let server = Server(theirs.clone(), "mysql");
    script("server.sh", &["mysql", "start", server.path(), "--innodb-force-recovery=3"]);
    server.stop();
    let seen = compare(&ours, &theirs, &done);
    println!("{options:?}: {seen:?}");
    seen
}

/// Flushes no page before it must, so that redo accumulates.
const LAZY: [&str; 4] = [
    "--innodb-redo-log-capacity=64M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
];
/// Servers that log compressed page images.
const WITH_IMAGES: [&[&str]; 3] =
    [&[], &["--innodb-page-size=8k"], &["--innodb-page-size=4k", "--innodb-compression-level=1"]];
fn crashes_of(settings: [&'static [&'static str]; 3], judge: impl Fn(&Compared)) {
    let first = number("INNOKIT_MYSQL_FIRST", 0);
    for number in first..first + number("INNOKIT_MYSQL_CRASHES", 1) {
        let seen = pages_of_a_crash(number, &[&LAZY, settings[number as usize % settings.len()]].concat());
        assert_eq!(seen.different, Vec::<String>::new(), "crash {number}");
        judge(&seen);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn compressed_pages_become_those_of_the_servers_own_recovery_byte_by_byte() {
    crashes_of(WITH_IMAGES, |seen| {
        assert!(seen.same_compressed > 0 && seen.same_inside == 0, "{seen:?}");
    });
}
