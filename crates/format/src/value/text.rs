//! Writes values as the servers do.

use super::digits::{write_int, write_padded};
use super::stored::{exactly, signed, unsigned};
use super::{Value, ValueError, ValueKind, ValueType, decimal, float, geometry, json, net, temporal};

/// Zero-pads what was written since `start` to `width`, after the sign.
fn zerofill(width: u16, start: usize, out: &mut Vec<u8>) {
    let missing = usize::from(width).saturating_sub(out.len() - start);
    let start = start + usize::from(out.get(start) == Some(&b'-'));
    out.splice(start..start, std::iter::repeat_n(b'0', missing));
}

impl ValueType {
    /// Appends what SELECT shows for a stored value that is not NULL, with text converted to UTF-8. TIMESTAMP is shown in UTC; binary
    /// strings, BIT, geometry and VECTOR as raw bytes.
    ///
    /// # Errors
    /// The bytes are not a value of the type. Anything already appended is then meaningless.
    #[inline]
    pub fn write_text(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.check_length(stored)?;
        // The most frequent types are written without an intermediate `Value`.
        match &self.kind {
            ValueKind::Int { unsigned: false, .. } => write_int(signed(stored), out),
            ValueKind::Int { unsigned: true, .. } => {
                write_padded(unsigned(stored), usize::from(self.zerofill.max(1)), out);
            }
            ValueKind::Text => self.charset.to_utf8(stored, out),
            ValueKind::Char { .. } => self.charset.to_utf8(self.without_padding(stored), out),
            ValueKind::Decimal { precision, scale } => decimal::write(stored, *precision, *scale, self.zerofill, out)?,
            ValueKind::Date => temporal::Date::decode(exactly(stored)?)?.write(out),
            ValueKind::DateTime(digits) => temporal::DateTime::decode(stored, *digits)?.write(*digits, out),
            ValueKind::Timestamp(digits) => {
                temporal::write_timestamp(temporal::timestamp(stored, *digits)?, *digits, out);
            }
            _ => self.write_decoded(stored, out)?,
        }
        Ok(())
    }

    fn write_decoded(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let start = out.len();
        match self.decode(stored)? {
            Value::Bytes(bytes) | Value::Bit(bytes) | Value::Geometry(bytes) | Value::Vector(bytes) => {
                out.extend_from_slice(bytes);
            }
            other => self.write_other(&other, out)?,
        }
        if self.zerofill > 0 && matches!(self.kind, ValueKind::Float { .. } | ValueKind::Double { .. }) {
            zerofill(self.zerofill, start, out);
        }
        Ok(())
    }

    fn write_other(&self, value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), ValueError> {
        match value {
            Value::Float(number) => float::write_float(*number, self.decimals(), out),
            Value::Double(number) => float::write_double(*number, self.decimals(), out),
            Value::Year(year) => temporal::write_year(*year, out),
            Value::Time(time) => time.write(self.digits(), out),
            Value::DateTime(moment) => moment.write(self.digits(), out),
            Value::Timestamp(timestamp) => temporal::write_timestamp(*timestamp, self.digits(), out),
            Value::Enum(number) => out.extend_from_slice(self.member_name(*number).as_bytes()),
            Value::Set(bits) => self.write_set(*bits, out),
            Value::Json(stored) => json::write_text(stored, out)?,
            Value::Uuid(uuid) => net::write_uuid(*uuid, out),
            Value::Inet6(address) => net::write_inet6(*address, out),
            Value::Inet4(address) => net::write_inet4(*address, out),
            _ => {}
        }
        Ok(())
    }

    fn write_set(&self, bits: u64, out: &mut Vec<u8>) {
        let start = out.len();
        for (_, name) in
            self.members().iter().enumerate().filter(|(number, _)| bits.unbounded_shr(*number as u32) & 1 == 1)
        {
            // The servers too write no comma after a first member that is empty.
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(name.as_bytes());
        }
    }

    const fn decimals(&self) -> Option<u8> {
        match self.kind {
            ValueKind::Float { decimals } | ValueKind::Double { decimals } => decimals,
            _ => None,
        }
    }

    /// Number of digits of the fractional second.
    #[must_use]
    pub const fn digits(&self) -> temporal::Digits {
        match self.kind {
            ValueKind::Time(digits)
            | ValueKind::DateTime(digits)
            | ValueKind::Timestamp(digits)
            | ValueKind::HiresTime(digits)
            | ValueKind::HiresDateTime(digits)
            | ValueKind::HiresTimestamp(digits) => digits,
            _ => temporal::Digits::NONE,
        }
    }

    /// Writes a geometry as WKT, anything else like [`ValueType::write_text`].
    ///
    /// # Errors
    /// The bytes are not a value of the type.
    pub fn write_readable(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        match self.kind {
            ValueKind::Geometry => geometry::write_wkt(stored, out),
            _ => self.write_text(stored, out),
        }
    }
}
