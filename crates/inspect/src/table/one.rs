//! One tablespace, opened for a caller that walks its trees itself.

use std::path::Path;

use flow::FileSet;
use format::keyring::KeyStore;

use crate::definitions::Definitions;
pub use crate::definitions::Named;
use crate::definitions::known::{Known, know};
use crate::tree::{Root, SpaceMap};
use datadir::tablespace::{FoundFile, Opener, Tablespace};
use datadir::{Error, files};

/// A tablespace in one file.
pub struct One {
    /// The tablespace.
    pub space: Tablespace,
    /// The allocation of its pages.
    pub map: SpaceMap,
    /// Its trees.
    pub trees: Vec<NamedTree>,
    /// The file, under the index that the space uses for it.
    pub set: FileSet,
    /// Its length in bytes.
    pub len: u64,
}

/// A tree and what is known of it.
pub struct NamedTree {
    /// The root page.
    pub root: Root,
    /// `None` if no definition was found.
    pub named: Option<Named>,
}

impl One {
    /// Opens the tablespace in `path`.
    ///
    /// # Errors
    /// It cannot be read, is not a tablespace, or its maps are damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Io { path: path.to_path_buf(), action: "asking for its size", source };
        let file = FoundFile::of(path.to_path_buf()).map_err(failed)?;
        let len = file.len;
        let keys = KeyStore::default();
        let refused = |why| Error::Unusable { path: path.to_path_buf(), why };
        let space = Tablespace::open(&[file], &keys, None).map_err(refused)?;
        let mut opener = Opener::new();
        let definitions = Definitions::read([&space].into_iter(), &keys);
        let Known { map, roots, findings, .. } = know(&space, &definitions, &mut opener);
        if let Some(finding) = findings.first() {
            return Err(Error::Damaged { path: path.to_path_buf(), what: finding.message.clone() });
        }
        let name = |root: Root| NamedTree { named: definitions.named(&space, &root, &map, &mut opener), root };
        let trees = roots.into_iter().map(name).collect();
        let set = files::set([(path.to_path_buf(), len)]);
        Ok(Self { space, map, trees, set, len })
    }
}
