//! Mini-transactions read from logs of every framing, whole and in pieces, plain and encrypted.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

extern crate format as innokit_format; // what the shared helpers of tests call it

#[path = "../../format/tests/common/mod.rs"]
mod common;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit, KeyIvInit, StreamCipher};
use common::{hex, put};
use format::checksum::crc32c;
use innokit_format::keyring::{KeyStore, Secret};
use innokit_format::{Lsn, SpaceId};
use innokit_redo::checkpoint::{closing, restarted};
use innokit_redo::close_blocks::{clean_slot, last_block, restarted_blocks};
use innokit_redo::log_key::{LogKey, LogKeyError};
use innokit_redo::mariadb::LogFile;
use innokit_redo::mtr_reader::MtrReader;
use innokit_redo::plain_block::plain_block;
use innokit_redo::record::{FileRecord, RedoRecord};
use innokit_redo::rewind::first_mtr;
use innokit_redo::verify_blocks::{BlockDamage, BlockEnd, BlockSummary, Misfit};
use innokit_redo::verify_mariadb::{self, Verifier};
use innokit_redo::{LogState, RedoError};

const MASTER_KEY: &str = "00112233445566778899aabbccddeeff";
const MESSAGE: &str = "0377d869dbcff82b88640164d6743b69";
const FIRST_LSN: u64 = 12_288;

/// Records of different lengths, some longer than a block.
fn mtrs() -> Vec<Vec<u8>> {
    (0..60_usize)
        .map(|number| {
            let data = vec![number as u8; number * number % 700 + 1];
            // A length of two bytes, which counts itself and begins at 128 + 15.
            let rest = 2 + 2 + 2 + data.len();
            let padding = 143_usize.saturating_sub(rest);
            let length = 0x8000 + (rest + padding) as u16 - 143;
            let head = [0x30].into_iter().chain(length.to_be_bytes()).chain([1, 5, 0x80, number as u8]);
            head.chain(data).chain(vec![0xEE; padding]).collect()
        })
        .collect()
}

fn seal(bytes: &mut [u8], start: usize, at: usize) {
    let sum = crc32c(&bytes[start..start + at]);
    put(bytes, start + at, &sum.to_be_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_be_bytes());
}

fn read(file: &LogFile, key: Option<LogKey>, from: Lsn, bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, Vec<u64>, bool) {
    let mut reader = MtrReader::new(file, key, from);
    let (mut found, mut ends) = (Vec::new(), Vec::new());
    for mut input in bytes.chunks(piece) {
        while let Some(mtr) = reader.next_mtr(&mut input) {
            assert!(mtr.start < mtr.end);
            found.push(mtr.bytes.to_vec());
            ends.push(mtr.end.0);
        }
    }
    (found, ends, reader.has_ended())
}

/// A log of 10.8 or later whose ring has wrapped once.
fn stream(mtrs: &[Vec<u8>]) -> (Vec<u8>, LogFile) {
    const CAPACITY: usize = 32_768;
    let mut bytes = vec![0; 12_288 + CAPACITY];
    put(&mut bytes, 0, b"Phys");
    put_u64(&mut bytes, 8, FIRST_LSN);
    seal(&mut bytes, 0, 508);
    let start = FIRST_LSN + CAPACITY as u64 - 1000;
    put_u64(&mut bytes, 4096, start);
    put_u64(&mut bytes, 4104, start);
    seal(&mut bytes, 4096, 60);
    let mut at = (start - FIRST_LSN) as usize;
    for records in mtrs {
        let marker = u8::from(((at + records.len()) / CAPACITY).is_multiple_of(2));
        for byte in records.iter().chain(&[marker]).chain(&crc32c(records).to_be_bytes()) {
            bytes[12_288 + at % CAPACITY] = *byte;
            at += 1;
        }
    }
    let file = LogFile::parse(&bytes, bytes.len() as u64).expect("a log");
    (bytes, file)
}

