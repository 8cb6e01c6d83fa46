//! `innokit diff`: options in, differences out.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flow::Job;
use format::{PageId, SpaceId};
use inspect::diff::write::{JsonChanges, SqlChanges, TextChanges};
use inspect::diff::{Changes, DiffOptions, DiffReport, Found, Lineage, Side, TableDiff, diff};
use inspect::rows::scan::ScanOptions;
use recovery::{View, ViewOptions};

use crate::args::{Command, DiffArgs, DiffFormat};
use crate::options::Until;
use crate::print::grouped;
use crate::terminal::{self, shown};
use crate::{document, view};

/// Bytes of output that are written at once.
const BUFFER: usize = 256 << 10;

/// Unnamed files for what does not fit in memory: the redo of both sides, and statements that come last. They can only be made before the
/// wall is raised.
#[derive(Debug, Default)]
pub struct Unnamed {
    redo: [Option<File>; 2],
    statements: Option<File>,
}

/// The files that the command may need.
pub fn unnamed(command: &Command) -> Unnamed {
    let Command::Diff(args) = command else { return Unnamed::default() };
    // Without them, what fits in memory is compared all the same.
    let file = |is_wanted: bool| is_wanted.then(tempfile::tempfile).and_then(Result::ok);
    Unnamed { redo: args.views().map(file), statements: file(args.format == DiffFormat::Sql) }
}

/// Compares the sets. Returns the exit status.
pub fn run(args: &DiffArgs, unnamed: Unnamed) -> Result<u8, Box<dyn Error>> {
    let started = SystemTime::now();
    let Unnamed { redo, statements } = unnamed;
    let (sides, lineage) = sides(args, redo)?;
    let defaults = ScanOptions::default();
    let options = DiffOptions {
        scan: ScanOptions { read: args.reading.options(defaults.read.clone()), ..defaults },
        page_size: args.reading.page_size,
        keys: args.reading.keys.files(),
        selection: args.reading.selected.selection(),
        memory: usize::try_from(args.memory).unwrap_or(usize::MAX),
    };
    let [a, b] = &sides;
    let pair = if args.reverse { (b, a) } else { (a, b) };
    let mut changes = changes(args, statements)?;
    let lineage = lineage.as_ref().map(|history| history as &dyn Lineage);
    let report = diff(pair, &options, lineage, &mut *changes);
    let report = match report {
        // The reader closed the pipe early (`| head`): it needs no words.
        Err(_) if terminal::lost().is_some_and(|(kind, _)| *kind == io::ErrorKind::BrokenPipe) => return Ok(0),
        other => other?,
    };
    drop(changes);
    let status = report.exit_status();
    // Standard output is for the rows, if any are written there.
    let is_free = args.summary || (args.format == DiffFormat::Text && args.output.is_none());
    match (args.json, is_free) {
        (true, _) if args.summary => document::write((started, status), false, &report, &mut terminal::out())?,
        (true, _) => document::write((started, status), false, &report, &mut terminal::err())?,
        (false, true) => {
            let mut out = terminal::out();
            print(&report, &mut out)?;
            out.flush()?;
        }
        (false, false) => print(&report, &mut terminal::err())?,
    }
    Ok(status)
}

fn changes(args: &DiffArgs, statements: Option<File>) -> Result<Box<dyn Changes>, Box<dyn Error>> {
    let out: Box<dyn Write + Send> = match args.output.as_deref().filter(|output| *output != Path::new("-")) {
        _ if args.summary => Box::new(io::sink()),
        None => terminal::data(),
        Some(path) => Box::new(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?),
    };
    let out = BufWriter::with_capacity(BUFFER, out);
    Ok(match args.format {
        DiffFormat::Text => Box::new(TextChanges::new(out)),
        DiffFormat::Jsonl => Box::new(JsonChanges::new(out)),
        DiffFormat::Sql => Box::new(SqlChanges::new(out, statements)),
    })
}

/// One set at two moments: what its log does between them.
struct History {
    later: View,
}

impl Lineage for History {
    fn is_unchanged(&self, space: SpaceId, page_no: u32) -> bool {
        self.later.is_unchanged(PageId::new(space.0, page_no))
    }
}

