//! The second wall: the kernel (Landlock) keeps the process from changing any file but those that its command was told to write to.
//!
//! The first wall is the door in `jobs`: every name out of a set is opened beneath the directory that the user named. Should a name ever get
//! past it, the kernel refuses the write, with `EACCES`. Only changes of content and of entries are restrained: Landlock knows no rule for
//! owners, modes and times. Reading is free: a datadir's own links, keys, certificates and option files may be anywhere.
//!
//! A directory that is still to be made cannot be in a rule. So there are two layers: the first, before a byte of a set is read, allows
//! changes in the nearest directory above; the second, as soon as `jobs` has made the target, in the target alone.
//!
//! It cannot be undone, so only the program builds it (`main.rs`), never the library in another's process.

#[cfg(target_os = "linux")]
mod rules;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::args::{BackupCommand, Command, RecoverArgs, RedoCommand, RestoreArgs, TableCommand};

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
        Some(rooms) => restrain(rooms),
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
        "if its user may write there, innokit restrained itself: --no-landlock lifts that, but first see that the name is one you expect",
    )
}

#[cfg(target_os = "linux")]
fn restrain(rooms: Vec<Room>) -> String {
    let built = rules::build(&rooms);
    let Ok(is_whole) = built else {
        return "not restrained: the kernel has no Landlock (Linux 5.19 or later), or does not use it".to_owned();
    };
    let is_narrow = rooms.iter().all(|room| !matches!(room, Room::Directory(path) if !path.exists()));
    let says = in_words(&rooms, is_whole);
    ROOMS.set(rooms).ok();
    if !is_narrow {
        jobs::on_target_made(narrow);
    }
    says
}

#[cfg(not(target_os = "linux"))]
fn restrain(_: Vec<Room>) -> String {
    "not restrained: Landlock is a part of Linux".to_owned()
}

/// The second layer, once: the target is there now.
#[cfg(target_os = "linux")]
fn narrow() {
    static IS_NARROW: AtomicBool = AtomicBool::new(false);
    // Relaxed: only the thread that made the target comes here.
    if let Some(rooms) = ROOMS.get().filter(|_| !IS_NARROW.swap(true, Ordering::Relaxed)) {
        // The first layer holds in any case.
        rules::build(rooms).ok();
    }
}

#[cfg(target_os = "linux")]
fn in_words(rooms: &[Room], is_whole: bool) -> String {
    let names: Vec<String> = rooms.iter().map(|room| room.path().display().to_string()).collect();
    let most = if is_whole { "" } else { " (not truncating files: the kernel is too old for that rule)" };
    match names.as_slice() {
        [] => format!("Landlock: nothing can be written{most}"),
        names => format!("Landlock: nothing can be written but {}{most}", names.join(", ")),
    }
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
        _ => return None,
    })
}

fn of_recover(args: &RecoverArgs) -> Option<Vec<Room>> {
    if args.with_outside {
        return None;
    }
    let in_place = args.in_place.then(|| Room::Directory(args.datadir.clone()));
    let to = args.to.clone().map(Room::Directory);
    Some(in_place.into_iter().chain(to).collect())
}

fn of_restore(args: &RestoreArgs) -> Option<Vec<Room>> {
    if args.with_outside {
        return None;
    }
    if args.moves {
        return Some(vec![Room::Directory(args.backup.clone()), Room::Name(args.to.clone())]);
    }
    Some(vec![Room::Directory(args.to.clone())])
}

fn of_table(command: &TableCommand) -> Vec<Room> {
    match command {
        TableCommand::Check(_) | TableCommand::Count(_) | TableCommand::Schema(_) => Vec::new(),
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
            ("innokit recover --in-place /data", Some(vec![dir("/data")])),
            ("innokit recover --to /copy /data", Some(vec![dir("/copy")])),
            ("innokit recover --dry-run /data", Some(vec![])),
            ("innokit recover --in-place --with-outside /data", None),
            ("innokit restore /set --to /data", Some(vec![dir("/data")])),
            ("innokit restore /set --move --to /data", Some(vec![dir("/set"), Room::Name("/data".into())])),
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
