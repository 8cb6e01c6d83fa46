//! Rows against secondary index entries, in both directions, in bounded memory.
//!
//! ```text
//! row   -> EntryImage ─ hash of the row's key: which bucket ┐
//!                     └ hash of the image: added            ├-> a bucket ends at 0 if its entries are exactly those of its rows
//! entry -> EntryImage ─ which bucket, and subtracted        ┘
//! ```
//!
//! Sums do not depend on order, so clustered and secondary indexes are walked in parallel, each on its own worker, while their pages are
//! checked anyway: the first pass costs no extra reads and 8 bytes per bucket. A bucket that is not 0 means damage. Only then are both
//! trees read again, to keep and pair the images that fall in such buckets ([`Suspects`]). An external sort would write as much as the
//! indexes hold; a filter like PostgreSQL's `heapallindexed` checks one direction only.
//!
//! Sums have 64 bits: one in 2^64 of the buckets that differ goes unnoticed.
//!
//! All rows and entries that are not delete-marked are compared, committed or not. A server changes a row and its entries in one step of a
//! transaction, so they agree before the commit too, and whatever purge has yet to remove is delete-marked. They disagree only in the
//! middle of such a step, and only a crash, or a shutdown during a rollback, can leave that state in the files.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use format::page::index::IndexPage;
use format::page::lob::{LobReader, Reference};
use format::record::{Instant, RecordFields};
use format::schema::{EntryImage, EntryPlan, IndexDef, RowDefaults, TableDef};

use super::{Leaves, Root};
use datadir::tablespace::{Opener, Tablespace};

/// Memory of the buckets of all indexes together, bytes.
const BUCKETS_MAX: u64 = 64 << 20;
/// Buckets per index page: a few entries fall in each.
const BUCKETS_PER_PAGE: u64 = 64;
/// Images kept at a time while pairing, by default; about 80 bytes each.
pub const IMAGES_MAX: usize = 256 << 10;

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Two hashes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Print {
    /// Hash of the row's key.
    key: u64,
    /// Hash of the whole image.
    whole: u64,
}

impl Print {
    fn of(image: &EntryImage) -> Self {
        Self { key: hash(image.key()), whole: hash(image.bytes()) }
    }
}

/// Sums of hashes, bucketed by the row's key.
#[derive(Debug)]
pub struct Buckets {
    sums: Box<[AtomicU64]>,
}

impl Buckets {
    /// For an index of `pages` pages; all indexes of the run together have `pages_total`.
    #[must_use]
    pub fn new(pages: u64, pages_total: u64) -> Self {
        let room = BUCKETS_MAX / 8 / 2;
        let fair = u128::from(pages) * u128::from(room) / u128::from(pages_total.max(1));
        let count = (pages * BUCKETS_PER_PAGE).min(u64::try_from(fair).unwrap_or(room)).clamp(1, room);
        Self { sums: (0..count.next_power_of_two()).map(|_| AtomicU64::new(0)).collect() }
    }

    fn number(&self, print: Print) -> usize {
        print.key as usize & (self.sums.len() - 1)
    }

    fn sum(&self, print: Print) -> Option<&AtomicU64> {
        self.sums.get(self.number(print))
    }

    // Relaxed, here and in `subtract` and `uneven`: sums do not depend on order, and are read when the workers have been joined.
    fn add(&self, print: Print) {
        if let Some(sum) = self.sum(print) {
            sum.fetch_add(print.whole, Ordering::Relaxed);
        }
    }

    fn subtract(&self, print: Print) {
        if let Some(sum) = self.sum(print) {
            // Relaxed: see `add`.
            sum.fetch_sub(print.whole, Ordering::Relaxed);
        }
    }

    /// Number of buckets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Never true: there is always a bucket.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Number of buckets that are not 0.
    #[must_use]
    pub fn uneven(&self) -> usize {
        // Relaxed: see `add`.
        self.sums.iter().filter(|sum| sum.load(Ordering::Relaxed) != 0).count()
    }
}

