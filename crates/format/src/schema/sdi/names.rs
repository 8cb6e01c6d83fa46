//! The names in SDI: enough to describe a file, even if its columns have unknown types.

use serde::Deserialize;

use super::SdiTableError;
use super::column::option;
use super::object::{Partition, ROW_FORMAT_REDUNDANT};
use super::utf8::utf8;

/// The name of an object, and of its indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdiNames {
    /// The database; empty for a tablespace.
    pub schema: String,
    /// The table, or the tablespace.
    pub name: String,
    /// `DYNAMIC`, `COMPACT` ...
    pub row_format: Option<&'static str>,
    /// Ids and names of the indexes, including those of all partitions.
    pub indexes: Vec<(u64, String)>,
}

#[derive(Deserialize)]
struct Object {
    dd_object: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    schema_ref: String,
    #[serde(default)]
    row_format: u32,
    #[serde(default)]
    indexes: Vec<NamedIndex>,
    #[serde(default)]
    partitions: Vec<Partition>,
}

#[derive(Deserialize)]
struct NamedIndex {
    name: String,
    #[serde(default)]
    se_private_data: String,
}

/// Reads the names in one SDI object of a table or a tablespace.
///
/// # Errors
/// It is not the JSON of such an object.
pub fn names(json: &[u8]) -> Result<SdiNames, SdiTableError> {
    let Object { dd_object: object } = serde_json::from_slice(&utf8(json))?;
    let mut indexes: Vec<(&str, &str)> =
        object.indexes.iter().map(|index| (index.se_private_data.as_str(), index.name.as_str())).collect();
    let parts = object.partitions.iter().flat_map(|part| std::iter::once(part).chain(&part.subpartitions));
    for index in parts.flat_map(|part| &part.indexes) {
        let whole = object.indexes.get(index.index_opx);
        indexes.extend(whole.map(|whole| (index.se_private_data.as_str(), whole.name.as_str())));
    }
    let named = |(private, name): (&str, &str)| Some((option(private, "id")?, name.to_owned()));
    let indexes = indexes.into_iter().filter_map(named).collect();
    Ok(SdiNames { row_format: row_format(object.row_format), schema: object.schema_ref, name: object.name, indexes })
}

/// The flags of the tablespace described by a JSON object.
pub(crate) fn tablespace_flags(json: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Described {
        dd_object: Tablespace,
    }
    #[derive(Deserialize)]
    struct Tablespace {
        se_private_data: String,
    }
    let Described { dd_object: tablespace } = serde_json::from_slice(&utf8(json)).ok()?;
    option(&tablespace.se_private_data, "flags")
}

/// The dictionary's numbers of row formats.
const fn row_format(number: u32) -> Option<&'static str> {
    Some(match number {
        1 => "FIXED",
        2 => "DYNAMIC",
        3 => "COMPRESSED",
        ROW_FORMAT_REDUNDANT => "REDUNDANT",
        5 => "COMPACT",
        6 => "PAGED",
        _ => return None,
    })
}
