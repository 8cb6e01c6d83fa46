//! Keys, foreign keys and options from SDI.

use super::column::{base64, option, printed, text_option};
use super::object::{
    ForeignKeyObject, INDEX_FULLTEXT, INDEX_PRIMARY, INDEX_SPATIAL, INDEX_UNIQUE, Index, ORDER_DESCENDING, Table,
};
use super::partitions;
use crate::schema::charset::character_bytes;
use crate::schema::declared::{Declared, ForeignKey, KeyDef, KeyKind, KeyPart, Rule};
use crate::schema::quoted::{quoted, quoted_name};
use crate::schema::{ColumnDef, SqlType};

const ALGORITHM_BTREE: u32 = 2;
const ALGORITHM_HASH: u32 = 4;

pub(super) fn declared(table: &Table, columns: &[ColumnDef], kept: &[usize]) -> Declared {
    let counter: u64 = option(&table.se_private_data, "autoinc").unwrap_or(0);
    let (options, late_options) = options(table);
    Declared {
        keys: table.indexes.iter().filter(|index| !index.hidden).map(|index| key(index, columns, kept)).collect(),
        foreign_keys: Some(table.foreign_keys.iter().map(|key| foreign_key(key, table)).collect()),
        // The server stores the counter here only when the table is created or altered, and elsewhere later.
        auto_increment: (counter > 0).then_some(counter.saturating_add(1)),
        tablespace: tablespace(table),
        options,
        late_options,
        column_options: Vec::new(),
        comment: table.comment.clone(),
        is_hidden: table.hidden > 1,
        partitioning: partitions::sql(table),
        ..Declared::default()
    }
}

fn key(index: &Index, columns: &[ColumnDef], kept: &[usize]) -> KeyDef {
    let kind = match index.r#type {
        INDEX_PRIMARY => KeyKind::Primary,
        INDEX_UNIQUE => KeyKind::Unique,
        INDEX_FULLTEXT => KeyKind::FullText,
        INDEX_SPATIAL => KeyKind::Spatial,
        _ => KeyKind::Plain,
    };
    let own = index.elements.iter().filter(|element| !element.hidden && element.length != u32::MAX);
    let parts = own.filter_map(|element| {
        let column = kept.iter().position(|at| *at == element.column_opx)?;
        let whole = matches!(kind, KeyKind::FullText | KeyKind::Spatial);
        let prefix = if whole { None } else { prefix_characters(columns.get(column)?, element.length) };
        Some(KeyPart { column, prefix, descending: element.order == ORDER_DESCENDING })
    });
    let mut options = String::new();
    if index.is_algorithm_explicit {
        match index.algorithm {
            ALGORITHM_BTREE => options.push_str(" USING BTREE"),
            ALGORITHM_HASH => options.push_str(" USING HASH"),
            _ => {}
        }
    }
    if let Some(parser) = text_option(&index.options, "parser_name") {
        options.push_str(&format!(" /*!50100 WITH PARSER {} */ ", quoted_name(parser)));
    }
    if !index.comment.is_empty() {
        options.push_str(&format!(" COMMENT {}", quoted(&index.comment)));
    }
    if !index.is_visible {
        options.push_str(" /*!80000 INVISIBLE */");
    }
    KeyDef { name: index.name.clone(), kind, parts: parts.collect(), without_overlaps: false, options }
}

/// Length in characters of the prefix for a key part of `bytes`; `None` for the whole column.
pub(in crate::schema) fn prefix_characters(column: &ColumnDef, bytes: u32) -> Option<u32> {
    let whole = match column.sql_type {
        SqlType::Char(len) => bytes >= u32::from(len),
        SqlType::Varchar(len) => bytes >= len,
        SqlType::Blob(_) | SqlType::Geometry(_) | SqlType::Json => false,
        _ => true,
    };
    (!whole).then(|| bytes / u32::from(character_bytes(column.collation).1))
}

