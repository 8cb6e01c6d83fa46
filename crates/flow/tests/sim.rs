//! The simulated device as tests see it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::time::{Duration, Instant};

use innokit_flow::queue::sim::{Pace, SimDevice, SimOptions};
use innokit_flow::queue::{Completion, OpenQueue, Operation, Queue, Request};
use innokit_flow::{Buffer, BufferPool, FileHandle, FileId, IoMode};
use support::{bytes_of, options, read_with};

const BLOCK: usize = 4096;

fn device_of(options: SimOptions, blocks: usize) -> (SimDevice, FileId) {
    let device = SimDevice::new(options);
    let file = device.add_file(vec![0; blocks * BLOCK]);
    (device, file)
}

fn request(operation: Operation, token: u64, buffer: Buffer) -> Request {
    let (offset, len) = (token * BLOCK as u64, buffer.bytes().len() as u32);
    let handle = FileHandle::of_engine();
    Request { token, operation, file: FileId(0), handle, offset, start: 0, len, buffer }
}

/// Submits writes of whole blocks. Returns the tokens in order of completion.
fn write_blocks(queue: &mut dyn Queue, pool: &mut BufferPool, count: u64) -> Vec<Completion> {
    for block in 0..count {
        let mut buffer = pool.take().unwrap();
        buffer.bytes_mut().fill(block as u8 + 1);
        queue.submit(request(Operation::Write, block, buffer));
    }
    let mut done = Vec::new();
    while done.len() < count as usize {
        queue.wait(&mut done).unwrap();
    }
    done
}

#[test]
fn wide_storage_is_as_fast_for_64_requests_as_for_one_and_no_time_passes() {
    let started = Instant::now();
    let (device, file) = device_of(SimOptions { bandwidth: u64::MAX, ..SimOptions::default() }, 64);
    let mut pool = BufferPool::new(64, BLOCK as u32).unwrap();
    write_blocks(&mut *device.open(64, pool.free()).unwrap(), &mut pool, 64);
    device.sync(file).unwrap();
    assert_eq!(device.elapsed(), Duration::from_micros(500 + 10_000));
    let mut bytes = vec![0; BLOCK];
    for block in 0..100_000 {
        device.read_at(file, block % 64 * BLOCK as u64, &mut bytes).unwrap();
    }
    assert_eq!(device.elapsed(), Duration::from_micros(500 + 10_000 + 100_000 * 500));
    assert!(started.elapsed() < device.elapsed(), "counted, not spent");
    let counts = device.counts();
    assert_eq!((counts.reads, counts.writes, counts.syncs, counts.in_flight_max), (100_000, 64, 1, 64));
    assert_eq!((counts.bytes_read, counts.bytes_written), (100_000 * BLOCK as u64, 64 * BLOCK as u64));
    assert_eq!((counts.requests(), device.operations()), (100_065, 65));
}

#[test]
fn real_pace_takes_the_time_that_the_device_takes() {
    let options = SimOptions { pace: Pace::Real, latency: Duration::from_millis(5), ..SimOptions::default() };
    let (device, file) = device_of(options, 8);
    let started = Instant::now();
    device.write_at(file, 0, &[1; 512]).unwrap();
    device.sync(file).unwrap();
    let mut pool = BufferPool::new(8, BLOCK as u32).unwrap();
    write_blocks(&mut *device.open(8, pool.free()).unwrap(), &mut pool, 8);
    assert!(started.elapsed() >= Duration::from_millis(5 + 10 + 5));
    assert!(device.elapsed() >= Duration::from_millis(5 + 10 + 5));
}

#[test]
fn the_same_seed_is_the_same_device_and_another_is_another() {
    let run = |seed| {
        let options = SimOptions { seed, jitter: Duration::from_millis(1), short_one_in: 3, ..SimOptions::default() };
        let (device, file) = device_of(options, 32);
        let mut pool = BufferPool::new(32, BLOCK as u32).unwrap();
        let done = write_blocks(&mut *device.open(32, pool.free()).unwrap(), &mut pool, 32);
        let done: Vec<_> = done.into_iter().map(|done| (done.token, done.result.unwrap())).collect();
        let left = device.reopen(seed).contents(file);
        (done, device.elapsed(), left)
    };
    assert!(run(1) == run(1));
    let (one, other) = (run(1), run(2));
    assert!(one.0 != other.0 && one.1 != other.1);
    assert!(one.0.iter().map(|done| done.0).ne(0..32), "requests overtake each other");
    assert!(one.0.iter().any(|done| done.1 < BLOCK as u32), "and some are short");
}

#[test]
fn reader_reads_the_files_of_the_device_with_faults_and_all() {
    let device = SimDevice::new(SimOptions { short_one_in: 5, ..SimOptions::default() });
    let mut expected = Vec::new();
    for (file, size) in [(0, 300_000), (1, 77), (2, 1_000_000)] {
        expected.push(bytes_of(file, size));
        device.add_file(bytes_of(file, size));
    }
    device.fail(Operation::Read, FileId(2), 40_960..40_961);
    for io in [IoMode::Auto, IoMode::Direct, IoMode::Buffered] {
        let outcome = read_with(&device.file_set(), &options(io), 2, &[&device]);
        let gaps: Vec<_> = outcome.gaps.iter().map(|(file, gap)| (*file, gap.offset, gap.len)).collect();
        assert_eq!(gaps, [(2, 40_960, 4096)]);
        let mut left = expected.clone();
        left[2][40_960..45_056].fill(0);
        assert!(outcome.contents == left);
    }
}

