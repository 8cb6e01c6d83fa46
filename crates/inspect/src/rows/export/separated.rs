//! CSV and TSV as `SELECT … INTO OUTFILE` writes them, so that `LOAD DATA` can read them.

use format::value::{ValueKind, ValueType};

use super::format::Refused;
use super::row_text::{Geometry, RowText, STATE_COLUMN, state, whole, write_value};
use crate::rows::batch::Row;
use crate::rows::plan::{RowColumn, RowPlan};

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
    /// How to write geometries.
    pub geometry: Geometry,
}

impl SeparatedOptions {
    /// The servers' default.
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

    /// A separator that values cannot contain: escaped, it would mean something else, as `\n` does.
    #[must_use]
    pub fn ambiguous(&self) -> Option<char> {
        let separators = [self.field_end.first(), self.quote.as_ref(), self.line_end.first()];
        let taken = |byte: &&u8| self.escape.is_some() && b"0bnrtNZ".contains(byte);
        separators.into_iter().flatten().find(taken).map(|byte| char::from(*byte))
    }
}

/// The few bytes around each value, usually short enough to be copied without a call.
#[derive(Default)]
struct Fence {
    chunk: [u8; FENCE],
    len: usize,
    /// All bytes, if there are more than fit in `chunk`.
    long: Vec<u8>,
}

const FENCE: usize = 8;

impl Fence {
    fn new(bytes: Vec<u8>) -> Self {
        let mut fence = Self { len: bytes.len(), ..Self::default() };
        match fence.chunk.get_mut(..bytes.len()) {
            Some(chunk) => chunk.copy_from_slice(&bytes),
            None => fence.long = bytes,
        }
        fence
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        if self.len > FENCE {
            return out.extend_from_slice(&self.long);
        }
        let end = out.len() + self.len;
        out.extend_from_slice(&self.chunk);
        out.truncate(end);
    }
}

/// A column and how to write its values.
struct Column {
    value: ValueType,
    /// The end of the previous field and the start of this one.
    open: Fence,
    /// The same for NULL, including the NULL itself.
    null: Fence,
    quoted: bool,
    /// Whether its text can contain a byte that needs escaping.
    escaped: bool,
}

/// Writes rows as lines.
pub(super) struct Separated {
    options: SeparatedOptions,
    columns: Vec<Column>,
    states: bool,
    /// Bytes to escape outside quotes, and inside.
    special: [Special; 2],
}

/// Bytes to escape.
struct Special {
    table: [bool; 256],
    /// The same bytes as a short list; some may occur twice.
    few: [u8; 4],
}

impl Separated {
    pub(super) fn new(options: SeparatedOptions, plan: &RowPlan, states: bool) -> Self {
        let special = [special(&options, false), special(&options, true)];
        // Such a separator would end a number or a date in its middle.
        let is_ambiguous = special.iter().flat_map(|special| special.few).any(|byte| PLAIN.contains(&byte));
        let column = |(number, column): (usize, &RowColumn)| {
            let value = &column.value;
            let is_number = value.is_number() || matches!(value.kind, ValueKind::Bit(_));
            let quoted = options.quote.is_some() && !(options.quote_strings_only && is_number);
            let end = if number > 0 { options.field_end.as_slice() } else { &[] };
            let null = options.escape.map_or(b"NULL".to_vec(), |escape| vec![escape, b'N']);
            Column {
                value: value.clone(),
                open: Fence::new(end.iter().copied().chain(options.quote.filter(|_| quoted)).collect()),
                null: Fence::new([end, &null].concat()),
                quoted,
                escaped: is_ambiguous || !value.is_number() && !is_plain(&value.kind),
            }
        };
        let columns = plan.columns.iter().enumerate().map(column).collect();
        Self { options, columns, states, special }
    }
}

/// What numbers, dates and UUIDs are written with.
const PLAIN: &[u8] = b"0123456789abcdef+-.: ";

/// Whether values, which are not numbers, consist of the bytes in [`PLAIN`].
const fn is_plain(kind: &ValueKind) -> bool {
    matches!(
        kind,
        ValueKind::Date
            | ValueKind::Time(_)
            | ValueKind::DateTime(_)
            | ValueKind::Timestamp(_)
            | ValueKind::OldDateTime
            | ValueKind::Uuid
            | ValueKind::OldUuid
    )
}

