//! `innokit bench kernels`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::BenchStep;
use ::bench::kernels::{
    CountOperation, CountRow, Counting, KernelRow, KernelsOptions, KernelsReport, Place, Wait, kernels,
};

use super::args::{KernelsArgs, OutputArgs};
use super::chart::{Bar, Bars, Chart, Panel};
use super::show;
use super::table::Table;
use super::units::{number, percent, size};

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
    let shared = &report.counters;
    writeln!(out, "\nCounting with {}, nanoseconds for each operation of each thread", threads(shared))?;
    let mut table = Table::new(2, &["counters", "operation", "ns", "+-", "times the first"]);
    let first = shared.counters.first().map_or(0.0, |row| row.ns.median);
    for row in &shared.counters {
        table.row([
            place(row.place, shared.padding_bytes),
            operation(row.operation).to_owned(),
            number(row.ns.median),
            percent(row.ns.noise()),
            number(row.ns.median / first.max(1e-9)),
        ]);
    }
    table.print(out)?;
    writeln!(out, "\nA word from one thread to another and back, by what each does until it sees it")?;
    let mut table = Table::new(1, &["while waiting", "ns there and back", "+-", "cores used"]);
    for row in &shared.waits {
        table.row([wait(row.wait).to_owned(), number(row.ns.median), percent(row.ns.noise()), number(row.cores_used)]);
    }
    table.print(out)
}

fn threads(shared: &Counting) -> String {
    let pinned = if shared.pinned { ", each pinned to a core of its own" } else { ", not pinned" };
    format!("{} threads{pinned}", shared.threads)
}

fn place(place: Place, padding: usize) -> String {
    match place {
        Place::Padded => format!("one for each thread, {padding} bytes apart, as innokit has them"),
        Place::SideBySide => "one for each thread, side by side".to_owned(),
        Place::Shared => "one for all threads".to_owned(),
    }
}

const fn operation(operation: CountOperation) -> &'static str {
    match operation {
        CountOperation::AddRelaxed => "add, relaxed",
        CountOperation::AddSeqCst => "add, sequentially consistent",
        CountOperation::StoreRelaxed => "store, relaxed",
        CountOperation::StoreRelease => "store, release",
        CountOperation::StoreSeqCst => "store, sequentially consistent",
    }
}

const fn wait(wait: Wait) -> &'static str {
    match wait {
        Wait::Nothing => "nothing",
        Wait::SpinLoop if cfg!(target_arch = "x86_64") => "PAUSE",
        Wait::SpinLoop if cfg!(target_arch = "aarch64") => "ISB",
        Wait::SpinLoop => "spin_loop",
        Wait::Yield => "yield to other threads",
        Wait::SpinThenYield => "the processor's pause 100 times, then yield",
        Wait::Sleep => "sleep until woken",
    }
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
    let shared = &report.counters;
    let bar = |label: String, class, value: f64| Bar { label, class, value, text: format!("{} ns", number(value)) };
    let class = |is_ours: bool| usize::from(!is_ours);
    let ours = |row: &CountRow| row.place == Place::Padded && row.operation == CountOperation::AddRelaxed;
    let counting = shared.counters.iter().map(|row| {
        let label = format!("{}: {}", place(row.place, shared.padding_bytes), operation(row.operation));
        bar(label, class(ours(row)), row.ns.median)
    });
    let waiting = shared
        .waits
        .iter()
        .map(|row| bar(wait(row.wait).to_owned(), class(matches!(row.wait, Wait::Sleep)), row.ns.median));
    let panel = |heading: String, axis: &str, rows: Vec<Bar>| {
        let classes = vec!["as innokit does it".to_owned(), "other ways".to_owned()];
        Panel::Bars(Bars { heading, axis: axis.to_owned(), classes, rows, mark: None })
    };
    let counting = panel(
        format!("Counting with {}", threads(shared)),
        "nanoseconds for each operation of each thread",
        counting.collect(),
    );
    let waiting =
        panel("A word from one thread to another and back".to_owned(), "nanoseconds there and back", waiting.collect());
    let machine = format!("{}, {} GHz while this ran", report.architecture, number(report.gigahertz));
    Chart {
        title: format!("bench kernels, pages {}", pages(report)),
        notes: vec![machine],
        panels: vec![
            bars("In the core's cache", |row| row.cached_gb_per_s),
            bars("From memory", |row| row.memory_gb_per_s),
            counting,
            waiting,
        ],
    }
}
