//! The second wall: the kernel (Landlock) keeps the process from changing any file but those that its command was told to write to.
//!
//! The first wall is the door in `recovery`: every name out of a set is opened beneath the directory that the user named. Should a name ever get
//! past it, the kernel refuses the write, with `EACCES`. Only changes of content and of entries are restrained: Landlock knows no rule for
//! owners, modes and times. Commands that only read may read no more than what was named and what its links lead to (`sight.rs`). Reading is
//! free for the others, and where a URL is named: certificates, option files and the names of hosts may be anywhere. It is free for a datadir of
//! MySQL's too, whose dictionary may name tablespaces anywhere.
//!
//! A directory that is still to be made cannot be in a rule. So there are two layers: the first, before a byte of a set is read, allows
//! changes in the nearest directory above; the second, as soon as `recovery` has made the target, in the target alone.
//!
//! It cannot be undone, so only the program builds it (`main.rs`), never the library in another's process.

#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
mod sight;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use datadir::remote::is_url;
use recovery::OutsidePlace;

use crate::args::{BackupCommand, Command, RecoverArgs, RedoCommand, RestoreArgs, TableCommand};
use crate::options::view::base_of;
use crate::options::{ViewArgs, key_paths};

/// Whether this process runs nothing but innokit.
static IS_PROGRAM: AtomicBool = AtomicBool::new(false);
/// What is known about the wall, for `--verbose`.
static SAYS: OnceLock<String> = OnceLock::new();
/// Where the command may write.
static ROOMS: OnceLock<Vec<Room>> = OnceLock::new();

/// Something that a command may write to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Room {
    /// A directory with all that is in it. It may be missing yet.
    Directory(PathBuf),
    /// A file that is replaced in one step, so it is made beside its name. Or a device or a pipe.
    File(PathBuf),
    /// The name of a directory, which is made, renamed or removed. Not what is in it.
    Name(PathBuf),
}

/// Lets [`raise`] restrain this process: it runs no other program's work, and no thread has been started yet.
pub fn allow() {
    // Relaxed: there is one thread.
    IS_PROGRAM.store(true, Ordering::Relaxed);
}

/// Restrains the process to what its command may write. Call it before a thread is started: only threads that are started later are bound.
pub fn raise(command: &Command, is_wanted: bool) {
    // Relaxed: see above.
    if !IS_PROGRAM.load(Ordering::Relaxed) {
        return;
    }
    let says = match rooms(command) {
        None => "not restrained: this command has no rules, or was allowed to write outside of its target".to_owned(),
        Some(_) if !is_wanted => "not restrained, as --no-landlock says".to_owned(),
        Some(rooms) => restrain(rooms, named(command)),
    };
    SAYS.set(says).ok();
}

/// Says what holds, for `--verbose`.
pub fn tell(out: &mut impl Write) -> io::Result<()> {
    match SAYS.get() {
        Some(says) => writeln!(out, "wall    {says}"),
        None => Ok(()),
    }
}

/// A hint for errors that may be the wall's.
pub fn advice(error: &str) -> Option<&'static str> {
    let is_raised = ROOMS.get().is_some() && error.contains("(os error 13)");
    is_raised.then_some(
        "if its user may do that, innokit restrained itself: name that place too if it is to be read; --no-landlock lifts it, but first see that \
         the name is one you expect",
    )
}

#[cfg(target_os = "linux")]
fn restrain(rooms: Vec<Room>, named: Option<Vec<PathBuf>>) -> String {
    // MySQL's dictionary may name tablespaces anywhere, and is read later.
    let seen = named.filter(|named| !sight::is_of_mysql(named)).map(|named| sight::of(&named));
    let built = rules::build(&rooms, seen.as_deref());
    let Ok(is_whole) = built else {
        return "not restrained: the kernel has no Landlock (Linux 5.19 or later), or does not use it".to_owned();
    };
    let is_narrow = rooms.iter().all(|room| !matches!(room, Room::Directory(path) if !path.exists()));
    let says = in_words(&rooms, seen.as_deref(), is_whole);
    ROOMS.set(rooms).ok();
    if !is_narrow {
        recovery::on_target_made(narrow);
    }
    says
}

#[cfg(not(target_os = "linux"))]
fn restrain(_: Vec<Room>, _: Option<Vec<PathBuf>>) -> String {
    "not restrained: Landlock is a part of Linux".to_owned()
}

/// The second layer, once: the target is there now.
#[cfg(target_os = "linux")]
fn narrow() {
    static IS_NARROW: AtomicBool = AtomicBool::new(false);
    // Relaxed: only the thread that made the target comes here.
    if let Some(rooms) = ROOMS.get().filter(|_| !IS_NARROW.swap(true, Ordering::Relaxed)) {
        // The first layer holds in any case.
        rules::build(rooms, None).ok();
    }
}

/// Names in a line: the first few, and how many more there are.
#[cfg(target_os = "linux")]
const NAMES_MAX: usize = 8;

