//! bytes in the core's cache, and from memory -> each checksum, by each path that this processor has -> GB/s and bytes per cycle.
//!
//! Each round measures all kernels in turn, so that a slow moment of the machine affects all alike. The figure is the median over the
//! rounds, of the best of a few runs in each.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crc::{CRC_32_ISCSI, CRC_32_ISO_HDLC, Crc, NoTable, Table};
use crc_fast::CrcAlgorithm;
use format::bytes::is_zero;
use format::checksum::{self, PAGES_MAX};
use serde::Serialize;

use super::counting;
pub use super::counting::{CountOperation, CountRow, Counting, Place, Wait, WaitRow};
use super::texts::{self, Text};

/// What to measure.
#[derive(Debug, Clone)]
pub struct KernelsOptions {
    /// Bytes of a page.
    pub page_size: usize,
    /// Bytes that stay in the core's second-level cache; rounded down to groups of 16 pages.
    pub cached_bytes: usize,
    /// Bytes that fit in no cache.
    pub memory_bytes: usize,
    /// Number of rounds.
    pub rounds: u32,
    /// Duration of one kernel in a round, on cached bytes and again on bytes from memory.
    pub slice: Duration,
    /// Threads that count concurrently; each on a core of its own if there are enough.
    pub threads: usize,
}

impl Default for KernelsOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            page_size: 16_384,
            cached_bytes: 256 << 10,
            memory_bytes: 256 << 20,
            rounds: 5,
            slice: Duration::from_millis(20),
            threads,
        }
    }
}

/// The speed of the kernels on this machine.
#[derive(Debug, Clone, Serialize)]
pub struct KernelsReport {
    /// `x86_64`, `aarch64`.
    pub architecture: &'static str,
    /// Bytes of a page.
    pub page_size: usize,
    /// Billions of cycles a second during the run, from a chain of operations that each take one cycle on all current processors of both
    /// families. This is the actual frequency, not the possible one.
    pub gigahertz: f64,
    /// One row for each kernel and path.
    pub kernels: Vec<KernelRow>,
    /// What threads pay for sharing memory.
    pub counters: Counting,
}

/// One kernel on one path.
#[derive(Debug, Clone, Serialize)]
pub struct KernelRow {
    /// What is computed.
    pub kernel: &'static str,
    /// `portable`, or the instructions that the path uses.
    pub path: String,
    /// Whether innokit takes this path on this machine.
    pub taken: bool,
    /// Billions of bytes a second, for bytes in the core's cache.
    pub cached_gb_per_s: f64,
    /// Bytes a cycle, for bytes in the core's cache.
    pub cached_bytes_per_cycle: f64,
    /// Billions of bytes a second, for bytes in memory.
    pub memory_gb_per_s: f64,
}

/// A checksum over some pages, folded to one number so that none of it is optimised away.
type Sum = Box<dyn Fn(&[u8], usize) -> u32>;

struct Kernel {
    name: &'static str,
    path: String,
    taken: bool,
    sum: Sum,
    input: Input,
}

/// The bytes that a kernel is measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// No two pages are equal.
    Noise,
    Zeros,
    Text(Text),
}

impl Input {
    fn fill(self, bytes: &mut [u8]) {
        match self {
            Self::Noise => noise(bytes),
            // Written, not only allocated: untouched memory is one page of zeros, mapped many times.
            Self::Zeros => black_box(bytes).fill(0),
            Self::Text(text) => text.fill(bytes),
        }
    }
}

/// Measures all kernels. Calls `step` with the next measurement, the number done, and the total.
pub fn kernels(options: &KernelsOptions, step: &mut dyn FnMut(&str, u64, u64)) -> KernelsReport {
    let kernels = all();
    let group = options.page_size.max(1) * PAGES_MAX;
    let whole = |bytes: usize| (bytes / group).max(1) * group;
    let (mut bytes, mut input) = (vec![0; whole(options.memory_bytes)], None);
    let cached = whole(options.cached_bytes).min(bytes.len());
    let rounds = options.rounds.max(1);
    let expected = u64::from(rounds) * (kernels.len() as u64 + counting::ROWS);
    let mut rates = vec![(Vec::new(), Vec::new()); kernels.len()];
    let (mut gigahertz, mut done) = (0.0_f64, 0);
    for _ in 0..rounds {
        for (kernel, (hot, cold)) in kernels.iter().zip(&mut rates) {
            step(kernel.name, done, expected);
            if input.replace(kernel.input) != Some(kernel.input) {
                kernel.input.fill(&mut bytes);
            }
            gigahertz = gigahertz.max(cycles_per_ns());
            hot.push(best_rate(&kernel.sum, bytes.get(..cached).unwrap_or(&bytes), options));
            cold.push(mean_rate(&kernel.sum, &bytes, options));
            done += 1;
        }
    }
    let rows = kernels.into_iter().zip(rates).map(|(kernel, (hot, cold))| {
        let hot = median(hot);
        KernelRow {
            kernel: kernel.name,
            path: kernel.path,
            taken: kernel.taken,
            cached_gb_per_s: hot,
            cached_bytes_per_cycle: hot / gigahertz,
            memory_gb_per_s: median(cold),
        }
    });
    let kernels = rows.collect();
    let counters = counting::count(options.threads, rounds, options.slice, &mut |what| {
        step(what, done, expected);
        done += 1;
    });
    KernelsReport { architecture: std::env::consts::ARCH, page_size: options.page_size, gigahertz, kernels, counters }
}

