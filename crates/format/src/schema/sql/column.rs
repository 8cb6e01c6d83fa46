//! Parses a column of `CREATE TABLE`.

use super::tokens::{OLD_FORMAT, Token};
use super::{Cursor, SqlError, SqlTable, default_of, numbered};
use crate::charset::Charset;
use crate::kind::Family;
use crate::schema::types::set_bytes;
use crate::schema::{ColumnDef, ColumnDefault, Generated, GeometryKind, SqlType, Versioned, Visibility, charset};

/// Longest BLOB or TEXT for each size of its length field.
const BLOB_MAX: [u32; 3] = [255, 65_535, 16_777_215];

/// The arguments after the name of a type.
struct Arguments {
    numbers: Vec<u32>,
    texts: Vec<String>,
}

impl Arguments {
    fn read(cursor: &mut Cursor<'_>) -> Self {
        let inside = cursor.parentheses().unwrap_or(&[]);
        let text = |token: &Token| match token {
            Token::Text(text) => Some(text.clone()),
            _ => None,
        };
        Self {
            numbers: inside.iter().filter_map(Token::number).collect(),
            texts: inside.iter().filter_map(text).collect(),
        }
    }

    fn number(&self, place: usize) -> Option<u32> {
        self.numbers.get(place).copied()
    }

    fn digits(&self) -> u8 {
        self.number(0).and_then(|digits| u8::try_from(digits).ok()).unwrap_or(0)
    }
}

/// Attributes that decide how values are stored.
#[derive(Default)]
struct Attributes {
    unsigned: bool,
    old_format: bool,
    binary: bool,
    charset: Option<String>,
    collation: Option<String>,
    null: Option<bool>,
    /// `PRIMARY KEY` or `UNIQUE` after the column.
    key: Option<bool>,
}

/// A column, and whether it is declared as primary key (`true`) or unique.
pub(super) fn column(
    tokens: &[Token],
    table: &SqlTable,
    ordinal: usize,
) -> Result<(ColumnDef, Option<bool>), SqlError> {
    let mut cursor = Cursor(tokens);
    let name = cursor.name().ok_or_else(|| table.error("a column without a name"))?;
    let kind = cursor.name().ok_or_else(|| table.error(&format!("column {name} has no type")))?.to_ascii_lowercase();
    let kind = match (kind.as_str(), cursor.take("precision") || cursor.take("varying")) {
        ("national" | "long", _) => return Err(table.error(&format!("the type of column {name} is unknown"))),
        (kind, _) => kind.to_owned(),
    };
    let arguments = Arguments::read(&mut cursor);
    let mut def = ColumnDef::plain(&name, SqlType::Unknown(0));
    let mut attributes = Attributes::default();
    while !cursor.0.is_empty() {
        attribute(&mut cursor, &mut def, &mut attributes);
    }
    def.ordinal = ordinal as u32 + 1;
    let collation = collation(&attributes, table, &kind).ok_or_else(|| {
        table.error(&format!(
            "the character set of column {name} is unknown, or neither the column nor the table names one"
        ))
    });
    def.sql_type = sql_type(&kind, &arguments, &attributes, table.family, &collation)
        .ok_or_else(|| table.error(&format!("the type of column {name}, {kind}, is unknown")))?;
    let is_text = matches!(
        def.sql_type,
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Blob(_) | SqlType::Enum(_) | SqlType::Set(_)
    );
    def.collation = if is_text { collation? } else { charset::BINARY };
    def.unsigned = attributes.unsigned || def.zerofill;
    if let SqlType::Int { bytes, .. } = def.sql_type {
        def.sql_type = SqlType::Int { bytes, unsigned: def.unsigned };
    }
    let is_timestamp = matches!(def.sql_type, SqlType::Timestamp(_) | SqlType::OldTimestamp);
    // A TIMESTAMP is NOT NULL by default; every other column may be NULL.
    def.nullable = attributes.null.unwrap_or(!is_timestamp && !def.versioned_by_server());
    if attributes.key == Some(true) {
        def.nullable = false;
    }
    values(&mut def, &kind, &arguments)
        .ok_or_else(|| table.error(&format!("a member of column {name} cannot be written in its character set")))?;
    Ok((def, attributes.key))
}

/// Sets members, digits and widths. `None` if a member cannot be encoded in the charset.
fn values(def: &mut ColumnDef, kind: &str, arguments: &Arguments) -> Option<()> {
    match def.sql_type {
        SqlType::Enum(_) | SqlType::Set(_) => {
            let charset = Charset::of(def.collation);
            let member = |name: &String| encoded(charset, name);
            def.members = arguments.texts.iter().map(member).collect::<Option<_>>()?;
        }
        SqlType::Decimal { scale, .. } => def.decimals = Some(scale),
        SqlType::Float | SqlType::Double => {
            def.decimals = arguments.number(1).and_then(|decimals| u8::try_from(decimals).ok());
        }
        _ => {}
    }
    let by_default = match kind {
        "tinyint" => 3,
        "smallint" => 5,
        "mediumint" => 8,
        "int" | "integer" => 10,
        "bigint" => 20,
        "float" => 12,
        "double" | "real" => 22,
        _ => 0,
    };
    def.width = match def.sql_type {
        // The point counts; a sign does not if the value is zero-filled.
        SqlType::Decimal { precision, scale } => u32::from(precision) + u32::from(scale > 0) + u32::from(!def.unsigned),
        _ => arguments.number(0).unwrap_or(by_default),
    };
    Some(())
}

