//! Scattered ranges: each is read once, in as few requests as the look-ahead allows, with many in flight, and delivered in the order asked
//! for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use innokit_flow::queue::sim::{SimDevice, SimOptions};
use innokit_flow::queue::{OpenQueue, Operation};
use innokit_flow::{Counters, FileId, FileSet, Gather, GatherPlan, IoMode, ReadAhead, ReadOptions, Want};
use support::{Files, bytes_of};

const PAGE: u64 = 16 << 10;

fn options(io: IoMode, depth: u32) -> ReadOptions {
    ReadOptions { io, depth, block_size: 256 << 10, ..ReadOptions::default() }
}

fn want(file: u32, page: u64) -> Want {
    Want { file: FileId(file), offset: page * PAGE, len: PAGE as u32, tag: u64::from(file) << 32 | page }
}

/// A shuffled list of `0..n`, the same on every run.
fn shuffled(n: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..n).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for at in (1..numbers.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        numbers.swap(at, (state >> 33) as usize % (at + 1));
    }
    numbers
}

/// Asks for all of `wants` as room allows. Returns what came: tag, bytes, and the error of lost ones.
fn gather(
    files: &FileSet,
    wants: &[Want],
    (options, ahead): (&ReadOptions, ReadAhead),
    counters: &Counters,
    engines: &[&dyn OpenQueue],
) -> Vec<(u64, Vec<u8>, Option<String>)> {
    let plan = GatherPlan::new(options.block_size);
    let mut gather = Gather::with_engines(files, &plan, options, ahead, counters.worker(0), engines).unwrap();
    let (mut wants, mut came) = (wants.iter(), Vec::new());
    loop {
        while gather.has_room() {
            let Some(want) = wants.next() else { break };
            gather.ask(*want);
        }
        let Some(item) = gather.next() else { break };
        came.push((item.want.tag, item.bytes.to_vec(), item.lost.map(ToString::to_string)));
    }
    assert_eq!(gather.pending(), 0);
    came
}

/// The minimum number of requests: in each look-ahead, sorted, the runs of neighbours, each divided into requests of maximum size.
fn least(pages: &[u64], in_a_batch: usize, pages_in_a_request: u64) -> u64 {
    let runs = |batch: &[u64]| {
        let mut sorted = batch.to_vec();
        sorted.sort_unstable();
        let mut requests = 0;
        let mut run: Option<(u64, u64)> = None;
        for page in sorted {
            run = match run {
                Some((next, len)) if page == next && len < pages_in_a_request => Some((page + 1, len + 1)),
                _ => {
                    requests += 1;
                    Some((page + 1, 1))
                }
            };
        }
        requests
    };
    pages.chunks(in_a_batch).map(runs).sum()
}

#[test]
fn scattered_pages_are_read_once_in_the_least_requests_with_the_window_full() {
    let device = SimDevice::new(SimOptions::default());
    let bytes = bytes_of(3, 4096 * PAGE as usize);
    device.add_file(bytes.clone());
    // Every other page of a fragmented tree, so that no page is next to another.
    let pages = shuffled(4096);
    let wants: Vec<_> = pages.iter().map(|page| want(0, *page)).collect();
    let (counters, depth) = (Counters::new(1), 32);
    let ahead = ReadAhead::Logical { bytes: 512 * PAGE };
    let came = gather(&device.file_set(), &wants, (&options(IoMode::Direct, depth), ahead), &counters, &[&device]);
    assert!(came.iter().map(|(tag, ..)| *tag).eq(pages.iter().copied()), "in the order asked");
    for (page, got, lost) in &came {
        let start = (page * PAGE) as usize;
        assert!(got == &bytes[start..start + PAGE as usize] && lost.is_none(), "page {page}");
    }
    let counts = device.counts();
    assert_eq!(counts.bytes_read, 4096 * PAGE, "each page once");
    assert_eq!(counts.in_flight_max, u64::from(depth), "the window was full");
    let least = least(&pages, 512, 16);
    assert!(counts.reads * 10 <= least * 11, "{} requests, the least is {least}", counts.reads);
    assert!(counts.reads > 3000, "the order was a scattered one");
}

#[test]
fn neighbours_in_any_order_become_large_requests() {
    let device = SimDevice::new(SimOptions::default());
    device.add_file(bytes_of(1, 1024 * PAGE as usize));
    let pages: Vec<u64> = (0..1024).map(|page| page ^ 7).collect();
    let wants: Vec<_> = pages.iter().map(|page| want(0, *page)).collect();
    let counters = Counters::new(1);
    gather(&device.file_set(), &wants, (&options(IoMode::Direct, 8), ReadAhead::LOGICAL), &counters, &[&device]);
    assert_eq!(device.counts().reads, 1024 / 16, "256 KiB each");
}

#[test]
fn reading_ahead_hides_the_latency_that_reading_one_by_one_pays() {
    let time = |ahead| {
        let device = SimDevice::new(SimOptions { bandwidth: u64::MAX, ..SimOptions::default() });
        device.add_file(bytes_of(1, 2048 * PAGE as usize));
        let wants: Vec<_> = shuffled(2048).into_iter().map(|page| want(0, page)).collect();
        let counters = Counters::new(1);
        gather(&device.file_set(), &wants, (&options(IoMode::Direct, 32), ahead), &counters, &[&device]);
        (device.counts(), device.elapsed())
    };
    let (one_by_one, slow) = time(ReadAhead::None);
    assert_eq!((one_by_one.reads, one_by_one.in_flight_max), (2048, 1));
    assert_eq!(slow, Duration::from_micros(500) * 2048);
    let (_, fast) = time(ReadAhead::LOGICAL);
    assert!(fast * 16 < slow, "{fast:?} with 32 in flight, {slow:?} one by one");
}

