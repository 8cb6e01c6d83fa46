//! Many pages at once: sorted by place, neighbours in one request, as many in flight as the device takes.

use std::io;

use flow::queue::{Completion, OpenQueue, Operation, Queue, Request};
use flow::{Buffer, BufferPool, Engine, FileHandle, FileId};

/// A request, at most.
const REQUEST_SIZE: u32 = 256 << 10;
/// Requests in flight.
const DEPTH: u16 = 32;
/// What lies between two pages is read along if it is no more than this: it costs less than a request.
const GAP_MAX: u64 = 64 << 10;

/// A page to be read.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub file: FileId,
    pub handle: FileHandle,
    pub offset: u64,
    pub len: usize,
}

/// Reads pages.
pub(super) struct PageReader {
    queue: Box<dyn Queue>,
    pool: BufferPool,
}

/// Neighbours in one request: the first page and the one behind the last, by their place among the wanted; file offsets.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: usize,
    end: usize,
    from: u64,
    to: u64,
    /// Bytes that have come.
    filled: u32,
}

impl PageReader {
    pub fn open(engine: &dyn OpenQueue) -> io::Result<Self> {
        let pool = BufferPool::new(DEPTH, REQUEST_SIZE)?;
        let queue = engine.open(u32::from(DEPTH), pool.free())?;
        Ok(Self { queue, pool })
    }

    /// The engine that works here.
    pub fn engine() -> &'static dyn OpenQueue {
        let works = |engine: &&&dyn OpenQueue| engine.open(1, &[]).is_ok();
        Engine::Auto.candidates().iter().find(works).copied().unwrap_or(&flow::queue::Threads)
    }

    /// The pages, which must be in the order of files and offsets; what a file has not got is zeros.
    pub fn read(&mut self, wanted: &[Wanted]) -> io::Result<Vec<Vec<u8>>> {
        let mut pages: Vec<Vec<u8>> = wanted.iter().map(|page| vec![0; page.len]).collect();
        let mut runs = runs_of(wanted);
        let (mut next, mut in_flight) = (0, 0);
        let mut done = Vec::new();
        while next < runs.len() || in_flight > 0 {
            while let Some(run) = runs.get(next) {
                let Some(buffer) = self.pool.take() else { break };
                self.submit(next, run, wanted, buffer);
                (next, in_flight) = (next + 1, in_flight + 1);
            }
            self.queue.wait(&mut done)?;
            for completion in done.drain(..) {
                in_flight -= usize::from(self.settle(completion, &mut runs, wanted, &mut pages)?);
            }
        }
        Ok(pages)
    }

    fn submit(&mut self, token: usize, run: &Run, wanted: &[Wanted], buffer: Buffer) {
        let Some(first) = wanted.get(run.first) else { return };
        self.queue.submit(Request {
            token: token as u64,
            operation: Operation::Read,
            file: first.file,
            handle: first.handle.clone(),
            offset: run.from + u64::from(run.filled),
            start: run.filled,
            len: u32::try_from(run.to - run.from).unwrap_or(0) - run.filled,
            buffer,
        });
    }

    /// Whether the run is done.
    fn settle(
        &mut self,
        completion: Completion,
        runs: &mut [Run],
        wanted: &[Wanted],
        pages: &mut [Vec<u8>],
    ) -> io::Result<bool> {
        let token = usize::try_from(completion.token).unwrap_or(usize::MAX);
        let Some(run) = runs.get_mut(token) else { return Ok(true) };
        let count = match completion.result {
            Ok(count) => Some(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => return Err(error),
        };
        run.filled += count.unwrap_or(0);
        if count != Some(0) && u64::from(run.filled) < run.to - run.from {
            let run = *run;
            self.submit(token, &run, wanted, completion.buffer);
            return Ok(false);
        }
        let in_run = wanted.iter().zip(pages).take(run.end).skip(run.first);
        for (page, bytes) in in_run {
            let start = u32::try_from(page.offset - run.from).unwrap_or(u32::MAX);
            let end = start.saturating_add(u32::try_from(page.len).unwrap_or(0)).min(run.filled);
            let found = completion.buffer.range(start..end.max(start));
            bytes.get_mut(..found.len()).unwrap_or_default().copy_from_slice(found);
        }
        self.pool.give_back(completion.buffer);
        Ok(true)
    }
}

fn runs_of(wanted: &[Wanted]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut file = None;
    for (number, page) in wanted.iter().enumerate() {
        let to = page.offset + page.len as u64;
        match runs.last_mut() {
            Some(run)
                if file == Some(page.file)
                    && page.offset >= run.to
                    && page.offset - run.to <= GAP_MAX
                    && to - run.from <= u64::from(REQUEST_SIZE) =>
            {
                (run.end, run.to) = (number + 1, to);
            }
            _ => runs.push(Run { first: number, end: number + 1, from: page.offset, to, filled: 0 }),
        }
        file = Some(page.file);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn pages_come_back_in_order_wherever_they_lie() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t");
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 1024 % 251) as u8).collect();
        std::fs::write(&path, &bytes).expect("written");
        let handle = FileHandle::of_file(File::open(&path).expect("opened"), false);
        let page = |number: u64| Wanted { file: FileId(0), handle: handle.clone(), offset: number * 1024, len: 1024 };
        let numbers: Vec<u64> =
            (0..400).chain([500, 503, 900]).chain((1200..2900).step_by(7)).chain([2929, 2930, 5000]).collect();
        let wanted: Vec<Wanted> = numbers.iter().map(|number| page(*number)).collect();
        let found = PageReader::open(PageReader::engine()).expect("a queue").read(&wanted).expect("read");
        for (number, found) in numbers.iter().zip(found) {
            let start = *number as usize * 1024;
            let mut expected = bytes.get(start..bytes.len().min(start + 1024)).unwrap_or_default().to_vec();
            expected.resize(1024, 0);
            assert!(found == expected, "page {number}");
        }
        assert!(runs_of(&wanted).len() < 20, "neighbours share a request");
    }
}
