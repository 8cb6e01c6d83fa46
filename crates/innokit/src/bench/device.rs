//! `innokit bench device`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::device::{DeviceOptions, DeviceReport, Limit, Tried, Write as Written, WriteKind, device};
use ::bench::pattern::{Access, Carrier, Order, Pattern, Setting, Way};
use ::bench::stats::{Latency, Repeated};

use super::args::{self, DeviceArgs, OutputArgs};
use super::chart::{Axis, Bar, Bars, Chart, Lines, Panel, Series};
use super::show;
use super::table::Table;
use super::units::{megabytes, number, percent, rounds, size};
use crate::print::grouped;

/// Measures, prints and draws.
pub fn run(args: &DeviceArgs, output: &OutputArgs, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let options = options(args);
    let report = show::watched(output, stop, |watch| device(&args.dir, &options, watch))?;
    show::show(&report, output, text, chart)
}

fn options(args: &DeviceArgs) -> DeviceOptions {
    let defaults = DeviceOptions::default();
    DeviceOptions {
        size: args.size,
        time: args.seconds,
        rounds: usize::from(args.rounds),
        accesses: args.access.map_or(defaults.accesses, |access| match access {
            args::Access::Read => vec![Access::Read],
            args::Access::Write => vec![Access::Write],
        }),
        orders: args.order.map_or(defaults.orders, |order| match order {
            args::Order::Sequential => vec![Order::Sequential],
            args::Order::Random => vec![Order::Random],
        }),
        ways: args.io.map_or(defaults.ways, |io| match io {
            args::Io::Direct => vec![Way::Direct],
            args::Io::Buffered => vec![Way::Buffered],
        }),
        engine: args.engine.map(|engine| match engine {
            args::Engine::Uring => Carrier::Uring,
            args::Engine::Threads => Carrier::Threads,
            args::Engine::Libaio => Carrier::Libaio,
            args::Engine::Mmap => Carrier::Mmap,
        }),
        block_size: args.block_size,
        depth: args.depth,
        threads: args.threads,
    }
}

const fn access(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
    }
}

const fn order(order: Order) -> &'static str {
    match order {
        Order::Sequential => "sequential",
        Order::Random => "random",
    }
}

const fn way(way: Way) -> &'static str {
    match way {
        Way::Direct => "direct",
        Way::Buffered => "buffered",
    }
}

fn setting(setting: &Setting) -> [String; 4] {
    let Setting { engine: carrier, block_size, depth, threads } = setting;
    [carrier.name().to_owned(), size((*block_size).into()), depth.to_string(), threads.to_string()]
}

