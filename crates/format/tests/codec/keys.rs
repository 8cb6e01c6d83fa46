//! Key files, and the key information on page 0.

use innokit_format::codec::tablespace_key_from_cfp;
use innokit_format::codec::{EncryptionInfo, InfoVersion, UnlockError};
use innokit_format::keyring::{FileKey, KeyStore, KeyringError, Secret};
use sha2::{Digest, Sha256};

use super::build::KEY;
use super::vectors::{LCC, MASTER, assert_same_key, hex};

const NAME: &str = "INNODBKey-87ba18d8-e5de-11f1-9c3a-02fc00000001-2";
const MASK: &[u8] = b"*305=Ljt0*!@$Hnm(*-9-w;:";
const PLAIN: &str = "1;770A8A65DA156D24EE2A093277530142\n2;18420B5CBA31CCDFFE9716E91EB61374D05914F3ADE23E03\n";

fn component(data: &str) -> String {
    format!(
        r#"{{"version":"1.0","elements":[{{"user":"","data_id":"{NAME}","data_type":"AES","data":"{data}","extension":[]}}]}}"#
    )
}

#[test]
fn component_keyring_is_read() {
    let mut store = KeyStore::new();
    assert_eq!(store.add_mysql_keyring(component(MASTER).as_bytes()), Ok(1));
    assert_eq!(store.by_name(NAME).unwrap().bytes(), hex(MASTER));
    assert!(store.by_name("INNODBKey-other-2").is_none());
}

#[test]
fn damaged_component_keyring_is_named_and_nothing_is_added() {
    let mut store = KeyStore::new();
    let json = component(MASTER);
    let error = store.add_mysql_keyring(&json.as_bytes()[..100]).unwrap_err();
    assert_eq!(error, KeyringError::Json { line: 1, column: 100 });
    let error = store.add_mysql_keyring(component("A5D").as_bytes()).unwrap_err();
    assert_eq!(error, KeyringError::NotHex { name: NAME.into() });
    let empty = br#"{"version":"1.0","elements":[]}"#;
    assert_eq!(store.add_mysql_keyring(empty), Err(KeyringError::Empty));
    assert_eq!(store.add_mysql_keyring(b"\x7fELF"), Err(KeyringError::NotAKeyring));
    assert!(store.is_empty());
}

