//! The two record formats of redo logs.

use std::ops::Range;

use super::fault::RecordError;
use super::mysql_reader;
use super::reader::{Records, records};
use super::subject::{Subject, Subjects, subjects};
use super::whole::RedoRecord;

/// The format of a log's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grammar {
    /// Of MariaDB 10.5 and later.
    #[default]
    MariaDb,
    /// Of MySQL 8.0 and later.
    MySql,
}

/// The records of a mini-transaction. Ends after the first error.
#[derive(Debug, Clone)]
pub enum MtrRecords<'a> {
    /// MariaDB's.
    MariaDb(Records<'a>),
    /// MySQL's.
    MySql(mysql_reader::Records<'a>),
}

impl Grammar {
    /// The records in `bytes`: those of one mini-transaction, decrypted, without its end marker.
    #[must_use]
    pub const fn records(self, bytes: &[u8]) -> MtrRecords<'_> {
        match self {
            Self::MariaDb => MtrRecords::MariaDb(records(bytes)),
            Self::MySql => MtrRecords::MySql(mysql_reader::records(bytes)),
        }
    }

    /// The subjects of the records in `bytes`, and their positions. All of these records must have been read before.
    #[must_use]
    pub const fn subjects(self, bytes: &[u8]) -> MtrSubjects<'_> {
        match self {
            Self::MariaDb => MtrSubjects::MariaDb(subjects(bytes)),
            Self::MySql => MtrSubjects::MySql(mysql_reader::records(bytes)),
        }
    }
}

impl MtrRecords<'_> {
    /// Length of the records so far, which is where the next one starts.
    #[must_use]
    pub const fn position(&self) -> usize {
        match self {
            Self::MariaDb(records) => records.position(),
            Self::MySql(records) => records.offset(),
        }
    }
}

impl<'a> Iterator for MtrRecords<'a> {
    type Item = Result<RedoRecord<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::MariaDb(records) => records.next(),
            Self::MySql(records) => records.next(),
        }
    }
}

/// See [`Grammar::subjects`].
#[derive(Debug, Clone)]
pub enum MtrSubjects<'a> {
    /// MariaDB's.
    MariaDb(Subjects<'a>),
    /// MySQL's, whose length only the whole record gives.
    MySql(mysql_reader::Records<'a>),
}

impl Iterator for MtrSubjects<'_> {
    type Item = (Subject, Range<usize>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::MariaDb(subjects) => subjects.next(),
            Self::MySql(records) => {
                let from = records.offset();
                let record = records.next()?.ok()?;
                Some((record.subject(), from..records.offset()))
            }
        }
    }
}
