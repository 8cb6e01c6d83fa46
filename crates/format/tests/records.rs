//! Records of real servers, byte for byte: where their fields are, in every format and after every kind of instant ALTER.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use common::hex;
use innokit_format::page::index::IndexRule;
use innokit_format::record::{
    FieldLayout, Instant, Layout, Record, RecordFields, RecordStyle, Status, Storage, Stored, redundant,
};
use innokit_format::schema::{IndexDef, sdi};

const ORIGIN: usize = 1000;

/// A page with one record on it: the bytes below the origin, and those above.
fn page(header: &str, data: &str) -> Vec<u8> {
    let (header, data) = (hex(&header.replace([' ', '|'], "")), hex(&data.replace(' ', "")));
    let mut page = vec![0; 4096];
    page[ORIGIN - header.len()..ORIGIN].copy_from_slice(&header);
    page[ORIGIN..ORIGIN + data.len()].copy_from_slice(&data);
    page
}

/// The fields as hexadecimal text, `NULL`, or `-` if the record lacks the field.
fn texts(page: &[u8], fields: &RecordFields) -> Vec<String> {
    let bytes = |number| fields.bytes(page, number).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    let slots = fields.slots().iter().enumerate();
    slots
        .map(|(number, slot)| match slot.stored {
            Stored::Inline => bytes(number),
            Stored::Extern => format!("{}...", bytes(number)),
            Stored::Null => "NULL".to_owned(),
            Stored::Missing => "-".to_owned(),
        })
        .collect()
}

fn compact(page: &[u8]) -> Record<'_> {
    Record::new(page, ORIGIN as u16, RecordStyle::Compact, true).unwrap()
}

fn located(index: &IndexDef, header: &str, data: &str) -> Vec<String> {
    let page = page(header, data);
    let mut fields = RecordFields::new();
    index.layout.locate(&compact(&page), &mut fields).unwrap();
    assert_eq!(fields.size(), header.replace([' ', '|'], "").len() / 2 + data.replace(' ', "").len() / 2);
    texts(&page, &fields)
}

fn column(name: &str, kind: u8, nullable: bool, len: u32, private: &str) -> String {
    format!(
        r#"{{"name": "{name}", "type": {kind}, "is_nullable": {nullable}, "char_length": {len}, "hidden": 1,
        "collation_id": 255, "se_private_data": "{private}", "elements": []}}"#
    )
}

