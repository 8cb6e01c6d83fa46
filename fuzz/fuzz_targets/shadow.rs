//! Shadow files over arbitrary bytes: no panic, nothing is written to a file that was not resolved, and a shadow that was replayed is empty.
//!
//! The first byte: bit 0 gives each batch the tag of the run and the checksums that it must have, so that names and pieces are reached.
#![no_main]

use std::fs::File;
use std::io::{Read, Seek, Write};

use crc_fast::{CrcAlgorithm, checksum};
use flow::rewrite::{RewriteTarget, Replayed, replay};
use flow::{Engine, FileHandle, FileId};
use libfuzzer_sys::fuzz_target;

const TAG: u64 = 0x1234;
const HEADER: usize = 64;
/// Lengths of files are bounded by the test: a piece may be anywhere.
const OFFSET_MAX: u64 = 1 << 20;

fn crc32c(bytes: &[u8]) -> [u8; 4] {
    (checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32).to_be_bytes()
}

fn number(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 8).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes)) as usize
}

/// Seals the batches of a chain.
fn seal(bytes: &mut [u8]) {
    let (mut at, mut batch) = (0, 0_u64);
    while let Some(header) = bytes.get_mut(at..at + HEADER) {
        header[..8].copy_from_slice(b"INNOKRW1");
        header[8..16].copy_from_slice(&TAG.to_be_bytes());
        header[16..24].copy_from_slice(&7_u64.to_be_bytes());
        header[24..32].copy_from_slice(&batch.to_be_bytes());
        let len = number(header, 40).saturating_add(number(header, 48));
        let body = bytes.get(at + HEADER..).and_then(|rest| rest.get(..len)).map(crc32c);
        let header = &mut bytes[at..at + HEADER];
        header[56..60].copy_from_slice(&body.unwrap_or_default());
        let own = crc32c(&header[..60]);
        header[60..].copy_from_slice(&own);
        let Some(next) = len.checked_add(HEADER + 4095) else { return };
        at = match at.checked_add(next / 4096 * 4096) {
            Some(next) => next,
            None => return,
        };
        batch += 1;
    }
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = File::from(rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::empty()).expect("memory"));
    file.write_all(bytes).expect("memory");
    file
}

fn target(file: &File, id: u32) -> RewriteTarget {
    let handle = FileHandle::of_file(file.try_clone().expect("a handle"), false);
    RewriteTarget { file: FileId(id), handle, name: b"f".to_vec() }
}

fuzz_target!(|input: &[u8]| {
    let Some((&how, rest)) = input.split_first() else { return };
    let mut bytes = rest.to_vec();
    if how & 1 == 1 {
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        seal(&mut bytes);
    }
    let (shadow, known) = (file_of(&bytes), file_of(&[]));
    rustix::fs::ftruncate(&known, OFFSET_MAX).expect("memory");
    // Nothing beyond its length is written, as on a full disk.
    rustix::fs::fcntl_add_seals(&known, rustix::fs::SealFlags::GROW).ok();
    let engine = Engine::Threads.first_working(std::env::temp_dir().as_path());
    let mut asked = 0;
    let replayed = replay(engine, &target(&shadow, u32::MAX), TAG, |name| {
        asked += 1;
        name.first().is_some_and(|byte| byte % 2 == 0).then(|| target(&known, asked))
    });
    if let Ok(Replayed::Pieces(_)) = replayed {
        assert!(asked > 0, "pieces of no file");
        let mut left = [0; 4096];
        (&shadow).rewind().and_then(|()| (&shadow).read_exact(&mut left)).expect("memory");
        assert!(number(&left, 40) == 0 && number(&left, 48) == 0, "a shadow that was replayed still has pieces");
    }
});
