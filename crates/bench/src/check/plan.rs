//! The rows, before they are measured.

use flow::{IoMode, ReadOptions};

use super::super::pattern::{Setting, Way};
use super::super::stats::Repeated;
use super::peer::Peer;
use super::report::CheckBenchRow;

/// Requests in flight for each worker, as in `check`.
pub(super) const DEPTH: u32 = 8;
/// Bytes of a request, as in `check`.
pub(super) const BLOCK: u32 = 1 << 20;
/// Bytes for the buffers of all workers, as in `check`.
pub(super) const MEMORY: u64 = 64 << 20;

/// How a row reads the file.
#[derive(Clone)]
pub(super) enum How {
    Raw(Setting, Way),
    Pages(Way),
    /// Pieces of this many bytes by this many threads, each of which reads one, verifies it, and takes the next.
    Pieces(Way, usize, u32),
    Check(CheckSetting),
    Peer(Peer),
    Fio(Setting),
}

/// What `check` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckSetting {
    pub(super) io: IoMode,
    pub(super) workers: usize,
    pub(super) block_size: u32,
    pub(super) depth: u32,
    /// Bytes for the buffers of all workers.
    pub(super) memory: u64,
}

impl CheckSetting {
    pub(super) const fn new(io: IoMode, workers: usize, block_size: u32, depth: u32) -> Self {
        Self { io, workers, block_size, depth, memory: MEMORY }
    }

    /// As asked for.
    pub(super) fn asked(&self) -> ReadOptions {
        ReadOptions { io: self.io, block_size: self.block_size, depth: self.depth, ..ReadOptions::default() }
    }

    /// What fits into the memory.
    pub(super) fn used(&self) -> ReadOptions {
        self.asked().within(self.workers, self.memory)
    }
}

/// A row before it is measured.
pub(super) struct CheckPlan {
    pub(super) name: String,
    pub(super) group: Group,
    pub(super) how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Limit,
    Idea,
    Table,
    Classic,
    Peer,
}

const fn way_of(io: IoMode) -> Option<Way> {
    match io {
        IoMode::Auto => None,
        IoMode::Direct => Some(Way::Direct),
        IoMode::Buffered => Some(Way::Buffered),
    }
}

pub(super) const fn mode(way: Way) -> IoMode {
    match way {
        Way::Direct => IoMode::Direct,
        Way::Buffered => IoMode::Buffered,
    }
}

impl CheckPlan {
    pub(super) fn new(group: Group, name: impl Into<String>, how: How) -> Self {
        Self { name: name.into(), group, how }
    }

    /// The row of the report. `workers` is how many ran, if that is known.
    pub(super) fn row(&self, rates: &[f64], limits: &[f64], ran: Option<usize>) -> CheckBenchRow {
        let shares: Vec<f64> = rates.iter().zip(limits).map(|(rate, limit)| rate / limit.max(1.0)).collect();
        let plain = |way, setting: &Setting| {
            (Some(way), Some(setting.threads as usize), Some(setting.block_size), Some(setting.depth))
        };
        let (mut asked, mut memory) = (None, None);
        let (way, workers, block_size, depth) = match &self.how {
            How::Raw(setting, way) => plain(*way, setting),
            How::Fio(setting) => plain(Way::Direct, setting),
            How::Pages(way) => (Some(*way), Some(1), None, Some(1)),
            How::Pieces(way, threads, piece) => (Some(*way), Some(*threads), Some(*piece), Some(1)),
            How::Check(setting) => {
                let used = setting.used();
                asked = Some((setting.workers, setting.block_size, setting.depth));
                memory = Some(setting.memory);
                let workers = ran.unwrap_or(setting.workers);
                (way_of(setting.io), Some(workers), Some(used.block_size), Some(used.depth))
            }
            How::Peer(_) => (None, None, None, None),
        };
        CheckBenchRow {
            name: self.name.clone(),
            way,
            workers,
            block_size,
            depth,
            workers_asked: asked.map(|asked| asked.0),
            block_size_asked: asked.map(|asked| asked.1),
            depth_asked: asked.map(|asked| asked.2),
            memory,
            bytes_per_second: Repeated::of(rates),
            share_of_limit: Repeated::of(&shares),
        }
    }
}

