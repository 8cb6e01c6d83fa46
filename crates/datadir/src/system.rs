//! The files of a datadir's system tablespace, in page order. They are called `ibdata1`, `ibdata2` ..., unless `innodb_data_file_path` says
//! otherwise.
//!
//! ```text
//! my.cnf, backup-my.cnf of the datadir -> names
//! else: ibdata1 or the one file whose page 0 is that of tablespace 0
//!       -> while its header counts more pages than there are: the file whose pages continue, or the only one that is all zeros
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use format::{PageNo, PageSize, SpaceFormat, SpaceId};

use super::name::NameHint;
use super::space::{self, SpacePart};
use crate::files::{self, File};
use crate::reading::{read_small, read_up_to};

/// A datadir's option files are short; a longer file is something else.
const OPTIONS_MAX: u64 = 1 << 20;
/// Option files in a datadir: the server's, and those of backup tools.
const OPTION_FILES: [&str; 2] = ["my.cnf", "backup-my.cnf"];
const OPTION: &str = "innodb_data_file_path";

/// The files of the system tablespace in `dir`, in order; empty if there are none.
#[must_use]
pub fn files_of(dir: &Path) -> Vec<PathBuf> {
    let usual = usual_files(dir);
    let stated = stated_files(dir);
    if let Some(first) = stated.first()
        && is_first(first)
    {
        return stated;
    }
    let Some(first) = usual.first().cloned().or_else(|| unusual_first(dir)) else { return usual };
    let mut files = if usual.is_empty() { vec![first] } else { usual };
    let Some(part) = files.first().and_then(|first| space::part_now(first)) else { return files };
    follow(dir, &part, &mut files);
    files
}

/// Whether these are the server's default names.
#[must_use]
pub(crate) fn are_usual(files: &[PathBuf]) -> bool {
    files.iter().all(|file| matches!(NameHint::of(file), NameHint::System(_)))
}

/// `ibdata1` and the files numbered after it.
fn usual_files(dir: &Path) -> Vec<PathBuf> {
    let names = || files::read_dir(dir).into_iter().flatten().map(|entry| entry.path());
    let mut files: Vec<(u32, PathBuf)> = names()
        .filter_map(|path| match NameHint::of(&path) {
            NameHint::System(number) => Some((number, path)),
            _ => None,
        })
        .filter(|(_, path)| files::is_file(path))
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

/// The files named by an option file in `dir`, up to the first that does not exist.
fn stated_files(dir: &Path) -> Vec<PathBuf> {
    let texts = OPTION_FILES.iter().filter_map(|name| read_small(&dir.join(name), OPTIONS_MAX).ok());
    let value = texts.filter_map(|text| data_file_path(&String::from_utf8_lossy(&text))).next();
    let names = value.as_deref().map(names_in).unwrap_or_default();
    names.into_iter().map(|name| dir.join(name)).take_while(|path| files::is_file(path)).collect()
}

/// The last value of `innodb_data_file_path` in an option file.
fn data_file_path(text: &str) -> Option<String> {
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim().replace('-', "_") == OPTION).then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    };
    text.lines().filter_map(value).next_back()
}

/// The names in `a:12M;b:12M:autoextend`.
fn names_in(value: &str) -> Vec<&str> {
    value.split(';').filter_map(|file| file.split(':').next()).map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Whether the file is the first of a system tablespace.
pub fn is_first(path: &Path) -> bool {
    space::part_now(path).is_some_and(|part| part.format.space() == SpaceId::SYSTEM && part.header.is_some())
}

/// Files in `dir` whose names say nothing.
fn unusual_files(dir: &Path) -> Vec<PathBuf> {
    let paths = files::read_dir(dir).into_iter().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| NameHint::of(path) == NameHint::Unknown && files::is_file(path)).collect();
    files.sort();
    files
}

/// Whether the name is the default name with something added, which is how people put files aside.
fn is_put_aside(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("ibdata1"))
}

/// The only custom-named file that begins a system tablespace. If there are two, one is a copy, and we cannot tell which.
fn unusual_first(dir: &Path) -> Option<PathBuf> {
    let mut found = unusual_files(dir).into_iter().filter(|path| !is_put_aside(path) && is_first(path));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Adds the files for the pages that the header counts and `files` lack.
fn follow(dir: &Path, part: &SpacePart, files: &mut Vec<PathBuf>) {
    let Some(header) = part.header else { return };
    let pages_of = |path: &PathBuf| files::metadata(path).map_or(0, |meta| part.pages_in(meta.len()));
    let mut have: u64 = files.iter().map(pages_of).sum();
    while have < u64::from(header.size) {
        let left = unusual_files(dir).into_iter().filter(|path| !files.contains(path) && pages_of(path) > 0);
        let left: Vec<(PathBuf, Begins)> =
            left.filter_map(|path| Some((path.clone(), begins(&path, part.format.logical())?))).collect();
        let goes_on = |begins: &Begins| *begins == Begins::With(u32::try_from(have).unwrap_or(u32::MAX));
        let zeros: Vec<&PathBuf> =
            left.iter().filter(|(_, begins)| *begins == Begins::Empty).map(|(path, _)| path).collect();
        let next = left.iter().find(|(_, begins)| goes_on(begins)).map(|(path, _)| path);
        // A file that the tablespace has not reached yet does not identify itself: if there are two candidates, take neither.
        let Some(next) = next.or_else(|| zeros.first().copied().filter(|_| zeros.len() == 1)) else { return };
        have += pages_of(next);
        files.push(next.clone());
    }
}

/// What a file begins with.
#[derive(Debug, PartialEq, Eq)]
enum Begins {
    /// Pages, starting with this number.
    With(u32),
    /// Zeros.
    Empty,
}

fn begins(path: &Path, size: PageSize) -> Option<Begins> {
    let head = File::open(path).and_then(|file| read_up_to(&file, 0, space::HEAD)).ok()?;
    if !head.is_empty() && head.iter().all(|byte| *byte == 0) {
        return Some(Begins::Empty);
    }
    let PageNo(first) = SpaceFormat::guess(&head, Some(size))?.first_page_no;
    Some(Begins::With(first))
}

/// The position of `path` in `files`, from 1, as in `ibdata1`.
pub fn place_of(path: &Path, files: &[PathBuf]) -> Option<u32> {
    let name = path.file_name().unwrap_or_else(|| OsStr::new(""));
    let place = files.iter().position(|file| file.file_name() == Some(name))?;
    u32::try_from(place).ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_from_options_as_servers_read_them() {
        let text = "[mysqld]\n# innodb_data_file_path=not:1M\ninnodb-data-file-path = \"first:12M;sub/second:8M:autoextend:max:1G\"\n";
        assert_eq!(data_file_path(text).as_deref().map(names_in), Some(vec!["first", "sub/second"]));
        assert_eq!(data_file_path("innodb_data_home_dir=/x\n"), None);
    }

    #[test]
    fn usual_names_are_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["ibdata10", "ibdata2", "ibdata1", "other"] {
            std::fs::write(dir.path().join(name), name).expect("written");
        }
        let files = files_of(dir.path());
        assert_eq!(files, ["ibdata1", "ibdata2", "ibdata10"].map(|name| dir.path().join(name)));
        assert!(are_usual(&files));
        assert_eq!(place_of(Path::new("elsewhere/ibdata10"), &files), Some(3));
    }
}