#[test]
fn a_stream_is_read_around_the_ring_however_it_is_cut() {
    let mtrs = mtrs();
    let (bytes, file) = stream(&mtrs);
    let place = MtrReader::place(&file, file.checkpoint.lsn).expect("within") as usize;
    let ring = [&bytes[place..], &bytes[12_288..place]].concat();
    let whole = read(&file, None, file.checkpoint.lsn, &ring, ring.len());
    assert!(whole.0 == mtrs, "every mini-transaction, as it was");
    assert_eq!(whole.1[0], file.checkpoint.lsn.0 + mtrs[0].len() as u64 + 5);
    for piece in [1, 7, 500, 4096] {
        assert!(read(&file, None, file.checkpoint.lsn, &ring, piece) == whole, "pieces of {piece}");
    }
    let mut flipped = ring;
    let middle = (whole.1[29] - file.checkpoint.lsn.0) as usize + 3;
    flipped[middle] ^= 1;
    let (found, _, ended) = read(&file, None, file.checkpoint.lsn, &flipped, 1000);
    assert_eq!((found.len(), ended), (30, true), "nothing is read behind a mini-transaction that is not whole");
}

const BLOCK_START: u64 = 8704;

/// A log of 10.5: each mini-transaction ends with a zero byte, in blocks of 512 bytes, encrypted with `key` if given.
fn blocks(mtrs: &[Vec<u8>], key: Option<&[u8; 16]>) -> (Vec<u8>, LogFile) {
    let trailer = if key.is_some() { 8 } else { 4 };
    let payload: Vec<u8> = mtrs.iter().flat_map(|records| records.iter().copied().chain([0])).collect();
    let mut bytes = vec![0; 2048];
    put(&mut bytes, 0, if key.is_some() { b"\xD0HYS" } else { b"PHYS" });
    put_u64(&mut bytes, 8, BLOCK_START);
    seal(&mut bytes, 0, 508);
    for (at, lsn) in [(8, BLOCK_START + 12), (16, 2060), (496, BLOCK_START + 12)] {
        put_u64(&mut bytes, 512 + at, lsn);
    }
    put(&mut bytes, 512 + 32, &[0, 0, 0, 1, 0xA, 0xB, 0xC, 0xD]);
    put(&mut bytes, 512 + 40, &hex(MESSAGE));
    seal(&mut bytes, 512, 508);
    for (number, part) in payload.chunks(500 - trailer).enumerate() {
        let lsn = BLOCK_START + 512 * number as u64;
        let mut block = [0; 512];
        put(&mut block, 0, &((lsn / 512) as u32 + 1).to_be_bytes());
        let used = if part.len() == 500 - trailer { 512 } else { 12 + part.len() as u16 };
        put(&mut block, 4, &used.to_be_bytes());
        put(&mut block, 12, part);
        if let Some(key) = key {
            let mut iv = block[..4].to_vec();
            iv.extend([0xA, 0xB, 0xC, 0xD]);
            iv.extend(lsn.to_be_bytes());
            let iv: [u8; 16] = iv.try_into().expect("16 bytes");
            ctr::Ctr128BE::<Aes128>::new(key.into(), &iv.into()).apply_keystream(&mut block[4..504]);
            put(&mut block, 504, &[0, 0, 0, 1]);
        }
        seal(&mut block, 0, 508);
        bytes.extend(block);
    }
    bytes.extend([0; 1024]);
    let file = LogFile::parse(&bytes, bytes.len() as u64).expect("a log");
    (bytes, file)
}

#[test]
fn blocks_are_read_however_they_are_cut() {
    let mtrs = mtrs();
    let (bytes, file) = blocks(&mtrs, None);
    let from = file.checkpoint.lsn;
    assert_eq!(MtrReader::place(&file, from), Some(2048));
    let whole = read(&file, None, from, &bytes[2048..], bytes.len());
    assert!(whole.0 == mtrs, "every mini-transaction, as it was");
    let payload = mtrs.iter().map(|records| records.len() + 1).sum::<usize>() as u64;
    let end = BLOCK_START + payload / 496 * 512 + 12 + payload % 496;
    assert_eq!(whole.1.last(), Some(&end), "LSNs count the blocks' headers and trailers");
    for piece in [1, 511, 513] {
        assert!(read(&file, None, from, &bytes[2048..], piece) == whole, "pieces of {piece}");
    }
}

