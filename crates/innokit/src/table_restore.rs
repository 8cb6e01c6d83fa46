//! `innokit table restore`: one table of a set, at a moment, into a running server.
//!
//! ```text
//! definition (inspect::schema) -> CREATE TABLE under a name of our own
//! rows (inspect::rows::export) -> INSERT statements, one at a time -> count and CHECKSUM TABLE against the files -> RENAME TABLE
//! ```
//!
//! A set may come from anywhere. Its definition becomes one statement, whose expressions are closed in themselves; its triggers would run with the
//! rights of whom they name, and are not made.
//!
//! A view, if one is asked for, stands between this and the files already. Until it is whole the table has a name that no table of a user has, so
//! nothing that fails, or is killed, leaves a part of it under a name that somebody reads.

use std::error::Error;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use datadir::Outcome;
use datadir::selection::Selection;
use datadir::server::ServerKind;
use format::Family;
use format::schema::quoted::{quoted, quoted_name};
use format::show_create::create_table_as;
use inspect::rows::checksum::{ChecksumOptions, checksums};
use inspect::rows::export::{ExportOptions, TextFormat, export};
use inspect::rows::scan::ScanOptions;
use inspect::schema::{SchemaOptions, TableSchema, schema, triggers};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sql::TargetServer;

use crate::args::TableRestoreArgs;
use crate::document;
use crate::print::grouped;
use crate::progress::Bar;
use crate::table_schema::ANY_PARENT_KEY;
use crate::terminal::{self, shown};

/// What a table is called until it is whole, with a number for its name.
const PARTIAL: &str = "innokit_partial";

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
enum Failed {
    /// Nothing is wrong with the set.
    #[error("{0}")]
    Refused(String),
    /// The set is damaged, or the server's copy differs.
    #[error("{0}")]
    Damaged(String),
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Failed::Refused(why.into()).into())
}

/// What was done.
#[derive(Debug, Serialize)]
struct Report {
    /// The table in the set.
    table: String,
    /// Its name on the server.
    restored: String,
    rows: u64,
    /// CHECKSUM TABLE, if the files have the same.
    checksum: Option<u64>,
    /// Why it was not compared.
    not_compared: Option<String>,
    /// Foreign keys that the server's table does not have.
    foreign_keys_left_out: usize,
    /// Triggers that it does not have.
    triggers_left_out: usize,
    /// Whether there may be triggers of which the files do not tell.
    triggers_unknown: bool,
}

/// Restores the table. Returns the exit status.
pub fn run(args: &TableRestoreArgs) -> Result<u8> {
    let started = SystemTime::now();
    if !args.server.is_named() {
        return refused("which server takes the table? Name its --socket, or its --port at 127.0.0.1");
    }
    args.keys.files().hold_pipes()?;
    let access = crate::server::access(&args.server)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let wanted = Source::find(args)?;
    let server = TargetServer::open(&access, Arc::clone(&stop))?;
    match (Restore { args, source: &wanted, stop, server: Arc::new(Mutex::new(server)) }).run() {
        Ok(report) => {
            print(&report, args.json, started)?;
            Ok(0)
        }
        Err(error) if matches!(error.downcast_ref(), Some(Failed::Damaged(_))) => {
            document::fail(started, Outcome::Damage.exit_status(), &*error, args.json);
            Ok(Outcome::Damage.exit_status())
        }
        Err(error) => Err(error),
    }
}

/// The table as the set has it.
struct Source {
    schema: TableSchema,
    /// How many it has, if the files tell.
    triggers: usize,
}

