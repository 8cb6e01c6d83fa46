//! Rows of one leaf: where each value is, and the values fetched from other pages.

use std::sync::Arc;

use format::schema::InstantDefault;

use super::plan::RowPlan;

/// The state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowState {
    /// Present.
    Live,
    /// Delete-marked and waiting for purge.
    Deleted,
    /// Purged; its bytes are in free space of the page that has not been reused yet.
    Freed,
}

impl RowState {
    /// In one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Deleted => "deleted",
            Self::Freed => "freed",
        }
    }
}

/// Where a value is.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValuePlace {
    Null,
    /// On the leaf: start and length.
    Page(u32, u32),
    /// Among the fetched values, by index.
    Fetched(u32),
    /// Among the large fetched values, by index.
    Large(u32),
    /// The row is older than the column: use this field's default.
    Default(u32),
    /// Unreadable: the index of the reason.
    Lost(u32),
}

const _: () = assert!(size_of::<ValuePlace>() == 12);

/// A value as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell<'b> {
    /// NULL.
    Null,
    /// All of the stored bytes.
    Bytes(&'b [u8]),
    /// Unreadable, and why, as a clause.
    Lost(&'b str),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub origin: u16,
    pub state: RowState,
}

/// Rows of one leaf, in key order.
#[derive(Debug)]
pub struct Batch {
    pub(super) plan: Arc<RowPlan>,
    pub(super) image: Arc<[u8]>,
    pub(super) page_no: u32,
    pub(super) heads: Vec<Head>,
    /// One per row and column of the plan.
    pub(super) places: Vec<ValuePlace>,
    pub(super) fetched: Vec<u8>,
    /// Start and length of each value in `fetched`.
    pub(super) stretches: Vec<(usize, usize)>,
    /// Values that are too large to be copied together: one may have gigabytes.
    pub(super) large: Vec<Vec<u8>>,
    pub(super) lost: Vec<String>,
}

/// A row of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Row<'b> {
    batch: &'b Batch,
    number: usize,
}

impl Batch {
    pub(super) fn new(plan: Arc<RowPlan>, image: Arc<[u8]>, page_no: u32) -> Self {
        let (heads, places, fetched) = (Vec::new(), Vec::new(), Vec::new());
        let (stretches, large, lost) = (Vec::new(), Vec::new(), Vec::new());
        Self { plan, image, page_no, heads, places, fetched, stretches, large, lost }
    }

    /// Keeps only the memory of usual sizes and releases the page, so its opener can reuse the buffer.
    pub(super) fn without_page(mut self) -> Self {
        self.image = Arc::default();
        self.large.clear();
        self
    }

    /// Reuses the memory for other rows.
    pub(super) fn renew(&mut self, image: Arc<[u8]>, page_no: u32) {
        self.image = image;
        self.page_no = page_no;
        self.heads.clear();
        self.places.clear();
        self.fetched.clear();
        self.fetched.shrink_to(FETCHED_KEPT);
        self.stretches.clear();
        self.large.clear();
        self.lost.clear();
    }

    /// Stores a value that is not on the page.
    pub(super) fn keep(&mut self, parts: &[&[u8]]) -> ValuePlace {
        let start = self.fetched.len();
        parts.iter().for_each(|part| self.fetched.extend_from_slice(part));
        self.stretches.push((start, self.fetched.len() - start));
        ValuePlace::Fetched(self.stretches.len() as u32 - 1)
    }

    /// Stores a value that was fetched, without copying it if it is large.
    pub(super) fn keep_whole(&mut self, value: Vec<u8>) -> ValuePlace {
        if value.len() < LARGE {
            return self.keep(&[&value]);
        }
        self.large.push(value);
        ValuePlace::Large(self.large.len() as u32 - 1)
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The leaf they are on.
    #[must_use]
    pub const fn page_no(&self) -> u32 {
        self.page_no
    }

    /// How to read them.
    #[must_use]
    pub fn plan(&self) -> &RowPlan {
        &self.plan
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.heads.len()).map(|number| Row { batch: self, number })
    }
}

impl<'b> Row<'b> {
    /// The value of column `column` of the plan.
    #[inline]
    #[must_use]
    pub fn get(&self, column: usize) -> Cell<'b> {
        let batch = self.batch;
        let at = self.number * batch.plan.columns.len() + column;
        match batch.places.get(at) {
            None | Some(ValuePlace::Null) => Cell::Null,
            Some(ValuePlace::Page(start, len)) => {
                batch.image.get(*start as usize..(*start + *len) as usize).map_or(Cell::Lost(GONE), Cell::Bytes)
            }
            Some(ValuePlace::Fetched(number)) => {
                let stretch = batch.stretches.get(*number as usize);
                let bytes = stretch.and_then(|(start, len)| batch.fetched.get(*start..*start + *len));
                bytes.map_or(Cell::Lost(GONE), Cell::Bytes)
            }
            Some(ValuePlace::Large(number)) => {
                batch.large.get(*number as usize).map_or(Cell::Lost(GONE), |value| Cell::Bytes(value))
            }
            Some(ValuePlace::Default(field)) => match batch.plan.defaults.get(*field as usize) {
                Some(Some(InstantDefault::Null)) => Cell::Null,
                Some(Some(InstantDefault::Bytes(bytes))) => Cell::Bytes(bytes),
                _ => Cell::Lost("the row is older than the column, and its value for the column is unknown"),
            },
            Some(ValuePlace::Lost(why)) => Cell::Lost(batch.lost.get(*why as usize).map_or(GONE, String::as_str)),
        }
    }

    /// The row's state.
    #[must_use]
    pub fn state(&self) -> RowState {
        self.batch.heads.get(self.number).map_or(RowState::Live, |head| head.state)
    }

    /// The origin of its record on the page.
    #[must_use]
    pub fn origin(&self) -> u16 {
        self.batch.heads.get(self.number).map_or(0, |head| head.origin)
    }

    /// Its page number.
    #[must_use]
    pub fn page_no(&self) -> u32 {
        self.batch.page_no
    }
}

/// Values of this many bytes have memory of their own.
const LARGE: usize = 1 << 20;
/// Bytes for fetched values that an empty batch keeps allocated.
const FETCHED_KEPT: usize = 64 << 10;
const GONE: &str = "the value lies outside its page";
