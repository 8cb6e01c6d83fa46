//! Compares a view with the recovery of the same set: all names, and every byte of every file.

mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use datadir::files;
use flow::Job;
use recovery::{RecoverOptions, View, ViewOptions};

use self::sums::sums;

/// The server's list of pages to load, which a recovery writes for its start. A view is for readers.
const TO_LOAD: &str = "ib_buffer_pool";
/// A recovered copy's manifest says so.
const MANIFEST: &str = "innokit.manifest.json";

/// Asserts that the view of `base` has what the recovery with the same options has written to `recovered`, and that the base stays as it is.
/// Returns the number of pages that were made.
pub fn assert_shows(base: &Path, recovered: &Path, options: &RecoverOptions) -> u64 {
    let before = sums(base);
    let recover = RecoverOptions { to: None, ..options.clone() };
    let view = View::open(base, ViewOptions { recover, ..ViewOptions::default() })
        .unwrap_or_else(|error| panic!("a view: {error}"));
    let _in_job = Job::default().enter();
    view.look_through().expect("the only view of this job");
    let (mut shown, mut written) = (BTreeMap::new(), BTreeMap::new());
    walk(view.base(), Path::new(""), &mut shown);
    walk(recovered, Path::new(""), &mut written);
    let names = |files: &BTreeMap<PathBuf, PathBuf>| files.keys().cloned().collect::<BTreeSet<_>>();
    let (in_view, in_copy) = (names(&shown), names(&written));
    let differ: Vec<_> = in_view.symmetric_difference(&in_copy).collect();
    assert!(differ.is_empty(), "{}: only in the view or only in the copy: {differ:?}", base.display());
    for (name, path) in &shown {
        assert_same(name, &read(path), &read(&written[name]));
    }
    assert!(files::failures().is_empty(), "{:?}", files::failures());
    assert_eq!(sums(base), before, "a base is only read");
    view.made()
}

/// Whether there is no view with these options, for a reason that has these words.
pub fn is_refused(base: &Path, options: &RecoverOptions, words: &str) -> bool {
    let recover = RecoverOptions { to: None, ..options.clone() };
    let refused = View::open(base, ViewOptions { recover, ..ViewOptions::default() }).err();
    refused.is_some_and(|error| error.to_string().contains(words))
}

fn read(path: &Path) -> Vec<u8> {
    files::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn assert_same(name: &Path, seen: &[u8], expected: &[u8]) {
    let name = name.display();
    assert_eq!(seen.len(), expected.len(), "{name}: the length");
    if seen == expected {
        return;
    }
    let at = seen.iter().zip(expected).position(|(one, other)| one != other).expect("they differ");
    let count = seen.chunks(4096).zip(expected.chunks(4096)).filter(|(one, other)| one != other).count();
    panic!(
        "{name}: the first of {count} different blocks of 4 KiB is at byte {at}: {} instead of {}",
        seen[at], expected[at]
    );
}

/// All files below a directory, by their names in it.
fn walk(root: &Path, below: &Path, found: &mut BTreeMap<PathBuf, PathBuf>) {
    for entry in files::read_dir(&root.join(below)).expect("a directory") {
        let name = below.join(entry.file_name());
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => walk(root, &name, found),
            Ok(_) if [TO_LOAD, MANIFEST].iter().any(|other| name == Path::new(other)) => {}
            Ok(_) => drop(found.insert(name, entry.path())),
            Err(error) => panic!("{}: {error}", name.display()),
        }
    }
}
