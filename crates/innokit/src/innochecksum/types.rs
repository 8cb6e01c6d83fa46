//! Page types: counted for `--page-type-summary`, listed for `--page-type-dump`. Labels, order and spacing are the original's.

use std::io::{self, Write};
use std::path::Path;

use format::bytes::be;
use format::fil::PageType;
use format::page::index::{PAGE_GARBAGE, PAGE_LEVEL, PAGE_N_RECS};
use format::page::view;
use format::{Family, SpaceFormat};

/// A kind of page with a line in the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedPage {
    Index,
    Sdi,
    Undo,
    Inode,
    FreeList,
    Allocated,
    Bitmap,
    System,
    TransactionSystem,
    Header,
    Extents,
    Blob,
    CompressedBlob,
    NextCompressedBlob,
    SdiBlob,
    CompressedSdiBlob,
    Other,
}

/// Each kind's label in the summary, and its text between the bars of the dump. In the order of the summary.
const LABELS: [(CountedPage, &str, &str); 17] = [
    (CountedPage::Index, "Index page", "Index page\t\t\t"),
    (CountedPage::Sdi, "SDI Index page", "SDI Index page\t\t\t"),
    (CountedPage::Undo, "Undo log page", "Undo log page\t\t\t"),
    (CountedPage::Inode, "Inode page", "Inode page\t\t\t"),
    (CountedPage::FreeList, "Insert buffer free list page", "Insert buffer free list page\t"),
    (CountedPage::Allocated, "Freshly allocated page", "Freshly allocated page\t\t"),
    (CountedPage::Bitmap, "Insert buffer bitmap", "Insert Buffer Bitmap\t\t"),
    (CountedPage::System, "System page", "System page\t\t\t"),
    (CountedPage::TransactionSystem, "Transaction system page", "Transaction system page\t\t"),
    (CountedPage::Header, "File Space Header", "File Space Header\t\t"),
    (CountedPage::Extents, "Extent descriptor page", "Extent descriptor page\t\t"),
    (CountedPage::Blob, "BLOB page", "BLOB page\t\t\t"),
    (CountedPage::CompressedBlob, "Compressed BLOB page", "Compressed BLOB page\t\t"),
    (CountedPage::NextCompressedBlob, "Subsequent Compressed BLOB page", "Subsequent Compressed BLOB page\t"),
    (CountedPage::SdiBlob, "SDI BLOB page", "SDI BLOB page\t\t\t"),
    (CountedPage::CompressedSdiBlob, "Compressed SDI BLOB page", "Compressed SDI BLOB page\t"),
    (CountedPage::Other, "Other type of page", ""),
];

/// States of an undo segment: names in the summary and in the dump. Several numbers share the last state.
const UNDO_STATES: [(&str, &str); 6] = [
    ("active", "Undo log of an active transaction, "),
    ("cached", "Page is cached for quick reuse, "),
    ("to_free", "Insert undo segment that can be freed, "),
    ("to_purge", "Will be freed in purge when all undodata in it is removed, "),
    ("prepared", "Undo log of an prepared transaction, "),
    ("other", ""),
];

const UNDO_PAGE_TYPE: usize = 38;
const UNDO_SEGMENT_STATE: usize = 38 + 18;

/// The counters of one file.
#[derive(Debug, Default)]
pub struct Tally {
    kinds: [u64; LABELS.len()],
    insert: u64,
    update: u64,
    states: [u64; UNDO_STATES.len()],
}

impl CountedPage {
    fn of(page: &[u8], format: &SpaceFormat) -> Self {
        let mariadb = format.family() == Family::MariaDb;
        match view::page_type(page, format).map_or(0, |kind| kind.0) {
            0 => Self::Allocated,
            2 => Self::Undo,
            3 => Self::Inode,
            4 => Self::FreeList,
            5 => Self::Bitmap,
            6 => Self::System,
            7 => Self::TransactionSystem,
            8 => Self::Header,
            9 => Self::Extents,
            10 => Self::Blob,
            11 => Self::CompressedBlob,
            12 => Self::NextCompressedBlob,
            18 if mariadb => Self::Index,
            18 => Self::SdiBlob,
            19 => Self::CompressedSdiBlob,
            17853 => Self::Sdi,
            kind if kind == PageType::INDEX.0 => Self::Index,
            _ => Self::Other,
        }
    }
}

