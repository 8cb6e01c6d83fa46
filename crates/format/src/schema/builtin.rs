//! Indexes with the same fields on every server: the tree of serialised dictionary information (SDI), and the dictionary tables that MySQL
//! up to 5.7 and MariaDB keep in the system tablespace.

use super::fields::{self, FieldPart, IndexParts};
use super::{ColumnDef, IndexDef, SqlType};
use crate::record::Instant;

fn index(name: &str, columns: &[ColumnDef], key_len: usize) -> Option<IndexDef> {
    let part = |column| FieldPart { column, prefix: None, descending: false };
    let parts = IndexParts {
        name: name.to_owned(),
        unique: true,
        spatial: false,
        is_multi_valued: false,
        root: None,
        parts: (0..key_len).map(part).collect(),
    };
    // All types above are known, so this never fails.
    fields::build(columns, &[parts], Instant::None, None).ok()?.pop()
}

const INT: SqlType = SqlType::Int { bytes: 4, unsigned: true };
const BIGINT: SqlType = SqlType::Int { bytes: 8, unsigned: true };

/// Position of the compressed JSON among the fields of [`sdi`].
pub const SDI_DATA_FIELD: usize = 6;

/// The clustered index of SDI records: type, id, DB_TRX_ID, DB_ROLL_PTR, length of the JSON, its compressed length, compressed JSON.
#[must_use]
pub fn sdi() -> Option<IndexDef> {
    let columns = [
        ColumnDef::plain("type", INT),
        ColumnDef::plain("id", BIGINT),
        ColumnDef::plain("uncompressed_len", INT),
        ColumnDef::plain("compressed_len", INT),
        ColumnDef::plain("data", SqlType::Blob(4)),
    ];
    index("SDI", &columns, 2)
}
