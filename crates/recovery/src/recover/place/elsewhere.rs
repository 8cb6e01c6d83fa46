//! Tablespaces of a copy at places that the user names. In the original they were outside of the datadir, and the copy has them inside
//! (`outside.rs`). A server on the copy opens them there. `--outside OLD=NEW` moves those that were beneath OLD to the same place beneath NEW
//! once all is recovered, with a new link file for MariaDB. MySQL looks for them in `innodb_directories` when it starts, and then updates its
//! dictionary.
//!
//! The paths come out of the set, so the part below OLD is a name beneath a handle of NEW, and nothing that is there is replaced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use format::keyring::KeyStore;

use super::outside::{each_link, inside, link};
use crate::door::{self, SetDir};
use crate::recover::error::{Result, failed, refused};
use crate::recover::options::OutsidePlace;
use datadir::catalog::moved_in_of_mysql;
use datadir::files::AskPath;
use datadir::inventory::link_target;

/// Where tablespaces were in the original, by their names in a copy.
#[derive(Debug, Default)]
pub(crate) struct Originals(BTreeMap<PathBuf, PathBuf>);

impl Originals {
    /// What the link files of sets say, if there are places for them. A later set knows better.
    pub fn of<'s>(sets: impl IntoIterator<Item = &'s Path>, places: &[OutsidePlace]) -> Result<Self> {
        let mut originals = BTreeMap::new();
        for set in sets.into_iter().filter(|set| !places.is_empty() && set.is_folder_there()) {
            each_link(set, &mut |link| {
                let target = link_target(&set.join(link)).unwrap_or_default();
                originals.insert(link.with_extension("ibd"), target);
            })?;
        }
        Ok(Self(originals))
    }

    /// Adds what the dictionary of a recovered copy of MySQL's says.
    fn with_dictionary(mut self, copy: &Path, keys: &KeyStore) -> Result<Self> {
        match moved_in_of_mysql(copy, keys) {
            Ok(files) => self.0.extend(files),
            Err(why) => return refused(format!("{}: {why}, so what was outside of it is not known", copy.display())),
        }
        Ok(self)
    }
}

/// Refuses places that cannot be used, before anything is written.
pub(crate) fn refuse_unusable(places: &[OutsidePlace], copy: &Path) -> Result<()> {
    let copy = std::path::absolute(copy).unwrap_or_else(|_| copy.to_path_buf());
    for OutsidePlace { old, new } in places {
        if !old.is_absolute() {
            return refused(format!("--outside {}: say the absolute path that the server had", old.display()));
        }
        if !new.is_folder_there() {
            return refused(format!("--outside: {} is no directory: make it first", new.display()));
        }
        if fs::canonicalize(new).is_ok_and(|new| new.starts_with(&copy)) {
            return refused(format!("--outside: {} is in the datadir, where they are anyway", new.display()));
        }
    }
    Ok(())
}

/// Moves the tablespaces of a recovered copy to their places. Returns where they are now.
///
/// # Errors
/// One of them cannot be there. Then none is.
pub(crate) fn put(copy: &Path, originals: Originals, places: &[OutsidePlace], keys: &KeyStore) -> Result<Vec<String>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let is_mysql = copy.join("mysql.ibd").is_file_there();
    let originals = if is_mysql { originals.with_dictionary(copy, keys)? } else { originals };
    let mut moved: Vec<(PathBuf, PathBuf)> = Vec::new();
    for (name, original) in originals.0.iter().filter(|(name, _)| copy.join(name).is_file_there()) {
        let within = places.iter().filter_map(|place| Some((place, original.strip_prefix(&place.old).ok()?)));
        // The nearest directory counts, in whatever order they are named.
        let Some((place, rest)) = within.max_by_key(|(place, _)| place.old.components().count()) else { continue };
        match put_one((copy, name), (&place.new, rest), is_mysql) {
            Ok(new) => moved.push((new, rest.to_path_buf())),
            Err(error) => {
                // The copy is of no use without them, and the caller removes it.
                for (dir, rest) in moved {
                    door::remove(&dir, rest).ok();
                }
                return Err(error);
            }
        }
    }
    Ok(moved.into_iter().map(|(dir, rest)| dir.join(rest).display().to_string()).collect())
}

