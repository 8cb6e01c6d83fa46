//! MariaDB's instantly altered tables. The root gives the number of fields in the first rows; the metadata record describes later changes.
//!
//! Facts: `dict0mem.cc` and `btr0cur.cc` of MariaDB 10.11; compared with the altered tables of its datadirs.

use crate::bytes::be;
use crate::page::index::IndexPage;
use crate::page::lob::{BTR_EXTERN_FIELD_REF_SIZE, Reference};
use crate::record::{FieldLayout, Instant, Layout, REC_INFO_DELETED, RecordStyle, Storage, redundant};
use crate::schema::BuildError;
use crate::schema::{FieldDef, FieldSource, IndexDef, KeyOrder, TableDef};

const DROPPED: u16 = 0x8000;
const DROPPED_NOT_NULL: u16 = 0x4000;
const ORDINAL: u16 = 0x03FF;
/// DB_TRX_ID and DB_ROLL_PTR.
const SYSTEM_BYTES: usize = 13;

/// The kind of metadata record in the leftmost leaf of an instantly altered table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metadata {
    /// No metadata record: the alteration was undone, so the table is ordinary.
    None,
    /// Columns were added at the end.
    Added,
    /// Columns were dropped or moved; this off-page value is the field map: [`altered`].
    Map(Reference),
}

/// Examines the leftmost leaf of a clustered index whose root has [`IndexPage::instant_core`]. `index` comes from the table's definition.
#[must_use]
pub fn metadata(leaf: &IndexPage<'_>, index: &IndexDef) -> Option<Metadata> {
    let first = match leaf.records().next() {
        Some(record) => record.ok()?,
        None => return Some(Metadata::None),
    };
    if !first.is_metadata() {
        return Some(Metadata::None);
    }
    if first.info() & REC_INFO_DELETED == 0 {
        return Some(Metadata::Added);
    }
    let key = match first.style() {
        // Variable-length key fields are empty in this record.
        RecordStyle::Compact => {
            let key = index.layout.fields().iter().take(index.layout.key_fields());
            key.map(|field| if let Storage::Fixed(len) = field.storage { usize::from(len) } else { 0 }).sum()
        }
        RecordStyle::Redundant => {
            let mut fields = crate::record::RecordFields::new();
            redundant::locate_stored(&first, &mut fields).ok()?;
            let last = fields.slots().get(index.layout.key_fields().checked_sub(1)?)?;
            (last.start + last.len) as usize - usize::from(first.origin())
        }
    };
    let at = usize::from(first.origin()) + key + SYSTEM_BYTES;
    let reference = leaf.bytes().get(at..at + BTR_EXTERN_FIELD_REF_SIZE)?;
    Reference::parse(reference).map(Metadata::Map)
}

/// The clustered index of `table` in the layout of its rows. `core` is the root's number of initial fields; `map` is the off-page value of
/// [`Metadata::Map`], if the metadata record has one.
///
/// # Errors
/// The map contradicts the table's definition.
pub fn altered(table: &TableDef, core: u16, map: Option<&[u8]>) -> Result<IndexDef, BuildError> {
    let index = table.indexes.first().ok_or(BuildError::NoIndex)?;
    let instant = Instant::MariaDb { core, has_map: map.is_some() };
    let Some(map) = map else { return Ok(index.clone().altered(instant)) };
    let count = be::u32_at(map, 0).ok_or(BuildError::Positions)? as usize;
    let (entries, _) = map.get(4..).unwrap_or(&[]).as_chunks::<2>();
    let first = index.layout.trx_id().ok_or(BuildError::Positions)? + 2;
    let stored: Vec<usize> =
        table.columns.iter().enumerate().filter(|(_, column)| !column.is_virtual).map(|(at, _)| at).collect();
    let mut defs = index.fields.get(..first).unwrap_or(&[]).to_vec();
    let mut layouts = index.layout.fields().get(..first).unwrap_or(&[]).to_vec();
    for entry in entries.get(..count).ok_or(BuildError::Positions)? {
        let entry = u16::from_be_bytes(*entry);
        let (def, layout) = if entry & DROPPED != 0 {
            dropped(entry)
        } else {
            let column = stored.get(usize::from(entry & ORDINAL)).ok_or(BuildError::Positions)?;
            current(index, first, *column).ok_or(BuildError::Positions)?
        };
        defs.push(def);
        layouts.push(layout);
    }
    let layout = Layout::new(layouts, index.layout.key_fields(), index.layout.trx_id(), instant);
    Ok(IndexDef { fields: defs, layout, ..index.clone() })
}

fn current(index: &IndexDef, first: usize, column: usize) -> Option<(FieldDef, FieldLayout)> {
    let fields = index.fields.iter().zip(index.layout.fields()).skip(first);
    let mut fields = fields.filter(|(def, _)| def.source == FieldSource::Column(column));
    fields.next().map(|(def, layout)| (*def, *layout))
}

fn dropped(entry: u16) -> (FieldDef, FieldLayout) {
    let storage = match entry & ORDINAL {
        0 => Storage::Variable { big: false },
        1 => Storage::Variable { big: true },
        len => Storage::Fixed(len - 1),
    };
    let redundant_len = None;
    let def = FieldDef {
        source: FieldSource::Dropped,
        prefix: None,
        descending: false,
        order: KeyOrder::Unknown,
        redundant_len,
        max_len: None,
    };
    (def, FieldLayout::new(storage, entry & DROPPED_NOT_NULL == 0))
}
