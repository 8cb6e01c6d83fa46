//! Both servers make tables with every type, NULLs, extremes, 30 charsets, instant columns, partitions and large values. Our checksums from
//! the files equal their CHECKSUM TABLE, and our export, loaded back into the server, gives the same checksum.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Run, innokit, repository};
use crate::rows_lab::{Server, table};
use serde_json::Value;

const OF_MYSQL: &str = include_str!("../rows/mysql.sql");
const OF_MARIADB: &str = include_str!("../rows/mariadb.sql");
/// Every code of two bytes, in strings of several charsets.
const CODES: &str = include_str!("../rows/codes.sql");
const CODES_OF_MYSQL: &str = include_str!("../rows/codes_mysql.sql");
/// Of servers since 11.7.
const VECTORS: &str = "CREATE TABLE vec (id INT PRIMARY KEY, v VECTOR(3), w VECTOR(4)); \
    INSERT INTO vec VALUES (1, VEC_FromText('[1,2.5,-3]'), NULL), (2, NULL, VEC_FromText('[0.1,1e10,3e-10,4]'));";

/// Tables whose numbers and dates contain the export's separator. The servers themselves escape it in neither, and cannot load their own
/// files.
const DASHED: [&str; 2] = ["decs", "temps"];

/// Tables whose checksum depends on values that no file contains.
fn is_virtual(kind: &str, name: &str) -> bool {
    kind == "mysql" && ["genv", "fidx", "mvi"].contains(&name)
}

fn checksums_are_the_servers(server: &Server, tables: &[String]) {
    let expected = server.checksums("ty", tables);
    server.stop();
    let list = server.dir.file("expected", expected.as_bytes());
    let list = list.to_str().expect("UTF-8");
    let run = table(&["checksum", "--json", "--compare", list], &[&server.datadir()]);
    let document = run.json();
    let found = document["tables"].as_array().expect("tables");
    assert_eq!(found.len(), tables.len(), "{document:#}");
    let mut equal = 0;
    for sum in found {
        let name = sum["table"].as_str().and_then(|name| name.strip_prefix("ty.")).expect("in ty");
        if is_virtual(server.kind, name) {
            assert!(sum["not_computable"].as_str().is_some_and(|why| why.contains("virtual")), "{sum:#}");
            continue;
        }
        assert_eq!(sum["comparison"], Value::from("equal"), "{sum:#}");
        equal += 1;
    }
    assert!(equal >= 34, "{equal}");
    // The result does not depend on the number of workers or on off-page values.
    let one = table(&["checksum", "--json", "--threads", "1", "--io", "buffered"], &[&server.datadir()]).json();
    let values = |document: &Value| -> Vec<Value> {
        document["tables"].as_array().expect("tables").iter().map(|table| table["checksum"].clone()).collect()
    };
    assert_eq!(values(&one), values(&document));
    server.script("start", &[], "");
}

