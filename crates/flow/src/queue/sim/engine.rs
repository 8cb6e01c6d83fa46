//! The simulated device as an engine of the I/O queue.

use std::io;

use super::SimDevice;
use crate::Buffer;
use crate::queue::{Completion, OpenQueue, Queue, Request};

impl OpenQueue for SimDevice {
    fn name(&self) -> &'static str {
        "simulated device"
    }

    fn open(&self, _depth: u32, _buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        let number = self.lock().new_queue();
        Ok(Box::new(SimQueue { device: self.clone(), number, taken: Vec::new() }))
    }
}

/// The queue of one worker.
struct SimQueue {
    device: SimDevice,
    number: u64,
    /// Requests not started yet.
    taken: Vec<Request>,
}

impl Queue for SimQueue {
    fn submit(&mut self, request: Request) {
        self.taken.push(request);
    }

    fn kick(&mut self) -> io::Result<()> {
        let mut state = self.device.lock();
        for request in self.taken.drain(..) {
            state.take_off(self.number, request);
        }
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        self.kick()?;
        let before = done.len();
        loop {
            let mut state = self.device.lock();
            state.fetch(self.number, done);
            let next = state.next_landing(self.number);
            drop(state);
            match next {
                Some(next) if done.len() == before => self.device.sleep_until(next),
                _ => return Ok(()),
            }
        }
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.device.lock().next_landing(self.number).is_some() {
            // This cannot fail: see above.
            self.wait(&mut done).ok();
            done.clear();
        }
    }
}