/// A secondary index paired with its table's rows.
#[derive(Debug)]
pub struct Pair {
    /// Its fields.
    pub entry: IndexDef,
    /// How to compare entries with rows.
    pub plan: EntryPlan,
    /// The sums so far.
    pub buckets: Buckets,
    /// A value could not be read, so there will be no verdict.
    is_blind: AtomicBool,
}

impl Pair {
    /// Whether every row and entry was compared.
    #[must_use]
    pub fn has_seen_all(&self) -> bool {
        // Relaxed: asked when the workers have been joined.
        !self.is_blind.load(Ordering::Relaxed)
    }

    fn blind(&self) {
        // Relaxed: see above.
        self.is_blind.store(true, Ordering::Relaxed);
    }
}

/// A table's rows and the secondary indexes that can be compared with them.
#[derive(Debug)]
pub struct Pairs {
    /// The table.
    pub table: Arc<TableDef>,
    /// Its clustered index.
    pub row: IndexDef,
    /// The defaults for columns that were added after a row was written.
    pub defaults: RowDefaults,
    /// The secondary indexes.
    pub pairs: Vec<Pair>,
}

impl Pair {
    /// An index of `pages` pages, when all indexes of the run have `pages_total`.
    #[must_use]
    pub fn new(entry: IndexDef, plan: EntryPlan, (pages, pages_total): (u64, u64)) -> Self {
        let buckets = Buckets::new(pages, pages_total);
        Self { entry, plan, buckets, is_blind: AtomicBool::new(false) }
    }

    /// Subtracts the entries; this is pair `number` of its table.
    #[must_use]
    pub fn entries(&self, number: usize) -> Box<dyn Leaves + '_> {
        Box::new(self.entries_for(number, Subtracting(self)))
    }

    fn entries_for<T: Taker>(&self, number: usize, taker: T) -> Entries<'_, T> {
        Entries { pair: self, number, fields: RecordFields::new(), image: EntryImage::new(), taker }
    }
}

/// Consumes images: the index of the pair, the image, its page and origin.
trait Taker {
    fn take(&mut self, pair: usize, print: Print, at: (u32, u16));

    /// Whether the pair's images are needed.
    fn wants(&self, pair: usize) -> bool;
}

/// Adds up the images of rows.
struct Adding<'p>(&'p Pairs);

impl Taker for Adding<'_> {
    fn take(&mut self, pair: usize, print: Print, _: (u32, u16)) {
        if let Some(pair) = self.0.pairs.get(pair) {
            pair.buckets.add(print);
        }
    }

    fn wants(&self, _: usize) -> bool {
        true
    }
}

/// Subtracts the images of a pair's entries.
struct Subtracting<'p>(&'p Pair);

impl Taker for Subtracting<'_> {
    fn take(&mut self, _: usize, print: Print, _: (u32, u16)) {
        self.0.buckets.subtract(print);
    }

    fn wants(&self, _: usize) -> bool {
        true
    }
}

/// Makes images from rows.
struct Rows<'p, T> {
    pairs: &'p Pairs,
    defaults: RowDefaults,
    fields: RecordFields,
    image: EntryImage,
    taker: T,
}

/// Makes images from one index's entries.
struct Entries<'p, T> {
    pair: &'p Pair,
    number: usize,
    fields: RecordFields,
    image: EntryImage,
    taker: T,
}

impl Pairs {
    /// Adds the rows to the sums.
    #[must_use]
    pub fn rows(&self) -> Box<dyn Leaves + '_> {
        Box::new(self.rows_for(Adding(self)))
    }

    fn rows_for<T: Taker>(&self, taker: T) -> Rows<'_, T> {
        Rows {
            pairs: self,
            defaults: self.defaults.clone(),
            fields: RecordFields::new(),
            image: EntryImage::new(),
            taker,
        }
    }
}

