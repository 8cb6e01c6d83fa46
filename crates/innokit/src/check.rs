//! `innokit check`: options in, report out.

use std::error::Error;
use std::io;
use std::path::Path;

use flow::ReadOptions;
use jobs::source::keys::KeyFiles;
use jobs::{Check, CheckOptions, Report};

use crate::args::{CheckArgs, Engine, Io};
use crate::print::{self, Style};
use crate::progress::Bar;

/// Runs the check and prints its report; the exit status.
pub fn run(args: &CheckArgs) -> Result<u8, Box<dyn Error>> {
    let report = examine(args)?;
    if args.verbose {
        print::effort(&report, &mut io::stderr().lock())?;
    }
    let mut out = io::stdout().lock();
    let printed = if args.json {
        print::json(&report, &mut out)
    } else {
        print::text(&report, Style { quiet: args.quiet, verbose: args.verbose }, &mut out)
    };
    match printed {
        // Whoever read our output had enough of it; the verdict stands.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(report.exit_status()),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(report.exit_status()),
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
        keys: KeyFiles { keyrings: args.keyring.clone(), key_file: args.key_file.clone() },
        live: args.live,
        rate: args.rate,
    }
}
