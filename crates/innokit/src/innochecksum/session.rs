//! One run over the files of the command line, which share one count of mismatches.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use format::{Algorithm, ExtentMap, PageNo};

use recovery::innochecksum::{
    ChecksumKind, Examined, FileInput, FileLayout, HEAD_MIN, NewChecksums, PageJudge, PageOutcome, PageWriter,
    is_interrupted, refuse_unfit, rewritten,
};

use super::indexes::Indexes;
use super::options::Options;
use super::output::Output;
use super::types::{self, Tally};
use super::{Fault, explain};
use crate::terminal;

/// Pages between two looks at the clock, and time between two lines of progress.
const PROGRESS_PAGES: u64 = 64;
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

pub struct Session<'o> {
    options: &'o Options,
    output: Output,
    mismatches: u64,
}

/// The counters of one file.
#[derive(Default)]
struct Counts {
    tally: Tally,
    indexes: Indexes,
    /// Encrypted pages that were not verified, or not rewritten.
    encrypted: u64,
}

/// The work on one file.
struct Work {
    layout: FileLayout,
    judge: PageJudge,
    /// `None` if nothing is rewritten, and for standard input, whose pages go to standard output.
    writer: Option<PageWriter>,
    stdin: bool,
    counts: Counts,
}

impl<'o> Session<'o> {
    /// A run with these options and these open outputs.
    pub fn new(options: &'o Options, output: Output) -> Self {
        Self { options, output, mismatches: 0 }
    }

    /// Works through the files, up to the first that fails.
    pub fn run(mut self, files: &[PathBuf]) -> Result<(), Fault> {
        let done = files.iter().try_for_each(|file| self.file(file));
        self.output.flush()?;
        done
    }

    fn file(&mut self, name: &Path) -> Result<(), Fault> {
        if let Some(log) = &mut self.output.log {
            writeln!(log, "Filename = {}", name.display())?;
        }
        let mut input = FileInput::open(name, self.options.write.is_some())?;
        self.recover(&input)?;
        let head = input.peek(HEAD_MIN)?.len();
        if head < HEAD_MIN {
            return Err(Fault::NoHead(head));
        }
        let layout = FileLayout::find(&mut input, self.options.flags)?;
        let size = layout.page_size();
        let pages = input.bytes() / size as u64;
        if self.options.count {
            return Ok(self.say(input.is_stdin(), &format!("Number of pages:{pages}\n"))?);
        }
        if let Some(dump) = &mut self.output.dump {
            types::dump_head(name, dump)?;
        }
        if let Some(kind) = self.options.write {
            refuse_unfit(&layout, kind, name)?;
        }
        self.announce(&input, pages)?;
        if self.options.start > 0 {
            input.seek(self.options.start.checked_mul(size as u64))?;
        }
        self.pages(&mut input, layout, pages)
    }

    /// Completes an interrupted `--write` before anything else, but only during another `--write`.
    fn recover(&self, input: &FileInput) -> Result<(), Fault> {
        let name = input.name().display();
        let note = if self.options.write.is_some() {
            let pages = input.finish_interrupted()?;
            pages.map(|pages| format!("Note: an interrupted --write of {name} was completed: {pages} pages"))
        } else {
            let is_interrupted = !input.is_stdin() && is_interrupted(input.name());
            let note = || {
                format!("Note: rewriting {name} was interrupted, and pages may be torn; the next --write completes it")
            };
            is_interrupted.then(note)
        };
        Ok(note.map_or(Ok(()), |note| self.output.complain(&note))?)
    }

    /// Prints on standard output, or on standard error if standard output may be receiving the pages of standard input.
    fn say(&mut self, stdin: bool, text: &str) -> io::Result<()> {
        if stdin { terminal::err().write_all(text.as_bytes()) } else { self.output.stdout.write_all(text.as_bytes()) }
    }

    fn announce(&mut self, input: &FileInput, pages: u64) -> io::Result<()> {
        let options = self.options;
        let Some(log) = &mut self.output.log else {
            return Ok(());
        };
        let quiet = !options.verbose || input.is_stdin();
        if quiet {
            let end = if options.use_end { options.end } else { pages.wrapping_sub(1) };
            return writeln!(log, "Innochecksum: checking pages in range {} to {end}", options.start);
        }
        writeln!(log, "file {} = {} bytes ({pages} pages)", input.name().display(), input.bytes())?;
        if options.one_page {
            writeln!(log, "Innochecksum: checking page {}", options.page)?;
        }
        Ok(())
    }

