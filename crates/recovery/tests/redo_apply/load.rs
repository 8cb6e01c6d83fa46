//! A load that writes every kind of redo: all row formats, splits and merges, blobs, rollback, and tables that are created, altered and
//! dropped.

use std::fmt::Write;

/// The tables' names and storage options. Compressed pages are half a page, which every page size up to 16 KiB allows.
const TABLES: [(&str, &str); 6] = [
    ("dynamic", ""),
    ("redundant", "ROW_FORMAT=REDUNDANT"),
    ("compact", "ROW_FORMAT=COMPACT"),
    ("zip", "ROW_FORMAT=COMPRESSED"),
    ("packed", "PAGE_COMPRESSED=1"),
    ("merged", "STATS_PERSISTENT=0"),
];
const COLUMNS: &str = "id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(120), c TEXT, KEY (a), KEY (b)";

/// The name prefix of tables created after every other table was changed.
pub const COMES_LATER: &str = "later_";

/// The tables that exist from the start.
#[allow(dead_code, reason = "not every test asks for them")]
pub fn names() -> Vec<&'static str> {
    TABLES.iter().map(|(name, _)| *name).chain(["blobs", "places", "words"]).collect()
}

/// Hundreds of thousands of rows in ascending and descending key order: about 160 MB of redo per `times`.
#[allow(dead_code, reason = "not every test needs them")]
pub fn bulk(times: u32) -> String {
    let mut sql = tables();
    for time in 0..times {
        for table in ["dynamic", "redundant"] {
            writeln!(
                sql,
                "INSERT INTO {table} (a, b, c) SELECT seq*7919%100000, SHA1(seq+{time}), REPEAT(SHA1(seq), 1+seq%9) FROM seq_1_to_100000;"
            )
            .expect("writes");
        }
    }
    sql
}

pub fn tables() -> String {
    let mut sql = String::from("CREATE DATABASE IF NOT EXISTS shop; USE shop;\n");
    for (name, storage) in TABLES {
        writeln!(sql, "CREATE TABLE IF NOT EXISTS {name} ({COLUMNS}) ENGINE=InnoDB {storage};").expect("writes");
    }
    sql.push_str(
        "CREATE TABLE IF NOT EXISTS blobs (id INT PRIMARY KEY AUTO_INCREMENT, body LONGBLOB) ENGINE=InnoDB;
         CREATE TABLE IF NOT EXISTS places (id INT PRIMARY KEY AUTO_INCREMENT, place POINT NOT NULL, SPATIAL KEY (place)) ENGINE=InnoDB;
         CREATE TABLE IF NOT EXISTS words (id INT PRIMARY KEY AUTO_INCREMENT, body TEXT, FULLTEXT KEY (body)) ENGINE=InnoDB;\n",
    );
    sql
}

/// More than any server gets through before it is killed.
pub fn changes() -> String {
    rounds(1..20_000)
}

/// A part of the load.
pub fn rounds(rounds: std::ops::Range<u32>) -> String {
    let mut sql = String::from("USE shop;\n");
    for round in rounds {
        for (name, _) in TABLES {
            changes_to(&mut sql, name, round).expect("writes");
        }
        others(&mut sql, round).expect("writes");
        if round % 5 == 0 {
            definitions(&mut sql, round).expect("writes");
        }
    }
    sql
}

fn changes_to(sql: &mut String, name: &str, round: u32) -> std::fmt::Result {
    writeln!(
        sql,
        "INSERT INTO {name} (a, b, c) SELECT seq*7%1000, SHA1(seq*{round}), REPEAT(SHA1(seq+{round}), seq%9) FROM seq_1_to_60;
         UPDATE {name} SET a = a+1, b = REPEAT('x', a%100) WHERE id%13 = {};
         DELETE FROM {name} WHERE id%7 = {} LIMIT 300;
         BEGIN; UPDATE {name} SET c = REPEAT('y', id%500) WHERE id%11 = {}; ROLLBACK;",
        round % 13,
        round % 7,
        round % 11,
    )
}

fn others(sql: &mut String, round: u32) -> std::fmt::Result {
    writeln!(
        sql,
        "INSERT INTO blobs (body) VALUES (REPEAT(SHA1({round}), {})); DELETE FROM blobs WHERE id%5 = {};
         INSERT INTO places (place) SELECT ST_GeomFromText(CONCAT('POINT(', seq*{round}%317, ' ', seq%211, ')')) FROM seq_1_to_20;
         DELETE FROM places WHERE id%9 = {};
         INSERT INTO words (body) SELECT CONCAT('w', seq%50, ' x', {round}) FROM seq_1_to_10;",
        round % 40 * 50,
        round % 5,
        round % 9,
    )
}

fn definitions(sql: &mut String, round: u32) -> std::fmt::Result {
    writeln!(
        sql,
        "CREATE TABLE late_{round} LIKE dynamic; INSERT INTO late_{round} SELECT * FROM dynamic LIMIT 200;
         ALTER TABLE late_{round} DROP INDEX a, ALGORITHM=INPLACE; ALTER TABLE late_{round} ADD COLUMN d INT DEFAULT 5;
         INSERT INTO late_{round} (a, d) VALUES (1, 2); RENAME TABLE late_{round} TO later_{round};
         ALTER TABLE later_{round} ENGINE=InnoDB, ROW_FORMAT=COMPRESSED; TRUNCATE TABLE later_{round};
         INSERT INTO later_{round} SELECT *, 7 FROM redundant LIMIT 100; DROP TABLE IF EXISTS later_{};",
        round - 5,
    )
}
