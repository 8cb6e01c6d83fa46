//! A load on MySQL that writes every kind of redo: all row formats, blobs, partial JSON updates, instant ADD and DROP COLUMN, index builds,
//! partitions, general tablespaces, XA, undo truncation, and tables that are created, altered and dropped.

use std::fmt::Write;

/// The tables' names and storage options.
const TABLES: [(&str, &str); 5] = [
    ("dynamic", ""),
    ("redundant", "ROW_FORMAT=REDUNDANT"),
    ("compact", "ROW_FORMAT=COMPACT"),
    ("shared", "TABLESPACE shared"),
    ("parted", "PARTITION BY HASH(id) PARTITIONS 4"),
];
const COLUMNS: &str = "id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(120), c TEXT, KEY (a), KEY (b)";

/// The same for compressed tables. The smallest pages fit only short keys.
const ZIP_COLUMNS: &str =
    "id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(120) CHARACTER SET latin1, c TEXT, KEY (a), KEY (b)";
/// Sizes of their pages, KiB.
const ZIP_KIB: [u32; 5] = [1, 2, 4, 8, 16];
/// Servers with larger pages cannot have compressed tables.
const ZIP_PAGE_KIB_MAX: u32 = 16;

/// The name prefix of tables created after every other table was changed.
pub const COMES_LATER: &str = "later_";

/// The tables that exist from the start.
pub fn names() -> Vec<&'static str> {
    TABLES.iter().map(|(name, _)| *name).chain(["blobs", "docs", "places", "words", "grown"]).collect()
}

/// The compressed tables of a server with this page size, all of which `changes` can change, and the one with long values.
pub fn zip_names(page_kib: u32) -> Vec<String> {
    let sizes = ZIP_KIB.into_iter().filter(|kib| *kib <= page_kib && page_kib <= ZIP_PAGE_KIB_MAX);
    sizes
        .map(|kib| format!("zip_{kib}k"))
        .chain((page_kib <= ZIP_PAGE_KIB_MAX).then(|| "zip_shared".to_owned()))
        .collect()
}

pub fn zip_tables(page_kib: u32) -> String {
    let names = zip_names(page_kib);
    let mut sql = String::new();
    for (name, kib) in names.iter().zip(ZIP_KIB).filter(|(name, _)| *name != "zip_shared") {
        writeln!(sql, "CREATE TABLE {name} ({ZIP_COLUMNS}) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE={kib};")
            .expect("writes");
    }
    if !names.is_empty() {
        let half = page_kib / 2;
        writeln!(
            sql,
            "CREATE TABLESPACE zip_general ADD DATAFILE 'zip_general.ibd' FILE_BLOCK_SIZE={half}K;
             CREATE TABLE zip_shared ({ZIP_COLUMNS}) TABLESPACE zip_general ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE={half};
             CREATE TABLE zip_values (id INT PRIMARY KEY AUTO_INCREMENT, body LONGBLOB, more TEXT, KEY (more(20)))
                 ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE={half};"
        )
        .expect("writes");
    }
    sql
}

pub fn tables(more: &str) -> String {
    let mut sql = String::from(
        "CREATE DATABASE IF NOT EXISTS shop; USE shop;
         CREATE TABLE nums (seq INT PRIMARY KEY);
         INSERT INTO nums WITH RECURSIVE n AS (SELECT 1 AS seq UNION ALL SELECT seq+1 FROM n WHERE seq < 1000) SELECT seq FROM n;
         CREATE TABLESPACE shared ADD DATAFILE 'shared.ibd';\n",
    );
    for (name, storage) in TABLES {
        writeln!(sql, "CREATE TABLE {name} ({COLUMNS}) {storage};").expect("writes");
    }
    sql.push_str(
        "CREATE TABLE blobs (id INT PRIMARY KEY AUTO_INCREMENT, body LONGBLOB);
         CREATE TABLE docs (id INT PRIMARY KEY AUTO_INCREMENT, doc JSON);
         CREATE TABLE places (id INT PRIMARY KEY AUTO_INCREMENT, place POINT NOT NULL SRID 0, SPATIAL KEY (place));
         CREATE TABLE words (id INT PRIMARY KEY AUTO_INCREMENT, body TEXT, FULLTEXT KEY (body));
         CREATE TABLE grown (id INT PRIMARY KEY AUTO_INCREMENT, a INT);\n",
    );
    sql.push_str(more);
    sql
}

