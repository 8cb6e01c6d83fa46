//! Columns from SDI.

use super::object::Column;
use super::utf8::{as_latin1, has_raw};
use crate::schema::types::{decimal, set_bytes};
use crate::schema::{ColumnDef, ColumnDefault, Generated, GeometryKind, InstantDefault, SqlType, Visibility};

const HIDDEN_VISIBLE: u32 = 1;
const HIDDEN_FUNCTIONAL: u32 = 3;
const HIDDEN_BY_USER: u32 = 4;

/// The value of `key` in a list of `key=value;`.
pub(super) fn option<T: std::str::FromStr>(options: &str, key: &str) -> Option<T> {
    text_option(options, key)?.parse().ok()
}

pub(super) fn text_option<'o>(options: &'o str, key: &str) -> Option<&'o str> {
    options.split(';').find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
}

pub(super) fn column_def(column: &Column) -> ColumnDef {
    let private = column.se_private_data.as_str();
    let sql_type = sql_type(column);
    ColumnDef {
        ordinal: column.ordinal_position,
        collation: u16::try_from(column.collation_id).unwrap_or(u16::MAX),
        // InnoDB's auxiliary tables for full-text indexes are declared NOT NULL but nullable in their rows.
        nullable: column.is_nullable || option(private, "nullable") == Some(1),
        unsigned: column.is_unsigned,
        zerofill: column.is_zerofill,
        width: column.char_length,
        decimals: decimals(column, sql_type),
        members: column.elements.iter().map(|element| base64(&element.name).unwrap_or_default()).collect(),
        srid: (!column.srs_id_null).then_some(column.srs_id),
        is_virtual: column.is_virtual,
        generated: generated(column),
        is_array: option(&column.options, "is_array") == Some(1),
        visibility: match column.hidden {
            0 | HIDDEN_VISIBLE => Visibility::Visible,
            HIDDEN_FUNCTIONAL => Visibility::Functional,
            HIDDEN_BY_USER => Visibility::Invisible,
            _ => Visibility::Hidden,
        },
        default: default(column),
        default_image: base64(&column.default_value).unwrap_or_default(),
        on_update_now: !column.update_option.is_empty(),
        auto_increment: column.is_auto_increment,
        comment: column.comment.clone(),
        declared_type: (!column.column_type_utf8.is_empty()).then(|| column.column_type_utf8.clone()),
        is_explicit_collation: column.is_explicit_collation,
        not_secondary: option(&column.options, "not_secondary") == Some(1),
        ndb_options: ndb_options(&column.options),
        added: option(private, "version_added").unwrap_or(0),
        dropped: option(private, "version_dropped"),
        physical_pos: option(private, "physical_pos"),
        instant_default: instant_default(private),
        ..ColumnDef::plain(&column.name, sql_type)
    }
}

fn ndb_options(options: &str) -> String {
    let words = |key, [first, second]: [&str; 2]| match option(options, key) {
        Some(1) => format!(" /*!50606 {first} */"),
        Some(2) => format!(" /*!50606 {second} */"),
        _ => String::new(),
    };
    let storage = words("storage", ["STORAGE DISK", "STORAGE MEMORY"]);
    storage + &words("column_format", ["COLUMN_FORMAT FIXED", "COLUMN_FORMAT DYNAMIC"])
}

fn instant_default(private: &str) -> Option<InstantDefault> {
    if option(private, "default_null") == Some(1) {
        return Some(InstantDefault::Null);
    }
    text_option(private, "default").and_then(hex).map(InstantDefault::Bytes)
}

fn decimals(column: &Column, sql_type: SqlType) -> Option<u8> {
    let declared = matches!(sql_type, SqlType::Decimal { .. } | SqlType::Float | SqlType::Double);
    (declared && !column.numeric_scale_null).then(|| u8::try_from(column.numeric_scale).unwrap_or(u8::MAX))
}

fn generated(column: &Column) -> Option<Generated> {
    let expression = printed(&column.generation_expression, &column.generation_expression_utf8);
    (column.is_virtual || !expression.is_empty()).then_some(Generated { stored: !column.is_virtual, expression })
}

/// An expression of which the dictionary has two copies: in the charset of the client that wrote it, and in UTF-8 with its quotes escaped.
/// The first is as the server prints it, if the client's charset was UTF-8.
pub(super) fn printed(as_written: &str, utf8: &str) -> String {
    if utf8.is_empty() || !as_written.is_empty() && !has_raw(as_written) {
        return as_latin1(as_written);
    }
    let mut out = String::with_capacity(utf8.len());
    let mut rest = utf8.chars();
    while let Some(c) = rest.next() {
        let is_escape = c == '\\' && matches!(rest.as_str().chars().next(), Some('\\' | '\''));
        out.extend(if is_escape { rest.next() } else { Some(c) });
    }
    out
}

/// An option wins over a literal: for an expression, the dictionary's literal is just the type's default.
fn default(column: &Column) -> ColumnDefault {
    if !column.default_option.is_empty() {
        return ColumnDefault::Expression(as_latin1(&column.default_option));
    }
    match (column.has_no_default, column.default_value_utf8_null) {
        (true, _) => ColumnDefault::None,
        (false, false) => ColumnDefault::Literal(column.default_value_utf8.clone()),
        (false, true) if column.is_nullable => ColumnDefault::Null,
        (false, true) => ColumnDefault::None,
    }
}

/// Standard base64 with padding, as the dictionary writes bytes.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    // Long values are split in lines.
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'=')).collect();
    for group in digits.chunks(4) {
        let bits = group.iter().try_fold(0_u32, |bits, byte| Some(bits << 6 | u32::from(digit(*byte)?)))?;
        let bytes = (bits << (6 * (4 - group.len()))).to_be_bytes();
        out.extend_from_slice(bytes.get(1..group.len())?);
    }
    Some(out)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// The dictionary's type numbers. Fraction digits follow from the display width, which is right for dropped columns too.
pub(super) fn sql_type(column: &Column) -> SqlType {
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
        30 => SqlType::Geometry(GeometryKind::from_number(option(&column.options, "geom_type").unwrap_or(0))),
        31 => SqlType::Json,
        32 => SqlType::Vector(width / 4),
        other => SqlType::Unknown(other),
    }
}
