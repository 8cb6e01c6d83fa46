//! Combines nearby pages into stretches, each of which is read and written in one request.

use std::ops::Range;

use flow::FileId;
use flow::rewrite::Stretch;
use format::{PageId, SpaceFormat};

use super::files::{Files, PagePlace};
use crate::recover::plan::RecoverPlan;

/// Bytes. A gap between two pages up to this size is read too: that is cheaper than another request.
const GAP_MAX: u64 = 64 << 10;

/// A stretch of a tablespace with the pages to change in it.
#[derive(Debug, Clone, Copy)]
pub(in crate::recover) struct Planned {
    pub stretch: Stretch,
    /// Offset of its first byte in the tablespace.
    start: u64,
    /// Index of its first page among all pages. `end` is the index of the page after its last.
    first: usize,
    end: usize,
}

impl Planned {
    /// The stretch's pages. `pages` is the list that the stretches were made from.
    pub fn pages<'p>(&self, pages: &'p [PageId]) -> &'p [PageId] {
        pages.get(self.first..self.end).unwrap_or_default()
    }

    /// Offset and byte range of a page within the stretch.
    pub fn place_of(&self, id: PageId, format: &SpaceFormat) -> (u32, Range<usize>) {
        let start = format.physical().offset_of(id.page_no.0).saturating_sub(self.start);
        let from = usize::try_from(start).unwrap_or(usize::MAX);
        (u32::try_from(start).unwrap_or(u32::MAX), from..from.saturating_add(format.physical().bytes()))
    }
}

/// Offset and length in bytes of the part of a file that was read before and has the byte at this offset.
pub(in crate::recover) type HeldAt<'h> = &'h dyn Fn(FileId, u64) -> Option<(u64, u32)>;

/// Cuts sorted pages into stretches of at most `len_max` bytes. A stretch with only void pages is not read. All pages that a part read before
/// has are one stretch: the part is used once.
pub(in crate::recover) fn stretches(
    pages: &[PageId],
    plan: &RecoverPlan,
    files: &Files,
    (len_max, held_at): (u32, HeldAt<'_>),
    is_void: impl Fn(PageId) -> bool,
) -> Vec<Planned> {
    let (mut all, mut part_before): (Vec<Planned>, _) = (Vec::new(), None);
    for (number, &id) in pages.iter().enumerate() {
        let Some(space) = plan.spaces.get(&id.space) else { continue };
        let Some(PagePlace { file, offset, is_there }) = files.place_of(id, &space.format) else { continue };
        let size = space.format.physical().bytes() as u64;
        let (is_read, tag) = (is_there && !is_void(id), all.len());
        let part = held_at(file, offset);
        let is_same_part = std::mem::replace(&mut part_before, part) == part;
        match all.last_mut() {
            Some(Planned { stretch, end, .. })
                if stretch.file == file
                    && is_same_part
                    && (part.is_some() || offset - (stretch.offset + u64::from(stretch.len)) <= GAP_MAX)
                    && offset + size - stretch.offset <= u64::from(len_max) =>
            {
                stretch.len = u32::try_from(offset + size - stretch.offset).unwrap_or(len_max);
                stretch.is_read |= is_read;
                *end = number + 1;
            }
            _ => {
                let len = u32::try_from(size).unwrap_or(len_max);
                let stretch = Stretch { file, offset, len, is_read, tag };
                let start = space.format.physical().offset_of(id.page_no.0);
                all.push(Planned { stretch, start, first: number, end: number + 1 });
            }
        }
    }
    all
}
