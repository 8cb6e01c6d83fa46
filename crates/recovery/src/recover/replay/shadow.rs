//! The shadow file: the old content of pages while they are written in place, so that an interrupted run can be finished.

//!
//! It says what to write where, so it is believed only if it was made here for this folder. The tag of its batches names the log whose run
//! was interrupted, and the folder's and the file's own inode: an archive, a copy of the folder or another host cannot bring those along.
//! Device numbers are left out because they may change when a host starts again, and the host's identity because a disk is often attached
//! to another host after a crash. Its paths lead to tablespaces beneath the folder.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::rewrite::{Replayed, RewriteTarget, replay};
use flow::{Descriptors, FileHandle, FileId};
use format::checksum::crc32c;

use super::reach::Reach;
use crate::door;
use crate::recover::error::{RecoverError, Result, failed, refused};
use crate::recover::options::tuning::engine;
use crate::recover::place::SHADOW_NAME;
use crate::recover::place::durable::sync_directory_of;
use crate::recover::place::open_files::descriptors;
use datadir::name::NameHint;

/// Creates a datadir's shadow file, for a run over the log with this tag. Returns it with the tag of its batches.
pub(in crate::recover) fn make(datadir: &Path, tag: u64) -> Result<(RewriteTarget, u64)> {
    let path = datadir.join(SHADOW_NAME);
    let file = door::replace(datadir, SHADOW_NAME).map_err(failed(&path, "making the shadow file"))?;
    let tag = bound(tag, datadir, &metadata_of(&file, &path)?)?;
    sync_directory_of(&path)?;
    Ok((target(file), tag))
}

/// Finishes the writes of a run that was interrupted in the folder `from`, in place or in its copy `reach`. Returns the number of page
/// pieces. A shadow file from another checkpoint is ignored: a server has changed the files since. One that was not made for `from` is
/// refused. It may lead to the files in `outside` too.
pub(in crate::recover) fn finish_interrupted(
    from: &Path,
    reach: Reach<'_>,
    tag: u64,
    outside: &[PathBuf],
) -> Result<u64> {
    let (path, to) = (from.join(SHADOW_NAME), reach.datadir);
    let made = match door::read(from, SHADOW_NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(_) => return not_made_here(&path),
        Ok(file) => metadata_of(&file, &path)?,
    };
    let folder = from.metadata().map_err(failed(from, "looking at the directory"))?;
    let owners = [rustix::process::geteuid().as_raw(), 0, folder.uid()];
    if !owners.contains(&made.uid()) || made.mode() & 0o022 != 0 {
        return not_made_here(&path);
    }
    let tag = bound(tag, from, &made)?;
    let of_copy = door::change(to, SHADOW_NAME).map_err(failed(&path, "opening the shadow file"))?;
    let (mut number, mut fault, files) = (0, None, descriptors());
    let replayed = replay(engine(to), &target(of_copy), tag, |name| {
        number += 1;
        resolve((reach, &files), outside, name, number).unwrap_or_else(|error| {
            fault.get_or_insert(error);
            // Writing to it fails, so the shadow stays as it is for the next run.
            File::open("/dev/null").ok().map(|file| RewriteTarget { file: FileId(number), ..target(file) })
        })
    });
    if let Some(error) = fault {
        return Err(error);
    }
    match replayed? {
        Replayed::Foreign(other) if of_folder(other) != of_folder(tag) => not_made_here(&path),
        replayed => {
            remove(to)?;
            Ok(if let Replayed::Pieces(pieces) = replayed { pieces } else { 0 })
        }
    }
}

/// Removes the shadow file. Call it once the pages it saved are durable in place.
pub(in crate::recover) fn remove(datadir: &Path) -> Result<()> {
    let path = datadir.join(SHADOW_NAME);
    door::remove(datadir, SHADOW_NAME).map_err(failed(&path, "removing the shadow file"))?;
    sync_directory_of(&path)
}

fn target(file: File) -> RewriteTarget {
    let name = SHADOW_NAME.as_bytes().to_vec();
    RewriteTarget { file: FileId(u32::MAX), handle: FileHandle::of_file(file, false), name }
}

fn metadata_of(file: &File, path: &Path) -> Result<Metadata> {
    file.metadata().map_err(failed(path, "looking at the shadow file"))
}

/// The tag of batches in the shadow file `made` of a folder: one half is of the log, the other of the folder.
fn bound(tag: u64, folder: &Path, made: &Metadata) -> Result<u64> {
    let folder = folder.metadata().map_err(failed(folder, "looking at the directory"))?;
    let place = [folder.ino().to_be_bytes(), made.ino().to_be_bytes()].concat();
    Ok(u64::from(crc32c(&tag.to_be_bytes())) << 32 | u64::from(crc32c(&place)))
}

/// The half of a tag that names the folder.
const fn of_folder(tag: u64) -> u64 {
    tag & 0xFFFF_FFFF
}

fn not_made_here<T>(path: &Path) -> Result<T> {
    refused(format!(
        "{}: innokit did not make this file for this folder, so what it says is not written anywhere: if an innokit recover was interrupted in \
         the folder that this one was copied from, run it again there and copy the result; otherwise remove this file",
        path.display()
    ))
}

/// A file that an interrupted run named. `None` if it is gone.
fn resolve(
    (reach, open): (Reach<'_>, &Arc<Descriptors>),
    outside: &[PathBuf],
    name: &[u8],
    number: u32,
) -> Result<Option<RewriteTarget>> {
    let strange = || {
        let name = String::from_utf8_lossy(name);
        RecoverError::Refused(format!(
            "{SHADOW_NAME} names `{name}`, to which no run would have written: remove that file"
        ))
    };
    let path = reach.path_of(name).ok_or_else(strange)?;
    let is_tablespace = NameHint::of(&path).is_of_server(&path) || matches!(NameHint::of(&path), NameHint::System(_));
    let is_known = if path.is_absolute() { outside.contains(&path) } else { is_tablespace };
    if !is_known {
        return Err(strange());
    }
    let file = match reach.change(&path) {
        Err(RecoverError::Job(error)) if error.is_missing() => return Ok(None),
        other => other?,
    };
    let handle = open.keep(&reach.datadir.join(path), &FileHandle::of_file(file, false), true);
    Ok(Some(RewriteTarget { file: FileId(number), handle, name: name.to_vec() }))
}
