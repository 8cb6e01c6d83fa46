//! A column's type as the decoders need it.

use std::sync::Arc;

use super::temporal::Digits;
use crate::charset::Charset;

/// The type of a column's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueKind {
    /// TINYINT to BIGINT.
    Int {
        /// Bytes.
        bytes: u8,
        /// UNSIGNED.
        unsigned: bool,
    },
    /// FLOAT, with its declared decimals.
    Float {
        /// `FLOAT(7,3)`: 3.
        decimals: Option<u8>,
    },
    /// DOUBLE, with its declared decimals.
    Double {
        /// `DOUBLE(7,3)`: 3.
        decimals: Option<u8>,
    },
    /// DECIMAL.
    Decimal {
        /// Digits.
        precision: u8,
        /// Decimal digits.
        scale: u8,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME, with its fraction digits, like the next two.
    Time(Digits),
    /// DATETIME.
    DateTime(Digits),
    /// TIMESTAMP.
    Timestamp(Digits),
    /// TIME of servers before 5.6.
    OldTime,
    /// DATETIME of servers before 5.6.
    OldDateTime,
    /// TIMESTAMP of servers before 5.6.
    OldTimestamp,
    /// TIME of MariaDB before 10.1, with a fraction.
    HiresTime(Digits),
    /// DATETIME of MariaDB before 10.1, with a fraction.
    HiresDateTime(Digits),
    /// TIMESTAMP of MariaDB before 10.1, with a fraction.
    HiresTimestamp(Digits),
    /// BIT of this many bits.
    Bit(u8),
    /// ENUM and its members, in UTF-8.
    Enum(Arc<[String]>),
    /// SET and its members, in UTF-8.
    Set(Arc<[String]>),
    /// CHAR.
    Char {
        /// Bytes of its image in the server's rows.
        bytes: u32,
    },
    /// BINARY.
    Binary {
        /// Bytes.
        bytes: u32,
    },
    /// VARCHAR and TEXT.
    Text,
    /// VARBINARY and BLOB.
    Bytes,
    /// MySQL's JSON.
    Json,
    /// POINT and so on.
    Geometry,
    /// VECTOR.
    Vector,
    /// MariaDB's UUID.
    Uuid,
    /// UUID of a table that an early server made.
    OldUuid,
    /// MariaDB's INET6.
    Inet6,
    /// MariaDB's INET4.
    Inet4,
    /// A type of a newer server.
    Unknown,
}

/// How to read the values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueType {
    /// Their type.
    pub kind: ValueKind,
    /// The charset of text.
    pub charset: Charset,
    /// Numbers are zero-padded to this many digits; 0 for no padding.
    pub zerofill: u16,
    /// MariaDB's COMPRESSED: [`super::compressed::unpack`] comes first.
    pub compressed: bool,
    /// Length in bytes, if all values have the same length.
    pub(super) fixed: Option<u16>,
}

impl ValueType {
    /// Values of `kind`, each with `fixed` bytes if given.
    #[must_use]
    pub const fn new(kind: ValueKind, charset: Charset, fixed: Option<u16>) -> Self {
        Self { kind, charset, zerofill: 0, compressed: false, fixed }
    }

    /// Sets zero padding to `digits` digits.
    #[must_use]
    pub fn zerofill(mut self, digits: u16) -> Self {
        self.zerofill = digits;
        self
    }

    /// Whether SQL writes its values without quotes.
    #[must_use]
    pub const fn is_number(&self) -> bool {
        matches!(
            self.kind,
            ValueKind::Int { .. }
                | ValueKind::Float { .. }
                | ValueKind::Double { .. }
                | ValueKind::Decimal { .. }
                | ValueKind::Year
        )
    }

    /// Whether its values are bytes, not text.
    #[must_use]
    pub const fn is_binary(&self) -> bool {
        matches!(
            self.kind,
            ValueKind::Binary { .. } | ValueKind::Bytes | ValueKind::Bit(_) | ValueKind::Geometry | ValueKind::Vector
        )
    }
}
