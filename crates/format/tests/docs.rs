//! The byte maps in `docs/` and the constants of the code say the same.

use std::collections::BTreeMap;

use innokit_format::layout::{self, Field, Structure};

const MAPS: [(&str, &str, &[Structure]); 5] = [
    ("page.md", include_str!("../docs/page.md"), &[layout::FIL_HEADER]),
    (
        "fsp.md",
        include_str!("../docs/fsp.md"),
        &[layout::SPACE_HEADER, layout::EXTENT_DESCRIPTOR, layout::SEGMENT_INODE],
    ),
    ("log-block.md", include_str!("../docs/log-block.md"), &[layout::LOG_BLOCK]),
    ("redo-mysql.md", include_str!("../docs/redo-mysql.md"), &[layout::MYSQL_LOG_HEADER, layout::MYSQL_CHECKPOINT]),
    (
        "redo-mariadb.md",
        include_str!("../docs/redo-mariadb.md"),
        &[layout::MARIADB_LOG_HEADER, layout::MARIADB_CHECKPOINT],
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
