//! Commands to run: what works for every kind of table on both servers, and loses nothing that is still there. A test executes them as they
//! are printed.
//!
//! Where no table can be put back alone, the datadir is.
//!
//! Not printed, because servers fail at them: DROP INDEX frees pages through the index's root, and a damaged one ends MySQL for good.
//! DISCARD deletes the file before IMPORT is tried, which MariaDB refuses for tables with secondary indexes and MySQL for many others;
//! without a `.cfg` it may give two indexes each other's trees. TRUNCATE reads a damaged root or page 0, and loading rows into a table fires
//! its triggers.

use std::path::{Path, PathBuf};

use format::Family;
use format::schema::TableDef;
use format::schema::quoted::quoted_name;

use crate::definitions::{Named, known};
use crate::report::hurt::{Action, Hurt, shell_word as shell};
use datadir::backup_notes::BackupNotes;
use datadir::catalog::FulltextIndex;
use datadir::file_kind::FileKind;
use datadir::files;
use datadir::name::table_of_path;
use datadir::severity::Severity;
use datadir::tablespace::Tablespace;

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

/// The entry with what to do about it, step by step.
pub(super) fn advised(row: Hurt, named: Option<&Named>, space: Option<&Tablespace>) -> Hurt {
    let whole = named.and_then(|named| named.whole.as_deref());
    // Dropping a table in a shared tablespace reads its roots and the maps: a server that meets damage there ends, and does so again when it
    // starts, because it has noted what it was to drop.
    if row.severity == Severity::Damage && row.is_frame_lost && is_shared(Path::new(&row.path), space) {
        let commands = restore_all(Path::new(&row.path));
        return Hurt { action: Action::RestoreAll, commands, ..row };
    }
    if row.action == Action::RestoreAll {
        return Hurt { commands: restore_all(Path::new(&row.path)), ..row };
    }
    // The server has the definition in its dictionary too, and writes both from there.
    if row.index_kind == Some("sdi") && row.severity == Severity::Damage {
        let table = table_of_path(Path::new(&row.path));
        let Some(name) = SqlName::of(&Hurt { table: table.clone(), ..row.clone() }, None) else { return row };
        let commands = vec![in_place(&name.quoted())];
        return Hurt { table, action: Action::RebuildIndex, commands, ..row };
    }
    let Some(name) = SqlName::of(&row, whole) else { return row };
    let commands = match row.action {
        // From the rows, into a new file: whatever the kind of index, and whatever of it is damaged.
        Action::RebuildIndex => vec![format!("ALTER TABLE {} FORCE;", name.quoted())],
        // Each partition alone would be written as it is: only a copy asks anew where each row belongs.
        Action::RewriteTable => vec![format!("ALTER TABLE {} FORCE, ALGORITHM=COPY;", name.quoted())],
        Action::RestoreTable if is_servers_own(&name.schema) => Vec::new(),
        Action::RestoreTable => match auxiliary(&name.table) {
            Some(table_id) => {
                let commands = rebuild_by_id(table_id, family(Path::new(&row.path), space));
                return Hurt { action: Action::RebuildIndex, rows_at_risk: Some(0), commands, ..row };
            }
            None => restore(&name, &row, space),
        },
        _ => Vec::new(),
    };
    Hurt { commands, ..row }
}

/// Whether the file holds several tables: the system tablespace, or a general tablespace, which lies beside it unless it says what it is.
fn is_shared(path: &Path, space: Option<&Tablespace>) -> bool {
    space.is_some_and(|space| space.format.space().0 == 0 || known::is_shared(space))
        || path.parent().is_some_and(|folder| files::exists(folder.join("ibdata1")))
}

fn in_place(table: &str) -> String {
    format!("ALTER TABLE {table} FORCE, ALGORITHM=INPLACE;")
}

