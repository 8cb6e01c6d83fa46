//! The hash under the `innodb` checksums, of one page and of many at once.
//!
//! One step of the hash takes the result of the step before, about five operations a byte, so that a core works on one byte
//! at a time and is mostly idle. Pages do not depend on each other: [`innodb_new_many`] takes a step of 16 pages at once, in arrays
//! of four, which are the vectors that every x86-64 and every AArch64 has. To take a step, the same byte of each page has to stand
//! side by side; [`side_by_side`] turns 64 bytes of each page, a cache line, at a time.

/// The hash of the `innodb` formulas: one step a byte, all modulo 2^32; the two constants are the server's.
#[must_use]
pub fn fold(bytes: &[u8]) -> u32 {
    fold_on(0, bytes)
}

fn fold_on(fold: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(fold, |fold, &byte| step(fold, u32::from(byte)))
}

#[inline(always)]
fn step(fold: u32, byte: u32) -> u32 {
    let mixed = fold ^ byte ^ 1_653_893_711;
    ((mixed << 8).wrapping_add(fold) ^ 1_463_735_687).wrapping_add(byte)
}

/// As many pages as [`innodb_new_many`] takes at once.
pub const PAGES_MAX: usize = 16;

/// [`innodb_new`](super::checksum::innodb_new) of each of the pages of `page_size` bytes that lie one after the other in `pages`: of at
/// most [`PAGES_MAX`], and of none that is cut. What stands beyond the last page is 0.
#[must_use]
pub fn innodb_new_many(pages: &[u8], page_size: usize) -> [u32; PAGES_MAX] {
    let mut sums = [0; PAGES_MAX];
    let Some(body_end) = page_size.checked_sub(8).filter(|end| *end >= 38) else {
        return sums; // as for one page that is too short
    };
    let part = |start: usize, end: usize| {
        let mut pages = pages.chunks_exact(page_size).map(|page| page.get(start..end).unwrap_or_default());
        // Where there is no page, the first one keeps the lane busy: all lanes are of one length.
        let first = pages.next().unwrap_or_default();
        let mut parts = [first; PAGES_MAX];
        parts.iter_mut().skip(1).zip(pages).for_each(|(part, page)| *part = page);
        parts
    };
    let (heads, bodies) = (part(4, 26), part(38, body_end));
    let count = (pages.len() / page_size).min(PAGES_MAX);
    let folds = fold_many(&bodies, count);
    for ((sum, head), body) in sums.iter_mut().zip(heads).zip(folds).take(count) {
        *sum = fold(head).wrapping_add(body);
    }
    sums
}

/// Folds the first `count` of `parts`, which are of one length.
fn fold_many(parts: &[&[u8]; PAGES_MAX], count: usize) -> [u32; PAGES_MAX] {
    let mut folds = [0; PAGES_MAX];
    let len = parts.first().map_or(0, |part| part.len());
    if count > FEW {
        return fold_together::<PAGES_MAX, { PAGES_MAX / 4 }>(parts, len);
    }
    // Four general registers at a time are as fast as vectors that are half empty.
    let fours = parts.as_chunks::<4>().0.iter().zip(folds.as_chunks_mut::<4>().0);
    for (parts, folds) in fours.take(count.div_ceil(4)) {
        *folds = fold_together::<4, 1>(parts, len);
    }
    folds
}

/// Up to this many pages are folded in fours, more all at once.
const FEW: usize = 8;

/// Bytes of each part that are turned at a time.
const BLOCK: usize = 64;

/// Lanes of one vector of 128 bits.
type Four = [u32; 4];

/// Folds `N` parts of `len` bytes, one step of all of them at a time. `G` is `N / 4`. All must be of
/// that length.
fn fold_together<const N: usize, const G: usize>(parts: &[&[u8]; N], len: usize) -> [u32; N] {
    let mut folds = [[0_u32; 4]; G];
    let whole = len - len % BLOCK;
    for at in (0..whole).step_by(BLOCK) {
        let rows = side_by_side(parts, at);
        folds = rows.iter().fold(folds, take_four_steps);
    }
    let mut sums = [0; N];
    for ((sum, fold), part) in sums.iter_mut().zip(folds.as_flattened()).zip(parts) {
        *sum = fold_on(*fold, part.get(whole..).unwrap_or_default());
    }
    sums
}

/// Four bytes of each part, the first one in the highest bits; one row for each four bytes of the block at `at`.
#[inline(always)]
fn side_by_side<const N: usize, const G: usize>(parts: &[&[u8]; N], at: usize) -> [[Four; G]; BLOCK / 4] {
    let mut rows = [[[0; 4]; G]; BLOCK / 4];
    for (group, parts) in parts.as_chunks::<4>().0.iter().enumerate() {
        let [a, b, c, d] = parts.map(|part| part.get(at..at + BLOCK).unwrap_or_default().as_chunks::<4>().0);
        for ((((row, a), b), c), d) in rows.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            if let Some(four) = row.get_mut(group) {
                *four = [a, b, c, d].map(|bytes| u32::from_be_bytes(*bytes));
            }
        }
    }
    rows
}

#[inline(always)]
fn take_four_steps<const G: usize>(mut folds: [Four; G], row: &[Four; G]) -> [Four; G] {
    for shift in [24, 16, 8, 0] {
        for (fold, words) in folds.iter_mut().zip(row) {
            for (fold, word) in fold.iter_mut().zip(words) {
                *fold = step(*fold, word >> shift & 0xFF);
            }
        }
    }
    folds
}
