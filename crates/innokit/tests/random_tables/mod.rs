//! Tables that nobody would think of: every type with random values, and columns that are added, dropped and changed between changes of
//! rows.
//!
//! ```text
//! seed -> statements -> a server -> SELECT … INTO OUTFILE, and its files -> `table export` -> compared value by value
//! ```
//!
//! The same seed gives the same statements. A random ALTER may fail: what the server then shows is what counts.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod compare;
mod values;

use std::fmt::Write;
use std::ops::Range;

use flow::queue::sim::Random;
use values::Column;

/// The seeds in an environment variable (`5..9`), or the given ones if it is not set.
pub fn seeds(variable: &str, or: Range<u64>) -> Range<u64> {
    let Ok(seeds) = std::env::var(variable) else { return or };
    let (from, to) = seeds.split_once("..").expect("FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

/// A random number generator with a fixed seed.
pub struct Choices(Random);

impl Choices {
    fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    pub fn number(&mut self) -> u64 {
        self.0.number()
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'p, T: ?Sized>(&mut self, choices: &[&'p T]) -> &'p T {
        choices[self.below(choices.len())]
    }
}

const SETTINGS: &str = "CREATE DATABASE IF NOT EXISTS rnd; USE rnd; SET NAMES utf8mb4; SET time_zone = '+00:00';
    SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO';\n";
const ROW_FORMATS: [&str; 5] = ["DYNAMIC", "DYNAMIC", "COMPACT", "REDUNDANT", "COMPRESSED KEY_BLOCK_SIZE=8"];
/// Number of tables that share the columns of one seed: all of them would not fit one row.
const TABLES: usize = 4;
const ROWS: usize = 80;
/// Statements of a table that is altered.
const STATEMENTS: usize = 60;

/// A few tables with columns of every type between them, and random rows.
pub fn every_type(kind: &str, seed: u64) -> String {
    let random = &mut Choices::new(seed);
    let mut sql = SETTINGS.to_owned();
    let mut columns = values::every_type(kind, random);
    for table in 0..TABLES {
        let own: Vec<Column> = (0..columns.len().div_ceil(TABLES - table))
            .map(|_| columns.swap_remove(random.below(columns.len())))
            .collect();
        // MariaDB allows no compressed column in a compressed table.
        let format = match own.iter().any(|column| column.declared.contains("COMPRESSED")) {
            true => "DYNAMIC",
            false => random.pick(&ROW_FORMATS),
        };
        write!(sql, "CREATE TABLE v{seed}_{table} (id INT PRIMARY KEY").expect("a string");
        for (number, column) in own.iter().enumerate() {
            write!(sql, ", c{number} {}", column.declared).expect("a string");
        }
        writeln!(sql, ") DEFAULT CHARSET=utf8mb4 ROW_FORMAT={format};").expect("a string");
        for id in 0..ROWS {
            write!(sql, "INSERT IGNORE INTO v{seed}_{table} VALUES ({id}").expect("a string");
            for column in &own {
                let value = if random.chance(10) { "NULL".to_owned() } else { (column.value)(random) };
                write!(sql, ", {value}").expect("a string");
            }
            sql.push_str(");\n");
        }
    }
    sql
}

/// A column of a table that is altered.
struct Altered {
    name: String,
    column: Column,
    nullable: bool,
    default: String,
}

impl Altered {
    fn new(kind: &str, number: usize, random: &mut Choices) -> Self {
        let column = values::short(kind, random);
        let value = (column.value)(random);
        let takes_none = ["TEXT", "BLOB", "JSON", "COMPRESSED"].iter().any(|word| column.declared.contains(word));
        let has_default = !takes_none && !value.contains('(') && random.chance(60);
        let default = if has_default { format!(" DEFAULT {value}") } else { String::new() };
        Self { name: format!("c{number}"), column, nullable: random.chance(60), default }
    }

    fn declared(&self) -> String {
        let null = if self.nullable { "NULL" } else { "NOT NULL" };
        format!("{} {} {null}{}", self.name, self.column.declared, self.default)
    }

    fn value(&self, random: &mut Choices) -> String {
        if self.nullable && random.chance(20) { "NULL".to_owned() } else { (self.column.value)(random) }
    }
}

/// Tables whose columns are added at any position, dropped, renamed and changed between inserts, updates, deletes and rollbacks.
pub fn altered(kind: &str, seed: u64) -> String {
    let random = &mut Choices::new(seed);
    let mut sql = SETTINGS.to_owned();
    for table in 0..TABLES {
        Alterations::new(kind, format!("a{seed}_{table}"), random).run(random, &mut sql);
    }
    sql
}

struct Alterations<'k> {
    kind: &'k str,
    table: String,
    columns: Vec<Altered>,
    /// How many columns there have been.
    made: usize,
    rows: usize,
}

impl<'k> Alterations<'k> {
    fn new(kind: &'k str, table: String, random: &mut Choices) -> Self {
        let made = 1 + random.below(6);
        let columns = (0..made).map(|number| Altered::new(kind, number, random)).collect();
        Self { kind, table, columns, made, rows: 0 }
    }