/// Each file alone in a folder without its definition, and the server's SHOW CREATE TABLE instead: the same rows, the same checksums.
fn statements_stand_in_for_definitions(server: &Server, tables: &[String]) {
    let show: String = tables.iter().map(|table| format!("SELECT '\u{1}'; SHOW CREATE TABLE ty.`{table}`;")).collect();
    let shown = server.script("sql", &["--batch", "--raw", "--skip-column-names"], &show);
    let statement = |row: &str| row.split_once('\t').expect("two columns").1.trim_end().to_owned() + ";\n";
    let statements: String = shown.split("\u{1}\n").skip(1).map(statement).collect();
    let statements = server.dir.file("statements.sql", statements.as_bytes());
    let statements = statements.to_str().expect("UTF-8");
    server.stop();
    let (from, alone) = (server.datadir().join("ty"), server.dir.path().join("alone/ty"));
    std::fs::create_dir_all(&alone).expect("made");
    for entry in std::fs::read_dir(&from).expect("read").map(|entry| entry.expect("read").path()) {
        let name = entry.file_name().expect("a name").to_str().expect("UTF-8");
        if !name.ends_with(".ibd") || name.to_ascii_lowercase().starts_with("fts_") {
            continue;
        }
        let mut bytes = std::fs::read(&entry).expect("read");
        // For MySQL, break the checksum of every SDI leaf; the pages of `zipd` are smaller.
        let page = if name == "zipd.ibd" { 8192 } else { 16384 };
        for page in bytes.chunks_mut(page).filter(|page| page[24..26] == 17853_u16.to_be_bytes()) {
            page[200] ^= 1;
        }
        std::fs::write(alone.join(name), bytes).expect("written");
    }
    let mut compared = 0;
    for name in tables.iter().filter(|name| !name.starts_with("inst") || server.kind != "mysql") {
        let files = |folder: &Path| -> Vec<PathBuf> {
            let all = std::fs::read_dir(folder).expect("read").map(|entry| entry.expect("read").path());
            let is_one = |path: &PathBuf| {
                let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
                let stem = stem.replace("@0023", "#");
                path.extension().is_some_and(|extension| extension == "ibd")
                    && (stem == *name || stem.to_ascii_lowercase().starts_with(&format!("{name}#p#")))
            };
            let mut all: Vec<PathBuf> = all.filter(is_one).collect();
            all.sort();
            all
        };
        let run = |arguments: &[&str], folder: &Path| {
            let files = files(folder);
            assert!(!files.is_empty(), "{name}");
            table(arguments, &files.iter().map(PathBuf::as_path).collect::<Vec<_>>())
        };
        let known = run(&["export", "--history", "--format", "jsonl"], &from);
        assert_eq!(known.status, 0, "{}", known.errors);
        let given = ["export", "--history", "--format", "jsonl", "--skip-damaged", "--create-table", statements];
        let found = run(&given, &alone);
        assert!(found.errors.contains("its definition is from"), "{}: {}", server.kind, found.errors);
        assert!(found.text == known.text, "{}: {name} from a statement: {}", server.kind, found.errors);
        compared += 1;
        // MySQL's files are damaged here, and there is no checksum of half a table.
        if server.kind != "mysql" {
            let known = run(&["checksum", "--json"], &from).json();
            let found = run(&["checksum", "--json", "--create-table", statements], &alone).json();
            assert_eq!(found["tables"][0]["checksum"], known["tables"][0]["checksum"], "{}: {name}", server.kind);
            assert!(known["tables"][0]["checksum"].is_u64(), "{known:#}");
        }
        let schema = run(&["schema", "--create-table", statements], &alone);
        assert!(schema.text.contains("CREATE TABLE"), "{}: {name}: {}", server.kind, schema.errors);
    }
    assert!(compared >= 35, "{compared}");
    if server.kind == "mysql" {
        // No statement tells which rows are older than which column, so this is refused rather than guessed.
        let run = table(&["export", "--skip-damaged", "--create-table", statements], &[&alone.join("inst.ibd")]);
        assert_eq!((run.status, run.text.as_str()), (2, ""), "{}", run.errors);
        assert!(run.errors.contains("does not fit"), "{}", run.errors);
    }
    // Another table's statement fits none of the rows.
    let wrong = server.dir.file("wrong.sql", b"CREATE TABLE big (id INT PRIMARY KEY, b VARCHAR(60), c TEXT)");
    let wrong = wrong.to_str().expect("UTF-8");
    let run = table(&["export", "--skip-damaged", "--create-table", wrong], &[&alone.join("big.ibd")]);
    assert_eq!((run.status, run.text.as_str()), (2, ""), "{}", run.errors);
    server.script("start", &[], "");
}

