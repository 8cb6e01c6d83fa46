//! The columns of a `.frm` file.

use std::collections::BTreeMap;

use super::{FrmError, HEADER, Reader};
use crate::page::space_format::Family;
use crate::schema::sdi::{decimal, set_bytes};
use crate::schema::{ColumnDef, SqlType, Visibility, charset};

/// Bytes of the form block; the columns follow after as many bytes more as it says.
const FORM: usize = 288;
const FIELD_BYTES: usize = 17;

const PACK_SIGNED: u16 = 0x1;
const PACK_NULLABLE: u16 = 0x8000;
/// Unireg code: MySQL 5.7 marks generated columns with this bit.
const GENERATED: u8 = 0x80;
/// Type code of virtual columns in MariaDB up to 10.1, and of JSON in MySQL 5.7.
const TYPE_JSON: u8 = 245;
/// Types of typed values above this are needed to read the file.
const OPTIONAL_BELOW: u8 = 128;
/// Bytes before the expressions of a MariaDB file.
const EXPRESSIONS_HEAD: usize = 16;

/// What MariaDB keeps beside the columns: who sees them, and the names of types of plugins.
#[derive(Default)]
struct Typed {
    visibility: Vec<u8>,
    types: BTreeMap<usize, Vec<u8>>,
}

/// Positions of the form block's parts.
struct Form {
    fields: usize,
    count: usize,
    names: usize,
    intervals: usize,
    expressions: usize,
    expressions_len: usize,
}

pub(super) fn columns(frm: &Reader<'_>, family: Family) -> Result<Vec<ColumnDef>, FrmError> {
    let extra = usize::from(frm.u16(4, "names")?);
    let typed = typed_values(frm, extra)?;
    let form = Form::read(frm, frm.u32(HEADER + extra, "form")? as usize)?;
    let names = frm.names(form.names, form.count, "names of columns")?;
    let members = members(frm.0.get(form.intervals..form.expressions).unwrap_or(&[]));
    let virtuals = match family {
        Family::MariaDb => mariadb_virtuals(frm, &form)?,
        Family::MySql => mysql_virtuals(frm, &form)?,
    };
    let mut columns = Vec::with_capacity(form.count);
    for (number, name) in names.into_iter().enumerate() {
        let at = form.fields + number * FIELD_BYTES;
        let field = Field::read(frm, at, family, &members, typed.types.get(&number).map(Vec::as_slice))?;
        let visibility = typed.visibility.get(number).copied().unwrap_or(0) & 3;
        columns.push(ColumnDef {
            // The hidden columns of long unique keys are computed, by no expression that is written down.
            is_virtual: virtuals.contains(&number) || visibility == 3,
            name,
            sql_type: field.sql_type,
            collation: field.collation,
            nullable: field.nullable,
            visibility: match visibility {
                0 => Visibility::Visible,
                1 | 2 => Visibility::Invisible,
                _ => Visibility::Hidden,
            },
            added: 0,
            dropped: None,
            physical_pos: None,
            instant_default: None,
        });
    }
    Ok(columns)
}

/// MySQL keeps names here, after a slash, which nobody needs.
fn typed_values(frm: &Reader<'_>, len: usize) -> Result<Typed, FrmError> {
    let mut typed = Typed::default();
    let mut rest = frm.bytes(HEADER, len, "typed values")?;
    if rest.first() == Some(&b'/') {
        return Ok(typed);
    }
    while let Some((kind, after)) = rest.split_first().filter(|_| rest.len() > 1) {
        let truncated = FrmError::Truncated { at: HEADER + len - rest.len(), what: "typed values" };
        let (value_len, after) = length(after).ok_or(truncated.clone())?;
        let (value, after) = after.split_at_checked(value_len).ok_or(truncated.clone())?;
        match kind {
            129 => typed.visibility = value.to_vec(),
            130 => typed.types = extended_types(value).ok_or(truncated)?,
            128 | 131 => {}
            kind if *kind < OPTIONAL_BELOW => {}
            _ => return Err(FrmError::Unknown { what: "values of an unknown type" }),
        }
        rest = after;
    }
    Ok(typed)
}

