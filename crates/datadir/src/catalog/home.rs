//! Datadirs whose system tablespace has a folder of its own (`innodb_data_home_dir`), given together with it. That folder alone looks like a datadir
//! without a dictionary, and the datadir like one without a system tablespace.

use std::path::Path;

use super::datadir::{Catalog, Says};
use super::entry::{Entry, Holds};
use crate::files;
use crate::name::NameHint;

/// The datadirs, each with its home if exactly one fits.
pub(super) fn joined(mut catalogs: Vec<Catalog>) -> Vec<Catalog> {
    let homes: Vec<_> = catalogs.iter().filter(|catalog| is_home(catalog)).map(|home| home.root.clone()).collect();
    for home in homes {
        let mut of_home = catalogs.iter_mut().filter(|catalog| has_its_system_in(catalog, &home));
        let (Some(datadir), None) = (of_home.next(), of_home.next()) else { continue };
        if let Says::All(dictionary) = &mut datadir.says {
            // The files are there, and are checked where they are.
            dictionary.entries.retain(|entry| entry.holds != Holds::System);
        }
        datadir.home = Some(home.clone());
        catalogs.retain(|catalog| catalog.root != home);
    }
    catalogs
}

/// A system tablespace without a dictionary and without tables.
fn is_home(catalog: &Catalog) -> bool {
    let is_table = |path: &Path| matches!(NameHint::of(path), NameHint::Table | NameHint::Dictionary);
    matches!(catalog.says, Says::Lost(..)) && !catalog.names.iter().any(|path| is_table(path))
}

/// Whether the files of its system tablespace are in `home`, and not where its dictionary expects them.
fn has_its_system_in(catalog: &Catalog, home: &Path) -> bool {
    let Says::All(dictionary) = &catalog.says else { return false };
    let is_there = |entry: &Entry| {
        let is_in = |path: &std::path::PathBuf| {
            !files::exists(path) && path.file_name().is_some_and(|name| files::is_file(home.join(name)))
        };
        !entry.files.is_empty() && entry.files.iter().all(is_in)
    };
    catalog.home.is_none() && dictionary.entries.iter().any(|entry| entry.holds == Holds::System && is_there(entry))
}
