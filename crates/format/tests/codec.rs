//! Opening pages gives what the format notes and the servers say, and never anything else.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

#[path = "codec/build.rs"]
mod build;
#[path = "codec/compressed.rs"]
mod compressed;
#[path = "codec/keys.rs"]
mod keys;
#[path = "codec/robust.rs"]
mod robust;
#[path = "codec/sealed.rs"]
mod sealed;
#[path = "codec/vectors.rs"]
mod vectors;

use build::{COMPRESSIONS, KEY, Mode, content, cut, mariadb_classic, mariadb_full, mysql};
use innokit_format::codec::{
    CodecError, Compression, Context, CryptData, CryptMode, ErrorKind, MariaDbLayout, Scratch, SpaceKeys,
    TablespaceKey, open_page,
};
use innokit_format::keyring::{KeyStore, Secret};
use innokit_format::types::PageId;
use proptest::prelude::*;

const ID: PageId = PageId::new(5, 4);
const FULL: MariaDbLayout = MariaDbLayout::FullCrc32 { compression: None };

fn tablespace_key() -> TablespaceKey {
    TablespaceKey::new(&KEY, &std::array::from_fn(|i| 0x20 + i as u8))
}

fn crypt_data() -> CryptData {
    CryptData { scheme: 1, iv: build::IV, min_key_version: 1, key_id: 7, mode: CryptMode::On }
}

/// The page keys for version 3 of key 7, being `key`.
fn space_keys(key: &[u8]) -> SpaceKeys {
    let mut store = KeyStore::new();
    store.insert_numbered(7, 3, Secret::new(key.to_vec()));
    crypt_data().unlock(&store).unwrap()
}

fn mariadb<'k>(layout: MariaDbLayout, keys: &'k SpaceKeys) -> Context<'k> {
    Context::MariaDb { layout, encrypted: true, keys: Some(keys) }
}

/// Asserts that both pages have the same bytes, except for those that the inner page does not have. (Pages are too long to print.)
#[track_caller]
fn assert_same(opened: &[u8], original: &[u8], except: std::ops::Range<usize>) {
    assert_eq!(opened.len(), original.len());
    let differs = |&at: &usize| !except.contains(&at) && opened[at] != original[at];
    assert_eq!((0..opened.len()).find(differs), None, "first byte that differs");
}

#[test]
fn page_that_needs_no_step_comes_back_as_it_is() {
    let mut page = content(4096, 1, 50);
    page[..4].fill(0);
    let mut scratch = Scratch::new();
    let keys = space_keys(&KEY);
    for context in [Context::MySql { key: None }, mariadb(FULL, &keys), mariadb(MariaDbLayout::Zip, &keys)] {
        let opened = open_page(&page, ID, &context, &mut scratch).unwrap();
        assert_eq!((opened.page.as_ptr(), opened.decrypted, opened.inflated), (page.as_ptr(), false, None));
    }
}

#[test]
fn rtree_page_of_the_older_mariadb_layout_is_taken_for_plain_although_its_sequence_number_looks_like_a_key_version() {
    let mut page = content(4096, 1, 50);
    page[24..26].copy_from_slice(&17854_u16.to_be_bytes());
    page[26..34].copy_from_slice(&9_u64.to_be_bytes().map(|byte| byte | 1));
    let keys = space_keys(&KEY);
    let mut scratch = Scratch::new();
    let opened = open_page(&page, ID, &mariadb(MariaDbLayout::Classic, &keys), &mut scratch).unwrap();
    assert!(!opened.decrypted);
}

#[test]
fn left_over_bytes_in_the_place_of_the_key_version_mean_nothing_without_crypt_data() {
    let mut page = content(4096, 1, 50);
    page[26..30].copy_from_slice(&77_u32.to_be_bytes());
    let context = Context::MariaDb { layout: MariaDbLayout::Classic, encrypted: false, keys: None };
    assert!(!open_page(&page, ID, &context, &mut Scratch::new()).unwrap().decrypted);
}

