//! `innokit bench scan`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::scan::{IndexRows, Sample, ScanBenchOptions, ScanBenchReport, ScanBenchRow, Simulated, scan, way_words};

use super::args::{OutputArgs, ScanArgs};
use super::chart::{Axis, Bar, Bars, Chart, Lines, Panel, Series};
use super::show;
use super::table::Table;
use super::units::{megabytes, number, percent, size};
use crate::print::grouped;

/// Measures, prints and draws.
pub fn run(args: &ScanArgs, output: &OutputArgs, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let options =
        ScanBenchOptions { rounds: usize::from(args.rounds), index: args.index.clone(), sim: args.simulated.options() };
    let report = show::watched(output, stop, |watch| scan(&args.file, &options, watch))?;
    show::show(&report, output, text, chart)
}

fn text(report: &ScanBenchReport, out: &mut dyn Write) -> io::Result<()> {
    show::heading(&report.machine, &report.storage, out)?;
    writeln!(
        out,
        "file     {} bytes; requests of at most {}, {} in flight",
        grouped(report.bytes),
        size(report.block_size.into()),
        report.depth
    )?;
    writeln!(out, "cache    {}", report.cache.words())?;
    let rounds = if report.rounds == 1 { "one round" } else { &format!("medians of {} rounds", report.rounds) };
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
        let over = |heading: &str, axis: &str, figure: fn(&Sample) -> f64| {
            let series = index.rows.iter().map(|row| line(row, figure));
            Panel::Lines(Lines {
                heading: format!("{}: {heading}", name(index)),
                x: Axis::logarithmic("seconds from the start of the scan"),
                y: Axis::linear(axis),
                series: series.collect(),
            })
        };
        panels.push(over("rate over the run", "MB/s", |sample| sample.bytes_per_second / 1e6));
        panels.push(over("requests over the run", "requests/s", |sample| sample.requests_per_second));
    }
    let notes = show::notes(&report.machine, &report.storage);
    Chart { title: format!("bench scan, {} bytes", grouped(report.bytes)), notes, panels }
}

fn row_name(row: &ScanBenchRow) -> String {
    format!("{}, {}", way_words(row.way), row.policy.words())
}

fn bars(index: &IndexRows) -> Bars {
    let bar = |row: &ScanBenchRow| Bar {
        label: row_name(row),
        class: usize::from(row.way == ::bench::pattern::Way::Buffered),
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

fn line(row: &ScanBenchRow, figure: fn(&Sample) -> f64) -> Series {
    let points = row.over_time.iter().map(|sample| (sample.seconds, figure(sample)));
    Series { name: row_name(row), points: points.collect() }
}
