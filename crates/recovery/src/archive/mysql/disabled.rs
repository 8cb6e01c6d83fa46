//! The note that the server makes changes without redo (`ALTER INSTANCE DISABLE INNODB REDO_LOG`). It outlives the run that noticed. Once
//! the server writes redo again, there is a gap.

use std::path::Path;

use flow::append::write_whole;
use flow::durable::remove_file;

use crate::archive::error::{Result, failed};
use datadir::files::AskPath;

const NAME: &str = "redo.disabled";

/// Writes the note, unless it exists.
pub(super) fn note(dir: &Path) -> Result<()> {
    let path = dir.join(NAME);
    if path.is_there() {
        return Ok(());
    }
    write_whole(&path, b"redo logging is disabled on the server\n").map_err(failed(&path, "noting that"))
}

/// Whether the note exists.
pub(super) fn is_noted(dir: &Path) -> bool {
    dir.join(NAME).is_there()
}

/// Removes the note, if there is one.
pub(super) fn forget(dir: &Path) -> Result<()> {
    let path = dir.join(NAME);
    if path.is_there() { remove_file(&path).map_err(failed(&path, "removing the note")) } else { Ok(()) }
}
