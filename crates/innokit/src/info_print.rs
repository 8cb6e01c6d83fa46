//! `info` as text: a few lines of facts per file, then two tables.

use std::collections::BTreeMap;
use std::io::{self, Write};

use inspect::info::report::{DamagedPage, IndexRow, Name};
use inspect::{FileInfo, InfoReport, TablespaceInfo};

use crate::print::{grouped, human};
use crate::terminal::shown;

/// Width of the labels on the left.
const LABEL: usize = 18;

/// All files, separated by empty lines.
pub fn text(report: &InfoReport, out: &mut impl Write) -> io::Result<()> {
    for (index, file) in report.files.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        one_file(file, out)?;
    }
    Ok(())
}

/// All about one file.
pub fn one_file(file: &FileInfo, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", shown(&file.path))?;
    if let Some(error) = &file.error {
        row(out, "NOT READ", error)?;
    }
    if file.kind.is_none() {
        return Ok(());
    }
    row(out, "file", &file.what)?;
    if let Some(damage) = &file.damage {
        row(out, "DAMAGE", damage)?;
    }
    row(out, "size", &size(file))?;
    for (name, value) in &file.facts {
        row(out, &name.replace('_', " ").replace("lsn", "LSN"), value)?;
    }
    if let Some(space) = &file.tablespace {
        tablespace(space, out)?;
        page_types(space, out)?;
        indexes(space, out)?;
    }
    Ok(())
}

fn row(out: &mut impl Write, label: &str, value: &str) -> io::Result<()> {
    writeln!(out, "  {label:<LABEL$} {}", shown(value))
}

fn size(file: &FileInfo) -> String {
    let bytes = format!("{} ({} bytes)", human(file.bytes as f64), grouped(file.bytes));
    if file.bytes_on_disk < file.bytes {
        format!("{bytes}, {} of it on disk: the file has holes", human(file.bytes_on_disk as f64))
    } else {
        bytes
    }
}

fn tablespace(space: &TablespaceInfo, out: &mut impl Write) -> io::Result<()> {
    if let Some(name) = &space.name {
        row(out, "holds", &holds(name))?;
    }
    row(out, "space id", &space.space_id.to_string())?;
    if space.logical_page_size != space.page_size {
        row(out, "page size", &format!("{} bytes, {} when inflated", space.page_size, space.logical_page_size))?;
    }
    flags(space, out)?;
    row(out, "pages", &pages(space))?;
    row(out, "use", &use_of_pages(space))?;
    if let Some(words) = length(space) {
        row(out, "length", &words)?;
    }
    row(out, "checksums", &checksums(space))?;
    if let Some(lsn) = &space.lsn {
        let words = format!("{} to {}, the newest on page {}", lsn.min, lsn.max, lsn.newest_page);
        row(out, "LSN", &words)?;
    }
    row(out, "encryption", &encryption(space))?;
    row(out, "compression", &compression(space))?;
    damage(space, out)
}

fn holds(name: &Name) -> String {
    let mut words = match (&name.schema, &name.table) {
        (Some(schema), Some(table)) => format!("{schema}.{table}"),
        (None, Some(table)) => table.clone(),
        _ if name.source == "sdi" => format!("{} tables", grouped(name.tables)),
        _ => "its name does not say what".to_owned(),
    };
    if let Some(format) = name.row_format {
        words.push_str(&format!(", row format {format}"));
    }
    match name.source {
        "path" => words.push_str(" (by its path)"),
        "sdi" if name.tables != 1 => {
            if let Some(space) = &name.tablespace {
                words.push_str(&format!(" (tablespace {space})"));
            }
        }
        _ => {}
    }
    match &name.sdi_unread {
        Some(why) => format!("{words}; its dictionary information was not read: {why}"),
        None => words,
    }
}

