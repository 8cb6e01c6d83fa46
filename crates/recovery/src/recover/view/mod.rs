//! A datadir as its recovery would leave it, without the recovery: each page is made when somebody reads it.
//!
//! ```text
//! open: lock -> whole log read and verified -> plan, as for `recover` -> records by page, in memory or spilled (`page_log`)
//!   -> names and lengths of all files (`names`) -> what a recovery checks at its end, read through the view itself
//! read: base page -> torn: its doublewrite copy -> its records (`page_work`, as for `recover`) -> sealed -> a bounded cache (`maker`)
//! ```
//!
//! The base, its log and an archive are only read. Pages and files that the log does not touch are read as they lie, and cost nothing.
//!
//! What must not happen is a wrong byte without an error. So the view begins with the plan of a recovery and its refusals, and adds its own
//! where it cannot do yet what a recovery does. It holds the lock that keeps servers off the base, refuses a base file that is replaced or
//! changed while it is read, and every page that is newer than the view's end. A page that cannot be made is an error of the read, never the base's page.

mod base;
mod cache;
mod maker;
mod names;
mod page_log;
mod storage;
mod tree;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use datadir::files::AskPath;
use datadir::redo_log::{awaits_clone, has_log};
use datadir::remote::{self, Remote};
use datadir::tablespace::transactions::waiting_for_binlog_in;
use flow::Job;
use flow::lock::Sharing;
use format::keyring::KeyStore;
use format::{Lsn, PageId};

use self::base::BaseFiles;
use self::maker::Maker;
use self::names::Names;
use self::page_log::PageLog;
use self::storage::Storage;
pub use self::tree::{EntryKind, ViewEntry, ViewFile};
use crate::manifest;
use crate::recover::error::{Result, refused};
use crate::recover::finish::ending::Ending;
use crate::recover::foreign::backup;
use crate::recover::increments::marker as increment_marker;
use crate::recover::log::RedoLog;
use crate::recover::moment::with_lsn_of;
use crate::recover::options::RecoverOptions;
use crate::recover::options::reached::ReachedMoment;
use crate::recover::place::{Lock, SHADOW_NAME};
use crate::recover::plan::budget::Budget;
use crate::recover::plan::{RecoverPlan, dictionary_pages};
use crate::recover::run::{checked_plan, open_log};
use crate::recover::survey::later_files::named_in;
use crate::recover::survey::wanted::Wanted;

/// How to view a datadir.
#[derive(Debug, Default)]
pub struct ViewOptions {
    /// What is viewed: the archive (`redo`), the moment (`until`, `until_time`, `require_until`), the keys and the memory of a recovery. Its
    /// other options are about writing, and are not used.
    pub recover: RecoverOptions,
    /// Where the log's records go that do not fit in memory: an unnamed file. Made in the system's folder for such files if there is none.
    pub spill: Option<File>,
    /// An earlier moment of the same base, for [`View::is_unchanged`].
    pub since: Option<Lsn>,
}

/// A datadir at a moment.
#[derive(Debug, Clone)]
pub struct View(Arc<Storage>);

impl View {
    /// Reads the log of `base` and plans its recovery.
    ///
    /// # Errors
    /// [`RecoverError`](super::RecoverError): whatever would keep [`recover`](super::recover) from recovering the base, and what a view
    /// cannot do yet.
    pub fn open(base: &Path, options: ViewOptions) -> Result<Self> {
        let ViewOptions { recover: options, spill, since } = options;
        refuse_unviewable(base, &options)?;
        if let Some(time) = options.until_time {
            let options = with_lsn_of(time, &options)?;
            return Self::open(base, ViewOptions { recover: options, spill, since });
        }
        let base = std::path::absolute(base).map_err(super::error::failed(base, "finding the directory"))?;
        let keys = options.keys.read()?;
        let lock = Lock::take(&base, Sharing::Shared)?;
        let log = open_log(&base, false, &options, &keys)?;
        if log.backup.is_some() {
            return refused(format!(
                "{}: a backup of another tool that is not prepared, of which there is no view yet: prepare a copy (innokit recover --to)",
                base.display()
            ));
        }
        let budget = Budget::of(options.memory);
        let wanted = Wanted::read(&log, budget.plan, budget.at_once(options.round), options.until)?;
        let plan = checked_plan::plan(&base, wanted, &keys)?;
        refuse_outside(&plan)?;
        let storage = if plan.wanted.is_clean {
            Storage::new(base, Names::default(), None, options.moment, lock)
        } else {
            let since = since.unwrap_or(Lsn(0));
            let redo = PageLog::of(&log, &plan, (budget.redo(&plan), options.round), (spill, since))?;
            let ending = Ending::of(&log, &plan, &keys)?;
            let flushed = ending.flush_lsn(&log, &plan.wanted);
            let names = Names::of(&base, &plan, (&log, &ending))?;
            let files = BaseFiles::open(&base, &plan)?;
            Storage::new(base, names, Some(Maker::new(plan, (redo, since), files, flushed)), options.moment, lock)
        };
        let view = Self(Arc::new(storage));
        view.check(&log, &keys)?;
        Ok(view)
    }

