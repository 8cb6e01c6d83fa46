//! `innokit bench log`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::log::{
    Call, Ground, LogBenchOptions, LogBenchReport, LogBenchRow, Loop, Method, Padding, SideFigures, SimulatedFill,
    SimulatedLog, Sync, log,
};

use super::args::{LogArgs, OutputArgs};
use super::chart::{Axis, Bar, Bars, Chart, Lines, Panel, Series};
use super::show;
use super::table::Table;
use super::units::{number, percent, rounds, size};
use crate::print::grouped;

/// Measures, prints and draws.
pub fn run(args: &LogArgs, output: &OutputArgs, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let defaults = LogBenchOptions::default();
    let options = LogBenchOptions {
        rounds: usize::from(args.rounds),
        time: args.seconds,
        size: args.size,
        record: usize::from(args.record),
        sim: args.simulated.options(),
        scattered: args.scattered,
        write_ahead: if args.write_ahead.is_empty() { defaults.write_ahead } else { args.write_ahead.clone() },
        callers: if args.callers.is_empty() { defaults.callers } else { args.callers.clone() },
    };
    let report = show::watched(output, stop, |watch| log(&args.dir, &options, watch))?;
    show::show(&report, output, text, chart)
}

const fn method(method: Method) -> &'static str {
    match method {
        Method::BareLoop => "bare pwrite + fdatasync loop",
        Method::Naive => "naive, 512 bytes",
        Method::ZeroFill => "zero-fill at first touch",
        Method::Whole => "always whole blocks",
        Method::Direct => "direct",
        Method::Dsync => "O_DSYNC, zero-fill",
        Method::DirectDsync => "direct, O_DSYNC",
    }
}

const fn ground(ground: Ground) -> &'static str {
    match ground {
        Ground::Growing => "growing",
        Ground::Fallocated => "fallocated",
        Ground::Zeroed => "zeroed before",
        Ground::Recycled => "recycled",
    }
}

fn text(report: &LogBenchReport, out: &mut dyn Write) -> io::Result<()> {
    show::heading(&report.machine, &report.storage, out)?;
    let rounds = rounds(report.rounds);
    writeln!(
        out,
        "commits  records of {} bytes, {} s a measurement, {rounds}",
        report.record_bytes, report.seconds_each
    )?;
    writeln!(out, "cache    {}", report.cache.words())?;
    writeln!(out, "\nOne caller; reads, writes, KiB written and flushes are those of the device for each commit")?;
    rows(&report.one_caller, false).print(out)?;
    if !report.callers.is_empty() {
        writeln!(out, "\nGroup commit: several callers, recycled space")?;
        rows(&report.callers, true).print(out)?;
    }
    pairs(report, out)?;
    if let Some(simulated) = &report.simulated {
        clocked(simulated, out)?;
    }
    writeln!(
        out,
        "\nown reads: what this process made the system read, in blocks of the file system; the device counts for everybody"
    )?;
    if report.storage.device.is_none() {
        writeln!(out, "n/a: not available; the file system has no block device of its own")?;
    }
    writeln!(out)?;
    for line in findings(report) {
        writeln!(out, "{line}")?;
    }
    for note in &report.notes {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}

/// The tables of the simulated device.
fn clocked(simulated: &SimulatedLog, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nOne caller on recycled space at {} (simulated)", show::simulated(&simulated.device, true))?;
    let headings = ["log", "commits", "writes", "syncs", "hidden reads", "seconds", "times naive"];
    let mut table = Table::new(1, &headings);
    for row in &simulated.commits {
        let fill = match row.fill {
            SimulatedFill::Nothing => method(Method::Naive),
            SimulatedFill::FirstTouch => method(Method::ZeroFill),
            SimulatedFill::Whole => method(Method::Whole),
        };
        let counts = [row.commits, row.writes, row.syncs, row.hidden_reads].map(grouped);
        table.row([fill.to_owned()].into_iter().chain(counts).chain([number(row.seconds), number(row.times_naive)]));
    }
    table.print(out)?;
    writeln!(out, "\nPages of 4K written at scattered places of that device")?;
    let headings = ["in flight", "writes", "writes a sync", "syncs", "most in flight", "seconds", "times the first"];
    let mut table = Table::new(0, &headings);
    for row in &simulated.scattered {
        let counts = [u64::from(row.depth), row.writes, row.sync_every, row.syncs, row.in_flight_max].map(grouped);
        table.row(counts.into_iter().chain([number(row.seconds), number(row.times_first)]));
    }
    table.print(out)
}

/// Plain loops, measured in turns with naive ones.
fn pairs(report: &LogBenchReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\nPlain loops in turns with a naive one, both on cold recycled space; first: the first commit in a block"
    )?;
    let headings = [
        "loop",
        "calls",
        "gain",
        "lowest",
        "highest",
        "expected",
        "naive: first us",
        "other us",
        "own reads",
        "writes",
        "filled: first us",
        "other us",
        "own reads",
        "writes",
    ];
    let mut table = Table::new(2, &headings);
    let counted = |figure: Option<f64>| figure.map_or_else(|| "n/a".to_owned(), |figure| format!("{figure:.3}"));
    for row in &report.pairs {
        let gain = [row.gain.median, row.gain.low, row.gain.high].map(number);
        let side = |side: &SideFigures| {
            [number(side.first_us), number(side.other_us), counted(side.own_reads), counted(side.device_writes)]
        };
        let expected = row.gain_expected.map_or_else(|| "n/a".to_owned(), number);
        let cells = [loop_name(row.of), calls(row.of)].into_iter().chain(gain).chain([expected]);
        table.row(cells.chain(side(&row.naive)).chain(side(&row.filled)));
    }
    table.print(out)
}

