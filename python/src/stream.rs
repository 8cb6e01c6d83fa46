//! A scan as a stream of record batches: a thread reads ahead, at most [`AHEAD`] batches; the consumer takes them.
//!
//! The consumer may call from any thread, with the GIL or without it. Only on the thread that asked for the stream is it taken, to look for
//! Ctrl-C: on any other one the thread that holds it may be waiting for this one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};

use arrow::ArrowOptions;
use arrow::stream::BatchStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use flow::Counters;
use inspect::rows::RowDamage;
use inspect::rows::export::{ExportOptions, TableExport, export_table};
use inspect::rows::reader::OnDamage;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::database::Source;
use crate::failure::Failure;
use crate::scan::Outcome;
use crate::wait::TICK;
use crate::{capsule, loss};

/// Batches that wait for the consumer.
const AHEAD: usize = 2;

type Read = Result<(TableExport, u64), Failure>;

enum State {
    /// Nothing is started before the first batch is asked for.
    Waiting(Box<Source>, Box<ExportOptions>),
    Running(Receiver<RecordBatch>, JoinHandle<Read>),
    Ended,
}

/// The stream.
pub struct Batches {
    schema: SchemaRef,
    state: State,
    arrow: (ArrowOptions, usize),
    on_damage: OnDamage,
    stop: Arc<AtomicBool>,
    outcome: Arc<Mutex<Outcome>>,
    /// What was left out of a stream that was not read to its end.
    lost: Arc<Mutex<Vec<RowDamage>>>,
    /// The thread that asked for the stream.
    home: ThreadId,
}

impl Batches {
    pub fn new(
        schema: SchemaRef,
        source: Source,
        mut options: ExportOptions,
        arrow: (ArrowOptions, usize),
        outcome: Arc<Mutex<Outcome>>,
    ) -> Self {
        let (stop, on_damage) = (Arc::new(AtomicBool::new(false)), options.scan.on_damage);
        let lost = Arc::<Mutex<Vec<RowDamage>>>::default();
        options.scan.stop = Some(Arc::clone(&stop));
        options.scan.lost_at_stop = Some(Arc::clone(&lost));
        let state = State::Waiting(Box::new(source), Box::new(options));
        Self { schema, state, arrow, on_damage, stop, outcome, lost, home: thread::current().id() }
    }

    fn start(&mut self, source: Source, options: ExportOptions) -> std::io::Result<()> {
        let (sender, receiver) = sync_channel(AHEAD);
        let (arrow, batch_size) = self.arrow;
        let workers = options.scan.workers;
        let run = move || -> Read {
            let format = BatchStream::new(arrow, batch_size, workers, sender);
            let counters = Counters::new(workers);
            let sink = Box::new(std::io::sink());
            let export = source.read(|table| Ok(export_table(table, &options, &format, sink, &counters)?))?;
            Ok((export, counters.total().bytes_read))
        };
        let thread = thread::Builder::new().name("innokit scan".to_owned()).spawn(run)?;
        self.state = State::Running(receiver, thread);
        Ok(())
    }

