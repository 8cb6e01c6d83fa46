//! Archives of MySQL's logs.

use std::path::PathBuf;
use std::{fs, io};

use format::Lsn;
use redo::block::{LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE};
use redo::mysql::copy::{LiveBlock, judge};
use redo::mysql::follow::agree;
use redo::mysql::{LOG_FILE_HDR_SIZE, LogFile};

use crate::backup_lab::Server;

/// The segments of an archive and where each starts, oldest first.
pub fn segments(server: &Server) -> Vec<(u64, PathBuf)> {
    super::segments(server)
}

/// The blocks in the server's log files, by LSN.
fn blocks_of(server: &Server) -> Vec<(u64, [u8; LOG_BLOCK_SIZE])> {
    let mut blocks = Vec::new();
    for (path, bytes) in log_files(server) {
        // A spare file may still hold old blocks; one never used has none.
        let is_aside = path.to_string_lossy().ends_with("_tmp");
        let Ok(file) = LogFile::parse(&bytes, bytes.len() as u64) else {
            assert!(is_aside, "{}", path.display());
            continue;
        };
        let of_file = bytes[LOG_FILE_HDR_SIZE..].as_chunks::<LOG_BLOCK_SIZE>().0;
        let of_file = (file.start_lsn.0..).step_by(LOG_BLOCK_SIZE).zip(of_file.iter().copied());
        blocks.extend(of_file.filter(|(lsn, block)| !is_aside || is_sound(*lsn, block)));
    }
    blocks.sort_unstable();
    blocks
}

fn is_sound(lsn: u64, block: &[u8; LOG_BLOCK_SIZE]) -> bool {
    matches!(judge(block, Lsn(lsn), &[]), LiveBlock::Sound(_))
}

/// The log files as they are now. The server may rename one after it was listed: then all are listed again.
fn log_files(server: &Server) -> Vec<(PathBuf, Vec<u8>)> {
    loop {
        let listed = fs::read_dir(server.data().join("#innodb_redo")).expect("read");
        let read = listed.map(|entry| {
            let path = entry.expect("one").path();
            fs::read(&path).map(|bytes| (path, bytes))
        });
        match read.collect::<io::Result<_>>() {
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => {}
            files => return files.expect("read"),
        }
    }
}

/// The LSN of the newest block with redo in the server's log. A log that ends with a full block has an empty one after it, which says nothing.
pub fn newest_block(server: &Server) -> Option<u64> {
    let has_redo = |lsn: u64, block: &[u8; LOG_BLOCK_SIZE]| match judge(block, Lsn(lsn), &[]) {
        LiveBlock::Sound(end) => end.0 > lsn + LOG_BLOCK_HDR_SIZE as u64,
        _ => false,
    };
    blocks_of(server).into_iter().rev().find(|(lsn, block)| has_redo(*lsn, block)).map(|(lsn, _)| lsn)
}

/// Asserts that the archived blocks that the server's log still holds are the same in both. Returns the LSN of the last one.
pub fn assert_same_blocks(server: &Server) -> Option<u64> {
    let (of_server, mut last) = (blocks_of(server), None);
    for (start, path) in segments(server) {
        let bytes = fs::read(&path).expect("read");
        for (lsn, block) in
            (start..).step_by(LOG_BLOCK_SIZE).zip(bytes[LOG_FILE_HDR_SIZE..].as_chunks::<LOG_BLOCK_SIZE>().0)
        {
            let LiveBlock::Sound(end) = judge(block, Lsn(lsn), &[]) else { break };
            let Ok(at) = of_server.binary_search_by_key(&lsn, |(lsn, _)| *lsn) else { continue };
            let theirs = &of_server[at].1;
            match judge(theirs, Lsn(lsn), &[]) {
                LiveBlock::Sound(to) => {
                    assert!(
                        to >= end && agree(block, theirs, Lsn(lsn)) != Some(false),
                        "{}: LSN {lsn}",
                        path.display()
                    );
                    last = Some(lsn);
                }
                other => panic!("{}: LSN {lsn}: the server has {other:?}", path.display()),
            }
        }
    }
    last
}
