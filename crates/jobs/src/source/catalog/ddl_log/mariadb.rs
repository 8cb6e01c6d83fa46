//! `ddl_recovery.log`: the statements that a crash of MariaDB 10.6 or later interrupted. At its next start the server finishes them or takes
//! them back, so a table that one of them names is neither lost nor left over.
//!
//! The file consists of blocks. Block 0 holds the magic (4 bytes), the size of a block (2 bytes) and where names begin in a block (2 bytes).
//! Each later block is an entry: its kind at byte 0 (1: a statement that has not ended, 2: one of its steps, anything else: done), the
//! number of the next entry at byte 4 (4 bytes, 0 for none), and from where names begin eight strings, each its length (2 bytes), its
//! bytes and a zero: engine, database, table, the same three of what it was before, a temporary name, one more. All little-endian.
//! Seen in the files of MariaDB 10.11; 10.5 writes another file (`ddl_log.log`) and recovers no CREATE TABLE.

use std::collections::BTreeSet;
use std::path::Path;

use format::schema::filename;

use crate::source::read_small;

const NAME: &str = "ddl_recovery.log";
const MAGIC: [u8; 4] = [0xfe, 0xfe, 0x0b, 0x02];
const STATEMENT: u8 = 1;
const STEP: u8 = 2;
/// A server that never stops keeps an entry for each statement at work: a file of this size has lost its meaning.
const BYTES_MAX: u64 = 64 << 20;
/// Where the two pairs of database and table are among the strings of an entry.
const PAIRS: [usize; 2] = [1, 4];

/// The tables that unfinished statements name, as `database.table` in SQL's letters.
#[derive(Debug, Default)]
pub(in super::super) struct UnfinishedDdl(BTreeSet<String>);

impl UnfinishedDdl {
    /// Reads the log in the datadir `root`. No log, or one that makes no sense, explains nothing.
    pub fn of(root: &Path) -> Self {
        let bytes = read_small(&root.join(NAME), BYTES_MAX).unwrap_or_default();
        Self(tables(&bytes).unwrap_or_default())
    }

    /// Whether a statement that names the table was interrupted. `table` is `database.table` as files are called.
    pub fn names(&self, table: &str) -> bool {
        let Some((database, table)) = table.split_once('.') else { return false };
        self.0.contains(&format!("{}.{}", filename::decoded(database), filename::decoded(table)))
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
        // A chain that is longer than the file goes round.
        for _ in &blocks {
            let Some(step) = blocks.get(next).filter(|step| next > 0 && step.first() == Some(&STEP)) else { break };
            found.extend(names(step.get(names_at..)?));
            next = number(step.get(4..8)?);
        }
    }
    Some(found)
}

/// The tables that one step names.
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
            unfinished.names("shop.a") && unfinished.names("old.b") && unfinished.names("shop.@00fc"),
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
