//! `innokit table check --extended` in files of both servers: index entries without a row, rows without an entry, and entries that differ
//! from their row. Every page is consistent in itself and its checksum correct.

use std::path::PathBuf;

use crate::broken_table::Ibd;
use crate::common::{Dir, Run, all_datadirs, innokit};
use inspect::table::TreeKind;
use inspect::{TableOptions, TableReport};

/// One table of a datadir, alone with the files that describe it.
struct Alone {
    /// Keeps the files until dropped.
    _dir: Dir,
    path: PathBuf,
}

impl Alone {
    fn copy(datadir: &str, table: &str) -> Self {
        let dir = Dir::new();
        let from = all_datadirs().join(datadir);
        let path = dir.file(&format!("shop/{table}.ibd"), &[]);
        std::fs::copy(from.join("shop").join(format!("{table}.ibd")), &path).expect("copied");
        if datadir.starts_with("mariadb") {
            let frm = format!("shop/{table}.frm");
            std::fs::copy(from.join(&frm), dir.path().join(&frm)).expect("copied");
            // The dictionary, and the undo logs, which show that no transaction is to be rolled back.
            for name in ["ibdata1", "undo001", "undo002", "undo003"] {
                let file = from.join(name).canonicalize().expect("a path");
                std::os::unix::fs::symlink(file, dir.path().join(name)).expect("linked");
            }
        }
        Self { _dir: dir, path }
    }

    fn break_it(&self, act: impl FnOnce(&mut Ibd)) {
        let mut ibd = Ibd::at(&self.path);
        act(&mut ibd);
        std::fs::write(&self.path, ibd.sealed()).expect("written");
    }

    fn check(&self, options: &TableOptions) -> TableReport {
        crate::any_workers::report_on(std::slice::from_ref(&self.path), options)
    }
}

fn extended() -> TableOptions {
    TableOptions { workers: 2, extended: true, ..TableOptions::default() }
}

