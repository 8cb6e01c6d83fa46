//! Tables out of `.frm` files: the definition that MariaDB and MySQL up to 5.7 keep beside each table.
//!
//! The file tells columns and keys, not where the indexes begin: that is in the dictionary of the system tablespace
//! ([`super::dictionary`]). Everything in it is little-endian.
//!
//! Facts: `sql/table.cc`, `sql/unireg.cc` and `sql/field.cc` of MariaDB 10.11 and MySQL 5.7; compared with the tables of MariaDB's datadirs.

mod field;
mod reader;

use thiserror::Error;

use self::reader::Reader;
use super::fields::{self, BuildError, IndexParts, Part};
use super::{ColumnDef, SqlType, TableDef, Visibility};
use crate::page::space_format::Family;
use crate::record::{Instant, RecordStyle};

/// Why a file is not a table's definition, or not one that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrmError {
    /// Not the bytes that begin such a file: a view's definition, for one.
    #[error("this is not the definition of a table")]
    NotATable,
    /// Cut off, or damaged.
    #[error("the definition ends too early, or is damaged: nothing lies at byte {at} for its {what}")]
    Truncated {
        /// Where something was looked for.
        at: usize,
        /// What.
        what: &'static str,
    },
    /// Something that only a newer server, or one much older, writes.
    #[error("the definition has {what}, which innokit does not know")]
    Unknown {
        /// What it has.
        what: &'static str,
    },
    /// The table's indexes cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// The column that numbers the rows of a table with full-text indexes.
const DOC_ID: &str = "FTS_DOC_ID";
/// The index over it.
pub const DOC_ID_INDEX: &str = "FTS_DOC_ID_INDEX";

const MAGIC: [u8; 2] = [0xFE, 0x01];
/// From here on the servers' versions are MariaDB's.
const FIRST_MARIADB: u32 = 100_000;
/// Length of the header; names or typed values follow.
const HEADER: usize = 64;

const KEY_UNIQUE: u16 = 1;
const KEY_FULLTEXT: u16 = 0x80;
const KEY_SPATIAL: u16 = 0x400;
const PART_DESCENDING: u8 = 0x80;
/// MariaDB: unique by a hash in a hidden column.
const ALGORITHM_HASH: u8 = 5;
/// MariaDB: an index over vectors, which is a table of its own.
const ALGORITHM_VECTOR: u8 = 7;
const ROW_FORMAT_REDUNDANT: u8 = 4;

/// A key as the file has it.
struct Key {
    name: String,
    flags: u16,
    algorithm: u8,
    parts: Vec<KeyPart>,
}

/// Part of a key: column (from 0), bytes, direction.
#[derive(Clone, Copy)]
struct KeyPart {
    column: usize,
    len: u32,
    descending: bool,
}

/// Reads a `.frm` file. The names of the table and of its database are those of the file and its folder: they are left empty.
///
/// A table that has or had a full-text index numbers its rows in a hidden column that the file does not mention. It is added where
/// the file has such an index, and where `has_doc_id` says that the dictionary names an index [`DOC_ID_INDEX`] for the table.
///
/// # Errors
/// The file is not the definition of a table, is damaged, or has what is not known here.
pub fn from_frm(bytes: &[u8], has_doc_id: bool) -> Result<TableDef, FrmError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(FrmError::NotATable);
    }
    let frm = Reader(bytes);
    let version = frm.u32(51, "version")?;
    let family = if version >= FIRST_MARIADB { Family::MariaDb } else { Family::MySql };
    let mut columns = field::columns(&frm, family)?;
    let keys = keys(&frm)?;
    let has_doc_id = has_doc_id || keys.iter().any(|key| key.flags & KEY_FULLTEXT != 0);
    let mut parts = index_parts(keys, &columns);
    if has_doc_id {
        add_doc_id(&mut columns, &mut parts);
    }
    let style = match frm.u8(40, "row format")? {
        // The server's default, which may have been any.
        0 => None,
        ROW_FORMAT_REDUNDANT => Some(RecordStyle::Redundant),
        _ => Some(RecordStyle::Compact),
    };
    let indexes = fields::build(&columns, &parts, Instant::None, style)?;
    let (schema, name) = (String::new(), String::new());
    Ok(TableDef { schema, name, family, style, columns, indexes, partitions: Vec::new() })
}

