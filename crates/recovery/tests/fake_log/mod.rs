//! A fake server that only writes a redo log, byte by byte as real ones do.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail where they must")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use format::Lsn;
use format::checksum::crc32c;
use innokit_recovery::{
    ArchiveEvent, ArchiveOptions, ArchiveReport, ArchiveStatus, ArchiveUntil, archive, verify_archive,
};
use redo::checkpoint::clean_slot;
use redo::mariadb::{Checkpoint, Format, LogFile, START_OFFSET};
use redo::segment::SegmentHeader;
use tempfile::TempDir;

pub const FIRST: u64 = 12_288;
pub const BLOCK: u64 = 4096;
/// A fake server that only writes a log.
pub struct FakeServer {
    pub dir: TempDir,
    file: File,
    first: u64,
    pub capacity: u64,
    /// The whole log from LSN 12288 on, with the end markers of an archive segment.
    pub truth: Vec<u8>,
    /// Offsets of the end markers in it.
    pub markers: Vec<usize>,
}

impl FakeServer {
    pub fn new(capacity: u64) -> Self {
        let dir = TempDir::new().expect("a directory");
        fs::create_dir(dir.path().join("data")).expect("made");
        let file = log_file(&dir.path().join("data/ib_logfile0"), FIRST, capacity);
        Self { dir, file, first: FIRST, capacity, truth: Vec::new(), markers: Vec::new() }
    }

    pub fn datadir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn archive(&self) -> PathBuf {
        self.dir.path().join("archive")
    }

    pub fn lsn(&self) -> u64 {
        FIRST + self.truth.len() as u64
    }

    /// Commits `count` mini-transactions of various lengths, and returns the LSN after them.
    pub fn commit(&mut self, count: usize) -> u64 {
        for _ in 0..count {
            let number = self.markers.len();
            let len = 150 + number * 37 % 700;
            let mut bytes = record(len, number as u8);
            let crc = crc32c(&bytes);
            let start = self.truth.len();
            self.markers.push(start + bytes.len());
            bytes.push(1);
            bytes.extend(crc.to_be_bytes());
            self.truth.extend(&bytes);
            self.put(FIRST + start as u64, FIRST + self.truth.len() as u64);
        }
        // The byte after the last one ends the log.
        self.write(self.lsn(), &[0]);
        self.lsn()
    }

    /// Writes a part of the log to the file, with the markers of its lap.
    pub fn put(&self, from: u64, to: u64) {
        let range = (from - FIRST) as usize..(to - FIRST) as usize;
        let mut bytes = self.truth[range.clone()].to_vec();
        for marker in &self.markers[self.markers.partition_point(|marker| *marker < range.start)..] {
            let Some(byte) = bytes.get_mut(marker.wrapping_sub(range.start)) else { break };
            let lap = (FIRST + *marker as u64 - self.first) / self.capacity;
            *byte = u8::from(lap.is_multiple_of(2));
        }
        self.write(from, &bytes);
    }

    pub fn write(&self, lsn: u64, bytes: &[u8]) {
        for (at, byte) in (lsn..).zip(bytes) {
            let offset = START_OFFSET as u64 + (at - self.first) % self.capacity;
            self.file.write_all_at(&[*byte], offset).expect("written");
        }
    }

    /// A checkpoint at the start of a mini-transaction.
    pub fn checkpoint(&self, lsn: u64) {
        assert!(lsn == FIRST || self.markers.iter().any(|marker| FIRST + *marker as u64 + 5 == lsn));
        self.file.write_all_at(&clean_slot(Lsn(lsn)).expect("a slot"), 8192).expect("written");
    }

    /// Replaces the log by one that starts `before` bytes before the end and has everything since.
    pub fn resize(&mut self, capacity: u64, before: u64) {
        let new = self.datadir().join("ib_logfile101");
        (self.first, self.capacity) = ((self.lsn() - before).max(FIRST), capacity);
        self.file = log_file(&new, self.first, capacity);
        self.put(self.first, self.lsn());
        let boundary = self.markers.iter().map(|marker| FIRST + *marker as u64 + 5).find(|lsn| *lsn >= self.first);
        self.checkpoint(boundary.expect("one"));
        fs::rename(new, self.datadir().join("ib_logfile0")).expect("renamed");
    }