    /// Has this thread's job, and all its threads, read the base through the view from now on.
    ///
    /// # Errors
    /// It reads another through a view already.
    pub fn look_through(&self) -> Result<()> {
        if remote::look_through(Arc::clone(&self.0) as Arc<dyn Remote>) {
            return Ok(());
        }
        refused("another view is open here: a job looks through one at a time")
    }

    /// The directory that is viewed, as an absolute path.
    #[must_use]
    pub fn base(&self) -> &Path {
        self.0.base()
    }

    /// The LSN that is viewed. `None` if the log has nothing to apply: the files are viewed as they lie.
    #[must_use]
    pub fn lsn(&self) -> Option<Lsn> {
        self.0.maker().map(|maker| maker.plan.wanted.end)
    }

    /// Where a time led in the archive.
    #[must_use]
    pub fn moment(&self) -> Option<ReachedMoment> {
        self.0.moment
    }

    /// Whether the page is the same as in a view of this base at [`ViewOptions::since`]: the log does not change it from there on. `false`
    /// also where that is not known.
    #[must_use]
    pub fn is_unchanged(&self, page: PageId) -> bool {
        self.0.maker().is_none_or(|maker| maker.is_unchanged(page))
    }

    /// Pages made so far.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.0.maker().map_or(0, Maker::made)
    }

    /// The files of the view that are not read as they lie, relative to the base.
    #[must_use]
    pub fn changed(&self) -> Vec<PathBuf> {
        self.0.names().files().collect()
    }

    /// What a recovery checks and does once the pages have their redo.
    fn check(&self, log: &RedoLog, keys: &KeyStore) -> Result<()> {
        let Some(maker) = self.0.maker() else { return Ok(()) };
        let (plan, base) = (&maker.plan, self.base());
        // The checks read the base by its paths. In a job of their own, that is through the view.
        let _in_job = Job::default().enter();
        self.look_through()?;
        // Without an archive a datadir goes on with its own binary log, which its transactions may wait for.
        if log.base_end().is_some() {
            let waiting = waiting_for_binlog_in(base, keys).unwrap_or_default();
            maker.give_up_waiting(waiting.into_iter().map(|(page, _)| page).collect());
        }
        let first = dictionary_pages::first_in(plan, |_, at, size| maker.system_page(at, size))?;
        if let Some(definitions) = plan.wanted.definitions.as_ref().filter(|it| plan.wanted.end > it.base_end()) {
            let first = [definitions.first_file(), first].into_iter().flatten().min();
            first.map_or(Ok(()), |lsn| definitions.refuse_view(lsn))?;
        }
        let Some(later) = &plan.wanted.later else { return Ok(()) };
        let dropped = plan.wanted.dropped_after_base();
        let has_file =
            |space| plan.spaces.contains_key(&space) || (!dropped.contains(&space) && named_in(base, space).is_some());
        later.refuse_without_files(base, keys, has_file)
    }
}

/// Fails for what cannot be recovered, or not yet viewed, whatever is in the log.
fn refuse_unviewable(base: &Path, options: &RecoverOptions) -> Result<()> {
    let name = base.display();
    backup::refuse_unfit(base)?;
    if let Some(why) = manifest::damage(base).filter(|_| !options.allow_damage) {
        return refused(why);
    }
    increment_marker::refuse(base)?;
    if !options.increments.is_empty() {
        return refused("there is no view of a backup with increments yet: restore it (innokit restore)");
    }
    if !base.join("ibdata1").is_file_there() || !has_log(base) {
        return refused(format!(
            "{name}: not a datadir: ibdata1 or the redo log is missing, and only a datadir can be viewed"
        ));
    }
    if let Some(why) = awaits_clone(base) {
        return refused(format!("{name}: {why}: start it, or view a backup"));
    }
    if base.join(SHADOW_NAME).is_there() {
        return refused(format!("{name}: innokit recover --in-place was interrupted here: finish it first"));
    }
    if backup::emptied_at(base)?.is_some() && options.redo.is_some() {
        return refused(
            "this backup is prepared, and its log no longer says what it continues: use the backup as it was before --prepare",
        );
    }
    Ok(())
}

fn refuse_outside(plan: &RecoverPlan) -> Result<()> {
    let absolute = plan.spaces.values().map(|space| &space.path).find(|path| path.is_absolute());
    match plan.outside.first().or(absolute) {
        None => Ok(()),
        Some(path) => refused(format!(
            "{}: this tablespace is outside of the datadir, and a view does not follow it yet: recover a copy (innokit recover --to)",
            path.display()
        )),
    }
}

/// Pages of undo logs whose transactions are active in the view, once they are known.
type Waiting = OnceLock<BTreeSet<PageId>>;