    fn run(mut self, random: &mut Choices, sql: &mut String) {
        let keys = [
            "id INT PRIMARY KEY",
            "id BIGINT UNSIGNED PRIMARY KEY",
            "id INT, k VARCHAR(9) DEFAULT 'k', PRIMARY KEY (k, id)",
        ];
        let parts = ["", "", "", "PARTITION BY HASH (id) PARTITIONS 3"];
        let columns: Vec<String> = self.columns.iter().map(Altered::declared).collect();
        let (key, format, parts) = (random.pick(&keys), ROW_FORMATS[random.below(4)], random.pick(&parts));
        let columns = columns.join(", ");
        writeln!(
            sql,
            "CREATE TABLE {} ({key}, {columns}) DEFAULT CHARSET=utf8mb4 ROW_FORMAT={format} {parts};",
            self.table
        )
        .expect("a string");
        for _ in 0..STATEMENTS {
            let statement = match random.below(100) {
                0..45 => self.inserts(random),
                45..60 => self.update(random),
                60..66 => format!("DELETE FROM {} WHERE id % {} = 0", self.table, 5 + random.below(15)),
                66..70 => {
                    format!("BEGIN; {}; DELETE FROM {} WHERE id % 2 = 0; ROLLBACK", self.update(random), self.table)
                }
                70..86 => self.add(random),
                86..91 => self.drop(random),
                91..95 => self.index(random),
                _ => self.change(random),
            };
            writeln!(sql, "{statement};").expect("a string");
        }
    }

    fn inserts(&mut self, random: &mut Choices) -> String {
        let mut sql = String::new();
        for _ in 0..1 + random.below(30) {
            self.rows += 1;
            let given: Vec<&Altered> = self.columns.iter().filter(|_| random.chance(85)).collect();
            let names: String = given.iter().map(|column| format!(", {}", column.name)).collect();
            let values: String = given.iter().map(|column| format!(", {}", column.value(random))).collect();
            write!(sql, "INSERT IGNORE INTO {} (id{names}) VALUES ({}{values}); ", self.table, self.rows)
                .expect("a string");
        }
        sql + "DO 0"
    }

    fn update(&self, random: &mut Choices) -> String {
        let column = &self.columns[random.below(self.columns.len())];
        let (name, value, every) = (&column.name, column.value(random), 2 + random.below(8));
        format!("UPDATE IGNORE {} SET {name} = {value} WHERE id % {every} = 0", self.table)
    }

    fn add(&mut self, random: &mut Choices) -> String {
        let column = Altered::new(self.kind, self.made, random);
        self.made += 1;
        let place = match random.below(4) {
            0 => " FIRST".to_owned(),
            1 => format!(" AFTER {}", self.columns[random.below(self.columns.len())].name),
            _ => String::new(),
        };
        let statement = format!("ALTER TABLE {} ADD COLUMN {}{place}", self.table, column.declared());
        self.columns.push(column);
        statement
    }

    fn drop(&mut self, random: &mut Choices) -> String {
        if self.columns.len() < 2 {
            return self.add(random);
        }
        let column = self.columns.swap_remove(random.below(self.columns.len()));
        format!("ALTER TABLE {} DROP COLUMN {}", self.table, column.name)
    }

    fn index(&self, random: &mut Choices) -> String {
        let mut part = || {
            let Altered { name, column, .. } = &self.columns[random.below(self.columns.len())];
            let can_be_long =
                ["TEXT", "BLOB", "VARCHAR", "VARBINARY"].iter().any(|word| column.declared.starts_with(word));
            format!("{name}{}{}", if can_be_long { "(1)" } else { "" }, random.pick(&["", " DESC"]))
        };
        format!("ALTER TABLE {} ADD INDEX ({}, {})", self.table, part(), part())
    }

    fn change(&mut self, random: &mut Choices) -> String {
        let at = random.below(self.columns.len());
        let column = &mut self.columns[at];
        if random.chance(40) {
            let name = format!("c{}", self.made);
            self.made += 1;
            let old = std::mem::replace(&mut column.name, name);
            return format!("ALTER TABLE {} CHANGE COLUMN {old} {}", self.table, column.declared());
        }
        column.nullable = true;
        if column.column.declared.starts_with("VARCHAR(") && !column.column.declared.contains("COMPRESSED") {
            column.column.declared = format!("VARCHAR({})", random.pick(&[&70, &260, &1200]));
        }
        format!("ALTER TABLE {} MODIFY COLUMN {}{}", self.table, column.declared(), random.pick(&["", " FIRST"]))
    }
}

/// Statements that make tables with keys of every kind, and statements that change their rows without changing a definition.
pub fn history(kind: &str, seed: u64) -> [String; 2] {
    let random = &mut Choices::new(seed);
    let [mut before, mut after] = [SETTINGS.to_owned(), SETTINGS.to_owned()];
    let mut columns = values::every_type(kind, random);
    for table in 0..TABLES + 1 {
        let own = (0..4).map(|_| columns.swap_remove(random.below(columns.len()))).collect();
        Diverging::new(kind, format!("d{seed}_{table}"), own, random).run(random, (&mut before, &mut after));
    }
    [before, after]
}

