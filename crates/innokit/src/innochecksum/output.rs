//! Where the lines go: standard output and error, the log, the dump.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::Fault;
use super::options::Options;

/// All that is written to, but for the tablespaces.
pub struct Output {
    /// Standard output.
    pub stdout: BufWriter<io::Stdout>,
    /// The log, if asked for.
    pub log: Option<BufWriter<File>>,
    /// The dump of page types, if asked for.
    pub dump: Option<BufWriter<File>>,
}

impl Output {
    /// Creates the files asked for; what they held is gone.
    pub fn open(options: &Options) -> Result<Self, Fault> {
        let create = |path: &Path| {
            File::create(path).map(BufWriter::new).map_err(|error| Fault::Create { path: path.to_owned(), error })
        };
        let dump = options.dump.as_deref().map(create).transpose()?;
        let mut log = options.log.as_deref().map(create).transpose()?;
        if let Some(log) = &mut log {
            writeln!(log, "InnoDB File Checksum Utility.")?;
        }
        Ok(Self { stdout: BufWriter::new(io::stdout()), log, dump })
    }

    /// Hands everything to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()?;
        self.log.as_mut().map_or(Ok(()), Write::flush)?;
        self.dump.as_mut().map_or(Ok(()), Write::flush)
    }

    /// A line on standard error, at once.
    pub fn complain(&self, line: &str) -> io::Result<()> {
        writeln!(io::stderr().lock(), "{line}")
    }
}