#[test]
fn what_lies_before_a_place_in_the_log_is_found_again() {
    let mtrs = mtrs();
    let (bytes, file) = stream(&mtrs);
    let place = MtrReader::place(&file, file.checkpoint.lsn).expect("within") as usize;
    let ring = [&bytes[place..], &bytes[12_288..place]].concat();
    let (_, ends, _) = read(&file, None, file.checkpoint.lsn, &ring, ring.len());
    // From any byte: the next start of a mini-transaction, also across the ring's end.
    for at in [1, 2, 777, 1500, ends[30] - file.checkpoint.lsn.0, ends[30] - file.checkpoint.lsn.0 + 1] {
        let from = Lsn(file.checkpoint.lsn.0 + at);
        let first = first_mtr(&file, from, &ring[at as usize..]).expect("a beginning");
        assert!(first > from && ends.contains(&first.0), "{first} from {from}");
    }
    assert_eq!(first_mtr(&file, file.first_lsn, &[]), Some(file.first_lsn), "where the log began");
    assert_eq!(first_mtr(&file, Lsn(file.checkpoint.lsn.0 + 1), &[0; 4096]), None, "nothing was written there");

    let (bytes, file) = blocks(&mtrs, None);
    let (_, ends, _) = read(&file, None, file.checkpoint.lsn, &bytes[2048..], bytes.len());
    let from = file.checkpoint.lsn.0 - 12 + 512;
    let mut bytes = bytes[2048 + 512..].to_vec();
    // The first block in which one begins gives its offset.
    let first = ends.iter().copied().find(|end| *end / 512 == from / 512 + 2).expect("one ends in the block");
    put(&mut bytes, 1024 + 6, &((first % 512) as u16).to_be_bytes());
    seal(&mut bytes, 1024, 508);
    assert_eq!(first_mtr(&file, Lsn(from), &bytes), Some(Lsn(first)));
    let earlier = blocks_that_went_on(&mtrs);
    assert_eq!(
        earlier.offset_of(Lsn(earlier.checkpoint.lsn.0 - 512)),
        earlier.offset_of(earlier.checkpoint.lsn).map(|at| at - 512)
    );
    assert_eq!(earlier.offset_of(Lsn(BLOCK_START - 1)), None, "the file began later");
}

/// The same log with a checkpoint further on.
fn blocks_that_went_on(mtrs: &[Vec<u8>]) -> LogFile {
    let (mut bytes, _) = blocks(mtrs, None);
    for (at, lsn) in [(0, 1), (8, BLOCK_START + 1024 + 12), (16, 2048 + 1024 + 12), (496, BLOCK_START + 1024 + 12)] {
        put_u64(&mut bytes, 1536 + at, lsn);
    }
    seal(&mut bytes, 1536, 508);
    LogFile::parse(&bytes, bytes.len() as u64).expect("a log")
}

fn keys(key: &str) -> KeyStore {
    let mut keys = KeyStore::new();
    keys.insert_numbered(1, 1, Secret::new(hex(key)));
    keys
}

/// An encrypted log of 10.5, and what is in it.
fn encrypted_blocks() -> (Vec<u8>, LogFile, Vec<Vec<u8>>) {
    let mut log_key: [u8; 16] = hex(MESSAGE).try_into().expect("16 bytes");
    let master: [u8; 16] = hex(MASTER_KEY).try_into().expect("16 bytes");
    Aes128::new((&master).into()).encrypt_block((&mut log_key).into());
    let mut mtrs = mtrs();
    mtrs.insert(0, [vec![0xFA, 0, 0], (BLOCK_START + 12).to_be_bytes().to_vec()].concat());
    let (bytes, file) = blocks(&mtrs, Some(&log_key));
    (bytes, file, mtrs)
}

#[test]
fn encrypted_blocks_are_opened_in_the_mode_that_the_checkpoint_proves() {
    let (bytes, file, mtrs) = encrypted_blocks();
    let key = LogKey::unlock(&file, &bytes[..2048], &keys(MASTER_KEY), &bytes[2048..]).expect("fits");
    assert!(key.is_some());
    assert!(read(&file, key, file.checkpoint.lsn, &bytes[2048..], 100).0 == mtrs, "every mini-transaction");
    let wrong = LogKey::unlock(&file, &bytes[..2048], &keys(MESSAGE), &bytes[2048..]);
    assert_eq!(wrong.expect_err("another key"), LogKeyError::WrongKey { version: 1 });
}