/// Unless the user made the column.
fn add_doc_id(columns: &mut Vec<ColumnDef>, parts: &mut Vec<IndexParts>) {
    let existing = columns.iter().position(|column| column.name == DOC_ID);
    let column = existing.unwrap_or(columns.len());
    if existing.is_none() {
        let bigint = SqlType::Int { bytes: 8, unsigned: true };
        columns.push(ColumnDef { visibility: Visibility::Hidden, ..ColumnDef::plain(DOC_ID, bigint) });
    }
    if !parts.iter().any(|index| index.name == DOC_ID_INDEX) {
        parts.push(IndexParts {
            name: DOC_ID_INDEX.to_owned(),
            unique: true,
            spatial: false,
            is_multi_valued: false,
            root: None,
            parts: vec![Part { column, prefix: None, descending: false }],
        });
    }
}

fn keys(frm: &Reader<'_>) -> Result<Vec<Key>, FrmError> {
    let start = usize::from(frm.u16(6, "keys")?);
    let first = frm.u8(start, "keys")?;
    let count = match first & 0x80 {
        0 => usize::from(first),
        _ => usize::from(frm.u8(start + 1, "keys")?) << 7 | usize::from(first & 0x7F),
    };
    let mut at = start + 6;
    let mut keys = Vec::new();
    for _ in 0..count {
        let (flags, parts) = (frm.u16(at, "key")? ^ KEY_UNIQUE, usize::from(frm.u8(at + 4, "key")?));
        let algorithm = frm.u8(at + 5, "key")?;
        at += 8;
        let mut key = Key { name: String::new(), flags, algorithm, parts: Vec::new() };
        for _ in 0..parts {
            let column = usize::from(frm.u16(at, "key part")? & 0x3FFF);
            let column = column.checked_sub(1).ok_or(FrmError::Truncated { at, what: "key part" })?;
            let descending = frm.u8(at + 4, "key part")? & PART_DESCENDING != 0;
            key.parts.push(KeyPart { column, len: u32::from(frm.u16(at + 7, "key part")?), descending });
            at += 9;
        }
        keys.push(key);
    }
    if keys.is_empty() {
        return Ok(keys);
    }
    let names = frm.names(at, keys.len(), "names of keys")?;
    for (key, name) in keys.iter_mut().zip(names) {
        key.name = name;
    }
    Ok(keys)
}

/// The indexes of the table, the clustered one first.
fn index_parts(keys: Vec<Key>, columns: &[ColumnDef]) -> Vec<IndexParts> {
    let mut hashes = 0;
    let mut indexes: Vec<(bool, IndexParts)> = Vec::new();
    for key in keys {
        if key.flags & KEY_FULLTEXT != 0 || key.algorithm == ALGORITHM_VECTOR {
            continue;
        }
        let hashed = key.algorithm == ALGORITHM_HASH;
        let parts = if hashed {
            hashes += 1;
            hash_part(columns, hashes)
        } else {
            let spatial = key.flags & KEY_SPATIAL != 0;
            key.parts.iter().map(|part| part_of(part, columns, spatial)).collect()
        };
        let unique = key.flags & KEY_UNIQUE != 0 && !hashed;
        let whole =
            |part: &Part| part.prefix.is_none() && columns.get(part.column).is_some_and(|column| !column.nullable);
        let may_be_clustered = unique && parts.iter().all(whole) || key.name == "PRIMARY";
        let spatial = key.flags & KEY_SPATIAL != 0;
        let index = IndexParts { name: key.name, unique, spatial, is_multi_valued: false, root: None, parts };
        indexes.push((may_be_clustered, index));
    }
    let primary = indexes.iter().position(|(_, index)| index.name == "PRIMARY");
    let clustered = primary.or_else(|| indexes.iter().position(|(may_be, _)| *may_be));
    let first = match clustered {
        Some(at) => indexes.remove(at).1,
        None => IndexParts {
            name: "GEN_CLUST_INDEX".to_owned(),
            unique: true,
            spatial: false,
            is_multi_valued: false,
            root: None,
            parts: Vec::new(),
        },
    };
    std::iter::once(first).chain(indexes.into_iter().map(|(_, index)| index)).collect()
}

/// The hidden column that holds the hash of the key number `number`, from 1.
fn hash_part(columns: &[ColumnDef], number: usize) -> Vec<Part> {
    let name = format!("DB_ROW_HASH_{number}");
    let column = columns.iter().position(|column| column.name == name);
    column.map(|column| Part { column, prefix: None, descending: false }).into_iter().collect()
}

fn part_of(part: &KeyPart, columns: &[ColumnDef], spatial: bool) -> Part {
    let whole = match columns.get(part.column).map(|column| column.sql_type) {
        Some(SqlType::Blob(_) | SqlType::Json | SqlType::Geometry) => spatial,
        Some(SqlType::Char(len)) => part.len >= u32::from(len),
        Some(SqlType::Varchar(len)) => part.len >= len,
        _ => true,
    };
    Part { column: part.column, prefix: (!whole).then_some(part.len), descending: part.descending }
}
