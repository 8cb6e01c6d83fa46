//! Where the fields of an index record lie, as the redo record describes the index.

use std::ops::Range;

use super::super::error::ApplyError;
use super::super::image::Result;
use crate::mysql::index_info::{Field, FieldLen, Fields, IndexInfo};
use format::bytes::be;

/// The flags of a record: its row has a version, or the number of its fields before it.
const VERSION_FLAG: u8 = 0x40;
const INSTANT_FLAG: u8 = 0x80;
/// Status of a record: node pointers, and the two that bound the page.
const STATUS_NODE: u16 = 1;
const STATUS_BOUND: u16 = 2;
/// Bytes of what bounds a page, and of the child in a node pointer.
const BOUND_SIZE: usize = 8;
const CHILD_SIZE: usize = 4;
/// In a length of two bytes: it is one; in its value: the rest lies elsewhere.
const LONG_LENGTH: u8 = 0x80;
const EXTERNAL: usize = 0x4000;
const LENGTH_MASK: usize = 0x3FFF;
/// Bytes of the fixed part of a header.
const COMPACT_HEADER: usize = 5;
const REDUNDANT_HEADER: usize = 6;

/// The index that a redo record describes.
pub(super) struct IndexShape {
    pub is_compact: bool,
    pub has_versions: bool,
    pub n_instant: Option<usize>,
    pub n_unique: usize,
    /// On leaf pages: DB_TRX_ID is the field behind the unique ones.
    pub is_clustered: bool,
    pub fields: Fields,
}

/// A field in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldPlace {
    /// From the record's origin on.
    pub bytes: Range<usize>,
    pub is_null: bool,
    pub is_external: bool,
}

/// An index record.
#[derive(Debug)]
pub(super) struct Shape {
    /// Bytes before its origin.
    pub extra: usize,
    /// Bytes from there on.
    pub data: usize,
    /// Its fields in the order in which it holds them.
    pub places: Vec<FieldPlace>,
    /// Of each of them, its logical number; empty where they are the same.
    numbers: Vec<usize>,
}

impl Shape {
    pub(super) const fn len(&self) -> usize {
        self.extra + self.data
    }

    /// The field of this logical number, and which it is in the record.
    pub(super) fn place(&self, number: usize) -> Option<(usize, &FieldPlace)> {
        let at = if self.numbers.is_empty() {
            number
        } else {
            self.numbers.iter().position(|&logical| logical == number)?
        };
        Some((at, self.places.get(at)?))
    }
}

/// Reads header bytes downwards.
struct Down<'a> {
    bytes: &'a [u8],
    /// What was read begins here.
    at: usize,
}

impl Down<'_> {
    fn byte(&mut self) -> Result<u8> {
        let at = self.at.checked_sub(1).ok_or(ApplyError::RecordLength)?;
        self.at = at;
        self.bytes.get(at).copied().ok_or(ApplyError::RecordLength)
    }
}

impl IndexShape {
    pub(super) fn of(info: &IndexInfo<'_>) -> Result<Self> {
        Ok(Self {
            is_compact: info.is_compact,
            has_versions: info.has_versions,
            n_instant: info.n_instant.map(usize::from),
            n_unique: info.n_unique.into(),
            is_clustered: info.is_clustered(),
            fields: info.fields().map_err(|_| ApplyError::IndexInfo)?,
        })
    }

    /// The record with its origin at `origin` of `bytes`.
    pub(super) fn shape(&self, bytes: &[u8], origin: usize) -> Result<Shape> {
        let shape = if self.is_compact { self.compact(bytes, origin)? } else { self.redundant(bytes, origin)? };
        let fits = shape.extra <= origin && origin + shape.data <= bytes.len();
        if fits { Ok(shape) } else { Err(ApplyError::RecordLength) }
    }

    fn compact(&self, bytes: &[u8], origin: usize) -> Result<Shape> {
        let info_at = origin.checked_sub(COMPACT_HEADER).ok_or(ApplyError::RecordPointer { offset: origin })?;
        let info = bytes.get(info_at).copied().ok_or(ApplyError::RecordPointer { offset: origin })?;
        let status = be::u16_at(bytes, info_at + 1).ok_or(ApplyError::RecordPointer { offset: origin })? & 7;
        if status >= STATUS_BOUND {
            let (places, numbers) = (Vec::new(), Vec::new());
            return Ok(Shape { extra: COMPACT_HEADER, data: BOUND_SIZE, places, numbers });
        }
        let mut down = Down { bytes, at: info_at };
        let numbers = if status == STATUS_NODE {
            self.fields.physical.iter().take(self.n_unique).copied().collect()
        } else {
            self.fields_of(info, &mut down)?
        };
        let nullable = if status == STATUS_NODE { self.nullable_above_leaves() } else { self.nullable(&numbers) };
        let mut shape = self.lengths(&numbers, nullable, &mut down)?;
        if status == STATUS_NODE {
            shape.places.push(place(shape.data, CHILD_SIZE));
            shape.data += CHILD_SIZE;
        }
        shape.extra = origin - down.at;
        shape.numbers = if self.has_versions && status != STATUS_NODE { numbers } else { Vec::new() };
        Ok(shape)
    }

