//! The note that the server makes changes without redo (`ALTER INSTANCE DISABLE INNODB REDO_LOG`): it outlives the run that noticed it. When
//! the server has redo again, there is a gap.

use std::path::Path;

use flow::append::write_whole;
use flow::durable::remove_file;

use crate::archive::error::{Result, failed};

const NAME: &str = "redo.disabled";

/// Notes it.
pub(super) fn note(dir: &Path) -> Result<()> {
    let path = dir.join(NAME);
    if path.exists() {
        return Ok(());
    }
    write_whole(&path, b"redo logging is disabled on the server\n").map_err(failed(&path, "noting that"))
}

/// Whether it was noted.
pub(super) fn is_noted(dir: &Path) -> bool {
    dir.join(NAME).exists()
}

/// The gap is noted instead.
pub(super) fn forget(dir: &Path) -> Result<()> {
    let path = dir.join(NAME);
    if path.exists() { remove_file(&path).map_err(failed(&path, "removing the note")) } else { Ok(()) }
}