impl<T: Taker> Leaves for Rows<'_, T> {
    fn leaf(&mut self, page: &IndexPage<'_>, space: &Tablespace, opener: &mut Opener) {
        let mut outside = |reference: &[u8], bytes: usize| beginning(space, reference, bytes, opener);
        for record in page.records().map_while(Result::ok) {
            if self.pairs.row.layout.locate(&record, &mut self.fields).is_err() {
                // A rule of the page reports it; the row could be any.
                self.pairs.pairs.iter().for_each(Pair::blind);
                continue;
            }
            if record.is_metadata() {
                if matches!(self.pairs.row.layout.instant(), Instant::MariaDb { .. }) {
                    self.defaults = RowDefaults::of_metadata(page.bytes(), &self.fields);
                }
                continue;
            }
            if record.is_deleted() {
                continue;
            }
            let (bytes, fields) = (page.bytes(), &self.fields);
            for (number, pair) in self.pairs.pairs.iter().enumerate() {
                if !self.taker.wants(number) {
                    continue;
                }
                match pair.plan.of_row(bytes, fields, &self.defaults, &mut outside, &mut self.image) {
                    Some(()) => {
                        self.taker.take(number, Print::of(&self.image), (page.page_no().0, record.origin()));
                    }
                    None => pair.blind(),
                }
            }
        }
    }
}

impl<T: Taker> Leaves for Entries<'_, T> {
    fn leaf(&mut self, page: &IndexPage<'_>, _: &Tablespace, _: &mut Opener) {
        for record in page.records().map_while(Result::ok).filter(|record| !record.is_deleted()) {
            let located = self.pair.entry.layout.locate(&record, &mut self.fields);
            let image =
                located.ok().and_then(|()| self.pair.plan.of_entry(page.bytes(), &self.fields, &mut self.image));
            match image {
                Some(()) => self.taker.take(self.number, Print::of(&self.image), (page.page_no().0, record.origin())),
                None => self.pair.blind(),
            }
        }
    }
}

/// The defaults for columns that were added after a row was written. MariaDB keeps them in the first record of the first leaf. They must be
/// known before any leaf is compared, because leaves come in any order.
#[must_use]
pub fn defaults_of(
    space: &Tablespace,
    root: &Root,
    table: &TableDef,
    row: &IndexDef,
    opener: &mut Opener,
) -> RowDefaults {
    let in_metadata = matches!(row.layout.instant(), Instant::MariaDb { .. });
    let found = in_metadata.then(|| metadata_defaults(space, root, row, opener)).flatten();
    found.unwrap_or_else(|| RowDefaults::of_columns(&table.columns, row))
}

fn metadata_defaults(space: &Tablespace, root: &Root, row: &IndexDef, opener: &mut Opener) -> Option<RowDefaults> {
    let (mut image, mut fields) = (root.image.page(), RecordFields::new());
    for level in (0..=root.level).rev() {
        let page = IndexPage::parse(&image, &space.format).ok()?;
        let first = page.records().next()?.ok()?;
        row.layout.locate(&first, &mut fields).ok()?;
        if page.level() != level || page.index_id() != root.index_id {
            return None;
        }
        if level == 0 {
            return first.is_metadata().then(|| RowDefaults::of_metadata(page.bytes(), &fields));
        }
        image = space.sound(fields.child()?.0, opener).ok()?;
    }
    None
}

/// Reads the first `bytes` bytes of an off-page value, page by page: index entries hold no more of the value.
fn beginning(space: &Tablespace, reference: &[u8], bytes: usize, opener: &mut Opener) -> Option<Vec<u8>> {
    let reference = Reference::parse(reference)?;
    let mut reader = LobReader::new(reference, space.format.family(), true);
    while reader.found() < bytes as u64 {
        let Some(page_no) = reader.wants() else { break };
        reader.take(&space.sound(page_no.0, opener).ok()?).ok()?;
    }
    Some(reader.into_value())
}

/// An image without a counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Odd {
    /// Page and origin of the row or the entry.
    pub at: (u32, u16),
    /// Whether it is a row.
    pub is_row: bool,
    /// Hash of the row's key.
    pub key: u64,
}

