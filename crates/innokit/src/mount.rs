//! `innokit mount`: options in, a mount until it is unmounted or a signal comes.

use std::collections::HashSet;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

use mount::{Mount, MountOptions, UpperAt};
use recovery::ViewOptions;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::{MountArgs, SetArgs};
use crate::print::written;
use crate::{notify, terminal, view};

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

/// Mounts, and returns when it is unmounted; or finishes a mount's directory.
pub fn run(args: &MountArgs) -> Result<u8, Box<dyn Error>> {
    if let Some(dir) = &args.finish {
        let done = mount::finish(dir)?;
        let mut out = terminal::out();
        writeln!(out, "{} is a datadir now: {} files, {} bytes", dir.display(), done.files, done.bytes)?;
        return written(out.flush(), 0);
    }
    let (Some(set), Some(point), Some(upper)) = (&args.set, &args.point, &args.upper) else {
        return Err("name a set, an empty directory and --upper".into());
    };
    let upper = if upper == Path::new("tmp") { UpperAt::Throwaway } else { UpperAt::Kept(upper.clone()) };
    let mut signals = Signals::catch()?;
    let mount = begin((set, &args.moment), point, upper)?;
    tell(set, &mount, point)?;
    notify::tell("READY=1");
    let goes_on = AtomicBool::new(true);
    thread::scope(|scope| {
        if args.hydrate {
            scope.spawn(|| hydrate(&mount, args.rate, &goes_on));
        }
        let waited = wait(&mount, point, &mut signals);
        goes_on.store(false, Ordering::SeqCst);
        waited
    })?;
    mount.end()?;
    Ok(0)
}

/// Returns when it is unmounted, or must end although files are open.
fn wait(mount: &Mount, point: &Path, signals: &mut Signals) -> Result<(), Box<dyn Error>> {
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
                point.display()
            ));
            is_said = true;
        }
    }
    Ok(())
}

/// Copies what nobody reads. A failure leaves the mount as it is: what was not copied is read from the set.
fn hydrate(mount: &Mount, rate: Option<u64>, goes_on: &AtomicBool) {
    let share = mount.share();
    terminal::say(&format!("copying {} bytes of the set", share.base));
    match mount.hydrate(rate, &|| goes_on.load(Ordering::SeqCst)) {
        Ok(true) => {
            notify::tell("STATUS=everything is copied");
            terminal::say("everything is copied: when the mount has ended, innokit mount --finish makes it a datadir");
        }
        Ok(false) => {}
        Err(error) => terminal::say(&format!("not everything is copied: {error}")),
    }
}

/// Mounts a set.
pub fn begin((set, moment): (&Path, &SetArgs), point: &Path, upper: UpperAt) -> Result<Mount, Box<dyn Error>> {
    // Without one, a log that fits in memory is viewed all the same.
    let spill = tempfile::tempfile().ok();
    let keys = moment.keys.files();
    // They are read twice.
    keys.hold_pipes()?;
    let recover = view::moment((moment.redo.clone(), moment.until.as_ref()), keys, moment.memory);
    let options = MountOptions { view: ViewOptions { recover, spill, since: None }, upper, report: reporter() };
    Ok(Mount::begin(set, point, options)?)
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

fn tell(set: &Path, mount: &Mount, point: &Path) -> std::io::Result<()> {
    let mut out = terminal::out();
    let moment = mount.lsn().map_or_else(|| "as it lies".to_owned(), |lsn| format!("at LSN {lsn}"));
    let goes_on = if mount.is_continued() { ", with what was written before" } else { "" };
    writeln!(out, "mounted {} {moment} on {}{goes_on}", set.display(), point.display())?;
    out.flush()
}
