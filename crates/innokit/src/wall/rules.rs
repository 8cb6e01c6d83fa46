//! Rooms as rules of Landlock.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetStatus,
};

use super::sight::Seen;
use super::{Room, sight};

/// Linux 6.2: the first in which truncating a file can be refused. Older kernels hold the other rules.
const RULES: ABI = ABI::V3;

type Built<T> = Result<T, Box<dyn Error>>;

/// Restrains this thread, and those that it starts later: what they may write, and, if anything is `seen`, what they may read. Returns whether
/// the kernel holds all of the rules.
///
/// # Errors
/// The kernel holds none of them.
pub fn build(rooms: &[Room], seen: Option<&[Seen]>) -> Built<bool> {
    // Before Linux 5.19 a restrained process can move nothing from one directory to another, which backups and restores do.
    let with_moves =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::Refer)?;
    let as_known = with_moves.set_compatibility(CompatLevel::BestEffort);
    let mut handled = as_known.handle_access(AccessFs::from_write(RULES))?;
    if seen.is_some() {
        handled = handled.handle_access(reading())?;
    }
    let mut rules = handled.create()?;
    for room in rooms {
        rules = match room {
            Room::Directory(path) => directory(rules, path)?,
            Room::File(path) => file(rules, path)?,
            Room::Name(path) => name(rules, path)?,
        };
    }
    if let Some(seen) = seen {
        let readable =
            seen.iter().cloned().chain(sight::own()).chain(rooms.iter().map(|room| Seen::whole(around(room))));
        rules = readable.into_iter().try_fold(rules, |rules, seen| read_in(rules, &seen))?;
    }
    match rules.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err("not enforced".into()),
        status => Ok(status == RulesetStatus::FullyEnforced),
    }
}

/// Not running programs: no command runs any, and another thread of this process has no reason to.
fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

/// A file or a directory with all that is in it. What is gone by now, or can be in no rule, cannot be read.
fn read_in(rules: RulesetCreated, seen: &Seen) -> Built<RulesetCreated> {
    let Ok(meta) = fs::metadata(&seen.path) else { return Ok(rules) };
    let Ok(handle) = PathFd::new(&seen.path) else { return Ok(rules) };
    let access = match meta.is_dir() {
        true if seen.is_list => AccessFs::ReadDir.into(),
        true => reading(),
        false => AccessFs::ReadFile.into(),
    };
    Ok(rules.add_rule(PathBeneath::new(handle, access))?)
}

/// Where something is written, which may have to be looked at.
fn around(room: &Room) -> PathBuf {
    match room {
        Room::Directory(path) if path.is_dir() => path.clone(),
        room => above(room.path()),
    }
}

/// What makes, renames and removes directories, and moves files between them.
fn names() -> BitFlags<AccessFs> {
    AccessFs::MakeDir | AccessFs::RemoveDir | AccessFs::Refer
}

fn directory(rules: RulesetCreated, path: &Path) -> Built<RulesetCreated> {
    let all = AccessFs::from_write(RULES);
    if !path.is_dir() {
        return within(rules, &above(path), all);
    }
    // A failed run removes a directory that it made.
    name(within(rules, path, all)?, path)
}

/// The file itself, if it is there, and room beside it for its next content.
fn file(rules: RulesetCreated, path: &Path) -> Built<RulesetCreated> {
    let is_regular = fs::metadata(path).map_or(true, |file| file.is_file());
    // A pipe without a name (`/dev/stdout`) needs no rule, and can be in none.
    let rules = match fs::canonicalize(path) {
        Ok(path) => within(rules, &path, AccessFs::WriteFile | AccessFs::Truncate)?,
        Err(_) => rules,
    };
    if is_regular { within(rules, &above(path), AccessFs::from_write(RULES)) } else { Ok(rules) }
}

fn name(rules: RulesetCreated, path: &Path) -> Built<RulesetCreated> {
    within(rules, &above(path), names())
}

fn within(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Built<RulesetCreated> {
    Ok(rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?)
}

/// The nearest directory above a path that is there.
fn above(path: &Path) -> PathBuf {
    let whole = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf());
    let found = whole.ancestors().skip(1).find(|above| above.is_dir());
    found.unwrap_or(Path::new("/")).to_path_buf()
}