fn foreign_key(key: &ForeignKeyObject, table: &Table) -> ForeignKey {
    let columns = key.elements.iter().filter_map(|element| table.columns.get(element.column_opx));
    ForeignKey {
        name: key.name.clone(),
        columns: columns.map(|column| column.name.clone()).collect(),
        other_schema: key.referenced_table_schema_name.clone(),
        other_table: key.referenced_table_name.clone(),
        other_columns: key.elements.iter().map(|element| element.referenced_column_name.clone()).collect(),
        on_delete: rule(key.delete_rule),
        on_update: rule(key.update_rule),
    }
}

const fn rule(number: u32) -> Rule {
    match number {
        2 => Rule::Restrict,
        3 => Rule::Cascade,
        4 => Rule::SetNull,
        5 => Rule::SetDefault,
        _ => Rule::Default,
    }
}

/// The name that stands for a tablespace of the table's own.
pub(super) const OWN_TABLESPACE: &str = "innodb_file_per_table";

/// The general tablespace; a file-per-table tablespace is named after the table.
fn tablespace(table: &Table) -> Option<String> {
    if let Some(declared) = text_option(&table.options, "tablespace").filter(|name| *name == OWN_TABLESPACE) {
        return Some(declared.to_owned());
    }
    let first = table.indexes.iter().find_map(|index| index.tablespace_ref.as_ref())?;
    (!first.contains('/') && table.partitions.is_empty()).then(|| first.clone())
}

/// Options in the order in which the server prints them: before the comment, and after it.
fn options(table: &Table) -> (Vec<String>, Vec<String>) {
    let all = table.options.as_str();
    let number = |key: &str| option::<u64>(all, key).filter(|value| *value > 0);
    let mut out = Vec::new();
    let mut add = |name: &str, value: Option<u64>| out.extend(value.map(|value| format!("{name}={value}")));
    add("MIN_ROWS", number("min_rows"));
    add("MAX_ROWS", number("max_rows"));
    add("AVG_ROW_LENGTH", number("avg_row_length"));
    // These are there only if they were declared, as the server's flag or 0.
    let declared = |key: &str| option::<u64>(all, key).map(|flag| u64::from(flag > 0));
    add("PACK_KEYS", declared("pack_keys"));
    add("STATS_PERSISTENT", declared("stats_persistent"));
    add("STATS_AUTO_RECALC", number("stats_auto_recalc").map(|flag| u64::from(flag == 1)));
    add("STATS_SAMPLE_PAGES", number("stats_sample_pages"));
    add("CHECKSUM", number("checksum").map(|_| 1));
    add("DELAY_KEY_WRITE", number("delay_key_write").map(|_| 1));
    if let Some(format) = option(all, "row_type").and_then(row_format) {
        out.push(format!("ROW_FORMAT={format}"));
    }
    out.extend(number("key_block_size").map(|size| format!("KEY_BLOCK_SIZE={size}")));
    out.extend(text_option(all, "compress").map(|method| format!("COMPRESSION={}", quoted(method))));
    if text_option(all, "encrypt_type").is_some_and(|kind| !kind.is_empty() && !kind.eq_ignore_ascii_case("N")) {
        out.push("/*!80016 ENCRYPTION='Y' */".to_owned());
    }
    let secondary = text_option(all, "secondary_engine").map(|engine| format!("SECONDARY_ENGINE={engine}"));
    (out, secondary.into_iter().collect())
}

/// A row format that can be declared, by the number used by both servers.
pub(in crate::schema) const fn row_format(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "FIXED",
        2 => "DYNAMIC",
        3 => "COMPRESSED",
        4 => "REDUNDANT",
        5 => "COMPACT",
        6 => "PAGE",
        _ => return None,
    })
}

/// The condition of a check: in base64 as the client wrote it, and in UTF-8.
pub(super) fn clause(base: &str, utf8: &str) -> String {
    match String::from_utf8(base64(base).unwrap_or_default()) {
        Ok(text) => printed(&text, utf8),
        Err(_) => printed("", utf8),
    }
}
