//! Many files described by `info`: totals, the largest databases and files, and those with something wrong.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use inspect::{FileInfo, InfoReport};

use crate::info_print::one_file;
use crate::print::{grouped, human};
use crate::terminal::shown;

/// With more files than this a summary is printed instead of all of them.
const FILES_MAX: usize = 40;
/// Rows of a list.
const ROWS_MAX: usize = 10;

/// Whether there are too many files to describe each.
pub fn is_needed(report: &InfoReport) -> bool {
    report.files.len() > FILES_MAX
}

/// Files and bytes.
#[derive(Default, Clone, Copy)]
struct Sum {
    files: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, file: &FileInfo) {
        self.files += 1;
        self.bytes += file.bytes;
    }
}

/// Totals, databases and files by size, then all about the files that are damaged or were not read.
pub fn text(report: &InfoReport, out: &mut impl Write) -> io::Result<()> {
    let (mut all, mut spaces, mut pages) = (Sum::default(), Sum::default(), 0);
    let mut databases: BTreeMap<&str, Sum> = BTreeMap::new();
    for file in &report.files {
        all.add(file);
        if let Some(space) = &file.tablespace {
            spaces.add(file);
            pages += space.pages.total;
        }
        databases.entry(folder(&file.path)).or_default().add(file);
    }
    writeln!(out, "files         {}, {} ({} bytes)", grouped(all.files), human(all.bytes as f64), grouped(all.bytes))?;
    writeln!(out, "tablespaces   {}, {} pages", grouped(spaces.files), grouped(pages))?;
    let mut by_size: Vec<(&str, Sum)> = databases.into_iter().collect();
    by_size.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
    writeln!(out, "\nthe largest folders, of {}", grouped(by_size.len() as u64))?;
    for (name, sum) in by_size.iter().take(ROWS_MAX) {
        writeln!(out, "  {:>10}  {:>9} files  {}", human(sum.bytes as f64), grouped(sum.files), shown(name))?;
    }
    let mut largest: Vec<&FileInfo> = report.files.iter().collect();
    largest.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    writeln!(out, "\nthe largest files")?;
    for file in largest.iter().take(ROWS_MAX) {
        writeln!(out, "  {:>10}  {}", human(file.bytes as f64), shown(&file.path))?;
    }
    wrong(report, out)?;
    writeln!(out, "\nAll about each file: --all, or --json")
}

fn folder(path: &str) -> &str {
    Path::new(path).parent().and_then(Path::to_str).unwrap_or("")
}

fn wrong(report: &InfoReport, out: &mut impl Write) -> io::Result<()> {
    let is_wrong = |file: &&FileInfo| {
        let corrupt = file.tablespace.as_ref().is_some_and(|space| space.pages.corrupt > 0);
        corrupt || file.damage.is_some() || file.error.is_some()
    };
    let wrong: Vec<&FileInfo> = report.files.iter().filter(is_wrong).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{} files are damaged or were not read", grouped(wrong.len() as u64))?;
    for file in wrong.iter().take(ROWS_MAX) {
        writeln!(out)?;
        one_file(file, out)?;
    }
    match wrong.len().saturating_sub(ROWS_MAX) {
        0 => Ok(()),
        more => writeln!(out, "\nand {} more", grouped(more as u64)),
    }
}