#[cfg(target_os = "linux")]
fn in_words(rooms: &[Room], seen: Option<&[sight::Seen]>, is_whole: bool) -> String {
    let list = |all: Vec<String>| {
        let mut names: Vec<String> = all.iter().take(NAMES_MAX).cloned().collect();
        let more = all.len() - names.len();
        if more > 0 {
            names.push(format!("{more} more"));
        }
        names.join(", ")
    };
    let most = if is_whole { "" } else { " (not truncating files: the kernel is too old for that rule)" };
    let but = |names: String| if names.is_empty() { names } else { format!(" but {names}") };
    let written = but(list(rooms.iter().map(|room| room.path().display().to_string()).collect()));
    let read = seen.map_or_else(String::new, |seen| {
        format!("; nothing read{}", but(list(seen.iter().map(ToString::to_string).collect())))
    });
    format!("Landlock: nothing can be written{written}{most}{read}")
}

impl Room {
    #[cfg(target_os = "linux")]
    fn path(&self) -> &Path {
        let (Self::Directory(path) | Self::File(path) | Self::Name(path)) = self;
        path
    }

    fn file(path: Option<&PathBuf>) -> Vec<Self> {
        path.into_iter().cloned().map(Self::File).collect()
    }
}

/// Where a command may write. `None` for those that are not restrained.
fn rooms(command: &Command) -> Option<Vec<Room>> {
    let dir = |path: &Path| vec![Room::Directory(path.to_path_buf())];
    Some(match command {
        Command::Check(args) => Room::file(args.monitor.metrics.as_ref()),
        Command::Info(args) => Room::file(args.map.as_ref()),
        Command::Redo { command: RedoCommand::Archive(args) } => {
            [dir(&args.to), Room::file(args.metrics.as_ref())].concat()
        }
        Command::Redo { .. } => Vec::new(),
        Command::Recover(args) => of_recover(args)?,
        Command::Restore(args) => of_restore(args)?,
        Command::Unpack(args) => dir(&args.dir),
        Command::Backup(args) => match (&args.command, &args.spool, &args.to) {
            (Some(BackupCommand::Verify(args)), ..) => args.spool.as_deref().map(dir).unwrap_or_default(),
            (None, Some(spool), _) => dir(spool),
            (None, None, to) => to.as_deref().map(dir).unwrap_or_default(),
        },
        Command::Table(command) => of_table(command),
        Command::Diff(args) => Room::file(args.output.as_ref().filter(|output| output.as_path() != Path::new("-"))),
        _ => return None,
    })
}

/// What was named to be read, for the commands that only read. `None`: reading is free.
fn named(command: &Command) -> Option<Vec<PathBuf>> {
    let (paths, keys, others, view): (&[PathBuf], Vec<PathBuf>, Option<&PathBuf>, Option<&ViewArgs>) = match command {
        Command::Check(args) => (&args.paths, args.reading.keys.paths(), None, Some(&args.view)),
        Command::Info(args) => (&args.files, args.keys.paths(), None, Some(&args.view)),
        Command::Redo { command: RedoCommand::Info(args) } => {
            let key_file = args.key_file.iter().flat_map(key_paths);
            (std::slice::from_ref(&args.path), key_file.chain(args.keyring.iter().cloned()).collect(), None, None)
        }
        Command::Redo { command: RedoCommand::Verify(args) } => {
            (std::slice::from_ref(&args.archive), Vec::new(), None, None)
        }
        Command::Table(TableCommand::Check(args)) => {
            (&args.table.paths, args.table.reading.keys.paths(), None, Some(&args.table.view))
        }
        Command::Table(TableCommand::Count(args)) => (&args.paths, args.reading.keys.paths(), None, Some(&args.view)),
        Command::Table(TableCommand::Schema(args)) => {
            (&args.paths, args.keys.paths(), args.create_table.as_ref(), Some(&args.view))
        }
        Command::Table(TableCommand::Checksum(args)) => {
            let more = args.rows.create_table.iter().chain(&args.compare).cloned();
            let keys = args.rows.reading.keys.paths().into_iter().chain(more).collect();
            (&args.rows.paths, keys, None, Some(&args.rows.view))
        }
        Command::Table(TableCommand::Export(args)) => {
            (&args.rows.paths, args.rows.reading.keys.paths(), args.rows.create_table.as_ref(), Some(&args.rows.view))
        }
        Command::Diff(args) => {
            let bases = args.paths().filter_map(|path| base_of(&path)).chain(args.redo.clone());
            let all: Vec<PathBuf> = args.paths().chain(args.reading.keys.paths()).chain(bases).collect();
            return (!all.iter().any(|path| is_url(path))).then_some(all);
        }
        _ => return None,
    };
    let viewed = view.map_or_else(Vec::new, |view| view.seen(paths));
    let all: Vec<PathBuf> = paths.iter().cloned().chain(keys).chain(others.cloned()).chain(viewed).collect();
    (!all.iter().any(|path| is_url(path))).then_some(all)
}

