//! `innokit bench`: options in, figures out, as a table, as JSON, as a picture.

pub mod args;

mod chart;
mod check;
mod device;
mod kernels;
mod log;
mod recover;
mod scan;
mod table;
mod units;

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressDrawTarget};
use jobs::job::bench::machine::{Machine, Storage};
use jobs::job::bench::{Step, Watch};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::picture;
use crate::progress;
use args::{BenchArgs, OutputArgs, What};
use chart::Chart;

/// As shells report a command that was interrupted.
const INTERRUPTED: u8 = 130;

/// Measures; the exit status.
pub fn run(args: &BenchArgs) -> Result<u8, Box<dyn Error>> {
    if let Some(chart) = args.output.chart.as_ref().filter(|chart| chart.exists()) {
        return Err(format!("{}: is there already; a chart is drawn into a new file", chart.display()).into());
    }
    let stop = on_signals()?;
    let done = match &args.what {
        What::Device(device) => device::run(device, &args.output, &stop),
        What::Check(check) => check::run(check, &args.output, &stop),
        What::Recover(recover) => recover::run(recover, &args.output, &stop),
        What::Scan(scan) => scan::run(scan, &args.output, &stop),
        What::Kernels(kernels) => kernels::run(kernels, &args.output, &stop),
        What::Log(log) => log::run(log, &args.output, &stop),
    };
    match done {
        Err(error) if matches!(error.downcast_ref(), Some(jobs::Error::Interrupted)) => {
            eprintln!("innokit: {error}");
            Ok(INTERRUPTED)
        }
        other => other.map(|()| 0),
    }
}

/// Set by a signal that ends programs, so that the work ends by itself and cleans up. The same signal again ends it at once; what
/// is in use then has no name and goes with the process.
fn on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Does the work under a progress bar.
fn watched<R, E>(output: &OutputArgs, stop: &AtomicBool, work: impl FnOnce(Watch<'_>) -> Result<R, E>) -> Result<R, E> {
    let bar = if progress::is_wanted(output.progress) { ProgressBar::new(1) } else { ProgressBar::hidden() };
    bar.set_style(progress::style("{bar:24.cyan/dim} {pos}/{len}  {elapsed}  {msg}"));
    if progress::is_wanted(output.progress) {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    }
    let step = |step: &Step| {
        bar.set_length(step.expected.max(1));
        bar.set_position(step.done);
        bar.set_message(step.what.clone());
    };
    let report = work(Watch { step: &step, stop });
    bar.finish_and_clear();
    report
}

/// Prints a report, and draws it if asked for.
fn show<R: Serialize>(
    report: &R,
    output: &OutputArgs,
    text: impl FnOnce(&R, &mut dyn Write) -> io::Result<()>,
    chart: impl FnOnce(&R) -> Chart,
) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(io::stdout().lock());
    let printed = if output.json {
        serde_json::to_writer_pretty(&mut out, report).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        text(report, &mut out)
    };
    match printed.and_then(|()| out.flush()) {
        // Whoever read our output had enough of it; the chart is still wanted.
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
fn heading(machine: &Machine, storage: &Storage, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "machine  {}", on(machine))?;
    writeln!(out, "storage  {}", below(storage))
}

/// The same for a picture.
fn notes(machine: &Machine, storage: &Storage) -> Vec<String> {
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
