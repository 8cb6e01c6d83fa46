//! Differences as statements that turn A into B.
//!
//! Rows that are no longer there go first, then those that changed, and new ones come last, because a new row may have what another has
//! given up: a value of a unique key, or its own key in other letters. A changed row whose value in a unique key is another is therefore
//! deleted, and inserted with the new ones.

use std::fs::File;
use std::io::{self, Write};

use format::schema::quoted::quoted_name;
use format::schema::{FieldSource, TableDef, Versioned};
use format::show_create::{comment, create_table};
use format::value::json::is_plain;
use format::value::{Value, ValueKind, float};

use super::spool::Spool;
use crate::diff::DiffColumn;
use crate::diff::change::{Change, Changes, Compared, Lone, Values};
use crate::rows::export::sql::{Literal, write_hex};

/// A statement of many rows is ended once it is longer than this: well below the servers' `max_allowed_packet`.
const STATEMENT_MAX: usize = 512 << 10;

/// Writes differences as SQL.
pub struct SqlChanges<W> {
    out: W,
    /// Statements that come last.
    last: Spool,
    has_begun: bool,
    table: Option<Statements>,
    line: Vec<u8>,
}

/// How to write the statements of a table.
struct Statements {
    /// In backquotes, with its schema.
    name: String,
    columns: Vec<Column>,
    /// By the hidden row number, which no statement can name.
    is_by_row_id: bool,
    /// Bytes of the INSERT statement that is not ended yet.
    open: usize,
    /// JSON values whose text does not say all of them.
    typed: u64,
}

struct Column {
    diff: DiffColumn,
    name: String,
    literal: Literal,
    is_written: bool,
    is_unique: bool,
}

impl<W: Write> SqlChanges<W> {
    /// Writes to `out`. `spool`: an unnamed file for statements that come last and do not fit in memory.
    #[must_use]
    pub fn new(out: W, spool: Option<File>) -> Self {
        Self { out, last: Spool::new(spool), has_begun: false, table: None, line: Vec::new() }
    }

    fn head(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        self.out.write_all(comment("differences of two sets of files, read by innokit").as_bytes())?;
        self.out.write_all(
            b"SET NAMES utf8mb4;\nSET time_zone = '+00:00';\nSET foreign_key_checks = 0;\n\
              SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\nSTART TRANSACTION;\n",
        )
    }

    fn open(&mut self, table: Compared<'_>) {
        let (schema, name) = table.name.split_once('.').unwrap_or(("", table.name));
        let of = |column: &DiffColumn| Column {
            diff: column.clone(),
            name: quoted_name(&column.name),
            literal: Literal::new(&column.value),
            is_written: column.definition.generated.is_none()
                && !matches!(column.definition.versioned, Versioned::RowStart | Versioned::RowEnd),
            is_unique: is_in_unique(table.table, &column.name),
        };
        self.table = Some(Statements {
            name: format!("{}.{}", quoted_name(schema), quoted_name(name)),
            columns: table.plan.columns.iter().map(of).collect(),
            is_by_row_id: table.plan.is_by_row_id,
            open: 0,
            typed: 0,
        });
    }
}

/// Why no statements can turn the table of A into that of B, as a clause.
fn refuse(table: &Compared<'_>) -> Result<(), String> {
    if table.is_altered {
        return Err("the definitions differ, so no statements about rows turn one into the other".to_owned());
    }
    if table.table.declared.is_sequence {
        return Err("a sequence, which no statement about rows changes".to_owned());
    }
    if !table.plan.is_by_row_id {
        return Ok(());
    }
    let is_unsure = |column: &&DiffColumn| {
        let kind = &column.value.kind;
        matches!(kind, ValueKind::Json | ValueKind::Geometry | ValueKind::Vector)
            || matches!(kind, ValueKind::Char { .. }) && is_wide(column)
    };
    match table.plan.columns.iter().find(is_unsure) {
        Some(column) => Err(format!(
            "it has no key, and values of column {} cannot be compared exactly in SQL: there is no statement for one row",
            column.name
        )),
        None => Ok(()),
    }
}

/// Whether a space takes several bytes.
fn is_wide(column: &DiffColumn) -> bool {
    use format::charset::Charset;
    !matches!(column.value.charset, Charset::Binary) && {
        let mut text = Vec::new();
        // A charset in which the byte of a space is a space.
        column.value.write_text(b" a", &mut text).is_err() || text != b" a"
    }
}

