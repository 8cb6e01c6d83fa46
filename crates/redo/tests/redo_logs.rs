//! Complete redo logs: intact ones pass, leftovers of a crash after the end are no damage, and damage is reported with its LSN.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test may fail the test")]

extern crate format as innokit_format; // what the shared helpers of tests call it

use format::checksum::crc32c;
use innokit_format::Lsn;
use innokit_redo::mysql::LogFile;
use innokit_redo::verify_blocks::{BlockDamage, BlockEnd, BlockScheme, BlockSummary, BlockVerifier, Misfit};
use innokit_redo::verify_mariadb::{self, StreamDamage, StreamEnd, StreamSummary, Verifier};
use innokit_redo::verify_mysql::{self, Breach};
use innokit_redo::{LogState, RedoError, mariadb};
use proptest::prelude::*;

const BLOCK: usize = 512;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes.get_mut(at..at + value.len()).unwrap().copy_from_slice(value);
}

fn seal(bytes: &mut [u8], at: usize) {
    let sum = crc32c(bytes.get(..at).unwrap());
    put(bytes, at, &sum.to_be_bytes());
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

// --- MySQL ------------------------------------------------------------------------------------------------------------------

fn block(lsn: u64, len: u16, fill: u8) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    put(&mut block, 0, &u32::try_from(lsn / 512 % (1 << 30) + 1).unwrap().to_be_bytes());
    put(&mut block, 4, &len.to_be_bytes());
    put(&mut block, 6, &[0, 12, 0, 0, 0, 1]);
    block.get_mut(12..usize::from(len).min(508)).unwrap().fill(fill);
    seal(&mut block, 508);
    block
}

fn slot(number: u64, lsn: u64, offset: u64) -> Vec<u8> {
    let mut slot = vec![0; BLOCK];
    put(&mut slot, 0, &number.to_be_bytes());
    put(&mut slot, 8, &lsn.to_be_bytes());
    put(&mut slot, 16, &offset.to_be_bytes());
    seal(&mut slot, 508);
    slot
}

/// A file of `blocks`; `checkpoint` is its slot.
fn file(format: u8, start: u64, flags: u8, checkpoint: Vec<u8>, blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut header = vec![0; BLOCK];
    put(&mut header, 3, &[format, 0x11, 0x22, 0x33, 0x44]);
    put(&mut header, 8, &start.to_be_bytes());
    put(&mut header, 16, b"MySQL 8.0.30");
    put(&mut header, 51, &[flags]);
    seal(&mut header, 508);
    [header, checkpoint, vec![0; BLOCK], slot(0, 0, 0), blocks.concat()].concat()
}

/// Four full blocks from LSN 8192 on and one with 100 bytes, then zeros; the checkpoint is in the second.
fn crashed() -> Vec<u8> {
    let mut blocks: Vec<_> = (0..4).map(|i| block(8192 + i * 512, 512, 7)).collect();
    blocks.push(block(8192 + 4 * 512, 100, 7));
    blocks.push(vec![0; BLOCK]);
    file(6, 8192, 0, slot(0, 8192 + 600, 0), &blocks)
}

type Blocks = (Vec<BlockDamage>, BlockSummary, Vec<Breach>);

fn verify_pieces(files: &[Vec<u8>], piece: usize) -> Blocks {
    let parsed: Vec<_> = files.iter().map(|file| LogFile::parse(file, file.len() as u64).unwrap()).collect();
    let mut plan = verify_mysql::plan(&parsed).unwrap();
    let mut found = Vec::new();
    for segment in &plan.segments {
        let from = usize::try_from(segment.offset).unwrap();
        let bytes = files.get(segment.file).unwrap().get(from..from + usize::try_from(segment.len).unwrap()).unwrap();
        for mut piece in bytes.chunks(piece) {
            while let Some(damage) = plan.verifier.next_damage(&mut piece) {
                found.push(damage);
            }
        }
    }
    let (left, summary) = plan.verifier.finish();
    found.extend(left);
    (found, summary, plan.breaches)
}

fn verify(files: &[Vec<u8>]) -> Blocks {
    let whole = verify_pieces(files, 1 << 20);
    assert_eq!(verify_pieces(files, 77), whole);
    whole
}