fn key(name: &str, kind: u32, columns: &[usize]) -> String {
    let element = |at: &usize| format!(r#"{{"length": 4000, "order": 2, "hidden": false, "column_opx": {at}}}"#);
    let elements: Vec<String> = columns.iter().map(element).collect();
    format!(
        r#"{{"name": "{name}", "type": {kind}, "hidden": false, "se_private_data": "id=9;root=4;", "elements": [{}]}}"#,
        elements.join(", ")
    )
}

fn table(private: &str, columns: &[String], keys: &[String]) -> Vec<IndexDef> {
    let json = format!(
        r#"{{"dd_object": {{"name": "t", "row_format": 2, "se_private_data": "{private}", "columns": [{}], "indexes": [{}]}}}}"#,
        columns.join(", "),
        keys.join(", ")
    );
    sdi::from_sdi(json.as_bytes()).unwrap().indexes
}

const INT: u8 = 4;
const VARCHAR: u8 = 16;
const CHAR: u8 = 29;

#[test]
fn fields_of_a_table_without_a_key() {
    let columns =
        [column("a", INT, true, 11, ""), column("b", VARCHAR, true, 40, ""), column("c", CHAR, false, 16, "")];
    let hidden = r#"{"name": "PRIMARY", "type": 1, "hidden": true, "se_private_data": "id=9;root=4;", "elements": []}"#;
    let index = &table("", &columns, &[hidden.to_owned()])[0];
    let full =
        located(index, "04 01 | 00 | 00 0010 0023", "000000000200 00000000065a 81000000950110 80000001 61 78202020");
    assert_eq!(full, ["000000000200", "00000000065a", "81000000950110", "80000001", "61", "78202020"]);
    let nulls = located(index, "04 | 03 | 00 0020 001f", "000000000202 00000000065a 8100000095012e 7a202020");
    assert_eq!(nulls, ["000000000202", "00000000065a", "8100000095012e", "NULL", "NULL", "7a202020"]);
}

#[test]
fn an_entry_of_a_secondary_index_ends_with_the_key_of_the_row() {
    let columns =
        [column("a", INT, true, 11, ""), column("b", VARCHAR, true, 40, ""), column("c", CHAR, false, 16, "")];
    let indexes = table("", &columns, &[key("PRIMARY", 1, &[2]), key("ab", 2, &[0, 1])]);
    let fields = located(&indexes[1], "04 01 | 00 | 00 0010 0011", "80000001 61 78202020");
    assert_eq!(fields, ["80000001", "61", "78202020"]);
}

#[test]
fn a_node_pointer_has_the_null_bitmap_of_the_rows_and_the_page_below() {
    let columns = [column("id", INT, false, 11, ""), column("a", INT, true, 11, "")];
    let index = &table("", &columns, &[key("PRIMARY", 1, &[0])])[0];
    let page = page("00 | 10 0011 000e", "80000001 00000009");
    let record = compact(&page);
    let mut fields = RecordFields::new();
    index.layout.locate(&record, &mut fields).unwrap();
    assert_eq!((record.status(), record.heap_no(), record.is_min_rec()), (Status::NodePointer, 2, true));
    assert_eq!((texts(&page, &fields), fields.child().unwrap().0), (vec!["80000001".to_owned()], 9));
    assert_eq!((fields.start(), fields.end(), record.next_origin()), (ORIGIN - 6, ORIGIN + 8, 1014));
}

#[test]
fn a_row_with_a_count_of_fields_has_these_and_one_without_has_the_first() {
    let columns = [
        column("id", INT, false, 11, ""),
        column("a", INT, true, 11, ""),
        column("c", VARCHAR, true, 40, "default_null=1;"),
    ];
    let index = &table("instant_col=2;", &columns, &[key("PRIMARY", 1, &[0])])[0];
    assert_eq!(index.layout.instant(), Instant::MySql { core: Some(4) });
    let new = located(index, "01 | 00 | 05 | 80 0018 ffd5", "80000002 00000000092a 82000001120110 80000002 78");
    assert_eq!(new, ["80000002", "00000000092a", "82000001120110", "80000002", "78"]);
    let old = located(index, "00 | 00 0018 ffd5", "80000002 00000000092a 82000001120110 80000002");
    assert_eq!(old, ["80000002", "00000000092a", "82000001120110", "80000002", "-"]);
}

/// (id, a dropped by version 3, b, c from 1 to 5, d from 2 to 5, e and f from 4 on).
fn versioned() -> IndexDef {
    let columns = [
        column("id", INT, false, 11, "physical_pos=0;"),
        column("a", INT, true, 11, "physical_pos=3;version_dropped=3;"),
        column("b", VARCHAR, true, 40, "physical_pos=4;"),
        column("c", INT, true, 11, "physical_pos=5;version_added=1;version_dropped=5;"),
        column("d", VARCHAR, true, 40, "physical_pos=6;version_added=2;version_dropped=5;"),
        column("e", VARCHAR, true, 40, "physical_pos=7;version_added=4;"),
        column("f", VARCHAR, true, 40, "physical_pos=8;version_added=4;"),
    ];
    table("", &columns, &[key("PRIMARY", 1, &[0])]).remove(0)
}

#[test]
fn a_row_has_the_fields_of_its_version() {
    let index = versioned();
    let second = located(
        &index,
        "02 03 | 00 | 02 | 40 0038 0027",
        "80000006 0000000007f2 82000000b00110 80000006 736978 80000042 6464",
    );
    assert_eq!(
        second,
        ["80000006", "0000000007f2", "82000000b00110", "80000006", "736978", "80000042", "6464", "-", "-"]
    );
    let fifth = located(
        &index,
        "05 03 06 | 00 | 05 | 40 0060 fe81",
        "80000006 0000000007f2 82000000b00110 736978736978 656565 6666666666",
    );
    assert_eq!(
        fifth,
        ["80000006", "0000000007f2", "82000000b00110", "-", "736978736978", "-", "-", "656565", "6666666666"]
    );
    let first = located(&index, "03 | 00 | 00 0038 0027", "80000006 0000000007f2 82000000b00110 80000006 736978");
    assert_eq!(first[3..], ["80000006", "736978", "-", "-", "-", "-"]);
}

#[test]
fn a_row_of_mariadb_with_a_count_of_fields_of_its_own() {
    let columns = [
        column("id", INT, false, 11, ""),
        column("a", INT, true, 11, ""),
        column("b", VARCHAR, true, 40, ""),
        column("c", INT, true, 11, ""),
    ];
    let index = table("", &columns, &[key("PRIMARY", 1, &[0])]).remove(0);
    let index = index.altered(Instant::MariaDb { core: 5, has_map: false });
    let row = "80000004 000000000171 b50000013a0110 80000004 666f7572";
    let new = located(&index, "04 | 00 | 00 | 00 0034 004a", &format!("{row} 8000002c"));
    assert_eq!(new[3..], ["80000004", "666f7572", "8000002c"]);
    let old = located(&index, "04 | 00 | 00 0030 004a", row);
    assert_eq!(old[3..], ["80000004", "666f7572", "-"]);
}

#[test]
fn redundant_records_tell_their_fields_themselves() {
    let nulls = page("95 95 11 0a 04 | 00 0020 0b 011a", "80000003 000000000823 81000000c0012a 00000000");
    let record = Record::new(&nulls, ORIGIN as u16, RecordStyle::Redundant, true).unwrap();
    let mut fields = RecordFields::new();
    redundant::locate_stored(&record, &mut fields).unwrap();
    assert_eq!((redundant::field_count(&record), record.heap_no(), record.next_origin()), (5, 4, 0x11A));
    assert_eq!(texts(&nulls, &fields), ["80000003", "000000000823", "81000000c0012a", "NULL", "NULL"]);
    let lens: Vec<u32> = fields.slots().iter().map(|slot| slot.len).collect();
    assert_eq!(lens, [4, 6, 7, 4, 0]);
}

#[test]
fn a_redundant_row_has_the_fields_of_its_version_too() {
    let columns = [
        column("id", INT, false, 11, "physical_pos=0;"),
        column("a", INT, true, 11, "physical_pos=3;version_dropped=2;"),
        column("b", VARCHAR, true, 40, "physical_pos=4;"),
        column("c", INT, true, 11, "physical_pos=5;version_added=1;"),
    ];
    let index = table("", &columns, &[key("PRIMARY", 1, &[0])]).remove(0);
    let page =
        page("1a 16 11 0a 04 | 02 | 40 0038 0b 0169", "80000007 000000000839 81000000c60110 736576656e 8000004d");
    let record = Record::new(&page, ORIGIN as u16, RecordStyle::Redundant, true).unwrap();
    let mut fields = RecordFields::new();
    index.layout.locate(&record, &mut fields).unwrap();
    assert_eq!(texts(&page, &fields)[3..], ["-", "736576656e", "8000004d"]);
}

#[test]
fn no_bytes_of_a_header_lead_out_of_the_page() {
    let (index, mut fields) = (versioned(), RecordFields::new());
    let mut page = vec![0xFF; 4096];
    for origin in [6_u16, 7, 20, 100, 4000, 4095, 4096] {
        for byte in 0..=255_u8 {
            page[..usize::from(origin)].fill(byte);
            for (style, leaf) in
                [(RecordStyle::Compact, true), (RecordStyle::Redundant, true), (RecordStyle::Redundant, false)]
            {
                let record = Record::new(&page, origin, style, leaf).unwrap();
                if index.layout.locate(&record, &mut fields).is_ok() {
                    assert!(fields.end() <= page.len() && fields.start() <= usize::from(origin));
                }
            }
        }
    }
}

/// Found by fuzzing: the metadata record of MariaDB has 20 bytes after its system columns that belong to no field.
#[test]
fn a_metadata_record_whose_last_bytes_lie_behind_the_page_is_refused() {
    let fields = vec![FieldLayout::new(Storage::Variable { big: false }, false); 3];
    let layout = Layout::new(fields, 0, Some(0), Instant::MariaDb { core: 1, has_map: false });
    let page = [0, 0, 0xFA, 0xF0, 0xDC, 8, 5];
    let record = Record::new(&page, 7, RecordStyle::Compact, true).expect("an origin on the page");
    let finding = layout.locate(&record, &mut RecordFields::new()).expect_err("20 bytes are missing");
    assert_eq!((finding.rule, finding.found, finding.expected), (IndexRule::RecordEnd, 27, 7));
}
