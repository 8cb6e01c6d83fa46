//! The bytes of a value in the server's own row, as `CHECKSUM TABLE` adds them up.

use super::{Kind, ValueError, ValueType, json};
use crate::charset::Charset;

/// A stored number that is kept big-endian with its top bit flipped, as the server's rows have it.
fn little_endian(stored: &[u8], flip: u8, out: &mut Vec<u8>) {
    let (first, rest) = match stored.split_first() {
        Some((first, rest)) => (first ^ flip, rest),
        None => return,
    };
    out.extend(rest.iter().rev());
    out.push(first);
}

impl ValueType {
    /// Appends what `CHECKSUM TABLE` counts of a stored value that is not NULL.
    ///
    /// # Errors
    /// The bytes are no value of the type.
    #[inline]
    pub fn write_image(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.check_length(stored)?;
        match self.kind {
            Kind::Int { unsigned: false, .. } | Kind::Date | Kind::OldTime | Kind::OldDateTime => {
                little_endian(stored, 0x80, out);
            }
            Kind::Int { unsigned: true, .. } | Kind::Year | Kind::OldTimestamp | Kind::Enum(_) | Kind::Set(_) => {
                little_endian(stored, 0, out)
            }
            Kind::Char { bytes } => {
                out.extend_from_slice(stored);
                // Charsets of a fixed length are stored with all their spaces; so is UTF-16.
                if !matches!(self.charset, Charset::Ucs2 | Charset::Utf16 | Charset::Utf16Le | Charset::Utf32) {
                    out.extend(std::iter::repeat_n(b' ', (bytes as usize).saturating_sub(stored.len())));
                }
            }
            Kind::Json => json::write_text(stored, out)?,
            _ => out.extend_from_slice(stored),
        }
        Ok(())
    }

    /// Appends what MySQL's `CHECKSUM TABLE` counts for a NULL: the column's default in the server's rows, whose bytes are `default`,
    /// or that of the type where these are empty.
    pub fn write_null_image(&self, default: &[u8], out: &mut Vec<u8>) {
        match self.kind {
            Kind::Json => out.extend_from_slice(b"null"),
            Kind::Geometry | Kind::Vector => {}
            Kind::Text | Kind::Bytes => {}
            _ if !default.is_empty() => out.extend_from_slice(default),
            Kind::Char { bytes } => {
                let space = self.space();
                out.extend(space.iter().cycle().take(bytes as usize));
            }
            Kind::Binary { bytes } => out.extend(std::iter::repeat_n(0, bytes as usize)),
            Kind::Decimal { .. } | Kind::Time(_) | Kind::DateTime(_) => {
                let len = usize::from(self.fixed.unwrap_or(0));
                out.push(0x80);
                out.extend(std::iter::repeat_n(0, len.saturating_sub(1)));
            }
            _ => out.extend(std::iter::repeat_n(0, usize::from(self.fixed.unwrap_or(0)))),
        }
    }

    /// A space in the column's charset.
    const fn space(&self) -> &'static [u8] {
        match self.charset {
            Charset::Ucs2 | Charset::Utf16 => b"\0 ",
            Charset::Utf16Le => b" \0",
            Charset::Utf32 => b"\0\0\0 ",
            _ => b" ",
        }
    }
}
