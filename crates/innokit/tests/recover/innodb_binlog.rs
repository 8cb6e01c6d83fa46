//! A redo log with changes of the binary log within InnoDB, as MariaDB 12.3 writes it: never taken for a tablespace's.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::common::{Dir, all_datadirs, copy, innokit};

/// Where the log's content begins in `ib_logfile0`.
const LOG_START: u64 = 12_288;

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn it_is_refused_in_its_own_words() {
    let dir = Dir::new();
    let crashed = dir.path().join("crashed");
    copy(&all_datadirs().join("mariadb-16k-crashed"), &crashed);
    let info = innokit().args(["redo", "info", "--json"]).arg(&crashed).output().expect("innokit runs");
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).expect("JSON");
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let (end, first) = (number(&info["end_lsn"]), number(&info["files"][0]["first_lsn"]));
    let capacity = number(&info["capacity"]);
    // WRITE of four bytes at offset 0 of page 1 of the space 0xfffffff0.
    let record = [0x3b, 0xf0, 0xef, 0xdf, 0xbf, 0x70, 0x01, 0x00, 0x41, 0x01, 0x00, 0x00];
    let lap = (end + record.len() as u64 - first) / capacity;
    let sum = format::checksum::crc32c(&record);
    let bytes = [&record[..], &[u8::from(lap.is_multiple_of(2))], &sum.to_be_bytes()].concat();
    let log = File::options().write(true).open(crashed.join("ib_logfile0")).expect("opens");
    for (lsn, byte) in (end..).zip(&bytes) {
        log.write_all_at(&[*byte], LOG_START + (lsn - first) % capacity).expect("written");
    }
    let target = dir.path().join("new");
    let run = innokit().arg("recover").arg(&crashed).arg("--to").arg(&target).output().expect("innokit runs");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{errors}");
    assert!(errors.contains("the redo log changes the binary log within InnoDB (binlog-*.ibb"), "{errors}");
    assert!(!target.exists(), "nothing is made");
}
