//! What page 0 says about a tablespace, and what can be found out about files without one.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

mod common;

use common::{LSN, put, put_u32, sealed_as, size};
use innokit_format::page::doublewrite::DoublewriteArea;
use innokit_format::page::fsp::{self, SpaceHeader};
use innokit_format::{
    Algorithm, Encryption, Family, NotTablespace, PageId, PageNo, PageSize, Scheme, SpaceFormat, SpaceId, seal_page,
};

/// Page 0 with only the fields that decide the format. `marker` is in the place of other pages' neighbour links.
fn head(flags: u32, marker: (u32, u32)) -> Vec<u8> {
    let mut head = vec![0; 65_536];
    put_u32(&mut head, 8, marker.0);
    put_u32(&mut head, 12, marker.1);
    put(&mut head, 24, &8_u16.to_be_bytes());
    put_u32(&mut head, 34, 7);
    put_u32(&mut head, 38, 7);
    put_u32(&mut head, 54, flags);
    head
}

const MYSQL_9: (u32, u32) = (90_704, 1);
const MYSQL_5: (u32, u32) = (0, 0);
const MARIADB: (u32, u32) = (u32::MAX, u32::MAX);

fn decided(flags: u32, marker: (u32, u32)) -> SpaceFormat {
    SpaceFormat::from_page0(&head(flags, marker)).unwrap_or_else(|error| panic!("0x{flags:x}: {error}"))
}

#[test]
fn flags_words_that_mysql_writes() {
    let words = [
        (0x4021, 16_384, 16_384),
        (0x4000, 16_384, 16_384),
        (0x4029, 16_384, 8192),
        (0x4023, 16_384, 1024),
        (0x402B, 16_384, 16_384),
        (0x4421, 16_384, 16_384),
        (0x4800, 16_384, 16_384),
        (0x0000, 16_384, 16_384),
        (0x40E1, 4096, 4096),
        (0x40E5, 4096, 2048),
        (0x4121, 8192, 8192),
        (0x41A1, 32_768, 32_768),
        (0x41E1, 65_536, 65_536),
    ];
    for (flags, logical, physical) in words {
        let format = decided(flags, MYSQL_9);
        assert_eq!((format.family(), format.encryption()), (Family::MySql, Encryption::None));
        assert_eq!((format.logical(), format.physical()), (size(logical), size(physical)), "0x{flags:x}");
        let zip = flags & 0x1E != 0;
        assert_eq!(format.scheme(), if zip { Scheme::Zip } else { Scheme::Classic }, "0x{flags:x}");
        assert_eq!((format.space(), format.flags()), (SpaceId(7), flags));
    }
}

#[test]
fn mysql_flags_for_encryption_and_temporary_tables() {
    for flags in [0x6021, 0x6800, 0x2000] {
        assert_eq!(decided(flags, MYSQL_9).encryption(), Encryption::MySql, "0x{flags:x}");
    }
    for flags in [0x1000, 0x1800, 0x10C0] {
        assert!(decided(flags, MYSQL_9).is_temporary(), "0x{flags:x}");
    }
}

#[test]
fn flags_words_that_mariadb_writes() {
    let full = [(0x13, 4096), (0x14, 8192), (0x15, 16_384), (0x16, 32_768), (0x17, 65_536)];
    for (flags, bytes) in full {
        let format = decided(flags, MARIADB);
        assert_eq!(
            (format.scheme(), format.physical(), format.family()),
            (Scheme::FullCrc32, size(bytes), Family::MariaDb)
        );
        assert!(!format.is_page_compressed());
    }
    assert!(decided(0x35, MARIADB).is_page_compressed());
    let classic = [(0x21, 16_384), (0xE1, 4096), (0x121, 8192), (0x1A1, 32_768), (0x1E1, 65_536)];
    for (flags, bytes) in classic {
        let format = decided(flags, MARIADB);
        assert_eq!(
            (format.scheme(), format.physical(), format.family()),
            (Scheme::Classic, size(bytes), Family::MariaDb)
        );
    }
    assert!(decided(0x0001_0021, MARIADB).is_page_compressed());
    assert_eq!(decided(0x29, MARIADB).scheme(), Scheme::Zip);
}

