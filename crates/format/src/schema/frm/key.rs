//! Keys as stored in the file.

pub(super) const KEY_UNIQUE: u16 = 1;
pub(super) const KEY_FULLTEXT: u16 = 0x80;
pub(super) const KEY_SPATIAL: u16 = 0x400;
pub(super) const KEY_COMMENT: u16 = 0x1000;
pub(super) const PART_DESCENDING: u8 = 0x80;
/// `USING HASH`, which InnoDB does not do: the key is a tree, and the server shows what was asked for.
pub(super) const ALGORITHM_ASKED_HASH: u8 = 3;
/// MariaDB: unique through a hash in a hidden column.
pub(super) const ALGORITHM_HASH: u8 = 5;
/// MariaDB: a vector index, which is a table of its own.
pub(super) const ALGORITHM_VECTOR: u8 = 7;

/// A key as stored in the file.
pub(super) struct Key {
    pub name: String,
    pub flags: u16,
    pub algorithm: u8,
    pub block_size: u16,
    pub comment: String,
    pub parts: Vec<KeyPart>,
}

/// A key part: column (from 0), bytes, direction.
#[derive(Clone, Copy)]
pub(super) struct KeyPart {
    pub column: usize,
    pub len: u32,
    pub descending: bool,
}
