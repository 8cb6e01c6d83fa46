//! Shared by the tests of the command: helpers to run it, and real tablespaces to run it on.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

pub mod limited;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// The outcome of a run of `innokit`.
pub struct Run {
    /// Standard output.
    pub text: String,
    /// Standard error.
    pub errors: String,
    /// Exit status.
    pub status: i32,
}

impl Run {
    pub fn of(output: &Output) -> Self {
        Self {
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: output.status.code().expect("ended by a signal: innokit must not crash"),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("not JSON: {error}\n{}\n{}", self.text, self.errors))
    }
}

/// The built command.
pub fn innokit() -> Command {
    program(Path::new(env!("CARGO_BIN_EXE_innokit")))
}

/// A program built with these tests. If it is for another processor, the kernel cannot start it: cargo's runner (see
/// `scripts/test-arm.sh`), which runs these tests, then runs it too.
pub fn program(path: &Path) -> Command {
    let runner = std::env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    match words.next().filter(|_| cfg!(target_arch = "aarch64")) {
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.args(words).arg(path);
            command
        }
        None => Command::new(path),
    }
}

/// Runs `innokit check OPTIONS PATH`.
pub fn check(path: &Path, options: &[&str]) -> Run {
    Run::of(&innokit().arg("check").args(options).arg(path).output().expect("innokit runs"))
}

/// Runs `innokit check --json OPTIONS PATH`; the document and the exit status.
pub fn check_json(path: &Path, options: &[&str]) -> (Value, i32) {
    let run = check(path, &[&["--json"], options].concat());
    (run.json(), run.status)
}

/// Runs `innokit check OPTIONS -` with `bytes` on standard input.
pub fn check_stdin(bytes: &[u8], options: &[&str]) -> Run {
    use std::io::Write;
    let mut child = innokit()
        .args(["check"])
        .args(options)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("innokit runs");
    let mut stdin = child.stdin.take().expect("piped");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().expect("innokit ends");
    writer.join().expect("the writer does not panic");
    Run::of(&output)
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether the finding is that the log ends in a torn write. A kill in the middle of a write to the log leaves that.
/// Whether what is left to chance is tried often (`make soak`).
pub fn is_soak() -> bool {
    std::env::var_os("INNOKIT_SOAK").is_some()
}

pub fn is_torn_end(finding: &Value) -> bool {
    finding["reason"] == "torn_log_end"
}

/// The folder of datadirs written by real servers, including encrypted and page-compressed ones. `make test` sets its path.
pub fn all_datadirs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(std::env::var_os("INNOKIT_DATADIRS").expect(
            "this test reads what real servers wrote, so it takes `make test`; mark it as its neighbours: \
             `#[cfg_attr(not(servers), ignore = \"needs real servers: make test\")]`",
        ));
        let script = repository().join("scripts/make-datadirs.sh");
        let made =
            Command::new(script).args(["--with", "encrypted,compressed"]).arg(&folder).status().expect("bash runs");
        assert!(made.success(), "scripts/make-datadirs.sh failed");
        folder
    })
}

/// The datadirs of servers that were cleanly stopped.
pub const SOUND: [&str; 19] = [
    "mysql-4k",
    "mysql-8k",
    "mysql-16k",
    "mysql-32k",
    "mysql-64k",
    "mysql-16k-innodb",
    "mysql-16k-none",
    "mysql-16k-tde",
    "mysql-16k-compressed",
    "mariadb-4k",
    "mariadb-8k",
    "mariadb-16k",
    "mariadb-32k",
    "mariadb-64k",
    "mariadb-16k-crc32",
    "mariadb-16k-crc32-enc",
    "mariadb-16k-crc32-compressed",
    "mariadb-16k-enc",
    "mariadb-16k-compressed",
];

/// The datadirs of servers that were killed.
pub const CRASHED: [&str; 2] = ["mysql-16k-crashed", "mariadb-16k-crashed"];

