//! Which records a page still needs, and its LSN afterwards.

use super::mysql::ZipPage;
use super::{ApplyError, apply_to};
use crate::mysql::change::Change as MySqlChange;
use crate::record::{Change, Mtr, RecordError, RedoRecord};
use format::bytes::be;
use format::page::fil::FIL_PAGE_LSN;
use format::page::space_format::SpaceFormat;
use format::types::{Lsn, PageId};

/// What became of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was due: the page had it all already. Its bytes are as they were.
    Unchanged,
    /// The page is not in use any more, and its content is void: there is nothing to write.
    Freed,
    /// It was changed, and carries this LSN now. It is to be sealed ([`seal_recovered`](format::page::seal::seal_recovered)) before
    /// it is written.
    Changed(Lsn),
}

/// A page while its redo is applied, mini-transaction by mini-transaction, in the order of the log.
#[derive(Debug)]
pub struct Replay<'p> {
    page: &'p mut [u8],
    id: PageId,
    format: &'p SpaceFormat,
    /// The LSN that the page had when it was read.
    lsn: Lsn,
    last: Lsn,
    is_changed: bool,
    is_freed: bool,
    zip: ZipPage,
}

impl<'p> Replay<'p> {
    /// A page as it was read, decrypted and inflated. It must be sound.
    ///
    /// # Errors
    /// [`ApplyError::Length`] if it has not the size of the tablespace's pages.
    pub fn onto(page: &'p mut [u8], id: PageId, format: &'p SpaceFormat) -> Result<Self, ApplyError> {
        let expected = format.physical().bytes();
        if page.len() != expected {
            return Err(ApplyError::Length { len: page.len(), expected });
        }
        let lsn = Lsn(be::u64_at(page, FIL_PAGE_LSN).unwrap_or(0));
        Ok(Self { page, id, format, lsn, last: Lsn(0), is_changed: false, is_freed: false, zip: ZipPage::default() })
    }

    /// A page that was not read, since its first record [voids](Change::voids_page) it: it is made from zeros, whatever `page`
    /// holds, and needs every record.
    ///
    /// # Errors
    /// As [`Replay::onto`].
    pub fn onto_nothing(page: &'p mut [u8], id: PageId, format: &'p SpaceFormat) -> Result<Self, ApplyError> {
        page.fill(0);
        Self::onto(page, id, format)
    }

    /// Applies the records of one mini-transaction that are of this page; those of others are passed over. Mini-transactions that
    /// began before the page was written last are skipped.
    ///
    /// # Errors
    /// [`ApplyError`]: the page is then neither what it was nor what it should be.
    pub fn apply(&mut self, mtr: &Mtr<'_>) -> Result<(), ApplyError> {
        self.last = mtr.end;
        if mtr.start < self.lsn {
            return Ok(());
        }
        self.apply_all(mtr)
    }

    fn apply_all(&mut self, mtr: &Mtr<'_>) -> Result<(), ApplyError> {
        let mut records = mtr.records().peekable();
        while let Some(record) = records.next() {
            let RedoRecord::Page(record) = record? else { continue };
            if record.id != self.id {
                continue;
            }
            match record.change {
                Change::Free => (self.is_freed, self.is_changed) = (true, false),
                // About the tablespace, not about the page that it names.
                Change::Trim => {}
                _ => {
                    let is_recompressed = recompresses(records.peek(), self.id);
                    apply_to(&record, self.page, self.format, (&mut self.zip, is_recompressed))?;
                    (self.is_freed, self.is_changed) = (false, true);
                }
            }
        }
        Ok(())
    }

    /// Stamps the page with the LSN that it has now. (Its checksum is [`seal_recovered`](format::page::seal::seal_recovered)'s
    /// business.)
    ///
    /// # Errors
    /// [`ApplyError`]: the page, of ROW_FORMAT=COMPRESSED, is not what the records made of the page inside. It is not to be used.
    pub fn finish(mut self) -> Result<Outcome, ApplyError> {
        if self.is_freed {
            return Ok(Outcome::Freed);
        }
        self.zip.finish(self.page, self.format)?;
        let stamped = self.is_changed.then(|| be::put_u64(self.page, FIL_PAGE_LSN, self.last.0)).flatten();
        Ok(stamped.map_or(Outcome::Unchanged, |()| Outcome::Changed(self.last)))
    }
}

/// Whether a record says that the page is compressed again, and not with what result.
fn recompresses(record: Option<&Result<RedoRecord<'_>, RecordError>>, id: PageId) -> bool {
    let Some(Ok(RedoRecord::Page(record))) = record else { return false };
    record.id == id && matches!(record.change, Change::MySql(MySqlChange::ZipCompress { .. }))
}
