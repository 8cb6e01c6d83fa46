//! Table definitions: a whole `.frm` file that a server wrote, and the order of keys.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use std::cmp::Ordering;

use common::hex;
use innokit_format::Family;
use innokit_format::record::Storage;
use innokit_format::schema::collations::Collation;
use innokit_format::schema::frm::{FrmError, from_frm};
use innokit_format::schema::sdi::from_sdi;
use innokit_format::schema::show_create::{create_table, missing};
use innokit_format::schema::{
    ColumnDefault, FieldSource, Generated, GeometryKind, IndexKind, KeyOrder, SqlType, Visibility, builtin,
};

/// MariaDB 10.11: `nopk(a int, b varchar(10), c char(4) not null)`, latin1; `*N` stands for N zero bytes.
const FRM: &str = "fe010a0c120056000100e5010000100014*10 02080009000005*4 08*8 10000000ff8a010010*9 \
    101aab6ba4e5e011f1a00702fc000000018a*7 0200ff*9 ff*15 2020202000000600496e6e6f4442*6 5b015b01*254 \
    0300000019000000140008*9 5000160002*8 0b000200001b800000000308*5 0a0006000000800000000f08*5 \
    04001100000040000000fe080000ff61ff62ff63ff00";

fn frm() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in FRM.split_whitespace() {
        let (digits, zeros) = word.split_once('*').unwrap_or((word, "0"));
        bytes.extend(hex(digits));
        bytes.resize(bytes.len() + zeros.parse::<usize>().unwrap(), 0);
    }
    bytes
}

#[test]
fn a_frm_tells_columns_and_the_fields_of_the_rows() {
    let table = from_frm(&frm(), false).unwrap();
    assert_eq!((table.family, table.style), (Family::MariaDb, None));
    let columns: Vec<_> =
        table.columns.iter().map(|c| (c.name.as_str(), c.sql_type, c.collation, c.nullable)).collect();
    let int = SqlType::Int { bytes: 4, unsigned: false };
    assert_eq!(
        columns,
        [("a", int, 63, true), ("b", SqlType::Varchar(10), 8, true), ("c", SqlType::Char(4), 8, false)]
    );
    let [index] = &table.indexes[..] else { unreachable!("one index") };
    assert_eq!((index.name.as_str(), index.kind, index.root), ("GEN_CLUST_INDEX", IndexKind::Clustered, None));
    let sources: Vec<FieldSource> = index.fields.iter().map(|field| field.source).collect();
    let column = FieldSource::Column;
    assert_eq!(
        sources,
        [FieldSource::RowId, FieldSource::TrxId, FieldSource::RollPtr, column(0), column(1), column(2)]
    );
    let storage: Vec<Storage> = index.layout.fields().iter().map(|field| field.storage).collect();
    assert_eq!(storage[3..], [Storage::Fixed(4), Storage::Variable { big: false }, Storage::Fixed(4)]);
}

#[test]
fn a_frm_tells_what_a_row_gets_that_names_no_value() {
    let table = from_frm(&frm(), false).unwrap();
    assert_eq!((table.server_version, table.collation, table.pack_record), (101_119, 8, true));
    let columns: Vec<_> =
        table.columns.iter().map(|c| (c.ordinal, c.width, c.default.clone(), c.default_image.len())).collect();
    // An INT, a VARCHAR with its length before it, a CHAR.
    let expected = [(1, 11, ColumnDefault::Null, 4), (2, 10, ColumnDefault::Null, 11), (3, 4, ColumnDefault::None, 4)];
    assert_eq!(columns, expected);
    assert_eq!(table.columns[2].default_image, b"    ");
}

#[test]
fn the_dictionary_information_tells_how_values_are_to_be_read() {
    let json = br#"{"dd_object": {"name": "t", "schema_ref": "s", "mysql_version_id": 90704, "collation_id": 255,
        "options": "avg_row_length=0;pack_record=1;", "row_format": 2, "columns": [
        {"name": "e", "type": 22, "is_nullable": true, "hidden": 1, "ordinal_position": 1, "char_length": 20,
         "default_value": "AQ==", "default_value_utf8_null": false, "default_value_utf8": "red",
         "elements": [{"name": "cmVk", "index": 1}, {"name": "5A==", "index": 2}], "collation_id": 8},
        {"name": "g", "type": 30, "hidden": 1, "ordinal_position": 2, "has_no_default": true, "srs_id_null": false,
         "srs_id": 4326, "options": "geom_type=1;", "collation_id": 63},
        {"name": "v", "type": 32, "hidden": 1, "ordinal_position": 3, "is_nullable": true, "char_length": 12,
         "is_virtual": true, "generation_expression_utf8": "f(1)", "collation_id": 63},
        {"name": "k", "type": 9, "hidden": 3, "ordinal_position": 4, "is_nullable": true, "is_unsigned": true,
         "is_zerofill": true, "char_length": 20, "is_virtual": true, "options": "is_array=1;", "collation_id": 63,
         "default_option": "CURRENT_TIMESTAMP(3)", "update_option": "CURRENT_TIMESTAMP(3)"}],
        "indexes": [{"name": "PRIMARY", "type": 1, "elements": [{"length": 1, "column_opx": 0}]}]}}"#;
    let table = from_sdi(json).unwrap();
    assert_eq!((table.server_version, table.collation, table.pack_record), (90704, 255, true));
    let [members, point, vector, array] = &table.columns[..] else { unreachable!("four columns") };
    assert_eq!(members.members, [b"red".to_vec(), vec![0xE4]]);
    assert_eq!((members.default.clone(), &members.default_image[..]), (ColumnDefault::Literal("red".into()), &[1][..]));
    assert_eq!((point.sql_type, point.srid), (SqlType::Geometry(GeometryKind::Point), Some(4326)));
    assert_eq!(point.default, ColumnDefault::None);
    assert_eq!((vector.sql_type, vector.default.clone()), (SqlType::Vector(3), ColumnDefault::Null));
    assert_eq!(vector.generated, Some(Generated { stored: false, expression: "f(1)".into() }));
    assert_eq!((array.visibility, array.is_array), (Visibility::Functional, true));
    assert_eq!((array.unsigned, array.zerofill, array.on_update_now), (true, true, true));
    assert_eq!(array.default, ColumnDefault::Expression("CURRENT_TIMESTAMP(3)".into()));
}

