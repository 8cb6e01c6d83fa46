//! Everything that opens pages and reads keys, over arbitrary bytes: no panic, and nothing that opens is larger than its page.
//!
//! The first bytes of the input choose what it is taken for; for pages also the marks (type, key version, compression header)
//! without which nearly all of them would be plain.
#![no_main]

use format::PageId;
use format::codec::{
    Compression, Context, CryptData, CryptMode, EncryptionInfo, Inflater, MariaDbLayout, Scratch, SpaceKeys,
    TablespaceKey, mariadb_compression, mysql_compression, open_page, steps,
};
use format::codec::tablespace_key_from_cfp;
use format::keyring::{FileKey, KeyStore, Secret};
use libfuzzer_sys::fuzz_target;

const ID: PageId = PageId::new(5, 4);
const TYPES: [u16; 8] = [14, 15, 16, 17, 34354, 37401, 0x8001, 17855];

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

fn keys() -> SpaceKeys {
    let mut store = KeyStore::new();
    store.insert_numbered(7, 3, Secret::new(vec![1; 32]));
    let data = CryptData { scheme: 1, iv: [2; 16], min_key_version: 1, key_id: 7, mode: CryptMode::On };
    data.unlock(&store).expect("the store has key 7")
}

/// The stream as it is, for every algorithm and in every frame that the servers put round streams.
fn compressed(algorithm: u8, size: usize, stream: &[u8]) {
    let (mut inflater, mut out) = (Inflater::new(), vec![0; size]);
    let id = algorithm % 6 + 1;
    let compression = Compression::from_mariadb_id(id.into()).expect("1 to 6 are known");
    let alone = inflater.inflate(compression, stream, &mut out);

    let mut page = vec![0; size];
    put(&mut page, 24, &34354_u16.to_be_bytes());
    put(&mut page, 33, &[id]);
    put(&mut page, 38, &u16::try_from(stream.len()).unwrap_or(u16::MAX).to_be_bytes());
    put(&mut page, 40, stream);
    let framed = mariadb_compression::inflate_classic(&page, &mut out, &mut inflater);
    if stream.len() <= size - 40 {
        assert_eq!(alone.is_ok(), framed.is_ok());
    }
    let _ = mariadb_compression::inflate_full_crc32(stream, compression, &mut out, &mut inflater);

    let mut page = vec![0; size];
    put(&mut page, 24, &[0, 14, 2, id % 2 + 1, 0x45, 0xbf]);
    put(&mut page, 30, &u16::try_from(size - 38).unwrap_or(0).to_be_bytes());
    put(&mut page, 32, &u16::try_from(stream.len()).unwrap_or(u16::MAX).to_be_bytes());
    put(&mut page, 38, stream);
    let _ = mysql_compression::inflate(&page, &mut out, &mut inflater);
}

fn page(kind: u8, mark: u8, bytes: &[u8], size: usize) {
    let mut page = bytes.to_vec();
    if mark & 0x80 != 0 {
        page.resize(size, mark);
    }
    if mark & 0x40 != 0 {
        put(&mut page, 24, &TYPES[usize::from(mark) % TYPES.len()].to_be_bytes());
    }
    if mark & 0x20 != 0 {
        put(&mut page, if kind % 3 == 0 { 0 } else { 26 }, &3_u32.to_be_bytes());
    }
    let (key, keys) = (TablespaceKey::new(&[1; 32], &[2; 32]), keys());
    let compression = Compression::from_mariadb_id(u64::from(kind >> 4) % 7);
    let layout = match kind % 3 {
        0 => MariaDbLayout::FullCrc32 { compression },
        1 => MariaDbLayout::Classic,
        _ => MariaDbLayout::Zip,
    };
    let mut scratch = Scratch::new();
    for context in [
        Context::MySql { key: Some(&key) },
        Context::MySql { key: None },
        Context::MariaDb { layout, encrypted: true, keys: Some(&keys) },
        Context::MariaDb { layout, encrypted: false, keys: None },
    ] {
        let due = steps(&page, ID, &context);
        match open_page(&page, ID, &context, &mut scratch) {
            Ok(opened) => {
                assert_eq!(opened.page.len(), page.len());
                assert_eq!((opened.decrypted, opened.inflated.is_some()), (due.decrypt, due.inflate));
            }
            Err(error) => assert!(!error.reason().is_empty() && !error.to_string().is_empty()),
        }
    }
}

fn key_file(bytes: &[u8]) {
    let mut store = KeyStore::new();
    let added = [store.add_mysql_keyring(bytes), store.add_mariadb_key_file(bytes, None)];
    assert_eq!(store.is_empty(), added.iter().all(Result::is_err));
    // One iteration: ten derivations for every input would leave no time for anything else.
    let _ = store.add_mariadb_key_file(bytes, Some(&FileKey::from_file(b"secret\n").with_iterations(1)));
    let _ = tablespace_key_from_cfp(bytes);
    if let Ok(Some(info)) = EncryptionInfo::parse(bytes) {
        let _ = info.unlock(&store);
        let _ = info.unlock_with(&info.master_key_name(), &Secret::new(vec![3; 32]));
    }
    if let Ok(Some(data)) = CryptData::parse(bytes) {
        let _ = data.unlock(&store);
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&[what, kind, mark], bytes)) = input.split_first_chunk() else { return };
    let size = 1024 << (what >> 4) % 7;
    match what % 3 {
        0 => compressed(kind, size, bytes),
        1 => page(kind, mark, bytes, size),
        _ => key_file(bytes),
    }
});
