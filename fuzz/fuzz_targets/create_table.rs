//! Definitions of tables from arbitrary SQL text: no panic, and what is read can be printed, and its rows be laid out and summed.
#![no_main]

use format::Family;
use format::show_create::create_table;
use format::schema::sql::from_sql;
use format::value::ValueType;
use format::value::row_sum::RowSum;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((flags, sql)) = input.split_first() else { return };
    let Ok(sql) = std::str::from_utf8(sql) else { return };
    let family = if flags & 1 == 0 { Family::MySql } else { Family::MariaDb };
    let Ok(read) = from_sql(sql, family, ("test", "t")) else { return };
    assert!(sql.contains(&read.statement), "the statement is not of the text");
    assert!(create_table(&read.table).starts_with("CREATE TABLE `"));
    for column in &read.table.columns {
        let _ = ValueType::of(column).decode(&[0x80; 8]);
    }
    drop(RowSum::new(&read.table));
});
