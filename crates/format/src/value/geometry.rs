//! Geometries: a spatial reference system id of four bytes, then well-known binary; and their text form.

use super::digits::write_uint;
use super::error::ValueError;
use crate::bytes::be;
use crate::bytes::le;

const SRID_BYTES: usize = 4;
/// The servers nest collections no deeper than this.
const DEPTH_MAX: usize = 100;

const POINT: u32 = 1;
const LINE_STRING: u32 = 2;
const POLYGON: u32 = 3;
const MULTI_POINT: u32 = 4;
const MULTI_LINE_STRING: u32 = 5;
const MULTI_POLYGON: u32 = 6;
const COLLECTION: u32 = 7;

/// The spatial reference system id, and the well-known binary.
#[must_use]
pub fn split(stored: &[u8]) -> Option<(u32, &[u8])> {
    Some((le::u32_at(stored, 0)?, stored.get(SRID_BYTES..)?))
}

/// Appends a stored geometry as well-known text, with coordinates in stored order: x, or longitude, first.
///
/// # Errors
/// The bytes are not a geometry.
pub fn write_wkt(stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let (_, wkb) = split(stored).ok_or(ValueError::Geometry)?;
    let mut reader = Wkb { rest: wkb, big_endian: false };
    reader.geometry(true, DEPTH_MAX, out).filter(|()| reader.rest.is_empty()).ok_or(ValueError::Geometry)
}

struct Wkb<'w> {
    rest: &'w [u8],
    big_endian: bool,
}

impl Wkb<'_> {
    fn word(&mut self) -> Option<u32> {
        let word = if self.big_endian { be::u32_at(self.rest, 0) } else { le::u32_at(self.rest, 0) };
        self.rest = self.rest.get(4..)?;
        word
    }

    /// A count of items of at least `bytes` bytes each.
    fn count(&mut self, bytes: usize) -> Option<u32> {
        let count = self.word()?;
        (count as usize <= self.rest.len() / bytes).then_some(count)
    }

    fn number(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let bits = if self.big_endian { be::u64_at(self.rest, 0) } else { le::u64_at(self.rest, 0) };
        self.rest = self.rest.get(8..)?;
        super::float::write_double(f64::from_bits(bits?), None, out);
        Some(())
    }

    fn head(&mut self) -> Option<u32> {
        let (order, rest) = self.rest.split_first()?;
        self.big_endian = *order == 0;
        self.rest = rest;
        self.word()
    }

    /// Writes a geometry, with its name if `named`. Inside another geometry the name may follow from that one.
    fn geometry(&mut self, named: bool, depth: usize, out: &mut Vec<u8>) -> Option<()> {
        let kind = self.head()?;
        let name = match kind {
            POINT => "POINT",
            LINE_STRING => "LINESTRING",
            POLYGON => "POLYGON",
            MULTI_POINT => "MULTIPOINT",
            MULTI_LINE_STRING => "MULTILINESTRING",
            MULTI_POLYGON => "MULTIPOLYGON",
            COLLECTION => "GEOMETRYCOLLECTION",
            _ => return None,
        };
        if named {
            out.extend_from_slice(name.as_bytes());
        }
        match kind {
            POINT => {
                out.push(b'(');
                self.point(out)?;
                out.push(b')');
                Some(())
            }
            LINE_STRING => self.points(out),
            POLYGON => self.list(4, out, Self::points),
            _ => self.parts(kind, depth.checked_sub(1)?, out),
        }
    }

    fn parts(&mut self, kind: u32, depth: usize, out: &mut Vec<u8>) -> Option<()> {
        if kind == COLLECTION && be_or_le(self.rest, self.big_endian) == Some(0) {
            self.word()?;
            out.extend_from_slice(b" EMPTY");
            return Some(());
        }
        self.list(5, out, |reader, out| reader.geometry(kind == COLLECTION, depth, out))
    }

    fn list(
        &mut self,
        bytes: usize,
        out: &mut Vec<u8>,
        mut item: impl FnMut(&mut Self, &mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        let count = self.count(bytes)?;
        out.push(b'(');
        for number in 0..count {
            if number > 0 {
                out.push(b',');
            }
            item(self, out)?;
        }
        out.push(b')');
        Some(())
    }

    fn points(&mut self, out: &mut Vec<u8>) -> Option<()> {
        self.list(16, out, Self::point)
    }

    fn point(&mut self, out: &mut Vec<u8>) -> Option<()> {
        self.number(out)?;
        out.push(b' ');
        self.number(out)
    }
}

fn be_or_le(bytes: &[u8], big_endian: bool) -> Option<u32> {
    if big_endian { be::u32_at(bytes, 0) } else { le::u32_at(bytes, 0) }
}

/// Appends the numbers of a VECTOR in brackets.
///
/// # Errors
/// The length is not a multiple of four.
pub fn write_vector(stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let (numbers, rest) = stored.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(ValueError::Length { found: stored.len(), expected: numbers.len() * 4 });
    }
    out.push(b'[');
    for (place, number) in numbers.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        super::float::write_float_exact(super::float::single(*number), out);
    }
    out.push(b']');
    Ok(())
}

/// Appends `SRID=4326;` if the geometry names a spatial reference system.
pub fn write_srid(stored: &[u8], out: &mut Vec<u8>) {
    if let Some((srid, _)) = split(stored).filter(|(srid, _)| *srid != 0) {
        out.extend_from_slice(b"SRID=");
        write_uint(srid.into(), out);
        out.push(b';');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wkt(stored: &[u8]) -> Result<String, ValueError> {
        let mut out = Vec::new();
        write_wkt(stored, &mut out)?;
        Ok(String::from_utf8(out).expect("ASCII"))
    }

    #[test]
    fn a_point_is_written_and_a_cut_one_is_not() {
        let mut point = vec![0, 0, 0, 0, 1, 1, 0, 0, 0];
        point.extend(1.0_f64.to_bits().to_be_bytes().iter().rev());
        point.extend(2.5_f64.to_bits().to_be_bytes().iter().rev());
        assert_eq!(wkt(&point).as_deref(), Ok("POINT(1 2.5)"));
        assert_eq!(wkt(point.get(..20).expect("20 bytes")), Err(ValueError::Geometry));
        point.push(0);
        assert_eq!(wkt(&point), Err(ValueError::Geometry));
    }

    #[test]
    fn counts_beyond_the_bytes_are_refused() {
        assert_eq!(wkt(&[0, 0, 0, 0, 1, 2, 0, 0, 0, 255, 255, 255, 255]), Err(ValueError::Geometry));
        assert_eq!(wkt(&[0, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0]).as_deref(), Ok("GEOMETRYCOLLECTION EMPTY"));
    }
}
