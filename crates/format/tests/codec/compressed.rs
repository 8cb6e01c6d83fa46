//! Pages that we compress as a server does before it writes them.

use innokit_format::checksum;
use innokit_format::codec::{CipherMode, Compression, Context, Deflater, MariaDbLayout, Scratch, SpaceKeys, open_page};
use innokit_format::page::seal::{seal_encrypted, seal_page_compressed, seal_recovered};
use innokit_format::types::PageId;
use innokit_format::{Encryption, Family, PageSize, Scheme, SpaceFormat, SpaceId, Verdict, verify_inside, verify_page};

use super::build::{COMPRESSIONS, KEY, Mode, content, mariadb_classic, mariadb_full};
use super::{ID, space_keys};

const SIZES: [u32; 5] = [1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16];
const CIPHERS: [Option<CipherMode>; 3] = [None, Some(CipherMode::Cbc), Some(CipherMode::Ctr)];

fn formats() -> impl Iterator<Item = SpaceFormat> {
    [Scheme::FullCrc32, Scheme::Classic].into_iter().flat_map(|scheme| {
        SIZES.into_iter().map(move |size| {
            let size = PageSize::new(size).unwrap();
            SpaceFormat::new(Family::MariaDb, scheme, size, size, SpaceId(5)).unwrap().with_page_compressed(true)
        })
    })
}

/// The cases: each format, algorithm and encryption.
fn cases() -> impl Iterator<Item = (SpaceFormat, Compression, Option<CipherMode>)> {
    formats().flat_map(|format| {
        COMPRESSIONS.into_iter().flat_map(move |compression| {
            CIPHERS.into_iter().map(move |cipher| {
                let encryption = if cipher.is_some() { Encryption::MariaDb } else { Encryption::None };
                (format.with_encryption(encryption), compression, cipher)
            })
        })
    })
}

fn context<'k>(format: &SpaceFormat, compression: Compression, keys: &'k SpaceKeys) -> Context<'k> {
    let layout = match format.scheme() {
        Scheme::FullCrc32 => MariaDbLayout::FullCrc32 { compression: Some(compression) },
        _ => MariaDbLayout::Classic,
    };
    Context::MariaDb { layout, encrypted: format.encryption() != Encryption::None, keys: Some(keys) }
}

#[test]
fn a_compressed_page_takes_less_and_is_the_same_inside() {
    let (keys, mut deflater, mut scratch) = (space_keys(&KEY), Deflater::new(), Scratch::new());
    for (format, compression, cipher) in cases() {
        let case = format!("{format:?} {compression} {cipher:?}");
        let original = content(format.physical().bytes(), 7, 40);
        let mut page = original.clone();
        let crypt = cipher.map(|mode| (&keys, mode));
        seal_page_compressed(&mut page, ID, &format, crypt, compression, &mut deflater).unwrap();
        let used = page.iter().rposition(|byte| *byte != 0).unwrap();
        assert!(used < original.len() * 6 / 10, "{case}: {used} bytes");
        let outside = verify_page(&page, ID, &format);
        let context = context(&format, compression, &keys);
        let inside = verify_inside(&page, ID, &format, &context, &mut scratch, outside);
        assert!(matches!(inside, Verdict::Ok(_)), "{case}: {inside:?}");
        let opened = open_page(&page, ID, &context, &mut scratch).unwrap();
        assert_eq!((opened.inflated, opened.decrypted), (Some(compression), cipher.is_some()), "{case}");
        let mut plain = original.clone();
        seal_recovered(&mut plain, ID, &format).unwrap();
        assert!(opened.page == plain, "{case}");
        let mut again = opened.page.to_vec();
        seal_page_compressed(&mut again, ID, &format, crypt, compression, &mut deflater).unwrap();
        assert!(again == page, "{case}: the same page comes to the same bytes");
    }
}

