//! Recovery on a device that loses power at any write or sync: the next run gives the same bytes.

use std::time::Duration;

use datadir::keys::KeyFiles;
use flow::FileId;
use flow::queue::Operation;
use flow::queue::sim::{SimDevice, SimOptions};
use flow::rewrite::RewriteOptions;
use innokit_recovery::Simulated;
use tempfile::TempDir;

use crate::encrypted;
use crate::server::Server;

/// `INNOKIT_RECOVER_POWER_CUTS`, 20 by default.
fn power_cuts() -> u64 {
    std::env::var("INNOKIT_RECOVER_POWER_CUTS").ok().and_then(|number| number.parse().ok()).unwrap_or(20)
}

/// A few pages at a time, so that there are many writes and syncs to interrupt.
const WRITING: RewriteOptions = RewriteOptions {
    memory: 512 << 10,
    stretch_max: 64 << 10,
    depth: 4,
    workers: 0,
    overlap: true,
    shadow_max: 256 << 10,
    tag: 0,
};
/// Bytes of the log in a round.
const ROUND: u64 = 512 << 10;

fn device(job: &Simulated, seed: u64) -> SimDevice {
    let device = SimDevice::new(SimOptions { seed, ..SimOptions::default() });
    for bytes in job.contents.iter().chain([&Vec::new()]) {
        device.add_file(bytes.clone());
    }
    device
}

fn assert_recovered(device: &SimDevice, expected: &[Vec<u8>], context: &str) {
    for (number, expected) in (0..).zip(expected) {
        assert!(device.contents(FileId(number)) == *expected, "{context}: file {number} differs");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn recovery_that_loses_power_at_any_write_goes_on_and_ends_in_the_same_bytes() {
    let dir = TempDir::new().expect("a directory");
    let server = Server::start(&dir.path().join("crashed"), &["--innodb-log-file-size=64M"]);
    server.crash(Duration::from_millis(300));
    assert_survives_power_cuts(&Simulated::plan(&server.0, &KeyFiles::default()).expect("a plan"), power_cuts());
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn so_does_recovery_of_what_is_encrypted() {
    let dir = TempDir::new().expect("a directory");
    let (server, keys) = encrypted::start(dir.path(), &encrypted::EVERYTHING);
    server.crash(Duration::from_millis(300));
    assert_survives_power_cuts(&Simulated::plan(&server.0, &keys).expect("a plan"), power_cuts().div_ceil(4));
}

fn assert_survives_power_cuts(job: &Simulated, cuts: u64) {
    let undisturbed = device(job, 0);
    job.recover_pages(&undisturbed, WRITING, ROUND).expect("recovers");
    let operations = undisturbed.operations();
    let expected: Vec<Vec<u8>> =
        (0..).take(job.contents.len()).map(|file| undisturbed.contents(FileId(file))).collect();
    let at_once = device(job, 0);
    job.recover_pages(&at_once, RewriteOptions { workers: 0, ..RewriteOptions::default() }, u64::MAX)
        .expect("recovers");
    assert_recovered(&at_once, &expected, "in one round");
    for cut in 0..cuts {
        let before = device(job, cut);
        // Cuts spread over all operations, slightly different each time, and twice in a row.
        before.crash_at(1 + (cut * operations / cuts + cut) % operations.max(1));
        drop(job.recover_pages(&before, WRITING, ROUND));
        let between = before.reopen(cut);
        between.crash_at(1 + cut * 7919 % operations.max(1));
        drop(job.recover_pages(&between, WRITING, ROUND));
        let left = between.reopen(cut ^ 0x55);
        let context = format!("cut {cut} of {cuts}, {operations} operations");
        job.recover_pages(&left, WRITING, ROUND).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_recovered(&left, &expected, &context);
    }
    println!("{} power cuts, {operations} operations in an undisturbed run", 2 * cuts);
    // A device that fails and is repaired.
    for (number, operation) in (0..4).flat_map(|file| [(file, Operation::Write), (file, Operation::Sync)]) {
        let failing = device(job, number);
        let file = FileId(number as u32);
        failing.fail(operation, file, 0..u64::MAX);
        drop(job.recover_pages(&failing, WRITING, ROUND));
        failing.heal();
        let left = failing.reopen(number);
        job.recover_pages(&left, WRITING, ROUND).expect("recovers");
        assert_recovered(&left, &expected, &format!("{operation:?} of {file:?} failed"));
    }
}