/// The options that give innokit the keys of the datadir `name`.
pub fn keys_of(name: &str) -> Vec<String> {
    let control = all_datadirs().join(format!(".{name}.server"));
    let (keys, opener) = (control.join("keys"), control.join("filekey"));
    match (keys.exists(), name.starts_with("mysql")) {
        (false, _) => Vec::new(),
        (true, true) => vec!["--keyring".to_owned(), keys.display().to_string()],
        (true, false) if opener.exists() => {
            vec!["--key-file".to_owned(), format!("{},FILE:{}", keys.display(), opener.display())]
        }
        (true, false) => vec!["--key-file".to_owned(), keys.display().to_string()],
    }
}

/// A file of `fixtures/`, unpacked: `fixture("mysql-9.7/dynamic-16k.ibd")`.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = repository().join("fixtures").join(format!("{name}.zst"));
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    zstd::decode_all(packed.as_slice()).expect("fixtures are zstd")
}

/// A temporary directory with files in it.
pub struct Dir(TempDir);

impl Dir {
    pub fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    /// In memory, where the machine has a file system for that.
    pub fn in_memory() -> Self {
        Self(TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("below the directory")).expect("a directory");
        std::fs::write(&path, bytes).expect("written");
        path
    }
}

/// The reasons of all findings, in order.
pub fn reasons(document: &Value) -> Vec<&str> {
    let findings = document["findings"].as_array().expect("findings");
    findings.iter().map(|finding| finding["reason"].as_str().expect("a reason")).collect()
}

/// One of the totals.
pub fn total(document: &Value, name: &str) -> u64 {
    document["totals"][name].as_u64().unwrap_or_else(|| panic!("no total {name}"))
}

/// One entry of a `MANIFEST.toml`, with the folder that it is in.
#[derive(Debug)]
pub struct Entry {
    /// For [`fixture`]: `mysql-9.7/dynamic-16k.ibd`.
    pub name: String,
    entry: toml::Table,
}

impl Entry {
    pub fn text(&self, field: &str) -> &str {
        self.entry[field].as_str().unwrap_or_else(|| panic!("{}: {field} is no text", self.name))
    }

    pub fn number(&self, field: &str) -> u64 {
        let number = self.entry[field].as_integer().and_then(|number| u64::try_from(number).ok());
        number.unwrap_or_else(|| panic!("{}: {field} is no number", self.name))
    }

    pub fn numbers(&self, field: &str) -> Vec<u64> {
        let list = self.entry[field].as_array().unwrap_or_else(|| panic!("{}: {field} is no list", self.name));
        list.iter().filter_map(|number| u64::try_from(number.as_integer()?).ok()).collect()
    }

    /// The unpacked file; its checksum must match the manifest.
    pub fn bytes(&self) -> Vec<u8> {
        use sha2::{Digest, Sha256};
        let bytes = fixture(&self.name);
        let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sum, self.text("sha256"), "{}", self.name);
        bytes
    }
}

/// All entries of `fixtures/FOLDER/MANIFEST.toml`.
pub fn manifest(folder: &str) -> Vec<Entry> {
    let text =
        std::fs::read_to_string(repository().join("fixtures").join(folder).join("MANIFEST.toml")).expect("a manifest");
    let table: toml::Table = text.parse().expect("TOML");
    let entries = table["fixture"].as_array().expect("[[fixture]]").iter();
    entries
        .map(|entry| entry.as_table().expect("a table").clone())
        .map(|entry| {
            let file = entry["file"].as_str().expect("a file name");
            Entry { name: format!("{folder}/{}", file.trim_end_matches(".zst")), entry }
        })
        .collect()
}

/// Copies a file, or a folder with everything below it.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "--reflink=auto", "--sparse=always"]).arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success(), "copying {}", from.display());
}

/// Bytes without a pattern, the same in each run.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}
