//! The secondary index entry of a row, in a form that has the same bytes whether built from the row or read from the entry.
//!
//! ```text
//! row   -> columns of the entry, cut to their prefixes ┐
//!                                                      ├-> EntryImage { key of the row | other columns }
//! entry -> its fields                                  ┘
//! ```
//!
//! Both servers keep row and entry identical to the byte, even if a collation treats different bytes as equal: an update to a value that
//! merely compares equal delete-marks the old entry and writes, or overwrites, another (`row_upd_changes_ord_field_binary` and
//! `row_ins_sec_index_entry_by_modify` in `row0upd.cc` and `row0ins.cc`). The one exception is trailing spaces of a CHAR. They have no
//! meaning, and their number depends on the row format and on the server that wrote them, so they are not compared.

use super::charset::{self, BINARY};
use super::{ColumnDef, FieldSource, IndexDef, IndexKind, InstantDefault, SqlType};
use crate::record::{RecordFields, Stored};

/// Longest value in an entry, bytes. No key is longer, so off-page data beyond this is in no entry.
const ENTRY_VALUE_MAX: usize = 16 << 10;

/// Reads the start of the off-page value of a reference: at least this many bytes, or the whole value if it is shorter. `None` if it cannot
/// be read.
pub type Outside<'o> = &'o mut dyn FnMut(&[u8], usize) -> Option<Vec<u8>>;

/// How much of a column is in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Whole,
    Bytes(usize),
    Characters { count: usize, bytes_max: usize, collation: u16 },
}

/// A column that both the row and the entry have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntryPart {
    /// Its index among the fields of a row.
    row: usize,
    /// Its index among the fields of an entry.
    entry: usize,
    cut: Cut,
    /// Whether trailing spaces are ignored.
    trims: bool,
}

/// How to compare rows with the entries of one secondary index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPlan {
    /// The parts of the row's key come first.
    parts: Vec<EntryPart>,
    key_parts: usize,
    left_out: Option<&'static str>,
}

/// Bytes that are equal if and only if the entries are equal. The buffer is reused for entry after entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryImage {
    bytes: Vec<u8>,
    key_len: usize,
}

impl EntryImage {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), key_len: 0 }
    }

    /// The whole image.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The row's key, which the image starts with.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.bytes.get(..self.key_len).unwrap_or(&self.bytes)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.key_len = 0;
    }

    fn add(&mut self, value: Option<&[u8]>, trims: bool) {
        let Some(value) = value else { return self.bytes.push(0) };
        let kept = if trims { value.trim_ascii_end_spaces() } else { value };
        self.bytes.push(1);
        self.bytes.extend_from_slice(&(kept.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(kept);
    }
}

trait TrimSpaces {
    fn trim_ascii_end_spaces(&self) -> &Self;
}

impl TrimSpaces for [u8] {
    fn trim_ascii_end_spaces(&self) -> &Self {
        let end = self.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
        self.get(..end).unwrap_or(self)
    }
}

/// For each field of the clustered index, the value in rows written before its column was added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowDefaults {
    values: Vec<Option<InstantDefault>>,
}

impl RowDefaults {
    /// The defaults recorded for the columns (MySQL).
    #[must_use]
    pub fn of_columns(columns: &[ColumnDef], row: &IndexDef) -> Self {
        let default = |source| match source {
            FieldSource::Column(at) => columns.get(at).and_then(|column| column.instant_default.clone()),
            _ => None,
        };
        Self { values: row.fields.iter().map(|field| default(field.source)).collect() }
    }

    /// The defaults in a metadata record (MariaDB), which has these fields.
    #[must_use]
    pub fn of_metadata(page: &[u8], fields: &RecordFields) -> Self {
        let value = |(number, slot): (usize, &crate::record::Slot)| match slot.stored {
            Stored::Null => Some(InstantDefault::Null),
            Stored::Inline => fields.bytes(page, number).map(|bytes| InstantDefault::Bytes(bytes.to_vec())),
            Stored::Extern | Stored::Missing => None,
        };
        Self { values: fields.slots().iter().enumerate().map(value).collect() }
    }

    fn get(&self, number: usize) -> Option<&InstantDefault> {
        self.values.get(number)?.as_ref()
    }
}

impl EntryPlan {
    /// Plans the comparison of rows of `row` with entries of `entry`, two indexes of the table with these columns. `None` if they cannot be
    /// compared: a row has several entries, or entries lack the row's key.
    #[must_use]
    pub fn new(columns: &[ColumnDef], row: &IndexDef, entry: &IndexDef) -> Option<Self> {
        if entry.is_multi_valued || entry.is_clustered() || !row.is_clustered() {
            return None;
        }
        let mut left_out = None;
        let mut parts = Vec::new();
        for (number, field) in entry.fields.iter().enumerate() {
            if entry.kind == IndexKind::Spatial && number == 0 {
                left_out = Some("the rectangles of entries against the shapes of rows");
                continue;
            }
            match part(columns, row, entry, number)? {
                Ok(part) => parts.push((is_key(row, field.source, field.prefix), part)),
                Err(why) => left_out = Some(why),
            }
        }
        parts.sort_by_key(|(is_key, _)| !is_key);
        let key_parts = parts.iter().filter(|(is_key, _)| *is_key).count();
        let parts = parts.into_iter().map(|(_, part)| part).collect();
        (key_parts >= row.layout.key_fields()).then_some(Self { parts, key_parts, left_out })
    }

