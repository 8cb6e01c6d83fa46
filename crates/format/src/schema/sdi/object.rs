//! The parts of the SDI JSON that we read. Fields that some server version lacks have a default; fields that every version has are
//! required, so that other JSON is not taken for a table.

use serde::Deserialize;

pub(super) const INDEX_PRIMARY: u32 = 1;
pub(super) const INDEX_UNIQUE: u32 = 2;
pub(super) const INDEX_FULLTEXT: u32 = 4;
pub(super) const INDEX_SPATIAL: u32 = 5;
pub(super) const ORDER_DESCENDING: u32 = 3;
pub(super) const ROW_FORMAT_REDUNDANT: u32 = 4;

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
pub(super) struct Object {
    pub dd_object: Table,
}

#[derive(Deserialize)]
pub(super) struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    #[serde(default)]
    pub schema_ref: String,
    #[serde(default)]
    pub mysql_version_id: u32,
    #[serde(default)]
    pub hidden: u32,
    #[serde(default)]
    pub options: String,
    #[serde(default)]
    pub row_format: u32,
    #[serde(default)]
    pub se_private_data: String,
    #[serde(default)]
    pub collation_id: u32,
    #[serde(default)]
    pub indexes: Vec<Index>,
    #[serde(default)]
    pub partitions: Vec<Partition>,
    #[serde(default)]
    pub check_constraints: Vec<Check>,
    #[serde(default)]
    pub foreign_keys: Vec<ForeignKeyObject>,
    #[serde(default)]
    pub comment: String,
    #[serde(default)]
    pub partition_type: u32,
    #[serde(default)]
    pub partition_expression: String,
    #[serde(default)]
    pub default_partitioning: u32,
    #[serde(default)]
    pub subpartition_type: u32,
    #[serde(default)]
    pub subpartition_expression: String,
    #[serde(default)]
    pub default_subpartitioning: u32,
}

#[derive(Deserialize)]
pub(super) struct Column {
    pub name: String,
    pub r#type: u8,
    #[serde(default)]
    pub ordinal_position: u32,
    #[serde(default)]
    pub is_nullable: bool,
    #[serde(default)]
    pub is_unsigned: bool,
    #[serde(default)]
    pub is_zerofill: bool,
    #[serde(default)]
    pub is_auto_increment: bool,
    #[serde(default)]
    pub is_virtual: bool,
    #[serde(default)]
    pub hidden: u32,
    #[serde(default)]
    pub char_length: u32,
    #[serde(default)]
    pub numeric_scale: u32,
    #[serde(default = "yes")]
    pub numeric_scale_null: bool,
    #[serde(default)]
    pub srs_id: u32,
    #[serde(default = "yes")]
    pub srs_id_null: bool,
    #[serde(default)]
    pub has_no_default: bool,
    #[serde(default)]
    pub default_value: String,
    #[serde(default)]
    pub default_value_utf8: String,
    #[serde(default = "yes")]
    pub default_value_utf8_null: bool,
    #[serde(default)]
    pub default_option: String,
    #[serde(default)]
    pub update_option: String,
    #[serde(default)]
    pub comment: String,
    #[serde(default)]
    pub generation_expression: String,
    #[serde(default)]
    pub generation_expression_utf8: String,
    #[serde(default)]
    pub options: String,
    #[serde(default)]
    pub se_private_data: String,
    #[serde(default)]
    pub elements: Vec<Element>,
    #[serde(default)]
    pub column_type_utf8: String,
    #[serde(default)]
    pub collation_id: u32,
    #[serde(default)]
    pub is_explicit_collation: bool,
}

/// A member of an ENUM or SET; its name in base64.
#[derive(Deserialize)]
pub(super) struct Element {
    #[serde(default)]
    pub name: String,
}

#[derive(Deserialize)]
pub(super) struct Index {
    pub name: String,
    pub r#type: u32,
    #[serde(default)]
    pub comment: String,
    #[serde(default)]
    pub options: String,
    #[serde(default)]
    pub algorithm: u32,
    #[serde(default)]
    pub is_algorithm_explicit: bool,
    #[serde(default = "yes")]
    pub is_visible: bool,
    #[serde(default)]
    pub tablespace_ref: Option<String>,
    #[serde(default)]
    pub hidden: bool,
    #[serde(default)]
    pub se_private_data: String,
    #[serde(default)]
    pub elements: Vec<KeyElement>,
}

#[derive(Deserialize)]
pub(super) struct KeyElement {
    pub length: u32,
    pub column_opx: usize,
    #[serde(default)]
    pub order: u32,
    #[serde(default)]
    pub hidden: bool,
}

#[derive(Deserialize)]
pub(super) struct Partition {
    pub name: String,
    #[serde(default)]
    pub comment: String,
    #[serde(default)]
    pub options: String,
    #[serde(default)]
    pub description_utf8: String,
    #[serde(default)]
    pub se_private_data: String,
    #[serde(default)]
    pub indexes: Vec<PartitionIndex>,
    #[serde(default)]
    pub subpartitions: Vec<Partition>,
}

#[derive(Deserialize)]
pub(super) struct PartitionIndex {
    pub index_opx: usize,
    #[serde(default)]
    pub se_private_data: String,
}

#[derive(Deserialize)]
pub(super) struct Check {
    pub name: String,
    #[serde(default)]
    pub state: u32,
    #[serde(default)]
    pub check_clause: String,
    #[serde(default)]
    pub check_clause_utf8: String,
}

#[derive(Deserialize)]
pub(super) struct ForeignKeyObject {
    pub name: String,
    #[serde(default)]
    pub update_rule: u32,
    #[serde(default)]
    pub delete_rule: u32,
    #[serde(default)]
    pub referenced_table_schema_name: String,
    #[serde(default)]
    pub referenced_table_name: String,
    #[serde(default)]
    pub elements: Vec<ForeignKeyElement>,
}

#[derive(Deserialize)]
pub(super) struct ForeignKeyElement {
    pub column_opx: usize,
    #[serde(default)]
    pub referenced_column_name: String,
}