#[test]
fn an_encrypted_log_of_blocks_is_closed_wherever_it_ends_and_opens_with_its_key() {
    let (mut bytes, file, _) = encrypted_blocks();
    let right = keys(MASTER_KEY);
    let key = LogKey::unlock(&file, &bytes[..2048], &right, &bytes[2048..]).expect("fits").expect("is encrypted");
    let start = BLOCK_START + 3 * 512;
    let whole: [u8; 512] = bytes[2048 + 3 * 512..][..512].try_into().expect("a block");
    assert_eq!(last_block(&whole, Lsn(start + 100), &bytes, None), None, "not without its key");
    for end in start + 12..start + 504 {
        let last = last_block(&whole, Lsn(end), &bytes, Some(&key)).expect("a block");
        assert_eq!(last_block(&last, Lsn(end), &bytes, Some(&key)), Some(last), "once is enough");
        assert_eq!(last[504..508], [0, 0, 0, 1], "the version of the key");
        let used = (end - start) as usize;
        let opened = [whole, last].map(|block| plain_block(&block, Lsn(end), Some(&key)).expect("sound"));
        assert_eq!(opened[0][12..used], opened[1][12..used], "what was before the end stays");
        assert!(opened[1][used..504].iter().all(|&byte| byte == 0) && last[used..504] != opened[1][used..504]);
        let (slot, at) = clean_slot(&bytes, &file, Lsn(end)).expect("a slot");
        let mut closed = bytes.clone();
        closed[at..at + 512].copy_from_slice(&slot);
        let parsed = LogFile::parse(&closed[..2048], closed.len() as u64).expect("a log");
        let key = LogKey::unlock(&parsed, &closed[..2048], &right, &last).expect("fits");
        assert!(key.as_ref().is_some_and(|key| key.mode().is_some()), "the head of the block proves it");
        assert_eq!(parsed.state_with(&last, key.as_ref()), Ok(LogState::Clean), "end {end}");
        assert_eq!(parsed.state(&last), Ok(LogState::NeedsRecovery), "how long the block is takes the key");
        assert_ne!(parsed.state_with(&whole, key.as_ref()), Ok(LogState::Clean), "the log goes on");
        let wrong = LogKey::unlock(&parsed, &closed[..2048], &keys(MESSAGE), &last);
        assert_eq!(wrong.expect_err("another key"), LogKeyError::WrongKey { version: 1 });
    }
    // If the log ends with a full block, there is no block after it yet.
    let fresh = last_block(&[0; 512], Lsn(start + 12), &bytes, Some(&key)).expect("a block");
    let opened = plain_block(&fresh, Lsn(start), Some(&key)).expect("sound");
    assert_eq!(opened[4..8], [0, 12, 0, 12], "with room for nothing but its head");
    assert_eq!(last_block(&[0; 512], Lsn(start + 13), &bytes, Some(&key)), None);
    bytes[2048 + 100] ^= 1;
    assert!(matches!(file.state(&bytes[2048..]), Err(RedoError::CheckpointDamaged { .. })));
}

