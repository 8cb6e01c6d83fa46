//! `Tables -> Ranges of each tree -> units with their bytes -> Splits`: a table cut into parts of about equal size, for processes or
//! machines that read them independently.
//!
//! A split is data. It names the files, and the pages that lead to its leaves: pages of level 1, or of a small tree the leaves themselves.
//! Its reader opens only these files, and reads only these pages of the tree and the ones below them. It refuses files that have changed
//! since the split was made, because the pages may belong to other rows by now.
//!
//! Sketch: a level-1 page leads to some 500 leaves, so a split of 256 MiB lists about 30 page numbers. Splitting a table of 1 TiB reads the
//! pages above level 1, a few hundred, and up to 32 pages of level 1 to see how many leaves are below each.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use format::Family;
use serde::{Deserialize, Serialize};

use super::damage::RowDamage;
use super::key_range::{KeyBounds, KeyRange};
use super::plan::RowPlan;
use super::source::{TableSource, Tables, TreeSource, Wish};
use crate::definitions::own_definitions;
use crate::tree::ranges::{PageInTree, Ranges, children, inner_page};
use datadir::Error;
use datadir::keys::KeyFiles;
use datadir::remote::{self, RemoteVersion};
use datadir::tablespace::{Opener, SpaceFile, Tablespace};

/// How many level-1 pages are read to see how many leaves each has.
const PARENTS_READ: usize = 32;

/// A table whose files are open, or a split of it.
#[derive(Debug, Clone, Copy)]
pub struct OpenTable<'t> {
    /// The files.
    pub tables: &'t Tables,
    /// The table, one of [`Tables::tables`].
    pub table: &'t TableSource,
    /// The part to read; all if `None`.
    pub split: Option<&'t Split>,
}

impl<'t> OpenTable<'t> {
    /// The trees to read, each with its part.
    ///
    /// # Errors
    /// The split is not of this table.
    pub(super) fn trees(&self) -> Result<Vec<(&'t TreeSource, Option<&'t SplitPart>)>, String> {
        let Some(split) = self.split else { return Ok(self.table.trees.iter().map(|tree| (tree, None)).collect()) };
        let tree_of = |part: &'t SplitPart| {
            let is_of = |tree: &&TreeSource| {
                let space = self.tables.spaces.get(tree.space);
                space.is_some_and(|space| space.format.space().0 == part.space_id) && index_id(tree) == part.index_id
            };
            let tree = self.table.trees.iter().find(is_of).map(|tree| (tree, Some(part)));
            tree.ok_or_else(|| format!("{}: index {} of the split is not in its files", self.table.name, part.index_id))
        };
        split.parts.iter().map(tree_of).collect()
    }
}

/// The leaves of a tree that are to be read.
pub(super) fn leaves(
    space: &Tablespace,
    tree: &TreeSource,
    part: Option<&SplitPart>,
    keys: Option<&KeyRange>,
    opener: &mut Opener,
) -> Ranges {
    if let Some(part) = part {
        return Ranges { units: part.units.clone(), level: part.level, ..Ranges::default() };
    }
    let root = tree.index.root.map_or((0, 0), |root| (root.root.0, root.id));
    Ranges::read(space, root, &tree.index, opener, |page, children| match keys {
        Some(keys) => keys.children(page, &tree.index, children),
        None => children,
    })
}

fn index_id(tree: &TreeSource) -> u64 {
    tree.index.root.map_or(0, |root| root.id)
}

/// A file as it was when a split was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitFile {
    /// Its path, absolute.
    pub path: PathBuf,
    /// Its length in bytes.
    pub len: u64,
    /// When it was last modified: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// The ETag of an object in a bucket, if its server gives any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<String>,
}

impl SplitFile {
    /// A file of a tablespace that is open.
    fn of(file: &SpaceFile) -> Result<Self, Error> {
        let Some(object) = &file.object else { return Self::here(&file.path) };
        let RemoteVersion { len, e_tag, modified: (seconds, nanoseconds) } = object.version();
        Ok(Self { path: file.path.clone(), len, modified: (seconds, nanoseconds.into()), e_tag })
    }

    /// A file of this system, as it is now.
    fn here(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Io { path: path.to_path_buf(), action: "reading its length", source };
        let path = std::path::absolute(path).map_err(failed)?;
        let metadata = fs::metadata(&path).map_err(failed)?;
        Ok(Self { path, len: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()), e_tag: None })
    }

    /// Makes sure that the path is still this file. An object is not asked for: each of its ranges is read on that condition.
    fn expect(&self) -> Result<(), Error> {
        if remote::is_url(&self.path) {
            let modified = (self.modified.0, u32::try_from(self.modified.1).unwrap_or_default());
            let version = RemoteVersion { len: self.len, e_tag: self.e_tag.clone(), modified };
            return remote::expect(&self.path, &version);
        }
        if Self::here(&self.path)? == *self {
            return Ok(());
        }
        let why = "it has changed since the split was made: make the splits again".to_owned();
        Err(Error::Unusable { path: self.path.clone(), why })
    }
}

