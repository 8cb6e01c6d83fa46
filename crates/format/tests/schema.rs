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
use innokit_format::schema::{
    ColumnDefault, FieldSource, Generated, GeometryKind, IndexKind, KeyOrder, SqlType, Visibility, builtin,
};
use innokit_format::show_create::{create_table, missing};

/// MariaDB 10.11: `nopk(a int, b varchar(10), c char(4) not null)`, latin1; `*N` stands for N zero bytes.
const FRM: &str = "fe010a0c120056000100e5010000100014*10 02080009000005*4 08*8 10000000ff8a010010*9 \
    101aab6ba4e5e011f1a00702fc000000018a*7 0200ff*9 ff*15 2020202000000600496e6e6f4442*6 5b015b01*254 \
    0300000019000000140008*9 5000160002*8 0b000200001b800000000308*5 0a0006000000800000000f08*5 \
    04001100000040000000fe080000ff61ff62ff63ff00";

/// MariaDB 10.11: an ENUM and a SET with a member that contains NUL.
const ENUM_NUL: &str = "fe010a0c150059000100dc030000f90107*10 02210008000005*4 08*8 f9010000d9b0010010*9 107ca0c603eb0011f1b01902fc*3 \
    0105010069020000010100000a*3 040001*3 01800200001b400400ff5052494d415259ff*473 ff*8 0600496e6e6f4442*6 73017301*254 \
    03*3 11*3 070009000200070017*3 5000160002*8 0b000200001b40*3 0308*5 02000600000891000001f708*5 \
    04000700000892000002f8080000ff6964ff61ff73ff00ff3631ff3632ff30303633ff00ff3738ff30303739ff00";

/// MariaDB 10.11: CREATE ... SELECT of a number with 81 digits.
const DECIMAL_81: &str = "fe010a0c16005a000100de050000e20336*10 02340009000005*7 09*5 e2030000d9b0010010*9 107bd288aceb0011f1ad4302fc*3 \
    010502000082040000020200000c*3 040001*3 01800100001b40040001001d0001*3 028005000003001d00ff5052494d415259ff6bff*947 \
    80*51 0600496e6e6f4442*6 5c015c01*254 03*3 71*3 360009*9 500016*10 0b000100001b40*3 0308*5 52000500000340*3 f6*6 \
    140022*3 400009000f*3 ff61ff6331ff7aff00";

/// MariaDB 10.11: `f1 tinyblob NOT NULL, d int, UNIQUE (f1(255)), KEY (d)` and no primary key.
const UNIQUE_TINYBLOB: &str = "fe010a0c16005a000100a2050000e2030d*10 022f0009000005*7 09*5 e2030000d9b0010010*9 107e38f0f9eb0011f1b5ae02fc*3 \
    0105020000590400000202000007002800ff0001*3 01800100000944ff*3 040001*3 02800a00001b400400ff6631ff64ff*963 \
    0600496e6e6f4442*6 49014901*254 02*3 13*3 0d0007*9 500016*10 08000100000944*3 f93f*5 0b000a00001b40*3 \
    03080000ff6631ff64ff00";

/// MySQL 5.6: PARTITION BY KEY (b) PARTITIONS 2.
const BY_KEY: &str = "fe010a140300001001000030000069010f*10 022a0009000005*4 08*8 69010000c0c500005a*5 0c00002f2f000020*4027 \
    010200000a0028000e0002*3 01800100001b000400028005*4 0a00ff5052494d415259ff*337 0900706172746974696f6e3c*3 \
    20504152544954494f4e204259204b4559202f2a21353036313120414c474f524954484d203d2032202a2f202862290a50415254495449 \
    4f4e53203200000b*3640 82010010*252 010002003a0015*3 0f0006*9 500016*7 \
    3a000302021429202020202020202020202020202020202020202020202020202020202020202020202020202020200004000261000500 \
    02620004020b0b000100001b*4 0308000005020a0a0005*7 0f080000ff61ff62ff00";

fn frm() -> Vec<u8> {
    unpacked(FRM)
}

