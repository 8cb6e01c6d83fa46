//! Decides, while a tablespace is read, which of its pages an increment has to hold.
//!
//! A backup's log begins with a checkpoint: every earlier change was in the files by then. So a page whose LSN on the server is older has
//! not changed since, and the base has the same page, byte for byte. Everything else is copied: newer pages, pages without an LSN, and
//! pages beyond the end of the base's file. All-zero pages are only noted, and take no space. Together with the pages of the base this
//! makes the file that a full backup would have copied.
//!
//! | what the LSN does not tell | what is done about it |
//! |---|---|
//! | another file of the same name or space id (imported, restored), or with other flags | it is copied whole (`Since::tablespace`) |
//! | the first page: keys and flushed LSNs are written to it without an LSN of their own | its checksum is compared |
//! | the doublewrite area: copies of other pages | left out: no page in the set is torn |
//! | a server that was set back: its LSNs come again | some LSNs are compared at once (`settled`), all in the merge (`same_lsns`) |

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use format::bytes::be;
use format::checksum::crc32c;
use format::fil::{FIL_PAGE_LSN, FIL_PAGE_OFFSET, FIL_PAGE_SPACE_ID};
use format::{Lsn, PageId, PageNo};

use super::delta_file::DeltaWriter;
use super::error::{BackupError, Result, failed, refused};
use crate::door;
use crate::manifest::{BackupBase, BackupDelta, BackupTablespace, Manifest};
use datadir::crc32c::Crc32c;
use datadir::reading::read_up_to;
use datadir::server::{ServerFacts, ServerKind};
use datadir::space::SpacePart;

/// Pages of each tablespace whose LSNs the manifest lists.
const SETTLED: usize = 4;
/// A tablespace with more runs of zeros than this is copied whole.
const ZEROS_MAX: usize = 1 << 16;
/// The space id of the system tablespace, and its file.
const SYSTEM: u32 = 0;
const SYSTEM_FILE: &str = "ibdata1";

/// The base of an increment.
#[derive(Debug, Clone)]
pub(super) struct Since {
    pub base: Manifest,
}

impl Since {
    /// Reads the manifest of the backup in `set`. An increment needs nothing else of its base.
    pub fn read(set: &Path) -> Result<Self> {
        let (base, is_sound) = Manifest::read(set)?;
        let path = set.display();
        if !is_sound {
            return refused(format!("{path}: its manifest was changed since it was written: take a full backup"));
        }
        if let Some(why) = base.state.no_base() {
            return refused(format!("{path}: no increment can be merged into this backup: {why}"));
        }
        if !base.damaged.is_empty() {
            return refused(format!(
                "{path}: it was taken with --allow-damage, and has damaged pages: take a full backup"
            ));
        }
        if base.id.is_empty() || base.tablespaces.is_empty() {
            return refused(format!("{path}: taken by an innokit that knew no increments: take a full backup"));
        }
        Ok(Self { base })
    }

    /// How an increment's manifest names this base.
    pub fn named(&self) -> BackupBase {
        let base = &self.base;
        BackupBase { id: base.id.clone(), from_lsn: base.from_lsn, to_lsn: base.to_lsn }
    }

    /// Refuses a base that is no backup of this server. `now` is the LSN that the server has reached.
    pub fn check(&self, facts: &ServerFacts, datadir: &Path, now: Lsn) -> Result<()> {
        let (base, kind) = (&self.base, ServerKind::of(&self.base.server_version));
        if kind != facts.kind() {
            return refused(format!("the base is a backup of {}, but this is {}", kind.name(), facts.kind().name()));
        }
        if now.0 < base.to_lsn {
            return refused(format!(
                "the base reaches LSN {}, but the server is only at LSN {now}: the base is of another server, or this one was set back since: \
                 take a full backup",
                base.to_lsn
            ));
        }
        let path = datadir.join(SYSTEM_FILE);
        let file = door::open_file(&path).map_err(failed(&path, "opening the tablespace"))?;
        let (own, taken) = (file_id(&file), base.tablespace(SYSTEM).and_then(|system| system.file.clone()));
        match own {
            None => refused(format!(
                "{}: the file system does not say when a file was made, so that an increment cannot know that it is still the same: take full \
                 backups",
                path.display()
            )),
            own if own != taken => refused(format!(
                "{}: not the file of which the base has a copy: the base is of another server, or this one was restored or moved since: take \
                 a full backup",
                path.display()
            )),
            _ => Ok(()),
        }
    }