/// Both sides, and what is known about their pages if they are one set.
fn sides(args: &DiffArgs, spills: [Option<File>; 2]) -> Result<([Side; 2], Option<History>), Box<dyn Error>> {
    if args.b.is_none() && args.redo.is_none() && args.from.is_none() {
        return Err("one set is compared with itself at another moment: name the archive of its redo log (--redo), or the moment (--from); \
                    or name two sets"
            .into());
    }
    let paths = [args.a.clone(), args.b.clone().unwrap_or_else(|| args.a.clone())];
    let [spill_a, spill_b] = spills;
    let [views_a, views_b] = args.views();
    let redo_a = args.redo.clone().filter(|_| args.from.is_some());
    args.reading.keys.files().hold_pipes()?;
    let [path_a, path_b] = paths;
    let a = open(args, path_a, views_a.then_some((redo_a, args.from.as_ref())), (spill_a, None))?;
    let since = a.view.as_ref().and_then(View::lsn);
    let b = open(args, path_b, views_b.then_some((args.redo.clone(), args.until.as_ref())), (spill_b, since))?;
    let history = match (&a.view, &b.view) {
        (Some(earlier), Some(later)) if earlier.base() == later.base() && earlier.lsn() <= later.lsn() => {
            Some(History { later: later.clone() })
        }
        (Some(_), Some(_)) if args.b.is_none() => {
            return Err("--from is after --until: exchange them, or use --reverse".into());
        }
        _ => None,
    };
    Ok(([a.side, b.side], history))
}

/// A side, and its view if it has one.
struct Opened {
    side: Side,
    view: Option<View>,
}

type Moment<'m> = (Option<PathBuf>, Option<&'m Until>);

fn open(
    args: &DiffArgs,
    path: PathBuf,
    moment: Option<Moment<'_>>,
    (spill, since): (Option<File>, Option<format::Lsn>),
) -> Result<Opened, Box<dyn Error>> {
    let mut side = Side { paths: vec![path], job: Job::default() };
    let Some((redo, moment)) = moment else { return Ok(Opened { side, view: None }) };
    let base = view::common_base(&mut side.paths)?;
    let recover = view::moment((redo, moment), args.reading.keys.files(), args.memory);
    let view = View::open(&base, ViewOptions { recover, spill, since })?;
    view::print(&view, &base, moment)?;
    let in_job = side.job.enter();
    view.look_through()?;
    drop(in_job);
    Ok(Opened { side, view: Some(view) })
}

/// The tables that differ, and a line about all.
fn print(report: &DiffReport, out: &mut impl Write) -> io::Result<()> {
    for table in &report.tables {
        print_table(table, out)?;
    }
    for note in &report.notes {
        writeln!(out, "{}", shown(note))?;
    }
    for why in &report.unread {
        writeln!(out, "{}", shown(why))?;
    }
    for pending in &report.pending {
        writeln!(
            out,
            "{}: recovery is pending, so nothing was compared: {}. --recovered reads what recovery would leave",
            shown(&pending.path),
            shown(&pending.why)
        )?;
    }
    if report.tables.is_empty() && report.same == 0 && report.pending.is_empty() {
        writeln!(out, "no table was found")?;
    }
    let differ = match report.tables.len() {
        1 => "1 table differs".to_owned(),
        count => format!("{} tables differ", grouped(count as u64)),
    };
    let same = grouped(report.same as u64);
    let are = if report.same == 1 { "is" } else { "are" };
    let pages = grouped(report.pages_read);
    writeln!(out, "{differ}, {same} {are} the same; {pages} pages read, {:.2} s", report.seconds)
}

fn print_table(table: &TableDiff, out: &mut impl Write) -> io::Result<()> {
    let name = shown(&table.table);
    match table.found {
        Found::OnlyInA => writeln!(out, "{name}: the table is only in A")?,
        Found::OnlyInB => writeln!(out, "{name}: the table is only in B")?,
        Found::InBoth => {
            let counts = [(table.added, "added"), (table.removed, "removed"), (table.changed, "changed")];
            let counts = counts.map(|(count, word)| format!("{} {word}", grouped(count))).join(", ");
            let open = match table.not_committed {
                0 => String::new(),
                count => format!(", {} of them not committed", grouped(count)),
            };
            writeln!(out, "{name}: {counts}{open}")?;
        }
    }
    if !table.definition.is_empty() {
        writeln!(out, "{name}: the definitions differ")?;
    }
    for column in &table.not_compared {
        writeln!(out, "{name}: not compared: column {}", shown(column))?;
    }
    for damage in &table.damage {
        writeln!(out, "{name}: {}", shown(&damage.to_string()))?;
    }
    for why in table.inexact.iter().chain(&table.refused) {
        writeln!(out, "{name}: {}", shown(why))?;
    }
    Ok(())
}
