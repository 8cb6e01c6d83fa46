//! `ddl_recovery.log`: statements interrupted by a crash of MariaDB 10.6 or later. The server finishes or undoes them at its next start, so
//! a table named by one of them is neither lost nor left over.
//!
//! The file consists of blocks. Block 0 holds the magic (4 bytes), the block size (2 bytes) and the offset of the names within a block (2
//! bytes). Each later block is an entry: its kind at byte 0 (1: an unfinished statement, 2: a step of one, anything else: done), the number
//! of the next entry at byte 4 (4 bytes, 0 for none), and at the offset of the names eight strings, each with its length (2 bytes), its
//! bytes and a zero: engine, database, table, the same three before the change, a temporary name, one more. All little-endian. Steps of
//! statements about partitions have no database, and a path without suffix for a table: `./shop/parts#P#p2`.
//! Seen in the files of MariaDB 10.11; 10.5 writes another file (`ddl_log.log`) and does not recover CREATE TABLE.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::name::table_of_path;
use crate::reading::read_small;

const NAME: &str = "ddl_recovery.log";
const MAGIC: [u8; 4] = [0xfe, 0xfe, 0x0b, 0x02];
const STATEMENT: u8 = 1;
const STEP: u8 = 2;
/// A server that never restarts keeps an entry per running statement; a file this large is not a real log.
const BYTES_MAX: u64 = 64 << 20;
/// Positions of the two (database, table) pairs among an entry's strings.
const PAIRS: [usize; 2] = [1, 4];

/// What unfinished statements name.
#[derive(Debug, Default)]
pub(in super::super) struct UnfinishedDdl {
    /// As `database.table` in SQL spelling.
    tables: BTreeSet<String>,
    /// Tablespaces of partitions, below the datadir. The server removes or renames them.
    pub partitions: BTreeSet<PathBuf>,
}

impl UnfinishedDdl {
    /// Reads the log in the datadir `root`. A missing or malformed log explains nothing.
    pub fn of(root: &Path) -> Self {
        let bytes = read_small(&root.join(NAME), BYTES_MAX).unwrap_or_default();
        read(&bytes).unwrap_or_default()
    }

    /// Whether an interrupted statement names the table, given as `database.table` in SQL spelling.
    pub fn names(&self, table: &str) -> bool {
        self.tables.contains(table)
    }
}

fn read(bytes: &[u8]) -> Option<UnfinishedDdl> {
    if bytes.get(..4)? != MAGIC {
        return None;
    }
    let (size, names_at) = (number(bytes.get(4..6)?), number(bytes.get(6..8)?));
    if names_at >= size {
        return None;
    }
    let blocks: Vec<&[u8]> = bytes.chunks_exact(size).collect();
    let mut found = UnfinishedDdl::default();
    for block in blocks.iter().filter(|block| block.first() == Some(&STATEMENT)) {
        let mut next = number(block.get(4..8)?);
        // A chain longer than the file is a cycle.
        for _ in &blocks {
            let Some(step) = blocks.get(next).filter(|step| next > 0 && step.first() == Some(&STEP)) else { break };
            found.note(step.get(names_at..)?);
            next = number(step.get(4..8)?);
        }
    }
    Some(found)
}

impl UnfinishedDdl {
    /// Adds what one step names.
    fn note(&mut self, mut rest: &[u8]) {
        let mut strings = Vec::new();
        while let Some((length, after)) = rest.split_at_checked(2) {
            let Some((string, after)) = after.split_at_checked(number(length)) else { break };
            strings.push(String::from_utf8_lossy(string).into_owned());
            rest = after.get(1..).unwrap_or_default();
        }
        for pair in PAIRS.into_iter().filter_map(|at| Some((strings.get(at)?, strings.get(at + 1)?))) {
            match pair {
                (database, path) if database.is_empty() && path.contains('/') => self.note_partition(path),
                (database, table) => drop(self.tables.insert(format!("{database}.{table}"))),
            }
        }
    }

    fn note_partition(&mut self, path: &str) {
        let path = PathBuf::from(format!("{}.ibd", path.trim_start_matches("./")));
        let Some(name) = table_of_path(&path) else { return };
        let table = name.split_once(" partition ").map(|(table, _)| table.to_owned());
        if table.is_some() {
            self.partitions.insert(path);
        }
        self.tables.insert(table.unwrap_or(name));
    }
}

fn number(little_endian: &[u8]) -> usize {
    little_endian.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 512;

    fn block(kind: u8, next: u8, strings: [&str; 8]) -> Vec<u8> {
        let mut block = vec![0; 56];
        (block[0], block[4]) = (kind, next);
        for string in strings {
            block.extend([string.len() as u8, 0]);
            block.extend(string.as_bytes());
            block.push(0);
        }
        block.resize(SIZE, 0);
        block
    }

    fn log(blocks: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        bytes[..9].copy_from_slice(&[0xfe, 0xfe, 0x0b, 0x02, 0, 2, 56, 0, 0]);
        blocks.iter().for_each(|block| bytes.extend(block));
        bytes
    }

    fn step(kind: u8, next: u8, table: &str, from: &str) -> Vec<u8> {
        block(kind, next, ["InnoDB", "shop", table, "", "old", from, "./shop/x", ""])
    }

    #[test]
    fn only_statements_that_have_not_ended_name_tables() {
        let bytes = log(&[
            block(STATEMENT, 2, [""; 8]),
            step(STEP, 3, "a", "b"),
            step(STEP, 0, "ü", ""),
            step(STEP, 0, "left", ""),
        ]);
        let unfinished = read(&bytes).unwrap();
        assert!(
            unfinished.names("shop.a") && unfinished.names("old.b") && unfinished.names("shop.ü"),
            "{unfinished:?}"
        );
        assert!(!unfinished.names("shop.left") && !unfinished.names("shop.b"), "{unfinished:?}");

        let ended = log(&[block(3, 2, [""; 8]), step(STEP, 0, "a", "b")]);
        assert!(read(&ended).unwrap().tables.is_empty());
    }

    #[test]
    fn steps_about_partitions_name_their_table_by_path() {
        let step = |next, path, from| block(STEP, next, ["InnoDB", "", path, "", "", from, "", ""]);
        let bytes = log(&[
            block(STATEMENT, 2, [""; 8]),
            step(3, "./my@002ddb/parts#P#p2", ""),
            step(4, "./shop/b#P#p0", "./shop/b#P#p0#TMP#"),
            step(0, "./shop/#sql-shadow-4-b", "x"),
        ]);
        let unfinished = read(&bytes).unwrap();
        assert!(unfinished.names("my-db.parts") && unfinished.names("shop.b"), "{unfinished:?}");
        let files = ["my@002ddb/parts#P#p2.ibd", "shop/b#P#p0#TMP#.ibd", "shop/b#P#p0.ibd"].map(PathBuf::from);
        assert_eq!(unfinished.partitions, BTreeSet::from(files));
    }

    #[test]
    fn hostile_logs_end() {
        let round = log(&[block(STATEMENT, 2, [""; 8]), step(STEP, 3, "a", ""), step(STEP, 2, "b", "")]);
        assert!(read(&round).unwrap().names("shop.b"));
        let mut lying = log(&[block(STATEMENT, 2, [""; 8]), step(STEP, 0, "a", "")]);
        lying[2 * SIZE + 56] = 0xff;
        lying[2 * SIZE + 57] = 0xff;
        assert!(read(&lying).unwrap().tables.is_empty());
        assert!(read(b"\xfe\xfe\x0b\x02\0\0\0\0").is_none());
        assert!(read(b"").is_none());
    }
}
