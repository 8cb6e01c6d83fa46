//! Builds the fields of each index, in storage order, from columns and declared keys.

use thiserror::Error;

use super::order::KeyOrder;
use super::{ColumnDef, FieldDef, FieldSource, IndexDef, IndexKind, IndexRoot, SqlType, charset};
use crate::record::{FieldLayout, Instant, Layout, RecordStyle, Storage};

/// A declared key part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldPart {
    /// The column's index in the table.
    pub column: usize,
    /// Length of the prefix in bytes; `None` for the whole column.
    pub prefix: Option<u32>,
    /// Descending order.
    pub descending: bool,
}

/// An index as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexParts {
    /// Its name.
    pub name: String,
    /// Whether it is declared unique, or is the primary key.
    pub unique: bool,
    /// Whether it is an R-tree.
    pub spatial: bool,
    /// Whether a row has several entries.
    pub is_multi_valued: bool,
    /// Its root, if known.
    pub root: Option<IndexRoot>,
    /// The declared parts. Empty for a clustered index keyed by DB_ROW_ID.
    pub parts: Vec<FieldPart>,
}

/// Puts the clustered index first, chosen as the servers do: the primary key, else the first unique index on whole NOT NULL columns, else
/// an undeclared one on DB_ROW_ID.
pub(super) fn clustered_first(mut indexes: Vec<IndexParts>, columns: &[ColumnDef]) -> Vec<IndexParts> {
    let whole = |part: &FieldPart| {
        columns.get(part.column).is_some_and(|column| !column.nullable && is_whole_to_the_server(part, column))
    };
    let may_be_clustered = |index: &IndexParts| index.unique && index.parts.iter().all(whole);
    let primary = indexes.iter().position(|index| index.name == "PRIMARY");
    let first = match primary.or_else(|| indexes.iter().position(may_be_clustered)) {
        Some(at) => indexes.remove(at),
        None => IndexParts {
            name: "GEN_CLUST_INDEX".to_owned(),
            unique: true,
            spatial: false,
            is_multi_valued: false,
            root: None,
            parts: Vec::new(),
        },
    };
    indexes.insert(0, first);
    indexes
}

/// Whether a key part has all of its column when the servers choose the clustered index. They compare lengths, so a prefix that no value of
/// a TINYBLOB or TINYTEXT exceeds counts as the whole, although it is stored as a prefix. Larger values are longer than any key.
fn is_whole_to_the_server(part: &FieldPart, column: &ColumnDef) -> bool {
    const TINY_BLOB_MAX: u32 = 255;
    part.prefix.is_none_or(|prefix| column.sql_type == SqlType::Blob(1) && prefix >= TINY_BLOB_MAX)
}

/// Why a table's indexes could not be built. This says nothing about its files.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BuildError {
    /// A column has an unknown type, perhaps of a newer server or of a plugin.
    #[error("column {column} has a type (number {number}) that innokit does not know")]
    UnknownType {
        /// Name of the column.
        column: String,
        /// The number of its type.
        number: u8,
    },
    /// A key names a column that the table does not have.
    #[error("index {index} names column number {column}, but the table has {columns}")]
    NoColumn {
        /// Name of the index.
        index: String,
        /// The number, from 0.
        column: usize,
        /// Columns of the table.
        columns: usize,
    },
    /// The definition has no index. Every table has one, because its rows are the clustered index.
    #[error("the definition names no index")]
    NoIndex,
    /// Fields and positions contradict each other.
    #[error("the positions of the columns in the rows contradict each other")]
    Positions,
}

/// A field's storage and its meaning.
#[derive(Debug, Clone, Copy)]
struct Field {
    def: FieldDef,
    layout: FieldLayout,
}

const ROW_ID_BYTES: u16 = 6;
const TRX_ID_BYTES: u16 = 6;
const ROLL_PTR_BYTES: u16 = 7;
/// A minimum bounding rectangle: four doubles.
const MBR_BYTES: u32 = 32;
/// Flag in `physical_pos`: the column is both a key part, by prefix, and a separate field.
const PREFIX_POSITION: u32 = 0x8000;

fn system(source: FieldSource, bytes: u16) -> Field {
    let def = FieldDef {
        source,
        prefix: None,
        descending: false,
        order: KeyOrder::Bytes,
        redundant_len: Some(bytes),
        max_len: None,
    };
    Field { def, layout: FieldLayout::new(Storage::Fixed(bytes), false) }
}

fn field(columns: &[ColumnDef], part: FieldPart, index: &str) -> Result<Field, BuildError> {
    let missing = || BuildError::NoColumn { index: index.to_owned(), column: part.column, columns: columns.len() };
    let column = columns.get(part.column).ok_or_else(missing)?;
    let unknown = |number| BuildError::UnknownType { column: column.name.clone(), number };
    let number = if let SqlType::Unknown(number) = column.sql_type { number } else { 0 };
    let room = column.sql_type.room(column.collation, part.prefix).ok_or_else(|| unknown(number))?;
    let def = FieldDef {
        source: FieldSource::Column(part.column),
        prefix: part.prefix,
        descending: part.descending,
        order: order_of(column),
        // A prefix takes the bytes of its characters, but its NULL takes as many bytes as a NULL of the whole column.
        redundant_len: room.redundant.filter(|_| part.prefix.is_none()),
        max_len: room.max_len,
    };
    let layout =
        FieldLayout { storage: room.compact, nullable: column.nullable, added: column.added, dropped: column.dropped };
    Ok(Field { def, layout })
}