/// A member's name in the column's charset. Rows store only numbers, but we keep names as the servers do. `None` if a character takes more
/// than two bytes in an East Asian charset.
fn encoded(charset: Charset, text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for character in text.chars() {
        match charset {
            Charset::Utf8 | Charset::Binary => out.extend(character.encode_utf8(&mut [0; 4]).bytes()),
            Charset::Ucs2 | Charset::Utf16 => {
                out.extend(character.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_be_bytes()));
            }
            Charset::Utf16Le => {
                out.extend(character.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| {
                    let [high, low] = unit.to_be_bytes();
                    [low, high]
                }));
            }
            Charset::Utf32 => out.extend(u32::from(character).to_be_bytes()),
            _ => out.extend(searched(charset, character)?),
        }
    }
    Some(out)
}

/// Finds a character's code by trying all codes: the tables map only from code to character.
fn searched(charset: Charset, character: char) -> Option<Vec<u8>> {
    let mut wanted = [0; 4];
    let wanted = character.encode_utf8(&mut wanted).as_bytes();
    let mut text = Vec::new();
    let mut stands_for = |code: &[u8]| {
        text.clear();
        charset.to_utf8(code, &mut text);
        text == wanted
    };
    if let Some(byte) = (0..=u8::MAX).find(|byte| stands_for(&[*byte])) {
        return Some(vec![byte]);
    }
    let code = (0x8000..=u16::MAX).find(|code| stands_for(&code.to_be_bytes()))?;
    Some(code.to_be_bytes().to_vec())
}

fn attribute(cursor: &mut Cursor<'_>, def: &mut ColumnDef, attributes: &mut Attributes) {
    let Some(token) = cursor.next() else { return };
    let Token::Word(word) = token else {
        if token.is_sign('(') {
            cursor.skip_rest_of_parentheses();
        }
        return;
    };
    match word.to_ascii_lowercase().as_str() {
        "unsigned" => attributes.unsigned = true,
        "zerofill" => def.zerofill = true,
        "compressed" => {
            def.compressed = true;
            cursor.parentheses();
        }
        "binary" => attributes.binary = true,
        OLD_FORMAT => attributes.old_format = true,
        "character" if cursor.take("set") => attributes.charset = cursor.name(),
        "charset" => attributes.charset = cursor.name(),
        "collate" => attributes.collation = cursor.name(),
        "not" if cursor.take("null") => attributes.null = Some(false),
        "null" => attributes.null = Some(true),
        "default" => def.default = default(cursor),
        "on" if cursor.take("update") => {
            def.on_update_now = true;
            cursor.next();
        }
        "auto_increment" => def.auto_increment = true,
        "comment" => def.comment = cursor.text().unwrap_or_default(),
        "invisible" => def.visibility = Visibility::Invisible,
        "srid" | "ref_system_id" => {
            cursor.take_sign('=');
            def.srid = cursor.next().and_then(Token::number).filter(|srid| *srid != 0);
        }
        "without" if cursor.take("system") => def.versioned = Versioned::Without,
        "as" => generated(cursor, def),
        "stored" | "persistent" => {
            if let Some(generated) = &mut def.generated {
                generated.stored = true;
                def.is_virtual = false;
            }
        }
        "primary" => attributes.key = Some(true),
        "unique" => attributes.key = Some(false),
        // Index visibility, check names, and options of other storage engines.
        _ => {}
    }
}

/// After AS: an expression, or the start or end of a row's validity.
fn generated(cursor: &mut Cursor<'_>, def: &mut ColumnDef) {
    if cursor.take("row") {
        def.versioned = if cursor.take("start") { Versioned::RowStart } else { Versioned::RowEnd };
    } else {
        cursor.parentheses();
        def.is_virtual = true;
        def.generated = Some(Generated { stored: false, expression: String::new() });
    }
}

/// Parses the default value. Its stored bytes are not built.
fn default(cursor: &mut Cursor<'_>) -> ColumnDefault {
    if cursor.take("null") {
        return ColumnDefault::Null;
    }
    if cursor.parentheses().is_some() {
        return ColumnDefault::Expression(String::new());
    }
    cursor.take_sign('-');
    match cursor.next() {
        Some(Token::Text(text)) => ColumnDefault::Literal(text.clone()),
        // `b'101'`, `_utf8mb4'x'`
        Some(Token::Word(word)) => match cursor.text() {
            Some(text) => ColumnDefault::Literal(text),
            None if word.starts_with(|first: char| first.is_ascii_digit()) => ColumnDefault::Literal(word.clone()),
            None => ColumnDefault::Expression(word.clone()),
        },
        _ => ColumnDefault::None,
    }
}

