//! In MariaDB, and MySQL up to 5.7, a table is a row of SYS_TABLES plus a `.frm` file; one without the other is unusable. Both must
//! describe the same table: they name the same indexes, and a partitioned table's `.par` file names at least the partitions in the rows.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use format::schema::TableDef;
use format::schema::filename::{partition_name, table_name, whole_table};
use format::schema::frm::{DOC_ID_INDEX, FrmError, from_frm, is_of_innodb};

use super::any_case::AnyCase;
use super::entry::{Dictionary, Entry, Holds};
use crate::files::{self, File};
use crate::reading::{read_small, read_up_to};

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
    /// An ALTER TABLE left a partition in the dictionary: the `.par` file, the table, and the partition.
    Unfinished(PathBuf, String, String),
}

/// Finds incomplete and contradictory tables in the datadir `root`, whose files have these names.
pub(super) fn halves(root: &Path, names: &BTreeSet<PathBuf>, dictionary: &Dictionary) -> Vec<Half> {
    let mut halves = Vec::new();
    let mut known: BTreeSet<PathBuf> = BTreeSet::new();
    let any = LazyCell::new(|| AnyCase::of(names));
    let in_system = dictionary.entries.iter().filter(|entry| matches!(entry.holds, Holds::System | Holds::Several));
    let in_system = in_system.flat_map(|entry| &entry.trees).map(|tree| &*tree.stored);
    let own = dictionary.entries.iter().filter(|entry| entry.holds == Holds::Table && !entry.is_intermediate);
    let tables = own.map(|entry: &Entry| entry.stored.as_str()).chain(in_system).collect::<BTreeSet<_>>();
    let by_table = ByTable::of(dictionary);
    for name in tables {
        let whole = whole_table(name);
        let Some((database, table)) = whole.split_once('/') else { continue };
        let is_partition = name != whole;
        let (stored, whole) = (whole, table_name(whole));
        let frm = root.join(database).join(format!("{table}.frm"));
        if is_auxiliary(table) {
            continue;
        }
        let frm = if names.contains(&frm) { None } else { any.find(&frm).map(Path::to_path_buf) }.unwrap_or(frm);
        if !known.insert(frm.clone()) {
            continue;
        }
        if !names.contains(&frm) && !files::exists(&frm) {
            halves.push(Half::LacksFrm(frm, whole));
            continue;
        }
        if let Some(why) = other_frm(&frm, stored, &by_table) {
            halves.push(Half::OtherFrm(frm.clone(), whole.clone(), why));
        }
        let par = frm.with_extension("par");
        if !is_partition {
            continue;
        }
        if !names.contains(&par) && !files::exists(&par) {
            halves.push(Half::LacksPar(par, whole));
        } else if let Some(why) = other_par(&par, stored, &by_table) {
            halves.push(Half::OtherPar(par, whole, why));
        } else if let Some(partition) = by_table.partitions_of(stored).find(|name| is_unfinished(name)) {
            halves.push(Half::Unfinished(par, whole, partition.clone()));
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
            let name = table_name(&format!("{}/{table}", database.to_string_lossy()));
            halves.push(Half::LacksTable(frm.clone(), name));
        }
    }
    halves
}

/// What the dictionary says about each table, with its partitions, by its name in the dictionary. Searching the dictionary once per table
/// would take time in proportion to the square of their number: minutes for 50,000 tables.
#[derive(Default)]
struct ByTable<'d> {
    /// Names of the indexes.
    indexes: HashMap<&'d str, Vec<&'d str>>,
    /// Names of the partitions, in lower case; subpartitions as `p0#p0sp0`. They may also be in the system tablespace.
    partitions: HashMap<&'d str, BTreeSet<String>>,
    /// Tables with a discarded tablespace.
    discarded: HashSet<&'d str>,
    /// Stored columns.
    columns: HashMap<&'d str, u16>,
}

impl<'d> ByTable<'d> {
    fn of(dictionary: &'d Dictionary) -> Self {
        let mut all = Self::default();
        for entry in &dictionary.entries {
            let table = whole_table(&entry.stored);
            if entry.is_discarded {
                all.discarded.insert(table);
            }
            all.columns.extend(entry.columns.map(|columns| (table, columns)));
            if entry.holds == Holds::Table && !entry.is_intermediate {
                all.add_partition(&entry.stored);
            }
            for tree in &entry.trees {
                all.indexes.entry(whole_table(&tree.stored)).or_default().push(&tree.index);
                if entry.holds != Holds::Table {
                    all.add_partition(&tree.stored);
                }
            }
        }
        all
    }

    fn add_partition(&mut self, stored: &'d str) {
        let table = whole_table(stored);
        if table != stored
            && let Some((_, partition)) = table_name(stored).split_once(" partition ")
        {
            self.partitions.entry(table).or_default().insert(partition.to_lowercase());
        }
    }

    fn partitions_of(&self, table: &str) -> impl Iterator<Item = &String> {
        self.partitions.get(table).into_iter().flatten()
    }
}