fn is_in_unique(table: &TableDef, name: &str) -> bool {
    let secondary = table.indexes.iter().filter(|index| index.unique && !index.is_clustered());
    let mut columns = secondary.flat_map(|index| index.fields.iter().take(index.declared_parts));
    columns.any(|field| match field.source {
        // What is computed from others changes with them.
        FieldSource::Column(at) => {
            table.columns.get(at).is_some_and(|column| column.name == name || column.generated.is_some())
        }
        _ => false,
    })
}

impl Statements {
    fn values(&mut self, values: Values<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        if self.open == 0 {
            let names: Vec<&str> =
                self.columns.iter().filter(|column| column.is_written).map(|it| it.name.as_str()).collect();
            out.extend_from_slice(format!("INSERT INTO {} ({}) VALUES\n", self.name, names.join(",")).as_bytes());
        } else {
            out.extend_from_slice(b",\n");
        }
        let mut before = b'(';
        for (number, column) in self.columns.iter().enumerate().filter(|(_, column)| column.is_written) {
            out.push(before);
            before = b',';
            column.write(values.get(number), out)?;
            self.typed += u64::from(column.is_typed(values.get(number)));
        }
        out.push(b')');
        Ok(())
    }

    fn delete(&self, values: Values<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(format!("DELETE FROM {}", self.name).as_bytes());
        self.find(values, out)?;
        out.extend_from_slice(b";\n");
        Ok(())
    }

    fn update(
        &mut self,
        (before, after): (Values<'_>, Values<'_>),
        differing: &[usize],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        out.extend_from_slice(format!("UPDATE {} SET ", self.name).as_bytes());
        let mut is_first = true;
        for (number, column) in self.columns.iter().enumerate() {
            // What the server would set to the present keeps its value only if it is given.
            let is_set = differing.contains(&number) || column.diff.definition.on_update_now;
            if !is_set || !column.is_written {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            out.extend_from_slice(column.name.as_bytes());
            out.push(b'=');
            column.write(after.get(number), out)?;
            self.typed += u64::from(column.is_typed(after.get(number)));
        }
        if is_first {
            out.clear();
            return Ok(());
        }
        self.find(before, out)?;
        out.extend_from_slice(b";\n");
        Ok(())
    }

    /// ` WHERE ...`, which finds one row.
    fn find(&self, values: Values<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let is_part = |column: &Column| if self.is_by_row_id { column.is_written } else { column.diff.is_key };
        let mut before: &[u8] = b" WHERE ";
        for (number, column) in self.columns.iter().enumerate().filter(|(_, column)| is_part(column)) {
            out.extend_from_slice(before);
            before = b" AND ";
            if self.is_by_row_id {
                column.compare(values.get(number), out)?;
            } else {
                out.extend_from_slice(column.name.as_bytes());
                out.push(b'=');
                column.number_or(values.get(number), out)?;
            }
        }
        if self.is_by_row_id {
            out.extend_from_slice(b" LIMIT 1");
        }
        Ok(())
    }
}

impl Column {
    fn is_typed(&self, stored: Option<&[u8]>) -> bool {
        stored.is_some_and(|stored| matches!(self.diff.value.kind, ValueKind::Json) && !is_plain(stored))
    }

    fn write(&self, stored: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), String> {
        self.literal.write(stored, out).map_err(|why| format!("column {}: {why}", self.diff.name))
    }

    /// A value to compare with: a FLOAT is compared as a DOUBLE, and must have all the digits of one.
    fn number_or(&self, stored: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), String> {
        if let (ValueKind::Float { .. }, Some(bytes)) = (&self.diff.value.kind, stored) {
            let value = self.diff.value.decode(bytes).map_err(|why| format!("column {}: {why}", self.diff.name))?;
            if let Value::Float(number) = value {
                float::write_double(f64::from(number), None, out);
                return Ok(());
            }
        }
        self.write(stored, out)
    }