/// Every kernel on every path available here: the portable one first, the one that innokit takes last.
fn all() -> Vec<Kernel> {
    let mut kernels = castagnoli();
    kernels.extend(zlib());
    kernels.extend(others());
    kernels.extend(texts::all().into_iter().map(|text| Kernel {
        input: Input::Text(text.text),
        ..kernel(text.name, text.path, text.taken, move |bytes, size| texts::sum(text.convert, bytes, size))
    }));
    kernels
}

fn kernel(name: &'static str, path: &str, taken: bool, sum: impl Fn(&[u8], usize) -> u32 + 'static) -> Kernel {
    Kernel { name, path: path.to_owned(), taken, sum: Box::new(sum), input: Input::Noise }
}

const BITS: &str = "portable: bit by bit";
const BYTES: &str = "portable: a table, byte by byte";
const TABLES: &str = "portable: tables, 16 bytes at a time";

/// CRC-32C, by each path that a crate lets us choose. `crc-fast` itself takes the widest that the processor has.
fn castagnoli() -> Vec<Kernel> {
    let target = crc_fast::get_calculator_target(CrcAlgorithm::Crc32Iscsi);
    let mut kernels = vec![
        kernel("CRC-32C", BITS, false, |bytes, size| each(bytes, size, |page| CASTAGNOLI_BITS.checksum(page))),
        kernel("CRC-32C", BYTES, false, |bytes, size| each(bytes, size, |page| CASTAGNOLI_BYTES.checksum(page))),
        kernel("CRC-32C", TABLES, false, |bytes, size| each(bytes, size, |page| CASTAGNOLI.checksum(page))),
    ];
    if let Some(instruction) = crc_instruction() {
        let path = format!("{instruction}, three streams (crc32c)");
        kernels.push(kernel("CRC-32C", &path, false, |bytes, size| each(bytes, size, ::crc32c::crc32c)));
    }
    kernels.extend([
        kernel("CRC-32C", &target, true, |bytes, size| each(bytes, size, checksum::crc32c)),
        kernel("crc32 of a page", &target, true, |bytes, size| each(bytes, size, checksum::crc32)),
        kernel("full_crc32 of a page", &target, true, |bytes, size| each(bytes, size, checksum::full_crc32)),
    ]);
    kernels
}

/// The processor's instruction for CRC-32C, if the crate `crc32c` takes it here; without it, that crate has tables again.
fn crc_instruction() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        return Some("SSE4.2 crc32");
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("crc") {
        return Some("ARM crc32cx");
    }
    None
}

/// CRC-32 of binary logs.
fn zlib() -> Vec<Kernel> {
    const NAME: &str = "CRC-32 (binary logs)";
    let target = crc_fast::get_calculator_target(CrcAlgorithm::Crc32IsoHdlc);
    let mut kernels = vec![
        kernel(NAME, BITS, false, |bytes, size| each(bytes, size, |page| ZLIB_BITS.checksum(page))),
        kernel(NAME, BYTES, false, |bytes, size| each(bytes, size, |page| ZLIB_BYTES.checksum(page))),
        kernel(NAME, TABLES, false, |bytes, size| each(bytes, size, |page| ZLIB.checksum(page))),
    ];
    if let Some(instructions) = clmul() {
        let path = format!("{instructions} (crc32fast)");
        kernels.push(kernel(NAME, &path, false, |bytes, size| each(bytes, size, crc32fast::hash)));
    }
    kernels.push(kernel(NAME, &target, true, |bytes, size| each(bytes, size, crc_fast::crc32_iso_hdlc)));
    kernels
}

/// What the crate `crc32fast` takes here beyond tables.
fn clmul() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("pclmulqdq") && std::arch::is_x86_feature_detected!("sse4.1") {
        return Some("PCLMULQDQ, 128 bits");
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("crc") {
        return Some("ARM crc32x");
    }
    None
}

