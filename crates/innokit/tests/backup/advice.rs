//! What `check` prints to do about damage, done to the letter on the server whose files are damaged.
//!
//! `make test` damages each table in two of the ways, INNOKIT_SOAK in all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::backup_lab::Server;
use crate::common::{Run, is_soak, repository};

const PAGE: usize = 16 << 10;
/// The tables, each of a kind that a repair treats in its own way.
const TABLES: [&str; 13] =
    ["plain", "parent", "child", "ft", "part", "hooked", "gen", "na-me", "lob", "geo", LONE, "enc", "deep"];
/// In a database without full-text indexes, of the same name.
const LONE: &str = "lone";
/// Two more of MySQL, in one tablespace.
const SHARING: [&str; 2] = ["one", "two"];
const COLUMNS: &str = "id INT PRIMARY KEY, a INT, b VARCHAR(200), KEY ib (b)";
/// What is damaged of a table.
const KINDS: [&str; 11] = [
    "leaf",
    "root",
    "page 0",
    "inodes",
    "leaf of an index",
    "root of an index",
    "words",
    "value",
    "spatial root",
    "inner page",
    "SDI",
];
/// What is damaged of what all tables need.
const OF_ALL: [(&str, usize); 6] =
    [("ibdata1", 0), ("ibdata1", 5), ("undo", 3), ("mysql.ibd", 1), ("shared.ibd", 0), ("shared.ibd", 4)];
const KEY: &str = "1;00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

fn tables(server: &Server) -> Vec<&'static str> {
    let sharing = if server.kind == "mysql" { &SHARING[..] } else { &[] };
    TABLES.iter().chain(sharing).copied().collect()
}

/// A server that can encrypt tables.
fn start(kind: &'static str) -> Server {
    let folder = tempfile::TempDir::new().expect("a folder");
    let keys = folder.path().join("keys");
    if kind != "mysql" {
        fs::write(&keys, KEY).expect("written");
        let key_file = format!("--loose-file-key-management-filename={}", keys.display());
        return Server::start_in(folder, kind, &["--plugin-load-add=file_key_management".to_owned(), key_file]);
    }
    let server = Server::start_in(folder, kind, &[]);
    server.script("stop", &[], "");
    let component = format!("{{ \"path\": \"{}\", \"read_only\": false }}", keys.display());
    fs::write(server.data().join("mysqld.my"), "{ \"components\": \"file://component_keyring_file\" }")
        .expect("written");
    fs::write(server.data().join("component_keyring_file.cnf"), component).expect("written");
    server.script("start", &[], "");
    server
}

fn create(server: &Server) {
    let is_mysql = server.kind == "mysql";
    let (encrypted, srid) = if is_mysql { ("ENCRYPTION='Y'", "SRID 0") } else { ("ENCRYPTED=YES", "") };
    let shared = if is_mysql {
        format!(
            "CREATE TABLESPACE shared ADD DATAFILE 'shared.ibd'; CREATE TABLE one ({COLUMNS}) TABLESPACE shared; \
             CREATE TABLE two ({COLUMNS}) TABLESPACE shared; INSERT INTO one SELECT id, a, b FROM plain; \
             INSERT INTO two SELECT id, a, b FROM plain;"
        )
    } else {
        String::new()
    };
    let tables = format!(
        "CREATE DATABASE db; USE db; CREATE TABLE plain ({COLUMNS}, KEY ia (a)); \
         CREATE TABLE parent (id INT PRIMARY KEY, a INT, b VARCHAR(200), UNIQUE KEY ib (b), KEY ia (a)); \
         CREATE TABLE child ({COLUMNS}, KEY ip (a), CONSTRAINT fkc FOREIGN KEY (a) REFERENCES parent (id)); \
         CREATE TABLE ft ({COLUMNS}, FULLTEXT KEY fb (b)); \
         CREATE TABLE part ({COLUMNS}) PARTITION BY HASH (id) PARTITIONS 3; \
         CREATE TABLE hooked ({COLUMNS}); CREATE TABLE seen (id INT); \
         CREATE TABLE gen ({COLUMNS}, v INT AS (a + 1) VIRTUAL, KEY iv (v)); \
         CREATE TABLE `na-me` ({COLUMNS}); \
         INSERT INTO plain (id, a, b) SELECT id, id, CONCAT('word', id, ' ', REPEAT('y', 100)) FROM shop.a WHERE id <= 1000; \
         INSERT INTO parent SELECT id, a, b FROM plain; INSERT INTO child SELECT id, a, b FROM plain; \
         INSERT INTO ft SELECT id, a, b FROM plain; INSERT INTO part SELECT id, a, b FROM plain; \
         INSERT INTO hooked SELECT id, a, b FROM plain; INSERT INTO gen (id, a, b) SELECT id, a, b FROM plain; \
         INSERT INTO `na-me` SELECT id, a, b FROM plain; \
         CREATE DATABASE {LONE}; CREATE TABLE {LONE}.{LONE} ({COLUMNS}); INSERT INTO {LONE}.{LONE} SELECT id, a, b FROM plain; \
         CREATE TABLE lob ({COLUMNS}, c LONGTEXT); INSERT INTO lob SELECT id, a, b, REPEAT(id, 30000) FROM plain WHERE id <= 40; \
         CREATE TABLE geo ({COLUMNS}, g POINT NOT NULL {srid}, SPATIAL KEY ig (g)); \
         INSERT INTO geo SELECT id, a, b, POINT(id, a) FROM plain; \
         CREATE TABLE enc ({COLUMNS}) {encrypted}; INSERT INTO enc SELECT id, a, b FROM plain; \
         CREATE TABLE deep (k VARCHAR(600) CHARACTER SET latin1, id INT, a INT, b VARCHAR(200), PRIMARY KEY (k, id), KEY ib (b)); \
         INSERT INTO deep SELECT LPAD(id, 600, 'k'), id, a, b FROM plain; {shared} \
         \nDELIMITER //\nCREATE TRIGGER `it's` BEFORE INSERT ON hooked FOR EACH ROW BEGIN SET NEW.a = NEW.a + 1; \
         INSERT INTO seen VALUES (NEW.id); END//\nDELIMITER ;"
    );
    server.script("sql", &[], &tables);
}