fn flags(space: &TablespaceInfo, out: &mut impl Write) -> io::Result<()> {
    let Some(flags) = &space.flags else {
        let why = if space.first_page > 0 { "in the first file of the tablespace" } else { "page 0 is damaged" };
        return row(out, "flags", why);
    };
    row(out, "flags", &format!("0x{:x}", flags.word))?;
    for field in &flags.fields {
        row(out, "", &format!("{:<20} {}", field.name, field.meaning))?;
    }
    Ok(())
}

fn pages(space: &TablespaceInfo) -> String {
    let counts = &space.pages;
    let mut words =
        format!("{}: {} sound, {} all zero", grouped(counts.total), grouped(counts.ok), grouped(counts.empty));
    if counts.unverifiable > 0 {
        let why: Vec<String> = space.undecided.keys().map(|reason| reason.replace('_', " ")).collect();
        words.push_str(&format!(", {} not verifiable ({})", grouped(counts.unverifiable), why.join(", ")));
    }
    if counts.corrupt > 0 {
        words.push_str(&format!(", {} DAMAGED", grouped(counts.corrupt)));
    }
    words
}

fn use_of_pages(space: &TablespaceInfo) -> String {
    let counts = &space.pages;
    let mut parts = vec![
        format!("{} used", grouped(counts.used)),
        format!("{} free", grouped(counts.free)),
        format!("{} never used", grouped(counts.never_used)),
    ];
    if counts.use_unknown > 0 {
        parts.push(format!("{} unknown", grouped(counts.use_unknown)));
    }
    let mut words = parts.join(", ");
    if counts.free_with_content > 0 {
        words.push_str(&format!("; {} free pages still hold old content", grouped(counts.free_with_content)));
    }
    words
}