/// A table whose rows change.
struct Diverging {
    table: String,
    columns: Vec<Column>,
    declared: String,
    rows: usize,
}

impl Diverging {
    fn new(kind: &str, table: String, columns: Vec<Column>, random: &mut Choices) -> Self {
        let down = if kind.starts_with("mysql") || kind == "mariadb118" { " DESC" } else { "" };
        let keys = [
            "PRIMARY KEY (id)".to_owned(),
            format!("PRIMARY KEY (id{down})"),
            "k VARCHAR(9) NOT NULL DEFAULT 'k' COLLATE utf8mb4_unicode_ci, PRIMARY KEY (k, id)".to_owned(),
            "k CHAR(7) CHARACTER SET latin1 NOT NULL DEFAULT 'é', PRIMARY KEY (k, id)".to_owned(),
            "k DOUBLE NOT NULL DEFAULT 0.1, PRIMARY KEY (k, id)".to_owned(),
            "k FLOAT NOT NULL DEFAULT 0.1, PRIMARY KEY (k, id)".to_owned(),
            "k VARBINARY(60) NOT NULL DEFAULT '', PRIMARY KEY (k(5), id)".to_owned(),
            "KEY (id)".to_owned(),
        ];
        let key = &keys[random.below(keys.len())];
        let format = match columns.iter().any(|column| column.declared.contains("COMPRESSED")) {
            true => "DYNAMIC",
            false => random.pick(&ROW_FORMATS),
        };
        let parts = if key.contains("(k") || random.chance(80) { "" } else { "PARTITION BY HASH (id) PARTITIONS 3" };
        // Every unique key of a partitioned table must have what it is partitioned by.
        let unique = if parts.is_empty() && random.chance(50) { "UNIQUE (u)" } else { "KEY (u)" };
        let own: String = columns.iter().enumerate().map(|(at, it)| format!("c{at} {}, ", it.declared)).collect();
        // MariaDB's CHECKSUM TABLE counts what happens to be in the buffer of a virtual column.
        let generated =
            if kind.starts_with("mysql") { "g INT AS (id * 2) STORED, v INT AS (u + 1) VIRTUAL, " } else { "" };
        let declared = format!(
            "id INT NOT NULL, {own}u INT, {generated}\
             t TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), {key}, {unique}) DEFAULT CHARSET=utf8mb4 ROW_FORMAT={format} {parts}"
        );
        Self { table, columns, declared, rows: 0 }
    }

    fn run(mut self, random: &mut Choices, (before, after): (&mut String, &mut String)) {
        writeln!(before, "CREATE TABLE {} ({};", self.table, self.declared).expect("a string");
        for _ in 0..ROWS {
            self.insert(random, before);
        }
        // Some tables do not change.
        for _ in 0..random.below(5) * random.below(5) {
            let (table, every) = (self.table.clone(), 2 + random.below(30));
            match random.below(10) {
                0..4 => self.insert(random, after),
                4 | 5 => {
                    let at = random.below(self.columns.len());
                    let value = (self.columns[at].value)(random);
                    writeln!(after, "UPDATE IGNORE {table} SET c{at} = {value} WHERE id % {every} = 0;")
                        .expect("a string");
                }
                6 => writeln!(after, "UPDATE IGNORE {table} SET u = u + 1 WHERE id % {every} = 0 ORDER BY u DESC;")
                    .expect("a string"),
                7 => writeln!(after, "DELETE FROM {table} WHERE id % {every} = 1;").expect("a string"),
                8 => writeln!(after, "DELETE FROM {table} WHERE id BETWEEN {every} AND {};", every + random.below(40))
                    .expect("a string"),
                _ => {
                    writeln!(
                        after,
                        "BEGIN; DELETE FROM {table} WHERE id % {every} < 3; UPDATE {table} SET u = NULL; ROLLBACK;"
                    )
                    .expect("a string");
                }
            }
        }
    }

    fn insert(&mut self, random: &mut Choices, sql: &mut String) {
        self.rows += 1;
        let values: String = self.columns.iter().map(|column| format!(", {}", (column.value)(random))).collect();
        let names: String = (0..self.columns.len()).map(|at| format!(", c{at}")).collect();
        let (mut more, mut value) = (String::new(), String::new());
        if self.declared.contains("(k") {
            more = ", k".to_owned();
            let letters = ["a", "B", "é", "ß", "Z", "ö", " ", "ss", "A"];
            let word: String = (0..1 + random.below(3)).map(|_| random.pick(&letters)).collect();
            let number = format!("{}{}e{}", ["", "-"][random.below(2)], random.below(100), random.below(4));
            let is_number = self.declared.contains("k DOUBLE") || self.declared.contains("k FLOAT");
            value = if is_number { format!(", {number} / 7") } else { format!(", '{word}'") };
        }
        let (table, id, u) = (&self.table, self.rows, random.below(5000));
        writeln!(sql, "INSERT IGNORE INTO {table} (id, u{names}{more}) VALUES ({id}, {u}{values}{value});")
            .expect("a string");
    }
}
