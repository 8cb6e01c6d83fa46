//! Bytes verified with real servers, and their expected results.

use innokit_format::checksum;
use innokit_format::codec::{
    Compression, Context, CryptData, EncryptionInfo, MariaDbLayout, Opened, Scratch, TablespaceKey, open_page,
};
use innokit_format::keyring::{KeyStore, Secret};
use innokit_format::types::PageId;

use super::build::{KEY, Mode};
use super::{ID, assert_same, build, tablespace_key};

pub fn hex(digits: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap() as u8;
    digits.as_bytes().chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}

/// `digits`, then zeros up to a page of 4 KiB.
fn page(digits: &str) -> Vec<u8> {
    let mut page = hex(digits);
    page.resize(4096, 0);
    page
}

/// The decompressed form of all compressed pages below.
fn base() -> Vec<u8> {
    let mut page = page(
        "062d253a00000004ffffffffffffffff000000000000123445bf00000000000000000000000501020304050607080 90a"
            .replace(' ', "")
            .as_str(),
    );
    page[4088..].copy_from_slice(&hex("062d253a00001234"));
    assert_eq!(checksum::crc32(&page), 0x062d_253a);
    page
}

/// The same page as inside compressed full_crc32 pages.
fn full_base() -> Vec<u8> {
    let mut page = base();
    page[..4].fill(0);
    page[4088..].copy_from_slice(&hex("0000123400000000"));
    page
}

/// Byte i = (31·i + 7) mod 256, with type 17855 and zeros in bytes 26 to 33.
fn s_page() -> Vec<u8> {
    let mut page: Vec<u8> = (0_u32..4096).map(|i| ((31 * i + 7) % 256) as u8).collect();
    page[24..26].copy_from_slice(&17855_u16.to_be_bytes());
    page[26..34].fill(0);
    page
}

const MYSQL_ZLIB: &str = "062d253a00000004ffffffffffffffff0000000000001234000e020145bf0fda00300000000578daedc1b11180201000b007f4014b76b0b4a372ffc19cc3bb24a5b6e3cc3ee615000000c06fe473bf116b7f7a560110";
const MYSQL_LZ4: &str = "062d253a00000004ffffffffffffffff0000000000001234000e020245bf0fda002700000005bf0102030405060708090a000100ffffffffffffffffffffffffffffffc380062d253a00001234";
const MYSQL_ZLIB_ENCRYPTED: &str = "062d253a00000004ffffffffffffffff00000000000012340010020145bf0fda003000000005419d11a24f31c1c3232f41eabdeace1e1d644e88cceaf0a76cf2c473b74feb118b0a677e4ac35b164e9279d6e987b415";
const MARIADB_ZLIB: &str = "deadbeef00000004ffffffffffffffff000000000000123486320000000000000001000000050042789cedd7b10d80201445d107c25729d981928e8adeb9190d1362e20c24f76c71ac962e29cc8f96dc9ea15f74fe08d1ceeb4e020000000000dbb0f5fedc5ed6ba0aed";
const FULL_ZLIB: &str = "0000000000000004ffffffffffffffff00000000000012348001789cedc7c709002014c0d06f2f47677105e77634c502ce20e41d0211d9ecb8ce96daba3c4e69639d0f31650100000000001f29757502b50509c9";
const FULL_LZ4: &str = "0000000000000004ffffffffffffffff00000000000012348001120001002304ff0100020f0042123445bf0a00010200b1050102030405060708090a10000f0200ffffffffffffffffffffffffffffffc160123400000000";

#[track_caller]
fn assert_opens(page: &[u8], context: &Context<'_>, expected: &Opened<'_>) {
    let mut scratch = Scratch::new();
    let opened = open_page(page, ID, context, &mut scratch).unwrap();
    assert_eq!((opened.decrypted, opened.inflated), (expected.decrypted, expected.inflated));
    assert_same(opened.page, expected.page, 0..0);
}

