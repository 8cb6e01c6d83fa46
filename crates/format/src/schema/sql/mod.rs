//! Tables from `CREATE TABLE`, for files whose own definition is lost: a MariaDB tablespace without its `.frm`, one of MySQL 5.7 without
//! its dictionary.
//!
//! ```text
//! text -> statements of tokens -> CREATE TABLE -> items between commas -> columns, keys -> TableDef
//! ```
//!
//! Reads what `SHOW CREATE TABLE`, `mysqldump` and [`crate::show_create`] write, and regular handwritten statements. A general SQL parser
//! (`sqlparser`) was considered and rejected: it fails on version comments, `COMPRESSED`, system versioning and most MariaDB types, and it
//! does not know how values are stored, which is what we need.
//!
//! Does not read expressions (of defaults, generated columns, checks and functional keys) or foreign keys, and cannot know roots.

mod column;
mod tokens;

use thiserror::Error;

use self::tokens::{Statement, Token};
use super::collations::Collation;
use super::declared::{Declared, KeyDef, KeyKind, KeyPart};
use super::fields::{self, BuildError, IndexParts};
use super::{ColumnDef, SqlType, TableDef, Versioned, Visibility, charset};
use crate::kind::Family;
use crate::record::{Instant, RecordStyle};

/// Why a text yields no definition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SqlError {
    /// No statement creates a table, or none with that name.
    #[error("it has no CREATE TABLE statement for {0}")]
    NoTable(String),
    /// Several statements create a table, but none with that name.
    #[error("it has {0} CREATE TABLE statements, but none for {1}")]
    Several(usize, String),
    /// A statement that cannot be parsed.
    #[error("table {table}: {what}")]
    Statement {
        /// The table.
        table: String,
        /// What is wrong, as a clause.
        what: String,
    },
    /// The table's indexes cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Reads tokens from the front.
struct Cursor<'t>(&'t [Token]);

impl<'t> Cursor<'t> {
    fn next(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn take(&mut self, keyword: &str) -> bool {
        let found = self.0.first().is_some_and(|token| token.is(keyword));
        if found {
            self.next();
        }
        found
    }

    fn take_sign(&mut self, sign: char) -> bool {
        let found = self.0.first().is_some_and(|token| token.is_sign(sign));
        if found {
            self.next();
        }
        found
    }

    fn name(&mut self) -> Option<String> {
        let name = self.0.first()?.name()?.to_owned();
        self.next();
        Some(name)
    }

    fn text(&mut self) -> Option<String> {
        let Some(Token::Text(text)) = self.0.first() else { return None };
        self.next();
        Some(text.clone())
    }

    /// The tokens inside the parentheses that open here, if any do.
    fn parentheses(&mut self) -> Option<&'t [Token]> {
        if !self.take_sign('(') {
            return None;
        }
        let start = self.0;
        let len = self.skip_rest_of_parentheses();
        start.get(..len)
    }

    /// Skips past the parenthesis that closes the open one. Returns the number of tokens before it.
    fn skip_rest_of_parentheses(&mut self) -> usize {
        let (mut depth, mut len) = (1, 0);
        while let Some(token) = self.next() {
            depth += i32::from(token.is_sign('(')) - i32::from(token.is_sign(')'));
            if depth == 0 {
                break;
            }
            len += 1;
        }
        len
    }
}

/// Properties shared by all columns of a table.
struct SqlTable {
    family: Family,
    name: String,
    collation: Option<u16>,
}

impl SqlTable {
    fn error(&self, what: &str) -> SqlError {
        SqlError::Statement { table: self.name.clone(), what: what.to_owned() }
    }
}

/// A declared key.
struct Key {
    def: KeyDef,
    /// Whether it is unique through a hash in a hidden column.
    hashed: bool,
}

/// A table from a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromSql {
    /// The rows and keys that the statement declares.
    pub table: TableDef,
    /// The statement as written, without its semicolon.
    pub statement: String,
}

/// A CREATE TABLE statement.
struct Create<'s> {
    /// The database, from the table's name or the last `USE`.
    schema: Option<String>,
    name: String,
    /// From the first parenthesis on.
    tokens: Vec<Token>,
    text: &'s str,
}

