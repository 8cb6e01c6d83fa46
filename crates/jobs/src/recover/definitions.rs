//! Definitions that change after a base copy. MariaDB keeps them twice: in its dictionary, which the redo covers, and in `.frm` files,
//! which the redo does not cover. The recovered copy has the base's `.frm` files, so a recovery beyond such a change is refused.
//!
//! Creating, renaming or dropping a table shows in file records. Adding or dropping columns and indexes in place shows in pages of the
//! dictionary (`dictionary_pages`).

use std::collections::BTreeMap;

use format::{Lsn, SpaceId};
use redo::record::{FileRecord, Subject};

use super::error::{Result, refused};
use super::log::{Scanned, file_record};

/// Changes to definitions in a log, from an LSN on.
#[derive(Debug)]
pub(super) struct Definitions {
    /// The end of the base copy.
    after: Lsn,
    /// Pages of the system tablespace, and the LSN of their first change.
    pub pages: BTreeMap<u32, Lsn>,
}

impl Definitions {
    pub const fn after(after: Lsn) -> Self {
        Self { after, pages: BTreeMap::new() }
    }

    /// Adds a mini-transaction. Fails if it makes, renames or drops a table.
    pub fn add(&mut self, scanned: &Scanned<'_>) -> Result<()> {
        let mtr = &scanned.mtr;
        if mtr.start < self.after {
            return Ok(());
        }
        for (subject, bytes) in scanned.records() {
            match subject {
                Subject::File => {
                    file_record(mtr.grammar, bytes).map_or(Ok(()), |record| self.check_file(&record, mtr.start))?;
                }
                Subject::Page(id, _) if id.space == SpaceId::SYSTEM => {
                    self.pages.entry(id.page_no.0).or_insert(mtr.start);
                }
                Subject::Page(..) => {}
            }
        }
        Ok(())
    }

    fn check_file(&self, record: &FileRecord<'_>, lsn: Lsn) -> Result<()> {
        let text = |name: &[u8]| String::from_utf8_lossy(name.strip_prefix(b"./").unwrap_or(name)).into_owned();
        match *record {
            FileRecord::Create { name, .. } => self.refuse(&format!("{} was made", text(name)), lsn),
            FileRecord::Delete { name, .. } => self.refuse(&format!("{} was dropped", text(name)), lsn),
            FileRecord::Rename { from, to, .. } => {
                self.refuse(&format!("{} was renamed to {}", text(from), text(to)), lsn)
            }
            _ => Ok(()),
        }
    }

    /// Refuses to recover beyond a change of definitions.
    pub fn refuse(&self, what: &str, lsn: Lsn) -> Result<()> {
        refused(format!(
            "{what} at LSN {lsn}, after the base copy (LSN {}), whose .frm files do not know that: recover to that LSN at most (--until \
             {lsn}), or take a base copy from after it",
            self.after
        ))
    }
}