#[test]
fn a_definition_is_printed_as_the_server_prints_it() {
    let mut table = from_frm(&frm(), false).unwrap();
    table.name = "no`pk".into();
    let expected = "CREATE TABLE `no``pk` (\n  `a` int(11) DEFAULT NULL,\n  `b` varchar(10) DEFAULT NULL,\n  \
        `c` char(4) NOT NULL\n) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci";
    assert_eq!(create_table(&table), expected);
    assert_eq!(missing(&table), ["foreign keys: a .frm file holds none, and ibdata1 could not be read"]);
}

#[test]
fn collations_have_one_name_and_one_number_each() {
    let mut named = 0;
    for number in 1..4096 {
        let Some(collation) = Collation::of(number, Family::MariaDb) else { continue };
        assert_eq!(Collation::number(&collation.name, Family::MariaDb), Some(number), "{}", collation.name);
        named += 1;
    }
    assert!(named > 1300, "{named}");
    assert_eq!(Collation::of(213, Family::MariaDb).unwrap().name, "utf8mb3_croatian_mysql561_ci");
    assert_eq!(Collation::number("utf8mb3_croatian_ci", Family::MySql), Some(213));
    assert_eq!(Collation::default_of("UTF8"), Some(33));
    assert_eq!(Collation::of(2304, Family::MariaDb).unwrap().charset(), "utf8mb4");
}

#[test]
fn a_hidden_number_of_rows_is_added_where_the_dictionary_names_its_index() {
    let table = from_frm(&frm(), true).unwrap();
    let names: Vec<&str> = table.indexes.iter().map(|index| index.name.as_str()).collect();
    assert_eq!(names, ["GEN_CLUST_INDEX", "FTS_DOC_ID_INDEX"]);
    assert_eq!(table.indexes[0].fields.len(), 7);
}

#[test]
fn a_frm_that_is_cut_or_bent_is_no_panic() {
    let sound = frm();
    for len in 0..sound.len() {
        let cut = from_frm(&sound[..len], true);
        assert!(len > 440 || cut.is_err(), "{len} bytes");
    }
    assert_eq!(from_frm(b"TYPE=VIEW\n", false), Err(FrmError::NotATable));
    for at in 0..sound.len() {
        for byte in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut bent = sound.clone();
            bent[at] = byte;
            // Any result is fine, as long as it is bounded and nothing panics.
            if let Ok(table) = from_frm(&bent, byte & 1 == 0) {
                assert!(create_table(&table).starts_with("CREATE TABLE"));
            }
        }
    }
}

#[test]
fn the_fields_of_the_dictionary_information() {
    let index = builtin::sdi().unwrap();
    assert_eq!((index.fields.len(), index.layout.key_fields(), index.layout.trx_id()), (7, 2, Some(2)));
}

/// Collation, two values, and their order.
type Case<'v> = (KeyOrder, &'v [u8], &'v [u8], Option<Ordering>);

#[test]
fn keys_are_in_the_order_of_their_server_or_in_none() {
    use KeyOrder::{AsciiNoCase, Bytes, Double, Float, PaddedBytes, Uca0900Letters, Unknown};
    use Ordering::{Equal, Greater, Less};
    let cases: &[Case<'_>] = &[
        (Bytes, b"\x7f\xff\xff\xff", b"\x80\0\0\0", Some(Less)),
        (Bytes, b"a", b"a\0", Some(Less)),
        (PaddedBytes, b"a", b"a ", Some(Equal)),
        (PaddedBytes, b"a", b"a\t", Some(Greater)),
        (PaddedBytes, b"a", b"B", Some(Greater)),
        (AsciiNoCase, b"abc", b"ABC  ", Some(Equal)),
        (AsciiNoCase, b"a_", b"ab", Some(Greater)),
        (AsciiNoCase, b"ab\xc3", b"b", Some(Less)),
        (AsciiNoCase, b"a\xc3\xa4", b"ab", None),
        (AsciiNoCase, b"a\xc3\xa4", b"a\xc3\xa4", Some(Equal)),
        (Uca0900Letters, b"a", b"a ", Some(Less)),
        (Uca0900Letters, b"Zoo", b"zoo", Some(Equal)),
        (Uca0900Letters, b"a-b", b"ab", None),
        (Uca0900Letters, b"9", b"A", Some(Less)),
        (Float, &[0, 0, 0xC0, 0xBF], &[0, 0, 0xC0, 0x3F], Some(Less)),
        (Double, &[0, 0, 0, 0, 0, 0, 0xF0, 0x3F], &[0, 0, 0, 0, 0, 0, 0, 0x80], Some(Greater)),
        (Float, &[0, 0], &[0, 0, 0xC0, 0x3F], None),
        (Unknown, b"a", b"b", None),
        (Unknown, b"a", b"a", Some(Equal)),
    ];
    for (order, a, b, expected) in cases {
        assert_eq!(order.compare(a, b), *expected, "{order:?} {a:x?} {b:x?}");
        assert_eq!(order.compare(b, a), expected.map(Ordering::reverse), "{order:?} {b:x?} {a:x?}");
    }
}
