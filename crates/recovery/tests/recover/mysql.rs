//! MySQL: the same tests as for MariaDB, and a comparison of the pages.
//!
//! `INNOKIT_MYSQL_CRASHES=n` sets how many crashes are tried (default 3), each at another moment. `INNOKIT_MYSQL_FIRST=n` is the number of
//! the first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use datadir::keys::KeyFiles;
use format::page::zip::Unpacker;
use format::{Family, PageId, Scheme, SpaceFormat, SpaceId, verify_page};
use innokit_recovery::{RecoverOptions, Recovered, recover};
use tempfile::TempDir;

use crate::mishaps::assert_torn_first_page_is_restored;
use crate::server::{Server, copy, datadir, repository, script};
use crate::{KeptOnFailure, assert_sound, files_of, mysql_load, shows_the_same};

/// Makes the server log its recovery messages, which the tests look for.
pub const TELLS: &str = "--log-error-verbosity=3";
const OPTIONS: [&[&str]; 6] = [
    &["--innodb-redo-log-capacity=64M", "--innodb-buffer-pool-size=128M"],
    &["--innodb-page-size=8k", "--innodb-redo-log-capacity=32M", "--innodb-buffer-pool-size=24M"],
    // Flushes no page before it must, so that redo accumulates.
    &[
        "--innodb-redo-log-capacity=512M",
        "--innodb-adaptive-flushing=OFF",
        "--innodb-max-dirty-pages-pct=99",
        "--innodb-max-dirty-pages-pct-lwm=0",
        "--innodb-buffer-pool-size=256M",
    ],
    &["--innodb-page-size=4k", "--innodb-redo-log-capacity=32M", "--innodb-buffer-pool-size=32M"],
    &["--innodb-page-size=64k", "--innodb-redo-log-capacity=64M", "--innodb-buffer-pool-size=64M"],
    &["--innodb-page-size=32k", "--innodb-redo-log-capacity=8M", "--innodb-buffer-pool-size=48M"],
];

/// The page size of a server with these options.
pub fn page_kib(options: &[&str]) -> u32 {
    let set = options.iter().find_map(|option| option.strip_prefix("--innodb-page-size=")?.strip_suffix('k'));
    set.map_or(16, |kib| kib.parse().expect("a number"))
}

pub fn number(variable: &str, otherwise: u32) -> u32 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

/// Puts the server under load. Returns when the load has changed every table.
pub fn load(server: &Server, page_kib: u32, changes: &str) -> Child {
    server.run(&mysql_load::tables(&mysql_load::zip_tables(page_kib)));
    let file = server.0.with_extension("sql");
    fs::write(&file, changes).expect("writes");
    let mut command = Command::new(repository().join("scripts/server.sh"));
    command.args([server.1, "sql", server.path(), "-f"]).stdin(fs::File::open(&file).expect("opens"));
    let mut client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash runs");
    let has_begun = || {
        let names = fs::read_dir(server.0.join("shop")).expect("a directory").flatten().map(|entry| entry.file_name());
        names.into_iter().any(|name| name.to_string_lossy().starts_with(mysql_load::COMES_LATER))
    };
    while !has_begun() {
        assert!(client.try_wait().expect("is a process").is_none(), "the load ended before it was under way");
        std::thread::sleep(Duration::from_millis(20));
    }
    client
}

/// Kills the server under load, some time after the load has changed every table.
pub fn crash(server: &Server, page_kib: u32, changes: &str, after: Duration) {
    let mut client = load(server, page_kib, changes);
    std::thread::sleep(after);
    server.kill();
    client.wait().expect("it loses its server");
}

/// A table's row count, checksum, CHECK TABLE verdict and next AUTO_INCREMENT value.
const QUESTIONS: [&str; 4] = ["SELECT COUNT(*) FROM", "CHECKSUM TABLE", "CHECK TABLE", "SHOW CREATE TABLE"];

/// Each table with the answers to these questions. All of them must be there and sound.
pub fn answers(server: &Server, tables: &[String]) -> BTreeMap<String, String> {
    let all: BTreeMap<_, _> = tables.iter().cloned().zip(server.ask_of_each(&QUESTIONS, tables)).collect();
    let is_sound = |text: &String| text.contains("\tcheck\tstatus\tOK") && !text.contains("ERROR ");
    assert!(all.values().all(is_sound), "{all:?}");
    all
}