#[test]
fn crash_keeps_what_was_synced_and_any_part_of_what_was_not() {
    let mut kept = [0; 5];
    for seed in 0..200 {
        let (device, file) = device_of(SimOptions { seed, ..SimOptions::default() }, 4);
        device.write_at(file, 0, &[1; BLOCK]).unwrap();
        device.sync(file).unwrap();
        device.write_at(file, BLOCK as u64, &[2; BLOCK]).unwrap();
        device.crash_at(4);
        let error = device.write_at(file, 2 * BLOCK as u64, &[3; BLOCK]).unwrap_err();
        assert_eq!(error.to_string(), "the power of the simulated device is off");
        assert!(device.has_crashed() && device.sync(file).is_err() && device.len(file).is_err());
        device.write_at(file, 3 * BLOCK as u64, &[4; BLOCK]).unwrap_err();
        let device = device.reopen(seed);
        let left = device.contents(file);
        assert_eq!(left[..BLOCK], [1; BLOCK]);
        let sectors: Vec<_> = left[BLOCK..].chunks(512).map(|sector| sector[0]).collect();
        assert!(left.chunks(512).all(|sector| sector.iter().all(|&byte| byte == sector[0])), "no sector is torn");
        assert!(sectors[16..].iter().all(|&byte| byte == 0), "too late to be written");
        let survivors = sectors[..16].iter().filter(|&&byte| byte != 0).count();
        kept[survivors.div_ceil(5)] += 1;
        device.write_at(file, 0, &[9; 512]).unwrap();
    }
    assert!(kept.iter().all(|&times| times > 0), "nothing, all, and what is between: {kept:?}");
}

#[test]
fn device_that_forgets_nothing_keeps_what_was_not_synced() {
    for seed in 0..20 {
        let (device, file) = device_of(SimOptions { forgets: false, ..SimOptions::default() }, 1);
        device.write_at(file, 512, &[1; 2 * BLOCK]).unwrap();
        assert!(device.reopen(seed).contents(file) == [&[0; 512][..], &[1; 2 * BLOCK]].concat());
    }
}

#[test]
fn sync_covers_no_write_that_was_in_flight_with_it() {
    let mut lost = 0;
    for seed in 0..50 {
        let (device, file) = device_of(SimOptions::default(), 1);
        let mut pool = BufferPool::new(1, BLOCK as u32).unwrap();
        let mut queue = device.open(2, pool.free()).unwrap();
        let mut buffer = pool.take().unwrap();
        buffer.bytes_mut().fill(7);
        queue.submit(request(Operation::Write, 0, buffer));
        queue.submit(request(Operation::Sync, 1, Buffer::empty()));
        let mut done = Vec::new();
        while done.len() < 2 {
            queue.wait(&mut done).unwrap();
        }
        assert!(done.iter().all(|completion| completion.result.is_ok()));
        lost += usize::from(device.reopen(seed).contents(file) != [7; BLOCK]);
    }
    assert!(lost > 10, "a caller that syncs before the write is complete loses it: {lost} of 50");
}

#[test]
fn errors_hit_the_request_that_was_named_and_a_failed_sync_is_not_made_good_by_the_next() {
    let (device, file) = device_of(SimOptions::default(), 4);
    device.fail_at(2);
    device.write_at(file, 0, &[1; 512]).unwrap();
    assert_eq!(device.sync(file).unwrap_err().raw_os_error(), Some(5));
    device.sync(file).unwrap();
    let mut byte = [0];
    device.read_at(file, 0, &mut byte).unwrap();
    assert_eq!(byte, [1], "still there to be read");
    let lost = (0..50).filter(|&seed| device.clone().reopen(seed).contents(file)[0] == 0).count();
    assert!(lost > 10, "but not durable: {lost} of 50");

    let (device, file) = device_of(SimOptions::default(), 4);
    device.fail(Operation::Write, file, 4096..8192);
    device.write_at(file, 0, &[1; 4096]).unwrap();
    assert_eq!(device.write_at(file, 4000, &[1; 100]).unwrap_err().raw_os_error(), Some(5));
    device.heal();
    device.write_at(file, 4000, &[1; 100]).unwrap();
    assert_eq!(device.read_at(FileId(9), 0, &mut byte).unwrap_err().raw_os_error(), Some(2));
    assert_eq!(device.read_at(file, 1 << 40, &mut byte).unwrap(), 0);
}

#[test]
fn rot_flips_one_bit_and_says_where() {
    let (device, file) = device_of(SimOptions { seed: 5, ..SimOptions::default() }, 2);
    device.write_at(file, 0, &[0; 512]).unwrap();
    let offset = device.rot_somewhere(file).unwrap() as usize;
    let left = device.reopen(1).contents(file);
    let flipped: Vec<_> = left.iter().enumerate().filter(|(_, byte)| **byte != 0).collect();
    assert_eq!((flipped.len(), flipped[0].0, flipped[0].1.count_ones()), (1, offset, 1));
    device.rot(file, offset as u64, *flipped[0].1);
    assert!(device.contents(file).iter().all(|&byte| byte == 0));
    assert_eq!(device.rot_somewhere(device.add_file(Vec::new())), None);
}

#[test]
fn hidden_reads_are_counted_and_cost_time() {
    let options = SimOptions { cache_block: 4096, bandwidth: u64::MAX, ..SimOptions::default() };
    let (device, file) = device_of(options, 4);
    for sector in 0..16 {
        device.write_at(file, sector * 512, &[1; 512]).unwrap();
    }
    assert_eq!(device.counts().reads_on_write, 2);
    assert_eq!(device.elapsed(), Duration::from_micros(18 * 500));
    device.drop_cache();
    device.write_at(file, 0, &[1; 4096]).unwrap();
    device.write_at(file, 512, &[1; 512]).unwrap();
    assert_eq!(device.counts().reads_on_write, 2, "whole blocks need no read, and are cached then");
}
