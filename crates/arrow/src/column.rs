//! Collects the values of one column for an array.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, UInt16Type};
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray,
    DurationMicrosecondArray, FixedSizeBinaryArray, Float32Array, ListArray, PrimitiveArray, StringArray,
    StringViewArray, TimestampMicrosecondArray,
};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, DataType, Field};
use format::value::{Value, ValueType, decimal, geometry};

use crate::types::vector_item;

/// How a value was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Unchanged.
    Whole,
    /// With a loss: the number of the reason in [`CHANGES`].
    Changed(usize),
}

/// What the Arrow types cannot represent.
pub(crate) const CHANGES: [&str; 4] = [
    "impossible dates or times (zero, or 31 February) became NULL",
    "geometries lost their spatial reference system, which well-known binary cannot store",
    "texts are not valid in their character set: U+FFFD replaces the invalid bytes",
    "values (an ENUM's number 0, a SET that begins with the member '') look like others of the column",
];
const NO_DATE: Pushed = Pushed::Changed(0);
const SRID_LOST: Pushed = Pushed::Changed(1);
const NOT_UTF8: Pushed = Pushed::Changed(2);
const EMPTY: Pushed = Pushed::Changed(3);

/// Strings or lists, one after another.
#[derive(Debug)]
pub(crate) struct Pieces<T> {
    /// Where each piece ends.
    ends: Vec<i32>,
    data: Vec<T>,
}

impl<T> Pieces<T> {
    const fn new() -> Self {
        Self { ends: Vec::new(), data: Vec::new() }
    }

    /// Ends the piece at the current end of the data.
    fn end(&mut self) -> Result<(), String> {
        let end = i32::try_from(self.data.len()).map_err(|_| "it is longer than an Arrow value can be".to_owned())?;
        self.ends.push(end);
        Ok(())
    }

    fn start(&self) -> usize {
        self.ends.last().copied().unwrap_or(0) as usize
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.data.truncate(self.start());
    }

    fn take(&mut self) -> (OffsetBuffer<i32>, Vec<T>) {
        let offsets: Vec<i32> = std::iter::once(0).chain(self.ends.drain(..)).collect();
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), renewed(&mut self.data))
    }
}

#[derive(Debug)]
enum Values {
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    UInt8(Vec<u8>),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal(Vec<i128>),
    WideDecimal(Vec<i256>),
    Date(Vec<i32>),
    Duration(Vec<i64>),
    Timestamp(Vec<i64>),
    /// Member numbers; 0 is the empty string that means no member.
    Enum(Vec<u16>, ArrayRef),
    Text(Pieces<u8>),
    Bytes(Pieces<u8>),
    Sixteen(Vec<[u8; 16]>),
    Vector(Pieces<f32>),
}

/// Does the same for all types: `$flat` or `$nested` with the values bound.
macro_rules! each {
    ($of:expr, $list:ident => $flat:expr, $pieces:ident => $nested:expr) => {
        match $of {
            Values::Int8($list) => $flat,
            Values::Int16($list) => $flat,
            Values::Int32($list) | Values::Date($list) => $flat,
            Values::Int64($list) | Values::Duration($list) | Values::Timestamp($list) => $flat,
            Values::UInt8($list) => $flat,
            Values::UInt16($list) | Values::Enum($list, _) => $flat,
            Values::UInt32($list) => $flat,
            Values::UInt64($list) => $flat,
            Values::Float($list) => $flat,
            Values::Double($list) => $flat,
            Values::Decimal($list) => $flat,
            Values::WideDecimal($list) => $flat,
            Values::Sixteen($list) => $flat,
            Values::Text($pieces) | Values::Bytes($pieces) => $nested,
            Values::Vector($pieces) => $nested,
        }
    };
}

