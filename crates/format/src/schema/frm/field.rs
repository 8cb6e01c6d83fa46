//! The columns of a `.frm` file.

use super::error::FrmError;
use super::expressions::{ExpressionPlace, Expressions, OfColumn};
use super::reader::{HEADER, OPTION_PACK_RECORD, Reader};
use super::typed::Typed;
use crate::kind::Family;
use crate::schema::types::{decimal, set_bytes};
use crate::schema::{CheckDef, ColumnDef, ColumnDefault, GeometryKind, SqlType, Versioned, Visibility, charset};

/// Length of the form block. The columns follow after a number of further bytes that the block gives.
const FORM: usize = 288;
const FIELD_BYTES: usize = 17;

const PACK_SIGNED: u16 = 0x1;
const PACK_ZEROFILL: u16 = 0x4;
/// MariaDB, of an ENUM or SET: its members are in hexadecimal.
const PACK_HEX: u16 = 0x1000;
const PACK_NO_DEFAULT: u16 = 0x4000;
const PACK_NULLABLE: u16 = 0x8000;
/// Decimal digits stored for a FLOAT or DOUBLE that declares none.
const NOT_FIXED: u8 = 31;
/// Unireg code: MySQL 5.7 sets this bit for generated columns.
const GENERATED: u8 = 0x80;
const UNIREG_AUTO_INCREMENT: u8 = 15;
const UNIREG_DEFAULT_NOW: u8 = 21;
const UNIREG_UPDATE_NOW: u8 = 22;
const UNIREG_BOTH_NOW: u8 = 23;
const UNIREG_COMPRESSED: u8 = 24;
/// Type code of virtual columns in MariaDB up to 10.1, and of JSON in MySQL 5.7.
const TYPE_JSON: u8 = 245;
/// A typed flag of a column: changes to it leave no history.
const FLAG_WITHOUT_VERSIONING: u8 = 8;

/// Positions of the form block's parts.
struct Form {
    fields: usize,
    count: usize,
    names: usize,
    intervals: usize,
    comments: usize,
    expressions: usize,
    expressions_len: usize,
}

/// The columns, and the checks of the table.
pub(super) struct Columns {
    pub columns: Vec<ColumnDef>,
    pub checks: Vec<CheckDef>,
    pub typed: Typed,
    pub form_at: usize,
}

pub(super) fn columns(frm: &Reader<'_>, family: Family) -> Result<Columns, FrmError> {
    let extra = usize::from(frm.u16(4, "names")?);
    let typed = Typed::read(frm, extra)?;
    let form_at = frm.u32(HEADER + extra, "form")? as usize;
    let form = Form::read(frm, form_at)?;
    let names = frm.names(form.names, form.count, "names of columns")?;
    let members = members(frm.0.get(form.intervals..form.comments).unwrap_or(&[]));
    let at = |number: usize| form.fields + number * FIELD_BYTES;
    let mut mysql_generated = Vec::new();
    for number in 0..form.count {
        if frm.u8(at(number) + 10, "column")? & GENERATED != 0 {
            mysql_generated.push(number);
        }
    }
    let place = ExpressionPlace { at: form.expressions, len: form.expressions_len, mysql_generated };
    let mut expressions = Expressions::read(frm, family, &place)?;
    let (mut columns, mut raws, mut comment, mut geometries) = (Vec::with_capacity(form.count), Vec::new(), 0, 0);
    for (number, name) in names.into_iter().enumerate() {
        let raw = Raw::read(frm, at(number), family, &members)?;
        let own = expressions.columns.remove(&number).unwrap_or_default();
        let mut column = raw.column(&name, number, &typed, own)?;
        let comment_len = usize::from(raw.comment_len);
        let text = frm.bytes(form.comments + comment, comment_len, "comments of columns")?;
        column.comment = String::from_utf8_lossy(text).into_owned();
        comment += comment_len;
        if matches!(column.sql_type, SqlType::Geometry(_)) {
            column.srid = typed.srids.get(geometries).copied().filter(|srid| *srid != 0);
            geometries += 1;
        }
        columns.push(column);
        raws.push(raw);
    }
    defaults(frm, family, &mut columns, &raws)?;
    Ok(Columns { columns, checks: expressions.checks, typed, form_at })
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
        Ok(Self { fields, count, names, intervals, comments, expressions, expressions_len: word(286)? })
    }
}

/// The members of each ENUM or SET. A list starts with its separator byte and ends with zero.
fn members(mut lists: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    while let Some((separator, values)) = lists.split_first().filter(|(separator, _)| **separator != 0) {
        let Some(end) = values.windows(2).position(|pair| matches!(pair, [a, 0] if a == separator)) else { break };
        let list = values.get(..end).unwrap_or(&[]);
        all.push(list.split(|byte| byte == separator).map(<[u8]>::to_vec).collect());
        lists = values.get(end + 2..).unwrap_or(&[]);
    }
    all
}

