//! One table per rule of index pages that breaks it under correct checksums. `innokit table check` names the rule, the page and the index.

use std::collections::BTreeSet;

use crate::broken_pages::{Broken, Table};
use crate::common::Dir;
use format::page::index::IndexRule;
use format::{Algorithm, Lsn, seal_page};
use inspect::TableOptions;

#[test]
fn every_rule_of_index_pages_is_named_in_sealed_files() {
    let mut named = BTreeSet::new();
    for Broken { rule, before, after } in crate::broken_pages::all() {
        let (file, page_no) = before.from;
        let mut bytes = Table::open(file).bytes;
        let size = after.format.physical().bytes();
        let page = &mut bytes[page_no as usize * size..][..size];
        page.copy_from_slice(&after.bytes);
        let lsn = Lsn(u64::from_be_bytes(page[16..24].try_into().expect("8 bytes")));
        seal_page(page, lsn, Algorithm::Crc32, &after.format).expect("sealed");
        let dir = Dir::new();
        let path = dir.file("t.ibd", &bytes);
        let report = crate::any_workers::report_on(&[path], &TableOptions::default());
        let all: Vec<_> = report.findings.iter().map(|f| (f.rule.as_str(), f.page, f.index.as_deref())).collect();
        let expected = (rule.name(), Some(page_no), Some(before.index.name.as_str()));
        assert!(all.contains(&expected), "{expected:?} is not among {all:?}");
        assert_eq!(report.exit_status(), 1, "{}", rule.name());
        named.insert(rule);
    }
    assert_eq!(named, IndexRule::ALL.iter().copied().collect(), "a rule without a file that breaks it");
}
