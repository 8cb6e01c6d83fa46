//! `redo archive`, `redo verify` and `recover --redo` with busy servers: moments in a server's life, recovered later.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::archive_lab::{
    Archiver, PATIENCE, assert_same_bytes, ends, killed_copies_are_refused, recovered_alike, wait_for,
};
use crate::backup_lab::Server;
use crate::common::{Run, innokit};
use format::Lsn;
use redo::follow::Walk;
use redo::mariadb::{LogFile, START_OFFSET};

const TABLES: [&str; 7] = ["shop.a", "shop.b", "shop.z", "shop.parts", "shop.left_0", "shop.right_0", "other.c"];

/// An LSN, and the row counts and checksums of the tables at that LSN.
fn moment(server: &Server) -> (u64, String) {
    // The same questions as in `Server::tables`.
    let question = |table: &str| format!("SELECT '{table}', COUNT(*) FROM {table}; CHECKSUM TABLE {table};");
    let sums = TABLES.map(|table| question(&format!("`{}`", table.replace('.', "`.`")))).concat();
    let answer = server.script_on(
        "data",
        "sql",
        &["-N"],
        &format!("FLUSH TABLES WITH READ LOCK; SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'; {sums} UNLOCK TABLES;"),
    );
    let (lsn, sums) = answer.split_once('\n').expect("lines");
    (lsn.split_whitespace().last().and_then(|lsn| lsn.parse().ok()).expect("an LSN"), sums.to_owned())
}

/// An archive holds the rows of every table: nobody else may read it, whatever the umask is.
fn assert_private(archive: &Path) {
    let (mut dirs, mut files) = (vec![archive.to_path_buf()], 0);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            let meta = fs::symlink_metadata(&entry).expect("there");
            assert_eq!(meta.mode() & 0o077, 0, "{}", entry.display());
            dirs.extend(meta.is_dir().then_some(entry));
            files += 1;
        }
    }
    assert!(files > 0 && fs::metadata(archive).expect("there").mode() & 0o777 == 0o700);
}

/// Asserts that a server on a recovered copy has nothing to recover, finds every table sound, and has these sums and counts.
fn assert_is_moment(server: &Server, name: &str, sums: &str) {
    let rows = server.tables(name);
    let missing: Vec<&str> = sums.lines().filter(|line| !rows.lines().any(|row| row == *line)).collect();
    assert!(
        missing.is_empty() && sums.lines().count() == 2 * TABLES.len(),
        "{} {name}: {missing:?} of {rows}",
        server.kind
    );
}

