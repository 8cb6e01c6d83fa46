//! Locates the fields of a record of either style.

use crate::page::index::IndexFinding;
use crate::record::layout::Layout;
use crate::record::{Record, RecordFields, RecordStyle, compact, redundant};

impl Layout {
    /// Locates the fields of `record`.
    ///
    /// # Errors
    /// The record's header or fields exceed the page, or its header is impossible for this index. `fields` then has no meaning.
    pub fn locate(&self, record: &Record<'_>, fields: &mut RecordFields) -> Result<(), IndexFinding> {
        match record.style() {
            RecordStyle::Compact => compact::locate(self, record, fields),
            RecordStyle::Redundant => redundant::locate(self, record, fields),
        }
    }
}
