//! The rows of dictionary tables, read strictly: skipping a row would hide the loss of a table.

use std::collections::HashMap;

use format::PageNo;
use format::bytes::be;
use format::page::index::{IndexFinding, IndexPage};
use format::page::lob::Reference;
use format::record::{Record, RecordFields};
use format::schema::{FieldSource, IndexDef, TableDef};

use crate::tablespace::{Opener, Tablespace, sdi};

/// No B-tree has more levels than this.
const LEVELS_MAX: usize = 64;

/// Finds the fields of a record.
type Locate<'l> = &'l dyn Fn(&Record<'_>, &mut RecordFields) -> Result<(), IndexFinding>;

/// Which rows to return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those not delete-marked.
    Present,
    /// Delete-marked ones too: a row may come back until its deletion is committed.
    WithDeleted,
}

/// Passes the rows of the tree below `root` to `take`.
///
/// # Errors
/// Why the tree cannot be read to its end, as a clause.
pub(super) fn each_row(
    space: &Tablespace,
    root: PageNo,
    opener: &mut Opener,
    locate: Locate<'_>,
    which: Which,
    take: &mut dyn FnMut(&Record<'_>, &RecordFields) -> Result<(), String>,
) -> Result<(), String> {
    let mut fields = RecordFields::new();
    let mut at = Some(leftmost(space, root, opener, locate)?);
    // No page list is longer than the tablespace, so a cycle ends here.
    for _ in 0..=space.pages() {
        let Some(PageNo(number)) = at else { return Ok(()) };
        let image = space.sound(number, opener)?;
        let page = IndexPage::parse(&image, &space.format).map_err(|error| format!("page {number}: {error}"))?;
        if !page.is_leaf() {
            return Err(format!("page {number} should be a leaf"));
        }
        for record in page.records() {
            let record = record.map_err(|finding| damaged(number, &finding))?;
            if which == Which::Present && record.is_deleted() || record.is_metadata() {
                continue;
            }
            locate(&record, &mut fields).map_err(|finding| damaged(number, &finding))?;
            take(&record, &fields)?;
        }
        at = page.next();
    }
    Err(format!("the leaves after page {} form a loop", root.0))
}

fn leftmost(space: &Tablespace, root: PageNo, opener: &mut Opener, locate: Locate<'_>) -> Result<PageNo, String> {
    let (mut at, mut fields) = (root, RecordFields::new());
    for _ in 0..LEVELS_MAX {
        let image = space.sound(at.0, opener)?;
        let page = IndexPage::parse(&image, &space.format).map_err(|error| format!("page {}: {error}", at.0))?;
        if page.is_leaf() {
            return Ok(at);
        }
        let first = page.records().next().ok_or_else(|| format!("page {} names no child page", at.0))?;
        let first = first.map_err(|finding| damaged(at.0, &finding))?;
        locate(&first, &mut fields).map_err(|finding| damaged(at.0, &finding))?;
        at = fields.child().ok_or_else(|| format!("page {} names no child page", at.0))?;
    }
    Err(format!("the tree of page {} has no leaves", root.0))
}

fn damaged(page: u32, finding: &dyn std::error::Error) -> String {
    format!("page {page} is damaged: {finding}")
}

/// A table of MySQL's dictionary: its tree, and the position of each column.
pub(super) struct DictionaryTable<'s> {
    space: &'s Tablespace,
    root: PageNo,
    index: IndexDef,
    places: HashMap<String, usize>,
    /// Position of DB_TRX_ID.
    transaction: Option<usize>,
}

/// One row of a dictionary table.
pub(super) struct DictionaryRow<'r> {
    table: &'r DictionaryTable<'r>,
    page: &'r [u8],
    fields: &'r RecordFields,
    /// Delete-marked.
    pub is_deleted: bool,
}

impl<'s> DictionaryTable<'s> {
    /// `None` if the definition has no clustered index with a root.
    pub fn new(space: &'s Tablespace, table: &TableDef) -> Option<Self> {
        let index = table.indexes.first()?.clone();
        let column = |(place, field): (usize, &format::schema::FieldDef)| match field.source {
            FieldSource::Column(number) => Some((table.columns.get(number)?.name.clone(), place)),
            _ => None,
        };
        let places = index.fields.iter().enumerate().filter_map(column).collect();
        let transaction = index.fields.iter().position(|field| field.source == FieldSource::TrxId);
        Some(Self { space, root: index.root?.root, index, places, transaction })
    }

    /// Passes the rows to `take`.
    ///
    /// # Errors
    /// As [`each_row`].
    pub fn each(
        &self,
        opener: &mut Opener,
        which: Which,
        mut take: impl FnMut(&DictionaryRow<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let locate =
            |record: &Record<'_>, fields: &mut RecordFields| self.index.layout.locate(record, fields).map(|_| ());
        each_row(self.space, self.root, opener, &locate, which, &mut |record, fields| {
            take(&DictionaryRow { table: self, page: record.page(), fields, is_deleted: record.is_deleted() })
        })
    }
}

impl DictionaryRow<'_> {
    /// The stored bytes of a column that are in the row.
    pub fn bytes(&self, column: &str) -> Option<&[u8]> {
        self.fields.bytes(self.page, *self.table.places.get(column)?)
    }

    /// The transaction that wrote the row.
    pub fn transaction(&self) -> Option<u64> {
        let bytes = self.fields.bytes(self.page, self.table.transaction?)?;
        Some(bytes.get(..6)?.iter().fold(0, |id, byte| id << 8 | u64::from(*byte)))
    }

    /// A BIGINT UNSIGNED.
    pub fn id(&self, column: &str) -> Option<u64> {
        be::u64_at(self.bytes(column)?, 0)
    }

    /// An INT UNSIGNED.
    pub fn number(&self, column: &str) -> Option<u32> {
        be::u32_at(self.bytes(column)?, 0)
    }

    /// The index of an ENUM value, from 1.
    pub fn choice(&self, column: &str) -> Option<u8> {
        self.bytes(column)?.first().copied()
    }

    /// A text value, inline or off-page; `None` if it is NULL or cannot be read.
    pub fn text(&self, column: &str) -> Option<String> {
        let place = *self.table.places.get(column)?;
        let stored = self.bytes(column)?;
        let reference = self.fields.references(self.page).find(|(number, _)| *number == place);
        let Some((_, reference)) = reference else { return Some(String::from_utf8_lossy(stored).into_owned()) };
        let mut value = stored.get(..stored.len().checked_sub(reference.len())?)?.to_vec();
        value.extend(sdi::value(self.table.space, Reference::parse(reference)?, &mut Opener::new()).ok()?);
        Some(String::from_utf8_lossy(&value).into_owned())
    }

    /// The number for `key` in a column that holds `key=value;` pairs.
    pub fn option(&self, column: &str, key: &str) -> Option<u64> {
        self.text_option(column, key)?.parse().ok()
    }

    /// The text for `key` in such a column.
    pub fn text_option(&self, column: &str, key: &str) -> Option<String> {
        let text = self.text(column)?;
        text.split(';').find_map(|option| option.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
    }
}
