//! The tablespaces that patterns select. MySQL's log names few of them, so their files are asked too.

use std::collections::HashMap;
use std::path::Path;

use format::{SpaceId, fil};

use datadir::content::Content;
use datadir::files::File;
use datadir::inventory::Inventory;
use datadir::name::NameHint;
use datadir::reading::read_up_to;
use datadir::selection::Selection;

/// Enough of a file to know its tablespace.
const HEAD: usize = 64;

/// Which tablespaces a description is limited to.
pub(super) struct Wanted {
    selection: Selection,
    /// Those with a file in the datadir, and its name there as logs spell it.
    by_file: HashMap<SpaceId, String>,
}

impl Wanted {
    /// The tablespaces of these tables, in the datadir `path` if it is one. `None` if all are wanted.
    pub fn of(path: &Path, selection: &Selection) -> Option<Self> {
        if selection.is_all() {
            return None;
        }
        let mut by_file = HashMap::new();
        for file in Inventory::take_selected(&[path.to_path_buf()], selection).candidates {
            let is_table = file.hint == NameHint::Table && file.content == Content::Pages;
            let Ok(name) = file.path.strip_prefix(path) else { continue };
            if !is_table || !selection.has_file(&file.path) {
                continue;
            }
            let head = File::open(&file.path).and_then(|opened| read_up_to(&opened, 0, HEAD)).unwrap_or_default();
            by_file.extend(fil::space_id(&head).map(|space| (space, format!("./{}", name.display()))));
        }
        Some(Self { selection: selection.clone(), by_file })
    }

    pub fn by_file(&self) -> impl Iterator<Item = (&SpaceId, &String)> {
        self.by_file.iter()
    }

    /// Whether the tablespace, which the log or its file gives this name, is selected.
    pub fn has(&self, space: SpaceId, name: Option<&str>) -> bool {
        self.by_file.contains_key(&space) || name.is_some_and(|name| self.selection.has_file(Path::new(name)))
    }
}