#[test]
fn the_checksums_of_mysqls_log_are_the_known_ones() {
    let first = hex("00000011 000e 000c 00000001 2020");
    let mut data = vec![0; BLOCK];
    put(&mut data, 0, &first);
    seal(&mut data, 508);
    let log = file(6, 8192, 0, slot(0, 8204, 0), std::slice::from_ref(&data));
    let sum = |at: usize| hex_of(log.get(at..at + 4).unwrap());
    assert_eq!([sum(508), sum(512 + 508), sum(2048 + 508)], ["8ac49681", "9ad6fd89", "a84c7e2e"]);
    let (damage, summary, breaches) = verify(&[log]);
    assert_eq!((damage, breaches), (vec![], vec![]));
    assert_eq!((summary.ok, summary.end, summary.ends), (1, Lsn(8206), BlockEnd::InBlock));
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn zeros_and_blocks_of_an_earlier_lap_behind_the_end_are_no_damage() {
    for behind in [vec![0; BLOCK], block(4096, 512, 9)] {
        let full = vec![block(8192, 512, 7), block(8704, 512, 7), behind.clone(), behind];
        let (damage, summary, _) = verify(&[file(6, 8192, 0, slot(0, 8300, 0), &full)]);
        assert_eq!((damage, summary.ok, summary.end, summary.ends), (vec![], 2, Lsn(9216), BlockEnd::BetweenBlocks));
    }
}

#[test]
fn every_damaged_bit_of_a_block_is_named_with_its_lsn() {
    let sound = crashed();
    for bit in 0..BLOCK * 8 {
        let mut log = sound.clone();
        *log.get_mut(2048 + 2 * BLOCK + bit / 8).unwrap() ^= 1 << (bit % 8);
        let (damage, summary, _) = verify_pieces(&[log], 1 << 20);
        let named: Vec<_> = damage.iter().map(|damage| (damage.lsn, damage.blocks, damage.is_needed)).collect();
        assert_eq!(named, [(Lsn(8192 + 1024), 1, true)], "bit {bit}");
        assert_eq!((summary.damaged, summary.end), (1, Lsn(8192 + 4 * 512 + 100)));
    }
}

#[test]
fn a_damaged_last_block_is_where_the_log_ends_torn() {
    for bit in 0..BLOCK * 8 {
        let mut log = crashed();
        *log.get_mut(2048 + 4 * BLOCK + bit / 8).unwrap() ^= 1 << (bit % 8);
        let (damage, summary, _) = verify_pieces(&[log], 1 << 20);
        assert!(damage.is_empty() && matches!(summary.ends, BlockEnd::Torn(_)), "bit {bit}: {summary:?}");
        assert_eq!(summary.end, Lsn(8192 + 4 * 512));
    }
}

#[test]
fn the_block_of_the_checkpoint_cannot_be_behind_the_end() {
    let mut log = file(6, 8192, 0, slot(0, 8192 + 50, 0), &[block(8192, 50, 7), vec![0; BLOCK]]);
    assert_eq!(verify(std::slice::from_ref(&log)).0, []);
    *log.get_mut(2048 + 20).unwrap() ^= 1;
    let (damage, ..) = verify(&[log]);
    assert!(matches!(damage[..], [BlockDamage { lsn: Lsn(8192), blocks: 1, is_needed: true, .. }]), "{damage:?}");
}

#[test]
fn damage_before_the_checkpoint_is_told_apart() {
    let mut log = crashed();
    *log.get_mut(2048 + 100).unwrap() ^= 1;
    let (damage, summary, _) = verify(&[log]);
    assert!(matches!(damage[..], [BlockDamage { lsn: Lsn(8192), is_needed: false, .. }]), "{damage:?}");
    assert_eq!((summary.damaged, summary.damaged_unneeded), (0, 1));
}

#[test]
fn a_block_whose_later_version_was_lost_is_found() {
    let mut log = crashed();
    put(&mut log, 2048 + 2 * BLOCK, &block(8192 + 1024, 60, 7));
    let expected =
        BlockDamage { lsn: Lsn(8192 + 1024), blocks: 1, misfit: Misfit::OldVersion { len: 60 }, is_needed: true };
    assert_eq!(verify(&[log]).0, [expected]);
}

#[test]
fn blocks_swapped_within_the_log_are_both_found() {
    let mut log = crashed();
    put(&mut log, 2048 + BLOCK, &block(8192 + 1024, 512, 7));
    put(&mut log, 2048 + 2 * BLOCK, &block(8192 + 512, 512, 7));
    let (damage, ..) = verify(&[log]);
    let misfit = Misfit::OtherBlock { found: 19, expected: 18 };
    assert_eq!(damage, [BlockDamage { lsn: Lsn(8192 + 512), blocks: 2, misfit, is_needed: true }]);
}

#[test]
fn encrypted_blocks_are_unverifiable_and_a_false_mark_is_damage() {
    let mut encrypted = block(8704, 512, 7);
    put(&mut encrypted, 4, &[0x82]);
    put(&mut encrypted, 100, &[1, 2, 3]);
    let mut log = file(6, 8192, 0, slot(0, 8300, 0), &[block(8192, 512, 7), encrypted, block(9216, 100, 7)]);
    let (damage, summary, _) = verify(std::slice::from_ref(&log));
    assert_eq!((damage, summary.ok, summary.unverifiable), (vec![], 2, 1));
    put(&mut log, 2048 + BLOCK, &block(8704, 512, 7));
    put(&mut log, 2048 + BLOCK + 4, &[0x82]);
    let (damage, ..) = verify(&[log]);
    assert!(matches!(damage[..], [BlockDamage { misfit: Misfit::NotEncrypted, .. }]), "{damage:?}");
}

#[test]
fn a_log_goes_on_from_file_to_file_in_the_order_of_its_lsns() {
    let full = |start: u64, flags| {
        let blocks: Vec<_> = (0..3).map(|i| block(start + i * 512, 512, 7)).collect();
        file(6, start, flags, slot(0, if start == 8192 { 8300 } else { 0 }, 0), &blocks)
    };
    let files = [full(8192 + 3072, 0), full(8192, 8), full(8192 + 1536, 8)];
    let (damage, summary, breaches) = verify(&files);
    assert_eq!((damage, breaches, summary.ok), (vec![], vec![], 9));
    assert_eq!((summary.end, summary.ends), (Lsn(8192 + 4608), BlockEnd::WithTheFiles));

    let gap = Breach::Gap { file: 0, expected: Lsn(8192 + 1536), found: Lsn(8192 + 3072) };
    assert_eq!(verify(&[full(8192 + 3072, 0), full(8192, 8)]).2, [gap]);
    assert_eq!(verify(&[full(8192, 8)]).2, [Breach::NewestMissing { end: Lsn(8192 + 1536) }]);
    let mut other = full(8192 + 1536, 0);
    put(&mut other, 4, &[9]);
    seal(other.get_mut(..BLOCK).unwrap(), 508);
    assert_eq!(verify(&[full(8192, 0), other]).2, [Breach::OtherLog { file: 1, start: Lsn(8192 + 1536) }]);
}

#[test]
fn a_ring_is_read_once_around_from_its_checkpoint() {
    // Two files of three blocks. The checkpoint is in the second block of the second file: LSN 20480 at ring offset 2048 * 2 + 4 * 512. The
    // log continues in the first file, whose remaining content is of the previous lap.
    let at = |i: u64| 20480 + i * 512;
    let second =
        file(5, 8192, 0, slot(0, 0, 0), &[block(at(5) - 3072, 512, 1), block(at(0), 512, 7), block(at(1), 512, 7)]);
    let offset = 2 * 2048 + 4 * 512;
    let first_blocks = [block(at(2), 512, 7), block(at(3), 40, 7), block(at(4) - 3072, 512, 1)];
    let mut first = file(5, 8192, 0, slot(3, at(0) + 20, offset), &first_blocks);
    let (damage, summary, breaches) = verify(&[first.clone(), second.clone()]);
    assert_eq!((damage, breaches), (vec![], vec![]));
    assert_eq!((summary.ok, summary.end, summary.ends), (4, Lsn(at(3) + 40), BlockEnd::InBlock));
    *first.get_mut(2048 + 30).unwrap() ^= 1;
    let (damage, ..) = verify(&[first, second]);
    assert!(matches!(damage[..], [BlockDamage { blocks: 1, is_needed: true, .. }]), "{damage:?}");
    assert_eq!(damage.first().unwrap().lsn, Lsn(at(2)));
}

// --- MariaDB ----------------------------------------------------------------------------------------------------------------

const START: usize = 12288;
/// Bytes of payload of the test's logs: four writes of 4096.
const CAPACITY: usize = 16384;
/// Records of a mini-transaction that a server wrote, and their CRC: UNDO_APPEND; FILE_MODIFY; FILE_CHECKPOINT(12288).
const UNDO_APPEND: (&str, &str) = ("2006022d030b01020800000000000000120400000000", "54dc777c");
const FILE_MODIFY: (&str, &str) = ("bb08002e2f762f642e696264", "3204a88b");
const FILE_CHECKPOINT: (&str, &str) = ("fa00000000000000003000", "1fec1a80");

/// A log being built. The payload begins at LSN 12288.
struct Log {
    file: Vec<u8>,
    checkpoint: u64,
    /// Where the next mini-transaction goes.
    at: u64,
    starts: Vec<u64>,
}

impl Log {
    fn new(checkpoint: u64, end_lsn: u64) -> Self {
        let mut file = vec![0; START + CAPACITY];
        put(&mut file, 0, b"Phys");
        put(&mut file, 8, &12288_u64.to_be_bytes());
        put(&mut file, 16, b"MariaDB 10.11.19");
        seal(file.get_mut(..BLOCK).unwrap(), 508);
        put(&mut file, 4096, &checkpoint.to_be_bytes());
        put(&mut file, 4104, &end_lsn.to_be_bytes());
        seal(file.get_mut(4096..4160).unwrap(), 60);
        Self { file, checkpoint, at: checkpoint, starts: Vec::new() }
    }

    fn offset(lsn: u64) -> usize {
        START + usize::try_from(lsn - 12288).unwrap() % CAPACITY
    }

    fn push(&mut self, (records, crc): (&str, &str)) {
        let records = hex(records);
        let marker_lap = (self.at + records.len() as u64 - 12288) / CAPACITY as u64;
        self.starts.push(self.at);
        for byte in [records, vec![u8::from(marker_lap.is_multiple_of(2))], hex(crc)].concat() {
            *self.file.get_mut(Self::offset(self.at)).unwrap() = byte;
            self.at += 1;
        }
    }

    fn push_checkpoint(&mut self) {
        let record = format!("fa0000{:016x}", self.checkpoint);
        let crc = format!("{:08x}", crc32c(&hex(&record)));
        self.push((&record, &crc));
    }

    /// The marker that a server writes after the last mini-transaction.
    fn end(mut self) -> Self {
        *self.file.get_mut(Self::offset(self.at)).unwrap() = 0;
        self
    }

    fn flip(&mut self, lsn: u64, bit: usize) {
        *self.file.get_mut(Self::offset(lsn)).unwrap() ^= 1 << bit;
    }
}

/// A crashed log that wraps at the end of its file, over bytes of the previous lap.
fn around() -> Log {
    let checkpoint = 12288 + CAPACITY as u64 - 3000;
    let mut log = Log::new(checkpoint, checkpoint);
    // The previous lap: the same records with the marker of that lap.
    log.at = 12288;
    while log.at < checkpoint {
        log.push(UNDO_APPEND);
    }
    (log.at, log.starts) = (checkpoint, Vec::new());
    log.push_checkpoint();
    for _ in 0..150 {
        log.push(UNDO_APPEND);
        log.push(FILE_MODIFY);
    }
    log.end()
}

fn stream_in_pieces(file: &[u8], piece: usize) -> (Vec<StreamDamage>, StreamSummary) {
    let header = mariadb::LogFile::parse(file, file.len() as u64).unwrap();
    let plan = verify_mariadb::plan(&header).unwrap();
    let Verifier::Stream(mut verifier) = plan.verifier else { panic!("a log of 10.8 is a stream") };
    let mut found = Vec::new();
    for segment in plan.segments {
        let from = usize::try_from(segment.offset).unwrap();
        for mut piece in file.get(from..from + usize::try_from(segment.len).unwrap()).unwrap().chunks(piece) {
            while let Some(damage) = verifier.next_damage(&mut piece) {
                found.push(damage);
            }
        }
    }
    let (left, summary) = verifier.finish();
    found.extend(left);
    (found, summary)
}

fn stream(file: &[u8]) -> (Vec<StreamDamage>, StreamSummary) {
    let whole = stream_in_pieces(file, file.len());
    for piece in [1, 100, 4096] {
        assert_eq!(stream_in_pieces(file, piece), whole, "pieces of {piece} bytes");
    }
    whole
}

#[test]
fn the_first_mini_transaction_of_a_fresh_log_is_the_known_one() {
    let mut log = Log::new(12288, 12288);
    log.push(FILE_CHECKPOINT);
    let (damage, summary) = stream(&log.end().file);
    let ends = StreamEnd::Marked;
    let expected = StreamSummary { mtrs: 1, bytes: 16, damaged: 0, end: Lsn(12304), ends, names_checkpoint: true };
    assert_eq!((damage, summary), (vec![], expected));
}

/// As mariadb-backup leaves it in a prepared backup, with page LSNs up to the end of the record.
#[test]
fn a_log_with_room_for_nothing_but_its_checkpoint_is_clean() {
    let mut log = Log::new(12288, 12288);
    log.push(FILE_CHECKPOINT);
    let mut file = log.file.get(..12304).unwrap().to_vec();
    let parsed = mariadb::LogFile::parse(&file, file.len() as u64).unwrap();
    let lap = file.get(12288..).unwrap();
    assert_eq!((parsed.state(lap), parsed.clean_end(lap)), (Ok(LogState::Clean), Lsn(12304)));
    // The marker of the previous lap.
    *file.get_mut(12299).unwrap() = 0;
    let error = RedoError::CheckpointDamaged { lsn: Lsn(12288) };
    assert_eq!(parsed.state(file.get(12288..).unwrap()), Err(error));
}

#[test]
fn a_log_that_goes_around_its_file_is_walked_to_its_end() {
    let log = around();
    let (damage, summary) = stream(&log.file);
    assert_eq!((damage, summary.mtrs, summary.end.0), (vec![], 301, log.at));
    assert_eq!((summary.ends, summary.is_damaged()), (StreamEnd::Marked, false));
}

#[test]
fn every_damaged_bit_but_of_the_last_write_is_named_with_its_mini_transaction() {
    let sound = around();
    let last_write = sound.at - sound.at % 4096;
    let examined = sound.starts.iter().zip(sound.starts.iter().skip(1)).filter(|(_, end)| **end < last_write);
    let every = if std::env::var_os("INNOKIT_SOAK").is_some() { 7 } else { 31 };
    let mut log = around();
    for (index, (&start, &end)) in examined.enumerate().skip(1).step_by(every) {
        for bit in 0..usize::try_from(end - start).unwrap() * 8 {
            let (at, bit_of_byte) = (start + bit as u64 / 8, bit % 8);
            log.flip(at, bit_of_byte);
            let (damage, summary) = stream_in_pieces(&log.file, 1 << 20);
            assert_eq!(damage, [StreamDamage { from: Lsn(start), to: Lsn(end) }], "mtr {index}, bit {bit}");
            assert_eq!((summary.mtrs, summary.end.0), (300, sound.at));
            log.flip(at, bit_of_byte);
        }
    }
}

#[test]
fn damage_in_the_last_write_is_where_the_log_ends() {
    let sound = around();
    let start = *sound.starts.get(290).unwrap();
    let mut log = around();
    log.flip(start + 9, 3);
    let (damage, summary) = stream(&log.file);
    assert_eq!((damage, summary.end, summary.ends), (vec![], Lsn(start), StreamEnd::Torn));
}

#[test]
fn a_log_that_ends_before_its_checkpoint_was_made_is_damaged() {
    let mut log = Log::new(12288, 12288 + 10 * 27);
    for _ in 0..10 {
        log.push(UNDO_APPEND);
    }
    log.push_checkpoint();
    let mut log = log.end();
    assert_eq!(stream(&log.file).0, []);
    for lsn in log.starts.get(4..10).unwrap().to_vec() {
        log.flip(lsn + 2, 1);
    }
    let (damage, summary) = stream(&log.file);
    assert_eq!(damage, [StreamDamage { from: Lsn(12288 + 4 * 27), to: Lsn(12288 + 10 * 27) }]);
    assert!(summary.names_checkpoint && summary.is_damaged());
}

#[test]
fn damage_before_the_end_that_the_checkpoint_names_costs_one_mini_transaction() {
    let mut log = Log::new(12288, 12288 + 10 * 27);
    for _ in 0..10 {
        log.push(UNDO_APPEND);
    }
    log.push_checkpoint();
    let mut log = log.end();
    log.flip(12288 + 4 * 27 + 2, 1);
    let (damage, summary) = stream(&log.file);
    assert_eq!(damage, [StreamDamage { from: Lsn(12288 + 4 * 27), to: Lsn(12288 + 5 * 27) }]);
    assert_eq!(summary.mtrs, 10);
}

#[test]
fn a_log_without_the_record_of_its_checkpoint_is_damaged() {
    for bit in 0..15 * 8 {
        let mut log = Log::new(12288, 12288);
        log.push(FILE_CHECKPOINT);
        let mut log = log.end();
        log.flip(12288 + bit as u64 / 8, bit % 8);
        let (_, summary) = stream_in_pieces(&log.file, 1 << 20);
        assert!(!summary.names_checkpoint && summary.is_damaged(), "bit {bit}");
    }
}

#[test]
fn an_encrypted_log_is_verified_without_its_key() {
    let mut log = Log::new(12288, 12288);
    put(&mut log.file, 0, &hex("f09f979d"));
    seal(log.file.get_mut(..BLOCK).unwrap(), 508);
    put(&mut log.file, START, &hex("fa379671b02137021ea713 01 0000000000003000 41c31e00"));
    let (damage, summary) = stream(&log.file);
    assert_eq!((damage, summary.mtrs, summary.is_damaged()), (vec![], 1, false));
    log.flip(12288 + 5, 0);
    assert!(stream(&log.file).1.is_damaged());
}

#[test]
fn blocks_of_mariadb_have_no_mark_of_encryption() {
    let mut marked = block(8704, 512, 7);
    put(&mut marked, 4, &[0x82]);
    let blocks = [block(8192, 512, 7), marked, block(9216, 512, 7)].concat();
    let mut verifier = BlockVerifier::new(BlockScheme::MariaDb, Lsn(8192), Lsn(8200));
    let damage = verifier.next_damage(&mut blocks.as_slice()).unwrap();
    assert_eq!((damage.lsn, damage.blocks), (Lsn(8704), 1));
    assert!(matches!(damage.misfit, Misfit::Checksum { .. }), "{damage:?}");
}

proptest! {
    #[test]
    fn any_bytes_of_blocks_are_judged_without_panic_and_alike_in_any_pieces(
        noise in proptest::collection::vec(any::<u8>(), 1..600), at in 2048usize..5000, piece in 1usize..700,
    ) {
        let mut log = crashed();
        let room = log.len().saturating_sub(at).min(noise.len());
        put(&mut log, at, noise.get(..room).unwrap());
        prop_assert_eq!(verify_pieces(std::slice::from_ref(&log), piece), verify_pieces(&[log], 1 << 20));
    }

    #[test]
    fn any_bytes_of_a_stream_are_judged_without_panic_and_alike_in_any_pieces(
        noise in proptest::collection::vec(any::<u8>(), 1..300), at in START..START + CAPACITY - 300, piece in 1usize..5000,
    ) {
        let mut log = around();
        put(&mut log.file, at, &noise);
        prop_assert_eq!(stream_in_pieces(&log.file, piece), stream_in_pieces(&log.file, 1 << 20));
    }
}