fn of_recover(args: &RecoverArgs) -> Option<Vec<Room>> {
    if args.with_outside {
        return None;
    }
    let in_place = args.in_place.then(|| Room::Directory(args.datadir.clone()));
    let to = args.to.clone().map(Room::Directory);
    Some(in_place.into_iter().chain(to).chain(places(&args.outside)).collect())
}

fn of_restore(args: &RestoreArgs) -> Option<Vec<Room>> {
    if args.with_outside {
        return None;
    }
    if args.moves {
        return Some(vec![Room::Directory(args.backup.clone()), Room::Name(args.to.clone())]);
    }
    Some(std::iter::once(Room::Directory(args.to.clone())).chain(places(&args.outside)).collect())
}

/// Where tablespaces outside of the datadir go.
fn places(outside: &[OutsidePlace]) -> impl Iterator<Item = Room> {
    outside.iter().map(|place| Room::Directory(place.new.clone()))
}

fn of_table(command: &TableCommand) -> Vec<Room> {
    match command {
        TableCommand::Check(_) | TableCommand::Count(_) | TableCommand::Schema(_) | TableCommand::Restore(_) => {
            Vec::new()
        }
        TableCommand::Checksum(args) => Room::file(args.rows.metrics.as_ref()),
        TableCommand::Export(args) => {
            let output = args.output.as_ref().filter(|output| output.as_path() != Path::new("-"));
            let output = output.map(|path| {
                let is_directory = path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/');
                if is_directory { Room::Directory(path.clone()) } else { Room::File(path.clone()) }
            });
            output.into_iter().chain(Room::file(args.rows.metrics.as_ref())).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn rooms_of(line: &str) -> Option<Vec<Room>> {
        let cli = Cli::try_parse_from(line.split(' ')).expect("a command line");
        rooms(&cli.command)
    }

    #[test]
    fn what_a_command_may_read_is_what_its_line_names_but_for_urls() {
        let named_in = |line: &str| {
            let cli = Cli::try_parse_from(line.split(' ')).expect("a command line");
            named(&cli.command)
                .map(|paths| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" "))
        };
        for (line, expected) in [
            ("innokit check /data /more --keyring /ring", Some("/data /more /ring")),
            ("innokit check /data --key-file /keys,FILE:/secret", Some("/data /keys /secret")),
            ("innokit check s3://bucket/data /more", None),
            ("innokit info a.ibd", Some("a.ibd")),
            ("innokit redo info /data --keyring /ring", Some("/data /ring")),
            ("innokit redo verify /archive", Some("/archive")),
            ("innokit table check /data", Some("/data")),
            ("innokit table count /data", Some("/data")),
            ("innokit table schema t.ibd --create-table t.sql", Some("t.ibd t.sql")),
            ("innokit table checksum t.ibd --create-table t.sql", Some("t.ibd t.sql")),
            ("innokit table export t.ibd --format csv --create-table t.sql -o t.csv", Some("t.ibd t.sql")),
            ("innokit diff /set /data --redo /archive --keyring /ring", Some("/set /data /ring /archive")),
            ("innokit recover --dry-run /data", None),
            ("innokit backup verify /set", None),
        ] {
            assert_eq!(named_in(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn what_a_command_may_write_is_what_its_line_names() {
        let dir = |path: &str| Room::Directory(path.into());
        let file = |path: &str| Room::File(path.into());
        for (line, expected) in [
            ("innokit check /data", Some(vec![])),
            ("innokit check /data --metrics /m.prom", Some(vec![file("/m.prom")])),
            ("innokit info a.ibd --map a.svg", Some(vec![file("a.svg")])),
            ("innokit table check /data", Some(vec![])),
            ("innokit table export /data --format csv -o out/", Some(vec![dir("out/")])),
            ("innokit table export t.ibd --format csv -o t.csv", Some(vec![file("t.csv")])),
            ("innokit table export t.ibd --format csv -o -", Some(vec![])),
            ("innokit diff /set /data -o /d.sql", Some(vec![file("/d.sql")])),
            ("innokit recover --in-place /data", Some(vec![dir("/data")])),
            ("innokit recover --to /copy /data", Some(vec![dir("/copy")])),
            ("innokit recover --dry-run /data", Some(vec![])),
            ("innokit recover --in-place --with-outside /data", None),
            ("innokit restore /set --to /data", Some(vec![dir("/data")])),
            ("innokit restore /set --move --to /data", Some(vec![dir("/set"), Room::Name("/data".into())])),
            ("innokit restore /set --to /data --outside /old=/new", Some(vec![dir("/data"), dir("/new")])),
            ("innokit recover --to /copy --outside /old=/new /data", Some(vec![dir("/copy"), dir("/new")])),
            ("innokit unpack a.xb /to", Some(vec![dir("/to")])),
            ("innokit backup verify /set", Some(vec![])),
            ("innokit backup /data --to /set", Some(vec![dir("/set")])),
            ("innokit redo archive /data --to /archive", Some(vec![dir("/archive")])),
            ("innokit demo", None),
        ] {
            assert_eq!(rooms_of(line), expected, "{line}");
        }
    }
}
