//! The options of `innokit bench`.

use std::path::PathBuf;
use std::time::Duration;

use ::bench::check::Peer;
use clap::{Args, Subcommand, ValueEnum};
use flow::queue::sim::SimOptions;

use crate::options::{Progress, bytes, size};
use crate::picture;

const EXAMPLES: &str = "\
Examples:
  innokit bench device /var/lib/mysql                the limits of the disk, and how close each pattern comes
  innokit bench device /data --order random --depth 1 --threads 1
                                                     one query at a time
  innokit bench check shop/orders.ibd --chart check.svg
                                                     what large blocks, overlap, direct I/O and workers each gain
  innokit bench scan shop/orders.ibd --chart scan.svg
                                                     how fast each kind of read-ahead reads an index
  innokit bench recover /mnt/snapshot --on-device /data
                                                     what read-ahead, joined writes and fewer syncs gain in crash recovery
  innokit bench log /var/lib/mysql                   what a commit costs with each way of writing the log
  innokit bench kernels                              how fast the processor computes checksums

Exit status:
  0    measured
  2    could not be measured
  130  interrupted; nothing is left behind";

/// Options of `bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub what: What,

    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of every bench.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Print one JSON document instead of text.
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,

    /// Also draw the figures into this new file: .svg or .png.
    #[arg(long, global = true, value_name = "FILE", value_parser = picture::named, help_heading = "Output")]
    pub chart: Option<PathBuf>,

    /// Show a progress bar; `auto`: if standard error is a terminal.
    #[arg(long, global = true, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Output")]
    pub progress: Progress,
}

/// The benches.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Find the limits of the device that holds a directory, with a temporary file that is removed at the end.
    Device(DeviceArgs),
    /// Verify one tablespace in many ways, each with a cold cache, and compare each with the limit of the device.
    Check(CheckBenchArgs),
    /// Recover a crashed datadir in several ways, each adding one idea, and estimate the time on a device with slow but parallel requests.
    Recover(RecoverBenchArgs),
    /// Scan the indexes of one tablespace with each kind of read-ahead, direct and buffered, each with a cold cache.
    Scan(ScanArgs),
    /// Commit to logs that are written in different ways, to preallocated and other files, and count the device's work per commit.
    Log(LogArgs),
    /// Run every checksum in every implementation that this processor supports, on one thread and on several.
    Kernels(KernelsArgs),
}

/// Options of `bench kernels`.
#[derive(Debug, Args)]
pub struct KernelsArgs {
    /// Page size, 1K to 64K.
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = page_size)]
    pub page_size: u32,

    /// Measure each row this many times, in rounds over all rows.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,

    /// Duration of one measurement.
    #[arg(long, value_name = "SECONDS", default_value = "0.02", value_parser = seconds)]
    pub seconds: Duration,

    /// Threads of the measurements with several threads [default: the cores available to the process].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Options of `bench log`.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// A directory on the file system to measure.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Size of each log.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = bytes)]
    pub size: u64,

    /// Duration of one measurement.
    #[arg(long, value_name = "SECONDS", default_value = "0.3", value_parser = seconds)]
    pub seconds: Duration,

    /// Measure each row this many times, in rounds over all rows.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,

    /// Size of a record.
    #[arg(long, value_name = "BYTES", default_value = "400", value_parser = clap::value_parser!(u16).range(1..=480))]
    pub record: u16,

    /// Also fill this many bytes ahead with zeros: powers of two, 512 to 64K [default: 8K,16K,64K].
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = size)]
    pub write_ahead: Vec<u32>,

    /// How many threads commit at a time [default: 1,2,4,8,16,32,64].
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub callers: Vec<usize>,

    /// Also estimate the time on this device.
    #[command(flatten)]
    pub simulated: SimArgs,

    /// Scattered writes of 4K on the simulated device.
    #[arg(long, value_name = "N", default_value = "256000", value_parser = clap::value_parser!(u64).range(1..=10_000_000), help_heading = "Simulated device")]
    pub scattered: u64,
}

