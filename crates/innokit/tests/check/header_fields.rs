//! Every field of pages 0 to 3, edited under a correct checksum in tables that real servers made. The server is the judge: it starts and
//! uses the table (open, SELECT, CHECK TABLE, INSERT). `check` must find whatever the server refuses or crashes on, and must not call
//! damaged what the server accepts, except under the few rules in [`STRICTER`].
//!
//! The fields are listed in `header_fields/fields.tsv`. `make test` tries the lines marked `quick`. With `INNOKIT_SOAK` set it tries all
//! lines on MySQL 9.7 and MariaDB 10.11 and 11.8, which takes a quarter of an hour because every crash of a server costs a round.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{innokit, is_soak, repository};
use format::{Algorithm, Lsn, Scheme, SpaceFormat, seal_page};
use serde_json::Value;
use tempfile::TempDir;

const FIELDS: &str = include_str!("../header_fields/fields.tsv");
const PAGE: usize = 16384;

/// Damage to `check` that one of these servers tolerated, and why it is damage.
const STRICTER: [(&str, &str); 4] = [
    ("newer_than_log", "MySQL only logs it, MariaDB drops the table; no sound datadir has it"),
    ("truncated", "a file is made longer before its header counts the pages: one that is shorter was cut"),
    ("misplaced_page", "a page that the first use did not read is as misplaced as any other"),
    ("bad_extent_state", "the server did not come by that extent"),
];

/// A field and its edit.
#[derive(Clone)]
struct Edit {
    name: &'static str,
    page: usize,
    offset: usize,
    bytes: usize,
    change: &'static str,
}