    fn pages(&mut self, input: &mut FileInput, layout: FileLayout, pages: u64) -> Result<(), Fault> {
        let writer = self.options.write.and_then(|_| input.writer(layout.page_size()));
        let judge = PageJudge::new(layout);
        let mut work = Work { layout, judge, writer, stdin: input.is_stdin(), counts: Counts::default() };
        let mut done = self.sweep(input, &mut work, pages);
        if let Some(writer) = work.writer.take() {
            // Pages rewritten before a corrupt one stay rewritten, as in the original.
            done = done.and(writer.finish().map_err(Fault::from));
        }
        done?;
        self.conclude(input.name(), &work)
    }

    fn sweep(&mut self, input: &mut FileInput, work: &mut Work, pages: u64) -> Result<(), Fault> {
        let size = work.layout.page_size();
        let mut position = self.options.start;
        let mut told = Instant::now();
        let mut freed = Freed::default();
        loop {
            let is_free = self.wants_freed() && freed.is_free(input, position, &work.layout);
            let page = input.take(size)?;
            match page.len() {
                0 => return Ok(()),
                read if read < size => return Err(Fault::PartialPage { read, size }),
                _ if is_free && self.options.skip_freed => {}
                _ => {
                    if self.page(page, position, is_free, work)? {
                        return Ok(());
                    }
                }
            }
            position += 1;
            if position.is_multiple_of(PROGRESS_PAGES) && told.elapsed() >= PROGRESS_EVERY {
                told = Instant::now();
                self.progress(work.stdin, position, pages)?;
            }
        }
    }

    /// Checks, rewrites and counts one page. Returns whether it was the last one requested.
    fn page(&mut self, page: &[u8], position: u64, is_free: bool, work: &mut Work) -> Result<bool, Fault> {
        if self.options.per_page {
            self.say(work.stdin, &format!("page {position} "))?;
        }
        let layout = work.layout;
        let doublewrite = layout.is_doublewrite(position);
        let examined = work.judge.examine(page, position);
        if !doublewrite && !self.options.no_check {
            work.counts.encrypted += u64::from(examined.outcome == PageOutcome::Encrypted);
            self.check(&examined, position, layout)?;
        }
        if let Some(kind) = self.options.write {
            let new = (!doublewrite).then(|| rewritten(page, &examined, &layout, kind));
            let is_locked = new.as_ref().is_some_and(|new| new.is_encrypted);
            work.counts.encrypted += u64::from(is_locked && self.options.no_check);
            self.log_checksums(position, new.as_ref().and_then(|new| new.checksums))?;
            let new = new.as_ref().map_or(page, |new| &new.page);
            match &mut work.writer {
                None => self.output.stdout.write_raw(new)?,
                Some(_) if new == page => {}
                Some(writer) => writer.write(position.saturating_mul(page.len() as u64), new)?,
            }
        }
        if self.options.use_end && position >= self.options.end {
            return Ok(true);
        }
        let area = if doublewrite { "Double_write_buffer" } else { "-" };
        work.counts.tally.count(examined.page, position, area, &layout.format, self.output.dump.as_mut())?;
        if self.options.summary && self.wants_indexes() {
            let details = Some(&mut self.output.stdout).filter(|_| self.options.per_page);
            work.counts.indexes.count(examined.page, position, is_free, &layout.format, details)?;
        }
        Ok(false)
    }

