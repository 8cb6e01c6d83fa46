//! Rewrites blocks on a device that loses power at any write or sync: after replay of the shadow no block is torn, and a second run gives
//! the same bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::collections::BTreeMap;

use innokit_flow::queue::Operation;
use innokit_flow::queue::sim::{SimDevice, SimOptions};
use innokit_flow::rewrite::{
    Change, Changes, Prefetch, Replayed, RewriteError, RewriteOptions, RewriteTarget, Rewriter, RunError, Safety,
    Stretch, replay,
};
use innokit_flow::{FileHandle, FileId};

const SEEDS: u64 = 60;
const BLOCK: usize = 2048;
const BLOCKS: u64 = 8;
const FILES: u32 = 3;
const ROUNDS: u8 = 3;
const SHADOW: FileId = FileId(FILES);

fn target(file: FileId) -> RewriteTarget {
    RewriteTarget { file, handle: FileHandle::of_engine(), name: format!("file {}", file.0).into_bytes() }
}

/// A few blocks at a time, and a shadow that fills quickly.
fn options(tag: u64) -> RewriteOptions {
    let stretch_max = 4 * BLOCK as u32;
    RewriteOptions { memory: 4 * 4 * BLOCK, stretch_max, depth: 5, workers: 0, overlap: true, shadow_max: 16384, tag }
}

fn device(seed: u64) -> SimDevice {
    let device = SimDevice::new(SimOptions { seed, short_one_in: 5, ..SimOptions::default() });
    for _ in 0..FILES {
        device.add_file(
            (0..BLOCK * BLOCKS as usize).map(|at| (at % 251) as u8 & !3).map(|b| if b == 0 { 4 } else { b }).collect(),
        );
    }
    (0..FILES).for_each(|file| (0..BLOCKS).for_each(|number| unversioned(&device, file, number)));
    device.add_file(Vec::new());
    device
}

/// A block's first byte is the last round that changed it. Sets it to "none".
fn unversioned(device: &SimDevice, file: u32, number: u64) {
    device.write_at(FileId(file), number * BLOCK as u64, &[0]).unwrap();
    device.sync(FileId(file)).unwrap();
}

fn resolve(name: &[u8]) -> Option<RewriteTarget> {
    (0..FILES).map(|file| target(FileId(file))).find(|target| target.name == name)
}

/// The second round initialises every fifth block, which belongs to nothing before that.
fn is_made(file: u32, number: u64) -> bool {
    (u64::from(file) + number).is_multiple_of(5)
}

/// The blocks that a round changes, about half of all.
fn changed(seed: u64, round: u8) -> Vec<(u32, u64)> {
    let all = (0..FILES).flat_map(|file| (0..BLOCKS).map(move |number| (file, number)));
    let bits = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(u32::from(round) * 13);
    let of_round = |&(place, (file, number)): &(usize, (u32, u64))| match (is_made(file, number), round) {
        (true, 1) => false,
        (true, 2) => true,
        _ => bits >> place & 1 == 1,
    };
    all.enumerate().filter(of_round).map(|(_, block)| block).collect()
}

/// A round's change to a block. Like redo, it is idempotent.
fn apply(block: &mut [u8], round: u8) {
    if block[0] < round {
        let step = 40 + 31 * usize::from(round);
        block.iter_mut().skip(step).step_by(step).for_each(|byte| *byte = round);
        (block[0], block[BLOCK - 1]) = (round, round);
    }
}

struct Round {
    number: u8,
    blocks: Vec<(u32, u64)>,
}

impl Round {
    fn stretches(&self) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for &(file, number) in &self.blocks {
            let (offset, file, is_read) =
                (number * BLOCK as u64, FileId(file), self.number != 2 || !is_made(file, number));
            match stretches.last_mut() {
                Some(last)
                    if last.file == file
                        && last.is_read == is_read
                        && offset + BLOCK as u64 - last.offset <= 4 * BLOCK as u64 =>
                {
                    last.len = (offset + BLOCK as u64 - last.offset) as u32;
                }
                _ => stretches.push(Stretch { file, offset, len: BLOCK as u32, is_read, tag: stretches.len() }),
            }
        }
        stretches
    }
}

impl Change for Round {
    type Scratch = Vec<u8>;
    type Error = &'static str;

