//! `innokit table`: options in, report out.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use flow::ReadAhead;
use inspect::tree::linear;
use inspect::tree::walk::Depth;
use inspect::{TableOptions, TableReport};

use crate::args::{Ahead, TableArgs, TableCommand};
use crate::print::Style;
use crate::progress::Bar;
use crate::watch::{self, INTERRUPTED, Screen};
use crate::{document, hurt_keys, table_print, table_rows, terminal, wall};

/// Examines the tables and prints the report. Returns the exit status.
pub fn run(command: &TableCommand) -> Result<u8, Box<dyn Error>> {
    let (args, depth, (extended, live)) = match command {
        TableCommand::Check(args) => (&args.table, Depth::Check, (args.extended, args.live)),
        TableCommand::Count(args) => (args, Depth::Count, (false, false)),
        TableCommand::Checksum(args) => return table_rows::checksum(args),
        TableCommand::Export(args) => return table_rows::run_export(args),
        TableCommand::Schema(args) => return crate::table_schema::run(args),
        TableCommand::Restore(args) => return crate::server::restore_table(args),
    };
    if args.paths.iter().any(|path| path == Path::new("-")) {
        return Err(
            "`innokit table` needs files: standard input cannot be read out of order (a file of that name: ./-)".into(),
        );
    }
    let (started, screen) = (SystemTime::now(), Screen::default());
    // Before a first signal only sets a flag.
    args.reading.keys.files().hold_pipes()?;
    let watcher = watch::watcher(args.output.json_lines, &screen)?;
    let bar = Bar::new(args.output.progress, Some(0)).on(&screen);
    let options = TableOptions { extended, live, watcher, ..options(args, depth) };
    let mut report = inspect::tables_watched(&args.paths, &options, bar.watch_total().as_deref())?;
    bar.finish();
    hurt_keys::add(&mut report.hurt, &args.reading.keys);
    if args.output.verbose {
        table_print::effort(&report, &mut terminal::err())?;
        wall::tell(&mut terminal::err())?;
    }
    let status = if report.incomplete { INTERRUPTED } else { report.exit_status() };
    match print(&report, args, depth, (started, status)) {
        // The reader closed the pipe early (`| head`): the verdict stands.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    Ok(status)
}

fn print(report: &TableReport, args: &TableArgs, depth: Depth, head: (SystemTime, u8)) -> io::Result<()> {
    let mut out = terminal::out();
    if args.output.json || args.output.json_lines {
        document::write(head, args.output.json_lines, report, &mut out)?;
    } else {
        let style = Style { quiet: args.output.quiet, verbose: args.output.verbose, all: args.output.all };
        match depth {
            Depth::Count => table_print::counts(report, style, &mut out)?,
            Depth::Check => table_print::check(report, style, &mut out)?,
        }
    }
    out.flush()
}

fn options(args: &TableArgs, depth: Depth) -> TableOptions {
    let defaults = TableOptions::default();
    TableOptions {
        read: args.reading.options(defaults.read),
        ahead: match args.read_ahead {
            Ahead::None => ReadAhead::None,
            Ahead::Linear => linear::LINEAR,
            Ahead::Logical => defaults.ahead,
        },
        workers: args.reading.workers(defaults.workers),
        findings_max: args.output.max_findings,
        page_size: args.reading.page_size,
        keys: args.reading.keys.files(),
        selection: args.reading.selected.selection(),
        depth,
        list_tables: args.output.tables,
        ..defaults
    }
}
