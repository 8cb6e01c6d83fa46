//! What all benches share: a progress bar while they measure, then a table, a document, a picture.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use ::bench::machine::{Machine, Storage};
use ::bench::simulated::SimulatedDevice;
use ::bench::{BenchStep, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;

use super::args::OutputArgs;
use super::chart::Chart;
use super::units::{megabytes, number};
use crate::picture;
use crate::progress;
use crate::terminal;

/// Runs the work, with a progress bar if one is wanted.
pub(super) fn watched<R, E>(
    output: &OutputArgs,
    stop: &AtomicBool,
    work: impl FnOnce(Watch<'_>) -> Result<R, E>,
) -> Result<R, E> {
    let bar = if progress::is_wanted(output.progress) { ProgressBar::new(1) } else { ProgressBar::hidden() };
    bar.set_style(progress::style("{bar:24.cyan/dim} {pos}/{len}  {elapsed}  {msg}"));
    if progress::is_wanted(output.progress) {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    }
    let step = |step: &BenchStep| {
        bar.set_length(step.expected.max(1));
        bar.set_position(step.done);
        bar.set_message(step.what.clone());
    };
    let report = work(Watch { step: &step, stop });
    bar.finish_and_clear();
    report
}

/// Prints a report, and draws it if requested.
pub(super) fn show<R: Serialize>(
    report: &R,
    output: &OutputArgs,
    text: impl FnOnce(&R, &mut dyn Write) -> io::Result<()>,
    chart: impl FnOnce(&R) -> Chart,
) -> Result<(), Box<dyn Error>> {
    let mut out = terminal::out();
    let printed = if output.json {
        serde_json::to_writer_pretty(&mut out, report).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        text(report, &mut out)
    };
    match printed.and_then(|()| out.flush()) {
        // The reader closed the pipe early (`| head`), but still wants the chart.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    if let Some(target) = &output.chart {
        let drawn = picture::create(&chart(report).scene(), target);
        drawn.map_err(|error| format!("{}: the chart was not drawn: {error}", target.display()))?;
    }
    Ok(())
}

/// What the figures were measured on.
pub(super) fn heading(machine: &Machine, storage: &Storage, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "machine  {}", on(machine))?;
    writeln!(out, "storage  {}", below(storage))
}

/// A simulated device in words: `0.50 ms a request, 64 at a time, 1,074 MB/s`, with its syncs if there are any.
pub(super) fn simulated(device: &SimulatedDevice, with_syncs: bool) -> String {
    let ms = |us: f64| number(us / 1000.0);
    let mut words = format!("{} ms a request, {} at a time", ms(device.latency_us), device.parallel);
    if with_syncs {
        words.push_str(&format!(", {} ms a sync", ms(device.sync_us)));
        if device.sync_us_per_gib > 0.0 {
            words.push_str(&format!(" and {} s for each GiB", number(device.sync_us_per_gib / 1e6)));
        }
    }
    format!("{words}, {} MB/s", megabytes(device.bandwidth as f64))
}

/// What the figures were measured on, as notes of a chart.
pub(super) fn notes(machine: &Machine, storage: &Storage) -> Vec<String> {
    vec![on(machine), below(storage)]
}

fn on(machine: &Machine) -> String {
    let cores = if machine.cores == 1 { "1 core".to_owned() } else { format!("{} cores", machine.cores) };
    let name = machine.processor.as_ref().map_or_else(String::new, |name| format!(" of {name}"));
    let kernel = machine.kernel.as_ref().map_or_else(String::new, |kernel| format!(", {kernel}"));
    format!("{cores}{name}, {}{kernel}", machine.architecture)
}

fn below(storage: &Storage) -> String {
    let system = storage.file_system.as_deref().unwrap_or("an unknown file system");
    let device = match &storage.device {
        None => "no block device of its own, so no counters".to_owned(),
        Some(device) => {
            let model = device.model.as_ref().map_or_else(String::new, |model| format!(" ({model})"));
            let cache = device.write_cache.as_ref().map_or_else(String::new, |cache| format!(", {cache} cache"));
            format!("device {}{model}{cache}", device.name)
        }
    };
    format!("{}: {system}, blocks of {} bytes, {device}", storage.path, storage.file_system_block)
}
