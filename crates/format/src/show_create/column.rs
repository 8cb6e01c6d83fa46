//! Prints the line of a column.

use super::literal::default_literal;
use crate::kind::Family;
use crate::schema::charset::{BINARY, character_bytes};
use crate::schema::collations::Collation;
use crate::schema::quoted::quoted_name;
use crate::schema::quoted::{quoted, quoted_bytes};
use crate::schema::{ColumnDef, ColumnDefault, GeometryKind, SqlType, TableDef, Versioned, Visibility};

/// MariaDB prints INVISIBLE after all but the comment and the CHECK from this version on, before that after NOT NULL. Engine options have
/// changed places with the comment.
const MARIADB_LATE_INVISIBLE: u32 = 110_000;

/// The column as a line of CREATE TABLE.
pub(super) fn definition(table: &TableDef, column: &ColumnDef) -> String {
    let mut sql = format!("{} {}", quoted_name(&column.name), type_name(table.family, column));
    if column.compressed {
        sql.push_str(" /*M!100301 COMPRESSED*/");
    }
    sql.push_str(&charset(table, column));
    match table.family {
        Family::MySql => mysql(column, &mut sql),
        Family::MariaDb => mariadb(table, column, &mut sql),
    }
    sql
}

fn mysql(column: &ColumnDef, sql: &mut String) {
    generated(column, sql);
    nullability(column, sql);
    if let Some(srid) = column.srid {
        sql.push_str(&format!(" /*!80003 SRID {srid} */"));
    }
    sql.push_str(&column.ndb_options);
    if column.not_secondary {
        sql.push_str(" NOT SECONDARY");
    }
    if column.generated.is_none() {
        match &column.default {
            ColumnDefault::Expression(text) if is_now(text) => sql.push_str(&format!(" DEFAULT {text}")),
            ColumnDefault::Expression(text) => sql.push_str(&format!(" DEFAULT ({text})")),
            // BLOB and TEXT have no default but NULL, which is not printed.
            ColumnDefault::Null if matches!(column.sql_type, SqlType::Blob(_)) => {}
            other => default((Family::MySql, 0), column, other, sql),
        }
    }
    if column.on_update_now {
        sql.push_str(&format!(" ON UPDATE CURRENT_TIMESTAMP{}", fraction(column)));
    }
    if column.auto_increment {
        sql.push_str(" AUTO_INCREMENT");
    }
    if column.visibility == Visibility::Invisible {
        sql.push_str(" /*!80023 INVISIBLE */");
    }
    comment(column, sql);
}

fn mariadb(table: &TableDef, column: &ColumnDef, sql: &mut String) {
    let invisible = column.visibility == Visibility::Invisible;
    let late = table.server_version >= MARIADB_LATE_INVISIBLE;
    match column.versioned {
        Versioned::RowStart | Versioned::RowEnd => {
            let which = if column.versioned == Versioned::RowStart { "START" } else { "END" };
            sql.push_str(&format!(" GENERATED ALWAYS AS ROW {which}"));
        }
        _ => {
            generated(column, sql);
            if column.generated.is_none() {
                nullability(column, sql);
            }
        }
    }
    if invisible && !late {
        sql.push_str(" INVISIBLE");
    }
    if column.generated.is_none() {
        match &column.default {
            ColumnDefault::Expression(text) if is_now(text) => {
                sql.push_str(&format!(" DEFAULT current_timestamp({})", fraction_digits(column)));
            }
            ColumnDefault::Expression(text) if stands_alone(text) => sql.push_str(&format!(" DEFAULT {text}")),
            ColumnDefault::Expression(text) => sql.push_str(&format!(" DEFAULT ({text})")),
            other => default((Family::MariaDb, table.server_version), column, other, sql),
        }
    }
    if column.versioned == Versioned::Without {
        sql.push_str(" WITHOUT SYSTEM VERSIONING");
    }
    if column.on_update_now {
        sql.push_str(&format!(" ON UPDATE current_timestamp({})", fraction_digits(column)));
    }
    if column.auto_increment {
        sql.push_str(" AUTO_INCREMENT");
    }
    if invisible && late {
        sql.push_str(" INVISIBLE");
    }
    if late {
        engine_options(table, column, sql);
    }
    comment(column, sql);
    if !late {
        engine_options(table, column, sql);
    }
    if let Some(check) = &column.check {
        sql.push_str(&format!(" CHECK ({check})"));
    }
}

fn engine_options(table: &TableDef, column: &ColumnDef, sql: &mut String) {
    let options = table.declared.column_options.get((column.ordinal as usize).wrapping_sub(1));
    options.filter(|options| !options.is_empty()).into_iter().for_each(|options| sql.extend([" ", options]));
}