fn order_of(column: &ColumnDef) -> KeyOrder {
    match column.sql_type {
        SqlType::Float => KeyOrder::Float,
        SqlType::Double => KeyOrder::Double,
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Blob(_) => charset::text_order(column.collation),
        SqlType::Json | SqlType::Geometry(_) | SqlType::Vector(_) | SqlType::Unknown(_) => KeyOrder::Unknown,
        _ => KeyOrder::Bytes,
    }
}

/// Builds all indexes of a table; the first of `parts` is the clustered one.
pub(super) fn build(
    columns: &[ColumnDef],
    parts: &[IndexParts],
    instant: Instant,
    style: Option<RecordStyle>,
) -> Result<Vec<IndexDef>, BuildError> {
    let (first, others) = parts.split_first().ok_or(BuildError::NoIndex)?;
    let (key, rest) = clustered_fields(columns, first)?;
    let mut indexes = vec![clustered(columns, first, &key, rest, instant)?];
    for declared in others {
        indexes.push(secondary(columns, declared, &key)?);
    }
    indexes.iter_mut().for_each(|index| index.style = style);
    Ok(indexes)
}

/// The key fields of the clustered index, and the fields after them.
fn clustered_fields(columns: &[ColumnDef], declared: &IndexParts) -> Result<(Vec<Field>, Vec<Field>), BuildError> {
    let declared_key = declared.parts.iter().map(|part| field(columns, *part, &declared.name));
    let mut key = declared_key.collect::<Result<Vec<_>, _>>()?;
    if key.is_empty() {
        key.push(system(FieldSource::RowId, ROW_ID_BYTES));
    }
    let mut rest = vec![system(FieldSource::TrxId, TRX_ID_BYTES), system(FieldSource::RollPtr, ROLL_PTR_BYTES)];
    for (number, column) in columns.iter().enumerate() {
        let whole = |part: &FieldPart| part.column == number && part.prefix.is_none();
        if !column.is_virtual && !declared.parts.iter().any(whole) {
            rest.push(field(columns, FieldPart { column: number, prefix: None, descending: false }, &declared.name)?);
        }
    }
    Ok((key, rest))
}

fn clustered(
    columns: &[ColumnDef],
    declared: &IndexParts,
    key: &[Field],
    rest: Vec<Field>,
    instant: Instant,
) -> Result<IndexDef, BuildError> {
    let mut fields = [key, &rest].concat();
    if columns.iter().any(|column| column.physical_pos.is_some()) {
        sort_by_position(columns, &mut fields, key.len())?;
    }
    let trx_id = fields.iter().position(|field| field.def.source == FieldSource::TrxId);
    Ok(assemble(declared, IndexKind::Clustered, fields, key.len(), trx_id, instant))
}

/// Sorts the fields by the positions that MySQL stores once the order in rows differs from the order in the table. System columns have no
/// position: they always follow the key.
fn sort_by_position(columns: &[ColumnDef], fields: &mut [Field], key_len: usize) -> Result<(), BuildError> {
    let position = |number: usize, field: &Field| -> Option<u32> {
        let FieldSource::Column(column) = field.def.source else { return Some(number as u32) };
        let stored = columns.get(column)?.physical_pos?;
        Some(match (stored >= PREFIX_POSITION, number < key_len) {
            (true, true) => stored >> 16,
            (true, false) => stored & (PREFIX_POSITION - 1),
            (false, _) => stored,
        })
    };
    let mut placed = Vec::with_capacity(fields.len());
    for (number, field) in fields.iter().enumerate() {
        placed.push((position(number, field).ok_or(BuildError::Positions)?, *field));
    }
    placed.sort_by_key(|(position, _)| *position);
    if placed.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
        return Err(BuildError::Positions);
    }
    for (field, (_, sorted)) in fields.iter_mut().zip(placed) {
        *field = sorted;
    }
    Ok(())
}

/// The declared parts, then the clustered key fields that they do not contain in full.
fn secondary(columns: &[ColumnDef], declared: &IndexParts, key: &[Field]) -> Result<IndexDef, BuildError> {
    let own = declared.parts.iter().map(|part| field(columns, *part, &declared.name));
    let mut fields = own.collect::<Result<Vec<_>, _>>()?;
    if declared.spatial {
        for field in &mut fields {
            field.layout.storage = Storage::Variable { big: true };
            field.def = FieldDef { order: KeyOrder::Unknown, max_len: Some(MBR_BYTES), prefix: None, ..field.def };
        }
    }
    let covered = |field: &Field| {
        let whole = |part: &FieldPart| field.def.source == FieldSource::Column(part.column) && part.prefix.is_none();
        !declared.spatial && declared.parts.iter().any(whole)
    };
    // The key keeps its own direction in a secondary index; row versions matter only to rows.
    fields.extend(key.iter().filter(|field| !covered(field)));
    for field in &mut fields {
        (field.layout.added, field.layout.dropped) = (0, None);
    }
    let count = fields.len();
    let kind = if declared.spatial { IndexKind::Spatial } else { IndexKind::Secondary };
    // Node pointers of an R-tree have only the rectangle and the child.
    let key_fields = if declared.spatial { 1 } else { count };
    Ok(assemble(declared, kind, fields, key_fields, None, Instant::None))
}

fn assemble(
    declared: &IndexParts,
    kind: IndexKind,
    fields: Vec<Field>,
    key_fields: usize,
    trx_id: Option<usize>,
    instant: Instant,
) -> IndexDef {
    let (defs, layouts) = fields.into_iter().map(|field| (field.def, field.layout)).unzip();
    IndexDef {
        name: declared.name.clone(),
        kind,
        unique: declared.unique,
        declared_parts: declared.parts.len(),
        root: declared.root,
        style: None,
        is_multi_valued: declared.is_multi_valued,
        fields: defs,
        layout: Layout::new(layouts, key_fields, trx_id, instant),
        placement: None,
    }
}
