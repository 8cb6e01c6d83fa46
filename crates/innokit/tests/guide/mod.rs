//! Fenced blocks of a guide, and the HTML comment above each.
//!
//! A block without a language, or marked `console`, contains commands. Lines that begin with `$ ` are commands, and the lines below each
//! are its output, standard error included. In a block without any `$ ` every line is a command, three spaces begin its description, and
//! only its exit status is compared. Two comments say more:
//!
//! ```text
//! <!-- not run: why -->
//! <!-- run
//! mysql-9.7/dynamic-16k as shop/dyn.ibd      a fixture, unpacked there
//! page 5 byte 120 = 00ff                     bytes of the file above, changed, as a disk would
//! page 5 byte 120 = 00ff sealed              the same, as a server's bug would: with a checksum that is right
//! datadir mariadb-16k as /var/lib/mysql      a copy of what a real server wrote; the block runs under `make test` only
//! folder /srv/out                            an empty folder
//! text live.txt = one\ttwo\n                 a text file
//! exit 1                                     of each command; 0 otherwise
//! numbers vary                               digits may differ from those shown
//! -->
//! ```
//!
//! Every block of commands has one of the two, or needs no files.
//!
//! Times (`0.03 s`), rates (`382.3 MB/s`, `5,000 rows/s`) and `0% I/O wait` may differ. `...` alone on a line matches any lines, `…` within
//! a line any text.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::broken_table::Ibd;
use crate::common::{Dir, all_datadirs, fixture, repository};

/// Folders that guides name by absolute path. In a test they are below its own folder.
const OUTSIDE: [&str; 4] = ["/var/lib/", "/mnt/", "/srv/", "/backup/"];

/// A fenced block.
pub struct Block {
    /// `docs/check.md:94`.
    pub place: String,
    /// What follows the opening fence.
    language: String,
    lines: Vec<String>,
    /// The lines of the comment above, without its marks.
    comment: Vec<String>,
}

/// A command and its expected lines; none are given in a block without `$ `.
pub struct Step {
    command: String,
    prints: Option<Vec<String>>,
}

/// Every guide: the README, and `docs/*.md`.
pub fn guides() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(repository().join("docs")).expect("docs");
    let mut paths: Vec<PathBuf> = docs.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.push(repository().join("README.md"));
    paths.sort();
    let name = |path: &Path| path.strip_prefix(repository()).expect("below it").display().to_string();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).expect("text"))).collect()
}

/// The blocks of all guides.
pub fn blocks() -> Vec<Block> {
    guides().iter().flat_map(|(name, text)| blocks_of(name, text)).collect()
}

fn blocks_of(name: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    let (mut comment, mut is_comment_open) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                blocks.push(Block {
                    place: format!("{name}:{}", at + 1),
                    language: language.trim().to_owned(),
                    lines: Vec::new(),
                    comment: std::mem::take(&mut comment),
                });
            }
            None if is_open => blocks.last_mut().expect("an open one").lines.push(line.to_owned()),
            None if line.starts_with("<!--") || is_comment_open => {
                if line.starts_with("<!--") {
                    comment.clear();
                }
                is_comment_open = !line.ends_with("-->");
                let said = line.trim_start_matches("<!--").trim_end_matches("-->").trim();
                comment.extend((!said.is_empty()).then(|| said.to_owned()));
            }
            None if line.trim().is_empty() => {}
            None => comment.clear(),
        }
    }
    blocks
}

impl Block {
    /// Whether it contains commands, rather than a program or a settings file.
    pub fn is_of_commands(&self) -> bool {
        ["", "console", "sh"].contains(&self.language.as_str())
    }

    /// Why it is not run, if the guide says so.
    pub fn excuse(&self) -> Option<&str> {
        self.comment.first()?.strip_prefix("not run:").map(str::trim)
    }