impl Values {
    fn of(field: &Field, value: &ValueType) -> Self {
        match field.data_type() {
            DataType::Int8 => Self::Int8(Vec::new()),
            DataType::Int16 => Self::Int16(Vec::new()),
            DataType::Int32 => Self::Int32(Vec::new()),
            DataType::Int64 => Self::Int64(Vec::new()),
            DataType::UInt8 => Self::UInt8(Vec::new()),
            DataType::UInt16 => Self::UInt16(Vec::new()),
            DataType::UInt32 => Self::UInt32(Vec::new()),
            DataType::UInt64 => Self::UInt64(Vec::new()),
            DataType::Float32 => Self::Float(Vec::new()),
            DataType::Float64 => Self::Double(Vec::new()),
            DataType::Decimal128(..) => Self::Decimal(Vec::new()),
            DataType::Decimal256(..) => Self::WideDecimal(Vec::new()),
            DataType::Date32 => Self::Date(Vec::new()),
            DataType::Duration(_) => Self::Duration(Vec::new()),
            DataType::Timestamp(..) => Self::Timestamp(Vec::new()),
            DataType::Dictionary(..) => {
                let members = std::iter::once("").chain(value.members().iter().map(String::as_str));
                Self::Enum(Vec::new(), Arc::new(StringArray::from_iter_values(members)))
            }
            DataType::FixedSizeBinary(_) => Self::Sixteen(Vec::new()),
            DataType::List(_) => Self::Vector(Pieces::new()),
            DataType::Binary | DataType::BinaryView => Self::Bytes(Pieces::new()),
            _ => Self::Text(Pieces::new()),
        }
    }
}

/// Collects the values of one column.
#[derive(Debug)]
pub(crate) struct ColumnBuilder {
    field: Arc<Field>,
    value: ValueType,
    /// The spatial reference system in the column's declaration.
    srid: u32,
    /// See [`ValueType::empty_member`].
    empty_member: Option<usize>,
    nulls: NullBufferBuilder,
    values: Values,
}

impl ColumnBuilder {
    pub(crate) fn new(field: Arc<Field>, value: ValueType, srid: Option<u32>) -> Self {
        let values = Values::of(&field, &value);
        let empty_member = value.empty_member();
        Self { field, value, srid: srid.unwrap_or(0), empty_member, nulls: NullBufferBuilder::new(0), values }
    }

    /// Appends a NULL.
    pub(crate) fn push_null(&mut self) -> Result<Pushed, String> {
        if !self.field.is_nullable() {
            return Err("it is NULL, and the column is NOT NULL".to_owned());
        }
        self.blank()?;
        Ok(Pushed::Whole)
    }

    fn blank(&mut self) -> Result<(), String> {
        each!(&mut self.values, list => list.push(Default::default()), pieces => pieces.end()?);
        self.nulls.append_null();
        Ok(())
    }

    /// Appends a stored value.
    pub(crate) fn push(&mut self, stored: &[u8]) -> Result<Pushed, String> {
        match self.append(stored) {
            Ok(NO_DATE) => {
                self.blank()?;
                Ok(NO_DATE)
            }
            Ok(pushed) => {
                self.nulls.append_non_null();
                let is_empty = self.empty_member.and_then(|member| self.value.number_of_empty(member, stored));
                Ok(if is_empty.is_some() { EMPTY } else { pushed })
            }
            Err(why) => {
                // Remove the part that was written.
                self.truncate(self.nulls.len());
                Err(why)
            }
        }
    }

    /// Appends the value, but not its entry in the NULL bitmap. Appends nothing for a value that is not a date.
    fn append(&mut self, stored: &[u8]) -> Result<Pushed, String> {
        let said = |error: format::value::ValueError| error.to_string();
        if let Values::Text(text) = &mut self.values {
            self.value.write_text(stored, &mut text.data).map_err(said)?;
            return end_text(text);
        }
        match (&mut self.values, self.value.decode(stored).map_err(said)?) {
            (Values::Int8(list), Value::Int(number)) => list.push(number as i8),
            (Values::Int16(list), Value::Int(number)) => list.push(number as i16),
            (Values::Int32(list), Value::Int(number)) => list.push(number as i32),
            (Values::Int64(list), Value::Int(number)) => list.push(number),
            // Of wider types than the server's: see `Types::Lakehouse`.
            (Values::Int16(list), Value::UInt(number)) => list.push(number as i16),
            (Values::Int32(list), Value::UInt(number)) => list.push(number as i32),
            (Values::Int64(list), Value::UInt(number)) => list.push(number as i64),
            (Values::Int32(list), Value::Year(year)) => list.push(i32::from(year)),
            (Values::Int64(list), Value::Bit(bits)) => list.push(number_of(bits) as i64),
            (Values::Decimal(list), Value::Bit(bits)) => list.push(i128::from(number_of(bits))),
            (Values::Decimal(list), Value::UInt(number)) => list.push(i128::from(number)),
            (Values::Int64(list), Value::Time(time)) => list.push(time.as_micros()),
            (Values::UInt8(list), Value::UInt(number)) => list.push(number as u8),
            (Values::UInt16(list), Value::UInt(number)) => list.push(number as u16),
            (Values::UInt32(list), Value::UInt(number)) => list.push(number as u32),
            (Values::UInt64(list), Value::UInt(number)) => list.push(number),
            (Values::UInt16(list), Value::Year(year)) => list.push(year),
            (Values::UInt64(list), Value::Bit(bits)) => list.push(number_of(bits)),
            (Values::Float(list), Value::Float(number)) => list.push(number),
            (Values::Double(list), Value::Double(number)) => list.push(number),
            (Values::Enum(list, _), Value::Enum(number)) => list.push(number),
            (Values::Sixteen(list), Value::Uuid(uuid)) => list.push(uuid),
            (_, value) => return self.append_other(value, stored),
        }
        Ok(Pushed::Whole)
    }

