//! `CHECKSUM TABLE` of whole records, without taking them apart field by field.
//!
//! ```text
//! RecordShape -> ImagePlan, made once: runs of fixed fields  -> moved 8 bytes at a time, at known offsets
//!                                      variable values       -> copied             -> image of the row in the server -> CRC-32
//! ```
//!
//! A row takes a handful of loads and stores, with no decision per field.

use std::ops::Range;

use super::image::Image;
use super::row_sum::{Column, RowSum, set};
use crate::record::shape::{RecordShape, RecordShapes, ShapeField, Span};
use crate::record::{Layout, Record};

/// Bytes of a record or an image that one run covers; its moves read and write up to [`WORD`] - 1 more.
const RUN: usize = 64;
const WORD: usize = 8;
const WINDOW: usize = RUN + WORD;
/// Values of up to `CHUNKS_MAX` chunks are copied in chunks of this size; longer ones by a call to `memcpy`.
const CHUNK: usize = 16;
const CHUNKS_MAX: usize = 8;
/// Zero bytes before an image.
const MARGIN: usize = CHUNK;

/// Eight bytes of a run: read at one offset, shifted and flipped, written at another.
#[derive(Debug, Clone, Copy)]
struct Move {
    from: u8,
    to: u8,
    shift: u8,
    is_reversed: bool,
    flip: u64,
}

#[derive(Debug, Clone)]
enum Step {
    /// These bytes of `constants`.
    Constant(Range<usize>),
    /// Fixed fields, `offset` bytes after the end of a variable value.
    Run { after: usize, offset: usize, moves: Range<usize>, written: usize },
    /// A long fixed field.
    Long { after: usize, offset: usize, bytes: usize },
    /// A variable value, padded with spaces to this many bytes.
    Value { number: usize, padded: usize },
}

/// How to write the images of the rows of one shape.
#[derive(Debug, Clone, Default)]
struct ImagePlan {
    /// `None` if a value must be decoded.
    steps: Option<Vec<Step>>,
    moves: Vec<Move>,
    constants: Vec<u8>,
}

/// Sums whole records of one index.
#[derive(Debug, Clone)]
pub struct RowShapes {
    shapes: RecordShapes<ImagePlan>,
    rule: RowRule,
    /// [`MARGIN`], and the image of a row.
    image: Vec<u8>,
}

/// The columns that the server sums, the same for every shape.
#[derive(Debug, Clone)]
struct RowRule {
    /// The columns that count, and their fields.
    columns: Vec<(Column, usize)>,
    /// The null bytes of a row without NULLs.
    null_bytes: Vec<u8>,
    /// Upper limit of the bytes by which an image is longer than its record.
    longest_padding: usize,
}

impl RowShapes {
    /// Makes the shapes for the leaves of an index with this layout. `fields` are the fields of the columns that count, in the same order.
    /// `None` if this index's records must be read field by field.
    #[must_use]
    pub fn new(sum: &RowSum, layout: &Layout, fields: &[u16]) -> Option<Self> {
        if fields.len() != sum.columns.len() {
            return None;
        }
        let columns = sum.columns.iter().cloned().zip(fields.iter().map(|field| usize::from(*field)));
        let padding = |column: &Column| column.null_image.len() + column.image.map_or(0, Image::padding);
        let rule = RowRule {
            columns: columns.collect(),
            null_bytes: sum.null_bytes.clone(),
            longest_padding: sum.columns.iter().map(padding).sum::<usize>() + sum.null_bytes.len(),
        };
        Some(Self { shapes: RecordShapes::new(layout)?, rule, image: Vec::new() })
    }

    /// The contribution of a leaf's record that ends at or before byte `limit` of its page. `None` proves nothing: [`RowSum::row`] is
    /// slower but handles every record.
    #[inline]
    pub fn row(&mut self, record: &Record<'_>, limit: usize) -> Option<u32> {
        let room = MARGIN + record.page().len() + self.rule.longest_padding + WINDOW + CHUNK;
        if self.image.len() < room {
            self.image.resize(room, 0);
        }
        let rule = &self.rule;
        let shaped = self.shapes.find(record, limit, |shape| Maker::new(rule, shape).plan())?;
        let end = shaped.derived.write(record.page(), shaped.spans, &mut self.image)?;
        crc(&mut self.image, end)
    }
}

