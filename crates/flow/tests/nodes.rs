//! Workers and the memory nodes of the machine. `scripts/test-nodes.sh` runs this in a virtual machine that has two.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]
#![expect(unsafe_code, reason = "neither std nor rustix wraps get_mempolicy")]

use std::collections::BTreeSet;

use innokit_flow::{BufferPool, run_workers};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Flags of `get_mempolicy(2)`: the node on which the page at an address is.
const MPOL_F_NODE: libc::c_ulong = 1;
const MPOL_F_ADDR: libc::c_ulong = 2;

/// Set where the machine is known to have two nodes with memory to spare.
const TWO_NODES: &str = "INNOKIT_TWO_NODES";

fn processors() -> BTreeSet<usize> {
    let set = sched_getaffinity(None).expect("asked");
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// The node of a processor: the link `nodeN` beside it.
fn node_of_processor(core: usize) -> Option<usize> {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).ok()?;
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.find_map(|name| name.strip_prefix("node")?.parse().ok())
}

fn nodes(processors: &BTreeSet<usize>) -> BTreeSet<Option<usize>> {
    processors.iter().map(|core| node_of_processor(*core)).collect()
}

fn node_of_memory(bytes: &[u8]) -> Option<usize> {
    let mut node: libc::c_int = -1;
    // SAFETY: the call writes one integer, which lives until it returns, and reads no memory: the address only names a page.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut node,
            std::ptr::null_mut::<libc::c_ulong>(),
            0_usize,
            bytes.as_ptr(),
            MPOL_F_NODE | MPOL_F_ADDR,
        )
    };
    usize::try_from(node).ok().filter(|_| failed == 0)
}

#[test]
fn each_worker_stays_on_one_node_and_its_buffers_are_there() {
    let before = processors();
    let several = nodes(&before).len() > 1;
    let two = std::env::var_os(TWO_NODES).is_some();
    assert!(several || !two, "this machine was said to have two nodes");
    let workers = run_workers(4, |_| {
        let mut pool = BufferPool::in_huge_pages(2, 1 << 20).expect("memory");
        let mut buffer = pool.take().expect("two are free");
        buffer.bytes_mut().fill(1);
        (processors(), node_of_memory(buffer.bytes()))
    });
    assert_eq!(processors(), before, "the caller has its processors back");
    let on: Vec<_> = workers.iter().map(|(processors, _)| nodes(processors)).collect();
    for ((processors, memory), on) in workers.iter().zip(&on) {
        assert!(processors.is_subset(&before));
        assert_eq!(on.len(), 1, "{processors:?}");
        // A node may be out of memory, so elsewhere this would be luck.
        if two {
            assert_eq!(memory.as_ref(), on.first().expect("one").as_ref());
        }
    }
    let used: BTreeSet<_> = on.into_iter().flatten().collect();
    assert_eq!(used.len() > 1, several, "{used:?}");
    if !several {
        assert!(workers.iter().all(|(processors, _)| *processors == before), "nothing to choose");
    }
}
