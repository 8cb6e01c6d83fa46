//! Arbitrary bytes as a value of every kind, with parameters that a damaged definition could have: no panic, and what can be decoded can
//! be written, summed and shown.
#![no_main]

use format::schema::types::SqlType;
use format::schema::{ColumnDef, GeometryKind};
use format::value::{ValueType, compressed};
use libfuzzer_sys::fuzz_target;

/// The type with that number and those parameters.
fn sql_type(number: u8, a: u8, b: u8) -> SqlType {
    let length = u16::from_be_bytes([a, b]);
    match number % 30 {
        0 => SqlType::Int { bytes: a, unsigned: b & 1 == 1 },
        1 => SqlType::Float,
        2 => SqlType::Double,
        3 => SqlType::Decimal { precision: a, scale: b },
        4 => SqlType::Year,
        5 => SqlType::Date,
        6 => SqlType::Time(a),
        7 => SqlType::DateTime(a),
        8 => SqlType::Timestamp(a),
        9 => SqlType::OldTime,
        10 => SqlType::OldDateTime,
        11 => SqlType::OldTimestamp,
        12 => SqlType::HiresTime(a),
        13 => SqlType::HiresDateTime(a),
        14 => SqlType::HiresTimestamp(a),
        15 => SqlType::Bit(a),
        16 => SqlType::Enum(a),
        17 => SqlType::Set(a),
        18 => SqlType::Char(length),
        19 => SqlType::Varchar(length.into()),
        20 => SqlType::Blob(a),
        21 => SqlType::Json,
        22 => SqlType::Geometry(GeometryKind::Geometry),
        23 => SqlType::Vector(length.into()),
        24 => SqlType::MariaDbVector(length.into()),
        25 => SqlType::Uuid,
        26 => SqlType::Inet6,
        27 => SqlType::Inet4,
        _ => SqlType::Unknown(a),
    }
}

fuzz_target!(|input: &[u8]| {
    let [number, a, b, flags, collation, stored @ ..] = input else { return };
    let mut column = ColumnDef::plain("c", sql_type(*number, *a, *b));
    // Collations beyond 255 are of Unicode only: as many kinds of charsets are below.
    column.collation = u16::from(*collation);
    column.zerofill = flags & 1 == 1;
    column.width = u32::from(*b);
    column.decimals = (flags & 2 != 0).then_some(*b);
    column.compressed = flags & 4 != 0;
    column.members = (0..flags >> 3).map(|member| vec![member, b'x']).collect();
    let value = ValueType::of(&column);
    let mut plain = Vec::new();
    let stored = match value.compressed {
        true if compressed::unpack(stored, &mut plain).is_err() => return,
        true => plain.as_slice(),
        false => stored,
    };
    let mut out = Vec::new();
    let decoded = value.decode(stored);
    let written = value.write_text(stored, &mut out);
    assert!(decoded.is_ok() || written.is_err(), "{value:?}");
    let _ = value.write_readable(stored, &mut out);
    let _ = value.write_image(stored, &mut out);
    value.write_null_image(stored, &mut out);
    if let Ok(text) = std::str::from_utf8(stored) {
        drop(value.encode(text));
    }
});
