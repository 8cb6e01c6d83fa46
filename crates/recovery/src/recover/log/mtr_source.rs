//! Finds the mini-transactions in a log's bytes, for either vendor.

use format::Lsn;
use redo::mtr_reader::MtrReader;
use redo::mysql;
use redo::record::Mtr;

/// The reader of either vendor's mini-transactions.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one in a recovery: a box would save nothing")]
pub(super) enum MtrSource {
    MariaDb(MtrReader),
    MySql(mysql::mtr_reader::MtrReader),
}

impl MtrSource {
    pub fn next_mtr<'m, 'i: 'm>(&'m mut self, input: &mut &'i [u8]) -> Option<Mtr<'m>> {
        match self {
            Self::MariaDb(reader) => reader.next_mtr(input),
            Self::MySql(reader) => reader.next_mtr(input),
        }
    }

    pub const fn at(&self) -> Lsn {
        match self {
            Self::MariaDb(reader) => reader.at(),
            Self::MySql(reader) => reader.at(),
        }
    }

    pub const fn has_ended(&self) -> bool {
        match self {
            Self::MariaDb(reader) => reader.has_ended(),
            Self::MySql(reader) => reader.has_ended(),
        }
    }

    /// Records of a mini-transaction that was never completed. MySQL's server uses some of them.
    pub fn unfinished(&self) -> &[u8] {
        match self {
            Self::MariaDb(_) => &[],
            Self::MySql(reader) => reader.unfinished(),
        }
    }

    pub const fn is_garbled(&self) -> bool {
        match self {
            Self::MariaDb(reader) => reader.is_garbled(),
            Self::MySql(reader) => reader.fault().is_some() || reader.lacks_key(),
        }
    }
}
