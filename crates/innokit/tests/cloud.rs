//! Objects in buckets get the same verdicts as files. A failure on the way to them is never called damage, and never "all well".
#![cfg(feature = "cloud")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod cloud_lab;
mod common;
#[path = "cloud_lab/hostile_store.rs"]
mod hostile_store;
mod listener;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cloud_lab::{Lab, READER};
use common::{Dir, Run, fixture, innokit, manifest, reasons, total};
use serde_json::{Value, json};

const SAMPLE: &str = "mysql-9.7/dynamic-16k.ibd";
const MIB: usize = 1 << 20;
/// Bytes of a request with up to two workers.
const RANGE: usize = 8 * MIB;

/// A document without the files' location and the time taken.
fn said(mut document: Value, place: &str) -> Value {
    document["totals"].as_object_mut().expect("totals").remove("seconds").expect("a time");
    document.as_object_mut().expect("a document").remove("started_at").expect("a time");
    serde_json::from_str(&document.to_string().replace(place, "PLACE")).expect("JSON")
}

/// Runs `innokit check --json` on files and on the same files as objects. Both must say the same; returns that and the exit status.
fn both(lab: &Lab, files: &Path, url: &str, options: &[&str]) -> (Value, i32) {
    let arguments = |place: &str| [&["check", "--json"], options, &[place]].concat().join("\u{1}");
    let [here, there] = [files.to_str().expect("UTF-8"), url].map(|place| {
        let run = lab.run(&arguments(place).split('\u{1}').collect::<Vec<_>>());
        (said(run.json(), place), run.status, run.errors)
    });
    assert_eq!(here.0, there.0, "{url}: {}", there.2);
    assert_eq!(here.1, there.1, "{url}");
    (there.0, there.1)
}