fn unpacked(words: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in words.split_whitespace() {
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
fn members_in_hexadecimal_are_read_by_the_mark_of_their_column() {
    let table = from_frm(&unpacked(ENUM_NUL), false).unwrap();
    assert_eq!(table.columns[1].members, [b"a".to_vec(), b"b".to_vec(), b"\0c".to_vec()]);
    assert_eq!(table.columns[2].members, [b"x".to_vec(), b"\0y".to_vec()]);
}

#[test]
fn a_decimal_has_no_more_digits_than_the_servers_read() {
    let table = from_frm(&unpacked(DECIMAL_81), false).unwrap();
    assert_eq!(table.columns[1].sql_type, SqlType::Decimal { precision: 65, scale: 0 });
    assert!(create_table(&table).contains("decimal(65,0)"), "{}", create_table(&table));
}

#[test]
fn a_unique_key_over_all_that_a_tinyblob_holds_is_clustered() {
    let table = from_frm(&unpacked(UNIQUE_TINYBLOB), false).unwrap();
    let [index, _] = &table.indexes[..] else { unreachable!("two indexes") };
    assert_eq!((index.name.as_str(), index.kind), ("f1", IndexKind::Clustered));
    // The prefix is the key, and the whole column another field.
    let column = FieldSource::Column;
    let sources: Vec<FieldSource> = index.fields.iter().map(|field| field.source).collect();
    assert_eq!(sources, [column(0), FieldSource::TrxId, FieldSource::RollPtr, column(0), column(1)]);
}

#[test]
fn a_partitioning_by_key_is_no_comment_in_a_comment() {
    let table = from_frm(&unpacked(BY_KEY), false).unwrap();
    let text = create_table(&table);
    assert!(text.ends_with("\n/*!50100 PARTITION BY KEY (b)\nPARTITIONS 2 */"), "{text}");
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
fn dictionary_information_may_hold_any_byte() {
    // Each `~` becomes a byte that is not UTF-8.
    let json = r#"{"dd_object": {"name": "t", "columns": [
        {"name": "a", "type": 4, "hidden": 1, "default_option": "'~'"},
        {"name": "g", "type": 16, "hidden": 1, "is_virtual": true, "char_length": 9, "collation_id": 255,
         "generation_expression": "_latin1'~'", "generation_expression_utf8": "_latin1\\'U\\'"},
        {"name": "h", "type": 16, "hidden": 1, "is_virtual": true, "char_length": 9, "collation_id": 255,
         "generation_expression": "_utf8mb4'é'", "generation_expression_utf8": "_utf8mb4\\'Ã©\\'"}],
        "check_constraints": [{"name": "c", "check_clause": "J+kn", "check_clause_utf8": "\\'U\\'"}],
        "indexes": [{"name": "PRIMARY", "type": 1, "elements": [{"length": 4, "column_opx": 0}]}]}}"#;
    let with = |byte: u8| json.bytes().map(|old| if old == b'~' { byte } else { old }).collect::<Vec<u8>>();
    let table = from_sdi(&with(0xE9)).unwrap();
    assert_eq!(table.columns[0].default, ColumnDefault::Expression("'\u{e9}'".into()));
    assert_eq!(table.columns[1].generated.as_ref().unwrap().expression, "_latin1'U'");
    // The server reads what is UTF-8 already as the client's charset, and prints the other copy.
    assert_eq!(table.columns[2].generated.as_ref().unwrap().expression, "_utf8mb4'é'");
    assert_eq!(table.checks[0].expression, "'U'");
    for byte in 0x80..=0xFF {
        assert_eq!(from_sdi(&with(byte)).unwrap().columns.len(), 3, "{byte:x}");
    }
}

#[test]
fn a_fixed_length_of_zero_varies_to_the_server() {
    let json = br#"{"dd_object": {"name": "t", "columns": [
        {"name": "a", "type": 4, "hidden": 1},
        {"name": "b", "type": 29, "hidden": 1, "char_length": 0, "collation_id": 63},
        {"name": "c", "type": 29, "hidden": 1, "char_length": 0, "collation_id": 8},
        {"name": "d", "type": 29, "hidden": 1, "char_length": 1, "collation_id": 63}],
        "indexes": [{"name": "PRIMARY", "type": 1, "elements": [{"length": 4, "column_opx": 0}]}]}}"#;
    let table = from_sdi(json).unwrap();
    let storage: Vec<Storage> = table.indexes[0].layout.fields()[3..].iter().map(|field| field.storage).collect();
    let varies = Storage::Variable { big: false };
    assert_eq!(storage, [varies, varies, Storage::Fixed(1)]);
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