/// Images in some of the uneven buckets, kept until their counterparts arrive.
pub struct Suspects<'p> {
    pairs: &'p Pairs,
    /// For each pair, the chosen buckets.
    chosen: Vec<Vec<bool>>,
    images: HashMap<(usize, Print), (i64, Odd)>,
    images_max: usize,
    is_full: bool,
}

impl<'p> Suspects<'p> {
    /// Chooses as many uneven buckets as `images_max` images allow. `records` are the live entries of each pair, 0 for a pair to skip.
    #[must_use]
    pub fn choose(pairs: &'p Pairs, records: &[u64], images_max: usize) -> Self {
        let count = records.iter().filter(|records| **records > 0).count().max(1);
        let chosen = pairs.pairs.iter().zip(records).map(|(pair, records)| {
            if *records == 0 {
                return Vec::new();
            }
            // Allow for twice the average number of entries, and of rows.
            let of_bucket = 4 * (*records as usize / pair.buckets.len() + 1);
            let mut room = images_max / count / of_bucket;
            let take = |sum: &AtomicU64| {
                // Relaxed: the first reading of the trees is over.
                let taken = room > 0 && sum.load(Ordering::Relaxed) != 0;
                room -= usize::from(taken);
                taken
            };
            pair.buckets.sums.iter().map(take).collect()
        });
        Self { pairs, chosen: chosen.collect(), images: HashMap::new(), images_max, is_full: false }
    }

    /// Pairs with chosen buckets.
    #[must_use]
    pub fn wanted(&self) -> Vec<usize> {
        (0..self.chosen.len()).filter(|number| self.wants(*number)).collect()
    }

    /// Number of chosen buckets of the pair.
    #[must_use]
    pub fn chosen(&self, number: usize) -> usize {
        self.chosen.get(number).map_or(0, |chosen| chosen.iter().filter(|taken| **taken).count())
    }

    /// Collects the entries of a pair.
    pub fn entries(&mut self, number: usize) -> Option<Box<dyn Leaves + '_>> {
        let pair = self.pairs.pairs.get(number)?;
        Some(Box::new(pair.entries_for(number, Collecting(self, false))))
    }

    /// Collects the rows.
    pub fn rows(&mut self) -> Box<dyn Leaves + '_> {
        let pairs = self.pairs;
        Box::new(pairs.rows_for(Collecting(self, true)))
    }

    /// The unpaired images of a pair, by place; `None` if there were too many to keep.
    #[must_use]
    pub fn odd(&self, number: usize) -> Option<Vec<Odd>> {
        if self.is_full {
            return None;
        }
        let of_it = self.images.iter().filter(|((pair, _), _)| *pair == number);
        let mut odd: Vec<_> = of_it.map(|(_, (_, odd))| *odd).collect();
        odd.sort_unstable();
        Some(odd)
    }

    fn wants(&self, number: usize) -> bool {
        self.chosen.get(number).is_some_and(|chosen| !chosen.is_empty())
    }
}

struct Collecting<'s, 'p>(&'s mut Suspects<'p>, bool);

impl Taker for Collecting<'_, '_> {
    fn take(&mut self, number: usize, print: Print, at: (u32, u16)) {
        let Self(suspects, is_row) = self;
        let Some(pair) = suspects.pairs.pairs.get(number) else { return };
        let bucket = pair.buckets.number(print);
        if !suspects.chosen.get(number).and_then(|chosen| chosen.get(bucket)).is_some_and(|taken| *taken) {
            return;
        }
        if suspects.images.len() >= suspects.images_max && !suspects.images.contains_key(&(number, print)) {
            suspects.is_full = true;
            return;
        }
        let odd = Odd { at, is_row: *is_row, key: print.key };
        let (balance, _) = suspects.images.entry((number, print)).or_insert((0, odd));
        *balance += if *is_row { 1 } else { -1 };
        if *balance == 0 {
            suspects.images.remove(&(number, print));
        }
    }

    fn wants(&self, number: usize) -> bool {
        self.0.wants(number)
    }
}
