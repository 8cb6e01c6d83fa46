//! A scan through a server's buffer pool: an engine that is asked for one page after the other, as a query asks, and reads what a server
//! would read for them.
//!
//! ```text
//! page asked for -> in the pool? copy : read it, wait -> rules of the pool -> pages ahead -> requests, nobody waits for them
//! ```
//!
//! Kinder than a server in one way: neighbouring pages that are read ahead are joined to requests of up to [`Device::block`] bytes. A
//! server submits each page by itself and leaves joining to the kernel.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flow::queue::{Completion, OpenQueue, Operation, Queue, Request};
use flow::{Buffer, BufferPool, Counts, FileHandle, FileId, FileSet};
use format::bytes::be;
use format::fil::{FIL_PAGE_NEXT, FIL_PAGE_PREV};

use super::pool::Pool;

/// Which pages are read before they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The next area, if one was accessed in order.
    pub linear: bool,
    /// The rest of an area, if some of it was accessed.
    pub random: bool,
}

/// Where the bytes are.
pub(super) struct Device<'d> {
    /// Engines to try in turn.
    pub engines: &'d [&'d dyn OpenQueue],
    /// The file, in an engine that opens it itself; else the first of the engine's own.
    pub handle: FileHandle,
    /// Bytes of the file.
    pub len: u64,
    /// Requests in flight, at most.
    pub depth: u32,
    /// Bytes of a request, at most.
    pub block: u32,
}

/// The engine.
pub(super) struct Server<'d> {
    device: Device<'d>,
    rules: Rules,
    /// Pages of the pool.
    pool: usize,
    /// Bytes of a page.
    page_size: u32,
    effort: Arc<Effort>,
}

/// What the engine did, readable meanwhile.
#[derive(Debug, Default)]
struct Effort {
    requests: AtomicU64,
    bytes: AtomicU64,
    in_flight_sum: AtomicU64,
    in_flight_max: AtomicU64,
}

impl<'d> Server<'d> {
    /// A server with a pool of so many pages of `page_size` bytes.
    pub(super) fn new(device: Device<'d>, rules: Rules, pool: usize, page_size: u32) -> Self {
        Self { device, rules, pool, page_size, effort: Arc::default() }
    }

    /// The file, for a [`Gather`](flow::Gather) that asks this engine.
    pub(super) fn file_set(&self) -> FileSet {
        FileSet::of_engine([("scanned".into(), self.device.len)])
    }

    /// Requests to the device, and the bytes that it returned.
    pub(super) fn counts(&self) -> Counts {
        // Relaxed: one thread writes, and nothing else is concluded from the figures.
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            requests: get(&self.effort.requests),
            queued: get(&self.effort.requests),
            bytes_read: get(&self.effort.bytes),
            in_flight_sum: get(&self.effort.in_flight_sum),
            in_flight_max: get(&self.effort.in_flight_max),
            ..Counts::default()
        }
    }
}

impl OpenQueue for Server<'_> {
    fn name(&self) -> &'static str {
        "buffer pool"
    }

    fn open(&self, _depth: u32, _buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        let Device { engines, handle, len, depth, block } = &self.device;
        let buffers = BufferPool::new(u16::try_from(*depth).unwrap_or(u16::MAX), *block)?;
        let mut inner = Err(io::Error::from(io::ErrorKind::Unsupported));
        for engine in *engines {
            inner = engine.open(*depth, buffers.free());
            if inner.is_ok() {
                break;
            }
        }
        let file_pages = u32::try_from(len / u64::from(self.page_size)).unwrap_or(u32::MAX);
        Ok(Box::new(ServerQueue {
            inner: inner?,
            buffers,
            handle: handle.clone(),
            rules: self.rules,
            page_size: self.page_size,
            run_max: (block / self.page_size).max(1),
            pool: Pool::new(self.pool, file_pages, self.page_size),
            frames: Vec::new(),
            asked: VecDeque::new(),
            planned: VecDeque::new(),
            flying: HashMap::new(),
            next_token: 0,
            failure: None,
            effort: Arc::clone(&self.effort),
        }))
    }
}

struct ServerQueue {
    /// Dropped before the buffers, so that nothing writes to freed memory.
    inner: Box<dyn Queue>,
    buffers: BufferPool,
    handle: FileHandle,
    rules: Rules,
    page_size: u32,
    /// Pages of a request, at most.
    run_max: u32,
    pool: Pool,
    /// The bytes of the pool's frames.
    frames: Vec<Box<[u8]>>,
    asked: VecDeque<Request>,
    /// Runs of pages whose requests have not started.
    planned: VecDeque<Range<u32>>,
    /// Runs of pages by the token of their request.
    flying: HashMap<u64, Range<u32>>,
    next_token: u64,
    /// Why the last failed read failed.
    failure: Option<io::Error>,
    effort: Arc<Effort>,
}

impl Queue for ServerQueue {
    fn submit(&mut self, request: Request) {
        self.asked.push_back(request);
    }

