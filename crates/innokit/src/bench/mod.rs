//! `innokit bench`: options in; figures out, as a table, JSON or a picture.

pub mod args;

mod chart;
mod check;
mod device;
mod kernels;
mod log;
mod recover;
mod scan;
mod show;
mod table;
mod units;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use args::{BenchArgs, What};

use crate::terminal;
use crate::watch::INTERRUPTED;

/// Measures. Returns the exit status.
pub fn run(args: &BenchArgs) -> Result<u8, Box<dyn Error>> {
    if let Some(chart) = args.output.chart.as_ref().filter(|chart| chart.exists()) {
        return Err(format!("{}: the file already exists; a chart is drawn into a new file", chart.display()).into());
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
        Err(error) if matches!(error.downcast_ref(), Some(datadir::Error::Interrupted)) => {
            terminal::say(&error.to_string());
            Ok(INTERRUPTED)
        }
        other => other.map(|()| 0),
    }
}

/// A flag set by SIGINT, SIGTERM or SIGHUP, so that the work stops and cleans up. A second signal ends the process at once; the files in
/// use then have no name and disappear with it.
fn on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
