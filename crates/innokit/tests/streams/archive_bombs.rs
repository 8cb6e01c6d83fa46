//! Archives of a few bytes that would fill a disk, or keep a processor busy for hours.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::common::limited::PATIENCE;
use crate::common::{self, Dir, Run, fixture, innokit};

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

/// Runs innokit on archives that may take a few seconds.
fn limited(arguments: &[&str], paths: &[&Path]) -> Run {
    common::limited::limited(innokit().args(arguments).args(paths), 2 * PATIENCE)
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

/// As `tar --sparse` and backup tools send such files.
#[test]
fn sparse_members_of_8_tib_take_no_time_no_memory_and_no_disk() {
    let dir = Dir::new();
    let sparse = dir.file("set/t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    if File::options().write(true).open(&sparse).and_then(|file| file.set_len(8 << 40)).is_err() {
        return;
    }
    let mut archives = vec![dir.file("a.xb", &hollow("t.ibd")), dir.file("b.xb", &hollow("plain"))];
    for format in ["gnu", "posix"] {
        let archive = dir.path().join(format!("{format}.tar"));
        let mut tar = Command::new("tar");
        tar.arg(format!("--format={format}"))
            .args(["-c", "-S", "-f"])
            .arg(&archive)
            .arg("-C")
            .arg(dir.path())
            .arg("set");
        assert!(tar.status().expect("tar runs").success());
        archives.push(archive);
    }
    let to = dir.path().join("to");
    for archive in &archives {
        for words in [&["check"][..], &["info"], &["unpack"], &["restore", "--to", to.to_str().expect("UTF-8")]] {
            let paths: &[&Path] = if words[0] == "unpack" { &[archive, &to] } else { &[archive] };
            let run = limited(words, paths);
            let told = format!("{words:?} {}: {} {}{}", archive.display(), run.status, run.text, run.errors);
            // Nothing that was not read is called sound. The plain file of the second stream holds no pages.
            assert!(
                (0..3).contains(&run.status) && (run.status > 0 || archive.ends_with("b.xb") || words[0] != "check"),
                "{told}"
            );
            let on_disk = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.blocks() * 512);
            let made = ["t.ibd", "set/t.ibd", "plain"].map(|name| on_disk(&to.join(name)));
            assert!(made.iter().sum::<u64>() < 4 << 20, "{made:?} {told}");
            std::fs::remove_dir_all(&to).ok();
        }
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
        ("g.xb.lz4", lz4(&plain)),
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

/// 100 GB in a kilobyte, and a million empty files: 64 MiB hold 16,384 of them.
#[test]
fn nested_compression_and_many_empty_members_end_with_an_error_and_leave_nothing() {
    let dir = Dir::new();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).expect("memory");
    let huge = zeros_of_zstd(800_000);
    let packed = [payload("t.ibd.zst", 0, &huge), chunk(b'E', "t.ibd.zst", &[])].concat();
    let twice = zstd(&packed);
    assert!(twice.len() < 4096, "{}", twice.len());
    let mut many = Vec::new();
    for number in 0..1_000_000 {
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
        if name != "huge.xb" {
            let run = limited(&["check"], &[&archive]);
            assert!([0, 1, 2].contains(&run.status), "{name}: {}", run.errors);
        }
    }
}

/// xz is not read at all, and no other program is run for it.
#[test]
fn an_archive_of_xz_is_refused_by_name() {
    let dir = Dir::new();
    let (archive, to) =
        (dir.file("a.tar.xz", &[b"\xfd7zXZ\0\0\x04".as_slice(), &[0; 4096]].concat()), dir.path().join("to"));
    for words in [&["unpack"][..], &["restore"]] {
        let paths: Vec<&Path> =
            if words[0] == "unpack" { vec![&archive, &to] } else { vec![&archive, Path::new("--to"), &to] };
        let run = limited(words, &paths);
        assert!(run.status == 2 && run.errors.contains("a.tar.xz") && !to.exists(), "{}", run.errors);
    }
}

/// A record of the dictionary in a tablespace of MySQL that says it inflates to a gigabyte, and does to more than it should.
#[test]
fn a_dictionary_that_inflates_to_a_gigabyte_takes_no_memory() {
    let dir = Dir::new();
    let mut bytes = fixture("mysql-9.7/dynamic-16k.ibd");
    let number = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
    // Length of the object and of what it is packed to, then the stream of zlib.
    let is_object = |bytes: &[u8], at: &usize| {
        let (plain, packed) = (number(bytes, at - 8), number(bytes, at - 4));
        bytes[*at] == 0x78 && (100..8000).contains(&packed) && (packed..100_000).contains(&plain)
    };
    let objects: Vec<usize> = (16384 * 3 + 100..16384 * 4 - 8000).filter(|at| is_object(&bytes, at)).collect();
    assert!(!objects.is_empty(), "no dictionary on page 3");
    let mut bomb = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut bomb, &[0; 200_000]).expect("memory");
    let bomb = bomb.finish().expect("memory");
    for at in objects {
        assert!(bomb.len() <= number(&bytes, at - 4), "{}", bomb.len());
        bytes[at - 8..at - 4].copy_from_slice(&(1_u32 << 30).to_be_bytes());
        bytes[at..at + bomb.len()].copy_from_slice(&bomb);
    }
    let path = dir.file("dynamic-16k.ibd", &bytes);
    let sealed = limited(&["innochecksum", "--no-check", "--write", "crc32"], &[&path]);
    assert_eq!(sealed.status, 0, "{}", sealed.errors);
    for words in [&["check", "--level", "structure"][..], &["info"], &["table", "schema"], &["table", "count"]] {
        let run = limited(words, &[&path]);
        assert!([0, 1, 2].contains(&run.status), "{words:?}: {}", run.errors);
    }
    let run = limited(&["table", "schema"], &[&path]);
    assert!(run.status > 0, "a definition out of zeros: {}", run.text);
}
