//! `innokit`: the command line. Options become job options, reports become text or JSON, and the exit status tells the outcome: 0 all well,
//! 1 damage found, 2 could not do the work.

mod archive;
mod args;
mod backup;
#[cfg(feature = "bench")]
mod bench;
mod check;
mod demo;
mod document;
mod hurt_print;
mod info;
mod info_print;
mod innochecksum;
mod manual;
mod map;
mod monitor;
mod notify;
#[cfg_attr(not(feature = "bench"), allow(dead_code, reason = "only bench draws charts"))]
mod picture;
mod print;
mod progress;
mod recover;
mod redo;
mod remote;
mod restore;
mod server;
mod table;
mod table_print;
mod table_rows;
mod table_schema;
mod unpack;
mod watch;

use std::error::Error;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Parser;

use args::{Cli, Command, RedoCommand};

/// musl's own allocator takes one lock for all threads; builds against other C libraries keep theirs.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The work could not be done; clap uses the same status for unusable arguments.
const COULD_NOT: u8 = 2;

fn main() -> ExitCode {
    // Before clap, which would take the original's options for its own.
    if let Some(call) = innochecksum::Call::find(std::env::args_os()) {
        return ExitCode::from(call.run());
    }
    let started = SystemTime::now();
    let wants_json = std::env::args_os().any(|word| word == "--json" || word == "--json-lines");
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are not errors.
        Err(error) if !wants_json || !error.use_stderr() => return refused(&error),
        Err(error) => {
            document::fail(started, COULD_NOT, &error, true);
            return ExitCode::from(COULD_NOT);
        }
    };
    let mut cli = cli;
    if let Err(error) = remote::install(&mut cli.command) {
        document::fail(started, COULD_NOT, &*error, wants_json);
        return ExitCode::from(COULD_NOT);
    }
    match run(cli.command) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            document::fail(started, COULD_NOT, &*error, wants_json);
            ExitCode::from(COULD_NOT)
        }
    }
}

fn run(command: Command) -> Result<u8, Box<dyn Error>> {
    match command {
        Command::Check(args) => check::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Redo { command: RedoCommand::Info(args) } => redo::run(&args),
        Command::Redo { command: RedoCommand::Archive(args) } => archive::run(&args),
        Command::Redo { command: RedoCommand::Verify(args) } => archive::verify(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Unpack(args) => unpack::run(&args),
        Command::Table(command) => table::run(&command),
        Command::Innochecksum(args) => Ok(innochecksum::Call::new(args.arguments).run()),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args),
        Command::Demo => demo::run(),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
    }
}

/// Arguments that clap rejected: its text and status, except for a monitoring system, for which 2 would mean damage.
fn refused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--nagios") {
        let line = monitor::nagios::unknown(&error.to_string());
        return ExitCode::from(monitor::nagios::say(&line, monitor::nagios::UNKNOWN));
    }
    error.exit()
}
