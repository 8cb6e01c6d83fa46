//! Whether a redo log still has to be applied: handmade logs with checksums computed by other implementations.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

extern crate format as innokit_format; // what the shared helpers of tests call it

#[path = "../../format/tests/common/mod.rs"]
mod common;

use common::{hex, put, put_u32, u32_at};
use format::checksum::crc32c;
use innokit_format::Lsn;
use innokit_redo::block::{LogBlock, block_number};
use innokit_redo::close_blocks::{clean_slot, last_block, restarted_blocks};
use innokit_redo::{LogState, LogVendor, RedoError, identify, mariadb, mysql};

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_be_bytes());
}

/// Appends the CRC of the 508 bytes from `start`.
fn seal_block(bytes: &mut [u8], start: usize) {
    let crc = crc32c(&bytes[start..start + 508]);
    put_u32(bytes, start + 508, crc);
}

fn mysql_header(format: u32, start_lsn: u64, checkpoints: [u64; 2]) -> Vec<u8> {
    let mut header = vec![0; 2048];
    put_u32(&mut header, 0, format);
    put_u32(&mut header, 4, 0x1122_3344);
    put_u64(&mut header, 8, start_lsn);
    put(&mut header, 16, b"MySQL 8.0.30");
    seal_block(&mut header, 0);
    for (start, lsn) in [512, 1536].into_iter().zip(checkpoints) {
        put_u64(&mut header, start + 8, lsn);
        seal_block(&mut header, start);
    }
    header
}

/// The log block of `lsn` with `data_len` bytes used.
fn block(lsn: u64, data_len: u16, payload: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    put_u32(&mut block, 0, block_number(Lsn(lsn)));
    put(&mut block, 4, &data_len.to_be_bytes());
    put_u32(&mut block, 8, 1);
    put(&mut block, 12, payload);
    seal_block(&mut block, 0);
    block
}

#[test]
fn a_mysql_header_and_its_checkpoint() {
    let header = mysql_header(6, 8192, [8204, 0]);
    assert_eq!((u32_at(&header, 508), u32_at(&header, 1020)), (0x8AC4_9681, 0x9AD6_FD89));
    let file = mysql::LogFile::parse(&header, 65_536).expect("a header");
    assert_eq!(
        (file.format, file.log_uuid, file.start_lsn, file.creator.as_str()),
        (6, 0x1122_3344, Lsn(8192), "MySQL 8.0.30")
    );
    assert_eq!(identify(&header), Ok(LogVendor::MySql));
}

