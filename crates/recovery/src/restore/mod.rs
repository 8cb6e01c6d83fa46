//! `restore`: turns a backup into a datadir that a server can start on.
//!
//! ```text
//! directory -> copied, its files compared with innokit's manifest if it has one ------+-> recover -> set the owner
//! stream or tar archive -> unpacked -> compared in the same way ------------------------+
//! directory and increments -> merged into those of the last, compared in the same way --+
//! ```
//!
//! All or nothing: if the backup is damaged or cannot be recovered, whatever was copied is removed. With `moves` nothing is copied: the
//! backup is recovered where it is, and then gets the name of the datadir.

mod error;
mod moving;

use std::path::{Path, PathBuf};

use flow::durable::sync_file_system_of;
use format::keyring::KeyStore;

pub use self::error::RestoreError;
use self::error::{Result, failed, refused};
use self::moving::Moving;
use crate::backup::{BackupError, Chain, SigningKey, signed_by, unchanged};
use crate::binlog_at::binlog_at;
use crate::door::{self, SetDir};
use crate::manifest::{self, BackupState, Manifest, SIGNATURE};
use crate::recover::{
    Originals, RecoverError, RecoverOptions, Recovered, discard, is_free, occupied, prove_archive, put_outside,
    recover, recover_own, refuse_outside, refuse_unfinished, refuse_unusable, settle_links, walk_datadir,
};
use crate::replica::{State, is_mysql};
use crate::unpack::unpack_at_most;
use datadir::crc32c::FileSums;
use datadir::files::AskPath;
use datadir::keys::KeyFiles;
use datadir::server::BinlogPosition;
use datadir::{Error, fault};

/// The owner to give files to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct FileOwner {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// What to restore, and how.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// The datadir to write. It must be missing or empty.
    pub to: PathBuf,
    /// The owner of everything in it. `None` keeps the owners that the backup has, as far as the user may set them.
    pub owner: Option<FileOwner>,
    /// Make the directory of the backup itself the datadir, which takes no second space and leaves no backup. Both must be on one file
    /// system. Not with increments or an archive.
    pub moves: bool,
    /// The bytes that an archive may be unpacked to. `None`: nineteen twentieths of the free space.
    pub max_size: Option<u64>,
    /// Files of keys. If there are any, a backup or an increment that none of them signed, or that was changed since, is refused.
    pub trusted: Vec<PathBuf>,
    /// How to recover: increments, the redo archive and where to stop in it, keys and memory. Its target is ignored.
    pub recover: RecoverOptions,
}

/// What was restored.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Restored {
    /// Files compared with the manifest of a backup that innokit took.
    pub files_verified: u64,
    /// The ids of the keys that signed the backup and its increments. Empty if nobody asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signed_by: Vec<String>,
    /// The recovery.
    pub recovered: Recovered,
    /// Files in the datadir.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The version of the server that was backed up, if the backup records it.
    pub server_version: Option<String>,
    /// The binary log position of this state: from the backup, or else the one that MariaDB stored with the last commit in the datadir. The
    /// datadir has nothing from behind that position.
    pub binlog: Option<BinlogPosition>,
    /// The statements that make a server on the datadir a replica of the server that was backed up. Empty if it wrote no binary log.
    pub replica: Vec<String>,
}

