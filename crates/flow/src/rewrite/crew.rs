//! The threads that change stretches.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};

use super::change::{Change, Stretch};
use super::changes::Changes;
use super::prefetch::Source;
use crate::Buffer;
use crate::job::for_this_job;

/// A stretch in memory.
pub(super) struct Job {
    pub stretch: Stretch,
    pub buffer: Buffer,
    /// Where to copy the old bytes from; `None`: they are in the buffer.
    pub source: Option<Source>,
}

/// A stretch that was changed.
pub(super) struct Done<E> {
    pub job: Job,
    /// `None`: the change panicked.
    pub outcome: Option<Result<Changes, E>>,
}

/// The threads that change stretches.
pub(super) struct Crew<'c, E> {
    /// Jobs given to the threads and not taken back yet.
    busy: usize,
    jobs: Option<Sender<Job>>,
    results: Option<Receiver<Done<E>>>,
    /// Without threads: does the job at once.
    alone: Option<Box<dyn FnMut(Job) -> Done<E> + 'c>>,
    done: VecDeque<Done<E>>,
}

impl<'c, E: Send + 'c> Crew<'c, E> {
    /// Starts the threads; they end when the crew is dropped.
    pub fn hire<'s, C>(scope: &'s Scope<'s, 'c>, workers: usize, change: &'c C) -> Self
    where
        C: Change<Error = E>,
    {
        let ((jobs, to_do), (report, results)) = (channel::<Job>(), channel());
        let to_do = Arc::new(Mutex::new(to_do));
        let mut started = 0;
        while started < workers {
            let (to_do, report) = (Arc::clone(&to_do), report.clone());
            let serve = move || {
                let mut scratch = C::Scratch::default();
                loop {
                    let job = to_do.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    if report.send(work(change, job, &mut scratch)).is_err() {
                        return;
                    }
                }
            };
            // The system may start no more threads: those that it has started do the work.
            if Builder::new().spawn_scoped(scope, for_this_job(serve)).is_err() {
                break;
            }
            started += 1;
        }
        if started == 0 {
            let mut scratch = C::Scratch::default();
            let alone: Box<dyn FnMut(Job) -> Done<E> + 'c> = Box::new(move |job| work(change, job, &mut scratch));
            return Self { busy: 0, jobs: None, results: None, alone: Some(alone), done: VecDeque::new() };
        }
        Self { busy: 0, jobs: Some(jobs), results: Some(results), alone: None, done: VecDeque::new() }
    }

    /// A crew for a run without stretches.
    pub fn none() -> Self {
        Self { busy: 0, jobs: None, results: None, alone: None, done: VecDeque::new() }
    }

    pub fn is_idle(&self) -> bool {
        self.busy == 0 && self.done.is_empty()
    }

    pub fn give(&mut self, job: Job) {
        if let Some(alone) = &mut self.alone {
            self.done.push_back(alone(job));
        } else if let Some(jobs) = &self.jobs {
            self.busy += usize::from(jobs.send(job).is_ok());
        }
    }

    /// A finished job, if there is one.
    pub fn try_take(&mut self) -> Option<Done<E>> {
        let done = self.results.as_ref().and_then(|results| results.try_recv().ok());
        self.busy -= usize::from(done.is_some());
        done.or_else(|| self.done.pop_front())
    }

    /// Waits for a finished job; `None` if there will be none.
    pub fn take(&mut self) -> Option<Done<E>> {
        if self.busy == 0 {
            return self.done.pop_front();
        }
        let done = self.results.as_ref().and_then(|results| results.recv().ok());
        self.busy -= 1;
        done
    }
}

fn work<C: Change>(change: &C, mut job: Job, scratch: &mut C::Scratch) -> Done<C::Error> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut changes = Changes::default();
        let bytes = job.buffer.range_mut(0..job.stretch.len);
        if let Some(source) = job.source.take() {
            source.copy_to(bytes);
        }
        change.change(&job.stretch, bytes, &mut changes, scratch).map(|()| changes)
    }));
    Done { job, outcome: outcome.ok() }
}
