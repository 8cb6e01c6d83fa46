//! Finding the fields of arbitrary records by arbitrary layouts: no panic, and no field that leaves the page.
#![no_main]

use format::record::{FieldLayout, Instant, Layout, Record, RecordFields, RecordStyle, Storage};
use format::schema::frm::from_frm;
use format::schema::sdi::from_sdi;
use libfuzzer_sys::fuzz_target;

fn field(byte: u8) -> FieldLayout {
    let storage = match byte & 3 {
        0 => Storage::Variable { big: false },
        1 => Storage::Variable { big: true },
        _ => Storage::Fixed(u16::from(byte >> 3)),
    };
    let versions = byte >> 6;
    let (added, dropped) = (u16::from(versions & 1), (versions & 2 != 0).then_some(3));
    FieldLayout { added, dropped, ..FieldLayout::new(storage, byte & 4 != 0) }
}

fuzz_target!(|input: &[u8]| {
    let Some((&[how, count, high, low, key], rest)) = input.split_first_chunk() else { return };
    drop(from_frm(rest, how & 1 != 0));
    drop(from_sdi(rest));
    let Some((described, page)) = rest.split_at_checked(usize::from(count)) else { return };
    let fields: Vec<FieldLayout> = described.iter().copied().map(field).collect();
    let core = u16::from(key >> 4);
    let instant = match how >> 2 & 3 {
        0 => Instant::None,
        1 => Instant::MySql { core: None },
        2 => Instant::MySql { core: Some(core) },
        _ => Instant::MariaDb { core, has_map: how & 16 != 0 },
    };
    let trx_id = (how & 32 != 0).then_some(usize::from(key & 3));
    let layout = Layout::new(fields, usize::from(key & 15), trx_id, instant);
    let style = if how & 1 == 0 { RecordStyle::Compact } else { RecordStyle::Redundant };
    let Some(record) = Record::new(page, u16::from_be_bytes([high, low]), style, how & 2 != 0) else { return };
    let mut located = RecordFields::new();
    if layout.locate(&record, &mut located).is_ok() {
        assert!(located.start() <= usize::from(record.origin()) && located.end() <= page.len());
        for number in 0..located.slots().len() {
            let _ = located.bytes(page, number);
        }
        assert!(located.references(page).all(|(_, reference)| reference.len() == 20));
    }
});
