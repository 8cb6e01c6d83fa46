//! The memory for one large value, in every format, is what the documentation promises.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{innokit, repository};
use crate::rows_lab::Server;

/// Bytes of the value. The promises are about a gigabyte; more would only take longer.
const VALUE: u64 = 64 << 20;
/// What a peak may be larger by: the windows in which the pages of the value are read, and what the allocator keeps.
const SLACK_MIB: f64 = 32.0;

/// The format, what a value of 1 GB takes, and the words of the documentation.
const PROMISES: [(&[&str], f64, &str, &str); 7] = [
    (&["checksum"], 1.0, "docs/checksum.md", "a value of 1 GB takes 1 GB"),
    (&["export", "--format", "csv"], 2.1, "docs/export.md", "takes 2.1 GB as CSV or TSV"),
    (&["export", "--format", "tsv"], 2.1, "docs/export.md", "takes 2.1 GB as CSV or TSV"),
    (&["export", "--format", "jsonl"], 2.5, "docs/export.md", "2.5 GB as JSON lines"),
    (&["export", "--format", "sql"], 3.2, "docs/export.md", "3.2 GB as SQL"),
    (&["export", "--format", "arrow"], 2.1, "docs/arrow.md", "2.1 GB as Arrow"),
    (&["export", "--format", "parquet"], 5.3, "docs/arrow.md", "takes 5.3 GB as Parquet"),
];

/// Runs the command, and returns the most memory that it had, MiB. The kernel keeps the peak, so looking from time to time is enough.
fn peak_mib(words: &[&str], path: &Path) -> f64 {
    let mut child = innokit().arg("table").args(words).arg(path).stdout(Stdio::null()).spawn().expect("innokit runs");
    let mut peak = 0;
    loop {
        let ended = child.try_wait().expect("the process is ours");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak =
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).map_or(peak, |kib: u32| peak.max(kib));
        if let Some(ended) = ended {
            assert!(ended.success(), "{words:?}");
            return f64::from(peak) / 1024.0;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn one_large_value_takes_the_memory_that_the_documentation_says() {
    let server = Server::empty("mariadb");
    server.sql("SET GLOBAL max_allowed_packet = 1073741824;");
    server.sql(&format!(
        "CREATE DATABASE d; USE d;
        CREATE TABLE small (id INT PRIMARY KEY, v LONGBLOB); INSERT INTO small VALUES (1, 'one');
        CREATE TABLE large LIKE small; INSERT INTO large VALUES (1, REPEAT(RANDOM_BYTES(1024), {}));",
        VALUE >> 10
    ));
    server.stop();
    let out = server.dir.path().join("out");
    for (words, factor, docs, promise) in PROMISES {
        let text = std::fs::read_to_string(repository().join(docs)).expect("the documentation");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(promise), "{docs} says nothing of \"{promise}\"");
        let to = ["-o", out.to_str().expect("a path")];
        let words = [words, if words.contains(&"export") { &to[..] } else { &[] }].concat();
        let [small, large] = ["small", "large"].map(|name| {
            let peak = peak_mib(&words, &server.datadir().join(format!("d/{name}.ibd")));
            drop(std::fs::remove_file(&out));
            peak
        });
        let most = small + factor * (VALUE >> 20) as f64 + SLACK_MIB;
        assert!(large > (VALUE >> 20) as f64, "{words:?}: {large} MiB: the value was not read");
        assert!(
            large <= most,
            "{words:?}: {small} MiB for a small value, {large} MiB for the large one: more than {most}"
        );
    }
}
