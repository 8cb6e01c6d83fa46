//! Compares byte maps in Markdown with the field tables in the code. `redo` includes this too.
#![allow(clippy::panic, reason = "helpers of tests fail tests")]

use std::collections::BTreeMap;

use innokit_format::layout::{Field, Structure};

/// A map: its file name, its text, and the structures that it describes.
pub type Map = (&'static str, &'static str, &'static [Structure]);

/// The rows that begin with a name in code font: name, offset, size.
fn rows(map: &str) -> BTreeMap<&str, (usize, Option<usize>)> {
    let row = |line| -> Option<(&str, (usize, Option<usize>))> {
        let mut cells = str::strip_prefix(line, "| `")?.split('|').map(str::trim);
        let name = cells.next()?.trim_end_matches('`');
        Some((name, (cells.next()?.parse().ok()?, cells.next()?.parse().ok())))
    };
    map.lines().filter_map(row).collect()
}

/// Every row is a field, and every field has a row.
pub fn agree(maps: &[Map]) {
    for (file, map, structures) in maps {
        let fields = structures.iter().flat_map(|structure| structure.fields);
        let expected: BTreeMap<&str, _> =
            fields.map(|Field { name, offset, size }| (*name, (*offset, *size))).collect();
        assert!(!expected.is_empty());
        assert_eq!(rows(map), expected, "{file}");
    }
}

/// No field overlaps the next.
pub fn do_not_overlap(maps: &[Map]) {
    for structure in maps.iter().flat_map(|(_, _, structures)| structures.iter()) {
        for pair in structure.fields.windows(2) {
            let [first, second] = pair else { continue };
            let end = first.offset + first.size.unwrap_or(0);
            assert!(end <= second.offset, "{}: {} and {}", structure.name, first.name, second.name);
        }
    }
}