#[test]
fn mysql_compressed_pages_open() {
    let (zlib, lz4) = (Some(Compression::Zlib), Some(Compression::Lz4));
    let image = base();
    let context = Context::MySql { key: None };
    assert_opens(&page(MYSQL_ZLIB), &context, &Opened { page: &image, decrypted: false, inflated: zlib });
    assert_opens(&page(MYSQL_LZ4), &context, &Opened { page: &image, decrypted: false, inflated: lz4 });
}

#[test]
fn mysql_compressed_and_encrypted_page_opens() {
    let key = tablespace_key();
    let expected = Opened { page: &base(), decrypted: true, inflated: Some(Compression::Zlib) };
    assert_opens(&page(MYSQL_ZLIB_ENCRYPTED), &Context::MySql { key: Some(&key) }, &expected);
}

#[test]
fn mariadb_compressed_page_of_the_older_layout_opens() {
    let context = Context::MariaDb { layout: MariaDbLayout::Classic, encrypted: false, keys: None };
    let expected = Opened { page: &base(), decrypted: false, inflated: Some(Compression::Zlib) };
    assert_opens(&page(MARIADB_ZLIB), &context, &expected);
}

#[test]
fn mariadb_full_crc32_compressed_pages_open() {
    for (digits, compression, end_mark, checksum) in
        [(FULL_ZLIB, Compression::Zlib, 0, "0e1a3699"), (FULL_LZ4, Compression::Lz4, 0x5d, "6857cd19")]
    {
        let mut page = page(digits);
        page[251] = end_mark;
        page[252..256].copy_from_slice(&hex(checksum));
        assert_eq!(checksum::full_crc32(&page[..256]).to_be_bytes(), page[252..256]);
        let layout = MariaDbLayout::FullCrc32 { compression: Some(compression) };
        let context = Context::MariaDb { layout, encrypted: false, keys: None };
        assert_opens(&page, &context, &Opened { page: &full_base(), decrypted: false, inflated: Some(compression) });
    }
}

#[test]
fn mysql_encrypted_page_is_the_one_that_the_server_writes_and_opens() {
    let original = s_page();
    let page = build::mysql(&original, None, Some(2));
    assert_eq!(page[24..34], hex("000f000045bf00000000"));
    assert_eq!(page[38..54], hex("76a39fbe8f4c9cb03a3d607daf5e5525"));
    assert_eq!(page[4064..], hex("fb0b90c8849809a9b5cae35ec5c31531c83654312f14acafe465a05b1c4d76c2"));
    assert_eq!(checksum::crc32c(&page[38..]), 0xc0a1_7570);
    let key = tablespace_key();
    let expected = Opened { page: &original, decrypted: true, inflated: None };
    assert_opens(&page, &Context::MySql { key: Some(&key) }, &expected);
}

/// The vectors use the builder's page key and tweak, so the builder's pages can be compared with them.
fn mariadb_key() -> [u8; 16] {
    *hex("0123456789abcdef0123456789abcdef").first_chunk().unwrap()
}

fn mariadb_s_page() -> Vec<u8> {
    let mut page = s_page();
    page[4..8].copy_from_slice(&4_u32.to_be_bytes());
    page[16..24].copy_from_slice(&hex("1122334455667788"));
    page[34..38].copy_from_slice(&5_u32.to_be_bytes());
    page
}

#[test]
fn mariadb_page_key_is_made_of_key_and_iv() {
    assert_eq!(build::page_key(&mariadb_key()), *hex("ad9562241f632664a422d562f753aaa3"));
}

/// Other tests open the builder's pages. This one shows that they equal the server's.
#[test]
fn mariadb_ciphertext_is_the_one_that_the_server_writes() {
    let original = mariadb_s_page();
    let encrypted = |range: std::ops::Range<usize>, key_version_at: usize| {
        let mut page = original.clone();
        build::mariadb_encrypt(Mode::Cbc, &mariadb_key(), &original, &mut page[range]);
        page[key_version_at..key_version_at + 4].copy_from_slice(&1_u32.to_be_bytes());
        page
    };
    let classic = encrypted(38..4088, 26);
    assert_eq!(classic[38..54], hex("e5ac73dee59f6f011bd294a5fddac32e"));
    assert_eq!(classic[4078..4088], hex("02c50cd68d468706a33a"));
    assert_eq!(checksum::crc32(&classic), 0x0bc4_fb0c);
    let full = encrypted(26..4092, 0);
    assert_eq!(full[26..42], hex("64add10d14e0cfee11c201cdc9e3f35b"));
    assert_eq!(full[4082..4092], hex("19186cec944999803fa6"));
    assert_eq!(checksum::full_crc32(&full), 0x3eed_f98b);
}

