//! Pages newer than the log, which do not belong to it.

use std::path::Path;

use format::{Lsn, PageNo};

use crate::recover::error::{Result, damaged, refused};

/// Fails if the page is newer than the log. A server writes a page only after its redo, so such a page belongs to another log. A file
/// outside the datadir may still be in use by the server that this datadir was copied from.
pub(in crate::recover) fn refuse_newer(
    path: &Path,
    is_outside: bool,
    page_no: PageNo,
    lsn: Lsn,
    end: Lsn,
) -> Result<()> {
    if lsn <= end {
        return Ok(());
    }
    if is_outside {
        return refused(format!(
            "{}: page {page_no} was written at LSN {lsn}, but the log ends at LSN {end}: this file, outside the datadir, belongs to another server",
            path.display()
        ));
    }
    damaged(format!(
        "{}: page {page_no} was written at LSN {lsn}, but the redo log ends at LSN {end}: the log lost its end, or the file is from another server or a later time; restore both from one backup",
        path.display()
    ))
}
