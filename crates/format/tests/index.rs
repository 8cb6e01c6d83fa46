//! Index pages of real servers: intact ones pass, and each rule broken on purpose is found and named.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod broken_pages;

use std::collections::BTreeSet;

use broken_pages::{Broken, Sample, Table};
use innokit_format::Corruption;
use innokit_format::page::index::{IndexPage, IndexRule, TreePlace, check_index_page};

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
fn every_rule_has_a_page_that_breaks_it_and_is_named() {
    let broken = broken_pages::all();
    for Broken { rule, before, after } in &broken {
        assert_eq!(before.findings(), [], "{}: before", rule.name());
        let findings = after.findings();
        assert!(findings.iter().any(|finding| finding.rule == *rule), "{}: {findings:?}", rule.name());
        assert!(findings.len() <= 32);
        for finding in findings {
            let text = finding.to_string();
            assert!(!text.contains('{') && Corruption::Index(finding).reason() == finding.rule.name(), "{text}");
        }
    }
    let rules: BTreeSet<IndexRule> = broken.iter().map(|broken| broken.rule).collect();
    assert_eq!(rules, IndexRule::ALL.iter().copied().collect(), "a rule without a page that breaks it");
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
        // Mostly in the structure: the header, the first records, the directory.
        let regions = [(38, 200), (38, 2000), (broken.bytes.len() - 200, 200), (0, broken.bytes.len())];
        for _ in 0..=next(4) {
            let (start, len) = regions[next(4)];
            let at = (start + next(len)).min(broken.bytes.len() - 1);
            broken.bytes[at] = next(256) as u8;
        }
        let Ok(page) = IndexPage::parse(&broken.bytes, &broken.format) else { continue };
        let known = check_index_page(&page, Some(&broken.index), broken.place);
        assert!(known.len() <= 32 && check_index_page(&page, None, TreePlace::Unknown).len() <= 32);
        found += usize::from(!known.is_empty());
    }
    assert!(found > 3000, "{found}");
}
