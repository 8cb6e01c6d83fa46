//! page_compressed tables after a crash: their pages are compressed again, and their files have holes like the server's.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use datadir::keys::{KeyFiles, SpaceKey};
use datadir::page::{PageAt, PageOpener};
use format::codec::Opened;
use format::fil::{FIL_PAGE_TYPE, PageType};
use format::{PageId, SpaceFormat};
use innokit_recovery::{RecoverOptions, recover};
use tempfile::TempDir;

use crate::server::{Server, copy};
use crate::versions::OLD;
use crate::{answers, assert_started_without_recovery, encrypted};

/// Flushes no page before it must, and compresses with an algorithm that needs no plugin.
const SETTINGS: [&str; 5] = [
    "--innodb-compression-algorithm=zlib",
    "--innodb-log-file-size=256M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
];
const OLDER_LAYOUT: &str = "--innodb-checksum-algorithm=crc32";
const TABLES: [&str; 2] = ["pressed", "sealed"];

/// Rows that compress well: a page that does not is stored uncompressed.
fn rows(table: &str) -> String {
    format!(
        "INSERT INTO {table} (b) SELECT REPEAT(CONCAT('row ', seq), 40) FROM seq_1_to_20000;
         UPDATE {table} SET b = CONCAT(b, ' again') WHERE id % 3 = 0; DELETE FROM {table} WHERE id % 50 = 7;"
    )
}

/// The kinds of pages in a table's file.
#[derive(Debug, Default)]
struct Pages {
    compressed: usize,
    /// Uncompressed B-tree pages.
    plain: usize,
}

fn pages(file: &Path, keys: &KeyFiles) -> Pages {
    let bytes = fs::read(file).expect("reads");
    let format = SpaceFormat::from_page0(&bytes).expect("a tablespace");
    let key = SpaceKey::unlock(&bytes, &format, &keys.read().expect("keys")).expect("the key");
    let (mut found, mut opener) = (Pages::default(), PageOpener::new());
    for (number, page) in bytes.chunks_exact(format.physical().bytes()).enumerate().skip(1) {
        let id = PageId::new(format.space().0, u32::try_from(number).expect("fits"));
        let Opened { page, inflated, .. } =
            opener.open(page, PageAt { id, format: &format, key: &key }).expect("opens");
        let page_type = PageType(u16::from_be_bytes(page[FIL_PAGE_TYPE..][..2].try_into().expect("2 bytes")));
        found.compressed += usize::from(inflated.is_some());
        found.plain += usize::from(inflated.is_none() && page_type == PageType::INDEX);
    }
    found
}

fn blocks(file: &Path) -> u64 {
    fs::metadata(file).expect("a file").blocks() * 512
}

fn sums(server: &Server) -> Vec<String> {
    let sums = answers(server, &TABLES.map(|table| format!("shop.{table}")));
    let is_sound = |of_table: &String| of_table.contains("\tstatus\tOK") && !of_table.contains("ERROR ");
    assert!(sums.iter().all(is_sound), "{sums:?}");
    sums
}

fn assert_compressed_again(kind: &'static str, settings: &[&str]) {
    let dir = TempDir::new().expect("a directory");
    let (server, keys) = encrypted::start_kind(kind, dir.path(), &[&SETTINGS, settings].concat());
    server.run(
        "CREATE DATABASE shop; USE shop;
         CREATE TABLE pressed (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(800), KEY (b(20))) ENGINE=InnoDB PAGE_COMPRESSED=1;
         CREATE TABLE sealed (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(800), KEY (b(20))) ENGINE=InnoDB PAGE_COMPRESSED=1 \
         ENCRYPTED=YES ENCRYPTION_KEY_ID=2;",
    );
    // Half of the pages reach their files before the crash, compressed by the server.
    server.run(&format!("USE shop; {}", TABLES.map(rows).concat()));
    server.run("FLUSH TABLES shop.pressed, shop.sealed FOR EXPORT; UNLOCK TABLES;");
    server.run(&format!("USE shop; {}", TABLES.map(rows).concat()));
    server.kill();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    copy(&server.0, &theirs);
    let options = RecoverOptions { keys: keys.clone(), to: Some(ours.clone()), ..RecoverOptions::default() };
    let done = recover(&server.0, &options).expect("recovers");
    assert!(done.pages_changed > 200, "{done:?}");
    for table in TABLES {
        let file = |datadir: &Path| datadir.join("shop").join(table).with_extension("ibd");
        let (before, after) = (pages(&file(&server.0), &keys), pages(&file(&ours), &keys));
        assert!(after.compressed > before.compressed && after.compressed > 100, "{table}: {before:?} {after:?}");
        assert_eq!(after.plain, 0, "{table}: {before:?} {after:?}");
        let (taken, len) = (blocks(&file(&ours)), fs::metadata(file(&ours)).expect("a file").len());
        assert!(taken < len * 2 / 3, "{table} takes {taken} of {len} bytes");
    }
    server.lend_options(&ours);
    server.lend_options(&theirs);
    let ours = Server::again_kind(kind, &ours);
    assert_started_without_recovery(&ours);
    let theirs = Server::again_kind(kind, &theirs);
    assert_eq!(sums(&ours), sums(&theirs));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn pages_are_compressed_again_and_holes_stay_holes() {
    assert_compressed_again("mariadb", &[]);
    assert_compressed_again("mariadb", &[OLDER_LAYOUT, "--innodb-page-size=8k"]);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_of_10_5_finds_its_pages_compressed_too() {
    assert_compressed_again(OLD, &[OLDER_LAYOUT]);
}
