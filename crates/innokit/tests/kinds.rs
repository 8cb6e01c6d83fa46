//! Every kind of page that real servers write: sound ones are found sound (with their keys and, as far as can be, without), and
//! one damaged byte in any part of a page that the server's checksums cover is found, on the page where it lies.
//!
//! The datadirs are those of `scripts/make-datadirs.sh --with encrypted,compressed`. Each [`Layout`] says for each way of storing a
//! page which bytes nothing covers: those bytes the server neither verifies nor uses, and a change to them is no damage.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Dir, all_datadirs, check, check_json, reasons, repository, total};
use serde_json::Value;

const ENCRYPTED: [&str; 3] = ["mysql-16k-tde", "mariadb-16k-enc", "mariadb-16k-crc32-enc"];
const COMPRESSED: [&str; 3] = ["mysql-16k-compressed", "mariadb-16k-compressed", "mariadb-16k-crc32-compressed"];

/// The options that give `check` the keys of the datadir `name`.
fn keys_of(name: &str) -> Vec<String> {
    let control = all_datadirs().join(format!(".{name}.server"));
    let keys = control.join("keys").display().to_string();
    match name {
        "mysql-16k-tde" => vec!["--keyring".into(), keys],
        "mariadb-16k-enc" => vec!["--key-file".into(), keys],
        "mariadb-16k-crc32-enc" => {
            vec!["--key-file".into(), format!("{keys},FILE:{}", control.join("filekey").display())]
        }
        _ => Vec::new(),
    }
}