    fn check(&mut self, examined: &Examined<'_>, position: u64, layout: FileLayout) -> Result<(), Fault> {
        let strict = self.options.strict;
        if let Some(log) = &mut self.output.log {
            explain::page(log, examined, position, layout.format.scheme(), strict)?;
        }
        match (examined.outcome, strict) {
            (PageOutcome::Corrupt | PageOutcome::NotInflated, _) => {
                self.output.complain(&format!("Fail: page {position} invalid"))?;
                self.mismatches += 1;
                if self.mismatches > self.options.allow {
                    return Err(Fault::TooManyMismatches(self.options.allow));
                }
            }
            (PageOutcome::Sound(algorithm), Some(strict)) if !fits(algorithm, strict) => {
                self.output.complain(&other_checksum(examined.page, algorithm, strict))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn log_checksums(&mut self, position: u64, checksums: Option<NewChecksums>) -> io::Result<()> {
        match (&mut self.output.log, checksums) {
            (Some(log), Some(NewChecksums::Pair { header, trailer })) => {
                writeln!(log, "page::{position}; Updated checksum field1 = {header}")?;
                writeln!(log, "page::{position}; Updated checksum field2 = {trailer}")
            }
            (Some(log), Some(NewChecksums::Single(checksum))) => {
                writeln!(log, "page::{position}; Updated checksum = {checksum}")
            }
            _ => Ok(()),
        }
    }

    fn progress(&mut self, stdin: bool, done: u64, pages: u64) -> io::Result<()> {
        match &mut self.output.log {
            Some(log) if self.options.verbose && !stdin => {
                let percent = done as f64 * 100.0 / pages.max(1) as f64;
                writeln!(log, "page {} okay: {percent:.3}% done", done - 1)
            }
            _ => Ok(()),
        }
    }

    /// Whether to ask which pages are free: on request, and for the index tables, which leave out freed pages.
    const fn wants_freed(&self) -> bool {
        self.options.skip_freed || self.wants_indexes()
    }

    const fn wants_indexes(&self) -> bool {
        self.options.per_page || self.options.leaf || self.options.merge > 0
    }

    fn conclude(&mut self, name: &Path, work: &Work) -> Result<(), Fault> {
        if self.options.per_page && !self.options.summary {
            self.say(work.stdin, "\n")?;
        }
        if self.options.summary {
            let mut text = Vec::new();
            work.counts.tally.print(Some(name).filter(|_| !work.stdin), &mut text)?;
            if self.wants_indexes() {
                let merge = Some(self.options.merge).filter(|_| self.options.leaf);
                work.counts.indexes.print(merge, &mut text)?;
            }
            self.say(work.stdin, &String::from_utf8_lossy(&text))?;
        }
        match (work.counts.encrypted, self.options.write) {
            (0, _) => Ok(()),
            (count, Some(_)) => Err(Fault::EncryptedLeft { path: name.to_owned(), count }),
            (count, None) => {
                let name = name.display();
                let line = format!("Note: {count} encrypted pages of {name} were not verified: that needs their key");
                Ok(self.output.complain(&line)?)
            }
        }
    }
}

/// The pages that the extent descriptors call free, region by region.
#[derive(Default)]
struct Freed {
    region: Option<(u64, Option<ExtentMap>)>,
}

impl Freed {
    /// Reads the descriptors from the file. Standard input cannot be read twice, so there no page counts as free.
    fn is_free(&mut self, input: &FileInput, position: u64, layout: &FileLayout) -> bool {
        let size = layout.page_size() as u64;
        let first = position / size * size;
        if self.region.as_ref().is_none_or(|region| region.0 != first) {
            self.region = Some((first, read_map(input, first, layout)));
        }
        let page_no = u32::try_from(position).map_or(PageNo::NONE, PageNo);
        let map = self.region.as_ref().and_then(|region| region.1.as_ref());
        map.and_then(|map| map.is_free(page_no)) == Some(true)
    }
}

fn read_map(input: &FileInput, first: u64, layout: &FileLayout) -> Option<ExtentMap> {
    let mut page = vec![0; layout.page_size()];
    let offset = first.checked_mul(page.len() as u64)?;
    input.file()?.read_exact_at(&mut page, offset).ok()?;
    ExtentMap::parse(&page, PageNo(u32::try_from(first).ok()?), &layout.format).ok()
}

fn fits(algorithm: Algorithm, strict: ChecksumKind) -> bool {
    match strict {
        ChecksumKind::Crc32 => {
            matches!(algorithm, Algorithm::Crc32 | Algorithm::Crc32BigEndian | Algorithm::FullCrc32)
        }
        ChecksumKind::Innodb => algorithm == Algorithm::Innodb,
        ChecksumKind::None => algorithm == Algorithm::None,
    }
}

/// The original's warning for a page that is sound, but by a checksum other than the requested one.
fn other_checksum(page: &[u8], algorithm: Algorithm, strict: ChecksumKind) -> String {
    let space = format::fil::space_id(page).map_or(0, |space| space.0);
    let number = format::fil::page_no(page).map_or(0, |page_no| page_no.0);
    let found = if algorithm == Algorithm::Crc32BigEndian { Algorithm::Crc32 } else { algorithm };
    let wanted = strict.name();
    format!(
        "[WARNING] innochecksum: innodb_checksum_algorithm is set to \"strict_{wanted}\" but the page [page id: space={space}, \
         page number={number}] contains a valid checksum \"{found}\".  Accepting the page as valid. Change \
         innodb_checksum_algorithm to \"{wanted}\" to silently accept such pages or rewrite all pages so that they contain \
         \"{wanted}\" checksum."
    )
}
