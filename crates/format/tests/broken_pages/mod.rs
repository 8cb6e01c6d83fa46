//! Index pages of real servers, and one that breaks each rule. The tests of the command include this too, to show that `innokit table
//! check` names the same rules.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::Path;

use innokit_format::fil::PageType;
use innokit_format::page::index::{IndexFinding, IndexPage, IndexRule, TreePlace, check_index_page};
use innokit_format::page::sdi::{self, SdiRecord};
use innokit_format::record::{RecordFields, RecordStyle, Stored};
use innokit_format::schema::{IndexDef, TableDef, builtin};
use innokit_format::{PageNo, SpaceFormat};

fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    page[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put_u32(page: &mut [u8], at: usize, value: u32) {
    put(page, at, &value.to_be_bytes());
}

/// A table of MySQL 9.7, from the fixtures.
pub struct Table {
    name: &'static str,
    pub bytes: Vec<u8>,
    format: SpaceFormat,
    indexes: Vec<IndexDef>,
}

/// An index page of it.
#[derive(Clone)]
pub struct Sample {
    /// The fixture and the page number in it.
    pub from: (&'static str, u32),
    pub bytes: Vec<u8>,
    pub format: SpaceFormat,
    pub index: IndexDef,
    pub place: TreePlace,
}

impl Table {
    pub fn open(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/mysql-9.7").join(name);
        let packed = std::fs::read(path).expect("a fixture");
        let bytes = zstd::decode_all(packed.as_slice()).expect("zstd");
        let format = SpaceFormat::from_page0(&bytes).expect("a tablespace");
        let mut table = Self { name, bytes, format, indexes: Vec::new() };
        table.indexes = table.definition().indexes;
        table
    }

    fn page(&self, number: u32) -> &[u8] {
        let size = self.format.physical().bytes();
        &self.bytes[number as usize * size..][..size]
    }

    /// Small tables have all their SDI in its root page.
    fn definition(&self) -> TableDef {
        let PageNo(root) = sdi::root(self.page(0), &self.format).expect("a root");
        let page = IndexPage::parse(self.page(root), &self.format).expect("an index page");
        let (index, mut fields) = (builtin::sdi().expect("built in"), RecordFields::new());
        let record = page.records().next().expect("a record").expect("sound");
        index.layout.locate(&record, &mut fields).expect("fields");
        let object = SdiRecord::read(&record, &fields).expect("an object");
        let json = object.json(object.packed).expect("JSON");
        innokit_format::schema::sdi::from_sdi(&json).expect("a table")
    }

    /// All pages of its indexes.
    pub fn samples(&self) -> Vec<Sample> {
        let pages = self.bytes.chunks_exact(self.format.physical().bytes()).skip(4);
        let samples = pages.filter_map(|bytes| {
            let page = IndexPage::parse(bytes, &self.format).ok().filter(|page| page.page_type() == PageType::INDEX)?;
            let index = self.indexes.iter().find(|index| index.root.expect("a root").id == page.index_id())?;
            let root = index.root.expect("a root").root == page.page_no();
            let place = if root { TreePlace::Root } else { TreePlace::BelowRoot };
            let from = (self.name, page.page_no().0);
            Some(Sample { from, bytes: bytes.to_vec(), format: self.format, index: index.clone(), place })
        });
        samples.collect()
    }

    /// The first page that satisfies the predicate.
    fn sample(&self, wanted: impl Fn(&IndexPage<'_>, &IndexDef) -> bool) -> Sample {
        let fits = |sample: &Sample| sample.with_page(|page| wanted(page, &sample.index));
        self.samples().into_iter().find(fits).expect("such a page")
    }

    /// A leaf of the clustered index, not the first one, that allows every kind of damage.
    fn rows(&self) -> Sample {
        self.sample(|page, index| {
            index.is_clustered() && page.is_leaf() && page.prev().is_some() && page.record_count() > 20
        })
    }

    fn root(&self) -> Sample {
        self.sample(|page, index| index.is_clustered() && page.level() > 0)
    }

    fn entries(&self) -> Sample {
        self.sample(|page, index| !index.is_clustered() && page.is_leaf() && page.record_count() > 20)
    }
}

impl Sample {
    fn with_page<T>(&self, look: impl Fn(&IndexPage<'_>) -> T) -> T {
        look(&IndexPage::parse(&self.bytes, &self.format).expect("an index page"))
    }

    pub fn findings(&self) -> Vec<IndexFinding> {
        self.with_page(|page| check_index_page(page, Some(&self.index), self.place))
    }

    fn origins(&self) -> Vec<usize> {
        self.with_page(|page| page.records().map(|record| usize::from(record.expect("sound").origin())).collect())
    }

    fn fields(&self, number: usize) -> RecordFields {
        self.with_page(|page| {
            let (record, mut fields) =
                (page.records().nth(number).expect("there").expect("sound"), RecordFields::new());
            self.index.layout.locate(&record, &mut fields).expect("fields");
            fields
        })
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    pub fn put_u16(&mut self, at: usize, value: u16) {
        put(&mut self.bytes, at, &value.to_be_bytes());
    }

    fn slot_at(&self, number: usize) -> usize {
        self.bytes.len() - 8 - 2 * (number + 1)
    }

    /// Links the record at `from` to `origin`.
    fn lead(&mut self, from: usize, origin: usize) {
        self.put_u16(from - 2, (origin as u16).wrapping_sub(from as u16));
    }
}

/// A page that breaks a rule.
pub struct Broken {
    pub rule: IndexRule,
    pub before: Sample,
    pub after: Sample,
}

fn breaks(broken: &mut Vec<Broken>, rule: IndexRule, sample: &Sample, damage: impl FnOnce(&mut Sample)) {
    let mut after = sample.clone();
    damage(&mut after);
    broken.push(Broken { rule, before: sample.clone(), after });
}

/// Pages for every rule.
pub fn all() -> Vec<Broken> {
    let mut broken = Vec::new();
    a_page_header_that_contradicts_the_page_is_found(&mut broken);
    a_root_or_an_entry_page_that_says_too_little_is_found(&mut broken);
    a_directory_that_contradicts_the_chain_is_found(&mut broken);
    a_chain_or_a_list_that_leads_astray_is_found(&mut broken);
    a_record_that_is_not_one_is_found(&mut broken);
    a_redundant_record_that_is_not_one_is_found(&mut broken);
    an_off_page_field_that_lies_elsewhere_is_found(&mut broken);
    broken
}

fn a_page_header_that_contradicts_the_page_is_found(broken: &mut Vec<Broken>) {
    let rows = Table::open("dynamic-16k.ibd.zst").rows();
    let add = |at: usize, more: u16| move |page: &mut Sample| page.put_u16(at, page.u16(at).wrapping_add(more));
    breaks(broken, IndexRule::RecordStyle, &rows, |page| page.bytes[42] ^= 0x80);
    breaks(broken, IndexRule::IndexId, &rows, |page| page.bytes[73] ^= 1);
    breaks(broken, IndexRule::HeapTop, &rows, |page| page.put_u16(40, 100));
    breaks(broken, IndexRule::HeapTop, &rows, |page| page.put_u16(40, 16380));
    breaks(broken, IndexRule::HeapSpace, &rows, add(40, 1));
    breaks(broken, IndexRule::HeapCount, &rows, add(42, 1));
    breaks(broken, IndexRule::RecordCount, &rows, add(54, 1));
    breaks(broken, IndexRule::EmptyPage, &rows, |page| page.put_u16(54, 0));
    breaks(broken, IndexRule::Garbage, &rows, |page| page.put_u16(46, 0xFFFF));
    breaks(broken, IndexRule::HeapSpace, &rows, add(46, 1));
    breaks(broken, IndexRule::Siblings, &rows, |page| page.bytes.copy_within(4..8, 12));
    breaks(broken, IndexRule::InfimumText, &rows, |page| page.bytes[99] = b'I');
    breaks(broken, IndexRule::SupremumText, &rows, |page| page.bytes[112] = 0);
}

fn a_root_or_an_entry_page_that_says_too_little_is_found(broken: &mut Vec<Broken>) {
    let table = Table::open("dynamic-4k.ibd.zst");
    breaks(broken, IndexRule::SegmentHeader, &table.root(), |page| put_u32(&mut page.bytes, 74, 4711));
    breaks(broken, IndexRule::SegmentHeader, &table.root(), |page| put_u32(&mut page.bytes, 88, u32::MAX));
    breaks(broken, IndexRule::RootSiblings, &table.root(), |page| put_u32(&mut page.bytes, 8, 4711));
    breaks(broken, IndexRule::MaxTrxId, &table.entries(), |page| put(&mut page.bytes, 56, &[0; 8]));
    breaks(broken, IndexRule::MinRecMissing, &table.root(), |page| {
        let first = page.origins()[0];
        page.bytes[first - 5] &= !0x10;
    });
}

fn a_directory_that_contradicts_the_chain_is_found(broken: &mut Vec<Broken>) {
    let rows = Table::open("dynamic-16k.ibd.zst").rows();
    breaks(broken, IndexRule::SlotCount, &rows, |page| page.put_u16(38, 1));
    breaks(broken, IndexRule::SlotCount, &rows, |page| page.put_u16(38, 0x4000));
    breaks(broken, IndexRule::SlotMissing, &rows, |page| page.put_u16(38, page.u16(38) - 1));
    breaks(broken, IndexRule::FirstSlot, &rows, |page| page.put_u16(page.slot_at(0), 100));
    breaks(broken, IndexRule::LastSlot, &rows, |page| page.put_u16(page.slot_at(usize::from(page.u16(38)) - 1), 99));
    breaks(broken, IndexRule::SlotOrder, &rows, |page| {
        let first = page.origins()[0];
        page.put_u16(page.slot_at(1), first as u16);
    });
    breaks(broken, IndexRule::Owned, &rows, |page| {
        let owner = usize::from(page.u16(page.slot_at(1)));
        page.bytes[owner - 5] ^= 1;
    });
    breaks(broken, IndexRule::OwnedLimit, &rows, |page| {
        let (first, second) = (usize::from(page.u16(page.slot_at(1))), usize::from(page.u16(page.slot_at(2))));
        let owned = |at: usize| page.bytes[at - 5] & 0x0F;
        let sum = owned(first) + owned(second);
        assert!((9..16).contains(&sum), "{sum}");
        page.bytes[first - 5] &= 0xF0;
        page.bytes[second - 5] = page.bytes[second - 5] & 0xF0 | sum;
    });
}

fn a_chain_or_a_list_that_leads_astray_is_found(broken: &mut Vec<Broken>) {
    let rows = Table::open("dynamic-16k.ibd.zst").rows();
    let origins = rows.origins();
    breaks(broken, IndexRule::ChainLoop, &rows, |page| page.lead(origins[9], origins[3]));
    breaks(broken, IndexRule::RecordOffset, &rows, |page| page.lead(origins[9], 16000));
    breaks(broken, IndexRule::RecordOffset, &rows, |page| page.lead(origins[9], 50));
    breaks(broken, IndexRule::ChainEnd, &rows, |page| page.put_u16(origins[9] - 2, 0));
    breaks(broken, IndexRule::RecordCount, &rows, |page| page.lead(origins[9], origins[12]));
    breaks(broken, IndexRule::FreeOffset, &rows, |page| page.put_u16(44, 0x3FFF));
    breaks(broken, IndexRule::FreeLive, &rows, |page| page.put_u16(44, origins[2] as u16));
    breaks(broken, IndexRule::FreeLoop, &rows, |page| {
        // Two records that are only in the free list and point to each other.
        page.put_u16(44, origins[10] as u16);
        page.lead(origins[11], origins[10]);
        page.lead(origins[9], origins[12]);
    });
}

fn a_record_that_is_not_one_is_found(broken: &mut Vec<Broken>) {
    let rows = Table::open("dynamic-16k.ibd.zst").rows();
    let origins = rows.origins();
    let (third, fourth) = (origins[3], origins[4]);
    breaks(broken, IndexRule::HeapNumber, &rows, |page| page.bytes[third - 4] = 0xFF);
    breaks(broken, IndexRule::HeapNumberTwice, &rows, |page| page.bytes.copy_within(fourth - 4..fourth - 2, third - 4));
    breaks(broken, IndexRule::RecordStatus, &rows, |page| page.bytes[third - 3] ^= 1);
    breaks(broken, IndexRule::RecordStatus, &rows, |page| page.bytes[third - 3] |= 7);
    breaks(broken, IndexRule::MinRec, &rows, |page| page.bytes[third - 5] |= 0x10);
    breaks(broken, IndexRule::KeyOrder, &rows, |page| page.bytes.copy_within(third..third + 4, origins[8]));
    breaks(broken, IndexRule::KeyTwice, &rows, |page| page.bytes.copy_within(third..third + 4, fourth));
    // Below the header the null bitmap, then the lengths of b (VARCHAR(40), latin1) and c (TEXT).
    assert_eq!(rows.fields(3).slots()[4].stored, Stored::Inline);
    breaks(broken, IndexRule::FieldTooLong, &rows, |page| page.bytes[third - 7] = 41);
    breaks(broken, IndexRule::RecordOverlap, &rows, |page| page.bytes[third - 7] += 3);
    breaks(broken, IndexRule::RecordEnd, &rows, |page| put(&mut page.bytes, third - 9, &[0xFF, 0xBF]));
    breaks(broken, IndexRule::ExternReference, &rows, |page| put(&mut page.bytes, third - 9, &[5, 0xC0]));
}

fn a_redundant_record_that_is_not_one_is_found(broken: &mut Vec<Broken>) {
    let rows = Table::open("redundant-16k.ibd.zst").rows();
    assert_eq!(rows.with_page(|page| page.style()), RecordStyle::Redundant);
    let third = rows.origins()[3];
    let first_end = third - 6 - 2;
    assert_eq!((rows.u16(first_end), rows.bytes[third - 3] & 1), (4, 0), "offsets of two bytes");
    breaks(broken, IndexRule::FieldOffsets, &rows, |page| page.put_u16(first_end - 2, 3));
    breaks(broken, IndexRule::FieldLength, &rows, |page| page.put_u16(first_end, 3));
    breaks(broken, IndexRule::FieldNull, &rows, |page| page.put_u16(first_end, 0x8004));
    breaks(broken, IndexRule::ExternReference, &rows, |page| page.put_u16(first_end, 0x4004));
    breaks(broken, IndexRule::ExternPlace, &rows, |page| {
        // The key is longer by a reference, which shifts everything after it.
        for field in 0..rows.fields(3).slots().len() {
            let end = first_end - 2 * field;
            page.put_u16(end, page.u16(end) + 20);
        }
        page.put_u16(first_end, page.u16(first_end) | 0x4000);
    });
    breaks(broken, IndexRule::FieldCount, &rows, |page| page.bytes[third - 3] ^= 0x02);
    breaks(broken, IndexRule::RecordHeader, &rows, |page| put(&mut page.bytes, third - 4, &[0x07, 0xFE]));
}

fn an_off_page_field_that_lies_elsewhere_is_found(broken: &mut Vec<Broken>) {
    let table = Table::open("blobs-16k.ibd.zst");
    let has_reference = |page: &IndexPage<'_>, index: &IndexDef| {
        let mut fields = RecordFields::new();
        index.is_clustered()
            && page.is_leaf()
            && page.records().any(|record| {
                index.layout.locate(&record.expect("sound"), &mut fields).expect("fields");
                fields.references(page.bytes()).next().is_some()
            })
    };
    let rows = table.sample(has_reference);
    let number =
        (0..rows.origins().len()).find(|at| rows.fields(*at).slots().iter().any(|s| s.stored == Stored::Extern));
    let fields = rows.fields(number.expect("a reference"));
    let slot = fields.slots().iter().find(|slot| slot.stored == Stored::Extern).expect("a reference");
    let reference = (slot.start + slot.len) as usize - 20;
    breaks(broken, IndexRule::ExternSpace, &rows, |page| put_u32(&mut page.bytes, reference, 4711));
}
