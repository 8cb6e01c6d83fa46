//! Definitions of tables from arbitrary bytes (`.frm` files and dictionary information): no panic, and what is read can be printed.
#![no_main]

use format::schema::frm::from_frm;
use format::schema::sdi::from_sdi;
use format::show_create::{create_table, missing};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((kind, bytes)) = input.split_first() else { return };
    let table = match kind & 1 {
        0 => from_frm(bytes, kind & 2 != 0).ok(),
        _ => from_sdi(bytes).ok(),
    };
    let Some(table) = table else { return };
    assert!(create_table(&table).starts_with("CREATE TABLE `"));
    assert!(missing(&table).len() <= table.columns.len() + 3);
});
