//! Collations by number: how long characters are, and how values compare where that is known.
//!
//! Facts: the collations of MySQL 9.7 and MariaDB 10.11, which agree on every number.

use super::order::KeyOrder;

/// The collation of non-text values.
pub const BINARY: u16 = 63;

/// Fewest and most bytes of a character of the collation's charset.
#[must_use]
pub const fn character_bytes(collation: u16) -> (u8, u8) {
    match collation {
        1 | 84 | 1025 | 1108 // big5
        | 95..=96 | 1119..=1120 // cp932
        | 19 | 85 | 1043 | 1109 // euckr
        | 24 | 86 | 1048 | 1110 // gb2312
        | 28 | 87 | 1052 | 1111 // gbk
        | 13 | 88 | 1037 | 1112 => (1, 2), // sjis
        97..=98 | 1121..=1122 // eucjpms
        | 12 | 91 | 1036 | 1115 // ujis
        | 33 | 76 | 83 | 192..=223 | 576..=578 | 1057 | 1107 | 1216..=1238 | 2048..=2247 => (1, 3), // utf8mb3
        45..=46 | 224..=247 | 255..=323 | 608..=610 | 1069..=1070 | 1248..=1270 | 2304..=2503 // utf8mb4
        | 248..=250 => (1, 4), // gb18030
        35 | 90 | 128..=159 | 640..=642 | 1059 | 1114 | 1152..=1174 | 2560..=2759 => (2, 2), // ucs2
        54..=55 | 101..=124 | 672..=674 | 1078..=1079 | 1125..=1147 | 2816..=3015 // utf16
        | 56 | 62 | 1080 | 1086 => (2, 4), // utf16le
        60..=61 | 160..=183 | 736..=738 | 1084..=1085 | 1184..=1206 | 3072..=3271 => (4, 4), // utf32
        _ => (1, 1),
    }
}

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
