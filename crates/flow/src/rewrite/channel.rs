//! Complete writes, reads and syncs over a queue: continues short ones, and keeps the first failure.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::error::RewriteError;
use super::options::RewriteTarget;
use crate::queue::{Completion, OpenQueue, Operation, Queue, Request};
use crate::{Buffer, BufferPool};

/// Requests in flight, each with its own buffer.
pub(super) struct Channel {
    queue: Box<dyn Queue>,
    pool: BufferPool,
    /// By token; `None` is free.
    in_flight: Vec<Option<Pending>>,
    write_max: usize,
    done: Vec<Completion>,
}

/// The rest of a request.
#[derive(Debug, Clone)]
struct Pending {
    target: RewriteTarget,
    operation: Operation,
    offset: u64,
    start: u32,
    len: u32,
}

impl Pending {
    fn failed(&self, source: io::Error) -> RewriteError {
        let action = match self.operation {
            Operation::Read => "reading",
            Operation::Write => "writing",
            Operation::Sync => "making durable what was written",
        };
        let name = String::from_utf8_lossy(&self.target.name).into_owned();
        RewriteError::Io { name, action, source: Arc::new(source) }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl Channel {
    pub fn open(engine: &dyn OpenQueue, depth: u16, write_max: u32) -> io::Result<Self> {
        let pool = BufferPool::new(depth, write_max)?;
        let queue = engine.open(u32::from(depth), pool.free())?;
        let in_flight = (0..depth).map(|_| None).collect();
        Ok(Self { queue, pool, in_flight, write_max: write_max as usize, done: Vec::new() })
    }

    /// Starts writing a copy of `bytes`, after waiting if too much is in flight. The write is neither complete nor durable on return.
    pub fn write(&mut self, target: &RewriteTarget, offset: u64, bytes: &[u8]) -> Result<(), RewriteError> {
        let mut at = offset;
        for part in bytes.chunks(self.write_max) {
            let mut buffer = self.free_buffer()?;
            let len = u32::try_from(part.len()).unwrap_or(0);
            buffer.range_mut(0..len).copy_from_slice(part);
            let (target, operation) = (target.clone(), Operation::Write);
            self.submit(Pending { target, operation, offset: at, start: 0, len }, buffer)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Waits until all writes are done.
    pub fn drain(&mut self) -> Result<(), RewriteError> {
        while self.in_flight.iter().any(Option::is_some) {
            self.wait(&mut |_, _| {})?;
        }
        Ok(())
    }

    /// Syncs the files, as many at the same time as there are buffers.
    pub fn sync<'t>(&mut self, targets: impl IntoIterator<Item = &'t RewriteTarget>) -> Result<(), RewriteError> {
        for target in targets {
            let buffer = self.free_buffer()?;
            let (target, operation) = (target.clone(), Operation::Sync);
            self.submit(Pending { target, operation, offset: 0, start: 0, len: 0 }, buffer)?;
        }
        self.drain()
    }

    /// Reads up to `len` bytes: fewer at the end of the file. Nothing else may be in flight.
    pub fn read(&mut self, target: &RewriteTarget, offset: u64, len: usize) -> Result<Vec<u8>, RewriteError> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let (before, wanted) = (bytes.len(), (len - bytes.len()).min(self.write_max));
            let buffer = self.free_buffer()?;
            let (target, operation, at) = (target.clone(), Operation::Read, offset + before as u64);
            let wanted = u32::try_from(wanted).unwrap_or(0);
            self.submit(Pending { target, operation, offset: at, start: 0, len: wanted }, buffer)?;
            while self.in_flight.iter().any(Option::is_some) {
                self.wait(&mut |buffer, count| bytes.extend_from_slice(buffer.first(count)))?;
            }
            if bytes.len() == before {
                break;
            }
        }
        Ok(bytes)
    }

    fn free_buffer(&mut self) -> Result<Buffer, RewriteError> {
        loop {
            if let Some(buffer) = self.pool.take() {
                return Ok(buffer);
            }
            self.wait(&mut |_, _| {})?;
        }
    }

    fn submit(&mut self, pending: Pending, buffer: Buffer) -> Result<(), RewriteError> {
        let handle = match pending.target.handle.opened() {
            Ok(handle) => handle,
            Err(error) => {
                self.pool.give_back(buffer);
                return Err(pending.failed(error));
            }
        };
        // There are as many entries as buffers, so one is free.
        let free = self.in_flight.iter().position(Option::is_none).unwrap_or(0);
        let request = Request {
            token: free as u64,
            operation: pending.operation,
            file: pending.target.file,
            handle,
            offset: pending.offset,
            start: pending.start,
            len: pending.len,
            buffer,
        };
        if let Some(place) = self.in_flight.get_mut(free) {
            *place = Some(pending);
        }
        self.queue.submit(request);
        Ok(())
    }

    /// Waits for at least one completion; `read` gets the bytes of a read.
    fn wait(&mut self, read: &mut dyn FnMut(&Buffer, u32)) -> Result<(), RewriteError> {
        let mut done = std::mem::take(&mut self.done);
        self.queue.wait(&mut done).map_err(|error| RewriteError::Setup(Arc::new(error)))?;
        let mut outcome = Ok(());
        for completion in done.drain(..) {
            let place = usize::try_from(completion.token).ok().and_then(|token| self.in_flight.get_mut(token));
            let Some(pending) = place.and_then(Option::take) else { continue };
            let ended = self.settle(pending, completion, read);
            outcome = outcome.and(ended);
        }
        self.done = done;
        outcome
    }

    fn settle(
        &mut self,
        mut pending: Pending,
        completion: Completion,
        read: &mut dyn FnMut(&Buffer, u32),
    ) -> Result<(), RewriteError> {
        match completion.result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted && pending.operation != Operation::Sync => {
                return self.submit(pending, completion.buffer);
            }
            Err(error) => {
                self.pool.give_back(completion.buffer);
                return Err(pending.failed(error));
            }
            Ok(count) if pending.operation == Operation::Write && count < pending.len => {
                if count == 0 {
                    self.pool.give_back(completion.buffer);
                    return Err(pending.failed(io::ErrorKind::WriteZero.into()));
                }
                pending.offset += u64::from(count);
                pending.start += count;
                pending.len -= count;
                return self.submit(pending, completion.buffer);
            }
            Ok(count) if pending.operation == Operation::Read => read(&completion.buffer, count),
            Ok(_) => {}
        }
        self.pool.give_back(completion.buffer);
        Ok(())
    }
}
