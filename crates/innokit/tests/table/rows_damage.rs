//! Tables with damaged pages. By default export stops and says so. Told to continue, it writes every row of the other pages and nothing
//! that was not in the table.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::common::{Dir, Run, all_datadirs, fixture, innokit};

const PAGE: usize = 16384;

/// A table in its own datadir, with its definition.
struct Table {
    dir: Dir,
    path: PathBuf,
    bytes: Vec<u8>,
    /// Index id of its clustered index.
    index: u64,
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Table {
    fn of(datadir: &str, name: &str) -> Self {
        let (dir, from) = (Dir::new(), all_datadirs().join(datadir));
        std::fs::create_dir(dir.path().join("shop")).expect("a folder");
        for file in ["ibdata1".to_owned(), format!("shop/{name}.frm"), format!("shop/{name}.ibd")] {
            if from.join(&file).exists() {
                std::fs::copy(from.join(&file), dir.path().join(&file)).expect("copied");
            }
        }
        let path = dir.path().join(format!("shop/{name}.ibd"));
        let bytes = std::fs::read(&path).expect("read");
        let indexes = bytes.chunks(PAGE).filter(|page| number(page, 24, 2) == 17855).map(|page| number(page, 66, 8));
        // The clustered index has the lowest id.
        let index = indexes.min().expect("an index");
        Self { dir, path, bytes, index }
    }

    /// The clustered index's pages at that level.
    fn pages(&self, level: u64) -> Vec<usize> {
        let is_it = |page: &[u8]| {
            number(page, 24, 2) == 17855 && number(page, 66, 8) == self.index && number(page, 64, 2) == level
        };
        self.bytes.chunks(PAGE).enumerate().filter(|(_, page)| is_it(page)).map(|(number, _)| number).collect()
    }

    fn top(&self) -> usize {
        let level = (1..5).rev().find(|level| !self.pages(*level).is_empty()).expect("a tree of levels");
        self.pages(level)[0]
    }

    /// Damages pages in their middle. The next call restores them first.
    fn damage(&self, pages: &[usize]) {
        let mut bytes = self.bytes.clone();
        pages.iter().for_each(|page| bytes[page * PAGE + 5000] ^= 0x55);
        std::fs::write(&self.path, bytes).expect("written");
    }

    fn export(&self, options: &[&str]) -> Run {
        Run::of(&innokit().args(["table", "export"]).args(options).arg(&self.path).output().expect("innokit runs"))
    }

    fn live_rows(&self, page: usize) -> usize {
        let page = &self.bytes[page * PAGE..][..PAGE];
        let (mut at, mut live) = (99_usize, 0);
        loop {
            at = (at + number(page, at - 2, 2) as usize) & 0xFFFF;
            if at == 112 {
                return live;
            }
            live += usize::from(page[at - 5] & 0x20 == 0);
        }
    }
}

fn lines(run: &Run) -> BTreeSet<&str> {
    run.text.lines().collect()
}

fn rows_of_sound_pages_come_out(datadir: &str) {
    let table = Table::of(datadir, "row_dynamic");
    let sound = table.export(&[]);
    assert_eq!((sound.status, sound.errors.as_str()), (0, ""));
    let all = lines(&sound);
    let leaves = table.pages(0);
    let live: usize = leaves.iter().map(|page| table.live_rows(*page)).sum();
    assert_eq!((all.len(), sound.text.lines().count()), (live, live), "{datadir}");

    let damaged = [leaves[1], leaves[leaves.len() / 2], leaves[leaves.len() - 2]];
    table.damage(&damaged);
    let missing: usize = damaged.iter().map(|page| table.live_rows(*page)).sum();
    let stopped = table.export(&[]);
    assert_eq!(stopped.status, 1);
    assert!(lines(&stopped).is_subset(&all) && stopped.text.lines().count() < live - missing, "{}", stopped.errors);
    let skipped = table.export(&["--skip-damaged"]);
    assert_eq!(skipped.status, 1);
    assert!(lines(&skipped).is_subset(&all));
    assert_eq!(skipped.text.lines().count(), live - missing, "{}", skipped.errors);
    for page in damaged {
        assert!(skipped.errors.contains(&format!("page {page} is damaged")), "{}", skipped.errors);
    }
    assert_eq!(skipped.errors.matches("the rows from").count(), 3, "{}", skipped.errors);

    // Without the root, and without every page above the leaves.
    let inner: Vec<usize> = (1..5).flat_map(|level| table.pages(level)).collect();
    for pages in [vec![table.top()], inner] {
        table.damage(&pages);
        assert_eq!(table.export(&[]).status, 1);
        let found = table.export(&["--skip-damaged"]);
        assert_eq!((found.status, found.text.lines().count()), (1, live), "{}", found.errors);
        assert!(
            lines(&found) == all && found.errors.contains("leaves found that no page points to"),
            "{}",
            found.errors
        );
    }
    let sum = innokit().args(["table", "checksum"]).arg(table.dir.path()).output().expect("innokit runs");
    assert_eq!(sum.status.code(), Some(1), "no checksum of half a table");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn rows_of_sound_pages_come_out_of_a_damaged_table_of_mysql() {
    rows_of_sound_pages_come_out("mysql-16k");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn rows_of_sound_pages_come_out_of_a_damaged_table_of_mariadb() {
    rows_of_sound_pages_come_out("mariadb-16k");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_lost_off_page_value_costs_its_row_and_no_other() {
    for datadir in ["mysql-16k", "mariadb-16k"] {
        let table = Table::of(datadir, "blobs");
        let sound = table.export(&["--format", "jsonl"]);
        assert_eq!(sound.status, 0, "{}", sound.errors);
        let is_value = |page: &[u8]| matches!(number(page, 24, 2), 10 | 22 | 23 | 24);
        let values: Vec<usize> =
            table.bytes.chunks(PAGE).enumerate().filter(|(_, page)| is_value(page)).map(|(number, _)| number).collect();
        table.damage(&values);
        let skipped = table.export(&["--format", "jsonl", "--skip-damaged"]);
        assert!(lines(&skipped).is_subset(&lines(&sound)), "{datadir}");
        let told = skipped.errors.matches("; missing: one row").count();
        assert_eq!((skipped.status, skipped.text.lines().count() + told), (1, sound.text.lines().count()), "{datadir}");
        assert!(told > 0, "{datadir}");
        // All columns stored in the rows are complete.
        assert_eq!(table.export(&["--columns", "id"]).text.lines().count(), sound.text.lines().count(), "{datadir}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn deleted_rows_are_marked_and_are_not_among_the_others() {
    let table = Table::of("mysql-16k", "row_dynamic");
    let live = table.export(&["--columns", "id"]);
    let deleted = table.export(&["--columns", "id", "--deleted", "--format", "jsonl"]);
    assert_eq!(deleted.status, 0, "{}", deleted.errors);
    let marked = deleted.text.lines().filter(|line| line.contains("\"innokit_state\":\"deleted\"")).count();
    let freed = deleted.text.lines().filter(|line| line.contains("\"innokit_state\":\"freed\"")).count();
    assert_eq!(marked + freed, deleted.text.lines().count());
    assert!(!live.text.is_empty());
}

/// Without page 0, without the root and page 0, and without page 0 and every page above the leaves.
fn rows_come_out_without_page_0(datadir: &str) {
    let table = Table::of(datadir, "row_dynamic");
    let sound = table.export(&["--format", "jsonl"]);
    assert_eq!(sound.status, 0, "{}", sound.errors);
    let inner: Vec<usize> = (1..5).flat_map(|level| table.pages(level)).collect();
    for others in [Vec::new(), vec![table.top()], inner] {
        table.damage(&[&[0][..], &others].concat());
        let stopped = table.export(&["--format", "jsonl"]);
        assert_eq!((stopped.status, stopped.text.as_str()), (1, ""), "{datadir}: {}", stopped.errors);
        assert!(stopped.errors.contains("page 0 is damaged"), "{}", stopped.errors);
        let found = table.export(&["--format", "jsonl", "--skip-damaged"]);
        assert_eq!(found.status, 1, "{datadir}");
        assert!(lines(&found) == lines(&sound), "{datadir}, without page 0 and {others:?}: {}", found.errors);
        assert!(found.errors.contains("page 0 is damaged"), "{}", found.errors);
        for page in &others {
            assert!(found.errors.contains(&format!("page {page} is damaged")), "{}", found.errors);
        }
    }
    let sum = Run::of(&innokit().args(["table", "checksum"]).arg(&table.path).output().expect("innokit runs"));
    assert_eq!(sum.status, 1, "{}", sum.text);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn rows_come_out_of_a_table_of_mysql_without_page_0() {
    rows_come_out_without_page_0("mysql-16k");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn rows_come_out_of_a_table_of_mariadb_without_page_0() {
    rows_come_out_without_page_0("mariadb-16k");
}

/// The server's own statement; `table schema` is tested to print the same.
fn statement(table: &Table) -> PathBuf {
    let schema = Run::of(&innokit().args(["table", "schema"]).arg(&table.path).output().expect("innokit runs"));
    assert_eq!(schema.status, 0, "{}", schema.errors);
    table.dir.file("row_dynamic.sql", schema.text.as_bytes())
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_statement_stands_in_for_a_lost_dictionary_of_mysql() {
    let table = Table::of("mysql-16k", "row_dynamic");
    let (sql, sound) = (statement(&table), table.export(&[]));
    // Page 3 is the whole SDI tree.
    for pages in [vec![3], vec![0, 3], vec![0, 3, table.top()]] {
        table.damage(&pages);
        let without = table.export(&["--skip-damaged"]);
        assert_eq!((without.status, without.text.as_str()), (2, ""), "{}", without.errors);
        assert!(without.errors.contains("give one with --create-table"), "{}", without.errors);
        let found = table.export(&["--skip-damaged", "--create-table", sql.to_str().expect("UTF-8")]);
        assert_eq!(found.status, 1, "{}", found.errors);
        assert!(lines(&found) == lines(&sound), "without {pages:?}: {}", found.errors);
        assert!(found.errors.contains("its definition is from"), "{}", found.errors);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_is_left_of_a_lost_dictionary_of_mariadb_defines_the_rows() {
    let table = Table::of("mariadb-16k", "row_dynamic");
    let (sql, sound) = (statement(&table), table.export(&[]));
    let system = table.dir.path().join("ibdata1");
    let mut bytes = std::fs::read(&system).expect("read");
    // The page that stores the roots of the dictionary's tables.
    bytes[7 * PAGE + 100] ^= 0x55;
    std::fs::write(&system, bytes).expect("written");
    let found = table.export(&[]);
    assert_eq!(found.status, 0, "{}", found.errors);
    assert!(lines(&found) == lines(&sound) && found.errors.contains("row_dynamic.frm"), "{}", found.errors);
    std::fs::remove_file(&system).expect("removed");
    table.damage(&[0, table.top()]);
    let found = table.export(&["--skip-damaged"]);
    assert!(found.status == 1 && lines(&found) == lines(&sound), "{}", found.errors);
    std::fs::remove_file(table.path.with_extension("frm")).expect("removed");
    assert_eq!(table.export(&["--skip-damaged"]).status, 2);
    let found = table.export(&["--skip-damaged", "--create-table", sql.to_str().expect("UTF-8")]);
    assert!(found.status == 1 && lines(&found) == lines(&sound), "{}", found.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_statement_that_does_not_fit_gives_no_rows() {
    let table = Table::of("mariadb-16k", "row_dynamic");
    std::fs::remove_file(table.path.with_extension("frm")).expect("removed");
    for sql in [
        "CREATE TABLE row_dynamic (id INT NOT NULL, a INT, b VARCHAR(60), PRIMARY KEY (id)) DEFAULT CHARSET=latin1",
        "CREATE TABLE row_dynamic (id BIGINT NOT NULL, a INT, b VARCHAR(60), c TEXT, PRIMARY KEY (id)) DEFAULT CHARSET=latin1",
        "CREATE TABLE other (a INT); CREATE TABLE another (a INT)",
        "SELECT 1",
        "CREATE TABLE row_dynamic (id",
    ] {
        let path = table.dir.file("wrong.sql", sql.as_bytes());
        let run = table.export(&["--skip-damaged", "--create-table", path.to_str().expect("UTF-8")]);
        assert_eq!((run.status, run.text.as_str()), (2, ""), "{sql}: {}", run.errors);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_range_of_keys_is_found_through_the_tree() {
    for datadir in ["mysql-16k", "mariadb-16k"] {
        let table = Table::of(datadir, "row_dynamic");
        let all = table.export(&["--columns", "id"]);
        let ids: Vec<i64> = all.text.lines().map(|id| id.parse().expect("a number")).collect();
        assert!(ids.is_sorted(), "{datadir}");
        for (range, from, to) in
            [("7000..7999", 7000, 7999), ("..12", i64::MIN, 12), ("19000..", 19_000, i64::MAX), ("5..4", 5, 4)]
        {
            let expected: Vec<i64> = ids.iter().copied().filter(|id| (from..=to).contains(id)).collect();
            let found = table.export(&["--columns", "id", "--where-key", range]);
            let found: Vec<i64> = found.text.lines().map(|id| id.parse().expect("a number")).collect();
            assert_eq!(found, expected, "{datadir} {range}");
        }
        assert!(table.export(&["--columns", "id", "-o", "-"]).text == all.text, "{datadir}: `-` is standard output");
        // Damage elsewhere does not matter.
        table.damage(&[*table.pages(0).last().expect("leaves")]);
        assert_eq!(table.export(&["--columns", "id", "--where-key", "..1000"]).status, 0);
        assert_eq!(table.export(&["--where-key", "1000"]).status, 2);
        // Beyond every INT: no row, not even the one with the greatest id.
        assert_eq!(table.export(&["--where-key", "2147483648.."]).text, "");
        let (limited, sampled) = (table.export(&["--limit", "17"]), table.export(&["--sample", "300"]));
        assert_eq!((limited.status, limited.text.lines().count()), (0, 17));
        assert!((100..2000).contains(&sampled.text.lines().count()), "{}", sampled.text.lines().count());
    }
}

/// A limit on the size of files stands for a full disk: the write fails, whatever the user.
#[test]
fn an_export_that_fails_leaves_a_partial_file_and_runs_again() {
    let dir = Dir::new();
    let table = dir.file("t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let (out, partial) = (dir.path().join("t.csv"), dir.path().join("t.csv.partial"));
    let line = |limit: &str| {
        let program = env!("CARGO_BIN_EXE_innokit");
        format!("{limit} exec {program} table export --progress never {} -o {}", table.display(), out.display())
    };
    let run = |limit: &str| {
        Run::of(&std::process::Command::new("bash").args(["-c", &line(limit)]).output().expect("bash runs"))
    };
    let failed = run("ulimit -f 8;");
    assert_eq!(failed.status, 2, "{}", failed.errors);
    assert!(failed.errors.contains("File too large"), "{}", failed.errors);
    assert!(!out.exists() && partial.exists());
    let again = run("");
    assert_eq!(again.status, 0, "{}", again.errors);
    assert!(out.exists() && !partial.exists());
    assert!(run("").errors.contains("exists"), "a whole file is not replaced");
}