/// The builder of the other tests was modelled on the servers' files. Its full_crc32 pages have no checksum inside.
#[test]
fn a_compressed_page_is_that_of_the_server_but_for_the_encoder() {
    let (keys, mut deflater) = (space_keys(&KEY), Deflater::new());
    for (format, compression, cipher) in cases().filter(|(format, ..)| format.scheme() == Scheme::Classic) {
        let original = content(format.physical().bytes(), 5, 40);
        let mode = cipher.map(|mode| if mode == CipherMode::Cbc { Mode::Cbc } else { Mode::Ctr });
        let built = mariadb_classic(&original, Some(compression), mode.map(|mode| (mode, 3)));
        let mut page = original;
        seal_page_compressed(&mut page, ID, &format, cipher.map(|mode| (&keys, mode)), compression, &mut deflater)
            .unwrap();
        let is_same_encoder = !matches!(compression, Compression::Lzma | Compression::Bzip2);
        assert_eq!(page == built, is_same_encoder, "{format:?} {compression} {cipher:?}");
    }
    for format in formats().filter(|format| format.scheme() == Scheme::FullCrc32) {
        let original = content(format.physical().bytes(), 5, 40);
        for compression in [Compression::Zlib, Compression::Lz4] {
            let built = mariadb_full(&original, Some(compression), None);
            let mut page = original.clone();
            seal_page_compressed(&mut page, ID, &format, None, compression, &mut deflater).unwrap();
            // The checksum inside changes the stream and possibly its length. The frame around it is the same.
            assert_eq!(page[..24], built[..24], "{format:?} {compression}");
            let size = usize::from(u16::from_be_bytes([page[24], page[25]]) & 0x7FFF) << 8;
            let stored = u32::from_be_bytes(page[size - 4..size].try_into().unwrap());
            assert_eq!(checksum::full_crc32(&page[..size]), stored);
            assert!(page[size..].iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn a_page_that_does_not_shrink_or_that_servers_keep_plain_is_not_compressed() {
    let (keys, mut deflater) = (space_keys(&KEY), Deflater::new());
    const FSP_HDR: u16 = 8;
    const XDES: u16 = 9;
    const ALLOCATED: u16 = 0;
    const INDEX: u16 = 17855;
    for (format, compression, cipher) in cases() {
        let kept = [
            (ID, FSP_HDR, 40),
            (ID, XDES, 40),
            (ID, ALLOCATED, 40),
            (PageId::new(5, 0), INDEX, 40),
            (PageId::new(0, 5), INDEX, 40),
            (ID, INDEX, 100),
        ];
        for (id, page_type, filled) in kept {
            let mut page = content(format.physical().bytes(), 3, filled);
            page[24..26].copy_from_slice(&page_type.to_be_bytes());
            page[4..8].copy_from_slice(&id.page_no.0.to_be_bytes());
            page[34..38].copy_from_slice(&id.space.0.to_be_bytes());
            let mut plain = page.clone();
            match cipher {
                Some(mode) => seal_encrypted(&mut plain, id, &format, &keys, mode).unwrap(),
                None => seal_recovered(&mut plain, id, &format).unwrap(),
            }
            let crypt = cipher.map(|mode| (&keys, mode));
            seal_page_compressed(&mut page, id, &format, crypt, compression, &mut deflater).unwrap();
            assert!(page == plain, "{format:?} {compression} {cipher:?} {id} type {page_type} {filled}%");
        }
    }
}

/// Streams of every length, so that they end at every offset of their last 256 bytes.
#[test]
fn the_end_of_the_stream_is_found_wherever_it_lies() {
    let mut deflater = Deflater::new();
    let mut scratch = Scratch::new();
    let size = PageSize::new(4096).unwrap();
    let format = SpaceFormat::new(Family::MariaDb, Scheme::FullCrc32, size, size, SpaceId(5)).unwrap();
    let format = format.with_page_compressed(true);
    let mut marks = std::collections::BTreeSet::new();
    for filler in 0..2400 {
        let mut page = content(4096, 11, 0);
        let noise = content(4096, 3, 100);
        page[38..38 + filler].copy_from_slice(&noise[38..38 + filler]);
        seal_page_compressed(&mut page, ID, &format, None, Compression::Snappy, &mut deflater).unwrap();
        let used = usize::from(u16::from_be_bytes([page[24], page[25]]) & 0x7FFF) << 8;
        marks.insert(page[used - 5]);
        let layout = MariaDbLayout::FullCrc32 { compression: Some(Compression::Snappy) };
        let context = Context::MariaDb { layout, encrypted: false, keys: None };
        let opened = open_page(&page, ID, &context, &mut scratch).unwrap();
        assert_eq!(opened.page[38..38 + filler], noise[38..38 + filler], "{filler}");
    }
    assert!(marks.contains(&0) && marks.len() > 100, "marks of all kinds were written: {marks:?}");
}
