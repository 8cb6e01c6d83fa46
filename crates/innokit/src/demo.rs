//! `innokit demo`: runs `check` on a built-in sample of real tablespaces from both servers, one of them with planted damage.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use inspect::{Check, CheckOptions, Report};

use crate::print::{self, Style, written};
use crate::terminal;

/// Written by MySQL 9.7. `sample/` has copies of `fixtures/`, not links: a packaged crate contains only what is below its own folder, and
/// not every tool that copies a work tree keeps links.
const MYSQL: &[u8] = include_bytes!("../sample/mysql.ibd.zst");
/// Written by MariaDB 10.11.
const MARIADB: &[u8] = include_bytes!("../sample/mariadb.ibd.zst");

/// Where the demo flips a bit, in bytes from the start of the file: among the rows of page 5.
const PLANTED_AT: usize = 5 * 16384 + 4711;

/// Unpacks the sample, checks it, and explains the report. Succeeds only if it finds the planted damage and nothing else.
pub fn run() -> Result<u8, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let sound = zstd::decode_all(MARIADB)?;
    let mut damaged = sound.clone();
    if let Some(byte) = damaged.get_mut(PLANTED_AT) {
        *byte ^= 0x10;
    }
    write(dir.path(), "mysql/orders.ibd", &zstd::decode_all(MYSQL)?)?;
    write(dir.path(), "mariadb/orders.ibd", &sound)?;
    write(dir.path(), "mariadb/damaged.ibd", &damaged)?;

    let report = Check::plan(&[dir.path().to_path_buf()], CheckOptions::default())?.run(None)?;
    let found: Vec<_> =
        report.findings.iter().map(|finding| (finding.page, finding.path.ends_with("damaged.ibd"))).collect();
    let printed = print(&report, dir.path());
    if found == [(Some(5), true)] {
        written(printed, 0)
    } else {
        Err("the demo did not find the damage that it planted".into())
    }
}

fn print(report: &Report, dir: &Path) -> io::Result<()> {
    let mut out = terminal::out();
    writeln!(
        out,
        "Three real tablespaces: one written by MySQL 9.7, two by MariaDB 10.11. In one of them, one bit of page 5 was"
    )?;
    writeln!(out, "flipped, as a failing disk or a bad cable would.\n")?;
    writeln!(out, "$ innokit check {}", dir.display())?;
    print::text(report, Style { quiet: false, verbose: false, all: false }, &mut out)?;
    print::hurt(report, &mut out)?;
    writeln!(
        out,
        "\nExit status {}: the first line names the file, the page and its index. The checksum stored in the page is the",
        report.exit_status()
    )?;
    writeln!(
        out,
        "one that the server wrote; the computed one is that of the bytes as they are now. The commands keep"
    )?;
    writeln!(
        out,
        "what can be read, and put the table back from a backup. Your own data: innokit check /var/lib/mysql"
    )?;
    out.flush()
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = dir.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, bytes)
}
