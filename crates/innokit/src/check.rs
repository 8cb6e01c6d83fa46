//! `innokit check`: options in, report out.

use std::error::Error;
use std::io;
use std::path::Path;

use flow::ReadOptions;
use jobs::{Check, CheckOptions, Report, TableOptions, TableReport};
use serde::Serialize;

use crate::args::{CheckArgs, Engine, Io, Level};
use crate::print::{self, Style};
use crate::progress::Bar;
use crate::table_print;

/// The document of a check that looked at the indexes too.
#[derive(Serialize)]
struct WithTables<'r> {
    #[serde(flatten)]
    pages: &'r Report,
    tables: &'r TableReport,
}

/// Runs the check and prints its report; the exit status.
pub fn run(args: &CheckArgs) -> Result<u8, Box<dyn Error>> {
    let structure = args.level == Level::Structure;
    if structure && args.paths.iter().any(|path| path == Path::new("-")) {
        return Err("`--level structure` needs files: standard input cannot be read out of order".into());
    }
    let report = examine(args)?;
    let tables = structure.then(|| tables(args)).transpose()?;
    if args.verbose {
        print::effort(&report, &mut io::stderr().lock())?;
    }
    let status = status(&report, tables.as_ref());
    match print(args, &report, tables.as_ref()) {
        // Whoever read our output had enough of it; the verdict stands.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(status),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(status),
    }
}

/// Damage wins over what could not be done.
fn status(report: &Report, tables: Option<&TableReport>) -> u8 {
    let both = [report.exit_status(), tables.map_or(0, TableReport::exit_status)];
    if both.contains(&1) { 1 } else { both.into_iter().max().unwrap_or(0) }
}

fn print(args: &CheckArgs, report: &Report, tables: Option<&TableReport>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match (args.json, tables) {
        (true, None) => print::json(report, &mut out),
        (true, Some(tables)) => print::json(&WithTables { pages: report, tables }, &mut out),
        (false, tables) => {
            print::text(report, Style { quiet: args.quiet, verbose: args.verbose }, &mut out)?;
            tables.map_or(Ok(()), |tables| table_print::check(tables, (args.quiet, args.verbose), &mut out))
        }
    }
}

fn tables(args: &CheckArgs) -> Result<TableReport, jobs::Error> {
    let bar = Bar::new(args.progress, Some(0));
    let report = jobs::tables_watched(&args.paths, &table_options(args), bar.watch_total().as_deref())?;
    bar.finish();
    Ok(report)
}

fn table_options(args: &CheckArgs) -> TableOptions {
    let (check, defaults) = (options(args), TableOptions::default());
    TableOptions {
        read: ReadOptions { io: check.read.io, engine: check.read.engine, ..defaults.read },
        workers: check.workers,
        findings_max: check.findings_max,
        page_size: check.page_size,
        keys: check.keys,
        ..defaults
    }
}

fn examine(args: &CheckArgs) -> Result<Report, Box<dyn Error>> {
    let options = options(args);
    if args.paths.iter().any(|path| path == Path::new("-")) {
        if args.paths.len() > 1 {
            return Err("`-` (standard input) cannot be combined with other paths".into());
        }
        let bar = Bar::new(args.progress, None);
        let report = Check::stream(io::stdin().lock(), &options, bar.watch())?;
        bar.finish();
        return Ok(report);
    }
    let check = Check::plan(&args.paths, options)?;
    let bar = Bar::new(args.progress, Some(check.bytes()));
    let report = check.run(bar.watch())?;
    bar.finish();
    Ok(report)
}

fn options(args: &CheckArgs) -> CheckOptions {
    let defaults = CheckOptions::default();
    let read = ReadOptions {
        io: match args.io {
            Io::Auto => flow::IoMode::Auto,
            Io::Direct => flow::IoMode::Direct,
            Io::Buffered => flow::IoMode::Buffered,
        },
        engine: match args.engine {
            Engine::Auto => flow::Engine::Auto,
            Engine::Uring => flow::Engine::Uring,
            Engine::Threads => flow::Engine::Threads,
        },
        block_size: args.block_size.unwrap_or(defaults.read.block_size),
        depth: args.depth.unwrap_or(defaults.read.depth),
        ..defaults.read
    };
    CheckOptions {
        read,
        workers: args.threads.map_or(defaults.workers, usize::from),
        findings_max: args.max_findings,
        page_size: args.page_size,
        keys: args.keys.files(),
        live: args.live,
        rate: args.rate,
    }
}
