//! Which files a run may write to.
//!
//! A log, a link file, a dictionary and a link in the datadir can all lead to files elsewhere, and on the host that a copy came from these
//! are a running server's. So files outside are changed only in place, and only if the user said so; they are named before anything is
//! written. Everything else is opened beneath the datadir.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::door;
use crate::recover::error::{Result, failed, refused};
use crate::recover::place::durable::{make_directories, sync_directory_of};
use crate::recover::place::outside::{Outside, inside};
use crate::recover::plan::RecoverPlan;

/// What a run may write to.
#[derive(Debug, Clone, Copy)]
pub(in crate::recover) struct Reach<'d> {
    pub datadir: &'d Path,
    /// Whether it may write to files outside of the datadir.
    outside: bool,
    meaning: Outside,
}

impl<'d> Reach<'d> {
    pub fn of(datadir: &'d Path, outside: bool) -> Self {
        Self { datadir, outside, meaning: Outside::of(datadir) }
    }

    /// The path of a file by its name in a log or a shadow file. `None` for a name that leads nowhere.
    pub fn path_of(&self, name: &[u8]) -> Option<PathBuf> {
        self.meaning.path_of(Path::new(OsStr::from_bytes(name)))
    }

    /// Fails if the plan changes files that the run may not write to.
    pub fn check(&self, plan: &RecoverPlan) -> Result<()> {
        if self.outside {
            return Ok(());
        }
        let tables = self.outside_in(plan).into_iter().map(|path| {
            if path.is_absolute() {
                let table = inside(&path).map(|path| path.with_extension("").display().to_string());
                format!("{} ({})", table.unwrap_or_default(), path.display())
            } else {
                format!("{} (a link)", path.with_extension("").display())
            }
        });
        refuse_outside(tables.collect())
    }

    /// The files outside of the datadir, and those behind links in it, that the plan changes, by their names.
    pub fn outside_in(&self, plan: &RecoverPlan) -> BTreeSet<PathBuf> {
        let parts = plan.spaces.values().flat_map(|space| space.parts().into_iter().chain(space.parts_now()));
        let is_link = |path: &Path| door::read(self.datadir, path).is_err_and(|error| door::is_link(&error));
        parts.map(|part| part.path).filter(|path| path.is_absolute() || is_link(path)).collect()
    }

    /// Opens a file to change it.
    pub fn change(&self, path: &Path) -> Result<File> {
        let full = self.datadir.join(path);
        if !path.is_absolute() {
            match door::change(self.datadir, path) {
                Err(error) if door::is_link(&error) && self.outside => {}
                other => return other.map_err(failed(&full, "opening the tablespace")),
            }
        }
        self.open_outside(&full, false)
    }

    /// Makes a file, with the directories above it.
    pub fn make(&self, path: &Path) -> Result<File> {
        let full = self.datadir.join(path);
        if path.is_absolute() {
            full.parent().map_or(Ok(()), |dir| make_directories(dir, self.datadir))?;
            return self.open_outside(&full, true);
        }
        let made = door::make_parents(self.datadir, path).and_then(|()| door::create(self.datadir, path));
        match made {
            Err(error) if door::is_link(&error) && self.outside => self.open_outside(&full, true),
            other => other.map_err(failed(&full, "making the tablespace")),
        }
    }

    fn open_outside(&self, path: &Path, is_new: bool) -> Result<File> {
        if !self.outside {
            refuse_outside([path.display().to_string()].into())?;
        }
        // Never waits for the other end of a pipe.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let opened = File::options().read(true).write(true).create_new(is_new).custom_flags(flags).open(path);
        let file = opened.and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        });
        file.map_err(failed(path, "opening the tablespace"))
    }

    /// Renames a file durably, and makes the directories above its new name.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (old, new) = (self.datadir.join(from), self.datadir.join(to));
        if self.outside {
            new.parent().map_or(Ok(()), |dir| make_directories(dir, self.datadir))?;
            fs::rename(&old, &new).map_err(failed(&old, "renaming the tablespace"))?;
        } else {
            let made = door::make_parents(self.datadir, to);
            made.and_then(|()| door::rename(self.datadir, from, to))
                .map_err(failed(&old, "renaming the tablespace"))?;
        }
        sync_directory_of(&old)?;
        sync_directory_of(&new)
    }
}

/// Fails if tables are outside. Names them, and says what to do.
fn refuse_outside(tables: BTreeSet<String>) -> Result<()> {
    if tables.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = tables.into_iter().collect();
    refused(format!(
        "the log changes tablespaces outside the datadir, which may be another server's: {}; recover a copy, which gets them inside (recover \
         --to, restore --to of the directory), or say --with-outside to write to them where they are",
        list.join(", ")
    ))
}
