//! Compressed integers (`ut0compr_int.h`): the lowest three bits of the first byte are the number of bytes less one, 7 for nine bytes; the
//! value follows them, little-endian. Eight bytes are not used.

/// The most bytes that a number takes.
pub const LEN_MAX: usize = 9;

/// Takes a number from the front of `bytes`; `None` if it does not end in them.
#[must_use]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let len = match bytes.first()? & 7 {
        7 => LEN_MAX,
        count => usize::from(count) + 1,
    };
    let number = bytes.get(..len)?;
    let value = number.iter().rev().fold(0_u128, |value, byte| value << 8 | u128::from(*byte)) >> 3;
    *bytes = bytes.get(len..)?;
    u64::try_from(value).ok()
}

/// Appends a number.
pub fn put(bytes: &mut Vec<u8>, value: u64) {
    let bits = 64 - (value | 1).leading_zeros() as usize + 3;
    let (len, mark) = match bits.div_ceil(8) {
        8 | 9 => (LEN_MAX, 7),
        len => (len, len as u128 - 1),
    };
    let word = u128::from(value) << 3 | mark;
    bytes.extend((0..len).map(|at| (word >> (8 * at)) as u8));
}

#[cfg(test)]
mod tests {
    use super::{put, take};

    /// The examples of `ut0compr_int.h`.
    #[test]
    fn numbers_are_written_as_the_source_says() {
        let examples: [(u64, &[u8]); 8] = [
            (0, &[0x00]),
            (0x1f, &[0xf8]),
            (0x20, &[0x01, 0x01]),
            (0xf6, &[0xb1, 0x07]),
            (0xd34a, &[0x52, 0x9a, 0x06]),
            (0x1f_ffff_ffff_ffff, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (0x20_0000_0000_0000, &[0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x07]),
        ];
        for (value, expected) in examples {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(bytes, expected, "{value:#x}");
            assert_eq!(take(&mut bytes.as_slice()), Some(value));
            assert_eq!(take(&mut &expected[..expected.len() - 1]), None, "{value:#x} cut");
        }
    }

    #[test]
    fn nine_bytes_of_more_than_64_bits_are_no_number() {
        assert_eq!(take(&mut [0xff; 9].as_slice()), None);
    }
}