/// Tables exported as INSERT statements come back unchanged, and so do text tables exported as TSV.
fn exports_come_back(server: &Server, tables: &[String]) {
    // Only here: a server shows codes that it has no character for as question marks.
    let is_mysql = server.kind == "mysql";
    server.sql(&[CODES, if is_mysql { CODES_OF_MYSQL } else { "" }].concat());
    let codes = if is_mysql { &["codes", "codes2"][..] } else { &["codes"] };
    let tables: Vec<String> = tables.iter().cloned().chain(codes.iter().map(|&name| name.to_owned())).collect();
    server.stop();
    let (sql, tsv) = (server.dir.path().join("sql/"), server.dir.path().join("tsv/"));
    let to = |path: &Path| path.to_str().expect("UTF-8").to_owned() + "/";
    for (format, path) in [("sql", &sql), ("tsv", &tsv)] {
        let run = table(&["export", "--history", "--format", format, "-o", &to(path)], &[&server.datadir().join("ty")]);
        assert_eq!(run.status, 0, "{}", run.errors);
        // An INSERT names them by their numbers.
        for column in ["column e: 1 values (", "column s: 2 values ("] {
            assert_eq!(run.errors.contains(&format!("ty.emp: {column}")), format == "tsv", "{}", run.errors);
        }
    }
    if server.kind == "mysql" {
        let run = table(&["export", "--format", "jsonl"], &[&server.datadir().join("ty/jsn.ibd")]);
        assert!(run.errors.contains("ty.jsn: column k: 1 JSON nulls look like NULL"), "{}", run.errors);
    }
    let dashed = |name: &str| server.dir.path().join(format!("dashed.{name}"));
    for name in DASHED {
        let file = dashed(name);
        let args = ["export", "-o", file.to_str().expect("UTF-8"), "--format", "tsv", "--fields-terminated-by", "-"];
        let run = table(&args, &[&server.datadir().join(format!("ty/{name}.ibd"))]);
        assert_eq!(run.status, 0, "{}", run.errors);
    }
    server.script("start", &[], "");
    let mut compared = Vec::new();
    // A DECIMAL in JSON comes back as a DOUBLE from any statement. History rows cannot be inserted. With a multi-valued index, MySQL
    // includes a memory address in the checksum.
    for name in tables.iter().filter(|name| !["vers", "jsn", "mvi"].contains(&name.as_str())) {
        let file = std::fs::read_to_string(sql.join(format!("ty.{name}.sql"))).expect("written");
        let create = format!(
            "CREATE DATABASE IF NOT EXISTS back; DROP TABLE IF EXISTS back.`{name}`; CREATE TABLE back.`{name}` LIKE ty.`{name}`; USE back;\n"
        );
        server.sql(&(create.clone() + &file));
        let name_only = std::slice::from_ref(name);
        let (one, other) = (server.checksums("ty", name_only), server.checksums("back", name_only));
        assert_eq!(one.split('\t').nth(1), other.split('\t').nth(1), "{}: {name} as SQL", server.kind);
        compared.push(name.clone());
    }
    let text = [
        "cs2", "ptl", "ptk", "decs", "temps", "csets", "nopk", "nn8", "big", "parts", "prng", "redu", "comp", "zipd",
        "inst", "prefk", "uniqp", "ft", "cmt",
    ];
    for name in text {
        let file = tsv.join(format!("ty.{name}.tsv"));
        text_comes_back(server, name, &file, "");
        is_what_the_server_writes(server, name, &file);
    }
    for name in DASHED {
        text_comes_back(server, name, &dashed(name), "FIELDS TERMINATED BY '-'");
    }
    assert!(compared.len() >= 35, "{compared:?}");
}

/// A text file loads into the table that it came from.
fn text_comes_back(server: &Server, name: &str, file: &Path, fields: &str) {
    let load = format!(
        "SET time_zone = '+00:00'; SET sql_mode = 'ALLOW_INVALID_DATES'; TRUNCATE back.`{name}`; \
         LOAD DATA INFILE '{}' INTO TABLE back.`{name}` CHARACTER SET utf8mb4 {fields};",
        file.display()
    );
    server.sql(&load);
    let (one, other) = (server.checksums("ty", &[name.to_owned()]), server.checksums("back", &[name.to_owned()]));
    assert_eq!(one.split('\t').nth(1), other.split('\t').nth(1), "{}: {name} as text {fields}", server.kind);
}

