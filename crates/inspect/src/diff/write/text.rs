//! Differences for people: a line for each row, with `+`, `-` or `~` before it.

use std::io::{self, Write};

use crate::diff::change::{Change, Changes, Compared, Lone, Values};
use crate::rows::export::sql::Literal;

/// Longer values are cut short: all of them are in the other formats.
const VALUE_MAX: usize = 120;
/// Bytes that are shown of such a value.
const VALUE_SHOWN: usize = 80;

/// Writes differences as text.
pub struct TextChanges<W> {
    out: W,
    value: Vec<u8>,
    columns: Vec<(String, Literal, bool)>,
    line: Vec<u8>,
}

impl<W: Write> TextChanges<W> {
    /// Writes to `out`.
    pub const fn new(out: W) -> Self {
        Self { out, value: Vec::new(), columns: Vec::new(), line: Vec::new() }
    }

    fn put(&mut self, values: Values<'_>, column: usize) -> Result<(), String> {
        let Some((_, literal, _)) = self.columns.get(column) else { return Ok(()) };
        self.value.clear();
        literal.write(values.get(column), &mut self.value).map_err(|why| why.to_string())?;
        if self.value.len() <= VALUE_MAX {
            self.line.extend_from_slice(&self.value);
            return Ok(());
        }
        let text = String::from_utf8_lossy(self.value.get(..VALUE_SHOWN).unwrap_or_default());
        // A letter may have been cut in two.
        self.line.extend_from_slice(text.trim_end_matches('\u{fffd}').as_bytes());
        self.line.extend_from_slice(format!("… ({} bytes)", values.get(column).map_or(0, <[u8]>::len)).as_bytes());
        Ok(())
    }

    fn name(&mut self, column: usize) {
        let name = self.columns.get(column).map_or("", |(name, ..)| name.as_str());
        self.line.extend_from_slice(name.as_bytes());
    }

    fn whole(&mut self, mark: u8, values: Values<'_>) -> Result<(), String> {
        self.line.extend([mark, b' ']);
        for column in 0..self.columns.len() {
            if column > 0 {
                self.line.extend_from_slice(b", ");
            }
            self.name(column);
            self.line.push(b'=');
            self.put(values, column)?;
        }
        Ok(())
    }

    fn changed(&mut self, (before, after): (Values<'_>, Values<'_>), differing: &[usize]) -> Result<(), String> {
        self.line.extend_from_slice(b"~ ");
        let keys: Vec<usize> =
            (0..self.columns.len()).filter(|at| self.columns.get(*at).is_some_and(|it| it.2)).collect();
        for (number, column) in keys.iter().enumerate() {
            if number > 0 {
                self.line.extend_from_slice(b", ");
            }
            self.name(*column);
            self.line.push(b'=');
            self.put(before, *column)?;
        }
        for (number, column) in differing.iter().enumerate() {
            self.line.extend_from_slice(if number > 0 { b", " } else { b": " });
            self.name(*column);
            self.line.push(b' ');
            self.put(before, *column)?;
            self.line.extend_from_slice(b" -> ");
            self.put(after, *column)?;
        }
        Ok(())
    }
}

impl<W: Write> Changes for TextChanges<W> {
    fn lone(&mut self, table: Compared<'_>, side: Lone) -> io::Result<bool> {
        let mark = if side == Lone::Added { '+' } else { '-' };
        writeln!(self.out, "{mark} table {}", table.name)?;
        Ok(false)
    }

    fn definition(&mut self, name: &str, lines: &[String]) -> io::Result<()> {
        writeln!(self.out, "~ table {name}")?;
        lines.iter().try_for_each(|line| writeln!(self.out, "    {line}"))
    }

    fn begin(&mut self, table: Compared<'_>) -> io::Result<Result<(), String>> {
        writeln!(self.out, "{}", table.name)?;
        let column = |column: &crate::diff::DiffColumn| {
            (column.name.clone(), Literal::new(&column.value), column.is_key && !table.plan.is_by_row_id)
        };
        self.columns = table.plan.columns.iter().map(column).collect();
        Ok(Ok(()))
    }

    fn row(&mut self, change: &Change<'_>) -> io::Result<Result<(), String>> {
        self.line.clear();
        let written = match (change.before(), change.after()) {
            (Some(before), Some(after)) => self.changed((before, after), change.differing),
            (Some(before), None) => self.whole(b'-', before),
            (None, Some(after)) => self.whole(b'+', after),
            (None, None) => Ok(()),
        };
        if written.is_err() {
            return Ok(written);
        }
        if let Some(transaction) = change.open {
            self.line.extend_from_slice(format!(" (transaction {transaction} had not committed)").as_bytes());
        }
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        Ok(Ok(()))
    }

    fn end(&mut self) -> io::Result<Option<String>> {
        Ok(None)
    }

    fn finish(&mut self, _is_whole: bool) -> io::Result<()> {
        self.out.flush()
    }
}
