//! How much memory there is, and giving back what was freed.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "a function of the C library without a safe wrapper")
)]

use std::fs;
use std::path::Path;

/// Files of a control group that say how much memory its processes may take, and how much they have. Their units are bytes.
struct GroupFiles {
    /// Where groups are mounted.
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Rows of `memory.stat` for cached file contents, which the kernel drops before it refuses memory.
    cached: [&'static str; 2],
}

/// Version 2 and version 1 (cgroups(7)).
const GROUP_FILES: [GroupFiles; 2] = [
    GroupFiles {
        root: "sys/fs/cgroup",
        limit: "memory.max",
        used: "memory.current",
        cached: ["inactive_file", "active_file"],
    },
    GroupFiles {
        root: "sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        cached: ["total_inactive_file", "total_active_file"],
    },
];

/// Bytes of memory that this process can take before the system swaps, or the control group that it runs in ends it: what the kernel
/// estimates (`MemAvailable`, proc(5)), or what the tightest of its control groups leaves. `None` where the system does not say.
#[must_use]
pub fn available_memory() -> Option<u64> {
    available_below(Path::new("/"))
}

fn available_below(root: &Path) -> Option<u64> {
    let estimate = number_in(&root.join("proc/meminfo"), "MemAvailable:").map(|kib| kib.saturating_mul(1 << 10));
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let left = GROUP_FILES.iter().filter_map(|files| left_in_groups(root, files, &groups));
    left.chain(estimate).min()
}

/// What the group of this process, and those around it, leave. Only a group with a limit says anything.
fn left_in_groups(root: &Path, files: &GroupFiles, groups: &str) -> Option<u64> {
    let own = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        // Version 2 has one tree for all controllers, and names none.
        let is_its = if files.limit == "memory.max" { controllers.is_empty() } else { controllers == "memory" };
        is_its.then_some(path.trim_start_matches('/'))
    });
    // Seen from within a container, the path may be that of the host, which is not there: the container's own group is the root then.
    let around = Path::new(own?).ancestors().map(|group| root.join(files.root).join(group));
    around.filter_map(|group| left_in(&group, files)).min()
}

fn left_in(group: &Path, files: &GroupFiles) -> Option<u64> {
    let number = |name| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let (limit, used) = (number(files.limit)?, number(files.used)?);
    let cached: u64 = files.cached.iter().filter_map(|row| number_in(&group.join("memory.stat"), row)).sum();
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

/// The number after the word `name` that begins a line.
fn number_in(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let mut words =
        text.lines().map(str::split_whitespace).find_map(|mut words| (words.next()? == name).then_some(words))?;
    words.next()?.parse().ok()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    // It takes the allocator's own locks, and has no other condition.
    safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
}

/// Gives the pages of freed blocks back, also those between blocks in use. The C library keeps them otherwise: what is left of a batch of
/// files lies between the buffers of their pages, and the next batch would take new memory for its own.
#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu")),
    expect(clippy::missing_const_for_fn, reason = "it is none on Linux")
)]
pub fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    malloc_trim(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A system with these files.
    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 9999999 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n");

    #[test]
    fn without_groups_it_is_what_the_kernel_estimates() {
        assert_eq!(available_below(system(&[MEMINFO]).path()), Some(4096 * MIB));
        let unlimited = [MEMINFO, ("proc/self/cgroup", "0::/user/shell\n"), ("sys/fs/cgroup/user/memory.max", "max\n")];
        assert_eq!(available_below(system(&unlimited).path()), Some(4096 * MIB));
        assert_eq!(available_below(system(&[]).path()), None);
    }

    #[test]
    fn the_tightest_group_around_the_process_decides_and_cached_files_are_free() {
        let (gib, used) = ((1024 * MIB).to_string(), (600 * MIB).to_string());
        let stat = format!("anon 5\nfile 7\ninactive_file {}\nactive_file {}\n", 150 * MIB, 50 * MIB);
        let tight = "sys/fs/cgroup/jobs/innokit.service";
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "0::/jobs/innokit.service\n"),
            (&format!("{tight}/memory.max"), "max\n"),
            ("sys/fs/cgroup/jobs/memory.max", &gib),
            ("sys/fs/cgroup/jobs/memory.current", &used),
            ("sys/fs/cgroup/jobs/memory.stat", &stat),
        ];
        assert_eq!(available_below(system(&files).path()), Some(624 * MIB));
    }

    #[test]
    fn in_a_container_of_version_1_the_root_is_its_group() {
        let (limit, used) = ((256 * MIB).to_string(), (300 * MIB).to_string());
        let stat = format!("inactive_file 1\ntotal_inactive_file {}\ntotal_active_file 0\n", 100 * MIB);
        let files = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,cpuacct:/docker/1a\n9:memory:/docker/1a\n0::/docker/1a\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", &limit),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", &used),
            ("sys/fs/cgroup/memory/memory.stat", &stat),
        ];
        assert_eq!(available_below(system(&files).path()), Some(56 * MIB));
    }
}
