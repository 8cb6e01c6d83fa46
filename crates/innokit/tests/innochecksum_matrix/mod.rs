//! The files and runs that are compared with MySQL's `innochecksum`.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{self, Dir, all_datadirs, fixture, repository};

/// An input file.
pub struct Case {
    /// Its description, for messages and for the table of differences.
    pub name: String,
    /// Its file name as the tools see it, which matters for doublewrite files.
    file: String,
    bytes: Vec<u8>,
}

impl Case {
    fn new(name: &str, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), file: "t.ibd".to_owned(), bytes }
    }

    /// A file of `fixtures/`.
    pub fn fixture(name: &str) -> Self {
        Self::new(name, fixture(name))
    }
}

/// Every fixture except the largest, files from real datadirs, and files that no server writes.
pub fn cases() -> Vec<Case> {
    let folders = ["mysql-9.7", "mariadb-10.11", "broken"];
    let names = folders.iter().flat_map(|folder| common::manifest(folder)).map(|entry| entry.name);
    let mut cases: Vec<_> =
        names.filter(|name| !name.contains("dictionary")).map(|name| Case::fixture(&name)).collect();
    cases.extend(written_by_servers());
    cases.extend(made());
    cases
}

/// Encrypted and page-compressed tablespaces, a later file of a system tablespace, and a doublewrite file in use.
fn written_by_servers() -> Vec<Case> {
    let folder = all_datadirs();
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut paths = smallest(&folder.join("mysql-16k-tde/shop"), "secret", 2);
    paths.extend(smallest(&folder.join("mysql-16k-tde/shop"), "zip", 2));
    paths.extend(smallest(&folder.join("mysql-16k-compressed/shop"), "page_", 2));
    paths.push(folder.join("mysql-8k/ibdata2"));
    paths.push(folder.join("mysql-16k-crashed/#ib_16384_0.dblwr"));
    let case = |path: PathBuf| {
        let name = path.strip_prefix(folder).expect("below the folder").display().to_string();
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        let file = if file.ends_with(".dblwr") { file } else { "t.ibd".to_owned() };
        Case { name, file, bytes: read(&path) }
    };
    paths.into_iter().map(case).collect()
}

/// The smallest files in `folder` whose names begin with `prefix`.
fn smallest(folder: &Path, prefix: &str, count: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("there").map(|entry| entry.expect("an entry"));
    let wanted = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let mut sized: Vec<_> = wanted.map(|entry| (entry.metadata().expect("there").len(), entry.path())).collect();
    sized.sort();
    assert!(sized.len() >= count, "{}: {} files begin with {prefix}", folder.display(), sized.len());
    sized.into_iter().take(count).map(|(_, path)| path).collect()
}

const PAGE: usize = 16384;

/// Puts big-endian numbers into a file of 16 KiB pages.
fn put(bytes: &mut [u8], page: usize, offset: usize, value: &[u8]) {
    bytes[page * PAGE + offset..][..value.len()].copy_from_slice(value);
}

/// An intact tablespace whose pages from the sixth on have no checksums (which its server accepts), so a test can write into them.
fn unchecked() -> Vec<u8> {
    let mut bytes = fixture("mysql-9.7/dynamic-16k.ibd");
    for page in 5..20 {
        put(&mut bytes, page, 0, &0xDEAD_BEEF_u32.to_be_bytes());
        put(&mut bytes, page, PAGE - 8, &0xDEAD_BEEF_u32.to_be_bytes());
    }
    bytes
}

fn made() -> Vec<Case> {
    let good = fixture("mysql-9.7/dynamic-16k.ibd");
    let cut = |len: usize| good[..len].to_vec();
    vec![
        Case::new("empty", Vec::new()),
        Case::new("cut-in-head", cut(1000)),
        Case::new("cut-in-page-0", cut(1024)),
        Case::new("cut-in-page-1", cut(PAGE + 616)),
        Case::new("all-zero", vec![0; 4 * PAGE]),
        Case::new("text", b"no tablespace, but a text of some length\n".repeat(1000)),
        Case::new("types", types()),
        Case::new("undo-states", undo_states()),
        Case::new("stored-checksums", stored_checksums()),
        Case::new("nearly-zero", nearly_zero()),
        Case::new("stored-checksums-zip", stored_checksums_zip()),
        Case::new("later-file", fixture("mysql-9.7/dynamic-8k.ibd")[3 * 8192..].to_vec()),
        Case::new("area", doublewrite_area()),
        Case::new("not-compressed", not_compressed()),
        Case { file: "#ib_16384_0.dblwr".to_owned(), ..Case::new("copies.dblwr", copies()) },
        Case::new("misplaced", misplaced(good)),
        Case::new("misplaced-mariadb", misplaced(fixture("mariadb-10.11/dynamic-16k-crc32.ibd"))),
    ]
}

