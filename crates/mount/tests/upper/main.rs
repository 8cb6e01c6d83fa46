//! An upper over a base in memory, on a simulated device: killed and without power at any write or sync. `FLOW_SEED=n` replays one history.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod disk;
mod model;

use std::sync::Arc;

use flow::queue::sim::Random;
use innokit_mount::upper::{Attrs, Upper};

use disk::SimDisk;
use model::{MemoryBase, Model, carry_out, head};

/// Operations between two ends of the process.
const STEPS: u64 = 25;
/// Ends of one history.
const ENDS: u64 = 6;

fn histories() -> std::ops::Range<u64> {
    let one = std::env::var("FLOW_SEED").ok().and_then(|seed| seed.parse().ok());
    let all = if std::env::var_os("INNOKIT_SOAK").is_some() { 2500 } else { 60 };
    one.map_or(0..all, |seed| seed..seed + 1)
}

fn begin(disk: &Arc<SimDisk>, base: &MemoryBase) -> Upper {
    let entries = base.entries();
    let disk = Arc::clone(disk);
    Upper::fresh(disk, Arc::new(base.clone()), head("boot 0"), Attrs::default(), &entries).expect("begun")
}

#[test]
fn an_upper_shows_what_was_written_and_a_killed_process_loses_none_of_it() {
    for seed in histories() {
        let (mut random, base) = (Random::new(seed), MemoryBase::new());
        let disk = Arc::new(SimDisk::new(seed));
        let mut upper = begin(&disk, &base);
        let mut model = Model::of(&upper);
        for end in 0..3 {
            for step in 0..STEPS {
                let step_is = model.choose(&mut random);
                carry_out(&upper, &step_is).unwrap_or_else(|error| panic!("{seed}: {step_is:?}: {error}"));
                model.step(&step_is);
                model.assert_is(&upper, &format!("FLOW_SEED={seed}, step {step} of process {end}: {step_is:?}"));
            }
            // Killed: nothing is synced, and the machine goes on.
            drop(upper);
            let same = Arc::clone(&disk);
            upper = Upper::open(same, Arc::new(base.clone()), "boot 0").expect("opened");
            model.assert_is(&upper, &format!("FLOW_SEED={seed}, after process {end}"));
        }
    }
}

#[test]
fn a_power_cut_loses_nothing_that_was_synced() {
    for seed in histories() {
        let (mut random, base) = (Random::new(seed), MemoryBase::new());
        let mut disk = Arc::new(SimDisk::new(seed));
        let mut upper = begin(&disk, &base);
        let mut model = Model::of(&upper);
        for end in 1..=ENDS {
            disk.device.crash_at(disk.device.operations() + 1 + random.below(4 * STEPS));
            for _ in 0..STEPS {
                let step = model.choose(&mut random);
                // Before it is carried out: it may be done in part.
                model.step(&step);
                match carry_out(&upper, &step) {
                    Ok(()) => model.succeeded(&step),
                    Err(_) if disk.device.has_crashed() => break,
                    Err(error) => panic!("FLOW_SEED={seed}: {step:?}: {error}"),
                }
            }
            drop(upper);
            disk = Arc::new(disk.after_power_cut(seed * 31 + end));
            // The power may go again while it is opened.
            while random.below(3) == 0 {
                disk.device.crash_at(disk.device.operations() + 1 + random.below(8));
                drop(Upper::open(Arc::clone(&disk) as _, Arc::new(base.clone()), &format!("boot {end}")));
                disk = Arc::new(disk.after_power_cut(random.number()));
            }
            upper =
                Upper::open(Arc::clone(&disk) as _, Arc::new(base.clone()), &format!("boot {end}")).expect("opened");
            model.assert_may_be(&upper, &format!("FLOW_SEED={seed}, power cut {end}"));
            model = Model::of(&upper);
        }
    }
}

#[test]
fn a_sync_that_failed_is_not_followed_by_one_that_succeeds() {
    use std::ffi::OsStr;

    use innokit_mount::upper::{Kind, ROOT};
    let (disk, base) = (Arc::new(SimDisk::new(1)), MemoryBase::new());
    let upper = begin(&disk, &base);
    let id = upper.create(ROOT, OsStr::new("new"), Kind::File, Attrs::default()).expect("made");
    upper.write(id, b"row", 0).expect("written");
    // The next is the sync of the data.
    disk.device.fail_at(disk.device.operations() + 1);
    assert!(upper.sync(id).is_err());
    let again = upper.sync(id).expect_err("the kernel may have dropped the bytes");
    assert!(again.to_string().contains("an earlier sync of this file failed"), "{again}");
}
