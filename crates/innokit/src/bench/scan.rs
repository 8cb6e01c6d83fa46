//! `innokit bench scan`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::aged::Aged;
use ::bench::pattern::Way;
use ::bench::scan::{IndexRows, Sample, ScanBenchOptions, ScanBenchReport, ScanBenchRow, Simulated, scan, way_words};

use super::args::{OutputArgs, ScanArgs};
use super::chart::{Axis, Bar, Bars, Chart, Lines, Panel, Series};
use super::show;
use super::table::Table;
use super::units::{megabytes, number, percent, rounds, size};
use crate::print::grouped;

/// Measures, prints and draws.
pub fn run(args: &ScanArgs, output: &OutputArgs, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let options = ScanBenchOptions {
        rounds: usize::from(args.rounds),
        index: args.index.clone(),
        sim: args.simulated.options(),
        pool: args.pool,
        aged: args.aged,
    };
    let report = show::watched(output, stop, |watch| scan(&args.file, &options, watch))?;
    show::show(&report, output, text, chart)
}

fn text(report: &ScanBenchReport, out: &mut dyn Write) -> io::Result<()> {
    show::heading(&report.machine, &report.storage, out)?;
    writeln!(
        out,
        "file     {} bytes; requests of at most {}, {} in flight; servers' buffer pool {}",
        grouped(report.bytes),
        size(report.block_size.into()),
        report.depth,
        size(report.pool)
    )?;
    writeln!(out, "cache    {}", report.cache.words())?;
    if let Some(aged) = &report.aged {
        writeln!(out, "aged     {}", history(aged))?;
    }
    let rounds = rounds(report.rounds);
    for index in &report.indexes {
        writeln!(out, "\n{} ({rounds})", title(index))?;
        measured(index).print(out)?;
        if let Some(simulated) = &index.simulated {
            writeln!(out, "\nThe same, direct, at {} (simulated)", show::simulated(&simulated.device, false))?;
            clocked(simulated).print(out)?;
        }
    }
    for note in &report.notes {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}

/// How the table aged.
fn history(aged: &Aged) -> String {
    format!(
        "{} rows inserted in key order; in {} rounds {} made longer, {} deleted, {} appended: {} leaves split, {} merged; {} of {} are followed by the next page",
        grouped(aged.inserted),
        aged.rounds,
        grouped(aged.grown),
        grouped(aged.deleted),
        grouped(aged.appended),
        grouped(aged.splits),
        grouped(aged.merges),
        percent(aged.followed as f64 / aged.leaves.max(1) as f64),
        grouped(aged.leaves)
    )
}

/// `Clustered index PRIMARY of shop.t: 105,182 pages on 3 levels, 5,200,000 records`.
fn title(index: &IndexRows) -> String {
    format!(
        "{}: {} pages on {} levels, {} records",
        name(index),
        grouped(index.pages),
        index.levels,
        grouped(index.records)
    )
}

fn name(index: &IndexRows) -> String {
    let kind = if index.clustered { "Clustered index" } else { "Index" };
    let name = index.name.clone().unwrap_or_else(|| index.id.to_string());
    let table = index.table.as_ref().map(|table| format!(" of {table}")).unwrap_or_default();
    format!("{kind} {name}{table}")
}

fn measured(index: &IndexRows) -> Table {
    let headings = [
        "way",
        "read-ahead",
        "requests",
        "MB",
        "seconds",
        "MB/s",
        "+-",
        "requests/s",
        "in flight",
        "most",
        "of the best",
    ];
    let mut table = Table::new(2, &headings);
    for row in &index.rows {
        table.row([
            way_words(row.way).to_owned(),
            row.policy.words().to_owned(),
            grouped(row.requests),
            megabytes(row.bytes as f64),
            number(row.seconds.median),
            megabytes(row.bytes_per_second.median),
            percent(row.bytes_per_second.noise()),
            number(row.requests as f64 / row.seconds.median.max(1e-9)),
            number(row.in_flight_mean),
            row.in_flight_max.to_string(),
            percent(row.share_of_best.median),
        ]);
    }
    table
}

fn clocked(simulated: &Simulated) -> Table {
    let mut table = Table::new(1, &["read-ahead", "requests", "most in flight", "seconds", "times as fast as none"]);
    for row in &simulated.rows {
        table.row([
            row.policy.words().to_owned(),
            grouped(row.requests),
            row.in_flight_max.to_string(),
            number(row.seconds),
            number(row.times_none),
        ]);
    }
    table
}

fn chart(report: &ScanBenchReport) -> Chart {
    let mut panels = Vec::new();
    for index in &report.indexes {
        panels.push(Panel::Bars(bars(index)));
        panels.extend(over_time(index, "rate over the run", "MB/s", |sample| sample.bytes_per_second / 1e6));
        panels.extend(over_time(index, "requests over the run", "requests/s", |sample| sample.requests_per_second));
    }
    let notes = show::notes(&report.machine, &report.storage);
    Chart { title: format!("bench scan, {} bytes", grouped(report.bytes)), notes, panels }
}

/// A figure over the time of the scans: one panel per way, so that no panel has more lines than there are kinds of read-ahead. All have the
/// same axes, and a kind has the same colour in all.
fn over_time(index: &IndexRows, what: &str, axis: &str, figure: fn(&Sample) -> f64) -> Vec<Panel> {
    let points = |row: &ScanBenchRow| row.over_time.iter().map(|sample| (sample.seconds, figure(sample))).collect();
    let all: Vec<(f64, f64)> = index.rows.iter().flat_map(|row| -> Vec<_> { points(row) }).collect();
    let panel = |way: Way| {
        let rows = index.rows.iter().filter(move |row| row.way == way);
        let series: Vec<_> =
            rows.map(|row| Series { name: row.policy.words().to_owned(), points: points(row) }).collect();
        (!series.is_empty()).then(|| {
            Panel::Lines(Lines {
                heading: format!("{}, {}: {what}", name(index), way_words(way)),
                x: Axis::logarithmic("seconds from the start of the scan"),
                y: Axis::linear(axis),
                series,
                enclosed: all.clone(),
            })
        })
    };
    [Way::Direct, Way::Buffered].into_iter().filter_map(panel).collect()
}

fn row_name(row: &ScanBenchRow) -> String {
    format!("{}, {}", way_words(row.way), row.policy.words())
}

fn bars(index: &IndexRows) -> Bars {
    let bar = |row: &ScanBenchRow| Bar {
        label: row_name(row),
        class: usize::from(row.way == Way::Buffered),
        value: row.bytes_per_second.median / 1e6,
        text: format!("{} MB/s in {} requests", megabytes(row.bytes_per_second.median), grouped(row.requests)),
    };
    Bars {
        heading: title(index),
        axis: "MB/s of the index, cold".to_owned(),
        classes: vec!["direct".to_owned(), "buffered".to_owned()],
        rows: index.rows.iter().map(bar).collect(),
        mark: None,
    }
}