impl Edit {
    /// The edits for a family of servers.
    fn all(family: &str) -> Vec<Self> {
        let is_whole = is_soak();
        let lines = FIELDS.lines().filter(|line| !line.starts_with('#'));
        let rows = lines.map(|line| line.split('\t').collect::<Vec<_>>());
        let wanted = |row: &Vec<&str>| {
            (row[0] == "both" || row[0] == family) && (is_whole || row.get(6).is_some_and(|mark| *mark == "quick"))
        };
        let number = |text: &str| text.parse().expect("a number");
        let edit = |row: Vec<&'static str>| Self {
            name: row[1],
            page: number(row[2]),
            offset: number(row[3]),
            bytes: number(row[4]),
            change: row[5],
        };
        rows.filter(wanted).map(edit).collect()
    }

    fn of(&self, field: &mut [u8]) {
        let old = field.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        let (how, value) = self.change.split_at(1);
        let hex = || u64::from_str_radix(value, 16).expect("hexadecimal");
        let new = match how {
            "=" => hex(),
            "^" => old ^ hex(),
            _ => old.wrapping_add_signed(value.parse().expect("a number")),
        };
        let len = field.len();
        field.copy_from_slice(&new.to_be_bytes()[8 - len..]);
    }

    /// Edits the field in a file and recomputes the page's checksum.
    fn apply(&self, path: &Path) {
        let file = std::fs::File::options().read(true).write(true).open(path).expect("opens");
        let mut head = vec![0; 4 * PAGE];
        file.read_exact_at(&mut head, 0).expect("four pages");
        let format = SpaceFormat::from_page0(&head).expect("a tablespace");
        let page = &mut head[self.page * PAGE..][..PAGE];
        self.of(&mut page[self.offset..][..self.bytes]);
        let lsn = Lsn(u64::from_be_bytes(page[16..24].try_into().expect("8 bytes")));
        let algorithm = if format.scheme() == Scheme::FullCrc32 { Algorithm::FullCrc32 } else { Algorithm::Crc32 };
        seal_page(page, lsn, algorithm, &format).expect("sealed");
        file.write_all_at(page, (self.page * PAGE) as u64).expect("written");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Judgment {
    Accepted,
    Refused,
    Died,
}

/// A server and its datadirs.
struct Servers {
    kind: &'static str,
    folder: TempDir,
}

impl Servers {
    fn script(&self, action: &str, datadir: &Path, input: &str) -> Output {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(datadir);
        if action == "sql" {
            command.args(["--force", "--unbuffered", "--skip-column-names"]);
        } else if action == "stop" {
            command.arg("0");
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash runs");
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.to_owned();
        // A crashed server stops reading.
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("written");
        output
    }

    fn must(&self, action: &str, datadir: &Path, input: &str) {
        let output = self.script(action, datadir, input);
        assert!(output.status.success(), "{action}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A cleanly stopped datadir with one table per edit.
    fn base(&self, tables: usize) -> PathBuf {
        let base = self.folder.path().join("base/data");
        let mut sql = "CREATE DATABASE shop; USE shop; CREATE TABLE d (i INT) ENGINE=InnoDB;\n\
                       INSERT INTO d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);\n\
                       CREATE TABLE n ENGINE=InnoDB AS SELECT a.i+10*b.i+100*c.i i FROM d a, d b, d c;\n"
            .to_owned();
        for table in 0..tables {
            sql += &format!(
                "CREATE TABLE t{table} (id INT PRIMARY KEY, a INT, b VARCHAR(200), KEY (a)) ENGINE=InnoDB STATS_AUTO_RECALC=0;\n\
                 INSERT INTO t{table} SELECT i, i%77, REPEAT('x',100+i%90) FROM n WHERE i < 700;\n\
                 DELETE FROM t{table} WHERE id%3=0 AND id<300;\n"
            );
        }
        self.must("init", &base, "");
        self.must("start", &base, "");
        self.must("sql", &base, &sql);
        // Purge is complete. Otherwise the judging server would sooner or later purge its way into an edited page on its own.
        self.must("stop", &base, "");
        base
    }

    /// A copy of the base with the edits applied to their tables.
    fn edited(&self, base: &Path, edits: &BTreeMap<usize, Edit>) -> PathBuf {
        let folder = self.folder.path().join("run");
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).expect("a folder");
        crate::common::copy(base, &folder);
        for (table, edit) in edits {
            edit.apply(&folder.join(format!("data/shop/t{table}.ibd")));
        }
        folder.join("data")
    }

    /// The server's answer about each table, until one of them crashes it. `seconds` later it must still be running.
    fn first_use(&self, datadir: &Path, edits: &BTreeMap<usize, Edit>, seconds: u32) -> BTreeMap<usize, Judgment> {
        self.must("start", datadir, "");
        let mut sql = "USE shop;\n".to_owned();
        for table in edits.keys() {
            sql += &format!(
                "SELECT 'BEGIN {table};';\nSELECT COUNT(*), SUM(LENGTH(b)) FROM t{table};\n\
                 SELECT COUNT(a) FROM t{table} FORCE INDEX (a);\nCHECK TABLE t{table};\n\
                 INSERT INTO t{table} SELECT i+10000, i%77, REPEAT('y',190) FROM n;\nSELECT COUNT(*) FROM t{table};\n\
                 DELETE FROM t{table} WHERE id > 9000;\n\
                 INSERT INTO t{table} SELECT i+20000, i%77, REPEAT('z',190) FROM n WHERE i < 300;\n\
                 CHECK TABLE t{table};\nDO SLEEP({seconds});\nSELECT 'END {table};';\n"
            );
        }
        // Two streams, matched by the line numbers that the client prints.
        let output = self.script("sql", datadir, &sql);
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let mut judged = BTreeMap::new();
        for (place, table) in edits.keys().enumerate() {
            let lines = 11 * place + 2..11 * place + 13;
            let of_table = |line: &&str| {
                let number = line.split("at line ").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok());
                number.is_some_and(|number: usize| lines.contains(&number))
            };
            let wrong: Vec<&str> = errors.lines().filter(of_table).collect();
            let is_lost = wrong.iter().any(|line| line.contains("ERROR 2013") || line.contains("ERROR 2006"));
            let (start, end) = (format!("BEGIN {table};\n"), format!("END {table};\n"));
            let Some((_, answers)) = text.split_once(&start) else { break };
            let Some((answers, _)) = answers.split_once(&end).filter(|_| !is_lost) else {
                judged.insert(*table, Judgment::Died);
                break;
            };
            let checks = answers.lines().filter(|line| line.contains("\tcheck\t"));
            let is_fine = wrong.is_empty() && checks.clone().all(|line| line.ends_with("OK"));
            judged.insert(*table, if is_fine { Judgment::Accepted } else { Judgment::Refused });
        }
        drop(self.script("kill9", datadir, ""));
        judged
    }

    /// The server's answer about one table alone.
    ///
    /// Purge runs in the background. It may complain about a table, or crash on it, only while the next table is being tried, which would
    /// then be judged in its place.
    fn judge_alone(&self, base: &Path, table: usize, edit: &Edit) -> Judgment {
        const PURGED_S: u32 = 10;
        let edits = BTreeMap::from([(table, edit.clone())]);
        let datadir = self.edited(base, &edits);
        self.first_use(&datadir, &edits, PURGED_S).remove(&table).expect("a judgment")
    }
}

/// Severity and reason of the findings, by table.
type Found = BTreeMap<usize, Vec<(String, String)>>;

/// Severity and reason of what `innokit COMMAND` finds, by table.
fn found(command: &[&str], datadir: &Path) -> Found {
    let run = innokit().args(command).args(["--json", "--max-findings", "100000"]).arg(datadir).output();
    let output = run.expect("innokit runs");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut found = Found::new();
    for finding in document["findings"].as_array().expect("findings") {
        let path = Path::new(finding["path"].as_str().expect("a path"));
        let name = path.file_stem().expect("a name").to_string_lossy();
        let Some(table) = name.strip_prefix('t').and_then(|number| number.parse().ok()) else { continue };
        let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
        found.entry(table).or_default().push((text("severity"), text("reason")));
    }
    found
}

/// How innokit and the server disagree, if they do.
fn disagreement(
    kind: &str,
    edit: &Edit,
    judged: Judgment,
    check: &[(String, String)],
    tables: &[(String, String)],
) -> Option<String> {
    let weighs = |(severity, _): &&(String, String)| severity != "notice";
    if judged != Judgment::Accepted {
        let is_found = check.iter().chain(tables).any(|finding| weighs(&finding));
        return (!is_found).then(|| format!("{}: {judged:?} by {kind}, and not found", edit.name));
    }
    let is_stricter = |reason: &str| STRICTER.iter().any(|(known, _)| *known == reason);
    let (severity, reason) = check.iter().filter(weighs).find(|(_, reason)| !is_stricter(reason))?;
    Some(format!("{}: accepted by {kind}, and called {severity} ({reason})", edit.name))
}

fn matrix(kind: &'static str, family: &str) {
    let edits: BTreeMap<usize, Edit> = Edit::all(family).into_iter().enumerate().collect();
    assert!(edits.len() >= 10, "{} edits", edits.len());
    let servers = Servers { kind, folder: TempDir::new().expect("a folder") };
    let base = servers.base(edits.len());
    let datadir = servers.edited(&base, &edits);
    let (by_check, by_table_check) = (found(&["check"], &datadir), found(&["table", "check"], &datadir));
    let mut judged = BTreeMap::new();
    let mut left = edits.clone();
    while !left.is_empty() {
        let datadir = servers.edited(&base, &left);
        let round = servers.first_use(&datadir, &left, 0);
        assert!(!round.is_empty(), "{kind} answers nothing");
        left.retain(|table, _| !round.contains_key(table));
        judged.extend(round);
    }
    let mut wrong = Vec::new();
    let mut counts = [0; 3];
    for (table, edit) in &edits {
        let of = |found: &Found| found.get(table).cloned().unwrap_or_default();
        let (check, tables) = (of(&by_check), of(&by_table_check));
        let disagree = |judged| disagreement(kind, edit, judged, &check, &tables);
        let mut judgment = judged[table];
        if disagree(judgment).is_some() {
            judgment = servers.judge_alone(&base, *table, edit);
        }
        wrong.extend(disagree(judgment));
        counts[judgment as usize] += 1;
    }
    let [accepted, refused, died] = counts;
    println!("{kind}: {} edits: {accepted} accepted, {refused} refused, {died} killed the server", edits.len());
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn what_mysql_refuses_of_a_header_is_found_and_what_it_accepts_is_not() {
    matrix("mysql", "mysql");
}

#[test]
fn what_mariadb_refuses_of_a_header_is_found_and_what_it_accepts_is_not() {
    matrix("mariadb", "mariadb");
    if is_soak() {
        matrix("mariadb118", "mariadb");
    }
}
