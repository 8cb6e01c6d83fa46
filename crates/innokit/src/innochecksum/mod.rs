//! `innokit innochecksum`: a reimplementation of MySQL's `innochecksum`. Options, messages, output and exit status are the original's, so
//! that scripts need not change. Where the original is wrong, `docs/innochecksum.md` says what this one does and why.
//!
//! ```text
//! arguments -> Options
//! each file: FileInput (open, lock) -> FileLayout (page size) -> pages -> PageJudge -> PageWriter (--write)   (recovery::innochecksum)
//!            -> Tally (-S, -D) -> report                                                                     (here)
//! ```
//!
//! A file is read once, in order, by one thread, because the original's output is in page order and stops at the first file that
//! fails. To verify terabytes, use `innokit check`.

mod explain;
mod fault;
mod indexes;
mod numbers;
mod options;
mod output;
mod session;
mod types;
mod usage;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use fault::Fault;
use options::{NAME, Options, Parsed, Request};
use output::Output;
use recovery::innochecksum::FileError;
use session::Session;

use crate::terminal;

/// All well; the original has no third status.
const DONE: u8 = 0;
const FAILED: u8 = 1;

/// A call of the program: the name it was called by, and its arguments.
#[derive(Debug)]
pub struct Call {
    program: OsString,
    arguments: Vec<OsString>,
}

impl Call {
    /// The call in a command line, if it is one: `innochecksum ...` or `innokit innochecksum ...`.
    pub fn find(words: &[OsString]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        if Path::new(program).file_name().is_some_and(|name| name == NAME) {
            return Some(Self { program: program.clone(), arguments: arguments.to_vec() });
        }
        let (command, arguments) = arguments.split_first()?;
        (command == NAME).then(|| Self::new(arguments.to_vec()))
    }

    /// A call of the command `innochecksum` with these arguments.
    pub fn new(arguments: Vec<OsString>) -> Self {
        Self { program: NAME.into(), arguments }
    }

    /// Answers the call. Returns the exit status.
    pub fn run(&self) -> u8 {
        let program = self.program.to_string_lossy();
        let parsed = options::parse(&program, &self.arguments);
        match self.answer(&program, &parsed) {
            Ok(status) => status,
            // The reader closed the pipe early (`| head`): not an error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => FAILED,
            Err(error) => {
                // If standard error fails as well, the error cannot be reported.
                drop(writeln!(terminal::err(), "{NAME}: {error}"));
                FAILED
            }
        }
    }

    fn answer(&self, program: &str, parsed: &Parsed) -> io::Result<u8> {
        let mut stderr = terminal::err();
        for line in &parsed.lines {
            writeln!(stderr, "{line}")?;
        }
        drop(stderr);
        match &parsed.request {
            Request::Refused => Ok(FAILED),
            Request::Version => usage::version(program, &mut terminal::data()).map(|()| DONE),
            Request::Help => usage::help(program, &mut terminal::data()).map(|()| DONE),
            Request::NoFiles => usage::help(program, &mut terminal::data()).map(|()| FAILED),
            Request::Run(options) => match start(options) {
                Ok(()) => Ok(DONE),
                Err(fault) => report(&fault),
            },
        }
    }
}

fn start(options: &Options) -> Result<(), Fault> {
    if let Some(conflict) = options.conflict() {
        return Err(conflict);
    }
    if options.verbose {
        usage::variables(Some(options), &mut terminal::err())?;
    }
    Session::new(options, Output::open(options)?).run(&options.files)
}

fn report(fault: &Fault) -> io::Result<u8> {
    if let Fault::Output(error) = fault
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        return Ok(FAILED);
    }
    let mut stderr = terminal::err();
    write!(stderr, "{fault}")?;
    // The original prints this one message without a newline.
    if !matches!(fault, Fault::File(FileError::StreamTooShort)) {
        writeln!(stderr)?;
    }
    Ok(FAILED)
}
