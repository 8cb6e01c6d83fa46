//! `innokit`: the command line. Options become job options, reports become text or JSON, and the exit status tells the outcome: 0 all well,
//! 1 damage found, 2 could not do the work.
//!
//! The program `innokit` calls [`run`], and so does `python -m innokit`. To read or verify files from a Rust program use `innokit-inspect`.

mod archive;
mod args;
mod backup;
#[cfg(feature = "bench")]
mod bench;
mod check;
mod count_summary;
mod demo;
mod diff;
mod document;
mod hurt_keys;
mod hurt_print;
mod info;
mod info_print;
mod info_summary;
mod innochecksum;
mod manual;
mod map;
mod monitor;
#[cfg(all(feature = "mount", target_os = "linux"))]
mod mount;
mod named_file;
mod notify;
mod open_files;
mod options;
#[cfg_attr(not(feature = "bench"), allow(dead_code, reason = "only bench draws charts"))]
mod picture;
mod print;
mod progress;
mod reading;
mod recover;
mod redo;
mod remote;
mod restore;
#[cfg(all(feature = "mount", target_os = "linux"))]
mod serve;
mod server;
mod table;
mod table_look;
mod table_print;
#[cfg(feature = "sql")]
mod table_restore;
mod table_rows;
mod table_schema;
mod terminal;
mod unpack;
mod view;
mod wall;
mod watch;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::SystemTime;

use clap::Parser;
use signal_hook::consts::SIGXFSZ;

use args::{Cli, Command, RedoCommand};

/// The work could not be done; clap uses the same status for unusable arguments.
const COULD_NOT: u8 = datadir::Outcome::Undecided.exit_status();

/// Runs the command line as the main program of a process, and returns the exit status. The first of `arguments` is the name it was called by.
///
/// It acts on the process: it reads standard input, writes to standard output and standard error, and many commands install handlers for
/// SIGINT, SIGTERM and SIGHUP that stay. The first signal stops the work, and `run` returns 130. A second one ends the process. A handler that
/// the process had before is called too. Commands that install none leave signals as they are. It also allows the process as many open files
/// as the system permits. So call it once, and then exit.
///
/// Nothing is left in standard output's buffer: a caller that is no Rust program never flushes it.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    open_files::allow_all();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // With a handler, a write beyond the limit on a file's size (RLIMIT_FSIZE) is an error with a name. Without one it ends the process.
    drop(signal_hook::flag::register(SIGXFSZ, Arc::default()));
    if !has_output() {
        return without_output();
    }
    let status = called(&arguments);
    // Nothing is buffered here but the end of a line that a panic cut off.
    let flushed = io::stdout().flush().map_err(|error| (error.kind(), error.to_string())).err();
    match flushed.as_ref().or(terminal::lost()) {
        // Silence is not "all well".
        Some((kind, why)) if status == 0 => {
            // The reader closed the pipe early (`| head`): it needs no words.
            if *kind != io::ErrorKind::BrokenPipe {
                terminal::say(why);
            }
            COULD_NOT
        }
        _ => status,
    }
}

/// Lets [`run`] restrain this process by Landlock, for good. Only for the program, which does nothing else and has no other thread yet.
pub fn own_process() {
    wall::allow();
}

/// Whether standard output is open. The program asks before Rust's runtime starts, which opens the null device in place of a closed one.
#[must_use]
pub fn has_output() -> bool {
    !terminal::is_closed()
}

/// Answers a call whose standard output is closed (`>&-`): nothing is done, because its result would be lost. Returns the exit status.
#[must_use]
pub fn without_output() -> u8 {
    terminal::say(
        "standard output is closed, and the result would be lost: redirect it (to /dev/null, if it is not wanted)",
    );
    COULD_NOT
}

fn called(arguments: &[OsString]) -> u8 {
    // Before clap, which would take the original's options for its own.
    if let Some(call) = innochecksum::Call::find(arguments) {
        return call.run();
    }
    let started = SystemTime::now();
    let wants_json = arguments.iter().any(|word| word == "--json" || word == "--json-lines");
    let mut cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        // Help and version are not errors.
        Err(error) if !wants_json || !error.use_stderr() => return refused(&error, arguments),
        Err(error) => {
            document::refused(started, COULD_NOT, &error);
            return COULD_NOT;
        }
    };
    // The wall keeps the process from looking into others.
    server::look(&cli.command);
    let spill = view::spill(&mut cli.command);
    let unnamed = diff::unnamed(&cli.command);
    // Before a thread is started, and before a byte of a set is read.
    wall::raise(&cli.command, !cli.no_landlock);
    let done = remote::install(&mut cli.command)
        .and_then(|()| view::look(&mut cli.command, spill))
        .and_then(|()| command(cli.command, unnamed));
    done.unwrap_or_else(|error| {
        let said = error.to_string();
        let advice = open_files::advice(&said).or_else(|| wall::advice(&said).map(str::to_owned));
        let advised = advice.map(|advice| format!("{error}; {advice}").into());
        document::fail(started, COULD_NOT, &*advised.unwrap_or(error), wants_json);
        COULD_NOT
    })
}

fn command(command: Command, unnamed: diff::Unnamed) -> Result<u8, Box<dyn Error>> {
    if matches!(command, Command::Recover(_) | Command::Backup(_) | Command::Restore(_) | Command::Unpack(_)) {
        open_files::require()?;
    }
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
        #[cfg(all(feature = "mount", target_os = "linux"))]
        Command::Mount(args) => mount::run(&args),
        #[cfg(all(feature = "mount", target_os = "linux"))]
        Command::Serve(args) => serve::run(&args),
        Command::Table(command) => table::run(&command),
        Command::Diff(args) => diff::run(&args, unnamed),
        Command::Innochecksum(args) => Ok(innochecksum::Call::new(args.arguments).run()),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args),
        Command::Demo => demo::run(),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
    }
}

/// Arguments that clap rejected: its text and status, except for a monitoring system, for which 2 would mean damage.
fn refused(error: &clap::Error, arguments: &[OsString]) -> u8 {
    if error.use_stderr() && arguments.iter().any(|argument| argument == "--nagios") {
        return monitor::nagios::say(&monitor::nagios::unknown(&error.to_string()), monitor::nagios::UNKNOWN);
    }
    match error.print() {
        // Help that cannot be shown.
        Err(_) if !error.use_stderr() => COULD_NOT,
        // An error that cannot be shown: the status is all there is.
        _ => u8::try_from(error.exit_code()).unwrap_or(COULD_NOT),
    }
}
