//! The entry of a secondary index that goes with a row: the same bytes, made from the row and read from the entry.
//!
//! ```text
//! row   -> columns of the entry, cut to their prefixes ┐
//!                                                      ├-> EntryImage { key of the row | other columns }
//! entry -> its fields                                  ┘
//! ```
//!
//! Both servers keep the two equal to the byte, also where a collation takes different bytes for the same value: an update whose new
//! value only compares equal marks the old entry as deleted and writes, or overwrites, another (`row_upd_changes_ord_field_binary` and
//! `row_ins_sec_index_entry_by_modify` in `row0upd.cc` and `row0ins.cc`). Only the spaces that end a CHAR, which mean nothing, are not
//! compared: their number hangs on the row format and on the server that wrote them.

use super::charset::{self, BINARY};
use super::{ColumnDef, FieldSource, IndexDef, IndexKind, InstantDefault, SqlType};
use crate::record::{RecordFields, Stored};

/// No key is longer: what lies off-page beyond this is in no entry.
const ENTRY_VALUE_MAX: usize = 16 << 10;

/// Reads the beginning of the off-page value behind a reference: at least this many bytes, if it has them. `None` where it
/// cannot be read.
pub type Outside<'o> = &'o mut dyn FnMut(&[u8], usize) -> Option<Vec<u8>>;

/// How much of a column an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Whole,
    Bytes(usize),
    Characters { count: usize, bytes_max: usize, collation: u16 },
}

/// A column of the entry that the row has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntryPart {
    /// Its place among the fields of a row.
    row: usize,
    /// Its place among the fields of an entry.
    entry: usize,
    cut: Cut,
    /// Whether spaces at its end mean nothing.
    trims: bool,
}

/// How to hold rows against the entries of one secondary index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPlan {
    /// Those of the row's key come first.
    parts: Vec<EntryPart>,
    key_parts: usize,
    left_out: Option<&'static str>,
}

/// An entry as bytes that are the same if and only if the entry is. Serves for one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryImage {
    bytes: Vec<u8>,
    key_len: usize,
}

impl EntryImage {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), key_len: 0 }
    }

    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key of the row: how it begins.
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

/// What rows have that were written before a column came: by the fields of the clustered index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowDefaults {
    values: Vec<Option<InstantDefault>>,
}

impl RowDefaults {
    /// As the columns tell (MySQL).
    #[must_use]
    pub fn of_columns(columns: &[ColumnDef], row: &IndexDef) -> Self {
        let default = |source| match source {
            FieldSource::Column(at) => columns.get(at).and_then(|column| column.instant_default.clone()),
            _ => None,
        };
        Self { values: row.fields.iter().map(|field| default(field.source)).collect() }
    }

    /// As a metadata record tells (MariaDB), whose fields these are.
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
    /// For the rows of `row` and the entries of `entry`, two indexes of the table that has these columns. `None` where entries cannot
    /// be held against rows at all: there are several for a row, or the row's key is not in them.
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

    /// What of the entries cannot be compared, as a clause; `None` if all can.
    #[must_use]
    pub const fn left_out(&self) -> Option<&'static str> {
        self.left_out
    }

    /// Places of the row's key among the fields of rows and of entries.
    pub fn key(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.parts.iter().take(self.key_parts).map(|part| (part.row, part.entry))
    }

    /// Reads the image of an entry. `None` where a field of it is not there as it must be.
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

    /// Builds the image of the entry that belongs to a row. `None` where a value cannot be read.
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

/// Whether the field is the one by which entries name their row.
fn is_key(row: &IndexDef, source: FieldSource, prefix: Option<u32>) -> bool {
    let mut key = row.fields.iter().take(row.layout.key_fields());
    key.any(|field| field.source == source && (prefix.is_none() || prefix == field.prefix))
}

/// `None`: the row should have the column and has not. Inside, why the column cannot be compared.
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

    /// The most bytes of the column's beginning that it takes to cut it.
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