/// Full-text auxiliary tables, those with MariaDB's vector indexes (`t#i#01`), and those of an ALTER TABLE, have no `.frm` file.
fn is_auxiliary(table: &str) -> bool {
    table.starts_with("FTS_") || table.contains("#i#") || table.starts_with("#sql") || table.starts_with("SYS_")
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
    if here != known && !known.is_empty() {
        let (here, known) = (list(&here), list(&known));
        return Some(format!("it has the indexes ({here}), but the table in the dictionary has ({known})"));
    }
    if let Some(why) = other_columns((&bytes, &definition), table, dictionary) {
        return Some(why);
    }
    let here = partition_count(definition.declared.partitioning.as_deref())?;
    if dictionary.partitions_of(table).any(|name| is_unfinished(name)) {
        return None;
    }
    let known: BTreeSet<&str> =
        dictionary.partitions_of(table).map(|name| name.split('#').next().unwrap_or(name)).collect();
    (here != known.len())
        .then(|| format!("it has {here} partitions, but the table in the dictionary has {}", known.len()))
}

/// Columns may have been added or dropped without a new file. A server that reads such rows by an older definition errs, or dies.
fn other_columns((frm, definition): (&[u8], &TableDef), table: &str, dictionary: &ByTable<'_>) -> Option<String> {
    let known = *dictionary.columns.get(table)?;
    let has_doc_id = dictionary.indexes.get(table).is_some_and(|indexes| indexes.contains(&DOC_ID_INDEX));
    let with_doc_id = has_doc_id.then(|| from_frm(frm, true)).transpose().ok()?;
    let here = with_doc_id.as_ref().unwrap_or(definition).columns.iter().filter(|column| !column.is_virtual).count();
    (here != usize::from(known)).then(|| format!("it has {here} columns, but the table in the dictionary has {known}"))
}

/// Whether this is a partition that an ALTER TABLE creates or is about to remove.
fn is_unfinished(partition: &str) -> bool {
    partition.contains("#tmp#") || partition.contains("#ren#")
}

/// The number of partitions, without subpartitions, in the clause of a definition; 0 without a clause. `None` if the server may add some.
fn partition_count(clause: Option<&str>) -> Option<usize> {
    let words = words_of(clause.unwrap_or(""));
    let next_is = |at: usize, word: &str| words.get(at + 1).is_some_and(|next| next == word);
    if words.is_empty() || words.iter().any(|word| word == "AUTO") {
        return words.is_empty().then_some(0);
    }
    let listed = words.iter().enumerate().filter(|(at, word)| *word == "PARTITION" && !next_is(*at, "BY")).count();
    let number = words.iter().position(|word| word == "PARTITIONS").and_then(|at| words.get(at + 1)?.parse().ok());
    Some(if listed > 0 { listed } else { number.unwrap_or(1) })
}

/// The words of a clause outside quotes.
fn words_of(clause: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_escaped) = (Vec::new(), String::new(), None, false);
    for c in clause.chars().chain([' ']) {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(end) => {
                is_escaped = c == '\\' && end != '`';
                quote = Some(end).filter(|end| *end != c);
            }
            None if c.is_ascii_alphanumeric() || c == '_' => word.push(c),
            None => {
                quote = Some(c).filter(|c| matches!(c, '\'' | '"' | '`'));
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
        }
    }
    words
}

/// Where the engine array begins in a `.par` file: after the length in words, the checksum and the number of partitions.
const PAR_ENGINES: usize = 12;

/// Why the `.par` file does not belong to the table.
fn other_par(par: &Path, table: &str, dictionary: &ByTable<'_>) -> Option<String> {
    let bytes = read_small(par, FRM_MAX).ok()?;
    let Some(names) = partitions(&bytes) else {
        return Some("it is damaged: its length or its checksum is wrong".to_owned());
    };
    let known: BTreeSet<String> =
        dictionary.partitions_of(table).filter(|name| !is_unfinished(name)).cloned().collect();
    if let Some(missing) = known.difference(&names).next() {
        return Some(format!("it does not name the partition {missing}, which the dictionary has"));
    }
    let more = names.difference(&known).next()?;
    Some(format!("it names the partition {more}, which the dictionary does not have"))
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
    Some(
        names
            .map(|name| partition_name(&String::from_utf8_lossy(name).replace("#sp#", "#SP#")).to_lowercase())
            .collect(),
    )
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
    fn the_partitions_of_a_definition_are_counted() {
        let count = |clause: &str| partition_count(Some(clause));
        assert_eq!(partition_count(None), Some(0));
        assert_eq!(count("/*!50100 PARTITION BY HASH (a)\nPARTITIONS 4 */"), Some(4));
        assert_eq!(count(" PARTITION BY KEY (a)"), Some(1));
        let listed = " PARTITION BY LIST COLUMNS(`PARTITION`)\n(PARTITION `p0` VALUES IN ('it''s PARTITION x') ENGINE = InnoDB,\n \
            PARTITION `p1` DEFAULT COMMENT = 'a\\' PARTITION b' ENGINE = InnoDB)";
        assert_eq!(count(listed), Some(2));
        let subs =
            " PARTITION BY RANGE (a)\nSUBPARTITION BY HASH (b)\nSUBPARTITIONS 3\n(PARTITION p0 VALUES LESS THAN (5))";
        assert_eq!(count(subs), Some(1));
        assert_eq!(count(" PARTITION BY SYSTEM_TIME INTERVAL 1 HOUR AUTO\nPARTITIONS 3"), None);
    }

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
