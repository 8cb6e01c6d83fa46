//! Where the fields of a record are, whichever style it has.

use crate::page::index::IndexFinding;
use crate::record::layout::Layout;
use crate::record::{Record, RecordFields, RecordStyle, compact, redundant};

impl Layout {
    /// Finds the fields of `record`.
    ///
    /// # Errors
    /// The record's header or its fields leave the page, or its header cannot be one of this index. `fields` is of no use then.
    pub fn locate(&self, record: &Record<'_>, fields: &mut RecordFields) -> Result<(), IndexFinding> {
        match record.style() {
            RecordStyle::Compact => compact::locate(self, record, fields),
            RecordStyle::Redundant => redundant::locate(self, record, fields),
        }
    }
}
