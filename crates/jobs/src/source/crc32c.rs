//! CRC-32C of bytes that pass by: of files, as manifests list it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crc_fast::{CrcAlgorithm, Digest};

/// Lengths in bytes and CRC-32Cs of files, by their names in a directory.
pub(crate) type FileSums = BTreeMap<PathBuf, (u64, u32)>;

/// Bytes of a hole that are added at a time.
const PIECE: usize = 1 << 20;

/// The CRC-32C of the bytes added so far.
#[derive(Debug)]
pub(crate) struct Crc32c {
    digest: Digest,
    /// Their number.
    pub len: u64,
}

impl Crc32c {
    pub fn new() -> Self {
        Self { digest: Digest::new(CrcAlgorithm::Crc32Iscsi), len: 0 }
    }

    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.len += bytes.len() as u64;
    }

    /// Adds zeros up to byte `end` of the file: a hole.
    pub fn add_hole(&mut self, end: u64) {
        let piece = |left: u64| usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let zeros = vec![0; piece(end.saturating_sub(self.len))];
        while self.len < end {
            self.add(zeros.get(..piece(end - self.len)).unwrap_or_default());
        }
    }

    pub fn value(&self) -> u32 {
        u32::try_from(self.digest.finalize()).unwrap_or(0)
    }

    /// Eight hexadecimal digits.
    pub fn text(&self) -> String {
        format!("{:08x}", self.value())
    }
}

#[cfg(test)]
mod tests {
    use format::page::checksum::crc32c;

    use super::*;

    #[test]
    fn holes_count_as_zeros() {
        let mut content = vec![0; (2 << 20) + 50];
        content[..3].copy_from_slice(b"abc");
        content.extend(b"def");
        let mut sum = Crc32c::new();
        sum.add(b"abc");
        sum.add_hole((2 << 20) + 50);
        sum.add(b"def");
        assert_eq!((sum.value(), sum.len), (crc32c(&content), content.len() as u64));
        sum.add_hole(5);
        assert_eq!(sum.value(), crc32c(&content), "that is behind");
    }
}
