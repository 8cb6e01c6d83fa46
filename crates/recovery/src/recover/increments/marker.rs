//! Marks a full backup while an increment is being merged into it: until the merge is done, its files match neither backup.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use format::Lsn;

use crate::door;
use crate::recover::error::{Result, failed, refused};
use crate::recover::place::durable::sync_directory_of;
use datadir::backup_notes::BackupNotes;
use datadir::reading::read_small;

const MARKER: &str = "innokit-recover.increment";
/// Bytes of the marker read at most.
const MARKER_MAX: u64 = 4096;
/// For the DBA who finds it.
const MARKER_TEXT: &str =
    "innokit recover was merging an incremental backup into this one. Run it again to finish that.\n";

/// The LSNs that an increment leads from and to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::recover) struct Lsns {
    pub from: Lsn,
    pub to: Lsn,
    /// The end of its log.
    pub last: Lsn,
}

impl Lsns {
    pub fn of(notes: &BackupNotes) -> Option<Self> {
        Some(Self { from: notes.from_lsn?, to: notes.to_lsn?, last: notes.last_lsn? })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.lines().next()?.split(' ').map(|number| number.parse().ok().map(Lsn));
        Some(Self { from: numbers.next()??, to: numbers.next()??, last: numbers.next()?? })
    }
}

impl fmt::Display for Lsns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LSN {} to {}", self.from, self.to)
    }
}

/// The increment being merged into the backup, if any.
pub(in crate::recover) fn read(datadir: &Path) -> Result<Option<Lsns>> {
    let path = datadir.join(MARKER);
    match read_small(&path, MARKER_MAX) {
        Ok(text) => match Lsns::parse(&String::from_utf8_lossy(&text)) {
            Some(lsns) => Ok(Some(lsns)),
            None => refused(format!("{}: this file does not say which increment it was", path.display())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&path, "reading the file")(error)),
    }
}

pub(in crate::recover) fn write(datadir: &Path, lsns: Lsns) -> Result<()> {
    let path = datadir.join(MARKER);
    let written = door::replace(datadir, MARKER).and_then(|mut file| {
        writeln!(file, "{} {} {}", lsns.from.0, lsns.to.0, lsns.last.0)?;
        file.write_all(MARKER_TEXT.as_bytes())?;
        file.sync_all()
    });
    written.map_err(failed(&path, "writing the file"))?;
    sync_directory_of(&path)
}

pub(in crate::recover) fn remove(datadir: &Path) -> Result<()> {
    let path = datadir.join(MARKER);
    door::remove(datadir, MARKER).map_err(failed(&path, "removing the file"))?;
    sync_directory_of(&path)
}

/// Fails if a merge into the backup was interrupted. Called when the increment that would finish it was not given.
pub(in crate::recover) fn refuse(datadir: &Path) -> Result<()> {
    read(datadir)?.map_or(Ok(()), |lsns| {
        refused(format!(
            "{}: merging an increment into this backup was interrupted: run it again with that increment ({lsns}), --increment DIR",
            datadir.display()
        ))
    })
}
