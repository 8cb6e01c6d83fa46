//! What a report was measured on: processor, system, file system, and the block device behind a directory with its counters.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

/// The machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// `x86_64`, `aarch64`.
    pub architecture: &'static str,
    /// The processor's name, if the system gives it.
    pub processor: Option<String>,
    /// Cores available to this process.
    pub cores: usize,
    /// Name and release of the system's kernel.
    pub kernel: Option<String>,
}

impl Machine {
    /// Asks the system.
    #[must_use]
    pub fn here() -> Self {
        let line = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let kernel = match (line("/proc/sys/kernel/ostype"), line("/proc/sys/kernel/osrelease")) {
            (Some(name), Some(release)) => Some(format!("{name} {release}")),
            _ => None,
        };
        Self {
            architecture: std::env::consts::ARCH,
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            kernel,
        }
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// The storage below a file or a directory.
#[derive(Clone, Debug, Serialize)]
pub struct Storage {
    /// The directory or file, as given.
    pub path: String,
    /// The file system: `ext4`, `xfs`, `overlay`.
    pub file_system: Option<String>,
    /// Block size of the file system, bytes.
    pub file_system_block: u32,
    /// The block device, if the file system has one of its own.
    pub device: Option<BlockDevice>,
}

/// A block device of Linux.
#[derive(Clone, Debug, Serialize)]
pub struct BlockDevice {
    /// `vda`, `nvme0n1p2`, `dm-0`.
    pub name: String,
    /// Its model, if it has one.
    pub model: Option<String>,
    /// Whether it rotates, if the kernel says.
    pub rotational: Option<bool>,
    /// Its cache: `write back` loses data that was not flushed, `write through` does not.
    pub write_cache: Option<String>,
    /// The path of its counters.
    #[serde(skip)]
    stat: PathBuf,
}

impl Storage {
    /// Asks the system about the file system that holds `path`.
    ///
    /// # Errors
    /// If nothing exists at `path`.
    pub fn below(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let block = rustix::fs::statvfs(path).map_or(4096, |fs| fs.f_bsize);
        Ok(Self {
            path: path.display().to_string(),
            file_system: file_system(metadata.dev()),
            file_system_block: u32::try_from(block).unwrap_or(4096),
            device: BlockDevice::of(metadata.dev()),
        })
    }

    /// The device's current counters; `None` if there is no such device, as with overlayfs.
    #[must_use]
    pub fn counters(&self) -> Option<DeviceCounts> {
        self.device.as_ref().and_then(BlockDevice::counters)
    }
}

/// The type of the file system with this device number, from the mount table.
fn file_system(device: u64) -> Option<String> {
    let wanted = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    table.lines().find_map(|line| {
        let (mount, rest) = line.split_once(" - ")?;
        let device = mount.split(' ').nth(2)?;
        (device == wanted).then(|| rest.split(' ').next().unwrap_or_default().to_owned())
    })
}

impl BlockDevice {
    fn of(device: u64) -> Option<Self> {
        let dir = PathBuf::from(format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device)));
        let link = fs::canonicalize(&dir).ok()?;
        let name = link.file_name()?.to_string_lossy().into_owned();
        // A partition has its own counters, but its queue and model are the whole device's.
        let whole = if link.join("partition").exists() { link.parent()?.to_path_buf() } else { link.clone() };
        let line = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let stat = link.join("stat");
        let device = Self {
            name,
            model: line(whole.join("device/model")),
            rotational: line(whole.join("queue/rotational")).map(|flag| flag == "1"),
            write_cache: line(whole.join("queue/write_cache")),
            stat,
        };
        device.counters().map(|_| device)
    }

    /// The current counters. They count the work of the whole machine.
    #[must_use]
    pub fn counters(&self) -> Option<DeviceCounts> {
        DeviceCounts::parse(&fs::read_to_string(&self.stat).ok()?)
    }
}

/// What a block device has done, as listed in Linux's `Documentation/block/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceCounts {
    /// Read requests completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes of the device's cache; 0 on kernels that do not count them.
    pub flushes: u64,
}

/// The counters are in sectors of 512 bytes, whatever the device's own sector size is.
const SECTOR: u64 = 512;

impl DeviceCounts {
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
        let at = |index: usize| fields.get(index).copied();
        Some(Self {
            reads: at(0)?,
            read_bytes: at(2)? * SECTOR,
            writes: at(4)?,
            written_bytes: at(6)? * SECTOR,
            flushes: at(15).unwrap_or(0),
        })
    }

    /// What was done since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }
}

/// Bytes that this process had the system fetch from storage, including read-ahead and reads needed for writes (Linux counts them for the
/// process that submits the request); `None` if they are not counted.
#[must_use]
pub fn process_read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// Processor time of the calling thread.
#[must_use]
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_old_and_new_kernels_are_read() {
        let old = "  8 1 4096 5 10 2 1024 7 0 3 4";
        let new = "  8 1 4096 5 10 2 1024 7 0 3 4 0 0 0 0 12 9";
        let counts =
            DeviceCounts { reads: 8, read_bytes: 4096 * 512, writes: 10, written_bytes: 1024 * 512, flushes: 0 };
        assert_eq!(DeviceCounts::parse(old), Some(counts));
        assert_eq!(DeviceCounts::parse(new), Some(DeviceCounts { flushes: 12, ..counts }));
        assert_eq!(DeviceCounts::parse("1 2 3"), None);
        assert_eq!(counts.since(&counts), DeviceCounts::default());
    }

    #[test]
    fn the_machine_has_a_core_and_the_directory_a_file_system_block() {
        assert!(Machine::here().cores >= 1);
        assert!(Storage::below(Path::new(".")).expect("is there").file_system_block >= 512);
        Storage::below(Path::new("/nowhere")).expect_err("is not there");
    }
}