    fn advance(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return None,
                State::Waiting(source, options) => {
                    if let Err(error) = self.start(*source, *options) {
                        return Some(Err(failed(&format!("no thread could be started: {error}"))));
                    }
                }
                State::Running(receiver, thread) => match receiver.recv_timeout(TICK) {
                    Ok(batch) => {
                        self.state = State::Running(receiver, thread);
                        return Some(Ok(batch));
                    }
                    Err(RecvTimeoutError::Disconnected) => return self.finish(thread),
                    Err(RecvTimeoutError::Timeout) => {
                        if self.is_interrupted() {
                            return Some(Err(failed("interrupted")));
                        }
                        self.state = State::Running(receiver, thread);
                    }
                },
            }
        }
    }

    /// All batches were taken: how did it end?
    fn finish(&mut self, thread: JoinHandle<Read>) -> Option<Result<RecordBatch, ArrowError>> {
        let read = thread.join().unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)));
        let (export, bytes_read) = match read {
            Ok(read) => read,
            Err(failure) => {
                let text = failure.text();
                if let Failure::Storage(missed) = failure {
                    self.outcome.lock().unwrap_or_else(PoisonError::into_inner).missed = Some(missed);
                }
                return Some(Err(failed(&text)));
            }
        };
        let damage = Failure::of_damage(&export.damage).map(|damage| damage.text());
        let refused = export.refused.clone();
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) =
            Outcome { export: Some(export), bytes_read, ..Outcome::default() };
        match (damage, refused) {
            (Some(why), _) if self.on_damage == OnDamage::Stop => Some(Err(failed(&why))),
            (Some(why), _) => self.warn(&why).err().map(|error| Err(failed(&error))),
            (None, Some(why)) => Some(Err(failed(&why))),
            (None, None) => None,
        }
    }

    fn is_home(&self) -> bool {
        thread::current().id() == self.home
    }

    /// Ctrl-C is taken here, and given again, so that Python raises it when the consumer returns.
    fn is_interrupted(&self) -> bool {
        let is_signalled = |py: Python<'_>| {
            if py.check_signals().is_ok() {
                return false;
            }
            drop(py.import("_thread").and_then(|module| module.call_method0("interrupt_main")));
            true
        };
        let interrupted = self.is_home() && Python::try_attach(is_signalled) == Some(true);
        if interrupted {
            // Relaxed: the thread only ends, and its batches come through a channel.
            self.stop.store(true, Ordering::Relaxed);
        }
        interrupted
    }

    /// Rows are missing, as the caller allowed: they are told anyway.
    fn warn(&self, why: &str) -> Result<(), String> {
        let why = missing(why);
        if self.is_home() { loss::tell_here(&why) } else { loss::tell(why) }
    }
}

fn missing(why: &str) -> String {
    format!("rows are missing: {why}")
}

/// Waits for the thread of a stream that was dropped before its end, and tells what was left out until then.
fn tell_of_the_rest(thread: JoinHandle<Read>, lost: &Mutex<Vec<RowDamage>>, outcome: &Mutex<Outcome>) {
    let mut damage = match thread.join() {
        Ok(Ok((export, _))) => export.damage,
        _ => Vec::new(),
    };
    damage.append(&mut lost.lock().unwrap_or_else(PoisonError::into_inner));
    let Some(why) = Failure::of_damage(&damage).map(|damage| damage.text()) else { return };
    outcome.lock().unwrap_or_else(PoisonError::into_inner).lost = damage;
    // An exception of it would have nowhere to go.
    drop(loss::tell_here(&missing(&why)));
}

fn failed(why: &str) -> ArrowError {
    ArrowError::ExternalError(why.into())
}

/// Calls `next` so that a panic is an error: Arrow's callbacks would abort the process.
fn guarded(next: impl FnOnce() -> Option<Result<RecordBatch, ArrowError>>) -> Option<Result<RecordBatch, ArrowError>> {
    catch_unwind(AssertUnwindSafe(next)).unwrap_or_else(|panic| Some(Err(failed(&Failure::of_panic(&*panic).text()))))
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        guarded(|| self.advance())
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Batches {
    /// The thread ends at its next page, or when it finds that nobody takes its batches. What it left out until then is told.
    fn drop(&mut self) {
        // Relaxed: the thread only ends.
        self.stop.store(true, Ordering::Relaxed);
        if let State::Running(batches, thread) = std::mem::replace(&mut self.state, State::Ended) {
            drop(batches);
            if self.on_damage == OnDamage::Skip {
                let (lost, outcome) = (Arc::clone(&self.lost), Arc::clone(&self.outcome));
                // Without a thread for it, nothing can be told.
                drop(loss::later(move || tell_of_the_rest(thread, &lost, &outcome)));
            }
        }
    }
}

/// For the tests: a stream with a defect, in its own callback or on its thread.
struct Panicking {
    on_thread: bool,
}

impl Iterator for Panicking {
    type Item = Result<RecordBatch, ArrowError>;

    #[expect(clippy::panic, reason = "this is what the tests want to see caught")]
    fn next(&mut self) -> Option<Self::Item> {
        guarded(|| {
            if !self.on_thread {
                panic!("a stream that tests made panic");
            }
            let joined = thread::spawn(|| -> Read { panic!("a thread that tests made panic") }).join();
            let read = joined.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)));
            read.err().map(|failure| Err(failed(&failure.text())))
        })
    }
}

impl RecordBatchReader for Panicking {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::empty())
    }
}

/// See [`Panicking`].
#[pyfunction(name = "_panicking_stream")]
pub fn panicking_stream(py: Python<'_>, on_thread: bool) -> PyResult<Bound<'_, PyCapsule>> {
    capsule::stream(py, Panicking { on_thread })
}
