//! Bytes that are written later than they are made: a few in memory, the rest in an unnamed file.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

/// Bytes that stay in memory.
const MEMORY_MAX: usize = 4 << 20;

/// What was put aside.
#[derive(Debug, Default)]
pub(super) struct Spool {
    pub bytes: Vec<u8>,
    file: Option<File>,
    spilled: u64,
}

impl Spool {
    /// `file` takes what does not fit in memory.
    pub fn new(file: Option<File>) -> Self {
        Self { file, ..Self::default() }
    }

    /// Moves the bytes to the file if they are many. `None`: there is no file, and they would take ever more memory.
    pub fn settle(&mut self) -> io::Result<()> {
        if self.bytes.len() < MEMORY_MAX {
            return Ok(());
        }
        let Some(file) = &mut self.file else {
            return Err(io::Error::other(
                "statements that come last do not fit in memory, and no unnamed file can be made for them: name another folder for such \
                 files (TMPDIR)",
            ));
        };
        file.write_all(&self.bytes)?;
        self.spilled += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    /// Writes everything, and starts again.
    pub fn write_to(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(file) = self.file.as_mut().filter(|_| self.spilled > 0) {
            file.rewind()?;
            let copied = io::copy(&mut file.take(self.spilled), out)?;
            if copied != self.spilled {
                return Err(io::Error::other(
                    "the unnamed file of statements that come last is shorter than what was written to it",
                ));
            }
            file.rewind()?;
            file.set_len(0)?;
            self.spilled = 0;
        }
        out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}
