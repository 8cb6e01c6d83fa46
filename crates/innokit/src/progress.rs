//! The bar on standard error: bytes, rate, time left.

use std::io::{self, IsTerminal};

use flow::Counters;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Progress;

/// What a job calls with its counters.
type Watch = dyn Fn(&Counters) + Sync;
/// What a job calls that finds out by itself how many bytes there are to read.
type TotalWatch = dyn Fn(u64, &Counters) + Sync;

/// A bar, or nothing where nobody would see it.
pub struct Bar(Option<Box<Watch>>, Option<ProgressBar>);

impl Bar {
    /// `total` in bytes, where it is known.
    pub fn new(when: Progress, total: Option<u64>) -> Self {
        if !is_wanted(when) {
            return Self(None, None);
        }
        let bar = match total {
            Some(bytes) => ProgressBar::new(bytes).with_style(style(
                "{bar:32.cyan/dim} {percent:>3}%  {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left",
            )),
            None => ProgressBar::new_spinner().with_style(style("{spinner} {bytes}  {bytes_per_sec}")),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let shown = bar.clone();
        Self(Some(Box::new(move |counters: &Counters| shown.set_position(counters.total().bytes_read))), Some(bar))
    }

    /// What a job calls with its counters.
    pub fn watch(&self) -> Option<&Watch> {
        self.0.as_deref()
    }

    /// What a job calls with the bytes there are to read, and its counters. Pages that nobody needs are in the number too.
    pub fn watch_total(&self) -> Option<Box<TotalWatch>> {
        let shown = self.1.clone()?;
        Some(Box::new(move |total, counters| {
            let read = counters.total().bytes_read;
            shown.set_length(total.max(read));
            shown.set_position(read);
        }))
    }

    /// Takes the bar off the screen, before findings are printed.
    pub fn finish(&self) {
        if let Some(bar) = &self.1 {
            bar.finish_and_clear();
        }
    }
}

/// Whether somebody would see a bar.
pub fn is_wanted(when: Progress) -> bool {
    match when {
        Progress::Auto => io::stderr().is_terminal(),
        Progress::Always => true,
        Progress::Never => false,
    }
}

/// A template that indicatif refuses would only be a plainer bar.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
