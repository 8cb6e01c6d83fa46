//! Other tools on the same file.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::pattern::{Carrier, Setting};
use datadir::Error;

/// A tool that takes a file name as its last argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name in the report.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

impl Peer {
    /// Parses `NAME=COMMAND`. The command is split at blanks, without a shell.
    ///
    /// # Errors
    /// If one of the two is missing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').ok_or("expected NAME=COMMAND")?;
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if name.is_empty() || command.is_empty() {
            return Err("expected NAME=COMMAND".to_owned());
        }
        Ok(Self { name: name.to_owned(), command })
    }

    /// Measures one run of the tool; `None`, with a note, if it did not do the work.
    pub(super) fn run(&self, file: &Path, notes: &mut Vec<String>) -> Result<Option<Duration>, Error> {
        let Some((program, arguments)) = self.command.split_first() else { return Ok(None) };
        let mut command = Command::new(program);
        command.args(arguments).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let status = command
            .status()
            .map_err(|error| Error::Usage(format!("{}: {program} does not start: {error}", self.name)))?;
        let time = start.elapsed();
        // 0 and 1 are verdicts of these tools. A tool that gave up must not be measured as if it had read the whole file.
        if matches!(status.code(), Some(0 | 1)) {
            return Ok(Some(time));
        }
        notes.push(format!("{} was not measured: it ended with {status}", self.name));
        Ok(None)
    }
}

/// The tools found in the PATH.
pub(super) fn installed() -> Vec<Peer> {
    let known = [("innochecksum", &[][..]), ("inno checksum", &["checksum", "-f"][..])];
    let peer = |(name, arguments): (&str, &[&str])| {
        let program = name.split(' ').next().unwrap_or(name);
        let path = find(program)?;
        let command =
            [path.display().to_string()].into_iter().chain(arguments.iter().map(|&argument| argument.to_owned()));
        Some(Peer { name: name.to_owned(), command: command.collect() })
    };
    known.into_iter().filter_map(peer).collect()
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

pub(super) fn has_fio() -> bool {
    find("fio").is_some()
}

/// Huge pages for fio's buffers, as for ours, if the administrator reserved enough: with small pages, a request is split into as many as
/// the device requires.
fn memory(bytes: u64) -> &'static str {
    let figure = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let is_enough = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let free = figure(&text, "HugePages_Free")? * (figure(&text, "Hugepagesize")? << 10);
        // Each thread has its own segment, rounded up to whole huge pages.
        Some(free >= bytes * 2 + (64 << 20))
    });
    if is_enough == Some(true) { "shmhuge" } else { "malloc" }
}

/// Bytes a second of `fio` with the same setting, by its own count.
pub(super) fn fio(file: &Path, len: u64, setting: &Setting, notes: &mut Vec<String>) -> Option<f64> {
    let each = len / u64::from(setting.threads) / u64::from(setting.block_size) * u64::from(setting.block_size);
    let engine = if setting.engine == Carrier::Uring { "io_uring" } else { "psync" };
    let in_flight = u64::from(setting.block_size) * u64::from(setting.depth) * u64::from(setting.threads);
    let output = Command::new("fio")
        .args([
            "--name=limit",
            "--readonly",
            "--rw=read",
            "--direct=1",
            "--thread",
            "--group_reporting",
            "--output-format=json",
        ])
        // fio separates files by colons.
        .arg(format!("--filename={}", file.display().to_string().replace(':', "\\:")))
        .arg(format!("--ioengine={engine}"))
        .arg(format!("--mem={}", memory(in_flight)))
        .arg(format!("--bs={}", setting.block_size))
        .arg(format!("--iodepth={}", setting.depth))
        .arg(format!("--numjobs={}", setting.threads))
        .args([format!("--size={each}"), format!("--offset_increment={each}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let rate = output.ok().filter(|output| output.status.success()).and_then(|output| {
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        document.pointer("/jobs/0/read/bw_bytes")?.as_f64()
    });
    if rate.is_none() {
        notes.push("fio was not measured: it did not do the work with this setting".to_owned());
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_name_and_a_command() {
        let peer = Peer::parse("mine=/opt/tool -C crc32").expect("both are there");
        assert_eq!((peer.name.as_str(), peer.command.len()), ("mine", 3));
        assert!(Peer::parse("mine").is_err() && Peer::parse("=x").is_err() && Peer::parse("mine= ").is_err());
    }

    #[test]
    fn a_tool_that_gives_up_is_not_measured() {
        let mut notes = Vec::new();
        let run = |command: &str, notes: &mut Vec<String>| {
            Peer::parse(command).expect("both").run(Path::new("/dev/null"), notes)
        };
        assert!(run("good=cat", &mut notes).expect("starts").is_some() && notes.is_empty());
        // `ls` exits with 2 if a file does not exist.
        assert!(run("bad=ls /nowhere/to/be/found", &mut notes).expect("starts").is_none() && notes.len() == 1);
        let missing = run("none=/nowhere/to/be/found", &mut notes);
        // Emulators start any program, and exit with the shell's status for a missing one.
        let is_emulated = env::var_os("INNOKIT_EMULATED").is_some();
        assert!(if is_emulated { matches!(missing, Ok(None)) } else { missing.is_err() }, "{missing:?}");
    }
}
