//! Checks files, then prints the first rows of their tables as JSON lines: `cargo run -p innokit-inspect --example rows -- t.ibd`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use innokit_inspect::rows::TableSource;
use innokit_inspect::rows::export::{ExportOptions, TextFormat, export};
use innokit_inspect::{Check, CheckOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let report = Check::plan(&paths, CheckOptions::default())?.run(None)?;
    for finding in &report.findings {
        eprintln!("{}: {}", finding.path, finding.message);
    }
    let options = ExportOptions { limit: Some(10), ..ExportOptions::default() };
    let mut output = |_: &TableSource| Ok(Box::new(std::io::stdout()) as Box<dyn Write + Send>);
    let exported = export(&paths, &options, &TextFormat::JsonLines, &mut output, None)?;
    for table in exported.tables {
        eprintln!("{}: {} rows", table.table, table.rows);
    }
    Ok(())
}
