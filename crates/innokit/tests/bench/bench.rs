//! Small runs of `innokit bench`. They assert what holds on every machine, never a speed: the shape of the documents, counts, which files
//! are removed and which stay.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail tests")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench_lab::{DEVICE, bench, dir, document, entries, is_rate, rows, text};
use crate::common::{fixture, innokit};
use serde_json::Value;

/// A real tablespace, extended by never-used pages of zeros as a server would.
fn tablespace(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("sample.ibd");
    fs::write(&path, fixture("mysql-9.7/dynamic-16k.ibd")).expect("write");
    path
}

#[test]
fn every_idea_every_way_and_every_peer_has_a_share_of_the_limit() {
    let dir = dir();
    let file = tablespace(dir.path());
    let before = fs::read(&file).expect("read");
    let options = ["check", "--json", "--rounds=1", "--seconds=0.005", "--no-peers", "--peer", "reading=cat"];
    let report = document(&bench(&options, &file));
    assert_eq!(report["bytes"], before.len());
    assert_eq!((&report["counts"]["pages"], &report["counts"]["corrupt"]), (&(before.len() / 16384).into(), &0.into()));
    is_rate(&report["limit"]["bytes_per_second"], 1);
    for list in ["ideas", "table", "peers"] {
        assert!(!rows(&report, list).is_empty(), "{list}");
        for row in rows(&report, list) {
            is_rate(&row["bytes_per_second"], 1);
            is_rate(&row["share_of_limit"], 1);
        }
    }
    assert_eq!(rows(&report, "peers")[0]["name"], "reading");
    let ideas: Vec<_> = rows(&report, "ideas").iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!((ideas[0], ideas[ideas.len() - 1]), ("a page at a time, one thread", "innokit check as it comes"));
    assert_eq!(fs::read(&file).expect("read"), before, "the file is read only");
    assert_eq!(entries(dir.path()), ["sample.ibd"]);
}

#[test]
fn rows_say_what_was_used_and_what_was_asked_for() {
    let dir = dir();
    let file = tablespace(dir.path());
    let lists = ["--workers=2,16", "--block-sizes=64K,4M", "--depth=8", "--memory=64M,1G"];
    let options = [&["check", "--rounds=1", "--seconds=0.005", "--no-peers"], &lists[..]].concat();
    let report = document(&bench(&[&options[..], &["--json"]].concat(), &file));
    let table = rows(&report, "table");
    assert!(table.len() == 16 || table.len() == 8, "a file system that refuses direct I/O has half of them");
    let blocks = |size: u64| report["bytes"].as_u64().expect("a number").div_ceil(size);
    for row in table {
        let number = |name: &str| row[name].as_u64().expect("a number");
        let (asked, memory) =
            ((number("workers_asked"), number("block_size_asked"), number("depth_asked")), number("memory"));
        let expected = match (asked, memory >> 20) {
            ((16, 4_194_304, 8), 64) => (1 << 20, 2),
            ((2, 4_194_304, 8), 64) => (4 << 20, 7),
            _ => (asked.1, 8),
        };
        assert_eq!((number("block_size"), number("depth")), expected, "{row}");
        assert_eq!(number("workers"), asked.0.min(blocks(number("block_size"))), "no more workers than blocks: {row}");
        assert!(number("block_size") * number("depth") * asked.0 <= memory, "{row}");
    }
    let text = text(&bench(&options, &file));
    assert!(text.contains("16 x 4M x 8 in 64M"), "{text}");
    let refused = bench(&["check", "--block-sizes=16K"], &file);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("multiple of 64 KiB"), "{refused:?}");
}