/// The same of every table of the load. Errors are included: a table may be half created on both sides.
pub fn content(server: &Server, page_kib: u32) -> BTreeMap<String, String> {
    let list = "SELECT table_name FROM information_schema.tables WHERE table_schema='shop' ORDER BY 1";
    let names: Vec<String> = server.ask(list).lines().map(str::to_owned).collect();
    let tables: Vec<String> = names.iter().map(|name| format!("shop.`{name}`")).collect();
    let content: BTreeMap<_, _> = names.into_iter().zip(server.ask_of_each(&QUESTIONS, &tables)).collect();
    let zip = mysql_load::zip_names(page_kib);
    for table in mysql_load::names().into_iter().chain(zip.iter().map(String::as_str)) {
        let text = content.get(table).map(String::as_str).unwrap_or_default();
        assert!(text.contains(&format!("shop.{table}\tcheck\tstatus\tOK")), "{table}: {text}");
    }
    content
}

/// The codes of the errors in a server's log, such as `[MY-012345]`. Leaves out errors about a half-created file that the server then
/// removes by its DDL log. Whether it complains about such a file first depends on what its recovery has opened by then.
fn error_codes(log: &str) -> BTreeSet<&str> {
    const OF_THE_SYSTEM: [&str; 2] = ["[MY-012592]", "[MY-012596]"];
    let name = |line: &'_ str| Some(line.split_once("Removed datafile=./")?.1.split_once(".ibd,")?.0.to_owned());
    let removed: Vec<String> = log.lines().filter_map(name).collect();
    let (mut codes, mut is_excused) = (BTreeSet::new(), false);
    for line in log.lines().filter(|line| line.contains("[ERROR]")) {
        let code = line.split_whitespace().find(|word| word.starts_with("[MY-")).unwrap_or_default();
        // The system's error follows the message it belongs to.
        let names = |name: &String| line.contains(&format!("{name}.ibd")) || line.contains(&format!("`{name}`"));
        is_excused = removed.iter().any(names) || is_excused && OF_THE_SYSTEM.contains(&code);
        if !is_excused {
            codes.insert(code);
        }
    }
    codes
}

#[test]
fn errors_about_files_that_the_server_removes_are_its_own_affair() {
    let about = |name: &str| {
        format!(
            "1 [ERROR] [MY-012224] [InnoDB] Header page consists of zero bytes in datafile: ./shop/{name}.ibd, Space ID:0\n\
             1 [ERROR] [MY-012592] [InnoDB] Operating system error number 22 in a file operation.\n"
        )
    };
    let removed = "0 [Note] [MY-012814] [InnoDB] Removed datafile=./shop/later_9.ibd, space_id=43\n";
    assert_eq!(error_codes(&format!("{}{removed}", about("later_9"))).len(), 0);
    assert_eq!(error_codes(&about("later_9")).len(), 2, "it was not removed");
    assert_eq!(error_codes(&format!("{}{removed}", about("a"))).len(), 2, "another one was");
    assert_eq!(error_codes(&format!("{}{}{removed}", about("later_9"), about("a"))).len(), 2, "both");
}

/// Asserts that, by its log, the server applied no redo to pages.
pub fn assert_applied_nothing(log: &str) {
    let applied = log.lines().find(|line| line.contains("Applying a batch of") && !line.contains("batch of 0"));
    assert_eq!(applied, None, "{log}");
}

/// MySQL 8.0.15 looks for the file of a table whose ALTER was interrupted before its DDL log can rename it back. If its own recovery has
/// changed the file, it is open by then.
const BEFORE_DDL_LOG: [&str; 3] = ["[MY-012216]", "[MY-012592]", "[MY-012593]"];

/// Asserts that the server found nothing to apply, except for the re-emitted records about tables, and complains about nothing that it does
/// not also complain about after its own recovery.
pub fn assert_started_without_recovery(server: &Server, after_its_own: &Server) {
    let (log, other) = (server.log(), after_its_own.log());
    assert_applied_nothing(&log);
    let is_excused = |code: &&str| server.1 == "mysql80" && BEFORE_DDL_LOG.contains(code);
    let (ours, theirs) = (error_codes(&log), error_codes(&other));
    let strange: Vec<&str> = ours.difference(&theirs).copied().filter(|code| !is_excused(code)).collect();
    assert!(strange.is_empty(), "{strange:?}: {log}\nafter its own recovery: {other}");
    assert!(log.contains("ready for connections"), "{log}");
}