fn special(options: &SeparatedOptions, quoted: bool) -> Special {
    let mut special = Special { table: [false; 256], few: [0; 4] };
    let Some(escape) = options.escape else { return special };
    let end = if quoted { options.quote } else { options.field_end.first().copied() };
    let bytes = [Some(escape), end, options.line_end.first().copied(), Some(0)];
    special.few = bytes.map(|byte| byte.unwrap_or(escape));
    for byte in special.few {
        if let Some(place) = special.table.get_mut(usize::from(byte)) {
            *place = true;
        }
    }
    special
}

/// Bytes examined at once.
const LANE: usize = 16;

impl Special {
    fn is(&self, byte: u8) -> bool {
        self.table.get(usize::from(byte)).copied().unwrap_or(false)
    }

    /// No branch per byte, so this compiles to vector comparisons.
    #[inline(always)]
    fn is_in_lane(&self, lane: &[u8; LANE]) -> bool {
        let [a, b, c, d] = self.few;
        let hit = |byte: &u8| u8::from(*byte == a) | u8::from(*byte == b) | u8::from(*byte == c) | u8::from(*byte == d);
        lane.iter().fold(0, |hits, byte| hits | hit(byte)) != 0
    }

    /// Whether `text` contains one of them; nearly all text does not. Compares [`LANE`] bytes at a time.
    #[inline]
    fn is_in(&self, text: &[u8]) -> bool {
        let (lanes, rest) = text.as_chunks::<LANE>();
        if lanes.iter().any(|lane| self.is_in_lane(lane)) {
            return true;
        }
        // The last lane overlaps the one before.
        match text.last_chunk::<LANE>() {
            Some(last) => !rest.is_empty() && self.is_in_lane(last),
            None => rest.iter().any(|byte| self.is(*byte)),
        }
    }
}

/// Escapes everything written since `start`.
#[inline]
fn escape(special: &Special, sign: u8, start: usize, out: &mut Vec<u8>) {
    if special.is_in(out.get(start..).unwrap_or(&[])) {
        escape_some(special, sign, start, out);
    }
}

#[cold]
fn escape_some(special: &Special, escape: u8, start: usize, out: &mut Vec<u8>) {
    let is_special = |byte: &u8| special.is(*byte);
    let count = out.iter().skip(start).filter(|byte| is_special(byte)).count();
    if count == 0 {
        return;
    }
    // Backwards, so that no byte moves twice.
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
            let Some(stored) = stored else {
                column.null.write(out);
                return Ok(());
            };
            column.open.write(out);
            let from = out.len();
            write_value(&column.value, options.geometry, stored, out)?;
            if let Some(sign) = options.escape.filter(|_| column.escaped) {
                let [plain, quoted] = &*special;
                escape(if column.quoted { quoted } else { plain }, sign, from, out);
            }
            if let Some(quote) = options.quote.filter(|_| column.quoted) {
                out.push(quote);
            }
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

/// Writes a line with the column names.
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
    fn a_byte_to_be_escaped_is_found_wherever_it_is() {
        let special = special(&SeparatedOptions::csv(), true);
        for len in 0..70 {
            let plain = vec![b'x'; len];
            assert!(!special.is_in(&plain));
            for at in 0..len {
                for byte in [b'\\', b'"', b'\n', 0] {
                    let mut text = plain.clone();
                    text[at] = byte;
                    assert!(special.is_in(&text), "{byte} at {at} of {len}");
                }
            }
        }
    }

    #[test]
    fn a_separator_that_means_something_else_when_escaped_is_ambiguous() {
        let separated = |field_end: &str| SeparatedOptions { field_end: field_end.into(), ..SeparatedOptions::csv() };
        assert_eq!([",", ":", "1", "\n"].map(|end| separated(end).ambiguous()), [None; 4]);
        assert_eq!(["n", "0x"].map(|end| separated(end).ambiguous()), [Some('n'), Some('0')]);
        assert_eq!(SeparatedOptions { quote: Some(b'Z'), ..SeparatedOptions::csv() }.ambiguous(), Some('Z'));
        assert_eq!(SeparatedOptions { escape: None, ..separated("n") }.ambiguous(), None);
    }

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