/// Statements that write a table with full-text indexes anew. With them no ALTER TABLE does so in place (error 1846), and one that copies reads the
/// damaged SDI to rename the old file, which ends the server. Without them it is done, and they hold nothing but words: each is then added again.
pub(super) fn without_fulltext(row: &mut Hurt, indexes: &[FulltextIndex]) {
    let Some(name) = SqlName::of(row, None) else { return };
    let is_its = |index: &&FulltextIndex| index.table == (name.schema.clone(), name.table.clone());
    let own: Vec<&FulltextIndex> = indexes.iter().filter(is_its).collect();
    if own.is_empty() || row.commands != [in_place(&name.quoted())] {
        return;
    }
    let table = name.quoted();
    let dropped: String = own.iter().map(|index| format!("DROP INDEX {}, ", quoted_name(&index.name))).collect();
    row.commands = vec![format!("ALTER TABLE {table} {dropped}FORCE, ALGORITHM=INPLACE;")];
    row.commands.extend(own.iter().map(|index| format!("ALTER TABLE {table} ADD {};", index.definition)));
}

/// Of which table this is a table of a full-text index: `fts_000000000000042d_...`.
fn auxiliary(table: &str) -> Option<u64> {
    let digits = table.strip_prefix("fts_").or_else(|| table.strip_prefix("FTS_"))?.get(..16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// A full-text index holds no row of its own. Its tables cannot be named in statements: rebuilding the table makes them anew.
fn rebuild_by_id(table_id: u64, family: Option<Family>) -> Vec<String> {
    let tables = if family == Some(Family::MySql) { "INNODB_TABLES" } else { "INNODB_SYS_TABLES" };
    let name = "CONCAT('ALTER TABLE `', REPLACE(NAME, '/', '`.`'), '` FORCE')";
    vec![
        format!("SET @rebuild = (SELECT {name} FROM information_schema.{tables} WHERE TABLE_ID = {table_id});"),
        "PREPARE rebuild FROM @rebuild;".to_owned(),
        "EXECUTE rebuild;".to_owned(),
    ]
}

/// Whose file it is. If its header is lost, the definition beside it tells: MySQL 8 has none.
fn family(path: &Path, space: Option<&Tablespace>) -> Option<Family> {
    let beside = || {
        let is_frm = datadir::name::frm_beside(path).is_some_and(files::exists);
        files::exists(path).then_some(if is_frm { Family::MariaDb } else { Family::MySql })
    };
    space.map(|space| space.format.family()).or_else(beside)
}

/// The advice for a datadir whose log still has work to do.
pub(super) fn recover(path: &Path) -> Vec<String> {
    let Some(datadir) = datadir_of(path) else { return Vec::new() };
    // MySQL up to 8.0.29 keeps its log elsewhere, and only its server can recover it.
    if files::exists(datadir.join("mysql.ibd")) && !files::exists(datadir.join("#innodb_redo")) {
        return vec!["start its server once and stop it again".to_owned()];
    }
    vec![format!("innokit recover --in-place {}", shell(&datadir.to_string_lossy()))]
}

/// The advice for a datadir that a running server has open.
pub(super) fn check_live(path: &Path) -> Vec<String> {
    datadir_of(path)
        .map(|datadir| format!("innokit check --live {}", shell(&datadir.to_string_lossy())))
        .into_iter()
        .collect()
}

pub(super) fn datadir_of(path: &Path) -> Option<PathBuf> {
    let above = |levels: usize| path.ancestors().nth(levels).map(Path::to_path_buf);
    [above(1), above(2)].into_iter().flatten().find(|dir| files::exists(dir.join("ibdata1")))
}

/// Comments and shell commands: the datadir as a backup has it. What it was is kept: rows there may be newer.
fn restore_all(path: &Path) -> Vec<String> {
    let Some(datadir) = datadir_of(path).filter(|datadir| BackupNotes::of(datadir).is_none()) else {
        return Vec::new();
    };
    let datadir = datadir.to_string_lossy();
    let (now, kept) = (shell(&datadir), shell(&format!("{}.damaged", datadir.trim_end_matches('/'))));
    vec![
        BACKUP.to_owned(),
        "# stop the server".to_owned(),
        format!("mv {now} {kept} && cp -a BACKUP {now}"),
        "# start the server; what is newer than the backup, and keys and binary logs that were in the datadir, are in the folder that was moved"
            .to_owned(),
    ]
}

/// What `BACKUP` stands for.
const BACKUP: &str = "# BACKUP: the folder of a recovered backup, as `innokit restore FROM --to BACKUP` makes it";

/// Schemas whose tables are not restored one by one.
fn is_servers_own(schema: &str) -> bool {
    matches!(schema, "mysql" | "sys" | "performance_schema" | "information_schema")
}

/// Shell commands: keep what can be read, drop the table, and load it from a recovered backup. Rows that are newer than the backup are in
/// what was kept. A table in a shared tablespace must come from a dump: dropping it frees its pages one by one, and reads the damaged ones.
fn restore(name: &SqlName, row: &Hurt, space: Option<&Tablespace>) -> Vec<String> {
    let (table, path) = (name.quoted(), Path::new(&row.path));
    let of_path = table_of_path(path).filter(|_| row.kind == FileKind::Tablespace);
    let is_own = of_path.is_some_and(|of_path| {
        of_path.split(" partition ").next() == Some(format!("{}.{}", name.schema, name.table).as_str())
    });
    let Some(family) = family(path, space) else { return vec![format!("load {table} from a dump")] };
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    if !is_own {
        if !is_shared(path, space) || name.partition.is_some() {
            return vec![format!("load {table} from a dump")];
        }
        let only = format!(" --table {}", shell(&format!("{}.{}", name.schema, name.table)));
        let kept = shell(&format!("{}.{}", name.schema, name.table));
        let (here, backup) = (shell(&path.to_string_lossy()), format!("BACKUP/{}", shell(&file)));
        return steps(name, family, &Copies { here, backup, kept, only });
    }
    let Some(folder) = path.parent().and_then(Path::file_name) else { return Vec::new() };
    let folder = folder.to_string_lossy();
    // Partitions are dropped and loaded together. MySQL keeps their definition in the first.
    let files = match file.to_ascii_lowercase().find("#p#").filter(|_| name.partition.is_some()) {
        Some(at) => (file.get(..at + 3).unwrap_or_default().to_owned(), "*.ibd"),
        None => (file.clone().into_owned(), ""),
    };
    let kept = files.0.split(['#', '.']).next().unwrap_or_default();
    let kept = shell(&format!("{folder}.{kept}"));
    let here = format!("{}{}", shell(&path.with_file_name(&files.0).to_string_lossy()), files.1);
    let backup = format!("BACKUP/{}{}", shell(&format!("{folder}/{}", files.0)), files.1);
    steps(name, family, &Copies { here, backup, kept, only: String::new() })
}

/// The words of the commands: the file, or a pattern of several, here and in the backup, where what can be read is kept, and what selects
/// the table in them.
struct Copies {
    here: String,
    backup: String,
    kept: String,
    only: String,
}

fn steps(name: &SqlName, family: Family, Copies { here, backup, kept, only }: &Copies) -> Vec<String> {
    let (database, table_name) = (shell(&name.schema), shell(&name.table));
    let (client, triggers) = if family == Family::MySql {
        let words = "mysqldump --no-create-info --no-data --skip-lock-tables --triggers";
        ("mysql", format!("{words} -- {database} {table_name}"))
    } else {
        ("mariadb", format!("innokit table schema --triggers{only} {here}"))
    };
    let client = format!("{client} --default-character-set=utf8mb4");
    let drop = shell(&format!("SET foreign_key_checks = 0; DROP TABLE {};", name.quoted()));
    let (into, unchecked) = (format!("--database={database}"), "--init-command='SET foreign_key_checks = 0'");
    vec![
        BACKUP.to_owned(),
        format!("mkdir {kept}.damaged && cp -p {here} {kept}.damaged/"),
        format!("innokit table export --skip-damaged --format sql{only} -o {kept}.damaged/rows.sql {here}"),
        format!("{triggers} > {kept}.damaged/triggers.sql"),
        format!("{client} -e {drop}"),
        format!("innokit table schema{only} {backup} | {client} {unchecked} {into}"),
        format!("innokit table export --format sql{only} {backup} | {client} {into}"),
        format!("{client} {into} < {kept}.damaged/triggers.sql"),
    ]
}
