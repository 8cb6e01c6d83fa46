//! Which job a thread works for.
//!
//! A process may run several jobs at once, as Python does, and what one of them notes is not the business of the others. So notes belong
//! neither to the process nor to a thread: every thread that works for a job reaches the same [`Job`]. A thread that works for no other
//! thread's job has its own.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

thread_local!(static HERE: RefCell<Option<Job>> = const { RefCell::new(None) });

/// A job, and what it keeps for all its threads: one value of the caller's choice, and how many bytes it has been through.
#[derive(Debug, Clone, Default)]
pub struct Job(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    kept: OnceLock<Box<dyn Any + Send + Sync>>,
    bytes: AtomicU64,
}

impl Job {
    /// The job of this thread.
    #[must_use]
    pub fn here() -> Self {
        HERE.with_borrow_mut(|here| here.get_or_insert_default().clone())
    }

    /// From now on this thread works for the job, until what is returned is dropped.
    #[must_use]
    pub fn enter(&self) -> InJob {
        let before = HERE.with_borrow_mut(|here| here.replace(self.clone()));
        InJob { before, of_this_thread: PhantomData }
    }

    /// What the job keeps, made when it is first asked for. `None` if the job keeps a value of another type.
    #[must_use]
    pub fn kept<T: Any + Send + Sync + Default>(&self) -> Option<&T> {
        self.0.kept.get_or_init(|| Box::new(T::default())).downcast_ref()
    }

    /// The bytes that its threads have been through.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        // Relaxed, here and in `did_bytes`: a number for a progress bar, and a moment late is soon enough.
        self.0.bytes.load(Ordering::Relaxed)
    }
}

/// Notes that the job of this thread has read, copied or written so many bytes more.
pub fn did_bytes(bytes: usize) {
    // Relaxed: see `Job::bytes`.
    Job::here().0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// While it lives, its thread works for a job.
#[derive(Debug)]
pub struct InJob {
    before: Option<Job>,
    /// It must be dropped on the thread that made it.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for InJob {
    fn drop(&mut self) {
        // A thread that ends has none any more.
        HERE.try_with(|here| here.replace(self.before.take())).ok();
    }
}

/// The same work, for another thread to do: it works for the caller's job then.
pub fn for_this_job<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let job = Job::here();
    move || {
        let _in_job = job.enter();
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;
    use crate::{run_both, run_workers};

    type Notes = Mutex<Vec<usize>>;

    fn note(number: usize) {
        did_bytes(number);
        Job::here().kept::<Notes>().expect("notes").lock().expect("unlocked").push(number);
    }

    fn noted() -> Vec<usize> {
        let mut notes = Job::here().kept::<Notes>().expect("notes").lock().expect("unlocked").clone();
        notes.sort_unstable();
        notes
    }

    #[test]
    fn all_threads_of_a_job_reach_its_notes_and_no_other_thread_does() {
        run_workers(3, note);
        run_both(|| note(10), || note(11));
        let carried = for_this_job(|| note(12));
        thread::scope(|scope| {
            scope.spawn(carried);
            scope.spawn(|| {
                note(99);
                assert_eq!(noted(), [99]);
            });
        });
        assert_eq!(noted(), [0, 1, 2, 10, 11, 12]);
        assert_eq!(Job::here().bytes(), 36);
    }

    #[test]
    fn a_job_within_a_job_has_its_own_notes_until_it_ends() {
        note(1);
        let inner = Job::default().enter();
        note(2);
        assert_eq!(noted(), [2]);
        drop(inner);
        assert_eq!(noted(), [1]);
        assert!(Job::here().kept::<String>().is_none(), "it keeps notes");
    }
}