/// Pages of every type that the summary knows, and of some unknown ones.
fn types() -> Vec<u8> {
    let mut bytes = unchecked();
    let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 18];
    for (page, number) in (5..20).zip(numbers) {
        put(&mut bytes, page, 24, &u16::to_be_bytes(number));
    }
    let more = unchecked();
    let first = bytes.len() / PAGE;
    bytes.extend_from_slice(&more[5 * PAGE..20 * PAGE]);
    for (page, number) in (first..).zip([19, 20, 21, 22, 23, 24, 25, 29, 30, 17853, 17854, 17855, 17856, 34354, 65535])
    {
        put(&mut bytes, page, 24, &u16::to_be_bytes(number));
    }
    bytes
}

/// Undo pages of all types and states, and of some undefined ones.
fn undo_states() -> Vec<u8> {
    let mut bytes = unchecked();
    for (page, number) in (5..20).zip(0_u16..) {
        put(&mut bytes, page, 24, &2_u16.to_be_bytes());
        put(&mut bytes, page, 38, &(number % 4).to_be_bytes());
        put(&mut bytes, page, 56, &(number % 10).to_be_bytes());
    }
    bytes
}

/// Pages whose two checksum fields hold right and wrong values of several algorithms.
fn stored_checksums() -> Vec<u8> {
    use format::checksum;
    let mut bytes = unchecked();
    let magic = 0xDEAD_BEEF_u32;
    for page in 5..20 {
        put(&mut bytes, page, 0, &0_u32.to_be_bytes());
        put(&mut bytes, page, 16, &((7_u64 << 32) | 99).to_be_bytes());
        put(&mut bytes, page, PAGE - 4, &99_u32.to_be_bytes());
        let body = bytes[page * PAGE..][..PAGE].to_vec();
        let new = checksum::innodb_new(&body);
        let header =
            [new, 0, new, 0, magic, magic, 0, new, magic, new, 5, 0, checksum::crc32(&body), magic, 7][page - 5];
        put(&mut bytes, page, 0, &header.to_be_bytes());
        let old = checksum::innodb_old(&bytes[page * PAGE..][..PAGE]);
        let trailer = [old, old, 7, 7, magic, 0, magic, magic, old, 5, old, 0, 5, checksum::crc32(&body), 7][page - 5];
        put(&mut bytes, page, PAGE - 8, &trailer.to_be_bytes());
    }
    bytes
}

/// Pages of zeros with one other byte.
fn nearly_zero() -> Vec<u8> {
    let mut bytes = fixture("mysql-9.7/dynamic-16k.ibd");
    bytes.truncate(PAGE);
    for offset in [0, 3, 4, 7, 8, 16, 23, 24, 26, 33, 34, 37, 38, PAGE - 9, PAGE - 8, PAGE - 5, PAGE - 4, PAGE - 1] {
        let mut page = vec![0; PAGE];
        page[offset] = 5;
        bytes.extend_from_slice(&page);
    }
    bytes
}

fn stored_checksums_zip() -> Vec<u8> {
    const PAGE: usize = 8192;
    let source = fixture("mysql-9.7/zip-8k.ibd");
    let mut bytes = source[..PAGE].to_vec();
    for checksum in [0xDEAD_BEEF_u32, 0, 77, format::checksum::zip_adler(&source[5 * PAGE..6 * PAGE])] {
        let mut page = source[5 * PAGE..6 * PAGE].to_vec();
        page[..4].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend_from_slice(&page);
    }
    for offset in [0, 4, 16, 20, 26, 34, PAGE - 1] {
        let mut page = vec![0; PAGE];
        page[offset] = 1;
        bytes.extend_from_slice(&page);
    }
    bytes
}

/// A system tablespace with damage before, in and after the doublewrite area.
fn doublewrite_area() -> Vec<u8> {
    let mut bytes = fixture("mysql-9.7/system-16k.ibd");
    let page = bytes[6 * PAGE..7 * PAGE].to_vec();
    for place in [40, 63, 64, 100, 191, 192, 200] {
        put(&mut bytes, place, 0, &page);
        put(&mut bytes, place, 0, &7_u32.to_be_bytes());
    }
    bytes
}

/// A doublewrite file with copies of pages of several tablespaces, one of them stale and torn.
fn copies() -> Vec<u8> {
    let (dynamic, updated) = (fixture("mysql-9.7/dynamic-16k.ibd"), fixture("mysql-9.7/system-16k.ibd"));
    let mut bytes = [&dynamic[4 * PAGE..9 * PAGE], &updated[5 * PAGE..8 * PAGE], &dynamic[..PAGE]].concat();
    put(&mut bytes, 2, PAGE / 2, &[0xA5; 64]);
    bytes
}

/// A plain page whose header says that it is compressed.
fn not_compressed() -> Vec<u8> {
    let mut bytes = fixture("mysql-9.7/dynamic-16k.ibd");
    put(&mut bytes, 7, 24, &14_u16.to_be_bytes());
    bytes
}

/// Two swapped pages.
fn misplaced(mut bytes: Vec<u8>) -> Vec<u8> {
    let sixth = bytes[6 * PAGE..7 * PAGE].to_vec();
    bytes.copy_within(7 * PAGE..8 * PAGE, 6 * PAGE);
    put(&mut bytes, 7, 0, &sixth);
    bytes
}