pub fn run(datadir: &Path, options: RecoverOptions) -> Recovered {
    recover(datadir, &options).unwrap_or_else(|error| panic!("{options:?}: {error}"))
}

/// MySQL cannot start on the empty log of a truncation that it was about to begin. If the crash left one, remove it.
fn forget_unbegun_truncations(datadir: &Path) {
    for entry in fs::read_dir(datadir).expect("a directory").flatten() {
        let is_note = entry.file_name().to_string_lossy().ends_with("_trunc.log");
        if is_note && entry.metadata().expect("is there").len() == 0 {
            fs::remove_file(entry.path()).expect("removes");
        }
    }
}

/// Gives a copied datadir the options that `server.sh` starts its server with. Returns its control directory.
pub fn set_options(datadir: &Path, options: &[&str]) -> PathBuf {
    let control = datadir.with_file_name(format!(".{}.server", datadir.file_name().expect("a name").display()));
    fs::create_dir_all(&control).expect("makes the directory");
    fs::write(control.join("options"), options.join("\n") + "\n").expect("writes");
    control
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_truncation_that_never_began_keeps_no_mysql_server_from_starting() {
    let dir = TempDir::new().expect("a directory");
    let (crashed, ours) = (dir.path().join("crashed"), dir.path().join("ours"));
    copy(&datadir("mysql-16k-crashed"), &crashed);
    let note = "undo_1_trunc.log";
    fs::write(crashed.join(note), []).expect("writes");
    run(&crashed, RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() });
    assert!(crashed.join(note).exists() && !ours.join(note).exists(), "only the copy is changed");
    assert_sound(&ours, &KeyFiles::default());
    set_options(&ours, &["--innodb-page-size=16k"]);
    let server = Server::again_kind("mysql", &ours);
    assert_eq!(server.ask("SELECT 1").trim(), "1");
}

/// The server removes the log of a finished truncation and keeps using the tablespace, which therefore needs its redo.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_note_of_a_finished_truncation_takes_no_redo_from_the_undo_tablespace() {
    let dir = TempDir::new().expect("a directory");
    let crashed = datadir("mysql-16k-crashed");
    let recovered = |name: &str, note: &[u8]| {
        let (from, to) = (dir.path().join(name), dir.path().join(format!("{name}-recovered")));
        copy(&crashed, &from);
        fs::write(from.join("undo_1_trunc.log"), note).expect("writes");
        run(&from, RecoverOptions { to: Some(to.clone()), ..RecoverOptions::default() });
        to
    };
    let undo = |datadir: &Path| fs::read(datadir.join("undo_001")).expect("reads");
    let mut note = vec![0; 16384];
    let underway = recovered("underway", &note);
    note[..4].copy_from_slice(&76_845_412_u32.to_be_bytes());
    let finished = recovered("finished", &note);
    let unbegun = recovered("unbegun", &note[..4096]);
    assert_eq!(undo(&underway), undo(&crashed), "the server recreates it");
    assert_ne!(undo(&finished), undo(&crashed));
    assert_eq!(undo(&finished), undo(&unbegun));
    set_options(&finished, &["--innodb-page-size=16k"]);
    let server = Server::again_kind("mysql", &finished);
    assert_eq!(server.ask("SELECT 1").trim(), "1");
    assert!(!finished.join("undo_1_trunc.log").exists(), "the server takes the note as we do");
    assert_eq!(undo(&finished)[34..38], undo(&crashed)[34..38], "and has not recreated the tablespace");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_torn_first_page_of_the_system_tablespace_of_mysql_is_restored() {
    assert_torn_first_page_is_restored(&datadir("mysql-16k-crashed"), |dir, page| {
        let mut file = fs::File::options().append(true).open(dir.join("#ib_16384_0.dblwr")).expect("opens");
        file.write_all(page).expect("writes");
    });
}

fn try_crash(number: u32, changes: &str) {
    assert_killed_server_is_recovered("mysql", OPTIONS[number as usize % OPTIONS.len()], number, changes);
}

