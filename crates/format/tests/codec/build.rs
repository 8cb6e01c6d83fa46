//! Builds pages the way the servers write them: compress, then encrypt.

use std::io::Write;

use aes::cipher::{BlockCipherEncrypt, BlockModeEncrypt, KeyInit, KeyIvInit, StreamCipher, array::Array};
use aes::{Aes128, Aes192, Aes256};
use innokit_format::checksum;
use innokit_format::codec::Compression;

pub const COMPRESSIONS: [Compression; 6] =
    [Compression::Zlib, Compression::Lz4, Compression::Lzo, Compression::Lzma, Compression::Bzip2, Compression::Snappy];

/// 00 to 1f: the tablespace key of MySQL's pages, the key of MariaDB's.
pub const KEY: [u8; 32] = {
    let mut key = [0; 32];
    let mut i = 0;
    while i < 32 {
        key[i] = i as u8;
        i += 1;
    }
    key
};
/// 00 to 0f.
pub const IV: [u8; 16] = *KEY.first_chunk().unwrap();

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Cbc,
    Ctr,
}

/// Page 4 of space 5, a B-tree page with `filled` percent random bytes and checksums of the older layout.
pub fn content(size: usize, seed: u64, filled: usize) -> Vec<u8> {
    let mut page = vec![0; size];
    let mut state = seed | 1;
    let noise = 38 + (size - 46) * filled / 100;
    for byte in &mut page[38..noise] {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    page[4..8].copy_from_slice(&4_u32.to_be_bytes());
    page[8..16].copy_from_slice(&u64::MAX.to_be_bytes());
    page[16..24].copy_from_slice(&0x1122_3344_5566_7788_u64.to_be_bytes());
    page[24..26].copy_from_slice(&17855_u16.to_be_bytes());
    page[34..38].copy_from_slice(&5_u32.to_be_bytes());
    page[size - 4..].copy_from_slice(&0x5566_7788_u32.to_be_bytes());
    let sum = checksum::crc32(&page).to_be_bytes();
    page[..4].copy_from_slice(&sum);
    page[size - 8..size - 4].copy_from_slice(&sum);
    page
}

/// A page without its checksum field.
pub fn cut(page: &[u8]) -> &[u8] {
    &page[4..]
}

pub fn compress(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Lz4 => lz4_flex::block::compress(bytes),
        Compression::Lzo => lzokay::compress::compress(bytes).unwrap(),
        Compression::Lzma => {
            let mut options = lzma_rust2::XzOptions::with_preset(6);
            options.set_check_sum_type(lzma_rust2::CheckType::None);
            let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
    }
}

fn cbc<C: BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>>(cipher: &C, iv: &[u8; 16], bytes: &mut [u8]) {
    use aes::cipher::InnerIvInit;
    let (blocks, _) = Array::slice_as_chunks_mut(bytes);
    cbc::Encryptor::inner_iv_init(cipher, &Array::from(*iv)).encrypt_blocks(blocks);
}

/// MySQL: encrypts whole blocks, then the last 32 bytes of the result again.
pub fn mysql_encrypt(bytes: &mut [u8]) {
    let cipher = Aes256::new(&KEY.into());
    let iv = std::array::from_fn(|i| 0x20 + i as u8);
    cbc(&cipher, &iv, bytes);
    if !bytes.len().is_multiple_of(16) {
        cbc(&cipher, &iv, bytes.last_chunk_mut::<32>().unwrap());
    }
}

fn mysql_compressed(original: &[u8], compression: Compression, version: u8) -> Vec<u8> {
    let stream = compress(compression, &original[38..]);
    let mut page = original[..38].to_vec();
    page[24..26].copy_from_slice(&14_u16.to_be_bytes());
    page[26] = version;
    page[27] = if compression == Compression::Zlib { 1 } else { 2 };
    page[28..30].copy_from_slice(&original[24..26]);
    page[30..32].copy_from_slice(&u16::try_from(original.len() - 38).unwrap().to_be_bytes());
    page[32..34].copy_from_slice(&u16::try_from(stream.len()).unwrap().to_be_bytes());
    page.extend(stream);
    page.resize(original.len(), 0);
    page
}

/// `original` as MySQL stores it. `encrypted`: the version of the compression header, if there is one.
pub fn mysql(original: &[u8], compression: Option<Compression>, encrypted: Option<u8>) -> Vec<u8> {
    let mut page = compression.map_or(original.to_vec(), |compression| mysql_compressed(original, compression, 2));
    if encrypted.is_none() {
        return page;
    }
    if compression.is_some() {
        let stream = usize::from(u16::from_be_bytes([page[32], page[33]]));
        mysql_encrypt(&mut page[38..38 + stream.max(32)]);
        page[25] = 16;
    } else if page[24..26] == 17854_u16.to_be_bytes() {
        mysql_encrypt(&mut page[38..]);
        page[24..26].copy_from_slice(&[0, 17]);
    } else {
        mysql_encrypt(&mut page[38..]);
        page[28..30].copy_from_slice(&original[24..26]);
        page[24..26].copy_from_slice(&[0, 15]);
    }
    page
}

/// `original` as MySQL up to 8.0.21 stored it on a file system with blocks of `block` bytes.
pub fn mysql_version_1(original: &[u8], compression: Compression, block: usize) -> Vec<u8> {
    let mut page = mysql_compressed(original, compression, 1);
    let stream = usize::from(u16::from_be_bytes([page[32], page[33]]));
    mysql_encrypt(&mut page[38..(38 + stream).next_multiple_of(block)]);
    page[25] = 16;
    page
}

/// The page key of MariaDB.
pub fn page_key(key: &[u8]) -> [u8; 16] {
    let mut block = Array::from(IV);
    match key.len() {
        16 => Aes128::new_from_slice(key).unwrap().encrypt_block(&mut block),
        24 => Aes192::new_from_slice(key).unwrap().encrypt_block(&mut block),
        _ => Aes256::new_from_slice(key).unwrap().encrypt_block(&mut block),
    }
    block.into()
}

/// Encrypts `bytes`, a part of `page`, as MariaDB does.
pub fn mariadb_encrypt(mode: Mode, key: &[u8], page: &[u8], bytes: &mut [u8]) {
    let mut tweak = [0; 16];
    tweak[0] = 5;
    tweak[4] = 4;
    tweak[8..].copy_from_slice(&page[16..24]);
    tweak[8..].reverse();
    let key = page_key(key);
    if mode == Mode::Ctr {
        return ctr::Ctr128BE::<Aes128>::new(&key.into(), &tweak.into()).apply_keystream(bytes);
    }
    let cipher = Aes128::new(&key.into());
    cbc(&cipher, &tweak, bytes);
    let mut mask = Array::from(tweak);
    cipher.encrypt_block(&mut mask);
    let tail = bytes.len() / 16 * 16;
    bytes[tail..].iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

pub fn mariadb_full(original: &[u8], compression: Option<Compression>, cipher: Option<(Mode, u32)>) -> Vec<u8> {
    match cipher {
        Some(cipher) => mariadb_full_with(original, compression, cipher, &KEY),
        None => seal_full(full_unencrypted(original, compression).0, original.len()),
    }
}

/// `original` as MariaDB stores it in full_crc32.
pub fn mariadb_full_with(
    original: &[u8],
    compression: Option<Compression>,
    (mode, version): (Mode, u32),
    key: &[u8],
) -> Vec<u8> {
    let (mut used, image) = full_unencrypted(original, compression);
    used[..4].copy_from_slice(&version.to_be_bytes());
    let end = used.len() - 4;
    mariadb_encrypt(mode, key, &image, &mut used[26..end]);
    seal_full(used, original.len())
}

/// The used part of a full_crc32 page without its checksum, and the page inside.
fn full_unencrypted(original: &[u8], compression: Option<Compression>) -> (Vec<u8>, Vec<u8>) {
    let mut image = original.to_vec();
    let len = image.len();
    image[..4].fill(0);
    image[len - 8..].fill(0);
    image[len - 8..len - 4].copy_from_slice(&original[20..24]);
    let Some(compression) = compression else { return (image.clone(), image) };
    let stream = compress(compression, &image);
    let marked = usize::from(!compression.is_self_terminated());
    let size = (26 + stream.len() + marked + 4).next_multiple_of(256);
    assert!(size < len, "{compression} does not shrink the page");
    let mut used = image[..26].to_vec();
    used[24..26].copy_from_slice(&(0x8000 | u16::try_from(size / 256).unwrap()).to_be_bytes());
    used.extend(&stream);
    used.resize(size, 0);
    if marked == 1 && 26 + stream.len() != size - 5 {
        used[size - 5] = u8::try_from((26 + stream.len() + 5) % 256).unwrap();
    }
    (used, image)
}

fn seal_full(mut used: Vec<u8>, len: usize) -> Vec<u8> {
    let sum = checksum::full_crc32(&used).to_be_bytes();
    let end = used.len();
    used[end - 4..].copy_from_slice(&sum);
    used.resize(len, 0);
    used
}

/// `original` as MariaDB stores it in the older layout.
pub fn mariadb_classic(original: &[u8], compression: Option<Compression>, cipher: Option<(Mode, u32)>) -> Vec<u8> {
    let mut page = original.to_vec();
    let mut encrypted = 38..original.len() - 8;
    if let Some(compression) = compression {
        let id = COMPRESSIONS.iter().position(|&other| other == compression).unwrap() as u8 + 1;
        let stream = compress(compression, original);
        let start = if cipher.is_some() { 42 } else { 40 };
        let page_type: u16 = if cipher.is_some() { 37401 } else { 34354 };
        page[38..].fill(0);
        page[..4].copy_from_slice(&checksum::NO_CHECKSUM_MAGIC.to_be_bytes());
        page[24..26].copy_from_slice(&page_type.to_be_bytes());
        page[26..34].copy_from_slice(&u64::from(id).to_be_bytes());
        page[38..40].copy_from_slice(&u16::try_from(stream.len()).unwrap().to_be_bytes());
        if cipher.is_some() {
            page[41] = id;
        }
        page[start..start + stream.len()].copy_from_slice(&stream);
        encrypted = start..start + stream.len();
    }
    if let Some((mode, version)) = cipher {
        mariadb_encrypt(mode, &KEY, original, &mut page[encrypted]);
        page[26..30].copy_from_slice(&version.to_be_bytes());
        let sum = checksum::crc32(&page).to_be_bytes();
        page[30..34].copy_from_slice(&sum);
    }
    page
}

/// A page of a ROW_FORMAT=COMPRESSED table as MariaDB stores it.
pub fn mariadb_zip(original: &[u8], cipher: Option<(Mode, u32)>) -> Vec<u8> {
    let mut page = original.to_vec();
    let sum = checksum::zip_crc32(&page).to_be_bytes();
    page[..4].copy_from_slice(&sum);
    if let Some((mode, version)) = cipher {
        let end = page.len() - 8;
        mariadb_encrypt(mode, &KEY, original, &mut page[38..end]);
        page[26..30].copy_from_slice(&version.to_be_bytes());
        let sum = checksum::zip_crc32(&page).to_be_bytes();
        page[30..34].copy_from_slice(&sum);
    }
    page
}