    fn append_other(&mut self, value: Value<'_>, stored: &[u8]) -> Result<Pushed, String> {
        match (&mut self.values, value) {
            (Values::Decimal(list), Value::Decimal(digits)) => list.push(unscaled(digits, &self.value)?),
            (Values::WideDecimal(list), Value::Decimal(_)) => list.push(unscaled_wide(stored, &self.value)?),
            (Values::Date(list), Value::Date(date)) => match date.days() {
                Some(days) => list.push(days),
                None => return Ok(NO_DATE),
            },
            (Values::Duration(list), Value::Time(time)) => list.push(time.as_micros()),
            (Values::Timestamp(list), Value::DateTime(moment)) => match moment.as_micros() {
                Some(micros) => list.push(micros),
                None => return Ok(NO_DATE),
            },
            (Values::Timestamp(list), Value::Timestamp(moment)) => match moment {
                Some((seconds, micros)) => list.push(i64::from(seconds) * 1_000_000 + i64::from(micros)),
                None => return Ok(NO_DATE),
            },
            (Values::Bytes(list), Value::Bytes(bytes)) => {
                list.data.extend_from_slice(bytes);
                list.end()?;
            }
            (Values::Bytes(list), Value::Geometry(bytes)) => {
                let (srid, wkb) = geometry::split(bytes).ok_or("the bytes are not a geometry")?;
                list.data.extend_from_slice(wkb);
                list.end()?;
                return Ok(if srid == self.srid { Pushed::Whole } else { SRID_LOST });
            }
            (Values::Vector(list), Value::Vector(bytes)) => {
                let (numbers, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err("its length is not a multiple of four bytes".to_owned());
                }
                list.data.extend(numbers.iter().map(|number| format::value::float::single(*number)));
                list.end()?;
            }
            _ => return Err("innokit does not know its type".to_owned()),
        }
        Ok(Pushed::Whole)
    }

    /// Keeps only the first `len` values.
    pub(crate) fn truncate(&mut self, len: usize) {
        each!(&mut self.values, list => list.truncate(len), pieces => pieces.truncate(len));
        self.nulls.truncate(len);
    }

    /// Approximate size of the values in bytes.
    pub(crate) fn bytes(&self) -> usize {
        each!(&self.values, list => size_of_val(list.as_slice()), pieces => size_of_val(pieces.data.as_slice()) + 4 * pieces.ends.len())
    }