fn is_what_the_server_writes(server: &Server, name: &str, file: &Path) {
    let own = server.dir.path().join(format!("own.{name}"));
    server.sql(&format!(
        "SET time_zone = '+00:00'; SELECT * FROM ty.`{name}` INTO OUTFILE '{}' CHARACTER SET utf8mb4;",
        own.display()
    ));
    let sorted = |path: &Path| {
        let bytes = std::fs::read(path).expect("written");
        let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert!(sorted(file) == sorted(&own), "{}: {name} is not what the server writes", server.kind);
}

/// A range of keys has the rows that the server finds in it. Bounds that the column cannot store lie between its values.
fn ranges_are_the_servers(server: &Server) {
    let ranges = [
        ("dkey", "d", ["-12.5", "812.3755"]),
        ("dkey", "d", ["-99999999999999", "0"]),
        ("dkey", "d", ["0.0005", "999999999.9999"]),
        ("tkey", "t", ["2020-09-14 00:00:00", "2020-09-20 12:00:00.7505"]),
        ("tkey", "t", ["1969-12-31 00:00:00", "2020-09-15"]),
        ("ptk", "k", ["2001-02-03 04:05:06.0005", "2030-01-01"]),
        ("dkey", "d, t", ["(-12.5,'1999-12-31 23:00:00')", "(812.3755,'1999-12-31 23:30:00')"]),
        ("dkey", "d, t", ["(100,'1999-12-31 22:00:00.5')", "(100.001,'1999-12-31 23:59:59')"]),
        ("ptk", "k, id", ["('2001-02-03 04:09:06.789',7)", "('2001-02-03 04:45:06.789',300)"]),
    ];
    let counts: Vec<String> = ranges
        .iter()
        .map(|(name, column, [from, to])| {
            let quoted = |bound: &str| if bound.starts_with('(') { bound.to_owned() } else { format!("'{bound}'") };
            let (from, to) = (quoted(from), quoted(to));
            let sql = format!(
                "SET time_zone = '+00:00'; SELECT COUNT(*) FROM ty.{name} WHERE ({column}) >= {from} AND ({column}) <= {to}"
            );
            server.sql(&sql).trim().to_owned()
        })
        .collect();
    server.stop();
    let mut found = 0;
    for ((name, column, [from, to]), count) in ranges.iter().zip(counts) {
        let range = format!("{from}..{to}");
        let args = [
            "export",
            "--database",
            "ty",
            "--table",
            name,
            "--columns",
            &column.replace(", ", ","),
            "--where-key",
            &range,
        ];
        let run = table(&args, &[&server.datadir()]);
        assert_eq!(run.status, 0, "{name} {range}: {}", run.errors);
        assert_eq!(run.text.lines().count().to_string(), count, "{}: {name} {range}", server.kind);
        found += run.text.lines().count();
    }
    assert!(found > 100, "{}: {found}", server.kind);
    server.script("start", &[], "");
}

/// The expression that shows a column's value to `rows/readers.py` without losing anything.
#[cfg(feature = "parquet")]
fn shown(kind: &str, column: &str) -> String {
    let text =
        ["char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "inet4", "inet6"];
    match kind {
        // A FLOAT is shown with six digits and a DOUBLE(12,4) with four decimals: neither is the stored number.
        "float" | "double" => format!("{column}+0e0"),
        "bit" => format!("{column}+0"),
        "uuid" => column.to_owned(),
        _ if text.contains(&kind) => format!("HEX(CONVERT({column} USING utf8mb4))"),
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "year" => column.to_owned(),
        "date" | "time" | "datetime" | "timestamp" => column.to_owned(),
        _ => format!("HEX({column})"),
    }
}

/// From our Parquet and Arrow files, pyarrow, DuckDB and Polars read the documented types and the server's own values.
#[cfg(feature = "parquet")]
fn readers_see_what_the_server_shows(server: &Server, tables: &[String]) {
    let folder = server.dir.path().join("readers");
    std::fs::create_dir(&folder).expect("made");
    // History rows, and the period of each row, are tested separately.
    let compared: Vec<&String> = tables.iter().filter(|name| *name != "vers").collect();
    for name in &compared {
        let columns = server.sql(&format!(
            "SELECT column_name, data_type, column_type FROM information_schema.columns WHERE table_schema = 'ty' \
             AND table_name = '{name}' AND extra NOT LIKE '%VIRTUAL%' ORDER BY ordinal_position"
        ));
        let select: Vec<String> = columns
            .lines()
            .map(|line| {
                let mut words = line.split('\t');
                let column = words.next().expect("a name").replace('`', "``");
                shown(words.next().expect("a type"), &format!("`{column}`"))
            })
            .collect();
        let rows = server.sql(&format!("SET time_zone = '+00:00'; SELECT {} FROM ty.`{name}`", select.join(",")));
        std::fs::write(folder.join(format!("{name}.columns")), columns).expect("written");
        std::fs::write(folder.join(format!("{name}.rows")), rows).expect("written");
    }
    server.stop();
    let to = folder.to_str().expect("UTF-8").to_owned() + "/";
    for format in ["parquet", "arrow"] {
        let run = table(&["export", "--format", format, "-o", &to], &[&server.datadir().join("ty")]);
        assert_eq!(run.status, 0, "{}", run.errors);
        // Reported, not done silently.
        assert!(run.errors.contains("ty.temps: column d: 1 impossible dates or times"), "{}", run.errors);
        assert!(run.errors.contains("ty.emp: column e: 1 values ("), "{}", run.errors);
    }
    let home = std::env::var_os("INNOKIT_SERVERS").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/innokit"))).expect("a home");
    let python = home.join("python-readers/bin/python");
    let script = repository().join("crates/innokit/tests/rows/readers.py");
    let output = Command::new(python).arg(script).arg(&folder).output().expect("`make readers` installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}{}", server.kind, String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with(&format!("{} tables, ", compared.len())), "{said}");
    server.script("start", &[], "");
}

/// Definitions from the files create tables on an empty server, which then imports the files.
fn an_empty_server_imports_the_files(server: &Server, tables: &[&str]) {
    let names: Vec<String> = tables.iter().map(|name| (*name).to_owned()).collect();
    let expected = server.checksums("ty", &names);
    server.stop();
    let empty = Server::empty(server.kind);
    empty.sql("CREATE DATABASE ty");
    for name in tables {
        let file = server.datadir().join(format!("ty/{name}.ibd"));
        let schema = table(&["schema"], &[&file]);
        assert_eq!(schema.status, 0, "{}", schema.errors);
        // Some defaults are zero dates.
        empty.sql(&format!("SET sql_mode = ''; USE ty;\n{}ALTER TABLE `{name}` DISCARD TABLESPACE;", schema.text));
        std::fs::copy(&file, empty.datadir().join(format!("ty/{name}.ibd"))).expect("copied");
        empty.sql(&format!("ALTER TABLE ty.`{name}` IMPORT TABLESPACE"));
    }
    assert_eq!(empty.checksums("ty", &names), expected, "{}", server.kind);
    server.script("start", &[], "");
}

/// Tables that the servers import without a `.cfg` file: no secondary indexes (MariaDB), no row versions (MySQL), one file.
const IMPORTED: [&str; 16] = [
    "nums", "decs", "temps", "strs", "csets", "cs2", "geo", "nopk", "nn8", "defs", "empty1", "comp", "redu", "lobs",
    "wide", "dkey",
];

/// A DELETE of a range frees whole pages, whose rows are found: on MySQL all of them; MariaDB overwrites what it purges with zeros, but not
/// what is on a page that it gives up.
fn rows_on_freed_pages_are_found(server: &Server) {
    server.sql(
        "USE ty; CREATE TABLE ty.ranged (id INT PRIMARY KEY, v VARCHAR(200));
         INSERT INTO ty.ranged WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i+1 FROM n WHERE i<900) SELECT i, REPEAT(SHA2(i, 224), 3) FROM n;
         INSERT INTO ty.ranged SELECT id + 900, REPEAT(SHA2(id + 900, 224), 3) FROM ty.ranged;
         INSERT INTO ty.ranged SELECT id + 1800, REPEAT(SHA2(id + 1800, 224), 3) FROM ty.ranged;
         SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;",
    );
    let file = server.datadir().join("ty/ranged.ibd");
    let rows = |options: &[&str]| -> Vec<Value> {
        let run = table(&[&["export", "--format", "jsonl"], options].concat(), &[&file]);
        assert_eq!(run.status, 0, "{}", run.errors);
        run.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let id = |row: &Value| row["id"].as_i64().expect("a number");
    server.stop();
    let all: BTreeMap<i64, Value> = rows(&[]).iter().map(|row| (id(row), row["v"].clone())).collect();
    assert_eq!(all.len(), 3600);
    server.script("start", &[], "");
    server.sql("DELETE FROM ty.ranged WHERE id BETWEEN 501 AND 3000");
    server.stop();
    let found = rows(&["--deleted"]);
    for row in &found {
        assert_eq!((&row["innokit_state"], &row["v"]), (&Value::from("freed"), &all[&id(row)]), "{}", server.kind);
    }
    let deleted: BTreeSet<i64> = found.iter().map(id).filter(|id| (501..=3000).contains(id)).collect();
    println!("{}: {} of 2,500 rows of a range", server.kind, deleted.len());
    if server.kind == "mysql" {
        assert!(deleted.len() > 2400, "{}", deleted.len());
    }
    // Ranges of keys and limits apply there too.
    let some = rows(&["--deleted", "--where-key", "1000..1100"]);
    assert!(some.iter().all(|row| (1000..=1100).contains(&id(row))), "{some:?}");
    assert_eq!(rows(&[]).len(), 1100);
    server.script("start", &[], "");
    server.sql("DROP TABLE ty.ranged");
}

/// A DELETE before and after purge: every row is found and marked as deleted.
fn deleted_rows_are_found(server: &Server) {
    server.sql(
        "USE ty; CREATE TABLE ty.gone (id INT PRIMARY KEY, v VARCHAR(40)); CREATE TABLE ty.freed LIKE ty.gone;
         INSERT INTO ty.gone WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i+1 FROM n WHERE i<900) SELECT i, LEFT(SHA2(i, 224), 40) FROM n;
         INSERT INTO ty.freed SELECT * FROM ty.gone; DELETE FROM ty.freed WHERE id % 10 = 3;",
    );
    // A clean shutdown purges everything.
    server.stop();
    let rows_in = |datadir: &Path, name: &str, options: &[&str]| {
        let file = datadir.join(format!("ty/{name}.ibd"));
        let run = table(&[&["export", "--format", "jsonl"], options].concat(), &[&file]);
        assert_eq!(run.status, 0, "{}", run.errors);
        let lines = run.text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.map(|row| (row["id"].as_i64().expect("a number"), row)).collect::<Vec<(i64, Value)>>()
    };
    let rows = |name: &str, options: &[&str]| rows_in(&server.datadir(), name, options);
    let (live, freed) = (rows("freed", &[]), rows("freed", &["--deleted"]));
    assert_eq!(live.len(), 810);
    let all: BTreeMap<i64, Value> = rows("gone", &[]).into_iter().collect();
    // Nothing that never was a row. Copies that a page split left behind are included.
    for (id, row) in &freed {
        assert_eq!((&row["innokit_state"], &row["v"]), (&Value::from("freed"), &all[id]["v"]), "{}", server.kind);
    }
    let purged = |id: &i64| id % 10 == 3;
    let found: BTreeSet<i64> = freed.iter().map(|(id, _)| *id).filter(purged).collect();
    println!("{}: {} freed records, {} of 90 purged rows", server.kind, freed.len(), found.len());
    // MariaDB overwrites purged rows with zeros.
    if server.kind == "mysql" {
        assert_eq!(found, all.keys().copied().filter(purged).collect());
    }

    server.script("start", &[], "");
    let mut holder = server.command("sql", &["--batch", "--unbuffered", "ty"]).spawn().expect("bash runs");
    let statements = b"START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT COUNT(*) FROM gone;\n";
    holder.stdin.as_mut().expect("piped").write_all(statements).expect("taken");
    let mut answer = String::new();
    let mut reader = std::io::BufReader::new(holder.stdout.as_mut().expect("piped"));
    std::io::BufRead::read_line(&mut reader, &mut answer).expect("an answer");
    server.sql("DELETE FROM ty.gone WHERE id BETWEEN 101 AND 400; FLUSH TABLES ty.gone FOR EXPORT; UNLOCK TABLES;");
    // With a running server, recovery is always pending, so copy what is flushed.
    let copy = server.dir.path().join("copy");
    std::fs::create_dir_all(copy.join("ty")).expect("made");
    for file in ["ty/gone.ibd", "ty/gone.frm"].iter().filter(|file| server.datadir().join(file).exists()) {
        std::fs::copy(server.datadir().join(file), copy.join(file)).expect("copied");
    }
    let mut deleted = rows_in(&copy, "gone", &["--deleted"]);
    deleted.retain(|(_, row)| row["innokit_state"] == "deleted");
    let ids: Vec<i64> = deleted.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (101..=400).collect::<Vec<_>>(), "{}", server.kind);
    for (id, row) in &deleted {
        assert_eq!(row["v"], all[id]["v"], "{}", server.kind);
    }
    assert_eq!(rows_in(&copy, "gone", &[]).len(), 600);
    drop(holder.stdin.take());
    holder.wait().expect("ends");
    server.sql("DROP TABLE ty.gone, ty.freed");
}