/// Restores `backup`, a directory or an archive, into a datadir.
///
/// # Errors
/// [`RestoreError`]. The target is then as it was, unless only a step after the recovery failed, such as setting the owner. With `moves` a
/// backup stays as it was if it is damaged or cannot be recovered; after any other error the same call goes on where this one ended.
pub fn restore(backup: &Path, options: &RestoreOptions) -> Result<Restored> {
    if let Some(owner) = options.owner {
        may_give_to(owner)?;
    }
    refuse_unfinished(backup)?;
    refuse_unusable(&options.recover.places, &options.to)?;
    let signed_by = signed(backup, options)?;
    let restored = match backup.is_folder_there() {
        _ if options.moves => moved(backup, options)?,
        true => {
            let sets = std::iter::once(backup).chain(options.recover.increments.iter().map(PathBuf::as_path));
            let originals = Originals::of(sets, &options.recover.places)?;
            placed(finished(&options.to, from_directory(backup, options)?, options)?, originals, options)?
        }
        false => {
            let (restored, originals) = from_archive(backup, options)?;
            placed(finished(&options.to, restored, options)?, originals, options)?
        }
    };
    sync_file_system_of(&options.to).map_err(failed(&options.to, "making the datadir durable"))?;
    fault::refuse_unread()?;
    Ok(if signed_by.is_empty() { restored } else { Restored { signed_by, ..restored } })
}

/// The ids of the keys that signed a backup in a directory and its increments. Empty if none is asked for; an archive is asked once it is unpacked.
fn signed(backup: &Path, options: &RestoreOptions) -> Result<Vec<String>> {
    if options.trusted.is_empty() {
        return Ok(Vec::new());
    }
    if options.recover.redo.is_some() {
        return refused(
            "an archive of the redo log is not signed, so what it would add cannot be trusted: leave out --redo or --trusted",
        );
    }
    let keys: Vec<SigningKey> =
        options.trusted.iter().map(|path| SigningKey::read(path)).collect::<std::result::Result<_, _>>()?;
    let sets = std::iter::once(backup)
        .filter(|backup| backup.is_folder_there())
        .chain(options.recover.increments.iter().map(PathBuf::as_path));
    Ok(sets.map(|set| signed_by(set, &keys)).collect::<std::result::Result<_, _>>()?)
}

/// Gives a recovered datadir to its owner, and counts what is in it.
fn finished(datadir: &Path, restored: Restored, options: &RestoreOptions) -> Result<Restored> {
    let noted = || Ok::<_, Error>(binlog_at(datadir, &options.recover.keys.read()?, None));
    let known = restored.binlog.clone().or_else(|| restored.recovered.binlog.clone());
    let binlog = match known {
        // InnoDB's own note would be before statements that the datadir has.
        None if restored.recovered.is_position_unknown => None,
        None => noted()?,
        known => known,
    };
    if !options.recover.outside {
        settle_links(datadir)?;
    }
    let replica = if options.recover.redo.is_some() {
        restored.recovered.replica.clone()
    } else {
        let (at, version) = (binlog.as_ref(), restored.server_version.as_deref());
        State { at, before: None, version }.statements(is_mysql(datadir))
    };
    let (files, bytes) = give(datadir, options.owner)?;
    Ok(Restored { binlog, replica, files, bytes, ..restored })
}

/// Moves the tablespaces of a restored datadir to the places that the user named for them. They have their owner by now.
fn placed(restored: Restored, originals: Originals, options: &RestoreOptions) -> Result<Restored> {
    let outside = put_outside(&options.to, originals, &options.recover.places, &options.recover.keys.read()?);
    let outside = outside.inspect_err(|_| discard(&options.to))?;
    Ok(Restored { recovered: Recovered { outside, ..restored.recovered }, ..restored })
}

/// Only root can give files to another user. Checked first, because a restore takes long and would fail only at its end.
fn may_give_to(owner: FileOwner) -> Result<()> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() || (uid.as_raw(), gid.as_raw()) == (owner.uid, owner.gid) {
        return Ok(());
    }
    refused(format!(
        "only root can give files to user {} and group {}: run as root, or leave out --owner",
        owner.uid, owner.gid
    ))
}

fn from_directory(backup: &Path, options: &RestoreOptions) -> Result<Restored> {
    if !is_free(&options.to) {
        return Err(occupied(&options.to).into());
    }
    if options.recover.increments.is_empty() || !manifest::is_there(backup) {
        return copied(backup, options);
    }
    let restored = merged(backup, options);
    if restored.is_err() {
        discard(&options.to);
    }
    restored
}

