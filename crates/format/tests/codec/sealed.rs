//! Pages that we encrypt as a server does before it writes them.

use innokit_format::codec::{CipherMode, Context, MariaDbLayout, Scratch, cipher_mode, open_page};
use innokit_format::page::seal::{SealError, seal_encrypted, seal_recovered};
use innokit_format::types::PageId;
use innokit_format::{
    Encryption, Family, PageSize, Scheme, SpaceFormat, SpaceId, Verdict, Why, verify_inside, verify_page,
};

use super::build::{KEY, Mode, content, mariadb_classic, mariadb_full, mariadb_zip};
use super::{FULL, ID, mariadb, space_keys};

const SCHEMES: [(Scheme, MariaDbLayout); 3] =
    [(Scheme::FullCrc32, FULL), (Scheme::Classic, MariaDbLayout::Classic), (Scheme::Zip, MariaDbLayout::Zip)];
const MODES: [(CipherMode, Mode); 2] = [(CipherMode::Cbc, Mode::Cbc), (CipherMode::Ctr, Mode::Ctr)];
/// Every size a scheme's pages can have, 1 KiB first.
const SIZES: [usize; 7] = [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16];

fn format(scheme: Scheme, size: usize) -> Option<SpaceFormat> {
    let physical = PageSize::new(u32::try_from(size).unwrap())?;
    let logical = if scheme == Scheme::Zip { PageSize::DEFAULT } else { physical };
    let format = SpaceFormat::new(Family::MariaDb, scheme, logical, physical, SpaceId(5))?;
    Some(format.with_encryption(Encryption::MariaDb))
}

/// Each scheme with each of its page sizes.
fn formats() -> impl Iterator<Item = (SpaceFormat, MariaDbLayout, usize)> {
    SCHEMES.into_iter().flat_map(|(scheme, layout)| {
        SIZES.into_iter().filter_map(move |size| Some((format(scheme, size)?, layout, size)))
    })
}

/// The same page from the builder of the other tests, which was modelled on the servers' files.
fn built(scheme: Scheme, page: &[u8], mode: Mode) -> Vec<u8> {
    match scheme {
        Scheme::FullCrc32 => mariadb_full(page, None, Some((mode, 3))),
        Scheme::Classic => mariadb_classic(page, None, Some((mode, 3))),
        Scheme::Zip => mariadb_zip(page, Some((mode, 3))),
    }
}

#[test]
fn a_sealed_page_is_that_of_the_server_and_opens_again() {
    let keys = space_keys(&KEY);
    let mut kinds = 0;
    for ((format, layout, size), (mode, other)) in formats().flat_map(|format| MODES.map(|mode| (format, mode))) {
        let original = content(size, 7, 60);
        let mut page = original.clone();
        seal_encrypted(&mut page, ID, &format, &keys, mode).unwrap();
        assert!(page == built(format.scheme(), &original, other), "{format:?} {mode:?}");
        let context = mariadb(layout, &keys);
        let mut scratch = Scratch::new();
        assert_eq!(cipher_mode(&page, ID, &context, &mut scratch), Ok(Some(mode)));
        let outside = verify_page(&page, ID, &format);
        assert!(matches!(outside, Verdict::Ok(_)), "{format:?}: {outside:?}");
        assert_eq!(verify_inside(&page, ID, &format, &context, &mut scratch, outside), outside);
        let opened = open_page(&page, ID, &context, &mut scratch).unwrap();
        assert!(opened.decrypted);
        let mut again = opened.page.to_vec();
        seal_encrypted(&mut again, ID, &format, &keys, mode).unwrap();
        assert!(again == page, "the same page comes to the same bytes");
        kinds += 1;
    }
    assert_eq!(kinds, 2 * (5 + 5 + 5), "5 page sizes of each scheme");
}

#[test]
fn pages_that_servers_leave_plain_stay_plain() {
    const RTREE: u16 = 17854;
    let keys = space_keys(&KEY);
    for (format, ..) in formats() {
        let is_full = format.scheme() == Scheme::FullCrc32;
        // The first page, an extent descriptor page, the transaction system page; and an R-tree page, which has space for the key version
        // only in full_crc32.
        let cases = [
            (ID, 8, true),
            (ID, 9, true),
            (PageId::new(0, 5), 7, true),
            (PageId::new(5, 0), 3, true),
            (ID, RTREE, !is_full),
            (PageId::new(5, 5), 7, false),
            (ID, 2, false),
        ];
        for (id, page_type, is_plain) in cases {
            let mut page = content(format.physical().bytes(), 3, 60);
            page[24..26].copy_from_slice(&page_type.to_be_bytes());
            page[4..8].copy_from_slice(&id.page_no.0.to_be_bytes());
            page[34..38].copy_from_slice(&id.space.0.to_be_bytes());
            let mut plain = page.clone();
            seal_recovered(&mut plain, id, &format).unwrap();
            seal_encrypted(&mut page, id, &format, &keys, CipherMode::Cbc).unwrap();
            assert_eq!(page == plain, is_plain, "{format:?} {id} type {page_type}");
        }
    }
}

#[test]
fn a_page_without_checksum_does_not_tell_the_mode() {
    let keys = space_keys(&KEY);
    for (scheme, layout) in [(Scheme::Classic, MariaDbLayout::Classic), (Scheme::Zip, MariaDbLayout::Zip)] {
        let mut original = content(4096, 9, 60);
        original[..4].copy_from_slice(&0xDEAD_BEEF_u32.to_be_bytes());
        let page = match scheme {
            Scheme::Classic => mariadb_classic(&original, None, Some((Mode::Ctr, 3))),
            _ => {
                let mut page = mariadb_zip(&original, Some((Mode::Ctr, 3)));
                page[..4].copy_from_slice(&original[..4]);
                page
            }
        };
        let context = mariadb(layout, &keys);
        assert_eq!(cipher_mode(&page, ID, &context, &mut Scratch::new()), Ok(None));
    }
    let plain = mariadb_full(&content(4096, 9, 60), None, None);
    assert_eq!(cipher_mode(&plain, ID, &mariadb(FULL, &keys), &mut Scratch::new()), Ok(None));
    let context = Context::MySql { key: None };
    assert_eq!(cipher_mode(&plain, ID, &context, &mut Scratch::new()), Ok(None));
}

#[test]
fn what_cannot_be_sealed_is_left_as_it_is() {
    let keys = space_keys(&KEY);
    let format = format(Scheme::FullCrc32, 4096).unwrap();
    let mut short = content(2048, 1, 60);
    let before = short.clone();
    let sealed = seal_encrypted(&mut short, ID, &format, &keys, CipherMode::Cbc);
    assert_eq!(sealed, Err(SealError::Length { len: 2048, expected: 4096 }));
    assert!(short == before);
    let (right, wrong) = (space_keys(&KEY[..16]), keys);
    let mut page = content(4096, 1, 60);
    seal_encrypted(&mut page, ID, &format, &right, CipherMode::Cbc).unwrap();
    let outside = verify_page(&page, ID, &format);
    let verdict = verify_inside(&page, ID, &format, &mariadb(FULL, &wrong), &mut Scratch::new(), outside);
    assert_eq!(verdict, Verdict::Unverifiable(Why::WrongKey));
}