/// Everything that the server says of the tables: definitions, rows by every index, triggers.
fn answers(server: &Server) -> String {
    let mut asked = String::from("USE db; SELECT * FROM seen; SHOW TRIGGERS;");
    for table in tables(server) {
        let indexes = match table {
            "plain" | "parent" => "PRIMARY ib ia",
            "child" => "PRIMARY ib ip",
            "gen" => "PRIMARY ib iv",
            _ => "PRIMARY ib",
        };
        let table = if table == LONE { format!("{LONE}`.`{LONE}") } else { table.to_owned() };
        write!(asked, "SHOW CREATE TABLE `{table}`; CHECK TABLE `{table}` EXTENDED;").expect("a string");
        for index in indexes.split(' ') {
            let rows = "COUNT(*), SUM(id), SUM(a), MIN(b), MAX(b), SUM(CRC32(b))";
            write!(asked, "SELECT {rows} FROM `{table}` FORCE INDEX ({index}) WHERE b > '' AND a > -1 AND id > 0;")
                .expect("a string");
        }
    }
    asked.push_str("SELECT COUNT(*) FROM gen FORCE INDEX (iv) WHERE v > 500; ");
    asked.push_str("SELECT id FROM ft WHERE MATCH (b) AGAINST ('word7'); SELECT SUM(CRC32(c)) FROM lob;");
    asked.push_str(
        "SELECT COUNT(*) FROM geo WHERE MBRContains(ST_GeomFromText('POLYGON((5 5, 90 5, 90 90, 5 90, 5 5))'), g);",
    );
    let said = server.script_on("data", "sql", &["-N", "--force"], &asked);
    // When a trigger was made is not part of it.
    let is_time = |line: &&str| !line.starts_with("it's\t");
    said.lines()
        .filter(is_time)
        .chain(said.lines().filter(|line| !is_time(line)).map(|line| &line[..40]))
        .collect::<Vec<_>>()
        .join("\n")
}

fn be16(page: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([page[at], page[at + 1]])
}

