//! `mysql.innodb_ddl_log`, in which MySQL 8.0 and later note what would undo or finish a DDL statement before they touch a file.
//!
//! A note that undoes a step is committed at once, and the statement's own transaction deletes it: the note counts again if that
//! transaction is rolled back. A note that finishes the statement is inserted by the statement's own transaction. At its start the server
//! rolls back, then does what the remaining notes say. Until then the dictionary and the files need not agree, and pages of an index that
//! was being built, which MySQL writes without redo, may be missing.
//!
//! Facts: `log0ddl.h`, `log0ddl.cc` of MySQL 8.0; compared with crashed datadirs of MySQL 9.7.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::source::catalog::entry::{DdlStep, Entry};

/// The tablespaces that interrupted statements were at work on.
#[derive(Debug, Default)]
pub(in super::super) struct FilesInDdl {
    spaces: BTreeSet<u32>,
    files: BTreeSet<PathBuf>,
}

impl FilesInDdl {
    /// What `steps` leave to do where `has_ended` tells which transactions are over: a deleted note is gone once its deletion has been
    /// committed.
    pub fn new(steps: &[DdlStep], entries: &[Entry], has_ended: impl Fn(u64) -> bool) -> Self {
        let mut found = Self::default();
        for step in steps.iter().filter(|step| !step.is_deleted || !has_ended(step.transaction)) {
            found.spaces.extend(step.space);
            found.files.extend(step.files.iter().cloned());
        }
        let named = entries.iter().filter(|entry| found.spaces.contains(&entry.space));
        found.files.extend(named.flat_map(|entry| entry.files.iter().cloned()));
        found
    }

    /// Whether a difference at `path` that is about these tablespaces is the statement's.
    pub fn concern(&self, path: &Path, spaces: &[u32]) -> bool {
        self.files.contains(path) || spaces.iter().any(|space| self.spaces.contains(space))
    }

    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::catalog::entry::Holds;

    #[test]
    fn a_deleted_note_counts_only_until_its_deletion_is_committed() {
        let step = |space, transaction, is_deleted| {
            let files = vec![PathBuf::from(format!("d/shop/{space}.ibd"))];
            DdlStep { space: Some(space), files, transaction, is_deleted }
        };
        let steps = [step(1, 10, false), step(2, 11, true), step(3, 12, true)];
        let mut entry = Entry::new("shop.three".to_owned(), 3, Holds::Table);
        entry.files.push(PathBuf::from("d/shop/three.ibd"));
        let found = FilesInDdl::new(&steps, &[entry], |transaction| transaction == 11);
        let files: Vec<_> = found.files().collect();
        assert_eq!(files, [Path::new("d/shop/1.ibd"), Path::new("d/shop/3.ibd"), Path::new("d/shop/three.ibd")]);
        assert!(found.concern(Path::new("elsewhere"), &[9, 3]) && found.concern(Path::new("d/shop/1.ibd"), &[]));
        assert!(!found.concern(Path::new("d/shop/2.ibd"), &[2]));
    }
}