    fn kick(&mut self) -> io::Result<()> {
        self.inner.kick()
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        let Some(mut request) = self.asked.pop_front() else { return Ok(()) };
        let result = match self.page_of(&request) {
            Some(page_no) => self.serve(page_no, &mut request)?,
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        done.push(Completion { token: request.token, buffer: request.buffer, result });
        Ok(())
    }
}

impl ServerQueue {
    /// The page that a request is for, or for a part of: after an error a reader tries the parts one by one.
    fn page_of(&self, request: &Request) -> Option<u32> {
        let page_at = |offset: u64| u32::try_from(offset / u64::from(self.page_size)).ok();
        let last = request.offset + u64::from(request.len).checked_sub(1)?;
        let is_one = request.operation == Operation::Read && page_at(request.offset) == page_at(last);
        page_at(request.offset).filter(|_| is_one)
    }

    /// A query's access to a page. The outer error: the device is gone.
    fn serve(&mut self, page_no: u32, request: &mut Request) -> io::Result<io::Result<u32>> {
        let mut missed = false;
        let frame = loop {
            match self.pool.find(page_no) {
                Some((frame, false)) => break frame,
                Some((_, true)) => self.absorb()?,
                None if missed => return Ok(Err(self.failure.take().unwrap_or(io::ErrorKind::Other.into()))),
                None => {
                    missed = true;
                    if !self.reserve(page_no) {
                        return Ok(Err(io::ErrorKind::OutOfMemory.into()));
                    }
                    // Somebody waits for this one: before all that is read ahead.
                    self.planned.push_front(page_no..page_no + 1);
                    self.start()?;
                }
            }
        };
        let bytes = self.frames.get(frame).map_or(&[][..], |frame| frame);
        let start = (request.offset % u64::from(self.page_size)) as usize;
        let target = request.buffer.range_mut(request.start..request.start + request.len);
        match bytes.get(start..start + target.len()) {
            Some(wanted) if target.len() == request.len as usize => target.copy_from_slice(wanted),
            _ => return Ok(Err(io::ErrorKind::InvalidInput.into())),
        }
        let link = |at: usize| be::u32_at(bytes, at).unwrap_or(u32::MAX);
        let (prev, next) = (link(FIL_PAGE_PREV), link(FIL_PAGE_NEXT));
        if missed && self.rules.random {
            let ahead = self.pool.random(page_no);
            self.plan(&ahead);
        }
        if self.pool.accessed(page_no) && self.rules.linear {
            let ahead = self.pool.linear(page_no, prev, next);
            self.plan(&ahead);
        }
        self.start()?;
        Ok(Ok(request.len))
    }

    /// Gives a missing page a frame; `false` if there is none.
    fn reserve(&mut self, page_no: u32) -> bool {
        let Some(frame) = self.pool.take(page_no) else { return false };
        while self.frames.len() <= frame {
            self.frames.push(vec![0; self.page_size as usize].into());
        }
        true
    }

    /// Plans reads of pages in ascending order, neighbours together.
    fn plan(&mut self, pages: &[u32]) {
        let mut run: Option<Range<u32>> = None;
        for &page_no in pages {
            if !self.reserve(page_no) {
                break;
            }
            match &mut run {
                Some(run) if run.end == page_no && run.end - run.start < self.run_max => run.end += 1,
                _ => self.planned.extend(run.replace(page_no..page_no + 1)),
            }
        }
        self.planned.extend(run);
    }

    /// Starts planned reads while there are buffers.
    fn start(&mut self) -> io::Result<()> {
        while let Some(run) = self.planned.front().cloned() {
            let Some(buffer) = self.buffers.take() else { break };
            self.planned.pop_front();
            let token = self.next_token;
            self.next_token += 1;
            self.inner.submit(Request {
                token,
                operation: Operation::Read,
                file: FileId(0),
                handle: self.handle.clone(),
                offset: u64::from(run.start) * u64::from(self.page_size),
                start: 0,
                len: (run.end - run.start) * self.page_size,
                buffer,
            });
            self.flying.insert(token, run);
            let in_flight = self.flying.len() as u64;
            // Relaxed: see `Server::counts`.
            self.effort.requests.fetch_add(1, Ordering::Relaxed);
            self.effort.in_flight_sum.fetch_add(in_flight, Ordering::Relaxed);
            self.effort.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
        }
        self.inner.kick()
    }

    /// Waits for the device, and takes in what it has read.
    fn absorb(&mut self) -> io::Result<()> {
        let mut done = Vec::new();
        self.inner.wait(&mut done)?;
        if done.is_empty() {
            return Err(io::Error::other("the I/O engine lost a request"));
        }
        for completion in done {
            let Some(run) = self.flying.remove(&completion.token) else { continue };
            let got = match completion.result {
                Ok(got) => got,
                Err(error) => {
                    self.failure = Some(error);
                    0
                }
            };
            // Relaxed: see `Server::counts`.
            self.effort.bytes.fetch_add(u64::from(got), Ordering::Relaxed);
            for (page_no, start) in run.zip((0..).step_by(self.page_size as usize)) {
                self.take_in(
                    page_no,
                    (got >= start + self.page_size).then(|| completion.buffer.range(start..start + self.page_size)),
                );
            }
            self.buffers.give_back(completion.buffer);
        }
        self.start()
    }

    /// Puts the bytes of a page into its frame; without bytes, the page leaves the pool.
    fn take_in(&mut self, page_no: u32, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes else { return self.pool.failed(page_no) };
        let frame = self.pool.loaded(page_no).and_then(|frame| self.frames.get_mut(frame));
        if let Some(frame) = frame.filter(|frame| frame.len() == bytes.len()) {
            frame.copy_from_slice(bytes);
        }
    }
}
