//! `innokit info`: options in; a description out, and a picture if requested.

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use datadir::inventory::Inventory;
use datadir::selection::Selection;
use inspect::{InfoOptions, InfoReport};

use crate::args::InfoArgs;
use crate::{document, info_print, info_summary, map, terminal};

/// Describes the files. Returns the exit status.
pub fn run(args: &InfoArgs) -> Result<u8, Box<dyn Error>> {
    if let Some(target) = &args.map {
        refuse_map(args, target)?;
    }
    if args.files.iter().any(|path| path == Path::new("-")) {
        return Err(
            "`innokit info` needs files: standard input cannot be read out of order (a file of that name: ./-)".into(),
        );
    }
    let files = files(&args.files, &args.selected.selection());
    if files.is_empty() {
        // Silence would look like an answer.
        let paths: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
        return Err(format!("{}: no file here that innokit knows", paths.join(", ")).into());
    }
    let defaults = InfoOptions::default();
    let options = InfoOptions {
        workers: args.threads.map_or(defaults.workers, usize::from),
        page_size: args.page_size,
        keys: args.keys.files(),
        grid: args.map.is_some(),
        ..defaults
    };
    let started = SystemTime::now();
    let report = inspect::info(&files, &options)?;
    let printed = print(&report, args, started);
    match printed {
        // The reader closed the pipe early (`| head`): the findings stand.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    if let Some(target) = &args.map {
        draw(&report, target)?;
    }
    Ok(report.exit_status())
}

/// The files to describe. For a directory, those that `innokit check` would examine.
fn files(paths: &[PathBuf], selection: &Selection) -> Vec<PathBuf> {
    let of = |path: &PathBuf| {
        if !datadir::remote::is_url(path) && !path.is_dir() {
            return vec![path.clone()];
        }
        let inventory = Inventory::take_selected(std::slice::from_ref(path), selection);
        let failed = inventory.failed.into_iter().map(|passed| passed.path);
        inventory.candidates.into_iter().map(|file| file.path).chain(failed).collect()
    };
    paths.iter().flat_map(of).collect()
}

/// A map shows one file, and must not be drawn over a file that is being described.
fn refuse_map(args: &InfoArgs, target: &Path) -> Result<(), String> {
    let [file] = args.files.as_slice() else {
        return Err("`--map` draws one file; name only one".to_owned());
    };
    let same = match (file.canonicalize(), target.canonicalize()) {
        (Ok(file), Ok(target)) => file == target,
        _ => false,
    };
    if same { Err(format!("{}: the map would overwrite the file that it shows", file.display())) } else { Ok(()) }
}

fn print(report: &InfoReport, args: &InfoArgs, started: SystemTime) -> io::Result<()> {
    let mut out = terminal::out();
    if args.json {
        document::write((started, report.exit_status()), false, report, &mut out)?;
    } else if info_summary::is_needed(report) && !args.all {
        info_summary::text(report, &mut out)?;
    } else {
        info_print::text(report, &mut out)?;
    }
    out.flush()
}

fn draw(report: &InfoReport, target: &Path) -> Result<(), Box<dyn Error>> {
    let Some(file) = report.files.first().filter(|file| file.grid.is_some()) else {
        return Err("there is no map to draw: the file is not a tablespace".into());
    };
    map::draw(file, target).map_err(|error| format!("{}: the map was not drawn: {error}", target.display()).into())
}