impl Source {
    fn find(args: &TableRestoreArgs) -> Result<Self> {
        let (database, table) = &args.table;
        let selection = selection(args);
        let options = SchemaOptions {
            keys: args.keys.files(),
            page_size: None,
            selection: selection.clone(),
            create_table: None,
        };
        let report = schema(&args.paths, &options)?;
        if let Some(unread) = report.unread.first() {
            return refused(format!("{}: {}", unread.path.display(), unread.why));
        }
        let mut found = report.tables.into_iter().filter(|found| found.schema == *database && found.table == *table);
        let Some(schema) = found.next() else {
            return refused(format!(
                "there is no table {database}.{table} in {}",
                args.paths.first().map_or_else(String::new, |path| path.display().to_string())
            ));
        };
        let names =
            schema.definition.iter().flat_map(|definition| definition.columns.iter().map(|column| &column.name));
        // Statements are told apart by their ends, which such a name could hold.
        if names.chain([table]).any(|name| name.contains('\n')) {
            return refused(format!(
                "{database}.{}: a name in it has a line break: take `innokit table export`",
                shown(table)
            ));
        }
        let (found, _) = triggers(&args.paths, &selection)?;
        let own = found.iter().filter(|of| of.schema == *database && of.table == *table);
        Ok(Self { triggers: own.map(|of| of.triggers.len()).sum(), schema })
    }
}

fn selection(args: &TableRestoreArgs) -> Selection {
    let (database, table) = &args.table;
    Selection::new(std::slice::from_ref(database), std::slice::from_ref(table))
}

struct Restore<'a> {
    args: &'a TableRestoreArgs,
    source: &'a Source,
    stop: Arc<AtomicBool>,
    server: Arc<Mutex<TargetServer>>,
}

