//! What a running check shows, and how it is stopped early.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use indicatif::ProgressBar;
use inspect::report::watcher::{Found, Watcher};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::terminal::{self, Shown};
use crate::{print, table_print};

/// The status of a command ended by a signal, as shells report it.
pub const INTERRUPTED: u8 = datadir::Outcome::Interrupted.exit_status();

/// Maximum number of findings shown above the bar; the report has all.
const SHOWN_MAX: usize = 20;

/// A finding on its own line, for programs.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'f> {
    Finding { finding: &'f inspect::Finding },
    TableFinding { finding: &'f inspect::report::table_finding::TableFinding },
}

/// The bar that findings are shown above, once there is one.
pub type Screen = Arc<OnceLock<ProgressBar>>;

/// Listens to a check: findings go to standard output as JSON lines, or above the bar. The first signal stops the work, which then reports
/// what it has; the second ends the process at once.
///
/// # Errors
/// If signal handlers cannot be installed.
pub fn watcher(json_lines: bool, screen: &Screen) -> io::Result<Watcher> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (screen, shown) = (Arc::clone(screen), AtomicUsize::new(0));
    let tell = move |found: Found<'_>| {
        if json_lines {
            // The exit status tells that a line is lost.
            drop(line(found));
        } else if let Some(bar) = screen.get().filter(|_| io::stdout().is_terminal()) {
            // The report is printed there too: above the bar, each finding would be on the terminal twice.
            // Relaxed: see below.
            let number = shown.fetch_add(1, Ordering::Relaxed) + 1;
            bar.set_prefix(if number == 1 { "1 finding  ".to_owned() } else { format!("{number} findings  ") });
        } else if let Some(bar) = screen.get() {
            // Relaxed, here and above: additions to one word have one order, so each finding has a number of its own.
            match shown.fetch_add(1, Ordering::Relaxed) {
                number if number < SHOWN_MAX => bar.println(text(found)),
                SHOWN_MAX => bar.println("... and more: the report lists them"),
                _ => {}
            }
        }
    };
    Ok(Watcher::new(stop, Some(Arc::new(tell))))
}

fn line(found: Found<'_>) -> io::Result<()> {
    let line = match found {
        Found::Page(finding) => Line::Finding { finding },
        Found::Tree(finding) => Line::TableFinding { finding },
    };
    // In one piece: other threads write lines too.
    let mut text = Vec::new();
    serde_json::to_writer(Shown::json(&mut text), &line)?;
    text.push(b'\n');
    terminal::data().write_all(&text)
}

fn text(found: Found<'_>) -> String {
    match found {
        Found::Page(finding) => print::line(finding),
        Found::Tree(finding) => table_print::line(finding),
    }
}