/// Options of `bench check`.
#[derive(Debug, Args)]
pub struct CheckBenchArgs {
    /// A tablespace, which is only read. From some hundred megabytes on the figures are steady.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Measure each row this many times, in rounds over all rows.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,

    /// Duration of one measurement in the search for the device's limit.
    #[arg(long, value_name = "SECONDS", default_value = "0.3", value_parser = seconds)]
    pub seconds: Duration,

    /// Which table: `check` in every combination of the lists below, or the classic one of plain loops.
    #[arg(long, value_enum, value_name = "TABLE", default_value_t = CheckTable::Ways)]
    pub table: CheckTable,

    /// Numbers of workers [default: 1, 2, 4 and so on up to the cores available].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Vec<u16>,

    /// Sizes of a request, multiples of 64K [default: 64K,256K,1M,4M].
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = size)]
    pub block_sizes: Vec<u32>,

    /// Requests in flight for each worker [default: 8].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: Vec<u32>,

    /// Memory for the buffers of all workers together; what does not fit is made smaller [default: 64M].
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = bytes)]
    pub memory: Vec<u64>,

    /// Also measure this tool, run with FILE as its last argument (may be given several times).
    #[arg(long, value_name = "NAME=COMMAND", value_parser = Peer::parse)]
    pub peer: Vec<Peer>,

    /// Do not measure innochecksum, inno and fio, even where they are installed.
    #[arg(long)]
    pub no_peers: bool,

    /// Also estimate the time on this device.
    #[command(flatten)]
    pub simulated: SimArgs,
}

/// Options of `bench scan`.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// A tablespace, which is only read. For MariaDB its .frm file and ../ibdata1 are needed too: they hold the definition.
    /// With --aged, a directory.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Make a table of about this size that was used for some time, in the directory FILE, and scan that.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub aged: Option<u64>,

    /// Only this index [default: the clustered one, and the largest secondary one].
    #[arg(long, value_name = "NAME")]
    pub index: Option<String>,

    /// Measure each row this many times, in rounds over all rows.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,

    /// Buffer pool of the servers' read-ahead, linear and random.
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = bytes)]
    pub pool: u64,

    /// Also estimate the time on this device.
    #[command(flatten)]
    pub simulated: SimArgs,
}

/// The simulated device of several benches. Time is counted on its clock; the processor's work takes none.
#[derive(Debug, Args)]
#[command(next_help_heading = "Simulated device")]
pub struct SimArgs {
    /// A preset; the options below change parts of it.
    #[arg(long, value_enum, value_name = "PRESET", default_value_t = Simulated::Wide)]
    pub simulated: Simulated,

    /// Time of a read or write there; 0: leave the device out.
    #[arg(long, alias = "simulate", value_name = "MILLISECONDS", value_parser = milliseconds)]
    pub latency: Option<Duration>,

    /// Requests that it works on concurrently.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub width: Option<u32>,

    /// Bytes a second.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub bandwidth: Option<u64>,

    /// Time of a sync there.
    #[arg(long, value_name = "MILLISECONDS", value_parser = milliseconds)]
    pub sync: Option<Duration>,

    /// What a sync takes longer for each GiB written since the last one.
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_none)]
    pub sync_per_gib: Option<Duration>,
}

/// `--simulated`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Simulated {
    /// 0.5 ms a request, 64 at a time, 1 GiB/s, 10 ms a sync.
    Wide,
    /// A slow cloud disk: the same with 10 MB/s, and 10 s more for a sync of each GiB written.
    Cloud,
    /// None.
    None,
}