impl Restore<'_> {
    fn ask<T>(
        &self,
        act: impl FnOnce(&mut TargetServer) -> std::result::Result<T, datadir::server::ServerError>,
    ) -> Result<T> {
        Ok(act(&mut self.server.lock().unwrap_or_else(PoisonError::into_inner))?)
    }

    fn do_all(&self, statements: &[&str]) -> Result<()> {
        statements.iter().try_for_each(|statement| self.ask(|server| server.run(statement)))
    }

    fn run(&self) -> Result<Report> {
        let (database, table) = self.args.other.as_ref().unwrap_or(&self.args.table);
        let quoted_target = format!("{}.{}", quoted_name(database), quoted_name(table));
        let lock = quoted(&format!("innokit {:08x}", format::checksum::crc32c(quoted_target.as_bytes())));
        if self.ask(|server| server.number(&format!("SELECT GET_LOCK({lock}, 0)")))? != Some(1) {
            return refused(format!("another innokit is restoring {database}.{table} on this server"));
        }
        let there = format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
            quoted(database),
            quoted(table)
        );
        if self.ask(|server| server.number(&there))? != Some(0) {
            return refused(format!(
                "the server has a table {database}.{table}: restore beside it (--as {database}.{table}_restored), or rename it first"
            ));
        }
        let partial = format!("{PARTIAL}_{:08x}", format::checksum::crc32c(table.as_bytes()));
        let partial = format!("{}.{}", quoted_name(database), quoted_name(&partial));
        // What an earlier run left that was killed.
        self.do_all(&[&format!("DROP TABLE IF EXISTS {partial}")])?;
        let loaded = self.load(&partial).and_then(|report| {
            self.do_all(&[&format!("RENAME TABLE {partial} TO {quoted_target}")])?;
            Ok(report)
        });
        if loaded.is_err() {
            // If the server is gone, the next run removes it.
            drop(self.do_all(&["SET foreign_key_checks = 0", &format!("DROP TABLE IF EXISTS {partial}")]));
        }
        loaded
    }

    /// Whether the table may stand beside the one that it was, so that names of constraints are taken.
    const fn is_beside(&self) -> bool {
        self.args.other.is_some()
    }

    fn load(&self, partial: &str) -> Result<Report> {
        let create = match &self.source.schema.definition {
            Some(definition) => create_table_as(definition, partial, self.is_beside()).map_err(Failed::Refused)?,
            None => return refused("its definition is lost"),
        };
        self.do_all(&[
            "SET NAMES utf8mb4",
            "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
            "SET SESSION time_zone = '+00:00'",
            "SET SESSION foreign_key_checks = 0",
            ANY_PARENT_KEY,
            &create,
        ])?;
        let rows = self.load_rows(partial)?;
        let counted = self.ask(|server| server.number(&format!("SELECT COUNT(*) FROM {partial}")))?;
        if counted != Some(rows) {
            let counted = counted.map_or_else(|| "no".to_owned(), grouped);
            return Err(Failed::Damaged(format!(
                "the server counts {counted} rows of {}: it was removed again",
                grouped(rows)
            ))
            .into());
        }
        let (checksum, not_compared) = self.compare(partial, rows)?;
        let warnings = self.ask(|server| Ok(server.warnings()))?;
        if let (Some(why), 1..) = (&not_compared, warnings) {
            let warnings = grouped(warnings);
            return refused(format!(
                "the server warned of {warnings} values that it did not take as they are, and no checksum tells whether that matters ({why}): \
                 the table was removed again"
            ));
        }
        let schema = &self.source.schema;
        Ok(Report {
            table: format!("{}.{}", schema.schema, schema.table),
            restored: {
                let (database, table) = self.args.other.as_ref().unwrap_or(&self.args.table);
                format!("{database}.{table}")
            },
            rows,
            checksum,
            not_compared,
            foreign_keys_left_out: if self.is_beside() { schema.foreign_keys() } else { 0 },
            triggers_left_out: self.source.triggers,
            triggers_unknown: schema.server == "mysql",
        })
    }

    /// Sends the rows. Returns how many.
    fn load_rows(&self, partial: &str) -> Result<u64> {
        let options = ExportOptions {
            scan: self.scan(),
            keys: self.args.keys.files(),
            selection: selection(self.args),
            // A server that starts on the whole set rolls back what was open.
            committed: true,
            ..ExportOptions::default()
        };
        let name = quoted_name(&self.source.schema.table);
        let mut outputs = |_: &inspect::rows::source::TableSource| {
            let (from, to) = (format!("INSERT INTO {name} "), format!("INSERT INTO {partial} "));
            let server = Arc::clone(&self.server);
            Ok(Box::new(Statements { server, from: from.into_bytes(), to, waiting: Vec::new(), seen: 0 })
                as Box<dyn Write + Send>)
        };
        let bar = Bar::new(self.args.progress, Some(0));
        let report = export(&self.args.paths, &options, &TextFormat::Sql, &mut outputs, bar.watch_total().as_deref())?;
        bar.finish();
        if let Some(pending) = report.pending.first() {
            return refused(format!("{}: {}", pending.path, pending.why));
        }
        if let Some(why) = report.unread.first() {
            return refused(why.clone());
        }
        let [table] = report.tables.as_slice() else { return refused("its rows are not in these files") };
        if let Some(why) = &table.refused {
            return refused(why.clone());
        }
        if let Some(damage) = table.damage.first() {
            let why = format!("{damage}: `innokit table export --skip-damaged` writes the rows that can be read");
            return if damage.is_unread() { refused(why) } else { Err(Failed::Damaged(why).into()) };
        }
        Ok(table.rows)
    }

    fn scan(&self) -> ScanOptions {
        ScanOptions { stop: Some(Arc::clone(&self.stop)), ..ScanOptions::default() }
    }

    /// CHECKSUM TABLE on both sides, or why not.
    fn compare(&self, partial: &str, rows: u64) -> Result<(Option<u64>, Option<String>)> {
        let family = self.source.schema.definition.as_ref().map(|definition| definition.family);
        let kind = match self.ask(|server| Ok(server.kind()))? {
            ServerKind::MariaDb => Family::MariaDb,
            ServerKind::MySql => Family::MySql,
        };
        if family != Some(kind) {
            return Ok((None, Some("MySQL and MariaDB sum rows differently".to_owned())));
        }
        let options = ChecksumOptions {
            scan: self.scan(),
            keys: self.args.keys.files(),
            selection: selection(self.args),
            ..ChecksumOptions::default()
        };
        let report = checksums(&self.args.paths, &options, None)?;
        let [table] = report.tables.as_slice() else { return Ok((None, Some("it has no checksum".to_owned()))) };
        let Some(ours) = table.checksum.map(u64::from) else {
            return Ok((None, table.not_computable.clone().or_else(|| Some("it has no checksum".to_owned()))));
        };
        if table.rows != rows {
            return Ok((None, Some("rows of open transactions were left out".to_owned())));
        }
        let theirs = self.ask(|server| server.checksum(partial))?;
        let other = table.checksum_without_generated.map(u64::from);
        if theirs == Some(ours) || theirs.is_some() && theirs == other {
            return Ok((theirs, None));
        }
        let theirs = theirs.map_or_else(|| "none".to_owned(), |sum| sum.to_string());
        Err(Failed::Damaged(format!(
            "CHECKSUM TABLE is {ours} by the files and {theirs} by the server: the table was removed again"
        ))
        .into())
    }
}