fn is_now(text: &str) -> bool {
    text.starts_with("CURRENT_TIMESTAMP")
}

/// Literals, columns, variables and function calls need no parentheses, but what casts has them, unless it is to a date or a time.
fn stands_alone(text: &str) -> bool {
    let inner = text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    if inner.is_some_and(|name| !name.replace("``", "").contains('`')) || text.starts_with('@') {
        return true;
    }
    // `_latin1'a'`, `x'00'`
    let prefix = text.find('\'').map_or("", |at| text.get(..at).unwrap_or_default());
    let is_prefix = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let literal = is_prefix && text.ends_with('\'') && text.matches('\'').count() == 2 || text.parse::<f64>().is_ok();
    let name = text.find('(').unwrap_or(0);
    let is_name = name > 0 && text.bytes().take(name).all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let mut depth = 0_i32;
    let closes = text.bytes().enumerate().find_map(|(at, byte)| {
        depth += i32::from(byte == b'(') - i32::from(byte == b')');
        (byte == b')' && depth == 0).then_some(at)
    });
    let to = text.rsplit_once(" as ").map(|(_, to)| to);
    let is_cast = (text.starts_with("cast(") || text.starts_with("column_get("))
        && to.is_some_and(|to| !["date", "time"].iter().any(|temporal| to.starts_with(temporal)));
    literal || is_name && !is_cast && closes == Some(text.len() - 1)
}

fn generated(column: &ColumnDef, sql: &mut String) {
    if let Some(generated) = &column.generated {
        let kind = if generated.stored { "STORED" } else { "VIRTUAL" };
        sql.push_str(&format!(" GENERATED ALWAYS AS ({}) {kind}", generated.expression));
    }
}

fn nullability(column: &ColumnDef, sql: &mut String) {
    let timestamp =
        matches!(column.sql_type, SqlType::Timestamp(_) | SqlType::OldTimestamp | SqlType::HiresTimestamp(_));
    if !column.nullable {
        sql.push_str(" NOT NULL");
    } else if timestamp {
        // Without NULL, a TIMESTAMP would be NOT NULL.
        sql.push_str(" NULL");
    }
}

fn default((family, version): (Family, u32), column: &ColumnDef, default: &ColumnDefault, sql: &mut String) {
    match default {
        ColumnDefault::Null => sql.push_str(" DEFAULT NULL"),
        ColumnDefault::Literal(_) | ColumnDefault::Image => {
            if let Some(literal) = default_literal(family, version, column) {
                sql.push_str(&format!(" DEFAULT {literal}"));
            }
        }
        ColumnDefault::None | ColumnDefault::Expression(_) => {}
    }
}

/// Whether the column has a default that cannot be printed.
pub(super) fn has_no_literal(column: &ColumnDef) -> bool {
    matches!(column.default, ColumnDefault::Literal(_) | ColumnDefault::Image)
        && default_literal(Family::MySql, 0, column).is_none()
}

fn comment(column: &ColumnDef, sql: &mut String) {
    if !column.comment.is_empty() {
        sql.push_str(&format!(" COMMENT {}", quoted(&column.comment)));
    }
}

/// The charset and collation, if they differ from the table's.
fn charset(table: &TableDef, column: &ColumnDef) -> String {
    let text = matches!(
        column.sql_type,
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Blob(_) | SqlType::Enum(_) | SqlType::Set(_)
    );
    let Some(collation) = Collation::of(column.collation, table.family) else { return String::new() };
    if !text || column.collation == BINARY && !matches!(column.sql_type, SqlType::Enum(_) | SqlType::Set(_)) {
        return String::new();
    }
    let differs = column.collation != table.collation;
    let explicit = column.is_explicit_collation;
    let mut sql = String::new();
    if differs || explicit {
        sql.push_str(&format!(" CHARACTER SET {}", collation.charset()));
    }
    let named = match table.family {
        Family::MySql => {
            let newer = collation.name == "utf8mb4_0900_ai_ci" && differs;
            !collation.is_default || explicit || newer
        }
        Family::MariaDb => differs && column.collation != BINARY,
    };
    if named {
        sql.push_str(&format!(" COLLATE {}", collation.name));
    }
    sql
}

fn fraction(column: &ColumnDef) -> String {
    match fraction_digits(column).as_str() {
        "" => String::new(),
        digits => format!("({digits})"),
    }
}

/// Number of digits of the fractional seconds, if there are any.
fn fraction_digits(column: &ColumnDef) -> String {
    match column.sql_type {
        SqlType::Timestamp(digits)
        | SqlType::DateTime(digits)
        | SqlType::Time(digits)
        | SqlType::HiresTimestamp(digits)
        | SqlType::HiresDateTime(digits)
        | SqlType::HiresTime(digits)
            if digits > 0 =>
        {
            digits.to_string()
        }
        _ => String::new(),
    }
}

