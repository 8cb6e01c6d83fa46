//! The state of a rewriter from one run to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::error::RewriteError;
use super::options::{RewriteOptions, RewriteTarget, Safety};
use super::prefetch::{Held, Prefetched};
use super::shadow;
use crate::queue::{OpenQueue, Queue};
use crate::{BufferPool, FileId};

/// Buffers that reads must leave for the shadow.
pub(super) const RESERVE: usize = 2;

/// Rewrites blocks of files.
pub struct Rewriter {
    pub(super) queue: Box<dyn Queue>,
    pub(super) pool: BufferPool,
    pub(super) targets: BTreeMap<FileId, RewriteTarget>,
    /// Whether anything is written in place.
    pub(super) writes: bool,
    pub(super) shadow: Option<Shadow>,
    /// Files with unsynced writes.
    pub(super) touched: BTreeSet<FileId>,
    pub(super) options: RewriteOptions,
    /// What was read before.
    pub(super) held: Held,
    has_failed: bool,
}

impl std::fmt::Debug for Rewriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (files, writes) = (self.targets.len(), self.writes);
        write!(f, "Rewriter {{ files: {files}, writes: {writes}, shadow: {:?}, {:?} }}", self.shadow, self.options)
    }
}

/// The shadow file, and its write position.
#[derive(Debug)]
pub(super) struct Shadow {
    pub target: RewriteTarget,
    /// 0: no chain was begun.
    pub chain: u64,
    /// Number of the next batch.
    pub number: u64,
    /// Offset of the next batch, bytes.
    pub at: u64,
}

impl Rewriter {
    /// A rewriter whose blocks are safe as `safety` says.
    ///
    /// # Errors
    /// [`RewriteError::Setup`].
    pub fn open(engine: &dyn OpenQueue, safety: Safety, options: RewriteOptions) -> Result<Self, RewriteError> {
        let setup = |error| RewriteError::Setup(Arc::new(error));
        let count = (options.memory / options.stretch_max.max(1) as usize).clamp(4, usize::from(u16::MAX) - 1);
        let count = u16::try_from(count + RESERVE).unwrap_or(u16::MAX);
        let pool = BufferPool::new(count, options.stretch_max.max(shadow::ALIGN as u32)).map_err(setup)?;
        let options = RewriteOptions { depth: options.depth.max(1), ..options };
        let queue = engine.open(options.depth, pool.free()).map_err(setup)?;
        let writes = !matches!(safety, Safety::NothingIsWritten);
        let shadow = match safety {
            Safety::Shadow(target) => Some(Shadow { target, chain: 0, number: 0, at: 0 }),
            Safety::NothingIsWritten | Safety::NewFiles => None,
        };
        let (targets, touched, held) = (BTreeMap::new(), BTreeSet::new(), Held::default());
        Ok(Self { queue, pool, targets, writes, shadow, touched, options, held, has_failed: false })
    }

    /// Adds a file that stretches may be in.
    pub fn add_file(&mut self, target: RewriteTarget) {
        self.targets.insert(target.file, target);
    }

    /// Uses bytes of a file that were read earlier, once, instead of reading them. Nobody may have written to the file since.
    pub fn hold(&mut self, file: FileId, part: Prefetched) {
        self.held.put(file, part);
    }

    /// Offset and length in bytes of the held part that has this byte of the file. A stretch within a part is not read.
    #[must_use]
    pub fn held_at(&self, file: FileId, offset: u64) -> Option<(u64, u32)> {
        self.held.part_at(file, offset)
    }

    /// Refuses to work after a failure.
    pub(super) fn guarded<E: From<RewriteError>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::replace(&mut self.has_failed, true) {
            return Err(RewriteError::Latched.into());
        }
        work(self)?;
        self.has_failed = false;
        Ok(())
    }
}