fn text(report: &DeviceReport, out: &mut dyn Write) -> io::Result<()> {
    show::heading(&report.machine, &report.storage, out)?;
    let size = size(report.size);
    let rounds = rounds(report.rounds);
    writeln!(out, "file     {size} of random bytes, {} s a measurement, {rounds}", report.seconds_each)?;
    writeln!(out, "cache    {}", report.cache.words())?;
    writeln!(out, "\nLimits: the setting that no neighbour beats by more than noise")?;
    limits(report).print(out)?;
    if !report.engines.is_empty() {
        writeln!(out, "\nEngines, each with the setting of the limit")?;
        engines(report).print(out)?;
    }
    let patterns = patterns(report);
    if !patterns.is_empty() {
        writeln!(out, "\nPatterns, and what they get of the limit of their order")?;
        patterns.print(out)?;
    }
    if !report.writes.is_empty() {
        writeln!(out, "\nWriting a file from start to end, the sync at the end included")?;
        writes(report).print(out)?;
        if report.storage.device.is_none() {
            writeln!(out, "(what the device did is not available: the file system has no block device of its own)")?;
        }
    }
    for note in &report.notes {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}

fn limits(report: &DeviceReport) -> Table {
    let mut table = measured("tried");
    for limit in &report.limits {
        let figures = figures(&limit.bytes_per_second, limit.requests_per_second, &limit.latency);
        table.row(pattern(&limit.pattern()).into_iter().chain(figures).chain([limit.tried.len().to_string()]));
    }
    table
}

fn engines(report: &DeviceReport) -> Table {
    let mut table = measured("times the first");
    for row in &report.engines {
        let figures = figures(&row.bytes_per_second, row.requests_per_second, &row.latency);
        table.row(pattern(&row.pattern).into_iter().chain(figures).chain([number(row.times_first)]));
    }
    table
}

/// An empty table of whole patterns, with one more column at the end.
fn measured(last: &str) -> Table {
    let words = ["access", "order", "way", "engine", "block", "depth", "threads"];
    Table::new(4, &[&words[..], &["MB/s", "+-", "requests/s", "p50 us", "p99 us", last]].concat())
}

fn pattern(pattern: &Pattern) -> Vec<String> {
    let words = [access(pattern.access), order(pattern.order), way(pattern.way)].map(str::to_owned);
    words.into_iter().chain(setting(&pattern.setting)).collect()
}

fn figures(rate: &Repeated, requests_per_second: f64, latency: &Latency) -> [String; 5] {
    [
        megabytes(rate.median),
        percent(rate.noise()),
        number(requests_per_second),
        number(latency.p50_us),
        number(latency.p99_us),
    ]
}

fn patterns(report: &DeviceReport) -> Table {
    let headings = [
        "who does so",
        "access",
        "order",
        "way",
        "block",
        "depth",
        "threads",
        "MB/s",
        "requests/s",
        "p50 us",
        "p99 us",
        "of the limit",
    ];
    let mut table = Table::new(4, &headings);
    for row in &report.patterns {
        table.row([
            row.name.to_owned(),
            access(row.pattern.access).to_owned(),
            order(row.pattern.order).to_owned(),
            way(row.pattern.way).to_owned(),
            size(row.pattern.setting.block_size.into()),
            row.pattern.setting.depth.to_string(),
            row.pattern.setting.threads.to_string(),
            megabytes(row.bytes_per_second.median),
            number(row.requests_per_second),
            number(row.latency.p50_us),
            number(row.latency.p99_us),
            row.share_of_limit.map_or_else(String::new, percent),
        ]);
    }
    table
}

/// The kind of a row of writes, in words.
fn kind(row: &Written) -> String {
    let block = size(row.block_size.into());
    match row.kind {
        WriteKind::Growing => "a growing file".to_owned(),
        WriteKind::Fallocated => "fallocated, never written".to_owned(),
        WriteKind::Zeroed => "written, then ZERO_RANGE".to_owned(),
        WriteKind::Recycled => "written over (recycled)".to_owned(),
        WriteKind::Small => format!("growing, {block} by {block}"),
        WriteKind::Gathered => format!("growing, 4K gathered to {block}"),
        WriteKind::DataSync => "recycled, O_DSYNC".to_owned(),
        WriteKind::Synced => "recycled, fdatasync each".to_owned(),
        WriteKind::Writers => "growing, gathered, one file".to_owned(),
        WriteKind::Files => "growing, gathered, a file each".to_owned(),
    }
}

fn writes(report: &DeviceReport) -> Table {
    let headings = [
        "space",
        "way",
        "block",
        "depth",
        "threads",
        "MB/s",
        "+-",
        "device writes",
        "flushes",
        "device reads",
        "written / bytes",
    ];
    let mut table = Table::new(2, &headings);
    for row in &report.writes {
        let device = row.device.map_or_else(
            || std::array::from_fn(|_| "n/a".to_owned()),
            |counts| {
                let share = counts.written_bytes as f64 / row.bytes.max(1) as f64;
                [grouped(counts.writes), grouped(counts.flushes), grouped(counts.reads), number(share)]
            },
        );
        let words = [kind(row), way(row.way).to_owned(), size(row.block_size.into())];
        let words = words.into_iter().chain([row.depth, row.threads].map(|count| count.to_string()));
        let rate = &row.bytes_per_second;
        let figures = [megabytes(rate.median), percent(rate.noise())];
        table.row(words.chain(figures).chain(device));
    }
    table
}

/// The class of a bar, in the order of [`CLASSES`].
fn class(access: Access, order: Order) -> usize {
    2 * usize::from(access == Access::Write) + usize::from(order == Order::Random)
}

const CLASSES: [&str; 4] =
    ["sequential read", "random read, a page each", "sequential write", "random write, a page each"];

fn chart(report: &DeviceReport) -> Chart {
    let limits = report.limits.iter().map(|limit| Bar {
        label: format!("{} {} {}", access(limit.access), order(limit.order), way(limit.way)),
        class: class(limit.access, limit.order),
        value: limit.bytes_per_second.median / 1e6,
        text: format!("{} MB/s: {}", megabytes(limit.bytes_per_second.median), setting(&limit.setting).join(" x ")),
    });
    let patterns = report.patterns.iter().map(|row| Bar {
        label: row.name.to_owned(),
        class: class(row.pattern.access, row.pattern.order),
        value: row.bytes_per_second.median / 1e6,
        text: match row.share_of_limit {
            Some(share) => format!("{} MB/s, {} of the limit", megabytes(row.bytes_per_second.median), percent(share)),
            None => format!("{} MB/s", megabytes(row.bytes_per_second.median)),
        },
    });
    let writes = report.writes.iter().map(|row| Bar {
        label: format!("{}, {}", kind(row), way(row.way)),
        class: class(Access::Write, Order::Sequential),
        value: row.bytes_per_second.median / 1e6,
        text: format!("{} MB/s", megabytes(row.bytes_per_second.median)),
    });
    let bars = |heading: &str, rows: Vec<Bar>| {
        let (heading, classes) = (heading.to_owned(), CLASSES.map(str::to_owned).to_vec());
        Panel::Bars(Bars { heading, axis: "MB/s".to_owned(), classes, rows, mark: None })
    };
    let depths = section(
        report,
        "By requests in flight for each thread",
        "requests in flight",
        |limit| &limit.by_depth,
        |at| at.depth,
    );
    let sizes =
        section(report, "By block size", "bytes of a request", |limit| &limit.by_block_size, |at| at.block_size);
    let panels = [
        Some(bars("Limits: engine x block x depth x threads", limits.collect())),
        depths,
        sizes,
        (!report.patterns.is_empty()).then(|| bars("Patterns of databases and tools", patterns.collect())),
        (!report.writes.is_empty())
            .then(|| bars("Writing a file from start to end, with the sync at the end", writes.collect())),
    ];
    let notes = show::notes(&report.machine, &report.storage);
    Chart {
        title: format!("bench device {}", report.storage.path),
        notes,
        panels: panels.into_iter().flatten().collect(),
    }
}

/// Lines through the limits; `None` if only one point of each was measured.
fn section(
    report: &DeviceReport,
    heading: &str,
    x: &str,
    line: impl Fn(&Limit) -> &Vec<Tried>,
    at: impl Fn(&Setting) -> u32,
) -> Option<Panel> {
    let series = report.limits.iter().filter(|limit| line(limit).len() > 1).map(|limit| Series {
        name: format!("{} {} {}", access(limit.access), order(limit.order), way(limit.way)),
        points: line(limit).iter().map(|tried| (f64::from(at(&tried.setting)), tried.bytes_per_second / 1e6)).collect(),
    });
    let series: Vec<Series> = series.collect();
    (!series.is_empty()).then(|| {
        Panel::Lines(Lines {
            heading: format!("{heading}, all else as at the limit"),
            x: Axis::powers_of_two(x),
            y: Axis::logarithmic("MB/s"),
            series,
            enclosed: Vec::new(),
        })
    })
}