/// An intact tablespace of `mib` MiB: the sample, followed by never-used pages of zeros.
fn long(mib: usize) -> Vec<u8> {
    let mut bytes = fixture(SAMPLE);
    bytes.resize(mib * MIB, 0);
    bytes
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn fixtures_are_judged_as_files_are_and_a_sweep_asks_for_each_range_once() {
    let (lab, dir) = (Lab::new(), Dir::new());
    let mut ranges = 0;
    for entry in manifest("broken").into_iter().chain(manifest("mysql-9.7")) {
        let bytes = entry.bytes();
        if !entry.name.starts_with("broken") {
            // Larger pages need a longer head to tell the format, so it is requested again.
            let has_large_pages = ["-32k", "-64k"].iter().any(|size| entry.name.contains(size));
            ranges += bytes.len().div_ceil(RANGE) + usize::from(has_large_pages);
        }
        dir.file(&entry.name, &bytes);
        lab.put(&entry.name, &bytes);
    }
    let (document, status) = both(&lab, &dir.path().join("broken"), "s3://lab/broken", &[]);
    assert_eq!(status, 1);
    assert!(total(&document, "damage") >= 20, "{document}");
    lab.requests();
    both(&lab, &dir.path().join("mysql-9.7"), "s3://lab/mysql-9.7", &["--threads", "2"]);
    assert_eq!(lab.requests().0, ranges, "one request for each range of each file");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn datadirs_as_buckets_are_judged_as_directories_are() {
    let lab = Lab::new();
    for name in ["mysql-16k", "mysql-16k-crashed", "mysql-16k-tde", "mariadb-16k", "mariadb-16k-crashed", "mariadb-4k"]
    {
        lab.bucket(name, &common::all_datadirs().join(name));
        let keys = common::keys_of(name);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (_, status) = both(&lab, &common::all_datadirs().join(name), &format!("s3://{name}"), &keys);
        assert!(status == 0 || name.ends_with("crashed"), "{name}: {status}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn archives_and_packed_files_are_read_as_streams() {
    let (lab, dir) = (Lab::new(), Dir::new());
    let table = fixture(SAMPLE);
    let packed = zstd::encode_all(table.as_slice(), 1).expect("packed");
    dir.file("backup/shop/t.ibd", &table);
    let mut tar = std::process::Command::new("tar");
    let tar =
        tar.args(["-C", dir.path().to_str().expect("UTF-8"), "-cf", "-", "backup"]).output().expect("tar runs").stdout;
    let mut cut = packed.clone();
    cut.truncate(packed.len() / 2);
    for (name, bytes) in [("t.ibd.zst", &packed), ("full.tar", &tar), ("cut.ibd.zst", &cut)] {
        dir.file(&format!("files/{name}"), bytes);
        lab.put(&format!("files/{name}"), bytes);
        both(&lab, &dir.path().join("files").join(name), &format!("s3://lab/files/{name}"), &[]);
    }
    let (document, status) = both(&lab, &dir.path().join("files/"), "s3://lab/files/", &[]);
    assert_eq!(status, 1, "one is cut: {document}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn bad_connections_cost_time_and_nothing_else() {
    let lab = Lab::new().proxied();
    let bytes = long(12);
    lab.put("t.ibd", &bytes);
    let file = lab.dir.file("t.ibd", &bytes);
    let (sound, _) = both(&lab, &file, "s3://lab/t.ibd", &[]);
    // Each connection ends after 700 KB, so no response is complete.
    lab.spoil("limit_data", 1.0, json!({"bytes": 700_000}));
    let (cut, status) = both(&lab, &file, "s3://lab/t.ibd", &[]);
    assert_eq!((&cut, status), (&sound, 0));
    lab.spoil("latency", 1.0, json!({"latency": 20, "jitter": 10}));
    // A fifth of the connections are reset.
    lab.spoil("reset_peer", 0.2, json!({"timeout": 15}));
    let mut command = lab.innokit();
    let command = command.env("INNOKIT_CLOUD_RETRIES", "20").args(["check", "--verbose", "s3://lab/t.ibd"]);
    let run = Run::of(&command.output().expect("innokit runs"));
    assert_eq!((run.status, run.text.contains("all well")), (0, true), "{}{}", run.text, run.errors);
    assert!(run.errors.contains("requests were repeated, the last because"), "{}", run.errors);
}

/// Runs `innokit check`, which must fail to read something and must call that neither damaged nor well.
fn refused(lab: &Lab, mut command: std::process::Command, url: &str) -> (Run, Value) {
    command.env("INNOKIT_CLOUD_RETRIES", "2");
    let run = Run::of(&command.args(["check", "--json", url]).output().expect("innokit runs"));
    let document = run.json();
    assert_eq!((run.status, total(&document, "damage")), (2, 0), "{url}: {}{}", run.text, run.errors);
    let text = Run::of(
        &lab.innokit_as(READER).env("INNOKIT_CLOUD_RETRIES", "0").args(["check", url]).output().expect("innokit runs"),
    );
    assert!(!text.text.contains("all well"), "{}", text.text);
    (run, document)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn what_is_missing_or_forbidden_is_named_and_is_no_damage() {
    let lab = Lab::new();
    let bytes = fixture(SAMPLE);
    lab.put("db/a.ibd", &bytes);
    lab.put("db/b.ibd", &bytes);
    let words = |(_, document): &(Run, Value)| document["findings"].to_string();
    for (url, says) in [
        ("s3://lab/nothing.ibd", "there is no object of this name, and none below it"),
        ("s3://lab/empty/", "there is no object of this name, and none below it"),
        ("s3://no-such-bucket/t.ibd", "there is no such bucket (404)"),
        ("s3://no-such-bucket", "there is no such bucket (404)"),
        ("s3:///t.ibd", "innokit reads no such URL"),
        ("abfss://lab/t.ibd", "innokit reads no such URL"),
    ] {
        let found = refused(&lab, lab.innokit(), url);
        assert!(words(&found).contains(says), "{url}: {}", words(&found));
    }
    let wrong = refused(&lab, lab.innokit_as(("owner", "not the secret")), "s3://lab/db");
    assert!(words(&wrong).contains("access is denied (403 SignatureDoesNotMatch)"), "{}", words(&wrong));
    let denied = refused(&lab, lab.innokit_as(READER), "s3://lab");
    assert!(
        words(&denied).contains("access is denied (403): the credentials in use may not read it"),
        "{}",
        words(&denied)
    );
    // The guest may list, and read one of the two.
    lab.allow(&[("reader", "s3:ListBucket", "lab"), ("reader", "s3:GetObject", "lab/db/a.ibd")]);
    let half = refused(&lab, lab.innokit_as(READER), "s3://lab/db");
    assert_eq!(reasons(&half.1), ["unreadable_file"]);
    assert!(
        words(&half).contains("s3://lab/db/b.ibd") && words(&half).contains("access is denied (403)"),
        "{}",
        words(&half)
    );
    assert_eq!(total(&half.1, "files"), 2, "{}", half.1);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn a_dead_network_is_given_up_once_for_all_objects() {
    let lab = Lab::new().proxied();
    for number in 0..30 {
        lab.put(&format!("db/t{number}.ibd"), &fixture("mysql-9.7/dynamic-4k.ibd"));
    }
    lab.cut_off();
    let began = Instant::now();
    let (_, document) = refused(&lab, lab.innokit(), "s3://lab/db");
    assert!(document["findings"].to_string().contains("no useful answer after 3 tries"), "{document}");
    assert!(began.elapsed() < Duration::from_secs(30), "each object does not wait for itself");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn a_listing_that_is_cut_is_no_listing() {
    let lab = Lab::new().proxied();
    // More than fits one page of a listing, which has 1000 names.
    for number in 0..1500 {
        lab.dir.file(&format!("buckets/lab/many/notes-{number:04}.txt"), b"nothing of InnoDB's");
    }
    lab.dir.file("buckets/lab/many/t.ibd", &fixture(SAMPLE));
    let (document, status) = both(&lab, &lab.folder().join("many"), "s3://lab/many", &[]);
    assert_eq!((status, total(&document, "files")), (0, 1), "{document}");
    lab.spoil("limit_data", 1.0, json!({"bytes": 50_000}));
    let (_, document) = refused(&lab, lab.innokit(), "s3://lab/many");
    assert_eq!(reasons(&document), ["unreadable_file"]);
    assert!(document["findings"].to_string().contains("no useful answer after 3 tries"), "{document}");
}

/// Starts a check of 48 MiB that would take 24 seconds and runs `act` meanwhile. Returns how the check ended and the requests since.
fn meanwhile(lab: &Lab, act: impl FnOnce()) -> (Run, usize) {
    let mut command = lab.innokit();
    command.args([
        "check",
        "--json",
        "--rate",
        "2M",
        "--block-size",
        "1M",
        "--depth",
        "2",
        "--threads",
        "1",
        "s3://lab/db",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("innokit runs");
    let end = Instant::now() + Duration::from_secs(60);
    let mut begun = 0;
    while begun < 3 {
        assert!(Instant::now() < end, "it reads");
        std::thread::sleep(Duration::from_millis(50));
        begun += lab.requests().0;
    }
    act();
    lab.requests();
    let run = Run::of(&child.wait_with_output().expect("it ends"));
    (run, lab.requests().0)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn an_object_that_is_replaced_or_removed_is_that_and_is_asked_for_once_more_at_most() {
    let lab = Lab::new();
    let bytes = long(48);
    let other: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    for has_etag in [true, false] {
        let place = |bytes: &[u8]| match has_etag {
            true => lab.put("db/t.ibd", bytes),
            false => drop(lab.dir.file("buckets/lab/db/u.ibd", bytes)),
        };
        place(&bytes);
        if !has_etag {
            lab.delete("db/t.ibd");
            // The server reports the times of such files in whole seconds.
            std::thread::sleep(Duration::from_millis(1100));
        }
        let (run, requests) = meanwhile(&lab, || place(&other));
        let document = run.json();
        assert_eq!((run.status, total(&document, "damage")), (2, 0), "{}", run.text);
        assert!(document["findings"].to_string().contains("changed while it was read"), "{document}");
        assert!(requests <= 4, "{requests} requests for an object that is not there any more");
    }
    lab.put("db/t.ibd", &bytes);
    fs::remove_file(lab.folder().join("db/u.ibd")).expect("there");
    let (run, requests) = meanwhile(&lab, || lab.delete("db/t.ibd"));
    let document = run.json();
    assert_eq!((run.status, total(&document, "damage")), (2, 0), "{}", run.text);
    assert!(document["findings"].to_string().contains("vanished while the check ran"), "{document}");
    assert!(requests <= 4, "{requests} requests for an object that is not there any more");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn a_large_object_takes_less_than_220_mib_over_tls() {
    let lab = Lab::with_tls();
    let path = lab.dir.file("buckets/lab/large.ibd", &fixture("mysql-9.7/zip-1k.ibd"));
    fs::OpenOptions::new().write(true).open(path).expect("opens").set_len(300 << 20).expect("a sparse file");
    for (threads, requests) in [("1", 38), ("2", 38), ("16", 300)] {
        large(&lab, threads, requests);
    }
}

/// Checks the object of 300 MiB.
fn large(lab: &Lab, threads: &str, requests: usize) {
    let run = lab.run(&["check", "--verbose", "--threads", threads, "s3://lab/large.ibd"]);
    assert!(run.text.contains("all well") && run.text.contains("314,572,800"), "{}{}", run.text, run.errors);
    let peak = run.errors.split("peak memory ").nth(1).and_then(|rest| rest.split(' ').next()).expect(&run.errors);
    // 128 MiB of buffers; each of 128 connections holds up to half a MiB of its own, as the server's bursts have it: 176 to 202 MiB seen.
    assert!(peak.parse::<u64>().expect("MiB") < 220, "{threads} threads: {peak} MiB");
    assert_eq!(lab.requests().0, requests, "{threads} threads");
    let note = format!("object storage: {requests} range requests for 314572800 bytes");
    assert!(run.errors.contains(&note), "{}", run.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn a_web_server_gives_single_files_and_signatures_are_not_repeated() {
    let lab = Lab::with_tls();
    lab.put("db/a table.ibd", &fixture(SAMPLE));
    let file = lab.dir.file("db/a table.ibd", &fixture(SAMPLE));
    lab.allow(&[("*", "s3:GetObject", "lab/*")]);
    let url = format!("{}/lab/db/a%20table.ibd", lab.url());
    let anonymous = |arguments: &[&str]| {
        let mut command = lab.innokit_as(("nobody", "no secret"));
        Run::of(&command.args(arguments).output().expect("innokit runs"))
    };
    let check = anonymous(&["check", "--json", &url]);
    let here = lab.run(&["check", "--json", file.to_str().expect("UTF-8")]);
    assert_eq!(said(check.json(), &url), said(here.json(), file.to_str().expect("UTF-8")), "{}", check.errors);
    let signed = anonymous(&["check", "--json", &format!("{url}?x-id=GetObject")]);
    assert_eq!(said(signed.json(), &url), said(here.json(), file.to_str().expect("UTF-8")), "{}", signed.errors);
    for (url, says) in [
        (format!("{}/lab/db/none.ibd?secret=1", lab.url()), "there is no such object (404)"),
        (format!("{}/lab/db/", lab.url()), "a web server gives no listings: name each file"),
        (format!("{}/no-such-bucket/t.ibd", lab.url()), "(40"),
    ] {
        let run = anonymous(&["check", "--json", &url]);
        let found = run.json()["findings"].to_string();
        assert!(run.status == 2 && found.contains(says) && !found.contains("secret"), "{url}: {found}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn tables_are_read_from_objects_as_from_files() {
    let (lab, dir) = (Lab::new(), Dir::new());
    for name in ["mysql-9.7/dynamic-16k.ibd", "broken/flipped-bit-mysql-16k.ibd"] {
        dir.file(name, &fixture(name));
        lab.put(name, &fixture(name));
    }
    let place = dir.path().to_str().expect("UTF-8");
    for command in ["check", "count", "checksum", "export"] {
        for name in ["mysql-9.7/dynamic-16k.ibd", "broken/flipped-bit-mysql-16k.ibd"] {
            let (here, there) = (format!("{place}/{name}"), format!("s3://lab/{name}"));
            let option = if command == "export" { "--format=jsonl" } else { "--json" };
            let [one, other] = [&here, &there].map(|path| lab.run(&["table", command, option, path]));
            assert_eq!(one.status, other.status, "{command} {name}: {}", other.errors);
            assert_eq!(without_times(&one.text, place), without_times(&other.text, "s3://lab"), "{command} {name}");
        }
    }
    // A table whose leaves are all over its file: each MiB is asked for once, and the pages that lead to the leaves.
    let scattered = fixture("scattered/scattered-16k.ibd");
    lab.put("scattered.ibd", &scattered);
    lab.requests();
    let run = lab.run(&["table", "count", "--threads", "2", "s3://lab/scattered.ibd"]);
    let (requests, mib) = (lab.requests().0, scattered.len() / MIB);
    assert!(run.status == 0 && requests <= mib * 11 / 10 + 16, "{requests} requests for {mib} MiB: {}", run.errors);
    lab.delete("scattered.ibd");
    let [one, other] = [place, "s3://lab"].map(|place| lab.run(&["info", "--json", place]));
    assert_eq!(one.status, other.status);
    assert_eq!(without_times(&one.text, place), without_times(&other.text, "s3://lab"));
}

/// The lines of a text or fields of a document that depend on neither place nor time.
fn without_times(text: &str, place: &str) -> String {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| {
                    !["seconds", "started_at", "bytes_on_disk", "bytes", "bytes_read"].contains(&name.as_str())
                });
                fields.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let text = text.replace(place, "PLACE");
    match serde_json::from_str::<Value>(&text) {
        Ok(mut document) => {
            strip(&mut document);
            document.to_string()
        }
        Err(_) => text,
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs an S3 server: make test")]
fn a_table_that_cannot_be_read_to_its_end_is_not_damaged() {
    let lab = Lab::new().proxied();
    let path = common::all_datadirs().join("mysql-16k/shop/row_dynamic.ibd");
    lab.put("shop/row_dynamic.ibd", &fs::read(path).expect("a table"));
    // Listings are short enough to succeed. Of ten or more ranges some are certain to fail, and any of them may be the first.
    lab.spoil("limit_data", 0.7, json!({"bytes": 3000}));
    for command in ["check", "count", "checksum", "export"] {
        let mut innokit = lab.innokit();
        innokit.env("INNOKIT_CLOUD_RETRIES", "0").args(["table", command, "s3://lab/shop"]);
        let run = Run::of(&innokit.output().expect("innokit runs"));
        assert_eq!(run.status, 2, "{command}: {}{}", run.text, run.errors);
        let says = format!("{}{}", run.text, run.errors);
        assert!(says.contains("no useful answer after 1 try in") && !says.contains("DAMAGE"), "{command}: {says}");
    }
}

#[test]
fn unusable_patience_is_refused_by_name() {
    let run = Run::of(&innokit().env("INNOKIT_CLOUD_RETRIES", "many").args(["check", "x"]).output().expect("runs"));
    assert_eq!(run.status, 2);
    assert!(
        run.errors.contains("INNOKIT_CLOUD_RETRIES is \"many\": it must be a whole number from 0 to 100"),
        "{}",
        run.errors
    );
}