/// CRC-32 of the image from [`MARGIN`] to `end`. The bytes before the image are zero and do not change a CRC that starts with zero. So the
/// sum can begin early enough to cover whole chunks, and never goes byte by byte. A standard CRC starts with ones; inverting the first four
/// bytes has the same effect.
fn crc(image: &mut [u8], end: usize) -> Option<u32> {
    let len = end - MARGIN;
    if len < 4 {
        return Some(crc32fast::hash(image.get(MARGIN..end)?));
    }
    let first = image.get_mut(MARGIN..)?.first_chunk_mut::<4>()?;
    *first = first.map(|byte| !byte);
    let mut hasher = crc32fast::Hasher::new_with_initial(!0);
    hasher.update(image.get(MARGIN - (len.next_multiple_of(CHUNK) - len)..end)?);
    Some(hasher.finalize())
}

impl ImagePlan {
    /// Writes the row's image after the margin, and returns its end.
    #[inline]
    fn write(&self, page: &[u8], spans: &[Span], image: &mut [u8]) -> Option<usize> {
        let mut at = MARGIN;
        for step in self.steps.as_ref()? {
            let to = image.get_mut(at..)?;
            at += match step {
                Step::Constant(range) => {
                    let bytes = self.constants.get(range.clone())?;
                    to.get_mut(..bytes.len())?.copy_from_slice(bytes);
                    bytes.len()
                }
                Step::Run { after, offset, moves, written } => {
                    let from = page.get(spans.get(*after)?.end as usize + offset..)?.first_chunk::<WINDOW>()?;
                    run(self.moves.get(moves.clone())?, from, to.first_chunk_mut()?);
                    *written
                }
                Step::Long { after, offset, bytes } => {
                    let start = spans.get(*after)?.end as usize + offset;
                    to.get_mut(..*bytes)?.copy_from_slice(page.get(start..start + bytes)?);
                    *bytes
                }
                Step::Value { number, padded } => {
                    let span = spans.get(*number)?;
                    let len = (span.end - span.start) as usize;
                    copy(page.get(span.start as usize..)?, len, to)?;
                    if len < *padded {
                        to.get_mut(len..*padded)?.fill(b' ');
                    }
                    len.max(*padded)
                }
            };
        }
        Some(at)
    }
}

#[inline]
fn run(moves: &[Move], from: &[u8; WINDOW], to: &mut [u8; WINDOW]) {
    for step in moves {
        // Both are less than RUN. The remainder tells the compiler so, and saves the bounds check.
        let (at, to_at) = (usize::from(step.from) % RUN, usize::from(step.to) % RUN);
        let (Some(from), Some(to)) = (from.get(at..at + WORD), to.get_mut(to_at..to_at + WORD)) else { return };
        let (Some(from), Some(to)) = (from.first_chunk(), to.first_chunk_mut()) else { return };
        let number = u64::from_be_bytes(*from);
        let number = if step.is_reversed { number } else { number.swap_bytes() };
        *to = ((number >> step.shift) ^ step.flip).swap_bytes().to_be_bytes();
    }
}

/// Copies the first `len` bytes. A short value is copied in whole chunks, whatever its exact length.
#[inline]
fn copy(stored: &[u8], len: usize, out: &mut [u8]) -> Option<()> {
    if len > CHUNKS_MAX * CHUNK {
        out.get_mut(..len)?.copy_from_slice(stored.get(..len)?);
        return Some(());
    }
    let chunks = len.div_ceil(CHUNK);
    let (from, _) = stored.as_chunks::<CHUNK>();
    let (to, _) = out.as_chunks_mut::<CHUNK>();
    match (from.get(..chunks), to.get_mut(..chunks)) {
        (Some(from), Some(to)) => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        _ => out.get_mut(..len)?.copy_from_slice(stored.get(..len)?),
    }
    Some(())
}

