//! Counts requests, on a tree that a server scattered over its file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow::queue::sim::{SimOptions, SimTime};
use flow::queue::{Completion, OpenQueue, Queue, Request};
use flow::{Buffer, Counters, IoMode, ReadOptions};

use super::pass::{BLOCK, DEPTH, SWEEP_MEMORY, ScanPlace};
use super::{POLICIES, Policy};
use jobs::table::one::One;

const PAGE: u64 = 16384;
/// Pages in the look-ahead.
const AHEAD: usize = (8 << 20) / PAGE as usize;

/// Requests in the order in which they were made: offset and bytes.
type Log = Arc<Mutex<Vec<(u64, u32)>>>;

/// The simulated clock, with a list of the requests it got.
struct Logged(SimTime, Log);

struct LoggedQueue(Box<dyn Queue>, Log);

impl OpenQueue for Logged {
    fn name(&self) -> &'static str {
        "logged"
    }

    fn open(&self, depth: u32, buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(LoggedQueue(self.0.open(depth, buffers)?, Arc::clone(&self.1))))
    }
}

impl Queue for LoggedQueue {
    fn submit(&mut self, request: Request) {
        self.1.lock().expect("one thread").push((request.offset, request.len));
        self.0.submit(request);
    }

    fn kick(&mut self) -> io::Result<()> {
        self.0.kick()
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        self.0.wait(done)
    }
}

/// A scan of a tree: the requests, the time on the clock, the maximum in flight.
struct Scan {
    requests: Vec<(u64, u32)>,
    time: Duration,
    in_flight_max: u64,
    pages: u64,
}

impl Scan {
    /// The pages read, in the order of the requests.
    fn pages(&self) -> Vec<u64> {
        let of_request = |(offset, len): &(u64, u32)| offset / PAGE..(offset + u64::from(*len)) / PAGE;
        self.requests.iter().flat_map(of_request).collect()
    }
}

/// The fixture's table, and the directory that it is in.
fn table() -> (tempfile::TempDir, One) {
    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scattered/scattered-16k.ibd.zst");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("scattered.ibd");
    let bytes = zstd::decode_all(File::open(packed).expect("the fixture")).expect("fixtures are zstd");
    std::fs::write(&path, bytes).expect("written");
    let one = One::open(&path).expect("a tablespace");
    (dir, one)
}

fn scan(dir: &tempfile::TempDir, one: &One, index: &str, policy: Policy) -> Scan {
    scan_within(SWEEP_MEMORY, dir, one, index, policy)
}

fn scan_within(memory: u64, dir: &tempfile::TempDir, one: &One, index: &str, policy: Policy) -> Scan {
    let is_it = |named: &jobs::table::one::Named| named.name.as_deref() == Some(index);
    let tree = one.trees.iter().find(|tree| tree.named.as_ref().is_some_and(is_it)).expect("the index");
    let index = tree.named.as_ref().and_then(|named| named.index.as_ref());
    let place = ScanPlace { space: &one.space, map: &one.map, root: &tree.root, index, memory };
    let file = File::open(dir.path().join("scattered.ibd")).expect("opens");
    let device = SimOptions { bandwidth: u64::MAX, ..SimOptions::default() };
    let logged = Logged(SimTime::new(&device, [(file, one.len)]), Log::default());
    let options = ReadOptions { io: IoMode::Direct, depth: DEPTH, block_size: BLOCK, ..ReadOptions::default() };
    let engines: [&dyn OpenQueue; 1] = [&logged];
    let counters = Counters::new(1);
    let counts = place.walk(&logged.0.file_set(), &options, &engines, policy, &counters);
    let counts = counts.expect("sound").expect("can be read so");
    assert_eq!(counts.records, 10_000, "{policy:?}");
    let requests = logged.1.lock().expect("one thread").clone();
    Scan { requests, time: logged.0.elapsed(), in_flight_max: logged.0.counts().in_flight_max, pages: counts.pages }
}

