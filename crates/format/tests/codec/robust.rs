//! Any bytes give an answer or a typed error, never a panic, and never more than a page.

use innokit_format::codec::tablespace_key_from_cfp;
use innokit_format::codec::{
    CodecError, Compression, Context, CryptData, EncryptionInfo, ErrorKind, Inflater, MariaDbLayout, Scratch, open_page,
};
use innokit_format::keyring::{FileKey, KeyStore};
use proptest::prelude::*;

use super::build::{COMPRESSIONS, Mode, compress, content, mariadb_classic, mariadb_full, mysql};
use super::{FULL, ID, KEY, mariadb, space_keys, tablespace_key};

/// Opens `page` by the rules of every family and layout. What opens has the size of a page.
fn open_every_way(page: &[u8], scratch: &mut Scratch) {
    let (key, keys) = (tablespace_key(), space_keys(&KEY));
    let full = |compression| mariadb(MariaDbLayout::FullCrc32 { compression }, &keys);
    let others = [
        Context::MySql { key: Some(&key) },
        mariadb(MariaDbLayout::Classic, &keys),
        mariadb(MariaDbLayout::Zip, &keys),
        full(None),
    ];
    for context in others.into_iter().chain(COMPRESSIONS.map(|compression| full(Some(compression)))) {
        if let Ok(opened) = open_page(page, ID, &context, scratch) {
            assert_eq!(opened.page.len(), page.len());
        }
    }
}

/// Types and key versions that reach the decoders: random bytes would nearly always be taken for a plain page.
fn marks() -> impl Strategy<Value = (u16, u32, [u8; 8])> {
    let types = prop_oneof![
        Just(14_u16),
        Just(15),
        Just(16),
        Just(17),
        Just(34354),
        Just(37401),
        0x8001_u16..0x8020,
        any::<u16>()
    ];
    (types, prop_oneof![Just(0_u32), Just(3)], any::<[u8; 8]>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_pages_never_panic(
        mut page in prop::collection::vec(any::<u8>(), 0..5000), (page_type, version, head) in marks(), whole: bool,
    ) {
        if whole {
            page.resize(4096, 0);
        }
        if page.len() >= 48 {
            page[..4].copy_from_slice(&version.to_be_bytes());
            page[24..26].copy_from_slice(&page_type.to_be_bytes());
            page[26..34].copy_from_slice(&[head[0] % 3, head[1] % 3, head[2], head[3], 0x0f, 0xda, head[6] % 16, head[7]]);
        }
        open_every_way(&page, &mut Scratch::new());
    }

    #[test]
    fn damaged_pages_never_panic(seed: u64, at in 0_usize..4096, mask in 1_u8.., algorithm in 0_usize..6, cipher in 0_usize..3) {
        let original = content(4096, seed, 30);
        let compression = COMPRESSIONS[algorithm];
        let cipher = [None, Some((Mode::Cbc, 3)), Some((Mode::Ctr, 3))][cipher];
        let mut scratch = Scratch::new();
        let mysql_compression = if algorithm % 2 == 0 { Compression::Zlib } else { Compression::Lz4 };
        for mut page in [
            mysql(&original, Some(mysql_compression), cipher.map(|_| 2)),
            mariadb_full(&original, Some(compression), cipher),
            mariadb_classic(&original, Some(compression), cipher),
        ] {
            page[at] ^= mask;
            open_every_way(&page, &mut scratch);
        }
    }

    #[test]
    fn arbitrary_streams_never_panic(stream in prop::collection::vec(any::<u8>(), 0..3000), damaged_at: usize, seed: u64) {
        let mut inflater = Inflater::new();
        let mut out = vec![0; 4096];
        for compression in COMPRESSIONS {
            let noise = inflater.inflate(compression, &stream, &mut out);
            prop_assert!(noise.is_ok() || noise.is_err_and(|error| error.kind() == ErrorKind::Damaged));
            let mut sound = compress(compression, &content(4096, seed, 20));
            let at = damaged_at % sound.len();
            sound[at] ^= 0x55;
            let damaged = inflater.inflate(compression, &sound, &mut out);
            prop_assert!(damaged.is_ok() || damaged.is_err_and(|error| error.kind() == ErrorKind::Damaged));
            // Earlier pages leave no state in the decoders.
            prop_assert!(inflater.inflate(compression, &compress(compression, &[7; 4096]), &mut out).is_ok());
        }
    }

    #[test]
    fn arbitrary_key_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0_usize..6) {
        let starts: [&[u8]; 6] =
            [b"", b"Keyring file version:1.0", b"Keyring file version:2.0", b"Salted__", b"{\"elements\":[{", b"lCC"];
        let file = [starts[start], &bytes].concat();
        let mut store = KeyStore::new();
        let results = [store.add_mysql_keyring(&file), store.add_mariadb_key_file(&file, None)];
        let added = results.into_iter().flatten().sum::<usize>();
        prop_assert_eq!(store.is_empty(), added == 0);
        prop_assert!(tablespace_key_from_cfp(&bytes).is_err() || bytes.len() == 100);
        if let Ok(Some(info)) = EncryptionInfo::parse(&file) {
            prop_assert!(info.unlock(&store).is_err());
        }
        let crypt = [&innokit_format::codec::mariadb_encryption::CRYPT_MAGIC[..], &bytes].concat();
        prop_assert!(!matches!(CryptData::parse(&crypt), Ok(None)));
    }
}