/// A run that may still grow.
#[derive(Debug, Clone, Copy)]
struct OpenRun {
    after: usize,
    offset: usize,
    written: usize,
    first_move: usize,
}

/// Makes the plan of a shape.
struct Maker<'s> {
    rule: &'s RowRule,
    shape: &'s RecordShape,
    plan: ImagePlan,
    steps: Vec<Step>,
    open: Option<OpenRun>,
}

impl<'s> Maker<'s> {
    fn new(rule: &'s RowRule, shape: &'s RecordShape) -> Self {
        Self { rule, shape, plan: ImagePlan::default(), steps: Vec::new(), open: None }
    }

    fn plan(mut self) -> ImagePlan {
        if self.head().and_then(|()| self.columns()).is_some() {
            self.close();
            self.plan.steps = Some(self.steps);
        }
        self.plan
    }

    /// The null bytes of the server's row.
    fn head(&mut self) -> Option<()> {
        let mut head = self.rule.null_bytes.clone();
        for (column, field) in &self.rule.columns {
            if matches!(self.shape.fields().get(*field)?, ShapeField::Null)
                && let Some(bit) = column.null_bit
            {
                set(&mut head, bit);
            }
        }
        self.constant(&head);
        Some(())
    }

    fn columns(&mut self) -> Option<()> {
        for (column, field) in &self.rule.columns {
            let found = *self.shape.fields().get(*field)?;
            let image = match (found, column.image) {
                // Its charset has one byte per character, so it is stored with its padding.
                (ShapeField::Fixed { bytes, .. }, Some(Image::Padded { bytes: padded }))
                    if padded as usize <= bytes =>
                {
                    Some(Image::Copied { bytes: None })
                }
                (_, image) => image,
            };
            match (found, image) {
                (ShapeField::Null, _) => self.constant(&column.null_image),
                (ShapeField::Fixed { after, offset, bytes }, Some(image)) => self.fixed(after, offset, bytes, image)?,
                (ShapeField::Variable(number), Some(Image::Copied { bytes: None })) => self.value(number, 0),
                (ShapeField::Variable(number), Some(Image::Padded { bytes })) => self.value(number, bytes as usize),
                _ => return None,
            }
        }
        Some(())
    }