#[test]
fn flags_that_no_server_writes_are_refused() {
    let words = [
        (0x8000, MYSQL_9), // bit 15
        (0x4001, MYSQL_9), // antelope bit without atomic blobs
        (0x4020, MYSQL_9), // and the reverse
        (0x402D, MYSQL_9), // zip size 6
        (0x4061, MYSQL_9), // page size 1 KiB
        (0x4C00, MYSQL_9), // data directory and shared
        (0x3000, MYSQL_9), // encrypted and temporary
        (0x41EB, MYSQL_9), // zip in 64 KiB pages
        (0x12, MARIADB),   // full_crc32 with 2 KiB pages
        (0xF5, MARIADB),   // full_crc32 with algorithm 7
        (0x0115, MARIADB), // full_crc32 with a bit above
        (0x4021, MARIADB), // MySQL's SDI bit in a MariaDB file
        (0x2D, MARIADB),   // zip size 6
        (0x0561, MARIADB), // 16 KiB written as 5
        (0xFFFF_FFFF, MYSQL_5),
    ];
    for (flags, marker) in words {
        let refused = SpaceFormat::from_page0(&head(flags, marker));
        assert_eq!(refused, Err(NotTablespace::Flags { flags }), "0x{flags:x}");
    }
}

#[test]
fn flags_of_mariadb_10_1_have_the_page_size_elsewhere() {
    // page_compressed, level 6, 16 KiB. Read as later flags, the page size would not exist.
    let format = decided(0x21 | 1 << 6 | 6 << 7, MYSQL_5);
    assert_eq!(
        (format.family(), format.physical(), format.is_page_compressed()),
        (Family::MariaDb, PageSize::DEFAULT, true)
    );
    let format = decided(0x21 | 3 << 13, MARIADB);
    assert_eq!((format.physical(), format.is_page_compressed()), (size(4096), false));
}

#[test]
fn a_word_with_two_readings_is_settled_by_the_page_numbers() {
    // 4 KiB pages, or 10.1's page_compressed level 1 with 16 KiB pages.
    let flags = 0xE1;
    let mut small = head(flags, MYSQL_5);
    let mut large = small.clone();
    (1..16).for_each(|page| put_u32(&mut small, page * 4096 + 4, page as u32));
    (1..4).for_each(|page| put_u32(&mut large, page * 16_384 + 4, page as u32));
    let settled = |head: &[u8]| {
        SpaceFormat::from_page0(head).map(|format| (format.physical().get(), format.is_page_compressed()))
    };
    assert_eq!(settled(&small), Ok((4096, false)));
    assert_eq!(settled(&large), Ok((16_384, true)));
    assert_eq!(settled(&small[..1024]), Ok((4096, false)), "the later reading is the usual one");
}

#[test]
fn mariadbs_crypt_data_settle_the_family_of_old_files() {
    let mut head = head(0x21, MYSQL_5);
    let found = |head: &[u8]| SpaceFormat::from_page0(head).map(|format| (format.family(), format.encryption()));
    assert_eq!(found(&head), Ok((Family::MySql, Encryption::None)));
    put(&mut head, 10_428, &[0x73, 0x0E, 0x0C, 0x52, 0x45, 0x74, 1, 16]);
    assert_eq!(found(&head), Ok((Family::MariaDb, Encryption::MariaDb)));
    head[10_434] = 0;
    assert_eq!(found(&head), Ok((Family::MariaDb, Encryption::None)));
}

#[test]
fn extent_descriptors_end_where_the_servers_say() {
    let ends = [
        (4096, 4096, 1558),
        (8192, 8192, 3734),
        (16_384, 16_384, 10_390),
        (32_768, 32_768, 20_630),
        (65_536, 65_536, 41_110),
        (16_384, 8192, 5270),
        (16_384, 4096, 2710),
        (16_384, 2048, 1430),
        (16_384, 1024, 790),
    ];
    for (logical, physical, end) in ends {
        assert_eq!(fsp::xdes_array_end(size(logical), size(physical)), end);
    }
}

