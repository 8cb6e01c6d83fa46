//! The mini-transactions in what was read of a log and is not archived yet.

use std::collections::VecDeque;

use format::{Lsn, SpaceId};
use redo::block::LOG_BLOCK_SIZE;
use redo::mysql::FORMAT_MANY_FILES;
use redo::mysql::mtr_reader::MtrReader;
use redo::record::{FileRecord, Mtr, RedoRecord};

use crate::archive::error::{Result, refused};

/// An index that was built without redo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Load {
    pub lsn: Lsn,
    pub space: SpaceId,
    pub index: u64,
}

/// A mini-transaction.
#[derive(Debug)]
struct Group {
    end: Lsn,
    loads: Vec<Load>,
}

impl Group {
    fn of(mtr: &Mtr<'_>) -> Self {
        Self { end: mtr.end, loads: loads_in(mtr).collect() }
    }
}

/// The indexes that a mini-transaction says were built without redo.
pub(super) fn loads_in(mtr: &Mtr<'_>) -> impl Iterator<Item = Load> {
    let lsn = mtr.start;
    mtr.records().filter_map(move |record| match record {
        Ok(RedoRecord::File(FileRecord::Load { space, index })) => Some(Load { lsn, space, index }),
        _ => None,
    })
}

/// Mini-transactions, parsed as their blocks are read.
#[derive(Debug)]
pub(super) struct Groups {
    reader: MtrReader,
    /// Complete in the full blocks, and not archived.
    full: VecDeque<Group>,
    /// Complete only with the block behind them, which may still grow.
    last: Vec<Group>,
    /// Where the last one ended that was taken.
    pub at: Lsn,
}

impl Groups {
    /// Begins with the block at `start`.
    pub fn new(start: Lsn) -> Self {
        let reader = MtrReader::new(FORMAT_MANY_FILES, start, Vec::new());
        Self { reader, full: VecDeque::new(), last: Vec::new(), at: start }
    }

    /// Takes full blocks, each once, and the present version of the block behind them.
    pub fn feed(&mut self, full: &[u8], last: Option<&[u8; LOG_BLOCK_SIZE]>) -> Result<()> {
        let mut input = full;
        while let Some(mtr) = self.reader.next_mtr(&mut input) {
            self.full.push_back(Group::of(&mtr));
        }
        refuse_faults(&self.reader)?;
        self.last.clear();
        let Some(last) = last else { return Ok(()) };
        // It will be longer: the reader itself must not see it yet.
        let mut reader = self.reader.clone();
        let mut input = last.as_slice();
        while let Some(mtr) = reader.next_mtr(&mut input) {
            self.last.push(Group::of(&mtr));
        }
        refuse_faults(&reader)
    }

    /// Where the last one ends that was read.
    pub fn end(&self) -> Lsn {
        let last = self.last.last().or(self.full.back());
        last.map_or(self.at, |group| group.end)
    }

    /// Where the last one ends that ends at or before `fence`, if it is not taken yet.
    pub fn end_before(&self, fence: Lsn) -> Option<Lsn> {
        let ends = self.full.iter().chain(&self.last).map(|group| group.end);
        ends.take_while(|end| *end <= fence).last().filter(|end| *end > self.at)
    }

    /// Takes those that end at or before `end`. Returns how many, and what they say about indexes.
    pub fn take(&mut self, end: Lsn) -> (u64, Vec<Load>) {
        let (mut mtrs, mut loads) = (0, Vec::new());
        let count = self.full.partition_point(|group| group.end <= end);
        for group in self.full.drain(..count) {
            // Those of a block that was not full then were taken before.
            if group.end > self.at {
                mtrs += 1;
                loads.extend(group.loads);
            }
        }
        for group in self.last.iter_mut().filter(|group| self.at < group.end && group.end <= end) {
            mtrs += 1;
            loads.append(&mut group.loads);
        }
        self.at = end;
        (mtrs, loads)
    }

    /// Goes on from the segment being written: what it has is taken.
    pub fn resumed(start: Lsn, full: &[u8], last: Option<&[u8; LOG_BLOCK_SIZE]>) -> Result<Self> {
        let mut groups = Self::new(start);
        groups.feed(full, last)?;
        groups.take(groups.end());
        Ok(groups)
    }
}

fn refuse_faults(reader: &MtrReader) -> Result<()> {
    match reader.fault() {
        Some(fault) => refused(format!(
            "the redo log makes no sense at LSN {}: {fault}: innokit does not know a record in it, or the server's log is damaged",
            reader.at()
        )),
        None => Ok(()),
    }
}