#[test]
fn mariadb_encrypted_full_crc32_page_is_the_one_that_the_server_writes_and_opens() {
    let mut original = mariadb_s_page();
    original[4088..4092].copy_from_slice(&hex("55667788"));
    let page = build::mariadb_full_with(&mariadb_s_page(), None, (Mode::Cbc, 1), &mariadb_key());
    assert_eq!(page[26..42], hex("64add10d14e0cfee11c201cdc9e3f35b"));

    let mut store = KeyStore::new();
    store.insert_numbered(7, 1, Secret::new(mariadb_key().to_vec()));
    let keys = super::crypt_data().unlock(&store).unwrap();
    let context = super::mariadb(super::FULL, &keys);
    let mut scratch = Scratch::new();
    let opened = open_page(&page, ID, &context, &mut scratch).unwrap();
    assert!(opened.decrypted);
    assert_same(&opened.page[4..4092], &original[4..4092], 0..0);
}

#[test]
fn encryption_info_of_a_real_server_unlocks() {
    let info = EncryptionInfo::parse(&hex(LCC)).unwrap().unwrap();
    assert_eq!(info.master_key_name(), "INNODBKey-87ba18d8-e5de-11f1-9c3a-02fc00000001-2");
    let mut store = KeyStore::new();
    store.insert_named(info.master_key_name(), Secret::new(hex(MASTER)));
    let unlocked = info.unlock(&store).unwrap();
    assert_same_key(&unlocked, TABLESPACE_KEY, TABLESPACE_IV);
}

pub const LCC: &str = "6c43430000000238376261313864382d653564652d313166312d396333612d3032666330303030303030311e07a70e47b9caaf362cba0ac88562345fbf172ea6b6dd24961a059c4720f8a6e41b3042273b1e63b299c8c63e67e5289aba34dee8b11f2485ddd9f45c754602da5101ae";
pub const MASTER: &str = "ddf7fb41b9f76184f76a0ab1f29ff9fce16b6c71fd04c08256e0a95f3ca8f090";
const TABLESPACE_KEY: &str = "bc109c24afedc6298bdc47cb782a503bd39993847dcb6a0af1a180e2b73a7bfb";
const TABLESPACE_IV: &str = "191de671e3b7cb65aa8d9ccb6f0ae6c700000000000000000000000000000000";

/// Two keys are equal if they decrypt to the same.
#[track_caller]
pub fn assert_same_key(key: &TablespaceKey, expected_key: &str, expected_iv: &str) {
    let array = |digits: &str| *hex(digits).first_chunk().unwrap();
    let expected = TablespaceKey::new(&array(expected_key), &array(expected_iv));
    let [mut one, mut other] = [s_page(), s_page()];
    key.decrypt(&mut one);
    expected.decrypt(&mut other);
    assert_eq!(one, other);
    assert_ne!(one, s_page());
}

#[test]
fn crypt_data_are_read() {
    let mut area = hex("730e0c5245740110");
    area.extend(&KEY[..16]);
    area.extend(hex("000000020000000701"));
    let data = CryptData::parse(&area).unwrap().unwrap();
    assert_eq!(data, CryptData { min_key_version: 2, ..super::crypt_data() });
    assert!(data.is_encrypted());
    assert_eq!(CryptData::parse(&[0; 64]), Ok(None));
    let error = CryptData::parse(&area[..CryptData::SIZE - 1]).unwrap_err();
    assert_eq!(error, innokit_format::codec::UnlockError::Truncated);
}

#[test]
fn steps_are_told_without_a_key() {
    let context = Context::MySql { key: None };
    let steps = innokit_format::codec::steps(&page(MYSQL_ZLIB_ENCRYPTED), PageId::new(5, 4), &context);
    assert!(steps.decrypt && steps.inflate);
}
