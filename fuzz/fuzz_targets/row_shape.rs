//! Sums of whole records of arbitrary tables on arbitrary pages: no panic, and the sum of a record taken apart.
#![no_main]

use format::Family;
use format::record::{Record, RecordFields, RecordStyle, Slot, Stored};
use format::schema::sql::from_sql;
use format::value::row_shape::RowShapes;
use format::value::row_sum::{Form, RowSum, Summed};
use libfuzzer_sys::fuzz_target;

/// Records tried on each page, at consecutive origins: the second and later ones meet shapes that are kept.
const RECORDS: u16 = 24;

fuzz_target!(|input: &[u8]| {
    let Some((&[flags, high, low], rest)) = input.split_first_chunk() else { return };
    let Some(end) = rest.iter().position(|byte| *byte == 0) else { return };
    let (sql, page) = rest.split_at(end);
    let Ok(sql) = std::str::from_utf8(sql) else { return };
    let family = if flags & 1 == 0 { Family::MySql } else { Family::MariaDb };
    let Ok(read) = from_sql(sql, family, ("test", "t")) else { return };
    let Ok(mut sum) = RowSum::new(&read.table) else { return };
    let Some(index) = read.table.indexes.first() else { return };
    let field = |column| index.field_of(column).map(|field| field as u16);
    let Some(fields) = sum.columns().map(field).collect::<Option<Vec<u16>>>() else { return };
    let Some(mut shapes) = RowShapes::new(&sum, &index.layout, &fields) else { return };
    let first = u16::from_be_bytes([high, low]);
    for origin in first..first.saturating_add(RECORDS) {
        let Some(record) = Record::new(page, origin, RecordStyle::Compact, true) else { return };
        let Some(found) = shapes.row(&record, page.len()) else { continue };
        let mut located = RecordFields::new();
        assert!(index.layout.locate(&record, &mut located).is_ok() && located.end() <= page.len());
        let value = |number: usize| match located.slots()[usize::from(fields[number])] {
            Slot { stored: Stored::Null, .. } => Summed::Null,
            slot => Summed::Stored(&page[slot.start as usize..(slot.start + slot.len) as usize]),
        };
        assert_eq!(Ok(found), sum.row(Form::All, value));
    }
});
