//! A compressed file: decompressed on a thread of its own, so that the reader, or the enclosing archive, need not wait.
//!
//! ```text
//! take -> batches of 64 KiB -> channel, 4 of them -> decoder -> Stream of the contents
//! ```
//!
//! Batches are cut at fixed offsets: what a decoder emits before it hits damage must not depend on how the input was chunked.

use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use flow::for_this_job;

use super::examined::{Break, StreamOutcome};
use super::inner::Inner;
use datadir::content::Packing;
use datadir::inventory::{Passed, plain};
use datadir::severity::Severity;

const BATCH: usize = 64 * 1024;
const BATCHES_WAITING: usize = 4;
/// Bytes that the decoder hands on at once.
const OUTPUT: usize = 256 * 1024;

enum Message {
    Bytes(Vec<u8>),
    Broken(Break),
}

/// The sending end of the channel, which takes the compressed bytes.
pub(super) struct Unpacking {
    sender: SyncSender<Message>,
    batch: Vec<u8>,
    /// Or why there is none.
    worker: Result<JoinHandle<StreamOutcome>, String>,
}

impl Unpacking {
    /// Starts a thread that feeds `inside`.
    pub fn start(packing: Packing, inside: Box<dyn Inner>) -> Self {
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let incoming = Incoming { receiver, current: Vec::new(), done: 0, taken: 0, last: [0; 8], broken: None };
        let worker = std::thread::Builder::new().spawn(for_this_job(move || unpack(packing, incoming, inside)));
        let worker = worker.map_err(|error| format!("no thread starts to decompress it: {}", plain(&error)));
        Self { sender, batch: Vec::with_capacity(BATCH), worker }
    }

    /// Takes the next compressed bytes.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BATCH - self.batch.len()));
            self.batch.extend_from_slice(now);
            bytes = rest;
            if self.batch.len() == BATCH {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // The decoder may have stopped at damage; then the bytes are useless.
        drop(self.sender.send(Message::Bytes(batch)));
    }

    /// The input broke off: no more bytes will come, though the file has more.
    pub fn broken(&mut self, why: Break) {
        self.send();
        drop(self.sender.send(Message::Broken(why)));
    }

    /// Ends the input and waits for the outcome.
    pub fn finish(mut self, path: &Path) -> StreamOutcome {
        self.send();
        let Self { sender, worker, .. } = self;
        drop(sender);
        let done = worker.and_then(|worker| worker.join().map_err(|_| "the decompression failed".to_owned()));
        done.unwrap_or_else(|why| {
            let mut outcome = StreamOutcome::new(0);
            outcome.failed.push(Passed { path: path.to_path_buf(), why });
            outcome
        })
    }
}

/// The receiving end of the channel, as a `Read`.
struct Incoming {
    receiver: Receiver<Message>,
    current: Vec<u8>,
    /// Bytes of `current` already read.
    done: usize,
    /// Bytes read in all.
    taken: u64,
    /// The last bytes read.
    last: [u8; 8],
    broken: Option<Break>,
}

impl Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.done == self.current.len() {
            match self.receiver.recv() {
                Ok(Message::Bytes(bytes)) => (self.current, self.done) = (bytes, 0),
                Ok(Message::Broken(why)) => {
                    self.broken = Some(why);
                    return Err(ErrorKind::ConnectionAborted.into());
                }
                Err(_) => return Ok(0),
            }
        }
        let rest = self.current.get(self.done..).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
            for byte in from.iter().skip(from.len().saturating_sub(8)) {
                self.last.rotate_left(1);
                self.last[7] = *byte;
            }
        }
        self.done += count;
        self.taken += count as u64;
        Ok(count)
    }
}

fn unpack(packing: Packing, mut incoming: Incoming, mut inside: Box<dyn Inner>) -> StreamOutcome {
    let end = match packing.unpack(&mut incoming) {
        Ok(mut decoder) => pump(&mut *decoder, &mut *inside),
        Err(error) => Err(error),
    };
    let why = match (end, incoming.broken.take()) {
        (_, Some(why)) => Some(why),
        (Ok(()), None) if !packing.can_end_with(&incoming.last) => Some(cut(packing, &*inside, incoming.taken)),
        (Ok(()), None) => None,
        (Err(error), None) if error.kind() == ErrorKind::UnexpectedEof => Some(cut(packing, &*inside, incoming.taken)),
        (Err(error), None) => Some(damaged(packing, &*inside, &error)),
    };
    if let Some(why) = why {
        inside.broken(why);
    }
    inside.finish()
}

fn pump(decoder: &mut dyn Read, inside: &mut dyn Inner) -> io::Result<()> {
    let mut output = vec![0; OUTPUT];
    loop {
        match decoder.read(&mut output) {
            Ok(0) => return Ok(()),
            Ok(count) => inside.take(output.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn cut(packing: Packing, inside: &dyn Inner, taken: u64) -> Break {
    let words = format!(
        "the {} data end early, at byte {taken}: {} bytes came out of them, the rest is missing",
        packing.name(),
        inside.len()
    );
    Break { reason: "compression_cut".into(), severity: Severity::Damage, words, position: Some(taken) }
}

fn damaged(packing: Packing, inside: &dyn Inner, error: &io::Error) -> Break {
    let words = format!(
        "the {} data are damaged: {} bytes could be unpacked, the rest is lost ({})",
        packing.name(),
        inside.len(),
        plain(error)
    );
    Break { reason: "compression_damaged".into(), severity: Severity::Damage, words, position: None }
}
