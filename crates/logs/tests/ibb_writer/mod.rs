//! Writes binary logs as MariaDB 12.3 does with `binlog_storage_engine=innodb`. Line by line after MariaDB/server, storage/innobase:
//! `fsp/fsp_binlog.cc` (`fsp_binlog_write_rec`, `fsp_binlog_flush`, `crc32_pwrite_page`) and `handler/innodb_binlog.cc`
//! (`ibb_write_header_page`, `serialize_gtid_state`, `binlog_gtid_state`, `chunk_data_cache`, `chunk_data_oob`, `chunk_data_xa_*`).
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::little_endian_bytes,
    clippy::missing_docs_in_private_items,
    dead_code,
    reason = "a writer of tests"
)]

/// `ibb_page_size`.
pub const PAGE_SIZE: usize = 16_384;

/// `fsp_binlog_chunk_types`.
pub const COMMIT: u8 = 1;
pub const GTID_STATE: u8 = 2;
pub const OUT_OF_BAND: u8 = 3;
pub const DUMMY: u8 = 4;
pub const XA_PREPARE: u8 = 5;
pub const XA_COMPLETE: u8 = 6;

/// `compr_int_write`: three bits of length, the value, as many bytes as these take; nine instead of eight.
pub fn number(bytes: &mut Vec<u8>, value: u64) {
    let needed = (1..=8).find(|len| value >> (8 * len - 3).min(63) == 0 && 8 * len - 3 < 64).unwrap_or(9);
    let len = if needed == 8 { 9 } else { needed };
    let word = u128::from(value) << 3 | if len == 9 { 7 } else { len as u128 - 1 };
    bytes.extend_from_slice(&word.to_le_bytes()[..len]);
}

/// Bytes of a page that hold chunks.
pub const ROOM: usize = PAGE_SIZE - 4;

pub fn seal(page: &mut [u8]) {
    let end = page.len() - 4;
    let sum = format::checksum::crc32c(&page[..end]);
    page[end..].copy_from_slice(&sum.to_le_bytes());
}

/// The header's own checksum, then the page's.
pub fn seal_header(page: &mut [u8]) {
    let sum = format::checksum::crc32c(&page[..508]);
    page[508..512].copy_from_slice(&sum.to_le_bytes());
    seal(page);
}

/// A file and the offset in it.
pub type At = (u64, u64);

pub struct Writer {
    /// The files, each as long as it was made.
    pub files: Vec<Vec<u8>>,
    file_pages: usize,
    interval: usize,
    page: usize,
    offset: usize,
    gtids: Vec<(u32, u32, u64)>,
    /// The first file that out-of-band records of open transactions may be in.
    pub oldest: u64,
}

impl Writer {
    pub fn new(file_pages: usize, interval: usize) -> Self {
        let mut writer =
            Self { files: Vec::new(), file_pages, interval, page: file_pages, offset: 0, gtids: Vec::new(), oldest: 0 };
        writer.begin_file();
        writer
    }

    fn file(&mut self) -> &mut Vec<u8> {
        self.files.last_mut().expect("a file")
    }

    fn begin_file(&mut self) {
        let number = self.files.len() as u64;
        let mut file = vec![0; self.file_pages * PAGE_SIZE];
        file[..4].copy_from_slice(&0x010d_fefe_u32.to_le_bytes());
        file[4..8].copy_from_slice(&14_u32.to_le_bytes());
        file[8..12].copy_from_slice(&1_u32.to_le_bytes());
        let fields = [number, self.file_pages as u64, 1000 + number, self.interval as u64, self.oldest, u64::MAX];
        for (at, field) in fields.iter().enumerate() {
            file[16 + 8 * at..24 + 8 * at].copy_from_slice(&field.to_le_bytes());
        }
        seal_header(&mut file[..PAGE_SIZE]);
        self.files.push(file);
        (self.page, self.offset) = (1, 0);
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = self.page * PAGE_SIZE + self.offset;
        self.file()[at..at + bytes.len()].copy_from_slice(bytes);
        self.offset += bytes.len();
        let page = self.page * PAGE_SIZE;
        seal(&mut self.file()[page..page + PAGE_SIZE]);
    }

