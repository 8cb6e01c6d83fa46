//! Locates the fields of an index record, using the index description in the redo record.

use std::ops::Range;

use super::super::error::ApplyError;
use super::super::image::Result;
use crate::record::mysql::index_info::{Field, FieldLen, Fields, IndexInfo};
use format::bytes::be;

/// Record flags: the row's version, or its number of fields, comes before the fixed header.
const VERSION_FLAG: u8 = 0x40;
const INSTANT_FLAG: u8 = 0x80;
/// Record status: node pointers, and infimum and supremum.
const STATUS_NODE: u16 = 1;
const STATUS_BOUND: u16 = 2;
/// Length of infimum and supremum, and of the child in a node pointer.
const BOUND_SIZE: usize = 8;
const CHILD_SIZE: usize = 4;
/// Flag in the first byte of a two-byte length; flag in its value: the rest of the field is off-page.
const LONG_LENGTH: u8 = 0x80;
const EXTERNAL: usize = 0x4000;
const LENGTH_MASK: usize = 0x3FFF;
/// Length of the fixed part of a header.
const COMPACT_HEADER: usize = 5;
const REDUNDANT_HEADER: usize = 6;

/// The index described by a redo record.
pub(super) struct IndexShape {
    pub is_compact: bool,
    pub has_versions: bool,
    pub n_instant: Option<usize>,
    pub n_unique: usize,
    /// For leaf pages: DB_TRX_ID follows the unique fields.
    pub is_clustered: bool,
    pub fields: Fields,
}

/// A field in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldPlace {
    /// Offsets from the record's origin.
    pub bytes: Range<usize>,
    pub is_null: bool,
    pub is_external: bool,
}

/// Where the parts of an index record are.
#[derive(Debug)]
pub(super) struct Shape {
    /// Bytes before its origin.
    pub extra: usize,
    /// Bytes from its origin on.
    pub data: usize,
    /// Its fields in storage order.
    pub places: Vec<FieldPlace>,
    /// The logical number of each place; empty if the places are in logical order.
    numbers: Vec<usize>,
}

impl Shape {
    pub(super) const fn len(&self) -> usize {
        self.extra + self.data
    }

    /// The field with this logical number, and its index in the record.
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
    /// Everything from here on has been read.
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

    /// The shape of the record whose origin is at `origin` in `bytes`.
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

    /// The logical numbers of a row's fields.
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

    /// Node pointers have a null bit for every nullable field of the index as created.
    fn nullable_above_leaves(&self) -> usize {
        let all = &self.fields.physical;
        match self.n_instant {
            Some(n_instant) => self.nullable(all.get(..n_instant).unwrap_or(all)),
            None if self.has_versions => self.nullable(&self.of_version(0)),
            None => self.nullable(all),
        }
    }

    /// Reads which fields are NULL, and the lengths of the others.
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

    /// Reads a REDUNDANT record, which states where its fields end.
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

/// The length of a non-NULL field, and whether the rest of it is off-page.
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

/// Offset in `bytes` of the entry that says where field `at` of a REDUNDANT record ends, and whether the entry takes one byte.
pub(super) fn redundant_end(bytes: &[u8], origin: usize, at: usize) -> Option<(usize, bool)> {
    let info_at = origin.checked_sub(REDUNDANT_HEADER)?;
    let versions = usize::from(bytes.get(info_at)? & VERSION_FLAG != 0);
    let is_short = be::u16_at(bytes, info_at + 2)? & 1 != 0;
    let size = if is_short { 1 } else { 2 };
    Some((info_at.checked_sub(versions + size * (at + 1))?, is_short))
}