/// Reads the table `schema`.`name` from a text. If the text has only one table, its name does not matter. The family decides between types
/// and collations that share a name.
///
/// # Errors
/// There is no such statement, or it cannot be parsed.
pub fn from_sql(sql: &str, family: Family, (schema, name): (&str, &str)) -> Result<FromSql, SqlError> {
    let mut used = None;
    let mut all = Vec::new();
    for statement in tokens::statements(sql) {
        if let [first, name] = statement.tokens.as_slice()
            && first.is("use")
        {
            used = name.name().map(str::to_owned);
        } else {
            all.extend(create_table(&statement, used.as_deref()));
        }
    }
    let called = |create: &&Create<'_>| create.name.eq_ignore_ascii_case(name);
    let chosen = match all.as_slice() {
        [] => return Err(SqlError::NoTable(name.to_owned())),
        [only] => only,
        several => several
            .iter()
            .filter(called)
            .find(|create| create.schema.as_deref() == Some(schema))
            // A dump of a single database does not name the database.
            .or_else(|| several.iter().find(called))
            .ok_or_else(|| SqlError::Several(several.len(), name.to_owned()))?,
    };
    Ok(FromSql { table: table(chosen, family)?, statement: chosen.text.to_owned() })
}

/// The table that a statement creates, if it does.
fn create_table<'s>(statement: &Statement<'s>, used: Option<&str>) -> Option<Create<'s>> {
    let mut cursor = Cursor(&statement.tokens);
    if !cursor.take("create") {
        return None;
    }
    if cursor.take("or") {
        cursor.take("replace");
    }
    cursor.take("temporary");
    if !cursor.take("table") {
        return None;
    }
    if cursor.take("if") {
        cursor.take("not");
        cursor.take("exists");
    }
    let (mut schema, mut name) = (used.map(str::to_owned), cursor.name()?);
    if cursor.take_sign('.') {
        schema = Some(std::mem::replace(&mut name, cursor.name()?));
    }
    cursor.0.first().filter(|token| token.is_sign('('))?;
    Some(Create { schema, name, tokens: cursor.0.to_vec(), text: statement.text })
}

fn table(create: &Create<'_>, family: Family) -> Result<TableDef, SqlError> {
    let mut cursor = Cursor(&create.tokens);
    let items = items(cursor.parentheses().unwrap_or(&[]));
    let options = Options::read(cursor, family);
    let common = SqlTable { family, name: create.name.clone(), collation: options.collation };
    let (mut columns, mut keys) = (Vec::new(), Vec::new());
    for item in &items {
        if is_column(item) {
            let (column, key) = column::column(item, &common, columns.len())?;
            if let Some(primary) = key {
                keys.push(inline_key(&column, primary, columns.len()));
            }
            columns.push(column);
        }
    }
    let implicit = options.is_versioned && !columns.iter().any(ColumnDef::versioned_by_server);
    if implicit {
        add_versioning(&mut columns);
    }
    for item in items.iter().filter(|item| !is_column(item)) {
        keys.extend(key(item, &columns, &common)?);
    }
    build(&common, &options, implicit, columns, &keys)
}

fn build(
    common: &SqlTable,
    options: &Options,
    implicit: bool,
    mut columns: Vec<ColumnDef>,
    keys: &[Key],
) -> Result<TableDef, SqlError> {
    for part in keys.iter().filter(|key| key.def.kind == KeyKind::Primary).flat_map(|key| &key.def.parts) {
        columns.get_mut(part.column).into_iter().for_each(|column| column.nullable = false);
    }
    let mut parts = index_parts(keys, &mut columns);
    if keys.iter().any(|key| key.def.kind == KeyKind::FullText) {
        super::frm::add_doc_id(&mut columns, &mut parts);
    }
    let indexes = fields::build(&columns, &parts, Instant::None, options.style)?;
    // If any value varies in length, the server packs rows, and no bit marks deleted ones.
    let varies =
        |column: &ColumnDef| !matches!(column.sql_type, SqlType::Char(_)) && column.sql_type.fixed_bytes().is_none();
    let pack_record = options.is_dynamic || columns.iter().any(varies);
    let declared = Declared {
        keys: keys.iter().map(|key| key.def.clone()).collect(),
        is_versioned: options.is_versioned,
        has_implicit_versioning: implicit,
        ..Declared::default()
    };
    Ok(TableDef {
        schema: String::new(),
        name: common.name.clone(),
        family: common.family,
        server_version: 0,
        style: options.style,
        collation: common.collation.unwrap_or(charset::BINARY),
        pack_record,
        columns,
        checks: Vec::new(),
        declared,
        indexes,
        partitions: Vec::new(),
    })
}

/// Splits at commas outside parentheses.
fn items(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0;
    tokens
        .split(|token| {
            depth += i32::from(token.is_sign('(')) - i32::from(token.is_sign(')'));
            depth == 0 && token.is_sign(',')
        })
        .filter(|item| !item.is_empty())
        .collect()
}