    /// Another history: everything from `lsn` on went differently.
    pub fn restore_to(&mut self, lsn: u64) {
        let kept = (lsn - FIRST) as usize;
        self.truth.truncate(kept);
        self.markers.retain(|marker| *marker < kept);
        // Gives all further mini-transactions other content.
        self.file.write_all_at(&vec![0; self.capacity as usize], START_OFFSET as u64).expect("written");
        self.put(FIRST.max(lsn.saturating_sub(self.capacity)), lsn);
        let bytes = record(333, 0xAB);
        let crc = crc32c(&bytes);
        self.markers.push(kept + bytes.len());
        self.truth.extend([bytes, vec![1], crc.to_be_bytes().to_vec()].concat());
        self.put(lsn, self.lsn());
    }

    pub fn run(&self, options: &ArchiveOptions) -> (ArchiveStatus, Vec<String>) {
        let mut gaps = Vec::new();
        let done = archive(&self.datadir(), options, &AtomicBool::new(false), &mut |event| {
            if let ArchiveEvent::Gap(why) = event {
                gaps.push((*why).to_owned());
            }
        });
        (done.expect("archived"), gaps)
    }

    /// Archives what needs no waiting to be certain.
    pub fn once(&self) -> (ArchiveStatus, Vec<String>) {
        self.run(&ArchiveOptions { until: ArchiveUntil::Once, ..self.options() })
    }

    /// Archives everything.
    pub fn caught_up(&self) -> (ArchiveStatus, Vec<String>) {
        self.run(&self.options())
    }

    pub fn options(&self) -> ArchiveOptions {
        ArchiveOptions {
            to: self.archive(),
            until: ArchiveUntil::CaughtUp,
            poll: Duration::from_millis(1),
            segment_size: 64 << 10,
            settle: Duration::from_millis(20),
            definitions: false,
        }
    }

    /// The archive; asserts that every byte is the server's.
    pub fn verified(&self) -> ArchiveReport {
        let report = verify_archive(&self.archive()).expect("read");
        assert_eq!(report.damage, Vec::<String>::new());
        self.compare(&report);
        report
    }

    pub fn compare(&self, report: &ArchiveReport) {
        self.compare_in(&self.archive(), report);
    }

    pub fn compare_in(&self, archive: &Path, report: &ArchiveReport) {
        let last = report.ranges.last().expect("a range");
        for range in report.ranges.iter().filter(|range| range.timeline == last.timeline) {
            let bytes = bytes_of(archive, range.timeline, range.start_lsn, range.end_lsn);
            let [from, to] = [range.start_lsn, range.end_lsn].map(|lsn| (lsn - FIRST) as usize);
            assert!(bytes == self.truth[from..to], "LSN {} to {}", range.start_lsn, range.end_lsn);
        }
    }
}

/// A record of `len` bytes.
pub fn record(len: usize, fill: u8) -> Vec<u8> {
    let length = len - 1 - 15 - 128;
    let mut bytes = vec![0x30, 0x80 | (length >> 8) as u8, length as u8];
    bytes.resize(len, fill | 2);
    bytes
}

pub fn log_file(path: &Path, first: u64, capacity: u64) -> File {
    let mut server = vec![0; START_OFFSET];
    server[..4].copy_from_slice(&0x5068_7973_u32.to_be_bytes());
    let checkpoint = Some(Checkpoint { lsn: Lsn(first), end_lsn: Lsn(first) });
    let header =
        SegmentHeader { start: Lsn(first), timeline: 1, checkpoint, format: Format::Stream { encrypted: None } };
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("made");
    file.set_len(START_OFFSET as u64 + capacity).expect("a length");
    file.write_all_at(&header.build(&server).expect("a header"), 0).expect("written");
    assert!(LogFile::parse(&fs::read(path).expect("read"), START_OFFSET as u64 + capacity).is_ok());
    file
}

/// The archived bytes of a range.
pub fn bytes_of(dir: &Path, timeline: u32, from: u64, to: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while from + (bytes.len() as u64) < to {
        let at = from + bytes.len() as u64;
        let suffix = if timeline > 1 { format!(".{timeline}") } else { String::new() };
        let name = format!("redo.{at:016x}{suffix}");
        let segment = fs::read(dir.join(&name)).expect("a segment");
        let end = fs::read(dir.join(format!("{name}.end"))).ok();
        let end = end.map_or(to, |end| u64::from_be_bytes(end[16..24].try_into().expect("eight")));
        assert!(end > at, "{name}");
        bytes.extend(&segment[START_OFFSET..START_OFFSET + (end.min(to) - at) as usize]);
    }
    bytes
}