/// Kills a server with these options under load, and compares our recovery with its own.
pub fn assert_killed_server_is_recovered(kind: &'static str, options: &[&str], number: u32, changes: &str) {
    let dir = TempDir::new().expect("a directory");
    let server = Server::start_kind(kind, &dir.path().join("crashed"), &[options, &[TELLS]].concat());
    let page_kib = page_kib(options);
    crash(&server, page_kib, changes, Duration::from_millis(u64::from(500 + number * 977 % 6000)));
    let _kept = KeptOnFailure(&server.0, number);
    let (ours, theirs, rounds) = (dir.path().join("ours"), dir.path().join("theirs"), dir.path().join("rounds"));
    let before = files_of(&server.0);
    assert_sound(&server.0, &KeyFiles::default());
    copy(&server.0, &theirs);
    forget_unbegun_truncations(&theirs);
    let done = run(&server.0, RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() });
    println!("crash {number}: {done:?}");
    assert!(!done.was_clean);
    shows_the_same(&server.0, &ours, number, &RecoverOptions::default());
    copy(&server.0, &rounds);
    run(&rounds, RecoverOptions { memory: 0, round: 1 << 20, ..RecoverOptions::default() });
    assert_eq!(files_of(&rounds), files_of(&ours), "many rounds in place come to what one does in a copy");
    fs::remove_dir_all(&rounds).expect("removes");
    assert_eq!(files_of(&server.0), before, "the input is as it was");
    assert!(run(&ours, RecoverOptions::default()).was_clean, "there is nothing more to do");
    assert_sound(&ours, &KeyFiles::default());
    server.lend_options(&ours);
    server.lend_options(&theirs);
    let ours = Server::again_kind(kind, &ours);
    let theirs = Server::again_kind(kind, &theirs);
    assert_started_without_recovery(&ours, &theirs);
    assert_same_content(&content(&ours, page_kib), &content(&theirs, page_kib), number);
}

/// Names only the tables that differ: both lists in full would drown the difference.
pub fn assert_same_content(ours: &BTreeMap<String, String>, theirs: &BTreeMap<String, String>, number: u32) {
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differing = names.into_iter().filter(|name| ours.get(*name) != theirs.get(*name));
    let report: String = differing
        .map(|name| {
            format!(
                "\n{name}\n  after innokit's recovery: {:?}\n  after the server's: {:?}",
                ours.get(name),
                theirs.get(name)
            )
        })
        .collect();
    assert!(report.is_empty(), "crash {number}:{report}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mysql_server_starts_at_once_and_finds_what_its_own_recovery_finds() {
    let first = number("INNOKIT_MYSQL_FIRST", 0);
    let changes = mysql_load::changes(&mysql_load::zip_names(16));
    (first..first + number("INNOKIT_MYSQL_CRASHES", 3)).for_each(|number| try_crash(number, &changes));
}

/// After such a statement, dictionary and files agree only after the server's next start.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mysql_server_that_was_killed_within_a_change_of_definitions_is_recovered_too() {
    let first = number("INNOKIT_MYSQL_FIRST", 0);
    let changes = mysql_load::definitions_only();
    (first..first + number("INNOKIT_MYSQL_CRASHES", 3)).for_each(|number| try_crash(number, &changes));
}

/// The log has a record for each of them.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn auto_increment_counters_of_many_rows_take_no_memory_for_each_row() {
    let dir = TempDir::new().expect("a directory");
    let server = Server::start_kind("mysql", &dir.path().join("crashed"), &[]);
    server.ask(
        "CREATE DATABASE shop; USE shop; SET cte_max_recursion_depth = 100000;
         CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT); SET GLOBAL innodb_flush_log_at_trx_commit = 1;
         INSERT INTO t (a) WITH RECURSIVE n AS (SELECT 1 AS s UNION ALL SELECT s+1 FROM n WHERE s < 60000) SELECT s FROM n;",
    );
    server.kill();
    let done = run(&server.0, RecoverOptions { memory: 0, dry_run: true, ..RecoverOptions::default() });
    println!("{done:?}");
}

/// Files below `dir` by name, each with the prefix `below`.
fn names_of(dir: &Path, below: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    let names = |entry: fs::DirEntry| {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() { names_of(&entry.path(), &format!("{name}/")) } else { vec![name] }
    };
    entries.flat_map(names).collect()
}

