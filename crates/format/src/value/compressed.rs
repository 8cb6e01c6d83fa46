//! MariaDB's COMPRESSED columns: a byte that gives the method, the length, and the data.

use flate2::{Decompress, FlushDecompress, Status};

use super::error::ValueError;

const PLAIN: u8 = 0;
const ZLIB: u8 = 8;
/// Flag in the first byte: raw deflate, without the zlib header.
const RAW: u8 = 0x08;

/// Replaces the content of `out` with the decompressed value.
///
/// # Errors
/// An unknown method, or a stream that does not give the announced length.
pub fn unpack(stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    out.clear();
    let Some((head, rest)) = stored.split_first() else { return Ok(()) };
    match head >> 4 {
        PLAIN => out.extend_from_slice(rest),
        ZLIB => {
            let (len, data) = rest.split_at_checked(usize::from(head & 7)).ok_or(ValueError::Compressed)?;
            let len = usize::try_from(super::stored::unsigned(len)).map_err(|_| ValueError::Compressed)?;
            // Deflate compresses at most about a thousand to one. A larger length is wrong, and reserving it would waste memory.
            if len > data.len().saturating_mul(1100) {
                return Err(ValueError::Compressed);
            }
            out.reserve_exact(len + 1);
            let mut zlib = Decompress::new(head & RAW == 0);
            let status = zlib.decompress_vec(data, out, FlushDecompress::Finish);
            if !matches!(status, Ok(Status::StreamEnd)) || out.len() != len {
                return Err(ValueError::Compressed);
            }
        }
        _ => return Err(ValueError::Compressed),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_and_plain_values_come_out() {
        let mut out = Vec::new();
        assert_eq!(unpack(b"\0short", &mut out), Ok(()));
        assert_eq!(out, b"short");
        let packed = [0x8a, 0x03, 0xe8, 0xab, 0xa8, 0x18, 0x05, 0xa3, 0x60, 0x14, 0x0c, 0x77, 0, 0];
        assert_eq!(unpack(&packed, &mut out), Ok(()));
        assert_eq!(out, [b'x'; 1000]);
        assert_eq!(unpack(&[], &mut out).map(|()| out.len()), Ok(0));
    }

    #[test]
    fn broken_ones_do_not() {
        let mut out = Vec::new();
        assert_eq!(unpack(&[0x8a, 0x03, 0xe9, 0xab, 0xa8, 0x18, 0x05], &mut out), Err(ValueError::Compressed));
        assert_eq!(unpack(&[0x8c, 0xff, 0xff, 0xff, 0xff, 0xab], &mut out), Err(ValueError::Compressed));
        assert_eq!(unpack(&[0x10, 1], &mut out), Err(ValueError::Compressed));
    }
}