/// A finding: index, rule, page, record, message.
type Told = (String, &'static str, Option<u32>, Option<u16>, String);

fn told(report: &TableReport) -> Vec<Told> {
    let findings = report.findings.iter();
    findings
        .map(|f| (f.index.clone().unwrap_or_default(), f.rule.as_str(), f.page, f.record, f.message.clone()))
        .collect()
}

fn u16_at(page: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([page[at], page[at + 1]])
}

fn add_u16(page: &mut [u8], at: usize, more: u16) {
    let sum = u16_at(page, at).wrapping_add(more);
    page[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Removes a record of `bytes` bytes from a compact page as a server does, except that the last-insert position stays.
fn remove(ibd: &mut Ibd, number: u32, nth: usize, size: u16) -> u16 {
    let records = ibd.records(number);
    let page = ibd.page(number);
    let lost = (nth..records.len() - 1).find(|at| page[records[*at] - 5] & 0x0F == 0).expect("a record without a slot");
    let owner = records[lost..].iter().find(|at| page[**at - 5] & 0x0F != 0).copied().unwrap_or(112);
    let (before, at, after) = (records[lost - 1], records[lost], records[lost + 1]);
    let lead = |from: usize, to: usize| (to as u16).wrapping_sub(from as u16).to_be_bytes();
    page[before - 2..before].copy_from_slice(&lead(before, after));
    page[owner - 5] -= 1;
    let free = usize::from(u16_at(page, 44));
    let next = if free == 0 { [0, 0] } else { lead(at, free) };
    page[at - 2..at].copy_from_slice(&next);
    page[44..46].copy_from_slice(&(at as u16).to_be_bytes());
    add_u16(page, 46, size);
    add_u16(page, 54, u16::MAX);
    at as u16
}

/// Header, bitmap, a and id.
const ENTRY_OF_A: u16 = 5 + 1 + 4 + 4;
/// The row number as stored in an INT key.
fn id_at(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(page[at..at + 4].try_into().expect("4 bytes")) ^ 0x8000_0000
}

const BOTH: [&str; 2] = ["mysql-16k", "mariadb-16k"];

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_entry_of_a_sound_table_is_matched() {
    for datadir in BOTH {
        for table in ["row_redundant", "row_compact", "zip_2k", "instant_dropped", "virtuals", "places", "types"] {
            let report = Alone::copy(datadir, table).check(&extended());
            assert_eq!(told(&report), [], "{datadir} {table}");
            for index in
                report.files[0].indexes.iter().filter(|i| matches!(i.kind, TreeKind::Secondary | TreeKind::Spatial))
            {
                assert_eq!(index.matched, Some(index.rows), "{datadir} {table}");
            }
        }
        let plain = Alone::copy(datadir, "row_compact").check(&TableOptions::default());
        assert!(plain.files[0].indexes.iter().all(|index| index.matched.is_none()), "{datadir}: nobody asked");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_lost_entry_is_named_by_its_row() {
    for datadir in BOTH {
        let alone = Alone::copy(datadir, "row_compact");
        let mut id = 0;
        alone.break_it(|ibd| {
            let leaf = ibd.leaves("a")[1];
            let lost = remove(ibd, leaf, 7, ENTRY_OF_A);
            id = id_at(ibd.stored(leaf), usize::from(lost) + 4);
        });
        let report = alone.check(&extended());
        let found = told(&report);
        let rules: Vec<_> = found.iter().map(|f| (f.0.as_str(), f.1)).collect();
        assert_eq!(rules, [("PRIMARY", "row_without_entry"), ("a", "row_count")], "{datadir}: {found:?}");
        assert!(found[0].4.ends_with(&format!("index a, id = {id}")), "{found:?}");
        let mut ibd = Ibd::at(&alone.path);
        let (page, record) = (found[0].2.expect("a page"), usize::from(found[0].3.expect("a record")));
        assert_eq!(id_at(ibd.page(page), record), id, "{datadir}: that is the row");
        assert_eq!(report.exit_status(), 1);
        assert_eq!(alone.check(&TableOptions::default()).totals.findings, 1, "{datadir}: the count alone");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_lost_row_is_named_by_each_of_its_entries() {
    for datadir in BOTH {
        let alone = Alone::copy(datadir, "row_compact");
        let mut id = 0;
        alone.break_it(|ibd| {
            let leaf = ibd.leaves("PRIMARY")[2];
            let record = ibd.records(leaf)[5];
            ibd.page(leaf)[record - 5] |= 0x20;
            id = id_at(ibd.stored(leaf), record);
        });
        let found = told(&alone.check(&extended()));
        let orphans: Vec<_> = found.iter().filter(|f| f.1 == "entry_without_row").collect();
        let names: Vec<_> = orphans.iter().map(|f| f.0.as_str()).collect();
        assert_eq!(names, ["a", "b"], "{datadir}: {found:?}");
        assert!(orphans.iter().all(|f| f.4.ends_with(&format!("id = {id}"))), "{found:?}");
        assert!(orphans.iter().all(|f| f.2.is_some() && f.3.is_some()), "{found:?}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_entry_with_another_value_is_named_beside_its_row() {
    for datadir in BOTH {
        let alone = Alone::copy(datadir, "row_compact");
        let (mut at, mut id) = ((0, 0), 0);
        alone.break_it(|ibd| {
            let leaf = ibd.leaves("b")[3];
            let record = ibd.records(leaf)[9];
            let page = ibd.page(leaf);
            // `b`, then `a`, then `id`. The length of `b` is stored below the null bitmap.
            let end_of_b = record + usize::from(page[record - 7]);
            page[end_of_b + 3] ^= 1;
            at = (leaf, record as u16);
            id = id_at(page, end_of_b + 4);
        });
        assert_eq!(told(&alone.check(&TableOptions::default())), [], "{datadir}: nothing else shows it");
        let report = alone.check(&extended());
        let found = told(&report);
        assert_eq!(found.len(), 1, "{datadir}: {found:?}");
        let (index, rule, page, record, message) = &found[0];
        assert_eq!(
            (index.as_str(), *rule, *page, *record),
            ("b", "entry_differs", Some(at.0), Some(at.1)),
            "{datadir}"
        );
        assert!(message.contains(&format!("id = {id}, on page ")), "{message}");
        let b = report.files[0].indexes.iter().find(|index| index.name.as_deref() == Some("b")).expect("b");
        assert_eq!(b.matched, Some(b.rows - 1));
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_entry_that_names_another_row_is_two_findings() {
    for datadir in BOTH {
        let alone = Alone::copy(datadir, "row_compact");
        alone.break_it(|ibd| {
            let leaf = ibd.leaves("b")[3];
            let record = ibd.records(leaf)[9];
            let page = ibd.page(leaf);
            let end_of_b = record + usize::from(page[record - 7]);
            page[end_of_b + 5] ^= 0x40;
        });
        let found = told(&alone.check(&extended()));
        let rules: Vec<_> = found.iter().map(|f| (f.0.as_str(), f.1)).collect();
        assert_eq!(rules, [("PRIMARY", "row_without_entry"), ("b", "entry_without_row")], "{datadir}: {found:?}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn more_differences_than_can_be_kept_are_counted() {
    let alone = Alone::copy("mysql-16k", "row_compact");
    let mut broken = 0;
    alone.break_it(|ibd| {
        for leaf in ibd.leaves("b") {
            // Not the first or last record: those concern the parent and the neighbours.
            let records = ibd.records(leaf);
            for &record in &records[1..records.len() - 1] {
                broken += 1;
                let page = ibd.page(leaf);
                let end_of_b = record + usize::from(page[record - 7]);
                page[end_of_b + 3] ^= 1;
            }
        }
    });
    let all = alone.check(&extended());
    assert!(broken > 3000, "{broken}");
    assert_eq!((all.totals.findings, all.findings.len()), (broken, 1000), "each has its own");
    let some = alone.check(&TableOptions { images_max: 400, ..extended() });
    let found = told(&some);
    let (last, named) = found.split_last().expect("findings");
    assert_eq!((last.1, last.0.as_str()), ("entries_unmatched", "b"), "{last:?}");
    assert!(!named.is_empty() && named.iter().all(|f| f.1 == "entry_differs") && named.len() < 400, "{}", named.len());
    let none = told(&alone.check(&TableOptions { images_max: 0, ..extended() }));
    assert_eq!(none.len(), 1, "{none:?}");
    assert_eq!(none[0].1, "entries_unmatched");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_command_says_it_and_counts_what_matched() {
    let alone = Alone::copy("mysql-16k", "row_compact");
    let run = |options: &[&str]| {
        let output = innokit().args(["table", "check", "--extended"]).args(options).arg(&alone.path).output();
        Run::of(&output.expect("innokit runs"))
    };
    let sound = run(&["-v"]);
    assert_eq!(sound.status, 0, "{}", sound.text);
    assert!(sound.text.contains("6,400 entries matched to a row"), "{}", sound.text);
    alone.break_it(|ibd| {
        let leaf = ibd.leaves("a")[1];
        let record = ibd.records(leaf)[3];
        ibd.page(leaf)[record - 5] |= 0x20;
    });
    let broken = run(&[]);
    assert_eq!(broken.status, 1, "{}", broken.text);
    assert!(broken.text.contains("index PRIMARY of shop.row_compact: page "), "{}", broken.text);
    assert!(broken.text.contains("[row_without_entry]"), "{}", broken.text);
    let refused = innokit().args(["table", "count", "--extended"]).arg(&alone.path).output().expect("innokit runs");
    assert_eq!(Run::of(&refused).status, 2, "counting looks at nothing else");
}
