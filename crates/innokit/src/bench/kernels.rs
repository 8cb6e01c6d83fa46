//! `innokit bench kernels`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::BenchStep;
use ::bench::kernels::{KernelRow, KernelsOptions, KernelsReport, kernels};

use super::args::{KernelsArgs, OutputArgs};
use super::chart::{Bar, Bars, Chart, Panel};
use super::show;
use super::table::Table;
use super::units::{number, size};

/// Measures, prints and draws.
pub fn run(args: &KernelsArgs, output: &OutputArgs, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let defaults = KernelsOptions::default();
    let options = KernelsOptions {
        page_size: usize::try_from(args.page_size)?,
        rounds: u32::from(args.rounds),
        slice: args.seconds,
        threads: args.threads.map_or(defaults.threads, usize::from),
        ..defaults
    };
    let report = show::watched(output, stop, |watch| {
        watch.go_on()?;
        let report = kernels(&options, &mut |what, done, expected| {
            (watch.step)(&BenchStep { what: what.to_owned(), done, expected });
        });
        watch.go_on().map(|()| report)
    })?;
    show::show(&report, output, text, chart)
}

fn text(report: &KernelsReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "machine  {}, {} GHz while this ran", report.architecture, number(report.gigahertz))?;
    writeln!(out, "pages    {}, in the core's cache and from memory; * is what innokit takes here\n", pages(report))?;
    let headings = ["kernel", "path", "", "GB/s in cache", "bytes a cycle", "GB/s from memory", "times the first path"];
    let mut table = Table::new(3, &headings);
    for row in &report.kernels {
        let first = report.kernels.iter().find(|other| other.kernel == row.kernel).unwrap_or(row);
        table.row([
            row.kernel.to_owned(),
            row.path.clone(),
            if row.taken { "*" } else { "" }.to_owned(),
            number(row.cached_gb_per_s),
            number(row.cached_bytes_per_cycle),
            number(row.memory_gb_per_s),
            number(row.cached_gb_per_s / first.cached_gb_per_s.max(1e-9)),
        ]);
    }
    table.print(out)?;
    let counters = &report.counters;
    writeln!(out, "\nCounting with {} threads, nanoseconds for each addition of each thread", counters.threads)?;
    let mut table = Table::new(1, &["counters", "ns"]);
    let padded = format!("one for each thread, {} bytes apart, as innokit has them", counters.padding_bytes);
    table.row([padded, number(counters.padded_ns)]);
    table.row(["one for each thread, side by side".to_owned(), number(counters.neighbours_ns)]);
    table.row(["one for all threads".to_owned(), number(counters.shared_ns)]);
    table.print(out)
}

fn pages(report: &KernelsReport) -> String {
    format!("of {}", size(report.page_size as u64))
}

fn chart(report: &KernelsReport) -> Chart {
    let bars = |heading: &str, figure: fn(&KernelRow) -> f64| {
        let rows = report.kernels.iter().map(|row| Bar {
            label: format!("{}: {}", row.kernel, row.path),
            class: usize::from(!row.taken),
            value: figure(row),
            text: format!("{} GB/s", number(figure(row))),
        });
        let classes = vec!["as innokit does it here".to_owned(), "other paths".to_owned()];
        let (heading, axis) = (heading.to_owned(), "GB/s, one core".to_owned());
        Panel::Bars(Bars { heading, axis, classes, rows: rows.collect(), mark: None })
    };
    let counters = &report.counters;
    let bar = |label: &str, class, value: f64| {
        let text = format!("{} ns", number(value));
        Bar { label: label.to_owned(), class, value, text }
    };
    let counting = Panel::Bars(Bars {
        heading: format!("Counting with {} threads", counters.threads),
        axis: "nanoseconds for each addition of each thread".to_owned(),
        classes: vec!["as innokit does it".to_owned(), "other ways".to_owned()],
        rows: vec![
            bar("a counter for each thread, padded", 0, counters.padded_ns),
            bar("a counter for each thread, side by side", 1, counters.neighbours_ns),
            bar("one counter for all threads", 1, counters.shared_ns),
        ],
        mark: None,
    });
    let machine = format!("{}, {} GHz while this ran", report.architecture, number(report.gigahertz));
    Chart {
        title: format!("bench kernels, pages {}", pages(report)),
        notes: vec![machine],
        panels: vec![
            bars("In the core's cache", |row| row.cached_gb_per_s),
            bars("From memory", |row| row.memory_gb_per_s),
            counting,
        ],
    }
}
