//! Rows of one side on their way to the merge: copied off their pages, leaf by leaf, by the thread that reads that side.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use crate::rows::batch::{Batch, Cell};
use crate::rows::reader::Problem;
use crate::rows::scan::RowSink;

/// The rows of one batch.
#[derive(Debug, Default)]
pub(super) struct Block {
    bytes: Vec<u8>,
    /// Start and end of each value; `None` for NULL.
    cells: Vec<Option<(usize, usize)>>,
    columns: usize,
}

/// A row, which keeps its block in memory.
#[derive(Debug, Clone)]
pub(super) struct RowAt {
    block: Arc<Block>,
    row: usize,
}

impl Block {
    fn rows(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    fn put(&mut self, value: Option<&[u8]>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.cells.push(value.map(|_| (start, self.bytes.len())));
    }
}

impl RowAt {
    /// The value of a column of the plan; `None` for NULL.
    pub fn get(&self, column: usize) -> Option<&[u8]> {
        let (start, end) = (*self.block.cells.get(self.row * self.block.columns + column)?)?;
        self.block.bytes.get(start..end)
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        (0..self.block.columns).map(|column| self.get(column).map_or(0, <[u8]>::len) + 24).sum()
    }

    #[cfg(test)]
    pub fn of(values: &[Option<&[u8]>]) -> Self {
        let mut block = Block { columns: values.len(), ..Block::default() };
        values.iter().for_each(|value| block.put(*value));
        Self { block: Arc::new(block), row: 0 }
    }
}

/// Sends the rows of a scan.
pub(super) struct Sending {
    pub sender: SyncSender<Block>,
    /// Leaves that it had rows of.
    pub leaves: u64,
}

impl RowSink for Sending {
    fn begin(&mut self, _range: usize) {}

    fn batch(&mut self, batch: &Batch, problems: &mut Vec<Problem>) -> ControlFlow<()> {
        let columns = batch.plan().columns.len();
        self.leaves += 1;
        let mut block = Block { columns, ..Block::default() };
        for row in batch.rows() {
            for column in 0..columns {
                match row.get(column) {
                    Cell::Null => block.put(None),
                    Cell::Bytes(bytes) => block.put(Some(bytes)),
                    Cell::Lost(why) => {
                        problems.push(Problem::of_value(&row, batch.plan(), column, &why));
                        return ControlFlow::Break(());
                    }
                }
            }
        }
        // The merge has ended, for a reason of its own.
        if self.sender.send(block).is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn end(&mut self, outcome: ControlFlow<()>) -> ControlFlow<()> {
        outcome
    }
}

/// The rows of a side, in the order of its key.
pub(super) struct Stream {
    receiver: Receiver<Block>,
    block: Arc<Block>,
    row: usize,
}

impl Stream {
    pub fn new(receiver: Receiver<Block>) -> Self {
        Self { receiver, block: Arc::default(), row: 0 }
    }
}

impl Iterator for Stream {
    type Item = RowAt;

    fn next(&mut self) -> Option<RowAt> {
        while self.row >= self.block.rows() {
            (self.block, self.row) = (Arc::new(self.receiver.recv().ok()?), 0);
        }
        self.row += 1;
        Some(RowAt { block: Arc::clone(&self.block), row: self.row - 1 })
    }
}
