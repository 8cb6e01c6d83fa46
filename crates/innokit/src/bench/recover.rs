//! `innokit bench recover`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::recover::{RecoverBenchOptions, RecoverBenchReport, StepRow, bench_recover};
use recovery::RecoverError;

use super::args::{OutputArgs, RecoverBenchArgs};
use super::chart::{Bar, Bars, Chart, Panel};
use super::show;
use super::table::Table;
use super::units::{megabytes, number, percent, rounds, size};
use crate::print::grouped;

/// Measures, prints and draws.
pub fn run(args: &RecoverBenchArgs, output: &OutputArgs, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let options = RecoverBenchOptions {
        rounds: usize::from(args.rounds),
        memory: usize::try_from(args.memory).unwrap_or(usize::MAX),
        sim: args.simulated.options(),
        on_device: args.on_device.clone(),
    };
    let report = show::watched(output, stop, |watch| bench_recover(&args.datadir, &options, watch));
    let report = report.map_err(|error| match error {
        // So that the caller can recognise an interruption.
        RecoverError::Job(error) => Box::<dyn Error>::from(error),
        other => other.into(),
    })?;
    show::show(&report, output, text, chart)
}

fn text(report: &RecoverBenchReport, out: &mut dyn Write) -> io::Result<()> {
    show::heading(&report.machine, &report.storage, out)?;
    writeln!(
        out,
        "redo     {} MB in {} mini-transactions, {} pages changed, in {} of memory",
        megabytes(report.redo as f64),
        grouped(report.mtrs),
        grouped(report.pages_changed),
        size(report.memory as u64)
    )?;
    if let Some(device) = &report.simulated {
        writeln!(out, "\nAt {} (simulated)", show::simulated(device, true))?;
        clocked(report).print(out)?;
    }
    if report.rounds > 0 {
        let rounds = rounds(report.rounds);
        writeln!(out, "\nOn the device ({rounds}; {})", report.cache.words())?;
        measured(report).print(out)?;
    }
    Ok(())
}

fn clocked(report: &RecoverBenchReport) -> Table {
    let headings =
        ["with", "reads", "writes", "syncs", "most in flight", "log, s", "seconds", "times as fast as serial"];
    let mut table = Table::new(1, &headings);
    for row in &report.steps {
        let Some(step) = &row.simulated else { continue };
        table.row([
            row.step.to_owned(),
            grouped(step.reads),
            grouped(step.writes),
            grouped(step.syncs),
            step.in_flight_max.to_string(),
            number(step.log_seconds),
            number(step.seconds),
            number(step.times_serial),
        ]);
    }
    table
}

fn measured(report: &RecoverBenchReport) -> Table {
    let mut table = Table::new(1, &["with", "seconds", "+-", "times as fast as serial"]);
    for row in &report.steps {
        let (Some(seconds), Some(times)) = (&row.seconds, &row.times_serial) else { continue };
        table.row([row.step.to_owned(), number(seconds.median), percent(seconds.noise()), number(times.median)]);
    }
    table
}

fn chart(report: &RecoverBenchReport) -> Chart {
    let simulated = |row: &StepRow| row.simulated.as_ref().map(|step| (step.seconds, step.times_serial));
    let measured = |row: &StepRow| Some((row.seconds.as_ref()?.median, row.times_serial.as_ref()?.median));
    let mut panels = Vec::new();
    panels.extend(bars(report, "on the simulated device", simulated));
    panels.extend(bars(report, "on the device", measured));
    let mb = megabytes(report.redo as f64);
    let title = format!("bench recover, {mb} MB of redo over {} pages", grouped(report.pages_changed));
    Chart { title, notes: show::notes(&report.machine, &report.storage), panels }
}

fn bars(report: &RecoverBenchReport, on: &str, figures: impl Fn(&StepRow) -> Option<(f64, f64)>) -> Option<Panel> {
    let bar = |row: &StepRow| {
        let (seconds, times) = figures(row)?;
        let text = format!("{} s, {} times as fast as serial", number(seconds), number(times));
        Some(Bar { label: row.step.to_owned(), class: 0, value: seconds, text })
    };
    let rows: Vec<Bar> = report.steps.iter().filter_map(bar).collect();
    let bars =
        Bars { heading: format!("Recovery {on}"), axis: "seconds".to_owned(), classes: Vec::new(), rows, mark: None };
    (!bars.rows.is_empty()).then_some(Panel::Bars(bars))
}
