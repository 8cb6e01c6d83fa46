//! `io_submit` and `io_getevents`, Linux's asynchronous I/O before `io_uring`: what libaio wraps and the servers call native AIO.
//!
//! It starts direct requests without waiting for the device. Buffered ones wait in `io_submit`.

#![expect(
    unsafe_code,
    reason = "the kernel writes to buffers behind the compiler's back, and nobody wraps these system calls"
)]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};

use rustix::io::Errno;

use super::{Completion, OpenQueue, Operation, Queue, Request};
use crate::Buffer;
use crate::system::last_errno;

/// The engine of Linux's native asynchronous I/O. For comparison only: no [`Engine`](crate::Engine) stands for it.
#[derive(Debug, Clone, Copy)]
pub struct Aio;

impl OpenQueue for Aio {
    fn name(&self) -> &'static str {
        "libaio"
    }

    fn open(&self, depth: u32, _buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        let context = Context::new(depth)?;
        let places = depth as usize;
        let blank = Control::default();
        Ok(Box::new(AioQueue {
            context,
            controls: vec![blank; places].into(),
            flying: (0..depth).map(|_| None).collect(),
            free: (0..places).collect(),
            taken: Vec::with_capacity(places),
            started: 0,
            refused: Vec::new(),
            events: vec![Event::default(); places].into(),
        }))
    }
}

/// The kernel's `struct iocb`, as in `linux/aio_abi.h`. The key and the flags, which swap places on big-endian machines, are both 0.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Control {
    data: u64,
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    fd: i32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// The kernel's `struct io_event`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    result2: i64,
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const DATA_SYNC: u16 = 3;

/// The kernel's context of a queue.
struct Context(libc::c_ulong);

impl Context {
    fn new(depth: u32) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the pointer is to a live word that is 0, as the call wants it; the call writes only to it, and only during the call.
        let status = unsafe { libc::syscall(libc::SYS_io_setup, libc::c_ulong::from(depth), &raw mut context) };
        if status == 0 { Ok(Self(context)) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is ours and not used after this. The call waits until the kernel has let go of every buffer.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// The queue of one worker.
struct AioQueue {
    /// Dropped before the buffers: fields are dropped in order.
    context: Context,
    /// What the kernel reads of each request, by its place.
    controls: Box<[Control]>,
    /// Requests taken or started, by their places.
    flying: Box<[Option<Request>]>,
    /// Free places.
    free: Vec<usize>,
    /// Places of requests not started yet.
    taken: Vec<usize>,
    /// Requests that the kernel has.
    started: usize,
    /// Requests that the kernel refused, not returned yet.
    refused: Vec<Completion>,
    events: Box<[Event]>,
}

impl AioQueue {
    /// Starts requests until all are started or refused, or the kernel takes no more for now.
    fn start(&mut self) -> io::Result<()> {
        while !self.taken.is_empty() {
            let pointers: Vec<*const Control> =
                self.taken.iter().map(|&place| self.controls.get(place).map_or(null(), std::ptr::from_ref)).collect();
            let count = libc::c_long::try_from(pointers.len()).unwrap_or(libc::c_long::MAX);
            // SAFETY: every pointer is to a control block in `controls`, which lives as long as the context. It describes the heap memory of
            // a buffer that is in `flying` and stays there, unmoved and untouched, until its event arrives or the context is destroyed. Its
            // descriptor stays open as long, because the request holds the handle.
            let started = unsafe { libc::syscall(libc::SYS_io_submit, self.context.0, count, pointers.as_ptr()) };
            match usize::try_from(started) {
                Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
                Ok(started) => {
                    self.taken.drain(..started.min(self.taken.len()));
                    self.started += started;
                }
                Err(_) => match last_errno() {
                    Errno::INTR => {}
                    // The kernel has no room until others are done.
                    Errno::AGAIN if self.started > 0 => return Ok(()),
                    Errno::AGAIN => return Err(Errno::AGAIN.into()),
                    // It refuses the first of them, and has not looked at the others.
                    errno => self.refuse(errno),
                },
            }
        }
        Ok(())
    }

    fn refuse(&mut self, errno: Errno) {
        let place = self.taken.remove(0);
        let Some(request) = self.flying.get_mut(place).and_then(Option::take) else { return };
        self.free.push(place);
        self.refused.push(Completion { token: request.token, buffer: request.buffer, result: Err(errno.into()) });
    }

    /// Takes the kernel's completions, after waiting for `least` of them.
    fn reap(&mut self, least: usize, done: &mut Vec<Completion>) -> io::Result<()> {
        let events = self.events.as_mut_ptr();
        let most = libc::c_long::try_from(self.events.len()).unwrap_or(libc::c_long::MAX);
        let least = libc::c_long::try_from(least).unwrap_or(1);
        // SAFETY: the kernel writes at most `most` events, for which there is room, and only during the call. Without a timeout it waits.
        let got = unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context.0, least, most, events, null_mut::<libc::timespec>())
        };
        let got = match usize::try_from(got) {
            Ok(got) => got,
            Err(_) if last_errno() == Errno::INTR => 0,
            Err(_) => return Err(io::Error::last_os_error()),
        };
        for event in self.events.get(..got).unwrap_or_default() {
            let place = usize::try_from(event.data).unwrap_or(usize::MAX);
            let Some(request) = self.flying.get_mut(place).and_then(Option::take) else { continue };
            self.free.push(place);
            self.started -= 1;
            let result = u32::try_from(event.result)
                .map_err(|_| io::Error::from_raw_os_error(i32::try_from(-event.result).unwrap_or(libc::EIO)));
            done.push(Completion { token: request.token, buffer: request.buffer, result });
        }
        Ok(())
    }
}

impl Queue for AioQueue {
    fn submit(&mut self, mut request: Request) {
        let Some(place) = self.free.pop() else {
            // The caller exceeded the depth. There is no room, so the request can only be dropped.
            debug_assert!(false, "more requests than the depth");
            return;
        };
        if let Some(control) = self.controls.get_mut(place) {
            *control = control_of(&mut request, place as u64);
        }
        if let Some(flying) = self.flying.get_mut(place) {
            *flying = Some(request);
        }
        self.taken.push(place);
    }

    fn kick(&mut self) -> io::Result<()> {
        self.start()
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        let before = done.len();
        while done.len() == before && self.free.len() < self.flying.len() + self.refused.len() {
            self.start()?;
            done.append(&mut self.refused);
            let least = usize::from(done.len() == before);
            self.reap(least, done)?;
        }
        Ok(())
    }
}

/// The kernel's form of a request.
fn control_of(request: &mut Request, place: u64) -> Control {
    let fd = request.handle.fd().map_or(-1, |fd| fd.as_raw_fd());
    let bytes = request.buffer.range_mut(request.start..request.start.saturating_add(request.len));
    let control = Control { data: place, fd, ..Control::default() };
    let moved = Control {
        buffer: bytes.as_mut_ptr() as u64,
        bytes: bytes.len() as u64,
        offset: i64::try_from(request.offset).unwrap_or(-1),
        ..control
    };
    match request.operation {
        Operation::Read => Control { opcode: READ, ..moved },
        Operation::Write => Control { opcode: WRITE, ..moved },
        Operation::Sync => Control { opcode: DATA_SYNC, ..control },
    }
}