#[test]
fn each_reason_not_to_be_a_tablespace_is_named() {
    let good = head(0x4021, MYSQL_9);
    let broken = |at: usize, bytes: &[u8]| {
        let mut head = good.clone();
        put(&mut head, at, bytes);
        SpaceFormat::from_page0(&head)
    };
    assert_eq!(SpaceFormat::from_page0(&good[..1023]), Err(NotTablespace::TooShort { len: 1023 }));
    assert_eq!(SpaceFormat::from_page0(&[]), Err(NotTablespace::TooShort { len: 0 }));
    assert_eq!(SpaceFormat::from_page0(&[0; 4096]), Err(NotTablespace::Zero));
    assert_eq!(broken(4, &[0, 0, 3, 0]), Err(NotTablespace::PageNumber { page_no: 768 }));
    assert_eq!(broken(24, &[0, 9]), Err(NotTablespace::PageType { page_type: 9 }));
    assert_eq!(broken(38, &[0, 0, 0, 8]), Err(NotTablespace::SpaceIds { fil: 7, fsp: 8 }));
    assert!(broken(24, &[0, 0]).is_ok(), "servers up to 5.1 gave page 0 no type");
    let elf = SpaceFormat::from_page0(&b"\x7fELF\x02\x01\x01\x00".repeat(512));
    assert_eq!(
        elf.map_err(|error| error.to_string()),
        Err("the first page says that it is page 33620224, but a tablespace begins with page 0".into())
    );
}

#[test]
fn the_space_header_is_read_as_it_stands() {
    let mut page = head(0x4021, MYSQL_9);
    put_u32(&mut page, 46, 640);
    put_u32(&mut page, 50, 128);
    put_u32(&mut page, 58, 6);
    put(&mut page, 62, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 158, 0, 0, 0, 0, 0, 198]);
    put(&mut page, 110, &9_u64.to_be_bytes());
    let header = SpaceHeader::parse(&page).expect("long enough");
    assert_eq!((header.space, header.size, header.free_limit, header.frag_n_used), (SpaceId(7), 640, PageNo(128), 6));
    assert_eq!((header.free.len, header.free.first.offset, header.free.last.offset), (1, 158, 198));
    assert_eq!(header.next_segment_id, 9);
    assert!(SpaceHeader::parse(&page[..149]).is_err());
    assert!(SpaceHeader::parse(&page[..150]).is_ok());
}

/// The pages of a tablespace from `first` on, every third of them zero.
fn file(format: &SpaceFormat, algorithm: Algorithm, first: u32, pages: u32) -> Vec<u8> {
    let page = |page_no| match page_no % 3 {
        2 => vec![0; format.physical().bytes()],
        _ => sealed_as(format, PageId { space: format.space(), page_no: PageNo(page_no) }, algorithm, common::INDEX),
    };
    (first..first + pages).flat_map(page).collect()
}

#[test]
fn the_format_of_a_file_is_found_without_its_page_0() {
    for (format, algorithm) in common::kinds() {
        let mut bytes = file(&format, algorithm, 0, 24);
        bytes[..1024].fill(0xA5);
        let guess = SpaceFormat::guess(&bytes, Some(format.logical())).expect("a guess");
        let found = (guess.format.scheme(), guess.format.physical(), guess.format.space(), guess.first_page_no);
        assert_eq!(found, (format.scheme(), format.physical(), format.space(), PageNo(0)), "{format:?} {algorithm}");
        assert!(guess.hits >= 14, "{} hits", guess.hits);
    }
}

#[test]
fn encrypted_and_compressed_pages_do_not_mislead_the_guess() {
    let format = common::full(16_384);
    let mut bytes = file(&format, Algorithm::FullCrc32, 0, 24);
    for page in bytes.chunks_exact_mut(16_384).skip(3) {
        put_u32(page, 0, 1);
        put_u32(page, 34, 0xC0DE_C0DE);
        let crc = innokit_format::checksum::full_crc32(page);
        put_u32(page, 16_380, crc);
    }
    let guess = SpaceFormat::guess(&bytes, None).expect("a guess");
    assert_eq!((guess.format.scheme(), guess.format.space()), (Scheme::FullCrc32, format.space()));
    let guess = SpaceFormat::guess(&bytes[3 * 16_384..], None).expect("a guess");
    assert_eq!((guess.first_page_no, guess.format.space()), (PageNo(3), SpaceId::NONE));

    let format = common::classic(Family::MariaDb, 16_384);
    let mut bytes = file(&format, Algorithm::None, 0, 24);
    bytes
        .chunks_exact_mut(16_384)
        .filter(|page| page[34..38] != [0; 4])
        .for_each(|page| put(page, 24, &34_354_u16.to_be_bytes()));
    let guess = SpaceFormat::guess(&bytes, None).expect("a guess");
    let found = (guess.format.scheme(), guess.format.family(), guess.format.is_page_compressed());
    assert_eq!(found, (Scheme::Classic, Family::MariaDb, true));
}