/// A server is killed in the middle of transactions.
fn only_committed_rows(server: &Server) {
    server.sql(
        "USE ty;
         CREATE TABLE ty.added (id INT PRIMARY KEY, v VARCHAR(40)); CREATE TABLE ty.changed LIKE ty.added;
         CREATE TABLE ty.taken LIKE ty.added; CREATE TABLE ty.still LIKE ty.added;
         INSERT INTO ty.added WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i+1 FROM n WHERE i<500) SELECT i, LEFT(SHA2(i, 224), 40) FROM n;
         INSERT INTO ty.changed SELECT * FROM ty.added; INSERT INTO ty.taken SELECT * FROM ty.added;
         INSERT INTO ty.still SELECT * FROM ty.added; CREATE TABLE ty.source AS SELECT * FROM ty.added;",
    );
    // This writes what was committed to the files. No page may be written after that, not even by an idle server, or the log would have
    // nothing left to apply.
    server.stop();
    let unwritten =
        ["--innodb-flush-log-at-trx-commit=1", "--innodb-max-dirty-pages-pct-lwm=0", "--loose-innodb-idle-flush-pct=0"];
    server.script("start", &unwritten, "");
    let mut holder = server.command("sql", &["--batch", "--unbuffered", "ty"]).spawn().expect("bash runs");
    let statements = b"START TRANSACTION; INSERT INTO added SELECT id + 1000, v FROM source; UPDATE changed SET v = 'x' WHERE id = 77; \
        DELETE FROM taken WHERE id = 400; SELECT 'done';\n";
    holder.stdin.as_mut().expect("piped").write_all(statements).expect("taken");
    let mut answer = String::new();
    let mut reader = std::io::BufReader::new(holder.stdout.as_mut().expect("piped"));
    std::io::BufRead::read_line(&mut reader, &mut answer).expect("an answer");
    // A later commit flushes the redo of the open transactions too.
    server.sql("INSERT INTO ty.still VALUES (5000, 'committed')");
    server.script("kill9", &[], "");
    drop(holder.stdin.take());
    holder.wait().expect("ends");

    let export = |name: &str, options: &[&str]| {
        table(&[&["export", "--columns", "id"], options].concat(), &[&server.datadir().join(format!("ty/{name}.ibd"))])
    };
    let before = export("added", &["--committed"]);
    assert_eq!((before.status, before.text.as_str()), (2, ""), "{}", before.errors);
    assert!(before.errors.contains("recovery is pending"), "{}", before.errors);
    let recovered = innokit().args(["recover", "--in-place"]).arg(server.datadir()).output().expect("innokit runs");
    assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let count = |run: &Run| run.text.lines().count();
    let (newest, committed) = (export("added", &[]), export("added", &["--committed"]));
    assert_eq!((newest.status, count(&newest)), (0, 1000), "{}", newest.errors);
    assert_eq!((committed.status, count(&committed)), (0, 500), "{}: {}", server.kind, committed.errors);
    let still = export("still", &["--committed"]);
    assert_eq!((still.status, count(&still)), (0, 501), "{}", still.errors);
    for (name, rows) in [("changed", 499), ("taken", 499)] {
        let refused = export(name, &["--committed"]);
        assert_eq!(refused.status, 2, "{}: {name}: {}", server.kind, refused.errors);
        assert!(refused.errors.contains("which has not committed, has changed or deleted it"), "{}", refused.errors);
        let others = export(name, &["--committed", "--skip-damaged"]);
        assert_eq!((others.status, count(&others)), (2, rows), "{}: {name}: {}", server.kind, others.errors);
    }
    server.script("start", &[], "");
    assert_eq!(server.sql("SELECT COUNT(*) FROM ty.added"), "500\n", "what the server leaves after its rollback");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mysql_deletes_and_does_not_commit() {
    let server = Server::empty("mysql");
    server.sql("CREATE DATABASE ty");
    rows_on_freed_pages_are_found(&server);
    deleted_rows_are_found(&server);
    only_committed_rows(&server);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadb_deletes_and_does_not_commit() {
    let server = Server::empty("mariadb");
    server.sql("CREATE DATABASE ty");
    rows_on_freed_pages_are_found(&server);
    deleted_rows_are_found(&server);
    only_committed_rows(&server);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_younger_mariadb_deletes_and_does_not_commit() {
    let server = Server::empty("mariadb118");
    server.sql("CREATE DATABASE ty");
    rows_on_freed_pages_are_found(&server);
    deleted_rows_are_found(&server);
    only_committed_rows(&server);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mysql_sums_and_takes_back_the_same() {
    let server = Server::new("mysql", OF_MYSQL);
    let tables = server.tables();
    checksums_are_the_servers(&server, &tables);
    statements_stand_in_for_definitions(&server, &tables);
    an_empty_server_imports_the_files(&server, &IMPORTED);
    exports_come_back(&server, &tables);
    ranges_are_the_servers(&server);
    #[cfg(feature = "parquet")]
    readers_see_what_the_server_shows(&server, &tables);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadb_sums_and_takes_back_the_same() {
    let server = Server::new("mariadb", OF_MARIADB);
    let tables = server.tables();
    checksums_are_the_servers(&server, &tables);
    statements_stand_in_for_definitions(&server, &tables);
    an_empty_server_imports_the_files(&server, &IMPORTED);
    exports_come_back(&server, &tables);
    ranges_are_the_servers(&server);
    #[cfg(feature = "parquet")]
    readers_see_what_the_server_shows(&server, &tables);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_younger_mariadb_sums_the_same() {
    let server = Server::new("mariadb118", &format!("{OF_MARIADB}{VECTORS}"));
    let tables = server.tables();
    checksums_are_the_servers(&server, &tables);
    statements_stand_in_for_definitions(&server, &tables);
    an_empty_server_imports_the_files(&server, &IMPORTED);
    #[cfg(feature = "parquet")]
    readers_see_what_the_server_shows(&server, &tables);
}