fn check_with(path: &Path, options: &[String]) -> (Value, i32) {
    check_json(path, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

fn findings(document: &Value) -> &Vec<Value> {
    document["findings"].as_array().expect("findings")
}

// --- Nothing sound is called anything else ---------------------------------------------------------------------------------

#[test]
fn with_their_keys_all_files_are_sound_to_the_last_page() {
    for name in ENCRYPTED.iter().chain(&COMPRESSED) {
        let (document, status) = check_with(&all_datadirs().join(name), &keys_of(name));
        assert_eq!(findings(&document).len(), 0, "{name}: {:#}", document["findings"]);
        assert_eq!((status, total(&document, "unverifiable"), total(&document, "corrupt")), (0, 0, 0), "{name}");
        assert!(total(&document, "ok") > 1000, "{name}: {:#}", document["totals"]);
    }
}

/// MySQL's checksum lies under the encryption, MariaDB's (also) over it.
#[test]
fn without_keys_nothing_is_called_corrupt_and_what_cannot_be_verified_says_why() {
    for (name, expected) in [("mysql-16k-tde", 2), ("mariadb-16k-enc", 0), ("mariadb-16k-crc32-enc", 0)] {
        let (document, status) = check_with(&all_datadirs().join(name), &[]);
        assert_eq!((status, total(&document, "corrupt")), (expected, 0), "{name}: {:#}", document["findings"]);
        assert_eq!(total(&document, "unverifiable") > 5000, expected == 2, "{name}: {:#}", document["totals"]);
        for finding in findings(&document) {
            assert_eq!(finding["severity"], "undecided", "{name}: {finding:#}");
            assert_eq!(finding["reason"], "encrypted_no_key", "{name}: {finding:#}");
            assert!(finding["message"].as_str().is_some_and(|words| words.contains("encrypted, and there is no key")));
        }
    }
}

#[test]
fn a_wrong_key_is_an_error_that_says_so_and_never_damage() {
    let dir = Dir::new();
    let key_file =
        dir.file("keys", b"1;00000000000000000000000000000001\n2;000000000000000000000000000000000000000000000002\n");
    let keyring = std::fs::read_to_string(all_datadirs().join(".mysql-16k-tde.server/keys")).expect("a keyring");
    let keyring = dir.file("keyring", other_keys(&keyring).as_bytes());
    for (name, option, keys) in [
        ("mysql-16k-tde", "--keyring", &keyring),
        ("mariadb-16k-enc", "--key-file", &key_file),
        ("mariadb-16k-crc32-enc", "--key-file", &key_file),
    ] {
        let options = [option.to_owned(), keys.display().to_string()];
        let (document, status) = check_with(&all_datadirs().join(name), &options);
        assert_eq!((status, total(&document, "corrupt")), (2, 0), "{name}: {:#}", document["findings"]);
        assert!(total(&document, "unverifiable") > 4000, "{name}: {:#}", document["totals"]);
        let wrong = findings(&document).iter().filter(|finding| finding["reason"] == "wrong_key");
        let words: Vec<_> = wrong.map(|finding| finding["message"].as_str().expect("a message")).collect();
        assert!(words.len() > 40, "{name}: {} findings of a wrong key", words.len());
        let say_so = |words: &&str| words.contains("does not open it") || words.contains("is not the one");
        assert!(words.iter().all(say_so), "{name}: {words:?}");
    }
}

/// The keyring with the same names and other keys.
fn other_keys(keyring: &str) -> String {
    let mut document: Value = serde_json::from_str(keyring).expect("the component's file is JSON");
    let elements = document["elements"].as_array_mut().expect("elements");
    assert_eq!(elements.len(), 2, "a master key and the one after its rotation");
    for element in elements {
        element["data"] = "0123456789ABCDEF".repeat(4).into();
    }
    document.to_string()
}

#[test]
fn a_key_file_that_its_password_does_not_open_is_refused() {
    let keys = all_datadirs().join(".mariadb-16k-crc32-enc.server/keys").display().to_string();
    let run = check(&all_datadirs().join("mariadb-16k-crc32-enc"), &["--key-file", &format!("{keys},another")]);
    assert_eq!((run.status, run.text.as_str()), (2, ""));
    assert!(run.errors.contains("does not decrypt with the key given for it"), "{}", run.errors);
}

// --- One damaged byte ------------------------------------------------------------------------------------------------------

/// A way of storing a page: which pages are stored so, and which of their bytes matter.
struct Layout {
    /// Whether the page is stored so.
    is: fn(&[u8]) -> bool,
    /// First byte of what is stored behind the header.
    start: usize,
    /// The byte after what is stored.
    end: fn(&[u8]) -> usize,
    /// Bytes of the header that matter.
    header: &'static [usize],
    /// Bytes that name a key or an algorithm: changed, they name one that is not known here. The page is not verifiable then.
    naming: &'static [usize],
    /// Bytes that no checksum covers and that the server does not use. The first byte after `end` is one of them.
    uncovered: &'static [usize],
    /// Bytes in a row that are damaged behind the header: one where a checksum covers each of them.
    run: usize,
}

/// Of a compressed stream alone one bit may be read by nobody: padding behind its end, a match that copies the same bytes from
/// another place. Of four bytes in a row some are read.
const STREAM: usize = 4;

/// What a damaged byte is changed by.
const FLIP: u8 = 0x40;

fn u16_at(page: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([page[at], page[at + 1]]))
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}

fn page_type(page: &[u8]) -> usize {
    u16_at(page, 24)
}

/// Bytes of a full_crc32 page that is page_compressed, which are the size in its type.
fn full_size(page: &[u8]) -> usize {
    (page_type(page) & 0x7FFF) << 8
}

/// The checksums of old leave out bytes 26 to 37, of which the space id (34) is compared with the tablespace's.
const CLASSIC: Layout = Layout {
    is: |_| true,
    start: 38,
    end: <[u8]>::len,
    header: &[0, 4, 8, 12, 16, 23, 24, 34],
    naming: &[],
    uncovered: &[26, 29, 33],
    run: 1,
};
/// That of compressed row formats also leaves out the LSN, of which there is no second copy.
const ZIP: Layout = Layout { header: &[0, 4, 8, 12, 24, 34], uncovered: &[16, 23, 26, 29, 33], ..CLASSIC };
/// That of full_crc32 leaves out nothing.
const FULL: Layout = Layout {
    is: |page| u32_at(page, 0) == 0 && page_type(page) & 0x8000 == 0,
    header: &[0, 4, 8, 12, 16, 24, 26, 30, 34],
    uncovered: &[],
    ..CLASSIC
};
/// It lies over the encrypted bytes.
const FULL_ENCRYPTED: Layout = Layout { is: |page| u32_at(page, 0) > 0 && page_type(page) & 0x8000 == 0, ..FULL };
/// ... and over the compressed ones.
const FULL_COMPRESSED: Layout = Layout {
    is: |page| u32_at(page, 0) == 0 && page_type(page) & 0x8000 > 0,
    start: 26,
    end: full_size,
    header: &[0, 4, 8, 12, 16, 24, 25],
    naming: &[],
    uncovered: &[],
    run: 1,
};
const FULL_BOTH: Layout = Layout { is: |page| u32_at(page, 0) > 0 && page_type(page) & 0x8000 > 0, ..FULL_COMPRESSED };
/// MySQL: the header is that of the page inside, whose checksum covers it; 26 to 33 describe the compression.
const MYSQL_COMPRESSED: Layout = Layout {
    is: |page| page_type(page) == 14,
    start: 38,
    end: |page| 38 + u16_at(page, 32),
    header: &[0, 4, 8, 12, 16, 24, 25, 26, 27, 28, 29, 30, 31, 32, 34],
    naming: &[],
    uncovered: &[],
    run: STREAM,
};
/// MySQL: 28 and 29 keep the type of the page inside.
const MYSQL_ENCRYPTED: Layout = Layout {
    is: |page| page_type(page) == 15,
    header: &[0, 4, 8, 12, 16, 24, 28, 29, 34],
    uncovered: &[26, 27, 30, 33],
    ..CLASSIC
};
const MYSQL_ENCRYPTED_ZIP: Layout =
    Layout { header: &[0, 4, 8, 12, 24, 28, 29, 34], uncovered: &[16, 23, 26, 27, 30, 33], ..MYSQL_ENCRYPTED };
const MYSQL_ENCRYPTED_RTREE: Layout = Layout { is: |page| page_type(page) == 17, ..MYSQL_ENCRYPTED };
const MYSQL_BOTH: Layout = Layout { is: |page| page_type(page) == 16, ..MYSQL_COMPRESSED };
/// MariaDB, compressed row formats too, since the encryption starts from the LSN: a checksum over the encrypted bytes at 30, besides those of the page inside at both ends.
const MARIADB_ENCRYPTED: Layout = Layout {
    is: |page| u32_at(page, 26) > 0 && page_type(page) != 37401,
    header: &[0, 4, 8, 12, 16, 24, 30, 34],
    naming: &[26, 29],
    uncovered: &[],
    ..CLASSIC
};
/// MariaDB: the whole page is inside, header and all; of the header outside only the number, the type, the algorithm and the
/// length are used.
const MARIADB_COMPRESSED: Layout = Layout {
    is: |page| page_type(page) == 34354,
    start: 40,
    end: |page| 40 + u16_at(page, 38),
    header: &[4, 24, 25, 34, 38],
    naming: &[33],
    uncovered: &[8, 12],
    run: STREAM,
};
const MARIADB_BOTH: Layout = Layout {
    is: |page| page_type(page) == 37401,
    start: 42,
    end: |page| 42 + u16_at(page, 38),
    header: &[4, 24, 25, 34, 38],
    naming: &[26, 29, 41],
    uncovered: &[8, 12],
    run: STREAM,
};

impl Layout {
    /// The places to damage, and what must be said then.
    fn places(&self, page: &[u8]) -> Vec<(Range<usize>, Said)> {
        let end = (self.end)(page);
        let inside = [self.start, self.start + (end - self.start) / 3, end - 9, end - self.run];
        let inside = inside.map(|at| (at..at + self.run, Said::Damage));
        let damaged = self.header.iter().map(|at| (*at..at + 1, Said::Damage)).chain(inside);
        let naming = self.naming.iter().map(|at| (*at..at + 1, Said::Undecided));
        let after = (end < page.len()).then_some(end);
        let uncovered = self.uncovered.iter().copied().chain(after).map(|at| (at..at + 1, Said::Nothing));
        damaged.chain(naming).chain(uncovered).collect()
    }
}

/// What `check` says of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Damage,
    /// Not page by page, but how many there are.
    Undecided,
    Nothing,
}