#[test]
fn missing_key_is_told_from_damage() {
    let page = mysql(&content(4096, 1, 50), None, Some(2));
    let error = open_page(&page, ID, &Context::MySql { key: None }, &mut Scratch::new()).unwrap_err();
    assert_eq!((error, error.kind()), (CodecError::NoKey, ErrorKind::NoKey));

    let page = mariadb_full(&content(4096, 1, 50), None, Some((Mode::Cbc, 3)));
    let context = Context::MariaDb { layout: FULL, encrypted: true, keys: None };
    assert_eq!(open_page(&page, ID, &context, &mut Scratch::new()), Err(CodecError::NoKey));
}

#[test]
fn key_version_that_is_not_among_the_keys_is_named() {
    let keys = space_keys(&KEY);
    let page = mariadb_full(&content(4096, 1, 50), None, Some((Mode::Cbc, 4)));
    let error = open_page(&page, ID, &mariadb(FULL, &keys), &mut Scratch::new()).unwrap_err();
    assert_eq!(error, CodecError::NoKeyVersion { key_id: 7, version: 4 });
    assert_eq!(error.kind(), ErrorKind::NoKey);
    assert!(error.to_string().contains("version 4 of key 7"));
}

#[test]
fn wrong_mariadb_key_is_an_error_that_says_so_in_every_layout() {
    let wrong = space_keys(&[1; 32]);
    let mut scratch = Scratch::new();
    let page = content(4096, 1, 50);
    let cipher = Some((Mode::Cbc, 3));
    let zlib = Some(Compression::Zlib);
    let full_zlib = MariaDbLayout::FullCrc32 { compression: zlib };
    for (page, layout) in [
        (mariadb_full(&page, None, cipher), FULL),
        (mariadb_full(&page, zlib, cipher), full_zlib),
        (mariadb_classic(&page, None, cipher), MariaDbLayout::Classic),
        (mariadb_classic(&page, zlib, cipher), MariaDbLayout::Classic),
        (build::mariadb_zip(&page, cipher), MariaDbLayout::Zip),
    ] {
        let error = open_page(&page, ID, &mariadb(layout, &wrong), &mut scratch).unwrap_err();
        assert_eq!(error, CodecError::WrongKey { key_id: 7, version: 3 }, "{layout:?}");
        assert_eq!(error.kind(), ErrorKind::WrongKey);
    }
}

#[test]
fn encrypted_mariadb_page_in_the_wrong_place_opens_so_that_it_can_be_told_where_it_belongs() {
    let original = content(4096, 1, 50);
    let page = mariadb_full(&original, None, Some((Mode::Cbc, 3)));
    let keys = space_keys(&KEY);
    let mut scratch = Scratch::new();
    let opened = open_page(&page, PageId::new(5, 9), &mariadb(FULL, &keys), &mut scratch).unwrap();
    assert_eq!(opened.page[4..8], 4_u32.to_be_bytes());
}

#[test]
fn mysql_rtree_page_keeps_its_sequence_number() {
    let mut original = content(4096, 1, 50);
    original[24..26].copy_from_slice(&17854_u16.to_be_bytes());
    original[26..34].copy_from_slice(&0x0102_0304_0506_0708_u64.to_be_bytes());
    let page = mysql(&original, None, Some(2));
    assert_eq!(page[24..26], [0, 17]);
    let key = tablespace_key();
    let mut scratch = Scratch::new();
    let opened = open_page(&page, ID, &Context::MySql { key: Some(&key) }, &mut scratch).unwrap();
    assert_same(opened.page, &original, 0..0);
}

#[test]
fn version_1_page_opens_whatever_the_block_size_of_the_file_system_was() {
    let original = content(16384, 3, 70);
    let key = tablespace_key();
    let context = Context::MySql { key: Some(&key) };
    let mut scratch = Scratch::new();
    for block in [512, 1024, 2048, 4096, 8192] {
        let page = build::mysql_version_1(&original, Compression::Zlib, block);
        let opened = open_page(&page, ID, &context, &mut scratch).unwrap_or_else(|e| panic!("block {block}: {e}"));
        assert_same(opened.page, &original, 26..34);
    }
}