    fn change(
        &self,
        stretch: &Stretch,
        bytes: &mut [u8],
        changes: &mut Changes,
        before: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        for &(file, number) in self.blocks.iter().filter(|(file, _)| FileId(*file) == stretch.file) {
            let offset = number * BLOCK as u64;
            let at = offset.wrapping_sub(stretch.offset) as usize;
            if offset < stretch.offset || at + BLOCK > stretch.len as usize {
                continue;
            }
            let block = &mut bytes[at..at + BLOCK];
            before.clear();
            before.extend_from_slice(block);
            if self.number == 2 && is_made(file, number) {
                block.fill(9);
                block[0] = 0;
                apply(block, 2);
                changes.made(at as u32..(at + BLOCK) as u32);
            } else {
                apply(block, self.number);
                if block != before.as_slice() {
                    changes.changed(at as u32, before, block);
                }
            }
        }
        Ok(())
    }
}

fn rewriter(device: &SimDevice, options: RewriteOptions) -> Rewriter {
    rewriter_with(device, Safety::Shadow(target(SHADOW)), options)
}

fn rewriter_with(device: &SimDevice, safety: Safety, options: RewriteOptions) -> Rewriter {
    let mut rewriter = Rewriter::open(device, safety, options).unwrap();
    (0..FILES).for_each(|file| rewriter.add_file(target(FileId(file))));
    rewriter
}

/// Completes what was interrupted, then runs all rounds.
fn run(device: &SimDevice, seed: u64) -> Result<(), RunError<&'static str>> {
    replay(device, &target(SHADOW), 1, resolve)?;
    let mut rewriter = rewriter(device, options(1));
    for number in 1..=ROUNDS {
        let round = Round { number, blocks: changed(seed, number) };
        rewriter.run(round.stretches(), &round)?;
    }
    Ok(rewriter.finish()?)
}

fn contents(device: &SimDevice) -> Vec<Vec<u8>> {
    (0..FILES).map(|file| device.contents(FileId(file))).collect()
}

/// The contents that read blocks may have, in round order.
fn versions(seed: u64) -> BTreeMap<(u32, u64), Vec<Vec<u8>>> {
    let fresh = contents(&device(seed));
    let mut versions = BTreeMap::new();
    for (file, number) in (0..FILES).flat_map(|file| (0..BLOCKS).map(move |number| (file, number))) {
        let at = number as usize * BLOCK;
        let mut all = vec![fresh[file as usize][at..at + BLOCK].to_vec()];
        for round in (1..=ROUNDS).filter(|round| changed(seed, *round).contains(&(file, number))) {
            let mut next = all[all.len() - 1].clone();
            apply(&mut next, round);
            all.push(next);
        }
        versions.insert((file, number), all);
    }
    versions
}

fn assert_whole(device: &SimDevice, versions: &BTreeMap<(u32, u64), Vec<Vec<u8>>>, context: &str) {
    let files = contents(device);
    for (&(file, number), versions) in versions.iter().filter(|((file, number), _)| !is_made(*file, *number)) {
        let block = &files[file as usize][number as usize * BLOCK..][..BLOCK];
        assert!(versions.iter().any(|version| version == block), "{context}: block {number} of file {file} is torn");
    }
}

#[test]
fn no_crash_leaves_a_block_half_written_and_a_second_run_ends_in_the_same_bytes() {
    let (mut torn, mut replayed, mut crashes) = (0, 0, 0);
    for seed in 0..SEEDS {
        let undisturbed = device(seed);
        let before_all = undisturbed.operations();
        run(&undisturbed, seed).unwrap();
        let (expected, versions) = (contents(&undisturbed), versions(seed));
        for crash in before_all + 1..=undisturbed.operations() {
            let before = device(seed);
            before.crash_at(crash);
            run(&before, seed).unwrap_err();
            let left = before.reopen(seed ^ crash << 8);
            let files = contents(&left);
            let is_torn = |(block, versions): (&(u32, u64), &Vec<Vec<u8>>)| {
                let found = &files[block.0 as usize][block.1 as usize * BLOCK..][..BLOCK];
                versions.iter().all(|version| version != found)
            };
            torn += versions.iter().filter(|it| is_torn(*it)).count();
            let context = format!("seed {seed}, crash {crash}");
            let ended = replay(&left, &target(SHADOW), 1, resolve).unwrap();
            replayed += usize::from(matches!(ended, Replayed::Pieces(_)));
            assert_whole(&left, &versions, &context);
            run(&left, seed).unwrap();
            assert!(contents(&left) == expected, "{context}: the second run ends in other bytes");
            crashes += 1;
        }
    }
    assert!(crashes > 500 && torn > 100 && replayed > 100, "{crashes} crashes, {torn} torn blocks, {replayed} replays");
}

