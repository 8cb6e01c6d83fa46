//! `innokit bench`: options in, figures out, as a table, as JSON, as a picture.

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
