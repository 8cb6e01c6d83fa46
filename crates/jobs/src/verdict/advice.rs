//! Commands to run. SQL names every column of an index, so that it can be pasted. If innokit does not know all columns, it says where to
//! look.

use std::path::Path;

use format::Family;
use format::schema::show_create::quoted_name;
use format::schema::{FieldSource, IndexDef, IndexKind, TableDef, Visibility, charset};

use crate::report::file_kind::FileKind;
use crate::report::hurt::{Action, Hurt};
use crate::source::files;
use crate::table::Named;
use crate::tree::Tablespace;

/// A table's name in its parts, in SQL spelling.
struct SqlName {
    schema: String,
    table: String,
    partition: Option<String>,
}

impl SqlName {
    fn of(row: &Hurt, whole: Option<&TableDef>) -> Option<Self> {
        let name = row.table.as_deref()?;
        let (name, partition) = match name.split_once(" partition ") {
            Some((name, partition)) => (name, Some(partition.to_owned())),
            None => (name, None),
        };
        if let Some(whole) = whole.filter(|whole| !whole.schema.is_empty() && !whole.name.is_empty()) {
            return Some(Self { schema: whole.schema.clone(), table: whole.name.clone(), partition });
        }
        let (schema, table) = name.split_once('.')?;
        Some(Self { schema: schema.to_owned(), table: table.to_owned(), partition })
    }

    fn quoted(&self) -> String {
        format!("{}.{}", quoted_name(&self.schema), quoted_name(&self.table))
    }
}

/// What to do about a finding, step by step.
pub(super) fn commands(row: &Hurt, named: Option<&Named>, space: Option<&Tablespace>) -> Vec<String> {
    let whole = named.and_then(|named| named.whole.as_deref());
    let Some(name) = SqlName::of(row, whole) else { return Vec::new() };
    match row.action {
        Action::RebuildIndex => {
            let index = named.and_then(|named| named.index.as_ref());
            rebuild(&name, row.index.as_deref(), index.zip(whole))
        }
        Action::RestoreTable if is_servers_own(&name.schema) => Vec::new(),
        Action::RestoreTable => restore(&name, row, space),
        _ => Vec::new(),
    }
}

/// The advice for a datadir whose log still has work to do.
pub(super) fn recover(path: &Path) -> Vec<String> {
    let above = |levels: usize| path.ancestors().nth(levels).map(Path::to_path_buf);
    let is_datadir = |dir: &Path| files::exists(dir.join("ibdata1"));
    let datadir = [above(1), above(2)].into_iter().flatten().find(|dir| is_datadir(dir));
    let Some(datadir) = datadir else { return Vec::new() };
    // MySQL up to 8.0.29 keeps its log elsewhere, and only its server can recover it.
    if files::exists(datadir.join("mysql.ibd")) && !files::exists(datadir.join("#innodb_redo")) {
        return vec!["start its server once and stop it again".to_owned()];
    }
    vec![format!("innokit recover --in-place {}", shell(&datadir.to_string_lossy()))]
}

/// Schemas whose tables are not restored one by one.
fn is_servers_own(schema: &str) -> bool {
    matches!(schema, "mysql" | "sys" | "performance_schema" | "information_schema")
}

/// Two statements: dropping and adding an identical index in one ALTER TABLE is a no-op to the server.
fn rebuild(name: &SqlName, index: Option<&str>, known: Option<(&IndexDef, &TableDef)>) -> Vec<String> {
    let Some(index) = index else { return Vec::new() };
    let (table, quoted_index) = (name.quoted(), quoted_name(index));
    match known.and_then(|(def, table)| columns(def, table).map(|columns| (def, columns))) {
        Some((def, columns)) => {
            let kind = match (def.kind, def.unique) {
                (IndexKind::Spatial, _) => "SPATIAL INDEX",
                (_, true) => "UNIQUE INDEX",
                _ => "INDEX",
            };
            vec![
                format!("ALTER TABLE {table} DROP INDEX {quoted_index};"),
                format!("ALTER TABLE {table} ADD {kind} {quoted_index} ({columns});"),
            ]
        }
        None => vec![
            format!("SHOW CREATE TABLE {table};"),
            format!("ALTER TABLE {table} DROP INDEX {quoted_index};"),
            format!("ALTER TABLE {table} ADD the same index {quoted_index} again, as SHOW CREATE TABLE has it"),
        ],
    }
}

/// The declared key parts; `None` if one is an expression.
fn columns(index: &IndexDef, table: &TableDef) -> Option<String> {
    let part = |field: &format::schema::FieldDef| {
        let FieldSource::Column(at) = field.source else { return None };
        let column = table.columns.get(at).filter(|column| column.visibility != Visibility::Hidden)?;
        let bytes_max = u32::from(charset::character_bytes(column.collation).1.max(1));
        let prefix = match field.prefix {
            Some(bytes) if index.kind != IndexKind::Spatial => format!("({})", bytes / bytes_max),
            _ => String::new(),
        };
        let order = if field.descending { " DESC" } else { "" };
        Some(format!("{}{prefix}{order}", quoted_name(&column.name)))
    };
    let parts: Option<Vec<_>> = index.fields.iter().take(index.declared_parts).map(part).collect();
    parts.filter(|parts| !parts.is_empty() && !index.is_multi_valued).map(|parts| parts.join(", "))
}

/// A file-per-table tablespace can be restored from a file backup. A table in a shared tablespace, or a MariaDB partition, must come from a
/// dump.
fn restore(name: &SqlName, row: &Hurt, space: Option<&Tablespace>) -> Vec<String> {
    let table = name.quoted();
    let family = space.map(|space| space.format.family());
    let part = match (&name.partition, family) {
        (None, _) => String::new(),
        (Some(partition), Some(Family::MySql)) => {
            format!(" PARTITION {}", partition.rsplit('#').next().map(quoted_name).unwrap_or_default())
        }
        (Some(_), _) => return vec![format!("load {table} from a dump")],
    };
    if row.kind != FileKind::Tablespace {
        return vec![format!("load {table} from a dump")];
    }
    let discard = if part.is_empty() { " DISCARD".to_owned() } else { format!(" DISCARD{part}") };
    let import = if part.is_empty() { " IMPORT".to_owned() } else { format!(" IMPORT{part}") };
    vec![
        format!("ALTER TABLE {table}{discard} TABLESPACE;"),
        format!("cp BACKUP/{} {}", file_in_backup(&row.path), shell(&row.path)),
        format!("ALTER TABLE {table}{import} TABLESPACE;"),
    ]
}

/// `shop/orders.ibd`.
fn file_in_backup(path: &str) -> String {
    let path = Path::new(path);
    let names: Vec<_> = path.components().rev().take(2).map(|name| name.as_os_str().to_string_lossy()).collect();
    let text = names.into_iter().rev().collect::<Vec<_>>().join("/");
    shell(&text)
}

/// Quotes a word for a shell.
fn shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