#[test]
fn what_is_guessed_ahead_is_read_together_and_all_else_one_by_one() {
    let device = SimDevice::new(SimOptions { bandwidth: u64::MAX, ..SimOptions::default() });
    device.add_file(bytes_of(1, 256 * PAGE as usize));
    let (files, plan, counters) = (device.file_set(), GatherPlan::new(256 << 10), Counters::new(1));
    let (options, engines): (_, [&dyn OpenQueue; 1]) = (options(IoMode::Direct, 32), [&device]);
    let ahead = ReadAhead::Linear { bytes: 64 * PAGE };
    let mut gather = Gather::with_engines(&files, &plan, &options, ahead, counters.worker(0), &engines).unwrap();
    let pages: Vec<u64> = shuffled(8).into_iter().map(|page| 3 * page).chain(64..200).collect();
    let (mut asked, mut came) = (0, Vec::new());
    loop {
        // From page 64 on pages are guesses. Otherwise no more is asked for than there is room.
        while asked < pages.len() && (gather.has_room() || pages[asked] >= 64) {
            gather.ask(want(0, pages[asked]));
            asked += 1;
        }
        let Some(item) = gather.next() else { break };
        came.push(item.want.tag);
    }
    assert_eq!(came, pages, "in the order asked");
    let counts = device.counts();
    // Eight single pages, the last of them with the first guesses; then 64 pages at a time in requests of 16.
    assert_eq!((counts.reads, counts.in_flight_max), (7 + 1 + 4 + 4 + 1, 5), "{counts:?}");
    assert_eq!(device.elapsed(), Duration::from_micros(500) * (7 + 3));
}

#[test]
fn every_engine_and_mode_gives_the_same_bytes_from_several_files() {
    let files = Files::new(&[40 * PAGE as usize, 0, 33 * PAGE as usize + 5000, 7]);
    let mut wants: Vec<_> = shuffled(120).into_iter().map(|at| want((at % 3) as u32, at / 3)).collect();
    // Small, unaligned, repeated, across the end of the file, and past it.
    wants.push(Want { file: FileId(2), offset: 1024, len: 1024, tag: 1 });
    wants.push(Want { file: FileId(2), offset: 2048, len: 1024, tag: 2 });
    wants.push(Want { file: FileId(2), offset: 33 * PAGE + 4999, len: 100, tag: 3 });
    wants.push(Want { file: FileId(3), offset: 7, len: 100, tag: 4 });
    wants.push(wants[0]);
    for hot in [true, false] {
        for io in [IoMode::Auto, IoMode::Direct, IoMode::Buffered] {
            for ahead in [
                ReadAhead::None,
                ReadAhead::LOGICAL,
                ReadAhead::Linear { bytes: 5 * PAGE },
                ReadAhead::Logical { bytes: 5 * PAGE },
            ] {
                if !hot {
                    files.make_cold();
                }
                let (counters, options) = (Counters::new(1), options(io, 4));
                let engines = options.engine.candidates();
                let came = gather(&files.set(), &wants, (&options, ahead), &counters, engines);
                assert_eq!(came.len(), wants.len());
                for ((tag, got, lost), want) in came.iter().zip(&wants) {
                    let whole = &files.contents[want.file.0 as usize];
                    let start = (want.offset as usize).min(whole.len());
                    let end = (start + want.len as usize).min(whole.len());
                    assert!(
                        *tag == want.tag && got == &whole[start..end] && lost.is_none(),
                        "{io:?} {ahead:?} {want:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_the_device_refuses_is_lost_alone() {
    let device = SimDevice::new(SimOptions { short_one_in: 7, ..SimOptions::default() });
    let bytes = bytes_of(1, 64 * PAGE as usize);
    device.add_file(bytes.clone());
    device.fail(Operation::Read, FileId(0), 10 * PAGE..10 * PAGE + 1);
    let wants: Vec<_> = shuffled(64).into_iter().map(|page| want(0, page)).collect();
    let counters = Counters::new(1);
    let came =
        gather(&device.file_set(), &wants, (&options(IoMode::Direct, 8), ReadAhead::LOGICAL), &counters, &[&device]);
    for (page, got, lost) in &came {
        assert_eq!(lost.is_some(), *page == 10, "page {page}");
        let start = (page * PAGE) as usize;
        assert!(*page == 10 || got == &bytes[start..start + PAGE as usize]);
    }
}

#[test]
fn a_file_that_cannot_be_opened_loses_its_own_stretches_only() {
    let files = Files::new(&[4 * PAGE as usize, 4 * PAGE as usize]);
    let set = files.set();
    std::fs::remove_file(files.path(0)).unwrap();
    let wants: Vec<_> = (0..8).map(|at| want((at % 2) as u32, at / 2)).collect();
    let counters = Counters::new(1);
    let options = options(IoMode::Auto, 8);
    let came = gather(&set, &wants, (&options, ReadAhead::LOGICAL), &counters, options.engine.candidates());
    for (tag, got, lost) in came {
        let file = tag >> 32;
        assert_eq!((lost.is_some(), got.is_empty()), (file == 0, file == 0), "{tag:x}");
    }
}
