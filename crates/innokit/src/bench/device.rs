//! `innokit bench device`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use jobs::job::bench::device::{DeviceOptions, DeviceReport, Limit, Tried, device};
use jobs::job::bench::pattern::{Carrier, Order, Setting, Way};

use super::args::{self, DeviceArgs, OutputArgs};
use super::chart::{Axis, Bar, Bars, Chart, Lines, Panel, Series};
use super::table::Table;
use super::units::{megabytes, number, percent, size};

/// Measures, prints, draws.
pub fn run(args: &DeviceArgs, output: &OutputArgs, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let options = options(args);
    let report = super::watched(output, stop, |watch| device(&args.dir, &options, watch))?;
    super::show(&report, output, text, chart)
}

fn options(args: &DeviceArgs) -> DeviceOptions {
    let defaults = DeviceOptions::default();
    DeviceOptions {
        size: args.size,
        time: args.seconds,
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
        }),
        block_size: args.block_size,
        depth: args.depth,
        threads: args.threads,
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

const fn engine(engine: Carrier) -> &'static str {
    match engine {
        Carrier::Uring => "io_uring",
        Carrier::Threads => "threads",
    }
}

fn setting(setting: &Setting) -> [String; 4] {
    let Setting { engine: carrier, block_size, depth, threads } = setting;
    [engine(*carrier).to_owned(), size((*block_size).into()), depth.to_string(), threads.to_string()]
}

fn text(report: &DeviceReport, out: &mut dyn Write) -> io::Result<()> {
    super::heading(&report.machine, &report.storage, out)?;
    let size = size(report.size);
    writeln!(out, "file     {size} of random bytes, {} s a measurement", report.seconds_each)?;
    writeln!(out, "cache    {}", report.cache.words())?;
    writeln!(out, "\nLimits: the setting that no neighbour beats by more than noise")?;
    limits(report).print(out)?;
    let patterns = patterns(report);
    if !patterns.is_empty() {
        writeln!(out, "\nPatterns, and what they get of the limit of their order")?;
        patterns.print(out)?;
    }
    for note in &report.notes {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}

fn limits(report: &DeviceReport) -> Table {
    let headings =
        ["read", "way", "engine", "block", "depth", "threads", "MB/s", "+-", "requests/s", "p50 us", "p99 us", "tried"];
    let mut table = Table::new(3, &headings);
    for limit in &report.limits {
        let rate = &limit.bytes_per_second;
        let figures = [
            megabytes(rate.median),
            percent(rate.noise()),
            number(limit.requests_per_second),
            number(limit.latency.p50_us),
            number(limit.latency.p99_us),
            limit.tried.len().to_string(),
        ];
        let words = [order(limit.order).to_owned(), way(limit.way).to_owned()];
        table.row(words.into_iter().chain(setting(&limit.setting)).chain(figures));
    }
    table
}

fn patterns(report: &DeviceReport) -> Table {
    let headings =
        ["who reads so", "read", "way", "block", "depth", "MB/s", "requests/s", "p50 us", "p99 us", "of the limit"];
    let mut table = Table::new(3, &headings);
    for row in &report.patterns {
        table.row([
            row.name.to_owned(),
            order(row.pattern.order).to_owned(),
            way(row.pattern.way).to_owned(),
            size(row.pattern.setting.block_size.into()),
            row.pattern.setting.depth.to_string(),
            megabytes(row.bytes_per_second.median),
            number(row.requests_per_second),
            number(row.latency.p50_us),
            number(row.latency.p99_us),
            row.share_of_limit.map_or_else(String::new, percent),
        ]);
    }
    table
}

fn chart(report: &DeviceReport) -> Chart {
    let bars = report.limits.iter().map(|limit| Bar {
        label: format!("{} {}", order(limit.order), way(limit.way)),
        class: usize::from(limit.order == Order::Random),
        value: limit.bytes_per_second.median / 1e6,
        text: format!("{} MB/s: {}", megabytes(limit.bytes_per_second.median), setting(&limit.setting).join(" x ")),
    });
    let patterns = report.patterns.iter().map(|row| Bar {
        label: row.name.to_owned(),
        class: usize::from(row.pattern.order == Order::Random),
        value: row.bytes_per_second.median / 1e6,
        text: format!(
            "{} MB/s, {} of the limit",
            megabytes(row.bytes_per_second.median),
            row.share_of_limit.map_or_else(String::new, percent)
        ),
    });
    let classes = vec!["sequential".to_owned(), "random, 16 KiB pages".to_owned()];
    let mut panels = vec![Panel::Bars(Bars {
        heading: "Reading: limits (engine x block x depth x threads), and patterns".to_owned(),
        axis: "MB/s".to_owned(),
        classes,
        rows: bars.chain(patterns).collect(),
        mark: None,
    })];
    panels.push(section(
        report,
        "By requests in flight for each thread",
        "requests in flight",
        |limit| &limit.by_depth,
        |at| at.depth,
    ));
    panels.push(section(
        report,
        "By block size",
        "bytes of a request",
        |limit| &limit.by_block_size,
        |at| at.block_size,
    ));
    Chart {
        title: format!("bench device {}", report.storage.path),
        notes: super::notes(&report.machine, &report.storage),
        panels,
    }
}

fn section(
    report: &DeviceReport,
    heading: &str,
    x: &str,
    line: impl Fn(&Limit) -> &Vec<Tried>,
    at: impl Fn(&Setting) -> u32,
) -> Panel {
    let series = report.limits.iter().filter(|limit| line(limit).len() > 1).map(|limit| Series {
        name: format!("{} {}", order(limit.order), way(limit.way)),
        points: line(limit).iter().map(|tried| (f64::from(at(&tried.setting)), tried.bytes_per_second / 1e6)).collect(),
    });
    Panel::Lines(Lines {
        heading: format!("{heading}, all else as at the limit"),
        x: Axis::powers_of_two(x),
        y: Axis::linear("MB/s"),
        series: series.collect(),
    })
}
