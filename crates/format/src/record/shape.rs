//! Locates the fields of whole records without visiting them one by one.
//!
//! ```text
//! record's null bitmap -> RecordShape, made once    lengths in the header -> where each variable value ends
//!                                                   every fixed field is so many bytes after one of these ends
//! ```
//!
//! Which fields are NULL decides where all other fields are, except for the lengths of variable ones. Tables have few patterns of NULLs, so
//! the shape of each pattern is kept, with whatever the caller derives from it.

use super::compact::{header, next_length};
use super::{Instant, Layout, Record, RecordStyle, Status, Storage, Stored};

/// Patterns of NULLs that are kept, one per hash: a power of two.
const SHAPES_KEPT: usize = 64;
/// Making a shape takes about as long as locating the fields of this many records one by one.
const RECORDS_A_SHAPE: u64 = 32;

/// Where a variable value is on its page. The first span of a record is not a value but the record's origin, with no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
}

/// Where a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeField {
    /// Not stored.
    Null,
    /// `offset` bytes after the end of the span with the number `after`.
    Fixed {
        /// The span.
        after: usize,
        /// Bytes from its end to the field.
        offset: usize,
        /// Bytes of the field.
        bytes: usize,
    },
    /// The span with this number.
    Variable(usize),
}

/// A variable field that is not NULL.
#[derive(Debug, Clone, Copy)]
struct Variable {
    /// Bytes of fixed fields between the variable field before it and this one.
    before: u32,
    /// Whether its length may take two bytes.
    big: bool,
}

/// The positions of fields that follow from a pattern of NULLs.
#[derive(Debug, Clone, Default)]
pub struct RecordShape {
    fields: Vec<ShapeField>,
    /// In the order of the record.
    variable: Vec<Variable>,
    /// Bytes of fixed fields after the last variable one.
    tail: u32,
}

impl RecordShape {
    fn new(layout: &Layout, nulls: u64) -> Self {
        let mut shape = Self::default();
        let (mut bit, mut fixed) = (0, 0);
        for field in layout.fields() {
            let is_null = field.nullable && nulls >> bit & 1 == 1;
            bit += u32::from(field.nullable);
            shape.fields.push(match field.storage {
                _ if is_null => ShapeField::Null,
                Storage::Fixed(bytes) => {
                    let (offset, bytes) = (fixed, usize::from(bytes));
                    fixed += bytes;
                    ShapeField::Fixed { after: shape.variable.len(), offset, bytes }
                }
                Storage::Variable { big } => {
                    shape.variable.push(Variable { before: std::mem::take(&mut fixed) as u32, big });
                    ShapeField::Variable(shape.variable.len())
                }
            });
        }
        shape.tail = fixed as u32;
        shape
    }

    /// Where the fields are, in the order of the index.
    #[must_use]
    pub fn fields(&self) -> &[ShapeField] {
        &self.fields
    }

    /// Finds the variable values, and returns the end of the record's data.
    #[inline]
    fn find(&self, origin: u16, mut lengths: &[u8], spans: &mut Vec<Span>) -> Option<usize> {
        let mut end = u32::from(origin);
        spans.clear();
        spans.push(Span { start: end, end });
        for variable in &self.variable {
            let (len, Stored::Inline) = next_length(&mut lengths, variable.big)? else { return None };
            let start = end + variable.before;
            end = start + len;
            spans.push(Span { start, end });
        }
        Some((end + self.tail) as usize)
    }
}

#[derive(Debug, Clone)]
struct Kept<T> {
    nulls: u64,
    shape: RecordShape,
    derived: T,
}

/// The shapes of an index's records.
#[derive(Debug, Clone)]
pub struct RecordShapes<T> {
    layout: Layout,
    /// The bits of the null bitmap that belong to a field.
    nullable: u64,
    kept: Vec<Option<Box<Kept<T>>>>,
    asked: u64,
    made: u64,
    spans: Vec<Span>,
}

/// A record's fields: what was derived from its shape, and its spans.
#[derive(Debug, Clone, Copy)]
pub struct Shaped<'s, T> {
    /// The caller's derivation from the shape.
    pub derived: &'s T,
    /// The spans that the fields of the shape refer to.
    pub spans: &'s [Span],
}

impl<T> Shaped<'_, T> {
    /// The span with this number, as in the shape's fields.
    #[inline]
    #[must_use]
    pub fn span(&self, number: usize) -> Span {
        self.spans.get(number).copied().unwrap_or(Span { start: 0, end: 0 })
    }
}

impl<T> RecordShapes<T> {
    /// Makes the shapes for the leaves of an index with this layout. `None` if the null bitmap does not decide which fields a record has,
    /// or is too long.
    #[must_use]
    pub fn new(layout: &Layout) -> Option<Self> {
        let nullable = layout.fields().iter().filter(|field| field.nullable).count() as u32;
        if layout.instant() != Instant::None || nullable > u64::BITS {
            return None;
        }
        Some(Self {
            layout: layout.clone(),
            nullable: u64::MAX.checked_shr(u64::BITS - nullable).unwrap_or(0),
            kept: std::iter::repeat_with(|| None).take(SHAPES_KEPT).collect(),
            asked: 0,
            made: 0,
            spans: Vec::new(),
        })
    }