impl SimArgs {
    /// The simulated device. `None` leaves it out.
    pub fn options(&self) -> Option<SimOptions> {
        let preset = match self.simulated {
            Simulated::Wide => SimOptions::default(),
            Simulated::Cloud => SimOptions::cloud(),
            Simulated::None => return None,
        };
        let device = SimOptions {
            latency: self.latency.unwrap_or(preset.latency),
            parallel: self.width.unwrap_or(preset.parallel),
            bandwidth: self.bandwidth.unwrap_or(preset.bandwidth).max(1),
            sync_latency: self.sync.unwrap_or(preset.sync_latency),
            sync_per_gib: self.sync_per_gib.unwrap_or(preset.sync_per_gib),
            ..preset
        };
        (!device.latency.is_zero()).then_some(device)
    }
}

/// Options of `bench recover`.
#[derive(Debug, Args)]
pub struct RecoverBenchArgs {
    /// A MariaDB datadir left by a crash, which is only read.
    #[arg(value_name = "DATADIR")]
    pub datadir: PathBuf,

    /// Also recover copies of it, each with a cold cache, in this directory; they are removed at the end.
    #[arg(long, value_name = "DIR")]
    pub on_device: Option<PathBuf>,

    /// Recover this many copies in each way, in rounds over all ways.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,

    /// Memory to use, at least 64M.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "512M")]
    pub memory: u64,

    /// Also estimate the time on this device.
    #[command(flatten)]
    pub simulated: SimArgs,
}

/// Options of `bench device`. A given value is fixed; the others are searched.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// A directory on the file system to measure.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Size of the file that is read and written. Choose more than the caches of the device hold.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = bytes)]
    pub size: u64,

    /// Duration of one measurement, of some hundred.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub seconds: Duration,

    /// Measure each row this many times, in rounds over all rows; limits at least as often.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,

    /// Only reads, or only writes.
    #[arg(long, value_enum, value_name = "ACCESS")]
    pub access: Option<Access>,

    /// Only this order of blocks.
    #[arg(long, value_enum, value_name = "ORDER")]
    pub order: Option<Order>,

    /// Only direct or only buffered I/O.
    #[arg(long, value_enum, value_name = "MODE")]
    pub io: Option<Io>,

    /// Only this engine.
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub engine: Option<Engine>,

    /// Only requests of this many bytes [default: searched; random order: 16K].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub block_size: Option<u32>,

    /// Only this many requests in flight for each thread.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: Option<u32>,

    /// Only this many threads.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
}

/// `--table`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckTable {
    /// `check` with every combination of way, workers, block size, depth and memory.
    Ways,
    /// Eight rows: buffered and direct, pieces of 16K, 1M, 16M and 64M, each with 1 thread and with 16.
    Classic,
}

/// `--access`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Access {
    /// Blocks are read.
    Read,
    /// Blocks are overwritten, with a sync at the end.
    Write,
}

/// `--order`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Order {
    /// One block after the other.
    Sequential,
    /// At random places of the file.
    Random,
}

/// `--io`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Io {
    /// Past the page cache.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// `--engine`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Engine {
    /// io_uring.
    Uring,
    /// A thread for each request.
    Threads,
    /// The older asynchronous I/O of Linux, which the servers call native.
    Libaio,
    /// The file is mapped into memory: only through the page cache.
    Mmap,
}

fn page_size(text: &str) -> Result<u32, String> {
    match size(text)? {
        size if size.is_power_of_two() && (1024..=65536).contains(&size) => Ok(size),
        _ => Err("a page is 1K, 2K, 4K, 8K, 16K, 32K or 64K".to_owned()),
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("ms").unwrap_or(text).trim().parse::<f64>();
    let number = number.map_err(|_| "expected milliseconds such as 0.5".to_owned())?;
    if (0.0..=1000.0).contains(&number) {
        Ok(Duration::from_secs_f64(number / 1000.0))
    } else {
        Err("0 to 1000 milliseconds".to_owned())
    }
}

fn seconds_or_none(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { seconds(text) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "expected seconds such as 0.5 or 10".to_owned())?;
    if (0.001..=3600.0).contains(&number) {
        Ok(Duration::from_secs_f64(number))
    } else {
        Err("0.001 to 3600 seconds".to_owned())
    }
}
