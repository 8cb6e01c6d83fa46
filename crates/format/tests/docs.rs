//! The byte maps in `docs/` and the constants of the code say the same.

use std::collections::BTreeMap;

use innokit_format::layout::{self, Field, Structure};
use innokit_format::page::index::IndexRule;

const MAPS: [(&str, &str, &[Structure]); 8] = [
    ("page.md", include_str!("../docs/page.md"), &[layout::FIL_HEADER]),
    (
        "fsp.md",
        include_str!("../docs/fsp.md"),
        &[layout::SPACE_HEADER, layout::EXTENT_DESCRIPTOR, layout::SEGMENT_INODE],
    ),
    ("index.md", include_str!("../docs/index.md"), &[layout::PAGE_HEADER]),
    ("record.md", include_str!("../docs/record.md"), &[layout::COMPACT_RECORD, layout::REDUNDANT_RECORD]),
    (
        "lob.md",
        include_str!("../docs/lob.md"),
        &[
            layout::REFERENCE,
            layout::BLOB_PART,
            layout::LOB_FIRST,
            layout::LOB_ENTRY,
            layout::LOB_DATA_PAGE,
            layout::ZLOB_FIRST,
            layout::ZLOB_ENTRY,
        ],
    ),
    ("log-block.md", include_str!("../docs/log-block.md"), &[layout::LOG_BLOCK]),
    ("redo-mysql.md", include_str!("../docs/redo-mysql.md"), &[layout::MYSQL_LOG_HEADER, layout::MYSQL_CHECKPOINT]),
    (
        "redo-mariadb.md",
        include_str!("../docs/redo-mariadb.md"),
        &[layout::MARIADB_LOG_HEADER, layout::MARIADB_CHECKPOINT, layout::MARIADB_BLOCKS_CHECKPOINT],
    ),
];

/// The rows that begin with a name in code font: name, offset, size.
fn rows(map: &str) -> BTreeMap<&str, (usize, Option<usize>)> {
    let row = |line| -> Option<(&str, (usize, Option<usize>))> {
        let mut cells = str::strip_prefix(line, "| `")?.split('|').map(str::trim);
        let name = cells.next()?.trim_end_matches('`');
        Some((name, (cells.next()?.parse().ok()?, cells.next()?.parse().ok())))
    };
    map.lines().filter_map(row).collect()
}

#[test]
fn every_row_is_a_field_and_every_field_has_its_row() {
    for (file, map, structures) in MAPS {
        let fields = structures.iter().flat_map(|structure| structure.fields);
        let expected: BTreeMap<&str, _> =
            fields.map(|Field { name, offset, size }| (*name, (*offset, *size))).collect();
        assert!(!expected.is_empty());
        assert_eq!(rows(map), expected, "{file}");
    }
}

#[test]
fn fields_do_not_overlap() {
    for structure in MAPS.iter().flat_map(|(_, _, structures)| structures.iter()) {
        for pair in structure.fields.windows(2) {
            let [first, second] = pair else { continue };
            let end = first.offset + first.size.unwrap_or(0);
            assert!(end <= second.offset, "{}: {} and {}", structure.name, first.name, second.name);
        }
    }
}

#[test]
fn every_rule_of_index_pages_is_in_their_map() {
    let map = include_str!("../docs/index.md");
    let rows = map.lines().skip_while(|line| !line.starts_with("# Rules")).filter(|line| line.starts_with("| "));
    let documented: Vec<&str> = rows.skip(1).collect();
    let rules = IndexRule::ALL.iter().map(|rule| format!("| {} | {} |", rule.name(), rule.text()));
    assert_eq!(documented, rules.collect::<Vec<_>>());
}