#[test]
fn a_replay_that_is_itself_cut_off_is_done_again() {
    for seed in 0..SEEDS {
        let first = device(seed);
        let before_all = first.operations();
        run(&first, seed).unwrap();
        let before = device(seed);
        before.crash_at((before_all + first.operations()) / 2);
        run(&before, seed).unwrap_err();
        let mut left = before.reopen(seed);
        for crash in 1..=8 {
            left.crash_at(crash);
            // It may complete before the crash.
            drop(replay(&left, &target(SHADOW), 1, resolve));
            left = left.reopen(seed + crash);
        }
        replay(&left, &target(SHADOW), 1, resolve).unwrap();
        assert_whole(&left, &versions(seed), &format!("seed {seed}"));
        run(&left, seed).unwrap();
        assert!(contents(&left) == contents(&first), "seed {seed}");
    }
}

#[test]
fn any_number_of_workers_and_any_memory_make_the_same_bytes() {
    let expected = device(5);
    run(&expected, 5).unwrap();
    for (workers, memory, shadow_max) in [(1, 0, 0), (3, 0, 1 << 20), (2, 1 << 20, 1 << 20)] {
        let (device, overlap) = (device(5), workers > 1);
        let mut rewriter = rewriter(&device, RewriteOptions { workers, overlap, memory, shadow_max, ..options(1) });
        for number in 1..=ROUNDS {
            let round = Round { number, blocks: changed(5, number) };
            rewriter.run(round.stretches(), &round).unwrap();
        }
        rewriter.finish().unwrap();
        assert!(contents(&device) == contents(&expected), "{workers} workers, {memory} bytes");
    }
}

#[test]
fn new_files_need_no_shadow_and_are_durable_once_finished() {
    let all_rounds = |rewriter: &mut Rewriter| {
        for number in 1..=ROUNDS {
            let round = Round { number, blocks: changed(7, number) };
            rewriter.run(round.stretches(), &round).unwrap();
        }
    };
    let expected = device(7);
    run(&expected, 7).unwrap();
    for (workers, overlap) in [(0, false), (0, true), (2, true)] {
        let device = device(7);
        let before = device.counts();
        let mut rewriter = rewriter_with(&device, Safety::NewFiles, RewriteOptions { workers, overlap, ..options(1) });
        all_rounds(&mut rewriter);
        assert_eq!(device.counts().syncs, before.syncs, "{workers} workers: nothing is synced before the end");
        rewriter.finish().unwrap();
        assert_eq!(device.counts().syncs - before.syncs, u64::from(FILES), "{workers} workers");
        assert!(device.contents(SHADOW).is_empty());
        // The device has lost or torn everything that was not durable.
        let device = device.reopen(1);
        assert!(contents(&device) == contents(&expected), "{workers} workers, overlap: {overlap}");
    }
    let device = device(7);
    let (before, operations) = (contents(&device), device.counts().bytes_written);
    let mut rewriter = rewriter_with(&device, Safety::NothingIsWritten, options(1));
    all_rounds(&mut rewriter);
    rewriter.finish().unwrap();
    assert!(contents(&device) == before && device.counts().bytes_written == operations);
}

/// A device on which a crash left a batch in the shadow, with none of its blocks written in place.
fn interrupted() -> (SimDevice, Round) {
    let device = device(9);
    (0..FILES).for_each(|file| device.fail(Operation::Write, FileId(file), 0..u64::MAX));
    let round = Round { number: 1, blocks: vec![(0, 1), (1, 2)] };
    rewriter(&device, options(1)).run(round.stretches(), &round).unwrap_err();
    device.heal();
    (device, round)
}

fn version_of(device: &SimDevice, file: u32, number: u64) -> u8 {
    device.contents(FileId(file))[number as usize * BLOCK]
}