fn is_column(item: &[Token]) -> bool {
    const OTHERS: [&str; 11] = [
        "primary",
        "unique",
        "key",
        "index",
        "fulltext",
        "spatial",
        "vector",
        "constraint",
        "foreign",
        "check",
        "period",
    ];
    !item.first().is_some_and(|first| OTHERS.iter().any(|word| first.is(word)))
}

/// The table's options, after the columns and keys.
struct Options {
    collation: Option<u16>,
    style: Option<RecordStyle>,
    is_dynamic: bool,
    is_versioned: bool,
}

impl Options {
    fn read(mut cursor: Cursor<'_>, family: Family) -> Self {
        let (mut charset, mut collation, mut format) = (None, None, None);
        let mut is_versioned = false;
        while let Some(token) = cursor.next() {
            let is_charset = token.is("charset") || token.is("character") && cursor.take("set");
            let is_format = token.is("row_format");
            if is_charset || is_format || token.is("collate") {
                cursor.take_sign('=');
                let target = match (is_charset, is_format) {
                    (true, _) => &mut charset,
                    (_, true) => &mut format,
                    _ => &mut collation,
                };
                // A second one belongs to a partition, or to a closed comment.
                if target.is_none() {
                    *target = cursor.name();
                }
            } else if token.is("partition") {
                break;
            } else if token.is("system") && cursor.take("versioning") {
                is_versioned = true;
            }
        }
        let collation = match (collation, charset) {
            (Some(collation), _) => numbered(&collation, family),
            (None, Some(charset)) => default_of(&charset),
            (None, None) => None,
        };
        let is = |word: &str| format.as_deref().is_some_and(|format| format.eq_ignore_ascii_case(word));
        let style = match &format {
            None => None,
            Some(_) if is("redundant") => Some(RecordStyle::Redundant),
            Some(_) if is("default") => None,
            Some(_) => Some(RecordStyle::Compact),
        };
        Self { collation, style, is_dynamic: is("dynamic"), is_versioned }
    }
}

/// The number of a collation. utf8 in MySQL up to 8.0 and MariaDB up to 10.5 is today's utf8mb3.
fn numbered(name: &str, family: Family) -> Option<u16> {
    let name = name.to_ascii_lowercase();
    let newer = || Collation::number(&format!("utf8mb3_{}", name.strip_prefix("utf8_")?), family);
    Collation::number(&name, family).or_else(newer)
}

fn default_of(charset: &str) -> Option<u16> {
    let charset = charset.to_ascii_lowercase();
    Collation::default_of(if charset == "utf8" { "utf8mb3" } else { &charset })
}

/// MariaDB: adds the row validity columns if they were not declared.
fn add_versioning(columns: &mut Vec<ColumnDef>) {
    for (name, versioned) in [("row_start", Versioned::RowStart), ("row_end", Versioned::RowEnd)] {
        columns.push(ColumnDef {
            ordinal: columns.len() as u32 + 1,
            visibility: Visibility::Invisible,
            versioned,
            ..ColumnDef::plain(name, SqlType::Timestamp(6))
        });
    }
}

fn inline_key(column: &ColumnDef, primary: bool, place: usize) -> Key {
    let (name, kind) = match primary {
        true => ("PRIMARY".to_owned(), KeyKind::Primary),
        false => (column.name.clone(), KeyKind::Unique),
    };
    let parts = vec![KeyPart { column: place, prefix: None, descending: false }];
    Key { def: KeyDef { name, kind, parts, without_overlaps: false, options: String::new() }, hashed: false }
}

