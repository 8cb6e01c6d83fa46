//! `innokit backup --to -`: a stream that innokit and the server's own tool can read, and that is void if it is cut anywhere.

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::backup_lab::{Server, assert_same, unpack};
use crate::common::Run;

const TABLES: [&str; 7] = ["shop.a", "shop.b", "shop.z", "shop.parts", "shop.left_0", "shop.right_0", "other.c"];
const MAGIC: &[u8] = b"XBSTCK01";

fn sent(server: &Server, more: &[&str]) -> Command {
    let mut command = server.innokit();
    command.args(["backup", "--user", "root", "--to", "-", "--spool", "spool", "--socket"]).arg(server.socket());
    command.args(more).arg("data");
    command
}

fn spool_is_empty(server: &Server) {
    assert_eq!(fs::read_dir(server.of("spool")).expect("read").count(), 0);
}

/// Where the chunks of a stream begin. Pages may contain the magic too, so look for it only after the end of a chunk.
fn chunks(stream: &[u8]) -> Vec<usize> {
    let (mut starts, mut at) = (Vec::new(), 0);
    let number = |at: usize, len: usize| {
        stream[at..at + len].iter().rev().fold(0, |number: usize, byte| number << 8 | usize::from(*byte))
    };
    while at < stream.len() {
        assert_eq!(&stream[at..at + 8], MAGIC);
        starts.push(at);
        let (kind, body) = (stream[at + 9], at + 14 + number(at + 10, 4));
        at = if kind == b'P' { body + 20 + number(body, 8) } else { body };
    }
    starts
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_that_is_sent_is_the_same_for_every_reader_and_void_if_it_is_cut() {
    let server = Server::start("mariadb");
    fs::create_dir(server.of("spool")).expect("made");
    let plain = sent(&server, &["--compress", "0", "--json"]).output().expect("innokit runs");
    assert_eq!(plain.status.code(), Some(0), "{}", String::from_utf8_lossy(&plain.stderr));
    let said: serde_json::Value = serde_json::from_slice(&plain.stderr).expect("a document");
    assert_eq!(said["manifest"]["state"], "complete");
    spool_is_empty(&server);
    fs::write(server.of("set.xb"), &plain.stdout).expect("written");
    fs::create_dir(server.of("theirs")).expect("made");
    let theirs = Command::new(crate::common::repository().join("scripts/server.sh"))
        .args([server.kind, "tool", "mbstream", "-x", "-C"])
        .arg(server.of("theirs"))
        .stdin(File::open(server.of("set.xb")).expect("open"))
        .status();
    assert!(theirs.expect("bash runs").success());
    unpack(&server, "set.xb", "ours");
    assert_same(&server, "theirs", "ours", "unpacked by both");
    let verified = server.run(&["backup", "verify", "theirs"]);
    assert_eq!(verified.status, 0, "{}{}", verified.text, verified.errors);
    // The stream still needs recovery, which is no damage.
    let checked = server.run(&["check", "--json", "set.xb"]);
    assert!(checked.json()["findings"].as_array().is_some_and(Vec::is_empty), "{}", checked.text);

    let starts = chunks(&plain.stdout);
    let some = [starts.len() / 3, starts.len() - 2, starts.len() - 1].map(|index| starts[index]);
    for cut in some.into_iter().chain([plain.stdout.len() - 1, plain.stdout.len() / 2]) {
        fs::write(server.of("cut.xb"), &plain.stdout[..cut]).expect("written");
        let unpacked = server.run(&["unpack", "cut.xb", "cut"]);
        assert_eq!(unpacked.status, 1, "{cut}: {}{}", unpacked.text, unpacked.errors);
        assert!(!server.of("cut").join("ibdata1").exists(), "{cut}");
    }
    // The last file is the manifest, and the one before it the log: without both, no reader has anything to recover.
    let names = starts.iter().rev().map(|start| {
        let len = usize::from(plain.stdout[start + 10]);
        String::from_utf8_lossy(&plain.stdout[start + 14..start + 14 + len]).into_owned()
    });
    let mut last: Vec<String> = names.take(6).collect();
    last.dedup();
    assert_eq!(last[..2], ["innokit.manifest.json", "ib_logfile0"]);
    restored_from_packed(&server);
}

/// A rate-limited, compressed stream in the idle I/O class, and one whose reader disappears.
fn restored_from_packed(server: &Server) {
    let stream = File::create(server.of("set.xb.zst")).expect("made");
    let started = Instant::now();
    let (rate, size) = (20_u64 << 20, fs::metadata(server.data().join("ibdata1")).expect("is there").len());
    let options = ["--rate", "20M/s", "--idle", "--progress", "always", "--prepare"];
    let packed = sent(server, &options).stdout(stream).output().expect("innokit runs");
    let errors = String::from_utf8_lossy(&packed.stderr).into_owned();
    assert!(packed.status.success() && errors.contains("innokit: read ") && errors.contains("backup    "), "{errors}");
    assert!(started.elapsed().as_secs_f64() > size as f64 / rate as f64, "faster than the rate");
    spool_is_empty(server);

    let mut cut_off = sent(server, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("innokit runs");
    let mut first = [0; 10];
    cut_off.stdout.take().expect("piped").read_exact(&mut first).expect("a stream");
    let ended = Run::of(&cut_off.wait_with_output().expect("ended"));
    assert!(ended.status == 2 && ended.errors.contains("sending the backup"), "{}: {}", ended.status, ended.errors);
    spool_is_empty(server);

    let sums = server.script_on("data", "sql", &["-N"], &format!("CHECKSUM TABLE {};", TABLES.join(", ")));
    server.script("stop", &[], "");
    let restored = server.run(&["restore", "set.xb.zst", "--to", "out"]);
    assert!(restored.status == 0 && restored.text.contains("files are as they were backed up"), "{}", restored.errors);
    fs::write(server.of("sums.txt"), sums).expect("written");
    let compared = server.run(&["table", "checksum", "--compare", "sums.txt", "out"]);
    let equal = compared.text.lines().filter(|line| line.ends_with("\tequal")).count();
    assert_eq!((compared.status, equal), (0, TABLES.len()), "{}{}", compared.text, compared.errors);
    let refused = [
        (&["--to", "-"][..], "--spool DIR"),
        (&["--to", "set", "--spool", "spool"][..], "--spool is for --to -"),
        (&["--to", "-", "--spool", "nowhere"][..], "making the spool"),
    ];
    for (words, says) in refused {
        let run = server.run(&[&["backup", "data"][..], words].concat());
        assert!(run.status == 2 && run.errors.contains(says), "{says}: {}", run.errors);
    }
}