#[test]
fn one_simulated_device_is_described_the_same_way_to_every_bench() {
    let dir = dir();
    let file = scattered(dir.path());
    let device = ["--simulated=cloud", "--latency=1", "--width=8", "--bandwidth=1M", "--sync-per-gib=3", "--json"];
    let described = |simulated: &Value| {
        let of = |name: &str| simulated[name].as_f64().expect("a number");
        (of("latency_us"), of("parallel"), of("bandwidth"), of("sync_us"), of("sync_us_per_gib"))
    };
    let check =
        [&["check", "--rounds=1", "--seconds=0.005", "--no-peers", "--workers=1", "--block-sizes=64K"], &device[..]];
    let report = document(&bench(&check.concat(), &file));
    assert_eq!(described(&report["simulated"]), (1000.0, 8.0, 1_048_576.0, 10_000.0, 3e6));
    let clocked = rows(&report["simulated"], "rows");
    // The bandwidth is the limit: 1 MiB/s for any request size. With one request at a time, each also costs its latency.
    let (bytes, requests) =
        (report["bytes"].as_f64().expect("bytes"), clocked[0]["requests"].as_f64().expect("requests"));
    let seconds: Vec<f64> = clocked.iter().filter_map(|row| row["seconds"].as_f64()).collect();
    assert!((seconds[0] - (bytes / 1_048_576.0 + requests * 0.001)).abs() < 0.01, "{seconds:?}");
    let settings: Vec<_> = clocked.iter().map(|row| (row["block_size"].as_u64(), row["depth"].as_u64())).collect();
    let expected =
        [(64 << 10, 1), (1 << 20, 1), (1 << 20, 8), (64 << 10, 8)].map(|(block, depth)| (Some(block), Some(depth)));
    assert_eq!(settings, expected, "step by step, then what was asked for");
    assert!(seconds[..3].windows(2).all(|pair| pair[1] <= pair[0]), "{seconds:?}");
    let scan = [&["scan", "--rounds=1", "--index=a_b"], &device[..]].concat();
    let report = document(&bench(&scan, &file));
    assert_eq!(described(&report["indexes"][0]["simulated"]), (1000.0, 8.0, 1_048_576.0, 10_000.0, 3e6));
    let none = document(&bench(&["scan", "--rounds=1", "--index=a_b", "--simulated=none", "--json"], &file));
    assert!(none["indexes"][0]["simulated"].is_null());
}

#[test]
fn the_classic_table_has_eight_rows_and_the_parts_of_the_time_add_up() {
    let dir = dir();
    let file = tablespace(dir.path());
    let options = ["check", "--rounds=1", "--seconds=0.005", "--no-peers", "--table=classic"];
    let report = document(&bench(&[&options[..], &["--json"]].concat(), &file));
    assert!(rows(&report, "table").is_empty());
    let classic = rows(&report, "classic");
    assert!(classic.len() == 16 || classic.len() == 8, "a file system that refuses direct I/O has half of them");
    for row in classic {
        is_rate(&row["bytes_per_second"], 1);
        assert!(row["block_size"].as_u64() <= report["bytes"].as_u64(), "no piece is longer than the file: {row}");
    }
    let threads: Vec<_> = classic.iter().filter_map(|row| row["workers"].as_u64()).collect();
    assert_eq!(&threads[..4], [1, 16, 1, 16]);
    let time = rows(&report, "time");
    assert!(time.len() >= 2, "{report}");
    for row in time {
        let share = |name: &str| row[name].as_f64().expect("a number");
        let sum = share("waiting") + share("copying") + share("checksums");
        assert!((sum - 1.0).abs() < 1e-6 && share("checksums") > 0.0, "one round, so they add up: {row}");
    }
    let text = text(&bench(&options, &file));
    assert!(text.contains("16 threads") && text.contains("Where the workers' time goes"), "{text}");
}

#[test]
fn a_peer_that_cannot_do_the_work_is_named_and_the_others_are_measured() {
    let dir = dir();
    let options = ["check", "--rounds=1", "--seconds=0.005", "--no-peers", "--peer", "broken=ls --no-such-option"];
    let text = text(&bench(&options, &tablespace(dir.path())));
    assert!(text.contains("broken was not measured") && text.contains("Idea by idea"), "{text}");
}

#[test]
fn what_is_no_tablespace_is_not_measured() {
    let dir = dir();
    let path = dir.path().join("notes.txt");
    fs::write(&path, "not a page in here").expect("write");
    let run = bench(&["check", "--rounds=1", "--seconds=0.005", "--no-peers"], &path);
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("tablespace"), "{run:?}");
}

