//! The ways in which servers store pages: which bytes matter in each, which do not, and which files have such pages.
#![allow(clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::ops::Range;

/// A way of storing a page: which pages use it, and which of their bytes matter.
pub struct Layout {
    /// Whether the page is stored this way.
    pub is: fn(&[u8]) -> bool,
    /// Offset of the stored data after the header.
    pub start: usize,
    /// End offset of the stored data.
    pub end: fn(&[u8]) -> usize,
    /// Bytes of the header that matter.
    header: &'static [usize],
    /// Bytes that name a key or an algorithm. Changed, they name an unknown one, and the page cannot be verified.
    naming: &'static [usize],
    /// Bytes that no checksum covers and the server does not use. The byte at `end` is one of them.
    uncovered: &'static [usize],
    /// How many consecutive bytes to damage after the header: one if a checksum covers every byte.
    run: usize,
}

/// In a bare compressed stream, one changed bit may have no effect: it is padding, or it makes a match copy the same bytes from another
/// place. Four consecutive bytes do have an effect.
const STREAM: usize = 4;

/// The mask that a damaged byte is XORed with.
pub const FLIP: u8 = 0x40;

pub fn u16_at(page: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([page[at], page[at + 1]]))
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}

pub fn page_type(page: &[u8]) -> usize {
    u16_at(page, 24)
}

/// Stored length of a page_compressed full_crc32 page, which its type field encodes, in bytes.
fn full_size(page: &[u8]) -> usize {
    (page_type(page) & 0x7FFF) << 8
}

/// The old checksums leave out bytes 26 to 37. Of these, the space id (34) is compared with the tablespace's.
const CLASSIC: Layout = Layout {
    is: |_| true,
    start: 38,
    end: <[u8]>::len,
    header: &[0, 4, 8, 12, 16, 23, 24, 34],
    naming: &[],
    uncovered: &[26, 29, 33],
    run: 1,
};
/// That of compressed row formats also leaves out the LSN, and stores no second copy of it.
const ZIP: Layout = Layout { header: &[0, 4, 8, 12, 24, 34], uncovered: &[16, 23, 26, 29, 33], ..CLASSIC };
/// That of full_crc32 leaves out nothing.
const FULL: Layout = Layout {
    is: |page| u32_at(page, 0) == 0 && page_type(page) & 0x8000 == 0,
    header: &[0, 4, 8, 12, 16, 24, 26, 30, 34],
    uncovered: &[],
    ..CLASSIC
};
/// It covers the encrypted bytes.
pub const FULL_ENCRYPTED: Layout = Layout { is: |page| u32_at(page, 0) > 0 && page_type(page) & 0x8000 == 0, ..FULL };
/// It covers the compressed bytes too.
const FULL_COMPRESSED: Layout = Layout {
    is: |page| u32_at(page, 0) == 0 && page_type(page) & 0x8000 > 0,
    start: 26,
    end: full_size,
    header: &[0, 4, 8, 12, 16, 24, 25],
    naming: &[],
    uncovered: &[],
    run: 1,
};
pub const FULL_BOTH: Layout =
    Layout { is: |page| u32_at(page, 0) > 0 && page_type(page) & 0x8000 > 0, ..FULL_COMPRESSED };
/// MySQL: the header belongs to the compressed page, whose checksum covers it; 26 to 33 describe the compression.
const MYSQL_COMPRESSED: Layout = Layout {
    is: |page| page_type(page) == 14,
    start: 38,
    end: |page| 38 + u16_at(page, 32),
    header: &[0, 4, 8, 12, 16, 24, 25, 26, 27, 28, 29, 30, 31, 32, 34],
    naming: &[],
    uncovered: &[],
    run: STREAM,
};
/// MySQL: 28 and 29 hold the original page type.
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
/// MariaDB: a checksum of the encrypted bytes at 30, besides those of the decrypted page at both ends. The same for compressed row formats,
/// since decryption depends on the LSN.
pub const MARIADB_ENCRYPTED: Layout = Layout {
    is: |page| u32_at(page, 26) > 0 && page_type(page) != 37401,
    header: &[0, 4, 8, 12, 16, 24, 30, 34],
    naming: &[26, 29],
    uncovered: &[],
    ..CLASSIC
};
/// MariaDB: the whole page is compressed, its header included. Of the outer header only the page number, type, algorithm and length are
/// used.
const MARIADB_COMPRESSED: Layout = Layout {
    is: |page| page_type(page) == 34354,
    start: 40,
    end: |page| 40 + u16_at(page, 38),
    header: &[4, 24, 25, 34, 38],
    naming: &[33],
    uncovered: &[8, 12],
    run: STREAM,
};
pub const MARIADB_BOTH: Layout = Layout {
    is: |page| page_type(page) == 37401,
    start: 42,
    end: |page| 42 + u16_at(page, 38),
    header: &[4, 24, 25, 34, 38],
    naming: &[26, 29, 41],
    uncovered: &[8, 12],
    run: STREAM,
};

impl Layout {
    /// The bytes to damage, and the expected verdict.
    pub fn places(&self, page: &[u8]) -> Vec<(Range<usize>, Said)> {
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

/// The verdict of `check` on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Damage,
    /// Reported as a count, not page by page.
    Undecided,
    Nothing,
}

/// A kind of page, and a file that has some. A `*` in the file's name stands for an id.
pub struct Kind(pub &'static str, pub &'static str, pub &'static Layout, pub Option<usize>);

/// Type of B-tree pages, etc.
pub const INDEX: Option<usize> = Some(17855);
pub const RTREE: Option<usize> = Some(17854);
pub const ANY: Option<usize> = None;

#[rustfmt::skip]
pub const MYSQL: &[Kind] = &[
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
pub const MARIADB: &[Kind] = &[
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
