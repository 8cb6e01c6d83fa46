//! Literals: quoted text, and defaults from the server's own row image.

use crate::kind::Family;
use crate::schema::charset::BINARY;
use crate::schema::quoted::quoted;
use crate::schema::{ColumnDef, ColumnDefault, SqlType};
use crate::value::ValueType;

/// The default in the column's image, as a literal. `None` if its bytes are not a value of the type.
pub(super) fn default_literal(family: Family, version: u32, column: &ColumnDef) -> Option<String> {
    let image = &column.default_image;
    if image.is_empty() {
        // Old dictionaries store only the text.
        return match &column.default {
            ColumnDefault::Literal(text) => Some(quoted(text)),
            _ => None,
        };
    }
    let stored = stored(column)?;
    if let SqlType::Bit(_) = column.sql_type {
        let bits = stored.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        return Some(format!("b'{bits:b}'"));
    }
    let is_string = matches!(column.sql_type, SqlType::Char(_) | SqlType::Varchar(_));
    if is_string && column.collation == BINARY {
        return Some(binary_literal(family, version, &stored));
    }
    let mut text = Vec::new();
    let plain = ColumnDef { compressed: false, ..column.clone() };
    ValueType::of(&plain).write_text(&stored, &mut text).ok()?;
    let text = String::from_utf8(text).ok()?;
    if column.collation == BINARY && matches!(column.sql_type, SqlType::Enum(_) | SqlType::Set(_)) {
        return Some(binary_literal(family, version, text.as_bytes()));
    }
    let bare = family == Family::MariaDb && is_number(column.sql_type);
    Some(if bare { text } else { quoted(&text) })
}

fn is_number(sql_type: SqlType) -> bool {
    let float = matches!(sql_type, SqlType::Float | SqlType::Double);
    float || matches!(sql_type, SqlType::Int { .. } | SqlType::Decimal { .. } | SqlType::Year)
}

/// MariaDB prints binary strings in hexadecimal from this version on.
const HEX_BINARY: u32 = 110_000;

/// Binary strings that are UTF-8 are printed as text, except by newer MariaDB.
fn binary_literal(family: Family, version: u32, bytes: &[u8]) -> String {
    let hex = |upper: bool| -> String {
        bytes.iter().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
    };
    match (family, std::str::from_utf8(bytes)) {
        (Family::MySql, Ok(text)) => quoted(text),
        (Family::MariaDb, Ok(text)) if version < HEX_BINARY || text.is_empty() => quoted(text),
        (Family::MySql, Err(_)) => format!("0x{}", hex(true)),
        (Family::MariaDb, _) => format!("x'{}'", hex(false)),
    }
}

/// The image as InnoDB would store it in a row: numbers big-endian with the sign bit flipped, strings without their length.
fn stored(column: &ColumnDef) -> Option<Vec<u8>> {
    let image = column.default_image.as_slice();
    let reversed = |flip: u8| {
        let mut bytes: Vec<u8> = image.iter().rev().copied().collect();
        if let Some(first) = bytes.first_mut() {
            *first ^= flip;
        }
        bytes
    };
    Some(match column.sql_type {
        SqlType::Int { unsigned: true, .. } | SqlType::Year | SqlType::Enum(_) | SqlType::Set(_) => reversed(0),
        SqlType::OldTimestamp => reversed(0),
        SqlType::Int { unsigned: false, .. } | SqlType::Date | SqlType::OldTime | SqlType::OldDateTime => {
            reversed(0x80)
        }
        SqlType::Varchar(max) => {
            let (len, rest) = match max < 256 {
                true => image.split_first().map(|(len, rest)| (usize::from(*len), rest))?,
                false => (usize::from(crate::bytes::le::u16_at(image, 0)?), image.get(2..)?),
            };
            // An uncompressed value of a COMPRESSED column starts with a zero.
            let value = rest.get(..len)?;
            if column.compressed { value.get(1..).unwrap_or(&[]).to_vec() } else { value.to_vec() }
        }
        _ => image.to_vec(),
    })
}