    /// Finds the fields of a leaf's record that is entirely on its page and ends at or before byte `limit`. Calls `derive` for a shape that
    /// is not kept yet. `None` proves nothing: [`Layout::locate`] is slower but handles every record.
    #[inline]
    pub fn find(
        &mut self,
        record: &Record<'_>,
        limit: usize,
        derive: impl FnOnce(&RecordShape) -> T,
    ) -> Option<Shaped<'_, T>> {
        if record.style() != RecordStyle::Compact || record.status() != Status::Ordinary {
            return None;
        }
        let (lengths, nulls) = header(record, self.layout.leaf_null_bytes())?;
        let nulls = nulls & self.nullable;
        self.asked += 1;
        let at = slot_of(nulls);
        if self.kept.get(at)?.as_ref().is_none_or(|kept| kept.nulls != nulls) {
            self.keep(at, nulls, derive)?;
        }
        let kept = self.kept.get(at)?.as_deref()?;
        let end = kept.shape.find(record.origin(), lengths, &mut self.spans)?;
        (end <= limit).then_some(Shaped { derived: &kept.derived, spans: &self.spans })
    }

    /// Makes the shape of a pattern, unless patterns change so often that making shapes costs more than it saves.
    #[cold]
    fn keep(&mut self, at: usize, nulls: u64, derive: impl FnOnce(&RecordShape) -> T) -> Option<()> {
        if self.made * RECORDS_A_SHAPE > self.asked + SHAPES_KEPT as u64 * RECORDS_A_SHAPE {
            return None;
        }
        self.made += 1;
        let shape = RecordShape::new(&self.layout, nulls);
        let derived = derive(&shape);
        *self.kept.get_mut(at)? = Some(Box::new(Kept { nulls, shape, derived }));
        Some(())
    }
}

/// Where the shape of a pattern is kept.
fn slot_of(nulls: u64) -> usize {
    const BITS: u32 = SHAPES_KEPT.trailing_zeros();
    (nulls.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::any::{self, next};
    use crate::record::{RecordFields, Slot};

    fn slot(shaped: &Shaped<'_, Vec<ShapeField>>, field: ShapeField) -> Slot {
        let (start, len, stored) = match field {
            ShapeField::Null => (0, 0, Stored::Null),
            ShapeField::Fixed { after, offset, bytes } => {
                (shaped.span(after).end + offset as u32, bytes as u32, Stored::Inline)
            }
            ShapeField::Variable(number) => {
                let Span { start, end } = shaped.span(number);
                (start, end - start, Stored::Inline)
            }
        };
        Slot { start, len, stored }
    }

    #[test]
    fn the_shape_finds_the_fields_that_are_located_one_by_one() {
        let (mut seed, mut found, mut kept) = (3, 0, 0);
        for _ in 0..300 {
            let layout = any::layout(&mut seed);
            let Some(mut shapes) = RecordShapes::new(&layout) else { continue };
            let mut located = RecordFields::new();
            for _ in 0..150 {
                // Mostly short lengths and few NULLs: otherwise hardly any record would fit.
                let mut page: Vec<u8> =
                    (0..1300).map(|_| (next(&mut seed) & next(&mut seed) & next(&mut seed)) as u8).collect();
                let origin = (next(&mut seed) % 1290) as u16 + 5;
                page[usize::from(origin) - 3] &= !7;
                let record = Record::new(&page, origin, RecordStyle::Compact, true).expect("inside the page");
                let limit = 600 + next(&mut seed) as usize % 701;
                let mut was_kept = true;
                let derive = |shape: &RecordShape| {
                    was_kept = false;
                    shape.fields().to_vec()
                };
                let shaped = shapes.find(&record, limit, derive);
                let is_whole = layout.locate(&record, &mut located).is_ok()
                    && located.end() <= limit
                    && located.slots().iter().all(|slot| slot.stored != Stored::Extern);
                let Some(shaped) = shaped else { continue };
                assert!(is_whole, "{layout:?}");
                let slots: Vec<Slot> = shaped.derived.iter().map(|field| slot(&shaped, *field)).collect();
                let expected = located.slots().iter().map(|slot| match slot.stored {
                    Stored::Null => Slot { start: 0, ..*slot },
                    _ => *slot,
                });
                assert_eq!(slots, expected.collect::<Vec<_>>(), "{layout:?}");
                found += 1;
                kept += u32::from(was_kept);
            }
        }
        assert!(found > 5000 && kept > 500, "{found} records found, {kept} of them by a shape that was kept");
    }
}
