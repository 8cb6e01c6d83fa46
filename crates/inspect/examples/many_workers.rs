//! How much faster several workers sweep one clustered index, on a simulated device and with a given cost of the processor's work:
//! `cargo run --release -p innokit-inspect --example many_workers -- t.ibd 1,2,16 1000`
//!
//! The arguments are a tablespace in one file, numbers of workers, and microseconds of work per leaf. The work is a pause, so that a machine
//! with two cores can show sixteen workers. The device takes half a millisecond for each of 64 requests at a time; its time passes.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datadir::tablespace::{Opener, Tablespace};
use flow::queue::OpenQueue;
use flow::queue::sim::{Pace, SimDevice, SimOptions};
use flow::{Counters, Gather, GatherPlan, IoMode, ReadAhead, ReadOptions, run_workers};
use format::page::index::IndexPage;
use format::schema::IndexDef;
use innokit_inspect::table::one::{NamedTree, One};
use innokit_inspect::tree::walk::crew::{Crew, SweepSubject};
use innokit_inspect::tree::walk::{Depth, Receivers, Tools};
use innokit_inspect::tree::{Leaves, Walk};

/// Memory of all workers' look-ahead, and for the state of unread leaves, as in `table check`.
const AHEAD: u64 = 32 << 20;
const STATE: u64 = 64 << 20;

/// The processor's work on a leaf.
struct Work(Duration);

impl Leaves for Work {
    fn leaf(&mut self, _: &IndexPage<'_>, _: &Tablespace, _: &mut Opener) {
        std::thread::sleep(self.0);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("a tablespace is needed")?;
    let workers = words.next().unwrap_or_else(|| "1,2,16".to_owned());
    let cost = Duration::from_micros(words.next().map_or(Ok(1000), |word| word.parse())?);
    let one = One::open(path.as_ref())?;
    let is_clustered = |tree: &&NamedTree| definition(tree).is_some_and(IndexDef::is_clustered);
    let tree = one.trees.iter().filter(is_clustered).max_by_key(|tree| tree.root.pages).ok_or("no clustered index")?;
    let device = SimDevice::new(SimOptions { pace: Pace::Real, bandwidth: u64::MAX, ..SimOptions::default() });
    device.add_file(std::fs::read(&path)?);
    let mut first = None;
    for workers in workers.split(',') {
        let workers: usize = workers.parse()?;
        let (time, leaves) = sweep(&one, tree, &device, workers, cost)?;
        let first = *first.get_or_insert(time.as_secs_f64());
        let times = first / time.as_secs_f64();
        println!("{workers:3} workers: {leaves} leaves in {:8.3} s, {times:5.2} times the first", time.as_secs_f64());
    }
    Ok(())
}

fn definition(tree: &NamedTree) -> Option<&IndexDef> {
    tree.named.as_ref()?.index.as_ref()
}

/// The time of one sweep, and the leaves.
fn sweep(
    one: &One,
    tree: &NamedTree,
    device: &SimDevice,
    workers: usize,
    cost: Duration,
) -> Result<(Duration, u64), Box<dyn Error>> {
    let receivers = Receivers::new(one.space.pages(), move || Box::new(Work(cost)));
    let (place, index) = ((&one.space, &one.map), definition(tree));
    let subject =
        SweepSubject { place, root: &tree.root, index: index.cloned().map(Arc::new), receivers: Some(receivers) };
    let (crew, counters, set) = (Crew::new(workers, 256), Counters::new(workers), device.file_set());
    let engines: [&dyn OpenQueue; 1] = [device];
    let options = ReadOptions { io: IoMode::Direct, block_size: 256 << 10, depth: 32, ..ReadOptions::default() };
    let options = options.within(workers, AHEAD);
    let ahead = ReadAhead::Logical { bytes: (AHEAD / workers as u64).min(8 << 20) };
    let start = Instant::now();
    let reports = run_workers(workers, |worker| {
        let lead = crew.lead();
        let plan = GatherPlan::new(options.block_size);
        let mut gather = Gather::with_engines(&set, &plan, &options, ahead, counters.worker(worker), &engines)?;
        let mut tools = Tools::default();
        let report = (worker == 0).then(|| {
            let walk = Walk::new(place, &tree.root, index, Depth::Check, 1).received_by(subject.receivers.as_ref());
            walk.sweep(&mut gather, &mut tools, STATE, Some((&crew, &subject)))
        });
        lead.help(&mut gather, &mut tools);
        Ok::<_, flow::ReaderError>(report.flatten())
    });
    let time = start.elapsed();
    let reports: Vec<_> = reports.into_iter().collect::<Result<_, _>>()?;
    let report =
        reports.into_iter().flatten().next().ok_or("the index is damaged, or the order of its keys unknown")?;
    Ok((time, report.counts.leaves))
}