/// Merges a backup with its increments and recovers the result, which is a backup of a later moment.
fn merged(backup: &Path, options: &RestoreOptions) -> Result<Restored> {
    let (to, increments) = (&options.to, &options.recover.increments);
    let chain = Chain::of(backup, increments)?;
    increments.last().map_or(Ok(()), |last| prove_archive(last, &options.recover))?;
    let keys = options.recover.keys.read()?;
    let sets: Vec<&Path> = std::iter::once(backup).chain(increments.iter().map(PathBuf::as_path)).collect();
    let merged = chain.merge(to, &keys).map_err(RestoreError::from);
    let files_verified = merged.map_err(|error| reason(error, &sets, &options.recover.keys))?;
    let restored = recovered_as_it_is(to, options)?;
    let recovered = Recovered { increments: chain.increments(), ..restored.recovered };
    Ok(Restored { files_verified, recovered, ..restored })
}

/// Restores an archive. Returns where tablespaces were, which the archive's link files say.
fn from_archive(archive: &Path, options: &RestoreOptions) -> Result<(Restored, Originals)> {
    let to = &options.to;
    if options.recover.redo.is_some() {
        return refused(
            "an archive of the redo log continues a backup in a directory: unpack this one first (innokit unpack)",
        );
    }
    if !options.recover.increments.is_empty() {
        return refused("increments are merged into a backup in a directory: unpack this one first (innokit unpack)");
    }
    let unpacked = unpack_at_most(&[archive.to_path_buf()], to, options.max_size)?;
    let restored = match unpacked.still_packed.first() {
        Some(file) => refused(format!("{file}: packed in a way that innokit does not read")),
        None => signed(to, options).and_then(|signed_by| {
            let originals = Originals::of([to.as_path()], &options.recover.places)?;
            let restored = recovered_unpacked(&unpacked.sums, options)?;
            door::remove(to, SIGNATURE).map_err(failed(to, "removing the signature of the backup"))?;
            Ok((Restored { signed_by, ..restored }, originals))
        }),
    };
    if restored.is_err() {
        discard(to);
    }
    restored
}

/// Recovers a backup where it is, and gives it the name of the datadir. Its files are compared with the manifest before they change.
fn moved(backup: &Path, options: &RestoreOptions) -> Result<Restored> {
    if !options.recover.increments.is_empty() || options.recover.redo.is_some() {
        return refused(
            "increments and an archive of the redo log are applied to a copy: the backup stays, so it cannot be moved (--move)",
        );
    }
    let moving = Moving::of(backup, &options.to)?;
    let set = moving.set();
    if !options.recover.outside {
        refuse_outside(set, &options.recover.keys.read()?)?;
    }
    let manifest = manifest::is_there(set).then(|| Manifest::read(set)).transpose()?.map(|(manifest, _)| manifest);
    // Once it has been a datadir, its binary log goes on from elsewhere.
    let taken = manifest.filter(|manifest| manifest.state != BackupState::Recovered);
    let how = RecoverOptions { to: None, compare: true, dry_run: false, ..options.recover.clone() };
    let recovered = recover(set, &how).map_err(|error| match Manifest::read(set) {
        Ok((now, _)) if now.state == BackupState::Recovering => {
            RestoreError::Half { set: set.to_path_buf(), source: error }
        }
        _ => reason(error.into(), &[set], &how.keys),
    })?;
    let restored = restored(taken, recovered.files_compared, recovered, options);
    door::remove(set, SIGNATURE).map_err(failed(set, "removing the signature of the backup"))?;
    moving.make_like_target()?;
    let restored = finished(set, restored, options)?;
    moving.finish()?;
    Ok(restored)
}

