//! `mysql.innodb_ddl_log`: before MySQL 8.0 and later touch a file, they note here how to undo or finish the DDL statement.
//!
//! A note that undoes a step is committed at once and deleted by the statement's own transaction, so rolling that back revives the note. A
//! note that finishes the statement is inserted by that transaction. At startup the server first rolls back, then executes the remaining
//! notes. Until then dictionary and files may disagree, and pages of an index under construction, which MySQL writes without redo, may be
//! missing.
//!
//! Facts: `log0ddl.h`, `log0ddl.cc` of MySQL 8.0; compared with crashed datadirs of MySQL 9.7.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::catalog::entry::{DdlStep, Entry};

/// The tablespaces that interrupted statements were changing.
#[derive(Debug, Default)]
pub(in super::super) struct FilesInDdl {
    spaces: BTreeSet<u32>,
    files: BTreeSet<PathBuf>,
}

impl FilesInDdl {
    /// The files of the notes still pending. A delete-marked note is gone only if `has_ended` says that the deleting transaction is over.
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

    /// Whether a difference at `path`, about these tablespaces, comes from an interrupted statement.
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
    use crate::catalog::entry::Holds;

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