/// Moves one. Returns the directory as it is called by the system.
fn put_one((copy, name): (&Path, &Path), (new, rest): (&Path, &Path), is_mysql: bool) -> Result<PathBuf> {
    let table = name.with_extension("");
    let new = fs::canonicalize(new).map_err(failed(new, "looking at the directory"))?;
    let full = new.join(rest);
    let is_of_table = inside(&full).as_deref() == Some(name);
    if !is_of_table && (!is_mysql || name.components().count() > 1) {
        return refused(format!(
            "{}: the server would not look for it as {}, which is not in a directory of the name of its database",
            table.display(),
            full.display()
        ));
    }
    let why = format!("{}: it cannot be put outside of the datadir", table.display());
    let put = door::plain(rest).and_then(|rest| {
        let (from, name, to) = (SetDir::open(copy)?, door::plain(name)?, SetDir::open(&new)?);
        door::make_parents(&new, rest.as_path())?;
        match from.move_to(&name, &to, &rest) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let mut source = from.read(&name)?;
                let mut target = to.create(&rest, door::PRIVATE)?;
                let written = io::copy(&mut source, &mut target).and_then(|_| door::give(&target, &source.metadata()?));
                written.inspect_err(|_| drop(to.remove(&rest)))?;
                from.remove(&name)?;
            }
            moved => moved?,
        }
        to.read(&rest)?.sync_all()?;
        to.sync_directory_of(&rest)?;
        from.sync_directory_of(&name)
    });
    match put {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return refused(format!("{why}: {} is there already, and may be another server's", full.display()));
        }
        put => put.map_err(failed(&full, "putting a tablespace outside of the datadir"))?,
    }
    if !is_mysql {
        link(copy, &full)?;
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_was_beneath_a_directory_moves_and_nothing_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("a path");
        let (copy, new, victim) = (dir.join("copy"), dir.join("new"), dir.join("victim"));
        for made in [&copy.join("db"), &new, &victim] {
            fs::create_dir_all(made).expect("made");
        }
        let originals = |links: &[(&str, &str)]| {
            let names = links.iter().map(|(name, original)| (PathBuf::from(name), PathBuf::from(original)));
            Originals(names.collect())
        };
        let places = [OutsidePlace { old: "/far".into(), new: new.clone() }];
        let try_put = |links: &[(&str, &str)]| {
            fs::write(copy.join("ibdata1"), "").expect("written");
            links.iter().for_each(|(name, _)| fs::write(copy.join(name), "t").expect("written"));
            put(&copy, originals(links), &places, &KeyStore::default()).map_err(|error| error.to_string())
        };
        let put = try_put(&[("db/a.ibd", "/far/disk/db/a.ibd"), ("db/b.ibd", "/farther/db/b.ibd")]).expect("put");
        assert_eq!(put, [new.join("disk/db/a.ibd").display().to_string()]);
        assert_eq!(fs::read(new.join("disk/db/a.ibd")).expect("moved"), b"t");
        assert_eq!(fs::read_to_string(copy.join("db/a.isl")).expect("linked"), put[0]);
        assert!(!copy.join("db/a.ibd").exists() && copy.join("db/b.ibd").exists() && !copy.join("db/b.isl").exists());

        // Names of a set that lead elsewhere, or to what is there.
        symlink(&victim, new.join("linked")).expect("linked");
        fs::create_dir(victim.join("db")).expect("made");
        for (original, says) in [
            ("/far/../victim/db/c.ibd", "leads out"),
            ("/far/linked/db/c.ibd", "link"),
            ("/far/disk/db/a.ibd", "would not look for it"),
            ("/far/c.ibd", "would not look for it"),
        ] {
            let error = try_put(&[("db/c.ibd", original)]).expect_err(original);
            assert!(error.contains(says), "{original}: {error}");
            assert_eq!(fs::read_dir(victim.join("db")).expect("read").count(), 0, "{original}");
        }
        let error = try_put(&[("db/a.ibd", "/far/disk/db/a.ibd")]).expect_err("it is there");
        assert!(error.contains("db/a: ") && error.contains("is there already"), "{error}");
        // All or nothing.
        fs::remove_file(new.join("disk/db/a.ibd")).expect("there");
        try_put(&[("db/a.ibd", "/far/disk/db/a.ibd"), ("db/c.ibd", "/far/linked/db/c.ibd")]).expect_err("one of two");
        assert!(!new.join("disk/db/a.ibd").exists());
    }

    #[test]
    fn places_that_cannot_be_used_are_refused_before_anything_is_done() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("a path");
        fs::create_dir_all(dir.join("copy/in")).expect("made");
        for (old, new, says) in
            [("far", "", "absolute"), ("/far", "missing", "make it first"), ("/far", "copy/in", "anyway")]
        {
            let place = OutsidePlace { old: old.into(), new: dir.join(new) };
            let error = refuse_unusable(&[place], &dir.join("copy")).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
        let place = OutsidePlace { old: "/far".into(), new: dir.clone() };
        refuse_unusable(&[place], &dir.join("copy")).expect("usable");
    }
}