/// What is odd about the file's length, if anything.
fn length(space: &TablespaceInfo) -> Option<String> {
    let end = u64::from(space.first_page) + space.pages.total;
    let mut parts = Vec::new();
    if let Some(size) = space.size_in_header.filter(|size| u64::from(*size) > end && space.space_id != 0) {
        parts.push(format!(
            "the space header counts {} pages, but the file ends before page {}",
            grouped(u64::from(size)),
            grouped(end)
        ));
    }
    if space.trailing_bytes > 0 {
        parts.push(format!("{} bytes after the last whole page", grouped(space.trailing_bytes)));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn checksums(space: &TablespaceInfo) -> String {
    let rows: Vec<String> =
        space.checksums.iter().map(|row| format!("{} on {} pages", row.algorithm, grouped(row.pages))).collect();
    match space.pages {
        counts if counts.empty == counts.total => "no page has content".to_owned(),
        _ if rows.is_empty() => "none that could be verified".to_owned(),
        _ => rows.join(", "),
    }
}

fn encryption(space: &TablespaceInfo) -> String {
    let info = &space.encryption;
    if !info.on && info.pages == 0 {
        return if info.key.is_empty() { "none".to_owned() } else { format!("none ({})", listed(&info.key)) };
    }
    let state = if info.on { "on" } else { "off in the header" };
    let words = format!("{state}, {} pages encrypted", grouped(info.pages));
    if info.key.is_empty() { words } else { format!("{words} ({})", listed(&info.key)) }
}

fn listed(facts: &BTreeMap<&'static str, String>) -> String {
    let facts: Vec<String> = facts.iter().map(|(name, value)| format!("{}: {value}", name.replace('_', " "))).collect();
    facts.join(", ")
}

fn compression(space: &TablespaceInfo) -> String {
    let info = &space.compression;
    let zip = (space.page_format == "zip").then(|| "ROW_FORMAT=COMPRESSED".to_owned());
    if info.algorithms.is_empty() {
        let none = if info.on { "page_compressed, but no page is".to_owned() } else { "none".to_owned() };
        return zip.unwrap_or(none);
    }
    let rows = info.algorithms.iter().map(|(name, pages)| format!("{} pages with {name}", grouped(*pages)));
    let part = 100.0 * info.compressed_bytes as f64 / info.inflated_bytes.max(1) as f64;
    let rows: Vec<String> = zip.into_iter().chain(rows).collect();
    format!("{}, to {part:.0} % of their size", rows.join(", "))
}

fn damage(space: &TablespaceInfo, out: &mut impl Write) -> io::Result<()> {
    for DamagedPage { page, message, free, .. } in &space.damaged_pages {
        let free = if *free { " (a free page: nothing reads it)" } else { "" };
        row(out, "DAMAGE", &format!("page {page}: {message}{free}"))?;
    }
    let more = space.pages.corrupt.saturating_sub(space.damaged_pages.len() as u64);
    if more > 0 {
        row(out, "", &format!("... and {} more damaged pages: see `innokit check`", grouped(more)))?;
    }
    Ok(())
}

fn page_types(space: &TablespaceInfo, out: &mut impl Write) -> io::Result<()> {
    if space.page_types.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n  {:<52} {:>10} {:>8}", "page type (free pages with content too)", "pages", "share")?;
    for kind in &space.page_types {
        let name = match &kind.inside {
            Some(inside) => format!("{} ({inside})", kind.name),
            None => kind.name.clone(),
        };
        let share = 100.0 * kind.pages as f64 / space.pages.total.max(1) as f64;
        writeln!(out, "  {name:<52} {:>10} {share:>6.1} %", grouped(kind.pages))?;
    }
    Ok(())
}

fn indexes(space: &TablespaceInfo, out: &mut impl Write) -> io::Result<()> {
    if space.indexes.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = space.indexes.iter().map(|index| index_name(space, index)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
    let heads = format!(
        "{:>20} {:>7} {:>6} {:>9} {:>9} {:>11} {:>9} {:>9} {:>5}",
        "id", "root", "levels", "pages", "leaves", "records", "used", "free", "fill"
    );
    writeln!(out, "\n  {:<width$} {heads}", "index")?;
    for (index, name) in space.indexes.iter().zip(names) {
        let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let known = index.index_id.is_some();
        let count = |value: u64| if known { grouped(value) } else { "-".to_owned() };
        let bytes = |value: u64| if known { human(value as f64) } else { "-".to_owned() };
        let fill = if known { format!("{:.0} %", index.fill * 100.0) } else { "-".to_owned() };
        writeln!(
            out,
            "  {name:<width$} {:>20} {:>7} {:>6} {:>9} {:>9} {:>11} {:>9} {:>9} {fill:>5}",
            number(index.index_id),
            number(index.root_page.map(u64::from)),
            count(u64::from(index.levels)),
            grouped(index.pages),
            count(index.leaf_pages),
            count(index.records),
            bytes(index.bytes_used),
            bytes(index.bytes_free),
        )?;
    }
    if space.indexes_not_listed > 0 {
        writeln!(out, "  ... and {} pages of further indexes", grouped(space.indexes_not_listed))?;
    }
    if space.pages.unopened > 0 {
        let pages = grouped(space.pages.unopened);
        writeln!(out, "  (without the key {pages} encrypted pages are not opened, so their records are not counted)")?;
    }
    if space.page_format == "zip" {
        writeln!(out, "  (used, free and fill are those of the inflated pages)")?;
    }
    Ok(())
}

/// `PRIMARY`; `shop.orders.PRIMARY` if several tables share the file; or the kind of tree, if it has no name.
fn index_name(space: &TablespaceInfo, index: &IndexRow) -> String {
    let several = space.name.as_ref().is_some_and(|name| name.tables > 1);
    match (&index.name, &index.table) {
        (Some(name), Some(table)) if several => shown(&format!("{table}.{name}")).into_owned(),
        (Some(name), _) => shown(name).into_owned(),
        _ if index.index_id.is_none() => format!("{} (encrypted)", index.tree),
        _ => index.tree.to_owned(),
    }
}