/// A server's table whose leaves are scattered over the file.
fn scattered(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("scattered.ibd");
    fs::write(&path, fixture("scattered/scattered-16k.ibd")).expect("write");
    path
}

#[test]
fn every_read_ahead_scans_every_page_once_in_the_requests_that_it_stands_for() {
    let dir = dir();
    let file = scattered(dir.path());
    let report = document(&bench(&["scan", "--json", "--rounds=2", "--simulate=0.5ms"], &file));
    let indexes = rows(&report, "indexes");
    let names: Vec<_> = indexes.iter().filter_map(|index| index["name"].as_str()).collect();
    assert_eq!(names, ["PRIMARY", "a_b"]);
    for index in indexes {
        assert_eq!(index["records"], 10_000);
        let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
        let pages = number(index, "pages");
        let measured = rows(index, "rows");
        assert!(measured.len() == 12 || measured.len() == 6, "a file system that refuses direct I/O has half of them");
        for row in measured {
            is_rate(&row["bytes_per_second"], 2);
            is_rate(&row["share_of_best"], 2);
            let one_by_one = matches!(row["policy"].as_str(), Some("none" | "linear"));
            if matches!(row["policy"].as_str(), Some("random" | "both")) {
                assert!(number(row, "bytes") > pages * 16384, "pages of other indexes too: {row}");
            } else {
                assert_eq!(number(row, "bytes"), pages * 16384, "each page once: {row}");
                assert_eq!(number(row, "requests") == pages, one_by_one, "{row}");
            }
            assert!(!rows(row, "over_time").is_empty());
            if row["way"] == "direct" {
                assert_eq!(number(row, "in_flight_max") == 1, one_by_one, "{row}");
            }
        }
        let simulated = rows(&index["simulated"], "rows");
        let policies: Vec<_> = simulated.iter().filter_map(|row| row["policy"].as_str()).collect();
        assert_eq!(policies, ["none", "linear", "random", "both", "logical", "file_order"]);
        assert!(simulated[4]["times_none"].as_f64() >= Some(3.0), "{index}");
    }
    assert_eq!(entries(dir.path()), ["scattered.ibd"], "nothing is left behind");
}

#[test]
fn one_index_is_scanned_if_named_and_the_text_and_the_chart_say_what_it_is() {
    let dir = dir();
    let (file, target) = (scattered(dir.path()), dir.path().join("scan.svg"));
    let chart = target.to_str().expect("UTF-8");
    let text = text(&bench(&["scan", "--rounds=1", "--index=a_b", "--simulate=0", "--chart", chart], &file));
    for words in ["cache    ", "Index a_b of fx.scattered", "logical, file order", "10,000 records"] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    assert!(!text.contains("PRIMARY") && !text.contains("simulated"), "{text}");
    let svg = fs::read_to_string(&target).expect("drawn");
    roxmltree::Document::parse(&svg).expect("XML");
    assert!(svg.contains("buffered: rate over the run") && svg.contains("buffered: requests over the run"));
    let none = bench(&["scan", "--rounds=1", "--index=nobody"], &file);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("there are: SDI, PRIMARY, a_b"), "{none:?}");
}

