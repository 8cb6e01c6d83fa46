//! Definitions that change after a base copy. MariaDB keeps them twice: in its dictionary, which the redo covers, and in `.frm` files,
//! which the redo does not cover. The recovered copy has the base's `.frm` files, so a recovery beyond such a change is refused.
//!
//! Creating, renaming or dropping a table shows in file records. Adding or dropping columns and indexes in place shows in pages of the
//! dictionary (`dictionary_pages`).
//!
//! If the archiver has kept the `.frm` files (`archive::definitions`), the copy gets those of the moment afterwards (`definition_files`).
//!
//! Purge changes these pages too, for definitions that changed before the base copy: it removes the rows that were delete-marked then. The
//! change itself always inserts or delete-marks rows, so what only removes rows does not count.

use std::collections::BTreeMap;

use format::{Lsn, SpaceId};
use redo::record::{Change, FileRecord, Grammar, PageRecord, RedoRecord, Subject};

use crate::recover::error::{Result, refused};
use crate::recover::log::{Scanned, file_record};

/// Bytes of the number of an index's root.
const ROOT_SIZE: usize = 4;

/// Changes to definitions in a log, from an LSN on.
#[derive(Debug)]
pub(in crate::recover) struct LaterDefinitions {
    /// The end of the base copy.
    after: Lsn,
    /// Pages of the system tablespace, and the LSN of their first change.
    pub pages: BTreeMap<u32, Lsn>,
    /// Whether the archive has the definitions of later moments.
    pub is_archived: bool,
    /// Where a table was first made, renamed or dropped.
    first_file: Option<Lsn>,
}

impl LaterDefinitions {
    pub const fn after(after: Lsn, is_archived: bool) -> Self {
        Self { after, pages: BTreeMap::new(), is_archived, first_file: None }
    }

    /// Where a table was first made, renamed or dropped after the base copy.
    pub const fn first_file(&self) -> Option<Lsn> {
        self.first_file
    }

    /// The end of the base copy. Its files are those of that moment, whatever the archiver has seen.
    pub const fn base_end(&self) -> Lsn {
        self.after
    }

    /// Whether the base copy is from before `until`: then its files contain nothing later than that.
    pub fn is_base_before(&self, until: Lsn) -> bool {
        self.after <= until
    }

    /// Adds a mini-transaction. Fails if it makes, renames or drops a table, unless the archive has the definitions.
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
                Subject::Page(id, _) if id.space == SpaceId::SYSTEM && !is_purge(bytes) => {
                    self.pages.entry(id.page_no.0).or_insert(mtr.start);
                }
                Subject::Page(..) => {}
            }
        }
        Ok(())
    }

    fn check_file(&mut self, record: &FileRecord<'_>, lsn: Lsn) -> Result<()> {
        if self.is_archived {
            if matches!(record, FileRecord::Create { .. } | FileRecord::Delete { .. } | FileRecord::Rename { .. }) {
                self.first_file.get_or_insert(lsn);
            }
            return Ok(());
        }
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

    /// Refuses to view a moment after a change of definitions, whose files a view cannot show yet.
    pub fn refuse_view(&self, lsn: Lsn) -> Result<()> {
        refused(format!(
            "a definition changed at LSN {lsn}, after the base copy (LSN {}), and a view does not show the .frm files of later moments yet: view              that LSN at most (--until {lsn}), or recover a copy (innokit recover --redo --to)",
            self.after
        ))
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

/// Whether records of a dictionary page are such as purge writes: it removes delete-marked rows and, before it removes the row of an index,
/// replaces the number of its root by that of no page.
fn is_purge(records: &[u8]) -> bool {
    Grammar::MariaDb.records(records).all(|record| {
        let Ok(RedoRecord::Page(PageRecord { change, .. })) = record else { return false };
        matches!(change, Change::Delete(_) | Change::Set { len: ROOT_SIZE, pattern: [0xFF], .. })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of page 11 of the system tablespace.
    const REMOVE: [u8; 5] = [0x24, 0, 11, 8, 5];
    const REMOVE_NEXT: [u8; 3] = [0xA2, 8, 6];
    const FREE_TREE: [u8; 6] = [0x45, 0, 11, 100, 4, 0xFF];
    const MARK: [u8; 5] = [0x34, 0, 11, 100, 0x20];
    const INSERT: [u8; 10] = [0x29, 0, 11, 4, 5, 8, 0, 0, 1, 2];

    #[test]
    fn removed_rows_are_purge_and_inserted_or_marked_ones_are_not() {
        let purge = [&REMOVE[..], &FREE_TREE, &[&REMOVE[..], &REMOVE_NEXT].concat()].map(is_purge);
        assert_eq!(purge, [true; 3]);
        let wider = [0x45, 0, 11, 100, 8, 0xFF];
        let marked = [&MARK[..], &REMOVE].concat();
        assert_eq!([&MARK[..], &INSERT, &wider, &marked, &[0xA2]].map(is_purge), [false; 5]);
        for record in [&MARK[..], &INSERT, &wider] {
            assert!(Grammar::MariaDb.records(record).all(|record| record.is_ok()), "{record:?}");
        }
    }
}
