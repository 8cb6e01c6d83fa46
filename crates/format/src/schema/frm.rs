//! Tables from `.frm` files: the definition that MariaDB, and MySQL up to 5.7, keep beside each table.
//!
//! The file has columns and keys but no roots: the roots are in the dictionary of the system tablespace ([`super::dictionary`]). All its
//! integers are little-endian.
//!
//! Facts: `sql/table.cc`, `sql/unireg.cc` and `sql/field.cc` of MariaDB 10.11 and MySQL 5.7; compared with the tables of MariaDB's
//! datadirs.

mod declared;
mod error;
mod expressions;
mod field;
mod key;
mod reader;
mod typed;

pub use self::error::FrmError;
use self::key::{
    ALGORITHM_HASH, ALGORITHM_VECTOR, KEY_COMMENT, KEY_FULLTEXT, KEY_SPATIAL, KEY_UNIQUE, Key, KeyPart, PART_DESCENDING,
};
use self::reader::{OPTION_PACK_RECORD, Reader};
use super::fields::{self, FieldPart, IndexParts};
use super::{ColumnDef, SqlType, TableDef, Versioned, Visibility};
use crate::kind::Family;
use crate::record::{Instant, RecordStyle};

/// The hidden column with document ids, in tables with full-text indexes.
const DOC_ID: &str = "FTS_DOC_ID";
/// The index on `FTS_DOC_ID`.
pub const DOC_ID_INDEX: &str = "FTS_DOC_ID_INDEX";

const MAGIC: [u8; 2] = [0xFE, 0x01];
/// Server versions from here on are MariaDB's.
const FIRST_MARIADB: u32 = 100_000;
const AT_ENGINE: usize = 3;
const AT_PARTITION_ENGINE: usize = 61;
const ENGINE_INNODB: u8 = 12;
const ENGINE_PARTITION: u8 = 20;

const ROW_FORMAT_REDUNDANT: u8 = 4;
/// Reads a `.frm` file. The names of table and database are those of the file and its folder, so they are left empty here.
///
/// A table that has or had a full-text index numbers its rows in a hidden column that the file does not mention. It is added if the file
/// has such an index, or if `has_doc_id` says that the dictionary has an index [`DOC_ID_INDEX`] for the table.
///
/// # Errors
/// The file does not define a table, is damaged, or uses a feature that innokit does not support.
pub fn from_frm(bytes: &[u8], has_doc_id: bool) -> Result<TableDef, FrmError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(FrmError::NotATable);
    }
    let frm = Reader(bytes);
    let version = frm.u32(51, "version")?;
    let family = if version >= FIRST_MARIADB { Family::MariaDb } else { Family::MySql };
    let field::Columns { mut columns, checks, typed, form_at } = field::columns(&frm, family)?;
    if swaps_every_uuid(version) {
        columns
            .iter_mut()
            .filter(|column| column.sql_type == SqlType::Uuid)
            .for_each(|column| column.sql_type = SqlType::OldUuid);
    }
    let keys = keys(&frm)?;
    let source = declared::Source { frm: &frm, family, typed: &typed, columns: &columns, form_at };
    let declared = declared::declared(&source, &keys)?;
    let has_doc_id = has_doc_id || keys.iter().any(|key| key.flags & KEY_FULLTEXT != 0);
    let mut parts = index_parts(keys, &columns);
    if has_doc_id {
        add_doc_id(&mut columns, &mut parts);
    }
    let style = match frm.u8(40, "row format")? {
        // The server's default at the time, which is not recorded.
        0 => None,
        ROW_FORMAT_REDUNDANT => Some(RecordStyle::Redundant),
        _ => Some(RecordStyle::Compact),
    };
    let indexes = fields::build(&columns, &parts, Instant::None, style)?;
    let collation = u16::from(frm.u8(38, "collation")?) | u16::from(frm.u8(41, "collation")?) << 8;
    let pack_record = frm.u16(30, "options")? & OPTION_PACK_RECORD != 0;
    Ok(TableDef {
        schema: String::new(),
        name: String::new(),
        family,
        server_version: version,
        style,
        collation,
        pack_record,
        columns,
        checks,
        declared,
        indexes,
        partitions: Vec::new(),
    })
}

