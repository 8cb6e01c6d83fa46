//! Writes a redo log as MariaDB 13.0 keeps it with `innodb_log_archive=ON`, by its sources. No such server was at hand.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail tests")]

use format::checksum::crc32c;

/// `log_t::START_OFFSET` (`log0log.h`).
pub const START: u64 = 12_288;
/// `log_t::FILE_SIZE_MIN` (`log0log.h`).
pub const FILE_SIZE: u64 = 4 << 20;
/// `log_t::capacity()` (`log0log.h`).
pub const CAPACITY: u64 = FILE_SIZE - START;

/// A mini-transaction: records, end marker, CRC-32C of the records (`log_parse_start`, `log0recv.cc`).
pub fn mtr(records: &[u8], marker: u8) -> Vec<u8> {
    [records, &[marker], &crc32c(records).to_be_bytes()].concat()
}

/// `FILE_CHECKPOINT`: type and length, space 0, page 0, the LSN (`log_parse_file`; `innodb/t/log_archive.test` has the same bytes).
pub fn file_checkpoint(lsn: u64) -> Vec<u8> {
    [&[0xfa, 0, 0][..], &lsn.to_be_bytes()].concat()
}

/// `FILE_MODIFY` of a tablespace below 128 with a short name: type and length, space, page 0, the name (`log_archive.test`).
pub fn file_modify(space: u8, name: &str) -> Vec<u8> {
    let len = u8::try_from(2 + name.len()).expect("short");
    assert!(len < 16 && space < 128);
    [&[0xb0 | len, space, 0][..], name.as_bytes()].concat()
}

/// `WRITE` of bytes to page 3 of a tablespace, at offset 64 (`mtr_t::log_write`).
pub fn write(space: u8, bytes: &[u8]) -> Vec<u8> {
    let len = u8::try_from(3 + bytes.len()).expect("short");
    assert!(len < 16 && space < 128);
    [&[0x30 | len, space, 3, 0x40][..], bytes].concat()
}

/// A log that begins at an LSN, in files of [`FILE_SIZE`].
pub struct Writer {
    pub first: u64,
    /// Its payload.
    pub log: Vec<u8>,
    /// For each checkpoint, the LSN of the first of its records.
    pub checkpoints: Vec<u64>,
}

impl Writer {
    pub fn new(first: u64) -> Self {
        Self { first, log: Vec::new(), checkpoints: Vec::new() }
    }

    /// The log's end.
    pub fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// A mini-transaction as a server writes it into such a log: with the marker 1.
    pub fn append(&mut self, records: &[u8]) {
        self.log.extend(mtr(records, 1));
    }

    /// A checkpoint at `lsn`: FILE_MODIFY and FILE_CHECKPOINT, and an entry in the list (`log_checkpoint_low`, `log_t::write_checkpoint`).
    pub fn checkpoint(&mut self, lsn: u64) {
        self.checkpoints.push(self.end());
        self.append(&file_modify(7, "./a/b.ibd"));
        self.append(&file_checkpoint(lsn));
    }

    /// The files, by name. In a new file, the list begins again (`log_t::write_checkpoint`: `archive_header_was_reset`).
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let count = (self.log.len() as u64).div_ceil(CAPACITY).max(1);
        (0..count)
            .map(|file| {
                let first = self.first + file * CAPACITY;
                let mut bytes = vec![0; FILE_SIZE as usize];
                let listed = self.checkpoints.iter().filter(|place| (first..first + CAPACITY).contains(*place));
                for (entry, place) in listed.enumerate() {
                    bytes[8 * entry..8 * entry + 8].copy_from_slice(&(START + place - first).to_be_bytes());
                }
                let from = (file * CAPACITY) as usize;
                let payload = &self.log[from..self.log.len().min(from + CAPACITY as usize)];
                bytes[START as usize..START as usize + payload.len()].copy_from_slice(payload);
                (format!("ib_{first:016x}.log"), bytes)
            })
            .collect()
    }
}
