//! Collations by number: how long characters are, and how values compare where that is known.
//!
//! Facts: the collations of MySQL 9.7 and MariaDB 10.11, which agree on every number.

use super::order::KeyOrder;
pub use crate::charset::character_bytes;

/// The collation of non-text values.
pub const BINARY: u16 = 63;

/// Length in bytes of a value's first `count` characters, or of the whole value if it has fewer. `None` for charsets with characters of
/// several lengths, except UTF-8 and UTF-16. An invalid character counts as one of the shortest.
#[must_use]
pub fn prefix_bytes(collation: u16, value: &[u8], count: usize) -> Option<usize> {
    let length: fn(&[u8]) -> usize = match (character_bytes(collation), collation) {
        ((fewest, most), _) if fewest == most => return Some(value.len().min(count.saturating_mul(usize::from(most)))),
        (_, 248..=250) => return None,
        ((1, 3 | 4), _) if !matches!(collation, 12 | 91 | 1036 | 1115 | 97..=98 | 1121..=1122) => |rest| match rest {
            [0xC2..=0xDF, ..] => 2,
            [0xE0..=0xEF, ..] => 3,
            [0xF0..=0xF4, ..] => 4,
            _ => 1,
        },
        (_, 56 | 62 | 1080 | 1086) => |rest| if matches!(rest, [_, 0xD8..=0xDB, ..]) { 4 } else { 2 },
        ((2, 4), _) => |rest| if matches!(rest, [0xD8..=0xDB, ..]) { 4 } else { 2 },
        _ => return None,
    };
    let mut at = 0;
    for _ in 0..count {
        match value.get(at..) {
            Some(rest) if !rest.is_empty() => at += length(rest),
            _ => break,
        }
    }
    Some(at.min(value.len()))
}

/// How values of a text column compare.
#[must_use]
pub(super) const fn text_order(collation: u16) -> KeyOrder {
    match collation {
        BINARY => KeyOrder::Bytes,
        // The _bin collations of single-byte charsets and of UTF-8, where byte order is character order.
        43 | 46 | 47 | 50 | 53 | 58 | 64..=75 | 77..=83 | 89 | 93 => KeyOrder::PaddedBytes,
        // utf8mb4_0900_bin, and MariaDB's NO PAD variants of some of the above.
        309 | 1070 | 1071 | 1089 | 1107 => KeyOrder::Bytes,
        // latin1_swedish_ci, ascii_general_ci, utf8mb3_general_ci, utf8mb4_general_ci.
        8 | 11 | 33 | 45 => KeyOrder::AsciiNoCase,
        // utf8mb4_0900_ai_ci.
        255 => KeyOrder::Uca0900Letters,
        _ => KeyOrder::Unknown,
    }
}