    fn constant(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.close();
            let start = self.plan.constants.len();
            self.plan.constants.extend_from_slice(bytes);
            self.steps.push(Step::Constant(start..start + bytes.len()));
        }
    }

    fn value(&mut self, number: usize, padded: usize) {
        self.close();
        self.steps.push(Step::Value { number, padded });
    }

    fn fixed(&mut self, after: usize, offset: usize, bytes: usize, image: Image) -> Option<()> {
        if bytes > RUN {
            let Image::Copied { .. } = image else { return None };
            self.close();
            self.steps.push(Step::Long { after, offset, bytes });
            return Some(());
        }
        let fits = |run: &OpenRun| {
            run.after == after
                && offset >= run.offset
                && offset + bytes - run.offset <= RUN
                && run.written + bytes <= RUN
        };
        if !self.open.as_ref().is_some_and(fits) {
            self.close();
            self.open = Some(OpenRun { after, offset, written: 0, first_move: self.plan.moves.len() });
        }
        let run = self.open.as_mut()?;
        let (from, to) = (offset - run.offset, run.written);
        match image {
            Image::Reversed { bytes: expected, flip } if usize::from(expected) == bytes => {
                let unused = 8 * (WORD - bytes) as u32;
                self.plan.moves.push(Move {
                    from: from as u8,
                    to: to as u8,
                    shift: unused as u8,
                    is_reversed: true,
                    flip: u64::from(flip) << (56 - unused),
                });
            }
            Image::Copied { bytes: expected } if expected.is_none_or(|expected| usize::from(expected) == bytes) => {
                let word =
                    |at| Move { from: (from + at) as u8, to: (to + at) as u8, shift: 0, is_reversed: false, flip: 0 };
                self.plan.moves.extend((0..bytes).step_by(WORD).map(word));
            }
            _ => return None,
        }
        run.written += bytes;
        Some(())
    }

    fn close(&mut self) {
        if let Some(OpenRun { after, offset, written, first_move, .. }) = self.open.take() {
            let moves = first_move..self.plan.moves.len();
            self.steps.push(Step::Run { after, offset, moves, written });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Family;
    use crate::record::any::next;
    use crate::record::{RecordFields, RecordStyle, Slot, Stored};
    use crate::schema::sql::from_sql;
    use crate::schema::{IndexDef, TableDef};
    use crate::value::row_sum::{Form, Summed};

    const TYPES: [&str; 19] = [
        "TINYINT",
        "SMALLINT UNSIGNED",
        "MEDIUMINT",
        "INT",
        "BIGINT UNSIGNED",
        "DECIMAL(15,2)",
        "DECIMAL(65,30)",
        "DOUBLE",
        "FLOAT",
        "DATE",
        "DATETIME(3)",
        "TIMESTAMP",
        "TIME",
        "ENUM('a','b')",
        "CHAR(10)",
        "CHAR(90) CHARACTER SET latin1",
        "VARCHAR(20)",
        "VARCHAR(300)",
        "BINARY(70)",
    ];

    /// A table of random columns, whose key need not be its first column.
    fn any_table(seed: &mut u64) -> TableDef {
        let count = 1 + next(seed) % 20;
        let column = |number: u64, seed: &mut u64| {
            let sql_type = TYPES[next(seed) as usize % TYPES.len()];
            let null = if next(seed).is_multiple_of(2) { "NOT NULL" } else { "NULL" };
            format!("c{number} {sql_type} {null}")
        };
        let mut columns: Vec<String> = (0..count).map(|number| column(number, seed)).collect();
        columns.insert(next(seed) as usize % columns.len(), "id INT NOT NULL".to_owned());
        let sql = format!("CREATE TABLE t ({}, PRIMARY KEY (id)) DEFAULT CHARSET=utf8mb4", columns.join(", "));
        let family = if next(seed).is_multiple_of(2) { Family::MySql } else { Family::MariaDb };
        from_sql(&sql, family, ("test", "t")).expect("a table").table
    }

    fn fields_of(sum: &RowSum, index: &IndexDef) -> Vec<u16> {
        let field = |column| index.field_of(column).expect("the clustered index has every column") as u16;
        sum.columns().map(field).collect()
    }

    #[test]
    fn a_record_contributes_what_its_values_contribute() {
        let (mut seed, mut summed) = (11, 0);
        for _ in 0..300 {
            let table = any_table(&mut seed);
            let mut sum = RowSum::new(&table).expect("files tell what the server sums");
            let index = &table.indexes[0];
            let fields = fields_of(&sum, index);
            let mut shapes = RowShapes::new(&sum, &index.layout, &fields).expect("nothing was altered");
            for _ in 0..60 {
                // Mostly short lengths and few NULLs: otherwise hardly any record would fit.
                let mut page: Vec<u8> =
                    (0..4096).map(|_| (next(&mut seed) & next(&mut seed) & next(&mut seed)) as u8).collect();
                let origin = 300 + (next(&mut seed) % 3790) as u16;
                page[usize::from(origin) - 3] &= !7;
                let record = Record::new(&page, origin, RecordStyle::Compact, true).expect("inside the page");
                let limit = 1500 + next(&mut seed) as usize % 2597;
                let Some(found) = shapes.row(&record, limit) else { continue };
                let mut located = RecordFields::new();
                index.layout.locate(&record, &mut located).expect("what can be summed can be located");
                assert!(located.is_on_page() && located.end() <= limit);
                let value = |number: usize| match located.slots()[usize::from(fields[number])] {
                    Slot { stored: Stored::Null, .. } => Summed::Null,
                    slot => Summed::Stored(&page[slot.start as usize..(slot.start + slot.len) as usize]),
                };
                assert_eq!(Ok(found), sum.row(Form::All, value), "{}", crate::show_create::create_table(&table));
                summed += 1;
            }
        }
        assert!(summed > 5000, "{summed} records only");
    }
}