/// A change to a file's bytes; `None` removes the file.
type Change<'c> = Option<&'c dyn Fn(&mut Vec<u8>)>;

/// Recovers, without writing, the datadir with the file `name` removed or changed.
fn attacked(name: &str, change: Change<'_>) -> (Result<Recovered, String>, bool) {
    let (source, dir) = (datadir("mysql-16k-crashed"), TempDir::new().expect("a directory"));
    for other in names_of(&source, "").into_iter().filter(|other| other != name) {
        let target = dir.path().join(&other);
        fs::create_dir_all(target.parent().expect("a directory")).expect("makes the directory");
        let source = source.join(&other);
        fs::hard_link(&source, &target).or_else(|_| fs::copy(&source, &target).map(drop)).expect("links");
    }
    if let Some(change) = change {
        let mut bytes = fs::read(source.join(name)).expect("reads");
        change(&mut bytes);
        fs::write(dir.path().join(name), bytes).expect("writes");
    }
    let done = recover(dir.path(), &RecoverOptions { dry_run: true, ..RecoverOptions::default() });
    let is_damage = done.as_ref().is_err_and(innokit_recovery::RecoverError::is_damage);
    (done.map_err(|error| error.to_string()), is_damage)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mysql_log_or_datadir_that_is_not_whole_is_refused() {
    let number = |name: &str| name.strip_prefix("#innodb_redo/#ib_redo")?.parse::<u32>().ok();
    let mut redo: Vec<(u32, String)> = names_of(&datadir("mysql-16k-crashed"), "")
        .into_iter()
        .filter_map(|name| Some((number(&name)?, name)))
        .collect();
    redo.sort();
    // The checkpoint is long before both.
    let [.., (_, before), (_, newest)] = redo.as_slice() else { panic!("{redo:?}") };
    let sound = attacked("auto.cnf", None).0.expect("needs no auto.cnf");
    assert!(!sound.was_clean && sound.pages_changed > 0, "{sound:?}");
    let refused = |name: &str, change: Change<'_>, words: &str, is_damage: bool| {
        let (done, damage) = attacked(name, change);
        let error = done.expect_err(name);
        assert!(error.contains(words) && damage == is_damage, "{name}: {error}");
    };
    refused(before, None, "the redo log continues at LSN", true);
    refused(newest, None, "newest", true);
    refused("undo_001", None, "is missing", false);
    // A block in the middle of the log, which continues after it.
    refused(before, Some(&|bytes| bytes[100_000] ^= 1), "the redo log is damaged at LSN", true);
    refused(newest, Some(&|bytes| set_flags(bytes, 3)), "redo logging was switched off", false);
    refused(newest, Some(&|bytes| set_flags(bytes, 4)), "creates it again", false);
}

/// Writes the flags of a log file's header and recomputes its checksum.
fn set_flags(bytes: &mut [u8], flags: u32) {
    bytes[48..52].copy_from_slice(&flags.to_be_bytes());
    let crc = format::checksum::crc32c(&bytes[..508]);
    bytes[508..512].copy_from_slice(&crc.to_be_bytes());
}