#[test]
fn a_log_block_is_read_field_by_field() {
    let mut bytes = [0; 512];
    put(&mut bytes, 0, &hex("00000011000e000c000000012020"));
    put_u32(&mut bytes, 508, 0xA84C_7E2E);
    let block = LogBlock::parse(&bytes, Lsn(8192)).expect("a block");
    assert_eq!((block.data_len, block.first_rec_group, block.epoch, block.is_full()), (14, 12, 1, false));
    assert_eq!(block.payload_from(12, 4), [0x20, 0x20]);
    assert_eq!(LogBlock::parse(&bytes, Lsn(8704)), None, "it belongs elsewhere");
    assert_eq!(block_number(Lsn(84_237_312)), 0x0002_82AF);
    for bit in 0..512 * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        // The first bit marks a write, the first bit of the length encryption. The checksum covers both, but the latter means that it is
        // the checksum of other bytes.
        assert!(bit == 4 * 8 + 7 || LogBlock::parse(&bytes, Lsn(8192)).is_none(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

fn mysql_state(format: u32, checkpoint: u64, blocks: &[u8]) -> Result<LogState, RedoError> {
    let place = mysql::CheckpointPlace { lsn: Lsn(checkpoint), file: 0, offset: 2048, format };
    mysql::state(&place, blocks)
}

#[test]
fn a_mysql_log_is_clean_if_it_ends_at_its_checkpoint() {
    let at_end = block(8192, 14, &[0x20, 0x20]);
    assert_eq!(mysql_state(6, 8206, &at_end), Ok(LogState::Clean));
    assert_eq!(mysql_state(6, 8205, &at_end), Ok(LogState::NeedsRecovery));
    assert_eq!(mysql_state(6, 8204, &at_end), Ok(LogState::NeedsRecovery));
    let full = block(8192, 512, &[0x20; 496]);
    assert_eq!(mysql_state(6, 8300, &full), Ok(LogState::NeedsRecovery));
}

#[test]
fn a_mysql_log_that_ends_with_a_block_may_lack_the_next() {
    let next = block(8704, 12, &[]);
    assert_eq!(mysql_state(6, 8716, &next), Ok(LogState::Clean));
    assert_eq!(mysql_state(6, 8716, &vec![0; 1024]), Ok(LogState::Clean), "never written");
    assert_eq!(mysql_state(6, 8716, &block(512, 300, &[1; 288])), Ok(LogState::Clean), "a recycled file's block");
    assert_eq!(mysql_state(6, 8716, &[]), Ok(LogState::Clean), "the file ends");
    assert_eq!(mysql_state(6, 8716, &block(8704, 20, &[0x20; 8])), Ok(LogState::NeedsRecovery));
}

#[test]
fn a_mysql_checkpoint_inside_a_damaged_block_is_an_error() {
    let mut damaged = block(8192, 100, &[0x20; 88]);
    damaged[50] ^= 1;
    assert_eq!(mysql_state(6, 8290, &damaged), Err(RedoError::CheckpointDamaged { lsn: Lsn(8290) }));
    assert_eq!(mysql_state(6, 8290, &damaged[..100]), Ok(LogState::Undecided));
}

#[test]
fn an_encrypted_mysql_log_block_is_judged_by_its_length() {
    let mut encrypted = block(8192, 0x8000 | 100, &[0xC3; 88]);
    encrypted[508] ^= 1;
    assert_eq!(mysql_state(6, 8292, &encrypted), Ok(LogState::Clean));
    assert_eq!(mysql_state(6, 8280, &encrypted), Ok(LogState::NeedsRecovery));
}

#[test]
fn a_clean_log_of_mysql_5_7_ends_with_the_record_of_its_checkpoint() {
    let record = |lsn: u64| [&[56][..], &lsn.to_be_bytes()].concat();
    let clean = block(8192, 23, &[&[0x20, 0x20][..], &record(8206)].concat());
    assert_eq!(mysql_state(1, 8206, &clean), Ok(LogState::Clean));
    let other = block(8192, 23, &[&[0x20, 0x20][..], &record(9999)].concat());
    assert_eq!(mysql_state(1, 8206, &other), Ok(LogState::NeedsRecovery));
    assert_eq!(mysql_state(1, 8205, &clean), Ok(LogState::NeedsRecovery));
    // The record may begin in one block and end in the next.
    let payload = [&[0x20; 493][..], &record(8697)[..3]].concat();
    let split = [block(8192, 512, &payload), block(8704, 18, &record(8697)[3..])].concat();
    assert_eq!(mysql_state(1, 8697, &split), Ok(LogState::Clean));
    assert_eq!(mysql_state(1, 8697, &split[..512]), Ok(LogState::Undecided));
}

#[test]
fn the_newest_checkpoint_of_many_files_is_the_greatest_lsn_within_its_own_file() {
    let file = |start, checkpoints| {
        mysql::LogFile::parse(&mysql_header(6, start, checkpoints), 2048 + 8192).expect("a header")
    };
    let files = [file(8192, [9000, 12_000]), file(16_384, [0, 16_400]), file(24_576, [0, 99_999])];
    let place = mysql::newest_checkpoint(&files).expect("a checkpoint");
    assert_eq!((place.lsn, place.file, place.offset), (Lsn(16_400), 1, 2048));
    assert_eq!(mysql::newest_checkpoint(&files[2..]), Err(RedoError::NoCheckpoint));
    assert_eq!(mysql::newest_checkpoint(&[file(0, [0, 0])]), Err(RedoError::NoCheckpoint), "unused slots");
    assert_eq!(mysql::newest_checkpoint(&[]), Err(RedoError::NoCheckpoint));
    let later = mysql::newest_checkpoint(&files[..1]).expect("a checkpoint");
    assert_eq!((later.lsn, later.offset), (Lsn(12_000), 2048 + (12_000 - 8192) / 512 * 512));
}

#[test]
fn the_ring_of_older_mysql_logs_is_read_by_checkpoint_number_and_offset() {
    let mut header = mysql_header(4, 8192, [50_000, 40_000]);
    for (start, number, offset) in [(512, 7_u64, 10_000_u64), (1536, 8, 110_000)] {
        put_u64(&mut header, start, number);
        put_u64(&mut header, start + 16, offset);
        seal_block(&mut header, start);
    }
    let file = mysql::LogFile::parse(&header, 100_352).expect("a header");
    let place = mysql::newest_checkpoint(&[file]).expect("a checkpoint");
    assert_eq!((place.lsn, place.file, place.offset), (Lsn(40_000), 1, (110_000 - 100_352) / 512 * 512));
}

#[test]
fn damaged_headers_are_refused() {
    let mut header = mysql_header(6, 8192, [8204, 0]);
    header[20] ^= 1;
    assert!(matches!(mysql::LogFile::parse(&header, 4096), Err(RedoError::HeaderChecksum { .. })));
    assert!(matches!(mysql::LogFile::parse(&header[..2047], 4096), Err(RedoError::TooShort { .. })));
    assert_eq!(identify(&[0, 0, 0, 103]), Err(RedoError::UnknownFormat { format: 103 }));
    assert_eq!(identify(b"PK\x03\x04"), Err(RedoError::UnknownFormat { format: 0x504B_0304 }));
    assert_eq!(identify(&[]), Err(RedoError::TooShort { len: 0, needed: 4 }));
}

#[test]
fn switched_off_logging_is_seen() {
    let mut header = mysql_header(6, 8192, [8204, 0]);
    for (flags, unsafe_) in [(0, false), (1, false), (3, true), (8, false), (11, true)] {
        put_u32(&mut header, 48, flags);
        seal_block(&mut header, 0);
        assert_eq!(mysql::LogFile::parse(&header, 4096).map(|file| file.is_crash_unsafe()), Ok(unsafe_));
    }
}

const MARIADB_SIZE: u64 = 8_388_608;

fn mariadb_slot(header: &mut [u8], at: usize, lsn: u64, end_lsn: u64) {
    put_u64(header, at, lsn);
    put_u64(header, at + 8, end_lsn);
    let crc = crc32c(&header[at..at + 60]);
    put_u32(header, at + 60, crc);
}

fn mariadb_header(format: &str, first_lsn: u64, creator: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 12_288];
    put(&mut header, 0, &hex(format));
    put_u64(&mut header, 8, first_lsn);
    put(&mut header, 16, creator);
    seal_block(&mut header, 0);
    header
}

#[test]
fn a_mariadb_header_and_its_checkpoint() {
    let mut header = mariadb_header("50687973", 0x0561_5CA2, b"Backup 10.11.19");
    mariadb_slot(&mut header, 4096, 0x0561_5CA2, 0x0561_5CA2);
    assert_eq!((u32_at(&header, 508), u32_at(&header, 4156)), (0x82BF_4C27, 0x4440_2BC8));
    let file = mariadb::LogFile::parse(&header, 12_304).expect("a header");
    assert_eq!(file.checkpoint, mariadb::Checkpoint { lsn: Lsn(90_266_786), end_lsn: Lsn(90_266_786) });
    assert_eq!(file.checkpoint_place(), Some(12_288));
    let record = hex("fa00000000000005615ca2012a992a4b");
    assert_eq!(file.state(&record), Ok(LogState::Clean), "the file has room for no more");
    let longer = mariadb::LogFile::parse(&header, 12_305).expect("a header");
    assert_eq!(longer.state(&record), Ok(LogState::Undecided), "the marker may follow");
    let with_zero = [hex("fa00000000000005615ca2012a992a4b"), vec![0]].concat();
    assert_eq!(file.state(&with_zero), Ok(LogState::Clean));
}

/// A log with `lsn` as its newest checkpoint, in a file that begins with LSN 12288.
fn mariadb_log(lsn: u64, end_lsn: u64) -> mariadb::LogFile {
    let mut header = mariadb_header("50687973", 12_288, b"MariaDB 10.11.19");
    mariadb_slot(&mut header, 4096, 12_288, 12_288);
    mariadb_slot(&mut header, 8192, lsn, end_lsn);
    mariadb::LogFile::parse(&header, MARIADB_SIZE).expect("a header")
}

/// FILE_CHECKPOINT(12288), as a fresh log has it.
const FRESH: &str = "fa00000000000000003000011fec1a80";

#[test]
fn a_mariadb_log_is_clean_if_only_its_checkpoint_record_follows() {
    let log = mariadb_log(12_288, 12_288);
    let with = |rest: &[u8]| log.state(&[&hex(FRESH)[..], rest].concat());
    assert_eq!(with(&[0]), Ok(LogState::Clean));
    assert_eq!(with(&[0x77; 4096]), Ok(LogState::Undecided), "records without an end so far");
    assert_eq!(with(&vec![0x77; mariadb::READ_SIZE_MAX]), Ok(LogState::Clean), "longer than any mini-transaction");
    // UNDO_APPEND: a complete mini-transaction with marker and checksum.
    let change = hex("2006022d030b01020800000000000000120400000000");
    let change = [&change[..], &[1], &crc32c(&change).to_be_bytes()].concat();
    assert_eq!(crc32c(&change[..22]), 0x54DC_777C);
    assert_eq!(with(&change), Ok(LogState::NeedsRecovery));
    let stale = [&change[..22], &[0], &change[23..]].concat();
    assert_eq!(with(&stale), Ok(LogState::Clean), "the marker is that of another lap");
    let mut torn = change.clone();
    torn[5] ^= 1;
    assert_eq!(with(&torn), Ok(LogState::Clean), "a mini-transaction that was not written whole never happened");
}

#[test]
fn a_mariadb_checkpoint_before_its_end_needs_recovery() {
    assert_eq!(mariadb_log(20_000, 30_000).state(&[]), Ok(LogState::NeedsRecovery));
}

#[test]
fn a_mariadb_log_without_its_checkpoint_record_is_damaged() {
    let log = mariadb_log(12_288, 12_288);
    let damaged = Err(RedoError::CheckpointDamaged { lsn: Lsn(12_288) });
    assert_eq!(log.state(&[0; 64]), damaged);
    let mut wrong = [hex(FRESH), vec![0]].concat();
    wrong[13] ^= 1;
    assert_eq!(log.state(&wrong), damaged);
    assert_eq!(log.state(&[]), Ok(LogState::Undecided));
    let of_another = [hex("fa00000000000005615ca2012a992a4b"), vec![0]].concat();
    assert_eq!(log.state(&of_another), Ok(LogState::NeedsRecovery), "a later checkpoint's record");
    // A file name record before the checkpoint's own record is not work; after it, it is.
    let modify = hex("bb08002e2f762f642e69626401");
    let modify = [&modify[..], &crc32c(&modify[..12]).to_be_bytes()].concat();
    assert_eq!(u32_at(&modify, 13), 0x3204_A88B);
    assert_eq!(log.state(&modify), Ok(LogState::Undecided));
    assert_eq!(log.state(&[&modify[..], &[0; 64]].concat()), damaged);
    assert_eq!(log.state(&[&modify[..], &hex(FRESH), &[0]].concat()), Ok(LogState::Clean));
    assert_eq!(log.state(&[&hex(FRESH)[..], &modify, &[0]].concat()), Ok(LogState::NeedsRecovery));
}

#[test]
fn the_greater_valid_checkpoint_of_mariadb_wins() {
    assert_eq!(mariadb_log(45_463, 45_463).checkpoint.lsn, Lsn(45_463));
    let mut header = mariadb_header("50687973", 12_288, b"MariaDB 11.8.9");
    mariadb_slot(&mut header, 4096, 45_463, 45_463);
    mariadb_slot(&mut header, 8192, 45_313, 45_313);
    assert_eq!((u32_at(&header, 4156), u32_at(&header, 8252)), (0xC9FD_CC34, 0xAB0A_5315));
    let checkpoint = |header: &[u8]| mariadb::LogFile::parse(header, MARIADB_SIZE).map(|file| file.checkpoint.lsn);
    assert_eq!(checkpoint(&header), Ok(Lsn(45_463)));
    header[4100] ^= 1;
    assert_eq!(checkpoint(&header), Ok(Lsn(45_313)));
    header[8200] ^= 1;
    assert_eq!(checkpoint(&header), Err(RedoError::NoCheckpoint));
    mariadb_slot(&mut header, 4096, 100, 100);
    assert_eq!(checkpoint(&header), Err(RedoError::NoCheckpoint), "before the file's first LSN");
}

#[test]
fn mariadb_lsns_go_around_the_file() {
    let log = mariadb_log(12_288, 12_288);
    let capacity = MARIADB_SIZE - 12_288;
    assert_eq!(log.offset_of(Lsn(12_288)), Some(12_288));
    assert_eq!(log.offset_of(Lsn(8_388_607)), Some(8_388_607));
    assert_eq!(log.offset_of(Lsn(8_388_608)), Some(12_288));
    assert_eq!(log.offset_of(Lsn(12_288 + 3 * capacity + 5)), Some(12_293));
    assert_eq!(log.offset_of(Lsn(12_287)), None);
    // On the second lap the end marker is 0 instead of 1.
    let second = mariadb_log(12_288 + capacity, 12_288 + capacity);
    let mut record = hex("fa0000");
    record.extend((12_288 + capacity).to_be_bytes());
    let mtr = |marker: u8| [&record[..], &[marker], &crc32c(&record).to_be_bytes(), &[0]].concat();
    assert_eq!(second.state(&mtr(0)), Ok(LogState::Clean));
    assert!(second.state(&mtr(1)).is_err());
}

#[test]
fn encrypted_mariadb_logs_are_judged_by_their_frames() {
    let mut header = mariadb_header("f09f979d", 12_288, b"MariaDB 11.8.9");
    mariadb_slot(&mut header, 4096, 12_288, 12_288);
    let log = mariadb::LogFile::parse(&header, MARIADB_SIZE).expect("a header");
    let first = hex("fa379671b02137021ea71301000000000000300041c31e00");
    assert_eq!(log.state(&[&first[..], &[0]].concat()), Ok(LogState::Clean));
    let change = hex("363796711122330100000000000030aa");
    let crc = crc32c(&[&change[..7], &change[8..16]].concat());
    let change = [&first[..], &change[..7], &[1], &change[8..16], &crc.to_be_bytes()].concat();
    assert_eq!(log.state(&change), Ok(LogState::NeedsRecovery));
    assert_eq!(identify(&header), Ok(LogVendor::MariaDb));
}

/// A log of MariaDB 10.5: blocks from offset 2048 on.
fn blocks_log(lsn: u64, end_lsn: u64) -> mariadb::LogFile {
    let mut header = vec![0; 2048];
    put(&mut header, 0, b"PHYS");
    put_u64(&mut header, 8, 8704);
    seal_block(&mut header, 0);
    for (start, number, lsn, end_lsn) in [(512, 3, 8716, 8716), (1536, 4, lsn, end_lsn)] {
        put_u64(&mut header, start, number);
        put_u64(&mut header, start + 8, lsn);
        put_u64(&mut header, start + 16, 2048 + lsn - 8704);
        put_u64(&mut header, start + 496, end_lsn);
        seal_block(&mut header, start);
    }
    mariadb::LogFile::parse(&header, 1 << 20).expect("a header")
}

#[test]
fn a_log_of_mariadb_10_5_is_clean_if_its_last_block_ends_with_the_checkpoint_record() {
    let lsn = 9216 + 40_u64;
    let record = [&hex("fa0000")[..], &lsn.to_be_bytes(), &[0]].concat();
    let before = [0x20; 28];
    let log = blocks_log(lsn, lsn);
    assert_eq!(log.checkpoint_place(), Some(2048 + 512));
    let clean = block(9216, 52, &[&before[..], &record].concat());
    assert_eq!(log.state(&clean), Ok(LogState::Clean));
    let more = block(9216, 53, &[&before[..], &record, &[0xB0]].concat());
    assert_eq!(log.state(&more), Ok(LogState::NeedsRecovery));
    let other = block(9216, 52, &[0x20; 40]);
    assert_eq!(log.state(&other), Ok(LogState::NeedsRecovery));
    assert_eq!(log.state(&[0; 512]), Err(RedoError::CheckpointDamaged { lsn: Lsn(lsn) }));
    assert_eq!(blocks_log(lsn, lsn + 1).state(&clean), Ok(LogState::NeedsRecovery));
    assert_eq!(log.state(&clean[..500]), Ok(LogState::Undecided));
}

#[test]
fn a_log_of_mariadb_10_5_is_clean_if_nothing_follows_its_checkpoint() {
    let lsn = 9216 + 40_u64;
    let log = blocks_log(lsn, lsn);
    assert_eq!(log.state(&block(9216, 40, &[0x20; 28])), Ok(LogState::Clean));
    let older = block(9216, 39, &[0x20; 27]);
    assert_eq!(
        log.state(&older),
        Err(RedoError::CheckpointDamaged { lsn: Lsn(lsn) }),
        "it does not reach the checkpoint"
    );
    // The record that a server writes at startup.
    let started = blocks_log(lsn, 0);
    assert_eq!((started.checkpoint.lsn, started.checkpoint.end_lsn), (Lsn(lsn), Lsn(lsn)));
}

/// The header of `blocks_log` as bytes.
fn blocks_header() -> Vec<u8> {
    let mut header = vec![0; 2048];
    put(&mut header, 0, b"PHYS");
    put_u64(&mut header, 8, 8704);
    seal_block(&mut header, 0);
    for (start, number) in [(512, 12), (1536, 13)] {
        put_u64(&mut header, start, number);
        put_u64(&mut header, start + 8, 8716);
        put_u64(&mut header, start + 16, 2060);
        put_u64(&mut header, start + 24, 16 << 20);
        seal_block(&mut header, start);
    }
    header
}

#[test]
fn a_log_of_blocks_is_closed_by_a_slot_and_by_what_its_last_block_holds() {
    let mut header = blocks_header();
    let file = mariadb::LogFile::parse(&header, 1 << 20).expect("a header");
    for end in (9216..9216 + 508).filter(|end| end % 512 >= 12) {
        let (slot, at) = clean_slot(&header, &file, Lsn(end)).expect("a slot");
        assert_eq!(at, 512, "the newest stays");
        assert_eq!(slot[24..32], (16_u64 << 20).to_be_bytes(), "what else it says stays");
        header[at..at + 512].copy_from_slice(&slot);
        let closed = mariadb::LogFile::parse(&header, 1 << 20).expect("a header");
        assert_eq!((closed.checkpoint.lsn, closed.checkpoint.end_lsn), (Lsn(end), Lsn(end)));
        assert_eq!(closed.offset_of(Lsn(end)), file.offset_of(Lsn(end)));
        header = blocks_header();
        let whole: [u8; 512] = block(9216, 512, &[0x20; 496]).try_into().expect("a block");
        let last = last_block(&whole, Lsn(end), &header, None).expect("a block");
        let used = end as usize % 512;
        assert!(last[12..used].iter().all(|&byte| byte == 0x20) && last[used..508].iter().all(|&byte| byte == 0));
        assert_eq!(closed.state(&last), Ok(LogState::Clean), "end {end}");
        assert_eq!(last_block(&last, Lsn(end), &header, None), Some(last), "once is enough");
        // Only if the log ends with a full block may there be no block after it yet.
        let stale: [u8; 512] = block(8704, 512, &[0x20; 496]).try_into().expect("a block");
        match last_block(&stale, Lsn(end), &header, None) {
            Some(fresh) => assert_eq!((used, closed.state(&fresh)), (12, Ok(LogState::Clean))),
            None => assert_ne!(used, 12),
        }
    }
}

#[test]
fn a_log_of_blocks_starts_over_wherever_it_ends() {
    let header = blocks_header();
    for end in (9216..9216 + 508).filter(|end| end % 512 >= 12) {
        let whole: [u8; 512] = block(9216, 512, &[0x20; 496]).try_into().expect("a block");
        let new = restarted_blocks(&header, &whole, Lsn(end), None).expect("a log");
        let (used, len) = (end as usize % 512, new.len());
        assert_eq!(len, 2048 + 512);
        let file = mariadb::LogFile::parse(&new[..2048], 1 << 20).expect("a header");
        assert_eq!((file.first_lsn, file.checkpoint.lsn, file.checkpoint.end_lsn), (Lsn(9216), Lsn(end), Lsn(end)));
        assert_eq!((file.checkpoint_place(), file.state(&new[2048..])), (Some(2048), Ok(LogState::Clean)), "{end}");
        assert_eq!(file.offset_of(Lsn(end)), Some(2048 + used as u64));
        assert!(new[2048 + 12..2048 + used].iter().all(|&byte| byte == 0x20), "what was before the end stays");
        assert!(new[2048 + used..len - 4].iter().all(|&byte| byte == 0), "and nothing else");
        assert_eq!(new[512 + 24..512 + 32], (16_u64 << 20).to_be_bytes(), "as does what else the checkpoint says");
        assert!(new[1536..2048].iter().all(|&byte| byte == 0), "no checkpoint of the old log");
    }
}

#[test]
fn the_checkpoint_record_of_mariadb_10_5_may_span_two_blocks() {
    let lsn = 9216 + 500_u64;
    let record = [&hex("fa0000")[..], &lsn.to_be_bytes(), &[0]].concat();
    let log = blocks_log(lsn, lsn);
    let first = block(9216, 512, &[&[0x20; 488][..], &record[..8]].concat());
    let both = [first.clone(), block(9728, 16, &record[8..])].concat();
    assert_eq!(log.state(&both), Ok(LogState::Clean));
    assert_eq!(log.state(&first), Ok(LogState::Undecided));
}
