//! `CREATE TABLE` as the server's own `SHOW CREATE TABLE` prints it.
//!
//! ```text
//! TableDef { columns, declared } -> a line for each column, key and constraint -> options -> partitions
//! ```
//!
//! [`missing`] lists what cannot be printed because the source of the definition lacks it.
//!
//! Facts: the output of MySQL 9.7 and MariaDB 10.11 and 11.8 for tables of every kind.

mod column;
mod literal;

use crate::kind::Family;
use crate::printable::printable;
use crate::schema::charset::BINARY;
use crate::schema::collations::Collation;
use crate::schema::declared::{ForeignKey, KeyDef, KeyKind, KeyPart, Rule};
use crate::schema::quoted::{quoted, quoted_name};
use crate::schema::{CheckDef, ColumnDef, ColumnDefault, TableDef, Versioned, Visibility};

pub use self::column::type_name;

/// A comment in SQL, up to the end of its line. A comment ends at a newline, and what follows it would be run as a statement, so no character
/// of the text may end the line.
#[must_use]
pub fn comment(text: &str) -> String {
    format!("-- {}\n", printable(text))
}

/// The statement that creates the table, without a semicolon.
#[must_use]
pub fn create_table(table: &TableDef) -> String {
    let mut lines: Vec<String> = Vec::new();
    let shown = table.columns.iter().filter(|column| is_shown(table, column));
    lines.extend(shown.map(|column| column::definition(table, column)));
    lines.extend(table.declared.period.as_ref().map(|period| format!("PERIOD FOR {period}")));
    lines.extend(table.declared.keys.iter().map(|key| key_line(table, key)));
    lines.extend(system_period(table));
    let mut foreign: Vec<&ForeignKey> = table.declared.foreign_keys.iter().flatten().collect();
    foreign.sort_by(|a, b| a.name.cmp(&b.name));
    lines.extend(foreign.iter().map(|key| foreign_key_line(table, key)));
    let is_period = |check: &&CheckDef| {
        table.declared.period.as_ref().is_some_and(|period| period.starts_with(&quoted_name(&check.name)))
    };
    let mut checks: Vec<&CheckDef> = table.checks.iter().filter(|check| !is_period(check)).collect();
    if table.family == Family::MySql {
        checks.sort_by(|a, b| a.name.cmp(&b.name));
    }
    lines.extend(checks.iter().map(|check| check_line(table, check)));
    let mut sql = format!("CREATE TABLE {} (\n  {}\n)", quoted_name(&table.name), lines.join(",\n  "));
    options(table, &mut sql);
    if let Some(partitioning) = &table.declared.partitioning {
        sql.push('\n');
        sql.push_str(partitioning);
    }
    sql
}

/// The statement that creates a table like this one under another name, which may be `database.table`, already in quotes. In a database, names of
/// foreign keys and, in MySQL, of CHECK constraints are those of one table: `beside` the table itself the copy has no foreign keys, and the
/// server names its checks.
///
/// # Errors
/// An expression that is not closed in itself, as a sentence: with it the statement would be another one.
pub fn create_table_as(table: &TableDef, name: &str, beside: bool) -> Result<String, String> {
    if let Some(open) = expressions(table).find(|text| !is_closed(text)) {
        let (schema, table) = (&table.schema, &table.name);
        return Err(format!(
            "the definition of {schema}.{table} has the expression {open:?}, which does not end in itself"
        ));
    }
    let mut like = table.clone();
    if beside {
        like.declared.foreign_keys = Some(Vec::new());
        like.checks.iter_mut().for_each(|check| check.name.clear());
    }
    let head = format!("CREATE TABLE {}", quoted_name(&table.name));
    let statement = create_table(&like);
    Ok(format!("CREATE TABLE {name}{}", statement.strip_prefix(&head).unwrap_or(&statement)))
}

/// Every text of a definition that stands in its statement as it is.
fn expressions(table: &TableDef) -> impl Iterator<Item = &str> {
    let declared = &table.declared;
    let options = declared.options.iter().chain(&declared.late_options).map(String::as_str);
    let keys = declared.keys.iter().map(|key| key.options.as_str());
    let checks = table.checks.iter().map(|check| check.expression.as_str());
    let of_table =
        options.chain(keys).chain(checks).chain(declared.period.as_deref()).chain(declared.partitioning.as_deref());
    table.columns.iter().flat_map(expressions_of_column).chain(of_table)
}