/// From what most tools do to what `check` does, with one more idea in each row.
pub(super) fn ideas(workers: usize, direct: bool) -> Vec<CheckPlan> {
    let idea = |name: &str, how| CheckPlan::new(Group::Idea, name, how);
    let check = |io, workers, depth| How::Check(CheckSetting::new(io, workers, BLOCK, depth));
    let mut plans = vec![
        idea("a page at a time, one thread", How::Pages(Way::Buffered)),
        idea("large blocks, through the page cache", check(IoMode::Buffered, 1, 1)),
    ];
    if direct {
        plans.push(idea("a page at a time, past the page cache", How::Pages(Way::Direct)));
        plans.push(idea("+ large blocks", check(IoMode::Direct, 1, 1)));
        plans.push(idea("+ reading while computing", check(IoMode::Direct, 1, DEPTH)));
        if workers > 1 {
            plans.push(idea("+ all cores", check(IoMode::Direct, workers, DEPTH)));
        }
    }
    plans.push(idea("innokit check as it comes", check(IoMode::Auto, workers, DEPTH)));
    plans
}

/// Threads of the classic table.
const CLASSIC_THREADS: [usize; 2] = [1, 16];
/// Pieces of the classic table, bytes.
const CLASSIC_PIECES: [u32; 4] = [16 << 10, 1 << 20, 16 << 20, 64 << 20];

/// The classic table: each way with pieces of four sizes, each by one thread and by sixteen. Pieces are never longer than the file.
pub(super) fn classic(ways: &[Way], page: u32, file: u64) -> Vec<CheckPlan> {
    let whole = u32::try_from(file).unwrap_or(u32::MAX / 2).next_multiple_of(page);
    let rows = ways.iter().flat_map(|&way| CLASSIC_PIECES.map(|piece| (way, piece.max(page).min(whole))));
    let rows = rows.flat_map(|(way, piece)| CLASSIC_THREADS.map(|threads| How::Pieces(way, threads, piece)));
    rows.map(|how| CheckPlan::new(Group::Classic, "pieces", how)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_fits_into_the_memory_and_what_was_asked_for() {
        let setting = CheckSetting { memory: 64 << 20, ..CheckSetting::new(IoMode::Direct, 16, 4 << 20, 8) };
        let plan = CheckPlan::new(Group::Table, "check", How::Check(setting));
        let row = plan.row(&[5.0], &[10.0], Some(12));
        assert_eq!((row.workers, row.block_size, row.depth), (Some(12), Some(1 << 20), Some(2)));
        assert_eq!(
            (row.workers_asked, row.block_size_asked, row.depth_asked, row.memory),
            (Some(16), Some(4 << 20), Some(8), Some(64 << 20))
        );
        assert_eq!(row.share_of_limit.median, 0.5);
    }

    #[test]
    fn the_classic_table_has_each_way_piece_and_number_of_threads() {
        let settings = |file| -> Vec<(Way, usize, u32)> {
            let plans = classic(&[Way::Buffered, Way::Direct], 16 << 10, file);
            let of = |plan: &CheckPlan| match plan.how {
                How::Pieces(way, threads, piece) => (way, threads, piece),
                _ => (Way::Direct, 0, 0),
            };
            plans.iter().map(of).collect()
        };
        let large = settings(1 << 30);
        assert_eq!(large.len(), 16);
        assert_eq!((large[0], large[15]), ((Way::Buffered, 1, 16 << 10), (Way::Direct, 16, 64 << 20)));
        assert!(settings(100_000).iter().all(|(.., piece)| *piece <= 114_688), "no piece is longer than the file");
    }
}
