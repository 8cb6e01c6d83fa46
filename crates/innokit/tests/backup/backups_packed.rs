//! Backups as people keep them: a full one and two increments, streamed and compressed, from a server with an encrypted log, encrypted
//! tables and compressed pages. `innokit unpack` and `innokit recover` give the same result as MariaDB's tools.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::backup_lab::{Server, assert_same, contents, is_well_with, unpack};
use crate::common::{Run, innokit};
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

const KEYS: &str = "1;770A8A65DA156D24EE2A093277530142\n2;18420B5CBA31CCDFFE9716E91EB61374\n";
const TABLES: &str = "USE shop; CREATE TABLE packed LIKE a; ALTER TABLE packed PAGE_COMPRESSED=1; INSERT INTO packed SELECT * FROM a; \
                      CREATE TABLE both_ways LIKE a; ALTER TABLE both_ways PAGE_COMPRESSED=1 ENCRYPTED=YES ENCRYPTION_KEY_ID=2; \
                      INSERT INTO both_ways SELECT * FROM a; CREATE TABLE plain LIKE a; ALTER TABLE plain ENCRYPTED=NO; \
                      INSERT INTO plain SELECT * FROM a;";

fn start(kind: &'static str) -> Server {
    let folder = TempDir::new().expect("a folder");
    let keys = folder.path().join("keys");
    fs::write(&keys, KEYS).expect("written");
    let options = [
        "--plugin-load-add=file_key_management".to_owned(),
        // `loose`: the plugin is not loaded yet when the datadir is created.
        format!("--loose-file-key-management-filename={}", keys.display()),
        "--innodb-encrypt-tables=ON".to_owned(),
        "--innodb-encrypt-log=ON".to_owned(),
    ];
    Server::start_in(folder, kind, &options)
}

/// Unpacks a stream with MariaDB's tool.
fn unpacked_by_the_tool(server: &Server, stream: &[u8], name: &str) {
    fs::create_dir(server.of(name)).expect("made");
    let mut command = Command::new(crate::common::repository().join("scripts/server.sh"));
    command.args([server.kind, "tool", "mbstream", "-x", "-C"]).arg(server.of(name)).stdin(Stdio::piped());
    let mut child = command.spawn().expect("bash runs");
    child.stdin.take().expect("piped").write_all(stream).expect("taken");
    assert!(child.wait().expect("ends").success(), "{} {name}", server.kind);
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).expect("packed")
}

/// Takes a streamed backup of the changes since `base`, compresses it, and unpacks it with innokit and with the tool.
fn take(server: &Server, name: &str, base: Option<&str>) {
    let lsns = |name: &str| server.of(&format!("{name}.lsns")).display().to_string();
    let mut options = vec!["--stream=xbstream".to_owned(), format!("--extra-lsndir={}", lsns(name))];
    options.extend(base.map(|base| format!("--incremental-basedir={}", lsns(base))));
    let stream = server.back_up(&format!("{name}.work"), &options.iter().map(String::as_str).collect::<Vec<_>>());
    let packed = match base {
        None => gzipped(&stream),
        Some(_) => zstd::encode_all(stream.as_slice(), 1).expect("packed"),
    };
    let archive = format!("{name}.xb");
    fs::write(server.of(&archive), packed).expect("written");
    unpack(server, &archive, name);
    let theirs = format!("{name}.theirs");
    unpacked_by_the_tool(server, &stream, &theirs);
    assert_same(server, name, &theirs, "unpacked");
}

fn prepare_with_the_tool(server: &Server) {
    let plugins = server.script_on("data", "sql", &["-N"], "SELECT @@plugin_dir");
    let plugins = format!("--plugin-dir={}", plugins.trim());
    let prepare = |more: Option<String>| {
        let options = [&plugins].into_iter().chain(&more).map(String::as_str).collect::<Vec<_>>();
        server.prepare("full.theirs", &options);
    };
    prepare(None);
    for name in ["inc1.theirs", "inc2.theirs"] {
        prepare(Some(format!("--incremental-dir={}", server.of(name).display())));
    }
}

fn recover(server: &Server, keys: bool, to: &str) -> Run {
    let mut command = innokit();
    command.arg("recover").arg(server.of("full"));
    if keys {
        command.arg("--key-file").arg(server.of("keys"));
    }
    for name in ["inc1", "inc2"] {
        command.arg("--increment").arg(server.of(name));
    }
    Run::of(&command.arg("--to").arg(server.of(to)).output().expect("innokit runs"))
}

fn backups_come_to_what_the_tools_make_of_them(kind: &'static str) {
    let mut server = start(kind);
    server.script("sql", &[], TABLES);
    server.load_with(|round| {
        let table = ["packed", "both_ways", "plain"][round as usize % 3];
        format!("UPDATE {table} SET a = a + 1, b = SHA2({round} + id, 224) WHERE id % 9 = {}; INSERT INTO {table} (a, c) VALUES (1, REPEAT('n', 900));", round % 9)
    });
    std::thread::sleep(Duration::from_millis(500));
    take(&server, "full", None);
    server.script("sql", &["shop"], "CREATE TABLE late LIKE both_ways; INSERT INTO late SELECT * FROM b; DROP TABLE words; RENAME TABLE left_0 TO left_1;");
    std::thread::sleep(Duration::from_millis(500));
    take(&server, "inc1", Some("full"));
    server.script("sql", &["shop"], "ALTER TABLE late ADD KEY k (c(10)); TRUNCATE right_0;");
    std::thread::sleep(Duration::from_millis(500));
    take(&server, "inc2", Some("inc1"));

    let locked = recover(&server, false, "locked");
    assert!(locked.status == 2 && locked.errors.contains("--key-file"), "{kind}: {}", locked.errors);
    assert!(!server.of("locked").exists(), "{kind}: something is left");
    let run = recover(&server, true, "ours");
    assert_eq!(run.status, 0, "{kind}: {}", run.errors);
    prepare_with_the_tool(&server);
    let names = |name| contents(&server, name).into_keys().collect::<BTreeSet<_>>();
    let differing: Vec<_> = names("ours").symmetric_difference(&names("full.theirs")).cloned().collect();
    // The server's position in its binary log, which other files of the backup record too.
    assert!(differing.iter().all(|name| name.ends_with("xtrabackup_binlog_pos_innodb")), "{kind}: {differing:?}");
    let keys = server.of("keys").display().to_string();
    for name in ["ours", "full.theirs"] {
        is_well_with(&server, name, &["--key-file", &keys]);
    }
    assert_eq!(server.tables("ours"), server.tables("full.theirs"), "{kind}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn packed_backups_of_mariadb_come_to_what_its_tools_make_of_them() {
    backups_come_to_what_the_tools_make_of_them("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn packed_backups_of_the_newest_mariadb_come_to_what_its_tools_make_of_them() {
    backups_come_to_what_the_tools_make_of_them("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn packed_backups_of_mariadb_whose_log_is_made_of_blocks_come_to_what_its_tools_make_of_them() {
    backups_come_to_what_the_tools_make_of_them("mariadb105");
}