#[test]
fn later_files_of_the_system_tablespace_begin_with_their_own_page_number() {
    let system =
        SpaceFormat::new(Family::MySql, Scheme::Classic, size(16_384), size(16_384), SpaceId(0)).expect("a format");
    let bytes = file(&system, Algorithm::Crc32, 768, 20);
    let guess = SpaceFormat::guess(&bytes, None).expect("a guess");
    assert_eq!(
        (guess.first_page_no, guess.format.space(), guess.format.physical()),
        (PageNo(768), SpaceId(0), size(16_384))
    );
}

#[test]
fn nothing_is_guessed_from_zeros_text_or_a_single_page() {
    assert_eq!(SpaceFormat::guess(&[0; 1 << 20], None), None);
    assert_eq!(SpaceFormat::guess(&[], None), None);
    let text: Vec<u8> = b"It was a dark and stormy night; the rain fell in torrents. ".repeat(4000);
    assert_eq!(SpaceFormat::guess(&text, None), None);
    let format = common::classic(Family::MySql, 16_384);
    let mut page = common::unsealed(&format, PageId::new(5, 0), 8);
    seal_page(&mut page, LSN, Algorithm::Crc32, &format).expect("sealed");
    assert_eq!(SpaceFormat::guess(&page, None).filter(|guess| guess.hits > 1), None);
}

#[test]
fn a_users_page_size_overrides_the_flags() {
    let format = decided(0x4021, MYSQL_9).with_page_size(size(4096));
    assert_eq!((format.logical(), format.physical(), format.extent_pages()), (size(4096), size(4096), 256));
    let zip = decided(0x4029, MYSQL_9).with_page_size(size(4096));
    assert_eq!((zip.logical(), zip.physical(), zip.scheme()), (size(16_384), size(4096), Scheme::Zip));
    assert_eq!(decided(0x15, MARIADB).with_family(Family::MySql).family(), Family::MariaDb);
}

#[test]
fn formats_that_cannot_be_are_not_made() {
    let make =
        |family, scheme, logical, physical| SpaceFormat::new(family, scheme, size(logical), size(physical), SpaceId(1));
    assert_eq!(make(Family::MySql, Scheme::FullCrc32, 16_384, 16_384), None);
    assert_eq!(make(Family::MySql, Scheme::Classic, 16_384, 8192), None);
    assert_eq!(make(Family::MySql, Scheme::Zip, 4096, 8192), None);
    assert_eq!(make(Family::MySql, Scheme::Zip, 32_768, 8192), None);
    assert_eq!(make(Family::MySql, Scheme::Classic, 2048, 2048), None);
    assert_eq!(PageSize::new(3000), None);
}

#[test]
fn the_doublewrite_area_is_where_page_5_says() {
    let mut page = vec![0; 16_384];
    assert_eq!(DoublewriteArea::parse(&page), None);
    put_u32(&mut page, 16_384 - 200 + 10, 536_853_855);
    put_u32(&mut page, 16_384 - 200 + 14, 64);
    put_u32(&mut page, 16_384 - 200 + 18, 128);
    let area = DoublewriteArea::parse(&page).expect("a header");
    assert_eq!(area, DoublewriteArea::usual(PageSize::DEFAULT));
    let system = decided(0x4800, MYSQL_9).with_space(SpaceId::SYSTEM);
    let slots = |format: &SpaceFormat| {
        (0..300).filter(|&page_no| format.is_doublewrite_slot(PageId::new(0, page_no))).collect::<Vec<_>>()
    };
    assert_eq!(slots(&system), (64..192).collect::<Vec<_>>());
    assert_eq!(slots(&system.with_doublewrite_area(Some(area))), (64..192).collect::<Vec<_>>());
    assert_eq!(slots(&system.with_doublewrite_area(None)), Vec::<u32>::new());
    assert!(!decided(0x4021, MYSQL_9).is_doublewrite_slot(PageId::new(7, 64)));
}
