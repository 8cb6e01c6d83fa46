//! Counts requests, on a tree that a server scattered over its file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow::queue::sim::{SimOptions, SimTime};
use flow::queue::{Completion, OpenQueue, Queue, Request};
use flow::{Buffer, Counters, FileHandle, FileId, FileSet, Gather, GatherPlan, IoMode, ReadAhead, ReadOptions, Want};

use super::pass::{BLOCK, DEPTH, SWEEP_MEMORY, ScanPlace};
use super::server::{Device, Rules, Server};
use super::{POLICIES, POOL, Policy};
use inspect::table::one::One;

const PAGE: u64 = 16384;
/// Pages in the look-ahead.
const AHEAD: usize = (8 << 20) / PAGE as usize;

/// Requests in the order in which they were made: offset and bytes.
type Log = Arc<Mutex<Vec<(u64, u32)>>>;

/// Whether a request, by its first page and number of pages, fails.
type Fails = fn(u64, u32) -> bool;

/// The simulated clock, with a list of the requests it got, some of which fail.
struct Logged(SimTime, Log, Fails);

struct LoggedQueue {
    inner: Box<dyn Queue>,
    log: Log,
    fails: Fails,
    failing: BTreeSet<u64>,
}

impl Logged {
    fn new(device: &SimOptions, file: File, len: u64) -> Self {
        Self(SimTime::new(device, [(file, len)]), Log::default(), |_, _| false)
    }
}

impl OpenQueue for Logged {
    fn name(&self) -> &'static str {
        "logged"
    }

    fn open(&self, depth: u32, buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        let (inner, log) = (self.0.open(depth, buffers)?, Arc::clone(&self.1));
        Ok(Box::new(LoggedQueue { inner, log, fails: self.2, failing: BTreeSet::new() }))
    }
}

impl Queue for LoggedQueue {
    fn submit(&mut self, request: Request) {
        self.log.lock().expect("one thread").push((request.offset, request.len));
        if (self.fails)(request.offset / PAGE, request.len / PAGE as u32) {
            self.failing.insert(request.token);
        }
        self.inner.submit(request);
    }

    fn kick(&mut self) -> io::Result<()> {
        self.inner.kick()
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        let before = done.len();
        self.inner.wait(done)?;
        for completion in &mut done[before..] {
            if self.failing.remove(&completion.token) {
                completion.result = Err(io::Error::other("a bad sector"));
            }
        }
        Ok(())
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
    let is_it = |named: &inspect::table::one::Named| named.name.as_deref() == Some(index);
    let tree = one.trees.iter().find(|tree| tree.named.as_ref().is_some_and(is_it)).expect("the index");
    let index = tree.named.as_ref().and_then(|named| named.index.as_ref());
    let place = ScanPlace { space: &one.space, map: &one.map, root: &tree.root, index, memory, pool: POOL };
    let file = File::open(dir.path().join("scattered.ibd")).expect("opens");
    let device = SimOptions { bandwidth: u64::MAX, ..SimOptions::default() };
    let logged = Logged::new(&device, file, one.len);
    let options = ReadOptions { io: IoMode::Direct, depth: DEPTH, block_size: BLOCK, ..ReadOptions::default() };
    let engines: [&dyn OpenQueue; 1] = [&logged];
    let (set, counters) = (logged.0.file_set(), Counters::new(1));
    let server = policy.rules().and_then(|rules| place.server(&set, &engines, FileHandle::of_engine(), rules));
    let counts = match &server {
        None => place.walk(&set, &options, &engines, policy, &counters),
        Some(server) => place.walk(&server.file_set(), &options, &[server], policy, &counters),
    };
    let counts = counts.expect("sound").expect("can be read so");
    assert_eq!(counts.records, 10_000, "{policy:?}");
    let requests = logged.1.lock().expect("one thread").clone();
    let effort = server.as_ref().map_or_else(|| counters.total(), Server::counts);
    let device = logged.0.counts();
    assert_eq!((effort.requests, effort.in_flight_max), (requests.len() as u64, device.in_flight_max), "{policy:?}");
    Scan { requests, time: logged.0.elapsed(), in_flight_max: device.in_flight_max, pages: counts.pages }
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
            assert_eq!(read.len(), once.len(), "{index}, {policy:?}: none twice");
            if policy.rules().is_some_and(|rules| rules.random) {
                assert!(once.is_superset(&all), "{index}, {policy:?}: whole areas, with pages of other indexes");
                continue;
            }
            assert_eq!(once.len() as u64, pages.pages, "{index}, {policy:?}: no other page");
            assert!(all.is_empty() || all == once, "{index}, {policy:?}: the same pages");
            all = once;
        }
    }
}

