//! The byte maps in `docs/` agree with the constants in the code.

extern crate format as innokit_format;

#[path = "../../format/tests/byte_maps/mod.rs"]
mod byte_maps;

use byte_maps::{Map, agree, do_not_overlap};
use innokit_redo::layout;

const MAPS: [Map; 3] = [
    ("log-block.md", include_str!("../docs/log-block.md"), &[layout::LOG_BLOCK]),
    ("redo-mysql.md", include_str!("../docs/redo-mysql.md"), &[layout::MYSQL_LOG_HEADER, layout::MYSQL_CHECKPOINT]),
    (
        "redo-mariadb.md",
        include_str!("../docs/redo-mariadb.md"),
        &[layout::MARIADB_LOG_HEADER, layout::MARIADB_CHECKPOINT, layout::MARIADB_BLOCKS_CHECKPOINT],
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