/// The older checksums, and the test for pages that were never written.
fn others() -> Vec<Kernel> {
    let zeros = |path, taken, sum: fn(&[u8], usize) -> u32| Kernel {
        input: Input::Zeros,
        ..kernel("all-zero test", path, taken, sum)
    };
    vec![
        kernel("innodb", "portable: one page", false, |bytes, size| each(bytes, size, checksum::innodb_new)),
        kernel("innodb", "16 pages side by side, vectors of 128 bits", true, |bytes, size| {
            let sums = bytes.chunks(size * PAGES_MAX).map(|group| checksum::innodb_new_many(group, size));
            sums.flatten().fold(0, |all, sum| all ^ sum)
        }),
        kernel("innodb of a compressed page", "portable: Adler-32", true, |bytes, size| {
            each(bytes, size, checksum::zip_adler)
        }),
        zeros("portable: byte by byte", false, |bytes, size| {
            each(bytes, size, |page| u32::from(page.iter().all(|byte| *byte == 0)))
        }),
        zeros("blocks of 256 bytes", true, |bytes, size| each(bytes, size, |page| u32::from(is_zero(page)))),
    ]
}

static CASTAGNOLI_BITS: Crc<u32, NoTable> = Crc::<u32, NoTable>::new(&CRC_32_ISCSI);
static CASTAGNOLI_BYTES: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISCSI);
static ZLIB_BITS: Crc<u32, NoTable> = Crc::<u32, NoTable>::new(&CRC_32_ISO_HDLC);
static ZLIB_BYTES: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISO_HDLC);
static CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
static ZLIB: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

#[inline]
fn each(bytes: &[u8], size: usize, sum: impl Fn(&[u8]) -> u32) -> u32 {
    bytes.chunks_exact(size).fold(0, |all, page| all ^ sum(black_box(page)))
}

/// Billions of bytes a second: the best of many runs over a window that moves through `bytes`.
fn best_rate(sum: &Sum, bytes: &[u8], options: &KernelsOptions) -> f64 {
    windows(sum, bytes, options).map(|(len, nanoseconds)| len / nanoseconds).fold(0.0, f64::max)
}

/// Billions of bytes a second over all windows: the best window might have been in the cache.
fn mean_rate(sum: &Sum, bytes: &[u8], options: &KernelsOptions) -> f64 {
    let (len, nanoseconds) = windows(sum, bytes, options).fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    len / nanoseconds
}

/// Bytes and nanoseconds of each window, in a cycle until the time is over; at least one.
fn windows(sum: &Sum, bytes: &[u8], options: &KernelsOptions) -> impl Iterator<Item = (f64, f64)> {
    let window = options.page_size * PAGES_MAX;
    let (page_size, slice, start) = (options.page_size, options.slice, Instant::now());
    let mut is_over = false;
    bytes.chunks_exact(window).cycle().map_while(move |part| {
        if is_over {
            return None;
        }
        let run = Instant::now();
        black_box(sum(black_box(part), page_size));
        is_over = start.elapsed() >= slice;
        Some((window as f64, run.elapsed().as_nanos().max(1) as f64))
    })
}

/// Cycles per nanosecond, from a chain of rotations and additions. Each waits for the one before and takes one cycle.
fn cycles_per_ns() -> f64 {
    const LINKS: u32 = 20_000;
    let chain =
        |start: u64| (0..LINKS).fold(start, |value, _| value.rotate_left(7).wrapping_add(0x9E37_79B9_7F4A_7C15));
    let runs = (0..8_u64).map(|run| {
        let start = Instant::now();
        black_box(chain(black_box(run)));
        f64::from(LINKS) * 2.0 / start.elapsed().as_nanos().max(1) as f64
    });
    runs.fold(0.0, f64::max)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Fills `bytes` so that no two pages are equal.
fn noise(bytes: &mut [u8]) {
    let mut state = 1_u64;
    for word in bytes.as_chunks_mut().0 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *word = (state ^ state >> 29).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_kernel_have_one_result() {
        for page_size in [4096, 16_384] {
            let mut bytes = vec![0; PAGES_MAX * 3 * page_size];
            let kernels = all();
            for pair in kernels.windows(2) {
                if let [plain, fast] = pair
                    && plain.name == fast.name
                {
                    plain.input.fill(&mut bytes);
                    assert_eq!((plain.sum)(&bytes, page_size), (fast.sum)(&bytes, page_size), "{}", plain.name);
                }
            }
        }
    }

    #[test]
    fn every_kernel_is_reported_with_the_path_that_innokit_takes() {
        let options = KernelsOptions {
            memory_bytes: 1 << 20,
            rounds: 1,
            slice: Duration::from_millis(1),
            threads: 2,
            ..KernelsOptions::default()
        };
        let mut steps = 0;
        let report = kernels(&options, &mut |_, done, expected| {
            assert!(done < expected);
            steps += 1;
        });
        assert_eq!(steps, report.kernels.len() as u64 + counting::ROWS);
        let names: Vec<_> = report.kernels.iter().filter(|row| row.taken).map(|row| row.kernel).collect();
        let mut known: Vec<_> = all().iter().map(|kernel| kernel.name).collect();
        known.dedup();
        assert_eq!(names, known);
        assert!(report.kernels.iter().all(|row| row.cached_gb_per_s > 0.0 && row.memory_gb_per_s > 0.0));
        assert!(report.gigahertz > 0.0);
    }
}