    /// Takes the values as an array, and leaves the builder empty.
    pub(crate) fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish();
        Ok(match &mut self.values {
            Values::Int8(list) => primitive::<arrow_array::types::Int8Type>(list, nulls)?,
            Values::Int16(list) => primitive::<arrow_array::types::Int16Type>(list, nulls)?,
            Values::Int32(list) => primitive::<arrow_array::types::Int32Type>(list, nulls)?,
            Values::Int64(list) => primitive::<arrow_array::types::Int64Type>(list, nulls)?,
            Values::UInt8(list) => primitive::<arrow_array::types::UInt8Type>(list, nulls)?,
            Values::UInt16(list) => primitive::<UInt16Type>(list, nulls)?,
            Values::UInt32(list) => primitive::<arrow_array::types::UInt32Type>(list, nulls)?,
            Values::UInt64(list) => primitive::<arrow_array::types::UInt64Type>(list, nulls)?,
            Values::Float(list) => primitive::<arrow_array::types::Float32Type>(list, nulls)?,
            Values::Double(list) => primitive::<arrow_array::types::Float64Type>(list, nulls)?,
            Values::Decimal(list) => {
                Arc::new(Decimal128Array::try_new(taken(list), nulls)?.with_data_type(self.field.data_type().clone()))
            }
            Values::WideDecimal(list) => {
                Arc::new(Decimal256Array::try_new(taken(list), nulls)?.with_data_type(self.field.data_type().clone()))
            }
            Values::Date(list) => Arc::new(Date32Array::try_new(taken(list), nulls)?),
            Values::Duration(list) => Arc::new(DurationMicrosecondArray::try_new(taken(list), nulls)?),
            Values::Timestamp(list) => Arc::new(
                TimestampMicrosecondArray::try_new(taken(list), nulls)?.with_data_type(self.field.data_type().clone()),
            ),
            Values::Enum(list, members) => {
                let keys = PrimitiveArray::<UInt16Type>::try_new(taken(list), nulls)?;
                Arc::new(DictionaryArray::try_new(keys, Arc::clone(members))?)
            }
            Values::Sixteen(list) => {
                let bytes = Buffer::from_vec(renewed(list).into_flattened());
                Arc::new(FixedSizeBinaryArray::try_new(16, bytes, nulls)?)
            }
            Values::Text(pieces) => {
                let (offsets, data) = pieces.take();
                let array = StringArray::try_new(offsets, Buffer::from_vec(data), nulls)?;
                // Views of the same bytes: nothing is copied.
                if self.field.data_type() == &DataType::Utf8View {
                    Arc::new(StringViewArray::from(&array))
                } else {
                    Arc::new(array)
                }
            }
            Values::Bytes(pieces) => {
                let (offsets, data) = pieces.take();
                let array = BinaryArray::try_new(offsets, Buffer::from_vec(data), nulls)?;
                if self.field.data_type() == &DataType::BinaryView {
                    Arc::new(BinaryViewArray::from(&array))
                } else {
                    Arc::new(array)
                }
            }
            Values::Vector(pieces) => {
                let (offsets, data) = pieces.take();
                let numbers = Float32Array::try_new(ScalarBuffer::from(data), None)?;
                Arc::new(ListArray::try_new(vector_item(), offsets, Arc::new(numbers), nulls)?)
            }
        })
    }
}

/// Takes the list, and leaves an empty one with as much room: the next batch has about as many values.
fn renewed<T>(list: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(list.len());
    std::mem::replace(list, room)
}

fn taken<T: ArrowNativeType>(list: &mut Vec<T>) -> ScalarBuffer<T> {
    ScalarBuffer::from(renewed(list))
}

fn primitive<T: ArrowPrimitiveType>(
    list: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(taken(list), nulls)?))
}

