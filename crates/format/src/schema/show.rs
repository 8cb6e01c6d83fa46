//! Prints the keys in findings, in readable form where that is simple.

use super::{ColumnDef, SqlType, charset};

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
        Some(_) => None,
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
        let bytes = ColumnDef::plain("b", SqlType::Varchar(80));
        assert_eq!(shown(Some(&bytes), Some(b"ab")), "0x6162");
    }
}