/// The log, undo, the dictionary and the tables are encrypted, one of the tables only later.
const ENCRYPTED: &str = "CREATE DATABASE tde; USE tde; SET SESSION cte_max_recursion_depth = 10000;
    CREATE TABLE e (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(120), c TEXT, KEY (a)) ENCRYPTION='Y';
    CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(120), c TEXT, KEY (a));
    INSERT INTO e (a, b, c) WITH RECURSIVE n AS (SELECT 1 AS s UNION ALL SELECT s+1 FROM n WHERE s < 3000)
        SELECT s, SHA2(s, 224), REPEAT(SHA2(s, 224), s%30) FROM n;
    INSERT INTO p (a, b, c) SELECT a, b, c FROM e; UPDATE e SET a = a+1 WHERE id%3 = 0; DELETE FROM e WHERE id%7 = 1;
    CREATE TABLE z (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(120), c TEXT, KEY (a))
        ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4 ENCRYPTION='Y';
    INSERT INTO z (a, b, c) SELECT a, b, c FROM e; UPDATE z SET c = REVERSE(c), a = a+1 WHERE id%3 = 0; DELETE FROM z WHERE id%4 = 1;
    ALTER TABLE p ENCRYPTION='Y'; UPDATE p SET b = REPEAT('q', a%100) WHERE id%5 = 1; DELETE FROM p WHERE id%11 = 3;";

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_mysql_encrypted_is_recovered_with_its_keyring_and_stays_encrypted() {
    // No page is flushed before it must be, even if the machine takes long to kill the server, and by then all commits are in the log.
    const OPTIONS: [&str; 10] = [
        "--innodb-page-size=16k",
        "--innodb-redo-log-encrypt=ON",
        "--innodb-undo-log-encrypt=ON",
        "--innodb-redo-log-capacity=64M",
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-adaptive-flushing=OFF",
        "--innodb-idle-flush-pct=0",
        "--innodb-max-dirty-pages-pct=99",
        "--innodb-max-dirty-pages-pct-lwm=0",
        TELLS,
    ];
    let dir = TempDir::new().expect("a directory");
    let source = datadir("mysql-16k-tde");
    // Each datadir has its own keyring, which its server writes to.
    let keyring = |datadir: &Path, from: &Path| {
        let control = set_options(datadir, &OPTIONS);
        fs::copy(from, control.join("keys")).expect("copies");
        let config = format!("{{ \"path\": \"{}\", \"read_only\": false }}", control.join("keys").display());
        fs::write(datadir.join("component_keyring_file.cnf"), config).expect("writes");
        control.join("keys")
    };
    let (crashed, ours, theirs) = (dir.path().join("crashed"), dir.path().join("ours"), dir.path().join("theirs"));
    copy(&source, &crashed);
    let keys = keyring(&crashed, &source.with_file_name(".mysql-16k-tde.server").join("keys"));
    let server = Server::again_kind("mysql", &crashed);
    server.run(ENCRYPTED);
    server.kill();
    copy(&crashed, &theirs);
    let no_keys = recover(&crashed, &RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() });
    let error = no_keys.expect_err("there are no keys").to_string();
    assert!(error.contains("--keyring") && !ours.exists(), "{error}");
    let key_files = KeyFiles { keyrings: vec![keys.clone()], key_file: None };
    let options = RecoverOptions { to: Some(ours.clone()), keys: key_files.clone(), ..RecoverOptions::default() };
    let done = run(&crashed, options);
    println!("{done:?}");
    assert!(done.pages_changed > 100, "{done:?}");
    assert_sound(&ours, &key_files);
    // The rows cannot be read without the key.
    let table = fs::read(ours.join("tde/e.ibd")).expect("reads");
    assert!(!table.windows(5).any(|bytes| bytes == b"qqqqq"), "e is encrypted");
    let other = fs::read(ours.join("tde/p.ibd")).expect("reads");
    assert!(!other.windows(20).any(|bytes| bytes == b"qqqqqqqqqqqqqqqqqqqq"), "p is encrypted");
    keyring(&ours, &keys);
    keyring(&theirs, &keys);
    let ours = Server::again_kind("mysql", &ours);
    let theirs = Server::again_kind("mysql", &theirs);
    assert_started_without_recovery(&ours, &theirs);
    let tables = ["tde.e", "tde.p", "tde.z", "shop.n", "shop.blobs", "shop.row_redundant"].map(str::to_owned);
    assert_eq!(answers(&ours, &tables), answers(&theirs, &tables));
}

/// The files of a datadir's tablespaces, by space id.
fn tablespaces(datadir: &Path) -> BTreeMap<SpaceId, (PathBuf, SpaceFormat)> {
    let mut found = BTreeMap::new();
    for (name, ..) in files_of(datadir) {
        let path = datadir.join(&name);
        let is_space =
            name == "ibdata1" || name.starts_with("undo") || name.ends_with(".ibd") || name.ends_with(".ibu");
        let head = fs::read(&path).expect("reads");
        if let (true, Ok(format)) = (is_space, SpaceFormat::from_page0(&head)) {
            found.insert(format.space(), (path, format.with_family(Family::MySql)));
        }
    }
    found
}

const LSN: std::ops::Range<usize> = 16..24;

fn lsn(page: &[u8]) -> u64 {
    u64::from_be_bytes(page[LSN].try_into().expect("8 bytes"))
}

