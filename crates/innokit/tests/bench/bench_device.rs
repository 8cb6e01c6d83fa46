//! Small runs of `innokit bench device`, as `bench.rs` has them of the other benches.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail tests")]

use crate::bench_lab::{DEVICE, bench, dir, document, entries, is_rate, rows, text};

#[test]
fn a_search_ends_with_a_limit_and_everything_that_it_tried() {
    let dir = dir();
    let arguments = [&DEVICE[..], &["--json", "--order=sequential", "--io=buffered", "--threads=1"]].concat();
    let report = document(&bench(&arguments, dir.path()));
    assert_eq!(report["size"], 4 << 20);
    let limits = rows(&report, "limits");
    let accesses: Vec<_> = limits.iter().filter_map(|limit| limit["access"].as_str()).collect();
    assert_eq!(accesses, ["read", "write"]);
    for limit in limits {
        assert_eq!((&limit["setting"]["engine"], &limit["setting"]["block_size"]), (&"threads".into(), &65536.into()));
        is_rate(&limit["bytes_per_second"], 3);
        assert!(limit["latency"]["p50_us"].as_f64() > Some(0.0));
        let best = &limit["setting"]["depth"];
        let tried = rows(limit, "tried");
        assert!(tried.len() >= 3 && tried.iter().any(|one| &one["depth"] == best), "{limit}");
        let depths: Vec<_> = rows(limit, "by_depth").iter().filter_map(|one| one["depth"].as_u64()).collect();
        assert_eq!(depths, [1, 2, 4, 8, 16, 32, 64, 128]);
    }
    assert!(entries(dir.path()).is_empty(), "nothing is left behind");
}

#[test]
fn a_fixed_pattern_is_measured_as_it_is_and_without_the_rest() {
    let dir = dir();
    let fixed = ["--json", "--access=read", "--order=random", "--depth=2", "--threads=2"];
    let report = document(&bench(&[&DEVICE[..], &fixed].concat(), dir.path()));
    for limit in rows(&report, "limits") {
        let setting = &limit["setting"];
        assert_eq!(
            (&setting["depth"], &setting["threads"], &setting["block_size"]),
            (&2.into(), &2.into(), &65536.into())
        );
        assert_eq!((&limit["access"], &limit["order"]), (&"read".into(), &"random".into()));
    }
    assert!(rows(&report, "patterns").is_empty() && rows(&report, "writes").is_empty());
}

#[test]
fn every_engine_moves_every_byte() {
    for engine in ["threads", "libaio", "mmap", "uring"] {
        let dir = dir();
        let small = ["device", "--json", "--size=1M", "--seconds=5", "--io=buffered"];
        let fixed = ["--block-size=64K", "--depth=4", "--threads=2", "--engine", engine];
        let run = bench(&[&small[..], &fixed[..]].concat(), dir.path());
        if !run.status.success() {
            let words = String::from_utf8_lossy(&run.stderr);
            assert!(words.contains("does not work here"), "{engine}: {words}");
            continue;
        }
        let report = document(&run);
        let limits = rows(&report, "limits");
        assert_eq!(limits.len(), 4, "{engine}");
        for limit in limits {
            let setting = &limit["setting"];
            let depth = if engine == "mmap" { 1 } else { 4 };
            assert_eq!((&setting["engine"], &setting["depth"]), (&engine.into(), &depth.into()));
            is_rate(&limit["bytes_per_second"], 3);
        }
    }
}

#[test]
fn kinds_of_space_and_portions_are_written_and_the_text_says_what_was_cold() {
    let dir = dir();
    let run = bench(&["device", "--size=2M", "--seconds=0.002", "--io=buffered", "--order=sequential"], dir.path());
    let text = text(&run);
    for words in
        ["medians of 3 rounds", "Limits", "Patterns", "growing file", "fallocated", "recycled", "gathered", "cache    "]
    {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    // Not every file system supports these.
    for words in ["ZERO_RANGE", "O_DSYNC"] {
        assert!(text.contains(words) || text.contains("does not support it"), "{words} is missing in {text}");
    }
    let report = document(&bench(
        &[
            "device",
            "--json",
            "--size=8M",
            "--seconds=0.002",
            "--rounds=5",
            "--io=buffered",
            "--order=sequential",
            "--access=write",
        ],
        dir.path(),
    ));
    assert_eq!(report["rounds"], 5);
    rows(&report, "limits").iter().for_each(|limit| is_rate(&limit["bytes_per_second"], 5));
    let mapped: Vec<_> = rows(&report, "engines").iter().filter(|row| row["engine"] == "mmap").collect();
    assert_eq!((mapped.len(), &mapped[0]["depth"]), (1, &1.into()), "{report}");
    for row in rows(&report, "engines") {
        is_rate(&row["bytes_per_second"], 5);
        assert!(row["times_first"].as_f64() > Some(0.0), "{row}");
    }
    let of_kind = |kind: &str| rows(&report, "writes").iter().find(|row| row["kind"] == kind).cloned();
    for (kind, threads, bytes) in
        [("writers", 4, 8 << 20), ("files", 4, 8 << 20), ("synced", 1, 4 << 20), ("gathered", 1, 8 << 20)]
    {
        let row = of_kind(kind).expect(kind);
        assert_eq!((&row["threads"], &row["bytes"]), (&threads.into(), &bytes.into()), "{row}");
        is_rate(&row["bytes_per_second"], 5);
    }
    let direct = document(&bench(
        &["device", "--json", "--size=2M", "--seconds=0.002", "--io=direct", "--order=random", "--access=read"],
        dir.path(),
    ));
    // The first engine is what the others are compared with, and a mapped file has no direct I/O.
    let engines: Vec<_> = rows(&direct, "engines").iter().filter_map(|row| row["engine"].as_str()).collect();
    assert!(rows(&direct, "limits").is_empty() || engines.contains(&"threads"), "{engines:?}");
    assert!(!engines.contains(&"mmap"), "{engines:?}");
    let classic = rows(&direct, "patterns").iter().filter(|row| row["threads"] == 16 && row["depth"] == 1);
    assert_eq!(classic.count(), rows(&direct, "limits").len(), "unless the file system refuses direct I/O");
    assert!(entries(dir.path()).is_empty());
}
