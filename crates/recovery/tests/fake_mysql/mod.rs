//! A fake MySQL server that only writes a log: files of blocks, each of which continues the previous one.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::{Path, PathBuf};

use format::Lsn;
use innokit_recovery::ArchiveReport;
use redo::block::LOG_BLOCK_SIZE;
use redo::mysql::LOG_FILE_HDR_SIZE;
use redo::mysql::close::{TableNote, new_file};
use redo::mysql::follow::{SoundBlocks, agree};
use redo::mysql::mtr_reader::MtrReader;
use redo::mysql::segment::SegmentHeader;
use tempfile::TempDir;

pub const FIRST: u64 = 84_237_312;
/// Blocks in a file.
pub const FILE_BLOCKS: usize = 100;

pub struct FakeMySql {
    pub dir: TempDir,
    /// The content of its mini-transactions, each of which is one record.
    pub notes: Vec<u64>,
    /// Files before this one have been removed.
    pub oldest: usize,
    checkpoint: u64,
}

impl FakeMySql {
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        fs::create_dir_all(dir.path().join("data/#innodb_redo")).expect("made");
        let server = Self { dir, notes: Vec::new(), oldest: 0, checkpoint: FIRST + 12 };
        server.write(&server.blocks());
        server
    }

    pub fn datadir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn archive(&self) -> PathBuf {
        self.dir.path().join("archive")
    }

    fn header() -> Vec<u8> {
        let mut header = vec![0; LOG_FILE_HDR_SIZE];
        header[3] = 6;
        header[4..8].copy_from_slice(&[1, 2, 3, 4]);
        header[16..27].copy_from_slice(b"MySQL 9.7.4");
        header
    }

    /// The whole log, from its first block on.
    pub fn blocks(&self) -> Vec<[u8; LOG_BLOCK_SIZE]> {
        let note =
            |table: &u64| TableNote { table: *table, version: 0, auto_increment: Some(*table), state: Vec::new() };
        let notes: Vec<TableNote> = self.notes.iter().map(note).collect();
        let file = new_file(&Self::header(), Lsn(FIRST), &notes).expect("a log");
        file[LOG_FILE_HDR_SIZE..].as_chunks().0.to_vec()
    }

    /// The ends of all mini-transactions.
    pub fn ends(&self) -> Vec<u64> {
        let (mut reader, blocks) = (MtrReader::new(6, Lsn(FIRST), Vec::new()), self.blocks());
        let (mut input, mut ends) = (blocks.as_flattened(), Vec::new());
        while let Some(mtr) = reader.next_mtr(&mut input) {
            ends.push(mtr.end.0);
        }
        assert_eq!(ends.len(), self.notes.len());
        ends
    }

    pub fn lsn(&self) -> u64 {
        self.ends().last().copied().unwrap_or(FIRST)
    }

    /// Commits `count` mini-transactions of various lengths.
    pub fn commit(&mut self, count: usize) {
        let next = self.notes.len() as u64;
        self.notes.extend((next..next + count as u64).map(|number| number * number * 7919));
        self.write(&self.blocks());
    }

    /// Moves the checkpoint to the end and removes all earlier files.
    pub fn lap(&mut self) {
        self.checkpoint = self.lsn();
        self.oldest = ((self.checkpoint - FIRST) / LOG_BLOCK_SIZE as u64) as usize / FILE_BLOCKS;
        fs::remove_dir_all(self.datadir().join("#innodb_redo")).expect("removed");
        fs::create_dir(self.datadir().join("#innodb_redo")).expect("made");
        self.write(&self.blocks());
    }

    /// Replaces the blocks of the log by these.
    pub fn write(&self, blocks: &[[u8; LOG_BLOCK_SIZE]]) {
        let files = blocks.chunks(FILE_BLOCKS).enumerate().skip(self.oldest);
        for (number, blocks) in files {
            let start = FIRST + (number * FILE_BLOCKS * LOG_BLOCK_SIZE) as u64;
            let end = start + (FILE_BLOCKS * LOG_BLOCK_SIZE) as u64;
            let checkpoint = Some(Lsn(self.checkpoint)).filter(|lsn| (start..end).contains(&lsn.0));
            let header = SegmentHeader::build(Lsn(start), 1, checkpoint, &Self::header()).expect("a header");
            let mut bytes = [header.as_slice(), blocks.as_flattened()].concat();
            bytes.resize(LOG_FILE_HDR_SIZE + FILE_BLOCKS * LOG_BLOCK_SIZE, 0);
            fs::write(self.datadir().join(format!("#innodb_redo/#ib_redo{number}")), bytes).expect("written");
        }
    }

    /// Asserts that the archive has the log's bytes, as far as it goes.
    pub fn compare_in(&self, archive: &Path, report: &ArchiveReport) {
        let (blocks, last) = (self.blocks(), report.ranges.last().expect("a range"));
        let ends = self.ends();
        for range in report.ranges.iter().filter(|range| range.timeline == last.timeline) {
            let is_end = ends.contains(&range.end_lsn) || range.end_lsn == range.start_lsn;
            assert!(is_end, "LSN {} is no end of a mini-transaction", range.end_lsn);
        }
        for entry in fs::read_dir(archive).expect("read") {
            let path = entry.expect("one").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let Some(start) = name.strip_prefix("redo.").and_then(|lsn| u64::from_str_radix(lsn.get(..16)?, 16).ok())
            else {
                continue;
            };
            let is_of_last =
                if last.timeline == 1 { name.len() == 21 } else { name.ends_with(&format!(".{}", last.timeline)) };
            if !is_of_last {
                continue;
            }
            let bytes = fs::read(&path).expect("read");
            let stored = &bytes[LOG_FILE_HDR_SIZE..];
            let sound = SoundBlocks::of(stored, Lsn(start));
            let count = sound.full / LOG_BLOCK_SIZE + usize::from(sound.end.is_some());
            for (number, block) in stored.as_chunks::<LOG_BLOCK_SIZE>().0.iter().enumerate().take(count) {
                let lsn = start + (number * LOG_BLOCK_SIZE) as u64;
                let truth = &blocks[((lsn - FIRST) / LOG_BLOCK_SIZE as u64) as usize];
                assert_ne!(agree(block, truth, Lsn(lsn)), Some(false), "{name}: LSN {lsn}");
            }
        }
    }
}