#[test]
fn an_encrypted_log_of_blocks_starts_over_wherever_it_ends_with_a_key_of_its_own() {
    let (bytes, file, mtrs) = encrypted_blocks();
    let (right, size) = (keys(MASTER_KEY), bytes.len() as u64);
    let old = LogKey::unlock(&file, &bytes[..2048], &right, &bytes[2048..]).expect("fits").expect("is encrypted");
    let (_, ends, _) = read(&file, Some(old.clone()), file.checkpoint.lsn, &bytes[2048..], 4096);
    assert_eq!(ends.len(), mtrs.len());
    for end in ends {
        let renewed = old.renewed(&right, Lsn(end)).expect("a key");
        let place = MtrReader::place(&file, Lsn(end)).expect("within") as usize;
        let found = bytes[place..place + 512].try_into().expect("a block");
        let keys = Some((&old, &renewed));
        let new = restarted_blocks(&bytes[..2048], &found, Lsn(end), keys).expect("a log");
        assert_eq!((new.len(), &new[..4]), (2048 + 512, &b"\xD0HYS"[..]));
        assert!(!new.windows(16).any(|window| window == hex(MESSAGE)), "the message is another");
        let parsed = LogFile::parse(&new[..2048], size).expect("a log");
        assert_eq!((parsed.checkpoint.lsn, parsed.checkpoint.end_lsn), (Lsn(end), Lsn(end)));
        assert_eq!(parsed.checkpoint_place(), Some(2048));
        let key = LogKey::unlock(&parsed, &new[..2048], &right, &new[2048..]).expect("fits");
        assert_eq!(parsed.state_with(&new[2048..], key.as_ref()), Ok(LogState::Clean), "end {end}");
        let before = plain_block(&found, Lsn(end), Some(&old)).expect("sound");
        let after = plain_block(new[2048..].first_chunk().expect("a block"), Lsn(end), key.as_ref()).expect("sound");
        let used = (end % 512) as usize;
        assert_eq!((&before[12..used], usize::from(after[5])), (&after[12..used], used & 0xFF));
        assert_ne!(found[12..504], new[2048 + 12..2048 + 504], "nor is the ciphertext what it was");
    }
    let none = old.renewed(&KeyStore::new(), Lsn(9000)).expect_err("no key");
    assert_eq!(none, LogKeyError::NoKey { version: 1 });
}

#[test]
fn an_encrypted_stream_starts_over_with_a_key_of_its_own() {
    let end = Lsn(FIRST_LSN + 1000);
    let (bytes, file) = closed(b"\xF0\x9F\x97\x9D", &[], end.0);
    let place = MtrReader::place(&file, end).expect("within") as usize;
    let right = keys(MASTER_KEY);
    let old = LogKey::unlock(&file, &bytes, &right, &bytes[place..]).expect("fits").expect("is encrypted");
    let renewed = old.renewed(&right, end).expect("a key");
    let new = restarted(&bytes, end, Some(&renewed)).expect("a header");
    let parsed = LogFile::parse(&new, bytes.len() as u64).expect("a log");
    let payload = closing(&parsed, Some(&renewed), end, []).expect("closes");
    let key = LogKey::unlock(&parsed, &new, &right, &payload).expect("fits");
    let (mtrs, ..) = read(&parsed, key, end, &payload, 700);
    assert_eq!(mtrs, [[&[0xFA, 0, 0], end.0.to_be_bytes().as_slice()].concat()]);
    assert_eq!(parsed.state(&payload), Ok(LogState::Clean));
    assert_ne!(payload, bytes[place..place + payload.len()], "the same record with the same nonce");
    let kept = restarted(&bytes, end, None).expect("a header");
    assert!(LogKey::unlock(&parsed, &kept, &right, &payload).is_err(), "which the old message does not open");
}

/// All damage in an encrypted log, and the log's end.
fn verified(bytes: &[u8], file: &LogFile, key: Option<&LogKey>) -> (Vec<BlockDamage>, BlockSummary) {
    let plan = verify_mariadb::plan(file).expect("a plan");
    let Verifier::Blocks(verifier) = plan.verifier else { panic!("blocks") };
    let mut verifier = verifier.with_log_key(key.cloned());
    let mut damage = Vec::new();
    let mut rest = &bytes[2048..];
    while let Some(found) = verifier.next_damage(&mut rest) {
        damage.push(found);
    }
    let (left, summary) = verifier.finish();
    damage.extend(left);
    (damage, summary)
}