    /// The base's entry of a tablespace, if its copy was made from this very file.
    pub fn tablespace(&self, file: &File, part: &SpacePart) -> Option<&BackupTablespace> {
        let known = self.base.tablespace(part.format.space().0)?;
        let is_same = known.file.is_some() && known.file == file_id(file) && known.flags == part.format.flags();
        let is_same = is_same && known.page_size == part.format.physical().get();
        is_same.then_some(known)
    }
}

/// Tells a file from every other that has had its name: inode and creation time. `None` if the file system does not record the latter.
pub(super) fn file_id(file: &File) -> Option<String> {
    let metadata = file.metadata().ok()?;
    let made = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{}@{}.{:09}", metadata.ino(), made.as_secs(), made.subsec_nanos()))
}

/// What a later increment compares a tablespace with, collected while the tablespace is read.
#[derive(Debug)]
pub(super) struct Notes {
    /// The LSN where this backup's log begins.
    from: Lsn,
    first_page: u32,
    /// The newest of the pages older than `from`, newest first.
    settled: Vec<(Lsn, u32)>,
    samples: Samples,
}

impl Notes {
    pub const fn new(from: Lsn) -> Self {
        Self { from, first_page: 0, settled: Vec::new(), samples: Samples(Vec::new()) }
    }

    pub fn take_samples(&mut self) -> Samples {
        std::mem::take(&mut self.samples)
    }

    /// Notes the pages of a stretch that begins at `offset`.
    pub fn take(&mut self, offset: u64, stretch: &[u8], part: &SpacePart) {
        let pages = stretch.chunks_exact(part.format.physical().bytes());
        for (page, number) in pages.zip(part.page_at(offset)..) {
            self.page(number, page, part);
        }
    }

    fn page(&mut self, number: u32, page: &[u8], part: &SpacePart) {
        let lsn = lsn_of(page);
        if number == 0 {
            self.first_page = crc32c(page);
        }
        if number < 4 || number.is_power_of_two() {
            self.samples.0.push((number, crc32c(page)));
        }
        let is_newer = self.settled.len() < SETTLED || self.settled.last().is_some_and(|(least, _)| lsn > *least);
        if lsn.0 == 0 || lsn >= self.from || !is_newer || is_copy(number, page, part) {
            return;
        }
        let at = self.settled.partition_point(|(other, _)| *other >= lsn);
        self.settled.insert(at, (lsn, number));
        self.settled.truncate(SETTLED);
    }

    /// The tablespace's entry in the manifest, still without a path.
    pub fn entry(self, file: &File, part: &SpacePart, size: u64) -> BackupTablespace {
        BackupTablespace {
            path: String::new(),
            space: part.format.space().0,
            flags: part.format.flags(),
            page_size: part.format.physical().get(),
            size,
            file: file_id(file),
            first_page: format!("{:08x}", self.first_page),
            settled: self.settled.into_iter().map(|(lsn, number)| (number, lsn.0)).collect(),
            delta: None,
        }
    }
}

/// Checksums of the first pages of a tablespace, and of those at each power of two.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<(u32, u32)>);

