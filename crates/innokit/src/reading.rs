//! What the commands have in common that only read files: `check`, `info`, and all of `table`.

use std::path::PathBuf;

use datadir::keys::KeyFiles;

use crate::args::{Command, TableCommand};
use crate::options::ViewArgs;

/// What such a command was told to read, and how.
pub struct Reading<'c> {
    pub paths: &'c mut Vec<PathBuf>,
    pub keys: KeyFiles,
    pub view: &'c ViewArgs,
    pub is_live: bool,
}

impl<'c> Reading<'c> {
    /// `None` for other commands.
    pub fn of(command: &'c mut Command) -> Option<Self> {
        let (paths, keys, view, is_live) = match command {
            Command::Check(args) => (&mut args.paths, args.reading.keys.files(), &args.view, args.live),
            Command::Info(args) => (&mut args.files, args.keys.files(), &args.view, false),
            Command::Table(TableCommand::Check(args)) => {
                (&mut args.table.paths, args.table.reading.keys.files(), &args.table.view, false)
            }
            Command::Table(TableCommand::Count(args)) => {
                (&mut args.paths, args.reading.keys.files(), &args.view, false)
            }
            Command::Table(TableCommand::Checksum(args)) => {
                (&mut args.rows.paths, args.rows.reading.keys.files(), &args.rows.view, false)
            }
            Command::Table(TableCommand::Export(args)) => {
                (&mut args.rows.paths, args.rows.reading.keys.files(), &args.rows.view, false)
            }
            Command::Table(TableCommand::Schema(args)) => (&mut args.paths, args.keys.files(), &args.view, false),
            Command::Table(TableCommand::Restore(args)) => {
                // A backup's log is part of it.
                args.view.recovered = true;
                (&mut args.paths, args.keys.files(), &args.view, false)
            }
            _ => return None,
        };
        Some(Self { paths, keys, view, is_live })
    }
}