#[test]
fn encrypted_blocks_are_verified_without_the_key_and_with_it_their_lengths_too() {
    let (bytes, file, mtrs) = encrypted_blocks();
    let key = LogKey::unlock(&file, &bytes[..2048], &keys(MASTER_KEY), &bytes[2048..]).expect("fits");
    let payload = mtrs.iter().map(|records| records.len() + 1).sum::<usize>() as u64;
    let blocks = payload.div_ceil(492);
    let (damage, summary) = verified(&bytes, &file, None);
    assert_eq!((damage, summary.ok, summary.end), (vec![], blocks, Lsn(BLOCK_START + blocks * 512)));
    let (damage, summary) = verified(&bytes, &file, key.as_ref());
    let end = BLOCK_START + payload / 492 * 512 + 12 + payload % 492;
    assert_eq!((damage, summary.ok, summary.end), (vec![], blocks, Lsn(end)));
    assert_eq!(summary.ends, BlockEnd::InBlock);
    // A flipped bit is damage, with or without the key.
    let mut flipped = bytes.clone();
    flipped[2048 + 4 * 512 + 77] ^= 4;
    for key in [None, key.as_ref()] {
        let (damage, _) = verified(&flipped, &file, key);
        assert!(matches!(damage[..], [BlockDamage { misfit: Misfit::Checksum { .. }, is_needed: true, .. }]));
    }
    // An older version of a block is intact. Only the key shows that the log continues after it.
    let mut old = bytes.clone();
    let place = 2048 + 4 * 512;
    let whole = bytes[place..place + 512].try_into().expect("a block");
    let cut = last_block(&whole, Lsn(BLOCK_START + 4 * 512 + 50), &bytes, key.as_ref()).expect("a block");
    old[place..place + 512].copy_from_slice(&cut);
    assert_eq!(verified(&old, &file, None).0, []);
    let (damage, _) = verified(&old, &file, key.as_ref());
    assert!(matches!(damage[..], [BlockDamage { misfit: Misfit::OldVersion { len: 50 }, .. }]), "{damage:?}");
}

#[test]
fn a_block_that_another_version_of_the_key_encrypts_is_not_where_the_log_ends() {
    let (mut bytes, file, mtrs) = encrypted_blocks();
    let key = LogKey::unlock(&file, &bytes[..2048], &keys(MASTER_KEY), &bytes[2048..]).expect("fits");
    let blocks = mtrs.iter().map(|records| records.len() + 1).sum::<usize>().div_ceil(492);
    // From some block to the end.
    for number in 20..blocks {
        put(&mut bytes, 2048 + number * 512 + 504, &[0, 0, 0, 2]);
        seal(&mut bytes, 2048 + number * 512, 508);
    }
    let (damage, _) = verified(&bytes, &file, key.as_ref());
    let misfit = Misfit::OtherKey { found: 2, expected: 1 };
    let first = BlockDamage { lsn: Lsn(BLOCK_START + 20 * 512), blocks: 1, misfit, is_needed: true };
    assert_eq!((damage.len(), damage[0]), (blocks - 20, first));
    assert_eq!(verified(&bytes, &file, None).0, [], "which makes no difference to checksums");
}

#[test]
fn an_encrypted_mini_transaction_of_a_real_server_is_opened() {
    let mut bytes = vec![0; 12_288];
    put(&mut bytes, 0, &hex("f09f979d"));
    put_u64(&mut bytes, 8, FIRST_LSN);
    put(&mut bytes, 48, &[0, 0, 0, 1, 0, 0, 0, 1]);
    put(&mut bytes, 56, &hex(MESSAGE));
    seal(&mut bytes, 0, 508);
    put_u64(&mut bytes, 4096, FIRST_LSN);
    put_u64(&mut bytes, 4104, FIRST_LSN);
    seal(&mut bytes, 4096, 60);
    bytes.extend(hex("fa379671b02137021ea71301000000000000300041c31e0000"));
    let file = LogFile::parse(&bytes, 1 << 20).expect("a log");
    let payload = &bytes[12_288..];
    let key = LogKey::unlock(&file, &bytes, &keys(MASTER_KEY), payload).expect("fits");
    assert_eq!(key.as_ref().map(LogKey::mode), Some(None), "so few bytes are the same in both modes");
    assert!(!format!("{key:?}").contains("e7"), "the key is not shown");
    let mut reader = MtrReader::new(&file, key, file.checkpoint.lsn);
    let mtr = reader.next_mtr(&mut &payload[..]).expect("a mini-transaction");
    assert_eq!(mtr.bytes, hex("fa00000000000000003000"));
    let checkpoint = RedoRecord::File(FileRecord::Checkpoint(Lsn(FIRST_LSN)));
    assert_eq!(mtr.records().collect::<Vec<_>>(), [Ok(checkpoint)]);
    // A log that ends where it begins is closed with the same mini-transaction.
    let key = LogKey::unlock(&file, &bytes, &keys(MASTER_KEY), payload).expect("fits");
    assert_eq!(closing(&file, key.as_ref(), Lsn(FIRST_LSN), []).expect("closes"), payload);
    assert_eq!(closing(&file, None, Lsn(FIRST_LSN), []), None, "not without its key");
    let unlock = |keys: &KeyStore| LogKey::unlock(&file, &bytes, keys, payload).expect_err("no key");
    assert_eq!(unlock(&KeyStore::new()), LogKeyError::NoKey { version: 1 });
    assert_eq!(unlock(&keys(MESSAGE)), LogKeyError::WrongKey { version: 1 });
    assert_eq!(unlock(&keys("00")), LogKeyError::KeyLength { len: 1 });
}

