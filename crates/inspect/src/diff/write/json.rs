//! Differences as JSON lines: `{"table":"shop.orders","change":"changed","key":{"id":5},"before":{"total":"1.00"},"after":{"total":"2.00"}}`.

use std::io::{self, Write};

use format::value::ValueError;
use format::value::json::write_string;

use crate::diff::DiffColumn;
use crate::diff::change::{Change, Changes, Compared, Lone, Values};
use crate::rows::export::jsonl::write_value;

/// Writes differences as one JSON object per line.
pub struct JsonChanges<W> {
    out: W,
    head: Vec<u8>,
    columns: Vec<DiffColumn>,
    has_key: bool,
    line: Vec<u8>,
    text: Vec<u8>,
}

impl<W: Write> JsonChanges<W> {
    /// Writes to `out`.
    pub const fn new(out: W) -> Self {
        Self { out, head: Vec::new(), columns: Vec::new(), has_key: false, line: Vec::new(), text: Vec::new() }
    }

    fn values(
        &mut self,
        name: &str,
        values: Values<'_>,
        is_wanted: impl Fn(usize, &DiffColumn) -> bool,
    ) -> Result<(), ValueError> {
        self.line.extend_from_slice(format!(",\"{name}\":{{").as_bytes());
        let mut is_first = true;
        for (number, column) in self.columns.iter().enumerate().filter(|(number, column)| is_wanted(*number, column)) {
            if !std::mem::take(&mut is_first) {
                self.line.push(b',');
            }
            write_string(column.name.as_bytes(), &mut self.line);
            self.line.push(b':');
            match values.get(number) {
                None => self.line.extend_from_slice(b"null"),
                Some(stored) => write_value(&column.value, stored, &mut self.text, &mut self.line)?,
            }
        }
        self.line.push(b'}');
        Ok(())
    }

    fn change(&mut self, change: &Change<'_>) -> Result<(), ValueError> {
        let differing = change.differing;
        let (word, is_whole) = match (change.before, change.after) {
            (Some(_), Some(_)) => ("changed", false),
            (Some(_), None) => ("removed", true),
            _ => ("added", true),
        };
        self.line.extend_from_slice(format!("\"{word}\"").as_bytes());
        if let Some(key) = change.before().or(change.after()).filter(|_| self.has_key) {
            self.values("key", key, |_, column| column.is_key)?;
        }
        // Without a key, only the whole row says which one it is.
        let is_wanted =
            |has_key: bool| move |number: usize, _: &DiffColumn| is_whole || !has_key || differing.contains(&number);
        let has_key = self.has_key;
        if let Some(before) = change.before() {
            self.values("before", before, is_wanted(has_key))?;
        }
        if let Some(after) = change.after() {
            self.values("after", after, is_wanted(has_key))?;
        }
        if let Some(transaction) = change.open {
            self.line.extend_from_slice(format!(",\"not_committed\":{transaction}").as_bytes());
        }
        Ok(())
    }
}

/// `{"table":"shop.orders","change":`
fn head(name: &str) -> Vec<u8> {
    let mut head = b"{\"table\":".to_vec();
    write_string(name.as_bytes(), &mut head);
    head.extend_from_slice(b",\"change\":");
    head
}

impl<W: Write> Changes for JsonChanges<W> {
    fn lone(&mut self, table: Compared<'_>, side: Lone) -> io::Result<bool> {
        let word = if side == Lone::Added { "table_added" } else { "table_removed" };
        self.out.write_all(&head(table.name))?;
        writeln!(self.out, "\"{word}\"}}")?;
        Ok(false)
    }

    fn definition(&mut self, name: &str, lines: &[String]) -> io::Result<()> {
        let mut line = head(name);
        line.extend_from_slice(b"\"definition\",\"lines\":[");
        for (number, text) in lines.iter().enumerate() {
            if number > 0 {
                line.push(b',');
            }
            write_string(text.as_bytes(), &mut line);
        }
        line.extend_from_slice(b"]}\n");
        self.out.write_all(&line)
    }

    fn begin(&mut self, table: Compared<'_>) -> io::Result<Result<(), String>> {
        self.head = head(table.name);
        self.columns.clone_from(&table.plan.columns);
        self.has_key = !table.plan.is_by_row_id;
        Ok(Ok(()))
    }

    fn row(&mut self, change: &Change<'_>) -> io::Result<Result<(), String>> {
        self.line.clone_from(&self.head);
        if let Err(why) = self.change(change) {
            return Ok(Err(why.to_string()));
        }
        self.line.extend_from_slice(b"}\n");
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
