//! Partitions from SDI, as SQL.

use super::column::{option, text_option};
use super::declared::OWN_TABLESPACE;
use super::object::{Partition, Table};
use crate::schema::quoted::{quoted, quoted_name};

const TYPE_RANGE_COLUMNS: u32 = 9;
const TYPE_LIST_COLUMNS: u32 = 10;
/// The partitions were declared by number, not listed.
const BY_NUMBER: u32 = 3;
/// KEY with the hash of servers before 5.5.
const TYPES_OLD_KEY: [u32; 2] = [2, 5];

/// `PARTITION BY ...` in a version comment; `None` if the table is not partitioned.
pub(super) fn sql(table: &Table) -> Option<String> {
    let kind = table.partition_type;
    let columns = matches!(kind, TYPE_RANGE_COLUMNS | TYPE_LIST_COLUMNS);
    let version = if columns { "50500" } else { "50100" };
    let mut out = format!("/*!{version} PARTITION BY {}", method(kind, &table.partition_expression)?);
    let by_number = matches!(table.default_partitioning, BY_NUMBER);
    if by_number {
        out.push_str(&format!("\nPARTITIONS {}", table.partitions.len()));
    }
    let count = table.partitions.first().map_or(0, |partition| partition.subpartitions.len());
    if let Some(method) = method(table.subpartition_type, &table.subpartition_expression) {
        out.push_str(&format!("\nSUBPARTITION BY {method}"));
        if table.default_subpartitioning == BY_NUMBER {
            out.push_str(&format!("\nSUBPARTITIONS {count}"));
        }
    }
    // Neither a number nor a list of partitions: there is one, named p0.
    if !by_number && table.default_partitioning != 2 {
        let names_subs = table.default_subpartitioning == 1;
        let spaces = names_spaces(table);
        let each = table.partitions.iter().map(|partition| partition_sql(partition, kind, names_subs, spaces));
        out.push_str(&format!("\n({})", each.collect::<Vec<_>>().join(",\n ")));
    }
    out.push_str(" */");
    Some(out)
}

fn method(kind: u32, expression: &str) -> Option<String> {
    let linear = if matches!(kind, 4..=6) { "LINEAR " } else { "" };
    let list = expression.replace(';', ",");
    Some(match kind {
        1 | 4 => format!("{linear}HASH ({expression})"),
        2 | 3 | 5 | 6 => {
            let old = if TYPES_OLD_KEY.contains(&kind) { " */ /*!50611 ALGORITHM = 1 */ /*!50100" } else { "" };
            format!("{linear}KEY{old} ({list})")
        }
        7 => format!("RANGE ({expression})"),
        8 => format!("LIST ({expression})"),
        TYPE_RANGE_COLUMNS => format!("RANGE  COLUMNS({list})"),
        TYPE_LIST_COLUMNS => format!("LIST  COLUMNS({list})"),
        _ => return None,
    })
}

fn partition_sql(partition: &Partition, kind: u32, names_subs: bool, names_spaces: bool) -> String {
    let mut out = format!("PARTITION {}", name(&partition.name));
    let values = &partition.description_utf8;
    match kind {
        7 if values == "MAXVALUE" => out.push_str(" VALUES LESS THAN MAXVALUE"),
        7 | TYPE_RANGE_COLUMNS => out.push_str(&format!(" VALUES LESS THAN ({values})")),
        8 | TYPE_LIST_COLUMNS => out.push_str(&format!(" VALUES IN ({values})")),
        _ => {}
    }
    if names_subs && !partition.subpartitions.is_empty() {
        let subs = partition.subpartitions.iter();
        let each = subs.map(|sub| format!("SUBPARTITION {}{}", name(&sub.name), options(sub, names_spaces)));
        out.push_str(&format!("\n ({})", each.collect::<Vec<_>>().join(",\n  ")));
    } else {
        out.push_str(&options(partition, names_spaces));
    }
    out
}

/// The tablespace that was declared for a partition.
fn tablespace(partition: &Partition) -> Option<&str> {
    text_option(&partition.options, "tablespace").filter(|name| !name.is_empty())
}

/// Whether the server names the tablespace of each partition: it does so if one was declared with one.
fn names_spaces(table: &Table) -> bool {
    let all = table.partitions.iter().flat_map(|partition| std::iter::once(partition).chain(&partition.subpartitions));
    all.into_iter().any(|partition| tablespace(partition).is_some())
}

fn options(partition: &Partition, names_spaces: bool) -> String {
    let mut out = String::new();
    let number = |key: &str| option::<u64>(&partition.options, key).filter(|value| *value > 0);
    let tablespace = tablespace(partition).or_else(|| names_spaces.then_some(OWN_TABLESPACE));
    out.extend(tablespace.map(|name| format!(" TABLESPACE = {}", quoted_name(name))));
    out.extend(number("max_rows").map(|rows| format!(" MAX_ROWS = {rows}")));
    out.extend(number("min_rows").map(|rows| format!(" MIN_ROWS = {rows}")));
    if !partition.comment.is_empty() {
        out.push_str(&format!(" COMMENT = {}", quoted(&partition.comment)));
    }
    out.push_str(" ENGINE = InnoDB");
    out
}

/// MySQL quotes partition names only if necessary.
fn name(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
    if plain && !name.chars().all(|c| c.is_ascii_digit()) { name.to_owned() } else { quoted_name(name) }
}