fn expressions_of_column(column: &ColumnDef) -> impl Iterator<Item = &str> {
    let default = match &column.default {
        ColumnDefault::Expression(text) => Some(text.as_str()),
        _ => None,
    };
    let generated = column.generated.as_ref().map(|generated| generated.expression.as_str());
    [default, generated, column.check.as_deref(), column.declared_type.as_deref()].into_iter().flatten()
}

/// Whether parentheses and quotes of the text match, none closes what began before it, and nothing in it is a comment, but for what servers
/// execute, or ends the statement.
fn is_closed(text: &str) -> bool {
    let (mut depth, mut rest) = (0_usize, text);
    while let Some(sign) = rest.chars().next() {
        let after = rest.get(sign.len_utf8()..).unwrap_or_default();
        rest = match sign {
            '\'' | '"' | '`' => match after_quote(after, sign) {
                Some(after) => after,
                None => return false,
            },
            '(' => {
                depth += 1;
                after
            }
            ')' if depth == 0 => return false,
            ')' => {
                depth -= 1;
                after
            }
            '#' | ';' => return false,
            '-' if after.starts_with('-') => return false,
            '/' if after.starts_with('*') && !after.starts_with("*!") && !after.starts_with("*M!") => return false,
            _ => after,
        };
    }
    depth == 0
}

