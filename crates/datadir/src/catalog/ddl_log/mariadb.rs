//! `ddl_recovery.log`: statements interrupted by a crash of MariaDB 10.6 or later. The server finishes or undoes them at its next start, so
//! a table named by one of them is neither lost nor left over.
//!
//! The file consists of blocks. Block 0 holds the magic (4 bytes), the block size (2 bytes) and the offset of the names within a block (2
//! bytes). Each later block is an entry: its kind at byte 0 (1: an unfinished statement, 2: a step of one, anything else: done), the number
//! of the next entry at byte 4 (4 bytes, 0 for none), and at the offset of the names eight strings, each with its length (2 bytes), its
//! bytes and a zero: engine, database, table, the same three before the change, a temporary name, one more. All little-endian.
//! Seen in the files of MariaDB 10.11; 10.5 writes another file (`ddl_log.log`) and does not recover CREATE TABLE.

use std::collections::BTreeSet;
use std::path::Path;

use crate::reading::read_small;

const NAME: &str = "ddl_recovery.log";
const MAGIC: [u8; 4] = [0xfe, 0xfe, 0x0b, 0x02];
const STATEMENT: u8 = 1;
const STEP: u8 = 2;
/// A server that never restarts keeps an entry per running statement; a file this large is not a real log.
const BYTES_MAX: u64 = 64 << 20;
/// Positions of the two (database, table) pairs among an entry's strings.
const PAIRS: [usize; 2] = [1, 4];

/// Tables named by unfinished statements, as `database.table` in SQL spelling.
#[derive(Debug, Default)]
pub(in super::super) struct UnfinishedDdl(BTreeSet<String>);

impl UnfinishedDdl {
    /// Reads the log in the datadir `root`. A missing or malformed log explains nothing.
    pub fn of(root: &Path) -> Self {
        let bytes = read_small(&root.join(NAME), BYTES_MAX).unwrap_or_default();
        Self(tables(&bytes).unwrap_or_default())
    }

    /// Whether an interrupted statement names the table, given as `database.table` in SQL spelling.
    pub fn names(&self, table: &str) -> bool {
        self.0.contains(table)
    }
}

fn tables(bytes: &[u8]) -> Option<BTreeSet<String>> {
    if bytes.get(..4)? != MAGIC {
        return None;
    }
    let (size, names_at) = (number(bytes.get(4..6)?), number(bytes.get(6..8)?));
    if names_at >= size {
        return None;
    }
    let blocks: Vec<&[u8]> = bytes.chunks_exact(size).collect();
    let mut found = BTreeSet::new();
    for block in blocks.iter().filter(|block| block.first() == Some(&STATEMENT)) {
        let mut next = number(block.get(4..8)?);
        // A chain longer than the file is a cycle.
        for _ in &blocks {
            let Some(step) = blocks.get(next).filter(|step| next > 0 && step.first() == Some(&STEP)) else { break };
            found.extend(names(step.get(names_at..)?));
            next = number(step.get(4..8)?);
        }
    }
    Some(found)
}

/// The tables named by one step.
fn names(mut rest: &[u8]) -> impl Iterator<Item = String> {
    let mut strings = Vec::new();
    while let Some((length, after)) = rest.split_at_checked(2) {
        let Some((string, after)) = after.split_at_checked(number(length)) else { break };
        strings.push(String::from_utf8_lossy(string).into_owned());
        rest = after.get(1..).unwrap_or_default();
    }
    let pair = |at: usize| Some(format!("{}.{}", strings.get(at)?, strings.get(at + 1)?));
    PAIRS.map(pair).into_iter().flatten()
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
        let unfinished = UnfinishedDdl(tables(&bytes).unwrap());
        assert!(
            unfinished.names("shop.a") && unfinished.names("old.b") && unfinished.names("shop.ü"),
            "{unfinished:?}"
        );
        assert!(!unfinished.names("shop.left") && !unfinished.names("shop.b"), "{unfinished:?}");

        let ended = log(&[block(3, 2, [""; 8]), step(STEP, 0, "a", "b")]);
        assert!(tables(&ended).unwrap().is_empty());
    }

    #[test]
    fn hostile_logs_end() {
        let round = log(&[block(STATEMENT, 2, [""; 8]), step(STEP, 3, "a", ""), step(STEP, 2, "b", "")]);
        assert!(UnfinishedDdl(tables(&round).unwrap()).names("shop.b"));
        let mut lying = log(&[block(STATEMENT, 2, [""; 8]), step(STEP, 0, "a", "")]);
        lying[2 * SIZE + 56] = 0xff;
        lying[2 * SIZE + 57] = 0xff;
        assert!(tables(&lying).unwrap().is_empty());
        assert!(tables(b"\xfe\xfe\x0b\x02\0\0\0\0").is_none());
        assert!(tables(b"").is_none());
    }
}