/// The minimum number of requests for pages needed in this order: in each look-ahead, sorted, the runs of neighbours, each divided into
/// requests of maximum size.
fn least(pages: &[u64]) -> u64 {
    let runs = |batch: &[u64]| {
        let sorted: Vec<u64> = BTreeSet::from_iter(batch.iter().copied()).into_iter().collect();
        let of_run = |run: &[u64]| (run.len() as u64).div_ceil(u64::from(BLOCK) / PAGE);
        sorted.chunk_by(|a, b| a + 1 == *b).map(of_run).sum::<u64>()
    };
    pages.chunks(AHEAD).map(runs).sum()
}

#[test]
fn every_policy_reads_each_page_of_an_index_once() {
    let (dir, one) = table();
    for index in ["PRIMARY", "a_b"] {
        let mut all = BTreeSet::new();
        for policy in POLICIES {
            let pages = scan(&dir, &one, index, policy);
            let read = pages.pages();
            let once: BTreeSet<u64> = read.iter().copied().collect();
            assert_eq!((read.len(), once.len() as u64), (once.len(), pages.pages), "{index}, {policy:?}: none twice");
            assert!(all.is_empty() || all == once, "{index}, {policy:?}: the same pages");
            all = once;
        }
    }
}

#[test]
fn with_little_memory_the_leaves_come_in_several_sweeps() {
    let (dir, one) = table();
    // It has five parents below its root.
    let sweeps = |memory| {
        let scan = scan_within(memory, &dir, &one, "a_b", Policy::FileOrder);
        let pages = scan.pages();
        let once: BTreeSet<u64> = pages.iter().copied().collect();
        assert_eq!((once.len() as u64, pages.len() as u64), (scan.pages, scan.pages), "each once");
        // From sweep to sweep the device moves back, by most of the range of pages.
        let room = once.last().zip(once.first()).map_or(0, |(last, first)| last - first);
        1 + pages.windows(2).filter(|pair| pair[1] + room / 2 < pair[0]).count()
    };
    let (one_sweep, several) = (sweeps(SWEEP_MEMORY), sweeps(0));
    assert!(several > one_sweep, "{several} with little memory, {one_sweep} with enough");
}

#[test]
fn what_the_parents_name_comes_in_the_least_requests_with_the_window_full() {
    let (dir, one) = table();
    let in_key_order = scan(&dir, &one, "PRIMARY", Policy::None);
    assert_eq!((in_key_order.requests.len() as u64, in_key_order.in_flight_max), (in_key_order.pages, 1));
    let least = least(&in_key_order.pages());
    assert!(2 * least > in_key_order.pages, "the tree is scattered: {least} of {}", in_key_order.pages);
    let ahead = scan(&dir, &one, "PRIMARY", Policy::Logical);
    let requests = ahead.requests.len() as u64;
    assert!(10 * requests <= 11 * least, "{requests} requests, the least is {least}");
    assert_eq!(ahead.in_flight_max, u64::from(DEPTH));
    let in_file_order = scan(&dir, &one, "PRIMARY", Policy::FileOrder);
    assert!(4 * in_file_order.requests.len() < ahead.requests.len(), "{}", in_file_order.requests.len());
}

#[test]
fn reading_ahead_is_three_times_as_fast_and_more_at_half_a_millisecond() {
    let (dir, one) = table();
    for index in ["PRIMARY", "a_b"] {
        let time = |policy| scan(&dir, &one, index, policy).time;
        let none = time(Policy::None);
        assert_eq!(none, Duration::from_micros(500) * scan(&dir, &one, index, Policy::None).pages as u32);
        assert_eq!(time(Policy::Linear), none, "nothing is in order");
        for policy in [Policy::Logical, Policy::FileOrder] {
            assert!(3 * time(policy) <= none, "{index}: {:?} with {policy:?}, {none:?} one by one", time(policy));
        }
    }
}
