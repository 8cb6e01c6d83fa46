//! What a log says about tablespaces and their files: names, lengths, and which are changed or gone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::SpaceId;
use redo::record::{FileRecord, Grammar};

use super::LogKind;
use crate::recover::place::outside::Outside;

/// Tablespaces and their files, as the log has them at its end.
#[derive(Debug)]
pub(in crate::recover) struct NamedFiles {
    /// A tablespace's names, in the order of the log, without repeats in a row.
    pub names: HashMap<SpaceId, Vec<PathBuf>>,
    /// The last tablespace that had each name.
    pub owners: HashMap<PathBuf, SpaceId>,
    /// Tablespaces with redo.
    pub changed: BTreeSet<SpaceId>,
    pub deleted: HashSet<SpaceId>,
    /// File names from the log of MySQL, or of a backup, for messages.
    pub said: HashMap<SpaceId, String>,
    /// Minimum length of files, bytes.
    pub extended: HashMap<SpaceId, u64>,
    /// A tablespace with a name that no server would choose.
    pub strange: Option<(SpaceId, String)>,
    /// The meaning of names that lead outside the datadir.
    pub(super) outside: Outside,
    /// Bytes that the records about files may take, here and in the batch.
    pub(super) noted: usize,
    kind: LogKind,
}

impl NamedFiles {
    pub(super) fn new(kind: LogKind, outside: Outside) -> Self {
        Self {
            names: HashMap::new(),
            owners: HashMap::new(),
            changed: BTreeSet::new(),
            deleted: HashSet::new(),
            said: HashMap::new(),
            extended: HashMap::new(),
            strange: None,
            outside,
            noted: 0,
            kind,
        }
    }

    pub(super) fn add(&mut self, record: &FileRecord<'_>) {
        match *record {
            FileRecord::Create { space, name } | FileRecord::Modify { space, name } => self.add_name(space, name),
            // MySQL does not replay renames, and finds tablespaces by number.
            FileRecord::Rename { space, to, .. } if self.kind.grammar == Grammar::MySql => self.add_name(space, to),
            FileRecord::Extend { space, end } => {
                let known = self.extended.entry(space).or_default();
                *known = end.max(*known);
            }
            FileRecord::Rename { space, from, to } => {
                // In a backup, the tool's notes have the renames.
                if !self.kind.is_backup {
                    self.changed.insert(space);
                }
                self.add_name(space, from);
                self.add_name(space, to);
            }
            FileRecord::Delete { space, .. } => {
                self.deleted.insert(space);
            }
            FileRecord::Checkpoint(_) | FileRecord::Padding | FileRecord::Load { .. } | FileRecord::Table(_) => {}
        }
    }

    fn add_name(&mut self, space: SpaceId, name: &[u8]) {
        let name = Path::new(OsStr::from_bytes(name));
        if self.kind.grammar == Grammar::MySql {
            self.said.insert(space, name.display().to_string());
            return;
        }
        if self.kind.is_backup {
            self.said.insert(space, name.strip_prefix("./").unwrap_or(name).display().to_string());
        }
        let Some(path) = self.outside.path_of(name) else {
            // Names in the log do not matter in a backup.
            if self.kind.is_backup {
                return;
            }
            self.strange = Some((space, name.display().to_string()));
            return;
        };
        self.owners.insert(path.clone(), space);
        let names = self.names.entry(space).or_default();
        if names.last() != Some(&path) {
            names.push(path);
        }
    }
}