/// The pages of a file that `kind` means, if the file has any: index pages by their id and level, the index with the lowest id first.
fn page_of(path: &Path, kind: &str) -> Option<usize> {
    let bytes = fs::read(path).expect("read");
    let pages = bytes.as_chunks::<PAGE>().0;
    let of_type = |types: &[u16]| pages.iter().rposition(|page| types.contains(&be16(page, 24)));
    match kind {
        // Chained pages, and the first and later pages of MySQL's values.
        "value" => return of_type(&[10, 22, 23, 24]),
        "spatial root" => return of_type(&[17854]),
        "SDI" => return of_type(&[17853]),
        _ => {}
    }
    if path.ends_with("enc.ibd") {
        let is_written = |page: &[u8; PAGE]| page.iter().any(|byte| *byte != 0);
        return match kind {
            "leaf" => pages.iter().rposition(is_written),
            "root" => Some(4),
            "page 0" => Some(0),
            _ => None,
        };
    }
    let mut indexes: BTreeMap<u64, Vec<(u16, usize)>> = BTreeMap::new();
    for (number, page) in pages.iter().enumerate().filter(|(_, page)| be16(*page, 24) == 17855) {
        let id = u64::from_be_bytes(page[66..74].try_into().expect("8 bytes"));
        indexes.entry(id).or_default().push((be16(page, 64), number));
    }
    let clustered = indexes.pop_first()?.1;
    let secondary = indexes.pop_first().map(|(_, pages)| pages).filter(|_| indexes.len() < 9);
    let leaf = |pages: &[(u16, usize)]| {
        let leaves: Vec<usize> = pages.iter().filter(|(level, _)| *level == 0).map(|(_, number)| *number).collect();
        (leaves.len() > 1).then(|| leaves[leaves.len() / 2])
    };
    let root = |pages: &[(u16, usize)]| {
        pages.iter().max_by_key(|(level, number)| (*level, usize::MAX - number)).map(|(_, number)| *number)
    };
    match kind {
        "leaf" => leaf(&clustered),
        "root" => root(&clustered),
        "inner page" => clustered
            .iter()
            .rev()
            .find(|(level, _)| *level == 1)
            .filter(|_| clustered.iter().any(|(level, _)| *level == 2))
            .map(|(_, number)| *number),
        "page 0" => Some(0),
        "inodes" => Some(2),
        "leaf of an index" => leaf(&secondary?),
        "root of an index" => root(&secondary?),
        _ => None,
    }
}

/// Spoils a page of the table. Returns what it did.
fn damage(data: &Path, table: &str, kind: &str) -> Option<String> {
    let folder = match table {
        "one" | "two" => data.to_path_buf(),
        LONE => data.join(LONE),
        _ => data.join("db"),
    };
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("one").path()).collect();
    files.sort();
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().to_lowercase();
    let is_it = |path: &&PathBuf| match (table, kind) {
        ("ft", "words") => name(path).starts_with("fts_") && name(path).ends_with("index_1.ibd"),
        (_, "words") => false,
        // Of the tablespace that tables share, only pages that one can be put back without.
        ("one" | "two", "leaf" | "leaf of an index") => path.ends_with("shared.ibd"),
        ("part", _) => name(path) == "part#p#p1.ibd",
        ("na-me", _) => name(path) == "na@002dme.ibd",
        _ => name(path) == format!("{table}.ibd"),
    };
    let path = files.iter().find(is_it)?;
    let page = page_of(path, if kind == "words" { "root" } else { kind })?;
    let file = fs::OpenOptions::new().write(true).open(path).expect("opened");
    let at = page * PAGE + if page == 0 { 38 } else { 8000 };
    file.write_all_at(b"XXXXXXXXXXXXXXXX", at as u64).expect("written");
    Some(format!("{kind} of {}", name(path)))
}

/// The clients under the names that the advice uses, for the server on `data`.
fn clients(server: &Server) -> PathBuf {
    let bin = server.of("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let script = repository().join("scripts/server.sh");
    let (script, kind, data) = (script.display(), server.kind, server.data());
    let client = format!("exec '{script}' {kind} sql '{}' \"$@\"", data.display());
    let socket = server.socket();
    let dump =
        format!("exec '{script}' {kind} tool mysqldump --no-defaults -uroot --socket='{}' \"$@\"", socket.display());
    let innokit = format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_innokit"));
    for (name, does) in [("mysql", &client), ("mariadb", &client), ("mysqldump", &dump), ("innokit", &innokit)] {
        let path = bin.join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\n{does}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }
    bin
}

/// Does what `check` printed: statements in the client, each block of them in one session, the rest in a shell.
fn follow(server: &Server, printed: &str, bin: &Path) {
    let is_sql = |line: &str| ["ALTER ", "SET ", "PREPARE ", "EXECUTE "].iter().any(|word| line.starts_with(word));
    let mut script = String::new();
    let mut lines = printed.lines().filter_map(|line| line.strip_prefix("    ")).peekable();
    while let Some(line) = lines.next() {
        if is_sql(line) {
            script.push_str("mysql <<'END'\n");
            writeln!(script, "{line}").expect("a string");
            while let Some(next) = lines.next_if(|line| is_sql(line)) {
                writeln!(script, "{next}").expect("a string");
            }
            script.push_str("END\n");
        } else {
            writeln!(script, "{}", line.replace("BACKUP", "backup")).expect("a string");
        }
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let done = Command::new("bash").args(["-c", &script]).current_dir(server.folder.path()).env("PATH", path).output();
    let done = done.expect("bash runs");
    fs::write(server.of("followed"), [done.stdout, done.stderr, script.into_bytes()].concat()).expect("written");
}

/// Shows what was done, and what the server wrote, if the test fails.
struct Account<'s>(&'s Server);

impl Drop for Account<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = |name: &str| fs::read_to_string(self.0.of(name)).unwrap_or_default();
            let log = text(".data.server/log");
            let from = (log.len().saturating_sub(9000)..log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or(0);
            eprintln!("followed:\n{}\nlog:\n{}", text("followed"), &log[from..]);
        }
    }
}

