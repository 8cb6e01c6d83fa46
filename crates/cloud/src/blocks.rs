//! A small cache of recently read blocks, for objects that are read in small pieces: a request costs the same for 16 KiB as for 1 MiB.
//! A later sweep is served from it too.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes per block: the size of a sweep's requests.
pub(crate) const BLOCK: usize = 1 << 20;
/// Size of the cache in bytes.
const KEPT: usize = 16 << 20;

/// Blocks keyed by object number and offset, least recently used first.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    blocks: VecDeque<(u64, u64, Arc<[u8]>)>,
    bytes: usize,
}

impl Blocks {
    /// The block of object `object` that starts at `offset`.
    pub fn find(&self, object: u64, offset: u64) -> Option<Arc<[u8]>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.blocks.iter().position(|(number, start, _)| (*number, *start) == (object, offset))?;
        let found = kept.blocks.remove(at)?;
        let bytes = Arc::clone(&found.2);
        kept.blocks.push_back(found);
        Some(bytes)
    }

    pub fn keep(&self, object: u64, offset: u64, bytes: Arc<[u8]>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += bytes.len();
        kept.blocks.push_back((object, offset, bytes));
        while kept.bytes > KEPT {
            let Some((_, _, oldest)) = kept.blocks.pop_front() else { return };
            kept.bytes -= oldest.len();
        }
    }

    /// Copies a range of an object if one block holds all of it, up to the object's end.
    pub fn copy(&self, object: u64, len: u64, offset: u64, into: &mut [u8]) -> Option<usize> {
        let start = offset - offset % BLOCK as u64;
        let end = (offset + into.len() as u64).min(len);
        if end > start + BLOCK as u64 {
            return None;
        }
        let block = self.find(object, start)?;
        let bytes = block.get((offset - start) as usize..end.checked_sub(start)? as usize)?;
        into.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_gives_what_it_has_all_of_and_the_least_used_goes() {
        let blocks = Blocks::default();
        blocks.keep(1, BLOCK as u64, vec![7; 1000].into());
        let mut into = [0; 100];
        let len = BLOCK as u64 + 1000;
        assert_eq!(blocks.copy(1, len, BLOCK as u64 + 950, &mut into), Some(50), "the object ends there");
        assert_eq!((into[49], into[50]), (7, 0));
        assert_eq!(blocks.copy(1, len, BLOCK as u64 - 50, &mut into), None, "it begins in another block");
        assert_eq!(blocks.copy(2, len, BLOCK as u64, &mut into), None, "another object");
        let whole: Arc<[u8]> = vec![0; BLOCK].into();
        for object in 10..25 {
            blocks.keep(object, 0, Arc::clone(&whole));
        }
        assert!(blocks.find(1, BLOCK as u64).is_some());
        blocks.keep(99, 0, whole);
        assert!(blocks.find(10, 0).is_none() && blocks.find(1, BLOCK as u64).is_some());
    }
}
