//! Tar archives over arbitrary bytes: no panic, and the same events however the bytes are cut.
//!
//! The first byte says how long the pieces are; bit 7 gives each block that calls itself a header the checksum that it must have, so that
//! members are reached.
#![no_main]

use logs::tar::{BLOCK, Error, Event, Parser};
use libfuzzer_sys::fuzz_target;

/// What the parser said: members by their paths and whether they are sparse, directories, what else there is, and bytes in all.
#[derive(Debug, Default, PartialEq)]
struct Said {
    members: Vec<(Vec<u8>, bool)>,
    directories: Vec<Vec<u8>>,
    others: Vec<Vec<u8>>,
    ends: u64,
    data: u64,
}

fn read(archive: &[u8], piece: usize) -> (Said, Result<bool, Error>) {
    let (mut parser, mut said) = (Parser::new(), Said::default());
    for mut piece in archive.chunks(piece) {
        loop {
            match parser.next_event(&mut piece) {
                Ok(None) => break,
                Ok(Some(Event::Member { path, is_sparse })) => said.members.push((path.into_vec(), is_sparse)),
                Ok(Some(Event::Data(bytes))) => said.data += bytes.len() as u64,
                Ok(Some(Event::End)) => said.ends += 1,
                Ok(Some(Event::Directory { path })) => said.directories.push(path.into_vec()),
                Ok(Some(Event::Other { path })) => said.others.push(path.into_vec()),
                Err(error) => return (said, Err(error)),
            }
        }
        assert!(piece.is_empty(), "all input is taken before more is asked for");
    }
    assert!(said.data <= archive.len() as u64, "no bytes out of nothing");
    assert!(said.ends <= said.members.len() as u64, "nothing ends that did not begin");
    (said, parser.finish())
}

/// The checksum of a header: the sum of its bytes, those of the checksum itself counted as spaces.
fn seal(block: &mut [u8]) {
    let Some(field) = block.get_mut(148..156) else { return };
    field.fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fuzz_target!(|input: &[u8]| {
    let Some((&how, rest)) = input.split_first() else { return };
    let mut archive = rest.to_vec();
    if how & 0x80 != 0 {
        archive.chunks_exact_mut(BLOCK).filter(|block| block[257..].starts_with(b"ustar")).for_each(seal);
    }
    let whole = read(&archive, archive.len().max(1));
    assert_eq!(whole, read(&archive, usize::from(how & 0x7F) + 1), "however the bytes are cut");
});
