//! The bytes of a value in the server's own row, as summed by `CHECKSUM TABLE`.

use super::{ValueError, ValueKind, ValueType, json};
use crate::charset::Charset;

/// Converts a number stored big-endian with its top bit flipped to the form in the server's rows.
fn little_endian(stored: &[u8], flip: u8, out: &mut Vec<u8>) {
    let (first, rest) = match stored.split_first() {
        Some((first, rest)) => (first ^ flip, rest),
        None => return,
    };
    out.extend(rest.iter().rev());
    out.push(first);
}

/// How stored bytes become those of the server's row, where copying is enough. Decided once per column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Image {
    /// A number of at most eight bytes, byte-reversed, with some bits of the first byte flipped.
    Reversed { bytes: u8, flip: u8 },
    /// Unchanged; of this length, if all values have the same.
    Copied { bytes: Option<u16> },
    /// Padded with spaces to this many bytes.
    Padded { bytes: u32 },
}

impl Image {
    /// `None` if values must be decoded or decompressed.
    pub(super) fn of(value: &ValueType) -> Option<Self> {
        let reversed = |flip| match value.fixed {
            Some(bytes @ 1..=8) => Some(Self::Reversed { bytes: bytes as u8, flip }),
            _ => None,
        };
        match value.kind {
            _ if value.compressed => None,
            ValueKind::Int { unsigned: false, .. } | ValueKind::Date | ValueKind::OldTime | ValueKind::OldDateTime => {
                reversed(0x80)
            }
            ValueKind::Int { unsigned: true, .. }
            | ValueKind::Year
            | ValueKind::OldTimestamp
            | ValueKind::Enum(_)
            | ValueKind::Set(_) => reversed(0),
            ValueKind::Char { bytes } if !is_stored_padded(value.charset) => Some(Self::Padded { bytes }),
            ValueKind::Json | ValueKind::Unknown => None,
            _ => Some(Self::Copied { bytes: value.fixed }),
        }
    }

    /// Upper limit of the bytes that an image adds to a value.
    pub(super) const fn padding(self) -> usize {
        match self {
            Self::Padded { bytes } => bytes as usize,
            _ => 0,
        }
    }
}

/// Fixed-width charsets are stored with all their spaces; so is UTF-16.
const fn is_stored_padded(charset: Charset) -> bool {
    matches!(charset, Charset::Ucs2 | Charset::Utf16 | Charset::Utf16Le | Charset::Utf32)
}

impl ValueType {
    /// Appends what `CHECKSUM TABLE` sums for a stored value that is not NULL.
    ///
    /// # Errors
    /// The bytes are not a value of the type.
    #[inline]
    pub fn write_image(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.check_length(stored)?;
        match self.kind {
            ValueKind::Int { unsigned: false, .. } | ValueKind::Date | ValueKind::OldTime | ValueKind::OldDateTime => {
                little_endian(stored, 0x80, out);
            }
            ValueKind::Int { unsigned: true, .. }
            | ValueKind::Year
            | ValueKind::OldTimestamp
            | ValueKind::Enum(_)
            | ValueKind::Set(_) => little_endian(stored, 0, out),
            ValueKind::Char { bytes } => {
                out.extend_from_slice(stored);
                if !is_stored_padded(self.charset) {
                    out.extend(std::iter::repeat_n(b' ', (bytes as usize).saturating_sub(stored.len())));
                }
            }
            ValueKind::Json => json::write_text(stored, out)?,
            _ => out.extend_from_slice(stored),
        }
        Ok(())
    }

    /// Appends what MySQL's `CHECKSUM TABLE` sums for a NULL: the column's default in the server's rows, given in `default`, or the type's
    /// default if that is empty.
    pub fn write_null_image(&self, default: &[u8], out: &mut Vec<u8>) {
        match self.kind {
            ValueKind::Json => out.extend_from_slice(b"null"),
            ValueKind::Geometry | ValueKind::Vector => {}
            ValueKind::Text | ValueKind::Bytes => {}
            _ if !default.is_empty() => out.extend_from_slice(default),
            ValueKind::Char { bytes } => {
                let space = self.space();
                out.extend(space.iter().cycle().take(bytes as usize));
            }
            ValueKind::Binary { bytes } => out.extend(std::iter::repeat_n(0, bytes as usize)),
            ValueKind::Decimal { .. } | ValueKind::Time(_) | ValueKind::DateTime(_) => {
                let len = usize::from(self.fixed.unwrap_or(0));
                out.push(0x80);
                out.extend(std::iter::repeat_n(0, len.saturating_sub(1)));
            }
            _ => out.extend(std::iter::repeat_n(0, usize::from(self.fixed.unwrap_or(0)))),
        }
    }

    /// A space, in the column's charset.
    const fn space(&self) -> &'static [u8] {
        match self.charset {
            Charset::Ucs2 | Charset::Utf16 => b"\0 ",
            Charset::Utf16Le => b" \0",
            Charset::Utf32 => b"\0\0\0 ",
            _ => b" ",
        }
    }
}