/// Whether a table of this server stores all its UUIDs with their groups swapped, as the first servers with the type did. `sql_type_uuid.cc`
/// decides by the same list; the .frm of a table keeps the version that made it.
const fn swaps_every_uuid(version: u32) -> bool {
    !matches!(
        version,
        100_908..=100_998 | 101_006..=101_098 | 101_105..=101_198 | 110_003..=110_098 | 110_102..=110_198 | 110_201..
    )
}

/// Adds the hidden column FTS_DOC_ID and its index, each unless the user created it. With system versioning a document has several versions,
/// and the index has the end of each row behind its number.
pub(super) fn add_doc_id(columns: &mut Vec<ColumnDef>, parts: &mut Vec<IndexParts>) {
    let existing = columns.iter().position(|column| column.name == DOC_ID);
    let column = existing.unwrap_or(columns.len());
    if existing.is_none() {
        let bigint = SqlType::Int { bytes: 8, unsigned: true };
        columns.push(ColumnDef {
            ordinal: columns.len() as u32 + 1,
            visibility: Visibility::Hidden,
            ..ColumnDef::plain(DOC_ID, bigint)
        });
    }
    if !parts.iter().any(|index| index.name == DOC_ID_INDEX) {
        let end = columns.iter().position(|column| column.versioned == Versioned::RowEnd);
        let fields = [Some(column), end].into_iter().flatten();
        parts.push(IndexParts {
            name: DOC_ID_INDEX.to_owned(),
            unique: true,
            spatial: false,
            is_multi_valued: false,
            root: None,
            parts: fields.map(|column| FieldPart { column, prefix: None, descending: false }).collect(),
        });
    }
}

/// Whether the first 64 bytes of a file are those of an InnoDB table's `.frm` file.
#[must_use]
pub fn is_of_innodb(head: &[u8]) -> bool {
    let engine = |at: usize| head.get(at).copied().unwrap_or(0);
    let partitioned = engine(AT_ENGINE) == ENGINE_PARTITION && engine(AT_PARTITION_ENGINE) == ENGINE_INNODB;
    head.starts_with(&MAGIC) && (engine(AT_ENGINE) == ENGINE_INNODB || partitioned)
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
        let (algorithm, block_size) = (frm.u8(at + 5, "key")?, frm.u16(at + 6, "key")?);
        at += 8;
        let (name, comment) = (String::new(), String::new());
        let mut key = Key { name, flags, algorithm, block_size, comment, parts: Vec::new() };
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
        at += name.len() + 1;
        key.name = name;
    }
    // The names end with another separator and a zero.
    at += 2;
    for key in keys.iter_mut().filter(|key| key.flags & KEY_COMMENT != 0) {
        let len = usize::from(frm.u16(at, "comment of a key")?);
        key.comment = String::from_utf8_lossy(frm.bytes(at + 2, len, "comment of a key")?).into_owned();
        at += 2 + len;
    }
    Ok(keys)
}

/// The indexes of the table, the clustered one first.
fn index_parts(keys: Vec<Key>, columns: &[ColumnDef]) -> Vec<IndexParts> {
    let (mut indexes, mut hashes) = (Vec::new(), 0);
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
        let spatial = key.flags & KEY_SPATIAL != 0;
        indexes.push(IndexParts { name: key.name, unique, spatial, is_multi_valued: false, root: None, parts });
    }
    fields::clustered_first(indexes, columns)
}

/// The hidden column with the hash of key number `number`, from 1. The server numbers them, but leaves out names that the user took.
fn hash_part(columns: &[ColumnDef], number: usize) -> Vec<FieldPart> {
    let is_hash =
        |column: &ColumnDef| column.visibility == Visibility::Hidden && column.name.starts_with("DB_ROW_HASH_");
    let mut hashes = columns.iter().enumerate().filter(|(_, column)| is_hash(column)).map(|(at, _)| at);
    hashes.nth(number - 1).map(|column| FieldPart { column, prefix: None, descending: false }).into_iter().collect()
}

fn part_of(part: &KeyPart, columns: &[ColumnDef], spatial: bool) -> FieldPart {
    let whole = match columns.get(part.column).map(|column| column.sql_type) {
        Some(SqlType::Blob(_) | SqlType::Json | SqlType::Geometry(_)) => spatial,
        Some(SqlType::Char(len)) => part.len >= u32::from(len),
        Some(SqlType::Varchar(len)) => part.len >= len,
        _ => true,
    };
    FieldPart { column: part.column, prefix: (!whole).then_some(part.len), descending: part.descending }
}
