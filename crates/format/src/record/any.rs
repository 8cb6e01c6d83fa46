//! Random layouts for the tests of records.

use super::{FieldLayout, Instant, Layout, Storage};

/// The next SplitMix64 number.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

pub(super) fn layout(seed: &mut u64) -> Layout {
    let count = 1 + next(seed) as usize % 80;
    let field = |_| {
        let number = next(seed);
        let storage = match number % 3 {
            0 => Storage::Variable { big: number & 8 != 0 },
            _ => Storage::Fixed((number >> 8) as u16 % 20),
        };
        FieldLayout { nullable: number & 4 != 0, ..FieldLayout::new(storage, false) }
    };
    Layout::new((0..count).map(field).collect(), 1, None, Instant::None)
}
