//! A tablespace with everything known before its trees are walked.

use std::path::Path;

use format::{Family, Lsn};

use crate::definitions::Definitions;
use crate::tree::{Root, SpaceMap, TreeFinding, roots};
use datadir::name::NameHint;
use datadir::tablespace::{Opener, Tablespace};

/// Flag of MySQL's general tablespaces.
const SHARED: u32 = 1 << 11;

pub(crate) struct Known {
    pub space: Tablespace,
    pub map: SpaceMap,
    pub roots: Vec<Root>,
    /// Findings about the tablespace itself.
    pub findings: Vec<TreeFinding>,
    /// The highest LSN of the pages read for this.
    pub newest: Lsn,
}

impl Known {
    /// Whether it is a fault that the file has no trees: a tablespace for tables must have some. Undo tablespaces have none, and neither do
    /// emptied general tablespaces of MySQL 5.7.
    pub fn lacks_trees(&self, path: &Path) -> bool {
        let is_empty = is_shared(&self.space) && self.map.segments.is_empty() && self.findings.is_empty();
        matches!(NameHint::of(path), NameHint::Table | NameHint::Dictionary) && !is_empty
    }
}

/// Whether it is a general tablespace of MySQL.
pub(crate) fn is_shared(space: &Tablespace) -> bool {
    space.format.family() == Family::MySql && space.format.flags() & SHARED != 0
}

pub(crate) fn know(space: &Tablespace, definitions: &Definitions, opener: &mut Opener) -> Known {
    opener.take_newest();
    let map = SpaceMap::read(space, opener);
    let mut findings = map.findings.clone();
    let named = definitions.roots_of(space);
    let roots = roots::find(space, &map, &named, opener, &mut findings);
    Known { space: space.clone(), map, roots, findings, newest: opener.take_newest() }
}
