//! `innokit`: the command line. Options become job options, reports become text or JSON, and the exit status says how it went:
//! 0 all well, 1 damage found, 2 could not do the work asked for.

mod args;
mod bench;
mod check;
mod demo;
mod info;
mod info_print;
mod innochecksum;
mod map;
mod picture;
mod print;
mod progress;
mod recover;
mod redo;
mod table;
mod table_print;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, RedoCommand};

/// The work could not be done; clap uses the same status for unusable arguments.
const COULD_NOT: u8 = 2;

fn main() -> ExitCode {
    // Before clap, which would take the original's options for its own.
    if let Some(call) = innochecksum::Call::find(std::env::args_os()) {
        return ExitCode::from(call.run());
    }
    let result = match Cli::parse().command {
        Command::Check(args) => check::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Redo { command: RedoCommand::Info(args) } => redo::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Table(command) => table::run(&command),
        Command::Innochecksum(args) => Ok(innochecksum::Call::new(args.arguments).run()),
        Command::Bench(args) => bench::run(&args),
        Command::Demo => demo::run(),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("innokit: {error}");
            ExitCode::from(COULD_NOT)
        }
    }
}