/// A kind of page: where there are some. A `*` in the file's name stands for an id.
struct Kind(&'static str, &'static str, &'static Layout, Option<usize>);

/// Type of B-tree pages, etc.
const INDEX: Option<usize> = Some(17855);
const RTREE: Option<usize> = Some(17854);
const ANY: Option<usize> = None;

#[rustfmt::skip]
const MYSQL: &[Kind] = &[
    Kind("redundant", "mysql-16k/shop/row_redundant.ibd", &CLASSIC, INDEX),
    Kind("compact", "mysql-16k/shop/row_compact.ibd", &CLASSIC, INDEX),
    Kind("dynamic", "mysql-16k/shop/row_dynamic.ibd", &CLASSIC, INDEX),
    Kind("KEY_BLOCK_SIZE=1", "mysql-16k/shop/zip_1k.ibd", &ZIP, INDEX),
    Kind("KEY_BLOCK_SIZE=2", "mysql-16k/shop/zip_2k.ibd", &ZIP, INDEX),
    Kind("KEY_BLOCK_SIZE=4", "mysql-16k/shop/zip_4k.ibd", &ZIP, INDEX),
    Kind("KEY_BLOCK_SIZE=8", "mysql-16k/shop/zip_8k.ibd", &ZIP, INDEX),
    Kind("KEY_BLOCK_SIZE=16", "mysql-16k/shop/zip_16k.ibd", &ZIP, INDEX),
    Kind("a partition", "mysql-16k/shop/parts#p#rest.ibd", &CLASSIC, INDEX),
    Kind("a subpartition", "mysql-16k/shop/subparts#p#p1#sp#p1sp0.ibd", &CLASSIC, INDEX),
    Kind("FULLTEXT", "mysql-16k/shop/fts_*_index_1.ibd", &CLASSIC, INDEX),
    Kind("spatial", "mysql-16k/shop/places.ibd", &CLASSIC, RTREE),
    Kind("virtual columns", "mysql-16k/shop/virtuals.ibd", &CLASSIC, INDEX),
    Kind("instant columns", "mysql-16k/shop/instant_dropped.ibd", &CLASSIC, INDEX),
    Kind("a big value, first page", "mysql-16k/shop/blobs.ibd", &CLASSIC, Some(24)),
    Kind("a big value, data", "mysql-16k/shop/blobs.ibd", &CLASSIC, Some(23)),
    Kind("a big compressed value", "mysql-16k/shop/zip_blobs.ibd", &ZIP, Some(25)),
    Kind("a general tablespace", "mysql-16k/general.ibd", &CLASSIC, INDEX),
    Kind("a compressed general tablespace", "mysql-16k/general_zip.ibd", &ZIP, INDEX),
    Kind("the dictionary", "mysql-16k/mysql.ibd", &CLASSIC, INDEX),
    Kind("dictionary information", "mysql-16k/shop/blobs.ibd", &CLASSIC, Some(17853)),
    Kind("the system tablespace", "mysql-16k/ibdata1", &CLASSIC, Some(6)),
    Kind("undo", "mysql-16k/undo_001", &CLASSIC, Some(2)),
    Kind("zlib", "mysql-16k-compressed/shop/page_zlib.ibd", &MYSQL_COMPRESSED, ANY),
    Kind("lz4", "mysql-16k-compressed/shop/page_lz4.ibd", &MYSQL_COMPRESSED, ANY),
    Kind("encrypted", "mysql-16k-tde/shop/row_dynamic.ibd", &MYSQL_ENCRYPTED, ANY),
    Kind("encrypted after rotation", "mysql-16k-tde/shop/virtuals.ibd", &MYSQL_ENCRYPTED, ANY),
    Kind("encrypted redundant", "mysql-16k-tde/shop/row_redundant.ibd", &MYSQL_ENCRYPTED, ANY),
    Kind("encrypted spatial", "mysql-16k-tde/shop/places.ibd", &MYSQL_ENCRYPTED_RTREE, ANY),
    Kind("encrypted FULLTEXT", "mysql-16k-tde/shop/fts_*_index_1.ibd", &MYSQL_ENCRYPTED, ANY),
    Kind("encrypted partition", "mysql-16k-tde/shop/parts#p#rest.ibd", &MYSQL_ENCRYPTED, ANY),
    Kind("encrypted big values", "mysql-16k-tde/shop/blobs.ibd", &MYSQL_ENCRYPTED, ANY),
    Kind("encrypted general tablespace", "mysql-16k-tde/general.ibd", &MYSQL_ENCRYPTED, ANY),
    Kind("encrypted dictionary", "mysql-16k-tde/mysql.ibd", &MYSQL_ENCRYPTED, ANY),
    Kind("encrypted undo", "mysql-16k-tde/undo_extra.ibu", &MYSQL_ENCRYPTED, ANY),
    Kind("zlib, encrypted", "mysql-16k-tde/shop/secret_page_zlib.ibd", &MYSQL_BOTH, ANY),
    Kind("lz4, encrypted", "mysql-16k-tde/shop/secret_page_lz4.ibd", &MYSQL_BOTH, ANY),
    Kind("encrypted KEY_BLOCK_SIZE=1", "mysql-16k-tde/shop/zip_1k.ibd", &MYSQL_ENCRYPTED_ZIP, ANY),
    Kind("encrypted KEY_BLOCK_SIZE=8", "mysql-16k-tde/shop/zip_8k.ibd", &MYSQL_ENCRYPTED_ZIP, ANY),
];

#[rustfmt::skip]
const MARIADB: &[Kind] = &[
    Kind("redundant", "mariadb-16k/shop/row_redundant.ibd", &FULL, INDEX),
    Kind("compact", "mariadb-16k/shop/row_compact.ibd", &FULL, INDEX),
    Kind("dynamic", "mariadb-16k/shop/row_dynamic.ibd", &FULL, INDEX),
    Kind("KEY_BLOCK_SIZE=1", "mariadb-16k/shop/zip_1k.ibd", &ZIP, INDEX),
    Kind("KEY_BLOCK_SIZE=2", "mariadb-16k/shop/zip_2k.ibd", &ZIP, INDEX),
    Kind("KEY_BLOCK_SIZE=4", "mariadb-16k/shop/zip_4k.ibd", &ZIP, INDEX),
    Kind("KEY_BLOCK_SIZE=8", "mariadb-16k/shop/zip_8k.ibd", &ZIP, INDEX),
    Kind("KEY_BLOCK_SIZE=16", "mariadb-16k/shop/zip_16k.ibd", &ZIP, INDEX),
    Kind("a partition", "mariadb-16k/shop/parts#P#rest.ibd", &FULL, INDEX),
    Kind("FULLTEXT", "mariadb-16k/shop/FTS_*_INDEX_1.ibd", &FULL, INDEX),
    Kind("spatial", "mariadb-16k/shop/places.ibd", &FULL, RTREE),
    Kind("virtual columns", "mariadb-16k/shop/virtuals.ibd", &FULL, INDEX),
    Kind("instant columns", "mariadb-16k/shop/instant_dropped.ibd", &FULL, INDEX),
    Kind("the root after instant columns", "mariadb-16k/shop/instant_dropped.ibd", &FULL, Some(18)),
    Kind("big values", "mariadb-16k/shop/blobs.ibd", &FULL, Some(10)),
    Kind("big compressed values", "mariadb-16k/shop/zip_blobs.ibd", &ZIP, Some(11)),
    Kind("the system tablespace", "mariadb-16k/ibdata1", &FULL, INDEX),
    Kind("undo", "mariadb-16k/undo001", &FULL, Some(6)),
    Kind("redundant, crc32", "mariadb-16k-crc32/shop/row_redundant.ibd", &CLASSIC, INDEX),
    Kind("compact, crc32", "mariadb-16k-crc32/shop/row_compact.ibd", &CLASSIC, INDEX),
    Kind("dynamic, crc32", "mariadb-16k-crc32/shop/row_dynamic.ibd", &CLASSIC, INDEX),
    Kind("KEY_BLOCK_SIZE=8, crc32", "mariadb-16k-crc32/shop/zip_8k.ibd", &ZIP, INDEX),
    Kind("the system tablespace, crc32", "mariadb-16k-crc32/ibdata1", &CLASSIC, Some(6)),
    Kind("zlib", "mariadb-16k-compressed/shop/page_zlib.ibd", &FULL_COMPRESSED, ANY),
    Kind("lz4", "mariadb-16k-compressed/shop/page_lz4.ibd", &FULL_COMPRESSED, ANY),
    Kind("lzo", "mariadb-16k-compressed/shop/page_lzo.ibd", &FULL_COMPRESSED, ANY),
    Kind("lzma", "mariadb-16k-compressed/shop/page_lzma.ibd", &FULL_COMPRESSED, ANY),
    Kind("bzip2", "mariadb-16k-compressed/shop/page_bzip2.ibd", &FULL_COMPRESSED, ANY),
    Kind("snappy", "mariadb-16k-compressed/shop/page_snappy.ibd", &FULL_COMPRESSED, ANY),
    Kind("zlib, crc32", "mariadb-16k-crc32-compressed/shop/page_zlib.ibd", &MARIADB_COMPRESSED, ANY),
    Kind("lz4, crc32", "mariadb-16k-crc32-compressed/shop/page_lz4.ibd", &MARIADB_COMPRESSED, ANY),
    Kind("lzo, crc32", "mariadb-16k-crc32-compressed/shop/page_lzo.ibd", &MARIADB_COMPRESSED, ANY),
    Kind("lzma, crc32", "mariadb-16k-crc32-compressed/shop/page_lzma.ibd", &MARIADB_COMPRESSED, ANY),
    Kind("bzip2, crc32", "mariadb-16k-crc32-compressed/shop/page_bzip2.ibd", &MARIADB_COMPRESSED, ANY),
    Kind("snappy, crc32", "mariadb-16k-crc32-compressed/shop/page_snappy.ibd", &MARIADB_COMPRESSED, ANY),
    Kind("encrypted", "mariadb-16k-enc/shop/row_dynamic.ibd", &FULL_ENCRYPTED, ANY),
    Kind("encrypted, another key", "mariadb-16k-enc/shop/other_key.ibd", &FULL_ENCRYPTED, ANY),
    Kind("encrypted spatial", "mariadb-16k-enc/shop/places.ibd", &FULL_ENCRYPTED, RTREE),
    Kind("encrypted undo", "mariadb-16k-enc/undo001", &FULL_ENCRYPTED, Some(6)),
    Kind("encrypted system tablespace", "mariadb-16k-enc/ibdata1", &FULL_ENCRYPTED, INDEX),
    Kind("encrypted KEY_BLOCK_SIZE=8", "mariadb-16k-enc/shop/zip_8k.ibd", &MARIADB_ENCRYPTED, INDEX),
    Kind("encrypted, crc32", "mariadb-16k-crc32-enc/shop/row_dynamic.ibd", &MARIADB_ENCRYPTED, ANY),
    Kind("encrypted redundant, crc32", "mariadb-16k-crc32-enc/shop/row_redundant.ibd", &MARIADB_ENCRYPTED, ANY),
    Kind("encrypted KEY_BLOCK_SIZE=1, crc32", "mariadb-16k-crc32-enc/shop/zip_1k.ibd", &MARIADB_ENCRYPTED, INDEX),
    Kind("encrypted KEY_BLOCK_SIZE=8, crc32", "mariadb-16k-crc32-enc/shop/zip_8k.ibd", &MARIADB_ENCRYPTED, INDEX),
    Kind("zlib, encrypted", "mariadb-16k-enc/shop/secret_page_zlib.ibd", &FULL_BOTH, ANY),
    Kind("lz4, encrypted", "mariadb-16k-enc/shop/secret_page_lz4.ibd", &FULL_BOTH, ANY),
    Kind("lzo, encrypted", "mariadb-16k-enc/shop/secret_page_lzo.ibd", &FULL_BOTH, ANY),
    Kind("lzma, encrypted", "mariadb-16k-enc/shop/secret_page_lzma.ibd", &FULL_BOTH, ANY),
    Kind("bzip2, encrypted", "mariadb-16k-enc/shop/secret_page_bzip2.ibd", &FULL_BOTH, ANY),
    Kind("snappy, encrypted", "mariadb-16k-enc/shop/secret_page_snappy.ibd", &FULL_BOTH, ANY),
    Kind("zlib, encrypted, crc32", "mariadb-16k-crc32-enc/shop/secret_page_zlib.ibd", &MARIADB_BOTH, ANY),
    Kind("lz4, encrypted, crc32", "mariadb-16k-crc32-enc/shop/secret_page_lz4.ibd", &MARIADB_BOTH, ANY),
    Kind("lzo, encrypted, crc32", "mariadb-16k-crc32-enc/shop/secret_page_lzo.ibd", &MARIADB_BOTH, ANY),
    Kind("lzma, encrypted, crc32", "mariadb-16k-crc32-enc/shop/secret_page_lzma.ibd", &MARIADB_BOTH, ANY),
    Kind("bzip2, encrypted, crc32", "mariadb-16k-crc32-enc/shop/secret_page_bzip2.ibd", &MARIADB_BOTH, ANY),
    Kind("snappy, encrypted, crc32", "mariadb-16k-crc32-enc/shop/secret_page_snappy.ibd", &MARIADB_BOTH, ANY),
];

/// The file of a datadir, with the `*` of its name filled in.
fn path_of(file: &str) -> PathBuf {
    let path = all_datadirs().join(file);
    let (folder, name) = (path.parent().expect("a folder"), path.file_name().expect("a name").to_string_lossy());
    let Some((start, end)) = name.split_once('*') else { return path.clone() };
    let names = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut fitting: Vec<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with(start) && name.ends_with(end))
        .collect();
    fitting.sort();
    folder.join(fitting.first().unwrap_or_else(|| panic!("no {file}")))
}

