//! Converts MySQL's binary JSON to the server's text.
//!
//! Offsets in a damaged document can point anywhere, so the same part could be written again and again. Therefore the document's length
//! bounds the output: a sound document has an entry for each value, and each byte of a string once.

use super::digits::{write_int, write_uint};
use super::temporal::{TYPE_DATE, TYPE_TIME};
use super::{ValueError, decimal, float, temporal};
use crate::bytes::le;

const TYPE_TIMESTAMP: u8 = 7;
const TYPE_DATETIME: u8 = 12;
const TYPE_DECIMAL: u8 = 246;

const SMALL_OBJECT: u8 = 0;
const LARGE_OBJECT: u8 = 1;
const SMALL_ARRAY: u8 = 2;
const LARGE_ARRAY: u8 = 3;
const LITERAL: u8 = 4;
const INT16: u8 = 5;
const UINT16: u8 = 6;
const INT32: u8 = 7;
const UINT32: u8 = 8;
const INT64: u8 = 9;
const UINT64: u8 = 10;
const DOUBLE: u8 = 11;
const STRING: u8 = 12;
const OPAQUE: u8 = 15;

/// The server nests no deeper than this.
const DEPTH_MAX: usize = 100;
/// Base64 characters per line.
const BASE64_LINE: usize = 76;

/// The error for a document that is damaged or ends too early.
const BROKEN: ValueError = ValueError::Json;

/// Whether a document is JSON's null, which is not NULL.
#[must_use]
pub const fn is_null(document: &[u8]) -> bool {
    matches!(document, [] | [LITERAL, 0, ..])
}

/// Appends a document's text.
///
/// # Errors
/// The bytes are not a MySQL JSON document.
pub fn write_text(document: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let Some((kind, body)) = document.split_first() else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    // Each entry of a value or key counts 1 plus the bytes of its text: a sound document has more bytes than that.
    let mut writer = Writer { out, budget: document.len() + 1, has_opaque: false };
    writer.value(*kind, body, DEPTH_MAX)
}

/// Whether a document's text says all of it. It does not say that a number is a DECIMAL, or that a string is a date, a time or binary.
#[must_use]
pub fn is_plain(document: &[u8]) -> bool {
    let Some((kind, body)) = document.split_first() else { return true };
    let mut writer = Writer { out: &mut Vec::new(), budget: document.len() + 1, has_opaque: false };
    writer.value(*kind, body, DEPTH_MAX).is_ok() && !writer.has_opaque
}

/// Writes a string in quotes, with the server's escapes.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut from = 0;
    for (at, byte) in text.iter().enumerate().filter(|(_, byte)| **byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        out.extend_from_slice(text.get(from..at).unwrap_or(&[]));
        from = at + 1;
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(if *byte < 16 { b"\\u000" } else { b"\\u001" });
                let low = byte & 15;
                out.push(if low < 10 { b'0' + low } else { b'a' + low - 10 });
            }
        }
    }
    out.extend_from_slice(text.get(from..).unwrap_or(&[]));
    out.push(b'"');
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    budget: usize,
    has_opaque: bool,
}

