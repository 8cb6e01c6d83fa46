//! One run over the files of the command line, which share the count of mismatches.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use format::{Algorithm, ExtentMap, Family, PageNo, Scheme};

use super::indexes::Indexes;
use super::input::Input;
use super::journal::{self, Journal};
use super::judge::{self, Examined, Judge, PageOutcome};
use super::layout::{HEAD_MIN, Layout};
use super::options::{Checksum, Options};
use super::output::Output;
use super::types::{self, Tally};
use super::{Fault, explain, rewrite};

/// Progress is checked every this many pages, and written when this much time has passed.
const PROGRESS_PAGES: u64 = 64;
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The run.
pub struct Session<'o> {
    options: &'o Options,
    output: Output,
    mismatches: u64,
}

/// What is counted in one file.
#[derive(Default)]
struct Counts {
    tally: Tally,
    indexes: Indexes,
    /// Encrypted pages that were not verified, or not rewritten.
    encrypted: u64,
}

/// One file on its way.
struct Work<'f> {
    name: PathBuf,
    layout: Layout,
    judge: Judge,
    journal: Option<Journal<'f>>,
    stdin: bool,
    counts: Counts,
}

impl<'o> Session<'o> {
    /// For these options, with these files open to write to.
    pub fn new(options: &'o Options, output: Output) -> Self {
        Self { options, output, mismatches: 0 }
    }

    /// Looks at one file after the other, up to the first that fails.
    pub fn run(mut self, files: &[PathBuf]) -> Result<(), Fault> {
        let done = files.iter().try_for_each(|file| self.file(file));
        self.output.flush()?;
        done
    }

    fn file(&mut self, name: &Path) -> Result<(), Fault> {
        if let Some(log) = &mut self.output.log {
            writeln!(log, "Filename = {}", name.display())?;
        }
        let mut input = Input::open(name, self.options.write.is_some())?;
        self.recover(&input)?;
        let head = input.peek(HEAD_MIN)?.len();
        if head < HEAD_MIN {
            return Err(Fault::NoHead(head));
        }
        let layout = Layout::find(&mut input, self.options.flags)?;
        let size = layout.page_size();
        let pages = input.len() / size as u64;
        if self.options.count {
            return Ok(self.say(input.is_stdin(), &format!("Number of pages:{pages}\n"))?);
        }
        if let Some(dump) = &mut self.output.dump {
            types::dump_head(name, dump)?;
        }
        if let Some(refusal) = self.options.write.and_then(|algorithm| rewrite::refusal(&layout, algorithm, name)) {
            return Err(refusal);
        }
        self.announce(&input, pages)?;
        if self.options.start > 0 {
            input.seek(self.options.start.checked_mul(size as u64))?;
        }
        self.pages(&mut input, layout, pages)
    }

    /// What an interrupted `--write` left is completed before anything else, but only by another `--write`.
    fn recover(&self, input: &Input) -> Result<(), Fault> {
        let (Some(file), name) = (input.file(), input.name()) else {
            return Ok(());
        };
        if self.options.write.is_none() {
            if journal::path_of(name).exists() {
                let name = name.display();
                self.output.complain(&format!(
                    "Note: rewriting {name} was interrupted, and pages may be torn; the next --write completes it"
                ))?;
            }
            return Ok(());
        }
        match journal::recover(file, name) {
            Ok(None) => Ok(()),
            Ok(Some(pages)) => {
                let name = name.display();
                Ok(self
                    .output
                    .complain(&format!("Note: an interrupted --write of {name} was completed: {pages} pages"))?)
            }
            Err(error) => Err(Fault::Write { path: name.to_owned(), error }),
        }
    }

    /// Prints on standard output, or on standard error where pages from standard input may be going to standard output.
    fn say(&mut self, stdin: bool, text: &str) -> io::Result<()> {
        if stdin {
            io::stderr().lock().write_all(text.as_bytes())
        } else {
            self.output.stdout.write_all(text.as_bytes())
        }
    }

    fn announce(&mut self, input: &Input, pages: u64) -> io::Result<()> {
        let options = self.options;
        let Some(log) = &mut self.output.log else {
            return Ok(());
        };
        let quiet = !options.verbose || input.is_stdin();
        if quiet {
            let end = if options.use_end { options.end } else { pages.wrapping_sub(1) };
            return writeln!(log, "Innochecksum: checking pages in range {} to {end}", options.start);
        }
        writeln!(log, "file {} = {} bytes ({pages} pages)", input.name().display(), input.len())?;
        if options.one_page {
            writeln!(log, "Innochecksum: checking page {}", options.page)?;
        }
        Ok(())
    }

    fn pages(&mut self, input: &mut Input, layout: Layout, pages: u64) -> Result<(), Fault> {
        let name = input.name().to_owned();
        let stdin = input.is_stdin();
        // The journal writes while the input reads: two handles of one open file, so that the lock stays.
        let file = input.file().map(std::fs::File::try_clone).transpose();
        let file = file.map_err(|error| Fault::Open { path: name.clone(), error })?;
        let journal = file.as_ref().filter(|_| self.options.write.is_some());
        let journal = journal.map(|file| Journal::new(file, &name, layout.page_size()));
        let mut work =
            Work { name: name.clone(), layout, judge: Judge::new(layout), journal, stdin, counts: Counts::default() };
        let mut done = self.sweep(input, &mut work, pages);
        if let Some(journal) = work.journal.take() {
            // What was rewritten before a corrupt page stays rewritten, as in the original.
            let written = journal.finish().map_err(|error| Fault::Write { path: name.clone(), error });
            done = done.and(written);
        }
        done?;
        self.conclude(&name, &work)
    }