/// Whether the first extent descriptors count the page as used: damage to a free page is nobody's loss.
fn in_use(page0: &[u8], page: usize) -> bool {
    const DESCRIPTORS: usize = 150;
    // 16 KiB: extents of 64 pages, descriptors of 40 bytes with their bitmap at 24, and in each pair of bits the low one "free".
    let byte = DESCRIPTORS + 40 * (page / 64) + 24 + page % 64 / 4;
    page0.get(byte).is_some_and(|bits| byte < page0.len() - 64 && bits >> (page % 4 * 2) & 1 == 0)
}

/// Pages of this kind in the file, in use, below the second page of descriptors.
fn pages_of(bytes: &[u8], size: usize, kind: &Kind) -> Vec<usize> {
    let Kind(_, _, layout, wanted) = kind;
    let pages = bytes.chunks_exact(size).enumerate().skip(1).take(size / 64 * 64 - 1);
    let fits = |page: &[u8]| page.iter().any(|byte| *byte != 0) && (layout.is)(page);
    let typed = |page: &[u8]| wanted.is_none_or(|wanted| page_type(page) == wanted);
    pages
        .filter(|(number, page)| in_use(&bytes[..size], *number) && typed(page) && fits(page))
        .map(|(at, _)| at)
        .collect()
}

