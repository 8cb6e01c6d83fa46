//! Changed pages of a tablespace, as stored in incremental backups of mariadb-backup and xtrabackup: `t.ibd.delta`, with a note in
//! `t.ibd.meta`.
//!
//! A delta is a series of clusters, each a whole number of pages long. Integers are big-endian.
//!
//! | page of the cluster | bytes | what |
//! |---|---|---|
//! | 0 | 0..4 | `xtra`; in the last cluster `XTRA` |
//! | 0 | 4.. | the numbers of the pages that follow, rising through the file; `FFFFFFFF` behind the last, unless there is no room left |
//! | 1.. | | the pages, in that order |
//!
//! A cluster has at most one number per 4 bytes of its first page, so all but the last have `page_size / 4` pages. Pages have the size they
//! have in the tablespace's file, which only the note gives: text of the form `key = value`, one per line.

use format::bytes::be;

/// Starts a cluster that is followed by others.
const MAGIC: [u8; 4] = *b"xtra";
/// Starts the last cluster.
const MAGIC_LAST: [u8; 4] = *b"XTRA";
/// Follows the last page number.
const NO_PAGE: u32 = u32::MAX;
/// The tool's value for a tablespace of unknown id.
const NO_SPACE: u64 = u32::MAX as u64;

/// A note's description of its delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Page size in the file, bytes.
    pub page_size: u32,
    /// The tablespace's ID, if the tool knew it.
    pub space: Option<u32>,
    /// The tablespace's flags, which only xtrabackup writes.
    pub flags: Option<u32>,
}

impl Meta {
    /// Parses a note. `None` if it is not one, or its values are impossible.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
        let number = |key: &str| value(key).map(|value| value.trim().parse::<u64>()).transpose().ok();
        let is_size = |size: &u32| size.is_power_of_two() && (1 << 10..=1 << 16).contains(size);
        // Some versions write the server's page size here, followed by that of compressed pages.
        let zip = number("zip_size")?.filter(|size| *size > 0);
        let page_size = u32::try_from(zip.or(number("page_size")?)?).ok().filter(is_size)?;
        let space = number("space_id")?.filter(|space| *space != NO_SPACE).map(u32::try_from).transpose().ok()?;
        let flags = number("space_flags")?.map(u32::try_from).transpose().ok()?;
        Some(Self { page_size, space, flags })
    }

    /// The text of the note.
    #[must_use]
    pub fn note(&self) -> String {
        let number =
            |key: &str, value: Option<u32>| value.map_or_else(String::new, |value| format!("{key} = {value}\n"));
        let (space, flags) = (number("space_id", self.space), number("space_flags", self.flags));
        format!("page_size = {}\nzip_size = 0\n{space}{flags}", self.page_size)
    }
}

/// How many pages a cluster has, unless it is the last.
#[must_use]
pub const fn pages_per_cluster(page_size: usize) -> usize {
    page_size / 4 - 1
}

/// The first page of a cluster whose pages have these numbers: rising, and at most [`pages_per_cluster`] of them.
#[must_use]
pub fn cluster_head(numbers: &[u32], page_size: usize, is_last: bool) -> Vec<u8> {
    let mut head = if is_last { MAGIC_LAST.to_vec() } else { MAGIC.to_vec() };
    head.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    if numbers.len() < pages_per_cluster(page_size) {
        head.extend(NO_PAGE.to_be_bytes());
    }
    head.resize(page_size, 0);
    head
}

/// A page of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<'p> {
    /// Its number in the file.
    pub number: u32,
    /// Its position in the delta.
    pub position: u64,
    /// The whole page.
    pub bytes: &'p [u8],
}

/// Why bytes are not a delta, or the rest of it cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The start of a cluster is missing.
    #[error("at byte {position}: no cluster of changed pages begins here")]
    NoMagic {
        /// Where it should start.
        position: u64,
    },
    /// The pages of a delta must be in file order.
    #[error("at byte {position}: page {number} comes after page {before}")]
    OutOfOrder {
        /// Position of the number.
        position: u64,
        /// The number.
        number: u32,
        /// The previous number.
        before: u32,
    },
    /// A cluster other than the last has fewer pages than fit.
    #[error("at byte {position}: a cluster that is not the last names only {pages} pages")]
    NotFull {
        /// Where the cluster starts.
        position: u64,
        /// Number of its pages.
        pages: u32,
    },
    /// Something follows the last cluster.
    #[error("at byte {position}: the changed pages end here, but the file continues")]
    GoesOn {
        /// Where they end.
        position: u64,
    },
    /// The last cluster, or a part of it, is missing.
    #[error("cut off at byte {position}: changed pages are missing")]
    CutOff {
        /// Where the bytes end.
        position: u64,
    },
}

