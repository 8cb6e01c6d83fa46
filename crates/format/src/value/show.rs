//! Prints the keys in findings, in readable form where that is simple.

use super::ValueType;
use crate::schema::{ColumnDef, SqlType, charset};

/// Longer values are cut.
const SHOWN_MAX: usize = 64;

/// A stored value as text: numbers, and ASCII or UTF-8 text; everything else in hexadecimal. Without a column the value is a DB_ROW_ID.
/// `None` is NULL.
#[must_use]
pub fn shown(column: Option<&ColumnDef>, value: Option<&[u8]>) -> String {
    let Some(value) = value else { return "NULL".to_owned() };
    let text = match column.map(|column| column.sql_type) {
        None => unsigned(value).map(|number| number.to_string()),
        Some(SqlType::Int { unsigned: true, .. } | SqlType::Enum(_) | SqlType::Set(_)) => {
            unsigned(value).map(|number| number.to_string())
        }
        Some(SqlType::Int { unsigned: false, .. }) => signed(value).map(|number| number.to_string()),
        Some(SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Blob(_)) => {
            column.filter(|column| column.collation != charset::BINARY).and_then(|column| text(column, value))
        }
        Some(_) => column.and_then(|column| as_the_server_shows(column, value)),
    };
    text.unwrap_or_else(|| hexadecimal(value))
}

fn unsigned(value: &[u8]) -> Option<u64> {
    (1..=8).contains(&value.len()).then(|| value.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The sign bit is stored flipped, so that byte order is numeric order.
fn signed(value: &[u8]) -> Option<i64> {
    let number = i128::from(unsigned(value)?) - (1 << (8 * value.len() - 1));
    i64::try_from(number).ok()
}

/// Dates, decimals and other values whose bytes say nothing to a reader.
fn as_the_server_shows(column: &ColumnDef, value: &[u8]) -> Option<String> {
    use SqlType::{Bit, Decimal, Double, Float, Geometry, Json, MariaDbVector, Unknown, Vector, Year};
    // A prefix of a document says nothing.
    if matches!(column.sql_type, Json | Geometry(_) | Vector(_) | MariaDbVector(_) | Bit(_) | Unknown(_)) {
        return None;
    }
    let mut out = Vec::new();
    ValueType::of(column).write_text(value, &mut out).ok()?;
    let text = String::from_utf8(out).ok()?;
    let is_number = matches!(column.sql_type, Decimal { .. } | Double | Float | Year);
    Some(if is_number { text } else { format!("'{text}'") })
}

fn text(column: &ColumnDef, value: &[u8]) -> Option<String> {
    let is_utf8 = matches!(charset::character_bytes(column.collation), (1, 3 | 4));
    if !(value.is_ascii() || is_utf8) || value.len() > SHOWN_MAX {
        return None;
    }
    let text = str::from_utf8(value).ok()?.trim_end_matches(' ');
    Some(format!("'{}'", text.escape_debug()))
}

fn hexadecimal(value: &[u8]) -> String {
    let shown: String = value.iter().take(SHOWN_MAX / 2).map(|byte| format!("{byte:02x}")).collect();
    let rest = if value.len() > SHOWN_MAX / 2 { "..." } else { "" };
    format!("0x{shown}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_people_write_them() {
        let int = ColumnDef::plain("id", SqlType::Int { bytes: 4, unsigned: false });
        assert_eq!(shown(Some(&int), Some(&[0x80, 0, 0, 17])), "17");
        assert_eq!(shown(Some(&int), Some(&[0x7F, 0xFF, 0xFF, 0xFF])), "-1");
        let big = ColumnDef::plain("id", SqlType::Int { bytes: 8, unsigned: false });
        assert_eq!(shown(Some(&big), Some(&[0; 8])), i64::MIN.to_string());
        assert_eq!(shown(None, Some(&[0, 0, 0, 0, 2, 1])), "513");
        let name = ColumnDef { collation: 255, ..ColumnDef::plain("name", SqlType::Varchar(80)) };
        assert_eq!(shown(Some(&name), Some(b"d'Arc  ")), "'d\\'Arc'");
        assert_eq!(shown(Some(&name), Some(&[0xFF, 0x01])), "0xff01");
        assert_eq!(shown(Some(&name), None), "NULL");
        let day = ColumnDef::plain("day", SqlType::Date);
        assert_eq!(shown(Some(&day), Some(&[0x8F, 0xAA, 0xA1])), "'2005-05-01'");
        let moment = ColumnDef::plain("at", SqlType::DateTime(0));
        assert_eq!(shown(Some(&moment), Some(&[0x99, 0xB3, 0x5C, 0xA0, 0x00])), "'2024-05-14 10:00:00'");
        let price = ColumnDef::plain("price", SqlType::Decimal { precision: 6, scale: 2 });
        assert_eq!(shown(Some(&price), Some(&[0x84, 0xD2, 0x38])), "1234.56");
        // Bytes that are no value of the type are shown as they are.
        assert_eq!(shown(Some(&day), Some(&[0x8F])), "0x8f");
        let bytes = ColumnDef::plain("b", SqlType::Varchar(80));
        assert_eq!(shown(Some(&bytes), Some(b"ab")), "0x6162");
    }
}
