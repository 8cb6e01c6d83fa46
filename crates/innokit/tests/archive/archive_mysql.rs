//! `redo archive`, `redo verify`, `recover --redo` and `restore --redo` beside busy MySQL servers.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::archive_lab::blocks::{assert_same_blocks, newest_block, segments};
use crate::archive_lab::{
    Archiver, Load, PATIENCE, assert_viewed_alike, killed_copies_are_refused, options_at, recovered_alike, wait_for,
};
use crate::backup_lab::Server;
use crate::common::Run;
use tempfile::TempDir;

fn started(options: &[&str]) -> Server {
    let folder = TempDir::new().expect("a folder");
    Server::start_in(folder, "mysql", &options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>())
}

/// The exact end of the log: `SHOW GLOBAL STATUS` may be a second behind.
const LSN: &str = "SELECT JSON_EXTRACT(storage_engines, '$.InnoDB.LSN') FROM performance_schema.log_status;";

/// The server's state while commits were blocked.
struct Moment {
    lsn: u64,
    /// The transactions executed by then.
    gtids: String,
    /// The tables' names and checksums, as the server prints them.
    sums: String,
}

fn moment(server: &Server) -> Moment {
    const NAMES: &str = "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables \
                         WHERE table_schema IN ('shop', 'other') AND table_type = 'BASE TABLE'";
    let names = server.script_on("data", "sql", &["-N"], NAMES);
    let names: Vec<&str> = names.lines().collect();
    let answer = server.script_on(
        "data",
        "sql",
        &["-N"],
        &format!(
            "FLUSH TABLES WITH READ LOCK; {LSN} SELECT REPLACE(@@gtid_executed, '\\n', ''); CHECKSUM TABLE {}; UNLOCK TABLES;",
            names.join(", ")
        ),
    );
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines.len(), names.len() + 2, "{answer}");
    let lsn = lines[0].parse().expect("an LSN");
    Moment { lsn, gtids: lines[1].to_owned(), sums: lines[2..].join("\n") }
}

fn archive(server: &Server, more: &[&str]) -> Run {
    let socket = server.socket().display().to_string();
    let words = ["redo", "archive", "--until-caught-up", "--segment-size", "1M", "--to", "redo", "data"];
    server.run(&[&words[..], &["--user", "root", "--socket", &socket], more].concat())
}

/// Waits until everything that the server has written is archived: a server removes log files when it starts, and when its log is made
/// smaller.
fn is_all_archived(server: &Server) {
    let lsn = server.script_on("data", "sql", &["-N"], LSN);
    wait_for(server, lsn.trim_end().parse().expect("an LSN"));
}