/// Which program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `innokit innochecksum`.
    Ours,
    /// MySQL's.
    MySql,
    /// MariaDB's.
    MariaDb,
}

impl Tool {
    fn command(self) -> Command {
        let server = |kind: &str| {
            let mut command = Command::new(repository().join("scripts/server.sh"));
            command.args([kind, "innochecksum"]);
            command
        };
        match self {
            Self::Ours => {
                let mut command = common::innokit();
                command.arg("innochecksum");
                command
            }
            Self::MySql => server("mysql"),
            Self::MariaDb => server("mariadb"),
        }
    }
}

/// The outcome of a run.
#[derive(PartialEq, Eq)]
pub struct Observed {
    /// Exit status.
    pub status: Option<i32>,
    /// Killed by a signal.
    pub crashed: bool,
    /// `stdout`, `stderr`, and every file in the directory.
    parts: BTreeMap<String, Vec<u8>>,
}

impl Observed {
    /// One of them as text; empty if it does not exist.
    pub fn text(&self, part: &str) -> String {
        self.parts.get(part).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    /// A short description of the first difference.
    pub fn first_difference(&self, other: &Self) -> String {
        let names = self.parts.keys().chain(other.parts.keys());
        let Some(name) = names.clone().find(|name| self.parts.get(*name) != other.parts.get(*name)) else {
            return format!("status {:?} and {:?}", self.status, other.status);
        };
        let (left, right) = (self.text(name), other.text(name));
        let same = left.lines().zip(right.lines()).take_while(|(left, right)| left == right).count();
        let line = |text: &str| text.lines().nth(same).unwrap_or("(end)").chars().take(200).collect::<String>();
        format!(
            "status {:?}, {:?}; {name} line {same}:\n  {}\n  {}",
            self.status,
            other.status,
            line(&left),
            line(&right)
        )
    }
}

/// Runs a tool on a case in a new directory.
pub fn observe(tool: Tool, case: &Case, options: &[&str]) -> Observed {
    let dir = Dir::new();
    dir.file(&case.file, &case.bytes);
    match options.split_last() {
        Some((&"-", options)) => run(tool, dir.path(), options, &["-"], Some(&case.bytes)),
        _ => run(tool, dir.path(), options, &[&case.file], None),
    }
}

/// Runs a tool with a whole command line, in which FILE is a damaged tablespace, GOOD an intact one and `directory` a directory.
pub fn command_line(tool: Tool, words: &[&str]) -> Observed {
    let dir = Dir::new();
    let good = fixture("mysql-9.7/dynamic-16k.ibd");
    dir.file("FILE", &fixture("broken/flipped-bit-mysql-16k.ibd"));
    dir.file("GOOD", &good);
    std::fs::create_dir(dir.path().join("directory")).expect("made");
    let stdin = words.contains(&"-").then_some(good.as_slice());
    run(tool, dir.path(), words, &[], stdin)
}

/// Runs a tool in `dir` and collects what it leaves there.
pub fn run(tool: Tool, dir: &Path, options: &[&str], files: &[&str], stdin: Option<&[u8]>) -> Observed {
    let mut command = tool.command();
    command.current_dir(dir).args(options).args(files).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().expect("it runs");
    let pipe = child.stdin.take().zip(stdin);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            // A tool may close its input early.
            if let Some((mut pipe, bytes)) = pipe {
                drop(pipe.write_all(bytes));
            }
        });
        child.wait_with_output().expect("it ends")
    });
    let mut parts = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("there").map(|entry| entry.expect("an entry")) {
        let content = std::fs::read(entry.path()).unwrap_or_default();
        parts.insert(entry.file_name().to_string_lossy().into_owned(), content);
    }
    parts.insert("stdout".to_owned(), output.stdout);
    parts.insert("stderr".to_owned(), own_name(&output.stderr));
    if let Some(log) = parts.get_mut("log") {
        *log = without_progress(log);
    }
    // The shell that runs the real tools turns a signal into a status above 128.
    let status = output.status.code().filter(|&status| status < 128);
    Observed { status, crashed: status.is_none(), parts }
}

/// Without the program's folder, and without what a shell prints about a crash.
fn own_name(text: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(text) else {
        return text.to_vec();
    };
    let word = |word: &str| match word.rsplit_once("/innochecksum") {
        Some((folder, rest)) if folder.starts_with('/') => format!("innochecksum{rest}"),
        _ => word.to_owned(),
    };
    text.split_inclusive(' ').map(word).collect::<String>().into_bytes()
}

/// Progress lines depend on the clock.
fn without_progress(log: &[u8]) -> Vec<u8> {
    let is_progress = |line: &[u8]| line.starts_with(b"page ") && line.ends_with(b"done\n");
    log.split_inclusive(|&byte| byte == b'\n').filter(|line| !is_progress(line)).flatten().copied().collect()
}