/// The records of a `keyring_file` plugin's file, as a machine with this integer layout writes them.
fn records(width: usize, little_endian: bool) -> Vec<u8> {
    let mut records = Vec::new();
    for name in [NAME, "another"] {
        let parts: [&[u8]; 4] = [name.as_bytes(), b"AES", b"root@h", &hex(MASTER)];
        let total = 5 * width + parts.iter().map(|part| part.len()).sum::<usize>();
        let padded = total.next_multiple_of(width);
        let start = records.len();
        for number in [padded].into_iter().chain(parts.map(<[u8]>::len)) {
            let mut bytes = (number as u64).to_be_bytes()[8 - width..].to_vec();
            if little_endian {
                bytes.reverse();
            }
            records.extend(bytes);
        }
        for part in &parts[..3] {
            records.extend(*part);
        }
        records.extend(parts[3].iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        records.resize(start + padded, 0);
    }
    records
}

fn plugin(version: &str, records: &[u8]) -> Vec<u8> {
    let mut file = format!("Keyring file version:{version}").into_bytes();
    file.extend(records);
    file.extend(b"EOF");
    if version == "2.0" {
        file.extend(Sha256::digest(records));
    }
    file
}

#[test]
fn plugin_keyring_of_every_version_and_machine_is_read() {
    for version in ["1.0", "2.0"] {
        for (width, little_endian) in [(8, true), (4, true), (8, false), (4, false)] {
            let mut store = KeyStore::new();
            let file = plugin(version, &records(width, little_endian));
            assert_eq!(store.add_mysql_keyring(&file), Ok(2), "{version} {width} {little_endian}");
            assert_eq!(store.by_name(NAME).unwrap().bytes(), hex(MASTER));
        }
    }
}

#[test]
fn damaged_plugin_keyring_is_told_by_its_digest() {
    let mut file = plugin("2.0", &records(8, true));
    file[100] ^= 1;
    assert_eq!(KeyStore::new().add_mysql_keyring(&file), Err(KeyringError::Digest));
}

#[test]
fn plugin_keyring_that_is_cut_off_says_where() {
    let whole = records(8, true);
    let second = whole.len() / 2;
    let file = plugin("1.0", &whole[..whole.len() - 8]);
    let Err(KeyringError::Record { offset }) = KeyStore::new().add_mysql_keyring(&file) else { panic!("accepted") };
    assert!((24 + second - 60..24 + whole.len()).contains(&offset), "{offset}");
    let file = plugin("1.0", &whole);
    assert!(KeyStore::new().add_mysql_keyring(&file[..file.len() - 3]).is_err());
}

#[test]
fn wrong_master_key_is_an_error_that_says_so() {
    let info = EncryptionInfo::parse(&hex(LCC)).unwrap().unwrap();
    let mut store = KeyStore::new();
    let missing = info.unlock(&store).unwrap_err();
    assert_eq!(missing, UnlockError::NoMasterKey { name: NAME.into() });
    store.insert_named(NAME, Secret::new(vec![9; 32]));
    let wrong = info.unlock(&store).unwrap_err();
    assert!(matches!(wrong, UnlockError::WrongMasterKey { .. }), "{wrong:?}");
    assert!(wrong.to_string().contains("is not the one that this file was encrypted with"), "{wrong}");
    store.insert_named(NAME, Secret::new(vec![9; 16]));
    let short = info.unlock(&store).unwrap_err();
    assert_eq!(short, UnlockError::KeyLength { name: NAME.into(), len: 16 });
}

/// Encryption information as versions before `lCC` wrote it, for the master key of the vector.
fn older_info(magic: &str, number: &[u8], uuid: &[u8]) -> EncryptionInfo {
    let lcc = hex(LCC);
    let area = [magic.as_bytes(), number, uuid, &lcc[43..111]].concat();
    EncryptionInfo::parse(&area).unwrap().unwrap()
}

#[test]
fn older_generations_of_encryption_info_unlock() {
    let mut store = KeyStore::new();
    store.insert_named("INNODBKey-3-2", Secret::new(vec![1; 32]));
    store.insert_named("INNODBKey-7-2", Secret::new(hex(MASTER)));
    store.insert_named(NAME, Secret::new(hex(MASTER)));
    let uuid = &hex(LCC)[7..43];
    for (number, len) in [(&[0, 0, 0, 2][..], 4), (&[0, 0, 0, 2, 0, 0, 0, 0][..], 8)] {
        let lca = older_info("lCA", number, &[]);
        assert_eq!((lca.version, lca.master_key), (InfoVersion::Lca, 2), "number of {len} bytes");
        lca.unlock(&store).unwrap();
        older_info("lCB", number, uuid).unlock(&store).unwrap();
    }
    assert!(older_info("lCA", &[0, 0, 0, 5], &[]).unlock(&store).is_err());
}

#[test]
fn tablespace_without_or_with_unknown_encryption_info_is_told() {
    assert_eq!(EncryptionInfo::parse(&[0; EncryptionInfo::SIZE]), Ok(None));
    let unknown = EncryptionInfo::parse(b"PSB and more").unwrap_err();
    assert_eq!(unknown, UnlockError::UnknownInfo { magic: *b"PSB" });
    assert_eq!(EncryptionInfo::parse(&hex(LCC)[..110]), Err(UnlockError::Truncated));
}

#[test]
fn transfer_key_file_unwraps_the_tablespace_key() {
    // The same vector with its master key as the transfer key.
    let file = [&hex("00000020")[..], &hex(MASTER), &hex(LCC)[43..107]].concat();
    let key = tablespace_key_from_cfp(&file).unwrap();
    assert_same_key(
        &key,
        "bc109c24afedc6298bdc47cb782a503bd39993847dcb6a0af1a180e2b73a7bfb",
        "191de671e3b7cb65aa8d9ccb6f0ae6c700000000000000000000000000000000",
    );
    assert_eq!(tablespace_key_from_cfp(&file[1..]).unwrap_err(), KeyringError::NotCfp { len: 99 });
}

#[test]
fn mariadb_key_file_is_read() {
    let text = "# keys\r\n\n 1;770A8A65DA156D24EE2A093277530142\r\n7;00ff00ff00ff00ff00ff00ff00ff00ff ; old\n7;0102030405060708090a0b0c0d0e0f101112131415161718\n";
    let mut store = KeyStore::new();
    assert_eq!(store.add_mariadb_key_file(text.as_bytes(), None), Ok(3));
    assert_eq!(store.by_id(1, 1).unwrap().bytes(), hex("770A8A65DA156D24EE2A093277530142"));
    assert_eq!(store.by_id(7, 1).unwrap().bytes().len(), 24);
    assert!(store.by_id(7, 2).is_none());
    assert_eq!(store.versions(7).count(), 1);
}

#[test]
fn line_that_is_no_key_is_named() {
    for (text, line) in [
        ("1;77", 1),
        ("#\n0;770A8A65DA156D24EE2A093277530142", 2),
        ("1;770A8A65DA156D24EE2A093277530142\nx", 2),
        ("99999999999;770A8A65DA156D24EE2A093277530142", 1),
        ("1;770A8A65DA156D24EE2A0932775301421", 1),
    ] {
        let error = KeyStore::new().add_mariadb_key_file(text.as_bytes(), None).unwrap_err();
        assert_eq!(error, KeyringError::Line { line }, "{text}");
    }
    assert_eq!(KeyStore::new().add_mariadb_key_file(b"# none\n", None), Err(KeyringError::Empty));
}

/// [`PLAIN`] encrypted by `openssl enc -aes-256-cbc -k secret -S 0102030405060708` with the named options.
const ENCRYPTED: [(&str, &str); 4] = [
    (
        "-md sha1",
        "8c149ff39cb38427b10e1e6136e0be6709a763f16857a0f615fb1a2efea7d80b66b1889c2e30ec5053ba90b8ad63c5eae874c057ddcb5fe89d1adbc12e8919324b0a15855f5dc71373c16733ad4f52e30795f75ac5502b98f83fb0b85e374e29",
    ),
    (
        "-md sha512",
        "42e64b0f1632e358a85a82242d434f8b9d76eb6a611d5a824dc93102f838f0ad9b06fcf96c473b7bfeb9092a01b42570d2bfb8bb0888ff7456a6e3514cf350b99c7326c765258d15e84ca5576a9555ad43fa05b3dc0999a842323b8eb283a52c",
    ),
    (
        "-md sha256 -pbkdf2",
        "81b713500261cba38290b3ac677c0e60d6ac7212ffee6ecb93900bcb663fe579edbf10593ab8be856a52c91735e1cac86976741c8933d7db7af9cdd92b19bf9475758687c17d5a83764ae628f234f1c751059d7be3e774b0cd5a9d3deb0be8c8",
    ),
    (
        "-md sha512 -pbkdf2 -iter 1234",
        "fded26bb06051d4dbec85e83a3a8031e7d4196c3dce635cdde776cf277009c6d72eac52938116c0dcecd7f8ab1988744c92e49c524fb2a17b6e5b60b65061dd6e0c7732a9c949c25b91e4144dd9595002d15306c2eb13e16d73fefcd5b80dc05",
    ),
];

fn encrypted(body: &str) -> Vec<u8> {
    [&b"Salted__\x01\x02\x03\x04\x05\x06\x07\x08"[..], &hex(body)].concat()
}

#[test]
fn key_file_encrypted_by_openssl_is_read() {
    let mut plain = KeyStore::new();
    plain.add_mariadb_key_file(PLAIN.as_bytes(), None).unwrap();
    for (options, body) in ENCRYPTED {
        let key = match options.split_once("-iter ") {
            Some((_, iterations)) => FileKey::from_text("secret").with_iterations(iterations.parse().unwrap()),
            None => FileKey::from_file(b"secret\r\n"),
        };
        let mut store = KeyStore::new();
        assert_eq!(store.add_mariadb_key_file(&encrypted(body), Some(&key)), Ok(2), "{options}");
        assert_eq!(store.by_id(2, 1), plain.by_id(2, 1));
    }
}

#[test]
fn wrong_or_missing_or_needless_file_key_is_an_error_that_says_so() {
    let file = encrypted(ENCRYPTED[0].1);
    let attempt = |file: &[u8], key: Option<&str>| {
        KeyStore::new().add_mariadb_key_file(file, key.map(FileKey::from_text).as_ref()).unwrap_err()
    };
    assert_eq!(attempt(&file, None), KeyringError::FileKeyNeeded);
    assert_eq!(attempt(&file, Some("Secret")), KeyringError::WrongFileKey);
    assert_eq!(attempt(&file[..file.len() - 1], Some("secret")), KeyringError::WrongFileKey);
    assert_eq!(attempt(PLAIN.as_bytes(), Some("secret")), KeyringError::NotEncrypted);
}

#[test]
fn keys_are_not_shown() {
    let mut store = KeyStore::new();
    store.add_mysql_keyring(component(MASTER).as_bytes()).unwrap();
    store.add_mariadb_key_file(PLAIN.as_bytes(), None).unwrap();
    let file_key = FileKey::from_text("0123456789");
    let shown = format!("{store:?} {file_key:?} {:?} {:?}", super::tablespace_key(), super::space_keys(&KEY));
    assert!(shown.contains(NAME));
    for secret in ["ddf7", "DDF7", "221, 247", "770A", "0123456789", "48, 49", "0, 1, 2", "00, 01"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
