//! Index pages of real servers: sound as they are, and each rule broken on purpose is found and named.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use std::path::Path;

use common::{put, put_u32};
use innokit_format::page::fil::PageType;
use innokit_format::page::index::{IndexFinding, IndexPage, IndexRule, Place, check_index_page};
use innokit_format::page::sdi::{self, SdiRecord};
use innokit_format::record::{RecordFields, RecordStyle, Stored};
use innokit_format::schema::{IndexDef, IndexKind, TableDef, builtin};
use innokit_format::{Corruption, PageNo, SpaceFormat};

/// A table of MySQL 9.7, from the fixtures.
struct Table {
    bytes: Vec<u8>,
    format: SpaceFormat,
    indexes: Vec<IndexDef>,
}

/// An index page of it.
#[derive(Clone)]
struct Sample {
    bytes: Vec<u8>,
    format: SpaceFormat,
    index: IndexDef,
    place: Place,
}

impl Table {
    fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/mysql-9.7").join(name);
        let packed = std::fs::read(path).expect("a fixture");
        let bytes = zstd::decode_all(packed.as_slice()).expect("zstd");
        let format = SpaceFormat::from_page0(&bytes).expect("a tablespace");
        let mut table = Self { bytes, format, indexes: Vec::new() };
        table.indexes = table.definition().indexes;
        table
    }

    fn page(&self, number: u32) -> &[u8] {
        let size = self.format.physical().bytes();
        &self.bytes[number as usize * size..][..size]
    }

    /// Small tables have all their dictionary information in the root of its tree.
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
    fn samples(&self) -> Vec<Sample> {
        let pages = self.bytes.chunks_exact(self.format.physical().bytes()).skip(4);
        let samples = pages.filter_map(|bytes| {
            let page = IndexPage::parse(bytes, &self.format).ok().filter(|page| page.page_type() == PageType::INDEX)?;
            let index = self.indexes.iter().find(|index| index.root.expect("a root").id == page.index_id())?;
            let root = index.root.expect("a root").root == page.page_no();
            let place = if root { Place::Root } else { Place::BelowRoot };
            Some(Sample { bytes: bytes.to_vec(), format: self.format, index: index.clone(), place })
        });
        samples.collect()
    }

    /// A page that is as wanted.
    fn sample(&self, wanted: impl Fn(&IndexPage<'_>, &IndexDef) -> bool) -> Sample {
        let fits = |sample: &Sample| sample.with_page(|page| wanted(page, &sample.index));
        self.samples().into_iter().find(fits).expect("such a page")
    }

    /// A leaf of the clustered index, not the first, with room for every kind of damage.
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

    fn findings(&self) -> Vec<IndexFinding> {
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

    fn put_u16(&mut self, at: usize, value: u16) {
        put(&mut self.bytes, at, &value.to_be_bytes());
    }

    fn slot_at(&self, number: usize) -> usize {
        self.bytes.len() - 8 - 2 * (number + 1)
    }

    /// The chain leads from the record at `from` to `origin`.
    fn lead(&mut self, from: usize, origin: usize) {
        self.put_u16(from - 2, (origin as u16).wrapping_sub(from as u16));
    }
}

/// Breaks a copy of `sample` and asserts that `rule` is among what is found.
fn assert_found(rule: IndexRule, sample: &Sample, damage: impl FnOnce(&mut Sample)) {
    assert_eq!(sample.findings(), [], "{}: before", rule.name());
    let mut broken = sample.clone();
    damage(&mut broken);
    let findings = broken.findings();
    assert!(findings.iter().any(|finding| finding.rule == rule), "{}: {findings:?}", rule.name());
    assert!(findings.len() <= 32);
    for finding in findings {
        let text = finding.to_string();
        assert!(!text.contains('{') && Corruption::Index(finding).reason() == finding.rule.name(), "{text}");
    }
}

const FILES: [&str; 8] = [
    "dynamic-4k.ibd.zst",
    "dynamic-16k.ibd.zst",
    "dynamic-16k-updated.ibd.zst",
    "dynamic-64k.ibd.zst",
    "compact-16k.ibd.zst",
    "redundant-16k.ibd.zst",
    "blobs-16k.ibd.zst",
    "spatial-16k.ibd.zst",
];

#[test]
fn every_page_of_the_fixtures_is_sound() {
    for name in FILES {
        let samples = Table::open(name).samples();
        assert!(!samples.is_empty(), "{name}");
        for sample in samples {
            assert_eq!(sample.findings(), [], "{name}");
        }
    }
}

#[test]
fn a_page_header_that_contradicts_the_page_is_found() {
    let rows = Table::open("dynamic-16k.ibd.zst").rows();
    let add = |at: usize, more: u16| move |page: &mut Sample| page.put_u16(at, page.u16(at).wrapping_add(more));
    assert_found(IndexRule::RecordStyle, &rows, |page| page.bytes[42] ^= 0x80);
    assert_found(IndexRule::IndexId, &rows, |page| page.bytes[73] ^= 1);
    assert_found(IndexRule::HeapTop, &rows, |page| page.put_u16(40, 100));
    assert_found(IndexRule::HeapTop, &rows, |page| page.put_u16(40, 16380));
    assert_found(IndexRule::HeapSpace, &rows, add(40, 1));
    assert_found(IndexRule::HeapCount, &rows, add(42, 1));
    assert_found(IndexRule::RecordCount, &rows, add(54, 1));
    assert_found(IndexRule::EmptyPage, &rows, |page| page.put_u16(54, 0));
    assert_found(IndexRule::Garbage, &rows, |page| page.put_u16(46, 0xFFFF));
    assert_found(IndexRule::HeapSpace, &rows, add(46, 1));
    assert_found(IndexRule::Siblings, &rows, |page| page.bytes.copy_within(4..8, 12));
    assert_found(IndexRule::InfimumText, &rows, |page| page.bytes[99] = b'I');
    assert_found(IndexRule::SupremumText, &rows, |page| page.bytes[112] = 0);
}

#[test]
fn a_root_or_an_entry_page_that_says_too_little_is_found() {
    let table = Table::open("dynamic-4k.ibd.zst");
    assert_found(IndexRule::SegmentHeader, &table.root(), |page| put_u32(&mut page.bytes, 74, 4711));
    assert_found(IndexRule::SegmentHeader, &table.root(), |page| put_u32(&mut page.bytes, 88, u32::MAX));
    assert_found(IndexRule::Siblings, &table.root(), |page| put_u32(&mut page.bytes, 8, 4711));
    assert_found(IndexRule::MaxTrxId, &table.entries(), |page| put(&mut page.bytes, 56, &[0; 8]));
    assert_found(IndexRule::MinRecMissing, &table.root(), |page| {
        let first = page.origins()[0];
        page.bytes[first - 5] &= !0x10;
    });
}

#[test]
fn a_directory_that_contradicts_the_chain_is_found() {
    let rows = Table::open("dynamic-16k.ibd.zst").rows();
    assert_found(IndexRule::SlotCount, &rows, |page| page.put_u16(38, 1));
    assert_found(IndexRule::SlotCount, &rows, |page| page.put_u16(38, 0x4000));
    assert_found(IndexRule::SlotMissing, &rows, |page| page.put_u16(38, page.u16(38) - 1));
    assert_found(IndexRule::FirstSlot, &rows, |page| page.put_u16(page.slot_at(0), 100));
    assert_found(IndexRule::LastSlot, &rows, |page| page.put_u16(page.slot_at(usize::from(page.u16(38)) - 1), 99));
    assert_found(IndexRule::SlotOrder, &rows, |page| {
        let first = page.origins()[0];
        page.put_u16(page.slot_at(1), first as u16);
    });
    assert_found(IndexRule::Owned, &rows, |page| {
        let owner = usize::from(page.u16(page.slot_at(1)));
        page.bytes[owner - 5] ^= 1;
    });
    assert_found(IndexRule::OwnedLimit, &rows, |page| {
        let (first, second) = (usize::from(page.u16(page.slot_at(1))), usize::from(page.u16(page.slot_at(2))));
        let owned = |at: usize| page.bytes[at - 5] & 0x0F;
        let sum = owned(first) + owned(second);
        assert!((9..16).contains(&sum), "{sum}");
        page.bytes[first - 5] &= 0xF0;
        page.bytes[second - 5] = page.bytes[second - 5] & 0xF0 | sum;
    });
}

#[test]
fn a_chain_or_a_list_that_leads_astray_is_found() {
    let rows = Table::open("dynamic-16k.ibd.zst").rows();
    let origins = rows.origins();
    assert_found(IndexRule::ChainLoop, &rows, |page| page.lead(origins[9], origins[3]));
    assert_found(IndexRule::RecordOffset, &rows, |page| page.lead(origins[9], 16000));
    assert_found(IndexRule::RecordOffset, &rows, |page| page.lead(origins[9], 50));
    assert_found(IndexRule::ChainEnd, &rows, |page| page.put_u16(origins[9] - 2, 0));
    assert_found(IndexRule::RecordCount, &rows, |page| page.lead(origins[9], origins[12]));
    assert_found(IndexRule::FreeOffset, &rows, |page| page.put_u16(44, 0x3FFF));
    assert_found(IndexRule::FreeLive, &rows, |page| page.put_u16(44, origins[2] as u16));
    assert_found(IndexRule::FreeLoop, &rows, |page| {
        // Two records that only the list of free ones has, and that name each other.
        page.put_u16(44, origins[10] as u16);
        page.lead(origins[11], origins[10]);
        page.lead(origins[9], origins[12]);
    });
}

#[test]
fn a_record_that_is_not_one_is_found() {
    let rows = Table::open("dynamic-16k.ibd.zst").rows();
    let origins = rows.origins();
    let (third, fourth) = (origins[3], origins[4]);
    assert_found(IndexRule::HeapNumber, &rows, |page| page.bytes[third - 4] = 0xFF);
    assert_found(IndexRule::HeapNumberTwice, &rows, |page| page.bytes.copy_within(fourth - 4..fourth - 2, third - 4));
    assert_found(IndexRule::RecordStatus, &rows, |page| page.bytes[third - 3] ^= 1);
    assert_found(IndexRule::RecordStatus, &rows, |page| page.bytes[third - 3] |= 7);
    assert_found(IndexRule::MinRec, &rows, |page| page.bytes[third - 5] |= 0x10);
    assert_found(IndexRule::KeyOrder, &rows, |page| page.bytes.copy_within(third..third + 4, origins[8]));
    assert_found(IndexRule::KeyTwice, &rows, |page| page.bytes.copy_within(third..third + 4, fourth));
    // Below the header the null bitmap, then the lengths of b (VARCHAR(40), latin1) and c (TEXT).
    assert_eq!(rows.fields(3).slots()[4].stored, Stored::Inline);
    assert_found(IndexRule::FieldTooLong, &rows, |page| page.bytes[third - 7] = 41);
    assert_found(IndexRule::RecordOverlap, &rows, |page| page.bytes[third - 7] += 3);
    assert_found(IndexRule::RecordEnd, &rows, |page| put(&mut page.bytes, third - 9, &[0xFF, 0xBF]));
    assert_found(IndexRule::ExternReference, &rows, |page| put(&mut page.bytes, third - 9, &[5, 0xC0]));
}

#[test]
fn a_redundant_record_that_is_not_one_is_found() {
    let rows = Table::open("redundant-16k.ibd.zst").rows();
    assert_eq!(rows.with_page(|page| page.style()), RecordStyle::Redundant);
    let third = rows.origins()[3];
    let first_end = third - 6 - 2;
    assert_eq!((rows.u16(first_end), rows.bytes[third - 3] & 1), (4, 0), "offsets of two bytes");
    assert_found(IndexRule::FieldOffsets, &rows, |page| page.put_u16(first_end - 2, 3));
    assert_found(IndexRule::FieldLength, &rows, |page| page.put_u16(first_end, 3));
    assert_found(IndexRule::FieldNull, &rows, |page| page.put_u16(first_end, 0x8004));
    assert_found(IndexRule::ExternReference, &rows, |page| page.put_u16(first_end, 0x4004));
    assert_found(IndexRule::FieldCount, &rows, |page| page.bytes[third - 3] ^= 0x02);
    assert_found(IndexRule::RecordHeader, &rows, |page| put(&mut page.bytes, third - 4, &[0x07, 0xFE]));
}

#[test]
fn an_off_page_field_that_lies_elsewhere_is_found() {
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
    assert_found(IndexRule::ExternSpace, &rows, |page| put_u32(&mut page.bytes, reference, 4711));
    // As an index that is not clustered the same page would be wrong.
    let findings = Sample { index: IndexDef { kind: IndexKind::Secondary, ..rows.index.clone() }, ..rows }.findings();
    assert!(findings.iter().any(|finding| finding.rule == IndexRule::ExternPlace), "{findings:?}");
}

#[test]
fn ten_thousand_damaged_pages_end_in_findings_or_in_none() {
    let samples: Vec<Sample> = FILES.iter().flat_map(|name| Table::open(name).samples()).collect();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let mut found = 0;
    for _ in 0..10_000 {
        let mut broken = samples[next(samples.len())].clone();
        // Mostly where structure is: the header, the first records, the directory.
        let regions = [(38, 200), (38, 2000), (broken.bytes.len() - 200, 200), (0, broken.bytes.len())];
        for _ in 0..=next(4) {
            let (start, len) = regions[next(4)];
            let at = (start + next(len)).min(broken.bytes.len() - 1);
            broken.bytes[at] = next(256) as u8;
        }
        let Ok(page) = IndexPage::parse(&broken.bytes, &broken.format) else { continue };
        let known = check_index_page(&page, Some(&broken.index), broken.place);
        assert!(known.len() <= 32 && check_index_page(&page, None, Place::Unknown).len() <= 32);
        found += usize::from(!known.is_empty());
    }
    assert!(found > 3000, "{found}");
}
