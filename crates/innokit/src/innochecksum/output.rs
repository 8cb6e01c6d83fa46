//! The destinations of lines: standard output and error, the log, the dump.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::Fault;
use super::options::Options;
use crate::terminal::{self, Screen};

/// Everything that is written to, except the tablespaces.
pub struct Output {
    /// Standard output.
    pub stdout: Screen,
    /// The log, if requested.
    pub log: Option<BufWriter<File>>,
    /// The dump of page types, if requested.
    pub dump: Option<BufWriter<File>>,
}

impl Output {
    /// Creates the requested files, and truncates those that exist.
    pub fn open(options: &Options) -> Result<Self, Fault> {
        let create = |path: &Path| {
            File::create(path).map(BufWriter::new).map_err(|error| Fault::Create { path: path.to_owned(), error })
        };
        let dump = options.dump.as_deref().map(create).transpose()?;
        let mut log = options.log.as_deref().map(create).transpose()?;
        if let Some(log) = &mut log {
            writeln!(log, "InnoDB File Checksum Utility.")?;
        }
        Ok(Self { stdout: terminal::out(), log, dump })
    }

    /// Flushes everything.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()?;
        self.log.as_mut().map_or(Ok(()), Write::flush)?;
        self.dump.as_mut().map_or(Ok(()), Write::flush)
    }

    /// Prints a line on standard error at once.
    pub fn complain(&self, line: &str) -> io::Result<()> {
        writeln!(terminal::err(), "{line}")
    }
}