    fn sweep(&mut self, input: &mut Input, work: &mut Work<'_>, pages: u64) -> Result<(), Fault> {
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

    /// Checks, rewrites and counts one page; whether it is the last one asked for.
    fn page(&mut self, page: &[u8], position: u64, is_free: bool, work: &mut Work<'_>) -> Result<bool, Fault> {
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
        if let Some(algorithm) = self.options.write {
            let stored = Stored { name: &work.name, page, position, untouched: doublewrite };
            self.rewrite(&stored, &examined, algorithm, &layout, &mut work.journal, &mut work.counts.encrypted)?;
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

    fn check(&mut self, examined: &Examined<'_>, position: u64, layout: Layout) -> Result<(), Fault> {
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

    fn rewrite(
        &mut self,
        stored: &Stored<'_>,
        examined: &Examined<'_>,
        algorithm: Checksum,
        layout: &Layout,
        journal: &mut Option<Journal<'_>>,
        encrypted: &mut u64,
    ) -> Result<(), Fault> {
        let inner = layout.format.scheme() != Scheme::FullCrc32;
        let locked = inner && judge::is_encrypted(stored.page, &layout.format);
        *encrypted += u64::from(locked && self.options.no_check && !stored.untouched);
        // MariaDB's compressed pages keep their checksum inside.
        let inside = inner && examined.inflated && layout.format.family() == Family::MariaDb;
        let leave = stored.untouched || locked || inside || examined.outcome == PageOutcome::NotInflated;
        let mut page = if leave { stored.page } else { examined.page }.to_vec();
        if !leave && rewrite::is_blank(&page, layout.format.scheme()) {
            // A page that was never written has no checksum either.
            page.fill(0);
        } else if !leave {
            rewrite::set_checksums(&mut page, stored.position, algorithm, &layout.format, self.output.log.as_mut())?;
        }
        if page == examined.page {
            // Nothing new: a compressed page stays compressed.
            page = stored.page.to_vec();
        }
        match journal {
            None => Ok(self.output.stdout.write_all(&page)?),
            Some(_) if page == stored.page => Ok(()),
            Some(journal) => {
                let offset = stored.position.saturating_mul(stored.page.len() as u64);
                let path = || stored.name.to_owned();
                journal.write(offset, &page).map_err(|error| Fault::Write { path: path(), error })
            }
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

    /// Freed pages are left out where asked for, and in the tables of indexes, to which they no longer belong.
    const fn wants_freed(&self) -> bool {
        self.options.skip_freed || self.wants_indexes()
    }

    const fn wants_indexes(&self) -> bool {
        self.options.per_page || self.options.leaf || self.options.merge > 0
    }

    fn conclude(&mut self, name: &Path, work: &Work<'_>) -> Result<(), Fault> {
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
                let line = format!("Note: {count} encrypted pages of {name} were not verified, which takes their key");
                Ok(self.output.complain(&line)?)
            }
        }
    }
}

/// A page as it lies in the file.
struct Stored<'a> {
    name: &'a Path,
    page: &'a [u8],
    position: u64,
    /// In the doublewrite area, which is left as it is.
    untouched: bool,
}

/// Which pages the extent descriptors call free, region by region.
#[derive(Default)]
struct Freed {
    region: Option<(u64, Option<ExtentMap>)>,
}

impl Freed {
    /// The descriptors are read where they lie; standard input cannot be asked for them twice, and hides nothing.
    fn is_free(&mut self, input: &Input, position: u64, layout: &Layout) -> bool {
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

fn read_map(input: &Input, first: u64, layout: &Layout) -> Option<ExtentMap> {
    let mut page = vec![0; layout.page_size()];
    let offset = first.checked_mul(page.len() as u64)?;
    input.file()?.read_exact_at(&mut page, offset).ok()?;
    ExtentMap::parse(&page, PageNo(u32::try_from(first).ok()?), &layout.format).ok()
}

fn fits(algorithm: Algorithm, strict: Checksum) -> bool {
    match strict {
        Checksum::Crc32 => {
            matches!(algorithm, Algorithm::Crc32 | Algorithm::Crc32BigEndian | Algorithm::FullCrc32)
        }
        Checksum::Innodb => algorithm == Algorithm::Innodb,
        Checksum::None => algorithm == Algorithm::None,
    }
}

/// The original's warning for a page that is sound by another checksum than the one asked for.
fn other_checksum(page: &[u8], algorithm: Algorithm, strict: Checksum) -> String {
    let space = format::page::fil::space_id(page).map_or(0, |space| space.0);
    let number = format::page::fil::page_no(page).map_or(0, |page_no| page_no.0);
    let found = if algorithm == Algorithm::Crc32BigEndian { Algorithm::Crc32 } else { algorithm };
    let wanted = strict.name();
    format!(
        "[WARNING] innochecksum: innodb_checksum_algorithm is set to \"strict_{wanted}\" but the page [page id: space={space}, \
         page number={number}] contains a valid checksum \"{found}\".  Accepting the page as valid. Change \
         innodb_checksum_algorithm to \"{wanted}\" to silently accept such pages or rewrite all pages so that they contain \
         \"{wanted}\" checksum."
    )
}
