//! The mini-transactions that are read from a log and not archived yet.

use std::collections::VecDeque;

use format::Lsn;
use redo::block::LOG_BLOCK_SIZE;
use redo::mysql::FORMAT_MANY_FILES;
use redo::mysql::mtr_reader::MtrReader;
use redo::record::Mtr;

use crate::archive::error::{Result, refused};
use crate::unlogged::{Load, UnloggedPages};

/// A complete mini-transaction: its end, and the indexes that it shows to be built without redo.
#[derive(Debug)]
struct Group {
    end: Lsn,
    loads: Vec<Load>,
}

impl Group {
    fn of(mtr: &Mtr<'_>, pages: &mut UnloggedPages) -> Self {
        Self { end: mtr.end, loads: pages.add(mtr) }
    }
}

/// Mini-transactions, parsed as their blocks are read.
#[derive(Debug)]
pub(super) struct Groups {
    reader: MtrReader,
    pages: UnloggedPages,
    /// Complete within the full blocks, and not archived yet.
    full: VecDeque<Group>,
    /// Complete only with the block behind the full ones, which may still grow.
    last: Vec<Group>,
    /// Where the one ends that began before the first block. A server that stops can leave nothing behind it, and its checkpoint there.
    tail: Option<Lsn>,
    /// The end of the last one taken.
    pub at: Lsn,
}

impl Groups {
    /// Starts with the block at `start`.
    pub fn new(start: Lsn) -> Self {
        let reader = MtrReader::new(FORMAT_MANY_FILES, start, Vec::new());
        Self { reader, pages: UnloggedPages::default(), full: VecDeque::new(), last: Vec::new(), tail: None, at: start }
    }

    /// Takes full blocks, each once, and the current version of the block behind them.
    pub fn feed(&mut self, full: &[u8], last: Option<&[u8; LOG_BLOCK_SIZE]>) -> Result<()> {
        let mut input = full;
        while let Some(mtr) = self.reader.next_mtr(&mut input) {
            self.full.push_back(Group::of(&mtr, &mut self.pages));
        }
        refuse_faults(&self.reader)?;
        self.tail = self.reader.first();
        self.last.clear();
        let Some(last) = last else { return Ok(()) };
        // This block will grow. A copy of the reader parses it: the reader itself must not see it yet.
        let (mut reader, mut pages) = (self.reader.clone(), self.pages.clone());
        let mut input = last.as_slice();
        while let Some(mtr) = reader.next_mtr(&mut input) {
            self.last.push(Group::of(&mtr, &mut pages));
        }
        self.tail = reader.first();
        refuse_faults(&reader)
    }

    /// The end of the last one read.
    pub fn end(&self) -> Lsn {
        let last = self.last.last().or(self.full.back()).map(|group| group.end);
        last.or(self.tail).map_or(self.at, |end| end.max(self.at))
    }

    /// The end of the last one that ends at or before `fence`; `None` if it is taken already.
    pub fn end_before(&self, fence: Lsn) -> Option<Lsn> {
        let ends = self.full.iter().chain(&self.last).map(|group| group.end);
        self.tail.into_iter().chain(ends).take_while(|end| *end <= fence).last().filter(|end| *end > self.at)
    }

    /// Takes the ones that end at or before `end`. Returns how many, and the indexes that they show to be built without redo.
    pub fn take(&mut self, end: Lsn) -> (u64, Vec<Load>) {
        let (mut mtrs, mut loads) = (0, Vec::new());
        let count = self.full.partition_point(|group| group.end <= end);
        for group in self.full.drain(..count) {
            // The others were taken when their block was still partly filled.
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

    /// Continues from the segment being written: everything in it is taken.
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

#[cfg(test)]
#[allow(clippy::expect_used, reason = "helpers of tests fail the test")]
mod tests {
    use super::*;
    use redo::block::{
        LOG_BLOCK_CHECKSUM, LOG_BLOCK_EPOCH_NO, LOG_BLOCK_FIRST_REC_GROUP, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_HDR_NO,
        block_number,
    };

    use format::bytes::be;
    use format::checksum::crc32c;

    const START: Lsn = Lsn(79_342_080);

    /// The block at `START` with `len` bytes, in which mini-transactions begin at `first`.
    fn block(len: u16, first: u16) -> [u8; LOG_BLOCK_SIZE] {
        let mut block = [0; LOG_BLOCK_SIZE];
        be::put_u32(&mut block, LOG_BLOCK_HDR_NO, block_number(START)).expect("within");
        be::put_u16(&mut block, LOG_BLOCK_HDR_DATA_LEN, len).expect("within");
        be::put_u16(&mut block, LOG_BLOCK_FIRST_REC_GROUP, first).expect("within");
        be::put_u32(&mut block, LOG_BLOCK_EPOCH_NO, 1).expect("within");
        let crc = crc32c(block.get(..LOG_BLOCK_CHECKSUM).expect("within"));
        be::put_u32(&mut block, LOG_BLOCK_CHECKSUM, crc).expect("within");
        block
    }

    #[test]
    fn the_end_of_a_mini_transaction_that_began_before_the_archive_is_archived() {
        let mut groups = Groups::new(START);
        groups.feed(&[], Some(&block(15, 15))).expect("sound");
        let end = Lsn(START.0 + 15);
        assert_eq!((groups.end(), groups.end_before(end), groups.end_before(START)), (end, Some(end), None));
        assert_eq!(groups.take(end).0, 0, "none of which the archive has the begin");
        assert_eq!((groups.at, groups.end_before(end)), (end, None));
        // A block in which none begins is within one.
        let mut within = Groups::new(START);
        within.feed(&[], Some(&block(15, 0))).expect("sound");
        assert_eq!((within.end(), within.end_before(end)), (START, None));
    }
}
