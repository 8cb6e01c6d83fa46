//! Names that differ in case only. With `lower_case_table_names=2`, on a file system that ignores case, the dictionary keeps names in lower
//! case and the files keep them as they were typed. A copy of such a datadir on another file system must still be read.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// The files of a datadir by their names in lower case.
pub(super) struct AnyCase<'n> {
    names: &'n BTreeSet<PathBuf>,
    by_lower: HashMap<String, Vec<&'n PathBuf>>,
}

impl<'n> AnyCase<'n> {
    pub fn of(names: &'n BTreeSet<PathBuf>) -> Self {
        let mut by_lower: HashMap<String, Vec<&PathBuf>> = HashMap::new();
        for name in names {
            by_lower.entry(lower(name)).or_default().push(name);
        }
        Self { names, by_lower }
    }

    /// The file of this name, or else the only one whose name differs in case only.
    pub fn find(&self, path: &Path) -> Option<&'n Path> {
        if let Some(name) = self.names.get(path) {
            return Some(name);
        }
        match self.by_lower.get(&lower(path))?.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

fn lower(path: &Path) -> String {
    path.to_string_lossy().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_any_case_unless_two_fit() {
        let names: BTreeSet<PathBuf> =
            ["d/Db/T.ibd", "d/db2/U.ibd", "d/db2/u.ibd", "d/db2/v.ibd"].map(PathBuf::from).into();
        let any = AnyCase::of(&names);
        let find = |path: &str| any.find(Path::new(path)).map(Path::to_path_buf);
        assert_eq!(find("d/db/t.ibd"), Some("d/Db/T.ibd".into()));
        assert_eq!(find("d/db2/u.ibd"), Some("d/db2/u.ibd".into()));
        assert_eq!(find("d/DB2/u.ibd"), None);
        assert_eq!(find("d/db2/w.ibd"), None);
    }
}