/// A page without the fields that every write changes, and without the one that replay maintains and the server does not: the insert
/// direction in a spatial index.
fn essence(page: &[u8], is_zip: bool) -> Vec<u8> {
    const RTREE: [u8; 2] = 17854_u16.to_be_bytes();
    // FIL_PAGE_INODE, FIL_PAGE_IBUF_BITMAP, FIL_PAGE_TYPE_FSP_HDR and FIL_PAGE_TYPE_XDES.
    const STORED_PLAIN: [u16; 4] = [3, 5, 8, 9];
    let mut page = page.to_vec();
    let end = page.len();
    page[0..4].fill(0);
    page[LSN].fill(0);
    page[26..34].fill(0);
    // The server also writes the trailer of pages that a compressed table stores uncompressed, where nothing reads it.
    if !is_zip || STORED_PLAIN.contains(&u16::from_be_bytes([page[24], page[25]])) {
        page[end - 8..].fill(0);
    }
    if page[24..26] == RTREE {
        page[50..54].fill(0);
    }
    page
}

/// Compares pages with a copy after the server's own recovery, which here neither rolls back nor purges.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn pages_of_a_crashed_mysql_server_become_what_its_own_recovery_makes_of_them() {
    let crashed = datadir("mysql-16k-crashed");
    let dir = TempDir::new().expect("a directory");
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    copy(&crashed, &theirs);
    let done = run(&crashed, RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() });
    set_options(&theirs, &["--innodb-page-size=16k"]);
    let server = Server(theirs.clone(), "mysql");
    script("server.sh", &["mysql", "start", server.path(), "--innodb-force-recovery=3"]);
    server.stop();
    let seen = compare(&ours, &theirs, &done);
    println!("{seen:?}");
    assert_eq!(seen.different, Vec::<String>::new(), "of {} pages", seen.same);
    assert!(seen.same > 500 && seen.later < seen.same / 4, "{seen:?}");
}

/// The comparison of the pages of two datadirs.
#[derive(Debug, Default)]
pub struct Compared {
    /// Changed since the checkpoint, and equal in both.
    pub same: u64,
    /// Of these, compressed pages, byte by byte.
    pub same_compressed: u64,
    /// Compressed pages whose bytes differ but decompress to the same.
    pub same_inside: u64,
    /// Changed by the server after its start.
    pub later: u64,
    pub different: Vec<String>,
}

/// Compares the pages of a recovered datadir with those of the server's own recovery.
pub fn compare(ours: &Path, theirs: &Path, done: &Recovered) -> Compared {
    let mut seen = Compared::default();
    let theirs = tablespaces(theirs);
    for (space, (path, format)) in tablespaces(ours) {
        // A server that starts truncates inactive undo tablespaces, which then have another number.
        let Some((other, _)) = theirs.get(&space) else {
            assert!(path.extension().is_some_and(|ending| ending == "ibu"), "{} is gone", path.display());
            continue;
        };
        let (ours, theirs) = (fs::read(&path).expect("reads"), fs::read(other).expect("reads"));
        let size = format.physical().bytes();
        let is_zip = format.scheme() == Scheme::Zip;
        assert!(is_zip || ours.len() % size == 0, "{}", path.display());
        for (number, (ours, theirs)) in (0..).zip(ours.chunks_exact(size).zip(theirs.chunks_exact(size))) {
            let id = PageId::new(space.0, number);
            let is_changed = u64::from(lsn(ours) > done.checkpoint_lsn);
            if lsn(theirs) > done.end_lsn {
                seen.later += 1;
            } else if essence(ours, is_zip) == essence(theirs, is_zip) {
                seen.same += is_changed;
                seen.same_compressed += is_changed * u64::from(is_zip);
            } else if is_zip && is_same_inside(ours, theirs, &format) {
                seen.same_inside += 1;
            } else if !format.is_doublewrite_slot(id) {
                seen.different.push(format!("{} page {number}: {:?}", path.display(), verify_page(ours, id, &format)));
            }
        }
    }
    seen
}

/// Whether two compressed index pages decompress to the same.
fn is_same_inside(one: &[u8], other: &[u8], format: &SpaceFormat) -> bool {
    let unpacked = |page: &[u8]| {
        let mut out = vec![0; format.logical().bytes()];
        Unpacker::new().unpack(page, format, &mut out).ok()?;
        Some(essence(&out, false))
    };
    unpacked(one).is_some_and(|one| Some(one) == unpacked(other))
}
