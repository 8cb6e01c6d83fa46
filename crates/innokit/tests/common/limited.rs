//! Runs on hostile input: nothing may wait for what never comes, and nothing may take memory out of proportion.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Run;

/// Longer than any run on a small set takes. An emulated processor is slower.
pub const PATIENCE: Duration = Duration::from_secs(if cfg!(target_arch = "aarch64") { 60 } else { 10 });
/// No run on a few megabytes of input has a reason to take more, whatever the input claims. Bytes.
const MEMORY_MAX: u64 = 512 << 20;

/// Runs innokit to its end. Fails if that takes longer than `patience` or more than 512 MiB. The time in which it waits for a processor does not
/// count: others may use them all.
pub fn limited(command: &mut Command, patience: Duration) -> Run {
    let [mut said, mut warned] = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    let same = |file: &File| file.try_clone().expect("the same file");
    let mut child =
        command.stdin(Stdio::null()).stdout(same(&said)).stderr(same(&warned)).spawn().expect("innokit runs");
    let (started, mut peak, mut queued) = (Instant::now(), 0, BTreeMap::new());
    let mut turn = Duration::from_millis(2);
    let ended = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        peak = peak.max(peak_memory(child.id()));
        if started.elapsed() > patience / 10 {
            turn = Duration::from_millis(20);
            note_queued(child.id(), &mut queued);
        }
        if started.elapsed() > patience + queued.values().sum() {
            child.kill().expect("killed");
            panic!("{command:?}: no end after {:?}", started.elapsed());
        }
        sleep(turn);
    };
    assert!(peak < MEMORY_MAX, "{command:?} took {peak} bytes");
    let text = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("read");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (text, errors) = (text(&mut said), text(&mut warned));
    let status = ended.code().unwrap_or_else(|| panic!("{command:?} crashed: {errors}"));
    assert!(!errors.contains("panicked"), "{command:?}: {errors}");
    Run { text, errors, status }
}

fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    // A process that has not begun yet shows the memory of the one that started it.
    let is_running = status.starts_with("Name:\tinnokit\n");
    let line = status.lines().filter(|_| is_running).find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// How long each thread has waited for a processor so far.
fn note_queued(process: u32, queued: &mut BTreeMap<std::ffi::OsString, Duration>) {
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let times = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let nanos = times.split(' ').nth(1).and_then(|time| time.parse().ok()).unwrap_or(0);
        queued.insert(thread.file_name(), Duration::from_nanos(nanos));
    }
}
