//! One table of a backup at a moment, loaded into the running server beside what it has become.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::backup_lab::Server;
use crate::backup_lab::session::Session;

/// Tables of kinds that a load treats in its own way, besides those of every server of the tests.
const MADE: &str = "CREATE TABLE kin (id INT PRIMARY KEY, boss INT, label VARCHAR(40) CHARACTER SET latin1 NOT NULL DEFAULT 'é', \
     doubled INT AS (boss * 2) VIRTUAL, kept INT AS (boss + 1) STORED, e ENUM('', 'x'), f FLOAT, d DECIMAL(20, 5), t TIMESTAMP(3) NULL, \
     j JSON, b VARBINARY(90), big LONGTEXT, KEY (kept), CONSTRAINT is_own CHECK (boss <> id), CONSTRAINT leads FOREIGN KEY (boss) REFERENCES kin (id)); \
     INSERT INTO kin (id, boss, label, e, f, d, t, j, b, big) VALUES \
     (1, NULL, 'a;', '', 1.5e-7, 123456789012345.12345, '2024-03-31 01:30:00.125', '{\"a\": [1, null]}', x'00ff0a3b0a', REPEAT('long;\\n', 9000)), \
     (2, 1, 'quo''te\\\\', 'x', -0.0, -1, NULL, 'null', '', '');\
     CREATE TABLE `odd ``name` (`a b` INT, `select` TEXT); INSERT INTO `odd ``name` VALUES (1, 'one'), (1, 'one'), (NULL, NULL);";

/// The tables, as the schema `shop` has them.
const TABLES: [&str; 7] = ["a", "b", "z", "parts", "left_0", "kin", "odd `name"];

fn quoted(table: &str) -> String {
    format!("shop.`{}`", table.replace('`', "``"))
}

fn sums(server: &Server, suffix: &str) -> Vec<Vec<String>> {
    let mut session = Session::of(server);
    let mut ask = |table: &&str| {
        let name = quoted(&format!("{table}{suffix}"));
        // The servers' own sum of a virtual column is another one at each start.
        let of_kin = "SUM(CRC32(CONCAT_WS('|', id, boss, label, doubled, kept, e + 0, f, d, t, j, HEX(b), big)))";
        let sum =
            if *table == "kin" { format!("SELECT {of_kin} FROM {name}") } else { format!("CHECKSUM TABLE {name}") };
        [sum, format!("SELECT COUNT(*) FROM {name}")]
            .map(|question| session.ask(&question).concat().rsplit('\t').next().unwrap_or_default().to_owned())
            .to_vec()
    };
    TABLES.iter().map(&mut ask).collect()
}

fn one_table_comes_back(kind: &'static str) {
    let server = Server::start(kind);
    server.script("sql", &["shop"], MADE);
    let socket = server.socket().display().to_string();
    let at = ["--user", "root", "--socket", socket.as_str()];
    server.archive();
    let taken = server.run(&[&["backup"][..], &at, &["--to", "set", "data"]].concat());
    assert_eq!(taken.status, 0, "{}", taken.errors);
    server.script(
        "sql",
        &["shop"],
        "UPDATE a SET a = a + 7 WHERE id % 3 = 0; DELETE FROM b WHERE id % 5 = 1; UPDATE kin SET f = 2.5 WHERE id = 1;",
    );
    let held = sums(&server, "");
    let lsn = crate::backup_lab::lsn(&mut Session::of(&server));
    // The mistake.
    server.script("sql", &["shop"], "DELETE FROM a; UPDATE z SET a = 0; DELETE FROM kin WHERE id = 2;");
    server.archive_up_to(lsn);
    let until = lsn.to_string();
    let moment = ["--redo", "redo", "--until", until.as_str()];
    let restore =
        |table: &str, more: &[&str]| server.run(&[&["table", "restore", "set", table], &at[..], more].concat());

    for table in TABLES {
        let (name, other) = (format!("shop.{table}"), format!("shop.{table} then"));
        let done = restore(&name, &[&moment[..], &["--as", &other]].concat());
        assert_eq!(done.status, 0, "{kind}: {name}: {}{}", done.text, done.errors);
        // A virtual column has no sum that can be repeated.
        assert!(done.text.contains("by the files and by the server") || table == "kin", "{}", done.text);
    }
    assert_eq!(sums(&server, " then"), held, "{kind}");
    let asked = server.script_on(
        "data",
        "sql",
        &["-N"],
        "USE shop; SELECT * FROM `kin then` FORCE INDEX (kept) WHERE kept > 0; SHOW CREATE TABLE `kin then`;",
    );
    assert!(asked.contains("GENERATED ALWAYS AS") && !asked.contains("FOREIGN KEY"), "{asked}");
    let left = server.script_on(
        "data",
        "sql",
        &["-N"],
        "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'innokit%';",
    );
    assert_eq!(left, "", "{kind}");

    // Not over a table, and under its own name where there is none, foreign keys included.
    let refused = restore("shop.kin", &moment);
    assert!(refused.status == 2 && refused.errors.contains("the server has a table shop.kin"), "{}", refused.errors);
    server.script("sql", &["shop"], "SET foreign_key_checks = 0; DROP TABLE kin;");
    let back = restore("shop.kin", &[&moment[..], &["--json"]].concat());
    assert_eq!((back.status, back.json()["rows"].as_u64()), (0, Some(2)), "{kind}: {}{}", back.text, back.errors);
    let shown = server.script_on("data", "sql", &["-N"], "SHOW CREATE TABLE shop.kin");
    assert!(shown.contains("CONSTRAINT `leads` FOREIGN KEY") && shown.contains("CONSTRAINT `is_own` CHECK"), "{shown}");

    // As the backup lies, at its own moment.
    let plain = restore("shop.b", &["--as", "other.b_whole"]);
    assert_eq!(plain.status, 0, "{kind}: {}{}", plain.text, plain.errors);
    let missing = restore("shop.nothing", &[]);
    assert!(missing.status == 2 && missing.errors.contains("there is no table shop.nothing"), "{}", missing.errors);
    let nowhere = restore("shop.b", &["--as", "gone.b"]);
    assert!(nowhere.status == 2 && nowhere.errors.contains("gone"), "{}", nowhere.errors);
    let unnamed = server.run(&["table", "restore", "set", "shop.b"]);
    assert!(unnamed.status == 2 && unnamed.errors.contains("--socket"), "{}", unnamed.errors);

    of_a_damaged_table_no_part_appears(&server, &at);
}

fn of_a_damaged_table_no_part_appears(server: &Server, at: &[&str]) {
    let kind = server.kind;
    server.copy("set", "bad");
    let path = server.of("bad").join("shop/b.ibd");
    let len = fs::metadata(&path).expect("there").len();
    let file = fs::OpenOptions::new().write(true).open(&path).expect("opened");
    for page in 4..len / 16384 {
        file.write_all_at(b"spoilt", page * 16384 + 9000).expect("written");
    }
    let bad = server.run(&[&["table", "restore", "bad", "shop.b", "--as", "shop.b_bad"], at].concat());
    assert!(bad.status == 1, "{kind}: {}: {}{}", bad.status, bad.text, bad.errors);
    let left = server.script_on(
        "data",
        "sql",
        &["-N"],
        "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'innokit%' OR table_name LIKE '%bad';",
    );
    assert_eq!(left, "", "{kind}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn one_table_of_mariadb_comes_back_as_it_was() {
    one_table_comes_back("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn one_table_of_newer_mariadb_comes_back_as_it_was() {
    one_table_comes_back("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn one_table_of_mysql_comes_back_as_it_was() {
    one_table_comes_back("mysql");
}