fn purged(server: &Server) {
    let started = Instant::now();
    while !server
        .script_on("data", "sql", &["-N"], "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'")
        .trim_end()
        .ends_with("\t0")
    {
        assert!(started.elapsed() < PATIENCE, "the server does not come to the end of its purge");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn moments_are_recovered(kind: &'static str) {
    let mut server = Server::start(kind);
    let first = server.run(&["redo", "archive", "--once", "--to", "redo", "data"]);
    assert_eq!(first.status, 0, "{}", first.errors);
    purged(&server);
    let archiver = Archiver::start(&server);
    server.back_up("base", &[]);
    server.load_with(|_| String::new());
    std::thread::sleep(Duration::from_secs(1));
    let mut moments = vec![moment(&server)];
    // The archiver is killed, and the log resized, while the server works.
    drop(archiver);
    let archiver = Archiver::start(&server);
    server.script("sql", &[], "SET GLOBAL innodb_log_file_size = 64 << 20;");
    std::thread::sleep(Duration::from_secs(1));
    moments.push(moment(&server));
    drop(archiver);
    let archiver = Archiver::start(&server);
    std::thread::sleep(Duration::from_millis(500));
    moments.push(moment(&server));
    // The server is killed as well, and restarted.
    wait_for(&server, moments[2].0);
    server.script("kill9", &[], "");
    let mut load = server.load.take().expect("it runs");
    load.kill().and_then(|()| load.wait()).expect("ended");
    server.script("start", &[], "");
    server.script("sql", &[], "UPDATE shop.a SET a = a + 5 WHERE id % 3 = 0; DELETE FROM shop.b WHERE id % 4 = 0;");
    moments.push(moment(&server));
    wait_for(&server, moments[3].0);
    drop(archiver);
    let caught_up = server.run(&["redo", "archive", "--until-caught-up", "--to", "redo", "data"]);
    assert_eq!(caught_up.status, 0, "{}", caught_up.errors);
    // Marks have a resolution of one second: wait until the last mark's second is over.
    std::thread::sleep(Duration::from_millis(1100));
    let date = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S"]).output().expect("date runs");
    let time = String::from_utf8(date.stdout).expect("text").trim_end().to_owned();
    // Definitions changed from here on are newer than the .frm files of the base copy.
    server.script("sql", &[], "ALTER TABLE shop.b ADD COLUMN later INT;");
    let altered = moment(&server).0;
    server.script("sql", &[], "CREATE TABLE shop.made_later (id INT PRIMARY KEY) ENGINE=InnoDB;");
    let caught_up = server.run(&["redo", "archive", "--until-caught-up", "--to", "redo", "data"]);
    assert_eq!(caught_up.status, 0, "{}", caught_up.errors);
    let verified = server.run(&["redo", "verify", "redo"]);
    assert!(verified.status == 0 && !verified.text.contains("GAP"), "{}{}", verified.text, verified.errors);
    server.script("stop", &[], "");
    assert_eq!(server.run(&["redo", "archive", "--until-caught-up", "--to", "redo", "data"]).status, 0);
    let compared = assert_same_bytes(&server);
    assert!(compared > 64 << 10, "{compared} bytes");
    let last = moments[3].1.clone();
    let moments = moments.into_iter().map(|(lsn, sums)| (lsn.to_string(), sums)).chain([(time, last)]);
    for (number, (lsn, sums)) in moments.enumerate() {
        let out = format!("out{number}");
        let done = server.run(&["recover", "--redo", "redo", "--until", &lsn, "--to", &out, "base"]);
        assert_eq!(done.status, 0, "{kind} {lsn}: {}", done.errors);
        assert_is_moment(&server, &out, &sums);
    }
    // The files of another tool's backup stay as they are, so its definitions do, too.
    for (until, says) in [(altered, "columns or indexes"), (u64::MAX, "made_later.ibd was made")] {
        let done = server.run(&["recover", "--redo", "redo", "--until", &until.to_string(), "--to", "refused", "base"]);
        assert!(done.status == 2 && done.errors.contains(says) && done.errors.contains(".frm"), "{}", done.errors);
        assert!(!server.of("refused").exists());
    }
    assert_private(&server.of("redo"));
    assert_damage_is_told(&server);
}

/// The newest segment has no end record: only the last mark shows that it once held more.
fn assert_damage_is_told(server: &Server) {
    let names = fs::read_dir(server.of("redo")).expect("read").map(|entry| entry.expect("one").path());
    let newest = names.filter(|path| path.extension().is_some_and(|lsn| lsn.len() == 16)).max().expect("a segment");
    let mut bytes = fs::read(&newest).expect("read");
    bytes[START_OFFSET + 9] ^= 1;
    fs::write(&newest, bytes).expect("written");
    let verified = server.run(&["redo", "verify", "redo"]);
    assert!(verified.status == 1 && verified.text.contains("had reached LSN"), "{}", verified.text);
    let done = server.run(&["recover", "--redo", "redo", "--to", "refused", "base"]);
    assert!(done.status == 1 && done.errors.contains("the archive is damaged at LSN"), "{}", done.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn moments_of_mariadb_10_11_are_recovered_from_a_backup_and_the_archive() {
    moments_are_recovered("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn moments_of_mariadb_11_8_are_recovered_from_a_backup_and_the_archive() {
    moments_are_recovered("mariadb118");
}

/// The archive needs no key; the recovery does.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_encrypted_log_is_archived_without_its_key_and_recovered_with_it() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let keys = folder.path().join("keys.txt");
    fs::write(&keys, format!("1;{}\n", "5c".repeat(32))).expect("written");
    let options = [
        "--plugin-load-add=file_key_management".to_owned(),
        format!("--loose-file-key-management-filename={}", keys.display()),
        "--innodb-encrypt-log=ON".to_owned(),
    ];
    let server = Server::start_in(folder, "mariadb", &options);
    purged(&server);
    let archiver = Archiver::start(&server);
    server.back_up("base", &[]);
    server.script("sql", &[], "UPDATE shop.a SET a = a + 5 WHERE id % 3 = 0; DELETE FROM shop.b WHERE id % 4 = 0;");
    let (lsn, sums) = moment(&server);
    server.script("sql", &[], "DELETE FROM shop.a;");
    wait_for(&server, moment(&server).0);
    drop(archiver);
    server.script("stop", &[], "");
    assert_eq!(server.run(&["redo", "archive", "--until-caught-up", "--to", "redo", "data"]).status, 0);
    // From here on the log is unencrypted, so the archiver begins another segment.
    server.script("start", &["--innodb-encrypt-log=OFF"], "");
    server.script("stop", &[], "");
    assert_eq!(server.run(&["redo", "archive", "--until-caught-up", "--to", "redo", "data"]).status, 0);
    assert_eq!(server.run(&["redo", "verify", "redo"]).status, 0);
    let (lsn, keys) = (lsn.to_string(), keys.display().to_string());
    let words = ["recover", "--redo", "redo", "--until", lsn.as_str(), "--to", "out", "base"];
    let locked = server.run(&words);
    assert!(locked.status == 2 && locked.errors.contains("--key-file"), "{}", locked.errors);
    let done = server.run(&[&words[..], &["--key-file", &keys]].concat());
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_is_moment(&server, "out", &sums);
    let beyond = server.run(&["recover", "--redo", "redo", "--key-file", &keys, "--to", "refused", "base"]);
    let says = "the server changed the encryption of its log at LSN ";
    assert!(beyond.status == 2 && beyond.errors.contains(says), "{}: {}", beyond.status, beyond.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn systemd_is_told_once_the_archive_holds_the_newest_checkpoint() {
    let dir = tempfile::TempDir::new_in("/tmp").expect("a folder with a short path");
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    let mut command = innokit();
    command.args(["redo", "archive", "--until-caught-up", "--to", "redo"]).current_dir(dir.path());
    command.arg(crate::common::all_datadirs().join("mariadb-16k-crashed")).env("NOTIFY_SOCKET", &path);
    let done = Run::of(&command.output().expect("innokit runs"));
    assert_eq!(done.status, 0, "{}", done.errors);
    socket.set_nonblocking(true).expect("set");
    let mut bytes = [0; 1000];
    let mut told = Vec::new();
    while let Ok(len) = socket.recv(&mut bytes) {
        told.push(String::from_utf8_lossy(&bytes[..len]).into_owned());
    }
    let first = told.first().expect("told something");
    assert!(first.starts_with("READY=1\nSTATUS=archived to LSN "), "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("STOPPING=1"));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_crashed_datadir_is_recovered_alike_from_its_log_and_from_an_archive_of_it() {
    let differing = recovered_alike("mariadb-16k-crashed");
    let others: Vec<&String> = differing.iter().filter(|line| !line.contains("ib_logfile0")).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_a_killed_recovery_of_a_copy_leaves_is_refused_by_name() {
    killed_copies_are_refused("mariadb-16k-crashed");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_archive_that_ends_before_the_base_copys_own_log_is_refused() {
    ends::too_short_is_refused("mariadb-16k-crashed");
    ends::too_short_is_refused("mysql-16k-crashed");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_archive_is_never_recovered_up_to_a_hole_without_a_word() {
    ends::holes_of_mariadb_are_told();
    ends::holes_of_mysql_are_told();
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_archive_continues_a_base_copy_whose_log_is_empty() {
    ends::an_empty_log_of_mysql_is_continued();
}

/// `redo archive` in a shell that limits file sizes to this many KiB, in place of a full disk.
fn archive_within(dir: &Path, kib: u32, until: &str, segment: &str) -> Run {
    let mut limited = Command::new("bash");
    limited.args(["-c", &format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"")]).arg(innokit().get_program());
    limited.args(["redo", "archive", until, "--segment-size", segment, "--to", "redo", "data"]).current_dir(dir);
    Run::of(&limited.output().expect("bash runs"))
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_full_disk_ends_a_run_and_costs_nothing_that_was_archived() {
    const PLENTY: u32 = 1 << 20;
    let folder = tempfile::TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("data")).expect("made");
    let log = folder.path().join("data/ib_logfile0");
    let whole = fs::read(crate::common::all_datadirs().join("mariadb-16k-crashed/ib_logfile0")).expect("read");
    let file = LogFile::parse(&whole[..START_OFFSET], whole.len() as u64).expect("a log");
    // The part of the log that the server has written when the archiver first reads it.
    let mut begun = whole.clone();
    let from = file.offset_of(file.checkpoint.lsn).expect("a place") as usize;
    let (len, _) =
        Walk::over(&file, file.checkpoint.lsn, &whole[from..]).up_to(Lsn(file.checkpoint.lsn.0 + (700 << 10)));
    begun[from + len] = 0;
    let verified = |status: i32| {
        let verified = innokit().args(["redo", "verify", "--json", "redo"]).current_dir(folder.path()).output();
        let verified = Run::of(&verified.expect("innokit runs"));
        assert_eq!(verified.status, status, "{}{}", verified.text, verified.errors);
        verified.json()["ranges"][0]["end_lsn"].as_u64()
    };
    let is_full = |run: &Run| assert!(run.status == 2 && run.errors.contains("File too large"), "{}", run.errors);

    fs::write(&log, begun).expect("written");
    // Not even the first segment fits.
    is_full(&archive_within(folder.path(), 600, "--once", "1M"));
    assert_eq!(archive_within(folder.path(), PLENTY, "--once", "1M").status, 0);
    let first = verified(0);
    fs::write(&log, &whole).expect("written");
    // No room for the next write into a segment, then for the next segment.
    is_full(&archive_within(folder.path(), 800, "--until-caught-up", "1M"));
    assert!(verified(0) >= first);
    is_full(&archive_within(folder.path(), 2048, "--until-caught-up", "4M"));
    let second = verified(0);
    assert!(second > first);
    let names = fs::read_dir(folder.path().join("redo")).expect("read").map(|entry| entry.expect("one").file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().ends_with(".new")), "an unfinished segment is left");
    let done = archive_within(folder.path(), PLENTY, "--until-caught-up", "4M");
    assert_eq!(done.status, 0, "{}", done.errors);
    assert!(verified(0) > second && done.text.contains(&format!("to LSN {}", verified(0).expect("an LSN"))));
}

#[test]
#[cfg(feature = "sql")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn beside_a_server_that_is_asked_everything_flushed_is_archived_at_once() {
    let (server, other) = (Server::start("mariadb"), Server::start("mariadb118"));
    let socket = |server: &Server| server.socket().display().to_string();
    let archive_as = |user: &str, socket: &str| {
        let words = ["redo", "archive", "--once", "--user", user, "--socket", socket, "--to", "redo", "data"];
        server.run(&words)
    };
    let archive = |socket: &str| archive_as("root", socket);
    server.script("sql", &[], "UPDATE shop.a SET a = a + 5;");
    let answer = server.script_on("data", "sql", &["-N"], "SHOW GLOBAL STATUS LIKE 'Innodb_lsn_flushed'");
    let flushed: u64 = answer.split_whitespace().last().and_then(|lsn| lsn.parse().ok()).expect("an LSN");
    let done = archive(&socket(&server));
    assert!(done.status == 0 && server.archived_to() >= flushed, "{} to {flushed}: {}", done.text, done.errors);
    server.script("sql", &[], "CREATE USER nobody@localhost;");
    let unknown = archive_as("nobody", &socket(&server));
    let says = "may not run SHOW MASTER STATUS";
    assert!(unknown.status == 0 && unknown.errors.contains(says), "{}: {}", unknown.status, unknown.errors);
    assert!(done.errors.is_empty(), "{}", done.errors);
    let wrong = archive(&socket(&other));
    assert!(wrong.status == 2 && wrong.errors.contains("the server that was named works on"), "{}", wrong.errors);
    let absent = archive("/nowhere/server.sock");
    assert!(absent.status == 2 && absent.errors.contains("no server answers at /nowhere/"), "{}", absent.errors);
}

#[test]
#[cfg(not(feature = "sql"))]
fn a_build_without_sql_says_so() {
    let words = ["redo", "archive", "--socket", "/s", "--to", "redo", "data"];
    let run = Run::of(&innokit().args(words).output().expect("innokit runs"));
    assert!(run.status == 2 && run.errors.contains("build with --features sql"), "{}", run.errors);
}