impl Writer<'_> {
    fn spend(&mut self, bytes: usize) -> Result<(), ValueError> {
        self.budget = self.budget.checked_sub(bytes).ok_or(BROKEN)?;
        Ok(())
    }

    fn value(&mut self, kind: u8, body: &[u8], depth: usize) -> Result<(), ValueError> {
        self.spend(1)?;
        match kind {
            SMALL_OBJECT | LARGE_OBJECT | SMALL_ARRAY | LARGE_ARRAY => {
                let depth = depth.checked_sub(1).ok_or(BROKEN)?;
                Container::read(kind, body).ok_or(BROKEN)?.write(self, depth)
            }
            STRING => {
                let (text, _) = counted(body).ok_or(BROKEN)?;
                self.spend(text.len())?;
                write_string(text, self.out);
                Ok(())
            }
            OPAQUE => {
                let (code, rest) = body.split_first().ok_or(BROKEN)?;
                let (data, _) = counted(rest).ok_or(BROKEN)?;
                self.spend(data.len())?;
                self.has_opaque = true;
                self.opaque(*code, data)
            }
            scalar => self.scalar(scalar, body).ok_or(BROKEN),
        }
    }

    fn scalar(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        match kind {
            LITERAL => self.out.extend_from_slice(match body.first()? {
                0 => b"null".as_slice(),
                1 => b"true",
                2 => b"false",
                _ => return None,
            }),
            INT16 => write_int((le::u16_at(body, 0)? as i16).into(), self.out),
            UINT16 => write_uint(le::u16_at(body, 0)?.into(), self.out),
            INT32 => write_int((le::u32_at(body, 0)? as i32).into(), self.out),
            UINT32 => write_uint(le::u32_at(body, 0)?.into(), self.out),
            INT64 => write_int(le::u64_at(body, 0)? as i64, self.out),
            UINT64 => write_uint(le::u64_at(body, 0)?, self.out),
            DOUBLE => self.double(f64::from_bits(le::u64_at(body, 0)?)),
            _ => return None,
        }
        Some(())
    }

    /// Writes a double, with a point even if it is integral: the point distinguishes it from an integer.
    fn double(&mut self, number: f64) {
        let start = self.out.len();
        float::write_double(number, None, self.out);
        let is_integral = self.out.iter().skip(start).all(|byte| byte.is_ascii_digit() || *byte == b'-');
        if is_integral {
            self.out.extend_from_slice(b".0");
        }
    }

    fn opaque(&mut self, code: u8, data: &[u8]) -> Result<(), ValueError> {
        match code {
            TYPE_DECIMAL => {
                let [precision, scale, stored @ ..] = data else { return Err(BROKEN) };
                decimal::write(stored, *precision, *scale, 0, self.out)
            }
            TYPE_DATE | TYPE_TIME | TYPE_DATETIME | TYPE_TIMESTAMP => {
                self.out.push(b'"');
                temporal::write_packed(code, data, self.out)?;
                self.out.push(b'"');
                Ok(())
            }
            _ => {
                self.out.extend_from_slice(b"\"base64:type");
                write_uint(code.into(), self.out);
                self.out.push(b':');
                // The server's base64 has line ends, which JSON escapes.
                write_base64(data, Some(b"\\n"), self.out);
                self.out.push(b'"');
                Ok(())
            }
        }
    }
}

/// Writes base64, with `line_end` after every 76 characters except the last ones.
pub fn write_base64(data: &[u8], line_end: Option<&[u8]>, out: &mut Vec<u8>) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (number, three) in data.chunks(3).enumerate() {
        if let Some(line_end) = line_end.filter(|_| number > 0 && (number * 4).is_multiple_of(BASE64_LINE)) {
            out.extend_from_slice(line_end);
        }
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4_usize {
            let letter = LETTERS.get((bits >> (18 - 6 * place) & 63) as usize).copied().unwrap_or(b'=');
            out.push(if place <= three.len() { letter } else { b'=' });
        }
    }
}

/// A length in groups of seven bits, lowest first, and that many bytes.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut len = 0_usize;
    for (number, byte) in bytes.iter().take(5).enumerate() {
        len |= usize::from(byte & 0x7F) << (7 * number);
        if byte & 0x80 == 0 {
            return bytes.get(number + 1..)?.split_at_checked(len);
        }
    }
    None
}

/// An object or an array.
struct Container<'d> {
    body: &'d [u8],
    is_object: bool,
    is_large: bool,
    count: usize,
}

impl<'d> Container<'d> {
    fn read(kind: u8, body: &'d [u8]) -> Option<Self> {
        let mut container =
            Self { body, is_object: matches!(kind, SMALL_OBJECT | LARGE_OBJECT), is_large: kind & 1 == 1, count: 0 };
        container.count = container.number(0)?;
        let bytes = container.number(container.width())?;
        container.body = body.get(..bytes)?;
        // Refuse more entries than fit in the container.
        (container.values_at() + container.count * container.entry() <= bytes).then_some(container)
    }

    const fn width(&self) -> usize {
        if self.is_large { 4 } else { 2 }
    }