#[test]
fn an_aged_table_is_made_scanned_and_removed() {
    let dir = dir();
    let report = document(&bench(&["scan", "--aged=16M", "--rounds=1", "--json"], dir.path()));
    let aged = &report["aged"];
    let number = |value: &Value, name: &str| value[name].as_u64().expect("a number");
    let index = &rows(&report, "indexes")[0];
    assert_eq!(index["table"], "bench.aged");
    let left = number(aged, "inserted") - number(aged, "deleted") + number(aged, "appended");
    assert_eq!((number(index, "records"), number(index, "leaves")), (left, number(aged, "leaves")));
    assert_eq!((number(&report, "pool"), number(aged, "rounds")), (128 << 20, 3));
    let simulated = rows(&index["simulated"], "rows");
    let seconds: Vec<_> = simulated.iter().filter_map(|row| row["seconds"].as_f64()).collect();
    let [none, linear, random, both, logical, _] = seconds[..] else { panic!("six policies: {seconds:?}") };
    assert!(linear < none && random < linear && both < random && logical < both, "{seconds:?}");
    // A fixed table and a simulated clock, so the figures are those of the guide on every machine.
    let guide = fs::read_to_string(crate::common::repository().join("docs/bench.md")).expect("the guide");
    let names = ["none", "linear", "random", "linear and random", "logical", "logical, file order"];
    for (name, row) in names.iter().zip(simulated) {
        let requests = number(row, "requests");
        let grouped =
            if requests < 1000 { requests.to_string() } else { format!("{},{:03}", requests / 1000, requests % 1000) };
        let line = format!("| {name} | {grouped} | {} |", number(row, "in_flight_max"));
        assert!(guide.contains(&line), "docs/bench.md does not say {line}");
    }
    let options = ["scan", "--aged=8M", "--rounds=1", "--pool=5M"];
    let text = text(&bench(&options, dir.path()));
    assert!(text.contains("rows inserted in key order") && text.contains("servers' buffer pool 5M"), "{text}");
    assert_eq!(entries(dir.path()), [""; 0], "nothing is left behind");
    let small = bench(&["scan", "--aged=8M", "--pool=4M"], dir.path());
    assert_eq!(small.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&small.stderr).contains("at least 5 MiB"), "{small:?}");
}

const LOG: [&str; 6] = ["log", "--size=4M", "--seconds=0.02", "--rounds=1", "--callers=1,4", "--scattered=2000"];

#[test]
fn logs_are_measured_on_every_ground_and_with_every_number_of_callers() {
    let dir = dir();
    let report = document(&bench(&[&LOG[..], &["--json"]].concat(), dir.path()));
    let one = rows(&report, "one_caller");
    let of = |method: &str, ground: &str| {
        let row = one.iter().find(|row| row["method"] == method && row["ground"] == ground);
        row.unwrap_or_else(|| panic!("no row {method} on {ground}"))
    };
    for ground in ["growing", "fallocated", "zeroed", "recycled"] {
        for method in ["naive", "zero_fill", "whole", "dsync"] {
            let row = of(method, ground);
            is_rate(&row["commits_per_second"], 1);
            assert_eq!(row["commits_per_group"], 1.0, "one caller shares with nobody");
        }
    }
    is_rate(&of("bare_loop", "recycled")["commits_per_second"], 1);
    let callers = rows(&report, "callers");
    assert!(!callers.is_empty() && callers.iter().all(|row| row["callers"] == 4 && row["ground"] == "recycled"));
    for ratio in ["recycled_to_growing", "zero_fill_to_naive", "whole_to_naive"] {
        assert!(report["ratios"][ratio].as_f64() > Some(0.0), "{ratio}");
    }
    let hidden: Vec<_> = rows(&report["simulated"], "commits").iter().map(|row| row["hidden_reads"].as_u64()).collect();
    assert_eq!(hidden, [Some(128), Some(0), Some(0)], "one for every eight of 1024 naive commits, and none for ours");
    let scattered = rows(&report["simulated"], "scattered");
    assert!(scattered.iter().all(|row| row["writes"] == 2000) && scattered[2]["syncs"] == 1, "{scattered:?}");
    let pairs = rows(&report, "pairs");
    let paddings: Vec<_> = pairs.iter().map(|row| row["padding"].to_string()).collect();
    let block = report["storage"]["file_system_block"].as_u64().expect("a number");
    for padding in ["{\"ahead\":512}", &format!("{{\"ahead\":{block}}}"), "{\"ahead\":65536}", "\"whole_block\""] {
        assert!(paddings.iter().any(|one| one == padding), "{padding} is not among {paddings:?}");
    }
    let calls: Vec<_> = pairs.iter().map(|row| (row["call"].as_str(), row["sync"].as_str())).collect();
    for call in ["pwrite", "write"] {
        for sync in ["fsync", "fdatasync"] {
            assert!(calls.contains(&(Some(call), Some(sync))), "{call} and {sync} are not among {calls:?}");
        }
    }
    for row in pairs {
        is_rate(&row["gain"], 1);
        for side in ["naive", "filled"] {
            assert!(row[side]["commits_per_second"].as_f64() > Some(0.0), "{row}");
        }
    }
    assert!(entries(dir.path()).is_empty(), "nothing is left behind");
}