#[test]
fn random_read_ahead_reads_what_the_rule_says_on_a_scattered_tree() {
    let (dir, one) = table();
    let none = scan(&dir, &one, "PRIMARY", Policy::None);
    let random = scan(&dir, &one, "PRIMARY", Policy::Random);
    // The rule, on the order in which pages are needed: the pool is larger than the file, so all in it are young.
    let (mut there, mut accessed, mut expected) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for page in none.pages() {
        if there.insert(page) {
            expected.push(page);
            let area = page / 64 * 64..(page / 64 * 64 + 64).min(one.len / PAGE);
            if accessed.range(area.clone()).count() >= 13 {
                expected.extend(area.filter(|page| page % PAGE != 1 && there.insert(*page)));
            }
        }
        accessed.insert(page);
    }
    let (mut read, alone) = (random.pages(), random.requests.iter().filter(|(_, len)| *len == PAGE as u32).count());
    assert!(alone < random.pages().len() / 2, "most of it is read ahead: {alone}");
    read.sort_unstable();
    expected.sort_unstable();
    assert_eq!(read, expected);
    assert!(2 * random.time < none.time, "{:?}, {:?}", random.time, none.time);
    let both = scan(&dir, &one, "PRIMARY", Policy::Both);
    assert_eq!(both.requests, random.requests, "nothing is in order, so the other rule adds nothing");
}

/// A file of pages whose numbers are their content, read through a server's pool of so many pages in this order. Each page links to its
/// neighbours in the file. Returns the runs of pages read, first page and number.
fn served(file_pages: u32, pool: usize, rules: Rules, order: &[u32]) -> Vec<(u64, u32)> {
    let (runs, lost) = served_where((file_pages, pool, rules), order, |_, _| false);
    assert_eq!(lost, [""; 0]);
    runs
}

/// The same from a device on which some requests fail: also the errors of the pages that could not be read.
fn served_where(
    (file_pages, pool, rules): (u32, usize, Rules),
    order: &[u32],
    fails: Fails,
) -> (Vec<(u64, u32)>, Vec<String>) {
    let mut bytes = vec![0_u8; file_pages as usize * PAGE as usize];
    for (number, page) in (0_u32..).zip(bytes.chunks_mut(PAGE as usize)) {
        page.fill(number as u8);
        page[8..12].copy_from_slice(&number.wrapping_sub(1).to_be_bytes());
        page[12..16].copy_from_slice(&(number + 1).to_be_bytes());
    }
    let path = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(path.path(), &bytes).expect("written");
    let file = File::open(path.path()).expect("opens");
    let logged = Logged(SimTime::new(&SimOptions::default(), [(file, bytes.len() as u64)]), Log::default(), fails);
    let engines: [&dyn OpenQueue; 1] = [&logged];
    let device = Device {
        engines: &engines,
        handle: FileHandle::of_engine(),
        len: bytes.len() as u64,
        depth: DEPTH,
        block: BLOCK,
    };
    let server = Server::new(device, rules, pool, PAGE as u32);
    let (set, plan, counters): (FileSet, _, _) = (server.file_set(), GatherPlan::new(BLOCK), Counters::new(1));
    let options = ReadOptions { io: IoMode::Direct, depth: DEPTH, block_size: BLOCK, ..ReadOptions::default() };
    let engines: [&dyn OpenQueue; 1] = [&server];
    let mut gather =
        Gather::with_engines(&set, &plan, &options, ReadAhead::None, counters.worker(0), &engines).expect("sizes");
    let mut lost = Vec::new();
    for page in order {
        gather.ask(Want { file: FileId(0), offset: u64::from(*page) * PAGE, len: PAGE as u32, tag: 0 });
        let got = gather.next().expect("asked for");
        if let Some(error) = got.lost {
            lost.push(error.to_string());
            continue;
        }
        assert_eq!(got.bytes.len(), PAGE as usize);
        assert!(got.bytes[16..].iter().all(|byte| *byte == *page as u8), "the bytes of page {page}");
    }
    let runs = logged.1.lock().expect("one thread").clone();
    assert_eq!(server.counts().requests, runs.len() as u64);
    (runs.iter().map(|(offset, len)| (offset / PAGE, len / PAGE as u32)).collect(), lost)
}

const NEITHER: Rules = Rules { linear: false, random: false };
const LINEAR: Rules = Rules { linear: true, random: false };
const RANDOM: Rules = Rules { linear: false, random: true };
const BOTH: Rules = Rules { linear: true, random: true };