/// A length of one byte, or of two after a zero.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.split_first()? {
        (0, rest) => Some((usize::from(crate::pieces::le::u16_at(rest, 0)?), rest.get(2..)?)),
        (len, rest) => Some((usize::from(*len), rest)),
    }
}

/// Packed integer: below 251 one byte; 252 announces two.
fn packed(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.split_first()? {
        (252, rest) => Some((usize::from(crate::pieces::le::u16_at(rest, 0)?), rest.get(2..)?)),
        (value @ 0..=250, rest) => Some((usize::from(*value), rest)),
        _ => None,
    }
}

fn extended_types(mut rest: &[u8]) -> Option<BTreeMap<usize, Vec<u8>>> {
    let mut types = BTreeMap::new();
    while !rest.is_empty() {
        let (number, after) = packed(rest)?;
        let (len, after) = packed(after)?;
        let (name, after) = after.split_at_checked(len)?;
        types.insert(number, name.to_vec());
        rest = after;
    }
    Some(types)
}

impl Form {
    fn read(frm: &Reader<'_>, at: usize) -> Result<Self, FrmError> {
        let word = |offset: usize| frm.u16(at.saturating_add(offset), "form").map(usize::from);
        let count = word(258)?;
        let fields = at + FORM + word(260)?;
        let names = fields + count * FIELD_BYTES;
        let intervals = names + word(268)?;
        let comments = intervals + word(274)?;
        let expressions = comments + word(284)?;
        Ok(Self { fields, count, names, intervals, expressions, expressions_len: word(286)? })
    }
}

/// How many members each ENUM or SET has. A list begins with the byte that separates, and ends with zero.
fn members(mut lists: &[u8]) -> Vec<usize> {
    let mut counts = Vec::new();
    while let Some((separator, values)) = lists.split_first().filter(|(separator, _)| **separator != 0) {
        let Some(end) = values.windows(2).position(|pair| matches!(pair, [a, 0] if a == separator)) else { break };
        let list = values.get(..=end).unwrap_or(&[]);
        counts.push(list.iter().filter(|byte| *byte == separator).count());
        lists = values.get(end + 2..).unwrap_or(&[]);
    }
    counts
}

/// Numbers of the columns that are generated and not stored.
fn mariadb_virtuals(frm: &Reader<'_>, form: &Form) -> Result<Vec<usize>, FrmError> {
    let mut virtuals = Vec::new();
    if form.expressions_len <= EXPRESSIONS_HEAD {
        return Ok(virtuals);
    }
    if frm.u8(2, "format")? < 11 {
        return Err(FrmError::Unknown { what: "generated columns of a server before MariaDB 10.2" });
    }
    let mut at = form.expressions + EXPRESSIONS_HEAD;
    let end = form.expressions + form.expressions_len;
    while at < end {
        let (kind, field) = (frm.u8(at, "expression")?, usize::from(frm.u16(at + 1, "expression")?));
        if kind == 0 {
            virtuals.push(field);
        }
        let (text, name) = (usize::from(frm.u16(at + 3, "expression")?), usize::from(frm.u8(at + 5, "expression")?));
        at += 6 + name + text;
    }
    Ok(virtuals)
}

fn mysql_virtuals(frm: &Reader<'_>, form: &Form) -> Result<Vec<usize>, FrmError> {
    let mut virtuals = Vec::new();
    let mut at = form.expressions;
    for number in 0..form.count {
        if frm.u8(form.fields + number * FIELD_BYTES + 10, "column")? & GENERATED == 0 {
            continue;
        }
        if frm.u8(at + 3, "expression")? == 0 {
            virtuals.push(number);
        }
        at += 4 + usize::from(frm.u16(at + 1, "expression")?);
    }
    Ok(virtuals)
}