    /// `column <=> value`, by bytes: a collation may take several values for one.
    fn compare(&self, stored: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), String> {
        let is_text = matches!(self.diff.value.kind, ValueKind::Char { .. } | ValueKind::Text);
        match (self.diff.value.decode(stored.unwrap_or_default()), stored) {
            (Ok(Value::Text(text)), Some(_)) if is_text => {
                out.extend_from_slice(format!("CAST({} AS BINARY) <=> ", self.name).as_bytes());
                out.extend_from_slice(if text.is_empty() { b"''" } else { b"0x" });
                write_hex(text, out);
            }
            _ => {
                out.extend_from_slice(self.name.as_bytes());
                out.extend_from_slice(b" <=> ");
                self.number_or(stored, out)?;
            }
        }
        Ok(())
    }
}

impl<W: Write> SqlChanges<W> {
    /// Where a statement goes, and what it is.
    fn statements(&mut self, change: &Change<'_>) -> Result<(), String> {
        let Some(table) = &mut self.table else { return Ok(()) };
        self.line.clear();
        if let Some(transaction) = change.open {
            self.line.extend_from_slice(comment(&format!("transaction {transaction} had not committed")).as_bytes());
        }
        let is_unique =
            |number: &usize| table.columns.get(*number).is_some_and(|column| column.is_unique || column.diff.is_key);
        let inserted = match (change.before(), change.after()) {
            (Some(before), Some(after)) if !change.differing.iter().any(is_unique) => {
                let mut line = Vec::new();
                table.update((before, after), change.differing, &mut line)?;
                self.line.extend_from_slice(&line);
                return Ok(());
            }
            (before, after) => {
                before.map_or(Ok(()), |before| table.delete(before, &mut self.line))?;
                after
            }
        };
        let Some(after) = inserted else { return Ok(()) };
        let start = self.last.bytes.len();
        if let Err(why) = table.values(after, &mut self.last.bytes) {
            self.last.bytes.truncate(start);
            return Err(why);
        }
        table.open += self.last.bytes.len() - start;
        if table.open > STATEMENT_MAX {
            self.last.bytes.extend_from_slice(b";\n");
            table.open = 0;
        }
        Ok(())
    }
}

impl<W: Write> Changes for SqlChanges<W> {
    fn lone(&mut self, table: Compared<'_>, side: Lone) -> io::Result<bool> {
        self.head()?;
        let (schema, name) = table.name.split_once('.').unwrap_or(("", table.name));
        let full = format!("{}.{}", quoted_name(schema), quoted_name(name));
        if side == Lone::Removed {
            // It ends the transaction, as every statement about definitions does.
            writeln!(self.out, "DROP TABLE {full};\nSTART TRANSACTION;")?;
            return Ok(false);
        }
        // A `.frm` file does not say what its table is called.
        let named = TableDef { name: name.to_owned(), ..table.table.clone() };
        let bare = format!("CREATE TABLE {} ", quoted_name(name));
        let definition = create_table(&named).replacen(&bare, &format!("CREATE TABLE {full} "), 1);
        writeln!(
            self.out,
            "CREATE DATABASE IF NOT EXISTS {};\n{definition};\nSTART TRANSACTION;",
            quoted_name(schema)
        )?;
        self.open(table);
        Ok(true)
    }

    fn definition(&mut self, name: &str, lines: &[String]) -> io::Result<()> {
        self.head()?;
        self.out.write_all(comment(&format!("{name}: the definitions differ: {}", lines.join(" "))).as_bytes())
    }

    fn begin(&mut self, table: Compared<'_>) -> io::Result<Result<(), String>> {
        self.head()?;
        self.out.write_all(comment(table.name).as_bytes())?;
        let refused = refuse(&table);
        match &refused {
            Ok(()) => self.open(table),
            Err(why) => self.out.write_all(comment(&format!("left out: {why}")).as_bytes())?,
        }
        Ok(refused)
    }

    fn row(&mut self, change: &Change<'_>) -> io::Result<Result<(), String>> {
        if let Err(why) = self.statements(change) {
            return Ok(Err(why));
        }
        self.out.write_all(&self.line)?;
        self.last.settle()?;
        Ok(Ok(()))
    }

    fn end(&mut self) -> io::Result<Option<String>> {
        let Some(table) = self.table.take() else { return Ok(None) };
        if table.open > 0 {
            self.last.bytes.extend_from_slice(b";\n");
        }
        self.last.write_to(&mut self.out)?;
        let note = format!(
            "{} JSON values are written as text, which does not say that a number is a DECIMAL, or that a string is a date, a time or binary",
            table.typed
        );
        Ok((table.typed > 0).then_some(note))
    }

    fn finish(&mut self, is_whole: bool) -> io::Result<()> {
        // Half of what differs turns A into neither.
        match (self.has_begun, is_whole) {
            (true, true) => self.out.write_all(b"COMMIT;\n")?,
            (true, false) => {
                self.out.write_all(comment("not all differences were found: nothing is changed").as_bytes())?;
                self.out.write_all(b"ROLLBACK;\n")?;
            }
            (false, _) => {}
        }
        self.out.flush()
    }
}