/// Runs the statements that are written to it.
struct Statements {
    server: Arc<Mutex<TargetServer>>,
    /// How an INSERT begins, and how it is to begin.
    from: Vec<u8>,
    to: String,
    /// What is not yet a whole statement, and how much of it has no end.
    waiting: Vec<u8>,
    seen: usize,
}

impl Write for Statements {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        // Values and comments hold no line break, and names were looked at: this is an end.
        const END: &[u8] = b";\n";
        let mut done = 0;
        while let Some(at) =
            self.waiting.get(self.seen..).and_then(|rest| rest.windows(END.len()).position(|two| two == END))
        {
            let end = self.seen + at;
            self.send(done..end)?;
            done = end + END.len();
            self.seen = done;
        }
        self.waiting.drain(..done);
        self.seen = self.waiting.len().saturating_sub(1);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Statements {
    fn send(&self, range: std::ops::Range<usize>) -> io::Result<()> {
        let mut statement = self.waiting.get(range).unwrap_or_default();
        // Comments before it are for readers of a file.
        while statement.starts_with(b"-- ") {
            let end = statement.iter().position(|byte| *byte == b'\n').map_or(statement.len(), |at| at + 1);
            statement = statement.get(end..).unwrap_or_default();
        }
        let rest = statement.strip_prefix(self.from.as_slice());
        let text = rest.map_or_else(|| statement.to_vec(), |rest| [self.to.as_bytes(), rest].concat());
        let text = String::from_utf8(text).map_err(|_| io::Error::other("a value is no text in UTF-8"))?;
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let done = if rest.is_some() { server.load(&text) } else { server.run(&text) };
        done.map_err(|error| io::Error::other(shortened(error.to_string())))
    }
}

/// An error that quotes a statement of a megabyte, without most of it.
fn shortened(said: String) -> String {
    const HEAD: usize = 200;
    let length = said.chars().count();
    if length <= 3 * HEAD {
        return said;
    }
    let (head, tail): (String, String) =
        (said.chars().take(HEAD).collect(), said.chars().skip(length - HEAD).collect());
    format!("{head} ... {tail}")
}

fn print(report: &Report, json: bool, started: SystemTime) -> io::Result<()> {
    let mut out = terminal::out();
    if json {
        return document::write((started, 0), false, report, &mut out);
    }
    writeln!(out, "restored  {} as {}: {} rows", shown(&report.table), shown(&report.restored), grouped(report.rows))?;
    match (report.checksum, &report.not_compared) {
        (Some(sum), _) => writeln!(out, "checksum  {sum}, by the files and by the server")?,
        (None, Some(why)) => writeln!(out, "checksum  not compared: {}", shown(why))?,
        (None, None) => {}
    }
    if report.foreign_keys_left_out > 0 {
        writeln!(
            out,
            "left out  {} foreign keys: their names are those of the original",
            report.foreign_keys_left_out
        )?;
    }
    if report.triggers_left_out > 0 {
        writeln!(out, "left out  {} triggers: innokit table schema --triggers prints them", report.triggers_left_out)?;
    }
    if report.triggers_unknown {
        writeln!(out, "triggers  it has none: MySQL keeps them in its dictionary, not with the table")?;
    }
    out.flush()
}
