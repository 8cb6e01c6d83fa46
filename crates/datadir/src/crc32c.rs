//! CRC-32C of bytes that pass by: of files, as manifests list it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crc_fast::{CrcAlgorithm, Digest};

/// Lengths in bytes and CRC-32Cs of files, by their names in a directory.
pub type FileSums = BTreeMap<PathBuf, (u64, u32)>;

/// Bytes of a hole that are added at a time.
const PIECE: usize = 1 << 20;

/// The CRC-32C of the bytes added so far.
#[derive(Debug)]
pub struct Crc32c {
    digest: Digest,
    /// Their number.
    pub len: u64,
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
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
        let mut left = end.saturating_sub(self.len);
        let zeros = vec![0; usize::try_from(left).unwrap_or(PIECE).min(PIECE)];
        if left >= 2 * PIECE as u64 {
            // Doubled instead of read: a stream of 100 bytes may hold a hole of 8 TiB.
            let mut run = Digest::new(CrcAlgorithm::Crc32Iscsi);
            run.update(&zeros);
            let mut runs = left / PIECE as u64;
            left %= PIECE as u64;
            while runs > 0 {
                if runs & 1 == 1 {
                    self.digest.combine(&run);
                    self.len += run.get_amount();
                }
                let half = run;
                run.combine(&half);
                runs >>= 1;
            }
        }
        while left > 0 {
            let now = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            self.add(zeros.get(..now).unwrap_or_default());
            left -= now as u64;
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
    use format::checksum::crc32c;

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
        for mib in [2, 3, 7, 8, 21] {
            let len = (mib << 20) + 77;
            let mut sum = Crc32c::new();
            sum.add(b"ab");
            sum.add_hole(len as u64);
            let content = [&b"ab"[..], &vec![0; len - 2]].concat();
            assert_eq!((sum.len, sum.value()), (len as u64, crc32c(&content)), "{mib} MiB");
        }
        // Would take hours if it were read.
        sum.add_hole(8 << 40);
        assert_eq!(sum.len, 8 << 40);
    }
}
