//! The damage as a table: one line per index or file, then the keys and the commands.

use std::collections::HashSet;
use std::io::{self, Write};

use inspect::report::hurt::{Hurt, KeyRange, TableOutcome, TableVerdict};

use crate::print::grouped;
use crate::terminal::shown;

/// Limits of the text report: rows, and key ranges in each. JSON has all.
const ROWS_MAX: usize = 40;
const RANGES_MAX: usize = 3;

/// The table, and what to do about each row.
pub fn hurt(rows: &[Hurt], out: &mut impl Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let header = ["hurt", "index", "pages", "rows at risk", "what to do"].map(str::to_owned);
    let cells = |row: &Hurt| [name(row), index(row), pages(row), at_risk(row), row.action.words().to_owned()];
    let lines: Vec<[String; 5]> = std::iter::once(header).chain(rows.iter().take(ROWS_MAX).map(cells)).collect();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..5).map(|column| width(column).unwrap_or(0)).collect();
    for line in &lines {
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width));
        writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    if rows.len() > ROWS_MAX {
        writeln!(out, "... and {} more (see --json)", grouped((rows.len() - ROWS_MAX) as u64))?;
    }
    // Several entries of a table have the same remedy.
    let mut told = HashSet::new();
    for row in rows.iter().take(ROWS_MAX).filter(|row| !row.keys.is_empty() || !row.commands.is_empty()) {
        let commands = if told.insert(&row.commands) { row.commands.as_slice() } else { &[] };
        if row.keys.is_empty() && commands.is_empty() {
            continue;
        }
        let index = row.index.as_ref().map(|index| format!(", {}", shown(index))).unwrap_or_default();
        writeln!(out, "\n{}{index}:{}", name(row), keys(&row.keys))?;
        for command in commands {
            writeln!(out, "    {}", shown(command))?;
        }
    }
    Ok(())
}

/// Every table with its verdict.
pub fn verdicts(tables: &[TableVerdict], out: &mut impl Write) -> io::Result<()> {
    for table in tables {
        let verdict = match table.verdict {
            TableOutcome::AllWell => "all well",
            TableOutcome::Undecided => "UNDECIDED",
            TableOutcome::Damage => "DAMAGE",
        };
        let name = table.table.as_deref().map_or_else(|| shown(&table.path), shown);
        writeln!(out, "{verdict:<9}  {name}")?;
    }
    Ok(())
}

fn name(row: &Hurt) -> String {
    match &row.table {
        Some(table) => shown(table).into_owned(),
        None => shown(&row.path).into_owned(),
    }
}

fn index(row: &Hurt) -> String {
    match (&row.index, row.index_kind, row.index_id) {
        (Some(name), Some(kind), _) if kind != "sdi" => format!("{} ({kind})", shown(name)),
        (Some(name), ..) => shown(name).into_owned(),
        (None, _, Some(id)) => format!("number {id}"),
        (None, _, None) => format!("({})", row.kind),
    }
}

fn pages(row: &Hurt) -> String {
    if row.pages == 0 { "-".to_owned() } else { grouped(row.pages) }
}

fn at_risk(row: &Hurt) -> String {
    match row.rows_at_risk {
        None => "unknown".to_owned(),
        Some(0) => "none".to_owned(),
        Some(rows) if row.rows_estimated => format!("about {}", grouped(rows)),
        Some(rows) => grouped(rows),
    }
}

fn keys(ranges: &[KeyRange]) -> String {
    let text = |range: &KeyRange| match (&range.from, &range.before) {
        (Some(from), Some(before)) => format!("from {from} to before {before}"),
        (Some(from), None) => format!("from {from} on"),
        (None, Some(before)) => format!("all before {before}"),
        (None, None) => "all".to_owned(),
    };
    let listed: Vec<String> = ranges.iter().take(RANGES_MAX).map(text).collect();
    let more = ranges.len().saturating_sub(RANGES_MAX);
    let more = if more > 0 { format!("; and {} more", grouped(more as u64)) } else { String::new() };
    if listed.is_empty() { String::new() } else { format!(" keys {}{more}", shown(&listed.join("; "))) }
}
