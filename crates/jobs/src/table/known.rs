//! A tablespace with all that is known of it before its trees are walked.

use std::path::Path;

use format::{Family, Lsn};

use super::definitions::Definitions;
use crate::source::name::NameHint;
use crate::tree::{Opener, Root, SpaceMap, Tablespace, TreeFinding, roots};

/// In the flags of a general tablespace of MySQL.
const SHARED: u32 = 1 << 11;

pub(crate) struct Known {
    pub space: Tablespace,
    pub map: SpaceMap,
    pub roots: Vec<Root>,
    /// What is wrong with the tablespace as such.
    pub findings: Vec<TreeFinding>,
    /// The highest LSN of the pages that this took.
    pub newest: Lsn,
}

impl Known {
    /// Whether the file is one of tables, so that there must be trees: undo tablespaces have none, and of general tablespaces that were
    /// emptied those of MySQL 5.7.
    pub fn lacks_trees(&self, path: &Path) -> bool {
        let is_shared = self.space.format.family() == Family::MySql && self.space.format.flags() & SHARED != 0;
        let is_empty = is_shared && self.map.segments.is_empty() && self.findings.is_empty();
        matches!(NameHint::of(path), NameHint::Table | NameHint::Dictionary) && !is_empty
    }
}

pub(crate) fn know(space: &Tablespace, definitions: &Definitions) -> Known {
    let mut opener = Opener::new();
    let map = SpaceMap::read(space, &mut opener);
    let mut findings = map.findings.clone();
    let named = definitions.roots_of(space);
    let roots = roots::find(space, &map, &named, &mut opener, &mut findings);
    Known { space: space.clone(), map, roots, findings, newest: opener.take_newest() }
}