/// Parses a delta pushed to it.
#[derive(Debug)]
pub struct Parser {
    page_size: usize,
    /// The page being read, or returned last.
    page: Vec<u8>,
    /// Position of its first byte.
    position: u64,
    /// The first page of the cluster, with the page numbers.
    head: Vec<u8>,
    /// Index of the next page's number in `head`; `None` if a cluster is about to start.
    next: Option<usize>,
    /// The highest page number so far.
    last: Option<u32>,
    is_last_cluster: bool,
    failed: Option<Error>,
}

impl Parser {
    /// For pages of the size in `meta`.
    #[must_use]
    pub fn new(meta: Meta) -> Self {
        let page_size = meta.page_size as usize;
        let (page, head) = (Vec::with_capacity(page_size), Vec::with_capacity(page_size));
        Self { page_size, page, position: 0, head, next: None, last: None, is_last_cluster: false, failed: None }
    }

    /// The next page; `None` if more input is needed, after consuming all of it.
    ///
    /// # Errors
    /// [`Error`]. Later calls return the same one.
    pub fn next_page<'p>(&'p mut self, input: &mut &[u8]) -> Result<Option<Page<'p>>, Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.advance(input) {
            Ok(Some(number)) => Ok(Some(Page { number, position: self.position, bytes: &self.page })),
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Checks that the delta is complete, once the input has ended.
    ///
    /// # Errors
    /// [`Error::CutOff`], or the earlier error.
    pub fn finish(mut self) -> Result<(), Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.leave();
        let position = self.position + self.page.len() as u64;
        if self.is_last_cluster && self.next.is_none() && self.page.is_empty() {
            return Ok(());
        }
        Err(Error::CutOff { position })
    }

    /// Reads until the next page is complete. Returns its number.
    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<u32>, Error> {
        self.leave();
        loop {
            if input.is_empty() {
                return Ok(None);
            }
            if self.is_last_cluster && self.next.is_none() {
                return Err(Error::GoesOn { position: self.position });
            }
            let (now, rest) = input.split_at(input.len().min(self.page_size - self.page.len()));
            self.page.extend_from_slice(now);
            *input = rest;
            if self.page.len() < self.page_size {
                return Ok(None);
            }
            if let Some(place) = self.next {
                let number = self.number(place).unwrap_or(NO_PAGE);
                self.next = Some(place + 1).filter(|place| self.number(*place).is_some());
                return Ok(Some(number));
            }
            self.begin_cluster()?;
            self.position += self.page_size as u64;
            self.page.clear();
        }
    }

    /// Drops the page returned last.
    fn leave(&mut self) {
        if self.page.len() == self.page_size {
            self.position += self.page_size as u64;
            self.page.clear();
        }
    }

    /// A page number in the cluster's first page.
    fn number(&self, place: usize) -> Option<u32> {
        be::u32_at(&self.head, place * 4).filter(|number| *number != NO_PAGE)
    }

    fn begin_cluster(&mut self) -> Result<(), Error> {
        let position = self.position;
        self.head.clone_from(&self.page);
        self.is_last_cluster = self.head.starts_with(&MAGIC_LAST);
        if !self.is_last_cluster && !self.head.starts_with(&MAGIC) {
            return Err(Error::NoMagic { position });
        }
        let mut pages = 0;
        while let Some(number) = self.number(pages as usize + 1) {
            if let Some(before) = self.last.filter(|last| number <= *last) {
                let position = position + (u64::from(pages) + 1) * 4;
                return Err(Error::OutOfOrder { position, number, before });
            }
            self.last = Some(number);
            pages += 1;
        }
        if !self.is_last_cluster && (pages as usize + 1) * 4 < self.page_size {
            return Err(Error::NotFull { position, pages });
        }
        self.next = (pages > 0).then_some(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: Meta = Meta { page_size: 1024, space: Some(7), flags: None };

    /// A delta of these pages, each filled with the low byte of its number.
    fn delta(pages: &[u32]) -> Vec<u8> {
        let size = META.page_size as usize;
        let mut clusters: Vec<&[u32]> = pages.chunks(pages_per_cluster(size)).collect();
        // As the tools write them: the last cluster has room left.
        if clusters.last().is_none_or(|last| last.len() == pages_per_cluster(size)) {
            clusters.push(&[]);
        }
        of_clusters(&clusters)
    }

    fn of_clusters(clusters: &[&[u32]]) -> Vec<u8> {
        let size = META.page_size as usize;
        let mut bytes = Vec::new();
        for (number, cluster) in clusters.iter().enumerate() {
            bytes.extend(cluster_head(cluster, size, number + 1 == clusters.len()));
            bytes.extend(cluster.iter().flat_map(|page| vec![*page as u8; size]));
        }
        bytes
    }

    fn read(bytes: &[u8], piece: usize) -> Result<Vec<(u32, u64)>, Error> {
        let (mut parser, mut pages) = (Parser::new(META), Vec::new());
        for mut piece in bytes.chunks(piece) {
            while let Some(page) = parser.next_page(&mut piece)? {
                assert!(page.bytes.iter().all(|byte| *byte == page.number as u8) && page.bytes.len() == 1024);
                pages.push((page.number, page.position));
            }
            assert!(piece.is_empty());
        }
        parser.finish().map(|()| pages)
    }

    #[test]
    fn pages_come_with_their_numbers_however_the_bytes_are_cut() {
        for count in [0, 1, 2, 254, 255, 256, 300, 510, 511] {
            let pages: Vec<u32> = (0..count).map(|number| number * 3).collect();
            let bytes = delta(&pages);
            let whole = read(&bytes, bytes.len()).expect("a delta");
            assert_eq!(whole.iter().map(|(number, _)| *number).collect::<Vec<_>>(), pages);
            assert!(whole.iter().all(|(number, at)| bytes[*at as usize] == *number as u8));
            for piece in [1, 1000, 1024, 1500] {
                assert_eq!(read(&bytes, piece).as_ref(), Ok(&whole), "{count} pages in pieces of {piece}");
            }
        }
    }

    #[test]
    fn the_last_cluster_may_be_full() {
        let pages: Vec<u32> = (0..255).collect();
        let bytes = of_clusters(&[&pages]);
        assert_eq!(read(&bytes, 4096).expect("a delta").len(), pages.len());
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_noticed_everywhere() {
        let bytes = delta(&(0..300).collect::<Vec<_>>());
        for len in (0..bytes.len()).step_by(509) {
            assert_eq!(read(&bytes[..len], 4096), Err(Error::CutOff { position: len as u64 }));
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(read(&longer, 4096), Err(Error::GoesOn { position: bytes.len() as u64 }));
    }

    #[test]
    fn heads_of_clusters_must_make_sense() {
        let change = |at: usize, with: &[u8]| {
            let mut bytes = delta(&(0..300).collect::<Vec<_>>());
            bytes[at..at + with.len()].copy_from_slice(with);
            read(&bytes, 4096)
        };
        assert_eq!(change(0, b"xtrb"), Err(Error::NoMagic { position: 0 }));
        assert_eq!(change(256 * 1024, b"xtr "), Err(Error::NoMagic { position: 256 * 1024 }));
        assert_eq!(change(8, &[0; 4]), Err(Error::OutOfOrder { position: 8, number: 0, before: 0 }));
        assert_eq!(change(40, &[255; 4]), Err(Error::NotFull { position: 0, pages: 9 }));
        let out_of_order = Error::OutOfOrder { position: 256 * 1024 + 4, number: 254, before: 254 };
        assert_eq!(change(256 * 1024 + 4, &254_u32.to_be_bytes()), Err(out_of_order));
    }

    #[test]
    fn notes_of_all_versions_are_read() {
        let parse = |text: &str| Meta::parse(text.as_bytes());
        let meta = |page_size, space| Some(Meta { page_size, space, flags: None });
        assert_eq!(parse("page_size = 16384\nzip_size = 0 \nspace_id = 0\n"), meta(16384, Some(0)));
        let with_flags = Some(Meta { page_size: 8192, space: Some(11), flags: Some(5) });
        assert_eq!(parse("page_size = 8192\nzip_size = 8192 \nspace_id = 11\nspace_flags = 5\n"), with_flags);
        assert_eq!(parse("page_size = 16384\nzip_size = 1024\nspace_id = 4294967295\n"), meta(1024, None));
        for meta in [META, Meta { flags: Some(41), ..META }, Meta { space: None, ..META }] {
            assert_eq!(parse(&meta.note()), Some(meta));
        }
        for text in ["", "page_size = 16\n", "page_size = 12288\n", "page_size = 16384\nspace_id = x", "space_id = 1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
