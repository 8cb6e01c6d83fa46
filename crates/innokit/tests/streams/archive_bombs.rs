//! Archives of a few bytes that would fill a disk, or keep a processor busy for hours.

use std::path::Path;
use std::process::Command;

use crate::common::{Dir, Run, innokit};

fn low_first(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

fn chunk(code: u8, name: &str, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"XBSTCK01\0".to_vec();
    bytes.push(code);
    bytes.extend(low_first(&(name.len() as u32).to_be_bytes()));
    bytes.extend(name.bytes());
    bytes.extend(rest);
    bytes
}

fn payload(name: &str, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    let mut rest = low_first(&(bytes.len() as u64).to_be_bytes());
    rest.extend(low_first(&offset.to_be_bytes()));
    rest.extend(low_first(&crc.sum().to_be_bytes()));
    rest.extend(bytes);
    chunk(b'P', name, &rest)
}

/// Chunks of one member with a hole of 8 TiB before its last byte.
fn hollow(name: &str) -> Vec<u8> {
    let hole = low_first(&(8_u64 << 40).to_be_bytes());
    [payload(name, 0, b"z"), chunk(b'S', name, &hole), payload(name, (8 << 40) + 1, b"x"), chunk(b'E', name, &[])]
        .concat()
}

/// Runs for at most 20 seconds.
fn limited(arguments: &[&str], paths: &[&Path]) -> Run {
    let mut command = Command::new("timeout");
    let output = command.arg("20").arg(innokit().get_program()).args(arguments).args(paths).output();
    Run::of(&output.expect("timeout runs"))
}

#[test]
fn a_hole_of_8_tib_in_a_stream_of_a_hundred_bytes_is_done_or_refused_at_once() {
    let dir = Dir::new();
    for name in ["zone", "t.ibd"] {
        let stream = dir.file("a.xb", &hollow(name));
        let run = limited(&["check"], &[&stream]);
        assert!([0, 1, 2].contains(&run.status), "{name}: {} {}", run.status, run.errors);
        let to = dir.path().join(format!("to-{name}"));
        let run = limited(&["unpack"], &[&stream, &to]);
        assert!([0, 1, 2].contains(&run.status), "{name}: {} {}", run.status, run.errors);
    }
}

#[test]
fn an_archive_that_unpacks_to_more_than_it_may_leaves_nothing_and_says_so() {
    let dir = Dir::new();
    let zeros = vec![0; 16 << 20];
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut out, bytes).expect("memory");
        out.finish().expect("memory")
    };
    let lz4 = |bytes: &[u8]| {
        let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut out, bytes).expect("memory");
        out.finish().expect("memory")
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).expect("memory");
    let member = |name: &str, bytes: &[u8]| [payload(name, 0, bytes), chunk(b'E', name, &[])].concat();
    let plain = member("t.ibd", &zeros);
    let archives = [
        ("a.xb", plain.clone()),
        ("b.xb", member("t.ibd.zst", &zstd(&zeros))),
        ("c.xb", member("t.ibd.gz", &gzip(&zeros))),
        ("d.xb", member("t.ibd.lz4", &lz4(&zeros))),
        ("e.xb.zst", zstd(&plain)),
        ("f.xb.gz", gzip(&plain)),
    ];
    for (name, bytes) in archives {
        let (archive, to) = (dir.file(name, &bytes), dir.path().join("to"));
        let run = limited(&["unpack", "--max-size", "2M"], &[&archive, &to]);
        assert!(
            run.status == 2 && run.errors.contains("more than 2097152 bytes, as --max-size says"),
            "{name}: {}",
            run.errors
        );
        assert!(!to.exists(), "{name}");
        let run = Run::of(
            &innokit()
                .args(["restore", "--max-size", "2M"])
                .arg(&archive)
                .arg("--to")
                .arg(&to)
                .output()
                .expect("it runs"),
        );
        assert!(run.status == 2 && run.errors.contains("as --max-size says"), "{name}: {}", run.errors);
        let run = limited(&["unpack", "--max-size", "64M"], &[&archive, &to]);
        assert_eq!(
            (run.status, std::fs::metadata(to.join("t.ibd")).map_or(0, |file| file.len())),
            (0, 16 << 20),
            "{name}: {}",
            run.errors
        );
        std::fs::remove_dir_all(&to).expect("removed");
    }
}

/// A zstd frame of this many blocks, each of which is 128 KiB of zeros in four bytes.
fn zeros_of_zstd(blocks: u32) -> Vec<u8> {
    const BLOCK: u32 = 128 << 10;
    let mut frame = b"\x28\xB5\x2F\xFD\x00\x38".to_vec();
    for number in 1..=blocks {
        let head = BLOCK << 3 | 1 << 1 | u32::from(number == blocks);
        frame.extend(low_first(&head.to_be_bytes()).into_iter().take(3));
        frame.push(0);
    }
    frame
}

/// 100 GB in a kilobyte, and 200,000 empty files: 64 MiB hold 16,384 of them.
#[test]
fn nested_compression_and_many_empty_members_end_with_an_error_and_leave_nothing() {
    let dir = Dir::new();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).expect("memory");
    let huge = zeros_of_zstd(800_000);
    let packed = [payload("t.ibd.zst", 0, &huge), chunk(b'E', "t.ibd.zst", &[])].concat();
    let twice = zstd(&packed);
    assert!(twice.len() < 4096, "{}", twice.len());
    let mut many = Vec::new();
    for number in 0..200_000 {
        let name = format!("d{}/{number}", number / 100);
        many.extend([payload(&name, 0, &[]), chunk(b'E', &name, &[])].concat());
    }
    for (name, bytes) in [("huge.xb", packed), ("twice.xb.zst", twice), ("many.xb.zst", zstd(&many))] {
        let (archive, to) = (dir.file(name, &bytes), dir.path().join("to"));
        for words in [vec!["unpack"], vec!["restore", "--to", to.to_str().expect("UTF-8")]] {
            let paths: Vec<&Path> = if words[0] == "unpack" { vec![&archive, &to] } else { vec![&archive] };
            let run = limited(&[&words[..], &["--max-size", "64M"]].concat(), &paths);
            assert!(
                run.status == 2 && run.errors.contains("more than 67108864 bytes, as --max-size says"),
                "{name}: {} {}",
                run.status,
                run.errors
            );
            assert!(!to.exists(), "{name}: something is left");
        }
    }
}
