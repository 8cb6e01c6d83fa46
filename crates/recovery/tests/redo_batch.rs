//! Redo grouped by page: what is kept and in which order, what invalidates it, and how much memory it may take.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use format::{Lsn, PageId, SpaceId};
use innokit_recovery::redo_batch::{FileEvent, RedoBatch};
use redo::record::{Change, Grammar, Mtr, RedoRecord};

const MEMORY: usize = 64 << 20;

/// A WRITE of `data` to byte 64 of a page.
fn write(space: u8, page_no: u8, data: u8) -> Vec<u8> {
    vec![0x34, space, page_no, 64, data]
}

fn add(batch: &mut RedoBatch, start: u64, records: &[Vec<u8>]) {
    let bytes = records.concat();
    batch
        .add(&Mtr { start: Lsn(start), end: Lsn(start + 10), bytes: &bytes, grammar: Grammar::MariaDb })
        .expect("records");
}

/// The start LSNs of a page's mini-transactions, and the bytes that they write.
fn redo(batch: &RedoBatch, id: PageId) -> Vec<(u64, Vec<u8>)> {
    let written = |mtr: &Mtr<'_>| {
        let data = mtr.records().map(|record| match record.expect("a record") {
            RedoRecord::Page(record) if record.id == id => match record.change {
                Change::Write { data, .. } => data.to_vec(),
                _ => Vec::new(),
            },
            other => unreachable!("{other:?} among the records of {id}"),
        });
        data.flatten().collect()
    };
    batch.redo(id).map(|mtr| (mtr.start.0, written(&mtr))).collect()
}

#[test]
fn records_come_back_by_page_in_the_order_of_the_log() {
    let mut batch = RedoBatch::new(MEMORY);
    let same_page = vec![0xB2, 3, 0x77];
    add(&mut batch, 100, &[write(5, 4, 1), same_page, write(5, 9, 2), write(5, 4, 3)]);
    add(&mut batch, 110, &[write(2, 7, 4), write(5, 4, 5)]);
    let [first, second, third] = [PageId::new(2, 7), PageId::new(5, 4), PageId::new(5, 9)];
    assert_eq!(batch.pages(), [first, second, third]);
    assert_eq!(redo(&batch, second), [(100, vec![1, 0x77]), (100, vec![3]), (110, vec![5])]);
    assert_eq!(redo(&batch, third), [(100, vec![2])]);
    assert!(!batch.redo(second).is_void);
    assert_eq!(redo(&batch, PageId::new(9, 9)), []);
    batch.clear();
    assert_eq!((batch.pages(), redo(&batch, second)), (vec![], vec![]));
}

#[test]
fn what_voids_a_page_drops_what_came_before() {
    let mut batch = RedoBatch::new(MEMORY);
    let (init, free) = (vec![0x12, 5, 4], vec![0x02, 5, 4]);
    add(&mut batch, 100, &[write(5, 4, 1)]);
    add(&mut batch, 110, &[write(5, 4, 2), free]);
    assert!(batch.redo(PageId::new(5, 4)).is_void);
    assert_eq!(redo(&batch, PageId::new(5, 4)), [(110, vec![])]);
    add(&mut batch, 120, &[init, write(5, 4, 3)]);
    add(&mut batch, 130, &[write(5, 4, 4)]);
    assert!(batch.redo(PageId::new(5, 4)).is_void);
    assert_eq!(redo(&batch, PageId::new(5, 4)), [(120, vec![3]), (130, vec![4])]);
}

#[test]
fn neighbours_have_their_own_redo_wherever_they_are() {
    let mut batch = RedoBatch::new(MEMORY);
    // Page numbers around group boundaries, in two tablespaces, unsorted.
    let pages: Vec<(u8, u8)> =
        [17, 0, 15, 16, 31, 32, 64, 1].into_iter().flat_map(|page| [(7, page), (6, page)]).collect();
    for (number, &(space, page_no)) in (0..).zip(&pages) {
        add(&mut batch, 100 * number, &[write(space, page_no, number as u8)]);
    }
    add(&mut batch, 9000, &[vec![0x12, 6, 16], write(6, 16, 99)]);
    add(&mut batch, 9100, &[write(6, 16, 98), write(6, 17, 97)]);
    let mut ids: Vec<PageId> = pages.iter().map(|&(space, page)| PageId::new(space.into(), page.into())).collect();
    ids.sort_unstable();
    assert_eq!(batch.pages(), ids);
    for (number, &(space, page_no)) in (0..).zip(&pages) {
        let id = PageId::new(space.into(), page_no.into());
        let first = (100 * number, vec![number as u8]);
        let expected = match (space, page_no) {
            (6, 16) => vec![(9000, vec![99]), (9100, vec![98])],
            (6, 17) => vec![first, (9100, vec![97])],
            _ => vec![first],
        };
        assert_eq!((redo(&batch, id), batch.redo(id).is_void), (expected, (space, page_no) == (6, 16)), "{id}");
    }
    assert_eq!(redo(&batch, PageId::new(6, 2)), [], "a neighbour without any");
}

