//! `innokit bench check`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::check::{CheckBenchOptions, CheckBenchReport, CheckBenchRow, CheckTable, SimulatedCheck, check};
use ::bench::pattern::Way;

use super::args::{self, CheckBenchArgs, OutputArgs};
use super::chart::{Axis, Bar, Bars, Chart, Lines, Panel, Series};
use super::show;
use super::table::Table;
use super::units::{megabytes, number, percent, rounds, size};
use crate::print::grouped;

/// Measures, prints and draws.
pub fn run(args: &CheckBenchArgs, output: &OutputArgs, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let defaults = CheckBenchOptions::default();
    let options = CheckBenchOptions {
        rounds: usize::from(args.rounds),
        time: args.seconds,
        workers: args.workers.iter().map(|&workers| usize::from(workers)).collect(),
        block_sizes: or_default(&args.block_sizes, defaults.block_sizes),
        depths: or_default(&args.depth, defaults.depths),
        memory: or_default(&args.memory, defaults.memory),
        table: match args.table {
            args::CheckTable::Ways => CheckTable::Ways,
            args::CheckTable::Classic => CheckTable::Classic,
        },
        sim: args.simulated.options(),
        peers: args.peer.clone(),
        find_peers: !args.no_peers,
    };
    let report = show::watched(output, stop, |watch| check(&args.file, &options, watch))?;
    show::show(&report, output, text, chart)
}

fn or_default<T: Clone>(given: &[T], default: Vec<T>) -> Vec<T> {
    if given.is_empty() { default } else { given.to_vec() }
}

fn way(row: &CheckBenchRow) -> &'static str {
    row.way.map_or("", way_name)
}

const fn way_name(way: Way) -> &'static str {
    match way {
        Way::Direct => "direct",
        Way::Buffered => "buffered",
    }
}

fn or_nothing(figure: Option<impl ToString>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}