/// A column's 17 bytes.
struct Raw {
    code: u8,
    width: u32,
    pack: u16,
    unireg: u8,
    /// Where its default starts in the row image.
    image_at: usize,
    members: Vec<Vec<u8>>,
    charset_low: u8,
    charset_high: u8,
    comment_len: u16,
    family: Family,
}

impl Raw {
    fn read(frm: &Reader<'_>, at: usize, family: Family, lists: &[Vec<Vec<u8>>]) -> Result<Self, FrmError> {
        let bytes = frm.bytes(at, FIELD_BYTES, "column")?;
        let byte = |offset: usize| bytes.get(offset).copied().unwrap_or(0);
        let word = |offset: usize| u16::from(byte(offset)) | u16::from(byte(offset + 1)) << 8;
        if byte(13) == TYPE_JSON && family == Family::MariaDb {
            return Err(FrmError::Unknown { what: "generated columns of a server before MariaDB 10.2" });
        }
        let list = usize::from(byte(12)).checked_sub(1).and_then(|at| lists.get(at));
        let image_at = (usize::from(word(5)) | usize::from(byte(7)) << 16).saturating_sub(1);
        Ok(Self {
            code: byte(13),
            width: u32::from(word(3)),
            pack: word(8),
            unireg: byte(10),
            image_at,
            members: list.cloned().unwrap_or_default(),
            charset_low: byte(14),
            charset_high: byte(11),
            comment_len: word(15),
            family,
        })
    }

    fn column(&self, name: &str, number: usize, typed: &Typed, own: OfColumn) -> Result<ColumnDef, FrmError> {
        let sql_type = match typed.types.get(&number).map(Vec::as_slice) {
            Some(b"uuid") => SqlType::Uuid,
            Some(b"inet6") => SqlType::Inet6,
            Some(b"inet4") => SqlType::Inet4,
            Some(b"vector") => SqlType::MariaDbVector(self.width / 4),
            Some(_) => return Err(FrmError::Unknown { what: "a column of a type from a plugin" }),
            None => self.sql_type(),
        };
        let flags = typed.flags.get(number).copied().unwrap_or(0);
        let hidden = flags & 3 == 3;
        let number_like = matches!(
            sql_type,
            SqlType::Int { .. } | SqlType::Float | SqlType::Double | SqlType::Decimal { .. } | SqlType::Year
        );
        // The hidden columns of long unique keys are computed by an expression that is not stored.
        let is_virtual = hidden || own.generated.as_ref().is_some_and(|generated| !generated.stored);
        let (start, end) = typed.system_time.unwrap_or((usize::MAX, usize::MAX));
        Ok(ColumnDef {
            ordinal: number as u32 + 1,
            collation: self.collation(sql_type),
            nullable: self.pack & PACK_NULLABLE != 0,
            unsigned: number_like && self.pack & PACK_SIGNED == 0,
            zerofill: number_like && self.pack & PACK_ZEROFILL != 0,
            width: self.width,
            decimals: self.decimals(sql_type),
            members: self.unescaped(sql_type),
            compressed: self.family == Family::MariaDb && self.unireg == UNIREG_COMPRESSED,
            is_virtual,
            generated: own.generated,
            versioned: match number {
                _ if number == start => Versioned::RowStart,
                _ if number == end => Versioned::RowEnd,
                _ if flags & FLAG_WITHOUT_VERSIONING != 0 => Versioned::Without,
                _ => Versioned::No,
            },
            visibility: match flags & 3 {
                0 => Visibility::Visible,
                1 | 2 => Visibility::Invisible,
                _ => Visibility::Hidden,
            },
            default: own.default.map_or(ColumnDefault::Image, ColumnDefault::Expression),
            on_update_now: matches!(self.unireg, UNIREG_UPDATE_NOW | UNIREG_BOTH_NOW),
            auto_increment: self.unireg == UNIREG_AUTO_INCREMENT,
            check: own.check,
            ..ColumnDef::plain(name, sql_type)
        })
    }

    fn collation(&self, sql_type: SqlType) -> u16 {
        let text = matches!(
            sql_type,
            SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Blob(_) | SqlType::Enum(_) | SqlType::Set(_)
        );
        if text { u16::from(self.charset_high) << 8 | u16::from(self.charset_low) } else { charset::BINARY }
    }

    fn decimals(&self, sql_type: SqlType) -> Option<u8> {
        let declared = (self.pack >> 8 & 0x3F) as u8;
        match sql_type {
            SqlType::Decimal { scale, .. } => Some(scale),
            SqlType::Float | SqlType::Double => Some(declared).filter(|decimals| *decimals != NOT_FIXED),
            _ => None,
        }
    }

