//! Every index page in every datadir written by the real servers satisfies every rule of index pages.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests fail the test"
)]

use std::collections::BTreeMap;

use crate::common::{CRASHED, SOUND, all_datadirs};
use crate::trees::{Tablespace, definitions, open_datadir};
use format::fil::PageType;
use format::page::index::{IndexChecker, IndexPage, PageCounts, TreePlace};
use format::page::lob::Reference;
use format::record::{Record, RecordFields};
use format::schema::IndexDef;
use sha2::{Digest, Sha256};

/// Every datadir that the script makes.
#[derive(Debug, Default)]
struct Seen {
    pages: u64,
    with_fields: u64,
    records: u64,
    ordered: u64,
    unordered: u64,
    findings: Vec<String>,
}

impl Seen {
    fn add(&mut self, counts: PageCounts, known: bool) {
        self.pages += 1;
        self.with_fields += u64::from(known);
        self.records += u64::from(counts.records);
        self.ordered += u64::from(counts.ordered);
        self.unordered += u64::from(counts.unordered);
    }
}

fn sweep(space: &Tablespace, indexes: &BTreeMap<u64, IndexDef>, checker: &mut IndexChecker, seen: &mut Seen) {
    for number in space.pages_in_use() {
        let Some(image) = space.index_page(number) else { continue };
        let page = IndexPage::parse(&image, &space.format).expect("an index page");
        let sdi = page.page_type() == PageType::SDI;
        let built_in = if sdi { format::schema::builtin::sdi() } else { None };
        let index = built_in.as_ref().or_else(|| indexes.get(&page.index_id()));
        let mut findings = Vec::new();
        let place = match index.and_then(|index| index.root) {
            None => TreePlace::Unknown,
            Some(root) if root.root.0 == number => TreePlace::Root,
            Some(_) => TreePlace::BelowRoot,
        };
        let counts = checker.check(&page, index, place, &mut findings);
        seen.add(counts, index.is_some());
        let name = index.map_or("-", |index| &index.name);
        let place = format!("{} page {number} index {} {name} level {}", space.name, page.index_id(), page.level());
        seen.findings.extend(findings.iter().map(|finding| format!("{place}: {}: {finding}", finding.rule.name())));
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_index_page_of_the_servers_keeps_every_rule() {
    let mut wrong = Vec::new();
    for name in SOUND.iter().chain(&CRASHED) {
        let spaces = open_datadir(&all_datadirs().join(name));
        let indexes = definitions(&spaces);
        let (mut seen, mut checker) = (Seen::default(), IndexChecker::new());
        for space in &spaces {
            sweep(space, &indexes, &mut checker, &mut seen);
        }
        println!(
            "{name}: {} pages, {} with fields, {} records, {} pairs in order, {} pairs of unknown order, {} findings",
            seen.pages,
            seen.with_fields,
            seen.records,
            seen.ordered,
            seen.unordered,
            seen.findings.len()
        );
        // Without fields: InnoDB's own tables, and in MariaDB those of full-text indexes.
        assert!(seen.pages > 300 && seen.with_fields * 10 > seen.pages * 9, "{name}: {seen:?}");
        assert!(seen.ordered > 100_000 && seen.ordered > seen.unordered * 20, "{name}: {seen:?}");
        wrong.extend(seen.findings.into_iter().map(|finding| format!("{name} {finding}")));
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong[..wrong.len().min(100)].join("\n"));
}

/// A row of the compressed tables as stored: id, a, b, c.
type Row = (u32, u32, Vec<u8>, Vec<u8>);

/// The server's `LEFT(SHA2(number, 256), 32)`.
fn letters(number: u32) -> String {
    Sha256::digest(number.to_string()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The rows that `scripts/make-datadirs.sh` leaves in every compressed table.
fn expected_rows() -> Vec<Row> {
    let row = |id: u32| {
        let b = if id.is_multiple_of(4) { format!("new {}", letters(id * 3)) } else { format!("name {}", letters(id)) };
        let c = letters(id + 1).repeat(1 + id as usize % 6);
        (id, id * 7919 % 10007, b.into_bytes(), c.into_bytes())
    };
    (0..4000_u32).filter(|id| !id.is_multiple_of(3)).map(row).collect()
}

fn row(space: &Tablespace, record: &Record<'_>, fields: &RecordFields) -> Row {
    let bytes = |number: usize| fields.bytes(record.page(), number).expect("a value");
    let number = |at: usize| u32::from_be_bytes(bytes(at).try_into().expect("four bytes")) ^ 0x8000_0000;
    let mut c = bytes(5).to_vec();
    if let Some((_, reference)) = fields.references(record.page()).next() {
        c.truncate(c.len() - reference.len());
        c.extend(space.value(Reference::parse(reference).expect("a reference")));
    }
    (number(0), number(3), bytes(4).to_vec(), c)
}

fn rows_of(space: &Tablespace, index: &IndexDef) -> Vec<Row> {
    let (mut rows, mut fields) = (Vec::new(), RecordFields::new());
    for number in space.pages_in_use() {
        let Some(image) = space.index_page(number) else { continue };
        let page = IndexPage::parse(&image, &space.format).expect("an index page");
        if !page.is_leaf() || Some(page.index_id()) != index.root.map(|root| root.id) {
            continue;
        }
        for record in page.records().map(|record| record.expect("a record")).filter(|record| !record.is_deleted()) {
            index.layout.locate(&record, &mut fields).expect("fields");
            rows.push(row(space, &record, &fields));
        }
    }
    rows.sort();
    rows
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_rows_of_compressed_tables_are_those_that_were_written() {
    let expected = expected_rows();
    for name in ["mysql-4k", "mysql-16k", "mysql-16k-tde", "mariadb-4k", "mariadb-16k", "mariadb-16k-crc32-enc"] {
        let spaces = open_datadir(&all_datadirs().join(name));
        let indexes = definitions(&spaces);
        let compressed =
            spaces.iter().filter(|space| space.name.starts_with("shop/zip_") && !space.name.contains("blobs"));
        let mut tables = 0;
        for space in compressed {
            let mut own = indexes.values().filter(|index| index.is_clustered());
            let root = |index: &&IndexDef| index.root.and_then(|root| root.space) == Some(space.format.space());
            let index = own.find(root).expect("a clustered index");
            assert!(rows_of(space, index) == expected, "{name} {}: other rows", space.name);
            tables += 1;
        }
        assert!(tables >= 3, "{name}: {tables} compressed tables");
    }
}
