//! Decides which records a page still needs, and its LSN afterwards.

use super::mysql::ZipPage;
use super::{ApplyError, apply_to};
use crate::record::mysql::change::Change as MySqlChange;
use crate::record::{Change, Mtr, RecordError, RedoRecord};
use format::bytes::be;
use format::fil::FIL_PAGE_LSN;
use format::page::space_format::SpaceFormat;
use format::types::{Lsn, PageId};

/// What happened to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was due: the page already had every change. Its bytes are unchanged.
    Unchanged,
    /// The page is no longer in use and its content is void: there is nothing to write.
    Freed,
    /// The page changed and has this LSN now. Seal it ([`seal_recovered`](format::page::seal::seal_recovered)) before writing it.
    Changed(Lsn),
}

/// A page to which redo is applied, one mini-transaction after another, in log order.
#[derive(Debug)]
pub struct Replay<'p> {
    page: &'p mut [u8],
    id: PageId,
    format: &'p SpaceFormat,
    /// The page's LSN when it was read.
    lsn: Lsn,
    last: Lsn,
    is_changed: bool,
    is_freed: bool,
    zip: ZipPage,
}

impl<'p> Replay<'p> {
    /// Starts with a page as read, decrypted and inflated. It must be sound.
    ///
    /// # Errors
    /// [`ApplyError::Length`] if it does not have the tablespace's page size.
    pub fn onto(page: &'p mut [u8], id: PageId, format: &'p SpaceFormat) -> Result<Self, ApplyError> {
        let expected = format.physical().bytes();
        if page.len() != expected {
            return Err(ApplyError::Length { len: page.len(), expected });
        }
        let lsn = Lsn(be::u64_at(page, FIL_PAGE_LSN).unwrap_or(0));
        Ok(Self { page, id, format, lsn, last: Lsn(0), is_changed: false, is_freed: false, zip: ZipPage::default() })
    }

    /// Starts with a page that was not read because its first record [voids](Change::voids_page) it. The page is built from zeros, whatever
    /// `page` holds, and needs every record.
    ///
    /// # Errors
    /// As [`Replay::onto`].
    pub fn onto_nothing(page: &'p mut [u8], id: PageId, format: &'p SpaceFormat) -> Result<Self, ApplyError> {
        page.fill(0);
        Self::onto(page, id, format)
    }

    /// Applies the records of a mini-transaction that are about this page. Skips a mini-transaction that started before the page was last
    /// written.
    ///
    /// # Errors
    /// [`ApplyError`]. The page is then neither the old version nor the new one.
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
                // This record is about the tablespace, not about the page it names.
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

    /// Stamps the page with its new LSN. [`seal_recovered`](format::page::seal::seal_recovered) sets the checksum.
    ///
    /// # Errors
    /// [`ApplyError`]: the ROW_FORMAT=COMPRESSED page does not match the page inside. It must not be used.
    pub fn finish(mut self) -> Result<Outcome, ApplyError> {
        if self.is_freed {
            return Ok(Outcome::Freed);
        }
        self.zip.finish(self.page, self.format)?;
        let stamped = self.is_changed.then(|| be::put_u64(self.page, FIL_PAGE_LSN, self.last.0)).flatten();
        Ok(stamped.map_or(Outcome::Unchanged, |()| Outcome::Changed(self.last)))
    }
}

/// Whether a record says that the page is recompressed without giving the result.
fn recompresses(record: Option<&Result<RedoRecord<'_>, RecordError>>, id: PageId) -> bool {
    let Some(Ok(RedoRecord::Page(record))) = record else { return false };
    record.id == id && matches!(record.change, Change::MySql(MySqlChange::ZipCompress { .. }))
}
