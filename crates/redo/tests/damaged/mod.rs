//! Logs and pages with some bytes changed: any result but a panic.

use std::ops::Range;

use innokit_format::{Lsn, PageId, SpaceFormat};
use innokit_redo::apply::Replay;
use innokit_redo::record::{Grammar, Mtr};
use proptest::prelude::*;

/// Bytes of a page, and their new values.
pub type Places = Vec<(usize, u8)>;

/// A sequence of records, each with possibly one of its first `front` bytes changed, and changes to the first `page` bytes of a page.
pub fn log_and_places(
    records: Vec<Vec<u8>>,
    front: usize,
    count: Range<usize>,
    (page, places): (usize, Range<usize>),
) -> impl Strategy<Value = (Vec<u8>, Places)> {
    let record = (0..records.len(), proptest::option::of((0..front, any::<u8>())));
    let log = proptest::collection::vec(record, count).prop_map(move |chosen| {
        let changed = |(number, change): (usize, Option<(usize, u8)>)| {
            let mut record = records[number].clone();
            if let Some((at, value)) = change {
                let at = at % record.len();
                record[at] = value;
            }
            record
        };
        chosen.into_iter().flat_map(changed).collect()
    });
    (log, proptest::collection::vec((0..page, any::<u8>()), places))
}

/// Applies the log to the page with these changes. It must succeed or give an error with a message.
pub fn is_an_error_at_most(page: &mut [u8], id: PageId, format: &SpaceFormat, log: &[u8], places: Places) {
    for (at, value) in places {
        page[at] = value;
    }
    let mut replay = Replay::onto(page, id, format).expect("a page");
    let mtr = Mtr { start: Lsn(u64::MAX), end: Lsn(u64::MAX), bytes: log, grammar: Grammar::MySql };
    if let Err(error) = replay.apply(&mtr).and_then(|()| replay.finish()) {
        assert!(!error.to_string().is_empty());
    }
}
