//! One JSON object per line.

use format::value::{Value, ValueError, ValueKind, ValueType, float, geometry, json};

use super::format::Refused;
use super::row_text::{RowText, STATE_COLUMN, state, whole};
use crate::rows::batch::Row;
use crate::rows::plan::RowPlan;

struct Column {
    /// `"name":`.
    key: Vec<u8>,
    value: ValueType,
}

/// Writes rows as JSON objects.
pub(super) struct JsonLines {
    columns: Vec<Column>,
    states: bool,
    text: Vec<u8>,
}

impl JsonLines {
    pub(super) fn new(plan: &RowPlan, states: bool) -> Self {
        let column = |column: &crate::rows::plan::RowColumn| {
            let mut key = Vec::new();
            json::write_string(column.name.as_bytes(), &mut key);
            key.push(b':');
            Column { key, value: column.value.clone() }
        };
        Self { columns: plan.columns.iter().map(column).collect(), states, text: Vec::new() }
    }
}

/// JSON text is UTF-8, whatever a client stored.
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    match String::from_utf8_lossy(text) {
        std::borrow::Cow::Borrowed(text) => json::write_string(text.as_bytes(), out),
        std::borrow::Cow::Owned(text) => json::write_string(text.as_bytes(), out),
    }
}

/// Writes a value as JSON. `text` is a buffer.
pub(crate) fn write_value(
    value: &ValueType,
    stored: &[u8],
    text: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    text.clear();
    match value.decode(stored)? {
        Value::Int(number) => format::value::write_int(number, out),
        Value::UInt(number) => format::value::write_uint(number, out),
        Value::Year(year) => format::value::write_uint(year.into(), out),
        Value::Float(number) => float::write_float_exact(number, out),
        Value::Double(number) => float::write_double(number, None, out),
        Value::Bit(bits) => {
            format::value::write_uint(bits.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)), out);
        }
        Value::Json(document) => json::write_text(document, out)?,
        Value::Vector(numbers) => geometry::write_vector(numbers, out)?,
        Value::Bytes(bytes) => {
            out.push(b'"');
            json::write_base64(bytes, None, out);
            out.push(b'"');
        }
        _ => {
            if matches!(value.kind, ValueKind::Geometry) {
                geometry::write_srid(stored, text);
            }
            value.write_readable(stored, text)?;
            write_string(text, out);
        }
    }
    Ok(())
}

impl RowText for JsonLines {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn row(&mut self, row: &Row<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let Self { columns, states, text } = self;
        let start = out.len();
        out.push(b'{');
        let written = whole(row, columns.len(), out, |number, stored, out| {
            let Some(column) = columns.get(number) else { return Ok(()) };
            if number > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&column.key);
            match stored {
                None => out.extend_from_slice(b"null"),
                Some(stored) => write_value(&column.value, stored, text, out)?,
            }
            Ok(())
        });
        if let Err(refused) = written {
            out.truncate(start);
            return Err(refused);
        }
        if *states {
            out.extend_from_slice(format!(",\"{STATE_COLUMN}\":\"{}\"", state(row)).as_bytes());
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}
}