fn collation(attributes: &Attributes, table: &SqlTable, kind: &str) -> Option<u16> {
    if kind.ends_with("blob") || kind.ends_with("binary") {
        return Some(charset::BINARY);
    }
    if kind == "json" {
        return numbered("utf8mb4_bin", table.family);
    }
    match (&attributes.collation, &attributes.charset) {
        (Some(collation), _) => numbered(collation, table.family),
        (None, Some(charset)) if attributes.binary => numbered(&format!("{charset}_bin"), table.family),
        (None, Some(charset)) => default_of(charset),
        (None, None) => table.collation,
    }
}

fn sql_type(
    kind: &str,
    arguments: &Arguments,
    attributes: &Attributes,
    family: Family,
    collation: &Result<u16, SqlError>,
) -> Option<SqlType> {
    let most = collation.as_ref().map_or(1, |collation| u32::from(charset::character_bytes(*collation).1));
    let length = |by_default: Option<u32>| Some(arguments.number(0).or(by_default)?.saturating_mul(most));
    let int = |bytes| SqlType::Int { bytes, unsigned: false };
    let timed =
        |old: SqlType, now: fn(u8) -> SqlType| if attributes.old_format { old } else { now(arguments.digits()) };
    Some(match kind {
        "tinyint" | "bool" | "boolean" => int(1),
        "smallint" => int(2),
        "mediumint" => int(3),
        "int" | "integer" => int(4),
        "bigint" => int(8),
        // FLOAT(25) to FLOAT(53) is DOUBLE.
        "float" if arguments.numbers.len() == 1 && arguments.number(0) > Some(24) => SqlType::Double,
        "float" => SqlType::Float,
        "double" | "real" => SqlType::Double,
        "decimal" | "numeric" | "dec" | "fixed" => SqlType::Decimal {
            precision: u8::try_from(arguments.number(0).unwrap_or(10)).ok()?,
            scale: u8::try_from(arguments.number(1).unwrap_or(0)).ok()?,
        },
        "year" => SqlType::Year,
        "date" => SqlType::Date,
        // The old formats have no fraction, except MariaDB's own.
        "time" if attributes.old_format && arguments.digits() > 0 => SqlType::HiresTime(arguments.digits()),
        "datetime" if attributes.old_format && arguments.digits() > 0 => SqlType::HiresDateTime(arguments.digits()),
        "timestamp" if attributes.old_format && arguments.digits() > 0 => SqlType::HiresTimestamp(arguments.digits()),
        "time" => timed(SqlType::OldTime, SqlType::Time),
        "datetime" => timed(SqlType::OldDateTime, SqlType::DateTime),
        "timestamp" => timed(SqlType::OldTimestamp, SqlType::Timestamp),
        "bit" => SqlType::Bit(u8::try_from(arguments.number(0).unwrap_or(1)).ok()?),
        "enum" => SqlType::Enum(if arguments.texts.len() < 256 { 1 } else { 2 }),
        "set" => SqlType::Set(set_bytes(arguments.texts.len())),
        "char" | "character" | "binary" => SqlType::Char(u16::try_from(length(Some(1))?).ok()?),
        "varchar" | "varbinary" => SqlType::Varchar(length(None)?),
        "tinytext" | "tinyblob" => SqlType::Blob(1),
        "text" | "blob" => SqlType::Blob(blob_bytes(length(Some(BLOB_MAX[1] / most))?)),
        "mediumtext" | "mediumblob" => SqlType::Blob(3),
        "longtext" | "longblob" => SqlType::Blob(4),
        // MariaDB's JSON is text with a check.
        "json" => {
            if family == Family::MySql {
                SqlType::Json
            } else {
                SqlType::Blob(4)
            }
        }
        "vector" => {
            let dimensions = arguments.number(0).unwrap_or(2048);
            if family == Family::MySql { SqlType::Vector(dimensions) } else { SqlType::MariaDbVector(dimensions) }
        }
        "uuid" => SqlType::Uuid,
        "inet6" => SqlType::Inet6,
        "inet4" => SqlType::Inet4,
        other => SqlType::Geometry(geometry(other)?),
    })
}

/// TEXT(n) is the smallest type for n characters.
fn blob_bytes(bytes: u32) -> u8 {
    let smaller = BLOB_MAX.iter().take_while(|most| bytes > **most).count();
    smaller as u8 + 1
}

fn geometry(kind: &str) -> Option<GeometryKind> {
    Some(match kind {
        "geometry" => GeometryKind::Geometry,
        "point" => GeometryKind::Point,
        "linestring" => GeometryKind::LineString,
        "polygon" => GeometryKind::Polygon,
        "multipoint" => GeometryKind::MultiPoint,
        "multilinestring" => GeometryKind::MultiLineString,
        "multipolygon" => GeometryKind::MultiPolygon,
        "geometrycollection" | "geomcollection" => GeometryKind::GeometryCollection,
        _ => return None,
    })
}
