//! `innokit check`: options in, report out.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use datadir::Outcome;
use flow::ReadOptions;
use inspect::report::watcher::Watcher;
use inspect::{Check, CheckOptions, Report, TableOptions, TableReport};
use serde::Serialize;

use crate::args::{CheckArgs, Engine, Level};
use crate::monitor::{metrics, nagios};
use crate::print::{self, Style};
use crate::progress::Bar;
use crate::watch::{self, INTERRUPTED, Screen};
use crate::{document, hurt_keys, table_print, terminal, wall};

/// The document of a check that also examined the indexes.
#[derive(Serialize)]
struct WithTables<'r> {
    #[serde(flatten)]
    pages: &'r Report,
    tables: &'r TableReport,
}

/// Runs the check and prints its report. Returns the exit status.
pub fn run(args: &CheckArgs) -> Result<u8, Box<dyn Error>> {
    match checked(args) {
        Err(error) if args.monitor.nagios => Ok(nagios::say(&nagios::unknown(&error.to_string()), nagios::UNKNOWN)),
        other => other,
    }
}

fn checked(args: &CheckArgs) -> Result<u8, Box<dyn Error>> {
    let structure = args.level == Level::Structure;
    if structure && args.paths.iter().any(|path| path == Path::new("-")) {
        return Err("`--level structure` needs files: standard input cannot be read out of order".into());
    }
    if args.part.is_some() && (structure || args.paths.iter().any(|path| path == Path::new("-"))) {
        return Err(
            "`--part` splits files by their pages: it cannot be combined with `--level structure` or standard input"
                .into(),
        );
    }
    if args.since_lsn.is_some() && structure {
        return Err(
            "`--since-lsn` is about pages: a tree has no LSN, so it cannot be combined with `--level structure`".into(),
        );
    }
    args.reading.selected.refuse_without_directory(&args.paths)?;
    let (started, screen) = (SystemTime::now(), Screen::default());
    // Before a first signal only sets a flag.
    args.reading.keys.files().hold_pipes()?;
    let watcher = watch::watcher(args.output.json_lines, &screen)?;
    let mut report = examine(args, (&watcher, &screen))?;
    let structure = structure && !report.incomplete;
    let mut tables = structure.then(|| tables(args, (&watcher, &screen))).transpose()?;
    if let Some(tables) = &mut tables {
        tables.told_by(&mut report);
    }
    hurt_keys::add(&mut report.hurt, &args.reading.keys);
    if args.output.verbose {
        print::effort(&report, &mut terminal::err())?;
        wall::tell(&mut terminal::err())?;
    }
    let is_incomplete = report.incomplete || tables.as_ref().is_some_and(|tables| tables.incomplete);
    let status = outcome(&report, tables.as_ref(), is_incomplete).exit_status();
    let written = write_metrics(args, &report, status);
    if args.monitor.nagios {
        let (line, plugin_status) = match &written {
            Err(why) if status == 0 => (nagios::unknown(why), nagios::UNKNOWN),
            _ => nagios::line(&report, status),
        };
        return Ok(nagios::say(&line, plugin_status));
    }
    let status = metrics::status_after(written, status);
    let status = if is_incomplete { INTERRUPTED } else { status };
    match print(args, (started, status), &report, tables.as_ref()) {
        // The reader closed the pipe early (`| head`): the verdict stands.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(status),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(status),
    }
}

/// Writes the metrics, if requested.
fn write_metrics(args: &CheckArgs, report: &Report, status: u8) -> Result<(), String> {
    let Some(file) = &args.monitor.metrics else { return Ok(()) };
    metrics::write(file, &args.paths, report, status).map_err(|error| metrics::not_written(file, &error))
}

/// What both reports come to. A run that left something out must not report that all is well.
fn outcome(report: &Report, tables: Option<&TableReport>, is_incomplete: bool) -> Outcome {
    let both = [report.exit_status(), tables.map_or(0, TableReport::exit_status)].map(Outcome::of_status);
    Outcome::of(both.contains(&Outcome::Damage), is_incomplete || both.contains(&Outcome::Undecided))
}

fn print(
    args: &CheckArgs,
    (started, status): (SystemTime, u8),
    report: &Report,
    tables: Option<&TableReport>,
) -> io::Result<()> {
    let mut out = terminal::out();
    match (args.output.json || args.output.json_lines, tables) {
        (true, None) => document::write((started, status), args.output.json_lines, report, &mut out),
        (true, Some(tables)) => {
            document::write((started, status), args.output.json_lines, &WithTables { pages: report, tables }, &mut out)
        }
        (false, tables) => {
            let style = Style { quiet: args.output.quiet, verbose: args.output.verbose, all: args.output.all };
            print::text(report, style, &mut out)?;
            if let Some(tables) = tables {
                table_print::check(tables, style, &mut out)?;
            }
            print::hurt(report, &mut out)?;
            out.flush()
        }
    }
}

fn tables(args: &CheckArgs, (watcher, screen): (&Watcher, &Screen)) -> Result<TableReport, datadir::Error> {
    let bar = Bar::new(args.output.progress, Some(0)).on(screen);
    let options = TableOptions { watcher: watcher.clone(), ..table_options(args) };
    let report = inspect::tables_watched(&args.paths, &options, bar.watch_total().as_deref())?;
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
        selection: check.selection,
        live: check.live,
        ..defaults
    }
}

fn examine(args: &CheckArgs, (watcher, screen): (&Watcher, &Screen)) -> Result<Report, Box<dyn Error>> {
    let options = CheckOptions { watcher: watcher.clone(), ..options(args) };
    if args.paths.iter().any(|path| path == Path::new("-")) {
        if args.paths.len() > 1 {
            return Err("`-` (standard input) cannot be combined with other paths".into());
        }
        let bar = Bar::new(args.output.progress, None).on(screen);
        let report = Check::stream(io::stdin().lock(), &options, bar.watch())?;
        bar.finish();
        return Ok(report);
    }
    let check = Check::plan(&args.paths, options)?;
    let bar = Bar::new(args.output.progress, Some(check.bytes())).on(screen);
    let report = check.run(bar.watch())?;
    bar.finish();
    Ok(report)
}

fn options(args: &CheckArgs) -> CheckOptions {
    let defaults = CheckOptions::default();
    let read = ReadOptions {
        engine: match args.engine {
            Engine::Auto => flow::Engine::Auto,
            Engine::Uring => flow::Engine::Uring,
            Engine::Threads => flow::Engine::Threads,
        },
        block_size: args.block_size.unwrap_or(defaults.read.block_size),
        ..args.reading.options(defaults.read)
    };
    CheckOptions {
        object_block_max: args.block_size.unwrap_or(defaults.object_block_max),
        read,
        workers: args.reading.workers(defaults.workers),
        findings_max: args.output.max_findings,
        page_size: args.reading.page_size,
        keys: args.reading.keys.files(),
        live: args.live,
        rate: args.rate,
        list_tables: args.output.tables,
        selection: args.reading.selected.selection(),
        portion: args.part,
        since_lsn: args.since_lsn.map(format::Lsn),
        ..defaults
    }
}