    /// The fields that a row has, by their logical numbers.
    fn fields_of(&self, info: u8, down: &mut Down<'_>) -> Result<Vec<usize>> {
        let all = &self.fields.physical;
        if info & VERSION_FLAG != 0 && (self.has_versions || self.n_instant.is_some()) {
            let version = down.byte()?;
            return Ok(self.of_version(version));
        }
        let count = match self.n_instant {
            Some(_) if info & INSTANT_FLAG != 0 => match down.byte()? {
                short if short & LONG_LENGTH == 0 => usize::from(short),
                high => usize::from(high & !LONG_LENGTH) << 8 | usize::from(down.byte()?),
            },
            Some(n_instant) => n_instant,
            None if self.has_versions => return Ok(self.of_version(0)),
            None => all.len(),
        };
        all.get(..count).map(<[usize]>::to_vec).ok_or(ApplyError::RecordLength)
    }

    fn of_version(&self, version: u8) -> Vec<usize> {
        let is_in = |number: &usize| self.field(*number).is_some_and(|field| field.is_in(version));
        self.fields.physical.iter().copied().filter(is_in).collect()
    }

    fn field(&self, number: usize) -> Option<&Field> {
        self.fields.logical.get(number)
    }

    fn nullable(&self, numbers: &[usize]) -> usize {
        numbers.iter().filter_map(|&number| self.field(number)).filter(|field| field.is_nullable).count()
    }

    /// Node pointers have a bit for every nullable field of the index as it was made.
    fn nullable_above_leaves(&self) -> usize {
        let all = &self.fields.physical;
        match self.n_instant {
            Some(n_instant) => self.nullable(all.get(..n_instant).unwrap_or(all)),
            None if self.has_versions => self.nullable(&self.of_version(0)),
            None => self.nullable(all),
        }
    }

    /// Reads which fields are NULL, and how long the others are.
    fn lengths(&self, numbers: &[usize], nullable: usize, down: &mut Down<'_>) -> Result<Shape> {
        let nulls_end = down.at;
        down.at = down.at.checked_sub(nullable.div_ceil(8)).ok_or(ApplyError::RecordLength)?;
        let mut bit = 0;
        let mut shape = Shape { extra: 0, data: 0, places: Vec::with_capacity(numbers.len() + 1), numbers: Vec::new() };
        for &number in numbers {
            let field = self.field(number).ok_or(ApplyError::IndexInfo)?;
            let mut found = place(shape.data, 0);
            if field.is_nullable {
                let byte = nulls_end.checked_sub(1 + bit / 8).and_then(|at| down.bytes.get(at));
                found.is_null = byte.ok_or(ApplyError::RecordLength)? >> (bit % 8) & 1 == 1;
                bit += 1;
            }
            if !found.is_null {
                let (len, is_external) = length(field.len, down)?;
                found.bytes.end += len;
                found.is_external = is_external;
            }
            shape.data = found.bytes.end;
            shape.places.push(found);
        }
        Ok(shape)
    }

    /// A record that tells itself where its fields end.
    fn redundant(&self, bytes: &[u8], origin: usize) -> Result<Shape> {
        let outside = ApplyError::RecordPointer { offset: origin };
        let info_at = origin.checked_sub(REDUNDANT_HEADER).ok_or(outside)?;
        let info = bytes.get(info_at).copied().ok_or(outside)?;
        let head = be::u16_at(bytes, info_at + 2).ok_or(outside)?;
        let (count, is_short) = (usize::from(head >> 1 & 0x3FF), head & 1 != 0);
        let mut down = Down { bytes, at: info_at };
        let version = if info & VERSION_FLAG == 0 { 0 } else { down.byte()? };
        let mut shape = Shape { extra: 0, data: 0, places: Vec::with_capacity(count), numbers: Vec::new() };
        for _ in 0..count {
            let (end, is_null, is_external) = if is_short {
                let byte = down.byte()?;
                (usize::from(byte & 0x7F), byte & 0x80 != 0, false)
            } else {
                let (low, high) = (down.byte()?, down.byte()?);
                let word = usize::from(u16::from_be_bytes([high, low]));
                (word & LENGTH_MASK, word & 0x8000 != 0, word & EXTERNAL != 0)
            };
            if end < shape.data {
                return Err(ApplyError::RecordLength);
            }
            shape.places.push(FieldPlace { bytes: shape.data..end, is_null, is_external });
            shape.data = end;
        }
        shape.extra = origin - down.at;
        if self.has_versions {
            shape.numbers = self.of_version(version);
        }
        Ok(shape)
    }
}

const fn place(start: usize, len: usize) -> FieldPlace {
    FieldPlace { bytes: start..start + len, is_null: false, is_external: false }
}

/// How long a field is that is not NULL, and whether its end lies elsewhere.
fn length(len: FieldLen, down: &mut Down<'_>) -> Result<(usize, bool)> {
    Ok(match len {
        FieldLen::Fixed(len) => (len, false),
        FieldLen::Short => (down.byte()?.into(), false),
        FieldLen::Long => match down.byte()? {
            short if short & LONG_LENGTH == 0 => (short.into(), false),
            high => {
                let word = usize::from(high) << 8 | usize::from(down.byte()?);
                (word & LENGTH_MASK, word & EXTERNAL != 0)
            }
        },
    })
}

/// Where the end of field `at` of a REDUNDANT record stands, and whether in one byte.
pub(super) fn redundant_end(bytes: &[u8], origin: usize, at: usize) -> Option<(usize, bool)> {
    let info_at = origin.checked_sub(REDUNDANT_HEADER)?;
    let versions = usize::from(bytes.get(info_at)? & VERSION_FLAG != 0);
    let is_short = be::u16_at(bytes, info_at + 2)? & 1 != 0;
    let size = if is_short { 1 } else { 2 };
    Some((info_at.checked_sub(versions + size * (at + 1))?, is_short))
}
