//! `innokit table schema`: definitions as SQL, or as one JSON document.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::time::SystemTime;

use format::schema::show_create::{comment, quoted_name};
use jobs::schema::{SchemaOptions, SchemaReport, schema};

use crate::args::SchemaArgs;
use crate::document;
use crate::terminal::{self, shown};

/// Reads the definitions and prints them. Returns the exit status.
pub fn run(args: &SchemaArgs) -> Result<u8, Box<dyn Error>> {
    let options = SchemaOptions {
        keys: args.keys.files(),
        page_size: args.page_size,
        table: args.table.clone(),
        create_table: args.create_table.clone(),
    };
    let started = SystemTime::now();
    let report = schema(&args.paths, &options)?;
    match print(&report, args, started) {
        // The reader closed the pipe early (`| head`): not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    let mut errors = terminal::err();
    for unread in &report.unread {
        writeln!(errors, "{}", shown(&format!("{}: {}", unread.path.display(), unread.why)))?;
    }
    if report.tables.is_empty() && report.unread.is_empty() {
        match &args.table {
            Some(table) => writeln!(errors, "no table is called {table} here")?,
            None => writeln!(errors, "there are no tables here")?,
        }
    }
    Ok(report.exit_status())
}

fn print(report: &SchemaReport, args: &SchemaArgs, started: SystemTime) -> io::Result<()> {
    let mut out = BufWriter::new(terminal::data());
    if args.json {
        document::write((started, report.exit_status()), false, report, &mut out)?;
        return out.flush();
    }
    let many = report.tables.len() > 1;
    if many {
        // Tables are in the order of their names, so one may precede the tables it refers to.
        writeln!(out, "SET FOREIGN_KEY_CHECKS = 0;\n")?;
    }
    let mut database = None;
    for table in &report.tables {
        // A single table needs no USE: the user chooses the database.
        if many && database != Some(&table.schema) {
            writeln!(out, "CREATE DATABASE IF NOT EXISTS {0};\nUSE {0};\n", quoted_name(&table.schema))?;
            database = Some(&table.schema);
        }
        let (schema, name, source) = (&table.schema, &table.table, table.source.display());
        let (server, version) = (&table.server, version(table.server_version));
        write!(out, "{}", comment(&format!("{schema}.{name} ({server}{version}), from {source}")))?;
        for missing in &table.missing {
            write!(out, "{}", comment(&format!("not in the files: {missing}")))?;
        }
        writeln!(out, "{};\n", table.create_table)?;
    }
    out.flush()
}

fn version(number: u32) -> String {
    if number == 0 {
        return String::new();
    }
    format!(" {}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}