/// Says that this machine cannot show what the test is about. It writes to standard error directly, because the harness hides what passing
/// tests print.
fn not_run(what: &str, report: &Value) {
    let (storage, cache) = (&report["storage"], &report["cache"]);
    let line = format!(
        "not run: {what}: the build must lie on ext4 or xfs with blocks of 4096 bytes, on a system that counts \
        reads and empties its page cache; here: {storage}, cold by {cache}\n"
    );
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
}

/// The kernel counts reads for this process alone. But if memory pressure evicts pages of its program, they are read again, so it may take
/// several tries to see none. Without such counts, or if the space cannot be made cold, there is nothing to see.
#[test]
fn naive_commits_read_a_block_for_every_eight_and_zero_filled_ones_none() {
    const TRIES: usize = 5;
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let dir = dir();
        let report = document(&bench(
            &["log", "--json", "--size=4M", "--seconds=0.05", "--rounds=1", "--callers=1"],
            dir.path(),
        ));
        let reads = |method: &str| {
            let rows = rows(&report, "one_caller").iter();
            let row =
                rows.filter(|row| row["method"] == method).find(|row| row["ground"] == "recycled").expect("is there");
            row["per_commit"]["own_reads"].as_f64()
        };
        let is_disk = matches!(report["storage"]["file_system"].as_str(), Some("ext4" | "xfs"));
        let (true, Some(naive), Some(ours)) =
            (is_disk && report["cache"] == "file", reads("naive"), reads("zero_fill"))
        else {
            return not_run("reads for each commit", &report);
        };
        if report["storage"]["file_system_block"] != 4096 {
            return not_run("reads for each commit", &report);
        }
        assert!(naive > 0.12, "{naive} reads for each naive commit of 512 bytes");
        let looped = |padding: &Value, side: &str| {
            let row = rows(&report, "pairs").iter().find(|row| &row["padding"] == padding).expect("is there");
            row[side]["own_reads"].as_f64().expect("counted")
        };
        let (ahead, whole) = (serde_json::json!({"ahead": 4096}), serde_json::json!("whole_block"));
        assert!(looped(&ahead, "naive") > 0.12, "the plain loop too: {report}");
        let ours = [ours, looped(&ahead, "filled"), looped(&whole, "filled")].into_iter().fold(0.0, f64::max);
        if ours < 0.01 {
            return;
        }
        seen.push(ours);
    }
    panic!("reads for each commit of ours: {seen:?}");
}

#[test]
fn kernels_are_measured_by_every_path_and_named_in_text_and_picture() {
    let dir = dir();
    let target = dir.path().join("kernels.svg");
    let options = ["bench", "kernels", "--rounds=1", "--seconds=0.001", "--threads=2"];
    let run = innokit().args(options).args(["--json", "--chart"]).arg(&target).output().expect("innokit runs");
    let report = document(&run);
    let kernels = rows(&report, "kernels");
    let counters = &report["counters"];
    let pinned =
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get) >= 2 && cfg!(target_os = "linux");
    assert_eq!(counters["pinned"], pinned, "two threads");
    assert_eq!((rows(counters, "counters").len(), rows(counters, "waits").len()), (8, 5));
    for row in rows(counters, "counters").iter().chain(rows(counters, "waits")) {
        is_rate(&row["ns"], 1);
    }
    assert!(kernels.len() > 3 && kernels.iter().all(|row| row["cached_gb_per_s"].as_f64() > Some(0.0)), "{report}");
    let svg = fs::read_to_string(&target).expect("drawn");
    roxmltree::Document::parse(&svg).expect("XML");
    let text = text(&innokit().args(options).output().expect("innokit runs"));
    for row in kernels {
        let name = row["kernel"].as_str().expect("a name");
        assert!(text.contains(name) && svg.contains(name), "{name} is missing");
    }
}

