//! What a monitoring system reads about a check: a file of Prometheus metrics, or one line for Nagios.
//!
//! Both render the same report. They add no verdict of their own.

pub mod metrics;
pub mod nagios;

use std::path::PathBuf;

use clap::Args;

/// Options of commands that a monitoring system runs.
#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// Also write the result as Prometheus metrics into this file, whole or not at all (for node_exporter's textfile collector).
    #[arg(long, value_name = "FILE", help_heading = "Monitoring")]
    pub metrics: Option<PathBuf>,

    /// Answer as a Nagios plugin: one line with performance data; 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    #[arg(long, help_heading = "Monitoring", conflicts_with_all = ["json", "verbose", "quiet"])]
    pub nagios: bool,
}