#[test]
fn arbitrary_encrypted_key_file_does_not_decrypt() {
    let file = [&b"Salted__"[..], &[0x5a; 40]].concat();
    let key = FileKey::from_text("secret").with_iterations(1);
    assert!(KeyStore::new().add_mariadb_key_file(&file, Some(&key)).is_err());
}

#[test]
fn stream_that_holds_more_than_the_page_is_stopped_at_the_page() {
    let bomb = vec![0; 4 << 20];
    let mut inflater = Inflater::new();
    let mut out = vec![0; 4096];
    for compression in COMPRESSIONS {
        let stream = compress(compression, &bomb);
        let error = inflater.inflate(compression, &stream, &mut out).unwrap_err();
        assert!(matches!(error, CodecError::Length { .. } | CodecError::Stream(_)), "{compression}: {error}");
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }
}

#[test]
fn stream_that_holds_less_than_the_page_or_ends_early_is_damage() {
    let mut inflater = Inflater::new();
    let mut out = vec![0; 4096];
    let page = content(4096, 8, 50);
    for compression in COMPRESSIONS {
        let short = compress(compression, &page[..4095]);
        let error = inflater.inflate(compression, &short, &mut out).unwrap_err();
        assert_eq!(error, CodecError::Length { compression, produced: 4095, expected: 4096 });
        let whole = compress(compression, &page);
        let error = inflater.inflate(compression, &whole[..whole.len() - 1], &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{compression}");
    }
}

#[test]
fn fields_that_no_server_writes_are_named() {
    let context = Context::MySql { key: None };
    let mut scratch = Scratch::new();
    let mut attempt = |at: usize, value: u8| {
        let mut page = mysql(&content(4096, 1, 30), Some(Compression::Zlib), None);
        page[at] = value;
        open_page(&page, ID, &context, &mut scratch).unwrap_err()
    };
    assert_eq!(attempt(26, 3), CodecError::BadHeader { field: "version", found: 3 });
    assert_eq!(attempt(27, 9), CodecError::UnknownAlgorithm { id: 9 });
    assert_eq!(attempt(27, 9).kind(), ErrorKind::Unknown);
    assert_eq!(attempt(31, 0), CodecError::BadHeader { field: "original size", found: 0x0f00 });
    assert!(matches!(attempt(32, 0xff), CodecError::StreamBeyondPage { room: 4058, .. }));

    let keys = space_keys(&KEY);
    let mut page = content(4096, 1, 30);
    page[..4].fill(0);
    page[24..26].copy_from_slice(&0x8001_u16.to_be_bytes());
    assert_eq!(open_page(&page, ID, &mariadb(FULL, &keys), &mut scratch), Err(CodecError::NoAlgorithm));
    page[24..26].copy_from_slice(&0x8010_u16.to_be_bytes());
    let layout = MariaDbLayout::FullCrc32 { compression: Some(Compression::Lzma) };
    let error = open_page(&page, ID, &mariadb(layout, &keys), &mut scratch).unwrap_err();
    assert_eq!(error, CodecError::BadHeader { field: "size", found: 4096 });
}