/// What follows the quote that ends a text.
fn after_quote(text: &str, quote: char) -> Option<&str> {
    let mut signs = text.char_indices().peekable();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' if quote != '`' => drop(signs.next()),
            _ if sign != quote => {}
            _ if signs.next_if(|(_, next)| *next == quote).is_some() => {}
            _ => return text.get(at + quote.len_utf8()..),
        }
    }
    None
}

fn is_shown(table: &TableDef, column: &ColumnDef) -> bool {
    let hidden = matches!(column.visibility, Visibility::Hidden | Visibility::Functional);
    let implicit = column.versioned_by_server() && table.declared.has_implicit_versioning;
    !(hidden || implicit || column.dropped.is_some())
}

fn system_period(table: &TableDef) -> Option<String> {
    let named =
        |part| table.columns.iter().find(|column| column.versioned == part).map(|column| quoted_name(&column.name));
    let (start, end) = (named(Versioned::RowStart)?, named(Versioned::RowEnd)?);
    (!table.declared.has_implicit_versioning).then(|| format!("PERIOD FOR SYSTEM_TIME ({start}, {end})"))
}

fn key_line(table: &TableDef, key: &KeyDef) -> String {
    let kind = match key.kind {
        KeyKind::Primary => "PRIMARY KEY",
        KeyKind::Unique => "UNIQUE KEY",
        KeyKind::Plain => "KEY",
        KeyKind::FullText => "FULLTEXT KEY",
        KeyKind::Spatial => "SPATIAL KEY",
        KeyKind::Vector => "VECTOR KEY",
    };
    let name = if key.kind == KeyKind::Primary { String::new() } else { format!(" {}", quoted_name(&key.name)) };
    let parts: Vec<String> = key.parts.iter().filter_map(|part| key_part(table, *part)).collect();
    let mut list = parts.join(",");
    if let (Some(period), true) = (&table.declared.period, key.without_overlaps) {
        // The last two parts are the columns of the period.
        let kept = parts.len().saturating_sub(2);
        let name = period.split(" (").next().unwrap_or(period);
        list = parts
            .iter()
            .take(kept)
            .map(String::as_str)
            .chain([format!("{name} WITHOUT OVERLAPS").as_str()])
            .collect::<Vec<_>>()
            .join(",");
    }
    format!("{kind}{name} ({list}){}", key.options)
}

fn key_part(table: &TableDef, part: KeyPart) -> Option<String> {
    let column = table.columns.get(part.column)?;
    let direction = if part.descending { " DESC" } else { "" };
    if column.visibility == Visibility::Functional {
        let expression = column.generated.as_ref().map_or("", |generated| generated.expression.as_str());
        return Some(format!("({expression}){direction}"));
    }
    if !is_shown(table, column) {
        return None;
    }
    let prefix = part.prefix.map(|characters| format!("({characters})")).unwrap_or_default();
    Some(format!("{}{prefix}{direction}", quoted_name(&column.name)))
}

fn foreign_key_line(table: &TableDef, key: &ForeignKey) -> String {
    let names = |names: &[String]| names.iter().map(|name| quoted_name(name)).collect::<Vec<_>>().join(", ");
    let other = if key.other_schema == table.schema {
        quoted_name(&key.other_table)
    } else {
        format!("{}.{}", quoted_name(&key.other_schema), quoted_name(&key.other_table))
    };
    let rule = |event, rule: Rule| rule.sql().map(|sql| format!(" ON {event} {sql}")).unwrap_or_default();
    format!(
        "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {other} ({}){}{}",
        quoted_name(&key.name),
        names(&key.columns),
        names(&key.other_columns),
        rule("DELETE", key.on_delete),
        rule("UPDATE", key.on_update)
    )
}

fn check_line(table: &TableDef, check: &CheckDef) -> String {
    // MySQL's expressions come with parentheses of their own.
    let off = if check.enforced || table.family == Family::MariaDb { "" } else { " /*!80016 NOT ENFORCED */" };
    let name = if check.name.is_empty() { String::new() } else { format!("CONSTRAINT {} ", quoted_name(&check.name)) };
    format!("{name}CHECK ({}){off}", check.expression)
}

/// Appends the options after the closing parenthesis, without the partitions.
fn options(table: &TableDef, sql: &mut String) {
    let declared = &table.declared;
    if let Some(tablespace) = &declared.tablespace {
        sql.push_str(&format!(" /*!50100 TABLESPACE {} */", quoted_name(tablespace)));
    }
    sql.push_str(" ENGINE=InnoDB");
    if declared.is_sequence {
        return sql.push_str(" SEQUENCE=1");
    }
    if let Some(next) = declared.auto_increment.filter(|next| *next > 1) {
        sql.push_str(&format!(" AUTO_INCREMENT={next}"));
    }
    if let Some(collation) = Collation::of(table.collation, table.family) {
        sql.push_str(&format!(" DEFAULT CHARSET={}", collation.charset()));
        // The binary charset has one collation, which MariaDB leaves out.
        let is_named = table.family == Family::MariaDb && table.collation != BINARY;
        if is_named || !collation.is_default || collation.name == "utf8mb4_0900_ai_ci" {
            sql.push_str(&format!(" COLLATE={}", collation.name));
        }
    }
    declared.options.iter().for_each(|option| sql.extend([" ", option]));
    if !declared.comment.is_empty() {
        sql.push_str(&format!(" COMMENT={}", quoted(&declared.comment)));
    }
    declared.late_options.iter().for_each(|option| sql.extend([" ", option]));
    if declared.is_versioned {
        sql.push_str(" WITH SYSTEM VERSIONING");
    }
}

/// What the source of the definition lacks, as clauses for comments.
#[must_use]
pub fn missing(table: &TableDef) -> Vec<String> {
    let mut out = Vec::new();
    if table.declared.foreign_keys.is_none() {
        out.push("foreign keys: a .frm file holds none, and ibdata1 could not be read".to_owned());
    }
    let counts = table.columns.iter().any(|column| column.auto_increment);
    if counts && table.declared.auto_increment.is_none() {
        out.push("the next AUTO_INCREMENT value".to_owned());
    }
    if Collation::of(table.collation, table.family).is_none() && table.collation != 0 {
        out.push(format!("the name of collation {}, which innokit does not know", table.collation));
    }
    let unprintable = table.columns.iter().filter(|column| column::has_no_literal(column));
    out.extend(
        unprintable
            .map(|column| format!("the default of column {}: its bytes are not a value of its type", column.name)),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_ends_in_itself_or_is_none() {
        let closed = [
            "1 + (2)",
            "'a)' || \"(\"",
            "`a``)b`",
            r"'it\'s'",
            "concat('', `x`)",
            "/*!50100 PARTITION BY KEY () */",
            "",
        ];
        for text in closed {
            assert!(is_closed(text), "{text}");
        }
        let open =
            ["1) AS SELECT (1", "(1", "1)", "'", r"'a\'", "`a``", "1 -- x", "1 # x", "1; DROP TABLE t", "1 /* x"];
        for text in open {
            assert!(!is_closed(text), "{text}");
        }
    }
}
