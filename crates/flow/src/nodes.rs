//! Memory nodes (NUMA): a worker stays on the processors of one node, because its buffers are there.
//!
//! The system takes a thread's memory from the node on which the thread first touches it. A thread that is later moved to another node
//! reads every byte of its buffers through the link between the two. Only the scheduler's choice is narrowed, not taken away: within its
//! node a worker may run anywhere, and processors that the caller may not use (`taskset`, `numactl`, a container) are never used.

use std::path::Path;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The nodes among which the workers of one caller are spread.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The caller's processors.
    allowed: CpuSet,
    /// Those of them on each node, at least two nodes; the first is the one on which the caller runs.
    shares: Vec<CpuSet>,
    /// Which share each worker takes, one seat for each processor; with more workers it starts over.
    seats: Vec<usize>,
}

impl Nodes {
    /// The nodes of the calling thread's processors. `None` if there is only one, or if the system does not say.
    pub(crate) fn here() -> Option<Self> {
        static MACHINE: OnceLock<Vec<CpuSet>> = OnceLock::new();
        let machine = MACHINE.get_or_init(|| nodes_below(Path::new("/sys/devices/system/node")));
        if machine.len() < 2 {
            return None;
        }
        Self::among(machine, sched_getaffinity(None).ok()?, sched_getcpu())
    }

    fn among(machine: &[CpuSet], allowed: CpuSet, current: usize) -> Option<Self> {
        let shares = machine.iter().map(|node| both(node, &allowed)).filter(|share| share.count() > 0);
        let mut shares: Vec<_> = shares.collect();
        // A caller with a single worker stays where it is. With more workers, callers that run at the same time start on different nodes.
        let first = shares.iter().position(|share| current < CpuSet::MAX_CPU && share.is_set(current)).unwrap_or(0);
        shares.rotate_left(first);
        let seats = seats(&shares);
        (shares.len() > 1).then_some(Self { allowed, shares, seats })
    }

    /// Keeps the calling thread on the node of this worker, numbered from 0, until the guard is dropped. If the system refuses, the thread
    /// goes where it did before, which is slower, not wrong.
    pub(crate) fn stay(&self, worker: usize) -> Stay<'_> {
        let seat = self.seats.get(worker % self.seats.len().max(1));
        if let Some(share) = seat.and_then(|share| self.shares.get(*share)) {
            sched_setaffinity(None, share).ok();
        }
        Stay { back_to: &self.allowed }
    }
}

/// Lets the thread use all its processors again when dropped.
#[derive(Debug)]
pub(crate) struct Stay<'n> {
    back_to: &'n CpuSet,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        sched_setaffinity(None, self.back_to).ok();
    }
}

/// One seat for each processor, the nodes alternating, so that any number of workers is spread by how many processors the nodes have. The
/// first seat is on the first node.
fn seats(shares: &[CpuSet]) -> Vec<usize> {
    let all = shares.iter().enumerate().flat_map(|(node, share)| {
        let cores = share.count();
        (0..cores).map(move |number| (node, f64::from(number) / f64::from(cores)))
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    all.into_iter().map(|(node, _)| node).collect()
}

/// The processors of each node that has any. Source: Linux, `Documentation/ABI/stable/sysfs-devices-node`: `has_cpu` lists such nodes, and
/// `nodeN/cpulist` the processors of one, as in `0-3,8-11`.
fn nodes_below(directory: &Path) -> Vec<CpuSet> {
    let list =
        |name: &str| std::fs::read_to_string(directory.join(name)).map(|text| numbers(&text)).unwrap_or_default();
    let nodes = list("has_cpu");
    if nodes.len() < 2 {
        return Vec::new();
    }
    let processors = nodes.into_iter().map(|node| {
        let mut set = CpuSet::new();
        list(&format!("node{node}/cpulist"))
            .into_iter()
            .filter(|core| *core < CpuSet::MAX_CPU)
            .for_each(|core| set.set(core));
        set
    });
    processors.collect()
}

/// The numbers in a list like `0-3,8`; anything else is skipped.
fn numbers(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse::<usize>().ok()?.min(CpuSet::MAX_CPU))
    });
    ranges.flatten().collect()
}

fn both(one: &CpuSet, other: &CpuSet) -> CpuSet {
    let mut both = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|core| one.is_set(*core) && other.is_set(*core)).for_each(|core| both.set(core));
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        let mut set = CpuSet::new();
        numbers(list).into_iter().for_each(|core| set.set(core));
        set
    }

    fn machine(nodes: &[&str]) -> Vec<CpuSet> {
        nodes.iter().map(|list| set(list)).collect()
    }

    #[test]
    fn lists_of_processors_are_read_as_the_kernel_writes_them() {
        assert_eq!(numbers("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!((numbers("0\n"), numbers("\n"), numbers("none")), (vec![0], vec![], vec![]));
        assert_eq!(numbers("0-18446744073709551615").len(), CpuSet::MAX_CPU + 1, "no list is long");
    }

    #[test]
    fn nodes_are_those_that_have_processors() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            std::fs::write(path, text).expect("written");
        };
        assert_eq!(nodes_below(directory.path()), [], "a system that says nothing");
        write("has_cpu", "0\n");
        write("node0/cpulist", "0-7\n");
        assert_eq!(nodes_below(directory.path()), [], "one node");
        // Node 1 is memory only.
        write("has_cpu", "0,2\n");
        write("node0/cpulist", "0-1,4-5\n");
        write("node1/cpulist", "\n");
        write("node2/cpulist", "2-3,6-7\n");
        assert_eq!(nodes_below(directory.path()), machine(&["0-1,4-5", "2-3,6-7"]));
    }

    #[test]
    fn workers_are_spread_by_the_processors_that_a_node_has_for_the_caller() {
        assert_eq!(seats(&machine(&["0-3", "4-7"])), [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(
            seats(&machine(&["0-1", "2-7"])),
            [0, 1, 1, 1, 0, 1, 1, 1],
            "the first worker stays where the caller runs"
        );
        assert_eq!(seats(&machine(&["3", "4-5", "9"])), [0, 1, 2, 1]);
    }

    #[test]
    fn the_first_worker_stays_on_the_node_of_its_caller() {
        let nodes = Nodes::among(&machine(&["0-3", "4-7", "8-11"]), set("0-11"), 9).expect("three nodes");
        assert_eq!(nodes.shares, machine(&["8-11", "0-3", "4-7"]));
        assert_eq!(nodes.seats.first(), Some(&0));
    }

    #[test]
    fn a_caller_that_is_kept_on_one_node_is_left_alone() {
        let machine = machine(&["0-3", "4-7"]);
        assert!(Nodes::among(&machine, set("4-6"), 4).is_none(), "taskset, numactl, or a worker that has workers");
        assert!(Nodes::among(&machine, set("3-4"), usize::MAX).is_some(), "a processor that the system does not name");
    }

    #[test]
    fn a_thread_has_its_processors_back_afterwards() {
        let before = sched_getaffinity(None).expect("asked");
        let one = (0..CpuSet::MAX_CPU).find(|core| before.is_set(*core)).expect("runs somewhere");
        let share = set(&one.to_string());
        let nodes = Nodes { allowed: before, shares: vec![before, share], seats: vec![0, 1] };
        {
            let _stay = nodes.stay(3);
            assert_eq!(sched_getaffinity(None).expect("asked"), share);
        }
        assert_eq!(sched_getaffinity(None).expect("asked"), before);
    }
}
