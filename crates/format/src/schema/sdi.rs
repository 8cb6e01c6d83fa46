//! Tables out of the dictionary information (SDI) that MySQL 8.0 and later keep in each tablespace, as JSON.
//!
//! Facts: `sql/dd/types/` and `dict0dd.cc` of MySQL 8.0; compared with every tablespace of MySQL 9.7's datadirs.

use serde::Deserialize;
use thiserror::Error;

use super::fields::{self, BuildError, IndexParts, Part};
use super::{ColumnDef, IndexRoot, InstantDefault, PartitionDef, SqlType, TableDef, Visibility};
use crate::page::space_format::Family;
use crate::record::{Instant, RecordStyle};
use crate::types::{PageNo, SpaceId};

/// Why an object of the dictionary information makes no table.
#[derive(Debug, Error)]
pub enum SdiTableError {
    /// Not JSON, or not of this shape.
    #[error("the dictionary information is not what MySQL writes: {0}")]
    Json(#[from] serde_json::Error),
    /// A table whose indexes cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

#[derive(Deserialize)]
struct Object {
    dd_object: Table,
}

#[derive(Deserialize)]
struct Table {
    name: String,
    #[serde(default)]
    schema_ref: String,
    #[serde(default)]
    row_format: u32,
    #[serde(default)]
    se_private_data: String,
    columns: Vec<Column>,
    #[serde(default)]
    indexes: Vec<Index>,
    #[serde(default)]
    partitions: Vec<Partition>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    r#type: u8,
    #[serde(default)]
    is_nullable: bool,
    #[serde(default)]
    is_unsigned: bool,
    #[serde(default)]
    is_virtual: bool,
    #[serde(default)]
    hidden: u32,
    #[serde(default)]
    char_length: u32,
    #[serde(default)]
    numeric_scale: u32,
    #[serde(default)]
    options: String,
    #[serde(default)]
    se_private_data: String,
    #[serde(default)]
    elements: Vec<Element>,
    #[serde(default)]
    collation_id: u32,
}

/// A member of an ENUM or SET: only their number matters here.
#[derive(Deserialize)]
struct Element {}

#[derive(Deserialize)]
struct Index {
    name: String,
    #[serde(default)]
    hidden: bool,
    r#type: u32,
    #[serde(default)]
    se_private_data: String,
    #[serde(default)]
    elements: Vec<KeyElement>,
}

#[derive(Deserialize)]
struct KeyElement {
    length: u32,
    #[serde(default)]
    order: u32,
    #[serde(default)]
    hidden: bool,
    column_opx: usize,
}

#[derive(Deserialize)]
struct Partition {
    name: String,
    #[serde(default)]
    se_private_data: String,
    #[serde(default)]
    indexes: Vec<PartitionIndex>,
    #[serde(default)]
    subpartitions: Vec<Partition>,
}

#[derive(Deserialize)]
struct PartitionIndex {
    #[serde(default)]
    se_private_data: String,
    index_opx: usize,
}

const INDEX_PRIMARY: u32 = 1;
const INDEX_UNIQUE: u32 = 2;
const INDEX_FULLTEXT: u32 = 4;
const INDEX_SPATIAL: u32 = 5;
const ORDER_DESCENDING: u32 = 3;
const ROW_FORMAT_REDUNDANT: u32 = 4;
const HIDDEN_VISIBLE: u32 = 1;
const HIDDEN_BY_USER: u32 = 4;

/// Reads the table in one JSON object of the dictionary information.
///
/// # Errors
/// It is not the JSON of a table, or has types or positions that are not known here.
pub fn from_sdi(json: &[u8]) -> Result<TableDef, SdiTableError> {
    let Object { dd_object: table } = serde_json::from_slice(json)?;
    let system = |column: &Column| matches!(column.name.as_str(), "DB_ROW_ID" | "DB_TRX_ID" | "DB_ROLL_PTR");
    let kept: Vec<usize> =
        table.columns.iter().enumerate().filter(|(_, column)| !system(column)).map(|(at, _)| at).collect();
    let columns: Vec<ColumnDef> = kept.iter().filter_map(|at| table.columns.get(*at)).map(column_def).collect();
    let trees: Vec<(usize, &Index)> =
        table.indexes.iter().enumerate().filter(|(_, index)| index.r#type != INDEX_FULLTEXT).collect();
    let parts: Vec<IndexParts> = trees.iter().map(|(_, index)| index_parts(index, &table, &kept)).collect();
    let core = core_fields(&columns, parts.first(), option(&table.se_private_data, "instant_col"));
    // A partitioned table's own count says nothing: that of each partition does.
    let core = core.filter(|_| table.partitions.is_empty());
    let style = if table.row_format == ROW_FORMAT_REDUNDANT { RecordStyle::Redundant } else { RecordStyle::Compact };
    let indexes = fields::build(&columns, &parts, instant(&columns, core), Some(style))?;
    let opx: Vec<usize> = trees.iter().map(|(at, _)| *at).collect();
    let mut partitions = Vec::new();
    for partition in &table.partitions {
        add_partition(partition, "", &opx, &columns, parts.first(), &mut partitions);
    }
    Ok(TableDef {
        schema: table.schema_ref,
        name: table.name,
        family: Family::MySql,
        style: Some(style),
        columns,
        indexes,
        partitions,
    })
}

/// The value of `key` in a list of `key=value;`.
fn option<T: std::str::FromStr>(options: &str, key: &str) -> Option<T> {
    text_option(options, key)?.parse().ok()
}

fn text_option<'o>(options: &'o str, key: &str) -> Option<&'o str> {
    options.split(';').find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
}

fn column_def(column: &Column) -> ColumnDef {
    let private = column.se_private_data.as_str();
    let default = if option(private, "default_null") == Some(1) {
        Some(InstantDefault::Null)
    } else {
        text_option(private, "default").and_then(hex).map(InstantDefault::Bytes)
    };
    ColumnDef {
        name: column.name.clone(),
        sql_type: sql_type(column),
        collation: u16::try_from(column.collation_id).unwrap_or(u16::MAX),
        // InnoDB's own auxiliary tables of full-text indexes: NOT NULL by their word, nullable in their rows.
        nullable: column.is_nullable || option(private, "nullable") == Some(1),
        is_virtual: column.is_virtual,
        visibility: match column.hidden {
            0 | HIDDEN_VISIBLE => Visibility::Visible,
            HIDDEN_BY_USER => Visibility::Invisible,
            _ => Visibility::Hidden,
        },
        added: option(private, "version_added").unwrap_or(0),
        dropped: option(private, "version_dropped"),
        physical_pos: option(private, "physical_pos"),
        instant_default: default,
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// The dictionary's numbers of types. Digits of fractions follow from the display width, which is right for dropped columns too.
fn sql_type(column: &Column) -> SqlType {
    let int = |bytes| SqlType::Int { bytes, unsigned: column.is_unsigned };
    let width = column.char_length;
    let digits = |base: u32| u8::try_from(width.saturating_sub(base)).unwrap_or(0).min(6);
    let members = column.elements.len();
    match column.r#type {
        2 => int(1),
        3 => int(2),
        4 => int(4),
        9 => int(8),
        10 => int(3),
        5 => SqlType::Float,
        6 => SqlType::Double,
        8 => SqlType::OldTimestamp,
        11 | 15 => SqlType::Date,
        12 => SqlType::OldTime,
        13 => SqlType::OldDateTime,
        14 => SqlType::Year,
        16 => SqlType::Varchar(width),
        17 => SqlType::Bit(u8::try_from(width).unwrap_or(64)),
        18 => SqlType::Timestamp(digits(20)),
        19 => SqlType::DateTime(digits(20)),
        20 => SqlType::Time(digits(11)),
        21 => decimal(width, column.numeric_scale, column.is_unsigned),
        22 => SqlType::Enum(if members < 256 { 1 } else { 2 }),
        23 => SqlType::Set(set_bytes(members)),
        24 => SqlType::Blob(1),
        25 => SqlType::Blob(3),
        26 => SqlType::Blob(4),
        27 => SqlType::Blob(2),
        29 => SqlType::Char(u16::try_from(width).unwrap_or(u16::MAX)),
        30 => SqlType::Geometry,
        31 => SqlType::Json,
        32 => SqlType::Vector,
        other => SqlType::Unknown(other),
    }
}

/// From a DECIMAL's display width, which counts a sign and a point.
pub(super) fn decimal(width: u32, scale: u32, unsigned: bool) -> SqlType {
    let precision = width.saturating_sub(u32::from(scale > 0)).saturating_sub(u32::from(!unsigned));
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    SqlType::Decimal { precision: byte(precision), scale: byte(scale) }
}

/// Bytes of a SET with so many members.
pub(super) fn set_bytes(members: usize) -> u8 {
    match members.div_ceil(8) {
        0 => 1,
        bytes @ 1..=4 => bytes as u8,
        _ => 8,
    }
}

fn index_parts(index: &Index, table: &Table, kept: &[usize]) -> IndexParts {
    // InnoDB adds the key of the row to every key; in an index that is itself hidden the first part alone is the key.
    let own = index.elements.iter().enumerate().filter(|(at, element)| match index.hidden {
        true => *at == 0,
        false => !element.hidden && element.length != u32::MAX,
    });
    let parts = own.filter_map(|(_, element)| {
        let column = kept.iter().position(|at| *at == element.column_opx)?;
        let prefix = table.columns.get(element.column_opx).and_then(|column| prefix(column, element.length));
        Some(Part { column, prefix, descending: element.order == ORDER_DESCENDING })
    });
    let spatial = index.r#type == INDEX_SPATIAL;
    let columns = index.elements.iter().filter_map(|element| table.columns.get(element.column_opx));
    IndexParts {
        name: index.name.clone(),
        unique: matches!(index.r#type, INDEX_PRIMARY | INDEX_UNIQUE),
        spatial,
        is_multi_valued: columns.map(|column| &column.options).any(|options| option(options, "is_array") == Some(1)),
        root: index_root(&index.se_private_data),
        parts: parts.map(|part| if spatial { Part { prefix: None, ..part } } else { part }).collect(),
    }
}

/// Bytes of the column's beginning that a key part holds; `None` = all of it.
fn prefix(column: &Column, length: u32) -> Option<u32> {
    let whole = match sql_type(column) {
        SqlType::Blob(_) | SqlType::Geometry | SqlType::Json => false,
        SqlType::Char(_) | SqlType::Varchar(_) => length >= column.char_length,
        _ => true,
    };
    (!whole).then_some(length)
}

fn index_root(private: &str) -> Option<IndexRoot> {
    let root = PageNo(option(private, "root")?);
    Some(IndexRoot { id: option(private, "id")?, space: option(private, "space_id").map(SpaceId), root })
}

/// Fields of a row written before the first column was added by MySQL 8.0.12 to 8.0.28.
fn core_fields(columns: &[ColumnDef], clustered: Option<&IndexParts>, instant_columns: Option<u32>) -> Option<u16> {
    let instant_columns = instant_columns?;
    let stored = columns.iter().filter(|column| !column.is_virtual && column.added == 0).count();
    let later = u32::try_from(stored).ok()?.checked_sub(instant_columns)?;
    let clustered = clustered?;
    let whole = clustered.parts.iter().filter(|part| part.prefix.is_none()).count();
    // DB_TRX_ID and DB_ROLL_PTR, DB_ROW_ID where nothing else is the key, prefix parts, and each column once.
    let key = if clustered.parts.is_empty() { 1 } else { clustered.parts.len() - whole };
    let all = key + 2 + stored;
    u16::try_from(all).ok()?.checked_sub(u16::try_from(later).ok()?)
}

fn instant(columns: &[ColumnDef], core: Option<u16>) -> Instant {
    let versions = columns.iter().any(|column| column.added > 0 || column.dropped.is_some());
    if versions || core.is_some() { Instant::MySql { core } } else { Instant::None }
}

fn add_partition(
    partition: &Partition,
    above: &str,
    opx: &[usize],
    columns: &[ColumnDef],
    clustered: Option<&IndexParts>,
    out: &mut Vec<PartitionDef>,
) {
    let name = format!("{above}{}", partition.name);
    for sub in &partition.subpartitions {
        add_partition(sub, &format!("{name}#"), opx, columns, clustered, out);
    }
    if !partition.subpartitions.is_empty() {
        return;
    }
    let root_of = |at: &usize| {
        let index = partition.indexes.iter().find(|index| index.index_opx == *at)?;
        index_root(&index.se_private_data)
    };
    let core = core_fields(columns, clustered, option(&partition.se_private_data, "instant_col"));
    let roots = opx.iter().map(root_of).collect();
    out.push(PartitionDef { name, roots, instant: instant(columns, core) });
}
