//! The hash behind the `innodb` checksums, for one page or many at once.
//!
//! Each step of the hash needs the result of the previous one, about five operations per byte, so a core handles one byte at a time and
//! mostly idles. Pages are independent of each other: [`innodb_new_many`] advances 16 pages per step, in arrays of four, the vector width
//! of every x86-64 and AArch64. That needs the same byte of each page side by side, so [`side_by_side`] transposes a cache line (64 bytes)
//! of each page at a time.

/// The hash of the `innodb` formulas: one step per byte, modulo 2^32; the two constants are the server's.
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

/// Pages that [`innodb_new_many`] takes at once.
pub const PAGES_MAX: usize = 16;

/// [`innodb_new`](super::checksum::innodb_new) of up to [`PAGES_MAX`] consecutive whole pages of `page_size` bytes. Results without a page
/// are 0.
#[must_use]
pub fn innodb_new_many(pages: &[u8], page_size: usize) -> [u32; PAGES_MAX] {
    let mut sums = [0; PAGES_MAX];
    let Some(body_end) = page_size.checked_sub(8).filter(|end| *end >= 38) else {
        return sums; // as for one page that is too short
    };
    let part = |start: usize, end: usize| {
        let mut pages = pages.chunks_exact(page_size).map(|page| page.get(start..end).unwrap_or_default());
        // Unused lanes repeat the first page: all lanes must have the same length.
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

/// Folds the first `count` of `parts`, which must have the same length.
fn fold_many(parts: &[&[u8]; PAGES_MAX], count: usize) -> [u32; PAGES_MAX] {
    let mut folds = [0; PAGES_MAX];
    let len = parts.first().map_or(0, |part| part.len());
    if count > FEW {
        return fold_together::<PAGES_MAX, { PAGES_MAX / 4 }>(parts, len);
    }
    // Four general-purpose registers are as fast as half-empty vectors.
    let fours = parts.as_chunks::<4>().0.iter().zip(folds.as_chunks_mut::<4>().0);
    for (parts, folds) in fours.take(count.div_ceil(4)) {
        *folds = fold_together::<4, 1>(parts, len);
    }
    folds
}

/// Up to this many pages are folded four at a time; more are folded all at once.
const FEW: usize = 8;

/// Bytes of each part transposed at a time.
const BLOCK: usize = 64;

/// A 128-bit vector of lanes.
type Four = [u32; 4];

/// Folds `N` parts of exactly `len` bytes, all in the same step. `G` is `N / 4`.
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

/// Transposes the block at `at`: each row has four bytes of every part, the first byte in the highest bits.
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