/// A column's 17 bytes, understood.
struct Field {
    sql_type: SqlType,
    collation: u16,
    nullable: bool,
}

impl Field {
    fn read(
        frm: &Reader<'_>,
        at: usize,
        family: Family,
        members: &[usize],
        extended: Option<&[u8]>,
    ) -> Result<Self, FrmError> {
        let bytes = frm.bytes(at, FIELD_BYTES, "column")?;
        let byte = |offset: usize| bytes.get(offset).copied().unwrap_or(0);
        let word = |offset: usize| u32::from(byte(offset)) | u32::from(byte(offset + 1)) << 8;
        let (width, pack, code) = (word(3), word(8) as u16, byte(13));
        let interval = usize::from(byte(12)).checked_sub(1).and_then(|at| members.get(at)).copied();
        if code == TYPE_JSON && family == Family::MariaDb {
            return Err(FrmError::Unknown { what: "generated columns of a server before MariaDB 10.2" });
        }
        let raw = Raw { code, width, pack, members: interval.unwrap_or(0) };
        let sql_type = match extended {
            Some(b"uuid" | b"inet6") => SqlType::Bytes(16),
            Some(b"inet4") => SqlType::Bytes(4),
            _ => raw.sql_type(),
        };
        let text = matches!(sql_type, SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Blob(_) | SqlType::Enum(_));
        let collation = if text { u16::from(byte(11)) << 8 | u16::from(byte(14)) } else { charset::BINARY };
        Ok(Self { sql_type, collation, nullable: pack & PACK_NULLABLE != 0 })
    }
}

/// Type code, width, flags, and members of an ENUM or SET.
struct Raw {
    code: u8,
    width: u32,
    pack: u16,
    members: usize,
}

impl Raw {
    fn sql_type(&self) -> SqlType {
        let int = |bytes| SqlType::Int { bytes, unsigned: self.pack & PACK_SIGNED == 0 };
        let digits = |base: u32| u8::try_from(self.width.saturating_sub(base)).unwrap_or(0).min(6);
        match self.code {
            1 => int(1),
            2 => int(2),
            3 => int(4),
            8 => int(8),
            9 => int(3),
            4 => SqlType::Float,
            5 => SqlType::Double,
            7 => {
                hires(digits(20), [1, 1, 2, 2, 3, 3]).map_or(SqlType::OldTimestamp, |n| SqlType::HiresTimestamp(4 + n))
            }
            11 => hires(digits(11), [4, 4, 5, 5, 5, 6]).map_or(SqlType::OldTime, SqlType::HiresTime),
            12 => hires(digits(20), [6, 6, 7, 7, 7, 8]).map_or(SqlType::OldDateTime, SqlType::HiresDateTime),
            13 => SqlType::Year,
            14 => SqlType::Date,
            15 => SqlType::Varchar(self.width),
            16 => SqlType::Bit(u8::try_from(self.width).unwrap_or(64)),
            17 => SqlType::Timestamp(digits(20)),
            18 => SqlType::DateTime(digits(20)),
            19 => SqlType::Time(digits(11)),
            TYPE_JSON => SqlType::Json,
            246 => decimal(self.width, u32::from(self.pack >> 8 & 0x3F), self.pack & PACK_SIGNED == 0),
            247 => SqlType::Enum(if self.members < 256 { 1 } else { 2 }),
            248 => SqlType::Set(set_bytes(self.members)),
            249 => SqlType::Blob(1),
            250 => SqlType::Blob(3),
            251 => SqlType::Blob(4),
            252 => SqlType::Blob(2),
            254 => SqlType::Char(u16::try_from(self.width).unwrap_or(u16::MAX)),
            255 => SqlType::Geometry,
            other => SqlType::Unknown(other),
        }
    }
}

/// Bytes of MariaDB's own times with a fraction of so many digits; `None` without one.
fn hires(digits: u8, bytes: [u8; 6]) -> Option<u8> {
    bytes.get(usize::from(digits.checked_sub(1)?)).copied()
}
