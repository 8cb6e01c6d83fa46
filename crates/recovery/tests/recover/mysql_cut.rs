//! A MySQL log that ends within a mini-transaction, as about one crash in twenty leaves it.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use format::Lsn;
use format::checksum::crc32c;
use innokit_recovery::RecoverOptions;
use redo::block::{LOG_BLOCK_CHECKSUM, LOG_BLOCK_FIRST_REC_GROUP, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_SIZE, block_start};
use redo::mysql::mtr_reader::{MtrReader, advance};
use redo::mysql::{FORMAT_MANY_FILES, LOG_FILE_HDR_SIZE, LogFile, newest_checkpoint};
use redo::record::{FileRecord, RedoRecord};
use tempfile::TempDir;

use crate::mysql::{TELLS, run};
use crate::server::{Server, copy};

/// The files of a datadir's log, oldest first.
fn log_of(datadir: &Path) -> Vec<(PathBuf, Vec<u8>, LogFile)> {
    let entries = fs::read_dir(datadir.join("#innodb_redo")).expect("a log").flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries
        .filter(|path| !path.to_string_lossy().ends_with("_tmp"))
        .map(|path| {
            let bytes = fs::read(&path).expect("reads");
            let parsed = LogFile::parse(&bytes[..LOG_FILE_HDR_SIZE], bytes.len() as u64).expect("a log file");
            (path, bytes, parsed)
        })
        .collect();
    files.sort_by_key(|(_, _, parsed)| parsed.start_lsn);
    files
}

/// The last mini-transaction in which page changes follow an AUTO_INCREMENT counter: the counter, and the LSNs between which a log has the
/// counter but not all of the rest.
fn last_counter(files: &[(PathBuf, Vec<u8>, LogFile)]) -> (u64, Range<u64>) {
    let parsed: Vec<LogFile> = files.iter().map(|(_, _, parsed)| parsed.clone()).collect();
    let checkpoint = newest_checkpoint(&parsed).expect("a checkpoint").lsn;
    let mut reader = MtrReader::new(FORMAT_MANY_FILES, checkpoint, Vec::new());
    let mut last = None;
    for (_, bytes, parsed) in files {
        let from = parsed.offset_of(block_start(checkpoint.max(parsed.start_lsn)));
        let Some(from) = from.filter(|&from| from < bytes.len() as u64) else { continue };
        let mut input = &bytes[from as usize..];
        while let Some(mtr) = reader.next_mtr(&mut input) {
            let mut records = mtr.records();
            if let Some(Ok(RedoRecord::File(FileRecord::Table(state)))) = records.next()
                && let Some(counter) = state.auto_increment
                && records.position() < mtr.bytes.len()
            {
                let at = |len: usize| advance(mtr.start, len as u64).0;
                last = Some((counter, at(records.position())..at(mtr.bytes.len())));
            }
        }
    }
    last.expect("rows were inserted")
}

/// Ends the log at `lsn`: removes what follows, and reseals the last block.
fn end_log(files: Vec<(PathBuf, Vec<u8>, LogFile)>, lsn: u64) {
    for (path, mut bytes, parsed) in files {
        if parsed.start_lsn.0 > lsn {
            fs::remove_file(path).expect("removes");
            continue;
        }
        let place = parsed.offset_of(block_start(Lsn(lsn))).map_or(bytes.len(), |place| place as usize);
        if place >= bytes.len() {
            continue;
        }
        let len = lsn as usize % LOG_BLOCK_SIZE;
        bytes[place + len..].fill(0);
        let block = &mut bytes[place..place + LOG_BLOCK_SIZE];
        block[LOG_BLOCK_HDR_DATA_LEN..][..2].copy_from_slice(&(len as u16).to_be_bytes());
        let first = u16::from_be_bytes(block[LOG_BLOCK_FIRST_REC_GROUP..][..2].try_into().expect("2 bytes"));
        if usize::from(first) >= len {
            block[LOG_BLOCK_FIRST_REC_GROUP..][..2].fill(0);
        }
        let crc = crc32c(&block[..LOG_BLOCK_CHECKSUM]);
        block[LOG_BLOCK_CHECKSUM..].copy_from_slice(&crc.to_be_bytes());
        fs::write(path, bytes).expect("writes");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_counter_counts_though_the_log_ends_before_its_row() {
    // Every flushed page change is within what is left of the log.
    const OPTIONS: [&str; 6] = [
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-adaptive-flushing=OFF",
        "--innodb-idle-flush-pct=0",
        "--innodb-max-dirty-pages-pct=99",
        "--innodb-max-dirty-pages-pct-lwm=0",
        TELLS,
    ];
    let dir = TempDir::new().expect("a directory");
    let (crashed, ours, theirs) = (dir.path().join("crashed"), dir.path().join("ours"), dir.path().join("theirs"));
    let server = Server::start_kind("mysql", &crashed, &OPTIONS);
    server.run("CREATE DATABASE shop; CREATE TABLE shop.counted (id INT PRIMARY KEY AUTO_INCREMENT, a INT);");
    server.run(&"INSERT INTO shop.counted (a) VALUES (7);\n".repeat(150));
    server.kill();
    let whole = log_of(&crashed);
    let (counter, cuts) = last_counter(&whole);
    assert_eq!(counter, 150);
    for cut in [cuts.start, cuts.start + 1, cuts.end - 1] {
        end_log(log_of(&crashed), cut);
        copy(&crashed, &theirs);
        run(&crashed, RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() });
        for datadir in [&ours, &theirs] {
            server.lend_options(datadir);
            let server = Server::again_kind("mysql", datadir);
            assert_eq!(server.ask("SELECT COUNT(*) FROM shop.counted").trim(), "149", "{cut}: {}", datadir.display());
            let created = server.ask("SHOW CREATE TABLE shop.counted");
            assert!(created.contains("AUTO_INCREMENT=151"), "{cut}: {}: {created}", datadir.display());
            server.stop();
            fs::remove_dir_all(datadir).expect("removes");
        }
        for (path, bytes, _) in &whole {
            fs::write(path, bytes).expect("writes");
        }
    }
}