    /// Bytes of a value's entry: its type, then its offset or the value itself.
    const fn entry(&self) -> usize {
        1 + self.width()
    }

    const fn keys_at(&self) -> usize {
        2 * self.width()
    }

    const fn values_at(&self) -> usize {
        self.keys_at() + if self.is_object { self.count * (self.width() + 2) } else { 0 }
    }

    fn number(&self, at: usize) -> Option<usize> {
        match self.is_large {
            true => le::u32_at(self.body, at).map(|number| number as usize),
            false => le::u16_at(self.body, at).map(usize::from),
        }
    }

    fn key(&self, number: usize) -> Option<&'d [u8]> {
        let at = self.keys_at() + number * (self.width() + 2);
        let len = usize::from(le::u16_at(self.body, at + self.width())?);
        self.body.get(self.number(at)?..)?.get(..len)
    }

    /// The type of a value, and the bytes from its start.
    fn value(&self, number: usize) -> Option<(u8, &'d [u8])> {
        let at = self.values_at() + number * self.entry();
        let kind = *self.body.get(at)?;
        let inline = matches!(kind, LITERAL | INT16 | UINT16) || self.is_large && matches!(kind, INT32 | UINT32);
        let start = if inline { at + 1 } else { self.number(at + 1)? };
        Some((kind, self.body.get(start..)?))
    }

    fn write(&self, writer: &mut Writer<'_>, depth: usize) -> Result<(), ValueError> {
        let (open, close) = if self.is_object { (b'{', b'}') } else { (b'[', b']') };
        writer.out.push(open);
        for number in 0..self.count {
            if number > 0 {
                writer.out.extend_from_slice(b", ");
            }
            if self.is_object {
                let key = self.key(number).ok_or(BROKEN)?;
                writer.spend(key.len())?;
                write_string(key, writer.out);
                writer.out.extend_from_slice(b": ");
            }
            let (kind, body) = self.value(number).ok_or(BROKEN)?;
            writer.value(kind, body, depth)?;
        }
        writer.out.push(close);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(document: &[u8]) -> Result<String, ValueError> {
        let mut out = Vec::new();
        write_text(document, &mut out)?;
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<char> = text.chars().filter(|digit| !digit.is_whitespace()).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex")).collect()
    }

    #[test]
    fn documents_are_written_as_the_server_writes_them() {
        assert_eq!(text(&hex("05 0100")).as_deref(), Ok("1"));
        assert_eq!(text(&hex("00 0000 0400")).as_deref(), Ok("{}"));
        assert_eq!(text(&[]).as_deref(), Ok("null"));
        let nested = "00 0300 3a00 1900 0100 1a00 0100 1b00 0400 05 0100 02 1f00 0c 3800 61 62 6c6f6e67 0300 1900 05 0100 \
                      05 0200 00 0d00 0100 0c00 0b00 0100 04 0000 63 01 78";
        assert_eq!(text(&hex(nested)).as_deref(), Ok(r#"{"a": 1, "b": [1, 2, {"c": null}], "long": "x"}"#));
        assert_eq!(text(&hex("0f 0b 08 20a107cca2000000")).as_deref(), Ok(r#""10:11:12.500000""#));
        assert_eq!(text(&hex("0b 0000000000000840")).as_deref(), Ok("3.0"));
        // A DECIMAL(65,30), of 66 digits by MySQL's count.
        let decimal = "0f f6 20 42 1e 7ffd8b9edf3b9ae6d2fad46eee0e11afca781f0fe880d5c0ca45ffdbfe51";
        assert_eq!(
            text(&hex(decimal)).as_deref(),
            Ok("-160865549741849755313553301067856.898097392394209855901382180430")
        );
    }

    #[test]
    fn a_document_that_leads_in_circles_ends() {
        // An array of two values, each of which is the array itself.
        assert_eq!(text(&hex("02 0200 0a00 02 0000 02 0000")), Err(BROKEN));
        // Three strings sharing the same bytes: more text than there are bytes.
        let twice = hex("02 0300 1900 0c 0d00 0c 0d00 0c 0d00 0b 6161616161616161616161");
        assert!(text(&twice).is_err());
    }
}
