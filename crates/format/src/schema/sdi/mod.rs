//! Tables from the serialised dictionary information (SDI) that MySQL 8.0 and later keep in each tablespace, as JSON.
//!
//! Facts: `sql/dd/types/` and `dict0dd.cc` of MySQL 8.0; compared with every tablespace of MySQL 9.7's datadirs.

mod column;
mod declared;
mod names;
mod object;
mod partitions;
mod utf8;

use thiserror::Error;

use self::column::{column_def, option, sql_type};
pub(super) use self::declared::{prefix_characters, row_format};
use self::object::{
    Check, Column, INDEX_FULLTEXT, INDEX_PRIMARY, INDEX_SPATIAL, INDEX_UNIQUE, Index, ORDER_DESCENDING, Object,
    Partition, ROW_FORMAT_REDUNDANT, Table,
};
use self::utf8::utf8;
use super::fields::{self, BuildError, FieldPart, IndexParts};
use super::{CheckDef, ColumnDef, IndexRoot, PartitionDef, SqlType, TableDef};
use crate::kind::Family;
use crate::record::{Instant, RecordStyle};
use crate::types::{PageNo, SpaceId};

pub(crate) use self::names::tablespace_flags;
pub use self::names::{SdiNames, names};

/// Why an SDI object yields no table.
#[derive(Debug, Error)]
pub enum SdiTableError {
    /// The object is not JSON, or not in the expected form.
    #[error("the dictionary information is not what MySQL writes: {0}")]
    Json(#[from] serde_json::Error),
    /// A table whose indexes cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

const CHECK_NOT_ENFORCED: u32 = 1;

/// Reads the table in one SDI object.
///
/// # Errors
/// It is not the JSON of a table, or has unknown types or positions.
pub fn from_sdi(json: &[u8]) -> Result<TableDef, SdiTableError> {
    let Object { dd_object: table } = serde_json::from_slice(&utf8(json))?;
    let system = |column: &Column| matches!(column.name.as_str(), "DB_ROW_ID" | "DB_TRX_ID" | "DB_ROLL_PTR");
    let kept: Vec<usize> =
        table.columns.iter().enumerate().filter(|(_, column)| !system(column)).map(|(at, _)| at).collect();
    let columns: Vec<ColumnDef> = kept.iter().filter_map(|at| table.columns.get(*at)).map(column_def).collect();
    let trees: Vec<(usize, &Index)> =
        table.indexes.iter().enumerate().filter(|(_, index)| index.r#type != INDEX_FULLTEXT).collect();
    let parts: Vec<IndexParts> = trees.iter().map(|(_, index)| index_parts(index, &table, &kept)).collect();
    let core = core_fields(&columns, parts.first(), option(&table.se_private_data, "instant_col"));
    // A partitioned table's own count has no meaning; each partition has its own.
    let core = core.filter(|_| table.partitions.is_empty());
    let style = if table.row_format == ROW_FORMAT_REDUNDANT { RecordStyle::Redundant } else { RecordStyle::Compact };
    let indexes = fields::build(&columns, &parts, instant(&columns, core), Some(style))?;
    let opx: Vec<usize> = trees.iter().map(|(at, _)| *at).collect();
    let mut partitions = Vec::new();
    for partition in &table.partitions {
        add_partition(partition, "", &opx, &columns, parts.first(), &mut partitions);
    }
    Ok(TableDef {
        schema: table.schema_ref.clone(),
        name: table.name.clone(),
        family: Family::MySql,
        server_version: table.mysql_version_id,
        style: Some(style),
        collation: u16::try_from(table.collation_id).unwrap_or(u16::MAX),
        pack_record: option(&table.options, "pack_record") == Some(1),
        declared: declared::declared(&table, &columns, &kept),
        columns,
        checks: table.check_constraints.into_iter().map(check).collect(),
        indexes,
        partitions,
    })
}

fn check(check: Check) -> CheckDef {
    let enforced = check.state != CHECK_NOT_ENFORCED;
    CheckDef { name: check.name, expression: declared::clause(&check.check_clause, &check.check_clause_utf8), enforced }
}

fn index_parts(index: &Index, table: &Table, kept: &[usize]) -> IndexParts {
    // InnoDB appends the row's key to every key. In an index that is itself hidden, only the first part is the key.
    let own = index.elements.iter().enumerate().filter(|(at, element)| match index.hidden {
        true => *at == 0,
        false => !element.hidden && element.length != u32::MAX,
    });
    let parts = own.filter_map(|(_, element)| {
        let column = kept.iter().position(|at| *at == element.column_opx)?;
        let prefix = table.columns.get(element.column_opx).and_then(|column| prefix(column, element.length));
        Some(FieldPart { column, prefix, descending: element.order == ORDER_DESCENDING })
    });
    let spatial = index.r#type == INDEX_SPATIAL;
    let columns = index.elements.iter().filter_map(|element| table.columns.get(element.column_opx));
    IndexParts {
        name: index.name.clone(),
        unique: matches!(index.r#type, INDEX_PRIMARY | INDEX_UNIQUE),
        spatial,
        is_multi_valued: columns.map(|column| &column.options).any(|options| option(options, "is_array") == Some(1)),
        root: index_root(&index.se_private_data),
        parts: parts.map(|part| if spatial { FieldPart { prefix: None, ..part } } else { part }).collect(),
    }
}

/// Length of a key part's prefix in bytes; `None` for the whole column.
fn prefix(column: &Column, length: u32) -> Option<u32> {
    let whole = match sql_type(column) {
        SqlType::Blob(_) | SqlType::Geometry(_) | SqlType::Json => false,
        SqlType::Char(_) | SqlType::Varchar(_) => length >= column.char_length,
        _ => true,
    };
    (!whole).then_some(length)
}

fn index_root(private: &str) -> Option<IndexRoot> {
    let root = PageNo(option(private, "root")?);
    Some(IndexRoot { id: option(private, "id")?, space: option(private, "space_id").map(SpaceId), root })
}

/// Number of fields in rows written before MySQL 8.0.12 to 8.0.28 added the first column.
fn core_fields(columns: &[ColumnDef], clustered: Option<&IndexParts>, instant_columns: Option<u32>) -> Option<u16> {
    let instant_columns = instant_columns?;
    let stored = columns.iter().filter(|column| !column.is_virtual && column.added == 0).count();
    let later = u32::try_from(stored).ok()?.checked_sub(instant_columns)?;
    let clustered = clustered?;
    let whole = clustered.parts.iter().filter(|part| part.prefix.is_none()).count();
    // DB_TRX_ID and DB_ROLL_PTR, DB_ROW_ID if there is no other key, prefix parts, and each column once.
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