/// Parses a key, if the item is one.
fn key(item: &[Token], columns: &[ColumnDef], table: &SqlTable) -> Result<Option<Key>, SqlError> {
    let mut cursor = Cursor(item);
    if cursor.take("constraint") && !cursor.0.first().is_some_and(|token| token.is("primary") || token.is("unique")) {
        cursor.name();
    }
    let Some(first) = cursor.next() else { return Ok(None) };
    let kind = match first {
        _ if first.is("primary") => KeyKind::Primary,
        _ if first.is("unique") => KeyKind::Unique,
        _ if first.is("key") || first.is("index") => KeyKind::Plain,
        _ if first.is("fulltext") => KeyKind::FullText,
        _ if first.is("spatial") => KeyKind::Spatial,
        _ if first.is("vector") => KeyKind::Vector,
        _ => return Ok(None),
    };
    if !cursor.take("key") {
        cursor.take("index");
    }
    let mut name = if kind == KeyKind::Primary { Some("PRIMARY".to_owned()) } else { None };
    while let Some(token) = cursor.0.first().filter(|token| !token.is_sign('(')) {
        if cursor.take("using") {
            cursor.next();
            continue;
        }
        name = name.or_else(|| token.name().map(str::to_owned));
        cursor.next();
    }
    let inside = cursor.parentheses().unwrap_or(&[]);
    let mut parts = Vec::new();
    for part in items(inside) {
        // An expression: its value is in a hidden column, whose storage the statement does not give.
        let Some(part) = key_part(part, columns, table)? else { return Ok(None) };
        parts.push(part);
    }
    let is_unique = matches!(kind, KeyKind::Primary | KeyKind::Unique);
    let ends = columns.iter().position(|column| column.versioned == Versioned::RowEnd);
    if let Some(end) = ends.filter(|end| is_unique && !parts.iter().any(|part| part.column == *end)) {
        // The same key at another time is another row.
        parts.push(KeyPart { column: end, prefix: None, descending: false });
    }
    let hashed = cursor.take("using") && cursor.take("hash");
    let first = parts.first().and_then(|part| columns.get(part.column)).map(|column| column.name.clone());
    let name = name.or(first).unwrap_or_default();
    let def = KeyDef { name, kind, parts, without_overlaps: false, options: String::new() };
    Ok(Some(Key { def, hashed: hashed && kind == KeyKind::Unique }))
}

fn key_part(part: &[Token], columns: &[ColumnDef], table: &SqlTable) -> Result<Option<KeyPart>, SqlError> {
    let mut cursor = Cursor(part);
    let Some(name) = cursor.name() else { return Ok(None) };
    let column = columns.iter().position(|column| column.name.eq_ignore_ascii_case(&name));
    let column = column.ok_or_else(|| table.error(&format!("a key names column {name}, which it does not have")))?;
    let prefix = cursor.parentheses().and_then(|inside| inside.first()?.number());
    Ok(Some(KeyPart { column, prefix, descending: cursor.take("desc") }))
}

/// The indexes that are trees, the clustered one first. Each hash key adds a hidden column.
fn index_parts(keys: &[Key], columns: &mut Vec<ColumnDef>) -> Vec<IndexParts> {
    let (mut indexes, mut hashes) = (Vec::new(), 0);
    for key in keys.iter().filter(|key| !matches!(key.def.kind, KeyKind::FullText | KeyKind::Vector)) {
        let spatial = key.def.kind == KeyKind::Spatial;
        let unique = matches!(key.def.kind, KeyKind::Primary | KeyKind::Unique) && !key.hashed;
        let parts = if key.hashed {
            hashes += 1;
            vec![fields::FieldPart { column: hash_column(key, hashes, columns), prefix: None, descending: false }]
        } else {
            key.def.parts.iter().map(|part| tree_part(part, columns, spatial)).collect()
        };
        let name = key.def.name.clone();
        indexes.push(IndexParts { name, unique, spatial, is_multi_valued: false, root: None, parts });
    }
    fields::clustered_first(indexes, columns)
}

/// The hidden column with the hash of key number `number`.
fn hash_column(key: &Key, number: usize, columns: &mut Vec<ColumnDef>) -> usize {
    let of_key = |part: &KeyPart| columns.get(part.column).is_some_and(|column| column.nullable);
    let nullable = key.def.parts.iter().any(of_key);
    let bigint = SqlType::Int { bytes: 8, unsigned: true };
    columns.push(ColumnDef {
        ordinal: columns.len() as u32 + 1,
        nullable,
        is_virtual: true,
        visibility: Visibility::Hidden,
        ..ColumnDef::plain(&format!("DB_ROW_HASH_{number}"), bigint)
    });
    columns.len() - 1
}

/// A prefix is declared in characters, but the tree counts bytes.
fn tree_part(part: &KeyPart, columns: &[ColumnDef], spatial: bool) -> fields::FieldPart {
    let prefix = columns.get(part.column).and_then(|column| {
        let most = u32::from(charset::character_bytes(column.collation).1);
        let bytes = part.prefix?.saturating_mul(most);
        let is_whole = match column.sql_type {
            SqlType::Char(len) => bytes >= u32::from(len),
            SqlType::Varchar(len) => bytes >= len,
            _ => false,
        };
        (!is_whole).then_some(bytes)
    });
    fields::FieldPart { column: part.column, prefix: prefix.filter(|_| !spatial), descending: part.descending }
}