/// Makes the log smaller, beside no load: meanwhile the server removes each file as soon as a checkpoint lies behind it, so an archiver that
/// gets no processor for long enough would miss one.
fn make_log_smaller(server: &Server) {
    const STATUS: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_resize_status'";
    server.script("sql", &[], "SET GLOBAL innodb_redo_log_capacity = 64 << 20");
    let started = Instant::now();
    while !server.script_on("data", "sql", &["-N"], STATUS).ends_with("\tOK\n") {
        assert!(started.elapsed() < PATIENCE, "the server never makes its log smaller");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Six moments during changes of rows and of definitions, while the log is resized and both the archiver and the server are killed.
fn six_moments(server: &Server) -> Vec<Moment> {
    let socket = server.socket().display().to_string();
    let asking = ["--user", "root", "--socket", socket.as_str()];
    let mut archiver = Archiver::start_with(server, &asking);
    let load = Load::start(server, "");
    std::thread::sleep(Duration::from_millis(700));
    let mut moments = vec![moment(server)];
    // Tables are created, swapped, emptied, copied and dropped, all on pages that the base copy lacks.
    server.script(
        "sql",
        &["shop"],
        "CREATE TABLE made LIKE z; INSERT INTO made SELECT * FROM a LIMIT 300; RENAME TABLE left_0 TO away, right_0 TO left_0, away TO right_0; \
         TRUNCATE words; INSERT INTO words (b) VALUES ('more words'); ALTER TABLE other.c ADD COLUMN more INT DEFAULT 3, ALGORITHM=COPY; \
         RENAME TABLE other.c TO other.d; ALTER TABLE parts ADD PARTITION (PARTITION p2 VALUES LESS THAN (2000)); INSERT INTO parts VALUES (1500, 1); \
         CREATE TABLE short (a INT PRIMARY KEY); INSERT INTO short VALUES (7);",
    );
    moments.push(moment(server));
    drop(archiver);
    archiver = Archiver::start_with(server, &[]);
    load.stop();
    is_all_archived(server);
    make_log_smaller(server);
    let load = Load::start(server, "");
    server.script("sql", &["shop"], "DROP TABLE short; CREATE TABLE short LIKE parts;");
    std::thread::sleep(Duration::from_millis(500));
    moments.push(moment(server));
    load.stop();
    is_all_archived(server);
    server.script("kill9", &[], "");
    // With another capacity the server would remove its old files at once, before they are read.
    server.script("start", &["--innodb-redo-log-capacity=64M"], "");
    server.script("sql", &["shop"], "UPDATE a SET a = a + 5 WHERE id % 3 = 0; DROP TABLE made; ALTER TABLE b ADD COLUMN q INT DEFAULT 4, ALGORITHM=INSTANT;");
    moments.push(moment(server));
    is_all_archived(server);
    server.script("sql", &["shop"], "DELETE FROM b WHERE id % 4 = 0; INSERT INTO left_0 SELECT * FROM a LIMIT 100;");
    moments.push(moment(server));
    server.script("sql", &["shop"], "UPDATE b SET q = id WHERE id % 7 = 0; DROP DATABASE other;");
    moments.push(moment(server));
    wait_for(server, moments[5].lsn);
    drop(archiver);
    moments
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn moments_of_mysql_are_restored_from_a_backup_and_the_archive() {
    let server = started(&["--log-bin=bin", "--server-id=7", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]);
    assert_eq!(archive(&server, &[]).status, 0);
    let socket = server.socket().display().to_string();
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    let moments = six_moments(&server);
    let done = archive(&server, &[]);
    assert_eq!(done.status, 0, "{}", done.errors);
    // MySQL builds an index without redo for its pages.
    server.script("sql", &["shop"], "ALTER TABLE a ADD KEY later (c(10)), ALGORITHM=INPLACE;");
    let told = archive(&server, &[]);
    assert!(
        told.status == 0 && told.errors.contains("was built without redo; take a new base copy"),
        "{}",
        told.errors
    );
    let verified = server.run(&["redo", "verify", "redo"]);
    let [last] = &moments[5..] else { panic!("six") };
    let says = ["NO REDO   LSN ", "binlog    bin.00000", &format!(", GTID {}", last.gtids)];
    assert!(
        verified.status == 0 && says.iter().take(2).all(|words| verified.text.contains(words)),
        "{}",
        verified.text
    );
    assert!(!verified.text.contains("GAP") && segments(&server).len() > 2, "{}", verified.text);
    server.script("stop", &[], "");
    assert_same_as_a_stopped_log(&server);
    for (number, moment) in moments.iter().enumerate() {
        restored(&server, moment, number == 1 || number == 5);
    }
    let beyond = server.run(&["restore", "--redo", "redo", "--to", "refused", "set"]);
    let says = ["an index of tablespace ", " was built at LSN ", "(--until "];
    assert!(beyond.status == 2 && says.iter().all(|words| beyond.errors.contains(words)), "{}", beyond.errors);
    assert!(!server.of("refused").exists());
    let until = beyond.errors.rsplit("(--until ").next().and_then(|rest| rest.split(')').next()).expect("an LSN");
    let up_to = server.restore_until(until, "out");
    assert_eq!(up_to.status, 0, "{}", up_to.errors);
    assert_damage_is_told(&server, &moments[5]);
}

fn restored(server: &Server, moment: &Moment, starts: bool) {
    let lsn = moment.lsn.to_string();
    // `restore` also compares the set with its manifest.
    let command = if starts { "restore" } else { "recover" };
    let done = server.run(&[command, "--redo", "redo", "--until", &lsn, "--to", "out", "set"]);
    assert_eq!(done.status, 0, "LSN {lsn}: {}", done.errors);
    fs::write(server.of("sums.txt"), format!("{}\n", moment.sums)).expect("written");
    let compared = server.run(&["table", "checksum", "--compare", "sums.txt", "out"]);
    let equal = compared.text.lines().filter(|line| line.ends_with("\tequal")).count();
    assert_eq!(equal, moment.sums.lines().count(), "LSN {lsn}: {}{}", compared.text, compared.errors);
    if starts {
        server.script_on("out", "start", &["--log-bin=other"], "");
        let names: Vec<&str> = moment.sums.lines().filter_map(|line| line.split('\t').next()).collect();
        let list = names.join(", ");
        let statements =
            format!("SELECT REPLACE(@@gtid_executed, '\\n', ''); CHECKSUM TABLE {list}; CHECK TABLE {list};");
        let answer = server.script_on("out", "sql", &["-N"], &statements);
        assert!(answer.starts_with(&format!("{}\n{}\n", moment.gtids, moment.sums)), "LSN {lsn}: {answer}");
        assert_eq!(answer.lines().filter(|line| line.ends_with("\tOK")).count(), names.len(), "LSN {lsn}: {answer}");
        // Dropped names are free again, and no file is left over.
        server.script_on(
            "out",
            "sql",
            &["shop"],
            "CREATE TABLE away LIKE a; CREATE TABLE IF NOT EXISTS made LIKE a; CREATE TABLE later (a INT);",
        );
        server.script_on("out", "stop", &[], "");
    }
    if !starts {
        // A server on the copy would have changed it.
        assert_viewed_alike(server, &options_at(server, moment.lsn), &moment.sums);
    }
    fs::remove_dir_all(server.of("out")).expect("removed");
}

/// A segment that is damaged, cut off, missing or in another's place is named, and nothing is recovered.
fn assert_damage_is_told(server: &Server, last: &Moment) {
    let all = segments(server);
    let (middle, newest) = (all[all.len() / 2].1.clone(), all[all.len() - 1].1.clone());
    let kept = |path: &PathBuf| fs::read(path).expect("read");
    let lsn = last.lsn.to_string();
    let is_told = |says: &str, status: i32, what: &str| {
        let verified = server.run(&["redo", "verify", "redo"]);
        assert!(verified.status == 1 && verified.text.contains(says), "{what}: {}{}", verified.text, verified.errors);
        let done = server.run(&["recover", "--redo", "redo", "--until", &lsn, "--to", "refused", "set"]);
        assert!(done.status == status && !server.of("refused").exists(), "{what}: {} {}", done.status, done.errors);
    };
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    let whole = kept(&middle);
    let mut bytes = whole.clone();
    bytes[2048 + 512 * 9 + 100] ^= 1;
    fs::write(&middle, &bytes).expect("written");
    is_told(&name(&middle), 1, "a bit");
    fs::write(&middle, &whole[..whole.len() - 512]).expect("written");
    is_told(&name(&middle), 1, "cut off");
    fs::remove_file(&middle).expect("removed");
    is_told("segments in between are missing", 2, "removed");
    fs::write(&middle, kept(&all[0].1)).expect("written");
    is_told("give the file its name back", 1, "another segment");
    fs::write(&middle, &whole).expect("written");
    let (whole, mut bytes) = (kept(&newest), kept(&newest));
    bytes[2048 + 100] ^= 1;
    fs::write(&newest, &bytes).expect("written");
    is_told("had reached LSN", 1, "the newest");
    fs::write(&newest, whole).expect("written");
    assert_eq!(server.run(&["redo", "verify", "redo"]).status, 0);
}

/// A server that outruns the archive, one that disables its redo, and one that encrypts it.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_mysql_does_not_leave_in_its_log_is_a_gap_or_refused_and_never_wrong() {
    let server = started(&["--innodb-redo-log-capacity=8M", "--log-bin=bin", "--server-id=7"]);
    assert_eq!(archive(&server, &[]).status, 0);
    // Around the log more than once.
    for round in 0..10 {
        server.script(
            "sql",
            &["shop"],
            &format!("UPDATE b SET a = a + {round}, c = REPEAT('{round}', 300 + id % 200);"),
        );
    }
    let lapped = archive(&server, &[]);
    let says = ["GAP: the archive ended at LSN ", "innodb_redo_log_capacity", "take a new base copy"];
    assert!(lapped.status == 1 && says.iter().all(|words| lapped.errors.contains(words)), "{}", lapped.errors);
    server.script("sql", &["shop"], "UPDATE b SET a = a + 1;");
    assert_eq!(archive(&server, &[]).status, 0);
    let verified = server.run(&["redo", "verify", "--json", "redo"]);
    let ranges = verified.json()["ranges"].as_array().expect("ranges").len();
    assert_eq!((verified.status, ranges), (1, 2), "{}", verified.text);
    assert_same_blocks(&server);

    // An archiver started while redo is disabled leaves a note for the next one.
    server.script("sql", &["shop"], "ALTER INSTANCE DISABLE INNODB REDO_LOG; UPDATE b SET a = a + 1;");
    let disabled = archive(&server, &[]);
    assert!(disabled.status == 2 && disabled.errors.contains("redo logging is disabled"), "{}", disabled.errors);
    server.script("sql", &["shop"], "ALTER INSTANCE ENABLE INNODB REDO_LOG; UPDATE b SET a = a + 1;");
    let enabled = archive(&server, &[]);
    assert!(enabled.status == 1 && enabled.errors.contains("redo logging had been disabled"), "{}", enabled.errors);
    assert_eq!(archive(&server, &[]).status, 0);
    let verified = server.run(&["redo", "verify", "redo"]);
    assert!(verified.status == 1 && verified.text.matches("GAP  ").count() == 2, "{}", verified.text);

    // An account without the privilege to ask for the binary log position can still archive.
    server.script("sql", &[], "CREATE USER nobody@localhost;");
    let socket = server.socket().display().to_string();
    let words = ["redo", "archive", "--once", "--user", "nobody", "--socket", &socket, "--to", "redo", "data"];
    let unknown = server.run(&words);
    assert!(unknown.status == 0 && unknown.errors.contains("may not run SHOW BINARY LOG STATUS"), "{}", unknown.errors);
    server.script("stop", &[], "");
    assert_same_as_a_stopped_log(&server);
}

/// Archives what the server wrote during its shutdown, from the files alone, and compares the archive with them. How many of the archived
/// blocks a server still has is up to the server, but the last one is there.
fn assert_same_as_a_stopped_log(server: &Server) {
    assert_eq!(server.run(&["redo", "archive", "--until-caught-up", "--to", "redo", "data"]).status, 0);
    let newest = newest_block(server);
    assert!(newest.is_some());
    let says = ["verify redo", "info data"].map(|words| {
        let words: Vec<&str> = std::iter::once("redo").chain(words.split(' ')).collect();
        server.run(&words).text
    });
    assert_eq!(assert_same_blocks(server), newest, "{}\n{}", says[0], says[1]);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_crashed_datadir_of_mysql_is_recovered_alike_from_its_log_and_from_an_archive_of_it() {
    // The LSN at which the server continues depends on the size of the last log file, and is stored in the first page too.
    let is_other = |line: &&String| !line.contains("#innodb_redo") && !line.contains("ibdata1");
    let differing = recovered_alike("mysql-16k-crashed");
    let others: Vec<&String> = differing.iter().filter(is_other).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_a_killed_recovery_of_a_copy_of_mysql_leaves_is_refused_by_name() {
    killed_copies_are_refused("mysql-16k-crashed");
}
