//! Table definitions: the complete `.frm` of the format facts, and the order of keys.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use std::cmp::Ordering;

use common::hex;
use innokit_format::Family;
use innokit_format::record::Storage;
use innokit_format::schema::frm::{FrmError, from_frm};
use innokit_format::schema::{FieldSource, IndexKind, KeyOrder, SqlType, builtin};

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
            // Whatever comes out: it was bounded, and nothing broke.
            drop(from_frm(&bent, byte & 1 == 0));
        }
    }
}

#[test]
fn the_fields_of_the_dictionary_information() {
    let index = builtin::sdi().unwrap();
    assert_eq!((index.fields.len(), index.layout.key_fields(), index.layout.trx_id()), (7, 2, Some(2)));
}

/// How to compare, two values, and their order.
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