fn loop_name(of: Loop) -> String {
    match of.padding {
        Padding::Ahead(512) => "naive too: what chance makes of it".to_owned(),
        Padding::Ahead(bytes) => format!("zeros ahead to {}", size(bytes.into())),
        Padding::WholeBlock => "always whole blocks".to_owned(),
    }
}

fn calls(of: Loop) -> String {
    let call = match of.call {
        Call::Pwrite => "pwrite",
        Call::Write => "write",
    };
    let sync = match of.sync {
        Sync::Fdatasync => "fdatasync",
        Sync::Fsync => "fsync",
    };
    format!("{call}, {sync}")
}

fn rows(rows: &[LogBenchRow], group: bool) -> Table {
    let what = if group { "callers" } else { "space" };
    let shared = if group { "commits a sync" } else { "+-" };
    let headings =
        ["log", what, "commits/s", shared, "p50 us", "p99 us", "own reads", "device reads", "writes", "KiB", "flushes"];
    let mut table = Table::new(if group { 1 } else { 2 }, &headings);
    let counted = |figure: Option<f64>| figure.map_or_else(|| "n/a".to_owned(), |figure| format!("{figure:.3}"));
    for row in rows {
        let storage = &row.per_commit;
        table.row([
            method(row.method).to_owned(),
            if group { row.callers.to_string() } else { ground(row.ground).to_owned() },
            number(row.commits_per_second.median),
            if group { number(row.commits_per_group) } else { percent(row.commits_per_second.noise()) },
            number(row.latency.p50_us),
            number(row.latency.p99_us),
            counted(storage.own_reads),
            counted(storage.device_reads),
            counted(storage.device_writes),
            storage.device_written_bytes.map_or_else(|| "n/a".to_owned(), |bytes| number(bytes / 1024.0)),
            counted(storage.device_flushes),
        ]);
    }
    table
}

/// What a comparison of the rows shows.
fn findings(report: &LogBenchReport) -> Vec<String> {
    let row = |method: Method, ground: Ground| {
        report.one_caller.iter().find(|row| row.method == method && row.ground == ground)
    };
    let written = |method: Method, ground: Ground| {
        let storage = &row(method, ground)?.per_commit;
        Some(format!(
            "{} writes, {} KiB",
            number(storage.device_writes?),
            number(storage.device_written_bytes? / 1024.0)
        ))
    };
    let against = |ratio: Option<f64>, (method, ground): (Method, Ground), name: &str| {
        let words =
            ratio.map(|ratio| format!("recycled space against {name}: {} times the commits/s", number(ratio)))?;
        Some(match (written(Method::ZeroFill, Ground::Recycled), written(method, ground)) {
            (Some(ours), Some(theirs)) => {
                format!("{words} (a commit costs the device {ours} against {theirs} with the journal)")
            }
            _ => words,
        })
    };
    let ratios = &report.ratios;
    let reads = |method: Method| row(method, Ground::Recycled).and_then(|row| row.per_commit.own_reads);
    let hidden = reads(Method::Naive).zip(reads(Method::ZeroFill)).map(|(naive, ours)| {
        format!("hidden reads on recycled space: naive {naive:.3} a commit, zero-fill at first touch {ours:.3}")
    });
    let group = report.callers.iter().map(|row| row.callers).filter(|callers| *callers <= 32).max();
    let plain = report.pairs.iter().find(|row| row.of.call == Call::Pwrite && row.gain_expected.is_some());
    let bound = plain.and_then(|row| Some((row, row.gain_expected?))).map(|(row, expected)| {
        format!(
            "why not more: a naive commit takes {} us, the first in a block {} us (medians), and one in eight is a first: \
             without hidden reads {} times the commits/s, by the means",
            number(row.naive.other_us),
            number(row.naive.first_us),
            number(expected)
        )
    });
    let over = |ratio: Option<f64>, name: &str| {
        ratio.map(|ratio| {
            format!("{name} against naive, recycled space, log writer: {} times the commits/s", number(ratio))
        })
    };
    let lines = [
        hidden,
        over(ratios.zero_fill_to_naive, "zero-fill at first touch"),
        over(ratios.whole_to_naive, "always whole blocks"),
        bound,
        against(ratios.recycled_to_append, (Method::Naive, Ground::Growing), "512 bytes appended to a growing file"),
        against(ratios.recycled_to_growing, (Method::ZeroFill, Ground::Growing), "a growing file, zero-filled too"),
        against(
            ratios.recycled_to_fallocated,
            (Method::ZeroFill, Ground::Fallocated),
            "fallocated space, zero-filled too",
        ),
        ratios.many_callers_to_one.zip(group).map(|(ratio, callers)| {
            format!("group commit: {callers} callers make {} times the commits/s of one", number(ratio))
        }),
        ratios.writer_to_bare_loop.map(|ratio| {
            format!("one caller pays {} times the time of a bare loop of pwrite and fdatasync", number(ratio))
        }),
    ];
    lines.into_iter().flatten().collect()
}

