//! Several workers sweep one tree: all of them take leaves, each leaf is read and delivered once, and a doubt ends the sweep for all.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Barrier, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use datadir::tablespace::{Opener, Tablespace};
use flow::{Counters, Gather, GatherPlan, ReadAhead, ReadOptions, run_workers};
use format::page::index::IndexPage;
use format::schema::{IndexDef, KeyOrder};
use innokit_inspect::table::one::{NamedTree, One};
use innokit_inspect::tree::walk::crew::{Crew, SweepSubject};
use innokit_inspect::tree::walk::{Depth, Receivers, Tools};
use innokit_inspect::tree::{Leaves, TreeReport, Walk};

/// The table whose leaves are scattered over its file.
fn scattered(dir: &Path) -> PathBuf {
    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scattered/scattered-16k.ibd.zst");
    let bytes = zstd::decode_all(File::open(packed).expect("the fixture")).expect("fixtures are zstd");
    let path = dir.join("scattered.ibd");
    std::fs::write(&path, bytes).expect("written");
    path
}

fn primary(one: &One) -> &NamedTree {
    let is_it = |tree: &&NamedTree| tree.named.as_ref().is_some_and(|named| named.name.as_deref() == Some("PRIMARY"));
    one.trees.iter().find(is_it).expect("the clustered index")
}

/// Lets receivers of leaves wait until enough threads have arrived.
struct Meeting {
    received: Mutex<Received>,
    changed: Condvar,
    threads_min: usize,
}

#[derive(Default)]
struct Received {
    /// How often each page was received.
    pages: BTreeMap<u32, usize>,
    threads: HashSet<ThreadId>,
}

impl Meeting {
    fn of(threads_min: usize) -> Self {
        Self { received: Mutex::default(), changed: Condvar::new(), threads_min }
    }

    fn pages(&self) -> Vec<(u32, usize)> {
        self.received.lock().expect("no panic").pages.iter().map(|(page_no, times)| (*page_no, *times)).collect()
    }
}

struct Attending<'m>(&'m Meeting);

impl Leaves for Attending<'_> {
    fn leaf(&mut self, page: &IndexPage<'_>, _: &Tablespace, _: &mut Opener) {
        let Self(meeting) = self;
        let mut received = meeting.received.lock().expect("no panic");
        *received.pages.entry(page.page_no().0).or_default() += 1;
        if received.threads.insert(std::thread::current().id()) {
            meeting.changed.notify_all();
        }
        let too_few = |received: &mut Received| received.threads.len() < meeting.threads_min;
        let waited = meeting.changed.wait_timeout_while(received, Duration::from_secs(60), too_few);
        assert!(!waited.expect("no panic").1.timed_out(), "the other workers take no leaves");
    }
}

/// Sweeps with this many workers, then walks in key order if there was a doubt. Returns the report, whether the sweep sufficed, and the
/// bytes read.
fn sweep(one: &One, workers: usize, memory: u64, meeting: &Meeting) -> (TreeReport, bool, u64) {
    let index = primary(one).named.as_ref().and_then(|named| named.index.as_ref());
    sweep_as(one, index, workers, memory, meeting)
}

/// The same with another definition of the index.
fn sweep_as(
    one: &One,
    index: Option<&IndexDef>,
    workers: usize,
    memory: u64,
    meeting: &Meeting,
) -> (TreeReport, bool, u64) {
    let tree = primary(one);
    let receivers = Receivers::new(one.space.pages(), || Box::new(Attending(meeting)));
    let place = (&one.space, &one.map);
    let crew = Crew::new(workers, 1);
    let counters = Counters::new(workers);
    let options = ReadOptions { block_size: 256 << 10, depth: 32, ..ReadOptions::default() };
    // A helper that starts before the leader has its lead finds nobody to help, and leaves.
    let begun = Barrier::new(workers);
    let reports = run_workers(workers, |worker| {
        let lead = crew.lead();
        begun.wait();
        let plan = GatherPlan::new(options.block_size);
        let mut gather =
            Gather::new(&one.set, &plan, &options, ReadAhead::LOGICAL, counters.worker(worker)).expect("an engine");
        let mut tools = Tools::default();
        let report = (worker == 0).then(|| {
            let subject = SweepSubject {
                place,
                root: &tree.root,
                index: index.cloned().map(std::sync::Arc::new),
                receivers: Some(receivers.clone()),
            };
            let walk =
                || Walk::new(place, &tree.root, index, Depth::Check, 1000).received_by(subject.receivers.as_ref());
            let swept = walk().sweep(&mut gather, &mut tools, memory, Some((&crew, &subject)));
            let is_enough = swept.is_some();
            (swept.unwrap_or_else(|| walk().run(&mut gather, &mut tools)), is_enough)
        });
        lead.help(&mut gather, &mut tools);
        report
    });
    let (report, is_enough) = reports.into_iter().flatten().next().expect("the leader's");
    (report, is_enough, counters.total().bytes_read)
}