/// More than any server gets through before it is killed.
pub fn changes(others: &[String]) -> String {
    let mut sql = String::from("USE shop;\n");
    for round in 1..3000 {
        for (name, _) in TABLES {
            changes_to(&mut sql, name, round).expect("writes");
        }
        others.iter().for_each(|name| changes_to(&mut sql, name, round).expect("writes"));
        values(&mut sql, round).expect("writes");
        if !others.is_empty() {
            zip_values(&mut sql, round).expect("writes");
        }
        if round % 3 == 0 {
            definitions(&mut sql, round).expect("writes");
        }
    }
    sql
}

/// Some rounds without changes of definitions, all of whose statements succeed. `others` are tables with room for long keys.
pub fn rows_only(others: &[&str], rounds: u32) -> String {
    let mut sql = String::from("USE shop;\n");
    for round in 1..=rounds {
        let names = TABLES.iter().map(|(name, _)| *name).chain(others.iter().copied());
        names.for_each(|name| changes_to(&mut sql, name, round).expect("writes"));
        values(&mut sql, round).expect("writes");
    }
    sql
}

/// The same for compressed tables only, which are also created, rebuilt and dropped.
pub fn zip_changes(page_kib: u32) -> String {
    let (names, mut sql) = (zip_names(page_kib), String::from("USE shop;\n"));
    for round in 1..3000 {
        names.iter().for_each(|name| changes_to(&mut sql, name, round).expect("writes"));
        zip_values(&mut sql, round).expect("writes");
        if round % 4 == 0 {
            let name = &names[round as usize / 4 % names.len()];
            writeln!(
                sql,
                "CREATE TABLE {COMES_LATER}{round} LIKE {name}; INSERT INTO {COMES_LATER}{round} SELECT * FROM {name} LIMIT 400;
                 ALTER TABLE {COMES_LATER}{round} DROP INDEX a, ADD INDEX (c(9)), ALGORITHM=INPLACE;
                 DELETE FROM {COMES_LATER}{round} WHERE id%3 > 0; ALTER TABLE {COMES_LATER}{round} FORCE;
                 DROP TABLE IF EXISTS {COMES_LATER}{};",
                round - 4
            )
            .expect("writes");
        }
    }
    sql
}

/// Only DDL, one statement after another, so that nearly every crash interrupts one.
pub fn definitions_only() -> String {
    let mut sql = String::from(
        "USE shop; INSERT INTO dynamic (a, b, c) SELECT seq, SHA2(seq, 224), REPEAT('c', seq%900) FROM nums;\n",
    );
    sql.push_str("INSERT INTO redundant (a, b, c) SELECT a, b, c FROM dynamic;\n");
    (3..3000).for_each(|round| definitions(&mut sql, round).expect("writes"));
    sql
}

fn changes_to(sql: &mut String, name: &str, round: u32) -> std::fmt::Result {
    writeln!(
        sql,
        "INSERT INTO {name} (a, b, c) SELECT seq*7%1000, SHA2(seq*{round}, 224), REPEAT(SHA2(seq+{round}, 224), seq%9) FROM nums WHERE seq <= 60;
         UPDATE {name} SET a = a+1, b = REPEAT('x', a%100) WHERE id%13 = {};
         DELETE FROM {name} WHERE id%7 = {} LIMIT 300;
         BEGIN; UPDATE {name} SET c = REPEAT('y', id%500) WHERE id%11 = {}; ROLLBACK;",
        round % 13,
        round % 7,
        round % 11,
    )
}