/// Leaves of one tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitPart {
    /// Name of the partition, if it is one.
    pub partition: Option<String>,
    /// Number of its tablespace.
    pub space_id: u32,
    /// Number of the index.
    pub index_id: u64,
    /// Level of the pages in `units`: 1, or 0 if they are leaves.
    pub level: u16,
    /// The pages that lead to the leaves, in key order.
    pub units: Vec<u32>,
    /// Approximate bytes of leaves.
    pub bytes: u64,
}

/// A part of a table's rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// `schema.table`.
    pub table: String,
    /// The files to open: those with its leaves, and for a partition of MySQL the one with the definition.
    pub files: Vec<SplitFile>,
    /// Its leaves, tree by tree.
    pub parts: Vec<SplitPart>,
    /// The range of keys that the splits were made for.
    pub key_range: Option<KeyBounds>,
}

impl Split {
    /// Approximate bytes of leaves. Off-page values are not counted.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Opens its files. The first of the tables is the split's.
    ///
    /// # Errors
    /// A file is missing, cannot be read or has changed since the split was made.
    pub fn open(&self, keys: &KeyFiles) -> Result<Tables, Error> {
        let paths: Vec<PathBuf> = self.files.iter().map(|file| file.path.clone()).collect();
        self.files.iter().try_for_each(SplitFile::expect)?;
        // Who made the splits was told what is pending.
        let wish = Wish {
            keys,
            selection: None,
            page_size: None,
            workers: 1,
            index: None,
            create_table: None,
            pending: false,
        };
        let mut tables = Tables::find(&paths, wish)?;
        let path = paths.first().cloned().unwrap_or_default();
        if let Some(unread) = tables.unread.iter().find(|unread| self.files.iter().any(|file| file.path == unread.path))
            && !tables.tables.iter().any(|table| table.name == self.table)
        {
            return Err(Error::Unusable { path: unread.path.clone(), why: unread.why.clone() });
        }
        tables.tables.retain(|table| table.name == self.table);
        let Some(table) = tables.tables.first() else {
            return Err(Error::Unusable { path, why: format!("has no rows of {}", self.table) });
        };
        OpenTable { tables: &tables, table, split: Some(self) }
            .trees()
            .map_err(|why| Error::Unusable { path, why })
            .map(drop)?;
        Ok(tables)
    }
}

/// How to cut a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitSize {
    /// Into this many parts; fewer if there are fewer pages to cut between.
    Count(usize),
    /// Into parts of at most about this many bytes.
    Bytes(u64),
}

impl SplitSize {
    fn count(self, bytes: u64) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Bytes(most) => usize::try_from(bytes.div_ceil(most.max(1))).unwrap_or(usize::MAX),
        }
    }
}

/// The pages of a tree between which it can be cut.
struct Units {
    part: SplitPart,
    /// Bytes of leaves below each page.
    each: u64,
    files: Vec<SpaceFile>,
}

/// Cuts a table into splits, in key order within each partition. There is at least one, even if no row can be in it.
///
/// # Errors
/// Files that cannot be read, or keys that cannot be compared. Damage above the leaves is returned as damage, since the leaves below it are
/// unknown.
pub fn splits(
    of: OpenTable<'_>,
    size: SplitSize,
    key_range: Option<&KeyBounds>,
) -> Result<Result<Vec<Split>, RowDamage>, Error> {
    let mut opener = Opener::new();
    let mut trees = Vec::new();
    for tree in &of.table.trees {
        let Some(space) = of.tables.spaces.get(tree.space) else { continue };
        if let Some(why) = &tree.unreadable {
            return Ok(Err(RowDamage::of_file(space.path(), why)));
        }
        let keys = key_range.map(|keys| KeyRange::new(keys, &of.table.table, &tree.index)).transpose();
        let ranges = leaves(space, tree, None, keys.map_err(Error::Usage)?.as_ref(), &mut opener);
        if let Some(lost) = ranges.lost.first() {
            return Ok(Err(RowDamage::of_lost(space, lost)));
        }
        let each = bytes_below(space, tree, &ranges, &mut opener);
        let part = SplitPart {
            partition: tree.partition.clone(),
            space_id: space.format.space().0,
            index_id: index_id(tree),
            level: ranges.level,
            units: ranges.units,
            bytes: 0,
        };
        trees.push(Units { part, each, files: space.files.clone() });
    }
    let definition = defining(of, &mut opener);
    let parts = cut(&trees, size);
    let split = |parts: Vec<(usize, SplitPart)>| {
        let used = parts.iter().filter_map(|(tree, _)| trees.get(*tree)).flat_map(|tree| &tree.files);
        let mut files: Vec<&SpaceFile> = used.chain(&definition).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files.dedup_by(|one, other| one.path == other.path);
        Ok(Split {
            table: of.table.name.clone(),
            files: files.into_iter().map(SplitFile::of).collect::<Result<_, _>>()?,
            parts: parts.into_iter().map(|(_, part)| part).collect(),
            key_range: key_range.cloned(),
        })
    };
    parts.into_iter().map(split).collect::<Result<Vec<_>, Error>>().map(Ok)
}

