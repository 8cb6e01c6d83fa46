//! URLs as paths, if this build reads them.

use std::error::Error;
use std::path::PathBuf;

use datadir::remote;

use crate::args::{Command, TableCommand};

/// Lets commands read `s3://`, `gs://`, `az://` and `https://`. Nothing is started until one is used.
///
/// # Errors
/// An environment variable that configures the access has an unusable value.
#[cfg(feature = "cloud")]
pub fn install(command: &mut Command) -> Result<(), Box<dyn Error>> {
    remote::install(Box::new(cloud::Cloud::new(cloud::Policy::from_env()?)));
    enter(command);
    Ok(())
}

/// Without the feature, each URL is refused by name.
#[cfg(not(feature = "cloud"))]
pub fn install(command: &mut Command) -> Result<(), Box<dyn Error>> {
    enter(command);
    Ok(())
}

/// Strips the signatures from the URLs that the user named, so that no report repeats them.
fn enter(command: &mut Command) {
    let paths: &mut Vec<PathBuf> = match command {
        Command::Check(args) => &mut args.paths,
        Command::Info(args) => &mut args.files,
        Command::Table(TableCommand::Check(args)) => &mut args.table.paths,
        Command::Table(TableCommand::Count(args)) => &mut args.paths,
        Command::Table(TableCommand::Checksum(args)) => &mut args.rows.paths,
        Command::Table(TableCommand::Export(args)) => &mut args.rows.paths,
        Command::Table(TableCommand::Schema(args)) => &mut args.paths,
        _ => return,
    };
    for path in paths {
        *path = remote::entered(std::mem::take(path));
    }
}
