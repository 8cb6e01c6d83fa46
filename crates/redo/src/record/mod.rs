#![doc = include_str!("../../docs/redo-record.md")]

mod change;
mod cursor;
mod extended;
mod fault;
mod file;
mod frame;
mod grammar;
pub mod mysql;
pub mod mysql_reader;
mod reader;
mod row_style;
mod subject;
mod whole;

use format::types::Lsn;

pub use change::{Change, Delete, Insert, RecordSource};
pub use fault::{RecordError, RecordFault};
pub use file::{FileRecord, TableState};
pub(crate) use frame::{Frame, frame, payload_of_pages};
pub use grammar::{Grammar, MtrRecords, MtrSubjects};
pub use reader::{Records, WRITE_OFFSET_MIN, records};
pub use row_style::RowStyle;
pub use subject::{Effect, Subject, Subjects, subjects};
pub use whole::{PageRecord, RedoRecord};

/// A mini-transaction: changes that are applied together or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mtr<'a> {
    /// LSN of its first byte. A page with a larger LSN already has its changes.
    pub start: Lsn,
    /// LSN after its last byte. The pages it changes are stamped with it.
    pub end: Lsn,
    /// Its records, decrypted, without end marker and checksum.
    pub bytes: &'a [u8],
    /// The format of its records.
    pub grammar: Grammar,
}

impl<'a> Mtr<'a> {
    /// Its records, in order.
    #[must_use]
    pub const fn records(&self) -> MtrRecords<'a> {
        self.grammar.records(self.bytes)
    }
}