#[test]
fn all_workers_take_leaves_and_each_page_is_read_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let one = One::open(&scattered(dir.path())).expect("a tablespace");
    let mut expected = None;
    // With little memory the leaves come in many stretches, each of which the workers share.
    for (workers, memory) in [(1, 32 << 20), (2, 32 << 20), (3, 32 << 20), (8, 0), (8, 32 << 20)] {
        let meeting = Meeting::of(if memory > 0 { workers.min(3) } else { 1 });
        let (report, is_enough, bytes) = sweep(&one, workers, memory, &meeting);
        assert!(is_enough && report.is_complete && report.findings_total == 0, "{:?}", report.findings);
        assert_eq!(bytes, report.counts.pages * 16384, "{workers} workers");
        let pages = meeting.pages();
        assert!(pages.len() as u64 == report.counts.leaves && pages.iter().all(|(_, times)| *times == 1));
        assert!(report.counts.leaves > 256 && report.counts.records == 10_000);
        let told = (report.counts, pages, report.left_out);
        assert_eq!(expected.get_or_insert(told.clone()), &told, "{workers} workers");
    }
}

#[test]
fn an_order_of_keys_that_is_unknown_is_no_doubt() {
    let dir = tempfile::tempdir().expect("a directory");
    let one = One::open(&scattered(dir.path())).expect("a tablespace");
    let named = primary(&one).named.as_ref().and_then(|named| named.index.as_ref());
    let mut index = named.expect("its definition").clone();
    index.fields.iter_mut().for_each(|field| field.order = KeyOrder::Unknown);
    for (workers, memory) in [(1, 0), (1, 32 << 20), (3, 0), (8, 32 << 20)] {
        let (report, is_enough, bytes) = sweep_as(&one, Some(&index), workers, memory, &Meeting::of(1));
        assert!(is_enough && report.is_complete && report.findings_total == 0, "{workers}: {:?}", report.findings);
        assert_eq!((bytes, report.counts.records), (report.counts.pages * 16384, 10_000), "{workers} workers");
    }
}

#[test]
fn a_doubt_of_one_worker_ends_the_sweep_and_no_leaf_is_received_twice() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = scattered(dir.path());
    let leaves: Vec<u32> = {
        let meeting = Meeting::of(1);
        sweep(&One::open(&path).expect("a tablespace"), 1, 32 << 20, &meeting);
        meeting.pages().into_iter().map(|(page_no, _)| page_no).collect()
    };
    let sound = std::fs::read(&path).expect("a file");
    for broken in [leaves[0], leaves[leaves.len() / 2], leaves[leaves.len() - 1]] {
        let mut bytes = sound.clone();
        bytes[broken as usize * 16384 + 9000] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        let one = One::open(&path).expect("a tablespace");
        for workers in [1, 2, 8] {
            let meeting = Meeting::of(1);
            let (report, is_enough, _) = sweep(&one, workers, 32 << 20, &meeting);
            assert!(!is_enough && !report.is_complete);
            let found: Vec<_> = report.findings.iter().map(|found| (found.rule.as_str(), found.page_no)).collect();
            assert_eq!(found, [("checksum_mismatch", Some(broken))], "{workers} workers");
            let received: BTreeSet<u32> = meeting.pages().into_iter().map(|(page_no, _)| page_no).collect();
            assert!(meeting.pages().iter().all(|(_, times)| *times == 1), "{workers} workers");
            let expected: BTreeSet<u32> = leaves.iter().copied().filter(|leaf| *leaf != broken).collect();
            assert_eq!(received, expected, "{workers} workers");
        }
    }
}
