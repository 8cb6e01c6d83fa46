//! `innokit mount`: options in, a mount until it is unmounted or a signal comes.

use std::collections::HashSet;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use mount::{Mount, MountOptions, UpperAt};
use recovery::{RecoverOptions, ViewOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::{MountArgs, SetArgs};
use crate::recover::limits;
use crate::{notify, terminal};

/// How often it looks whether it has been unmounted.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Different messages that are said. A broken disk has one for every page.
const SAID_MAX: usize = 100;

/// Signals that came.
pub struct Signals {
    came: Arc<AtomicBool>,
    count: usize,
}

impl Signals {
    /// Notes the signals that end a command.
    pub fn catch() -> std::io::Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&came))?;
        }
        Ok(Self { came, count: 0 })
    }

    /// How many came so far. Two between two calls count as one.
    pub fn count(&mut self) -> usize {
        self.count += usize::from(self.came.swap(false, Ordering::SeqCst));
        self.count
    }
}

/// Mounts, and returns when it is unmounted.
pub fn run(args: &MountArgs) -> Result<u8, Box<dyn Error>> {
    let upper = if args.upper == Path::new("tmp") { UpperAt::Throwaway } else { UpperAt::Kept(args.upper.clone()) };
    let mut signals = Signals::catch()?;
    let mount = begin(&args.set, &args.point, upper)?;
    tell(&args.set, &mount, &args.point)?;
    notify::tell("READY=1");
    let mut is_said = false;
    while !mount.has_ended() {
        sleep(LOOK_EVERY);
        let asked = signals.count();
        if asked == 0 {
            continue;
        }
        if asked > 1 || mount.unmount()? {
            break;
        }
        if !is_said {
            notify::tell("STOPPING=1");
            terminal::say(&format!(
                "{}: files are open: the mount ends when they are closed (stop the server), or at a second signal",
                args.point.display()
            ));
            is_said = true;
        }
    }
    mount.end()?;
    Ok(0)
}

/// Mounts a set.
pub fn begin(set: &SetArgs, point: &Path, upper: UpperAt) -> Result<Mount, Box<dyn Error>> {
    // Without one, a log that fits in memory is viewed all the same.
    let spill = tempfile::tempfile().ok();
    let keys = set.keys.files();
    // They are read twice.
    keys.hold_pipes()?;
    let (until, until_time) = limits(set.until.as_ref());
    let recover = RecoverOptions {
        redo: set.redo.clone(),
        until,
        until_time,
        keys,
        memory: usize::try_from(set.memory).unwrap_or(usize::MAX),
        ..RecoverOptions::default()
    };
    let options = MountOptions { view: ViewOptions { recover, spill, since: None }, upper, report: reporter() };
    Ok(Mount::begin(&set.set, point, options)?)
}

/// Says each failure once.
fn reporter() -> Arc<dyn Fn(&str) + Send + Sync> {
    let said = Mutex::new(HashSet::new());
    Arc::new(move |message: &str| {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < SAID_MAX && said.insert(message.to_owned()) {
            terminal::say(message);
        }
    })
}

fn tell(set: &SetArgs, mount: &Mount, point: &Path) -> std::io::Result<()> {
    let mut out = terminal::out();
    let moment = mount.lsn().map_or_else(|| "as it lies".to_owned(), |lsn| format!("at LSN {lsn}"));
    let goes_on = if mount.is_continued() { ", with what was written before" } else { "" };
    writeln!(out, "mounted {} {moment} on {}{goes_on}", set.set.display(), point.display())?;
    out.flush()
}
