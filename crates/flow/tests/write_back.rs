//! Blocks on their way back on a device that loses power at any write or sync: none is ever half written once the shadow was
//! replayed, none that was acknowledged is lost, and a second run ends in the same bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use innokit_flow::queue::Operation;
use innokit_flow::queue::sim::{SimDevice, SimOptions};
use innokit_flow::write_back::{Replayed, Target, WriteBack, WriteBackError, WriteBackOptions};
use innokit_flow::{FileHandle, FileId};

const SEEDS: u64 = 200;
const BLOCK: usize = 2048;
const BLOCKS: u64 = 8;
const FILES: u32 = 3;
const SHADOW: FileId = FileId(FILES);

fn target(file: FileId) -> Target {
    Target { file, handle: FileHandle::of_engine(), name: format!("file {}", file.0).into_bytes() }
}

fn options(tag: u64) -> WriteBackOptions {
    WriteBackOptions { memory: 7 * BLOCK, depth: 4, write_max: 3 * BLOCK as u32, tag }
}

fn device(seed: u64) -> SimDevice {
    let device = SimDevice::new(SimOptions { seed, short_one_in: 5, ..SimOptions::default() });
    for _ in 0..FILES {
        device.add_file(vec![0; BLOCK * BLOCKS as usize]);
    }
    device.add_file(Vec::new());
    device
}

fn writer(device: &SimDevice, tag: u64) -> WriteBack {
    let mut writer = WriteBack::open(device, target(SHADOW), options(tag)).unwrap();
    (0..FILES).for_each(|file| writer.add_file(target(FileId(file))));
    writer
}

fn resolve(name: &[u8]) -> Option<Target> {
    (0..FILES).map(|file| target(FileId(file))).find(|target| target.name == name)
}

/// A run of three rounds, of which each writes about half of the blocks, the later ones over the earlier. `safe` becomes the last round
/// of which every block was acknowledged as written.
fn run(device: &SimDevice, seed: u64, safe: &mut u8) -> Result<(), WriteBackError> {
    let mut writer = writer(device, 1);
    writer.replay(resolve)?;
    for round in 1..=3 {
        for (file, number) in changed(seed, round) {
            writer.put(FileId(file), number * BLOCK as u64, &[round; BLOCK])?;
        }
        writer.flush()?;
        *safe = round;
    }
    writer.finish()
}

/// The blocks that a round changes.
fn changed(seed: u64, round: u8) -> Vec<(u32, u64)> {
    let all = (0..FILES).flat_map(|file| (0..BLOCKS).map(move |number| (file, number)));
    let bits = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(u32::from(round) * 13);
    all.enumerate().filter(|(place, _)| bits >> place & 1 == 1).map(|(_, block)| block).collect()
}

/// The rounds that may have written a block, given that all up to `safe` have.
fn versions(seed: u64, file: u32, number: u64, safe: u8) -> Vec<u8> {
    let writes = |round: u8| changed(seed, round).contains(&(file, number));
    let last = (1..=safe).rev().find(|round| writes(*round)).unwrap_or(0);
    std::iter::once(last).chain((safe + 1..=3).filter(|round| writes(*round))).collect()
}

fn assert_whole(device: &SimDevice, seed: u64, safe: u8, context: &str) {
    for file in 0..FILES {
        for (number, block) in (0..).zip(device.contents(FileId(file)).chunks(BLOCK)) {
            let (version, allowed) = (block[0], versions(seed, file, number, safe));
            assert!(block.iter().all(|byte| *byte == version), "{context}: block {number} of file {file} is torn");
            assert!(allowed.contains(&version), "{context}: block {number} of file {file}: {version}, not {allowed:?}");
        }
    }
}

#[test]
fn no_crash_leaves_a_block_half_written_or_loses_one() {
    let (mut torn, mut replayed, mut crashes) = (0, 0, 0);
    for seed in 0..SEEDS {
        let undisturbed = device(seed);
        run(&undisturbed, seed, &mut 0).unwrap();
        let expected: Vec<_> = (0..FILES).map(|file| undisturbed.contents(FileId(file))).collect();
        for crash in 1..=undisturbed.operations() {
            let (before, mut safe) = (device(seed), 0);
            before.crash_at(crash);
            run(&before, seed, &mut safe).unwrap_err();
            let left = before.reopen(seed ^ crash << 8);
            let is_torn = |block: &[u8]| block.iter().any(|byte| *byte != block[0]);
            torn += (0..FILES).filter(|file| left.contents(FileId(*file)).chunks(BLOCK).any(is_torn)).count();
            let context = format!("seed {seed}, crash {crash}");
            let mut again = writer(&left, 1);
            replayed += usize::from(matches!(again.replay(resolve).unwrap(), Replayed::Blocks(_)));
            drop(again);
            assert_whole(&left, seed, safe, &context);
            run(&left, seed, &mut 0).unwrap();
            let found: Vec<_> = (0..FILES).map(|file| left.contents(FileId(file))).collect();
            assert!(found == expected, "{context}: the second run ends in other bytes");
            crashes += 1;
        }
    }
    assert!(crashes > 500 && torn > 100 && replayed > 100, "{crashes} crashes, {torn} torn files, {replayed} replays");
}