    /// The members, decoded: they are in hexadecimal if the charset has no single-byte characters or, in MariaDB, if one of them contains a
    /// byte that ends a list.
    fn unescaped(&self, sql_type: SqlType) -> Vec<Vec<u8>> {
        let is_hex = self.family == Family::MariaDb && self.pack & PACK_HEX != 0;
        if charset::character_bytes(self.collation(sql_type)).0 == 1 && !is_hex {
            return self.members.clone();
        }
        let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8; 2]| Some(digit(&pair[0])? << 4 | digit(&pair[1])?);
        let member = |hex: &Vec<u8>| hex.as_chunks::<2>().0.iter().map(byte).collect::<Option<Vec<u8>>>();
        self.members.iter().map(|hex| member(hex).unwrap_or_else(|| hex.clone())).collect()
    }

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
            7 => hires(digits(20), SqlType::OldTimestamp, SqlType::HiresTimestamp),
            11 => hires(digits(11), SqlType::OldTime, SqlType::HiresTime),
            12 => hires(digits(20), SqlType::OldDateTime, SqlType::HiresDateTime),
            13 => SqlType::Year,
            14 => SqlType::Date,
            15 => SqlType::Varchar(self.width),
            16 => SqlType::Bit(u8::try_from(self.width).unwrap_or(64)),
            17 => SqlType::Timestamp(digits(20)),
            18 => SqlType::DateTime(digits(20)),
            19 => SqlType::Time(digits(11)),
            TYPE_JSON => SqlType::Json,
            246 => decimal(self.width, u32::from(self.pack >> 8 & 0x3F), self.pack & PACK_SIGNED == 0),
            247 => SqlType::Enum(if self.members.len() < 256 { 1 } else { 2 }),
            248 => SqlType::Set(set_bytes(self.members.len())),
            249 => SqlType::Blob(1),
            250 => SqlType::Blob(3),
            251 => SqlType::Blob(4),
            252 => SqlType::Blob(2),
            254 => SqlType::Char(u16::try_from(self.width).unwrap_or(u16::MAX)),
            255 => SqlType::Geometry(GeometryKind::from_number(self.charset_low)),
            other => SqlType::Unknown(other),
        }
    }
}

/// MariaDB's own temporal types have a fraction; without one they use the old format.
fn hires(digits: u8, old: SqlType, hires: impl Fn(u8) -> SqlType) -> SqlType {
    if digits == 0 { old } else { hires(digits) }
}

/// Reads defaults that are not expressions from the image of a default row.
fn defaults(frm: &Reader<'_>, family: Family, columns: &mut [ColumnDef], raws: &[Raw]) -> Result<(), FrmError> {
    let image = image(frm)?;
    let marker = frm.u16(30, "options")? & OPTION_PACK_RECORD == 0;
    // MySQL numbers the NULL bits of virtual columns last.
    let late = |column: &ColumnDef| family == Family::MySql && column.is_virtual;
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|number| columns.get(*number).is_some_and(late));
    let mut bit = usize::from(marker);
    for number in order {
        let (Some(column), Some(raw)) = (columns.get_mut(number), raws.get(number)) else { continue };
        let is_null = column.nullable && image.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
        bit += usize::from(column.nullable);
        column.default_image = column
            .image_len()
            .and_then(|len| image.get(raw.image_at..)?.get(..len))
            .map_or_else(Vec::new, <[u8]>::to_vec);
        if column.default == ColumnDefault::Image {
            column.default = raw.default(column, is_null);
        }
    }
    Ok(())
}

/// The row image, which follows the keys.
fn image<'a>(frm: &Reader<'a>) -> Result<&'a [u8], FrmError> {
    let keys = match frm.u16(14, "keys")? {
        u16::MAX => frm.u32(47, "keys")? as usize,
        len => usize::from(len),
    };
    let at = usize::from(frm.u16(6, "keys")?).saturating_add(keys);
    frm.bytes(at, usize::from(frm.u16(16, "defaults")?), "defaults")
}

impl Raw {
    fn default(&self, column: &ColumnDef, is_null: bool) -> ColumnDefault {
        if column.generated.is_some() || column.auto_increment || column.versioned_by_server() {
            return ColumnDefault::None;
        }
        if matches!(self.unireg, UNIREG_DEFAULT_NOW | UNIREG_BOTH_NOW) {
            return ColumnDefault::Expression("CURRENT_TIMESTAMP".to_owned());
        }
        match (self.pack & PACK_NO_DEFAULT != 0, is_null) {
            // In the row of defaults every nullable column is NULL, with or without a default.
            (true, _) => ColumnDefault::None,
            (false, true) => ColumnDefault::Null,
            (false, false) if column.default_image.is_empty() => ColumnDefault::None,
            (false, false) => ColumnDefault::Image,
        }
    }
}