#[test]
fn a_deleted_or_trimmed_tablespace_loses_its_redo() {
    let mut batch = RedoBatch::new(MEMORY);
    let delete = [vec![0x9B, 5, 0], b"./v/d.ibd".to_vec()].concat();
    add(&mut batch, 100, &[write(5, 4, 1), write(6, 4, 2), write(0, 8, 3), write(0, 9, 4)]);
    add(&mut batch, 110, &[delete]);
    assert_eq!(batch.pages(), [PageId::new(0, 8), PageId::new(0, 9), PageId::new(6, 4)]);
    // Space 6 is recreated; the end of the system tablespace is truncated.
    add(&mut batch, 120, &[vec![0x24, 6, 0x82, 0, 10], vec![0x12, 6, 0], vec![0x23, 0, 9, 10]]);
    assert_eq!(batch.pages(), [PageId::new(0, 8), PageId::new(6, 0)]);
    let trimmed = |space, pages| FileEvent::Trimmed { space: SpaceId(space), pages };
    assert_eq!(batch.files(), [FileEvent::Deleted { space: SpaceId(5) }, trimmed(6, 640), trimmed(0, 9)]);
}

#[test]
fn files_are_named_in_the_order_of_the_log() {
    let mut batch = RedoBatch::new(MEMORY);
    let named = |first: u8, body: &[u8]| [vec![first, 5, 0], body.to_vec()].concat();
    add(&mut batch, 100, &[named(0x8B, b"./v/d.ibd"), vec![0x12, 5, 0]]);
    add(&mut batch, 110, &[named(0xBB, b"./v/d.ibd")]);
    add(&mut batch, 120, &[[vec![0xA0, 7, 5, 0], b"./v/d.ibd\0./v/e.ibd".to_vec()].concat()]);
    let name = |name: &[u8], is_new| FileEvent::Named { space: SpaceId(5), name: name.to_vec(), is_new };
    let renamed = FileEvent::Renamed { space: SpaceId(5), from: b"./v/d.ibd".to_vec(), to: b"./v/e.ibd".to_vec() };
    assert_eq!(batch.files(), [name(b"./v/d.ibd", true), name(b"./v/d.ibd", false), renamed]);
}

#[test]
fn a_full_batch_has_used_no_more_than_it_may() {
    const SMALL: usize = 24 << 20;
    let mut batch = RedoBatch::new(SMALL);
    // v + 15 bytes follow the first, v's three among them.
    let mut large = vec![0x30, 0xC0, 0x40, 0, 5, 0, 64];
    large.resize(1 + 16_512 + (0x40 << 8) + 15, 0xEE);
    let mut added = 0_u64;
    while !batch.is_full() {
        large[5] = (added % 100) as u8;
        add(&mut batch, added * 100_000, &[large.clone()]);
        added += 1;
        assert!(batch.memory() <= SMALL, "after {added}");
    }
    assert!(added > 100, "most of it is records");
    let kept: usize = batch.pages().iter().map(|&id| redo(&batch, id).len()).sum();
    assert_eq!(kept as u64, added);
    let before = batch.memory();
    batch.clear();
    assert_eq!((batch.memory(), batch.pages().len()), (before, 0), "memory is kept for the next round");
    assert!(!batch.is_full(), "memory that is kept is room");
    let mut again = 0;
    while !batch.is_full() {
        large[5] = (again % 100) as u8;
        add(&mut batch, again * 100_000, &[large.clone()]);
        again += 1;
    }
    assert_eq!((again, batch.memory()), (added, before), "a batch takes as much again");
    batch.clear();
    add(&mut batch, 0, &[write(5, 4, 1)]);
    assert_eq!(redo(&batch, PageId::new(5, 4)), [(0, vec![1])]);
}

#[test]
fn what_is_no_record_is_said_and_not_kept() {
    let mut batch = RedoBatch::new(MEMORY);
    let bytes = [write(5, 4, 1), vec![0x63, 5, 4, 8]].concat();
    let error = batch
        .add(&Mtr { start: Lsn(1), end: Lsn(2), bytes: &bytes, grammar: Grammar::MariaDb })
        .expect_err("a type that does not exist");
    assert_eq!(error.at, 5);
}

#[test]
fn a_mini_transaction_longer_than_any_run_keeps_every_record() {
    // MLOG_WRITE_STRING of MySQL: kind, tablespace, page, offset, length, bytes.
    const LEN: usize = 15_000;
    let record = |page_no: u8| {
        let head = [30, 7, page_no, 0, 64, (LEN >> 8) as u8, LEN as u8];
        [&head[..], &[page_no; LEN]].concat()
    };
    let pages: Vec<u8> = (1..128).flat_map(|page_no| [page_no; 5]).collect();
    let bytes: Vec<u8> = pages.iter().copied().flat_map(record).collect();
    assert!(bytes.len() > 2 * (4 << 20));
    let mut batch = RedoBatch::new(usize::MAX).with_grammar(Grammar::MySql);
    for start in [100, 200] {
        let mtr = Mtr { start: Lsn(start), end: Lsn(start + 10), bytes: &bytes, grammar: Grammar::MySql };
        batch.add(&mtr).expect("records");
    }
    for page_no in 1..128_u8 {
        let redo: Vec<(u64, usize)> = batch
            .redo(PageId::new(7, page_no.into()))
            .flat_map(|mtr| mtr.records().map(|record| (mtr.start.0, record.expect("a record"))).collect::<Vec<_>>())
            .map(|(start, record)| {
                let RedoRecord::Page(page) = record else { unreachable!("{record:?}") };
                assert!(page.bytes.ends_with(&[page_no; 100]));
                (start, page.bytes.len())
            })
            .collect();
        let expected: Vec<(u64, usize)> = [100, 200].iter().flat_map(|start| [(*start, LEN + 7); 5]).collect();
        assert_eq!(redo, expected, "page {page_no}");
    }
}