impl Samples {
    /// Whether MariaDB's `IMPORT TABLESPACE` has written to the file since these samples were taken. It sets the LSN of every page to 0,
    /// which no later change does.
    pub fn has_imported(&self, file: &File, page_size: usize) -> io::Result<bool> {
        for (number, crc) in &self.0 {
            let page = read_up_to(file, u64::from(*number) * page_size as u64, page_size)?;
            let is_unlogged = lsn_of(&page).0 == 0 && page.iter().any(|byte| *byte != 0);
            if is_unlogged && crc32c(&page) != *crc {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Collects what an increment has to hold of a tablespace.
#[derive(Debug)]
pub(super) struct Changes<'b> {
    base: &'b BackupTablespace,
    since: Lsn,
    pub part: &'b SpacePart,
    /// Number of pages in the base's file.
    base_pages: u64,
    to: PathBuf,
    writer: Option<DeltaWriter>,
    first: Vec<u8>,
    is_first_changed: bool,
    sums: SameLsns,
    zeros: Vec<(u32, u32)>,
    /// A page whose LSN differs from the base's, although both are from before the base's log: its number, its LSN, the base's LSN.
    set_back: Option<(u32, Lsn, Lsn)>,
}

impl<'b> Changes<'b> {
    /// Changed pages go to `to`, which is created with the first of them. `since` is the LSN where the base's log begins.
    pub fn new(base: &'b BackupTablespace, since: Lsn, part: &'b SpacePart, to: PathBuf) -> Self {
        let (base_pages, sums) = (part.pages_in(base.size), SameLsns::new());
        let (writer, first, zeros) = (None, Vec::new(), Vec::new());
        Self { base, since, part, base_pages, to, writer, first, is_first_changed: false, sums, zeros, set_back: None }
    }

    /// Classifies the pages of a stretch that begins at `offset`.
    pub fn take(&mut self, offset: u64, stretch: &[u8]) -> Result<()> {
        let part = self.part;
        let pages = stretch.chunks_exact(part.format.physical().bytes());
        pages.zip(part.page_at(offset)..).try_for_each(|(page, number)| self.page(number, page))
    }

    fn page(&mut self, number: u32, page: &[u8]) -> Result<()> {
        let lsn = lsn_of(page);
        if number == 0 {
            // The other pages cannot be read without it, so the delta has it if it has any page.
            self.first = page.to_vec();
            self.is_first_changed = lsn >= self.since || format!("{:08x}", crc32c(page)) != self.base.first_page;
            return Ok(());
        }
        if (lsn.0 == 0 && page.iter().all(|byte| *byte == 0)) || is_copy(number, page, self.part) {
            self.zero(number);
            return Ok(());
        }
        if lsn.0 == 0 || lsn >= self.since || u64::from(number) >= self.base_pages {
            return self.put(number, page);
        }
        if let Some((_, was)) = self.base.settled.iter().find(|(page, was)| *page == number && *was != lsn.0) {
            self.set_back = Some((number, lsn, Lsn(*was)));
        }
        self.sums.add(number, lsn);
        Ok(())
    }

    fn zero(&mut self, number: u32) {
        match self.zeros.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => self.zeros.push((number, 1)),
        }
    }

    fn put(&mut self, number: u32, page: &[u8]) -> Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let mut writer = DeltaWriter::create(self.to.clone(), page.len())?;
                writer.put(0, &self.first)?;
                self.writer.insert(writer)
            }
        };
        writer.put(number, page)
    }

    /// What the manifest says of the increment's part. `path` is the tablespace, for messages. `None` if it should be copied whole.
    pub fn finish(mut self, path: &Path) -> Result<Option<BackupDelta>> {
        if let Some((number, lsn, was)) = self.set_back {
            return set_back(path, number, lsn, was);
        }
        if self.is_first_changed && self.writer.is_none() {
            let mut writer = DeltaWriter::create(self.to.clone(), self.first.len())?;
            writer.put(0, &self.first)?;
            self.writer = Some(writer);
        }
        let pages = self.writer.map_or(Ok(0), DeltaWriter::finish)?;
        let is_small = self.zeros.len() <= ZEROS_MAX;
        let (same, same_lsns) = (self.sums.count, self.sums.text());
        Ok(is_small.then_some(BackupDelta { pages, same, same_lsns, zeros: self.zeros }))
    }
}

/// Checksum of the numbers and LSNs of the pages that an increment takes from its base.
#[derive(Debug)]
pub(super) struct SameLsns {
    sum: Crc32c,
    pub count: u64,
}

impl SameLsns {
    pub fn new() -> Self {
        Self { sum: Crc32c::new(), count: 0 }
    }

    pub fn add(&mut self, number: u32, lsn: Lsn) {
        self.sum.add(&number.to_be_bytes());
        self.sum.add(&lsn.0.to_be_bytes());
        self.count += 1;
    }

    pub fn text(&self) -> String {
        self.sum.text()
    }
}

/// The LSN of a page's last change; 0 if it has none.
pub(super) fn lsn_of(page: &[u8]) -> Lsn {
    Lsn(be::u64_at(page, FIL_PAGE_LSN).unwrap_or(0))
}

/// Whether a page lies where the doublewrite area usually is, and is a copy of another page. The position alone does not tell: servers
/// without that area use these pages for other things.
fn is_copy(number: u32, page: &[u8], part: &SpacePart) -> bool {
    let id = PageId { space: part.format.space(), page_no: PageNo(number) };
    let own = (be::u32_at(page, FIL_PAGE_SPACE_ID), be::u32_at(page, FIL_PAGE_OFFSET));
    part.format.is_doublewrite_slot(id) && own != (Some(id.space.0), Some(number))
}

fn set_back<T>(path: &Path, number: u32, lsn: Lsn, was: Lsn) -> Result<T> {
    Err(BackupError::Refused(format!(
        "{}: page {number} has LSN {lsn}, but LSN {was} when the base was taken, and nothing between: this server was set back, or the base is \
         of another: take a full backup",
        path.display()
    )))
}
