//! Records of MariaDB's redo log from arbitrary bytes: no panic, records lie one behind the other, and those of one page read the
//! same by themselves as among the others, which is how recovery keeps them; and each is about what it is read as.
#![no_main]

use std::collections::BTreeMap;

use redo::record::{Change, RedoRecord, records, subjects};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (mut all, mut about, mut place) = (records(input), subjects(input), 0);
    while let Some(Ok(record)) = all.next() {
        let from = std::mem::replace(&mut place, all.position());
        assert_eq!(about.next(), Some((record.subject(), from..place)));
    }
    let mut at = 0;
    let mut pages: BTreeMap<_, (Vec<u8>, Vec<Change<'_>>)> = BTreeMap::new();
    for record in records(input) {
        match record {
            Ok(RedoRecord::Page(record)) => {
                at += record.bytes.len();
                assert!(at <= input.len());
                let (bytes, changes) = pages.entry(record.id).or_default();
                bytes.extend_from_slice(record.bytes);
                changes.push(record.change);
            }
            Ok(RedoRecord::File(record)) => assert!(record.name().starts_with("FILE_")),
            Err(error) => assert!(error.at <= input.len() && !error.to_string().is_empty()),
        }
    }
    for (id, (bytes, changes)) in &pages {
        let alone: Vec<Change<'_>> = records(bytes)
            .map(|record| match record {
                Ok(RedoRecord::Page(record)) if record.id == *id => record.change,
                other => panic!("{id}: {other:?}"),
            })
            .collect();
        assert_eq!(&alone, changes, "{id}");
    }
});