    /// The part of the entries that cannot be compared, as a clause; `None` if everything can.
    #[must_use]
    pub const fn left_out(&self) -> Option<&'static str> {
        self.left_out
    }

    /// Positions of the row's key among the fields of rows and of entries.
    pub fn key(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.parts.iter().take(self.key_parts).map(|part| (part.row, part.entry))
    }

    /// Reads the image of an entry. `None` if a required field is missing.
    #[must_use]
    pub fn of_entry(&self, page: &[u8], fields: &RecordFields, image: &mut EntryImage) -> Option<()> {
        image.clear();
        for (number, part) in self.parts.iter().enumerate() {
            match fields.slots().get(part.entry)?.stored {
                Stored::Null => image.add(None, false),
                Stored::Inline => image.add(Some(fields.bytes(page, part.entry)?), part.trims),
                Stored::Extern | Stored::Missing => return None,
            }
            self.mark_key(number, image);
        }
        Some(())
    }

    /// Builds the image of a row's entry. `None` if a value cannot be read.
    #[must_use]
    pub fn of_row(
        &self,
        page: &[u8],
        fields: &RecordFields,
        defaults: &RowDefaults,
        outside: Outside<'_>,
        image: &mut EntryImage,
    ) -> Option<()> {
        image.clear();
        for (number, part) in self.parts.iter().enumerate() {
            match fields.slots().get(part.row)?.stored {
                Stored::Null => image.add(None, false),
                Stored::Inline => image.add(Some(part.cut.of(fields.bytes(page, part.row)?)?), part.trims),
                Stored::Extern => {
                    let whole = from_outside(fields.bytes(page, part.row)?, part.cut.bytes_max(), outside)?;
                    image.add(Some(part.cut.of(&whole)?), part.trims);
                }
                Stored::Missing => match defaults.get(part.row)? {
                    InstantDefault::Null => image.add(None, false),
                    InstantDefault::Bytes(bytes) => image.add(Some(part.cut.of(bytes)?), part.trims),
                },
            }
            self.mark_key(number, image);
        }
        Some(())
    }

    fn mark_key(&self, number: usize, image: &mut EntryImage) {
        if number + 1 == self.key_parts {
            image.key_len = image.bytes.len();
        }
    }
}

/// Whether the field is part of the key with which entries refer to their row.
fn is_key(row: &IndexDef, source: FieldSource, prefix: Option<u32>) -> bool {
    let mut key = row.fields.iter().take(row.layout.key_fields());
    key.any(|field| field.source == source && (prefix.is_none() || prefix == field.prefix))
}

/// The part for a field of the entry. `None` if the row lacks a column that it should have. The inner error says why the column cannot be
/// compared.
fn part(
    columns: &[ColumnDef],
    row: &IndexDef,
    entry: &IndexDef,
    number: usize,
) -> Option<Result<EntryPart, &'static str>> {
    let field = entry.fields.get(number)?;
    let column = if let FieldSource::Column(at) = field.source { Some(columns.get(at)?) } else { None };
    if column.is_some_and(|column| column.is_virtual) {
        return Some(Err("the values of virtual columns in entries"));
    }
    let of_row = |prefix| row.fields.iter().position(|other| other.source == field.source && other.prefix == prefix);
    let at = of_row(None).or_else(|| of_row(field.prefix))?;
    let cut = match (field.prefix, column) {
        (Some(prefix), Some(column)) => match Cut::new(column, prefix) {
            Some(cut) => cut,
            None => return Some(Err("columns of which entries have the first characters, in some charsets")),
        },
        _ => Cut::Whole,
    };
    Some(Ok(EntryPart { row: at, entry: number, cut, trims: column.is_some_and(trims) }))
}

fn trims(column: &ColumnDef) -> bool {
    matches!(column.sql_type, SqlType::Char(_))
        && column.collation != BINARY
        && charset::character_bytes(column.collation).0 == 1
}

fn from_outside(stored: &[u8], bytes_max: usize, outside: Outside<'_>) -> Option<Vec<u8>> {
    let (local, reference) = stored.split_at_checked(stored.len().checked_sub(20)?)?;
    let mut value = local.to_vec();
    if value.len() < bytes_max {
        value.extend(outside(reference, bytes_max - value.len())?);
    }
    Some(value)
}

impl Cut {
    fn new(column: &ColumnDef, prefix: u32) -> Option<Self> {
        let bytes_max = prefix as usize;
        let is_text = matches!(column.sql_type, SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Blob(_));
        let (fewest, most) = charset::character_bytes(column.collation);
        if !is_text || fewest == most {
            return Some(Self::Bytes(bytes_max));
        }
        charset::prefix_bytes(column.collation, &[], 0)?;
        let count = bytes_max / usize::from(most);
        Some(Self::Characters { count, bytes_max, collation: column.collation })
    }

    /// Upper limit of the bytes needed from the column to cut its prefix.
    const fn bytes_max(self) -> usize {
        match self {
            Self::Whole => ENTRY_VALUE_MAX,
            Self::Bytes(bytes) | Self::Characters { bytes_max: bytes, .. } => bytes,
        }
    }

    fn of(self, value: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Whole => Some(value),
            Self::Bytes(bytes) => value.get(..bytes.min(value.len())),
            Self::Characters { count, collation, .. } => value.get(..charset::prefix_bytes(collation, value, count)?),
        }
    }
}
