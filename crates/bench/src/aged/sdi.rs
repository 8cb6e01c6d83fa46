//! The dictionary information of the aged table, as MySQL writes it: what its reader needs, and no more.
//!
//! `CREATE TABLE bench.aged (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, v VARCHAR(1500) NOT NULL) CHARACTER SET latin1 COLLATE latin1_bin`

use serde_json::json;

use super::leaves::TEXT_MAX;

/// Id of the tablespace.
pub(super) const SPACE: u32 = 77;
/// Space flags: DYNAMIC rows, and dictionary information.
pub(super) const FLAGS: u32 = 0x4021;
/// The version of MySQL whose files it imitates.
pub(super) const SERVER: u32 = 90_704;
/// Id of the clustered index.
pub(super) const INDEX_ID: u64 = 155;
/// Id of the table.
pub(super) const TABLE_ID: u32 = 1065;
/// `latin1_bin`, and the collation of numbers.
const LATIN1_BIN: u32 = 47;
const BINARY: u32 = 63;
/// Column types, of `dd::enum_column_types`.
const LONGLONG: u32 = 9;
const INT24: u32 = 10;
const VARCHAR: u32 = 16;
/// Whether a column can be seen.
const VISIBLE: u32 = 1;
const OF_ENGINE: u32 = 2;
/// The length of an element that is a whole column.
const WHOLE: u32 = u32::MAX;

/// The table, with its root page.
pub(super) fn table(root: u32) -> String {
    let column = |at: u32, name: &str, kind: u32, hidden: u32, length: u32, declared: &str| {
        json!({
            "name": name, "type": kind, "is_nullable": false, "is_unsigned": name == "id", "is_virtual": false,
            "hidden": hidden, "ordinal_position": at, "char_length": length, "has_no_default": hidden == VISIBLE,
            "default_value_utf8_null": true, "srs_id_null": true, "options": "interval_count=0;",
            "se_private_data": format!("table_id={TABLE_ID};"), "column_type_utf8": declared, "elements": [],
            "collation_id": if kind == INT24 || hidden == OF_ENGINE { BINARY } else { LATIN1_BIN },
        })
    };
    let declared = format!("varchar({TEXT_MAX})");
    let columns = [
        column(1, "id", LONGLONG, VISIBLE, 20, "bigint unsigned"),
        column(2, "v", VARCHAR, VISIBLE, u32::from(TEXT_MAX), &declared),
        column(3, "DB_TRX_ID", INT24, OF_ENGINE, 6, ""),
        column(4, "DB_ROLL_PTR", LONGLONG, OF_ENGINE, 7, ""),
    ];
    let element = |at: u32, length: u32, column: u32| {
        json!({
            "ordinal_position": at, "length": length, "order": 2, "hidden": length == WHOLE, "column_opx": column,
        })
    };
    let index = json!({
        "name": "PRIMARY", "hidden": false, "type": 1, "algorithm": 2, "is_visible": true, "engine": "InnoDB",
        "comment": "", "options": "flags=0;", "tablespace_ref": "bench/aged",
        "se_private_data":
            format!("id={INDEX_ID};root={root};space_id={SPACE};table_id={TABLE_ID};trx_id=1559;"),
        "elements": [element(1, 8, 0), element(2, WHOLE, 2), element(3, WHOLE, 3), element(4, WHOLE, 1)],
    });
    let table = json!({
        "mysqld_version_id": SERVER, "dd_version": 90_200, "sdi_version": 80_019, "dd_object_type": "Table",
        "dd_object": {
            "name": "aged", "schema_ref": "bench", "mysql_version_id": SERVER, "hidden": 1,
            "options": "avg_row_length=0;encrypt_type=N;key_block_size=0;keys_disabled=0;pack_record=1;",
            "columns": columns, "se_private_id": TABLE_ID, "engine": "InnoDB", "se_private_data": "",
            "row_format": 2, "indexes": [index], "foreign_keys": [], "check_constraints": [], "partitions": [],
            "collation_id": LATIN1_BIN,
        },
    });
    table.to_string()
}

/// The tablespace.
pub(super) fn tablespace() -> String {
    let space = json!({
        "mysqld_version_id": SERVER, "dd_version": 90_200, "sdi_version": 80_019, "dd_object_type": "Tablespace",
        "dd_object": {
            "name": "bench/aged", "comment": "", "options": "autoextend_size=0;encryption=N;",
            "se_private_data":
                format!("flags={FLAGS};id={SPACE};server_version={SERVER};space_version=1;state=normal;"),
            "engine": "InnoDB",
            "files": [{
                "ordinal_position": 1, "filename": "./bench/aged.ibd", "se_private_data": format!("id={SPACE};"),
            }],
        },
    });
    space.to_string()
}
