//! `--recovered`, `--redo` and `--until` of the commands that read: the command looks at its datadir through a view (`recovery::View`).

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use datadir::files::is_remote;
use datadir::keys::KeyFiles;
use recovery::{RecoverOptions, View, ViewOptions};

use crate::args::Command;
use crate::options::Until;
use crate::options::view::base_of;
use crate::reading::Reading;
use crate::recover::{limits, print_reached};
use crate::terminal;

/// What a command reads that asks for a view.
fn asked(command: &mut Command) -> Option<Reading<'_>> {
    Reading::of(command).filter(|reading| reading.view.is_wanted())
}

/// The file for redo that does not fit in memory, if the command opens a view. Call it before the wall is raised, behind which none can be made.
pub fn spill(command: &mut Command) -> Option<File> {
    asked(command)?;
    // Without one, a log that fits in memory is viewed all the same.
    tempfile::tempfile().ok()
}

/// Has the command read its datadir through the view that it asks for, if it asks for one.
pub fn look(command: &mut Command, spill: Option<File>) -> Result<(), Box<dyn Error>> {
    let Some(asked) = asked(command) else { return Ok(()) };
    let base = common_base(asked.paths)?;
    if asked.is_live {
        return Err(
            "`--live` looks at files while a server writes them, and a view at files that no server has open".into()
        );
    }
    // The keys are read twice.
    asked.keys.hold_pipes()?;
    let recover = moment((asked.view.redo.clone(), asked.view.until.as_ref()), asked.keys, asked.view.memory);
    let view = View::open(&base, ViewOptions { recover, spill, since: None })?;
    view.look_through()?;
    print(&view, &base, asked.view.until.as_ref())?;
    Ok(())
}

/// What is viewed: the end of this archive or a moment, with these keys, in so many bytes of memory.
pub fn moment((redo, until): (Option<PathBuf>, Option<&Until>), keys: KeyFiles, memory: u64) -> RecoverOptions {
    let (until, until_time) = limits(until);
    let memory = usize::try_from(memory).unwrap_or(usize::MAX);
    RecoverOptions { redo, until, until_time, keys, memory, ..RecoverOptions::default() }
}

/// Says what is viewed.
pub fn print(view: &View, base: &Path, until: Option<&Until>) -> io::Result<()> {
    let mut out = terminal::err();
    match view.lsn() {
        Some(lsn) => writeln!(out, "viewing {} at LSN {lsn}", base.display())?,
        None => writeln!(out, "viewing {} as it lies: its redo log has nothing to apply", base.display())?,
    }
    if let (Some(Until::Time(time)), Some(reached), Some(lsn)) = (until, view.moment(), view.lsn()) {
        print_reached(time, &reached, lsn.0, &mut out)?;
    }
    Ok(())
}

/// The datadir that all paths are in. A path that goes up again (`..`) is replaced by one that does not, as a view knows files by their names.
pub fn common_base(paths: &mut [PathBuf]) -> Result<PathBuf, String> {
    let mut base: Option<PathBuf> = None;
    for path in paths {
        if path.as_path() == Path::new("-") || is_remote(path) {
            return Err(format!("{}: a view is of a datadir or a backup on this system", path.display()));
        }
        if path.components().any(|part| part == Component::ParentDir) {
            *path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let Some(found) = base_of(path) else {
            return Err(format!(
                "{}: neither a datadir nor in one: a view needs ibdata1 and the redo log beside the tables",
                path.display()
            ));
        };
        match &base {
            Some(base) if *base != found => {
                return Err(format!("{} and {} are two datadirs: a view is of one", base.display(), found.display()));
            }
            _ => base = Some(found),
        }
    }
    base.ok_or_else(|| "a view needs a datadir".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_of_the_one_datadir_that_all_paths_are_in() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = |name: &str| dir.path().join(name);
        for datadir in ["one", "two"] {
            std::fs::create_dir_all(of(datadir).join("shop")).expect("made");
            std::fs::write(of(datadir).join("ibdata1"), "").expect("written");
        }
        let base = |names: &[&str]| common_base(&mut names.iter().map(|name| of(name)).collect::<Vec<_>>());
        assert_eq!(base(&["one", "one/shop/later.ibd"]), Ok(of("one")));
        assert_eq!(base(&["two/shop/../../one"]).map(|base| base.ends_with("one")), Ok(true));
        for (names, why) in
            [(&["one", "two/shop"][..], "two datadirs"), (&["."], "neither a datadir"), (&["-"], "neither")]
        {
            assert!(base(names).is_err_and(|error| error.contains(why)), "{names:?}");
        }
        let url = common_base(&mut [PathBuf::from("s3://bucket/set")]);
        assert!(url.is_err_and(|error| error.contains("on this system")));
    }
}
