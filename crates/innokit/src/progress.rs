//! The bar on standard error: bytes, rate, time left.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flow::{Counters, Counts, Job};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::options::Progress;
use crate::print::{grouped, human};
use crate::terminal;
use crate::watch::Screen;

/// The callback of a job that reports its counters.
type Watch = dyn Fn(&Counters) + Sync;
/// The callback of a job that also finds out how many bytes there are to read.
type TotalWatch = dyn Fn(u64, &Counters) + Sync;

/// A bar on a terminal, lines in a log file, or nothing.
pub struct Bar(Option<Box<Watch>>, Option<ProgressBar>, Option<Arc<Mutex<Lines>>>);

/// Progress for a log file: a line every few seconds.
struct Lines {
    next: Instant,
    start: Instant,
}

/// How often a line is written.
const LINE_EVERY: Duration = Duration::from_secs(5);

impl Lines {
    fn tell(&mut self, read: u64, total: Option<u64>, files: &str) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + LINE_EVERY;
        let rate = read as f64 / self.start.elapsed().as_secs_f64().max(1e-3);
        let of = total.map(|total| format!(" of {}", human(total as f64))).unwrap_or_default();
        terminal::say(&format!("read {}{of}, {}/s{files}", human(read as f64), human(rate)));
    }
}

impl Bar {
    /// `total` in bytes, if known.
    pub fn new(when: Progress, total: Option<u64>) -> Self {
        if !is_wanted(when) {
            return Self(None, None, None);
        }
        if !io::stderr().is_terminal() {
            let lines = Arc::new(Mutex::new(Lines { next: Instant::now(), start: Instant::now() }));
            let shown = Arc::clone(&lines);
            let tell = move |counters: &Counters| {
                let counts = counters.total();
                shown.lock().unwrap_or_else(PoisonError::into_inner).tell(counts.bytes_read, total, &files(&counts));
            };
            return Self(Some(Box::new(tell)), None, Some(lines));
        }
        // As wide as the terminal, with decimal units, as in reports.
        let bar = match total {
            Some(bytes) => ProgressBar::new(bytes).with_style(style(
                "{prefix}{wide_bar:.cyan/dim} {percent:>3}%  {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left{msg}",
            )),
            None => ProgressBar::new_spinner().with_style(style("{prefix}{spinner} {decimal_bytes}  {decimal_bytes_per_sec}{msg}")),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let shown = bar.clone();
        let tell = move |counters: &Counters| {
            let counts = counters.total();
            shown.set_position(counts.bytes_read);
            shown.set_message(files(&counts));
        };
        Self(Some(Box::new(tell)), Some(bar), None)
    }

    /// The same bar, with findings shown above it.
    pub fn on(self, screen: &Screen) -> Self {
        if let Some(bar) = &self.1 {
            // The first bar of a run stays the one that findings are shown above.
            drop(screen.set(bar.clone()));
        }
        self
    }

    /// The callback for a job's counters.
    pub fn watch(&self) -> Option<&Watch> {
        self.0.as_deref()
    }

    /// The callback for the bytes to read and the counters. The total includes pages that are not needed.
    pub fn watch_total(&self) -> Option<Box<TotalWatch>> {
        if let Some(lines) = self.2.clone() {
            return Some(Box::new(move |total, counters| {
                let (counts, read) = (counters.total(), counters.total().bytes_read);
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.tell(read, Some(total.max(read)), &files(&counts));
            }));
        }
        let shown = self.1.clone()?;
        Some(Box::new(move |total, counters| {
            let counts = counters.total();
            shown.set_length(total.max(counts.bytes_read));
            shown.set_position(counts.bytes_read);
            shown.set_message(files(&counts));
        }))
    }

    /// The callback for bytes done and bytes to do.
    pub fn watch_bytes(&self) -> Option<Arc<dyn Fn(u64, u64) + Send + Sync>> {
        if let Some(lines) = self.2.clone() {
            return Some(Arc::new(move |done, total| {
                lines.lock().unwrap_or_else(PoisonError::into_inner).tell(done, Some(total), "");
            }));
        }
        let shown = self.1.clone()?;
        Some(Arc::new(move |done, total| {
            shown.set_length(total);
            shown.set_position(done);
        }))
    }

    /// Does the work, and shows how many bytes the job of this thread has been through. For jobs of several parts, whose work is not known
    /// before.
    pub fn following<T>(when: Progress, work: impl FnOnce() -> T) -> T {
        let following = Self::new(when, None).follow();
        let done = work();
        // The bar goes before anything is printed about the outcome.
        drop(following);
        done
    }

    fn follow(&self) -> Following {
        let ended = Arc::new(AtomicBool::new(false));
        let (shown, lines) = (self.1.clone(), self.2.clone());
        let started = (shown.is_some() || lines.is_some()).then(|| {
            let (job, ended) = (Job::here(), Arc::clone(&ended));
            let show = move || {
                // Shown at least once: a log file then has a line of every run, however short.
                loop {
                    let done = job.bytes();
                    if let Some(bar) = &shown {
                        bar.set_position(done);
                    } else if let Some(lines) = &lines {
                        lines.lock().unwrap_or_else(PoisonError::into_inner).tell(done, None, "");
                    }
                    // Relaxed, here and where it is set: a moment later will do.
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                    thread::park_timeout(SHOWN_EVERY);
                }
            };
            thread::Builder::new().spawn(show)
        });
        // Without the thread the work is the same.
        Following { ended, shown: self.1.clone(), thread: started.and_then(Result::ok) }
    }

    /// Removes the bar from the screen, before findings are printed.
    pub fn finish(&self) {
        if let Some(bar) = &self.1 {
            bar.finish_and_clear();
        }
    }
}

/// How often a bar is renewed.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// While it lives, a bar is shown.
struct Following {
    ended: Arc<AtomicBool>,
    shown: Option<ProgressBar>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        // Relaxed: see `follow`.
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A bar that could not be shown is no reason to fail.
            drop(thread.join());
        }
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// How many files, or tables, are done; nothing if there is only one.
fn files(counts: &Counts) -> String {
    if counts.files_known < 2 {
        return String::new();
    }
    format!(", {} of {} tables", grouped(counts.files_done), grouped(counts.files_known))
}

/// Whether to show progress.
pub fn is_wanted(when: Progress) -> bool {
    match when {
        Progress::Auto => io::stderr().is_terminal(),
        Progress::Always => true,
        Progress::Never => false,
    }
}

/// If indicatif rejects the template, the bar just looks plainer.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
