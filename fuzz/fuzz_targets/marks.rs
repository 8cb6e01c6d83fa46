//! Marks of an archive over arbitrary bytes: no panic, no record that is longer than the log, and what was read is written and read as the same.
//!
//! The input is one mark, and then changes of a sound log: the place (3 bytes; its highest bit seals the block again), the length (1), and the
//! bytes that stand there instead.
#![no_main]

use std::io;
use std::sync::OnceLock;

use crc_fast::{CrcAlgorithm, checksum};
use flow::log_writer::{LogOptions, LogReader, LogStorage, LogWriter};
use recovery::fuzzed_mark;
use libfuzzer_sys::fuzz_target;

const FILE: usize = 64 << 10;
const BLOCK: usize = 512;

/// The files of a log in memory.
struct Files(Vec<Vec<u8>>);

impl LogStorage for Files {
    fn files(&self) -> u32 {
        self.0.len() as u32
    }

    fn block_size(&self) -> u32 {
        4096
    }

    fn name(&self, file: u32) -> String {
        file.to_string()
    }

    fn read_at(&self, file: u32, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let rest = self.0[file as usize].get(usize::try_from(offset).expect("small")..).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, _: u32, _: u64, _: &[u8]) -> io::Result<usize> {
        unreachable!("a reader writes nothing")
    }

    fn sync(&self, _: u32) -> io::Result<()> {
        unreachable!("a reader writes nothing")
    }
}

/// A log of two files which holds marks of several lengths.
fn sound() -> &'static [Vec<u8>] {
    static LOG: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    LOG.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("innokit-fuzz-marks-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a folder");
        let options = LogOptions { files: 2, file_size: FILE as u64, group_max: 16 << 10, ..LogOptions::default() };
        let log = LogWriter::create(&dir, &options).expect("a log");
        for len in (0..60).map(|number| 24 + number * 40) {
            log.append(&vec![1; len]).expect("appended");
        }
        drop(log);
        let mut names: Vec<_> = std::fs::read_dir(&dir).expect("read").map(|entry| entry.expect("read").path()).collect();
        names.sort();
        let files = names.iter().map(|path| std::fs::read(path).expect("read")).filter(|file| file.len() == FILE).collect();
        std::fs::remove_dir_all(&dir).expect("removed");
        files
    })
}

fuzz_target!(|input: &[u8]| {
    fuzzed_mark(input);
    let mut files = sound().to_vec();
    assert_eq!(files.len(), 2);
    let mut rest = input;
    while let Some((&[a, b, c, len], after)) = rest.split_first_chunk::<4>() {
        let at = usize::from(a & 1) << 16 | usize::from(b) << 8 | usize::from(c);
        let (bytes, after) = after.split_at(usize::from(len).min(after.len()));
        let (file, at) = (&mut files[at / FILE], at % FILE);
        let len = bytes.len().min(FILE - at);
        file[at..at + len].copy_from_slice(&bytes[..len]);
        if a & 0x80 != 0 {
            let block = &mut file[at / BLOCK * BLOCK..][..BLOCK];
            let crc = checksum(CrcAlgorithm::Crc32Iscsi, &block[4..]) as u32;
            block[..4].copy_from_slice(&crc.to_be_bytes());
        }
        rest = after;
    }
    let Ok(mut reader) = LogReader::open_on(Files(files)) else { return };
    let mut records = 0;
    while let Some(Ok(record)) = reader.next() {
        records += 1;
        assert!(record.bytes.len() <= 2 * FILE && record.start < record.end && records <= 2 * FILE / 4, "no records out of nothing");
        fuzzed_mark(record.bytes);
    }
});