/// Recovers a copy of the backup in `set`. Each file is compared with the manifest while it is copied, so it is read once.
fn copied(set: &Path, options: &RestoreOptions) -> Result<Restored> {
    let taken = Manifest::of_usable(set)?.map(|(manifest, _)| manifest);
    let (to, places) = (Some(options.to.clone()), Vec::new());
    let how = RecoverOptions { to, places, compare: true, dry_run: false, ..options.recover.clone() };
    let recovered = recover(set, &how).map_err(|error| reason(error.into(), &[set], &how.keys))?;
    Ok(restored(taken, recovered.files_compared, recovered, options))
}

/// Recovers the backup that was unpacked into the target, if the files, which were written with these checksums, are those of its manifest.
fn recovered_unpacked(sums: &FileSums, options: &RestoreOptions) -> Result<Restored> {
    let taken = unchanged(&options.to, sums, &options.recover.keys.read()?)?;
    let how = RecoverOptions { to: None, is_fresh: true, dry_run: false, ..options.recover.clone() };
    let recovered = recover(&options.to, &how)?;
    let (manifest, files_verified) = taken.unzip();
    Ok(restored(manifest, files_verified.unwrap_or(0), recovered, options))
}

fn restored(taken: Option<Manifest>, files_verified: u64, recovered: Recovered, options: &RestoreOptions) -> Restored {
    let binlog = taken.as_ref().and_then(|manifest| manifest.binlog.clone());
    let binlog = binlog.filter(|_| options.recover.redo.is_none());
    let server_version = taken.map(|manifest| manifest.server_version);
    Restored { files_verified, recovered, server_version, binlog, ..Restored::default() }
}

/// Why sets were not restored: if files were changed since they were taken, the error may be no more than a consequence of that.
fn reason(error: RestoreError, sets: &[&Path], keys: &KeyFiles) -> RestoreError {
    let is_about_files = match &error {
        RestoreError::Backup(error) => matches!(error, BackupError::Damaged(_)),
        RestoreError::Recover(error) => {
            matches!(error, RecoverError::Damaged(_) | RecoverError::Refused(_) | RecoverError::Key(_))
        }
        _ => false,
    };
    if !is_about_files {
        return error;
    }
    let compare = |keys: &KeyStore| sets.iter().try_for_each(|set| unchanged(set, &FileSums::new(), keys).map(drop));
    let compared = keys.read().map_err(RestoreError::from).and_then(|keys| Ok(compare(&keys)?));
    compared.err().unwrap_or(error)
}

/// Recovers the merged set in the datadir.
fn recovered_as_it_is(datadir: &Path, options: &RestoreOptions) -> Result<Restored> {
    let (manifest, _) = Manifest::read(datadir)?;
    let increments = Vec::new();
    let how = RecoverOptions { to: None, is_fresh: true, dry_run: false, increments, ..options.recover.clone() };
    let recovered = recover_own(datadir, &how)?;
    Ok(restored(Some(manifest), 0, recovered, options))
}

/// Sets the owner of the datadir and everything in it. Returns the number of files and their bytes.
fn give(datadir: &Path, owner: Option<FileOwner>) -> Result<(u64, u64)> {
    let dir = SetDir::open(datadir).map_err(failed(datadir, "opening the directory"))?;
    let itself = owner.map_or(Ok(()), |owner| dir.give_itself(owner.uid, owner.gid));
    let (mut files, mut bytes) = (0, 0);
    let mut outcome = itself.map_err(failed(datadir, "giving it to its owner"));
    walk_datadir(datadir, &mut |name, metadata| {
        if metadata.is_file() {
            (files, bytes) = (files + 1, bytes + metadata.len());
        }
        if let (Ok(()), Some(owner)) = (&outcome, owner) {
            let given = door::plain(name).and_then(|name| dir.set_owner(&name, owner.uid, owner.gid));
            outcome = given.map_err(failed(&datadir.join(name), "giving it to its owner"));
        }
        Ok(())
    })?;
    outcome?;
    Ok((files, bytes))
}