#[test]
fn the_shadow_of_another_run_is_left_alone() {
    let (device, _) = interrupted();
    let before = contents(&device);
    assert_eq!(replay(&device, &target(SHADOW), 2, resolve).unwrap(), Replayed::Foreign(1));
    assert!(contents(&device) == before);
    assert!(matches!(replay(&device, &target(SHADOW), 1, resolve).unwrap(), Replayed::Pieces(pieces) if pieces > 2));
    assert_eq!((version_of(&device, 0, 1), version_of(&device, 1, 2)), (1, 1));
    assert_eq!(replay(&device, &target(SHADOW), 1, resolve).unwrap(), Replayed::Nothing);
}

#[test]
fn blocks_of_a_file_that_is_gone_are_passed_over() {
    let (device, _) = interrupted();
    let only_second = |name: &[u8]| resolve(name).filter(|target| target.file == FileId(1));
    assert!(matches!(replay(&device, &target(SHADOW), 1, only_second).unwrap(), Replayed::Pieces(_)));
    assert_eq!((version_of(&device, 0, 1), version_of(&device, 1, 2)), (0, 1));
}

#[test]
fn a_damaged_batch_is_not_replayed() {
    let (device, _) = interrupted();
    // After the batch that opens the chain.
    device.rot(SHADOW, 4096 + 64 + 40, 1);
    assert_eq!(replay(&device, &target(SHADOW), 1, resolve).unwrap(), Replayed::Nothing);
}

#[test]
fn after_a_failure_nothing_more_is_written() {
    for fails in [Operation::Write, Operation::Sync] {
        for file in [SHADOW, FileId(1)] {
            let (device, round) = (device(3), Round { number: 1, blocks: vec![(1, 0)] });
            let before = contents(&device);
            device.fail(fails, file, 0..u64::MAX);
            let mut rewriter = rewriter(&device, options(1));
            let failure = rewriter.run(round.stretches(), &round).unwrap_err();
            let name = String::from_utf8(target(file).name).unwrap();
            let is_named =
                matches!(&failure, RunError::Rewrite(RewriteError::Io { name: found, .. }) if *found == name);
            assert!(is_named, "{fails:?} {file:?}: {failure}");
            device.heal();
            let operations = device.operations();
            let latched = rewriter.run(round.stretches(), &round).unwrap_err();
            assert!(matches!(latched, RunError::Rewrite(RewriteError::Latched)));
            assert!(matches!(rewriter.finish(), Err(RewriteError::Latched)));
            assert_eq!(device.operations(), operations);
            // The content after a failed write is undefined.
            let is_undefined = (fails, file) == (Operation::Write, FileId(1));
            assert!(is_undefined || contents(&device) == before, "{fails:?} {file:?}: no shadow, no block");
        }
    }
}

/// Fails, or panics.
struct Bad(bool);

impl Change for Bad {
    type Scratch = ();
    type Error = &'static str;

    fn change(&self, _: &Stretch, _: &mut [u8], _: &mut Changes, _: &mut ()) -> Result<(), &'static str> {
        assert!(!self.0, "as asked");
        Err("as asked")
    }
}

#[test]
fn what_cannot_be_changed_ends_the_run() {
    for workers in [0, 2] {
        for panics in [false, true] {
            let device = device(1);
            let before = device.operations();
            let round = Round { number: 1, blocks: changed(1, 1) };
            let failure = rewriter(&device, RewriteOptions { workers, ..options(1) })
                .run(round.stretches(), &Bad(panics))
                .unwrap_err();
            assert_eq!(matches!(failure, RunError::Change("as asked")), !panics);
            assert_eq!(device.operations(), before, "nothing was written");
        }
    }
}

#[test]
fn each_stretch_is_read_and_written_once_and_each_file_synced_twice() {
    let device = device(2);
    let before = device.counts();
    let round = Round { number: 1, blocks: vec![(0, 1), (0, 2), (0, 3), (1, 3), (2, 1), (2, 5)] };
    let stretches = round.stretches();
    let shadow_max = 1 << 20;
    let mut rewriter = rewriter(&device, RewriteOptions { shadow_max, memory: 1 << 20, ..options(1) });
    rewriter.run(stretches.clone(), &round).unwrap();
    rewriter.finish().unwrap();
    let counts = device.counts();
    let asked: u64 = stretches.iter().map(|stretch| u64::from(stretch.len)).sum();
    assert_eq!(counts.bytes_read - before.bytes_read, asked, "every byte once");
    // Syncs: each file before the first write and at the end; the shadow when it is opened, for its batch, and when it is emptied.
    assert_eq!(counts.syncs - before.syncs, 3 + 1 + 1 + 3 + 1);
    let written = counts.bytes_written - before.bytes_written;
    let (in_place, chains) = (6 * BLOCK as u64, 2 * 4096);
    assert!(written <= 2 * in_place + chains - 4096, "{written}: of the blocks less than they have, and padding");
}

