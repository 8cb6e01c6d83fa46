//! Incremental backups (`t.ibd.delta`): each changed page is judged by itself, as a page of the tablespace named in the note beside the
//! file.

use std::path::Path;

use format::{Encryption, Family, PageId, PageNo, PageSize, Scheme, SpaceFormat, SpaceId, Verdict, verify_page};
use logs::delta::{Meta, Page, Parser};

use super::examined::{Examined, Log, StreamOutcome};
use super::file_state::FileState;
use super::words::about;
use crate::report::document::{Counts, Finding, Unit};
use datadir::content::{delta_note, read_delta_note};
use datadir::file_kind::FileKind;
use datadir::inventory::Candidate;
use datadir::name::NameHint;
use datadir::severity::Severity;

/// A delta being read.
pub(super) struct DeltaCheck {
    candidate: Candidate,
    meta: Meta,
    parser: Parser,
    judge: Judge,
    counts: Counts,
    outcome: StreamOutcome,
    /// The container around the pages is broken, so the rest is lost.
    is_broken: bool,
}

/// The format of the pages. The tablespace's page 0 decides it, or else the first sound page.
struct Judge {
    space: SpaceId,
    formats: Vec<SpaceFormat>,
    is_known: bool,
    /// A later file of the system tablespace: its first page number is unknown.
    is_later_part: bool,
}

impl DeltaCheck {
    /// For a file in a directory. `None` if the note beside it does not give the page size.
    pub fn new(candidate: &Candidate, findings_max: usize) -> Option<Self> {
        let meta = read_delta_note(&delta_note(&candidate.path)).ok()??;
        Self::of(candidate, &candidate.path, meta, findings_max)
    }

    /// For a file whose own name is `name`, and whose note says `meta`. `None` if that does not name the tablespace.
    pub fn of(candidate: &Candidate, name: &Path, meta: Meta, findings_max: usize) -> Option<Self> {
        let table = NameHint::of(&name.with_extension(""));
        let space = if matches!(table, NameHint::System(_)) { 0 } else { meta.space? };
        let physical = PageSize::new(meta.page_size)?;
        Some(Self {
            candidate: candidate.clone(),
            meta,
            parser: Parser::new(meta),
            judge: Judge {
                space: SpaceId(space),
                formats: formats(physical, SpaceId(space)),
                is_known: false,
                is_later_part: matches!(table, NameHint::System(2..)),
            },
            counts: Counts::default(),
            outcome: StreamOutcome::new(findings_max),
            is_broken: false,
        })
    }

    /// Takes the next bytes.
    pub fn take(&mut self, mut bytes: &[u8]) {
        self.counts.bytes += bytes.len() as u64;
        while !self.is_broken {
            match self.parser.next_page(&mut bytes) {
                Ok(None) => return,
                Ok(Some(page)) => {
                    self.counts.pages += 1;
                    match self.judge.verdict(&page) {
                        Verdict::Ok(_) => self.counts.ok += 1,
                        Verdict::Empty => self.counts.empty += 1,
                        Verdict::Unverifiable(_) => self.counts.unverifiable += 1,
                        Verdict::Corrupt(why) => {
                            self.counts.corrupt += 1;
                            let message = format!("page {} of the tablespace: {why}", page.number);
                            let finding = about(&self.candidate.path, why.reason(), Severity::Damage, message);
                            let position = Some(page.position);
                            self.outcome.findings.offer_at(0, page.position, Finding { position, ..finding });
                        }
                    }
                }
                Err(error) => self.broken(&error),
            }
        }
    }

    fn broken(&mut self, error: &logs::delta::Error) {
        self.is_broken = true;
        let finding = about(&self.candidate.path, "delta_broken", Severity::Damage, error.to_string());
        self.outcome.findings.offer_at(0, u64::MAX, finding);
    }

    /// The file has ended; `is_whole` if all of it arrived.
    pub fn finish(mut self, is_whole: bool) -> StreamOutcome {
        let parser = std::mem::replace(&mut self.parser, Parser::new(self.meta));
        if let (true, false, Err(error)) = (is_whole, self.is_broken, parser.finish()) {
            self.broken(&error);
        }
        let state = FileState::new(self.candidate, None);
        state.with_tally(|tally| tally.counts = self.counts);
        let (kind, unit) = (FileKind::Delta, Unit::Pages);
        let log = Log { kind, unit, family: None, algorithm: None, end: None };
        self.outcome.rows.push(Examined { log: Some(log), ..Examined::pages(state) });
        self.outcome
    }
}

impl Judge {
    fn verdict(&mut self, page: &Page<'_>) -> Verdict {
        let own = SpaceFormat::from_page0(page.bytes).ok().filter(|own| page.number == 0 && own.space() == self.space);
        if let Some(own) = own {
            (self.formats, self.is_known) = (vec![own], true);
        }
        let number = if self.is_later_part { own_number(page) } else { page.number };
        let id = PageId { space: self.space, page_no: PageNo(number) };
        let mut verdict = None;
        for format in &self.formats {
            match verify_page(page.bytes, id, format) {
                Verdict::Ok(algorithm) => {
                    if !self.is_known {
                        (self.formats, self.is_known) = (vec![*format], true);
                    }
                    return Verdict::Ok(algorithm);
                }
                // If one candidate format cannot verify the page, another one's "corrupt" does not count.
                other @ Verdict::Unverifiable(_) => verdict = Some(other),
                other => verdict = verdict.or(Some(other)),
            }
        }
        verdict.unwrap_or(Verdict::Empty)
    }
}

/// The page number in the page's own header.
fn own_number(page: &Page<'_>) -> u32 {
    format::bytes::be::u32_at(page.bytes, format::fil::FIL_PAGE_OFFSET).unwrap_or(page.number)
}

/// The formats in which pages of this size may be written.
fn formats(physical: PageSize, space: SpaceId) -> Vec<SpaceFormat> {
    let whole =
        [(Family::MariaDb, Scheme::FullCrc32), (Family::MariaDb, Scheme::Classic), (Family::MySql, Scheme::Classic)];
    let whole = whole.into_iter().map(|(family, scheme)| (family, scheme, physical));
    let larger = PageSize::ALL.into_iter().filter(|logical| *logical >= physical);
    let zip = larger.map(|logical| (Family::MariaDb, Scheme::Zip, logical));
    let plain = whole
        .chain(zip)
        .filter_map(|(family, scheme, logical)| SpaceFormat::new(family, scheme, logical, physical, space));
    plain.flat_map(|format| [format, format.with_encryption(Encryption::MariaDb)]).collect()
}
