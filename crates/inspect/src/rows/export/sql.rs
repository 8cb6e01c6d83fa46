//! INSERT statements of many rows each, for either server's client.

use format::charset::Reversible;
use format::schema::quoted::quoted_name;
use format::show_create::comment;
use format::value::{Value, ValueError, ValueKind, ValueType, float};

use super::format::Refused;
pub(crate) use super::row_text::write_hex;
use super::row_text::{RowText, is_generated, state, whole};
use crate::rows::batch::Row;
use crate::rows::plan::RowPlan;

/// A statement is ended once it is longer than this: well below the servers' `max_allowed_packet`.
const STATEMENT_MAX: usize = 512 << 10;

/// How to write the values of a column in a statement.
#[derive(Debug, Clone)]
pub(crate) struct Literal {
    value: ValueType,
    /// See [`ValueType::empty_member`].
    empty_member: Option<usize>,
    /// Which text of its charset a statement may have.
    reversible: Reversible,
}

impl Literal {
    pub(crate) fn new(value: &ValueType) -> Self {
        Self { value: value.clone(), empty_member: value.empty_member(), reversible: Reversible::new(value.charset) }
    }

    /// Writes a value; `None` is NULL.
    pub(crate) fn write(&self, stored: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), ValueError> {
        match stored {
            None => out.extend_from_slice(b"NULL"),
            Some(stored) => write_literal(self, stored, &mut Vec::new(), out)?,
        }
        Ok(())
    }
}

/// Writes rows as INSERT statements.
pub(super) struct Inserts {
    /// `INSERT INTO … VALUES`.
    head: Vec<u8>,
    columns: Vec<Option<Literal>>,
    states: bool,
    /// Where the current statement starts in the output.
    open: Option<usize>,
}

/// A name in backquotes.
pub(super) fn write_name(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(quoted_name(name).as_bytes());
}

/// Settings that make both servers read the statements as intended.
pub(super) fn write_head(table: &str, plan: &RowPlan, out: &mut Vec<u8>) {
    out.extend_from_slice(comment(&format!("{table}, read from its files by innokit")).as_bytes());
    out.extend_from_slice(
        b"SET NAMES utf8mb4;\nSET time_zone = '+00:00';\nSET foreign_key_checks = 0;\nSET unique_checks = 0;\n",
    );
    out.extend_from_slice(b"SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\n");
    if !plan.left_out.is_empty() {
        out.extend_from_slice(comment(&format!("computed by the server: {}", plan.left_out.join(", "))).as_bytes());
    }
}

impl Inserts {
    pub(super) fn new(table: &str, plan: &RowPlan, states: bool) -> Self {
        let mut head = b"INSERT INTO ".to_vec();
        write_name(table.split_once('.').map_or(table, |(_, name)| name), &mut head);
        head.extend_from_slice(b" (");
        let mut columns = Vec::new();
        let mut first = true;
        for column in &plan.columns {
            if is_generated(&plan.table, column.column) {
                columns.push(None);
                continue;
            }
            if !std::mem::take(&mut first) {
                head.push(b',');
            }
            write_name(&column.name, &mut head);
            columns.push(Some(Literal::new(&column.value)));
        }
        head.extend_from_slice(b") VALUES\n");
        Self { head, columns, states, open: None }
    }
}

/// Writes a string in quotes, escaping every byte that would end or change it.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for byte in text {
        match byte {
            0 => out.extend_from_slice(b"\\0"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x1A => out.extend_from_slice(b"\\Z"),
            b'\'' | b'\\' => out.extend([b'\\', *byte]),
            _ => out.push(*byte),
        }
    }
    out.push(b'\'');
}

fn write_literal(
    Literal { value, empty_member, reversible }: &Literal,
    stored: &[u8],
    text: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    if let Some(number) = empty_member.and_then(|member| value.number_of_empty(member, stored)) {
        format::value::write_uint(number, out);
        return Ok(());
    }
    match &value.kind {
        // `-0` is an integer, which has no sign. MariaDB makes a positive zero of any other that is written as a zero.
        ValueKind::Float { .. } if is_negative_zero(value.decode(stored)?) => out.extend_from_slice(b"-1e-300"),
        ValueKind::Double { .. } if is_negative_zero(value.decode(stored)?) => out.extend_from_slice(b"-0e0"),
        // The six digits that a server displays would not restore the same FLOAT.
        ValueKind::Float { .. } => {
            if let Value::Float(number) = value.decode(stored)? {
                float::write_float_exact(number, out);
            }
        }
        _ if value.is_number() => value.write_text(stored, out)?,
        _ if value.is_binary() && stored.is_empty() => out.extend_from_slice(b"''"),
        _ if value.is_binary() => {
            out.extend_from_slice(b"0x");
            write_hex(stored, out);
        }
        // A server copies the bytes of such a literal, and would make question marks of characters that its charset does not have.
        ValueKind::Text | ValueKind::Char { .. } if !reversible.is(stored) => {
            out.extend_from_slice(b"0x");
            write_hex(stored, out);
        }
        _ => {
            text.clear();
            value.write_text(stored, text)?;
            quote(text, out);
        }
    }
    Ok(())
}

fn is_negative_zero(value: Value<'_>) -> bool {
    match value {
        Value::Float(number) => number == 0.0 && number.is_sign_negative(),
        Value::Double(number) => number == 0.0 && number.is_sign_negative(),
        _ => false,
    }
}

impl RowText for Inserts {
    fn begin(&mut self, _out: &mut Vec<u8>) {
        self.open = None;
    }

    fn row(&mut self, row: &Row<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let start = out.len();
        if self.open.is_some_and(|open| start < open || start - open > STATEMENT_MAX) {
            self.end(out);
        }
        match self.open {
            None => {
                self.open = Some(out.len());
                out.extend_from_slice(&self.head);
            }
            Some(_) => out.extend_from_slice(b",\n"),
        }
        if self.states {
            out.extend_from_slice(b"/* ");
            out.extend_from_slice(state(row).as_bytes());
            out.extend_from_slice(b" */ ");
        }
        out.push(b'(');
        let columns = &self.columns;
        let (mut first, mut text) = (true, Vec::new());
        let written = whole(row, columns.len(), out, |number, stored, out| {
            let Some(Some(column)) = columns.get(number) else { return Ok(()) };
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            match stored {
                None => out.extend_from_slice(b"NULL"),
                Some(stored) => write_literal(column, stored, &mut text, out)?,
            }
            Ok(())
        });
        if let Err(refused) = written {
            out.truncate(start);
            self.open = self.open.filter(|open| *open < start);
            return Err(refused);
        }
        out.push(b')');
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            out.extend_from_slice(b";\n");
        }
    }
}
