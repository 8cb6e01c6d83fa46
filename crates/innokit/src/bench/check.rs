//! `innokit bench check`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::check::{CheckBenchOptions, CheckBenchReport, CheckBenchRow, check};
use ::bench::pattern::Way;

use super::args::{CheckBenchArgs, OutputArgs};
use super::chart::{Axis, Bar, Bars, Chart, Lines, Panel, Series};
use super::show;
use super::table::Table;
use super::units::{megabytes, number, percent, size};
use crate::print::grouped;

/// Measures, prints and draws.
pub fn run(args: &CheckBenchArgs, output: &OutputArgs, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let options = CheckBenchOptions {
        rounds: usize::from(args.rounds),
        time: args.seconds,
        peers: args.peer.clone(),
        find_peers: !args.no_peers,
        ..CheckBenchOptions::default()
    };
    let report = show::watched(output, stop, |watch| check(&args.file, &options, watch))?;
    show::show(&report, output, text, chart)
}

fn way(row: &CheckBenchRow) -> &'static str {
    match row.way {
        Some(Way::Direct) => "direct",
        Some(Way::Buffered) => "buffered",
        None => "",
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
    let rounds =
        if report.rounds == 1 { "one round".to_owned() } else { format!("medians of {} rounds", report.rounds) };
    writeln!(out, "\nIdea by idea ({rounds}; shares are of the limit in the same round)")?;
    ideas(report).print(out)?;
    writeln!(out, "\nWay x workers x block size: MB/s, and share of the limit")?;
    matrix(report).print(out)?;
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

/// The block sizes in the table, in order.
fn block_sizes(report: &CheckBenchReport) -> Vec<u32> {
    let mut sizes: Vec<u32> = report.table.iter().filter_map(|row| row.block_size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The lines of the table: rows with the same way and workers.
fn lines(report: &CheckBenchReport) -> impl Iterator<Item = &[CheckBenchRow]> {
    report.table.chunk_by(|a, b| (a.way, a.workers) == (b.way, b.workers))
}

fn matrix(report: &CheckBenchReport) -> Table {
    let sizes = block_sizes(report);
    let headings: Vec<String> = ["way".to_owned(), "workers".to_owned()]
        .into_iter()
        .chain(sizes.iter().flat_map(|block| [size((*block).into()), "share".to_owned()]))
        .collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(1, &headings);
    for line in lines(report) {
        let Some(first) = line.first() else { continue };
        let cells = sizes.iter().flat_map(|block| {
            let row = line.iter().find(|row| row.block_size == Some(*block));
            row.map_or_else(Default::default, |row| {
                [megabytes(row.bytes_per_second.median), percent(row.share_of_limit.median)]
            })
        });
        table.row([way(first).to_owned(), or_nothing(first.workers)].into_iter().chain(cells));
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
        let workers = first.workers.unwrap_or(0);
        let points =
            line.iter().filter_map(|row| Some((f64::from(row.block_size?), row.bytes_per_second.median / 1e6)));
        let name = format!("{}, {workers} worker{}", way(first), if workers == 1 { "" } else { "s" });
        Some(Series { name, points: points.collect() })
    });
    let lines = Panel::Lines(Lines {
        heading: "Way, workers and block size, 8 requests in flight for each worker".to_owned(),
        x: Axis::powers_of_two("bytes of a request"),
        y: Axis::linear("MB/s of the file, cold"),
        series: series.collect(),
    });
    let notes = show::notes(&report.machine, &report.storage);
    Chart { title: format!("bench check, {} bytes", grouped(report.bytes)), notes, panels: vec![bars, lines] }
}