/// The type as SQL, as `SHOW CREATE TABLE` writes it.
#[must_use]
pub fn type_name(family: Family, column: &ColumnDef) -> String {
    if let Some(declared) = &column.declared_type {
        return declared.clone();
    }
    let numeric = |name: &str| {
        let sign = if column.unsigned { " unsigned" } else { "" };
        let zeros = if column.zerofill { " zerofill" } else { "" };
        format!("{name}{sign}{zeros}")
    };
    let binary = column.collation == BINARY;
    let temporal = |name: &str| format!("{name}{}", fraction(column));
    // MariaDB marks the temporal types of version 5.3, which a current server would not create.
    let old = |name: &str| match family {
        Family::MariaDb => format!("{name}{} /* mariadb-5.3 */", fraction(column)),
        Family::MySql => format!("{name} /* 5.5 binary format */"),
    };
    match column.sql_type {
        SqlType::Int { bytes, .. } => {
            let name = match bytes {
                1 => "tinyint",
                2 => "smallint",
                3 => "mediumint",
                4 => "int",
                _ => "bigint",
            };
            numeric(&format!("{name}({})", column.width))
        }
        SqlType::Float | SqlType::Double => {
            let name = if column.sql_type == SqlType::Float { "float" } else { "double" };
            numeric(&match column.decimals {
                Some(decimals) => format!("{name}({},{decimals})", column.width),
                None => name.to_owned(),
            })
        }
        SqlType::Decimal { precision, scale } => numeric(&format!("decimal({precision},{scale})")),
        SqlType::Year => format!("year({})", column.width),
        SqlType::Date => "date".to_owned(),
        SqlType::Time(_) => temporal("time"),
        SqlType::DateTime(_) => temporal("datetime"),
        SqlType::Timestamp(_) => temporal("timestamp"),
        SqlType::OldTime | SqlType::HiresTime(_) => old("time"),
        SqlType::OldDateTime | SqlType::HiresDateTime(_) => old("datetime"),
        SqlType::OldTimestamp | SqlType::HiresTimestamp(_) => old("timestamp"),
        SqlType::Bit(bits) => format!("bit({bits})"),
        SqlType::Enum(_) => members("enum", column),
        SqlType::Set(_) => members("set", column),
        SqlType::Char(len) if binary => format!("binary({len})"),
        SqlType::Char(len) => format!("char({})", characters(column, u32::from(len))),
        // One byte of each value gives its compression.
        SqlType::Varchar(len) if binary => format!("varbinary({})", len.saturating_sub(column.compressed.into())),
        SqlType::Varchar(len) => {
            format!("varchar({})", characters(column, len.saturating_sub(column.compressed.into())))
        }
        SqlType::Blob(bytes) => {
            let size = match bytes {
                1 => "tiny",
                3 => "medium",
                4 => "long",
                _ => "",
            };
            format!("{size}{}", if binary { "blob" } else { "text" })
        }
        SqlType::Json => "json".to_owned(),
        SqlType::Geometry(kind) => geometry(family, kind).to_owned(),
        SqlType::Vector(dimensions) | SqlType::MariaDbVector(dimensions) => format!("vector({dimensions})"),
        SqlType::Uuid | SqlType::OldUuid => "uuid".to_owned(),
        SqlType::Inet6 => "inet6".to_owned(),
        SqlType::Inet4 => "inet4".to_owned(),
        SqlType::Unknown(number) => format!("/* type {number} */"),
    }
}

fn characters(column: &ColumnDef, bytes: u32) -> u32 {
    bytes / u32::from(character_bytes(column.collation).1)
}

fn members(name: &str, column: &ColumnDef) -> String {
    let list: Vec<String> = column.members.iter().map(|member| quoted_bytes(column.collation, member)).collect();
    format!("{name}({})", list.join(","))
}

const fn geometry(family: Family, kind: GeometryKind) -> &'static str {
    match (kind, family) {
        (GeometryKind::Geometry, _) => "geometry",
        (GeometryKind::Point, _) => "point",
        (GeometryKind::LineString, _) => "linestring",
        (GeometryKind::Polygon, _) => "polygon",
        (GeometryKind::MultiPoint, _) => "multipoint",
        (GeometryKind::MultiLineString, _) => "multilinestring",
        (GeometryKind::MultiPolygon, _) => "multipolygon",
        (GeometryKind::GeometryCollection, Family::MySql) => "geomcollection",
        (GeometryKind::GeometryCollection, Family::MariaDb) => "geometrycollection",
    }
}
