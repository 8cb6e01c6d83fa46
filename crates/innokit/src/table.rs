//! `innokit table`: options in, report out.

use std::error::Error;
use std::io::{self, BufWriter, Write};

use flow::{ReadAhead, ReadOptions};
use jobs::tree::linear;
use jobs::tree::walk::Depth;
use jobs::{TableOptions, TableReport};

use crate::args::{Ahead, Io, TableArgs, TableCommand};
use crate::progress::Bar;
use crate::table_print;

/// Looks at the tables and prints the report; the exit status.
pub fn run(command: &TableCommand) -> Result<u8, Box<dyn Error>> {
    let (args, depth, extended) = match command {
        TableCommand::Check(args) => (&args.table, Depth::Check, args.extended),
        TableCommand::Count(args) => (args, Depth::Count, false),
    };
    let bar = Bar::new(args.progress, Some(0));
    let options = TableOptions { extended, ..options(args, depth) };
    let report = jobs::tables_watched(&args.paths, &options, bar.watch_total().as_deref())?;
    bar.finish();
    if args.verbose {
        table_print::effort(&report, &mut io::stderr().lock())?;
    }
    match print(&report, args, depth) {
        // Whoever read our output had enough of it; the verdict stands.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    Ok(report.exit_status())
}

fn print(report: &TableReport, args: &TableArgs, depth: Depth) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut out, report)?;
        writeln!(out)?;
    } else if depth == Depth::Count {
        table_print::counts(report, args.quiet, &mut out)?;
    } else {
        table_print::check(report, (args.quiet, args.verbose), &mut out)?;
    }
    out.flush()
}

fn options(args: &TableArgs, depth: Depth) -> TableOptions {
    let defaults = TableOptions::default();
    TableOptions {
        read: ReadOptions {
            io: match args.io {
                Io::Auto => flow::IoMode::Auto,
                Io::Direct => flow::IoMode::Direct,
                Io::Buffered => flow::IoMode::Buffered,
            },
            depth: args.depth.unwrap_or(defaults.read.depth),
            ..defaults.read
        },
        ahead: match args.read_ahead {
            Ahead::None => ReadAhead::None,
            Ahead::Linear => linear::LINEAR,
            Ahead::Logical => defaults.ahead,
        },
        workers: args.threads.map_or(defaults.workers, usize::from),
        findings_max: args.max_findings,
        page_size: args.page_size,
        keys: args.keys.files(),
        depth,
        ..defaults
    }
}