fn what_is_printed_repairs_the_tables(kind: &'static str) {
    let server = start(kind);
    let _account = Account(&server);
    create(&server);
    let (before, bin) = (answers(&server), clients(&server));
    server.script("stop", &["0"], "");
    fs::rename(server.data(), server.of("backup")).expect("renamed");
    let rounds = if is_soak() { KINDS.len() } else { 2 };
    for round in 0..rounds {
        if server.data().exists() {
            fs::remove_dir_all(server.data()).expect("removed");
        }
        server.copy("backup", "data");
        let of_table = |(number, table): (usize, &&str)| {
            let kinds = (0..KINDS.len()).map(|more| KINDS[(number + round * 3 + more) % KINDS.len()]);
            kinds.into_iter().find_map(|kind| damage(&server.data(), table, kind))
        };
        let tables = tables(&server);
        let damaged: Vec<String> = tables.iter().enumerate().filter_map(of_table).collect();
        assert_eq!(damaged.len(), tables.len());
        let checked = check(&server);
        assert_eq!(checked.status, 1, "{}", checked.errors);
        server.script("start", &[], "");
        follow(&server, &checked.text, &bin);
        eprintln!("{kind}: {damaged:?}");
        let followed = || fs::read_to_string(server.of("followed")).expect("read");
        let log = fs::read_to_string(server.of(".data.server/log")).expect("read");
        assert!(
            !log.contains("UTC - mysqld got signal"),
            "{kind}: {damaged:#?}\n{}\n{}",
            followed(),
            &log[log.len().saturating_sub(9000)..]
        );
        let after = answers(&server);
        assert!(before == after, "{kind}: {damaged:#?}\n{}\nbefore:\n{before}\nafter:\n{after}", followed());
        server.script("stop", &["1"], "");
        let again = check(&server);
        assert_eq!(again.status, 0, "{kind}: {damaged:#?}\n{}", again.text);
        for entry in fs::read_dir(server.folder.path()).expect("a folder").map(|entry| entry.expect("one").path()) {
            if entry.extension().is_some_and(|extension| extension == "damaged") {
                fs::remove_dir_all(entry).expect("removed");
            }
        }
    }
    what_is_printed_restores_the_whole(&server, &before, &bin);
}

fn check(server: &Server) -> Run {
    let keys = if server.kind == "mysql" { "--keyring=keys" } else { "--key-file=keys" };
    server.run(&["check", keys, "data"])
}

/// Damages what all tables need, and does what is printed. `make test` damages all of it at once.
fn what_is_printed_restores_the_whole(server: &Server, before: &str, bin: &Path) {
    let files: Vec<(PathBuf, usize)> = OF_ALL
        .into_iter()
        .map(|(name, page)| {
            (
                if server.kind == "mysql" { name.replace("undo", "undo_001") } else { name.replace("undo", "undo001") },
                page,
            )
        })
        .map(|(name, page)| (server.of("backup").join(name), page))
        .filter(|(path, _)| path.exists())
        .collect();
    let rounds = if is_soak() { 1 } else { files.len() };
    for damaged in files.chunks(rounds) {
        fs::remove_dir_all(server.data()).expect("removed");
        server.copy("backup", "data");
        for (path, page) in damaged {
            let path = server.data().join(path.file_name().expect("a name"));
            let file = fs::OpenOptions::new().write(true).open(path).expect("opened");
            file.write_all_at(b"XXXXXXXXXXXXXXXX", (page * PAGE + 38) as u64).expect("written");
        }
        let checked = check(server);
        assert_eq!(checked.status, 1, "{}", checked.errors);
        assert!(checked.text.contains("# stop the server\n"), "{}", checked.text);
        follow(server, &checked.text, bin);
        server.script("start", &[], "");
        let after = answers(server);
        let followed = fs::read_to_string(server.of("followed")).expect("read");
        assert!(after == before, "{}: {damaged:?}\n{followed}\nbefore:\n{before}\nafter:\n{after}", server.kind);
        server.script("stop", &["1"], "");
        assert_eq!(check(server).status, 0, "{}: {damaged:?}", server.kind);
        fs::remove_dir_all(server.of("data.damaged")).expect("removed");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_is_printed_repairs_the_tables_of_mariadb_10_11() {
    what_is_printed_repairs_the_tables("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_is_printed_repairs_the_tables_of_mariadb_11_8() {
    what_is_printed_repairs_the_tables("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_is_printed_repairs_the_tables_of_mysql() {
    what_is_printed_repairs_the_tables("mysql");
}
