//! In MariaDB, and MySQL up to 5.7, a table is a row of SYS_TABLES plus a `.frm` file; one without the other is unusable. Both must
//! describe the same table: they name the same indexes, and a partitioned table's `.par` file names at least the partitions in the rows.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use format::schema::frm::{DOC_ID_INDEX, FrmError, from_frm, is_of_innodb};

use super::entry::{Dictionary, Entry, Holds};
use crate::source::files::{self, File};
use crate::source::{read_small, read_up_to};

/// Enough of a `.frm` file to name its engine.
const HEAD: usize = 64;

/// A table of which only half exists, or whose halves disagree.
pub(super) enum Half {
    /// A row of SYS_TABLES without a `.frm` file: where that should be, and the table.
    LacksFrm(PathBuf, String),
    /// A `.frm` file of an InnoDB table missing from SYS_TABLES.
    LacksTable(PathBuf, String),
    /// A partitioned table without the file that names its partitions.
    LacksPar(PathBuf, String),
    /// A `.frm` file that does not define its table, and why.
    OtherFrm(PathBuf, String, String),
    /// A `.par` file that does not name the partitions of its table, and why.
    OtherPar(PathBuf, String, String),
}

/// Finds incomplete and contradictory tables in the datadir `root`, whose files have these names.
pub(super) fn halves(root: &Path, names: &BTreeSet<PathBuf>, dictionary: &Dictionary) -> Vec<Half> {
    let mut halves = Vec::new();
    let mut known: BTreeSet<PathBuf> = BTreeSet::new();
    let in_system = dictionary.entries.iter().filter(|entry| matches!(entry.holds, Holds::System | Holds::Several));
    let in_system = in_system.flat_map(|entry| &entry.trees).map(|tree| tree.table.as_str());
    let own = dictionary.entries.iter().filter(|entry| entry.holds == Holds::Table && !entry.is_intermediate);
    let tables = own.map(|entry: &Entry| entry.name.as_str()).chain(in_system).collect::<BTreeSet<_>>();
    let by_table = ByTable::of(dictionary);
    for name in tables {
        let whole = whole(name);
        let Some((database, table)) = whole.split_once('.') else { continue };
        let frm = root.join(database).join(format!("{table}.frm"));
        if !known.insert(frm.clone()) || is_auxiliary(table) {
            continue;
        }
        if !names.contains(&frm) && !files::exists(&frm) {
            halves.push(Half::LacksFrm(frm, whole.to_owned()));
            continue;
        }
        if let Some(why) = other_frm(&frm, whole, &by_table) {
            halves.push(Half::OtherFrm(frm.clone(), whole.to_owned(), why));
        }
        let par = frm.with_extension("par");
        if name == whole {
            continue;
        }
        if !names.contains(&par) && !files::exists(&par) {
            halves.push(Half::LacksPar(par, whole.to_owned()));
        } else if let Some(why) = other_par(&par, whole, &by_table) {
            halves.push(Half::OtherPar(par, whole.to_owned(), why));
        }
    }
    let is_frm = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "frm");
    for frm in names.iter().filter(is_frm).filter(|frm| !known.contains(*frm)) {
        let (Some(database), Some(table)) = (frm.parent().and_then(Path::file_name), frm.file_stem()) else { continue };
        let table = table.to_string_lossy();
        // Tables live in subfolders of the datadir. Leftovers of an ALTER TABLE belong to no table.
        if frm.parent().and_then(Path::parent) != Some(root) || table.starts_with("#sql") {
            continue;
        }
        // Opening a pipe would block.
        let head = if files::is_file(frm) {
            File::open(frm).and_then(|file| read_up_to(&file, 0, HEAD))
        } else {
            Ok(Vec::new())
        };
        let head = head.unwrap_or_default();
        if is_of_innodb(&head) {
            halves.push(Half::LacksTable(frm.clone(), format!("{}.{table}", database.to_string_lossy())));
        }
    }
    halves
}

/// What the dictionary says about each table, with its partitions. Searching the dictionary once per table would take time in proportion to
/// the square of their number: minutes for 50,000 tables.
struct ByTable<'d> {
    /// Names of the indexes.
    indexes: HashMap<&'d str, BTreeSet<&'d str>>,
    /// Names of the partitions.
    partitions: HashMap<&'d str, Vec<&'d str>>,
    /// Tables with a discarded tablespace.
    discarded: HashSet<&'d str>,
}

impl<'d> ByTable<'d> {
    fn of(dictionary: &'d Dictionary) -> Self {
        let mut all = Self { indexes: HashMap::new(), partitions: HashMap::new(), discarded: HashSet::new() };
        for entry in &dictionary.entries {
            if entry.is_discarded {
                all.discarded.insert(whole(&entry.name));
            }
            let partition = entry.name.split_once(" partition ");
            if let Some((table, name)) = partition.filter(|_| entry.holds == Holds::Table && !entry.is_intermediate) {
                all.partitions.entry(table).or_default().push(name);
            }
            for tree in &entry.trees {
                all.indexes.entry(whole(&tree.table)).or_default().insert(&tree.index);
            }
        }
        all
    }
}