fn chart(report: &LogBenchReport) -> Chart {
    let grounds = [Ground::Growing, Ground::Fallocated, Ground::Zeroed, Ground::Recycled];
    let classes: Vec<String> = grounds.iter().map(|one| ground(*one).to_owned()).collect();
    let bars = |heading: &str, axis: &str, figure: &dyn Fn(&LogBenchRow) -> Option<(f64, String)>| {
        let rows = report.one_caller.iter().filter_map(|row| {
            let (value, text) = figure(row)?;
            let class = grounds.iter().position(|ground| *ground == row.ground).unwrap_or(0);
            Some(Bar { label: format!("{}, {}", method(row.method), ground(row.ground)), class, value, text })
        });
        let (heading, axis, classes) = (heading.to_owned(), axis.to_owned(), classes.clone());
        Panel::Bars(Bars { heading, axis, classes, rows: rows.collect(), mark: None })
    };
    let commits = bars("One caller", "commits/s", &|row| {
        let rate = row.commits_per_second.median;
        Some((rate, format!("{} /s, p99 {} us", number(rate), number(row.latency.p99_us))))
    });
    let is_telling = |row: &LogBenchRow| matches!(row.method, Method::ZeroFill | Method::Direct | Method::Dsync);
    let heading = "What the device wrote for each commit: the log's blocks, and the journal's";
    let writes = bars(heading, "KiB a commit", &|row| {
        let kib = row.per_commit.device_written_bytes.filter(|_| is_telling(row))? / 1024.0;
        let (writes, flushes) = (row.per_commit.device_writes?, row.per_commit.device_flushes?);
        Some((kib, format!("{} KiB, {} writes, {} flushes", number(kib), number(writes), number(flushes))))
    });
    let reads =
        bars("Hidden reads for each commit, recycled space", "blocks of the file system read a commit", &|row| {
            let reads = row.per_commit.own_reads.filter(|_| row.ground == Ground::Recycled)?;
            Some((reads, format!("{reads:.3}")))
        });
    let has_counters = report.one_caller.iter().any(|row| row.per_commit.device_writes.is_some());
    let has_reads = report.one_caller.iter().any(|row| row.per_commit.own_reads.is_some());
    let lines = |heading: &str, axis: &str, figure: &dyn Fn(&LogBenchRow) -> f64| {
        let series = series(report, figure);
        (!series.is_empty()).then(|| {
            Panel::Lines(Lines {
                heading: heading.to_owned(),
                x: Axis::powers_of_two("callers"),
                y: Axis::logarithmic(axis),
                series,
                enclosed: Vec::new(),
            })
        })
    };
    let panels = [
        Some(commits),
        lines("Group commit, recycled space", "commits/s", &|row| row.commits_per_second.median),
        lines("Time of a commit, recycled space", "p99, microseconds", &|row| row.latency.p99_us),
        has_reads.then_some(reads),
        has_counters.then_some(writes),
    ];
    let mut notes = show::notes(&report.machine, &report.storage);
    notes.push(report.cache.words().to_owned());
    Chart { title: format!("bench log {}", report.storage.path), notes, panels: panels.into_iter().flatten().collect() }
}

/// Lines by the number of callers: one caller from the first table, more from the second.
fn series(report: &LogBenchReport, figure: &dyn Fn(&LogBenchRow) -> f64) -> Vec<Series> {
    let mut methods: Vec<Method> = report.callers.iter().map(|row| row.method).collect();
    methods.dedup();
    let one = |wanted: Method| {
        report.one_caller.iter().find(move |row| row.method == wanted && row.ground == Ground::Recycled)
    };
    let line = |wanted: Method| {
        let rows = one(wanted).into_iter().chain(report.callers.iter().filter(move |row| row.method == wanted));
        let points = rows.map(|row| (row.callers as f64, figure(row))).collect();
        Series { name: method(wanted).to_owned(), points }
    };
    methods.into_iter().map(line).collect()
}
