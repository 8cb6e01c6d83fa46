//! Which damaged pages crash recovery writes again, whatever they hold now. The kernel stops a write between two pages of memory when the
//! process dies, so a killed server leaves pages that are half new. It repairs them before it applies its log, and so does `recover`.
//!
//! ```text
//! page -> copy in the doublewrite buffer, made since the checkpoint -> put back
//!      -> the log makes or frees it before it changes it            -> its old content is not read
//!      -> neither                                                   -> damage: recovery ends at it
//! ```

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use format::keyring::KeyStore;
use format::{Lsn, PageId, PageNo, SpaceFormat, SpaceId};
use redo::LogVendor;
use redo::record::{Change, Mtr, RedoRecord};

use super::ring::Ring;
use crate::doublewrite::{Copies, files_in};
use crate::files::{self, File};
use crate::mysql_log::MySqlLog;
use crate::page::{PageAt, PageOpener};
use crate::reading::{head_of, read_up_to};
use crate::redo_log::{has_mysql_ring, identify, log_files};
use crate::{space, system};

/// How recovery writes a page again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mends {
    /// From its copy in the doublewrite buffer.
    Copy,
    /// From the redo log alone.
    Log,
}

/// What a datadir's pending recovery has for some pages.
#[derive(Debug)]
pub struct Mending {
    copies: Copies,
    /// Of each page asked about that the log changes: whether the log makes or frees it first.
    made: HashMap<PageId, bool>,
    /// Tablespaces that the log changes.
    changed: BTreeSet<SpaceId>,
    checkpoint: Lsn,
    end: Lsn,
}

impl Mending {
    /// Reads the log and the doublewrite buffer of the datadir `root` for these pages. `None` if one of them cannot be read.
    pub fn read(root: &Path, keys: &KeyStore, pages: &BTreeSet<PageId>) -> Option<Self> {
        if files::is_remote(root) {
            return None;
        }
        let logs = log_files(root);
        let vendor = identify(logs.first()?).ok()?;
        let mut mending = Self {
            copies: Copies::default(),
            made: HashMap::new(),
            changed: BTreeSet::new(),
            checkpoint: Lsn(0),
            end: Lsn(0),
        };
        let (checkpoint, (end, _)) = match vendor {
            LogVendor::MariaDb => {
                let ring = Ring::open(root, keys)?;
                let from = ring.log.checkpoint.lsn;
                (from, ring.each_mtr(from, u64::MAX, |mtr| mending.add(mtr, pages))?)
            }
            LogVendor::MySql => {
                let log = MySqlLog::open(&logs, keys).ok()?;
                let from = log.checkpoint_lsn();
                (from, log.each_mtr((from, &log.stretches), u64::MAX, |mtr| mending.add(mtr, pages))?)
            }
        };
        let copies = copies_in(root, vendor)?;
        Some(Self { copies, checkpoint, end, ..mending })
    }

    fn add(&mut self, mtr: &Mtr<'_>, pages: &BTreeSet<PageId>) -> Option<()> {
        for record in mtr.records() {
            let RedoRecord::Page(record) = record.ok()? else { continue };
            let (id, change) = (record.id, &record.change);
            self.changed.insert(id.space);
            match change {
                // An undo tablespace is recreated; the system tablespace loses its end.
                Change::Trim => {
                    let is_all = id.space != SpaceId::SYSTEM;
                    let is_cut = |page: &&PageId| page.space == id.space && (is_all || page.page_no >= id.page_no);
                    self.made.extend(pages.iter().filter(is_cut).map(|page| (*page, true)));
                }
                _ if !pages.contains(&id) => {}
                _ if change.voids_page() => drop(self.made.insert(id, true)),
                _ => drop(self.made.entry(id).or_insert_with(|| change.makes_page())),
            }
        }
        Some(())
    }

    /// Whether recovery has to change this page, whose stored bytes are wrong, and cannot.
    pub fn ends_at(&self, at: PageAt<'_>, opener: &mut PageOpener) -> bool {
        self.made.contains_key(&at.id) && self.of(at, opener).is_none()
    }

    /// How recovery writes this page again, whose stored bytes are wrong; `None` if it does not. MySQL takes copies of any age, which may lack
    /// what was written and lost later: only one that was made since the checkpoint proves that a write was interrupted.
    pub fn of(&self, at: PageAt<'_>, opener: &mut PageOpener) -> Option<Mends> {
        let is_changed = self.changed.contains(&at.id.space);
        let copy = is_changed.then(|| self.copies.find(at, (self.checkpoint, self.end), opener)).flatten();
        copy.map(|_| Mends::Copy).or_else(|| self.made.get(&at.id).filter(|is_made| **is_made).map(|_| Mends::Log))
    }
}

/// The copies that the datadir's server would use.
fn copies_in(root: &Path, vendor: LogVendor) -> Option<Copies> {
    let system = system::files_of(root);
    let format = format_of(system.first()?)?;
    let dblwr = files_in(root, format.logical().bytes()).ok()?;
    // After an upgrade the area keeps copies that have long been out of date.
    let is_in_files = vendor == LogVendor::MySql && (!dblwr.is_empty() || !has_mysql_ring(root));
    if is_in_files {
        return Copies::in_files(&dblwr, &format).ok();
    }
    Copies::in_area(&format, |first, pages| read_pages(&system, &format, first, pages)).ok()
}

/// The format of a system tablespace, whose first page may be the one that is torn.
fn format_of(first: &Path) -> Option<SpaceFormat> {
    let file = File::open(first).ok()?;
    let head = head_of(&file, space::HEAD).ok()?;
    let part = space::by_page0(&head, None).or_else(|| {
        let head = head_of(&file, space::LONG_HEAD).ok()?;
        space::by_pages(&head, None, None).ok()
    });
    part.map(|part| part.format)
}

/// Pages of a tablespace of several files.
fn read_pages(paths: &[PathBuf], format: &SpaceFormat, first: PageNo, pages: usize) -> io::Result<Vec<u8>> {
    let (mut bytes, mut wanted) = (Vec::new(), pages * format.physical().bytes());
    let mut offset = format.physical().offset_of(first.0);
    for path in paths {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        if offset < len && wanted > 0 {
            let read = read_up_to(&file, offset, wanted)?;
            wanted -= read.len();
            offset += read.len() as u64;
            bytes.extend(read);
        }
        offset = offset.saturating_sub(len);
    }
    Ok(bytes)
}