    /// What must exist before it runs.
    fn preparations(&self) -> impl Iterator<Item = &str> {
        let run = self.comment.first().is_some_and(|line| line == "run" || line.starts_with("run "));
        self.comment.iter().map(|line| line.strip_prefix("run").unwrap_or(line).trim()).filter(move |_| run)
    }

    /// Whether it has one of the two comments.
    pub fn is_prepared(&self) -> bool {
        self.comment.first().is_some_and(|line| line == "run" || line.starts_with("run "))
    }

    /// Whether it reads datadirs of real servers.
    pub fn needs_servers(&self) -> bool {
        self.preparations().any(|line| line.starts_with("datadir "))
    }

    /// Its commands.
    pub fn steps(&self) -> Vec<Step> {
        let is_session = self.lines.iter().any(|line| line.starts_with("$ "));
        if !is_session {
            let commands = self.lines.iter().filter(|line| !line.trim().is_empty());
            let command = |line: &String| line.trim().split("   ").next().unwrap_or_default().trim().to_owned();
            return commands.map(|line| Step { command: command(line), prints: None }).collect();
        }
        let mut steps: Vec<Step> = Vec::new();
        for line in &self.lines {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step { command: command.to_owned(), prints: Some(Vec::new()) }),
                (None, Some(step)) => step.prints.as_mut().expect("a session").push(line.clone()),
                (None, None) => panic!("{}: a session begins with `$ `", self.place),
            }
        }
        steps
    }

    /// Runs it; returns what differs from the guide.
    pub fn failures(&self) -> Vec<String> {
        let dir = Dir::new();
        for outside in OUTSIDE {
            std::fs::create_dir_all(dir.path().join(outside.trim_matches('/'))).expect("made");
        }
        let wanted = self.prepare(&dir);
        let differs = |step: &Step| step.run(dir.path(), wanted).map(|how| format!("{}: {how}", self.place));
        self.steps().iter().filter_map(differs).collect()
    }

    /// Creates the files that its comment asks for.
    fn prepare(&self, dir: &Dir) -> Wanted {
        let (mut wanted, mut last) = (Wanted::default(), PathBuf::new());
        for line in self.preparations().filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["exit", status] => wanted.exit = status.parse().expect("a number"),
                ["datadir", name, "as", path] => copy(&all_datadirs().join(name), &below(dir.path(), path)),
                ["folder", path] => std::fs::create_dir_all(below(dir.path(), path)).expect("made"),
                ["numbers", "vary"] => wanted.do_numbers_vary = true,
                ["page", page, "byte", byte, "=", hex, sealed @ ..] => {
                    let (page, byte) = (page.parse().expect("a number"), byte.parse().expect("a number"));
                    patch(&last, (page, byte), hex, sealed == ["sealed"]);
                }
                ["text", path, "=", ..] => {
                    let text =
                        line.split_once(" = ").expect("just matched").1.replace("\\t", "\t").replace("\\n", "\n");
                    dir.file(path, text.as_bytes());
                }
                [name, "as", path] => last = dir.file(path.trim_start_matches('/'), &fixture(&format!("{name}.ibd"))),
                _ => panic!("{}: what does `{line}` mean? See crates/innokit/tests/guide/mod.rs", self.place),
            }
        }
        wanted
    }
}

/// The expected exit status of every command in a block, and how exactly output is compared.
#[derive(Default, Clone, Copy)]
struct Wanted {
    exit: i32,
    do_numbers_vary: bool,
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().expect("below a folder")).expect("made");
    crate::common::copy(from, to);
}

/// Changes bytes of one page.
fn patch(file: &Path, (page, byte): (u32, usize), hex: &str, is_sealed: bool) {
    let digits: Vec<char> = hex.chars().collect();
    let value = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hexadecimal");
    let bytes: Vec<u8> = digits.chunks(2).map(value).collect();
    let mut table = Ibd::at(file);
    table.page(page)[byte..byte + bytes.len()].copy_from_slice(&bytes);
    std::fs::write(file, if is_sealed { table.sealed() } else { table.bytes }).expect("written");
}