fn text(report: &CheckBenchReport, out: &mut dyn Write) -> io::Result<()> {
    show::heading(&report.machine, &report.storage, out)?;
    let counts = &report.counts;
    writeln!(
        out,
        "file     {} bytes, {} pages, {} of them corrupt",
        grouped(report.bytes),
        grouped(counts.pages),
        grouped(counts.corrupt)
    )?;
    writeln!(out, "cache    {}", report.cache.words())?;
    writeln!(out, "limit    {} MB/s: {}", megabytes(report.limit.bytes_per_second.median), limit(report))?;
    let rounds = rounds(report.rounds);
    writeln!(out, "\nIdea by idea ({rounds}; shares are of the limit in the same round)")?;
    ideas(report).print(out)?;
    if !report.table.is_empty() {
        writeln!(
            out,
            "\nWay x workers x block size x depth, as used; where the memory did not allow what was asked for, that is beside it"
        )?;
        ways(report).print(out)?;
    }
    if !report.classic.is_empty() {
        writeln!(
            out,
            "\nThe classic table: each thread reads a piece, verifies it, and takes the next; MB/s and share of the limit"
        )?;
        classic(report).print(out)?;
    }
    if !report.time.is_empty() {
        writeln!(out, "\nWhere the workers' time goes (copying: system calls too; waiting: for bytes or for a core)")?;
        times(report).print(out)?;
    }
    if let Some(simulated) = &report.simulated {
        writeln!(out, "\nOne worker at {} (simulated)", show::simulated(&simulated.device, false))?;
        clocked(simulated).print(out)?;
    }
    if !report.peers.is_empty() {
        writeln!(out, "\nOther tools")?;
        peers(report).print(out)?;
    }
    for note in &report.notes {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}

/// The settings at which the limit was reached.
fn limit(report: &CheckBenchReport) -> String {
    let row = &report.limit;
    let (block, depth, threads) = (row.block_size.unwrap_or(0), or_nothing(row.depth), or_nothing(row.workers));
    format!("{}, {} way, {} x {depth} x {threads}, the best of a search", row.name, way(row), size(block.into()))
}

fn ideas(report: &CheckBenchReport) -> Table {
    let mut table = Table::new(
        2,
        &["idea", "way", "workers", "block", "depth", "MB/s", "of the limit", "lowest", "highest", "times the first"],
    );
    let first = report.ideas.first().map_or(1.0, |row| row.bytes_per_second.median);
    for row in &report.ideas {
        let share = &row.share_of_limit;
        table.row([
            row.name.clone(),
            way(row).to_owned(),
            or_nothing(row.workers),
            row.block_size.map_or_else(|| "a page".to_owned(), |block| size(block.into())),
            or_nothing(row.depth),
            megabytes(row.bytes_per_second.median),
            percent(share.median),
            percent(share.low),
            percent(share.high),
            number(row.bytes_per_second.median / first.max(1.0)),
        ]);
    }
    table
}

/// Rows that differ only in the block size that was asked for.
fn lines(report: &CheckBenchReport) -> impl Iterator<Item = &[CheckBenchRow]> {
    let key = |row: &CheckBenchRow| (row.way, row.workers_asked, row.depth_asked, row.memory);
    report.table.chunk_by(move |a, b| key(a) == key(b))
}

fn ways(report: &CheckBenchReport) -> Table {
    let headings = ["way", "asked for", "workers", "block", "depth", "buffers", "MB/s", "of the limit", "+-"];
    let mut table = Table::new(2, &headings);
    for row in &report.table {
        let (workers, block, depth) = (row.workers.unwrap_or(0), row.block_size.unwrap_or(0), row.depth.unwrap_or(0));
        table.row([
            way(row).to_owned(),
            asked(row).unwrap_or_default(),
            workers.to_string(),
            size(block.into()),
            depth.to_string(),
            size(workers as u64 * u64::from(block) * u64::from(depth)),
            megabytes(row.bytes_per_second.median),
            percent(row.share_of_limit.median),
            percent(row.bytes_per_second.noise()),
        ]);
    }
    table
}

/// What was asked for, if it is not what was used.
fn asked(row: &CheckBenchRow) -> Option<String> {
    let asked = (row.workers_asked?, row.block_size_asked?, row.depth_asked?);
    let used = (row.workers?, row.block_size?, row.depth?);
    let (workers, block, depth) = asked;
    (asked != used)
        .then(|| format!("{workers} x {} x {depth} in {}", size(block.into()), size(row.memory.unwrap_or(0))))
}

fn classic(report: &CheckBenchReport) -> Table {
    let mut threads: Vec<usize> = report.classic.iter().filter_map(|row| row.workers).collect();
    threads.sort_unstable();
    threads.dedup();
    let headings: Vec<String> = ["way".to_owned(), "piece".to_owned()]
        .into_iter()
        .chain(threads.iter().flat_map(|threads| {
            let name = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
            [name, "share".to_owned()]
        }))
        .collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(1, &headings);
    for rows in report.classic.chunks(threads.len().max(1)) {
        let Some(first) = rows.first() else { continue };
        let figures =
            rows.iter().flat_map(|row| [megabytes(row.bytes_per_second.median), percent(row.share_of_limit.median)]);
        let piece = size(first.block_size.unwrap_or(0).into());
        table.row([way(first).to_owned(), piece].into_iter().chain(figures));
    }
    table
}

fn times(report: &CheckBenchReport) -> Table {
    let headings =
        ["idea", "way", "workers", "block", "depth", "MB/s", "waiting", "copying", "checksums", "CPU s per GB"];
    let mut table = Table::new(2, &headings);
    for row in &report.time {
        table.row([
            row.name.clone(),
            way_name(row.way).to_owned(),
            row.workers.to_string(),
            size(row.block_size.into()),
            row.depth.to_string(),
            megabytes(row.bytes_per_second.median),
            percent(row.waiting),
            percent(row.copying),
            percent(row.checksums),
            number(row.processor_seconds_per_gb),
        ]);
    }
    table
}

fn clocked(simulated: &SimulatedCheck) -> Table {
    let mut table = Table::new(0, &["block", "depth", "requests", "most in flight", "seconds", "times the first"]);
    for row in &simulated.rows {
        table.row([
            size(row.block_size.into()),
            row.depth.to_string(),
            grouped(row.requests),
            grouped(row.in_flight_max),
            number(row.seconds),
            number(row.times_first),
        ]);
    }
    table
}

fn peers(report: &CheckBenchReport) -> Table {
    let mut table = Table::new(1, &["tool", "MB/s", "of the limit", "lowest", "highest"]);
    for row in &report.peers {
        let share = &row.share_of_limit;
        let shares = [share.median, share.low, share.high].map(percent);
        table.row([row.name.clone(), megabytes(row.bytes_per_second.median)].into_iter().chain(shares));
    }
    table
}

fn chart(report: &CheckBenchReport) -> Chart {
    let bar = |class: usize| {
        move |row: &CheckBenchRow| Bar {
            label: row.name.clone(),
            class,
            value: row.bytes_per_second.median / 1e6,
            text: format!(
                "{} MB/s, {} of the limit",
                megabytes(row.bytes_per_second.median),
                percent(row.share_of_limit.median)
            ),
        }
    };
    let rows = report.ideas.iter().map(bar(0)).chain(report.peers.iter().map(bar(1)));
    let bars = Panel::Bars(Bars {
        heading: "Idea by idea".to_owned(),
        axis: "MB/s of the file, cold".to_owned(),
        classes: vec!["innokit".to_owned(), "other tools".to_owned()],
        rows: rows.collect(),
        mark: Some((report.limit.bytes_per_second.median / 1e6, "limit of the device".to_owned())),
    });
    let series = lines(report).filter_map(|line| {
        let first = line.first()?;
        let (workers, depth) = (first.workers_asked?, first.depth_asked?);
        let memory = size(first.memory?);
        let points =
            line.iter().filter_map(|row| Some((f64::from(row.block_size_asked?), row.bytes_per_second.median / 1e6)));
        let name =
            format!("{}, {workers} worker{} x {depth} in {memory}", way(first), if workers == 1 { "" } else { "s" });
        Some(Series { name, points: points.collect() })
    });
    let series: Vec<Series> = series.collect();
    let lines = (!series.is_empty()).then(|| {
        Panel::Lines(Lines {
            heading: "Way, workers x depth in memory, and block size, as asked for".to_owned(),
            x: Axis::powers_of_two("bytes of a request"),
            y: Axis::linear("MB/s of the file, cold"),
            series,
            enclosed: Vec::new(),
        })
    });
    let panels = [Some(bars), classic_chart(report), lines].into_iter().flatten().collect();
    let notes = show::notes(&report.machine, &report.storage);
    Chart { title: format!("bench check, {} bytes", grouped(report.bytes)), notes, panels }
}

fn classic_chart(report: &CheckBenchReport) -> Option<Panel> {
    let rows: Vec<Bar> = report
        .classic
        .iter()
        .map(|row| {
            let threads = row.workers.unwrap_or(0);
            Bar {
                label: format!("{}, {} pieces, threads: {threads}", way(row), size(row.block_size.unwrap_or(0).into())),
                class: usize::from(threads > 1),
                value: row.bytes_per_second.median / 1e6,
                text: format!("{} MB/s", megabytes(row.bytes_per_second.median)),
            }
        })
        .collect();
    let classes = vec!["one thread".to_owned(), "many threads".to_owned()];
    (!rows.is_empty()).then(|| {
        let (heading, axis) = ("The classic table".to_owned(), "MB/s of the file, cold".to_owned());
        let mark = Some((report.limit.bytes_per_second.median / 1e6, "limit of the device".to_owned()));
        Panel::Bars(Bars { heading, axis, classes, rows, mark })
    })
}
