//! One row as text, for every text format.

use format::schema::{ColumnDef, TableDef, Versioned};
use format::value::ValueType;

use super::format::Refused;
use crate::rows::batch::{Cell, Row, RowState};

/// How to write geometries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Geometry {
    /// As the servers store them: spatial reference system and well-known binary.
    Stored,
    /// Well-known text.
    Wkt,
}

/// Writes rows of one table. Each worker has its own writer.
pub trait RowText {
    /// Starts a stretch of rows that is valid by itself.
    fn begin(&mut self, out: &mut Vec<u8>);
    /// Writes a row, entirely or not at all.
    ///
    /// # Errors
    /// The column whose value cannot be written, and why. `out` is then unchanged.
    fn row(&mut self, row: &Row<'_>, out: &mut Vec<u8>) -> Result<(), Refused>;
    /// Ends the stretch.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// Writes a row's columns with `write`, or restores `out` if one of them fails.
pub(super) fn whole(
    row: &Row<'_>,
    columns: usize,
    out: &mut Vec<u8>,
    mut write: impl FnMut(usize, Option<&[u8]>, &mut Vec<u8>) -> Result<(), format::value::ValueError>,
) -> Result<(), Refused> {
    let start = out.len();
    for number in 0..columns {
        let written = match row.get(number) {
            Cell::Null => write(number, None, out).map_err(|why| why.to_string()),
            Cell::Bytes(stored) => write(number, Some(stored), out).map_err(|why| why.to_string()),
            Cell::Lost(why) => Err(why.to_owned()),
        };
        if let Err(why) = written {
            out.truncate(start);
            return Err((number, why));
        }
    }
    Ok(())
}

/// Bytes as hexadecimal digits.
pub(crate) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        out.extend([byte >> 4, byte & 15].iter().filter_map(|digit| HEX.get(usize::from(*digit))));
    }
}

/// Whether the server would refuse a value for this column in an INSERT because it computes it itself.
pub(super) fn is_generated(table: &TableDef, column: usize) -> bool {
    let by_server = |column: &ColumnDef| {
        column.generated.is_some() || matches!(column.versioned, Versioned::RowStart | Versioned::RowEnd)
    };
    table.columns.get(column).is_some_and(by_server)
}

/// The column with a row's state.
pub(super) const STATE_COLUMN: &str = "innokit_state";

pub(super) fn state(row: &Row<'_>) -> &'static str {
    RowState::word(row.state())
}

/// Writes a value for display, with geometry in the chosen form.
pub(super) fn write_value(
    value: &ValueType,
    geometry: Geometry,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), format::value::ValueError> {
    match geometry {
        Geometry::Wkt => value.write_readable(stored, out),
        Geometry::Stored => value.write_text(stored, out),
    }
}