/// Ranges of the device's files to keep in memory: file, offset and length, each in blocks.
fn prefetched(device: &SimDevice, parts: &[(u32, u64, u64)], memory: usize) -> Vec<innokit_flow::rewrite::Prefetched> {
    let mut prefetch = Prefetch::new(device, memory, 4 * BLOCK as u32, 2).unwrap();
    for &(file, offset, len) in parts {
        let (offset, len) = (offset * BLOCK as u64, (len as usize * BLOCK) as u32);
        if !prefetch.ask(FileId(file), &FileHandle::of_engine(), offset, len).unwrap() {
            break;
        }
    }
    prefetch.finish().unwrap()
}

#[test]
fn what_was_read_before_is_not_read_again_and_the_bytes_are_the_same() {
    let round = Round { number: 1, blocks: vec![(0, 1), (0, 2), (0, 3), (1, 3), (1, 5), (2, 1), (2, 5)] };
    let run = |device: &SimDevice, parts: &[(u32, u64, u64)]| {
        let mut rewriter = rewriter(device, RewriteOptions { shadow_max: 1 << 20, memory: 1 << 20, ..options(1) });
        for part in prefetched(device, parts, 1 << 20) {
            rewriter.hold(part.file, part);
        }
        let before = device.counts().bytes_read;
        rewriter.run(round.stretches(), &round).unwrap();
        rewriter.finish().unwrap();
        device.counts().bytes_read - before
    };
    // Without short reads: a range that is not read completely is not kept.
    let device = || {
        let (as_ever, whole) = (device(2), SimDevice::new(SimOptions { seed: 2, ..SimOptions::default() }));
        for bytes in contents(&as_ever) {
            whole.add_file(bytes);
        }
        whole.add_file(Vec::new());
        whole
    };
    let (plain, ahead) = (device(), device());
    let all: u64 = round.stretches().iter().map(|stretch| u64::from(stretch.len)).sum();
    assert_eq!(run(&plain, &[]), all);
    // The first ranges of files 0 and 1 are kept; of file 2 only blocks that nothing changes.
    let left = run(&ahead, &[(0, 0, 4), (1, 2, 4), (2, 6, 2)]);
    let held = round
        .stretches()
        .iter()
        .filter(|stretch| stretch.file.0 < 2)
        .map(|stretch| u64::from(stretch.len))
        .sum::<u64>();
    assert_eq!(left, all - held);
    assert_eq!(contents(&ahead), contents(&plain));
}

#[test]
fn a_run_reads_what_the_run_before_it_has_changed() {
    let device = SimDevice::new(SimOptions::default());
    device.add_file(vec![0; BLOCK * BLOCKS as usize]);
    for _ in 1..FILES {
        device.add_file(vec![0; BLOCK]);
    }
    device.add_file(Vec::new());
    let mut rewriter = rewriter(&device, RewriteOptions { shadow_max: 1 << 20, ..options(1) });
    for part in prefetched(&device, &[(0, 0, 4)], 1 << 20) {
        rewriter.hold(part.file, part);
    }
    assert_eq!(rewriter.held_at(FileId(0), 3 * BLOCK as u64), Some((0, 4 * BLOCK as u32)));
    for (number, block) in [(1, 1), (3, 1)] {
        let round = Round { number, blocks: vec![(0, block)] };
        rewriter.run(round.stretches(), &round).unwrap();
        assert_eq!((version_of(&device, 0, block), rewriter.held_at(FileId(0), 0)), (number, None));
    }
    let step = 40 + 31;
    assert_eq!(contents(&device)[0][BLOCK + step], 1, "the second run kept what the first had written");
}

#[test]
fn no_more_is_read_before_than_there_is_memory_for() {
    let device = device(2);
    let parts: Vec<_> = (0..FILES).flat_map(|file| [(file, 0, 4), (file, 4, 4)]).collect();
    assert!(prefetched(&device, &parts, 2 * 4 * BLOCK).len() <= 2);
    assert!(prefetched(&device, &parts, BLOCK).is_empty());
}
