//! The Arrow type of each column.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::extension::{Json, Uuid};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use format::Family;
use format::schema::TableDef;
use format::show_create::type_name;
use format::value::ValueKind;
use inspect::rows::{RowColumn, RowPlan};

/// Key in a field's metadata: the type as `SHOW CREATE TABLE` prints it.
const TYPE_KEY: &str = "innokit.type";
/// Key in the schema's metadata: `schema.table`.
const TABLE_KEY: &str = "innokit.table";
/// Key in the schema's metadata: the server that wrote the table.
const SERVER_KEY: &str = "innokit.server";
/// The column with the state of each row, in an export of deleted rows.
pub(crate) const STATE_COLUMN: &str = "innokit_state";
/// Digits of decimal128.
const DECIMAL128_DIGITS: u8 = 38;

/// The Arrow type of a DECIMAL of more than 38 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WideDecimals {
    /// Text with all its digits. DuckDB refuses decimal256 in Arrow and Parquet, and Polars and Spark cannot read it.
    #[default]
    Text,
    /// `decimal256`.
    Decimal256,
}

/// The Arrow types of text, and of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strings {
    /// `string` and `binary`: every reader knows them.
    #[default]
    Offsets,
    /// `string_view` and `binary_view`: Polars and DuckDB take them as they are, and would copy the others. Spark and Daft refuse them.
    Views,
}

/// The Arrow type of an ENUM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enums {
    /// A dictionary of its members, with the server's numbers.
    #[default]
    Dictionary,
    /// Text. Spark and Daft refuse dictionaries.
    Text,
}

/// The Arrow type of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jsons {
    /// Text of the extension type `arrow.json`.
    #[default]
    Extension,
    /// Text. Polars can do little with the extension type, which it takes for one of its own.
    Text,
}

/// Whose types numbers, times and UUIDs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Types {
    /// The server's, as exactly as Arrow has them.
    #[default]
    Exact,
    /// Those that Iceberg and Delta Lake have too: no unsigned numbers, no durations, no dictionaries. No value is changed, and no digit lost.
    Lakehouse,
}

/// Digits of a BIGINT UNSIGNED.
const UINT64_DIGITS: u8 = 20;

/// Options for what readers do not agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArrowOptions {
    /// The types of numbers, times and UUIDs.
    pub types: Types,
    /// The type of a DECIMAL of more than 38 digits.
    pub wide_decimals: WideDecimals,
    /// The types of text and bytes.
    pub strings: Strings,
    /// The type of an ENUM.
    pub enums: Enums,
    /// The type of JSON.
    pub json: Jsons,
}

impl ArrowOptions {
    /// For tables of Iceberg and Delta Lake.
    #[must_use]
    pub const fn lakehouse() -> Self {
        Self {
            types: Types::Lakehouse,
            wide_decimals: WideDecimals::Text,
            strings: Strings::Offsets,
            enums: Enums::Text,
            json: Jsons::Text,
        }
    }

    const fn text(self) -> DataType {
        match self.strings {
            Strings::Offsets => DataType::Utf8,
            Strings::Views => DataType::Utf8View,
        }
    }

    const fn bytes(self) -> DataType {
        match self.strings {
            Strings::Offsets => DataType::Binary,
            Strings::Views => DataType::BinaryView,
        }
    }
}

/// The schema of a plan's rows. With `states`, a last column gives the state of each row.
#[must_use]
pub fn schema(plan: &RowPlan, options: ArrowOptions, states: bool) -> SchemaRef {
    let mut fields: Vec<Field> = plan.columns.iter().map(|column| field(&plan.table, column, options)).collect();
    if states {
        fields.push(Field::new(STATE_COLUMN, DataType::Utf8, false));
    }
    let server = match plan.family() {
        Family::MySql => "mysql",
        Family::MariaDb => "mariadb",
    };
    let table = format!("{}.{}", plan.table.schema, plan.table.name);
    let metadata = [(TABLE_KEY, table.as_str()), (SERVER_KEY, server)];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Arc::new(Schema::new_with_metadata(fields, HashMap::from(metadata)))
}