impl Step {
    /// What differs from the guide.
    fn run(&self, root: &Path, wanted: Wanted) -> Option<String> {
        let root_text = root.display().to_string();
        let moved = OUTSIDE
            .iter()
            .fold(self.command.clone(), |command, outside| command.replace(outside, &format!("{root_text}{outside}")));
        // In a folder of its own: beside it are the fuzz targets, once they are built, and one of them is called `tar`.
        let bin = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_innokit"), bin.path().join("innokit")).expect("linked");
        let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new("bash")
            .args(["-o", "pipefail", "-c", &format!("{{ {moved}\n}} 2>&1")])
            .current_dir(root)
            .env("PATH", path)
            .output()
            .expect("bash runs");
        let printed = String::from_utf8_lossy(&output.stdout).replace(&root_text, "");
        let command = &self.command;
        if output.status.code() != Some(wanted.exit) {
            return Some(format!(
                "`{command}` ended with {}, not {}; it printed\n{printed}",
                output.status, wanted.exit
            ));
        }
        let printed: Vec<String> = printed.lines().map(str::to_owned).collect();
        let expected = self.prints.as_ref()?;
        let is_equal = match wanted.do_numbers_vary {
            true => agree(&numberless(trimmed(expected)), &numberless(trimmed(&printed))),
            false => agree(trimmed(expected), trimmed(&printed)),
        };
        (!is_equal)
            .then(|| format!("`{command}` prints\n{}\nthe guide says\n{}", printed.join("\n"), expected.join("\n")))
    }
}

/// Without empty lines at the end: a guide may separate two commands by one.
fn trimmed(lines: &[String]) -> &[String] {
    let full = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    &lines[..full]
}

/// The lines with `0` for every number.
fn numberless(lines: &[String]) -> Vec<String> {
    let is_of_number = |c: char| c.is_ascii_digit() || c == ',' || c == '.';
    let number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(is_of_number);
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', '.']);
        if number(bare) { word.replacen(bare, "0", 1) } else { word.to_owned() }
    };
    lines.iter().map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" ")).collect()
}

/// Whether the lines match those in a guide, by the rules in this module's documentation.
pub fn agree(shown: &[String], printed: &[String]) -> bool {
    match (shown, printed) {
        ([], []) => true,
        ([dots, rest @ ..], _) if dots.trim() == "..." => (0..=printed.len()).any(|skip| agree(rest, &printed[skip..])),
        ([first, shown @ ..], [line, printed @ ..]) => same(first, line) && agree(shown, printed),
        _ => false,
    }
}

fn same(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (steady(shown), steady(printed));
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let Some(last) = shown.contains('…').then(|| parts.next_back().unwrap_or_default()) else {
        return rest.is_empty();
    };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// The line with `#` in place of times and rates. If there were any, runs of spaces become one: columns move with the widths.
fn steady(line: &str) -> String {
    const UNITS: [&str; 7] = ["s", "B/s", "kB/s", "MB/s", "GB/s", "rows/s", "I/O"];
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let is_number = |word: &str| {
        let digits = word.trim_end_matches('%');
        digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_digit() || ".,".contains(c))
    };
    let varies = |at: usize| {
        let unit = words.get(at + 1).map(|unit| unit.trim_end_matches([',', ';', ':', ')', '.']));
        is_number(words[at]) && unit.is_some_and(|unit| UNITS.contains(&unit))
    };
    if !(0..words.len()).any(varies) {
        return line.trim_end().to_owned();
    }
    // A faster machine may show a larger unit.
    let is_rate = |at: usize| at > 0 && varies(at - 1) && words[at].contains("B/s");
    let word = |at: usize| match () {
        () if varies(at) => "#",
        () if is_rate(at) => "B/s",
        () => words[at],
    };
    (0..words.len()).map(word).collect::<Vec<_>>().join(" ")
}