/// A log in either encrypted format, with a checkpoint record written by `closing`.
fn closed(magic: &[u8; 4], named: &[(SpaceId, &[u8])], end: u64) -> (Vec<u8>, LogFile) {
    const CAPACITY: usize = 4096;
    let mut bytes = vec![0; 12_288 + CAPACITY];
    put(&mut bytes, 0, magic);
    put_u64(&mut bytes, 8, FIRST_LSN);
    put(&mut bytes, 48, &[0, 0, 0, 1, 0, 0, 0, 1]);
    put(&mut bytes, 56, &hex(MESSAGE));
    seal(&mut bytes, 0, 508);
    put_u64(&mut bytes, 4096, end);
    put_u64(&mut bytes, 4104, end);
    seal(&mut bytes, 4096, 60);
    let file = LogFile::parse(&bytes, bytes.len() as u64).expect("a log");
    // Every log that opens with the key yields the key, which is the same for all.
    let mut other = bytes[..12_288].to_vec();
    put(&mut other, 0, &hex("f09f979d"));
    put_u64(&mut other, 4096, FIRST_LSN);
    put_u64(&mut other, 4104, FIRST_LSN);
    seal(&mut other, 0, 508);
    seal(&mut other, 4096, 60);
    other.extend(hex("fa379671b02137021ea71301000000000000300041c31e0000"));
    let of_server = LogFile::parse(&other, 1 << 20).expect("a log");
    let key = LogKey::unlock(&of_server, &other, &keys(MASTER_KEY), &other[12_288..]).expect("fits");
    let closing = closing(&file, key.as_ref(), Lsn(end), named.iter().copied()).expect("closes");
    for (at, byte) in ((end - FIRST_LSN) as usize..).zip(closing) {
        bytes[12_288 + at % CAPACITY] = byte;
    }
    (bytes, file)
}

#[test]
fn an_encrypted_log_that_was_closed_is_read_with_its_key_wherever_it_ends() {
    let name = b"./shop/#sql-ib48.ibd";
    // In the early format the u32 at 48 in the header says so, and file records are not encrypted.
    for magic in [*b"\xF0\x9F\x97\x9D", *b"Phys"] {
        for end in (FIRST_LSN + 4000..FIRST_LSN + 9000).step_by(37) {
            let (bytes, file) = closed(&magic, &[(SpaceId(34), name)], end);
            let place = MtrReader::place(&file, Lsn(end)).expect("within") as usize;
            let ring = [&bytes[place..], &bytes[12_288..place]].concat();
            let key = LogKey::unlock(&file, &bytes, &keys(MASTER_KEY), &ring).expect("fits");
            assert!(key.is_some());
            let (mtrs, _, ended) = read(&file, key, Lsn(end), &ring, 700);
            assert!(ended, "{end}");
            let [modify, checkpoint] = mtrs.as_slice() else { panic!("{end}: {mtrs:?}") };
            assert!(modify.ends_with(name), "{end}: {modify:?}");
            assert_eq!(checkpoint[..], [&[0xFA, 0, 0], end.to_be_bytes().as_slice()].concat());
            let is_plain = ring.windows(name.len()).any(|window| window == name);
            assert_eq!(is_plain, magic == *b"Phys", "what is encrypted cannot be read without the key");
        }
    }
}