fn field(table: &TableDef, column: &RowColumn, options: ArrowOptions) -> Field {
    let data_type = data_type(&column.value.kind, options);
    // A zero date is not a date: it becomes NULL, even if the column is NOT NULL.
    let can_be_zero = matches!(data_type, DataType::Date32 | DataType::Timestamp(..));
    let mut field = Field::new(&column.name, data_type, column.nullable || can_be_zero);
    let Some(def) = table.columns.get(column.column) else { return field };
    field.metadata_mut().insert(TYPE_KEY.to_owned(), type_name(table.family, def));
    let is_uuid = field.data_type() == &DataType::FixedSizeBinary(16);
    let is_json = matches!(column.value.kind, ValueKind::Json) || def.is_json_text();
    let is_json = is_json && options.json == Jsons::Extension;
    // Neither can fail: the types are those that the extensions require.
    let extended = match (is_uuid, is_json && matches!(field.data_type(), DataType::Utf8 | DataType::Utf8View)) {
        (true, _) => field.try_with_extension_type(Uuid),
        (_, true) => field.try_with_extension_type(Json::default()),
        _ => Ok(()),
    };
    debug_assert!(extended.is_ok(), "{field}");
    field
}

fn data_type(kind: &ValueKind, options: ArrowOptions) -> DataType {
    let exact = exact_type(kind, options);
    match (options.types, exact) {
        (Types::Exact, exact) => exact,
        (_, DataType::UInt8) => DataType::Int16,
        (_, DataType::UInt16) => DataType::Int32,
        (_, DataType::UInt32) => DataType::Int64,
        (_, DataType::UInt64) => match kind {
            ValueKind::Bit(bits) if *bits < 64 => DataType::Int64,
            _ => DataType::Decimal128(UINT64_DIGITS, 0),
        },
        // A TIME goes to 838 hours in both directions: neither format's time of day has room for it.
        (_, DataType::Duration(_)) => DataType::Int64,
        (_, DataType::FixedSizeBinary(_)) => options.text(),
        (_, exact) => exact,
    }
}

fn exact_type(kind: &ValueKind, options: ArrowOptions) -> DataType {
    match kind {
        ValueKind::Int { bytes: 1, unsigned: false } => DataType::Int8,
        ValueKind::Int { bytes: 2, unsigned: false } => DataType::Int16,
        ValueKind::Int { bytes: 3 | 4, unsigned: false } => DataType::Int32,
        ValueKind::Int { unsigned: false, .. } => DataType::Int64,
        ValueKind::Int { bytes: 1, unsigned: true } => DataType::UInt8,
        ValueKind::Int { bytes: 2, unsigned: true } | ValueKind::Year => DataType::UInt16,
        ValueKind::Int { bytes: 3 | 4, unsigned: true } => DataType::UInt32,
        ValueKind::Int { unsigned: true, .. } | ValueKind::Bit(_) => DataType::UInt64,
        ValueKind::Float { .. } => DataType::Float32,
        ValueKind::Double { .. } => DataType::Float64,
        ValueKind::Decimal { precision, scale } => decimal(*precision, *scale, options),
        ValueKind::Date => DataType::Date32,
        ValueKind::Time(_) | ValueKind::OldTime | ValueKind::HiresTime(_) => DataType::Duration(TimeUnit::Microsecond),
        ValueKind::DateTime(_) | ValueKind::OldDateTime | ValueKind::HiresDateTime(_) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        ValueKind::Timestamp(_) | ValueKind::OldTimestamp | ValueKind::HiresTimestamp(_) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")))
        }
        ValueKind::Enum(_) if options.enums == Enums::Text => options.text(),
        ValueKind::Enum(_) => DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8)),
        ValueKind::Binary { .. } | ValueKind::Bytes | ValueKind::Geometry => options.bytes(),
        ValueKind::Vector => DataType::List(vector_item()),
        ValueKind::Uuid | ValueKind::OldUuid => DataType::FixedSizeBinary(16),
        ValueKind::Char { .. }
        | ValueKind::Text
        | ValueKind::Set(_)
        | ValueKind::Json
        | ValueKind::Inet6
        | ValueKind::Inet4 => options.text(),
        // Its values cannot be decoded, so its rows are refused one by one.
        ValueKind::Unknown => options.bytes(),
    }
}

fn decimal(precision: u8, scale: u8, options: ArrowOptions) -> DataType {
    // The servers' scale is 38 at most.
    let arrow_scale = i8::try_from(scale).unwrap_or(0);
    match options.wide_decimals {
        _ if (1..=DECIMAL128_DIGITS).contains(&precision) => DataType::Decimal128(precision, arrow_scale),
        WideDecimals::Decimal256 if precision > 0 => DataType::Decimal256(precision, arrow_scale),
        _ => options.text(),
    }
}

/// The item type of a VECTOR's list.
pub(crate) fn vector_item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Float32, false))
}