#[test]
fn a_replay_that_is_itself_cut_off_is_done_again() {
    for seed in 0..SEEDS {
        let first = device(seed);
        run(&first, seed, &mut 0).unwrap();
        let middle = first.operations() / 2;
        let (before, mut safe) = (device(seed), 0);
        before.crash_at(middle);
        run(&before, seed, &mut safe).unwrap_err();
        let mut left = before.reopen(seed);
        for crash in 1..=8 {
            left.crash_at(crash);
            // It may be done before the crash comes.
            drop(writer(&left, 1).replay(resolve));
            left = left.reopen(seed + crash);
        }
        writer(&left, 1).replay(resolve).unwrap();
        assert_whole(&left, seed, safe, &format!("seed {seed}"));
    }
}

/// A device whose shadow was left whole by a crash.
fn interrupted() -> SimDevice {
    let device = device(9);
    device.fail(Operation::Write, FileId(0), 0..u64::MAX);
    let mut writer = writer(&device, 1);
    writer.put(FileId(0), 0, &[7; BLOCK]).unwrap();
    writer.put(FileId(1), BLOCK as u64, &[8; BLOCK]).unwrap();
    writer.flush().unwrap_err();
    device.heal();
    device
}

#[test]
fn the_shadow_of_another_run_is_left_alone() {
    let device = interrupted();
    let before = device.contents(FileId(0));
    assert_eq!(writer(&device, 2).replay(resolve).unwrap(), Replayed::Foreign(1));
    assert!(device.contents(FileId(0)) == before);
    assert_eq!(writer(&device, 1).replay(resolve).unwrap(), Replayed::Blocks(2));
    assert!(device.contents(FileId(0))[..BLOCK] == [7; BLOCK]);
    assert_eq!(writer(&device, 1).replay(resolve).unwrap(), Replayed::Nothing);
}

#[test]
fn blocks_of_a_file_that_is_gone_are_passed_over() {
    let device = interrupted();
    let only_second = |name: &[u8]| resolve(name).filter(|target| target.file == FileId(1));
    assert_eq!(writer(&device, 1).replay(only_second).unwrap(), Replayed::Blocks(1));
    assert!(device.contents(FileId(1))[BLOCK..2 * BLOCK] == [8; BLOCK]);
}

#[test]
fn a_damaged_shadow_is_not_replayed() {
    let device = interrupted();
    device.rot(SHADOW, 4096 + 3 * 16 + 100, 1);
    assert_eq!(writer(&device, 1).replay(resolve).unwrap(), Replayed::Nothing);
}

#[test]
fn after_a_failure_nothing_more_is_written() {
    for fails in [Operation::Write, Operation::Sync] {
        for file in [SHADOW, FileId(1)] {
            let device = device(3);
            device.fail(fails, file, 0..u64::MAX);
            let mut writer = writer(&device, 1);
            writer.put(FileId(1), 0, &[1; BLOCK]).unwrap();
            assert!(matches!(writer.flush(), Err(WriteBackError::Io { .. })), "{fails:?} {file:?}");
            device.heal();
            let (operations, before) = (device.operations(), device.contents(FileId(1)));
            assert!(matches!(writer.flush(), Err(WriteBackError::Latched)));
            assert!(matches!(writer.replay(resolve), Err(WriteBackError::Latched)));
            writer.put(FileId(1), BLOCK as u64, &[1; BLOCK]).unwrap();
            assert!(matches!(writer.finish(), Err(WriteBackError::Latched)));
            assert_eq!((device.operations(), device.contents(FileId(1)) == before), (operations, true));
            assert!(file != SHADOW || before == vec![0; BLOCK * BLOCKS as usize], "no shadow, no block");
        }
    }
}

#[test]
fn neighbours_go_in_one_write_and_each_file_is_synced_once() {
    let device = SimDevice::new(SimOptions::default());
    (0..=FILES).for_each(|_| assert!(device.add_file(Vec::new()) <= SHADOW));
    let mut writer = writer(&device, 1);
    for number in [2, 0, 1, 5] {
        writer.put(FileId(0), number * BLOCK as u64, &[1; BLOCK]).unwrap();
    }
    writer.put(FileId(2), 0, &[2; BLOCK]).unwrap();
    writer.put(FileId(2), 0, &[3; BLOCK]).unwrap();
    assert_eq!(writer.get(FileId(2), 0).map(|bytes| bytes[0]), Some(3));
    writer.finish().unwrap();
    let counts = device.counts();
    // The shadow: header, directory, two runs of blocks, and its end; then two runs and a block in place.
    assert_eq!((counts.writes, counts.syncs), (4 + 3 + 1, 1 + 2 + 1));
    assert!(device.contents(FileId(2)) == [3; BLOCK]);
}
