//! Every index page of every datadir that the real servers wrote keeps every rule of index pages.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests fail the test"
)]

mod common;
mod trees;

use std::collections::BTreeMap;

use common::all_datadirs;
use format::page::fil::PageType;
use format::page::index::{IndexChecker, IndexPage, PageCounts, Place};
use format::schema::IndexDef;
use trees::{Space, definitions, open_datadir};

/// The datadirs, and what at least must have been seen in each: pages, with their fields known, pairs of records in order.
const DATADIRS: [&str; 21] = [
    "mysql-4k",
    "mysql-8k",
    "mysql-16k",
    "mysql-32k",
    "mysql-64k",
    "mysql-16k-innodb",
    "mysql-16k-none",
    "mysql-16k-tde",
    "mysql-16k-compressed",
    "mysql-16k-crashed",
    "mariadb-4k",
    "mariadb-8k",
    "mariadb-16k",
    "mariadb-32k",
    "mariadb-64k",
    "mariadb-16k-crc32",
    "mariadb-16k-crc32-enc",
    "mariadb-16k-crc32-compressed",
    "mariadb-16k-enc",
    "mariadb-16k-compressed",
    "mariadb-16k-crashed",
];

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

fn sweep(space: &Space, indexes: &BTreeMap<u64, IndexDef>, checker: &mut IndexChecker, seen: &mut Seen) {
    for number in space.pages_in_use() {
        let Some(image) = space.index_page(number) else { continue };
        let page = IndexPage::parse(&image, &space.format).expect("an index page");
        let sdi = page.page_type() == PageType::SDI;
        let built_in = if sdi { format::schema::builtin::sdi() } else { None };
        let index = built_in.as_ref().or_else(|| indexes.get(&page.index_id()));
        let mut findings = Vec::new();
        let counts = checker.check(&page, index, Place::Unknown, &mut findings);
        seen.add(counts, index.is_some());
        let name = index.map_or("-", |index| &index.name);
        let place = format!("{} page {number} index {} {name} level {}", space.name, page.index_id(), page.level());
        seen.findings.extend(findings.iter().map(|finding| format!("{place}: {}: {finding}", finding.rule.name())));
    }
}

#[test]
fn every_index_page_of_the_servers_keeps_every_rule() {
    let mut wrong = Vec::new();
    for name in DATADIRS {
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
        wrong.extend(seen.findings.into_iter().map(|finding| format!("{name} {finding}")));
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong[..wrong.len().min(100)].join("\n"));
}
