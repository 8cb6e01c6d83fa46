//! CSV and TSV as `SELECT … INTO OUTFILE` writes them, so that `LOAD DATA` takes them back.

use format::value::{Kind, ValueType};

use super::format::Refused;
use super::row_text::{Geometry, RowText, STATE_COLUMN, state, whole, write_value};
use crate::rows::batch::Row;
use crate::rows::plan::RowPlan;

/// The options of `INTO OUTFILE`, and of `LOAD DATA`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeparatedOptions {
    /// `FIELDS TERMINATED BY`.
    pub field_end: Vec<u8>,
    /// `FIELDS ENCLOSED BY`.
    pub quote: Option<u8>,
    /// `OPTIONALLY`: only strings are enclosed.
    pub quote_strings_only: bool,
    /// `FIELDS ESCAPED BY`.
    pub escape: Option<u8>,
    /// `LINES STARTING BY`.
    pub line_start: Vec<u8>,
    /// `LINES TERMINATED BY`.
    pub line_end: Vec<u8>,
    /// Whether the first line names the columns; `IGNORE 1 LINES` for `LOAD DATA`.
    pub header: bool,
    /// How geometries are written.
    pub geometry: Geometry,
}

impl SeparatedOptions {
    /// What the servers write by default.
    #[must_use]
    pub fn tsv() -> Self {
        Self {
            field_end: b"\t".to_vec(),
            quote: None,
            quote_strings_only: false,
            escape: Some(b'\\'),
            line_start: Vec::new(),
            line_end: b"\n".to_vec(),
            header: false,
            geometry: Geometry::Stored,
        }
    }

    /// `FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"'`.
    #[must_use]
    pub fn csv() -> Self {
        Self { field_end: b",".to_vec(), quote: Some(b'"'), quote_strings_only: true, ..Self::tsv() }
    }
}

/// A column, and what its values need.
struct Column {
    value: ValueType,
    quoted: bool,
    /// Whether its text can hold a byte that must be escaped.
    escaped: bool,
}

/// Writes lines.
pub(super) struct Separated {
    options: SeparatedOptions,
    columns: Vec<Column>,
    states: bool,
    /// Bytes that are escaped within quotes, and without.
    special: [[bool; 256]; 2],
}

impl Separated {
    pub(super) fn new(options: SeparatedOptions, plan: &RowPlan, states: bool) -> Self {
        let column = |value: &ValueType| {
            let number = value.is_number() || matches!(value.kind, Kind::Bit(_));
            Column {
                value: value.clone(),
                quoted: options.quote.is_some() && !(options.quote_strings_only && number),
                escaped: !value.is_number() && !is_plain(&value.kind),
            }
        };
        let columns = plan.columns.iter().map(|column_of| column(&column_of.value)).collect();
        let special = [special(&options, false), special(&options, true)];
        Self { options, columns, states, special }
    }
}

/// Whether values are digits, signs and colons.
const fn is_plain(kind: &Kind) -> bool {
    matches!(kind, Kind::Date | Kind::Time(_) | Kind::DateTime(_) | Kind::Timestamp(_) | Kind::OldDateTime | Kind::Uuid)
}

fn special(options: &SeparatedOptions, quoted: bool) -> [bool; 256] {
    let mut special = [false; 256];
    let Some(escape) = options.escape else { return special };
    let end = if quoted { options.quote } else { options.field_end.first().copied() };
    for byte in [Some(escape), end, options.line_end.first().copied(), Some(0)].into_iter().flatten() {
        if let Some(place) = special.get_mut(usize::from(byte)) {
            *place = true;
        }
    }
    special
}

/// Escapes what was written since `start`.
fn escape(special: &[bool; 256], escape: u8, start: usize, out: &mut Vec<u8>) {
    let is_special = |byte: &u8| special.get(usize::from(*byte)).copied().unwrap_or(false);
    let count = out.iter().skip(start).filter(|byte| is_special(byte)).count();
    if count == 0 {
        return;
    }
    // From the end, so that nothing is moved twice.
    let (mut from, mut to) = (out.len(), out.len() + count);
    out.resize(to, 0);
    while from < to && from > start {
        from -= 1;
        to -= 1;
        let byte = out.get(from).copied().unwrap_or(0);
        let special = is_special(&byte);
        if let Some(place) = out.get_mut(to) {
            *place = if byte == 0 { b'0' } else { byte };
        }
        if special {
            to -= 1;
            if let Some(place) = out.get_mut(to) {
                *place = escape;
            }
        }
    }
}

impl RowText for Separated {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn row(&mut self, row: &Row<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let Self { options, columns, states, special } = self;
        let start = out.len();
        out.extend_from_slice(&options.line_start);
        let written = whole(row, columns.len(), out, |number, stored, out| {
            let Some(column) = columns.get(number) else { return Ok(()) };
            if number > 0 {
                out.extend_from_slice(&options.field_end);
            }
            let Some(stored) = stored else {
                match options.escape {
                    Some(escape) => out.extend([escape, b'N']),
                    None => out.extend_from_slice(b"NULL"),
                }
                return Ok(());
            };
            let quote = options.quote.filter(|_| column.quoted);
            out.extend(quote);
            let from = out.len();
            write_value(&column.value, options.geometry, stored, out)?;
            if let Some(sign) = options.escape.filter(|_| column.escaped) {
                let [plain, quoted] = &*special;
                escape(if column.quoted { quoted } else { plain }, sign, from, out);
            }
            out.extend(quote);
            Ok(())
        });
        if let Err(refused) = written {
            out.truncate(start);
            return Err(refused);
        }
        if *states {
            out.extend_from_slice(&options.field_end);
            out.extend_from_slice(state(row).as_bytes());
        }
        out.extend_from_slice(&options.line_end);
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}
}

/// A line with the names of the columns.
pub(super) fn write_names(options: &SeparatedOptions, plan: &RowPlan, states: bool, out: &mut Vec<u8>) {
    let names = plan.columns.iter().map(|column| column.name.as_str()).chain(states.then_some(STATE_COLUMN));
    out.extend_from_slice(&options.line_start);
    for (number, name) in names.enumerate() {
        if number > 0 {
            out.extend_from_slice(&options.field_end);
        }
        out.extend(options.quote);
        let start = out.len();
        out.extend_from_slice(name.as_bytes());
        if let Some(sign) = options.escape {
            escape(&special(options, options.quote.is_some()), sign, start, out);
        }
        out.extend(options.quote);
    }
    out.extend_from_slice(&options.line_end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_field_is_escaped_from_the_end() {
        let options = SeparatedOptions::csv();
        let mut out = b"x".to_vec();
        out.extend_from_slice(b"a\"b\\c\0\nd,");
        escape(&special(&options, true), b'\\', 1, &mut out);
        assert_eq!(out, b"xa\\\"b\\\\c\\0\\\nd,");
        let mut out = b"a,b\"".to_vec();
        escape(&special(&options, false), b'\\', 0, &mut out);
        assert_eq!(out, b"a\\,b\"");
    }
}
