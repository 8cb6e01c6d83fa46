//! The changes in a stretch: which bytes to write, and which of them differ from the old ones.

use std::ops::Range;

/// Bytes compared at once.
const UNIT: usize = 16;
/// A file's blocks, bytes: a hole cannot be smaller.
const HOLE_ALIGN: usize = 4096;
/// The longest run of equal bytes that is saved between two differing ones: a separate piece costs a directory entry.
const GAP_MAX: usize = 2 * UNIT;

/// Collects the changes in one stretch, block by block in ascending order.
#[derive(Debug, Default)]
pub struct Changes {
    /// What to write in place, relative to the stretch; adjacent ranges are merged.
    dirty: Vec<Range<u32>>,
    /// What differs, relative to the stretch. The bytes are those of the stretch.
    pieces: Vec<Range<u32>>,
}

impl Changes {
    /// Records that the block at `start` of the stretch changed from `before`, which is still in the file, to `after`, which is in the
    /// stretch.
    pub fn changed(&mut self, start: u32, before: &[u8], after: &[u8]) {
        self.made(start..start.saturating_add(len_of(after)));
        self.differing(start, before, after);
    }

    /// [`changed`](Self::changed) for a block whose end may be a hole in the file: what was zero and stays zero is not written, in units of
    /// 4096 bytes, so that a hole remains one.
    pub fn changed_sparse(&mut self, start: u32, before: &[u8], after: &[u8]) {
        let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let end = used(before).max(used(after)).next_multiple_of(HOLE_ALIGN).min(after.len());
        if end > 0 {
            self.made(start..start.saturating_add(u32::try_from(end).unwrap_or(u32::MAX)));
        }
        self.differing(start, before, after);
    }

    /// Saves the pieces in which a block differs.
    fn differing(&mut self, start: u32, before: &[u8], after: &[u8]) {
        let mut piece: Option<Range<usize>> = None;
        let mut differs = |at: usize, len: usize| match &mut piece {
            Some(open) if at - open.end <= GAP_MAX => open.end = at + len,
            _ => self.save(start, piece.replace(at..at + len)),
        };
        // Arrays are compared in a register.
        let ((old, old_rest), (new, new_rest)) = (before.as_chunks::<UNIT>(), after.as_chunks::<UNIT>());
        let units = old.iter().zip(new).enumerate();
        units.filter(|(_, (old, new))| old != new).for_each(|(number, _)| differs(number * UNIT, UNIT));
        if old_rest != new_rest {
            differs(new.len() * UNIT, new_rest.len());
        }
        self.save(start, piece);
    }

    /// Records bytes that a repeated run produces again without reading them: they are written, but need not be saved first.
    pub fn made(&mut self, range: Range<u32>) {
        match self.dirty.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.dirty.push(range),
        }
    }

    /// Records a block that is written as it is, and saved whole beforehand as one piece: for a replay that decides by the content in place
    /// whether the block is still the one that was saved.
    pub fn replaced(&mut self, block: Range<u32>) {
        self.pieces.push(block.clone());
        self.made(block);
    }

    fn save(&mut self, start: u32, piece: Option<Range<usize>>) {
        let place = |at: usize| start.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
        self.pieces.extend(piece.map(|piece| place(piece.start)..place(piece.end)));
    }

    /// Nothing was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// What to write in place.
    pub(super) fn dirty(&self) -> &[Range<u32>] {
        &self.dirty
    }

    /// What differs.
    pub(super) fn pieces(&self) -> &[Range<u32>] {
        &self.pieces
    }

    /// Bytes needed to save the pieces.
    pub(super) fn saved_len(&self) -> usize {
        self.pieces.iter().map(ExactSizeIterator::len).sum()
    }
}

fn len_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_over_the_old_bytes_make_the_new() {
        // Any mix of old and new bytes must become the new ones.
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for round in 0..200 {
            let len = [1024, 4096, 1000][round % 3];
            let before: Vec<u8> = (0..len).map(|_| (random() % 3) as u8).collect();
            let mut after = before.clone();
            for _ in 0..random() % 20 {
                let at = random() % len;
                let end = (at + random() % 60).min(len);
                after[at..end].iter_mut().for_each(|byte| *byte = (random() % 3) as u8);
            }
            let mut changes = Changes::default();
            changes.changed(4096, &before, &after);
            let mut torn: Vec<u8> =
                before.iter().zip(&after).map(|(old, new)| if random() % 2 == 0 { *old } else { *new }).collect();
            for piece in changes.pieces() {
                let piece = piece.start as usize - 4096..piece.end as usize - 4096;
                torn[piece.clone()].copy_from_slice(&after[piece]);
            }
            assert!(torn == after, "round {round}");
            let whole = 4096..4096 + len as u32;
            assert_eq!(changes.dirty(), std::slice::from_ref(&whole));
            assert!(changes.saved_len() <= len, "nothing is saved twice");
        }
    }

    #[test]
    fn a_hole_at_the_end_of_a_block_is_not_written() {
        let block = |used: usize, byte: u8| [vec![byte; used], vec![0; 16384 - used]].concat();
        let dirty = |before: &[u8], after: &[u8]| {
            let mut changes = Changes::default();
            changes.changed_sparse(16384, before, after);
            let ends = changes.dirty().iter().map(|dirty| (dirty.start, dirty.end));
            ends.collect::<Vec<_>>()
        };
        assert_eq!(dirty(&block(5000, 1), &block(3000, 2)), [(16384, 24576)], "old bytes are overwritten");
        assert_eq!(dirty(&block(3000, 1), &block(8193, 2)), [(16384, 28672)]);
        assert_eq!(dirty(&block(0, 1), &block(16384, 2)), [(16384, 32768)]);
        assert_eq!(dirty(&[0; 1024], &[1; 1024]), [(16384, 17408)], "smaller than a hole");
        assert_eq!(dirty(&block(0, 1), &block(0, 2)), []);
    }

    #[test]
    fn little_is_saved_of_a_block_that_changed_a_little() {
        let before = vec![7; 16384];
        let mut after = before.clone();
        for at in [20, 700, 16380] {
            after[at] = 8;
        }
        let mut changes = Changes::default();
        changes.changed(0, &before, &after);
        assert_eq!((changes.pieces().len(), changes.saved_len()), (3, 3 * UNIT));
        changes.made(16384..32768);
        changes.made(65536..81920);
        assert_eq!(changes.dirty(), [0..32768, 65536..81920], "neighbours are one write");
        assert_eq!(changes.saved_len(), 3 * UNIT, "bytes that a repeated run produces again are not saved");
        changes.replaced(81920..98304);
        assert_eq!((changes.pieces().len(), changes.saved_len()), (4, 3 * UNIT + 16384), "one piece, whole");
        assert!(Changes::default().is_empty());
    }
}