/// Distributes the units by their bytes. Each part comes with the number of its tree.
fn cut(trees: &[Units], size: SplitSize) -> Vec<Vec<(usize, SplitPart)>> {
    let total: u64 = trees.iter().map(|tree| tree.each * tree.part.units.len() as u64).sum();
    let units: usize = trees.iter().map(|tree| tree.part.units.len()).sum();
    let count = size.count(total).clamp(1, units.max(1));
    let mut splits: Vec<Vec<(usize, SplitPart)>> = (0..count).map(|_| Vec::new()).collect();
    let mut before = 0;
    for (number, tree) in trees.iter().enumerate() {
        for unit in &tree.part.units {
            // By its middle, so that each split gets its share however large the units are.
            let middle = u128::from(before) * 2 + u128::from(tree.each);
            let at = middle * count as u128 / (u128::from(total) * 2).max(1);
            before += tree.each;
            let Some(split) = splits.get_mut(usize::try_from(at).unwrap_or(count).min(count - 1)) else { continue };
            if split.last().is_none_or(|(last, _)| *last != number) {
                split.push((number, SplitPart { units: Vec::new(), bytes: 0, ..tree.part.clone() }));
            }
            if let Some((_, part)) = split.last_mut() {
                part.units.push(*unit);
                part.bytes += tree.each;
            }
        }
    }
    splits.retain(|split| !split.is_empty());
    if splits.is_empty()
        && let Some(first) = trees.first()
    {
        splits.push(vec![(0, first.part.clone())]);
    }
    splits
}

/// Bytes of the leaves below each unit, on average over some of them.
fn bytes_below(space: &Tablespace, tree: &TreeSource, ranges: &Ranges, opener: &mut Opener) -> u64 {
    let page = u64::from(space.format.physical().get());
    if ranges.level == 0 {
        return page;
    }
    let step = ranges.units.len().div_ceil(PARENTS_READ).max(1);
    let some: Vec<u32> = ranges.units.iter().step_by(step).copied().collect();
    let (mut leaves, mut read) = (0, 0);
    space.each_stored(&some, |page_no, stored| {
        let image = stored.and_then(|stored| space.opened(page_no, stored, opener));
        let place = PageInTree { page_no, level: ranges.level, index_id: index_id(tree) };
        // A damaged page is found when its split is read.
        let below = image.and_then(|image| children(&inner_page(&image, space, place)?, &tree.index, space.pages()));
        if let Ok(below) = below {
            leaves += below.len() as u64;
            read += 1;
        }
    });
    (leaves * page).checked_div(read).unwrap_or(page).max(1)
}

/// The file of a partitioned MySQL table that has the definition: only one of its files does.
fn defining(of: OpenTable<'_>, opener: &mut Opener) -> Option<SpaceFile> {
    let mut spaces = of.table.trees.iter().filter_map(|tree| of.tables.spaces.get(tree.space));
    let defines = |space: &&Tablespace| {
        let own = own_definitions(space, opener).map(|(tables, _)| tables).unwrap_or_default();
        own.iter().flatten().any(|table| format!("{}.{}", table.schema, table.name) == of.table.name)
    };
    if of.table.trees.len() < 2 || of.table.table.family != Family::MySql {
        return None;
    }
    spaces.find(defines).and_then(|space| space.files.first()).cloned()
}

/// The plan for one tree: some columns, a range of keys, and what the tree itself says about columns added later.
pub(super) fn with_tree(mut plan: RowPlan, of: OpenTable<'_>, tree: &TreeSource) -> Result<RowPlan, String> {
    if let Some(defaults) = &tree.defaults {
        plan.defaults.clone_from(defaults);
    }
    if let Some(keys) = of.split.and_then(|split| split.key_range.as_ref()) {
        plan.keys = Some(KeyRange::new(keys, &of.table.table, &plan.index)?);
    }
    Ok(plan)
}