#[test]
fn cipher_mode_may_change_from_page_to_page() {
    let keys = space_keys(&KEY);
    let mut scratch = Scratch::new();
    let original = content(8192, 5, 60);
    for mode in [Mode::Ctr, Mode::Cbc, Mode::Cbc, Mode::Ctr, Mode::Ctr] {
        for (page, layout) in [
            (mariadb_full(&original, None, Some((mode, 3))), FULL),
            (mariadb_classic(&original, None, Some((mode, 3))), MariaDbLayout::Classic),
            (build::mariadb_zip(&original, Some((mode, 3))), MariaDbLayout::Zip),
        ] {
            assert!(open_page(&page, ID, &mariadb(layout, &keys), &mut scratch).unwrap().decrypted);
        }
    }
}

#[test]
fn keys_of_128_192_and_256_bits_open_mariadb_pages() {
    for len in [16, 24, 32] {
        let keys = space_keys(&KEY[..len]);
        let original = content(4096, 1, 50);
        let page = build::mariadb_full_with(&original, None, (Mode::Cbc, 3), &KEY[..len]);
        assert!(open_page(&page, ID, &mariadb(FULL, &keys), &mut Scratch::new()).unwrap().decrypted);
    }
}

fn page_size() -> impl Strategy<Value = usize> {
    (2_u32..=6).prop_map(|exponent| 1024 << exponent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_mysql_page_comes_back(
        size in page_size(), seed: u64, filled in 0_usize..=60, lz4: bool, compressed: bool, encrypted: bool,
    ) {
        let original = content(size, seed, filled);
        let compression = if lz4 { Compression::Lz4 } else { Compression::Zlib };
        let compression = compressed.then_some(compression);
        let page = mysql(&original, compression, encrypted.then_some(2));
        let key = tablespace_key();
        let mut scratch = Scratch::new();
        let opened = open_page(&page, ID, &Context::MySql { key: Some(&key) }, &mut scratch).unwrap();
        prop_assert_eq!((opened.decrypted, opened.inflated), (encrypted, compression));
        assert_same(opened.page, &original, 26..34);
    }

    #[test]
    fn every_mariadb_page_comes_back(
        size in page_size(), seed: u64, filled in 0_usize..=40, algorithm in 0_usize..7, cipher in 0_usize..3, full: bool,
    ) {
        let original = content(size, seed, filled);
        let compression = COMPRESSIONS.get(algorithm).copied();
        let cipher = [None, Some((Mode::Cbc, 3)), Some((Mode::Ctr, 3))][cipher];
        let keys = space_keys(&KEY);
        let mut scratch = Scratch::new();
        let (page, layout) = if full {
            (mariadb_full(&original, compression, cipher), MariaDbLayout::FullCrc32 { compression })
        } else {
            (mariadb_classic(&original, compression, cipher), MariaDbLayout::Classic)
        };
        let opened = open_page(&page, ID, &mariadb(layout, &keys), &mut scratch).unwrap();
        prop_assert_eq!((opened.decrypted, opened.inflated), (cipher.is_some(), compression));
        if full {
            // The trailer is different, and the inner page's checksums are gone.
            assert_same(&opened.page[4..size - 8], &original[4..size - 8], 0..0);
            prop_assert_eq!(&opened.page[size - 8..size - 4], &original[20..24]);
        } else {
            assert_same(opened.page, &original, if compression.is_some() { 0..0 } else { 26..34 });
        }
    }

    #[test]
    fn every_encrypted_zip_page_comes_back(seed: u64, ctr: bool, size in 0_usize..5) {
        let original = content(1024 << size, seed, 90);
        let mode = if ctr { Mode::Ctr } else { Mode::Cbc };
        let page = build::mariadb_zip(&original, Some((mode, 3)));
        let keys = space_keys(&KEY);
        let mut scratch = Scratch::new();
        let opened = open_page(&page, ID, &mariadb(MariaDbLayout::Zip, &keys), &mut scratch).unwrap();
        // The builder changed the checksum in the header too.
        assert_same(cut(opened.page), cut(&original), 26..34);

        let key = tablespace_key();
        let page = mysql(&original, None, Some(2));
        let opened = open_page(&page, ID, &Context::MySql { key: Some(&key) }, &mut scratch).unwrap();
        assert_same(opened.page, &original, 26..34);
    }
}