impl Tally {
    /// Counts the page at `position`, and lists it in the dump. `area` ends its line there.
    pub fn count(
        &mut self,
        page: &[u8],
        position: u64,
        area: &str,
        format: &SpaceFormat,
        dump: Option<&mut impl Write>,
    ) -> io::Result<()> {
        let kind = CountedPage::of(page, format);
        if let Some(counter) = self.kinds.get_mut(kind as usize) {
            *counter += 1;
        }
        let extra = match kind {
            CountedPage::Undo => self.undo(page, area),
            CountedPage::Index | CountedPage::Sdi => index(page, area, format),
            _ => format!("\t{area}"),
        };
        match (dump, LABELS.get(kind as usize)) {
            (Some(dump), Some((_, _, label))) if kind != CountedPage::Other => {
                writeln!(dump, "#::{position:8}\t\t|\t\t{label}|{extra}")
            }
            _ => Ok(()),
        }
    }

    fn undo(&mut self, page: &[u8], area: &str) -> String {
        let kind = match be::u16_at(page, UNDO_PAGE_TYPE) {
            Some(1) => {
                self.insert += 1;
                "\tInsert Undo log page"
            }
            Some(2) => {
                self.update += 1;
                "\tUpdate undo log page"
            }
            _ => "",
        };
        let state = match be::u16_at(page, UNDO_SEGMENT_STATE) {
            Some(state @ 1..=4) => usize::from(state - 1),
            Some(5..=7) => 4,
            _ => 5,
        };
        if let Some(counter) = self.states.get_mut(state) {
            *counter += 1;
        }
        format!("{kind}, {}{area}", UNDO_STATES.get(state).map_or("", |state| state.1))
    }

    /// Prints the summary; no `file` for standard input.
    pub fn print(&self, file: Option<&Path>, out: &mut impl Write) -> io::Result<()> {
        writeln!(out)?;
        if let Some(file) = file {
            writeln!(out, "File::{}", file.display())?;
        }
        writeln!(out, "================PAGE TYPE SUMMARY==============\n#PAGE_COUNT\tPAGE_TYPE\n{:=<47}", "")?;
        for ((_, label, _), count) in LABELS.iter().zip(self.kinds) {
            writeln!(out, "{count:8}\t{label}")?;
        }
        writeln!(out, "{:=<47}\nAdditional information:", "")?;
        // The original prints a third counter, but never increments it.
        writeln!(out, "Undo page type: {} insert, {} update, 0 other", self.insert, self.update)?;
        let states = UNDO_STATES.iter().zip(self.states).map(|((name, _), count)| format!("{count} {name}"));
        writeln!(out, "Undo page state: {}", states.collect::<Vec<_>>().join(", "))
    }
}

fn index(page: &[u8], area: &str, format: &SpaceFormat) -> String {
    let field = |offset| be::u16_at(page, offset).unwrap_or(0);
    match view::index_id(page, format) {
        Some(id) => format!(
            "\tindex id={id}, page level={}, No. of records={}, garbage={}, {area}",
            field(PAGE_LEVEL),
            field(PAGE_N_RECS),
            field(PAGE_GARBAGE)
        ),
        None => format!("\tencrypted, {area}"),
    }
}

/// The heading of a file's part of the dump.
pub fn dump_head(file: &Path, dump: &mut impl Write) -> io::Result<()> {
    writeln!(dump, "\n\nFilename::{}", file.display())?;
    writeln!(dump, "{:=<78}\n\tPAGE_NO\t\t|\t\tPAGE_TYPE\t\t\t|\tEXTRA INFO\n{:=<78}", "", "")
}