/// The table's name without that of its partition.
pub(super) fn whole(name: &str) -> &str {
    name.split_once(" partition ").map_or(name, |(table, _)| table)
}

/// Full-text auxiliary tables, and those of an ALTER TABLE, have no `.frm` file.
fn is_auxiliary(table: &str) -> bool {
    table.starts_with("FTS_") || table.starts_with("#sql") || table.starts_with("SYS_")
}

/// Definitions take a few kilobytes; a longer file is something else.
const FRM_MAX: u64 = 16 << 20;
/// Indexes that InnoDB creates for itself.
const OWN_INDEXES: [&str; 2] = ["GEN_CLUST_INDEX", DOC_ID_INDEX];

/// Why the `.frm` file does not define this table; `None` if it does, or if that cannot be decided.
fn other_frm(frm: &Path, table: &str, dictionary: &ByTable<'_>) -> Option<String> {
    let bytes = read_small(frm, FRM_MAX).ok()?;
    let definition = match from_frm(&bytes, false) {
        Ok(definition) => definition,
        Err(FrmError::NotATable) => return Some("it is not the definition of a table".to_owned()),
        Err(error @ FrmError::Truncated { .. }) => return Some(error.to_string()),
        Err(_) => return None,
    };
    let own = |name: &&str| !OWN_INDEXES.contains(name);
    // A table with a discarded tablespace has no indexes in the dictionary entry.
    if dictionary.discarded.contains(table) {
        return None;
    }
    let here: BTreeSet<&str> = definition.indexes.iter().map(|index| index.name.as_str()).filter(own).collect();
    let known: BTreeSet<&str> = dictionary.indexes.get(table).into_iter().flatten().copied().filter(own).collect();
    let list = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
    (here != known && !known.is_empty()).then(|| {
        format!("it has the indexes ({}), but the table in the dictionary has ({})", list(&here), list(&known))
    })
}

/// Where the engine array begins in a `.par` file: after the length in words, the checksum and the number of partitions.
const PAR_ENGINES: usize = 12;

/// Why the `.par` file does not belong to the table.
fn other_par(par: &Path, table: &str, dictionary: &ByTable<'_>) -> Option<String> {
    let bytes = read_small(par, FRM_MAX).ok()?;
    let Some(names) = partitions(&bytes) else {
        return Some("it is damaged: its length or its checksum is wrong".to_owned());
    };
    let own = dictionary.partitions.get(table).into_iter().flatten();
    let missing = own.copied().find(|name| !names.contains(&name.to_lowercase()))?;
    Some(format!("it does not name the partition {missing}, which the dictionary has"))
}

/// The partition names in a `.par` file, in lower case; subpartitions as `p0#p0sp0`.
fn partitions(bytes: &[u8]) -> Option<BTreeSet<String>> {
    // Unlike InnoDB, the server writes its own files little-endian.
    let little = |word: &[u8]| word.iter().rev().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
    let number = |at: usize| bytes.get(at..at + 4).map(little);
    // Connection strings may follow the counted words; InnoDB has none.
    let counted = bytes.get(..(number(0)? as usize).checked_mul(4)?)?;
    if counted.chunks_exact(4).map(little).fold(0, |sum, word| sum ^ word) != 0 {
        return None;
    }
    let count = number(8)? as usize;
    let at = PAR_ENGINES + count.checked_next_multiple_of(4)?;
    let len = number(at)? as usize;
    let names = bytes.get(at + 4..(at + 4).checked_add(len)?)?;
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Some(names.map(|name| String::from_utf8_lossy(name).to_lowercase().replace("#sp#", "#")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PARTITION BY RANGE (a)` with three partitions, as MariaDB 10.11 wrote it.
    const PAR: [u8; 32] = [
        8, 0, 0, 0, 0x3E, 0x48, 0x7E, 0x15, 3, 0, 0, 0, 12, 12, 12, 0, 11, 0, 0, 0, b'p', b'0', 0, b'p', b'1', 0, b'r',
        b'e', b's', b't', 0, 0,
    ];

    #[test]
    fn partitions_are_named_by_a_file_that_is_whole() {
        let names = partitions(&PAR).expect("it is whole");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["p0", "p1", "rest"]);
        for at in 0..PAR.len() {
            let mut damaged = PAR;
            damaged[at] ^= 1;
            assert_eq!(partitions(&damaged), None, "byte {at}");
        }
        assert_eq!(partitions(&PAR[..28]), None);
        assert_eq!(partitions(&[]), None);
    }
}
