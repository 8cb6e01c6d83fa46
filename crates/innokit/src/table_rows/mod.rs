//! `innokit table checksum` and `innokit table export`: options in, values or rows out. This file has what they share.

mod checksum;
mod export;
mod output;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use datadir::redo_log::Pending;
use inspect::rows::scan::ScanOptions;

pub use self::checksum::{CHECKSUM_EXAMPLES, ChecksumArgs, checksum};
pub use self::export::{EXPORT_EXAMPLES, ExportArgs, run_export};
use crate::monitor::metrics::{self, RowsRun};
use crate::options::{Progress, ReadingArgs, ViewArgs};
use crate::terminal::shown;

/// Options of `table checksum` and `table export`.
#[derive(Debug, Args)]
pub struct RowsArgs {
    /// Tablespaces, and directories to search for them. Tables of the schemas mysql and sys are read only if their files are named.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// For tablespaces without a definition: take it from the CREATE TABLE statements in this file, if it fits their rows.
    #[arg(long, value_name = "FILE", help_heading = "Reading")]
    pub create_table: Option<PathBuf>,

    #[command(flatten)]
    pub reading: ReadingArgs,

    #[command(flatten)]
    pub view: ViewArgs,

    /// Also write the result as Prometheus metrics into this file, whole or not at all (for node_exporter's textfile collector).
    #[arg(long, value_name = "FILE", help_heading = "Monitoring")]
    pub metrics: Option<PathBuf>,

    /// Show a progress bar with bytes, rate and time left: `auto` if standard error is a terminal.
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Output")]
    pub progress: Progress,
}

impl RowsArgs {
    /// Writes the metrics, if requested. Returns the exit status of the whole run.
    fn write_metrics(&self, run: &RowsRun<'_>) -> u8 {
        let Some(file) = &self.metrics else { return run.status };
        let written = metrics::write_rows(file, run).map_err(|error| metrics::not_written(file, &error));
        metrics::status_after(written, run.status)
    }

    fn scan(&self) -> ScanOptions {
        let defaults = ScanOptions::default();
        ScanOptions {
            read: self.reading.options(defaults.read.clone()),
            workers: self.reading.workers(defaults.workers),
            ..defaults
        }
    }
}

fn print_pending(pending: &[Pending], what: &str, out: &mut impl Write) -> io::Result<()> {
    for Pending { path, why } in pending {
        let (path, why) = (shown(path), shown(why));
        writeln!(
            out,
            "{path}: recovery is pending, so {what}: {why}. --recovered reads what recovery would leave; a copy: innokit recover --to DIR {path}"
        )?;
    }
    Ok(())
}
