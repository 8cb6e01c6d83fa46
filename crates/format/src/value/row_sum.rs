//! A row's contribution to `CHECKSUM TABLE`.
//!
//! ```text
//! CRC-32 over [null bytes][each column's bytes in the server's own row], summed over all rows modulo 2^32
//! ```
//!
//! Facts: `sql_table.cc` of MySQL 5.7 to 9.7, `handler.cc` of MariaDB 10.1 to 11.8; compared with the values of both servers.

use super::image::Image;
use super::{ValueError, ValueType};
use crate::kind::Family;
use crate::schema::{ColumnDef, ColumnDefault, SqlType, TableDef, Visibility};

/// MySQL before this version summed a pointer for each JSON value.
const JSON_AS_TEXT: u32 = 80_000;

/// Where MariaDB's versions differ: 10.11.19 still leaves out stored generated columns, 11.8.9 includes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Every stored column counts. The only form in MySQL.
    All,
    /// Stored generated columns do not count: older MariaDB servers.
    WithoutGenerated,
}

/// A stored value to sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summed<'v> {
    /// NULL.
    Null,
    /// These bytes.
    Stored(&'v [u8]),
}

#[derive(Debug, Clone)]
pub(super) struct Column {
    /// Its index in the table's definition.
    column: usize,
    value: ValueType,
    /// How stored bytes become those of the server's row; `None` if copying is not enough.
    pub(super) image: Option<Image>,
    pub(super) null_bit: Option<u16>,
    /// The bytes summed for a NULL.
    pub(super) null_image: Vec<u8>,
    generated: bool,
}

/// How to sum the rows of one table.
#[derive(Debug, Clone)]
pub struct RowSum {
    pub(super) columns: Vec<Column>,
    /// The null bytes of a row without NULLs.
    pub(super) null_bytes: Vec<u8>,
    /// Null bits of stored generated columns, always set in the older form.
    generated_bits: Vec<u16>,
    image: Vec<u8>,
}

/// Whether the server's row has the column.
fn counts(column: &ColumnDef, family: Family) -> bool {
    let hash = family == Family::MariaDb && column.is_virtual;
    column.dropped.is_none() && (column.visibility != Visibility::Hidden || hash)
}

impl RowSum {
    /// Makes the sum for the rows of `table`.
    ///
    /// # Errors
    /// The reason why the files do not show what the server sums, as a clause.
    pub fn new(table: &TableDef) -> Result<Self, String> {
        let mysql = table.family == Family::MySql;
        for column in table.columns.iter().filter(|column| counts(column, table.family)) {
            let name = &column.name;
            if mysql && column.is_virtual {
                return Err(format!("its column {name} is virtual, and the server sums values that no file holds"));
            }
            // A definition from SQL has only the text of the default, not its bytes.
            let has_default = matches!(column.default, ColumnDefault::Literal(_)) && column.default_image.is_empty();
            if mysql && column.nullable && has_default {
                return Err(format!(
                    "its column {name} has a default whose stored bytes the server sums for each NULL"
                ));
            }
            if mysql && column.sql_type == SqlType::Json && (1..JSON_AS_TEXT).contains(&table.server_version) {
                return Err(format!("its column {name} is JSON: MySQL 5.7 sums a memory address instead of its value"));
            }
        }
        let mut sum =
            Self { columns: Vec::new(), null_bytes: Vec::new(), generated_bits: Vec::new(), image: Vec::new() };
        let mut next_bit = u16::from(!table.pack_record);
        let mut always = if table.pack_record { Vec::new() } else { vec![0] };
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| counts(column, table.family)) {
            let null_bit = column.nullable.then_some(next_bit);
            next_bit += u16::from(column.nullable);
            if column.is_virtual {
                always.extend(null_bit);
                continue;
            }
            let generated = column.generated.as_ref().is_some_and(|generated| generated.stored);
            if generated && !mysql {
                sum.generated_bits.extend(null_bit);
            }
            let value = ValueType::of(column);
            let mut null_image = Vec::new();
            if mysql {
                null_image_of(column, &value, &mut null_image);
            }
            let image = Image::of(&value);
            sum.columns.push(Column { column: at, value, image, null_bit, null_image, generated: generated && !mysql });
        }
        sum.null_bytes = vec![0; usize::from(next_bit).div_ceil(8)];
        for bit in always {
            set(&mut sum.null_bytes, bit);
        }
        if let Some(last) = sum.null_bytes.last_mut() {
            *last |= match next_bit % 8 {
                // MySQL sets all bits if none is spare.
                0 if mysql => 0xFF,
                0 => 0,
                used => 0xFF << used,
            };
        }
        Ok(sum)
    }

    /// The columns that count, by index in the table's definition; [`RowSum`] takes their values in this order.
    pub fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().map(|column| column.column)
    }

    /// Whether the two forms differ for this table.
    #[must_use]
    pub fn has_forms(&self) -> bool {
        self.columns.iter().any(|column| column.generated)
    }

    /// A row's contribution in one of the forms.
    ///
    /// # Errors
    /// The index of the value (as passed) that is not of its type, and why.
    pub fn row<'v>(
        &mut self,
        form: Form,
        mut value: impl FnMut(usize) -> Summed<'v>,
    ) -> Result<u32, (usize, ValueError)> {
        self.image.clear();
        self.image.extend_from_slice(&self.null_bytes);
        let older = form == Form::WithoutGenerated;
        if older {
            self.generated_bits.iter().for_each(|bit| set(&mut self.image, *bit));
        }
        // Large values are summed where they are: a second copy of a value may not fit into memory.
        let mut large: Vec<(usize, &'v [u8])> = Vec::new();
        for (number, column) in self.columns.iter().enumerate().filter(|(_, column)| !(older && column.generated)) {
            match value(number) {
                Summed::Stored(stored)
                    if stored.len() >= LARGE && column.image == Some(Image::Copied { bytes: None }) =>
                {
                    large.push((self.image.len(), stored));
                }
                Summed::Stored(stored) => {
                    column.value.write_image(stored, &mut self.image).map_err(|error| (number, error))?;
                }
                Summed::Null => {
                    if let Some(bit) = column.null_bit {
                        set(&mut self.image, bit);
                    }
                    self.image.extend_from_slice(&column.null_image);
                }
            }
        }
        let (mut crc, mut rest) = (crc32fast::Hasher::new(), self.image.as_slice());
        let mut before = 0;
        for (place, value) in large {
            let (part, after) = rest.split_at_checked(place - before).unwrap_or((rest, &[]));
            crc.update(part);
            crc.update(value);
            (before, rest) = (place, after);
        }
        crc.update(rest);
        Ok(crc.finalize())
    }
}

/// Values of this many bytes are not copied.
const LARGE: usize = 1 << 20;

pub(super) fn set(bytes: &mut [u8], bit: u16) {
    if let Some(byte) = bytes.get_mut(usize::from(bit / 8)) {
        *byte |= 1 << (bit % 8);
    }
}

/// The bytes that MySQL sums for a NULL.
fn null_image_of(column: &ColumnDef, value: &ValueType, out: &mut Vec<u8>) {
    let default = column.default_image.as_slice();
    match column.sql_type {
        // Its characters, without the length before them.
        SqlType::Varchar(most) => {
            let (len, rest) = default.split_at_checked(if most > 255 { 2 } else { 1 }).unwrap_or((&[], &[]));
            let len = len.iter().rev().fold(0, |len: usize, byte| len << 8 | usize::from(*byte));
            out.extend_from_slice(rest.get(..len).unwrap_or(&[]));
        }
        SqlType::Blob(_) => {}
        _ => value.write_null_image(default, out),
    }
}