/// A BIT's number: at most eight bytes, the highest first.
fn number_of(bits: &[u8]) -> u64 {
    bits.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Ends a text whose bytes are already appended.
fn end_text(text: &mut Pieces<u8>) -> Result<Pushed, String> {
    let start = text.start();
    let written = text.data.get(start..).unwrap_or(&[]);
    if written.is_ascii() || std::str::from_utf8(written).is_ok() {
        text.end()?;
        return Ok(Pushed::Whole);
    }
    let valid = String::from_utf8_lossy(written).into_owned();
    text.data.truncate(start);
    text.data.extend_from_slice(valid.as_bytes());
    text.end()?;
    Ok(NOT_UTF8)
}

fn unscaled(stored: &[u8], value: &ValueType) -> Result<i128, String> {
    let format::value::ValueKind::Decimal { precision, scale } = value.kind else { return Err(NO_DECIMAL.to_owned()) };
    decimal::unscaled(stored, precision, scale).map_err(|error| error.to_string())?.ok_or_else(|| NO_DECIMAL.to_owned())
}

/// The unscaled value, from its digits: they are too many for a machine integer.
fn unscaled_wide(stored: &[u8], value: &ValueType) -> Result<i256, String> {
    let format::value::ValueKind::Decimal { precision, scale } = value.kind else { return Err(NO_DECIMAL.to_owned()) };
    let mut text = Vec::new();
    decimal::write(stored, precision, scale, 0, &mut text).map_err(|error| error.to_string())?;
    let digits: String = text.iter().filter(|byte| **byte != b'.').map(|byte| char::from(*byte)).collect();
    i256::from_string(&digits).ok_or_else(|| NO_DECIMAL.to_owned())
}

const NO_DECIMAL: &str = "the bytes are not a DECIMAL";

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Date32Type, Decimal128Type, Decimal256Type};
    use format::charset::Charset;
    use format::value::ValueKind;

    fn builder(data_type: DataType, nullable: bool, kind: ValueKind, bytes: Option<u16>) -> ColumnBuilder {
        let field = Arc::new(Field::new("c", data_type, nullable));
        ColumnBuilder::new(field, ValueType::new(kind, Charset::Utf8, bytes), None)
    }

    #[test]
    fn a_date_that_no_calendar_has_becomes_null_and_is_told() {
        let mut dates = builder(DataType::Date32, true, ValueKind::Date, Some(3));
        assert_eq!(dates.push(&[0x8f, 0xc8, 0x5d]), Ok(Pushed::Whole));
        // 31 February.
        assert_eq!(dates.push(&[0x8f, 0xc8, 0x5f]), Ok(NO_DATE));
        assert_eq!(dates.push(&[0x80, 0, 0]), Ok(NO_DATE));
        let array = dates.take().expect("an array");
        let array = array.as_primitive::<Date32Type>();
        assert_eq!((array.len(), array.null_count(), array.value(0)), (3, 2, 18_321));
    }

    #[test]
    fn a_refused_value_leaves_nothing_behind() {
        let mut text = builder(DataType::Utf8, false, ValueKind::Text, None);
        assert_eq!(text.push(b"one"), Ok(Pushed::Whole));
        assert!(text.push_null().is_err());
        assert_eq!(text.push(b"a\xff"), Ok(NOT_UTF8));
        text.truncate(1);
        assert_eq!(text.push("zwei".as_bytes()), Ok(Pushed::Whole));
        let array = text.take().expect("an array");
        assert_eq!(array.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["one", "zwei"]);
        let mut json = builder(DataType::Utf8, false, ValueKind::Json, None);
        // The end of an array is missing: the part that was written is removed.
        assert!(json.push(&[2, 1, 0, 9, 0, 12]).is_err());
        assert_eq!(json.push(&[5, 1, 0]), Ok(Pushed::Whole));
        assert_eq!(json.take().expect("an array").as_string::<i32>().value(0), "1");
    }

    #[test]
    fn views_show_the_same_text_without_a_copy_of_it() {
        let long = "longer than the twelve bytes that a view itself holds".repeat(3);
        let mut text = builder(DataType::Utf8View, true, ValueKind::Text, None);
        for value in ["", "short", long.as_str()] {
            assert_eq!(text.push(value.as_bytes()), Ok(Pushed::Whole));
        }
        assert_eq!(text.push_null(), Ok(Pushed::Whole));
        let bytes = match &text.values {
            Values::Text(pieces) => pieces.data.as_ptr(),
            _ => panic!("not text"),
        };
        let array = text.take().expect("an array");
        let array = array.as_string_view();
        assert_eq!(array.iter().collect::<Vec<_>>(), [Some(""), Some("short"), Some(long.as_str()), None]);
        assert_eq!(array.data_buffers().first().map(|buffer| buffer.as_ptr()), Some(bytes));
        let mut blobs = builder(DataType::BinaryView, false, ValueKind::Bytes, None);
        assert_eq!(blobs.push(long.as_bytes()), Ok(Pushed::Whole));
        assert_eq!(blobs.take().expect("an array").as_binary_view().value(0), long.as_bytes());
    }

    #[test]
    fn decimals_keep_all_digits() {
        let kind = |precision, scale| ValueKind::Decimal { precision, scale };
        let mut narrow = builder(DataType::Decimal128(10, 2), false, kind(10, 2), Some(5));
        assert_eq!(narrow.push(&[0x7f, 0xff, 0xff, 0xff, 0xfe]), Ok(Pushed::Whole));
        assert_eq!(narrow.take().expect("an array").as_primitive::<Decimal128Type>().value(0), -1);
        // 65 nines: two digits, then seven groups of nine.
        let mut stored = vec![0x80 | 99];
        stored.extend([0x3b, 0x9a, 0xc9, 0xff].repeat(7));
        let mut wide = builder(DataType::Decimal256(65, 0), false, kind(65, 0), Some(29));
        assert_eq!(wide.push(&stored), Ok(Pushed::Whole));
        let found = wide.take().expect("an array").as_primitive::<Decimal256Type>().value(0);
        assert_eq!(Some(found), i256::from_string(&"9".repeat(65)));
    }
}
