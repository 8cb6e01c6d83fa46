//! Reads the mini-transactions of consecutive segments.

use std::collections::HashMap;
use std::path::Path;

use format::{Lsn, SpaceId};
use redo::LogVendor;
use redo::mysql::FORMAT_MANY_FILES;
use redo::mysql::mtr_reader::MtrReader;
use redo::record::{FileRecord, RedoRecord};

use super::stored::StoredBlocks;
use crate::archive::error::{Result, failed};
use crate::archive::name::SegmentName;
use crate::archive::status::Unlogged;
use crate::door;
use crate::unlogged::{Once, UnloggedPages};
use datadir::reading::read_up_to;

/// Whether a segment belongs to a MySQL log.
pub(in crate::archive) fn is_of_blocks(dir: &Path, name: SegmentName) -> Result<bool> {
    let path = name.path(dir);
    let file = door::open_file(&path).map_err(failed(&path, "opening the segment"))?;
    let head = read_up_to(&file, 0, 4).map_err(failed(&path, "reading the segment"))?;
    Ok(redo::identify(&head) == Ok(LogVendor::MySql))
}

/// A stretch of consecutive segments, as far as it is read.
#[derive(Debug)]
pub(in crate::archive) struct BlockRange {
    timeline: u32,
    /// Where the next segment must start.
    next: Lsn,
    /// The last block is partly filled: nothing follows it.
    is_over: bool,
    reader: MtrReader,
    pub mtrs: u64,
    /// Indexes built without redo.
    pub unlogged: Vec<Unlogged>,
    pages: UnloggedPages,
    named: Once,
    files: HashMap<SpaceId, String>,
}

impl BlockRange {
    /// Starts with a segment.
    pub fn new(name: SegmentName) -> Self {
        let reader = MtrReader::new(FORMAT_MANY_FILES, name.start, Vec::new());
        Self {
            timeline: name.timeline,
            next: name.start,
            is_over: false,
            reader,
            mtrs: 0,
            unlogged: Vec::new(),
            pages: UnloggedPages::default(),
            named: Once::default(),
            files: HashMap::new(),
        }
    }

    pub fn is_followed_by(&self, name: SegmentName) -> bool {
        !self.is_over && (self.timeline, self.next) == (name.timeline, name.start)
    }

    /// Whether a segment starts within the range.
    pub fn overlaps(&self, name: SegmentName) -> bool {
        self.timeline == name.timeline && name.start < self.next
    }

    /// The end of the last mini-transaction.
    pub const fn end(&self) -> Lsn {
        self.reader.at()
    }

    /// Reads the next segment. Returns what is wrong with its records, if anything.
    pub fn add(&mut self, stored: &StoredBlocks) -> Option<String> {
        let (mtrs, unlogged, files) = (&mut self.mtrs, &mut self.unlogged, &mut self.files);
        // A partly filled block is the last one.
        let mut input = stored.blocks();
        while let Some(mtr) = self.reader.next_mtr(&mut input) {
            *mtrs += 1;
            for record in mtr.records() {
                if let Ok(RedoRecord::File(
                    FileRecord::Create { space, name } | FileRecord::Rename { space, to: name, .. },
                )) = record
                {
                    files.insert(space, String::from_utf8_lossy(name.strip_prefix(b"./").unwrap_or(name)).into_owned());
                }
            }
            let named = self.pages.add(&mtr).into_iter().filter(|load| self.named.is_first(load)).map(Unlogged::from);
            unlogged.extend(named.map(|load| Unlogged { file: files.get(&SpaceId(load.space)).cloned(), ..load }));
        }
        (self.next, self.is_over) = (stored.next(), stored.last_block().is_some());
        let (at, path) = (self.reader.at(), stored.path.display());
        self.reader.fault().map(|fault| format!("{path}: the redo log makes no sense at LSN {at}: {fault}"))
    }
}