#[test]
fn thirteen_pages_of_an_area_in_any_order_bring_the_others_and_twelve_do_not() {
    // 27 and 64 have no common factor, and no page follows its neighbour.
    let shuffled: Vec<u32> = (0..64).map(|at| 128 + at * 27 % 64).collect();
    assert!(served(640, 2048, RANDOM, &shuffled[..13]).iter().all(|(_, pages)| *pages == 1));
    let runs = served(640, 2048, RANDOM, &shuffled[..14]);
    assert_eq!(runs[..13].iter().map(|(page, _)| *page as u32).collect::<Vec<_>>(), shuffled[..13]);
    assert_eq!(runs[..14].iter().map(|(_, pages)| pages).sum::<u32>(), 14, "one by one");
    assert_eq!(runs[14..].iter().map(|(_, pages)| pages).sum::<u32>(), 50, "then the other 50 pages at once");
    assert_eq!(served(640, 2048, RANDOM, &shuffled), runs, "all 64 cost no more");
    assert_eq!(served(640, 2048, LINEAR, &shuffled).len(), 64, "nothing is in order");
}

#[test]
fn an_area_in_order_brings_the_next_one() {
    let order: Vec<u32> = (64..64 * 4).collect();
    let runs = served(64 * 8, 2048, LINEAR, &order);
    assert_eq!(runs[..64], (64..128).map(|page| (page, 1)).collect::<Vec<_>>(), "the first area is read page by page");
    let ahead: Vec<(u64, u32)> = (128..64 * 5).step_by(16).map(|page| (page, 16)).collect();
    assert_eq!(runs[64..], ahead, "from then on, an area of four requests each: one more than was asked for");
    assert!(served(64 * 8, 2048, NEITHER, &order).iter().all(|(_, pages)| *pages == 1));
}

#[test]
fn both_rules_together_read_what_either_would() {
    let order: Vec<u32> = (64..64 * 4).collect();
    let runs = served(64 * 8, 2048, BOTH, &order);
    // The fourteenth page brings the rest of the first area; its end, now that it was accessed in order, the areas after it.
    assert_eq!(runs[..14], (64..78).map(|page| (page, 1)).collect::<Vec<_>>());
    assert_eq!(runs[14..18], [(78, 16), (94, 16), (110, 16), (126, 2)]);
    assert_eq!(runs[18..], (128..64 * 5).step_by(16).map(|page| (page, 16)).collect::<Vec<_>>());
    let random = served(64 * 8, 2048, RANDOM, &order);
    assert_eq!(random.len(), 3 * 18, "each area begins one by one");
}

#[test]
fn a_page_in_the_pool_is_not_read_again_and_an_evicted_one_is() {
    let order: Vec<u32> = (0..600).collect();
    let twice = [&order[..], &order].concat();
    for rules in [NEITHER, LINEAR, RANDOM, BOTH] {
        let pages = |order: &[u32]| served(600, 600, rules, order).iter().map(|(_, pages)| pages).sum::<u32>();
        assert_eq!((pages(&order), pages(&twice)), (600, 600), "{rules:?}");
    }
}

#[test]
fn a_pool_smaller_than_the_table_reads_the_rest_of_it_again() {
    // Fewer pages than have an old part: a plain list, in which each page is evicted just before it is needed again.
    let order: Vec<u32> = (0..400).collect();
    let twice = [&order[..], &order].concat();
    assert_eq!(served(400, 400, NEITHER, &twice).len(), 400);
    assert_eq!(served(400, 399, NEITHER, &twice).len(), 800);
    // With an old part, the pages that were young when the pool filled stay, and the second pass finds them. A plain list would read all
    // pages twice. (An independent program of the server's list gave the number.)
    let order: Vec<u32> = (0..800).collect();
    let twice = [&order[..], &order].concat();
    let runs = served(800, 700, NEITHER, &twice);
    assert_eq!(runs[..800], order.iter().map(|page| (u64::from(*page), 1)).collect::<Vec<_>>());
    let again: BTreeSet<u64> = runs[800..].iter().map(|(page, _)| *page).collect();
    assert_eq!((runs.len() - 800, again.len()), (377, 377), "no page is read three times");
    assert!(again.range(208..512).next().is_none() && again.range(..208).count() == 208, "{again:?}");
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

#[test]
fn pages_whose_read_ahead_fails_are_read_when_they_are_needed_and_bad_ones_are_lost_by_name() {
    let order: Vec<u32> = (64..64 * 3).collect();
    let (runs, lost) = served_where((64 * 8, 2048, BOTH), &order, |_, pages| pages > 1);
    assert_eq!(lost, [""; 0], "the device reads single pages well");
    let alone: BTreeSet<u64> = runs.iter().filter(|(_, pages)| *pages == 1).map(|(page, _)| *page).collect();
    assert_eq!(alone, order.iter().map(|page| u64::from(*page)).collect(), "each was read by itself in the end");
    assert!(runs.iter().any(|(_, pages)| *pages > 1), "and more was tried");
    let (_, lost) =
        served_where((64 * 8, 2048, BOTH), &order, |first, pages| (first..first + u64::from(pages)).contains(&100));
    assert_eq!(lost, ["a bad sector"], "page 100");
}
