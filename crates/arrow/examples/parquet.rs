//! Writes the rows of one table as Parquet: `cargo run -p innokit-arrow --example parquet -- t.ibd t.parquet`

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use innokit_arrow::ArrowOptions;
use innokit_arrow::parquet::Parquet;
use inspect::rows::TableSource;
use inspect::rows::export::{ExportOptions, export};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [table, target] = paths.as_slice() else { return Err("name a tablespace and a file to write".into()) };
    let format = Parquet::new(ArrowOptions::default(), 3)?;
    let file = File::create_new(target)?;
    let mut output = |_: &TableSource| {
        let file = file.try_clone().map_err(|error| inspect::Error::Usage(error.to_string()))?;
        Ok(Box::new(file) as Box<dyn Write + Send>)
    };
    let exported = export(std::slice::from_ref(table), &ExportOptions::default(), &format, &mut output, None)?;
    for table in exported.tables {
        println!("{}: {} rows", table.table, table.rows);
    }
    Ok(())
}