#[test]
fn charts_are_pictures_with_something_in_them() {
    let dir = dir();
    for (name, arguments) in
        [("device", &[&DEVICE[..], &["--io=buffered", "--threads=1"]].concat()[..]), ("log", &LOG[..])]
    {
        let target = dir.path().join(format!("{name}.png"));
        let chart = target.to_str().expect("UTF-8");
        text(&bench(&[arguments, &["--chart", chart]].concat(), dir.path()));
        let decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(&target).expect("drawn")));
        let mut reader = decoder.read_info().expect("PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("fits")];
        let frame = reader.next_frame(&mut pixels).expect("whole");
        assert!(frame.width > 1000 && frame.height > 500, "{name}: {} x {}", frame.width, frame.height);
        let coloured = pixels.chunks(3).filter(|pixel| pixel[0].abs_diff(pixel[2]) > 60).count();
        assert!(coloured > 1000, "{name}: {coloured} pixels have a colour");
        fs::remove_file(&target).expect("ours");
    }
    let file = tablespace(dir.path());
    let target = dir.path().join("check.svg");
    let options = ["check", "--rounds=1", "--seconds=0.005", "--no-peers", "--chart", target.to_str().expect("UTF-8")];
    text(&bench(&options, &file));
    let svg = fs::read_to_string(&target).expect("drawn");
    let picture = roxmltree::Document::parse(&svg).expect("XML");
    assert_eq!(picture.root_element().tag_name().name(), "svg");
    let shapes = |name: &str| picture.descendants().filter(|node| node.tag_name().name() == name).count();
    assert!(shapes("rect") > 5 && shapes("circle") > 4 && shapes("text") > 20, "{svg}");
    for words in ["Idea by idea", "MB/s of the file", "limit of the device", "buffered, 1 worker"] {
        assert!(svg.contains(words), "{words} is missing");
    }
}

#[test]
fn a_chart_is_never_drawn_over_a_file() {
    let dir = dir();
    let target = dir.path().join("mine.svg");
    fs::write(&target, "mine").expect("write");
    let arguments = [&LOG[..], &["--chart", target.to_str().expect("UTF-8")]].concat();
    let run = bench(&arguments, dir.path());
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("the file already exists"), "{run:?}");
    assert_eq!(fs::read(&target).expect("still there"), b"mine");
}

#[test]
fn files_of_others_are_left_alone() {
    let dir = dir();
    for name in ["log.000", "data", "written", "bare"] {
        fs::write(dir.path().join(name), name).expect("write");
    }
    text(&bench(&LOG, dir.path()));
    text(&bench(&[&DEVICE[..], &["--order=random", "--io=buffered", "--depth=1"]].concat(), dir.path()));
    assert_eq!(entries(dir.path()), ["bare", "data", "log.000", "written"]);
    for name in ["log.000", "data", "written", "bare"] {
        assert_eq!(fs::read_to_string(dir.path().join(name)).expect("still there"), name);
    }
}

#[test]
fn a_directory_that_has_no_room_or_is_not_there_is_refused() {
    let dir = dir();
    let run = bench(&["device", "--size=4000000T"], dir.path());
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("MiB free"), "{run:?}");
    let run = bench(&["log"], &dir.path().join("nowhere"));
    assert_eq!(run.status.code(), Some(2));
    assert!(entries(dir.path()).is_empty());
}

/// Starts a bench that would take minutes, and waits until it has created a file in the directory.
fn started(dir: &Path) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_innokit"));
    command.args(["bench", "log", "--size=64M", "--seconds=60"]).arg(dir);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let start = Instant::now();
    while entries(dir).is_empty() && start.elapsed() < Duration::from_secs(300) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!entries(dir).is_empty(), "nothing was made within five minutes");
    child
}

#[test]
fn an_interrupted_bench_leaves_nothing_behind() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let dir = dir();
        let child = started(dir.path());
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).expect("is alive");
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{output:?}");
        assert!(entries(dir.path()).is_empty(), "{:?}", entries(dir.path()));
    }
}