/// Damages a byte in each of many pages, checks, and compares the pages that were found with those that had to be. The number of
/// bytes; what was not as it should be goes to `faults`.
fn damage_each_place(kind: &Kind, faults: &mut Vec<String>) -> usize {
    let Kind(title, file, layout, _) = kind;
    let source = path_of(file);
    let bytes = std::fs::read(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let keys = keys_of(file.split('/').next().expect("a datadir"));
    let dir = Dir::new();
    let path = dir.file(&source.file_name().expect("a name").to_string_lossy(), &bytes);
    let copy = std::fs::OpenOptions::new().write(true).open(&path).expect("a copy");
    let (sound, status) = check_with(&path, &keys);
    assert_eq!(status, 0, "{file}: {:#}", sound["findings"]);
    let size = sound["files"][0]["page_size"].as_u64().expect("a size") as usize;
    let pages = pages_of(&bytes, size, kind);
    assert!(!pages.is_empty(), "{title}: no such page in {file}");
    let flip = |page: usize, run: &Range<usize>, mask: u8| {
        let run = page * size + run.start..page * size + run.end;
        let flipped: Vec<u8> = bytes[run.clone()].iter().map(|byte| byte ^ mask).collect();
        copy.write_all_at(&flipped, run.start as u64).expect("written");
    };
    let places = layout.places(&bytes[pages[0] * size..][..size]).len();
    for first in (0..places).step_by(pages.len()) {
        // Where a page's stored part ends differs from page to page.
        let place_of = |(page, place): (&usize, usize)| {
            Some((*page, layout.places(&bytes[page * size..][..size]).get(place)?.clone()))
        };
        let chosen: Vec<(usize, (Range<usize>, Said))> = pages.iter().zip(first..places).filter_map(place_of).collect();
        chosen.iter().for_each(|(page, (run, _))| flip(*page, run, FLIP));
        let (document, status) = check_with(&path, &keys);
        let damage = findings(&document).iter().filter(|finding| finding["severity"] == "damage");
        let told: BTreeSet<usize> = damage.map(|finding| finding["page"].as_u64().expect("a page") as usize).collect();
        let pages_of = |said| chosen.iter().filter(move |(_, (_, expected))| *expected == said).map(|(page, _)| *page);
        let (expected, undecided) =
            (pages_of(Said::Damage).collect::<BTreeSet<_>>(), pages_of(Said::Undecided).count());
        let expected_status = if !expected.is_empty() { 1 } else { 2 * i32::from(undecided > 0) };
        if told != expected || total(&document, "unverifiable") != undecided as u64 || status != expected_status {
            let missed: Vec<_> =
                chosen.iter().filter(|(page, _)| told.contains(page) != expected.contains(page)).collect();
            faults.push(format!(
                "{title}: {file}: {missed:?} of {chosen:?}: status {status}, {:#}",
                document["findings"]
            ));
        }
        chosen.iter().for_each(|(page, (run, _))| flip(*page, run, 0));
    }
    places
}

#[test]
fn one_damaged_byte_in_any_kind_of_mysql_page_is_found_where_it_lies() {
    let mut faults = Vec::new();
    let places: usize = MYSQL.iter().map(|kind| damage_each_place(kind, &mut faults)).sum();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(places > 500, "{places} places");
}

#[test]
fn one_damaged_byte_in_any_kind_of_mariadb_page_is_found_where_it_lies() {
    let mut faults = Vec::new();
    let places: usize = MARIADB.iter().map(|kind| damage_each_place(kind, &mut faults)).sum();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(places > 600, "{places} places");
}

/// Their checksums lie over the encrypted bytes. Of pages that are compressed as well, under the older scheme, the server does not
/// verify it, so that it can only speak for a page.
#[test]
fn without_keys_damage_to_the_encrypted_bytes_of_mariadb_is_found() {
    let both = Kind("both", "mariadb-16k-crc32-enc/shop/secret_page_lz4.ibd", &MARIADB_BOTH, ANY);
    let kinds = [
        (Kind("full_crc32", "mariadb-16k-enc/shop/row_dynamic.ibd", &FULL_ENCRYPTED, ANY), 1, "checksum_mismatch"),
        (Kind("both", "mariadb-16k-enc/shop/secret_page_lz4.ibd", &FULL_BOTH, ANY), 1, "checksum_mismatch"),
        (Kind("crc32", "mariadb-16k-crc32-enc/shop/row_dynamic.ibd", &MARIADB_ENCRYPTED, ANY), 1, "checksum_mismatch"),
        (Kind("zip", "mariadb-16k-crc32-enc/shop/zip_8k.ibd", &MARIADB_ENCRYPTED, INDEX), 1, "checksum_mismatch"),
        (both, 2, "encrypted_no_key"),
    ];
    for (kind, expected, reason) in kinds {
        let Kind(title, file, layout, _) = &kind;
        let mut bytes = std::fs::read(path_of(file)).expect("a table");
        let size = if file.contains("zip_8k") { 8192 } else { 16384 };
        let page = pages_of(&bytes, size, &kind)[3];
        let middle = layout.start.midpoint((layout.end)(&bytes[page * size..][..size]));
        bytes[page * size + middle] ^= 1;
        let dir = Dir::new();
        let (document, status) = check_json(&dir.file("t.ibd", &bytes), &[]);
        assert_eq!((status, reasons(&document)), (expected, vec![reason]), "{title}: {:#}", document["findings"]);
        let named = document["findings"][0]["page"].as_u64();
        assert_eq!(named, (expected == 1).then_some(page as u64), "{title}");
    }
}

// --- The table of it all ---------------------------------------------------------------------------------------------------

#[test]
fn every_test_that_the_page_of_formats_names_exists() {
    let page = std::fs::read_to_string(repository().join("docs/formats.md")).expect("docs/formats.md");
    let quoted = page.split('`').skip(1).step_by(2);
    let names: BTreeSet<&str> =
        quoted.filter(|words| words.starts_with("innokit::") || words.starts_with("format::")).collect();
    assert!(names.len() > 50, "{} tests are named", names.len());
    for name in names {
        let parts: Vec<&str> = name.split("::").collect();
        let [package, file, test] = parts[..] else { panic!("{name}: crate::file::test") };
        let source = repository().join(format!("crates/{package}/tests/{file}.rs"));
        let source = std::fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        assert!(source.contains(&format!("fn {test}(")), "{name} does not exist");
    }
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.contains("---"));
    let without = rows.filter(|row| !row.contains("::") && !row.ends_with("| test |") && !row.ends_with("| more |"));
    assert_eq!(without.collect::<Vec<_>>(), [""; 0], "rows without a test");
}
