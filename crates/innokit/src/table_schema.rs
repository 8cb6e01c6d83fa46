//! `innokit table schema`: definitions as SQL, or as one JSON document.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::time::SystemTime;

use format::schema::quoted::quoted_name;
use format::show_create::comment;
use inspect::schema::{SchemaOptions, SchemaReport, TableTriggers, schema, triggers};

use crate::args::SchemaArgs;
use crate::document;
use crate::terminal::{self, shown};

/// Reads the definitions and prints them. Returns the exit status.
pub fn run(args: &SchemaArgs) -> Result<u8, Box<dyn Error>> {
    if args.triggers {
        return run_triggers(args);
    }
    let options = SchemaOptions {
        keys: args.keys.files(),
        page_size: args.page_size,
        selection: args.selected.selection(),
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
        match args.selected.table.as_slice() {
            [table] => writeln!(errors, "no table is called {table} here")?,
            _ if !options.selection.is_all() => writeln!(errors, "there are no such tables here")?,
            _ => writeln!(errors, "there are no tables here")?,
        }
    }
    Ok(report.exit_status())
}

/// Whether columns have a unique key that a foreign key leads to is in the definition of another table. MySQL up to 8.3 takes foreign keys
/// to any key, MySQL since then those only for which this is said. It needs no privilege, and both earlier servers and MariaDB skip it.
pub const ANY_PARENT_KEY: &str = "/*!80400 SET SESSION restrict_fk_on_non_standard_key = OFF */;";

fn print(report: &SchemaReport, args: &SchemaArgs, started: SystemTime) -> io::Result<()> {
    let mut out = BufWriter::new(terminal::data());
    if args.json {
        document::write((started, report.exit_status()), false, report, &mut out)?;
        return out.flush();
    }
    let many = report.tables.len() > 1;
    if many {
        // Tables are in the order of their names, so one may precede the tables that its foreign keys lead to.
        writeln!(out, "SET FOREIGN_KEY_CHECKS = 0;\n")?;
    }
    let mut database = None;
    // A default may be the next value of a sequence, of another database too, which the server looks for when it makes the table.
    let (sequences, tables): (Vec<_>, Vec<_>) = report.tables.iter().partition(|table| table.is_sequence());
    for table in sequences.into_iter().chain(tables) {
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
        if table.server == "mysql" && table.foreign_keys() > 0 {
            writeln!(out, "{ANY_PARENT_KEY}")?;
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

/// Prints triggers. A table without any prints nothing, which is no fault.
fn run_triggers(args: &SchemaArgs) -> Result<u8, Box<dyn Error>> {
    let (tables, unread) = triggers(&args.paths, &args.selected.selection())?;
    match print_triggers(&tables) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    let mut errors = terminal::err();
    for unread in &unread {
        writeln!(errors, "{}", shown(&format!("{}: {}", unread.path.display(), unread.why)))?;
    }
    Ok(if unread.is_empty() { 0 } else { 2 })
}

fn print_triggers(tables: &[TableTriggers]) -> io::Result<()> {
    let mut out = BufWriter::new(terminal::data());
    for table in tables {
        let title = format!("triggers of {}.{}, from {}", table.schema, table.table, table.source.display());
        writeln!(out, "{}SET NAMES utf8mb4;", comment(&title))?;
        for trigger in &table.triggers {
            // What a client takes for the end of a statement must not be within it.
            let end = (2..).map(|len| "/".repeat(len)).find(|end| !trigger.statement.contains(end)).unwrap_or_default();
            writeln!(out, "SET sql_mode = {};\nDELIMITER {end}", trigger.sql_mode)?;
            writeln!(out, "{}\n{end}\nDELIMITER ;", trigger.statement)?;
        }
        writeln!(out)?;
    }
    out.flush()
}
