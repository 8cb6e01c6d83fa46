//! Counts records by type, tablespace and page.

use std::collections::{BTreeMap, HashMap};

use format::{PageId, SpaceId};
use redo::record::{FileRecord, Mtr, RecordError, RedoRecord};

use super::report::{PageRow, RecordRow, RedoInfo, SpaceRow};
use super::wanted::Wanted;

/// Records, and the bytes they take in the log.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    records: u64,
    bytes: u64,
}

impl Sum {
    const fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes as u64;
    }
}

/// The counts so far. Memory: a few dozen bytes for each page that the log changes.
#[derive(Debug, Default)]
pub(super) struct Count {
    mtrs: u64,
    /// By tablespace and type. What concerns no tablespace has none.
    by_type: BTreeMap<(Option<SpaceId>, &'static str), Sum>,
    by_page: HashMap<PageId, Sum>,
    names: BTreeMap<SpaceId, String>,
}

impl Count {
    pub(super) fn add(&mut self, mtr: &Mtr<'_>, is_readable: bool) -> Result<(), RecordError> {
        self.mtrs += 1;
        if !is_readable {
            return Ok(());
        }
        let (mut records, mut at) = (mtr.records(), 0);
        while let Some(record) = records.next() {
            let size = records.position() - at;
            at = records.position();
            let of_type = match record? {
                RedoRecord::Page(record) => {
                    self.by_page.entry(record.id).or_default().add(size);
                    (Some(record.id.space), record.change.name())
                }
                RedoRecord::File(record) => (self.note_name(&record), record.name()),
            };
            self.by_type.entry(of_type).or_default().add(size);
        }
        Ok(())
    }

    /// Keeps the last name of each tablespace. Returns the tablespace that the record concerns.
    fn note_name(&mut self, record: &FileRecord<'_>) -> Option<SpaceId> {
        let (space, name) = match *record {
            FileRecord::Create { space, name } | FileRecord::Modify { space, name } => (space, name),
            FileRecord::Delete { space, name } => (space, name),
            FileRecord::Rename { space, to, .. } => (space, to),
            FileRecord::Extend { space, .. } => return Some(space),
            _ => return None,
        };
        self.names.insert(space, String::from_utf8_lossy(name).into_owned());
        Some(space)
    }

    /// Leaves out what concerns no wanted tablespace. Only the number of mini-transactions stays: one may concern several.
    fn keep(&mut self, wanted: &Wanted) {
        for (space, name) in wanted.by_file() {
            self.names.entry(*space).or_insert_with(|| name.clone());
        }
        let names = &self.names;
        let is_wanted = |space: &SpaceId| wanted.has(*space, names.get(space).map(String::as_str));
        self.by_type.retain(|(space, _), _| space.as_ref().is_some_and(is_wanted));
        self.by_page.retain(|id, _| is_wanted(&id.space));
    }

    pub(super) fn report(
        mut self,
        info: &mut RedoInfo,
        (pages_max, wanted): (usize, Option<&Wanted>),
        is_readable: bool,
    ) {
        info.mtrs = Some(self.mtrs);
        if !is_readable {
            return;
        }
        if let Some(wanted) = wanted {
            self.keep(wanted);
        }
        let mut by_type: BTreeMap<&'static str, Sum> = BTreeMap::new();
        for ((_, name), Sum { records, bytes }) in self.by_type {
            let sum = by_type.entry(name).or_default();
            sum.records += records;
            sum.bytes += bytes;
        }
        info.records = by_type.into_iter().map(RecordRow::new).collect();
        info.records.sort_by_key(|row| std::cmp::Reverse(row.records));
        let mut spaces: BTreeMap<SpaceId, SpaceRow> = BTreeMap::new();
        for (id, sum) in &self.by_page {
            let row = spaces.entry(id.space).or_insert_with(|| {
                let name = self.names.get(&id.space).cloned();
                SpaceRow { space_id: id.space.0, name, records: 0, bytes: 0, pages: 0 }
            });
            row.records += sum.records;
            row.bytes += sum.bytes;
            row.pages += 1;
        }
        info.tablespaces = spaces.into_values().collect();
        info.tablespaces.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        info.pages = Some(self.by_page.len() as u64);
        let mut pages: Vec<(PageId, Sum)> = self.by_page.into_iter().collect();
        pages.sort_by_key(|&(id, sum)| (std::cmp::Reverse(sum.records), id));
        pages.truncate(pages_max);
        let row = |(id, sum): (PageId, Sum)| PageRow {
            space_id: id.space.0,
            page_no: id.page_no.0,
            records: sum.records,
            bytes: sum.bytes,
        };
        info.busiest_pages = pages.into_iter().map(row).collect();
    }
}

impl RecordRow {
    fn new((name, sum): (&'static str, Sum)) -> Self {
        Self { name, records: sum.records, bytes: sum.bytes }
    }
}
