//! The stream container over arbitrary bytes: no panic, and the same events however the bytes are cut.
//!
//! The first byte says how long the pieces are; bit 7 puts the chunks' magic wherever the rest has a byte 0xFF, so that chunks
//! are reached; lengths and offsets have no such byte.
#![no_main]

use logs::xbstream::{Error, Event, MAGIC, Parser, Unfinished};
use libfuzzer_sys::fuzz_target;

/// What the parser said, without the bytes: how often, where members ended, how many bytes went to files.
#[derive(Debug, Default, PartialEq)]
struct Said {
    members: Vec<Vec<u8>>,
    ends: Vec<(u64, u64)>,
    bad_chunks: Vec<(u64, u32)>,
    misplaced: Vec<u64>,
    data: u64,
    skipped: u128,
}

fn read(stream: &[u8], piece: usize) -> (Said, Result<Vec<Unfinished>, Error>) {
    let mut parser = Parser::new();
    let mut said = Said::default();
    for mut piece in stream.chunks(piece) {
        loop {
            match parser.next_event(&mut piece) {
                Ok(None) => break,
                Ok(Some(event)) => note(&mut said, event),
                Err(error) => {
                    assert_eq!(parser.finish(), Err(error.clone()), "an error stays");
                    return (said, Err(error));
                }
            }
        }
        assert!(piece.is_empty(), "all input is taken before more is asked for");
    }
    assert!(said.data <= stream.len() as u64, "no bytes out of nothing");
    (said, parser.finish())
}

fn note(said: &mut Said, event: Event<'_>) {
    match event {
        Event::Member { path, .. } => said.members.push(path.into_vec()),
        Event::Data { bytes, .. } => said.data += bytes.len() as u64,
        Event::Skip { len, .. } => said.skipped += u128::from(len),
        Event::Misplaced { position, .. } => said.misplaced.push(position),
        Event::BadChunk { position, stored, computed, .. } => {
            assert_ne!(stored, computed);
            said.bad_chunks.push((position, stored));
        }
        Event::End { id, len } => said.ends.push((id.0, len)),
        Event::Rename { .. } | Event::Remove { .. } => {}
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&how, rest)) = input.split_first() else { return };
    let mut stream = Vec::new();
    for byte in rest {
        match byte {
            0xFF if how & 0x80 != 0 => stream.extend(MAGIC),
            _ => stream.push(*byte),
        }
    }
    let whole = read(&stream, stream.len().max(1));
    assert_eq!(whole, read(&stream, usize::from(how & 0x7F) + 1), "however the bytes are cut");
});