fn values(sql: &mut String, round: u32) -> std::fmt::Result {
    writeln!(
        sql,
        "INSERT INTO blobs (body) VALUES (REPEAT(SHA2({round}, 224), {})); DELETE FROM blobs WHERE id%5 = {};
         INSERT INTO docs (doc) VALUES (JSON_OBJECT('k', REPEAT('a', {}), 'n', {round}, 'l', JSON_ARRAY(1, 2, 3)));
         UPDATE docs SET doc = JSON_SET(doc, '$.n', {round} * 3, '$.l[1]', 9) WHERE id%3 = {};
         UPDATE docs SET doc = JSON_REPLACE(doc, '$.k', REPEAT('b', {})) WHERE id%4 = {};
         INSERT INTO places (place) SELECT ST_GeomFromText(CONCAT('POINT(', seq*{round}%317, ' ', seq%211, ')')) FROM nums WHERE seq <= 20;
         DELETE FROM places WHERE id%9 = {};
         INSERT INTO words (body) SELECT CONCAT('w', seq%50, ' x', {round}) FROM nums WHERE seq <= 10;
         INSERT INTO grown (a) SELECT seq FROM nums WHERE seq <= 30; UPDATE grown SET a = a+1 WHERE id%17 = {};",
        round % 40 * 50,
        round % 5,
        round * 97 % 20_000,
        round % 3,
        round * 61 % 15_000,
        round % 4,
        round % 9,
        round % 17,
    )
}

/// Off-page values that are inserted, changed and deleted, and pages that are rebuilt, filled in order and emptied.
fn zip_values(sql: &mut String, round: u32) -> std::fmt::Result {
    writeln!(
        sql,
        "INSERT INTO zip_values (body, more) SELECT REPEAT(SHA2(seq*{round}, 224), seq*{}%400), REPEAT(SHA2(seq, 224), seq%40) FROM nums WHERE seq <= 6;
         UPDATE zip_values SET body = REPEAT(SHA2(id+{round}, 224), id%300), more = REPEAT('m', id%3000) WHERE id%9 = {};
         UPDATE zip_values SET more = NULL WHERE id%17 = {}; DELETE FROM zip_values WHERE id%5 = {};",
        round % 37,
        round % 9,
        round % 17,
        round % 5,
    )
}

fn definitions(sql: &mut String, round: u32) -> std::fmt::Result {
    writeln!(
        sql,
        "ALTER TABLE grown ADD COLUMN n{round} INT DEFAULT {round}, ALGORITHM=INSTANT;
         INSERT INTO grown (a, n{round}) VALUES ({round}, 7); UPDATE grown SET n{round} = a WHERE id%19 = 3;
         ALTER TABLE grown DROP COLUMN n{round}, ALGORITHM=INSTANT;
         CREATE TABLE late_{round} LIKE dynamic; INSERT INTO late_{round} SELECT * FROM dynamic LIMIT 200;
         ALTER TABLE late_{round} DROP INDEX a, ALGORITHM=INPLACE; ALTER TABLE late_{round} ADD INDEX (c(20)), ALGORITHM=INPLACE;
         INSERT INTO late_{round} (a) VALUES (1); RENAME TABLE late_{round} TO later_{round};
         ALTER TABLE later_{round} ROW_FORMAT=REDUNDANT, ALGORITHM=INPLACE; TRUNCATE TABLE later_{round};
         INSERT INTO later_{round} SELECT * FROM redundant LIMIT 100; DROP TABLE IF EXISTS later_{};
         XA START 'x{round}'; INSERT INTO dynamic (a) VALUES ({round}); XA END 'x{round}'; XA PREPARE 'x{round}'; XA COMMIT 'x{round}';
         CREATE UNDO TABLESPACE more_{round} ADD DATAFILE 'more_{round}.ibu'; ALTER UNDO TABLESPACE more_{round} SET INACTIVE;
         ALTER TABLE grown FORCE;",
        round - 3,
    )
}
