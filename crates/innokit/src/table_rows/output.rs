//! The files of an export: under another name until they are whole, and locked against a second innokit.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flow::lock::{Sharing, try_lock};
use inspect::rows::export::{ExportReport, TableExport};

use crate::terminal;

/// Whether each table gets a file in this directory, which may have to be made.
pub(super) fn is_folder(output: &Path) -> bool {
    output.is_dir() || output.as_os_str().to_string_lossy().ends_with('/')
}

/// Where rows go.
pub(super) struct RowsOutput<'t> {
    output: Option<&'t Path>,
    extension: &'static str,
    /// The tables of this run with the names that their files get in the end, and those they have until they are whole.
    open: Mutex<Vec<Target>>,
}

/// Files of finished tables that stay open and locked to the end. A second run of the same command fails at the first of them, before it
/// has written anything. All of them cannot stay: there may be more tables than a process may have open files.
const HELD_MAX: usize = 16;

struct Target {
    table: String,
    path: PathBuf,
    partial: PathBuf,
    hold: Hold,
}

/// What keeps another innokit's bytes from getting this file's name.
enum Hold {
    /// The lock of the open file.
    Locked(File),
    /// What the file was like when all its rows were written.
    Seen(Seen),
}

/// Which file it is, and its last change.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    file: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

impl Seen {
    fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        let (file, length) = ((meta.dev(), meta.ino()), meta.len());
        Ok(Self { file, length, changed: (meta.mtime(), meta.mtime_nsec()) })
    }
}

impl Target {
    /// Closes the file, whose rows are all written.
    fn let_go(&mut self) -> io::Result<()> {
        if let Hold::Locked(file) = &self.hold {
            self.hold = Hold::Seen(Seen::of(file)?);
        }
        Ok(())
    }

    fn give_name(&self) -> io::Result<()> {
        let _locked = match &self.hold {
            Hold::Locked(_) => None,
            Hold::Seen(seen) => {
                let file = File::options().read(true).write(true).open(&self.partial)?;
                if !try_lock(&file, Sharing::Exclusive)? || Seen::of(&file)? != *seen {
                    return Err(taken(&self.partial));
                }
                Some(file)
            }
        };
        fs::rename(&self.partial, &self.path)
    }
}

fn taken(partial: &Path) -> io::Error {
    let why = format!("another innokit is writing {}, or has written it since", partial.display());
    io::Error::new(io::ErrorKind::ResourceBusy, why)
}

impl<'t> RowsOutput<'t> {
    /// To this file or directory, or to standard output. The extension is that of files in a directory.
    pub fn new(output: Option<&'t Path>, extension: &'static str) -> Self {
        Self { output, extension, open: Mutex::default() }
    }

    /// Opens the output for a table. Existing files are not replaced. Until it is whole, a file is named `NAME.partial`: what a full disk or
    /// a signal leaves must not pass for a table, and must not keep the same command from running again.
    pub fn open(&self, table: &str) -> Result<Box<dyn Write + Send>, datadir::Error> {
        let Some(output) = self.output else { return Ok(terminal::data()) };
        let path = if is_folder(output) {
            let failed =
                |source| datadir::Error::Io { path: output.to_path_buf(), action: "making the directory", source };
            std::fs::create_dir_all(output).map_err(failed)?;
            output.join(format!("{}.{}", table.replace('/', "@002f"), self.extension))
        } else {
            output.to_path_buf()
        };
        let failed = |source| datadir::Error::Io { path: path.clone(), action: "making the file", source };
        // Also if it is a dangling link.
        if path.symlink_metadata().is_ok() {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        let mut partial: OsString = path.clone().into();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let made = File::options().write(true).create(true).truncate(false).open(&partial);
        let file = made.map_err(failed)?;
        if !try_lock(&file, Sharing::Exclusive).map_err(failed)? {
            return Err(failed(taken(&partial)));
        }
        file.set_len(0).map_err(failed)?;
        let hold = Hold::Locked(file.try_clone().map_err(failed)?);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Tables are exported one after another: the one before is written.
        if open.len() > HELD_MAX
            && let Some(last) = open.last_mut()
        {
            last.let_go().map_err(failed)?;
        }
        open.push(Target { table: table.to_owned(), path, partial, hold });
        Ok(Box::new(file))
    }

    /// Gives whole files their names.
    pub fn complete(&self, report: &ExportReport, skips: bool) -> Result<(), datadir::Error> {
        // What could not be read beside a single table, such as the redo log, may change it; beside others, it concerns one of many.
        let is_unsure = !report.unread.is_empty() && !self.output.is_some_and(is_folder);
        let mut by_name = HashMap::new();
        for table in &report.tables {
            by_name.entry(table.table.as_str()).or_insert(table);
        }
        for target in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let of_it = by_name.get(target.table.as_str());
            let is_all = |table: &TableExport| table.damage.is_empty() && !table.is_unsure && !is_unsure;
            let is_whole = of_it.is_some_and(|table| table.refused.is_none() && (skips || is_all(table)));
            if is_whole {
                let failed = |source| datadir::Error::Io {
                    path: target.partial.clone(),
                    action: "giving the whole file its name",
                    source,
                };
                target.give_name().map_err(failed)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(folder: &Path) -> Target {
        let (path, partial) = (folder.join("t.csv"), folder.join("t.csv.partial"));
        let mut file = File::options().write(true).create_new(true).open(&partial).expect("made");
        file.write_all(b"1,2\n").expect("written");
        Target { table: "shop.t".to_owned(), path, partial, hold: Hold::Locked(file) }
    }

    #[test]
    fn a_file_that_was_closed_gets_its_name_if_nothing_else_wrote_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut target = target(folder.path());
        target.let_go().expect("closed");
        target.give_name().expect("named");
        assert!(target.path.exists() && !target.partial.exists());
    }

    #[test]
    fn what_another_wrote_or_is_writing_gets_no_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut target = target(folder.path());
        target.let_go().expect("closed");
        let other = File::options().write(true).open(&target.partial).expect("opened");
        assert!(try_lock(&other, Sharing::Exclusive).expect("asked"));
        assert!(target.give_name().is_err(), "it is locked");
        drop(other);
        fs::write(&target.partial, "1,2\n3,4\n").expect("written");
        let error = target.give_name().expect_err("another length");
        assert!(error.to_string().contains("another innokit"), "{error}");
        fs::rename(&target.partial, folder.path().join("away")).expect("renamed");
        fs::write(&target.partial, "1,2\n").expect("written");
        assert!(target.give_name().is_err(), "another file");
        assert!(!target.path.exists());
    }
}