    fn state(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        number(&mut bytes, self.gtids.len() as u64);
        number(&mut bytes, 0);
        for (domain, server, last) in &self.gtids {
            number(&mut bytes, u64::from(*domain));
            number(&mut bytes, u64::from(*server));
            number(&mut bytes, *last);
        }
        bytes
    }

    /// `binlog_gtid_state`: only if there is room for something after it.
    fn gtid_state(&mut self) {
        let bytes = self.state();
        if self.page + bytes.len().div_ceil(ROOM) >= self.file_pages {
            return;
        }
        let (mut rest, mut flag) = (bytes.as_slice(), 0);
        while !rest.is_empty() {
            rest = self.chunk(GTID_STATE | flag, rest);
            flag = 0x80;
        }
    }

    /// As much of `rest` as the page has room for; what is left.
    fn chunk<'r>(&mut self, tag: u8, rest: &'r [u8]) -> &'r [u8] {
        let (now, left) = rest.split_at(rest.len().min(ROOM - self.offset - 3));
        let last = if left.is_empty() { 0x40 } else { 0 };
        self.put(&[tag | last, now.len() as u8, (now.len() >> 8) as u8]);
        self.put(now);
        if self.offset == ROOM {
            self.page += 1;
            self.offset = 0;
        }
        left
    }

    /// `fsp_binlog_write_rec`; the place at which the record begins. Without content it only begins the next file, as `FLUSH` does.
    pub fn record(&mut self, kind: u8, content: Option<&[u8]>) -> At {
        let mut rest = content.unwrap_or_default();
        let (mut start, mut flag) = (None, 0);
        loop {
            if self.offset == 0 {
                if self.page >= self.file_pages {
                    self.begin_file();
                }
                if self.page == 1 || self.page.is_multiple_of(self.interval) {
                    self.gtid_state();
                }
                if self.offset == 0 && self.page >= self.file_pages {
                    continue;
                }
            }
            let room = ROOM - self.offset;
            if room < 4 {
                self.put(&vec![0xff; room]);
                self.page += 1;
                self.offset = 0;
                continue;
            }
            if content.is_none() {
                break;
            }
            start.get_or_insert((self.files.len() as u64 - 1, (self.page * PAGE_SIZE + self.offset) as u64));
            rest = self.chunk(kind | flag, rest);
            flag = 0x80;
            if rest.is_empty() {
                break;
            }
        }
        start.unwrap_or_default()
    }

    /// A commit with the out-of-band records `(how many, first, last)` that it takes.
    pub fn commit(&mut self, out_of_band: &[(u64, At, At)], gtid: (u32, u32, u64), events: &[u8]) {
        self.gtids.retain(|known| (known.0, known.1) != (gtid.0, gtid.1));
        self.gtids.push(gtid);
        let mut bytes = Vec::new();
        for (count, first, last) in out_of_band {
            for value in [*count, first.0, first.1, last.0, last.1] {
                number(&mut bytes, value);
            }
        }
        if out_of_band.len() < 2 {
            number(&mut bytes, 0);
        }
        bytes.extend(events);
        self.record(COMMIT, Some(&bytes));
    }

    pub fn out_of_band(&mut self, index: u64, left: At, right: At, events: &[u8]) -> At {
        let mut bytes = Vec::new();
        for value in [index, left.0, left.1, right.0, right.1] {
            number(&mut bytes, value);
        }
        bytes.extend(events);
        self.record(OUT_OF_BAND, Some(&bytes))
    }

    pub fn xa(&mut self, kind: u8, global: &[u8], branch: &[u8]) {
        let mut bytes = if kind == XA_PREPARE { vec![42, 1] } else { vec![0] };
        bytes.extend(7_u32.to_le_bytes());
        bytes.extend([global.len() as u8, branch.len() as u8]);
        bytes.extend(global);
        bytes.extend(branch);
        self.record(kind, Some(&bytes));
    }

    /// `FLUSH BINARY LOGS`: the file is cut, a dummy fills its last page, the next one begins.
    pub fn flush(&mut self) {
        let (page, room) = (self.page, ROOM - self.offset);
        self.file().truncate((page + 1) * PAGE_SIZE);
        if room >= 4 && self.offset > 0 {
            self.record(DUMMY, Some(&vec![0; room - 3]));
        }
        self.page = self.file_pages;
        self.offset = 0;
        self.record(0, None);
    }
}
