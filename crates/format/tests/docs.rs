//! The byte maps in `docs/` agree with the constants in the code.

mod byte_maps;

use byte_maps::{Map, agree, do_not_overlap};
use innokit_format::layout;
use innokit_format::page::index::IndexRule;

const MAPS: [Map; 5] = [
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
];

#[test]
fn every_row_is_a_field_and_every_field_has_its_row() {
    agree(&MAPS);
}

#[test]
fn fields_do_not_overlap() {
    do_not_overlap(&MAPS);
}

#[test]
fn every_rule_of_index_pages_is_in_their_map() {
    let map = include_str!("../docs/index.md");
    let rows = map.lines().skip_while(|line| !line.starts_with("# Rules")).filter(|line| line.starts_with("| "));
    let documented: Vec<&str> = rows.skip(1).collect();
    let rules = IndexRule::ALL.iter().map(|rule| format!("| {} | {} |", rule.name(), rule.text()));
    assert_eq!(documented, rules.collect::<Vec<_>>());
}
