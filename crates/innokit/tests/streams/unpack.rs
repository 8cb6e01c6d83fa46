//! Unpacking yields the files that went in, or leaves nothing: with every compression, wherever the archive is cut, and wherever its names
//! lead.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Dir, Run, fixture, innokit};
use proptest::prelude::*;

/// All files below a folder with their bytes; directories have no content.
fn contents(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            let bytes = (!path.is_dir()).then(|| fs::read(&path).expect("read"));
            found.insert(path.strip_prefix(root).expect("below").to_path_buf(), bytes);
            if path.is_dir() {
                dirs.push(path);
            }
        }
    }
    found
}

fn unpack(archive: &Path, to: &Path) -> Run {
    Run::of(&innokit().arg("unpack").args([archive, to]).output().expect("innokit runs"))
}

/// A small datadir with an empty database, a name too long for a tar header, and an empty file.
fn datadir(dir: &Dir) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    dir.file("data/shop/t.ibd", &fixture("mariadb-10.11/dynamic-16k.ibd"));
    let long = "a".repeat(180);
    dir.file(&format!("data/{long}/{long}/deep.ibd"), &fixture("mysql-9.7/compact-16k.ibd"));
    dir.file("data/shop/db.opt", b"text");
    dir.file("data/shop/empty", b"");
    fs::create_dir(dir.path().join("data/nothing")).expect("made");
    contents(&dir.path().join("data"))
}

fn tar(dir: &Dir, options: &[&str]) -> Vec<u8> {
    let mut command = Command::new("tar");
    command.args(["-c", "-f", "-"]).args(options).arg("-C").arg(dir.path().join("data")).arg(".");
    let output = command.output().expect("tar runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A file as `mariadb-backup` sends it: a chunk of bytes, then the end chunk.
fn chunk(flags: u8, code: u8, path: impl AsRef<[u8]>, rest: &[u8]) -> Vec<u8> {
    let path = path.as_ref();
    [b"XBSTCK01", &[flags, code][..], &length(path), path, rest].concat()
}

fn length(name: &[u8]) -> Vec<u8> {
    u32::try_from(name.len()).expect("short").to_be_bytes().into_iter().rev().collect()
}

fn number(value: u64) -> Vec<u8> {
    value.to_be_bytes().into_iter().rev().collect()
}

fn payload(flags: u8, path: impl AsRef<[u8]>, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let crc: Vec<u8> = crc32(bytes).to_be_bytes().into_iter().rev().collect();
    chunk(flags, b'P', path, &[number(bytes.len() as u64), number(offset), crc, bytes.to_vec()].concat())
}

/// zlib's CRC-32, computed bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}

fn end(path: impl AsRef<[u8]>) -> Vec<u8> {
    chunk(0, b'E', path, &[])
}

fn member(path: impl AsRef<[u8]>, bytes: &[u8]) -> Vec<u8> {
    let path = path.as_ref();
    let parts = bytes.chunks(40_000).enumerate().map(|(number, part)| payload(0, path, number as u64 * 40_000, part));
    parts.chain([end(path)]).flatten().collect()
}

fn stream(data: &BTreeMap<PathBuf, Option<Vec<u8>>>) -> Vec<u8> {
    let files = data.iter().filter_map(|(path, bytes)| Some((path, bytes.as_ref()?)));
    files.flat_map(|(path, bytes)| member(path.to_str().expect("UTF-8"), bytes)).collect()
}

fn packings(archive: &[u8]) -> Vec<Vec<u8>> {
    let mut gzip = Command::new("gzip").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip runs");
    let (mut stdin, bytes) = (gzip.stdin.take().expect("piped"), archive.to_vec());
    let writer = std::thread::spawn(move || stdin.write_all(&bytes).expect("taken"));
    let gzip = gzip.wait_with_output().expect("ends").stdout;
    writer.join().expect("written");
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(archive).expect("packed");
    vec![gzip, zstd::encode_all(archive, 1).expect("packed"), lz4.finish().expect("packed")]
}

#[test]
fn every_kind_of_archive_becomes_the_files_that_went_in() {
    let dir = Dir::new();
    let data = datadir(&dir);
    let mut archives = vec![tar(&dir, &["--format=gnu"]), tar(&dir, &["--format=pax"])];
    archives.extend(packings(&archives[0]));
    for (number, archive) in archives.iter().enumerate() {
        let to = dir.path().join(format!("tar{number}"));
        let run = unpack(&dir.file("a", archive), &to);
        assert_eq!(run.status, 0, "{number}: {}", run.errors);
        assert!(contents(&to) == data, "{number}");
    }
    let mut only_files = data.clone();
    only_files.remove(Path::new("nothing"));
    let mut archives = vec![stream(&data)];
    archives.extend(packings(&archives[0]));
    for (number, archive) in archives.iter().enumerate() {
        // Into an existing directory, below a missing one, and from standard input.
        let to = dir.path().join(format!("made/stream{number}"));
        if number == 0 {
            fs::create_dir_all(&to).expect("made");
        }
        let mut child = innokit();
        child.args(["unpack", "-"]).arg(&to).stdin(fs::File::open(dir.file("a", archive)).expect("there"));
        let run = Run::of(&child.output().expect("innokit runs"));
        assert_eq!(run.status, 0, "{number}: {}", run.errors);
        assert!(contents(&to) == only_files, "{number}");
    }
}

#[test]
fn members_that_are_compressed_are_what_is_in_them() {
    let dir = Dir::new();
    let table = fixture("mariadb-10.11/dynamic-16k.ibd");
    let mut archive = Vec::new();
    for (extension, packed) in ["gz", "zst", "lz4"].iter().zip(packings(&table)) {
        archive.extend(member(format!("shop/{extension}.ibd.{extension}"), &packed));
    }
    archive.extend(member("shop/not.zst", b"its name lies"));
    let to = dir.path().join("to");
    let run = unpack(&dir.file("a.xb", &archive), &to);
    assert_eq!(run.status, 0, "{}", run.errors);
    let names = ["shop", "shop/gz.ibd", "shop/lz4.ibd", "shop/not.zst", "shop/zst.ibd"];
    let found = contents(&to);
    assert_eq!(found.keys().map(|path| path.to_str().expect("UTF-8")).collect::<Vec<_>>(), names);
    assert!(
        ["gz", "lz4", "zst"]
            .iter()
            .all(|name| found[&PathBuf::from(format!("shop/{name}.ibd"))] == Some(table.clone()))
    );
    // The compressed member is damaged or cut off, and the archive's own checksums are right.
    for (extension, packed) in ["gz", "zst", "lz4"].iter().zip(packings(&table)) {
        let cut = &packed[..packed.len() / 2];
        let to = dir.path().join("cut");
        let run = unpack(&dir.file("a.xb", &member(format!("t.ibd.{extension}"), cut)), &to);
        assert!(run.status == 1 && !to.exists(), "{extension}: {} {}", run.status, run.errors);
    }
    // A member that cannot be decoded stays as it came, and the run does not succeed.
    let run = unpack(&dir.file("a.xb", &member("shop/t.ibd.qp", b"qpress10")), &dir.path().join("qp"));
    assert!(run.status == 2 && run.text.contains("still packed  shop/t.ibd.qp"), "{}", run.text);
}

/// A stream has no holes. Only compressed pages get theirs back: zeros in other pages are space for rows.
#[test]
fn page_compressed_tables_get_their_holes_back_and_no_other_table_gets_any() {
    const PAGE: usize = 16 << 10;
    let dir = Dir::new();
    let plain = fixture("mysql-9.7/dynamic-16k.ibd");
    // Pages 1 to 99 end in zeros. The server compressed all but one of them.
    let mut compressed = plain[..PAGE].to_vec();
    for number in 1..100_usize {
        let mut page = vec![0; PAGE];
        page[..5000].fill(7);
        page[24..26].copy_from_slice(&u16::to_be_bytes(if number == 50 { 17_855 } else { 14 }));
        compressed.extend(page);
    }
    let archive = [
        member("shop/plain.ibd", &[&plain[..PAGE], &vec![0; 99 * PAGE]].concat()),
        member("shop/t.ibd", &compressed),
        member("shop/packed.ibd.zst", &packings(&compressed)[1]),
    ];
    let to = dir.path().join("to");
    let run = unpack(&dir.file("a.xb", &archive.concat()), &to);
    assert_eq!(run.status, 0, "{}", run.errors);
    let space = |name: &str| fs::metadata(to.join("shop").join(name)).expect("unpacked").blocks() * 512;
    // The space that the file system takes for these bytes with these holes. Without support for holes it is the full size.
    let like = fs::File::create(to.join("like")).expect("made");
    like.set_len(compressed.len() as u64).expect("sized");
    for (number, page) in compressed.chunks(PAGE).enumerate() {
        let used = if number == 0 || number == 50 { PAGE } else { 8192 };
        like.write_all_at(&page[..used], (number * PAGE) as u64).expect("written");
    }
    like.sync_all().expect("durable");
    let expected = like.metadata().expect("made").blocks() * 512;
    for name in ["t.ibd", "packed.ibd"] {
        assert!(fs::read(to.join("shop").join(name)).expect("read") == compressed, "{name}");
        let slack = 16 << 10;
        assert!(space(name) <= expected + slack, "{name}: {} bytes on disk, {expected} expected", space(name));
    }
    assert!(space("plain.ibd") >= 100 * PAGE as u64, "{}", space("plain.ibd"));
}

#[test]
fn names_that_lead_out_of_the_directory_are_refused_and_nothing_is_left() {
    let dir = Dir::new();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).expect("made");
    let absolute = outside.join("x").display().to_string();
    let marker = "innokit-unpack.unfinished";
    for name in ["../outside/x", "a/../../outside/x", "..", ".", "a//b", "", "a/./b", "x\0y", absolute.as_str(), marker]
    {
        let archive = [member("shop/first.ibd", b"first"), member(name, b"evil")].concat();
        let to = dir.path().join("to");
        let run = unpack(&dir.file("a.xb", &archive), &to);
        let says = if name == marker { "leave that file out" } else { "not a valid name for a file" };
        assert!(run.status == 2 && run.errors.contains(says), "{name}: {} {}", run.status, run.errors);
        assert!(!to.exists(), "{name}");
    }
    // A file where a directory is needed and the reverse, renames and removals.
    let both = [member("a", b"1"), member("a/b", b"2")].concat();
    let renamed = [member("a", b"1"), rename("a", "../outside/x")].concat();
    let removed = [member("a", b"1"), chunk(0, b'D', "../outside/kept", &[])].concat();
    dir.file("outside/kept", b"kept");
    for archive in [both, renamed, removed] {
        let to = dir.path().join("to");
        let run = unpack(&dir.file("a.xb", &archive), &to);
        assert!(run.status == 2 && !to.exists(), "{} {}", run.status, run.errors);
    }
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 1);
}

#[test]
fn the_names_of_members_steer_no_terminal() {
    let dir = Dir::new();
    let name = "../\x1b]0;owned\x07\u{202e}x\u{9b}2J\ninnokit: all well";
    let run = unpack(&dir.file("a.xb", &member(name, b"evil")), &dir.path().join("to"));
    let expected = "`../\\u{1b}]0;owned\\u{7}\\u{202e}x\\u{9b}2J\\ninnokit: all well`";
    assert!(run.status == 2 && run.errors.contains(expected), "{}", run.errors);
    assert!(
        run.errors.lines().count() == 1 && !run.errors.contains(['\x1b', '\x07', '\u{202e}', '\u{9b}']),
        "{}",
        run.errors
    );
}

fn rename(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Vec<u8> {
    let to = to.as_ref();
    chunk(0, b'R', from, &[&length(to), to].concat())
}

/// Where the last member of a tar archive ends; zeros follow.
fn members_end(archive: &[u8]) -> usize {
    archive.iter().rposition(|byte| *byte != 0).expect("members").next_multiple_of(512)
}

#[test]
fn links_in_a_tar_archive_are_left_out_and_lead_nowhere() {
    let dir = Dir::new();
    dir.file("data/shop/t.ibd", b"a table");
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).expect("made");
    symlink(&outside, dir.path().join("data/link")).expect("linked");
    let mut archive = tar(&dir, &[]);
    // Then a file below that link.
    fs::remove_file(dir.path().join("data/link")).expect("removed");
    fs::remove_dir_all(dir.path().join("data/shop")).expect("removed");
    dir.file("data/link/x", b"evil");
    archive.truncate(members_end(&archive));
    archive.extend(tar(&dir, &[]));
    let to = dir.path().join("to");
    let run = unpack(&dir.file("a.tar", &archive), &to);
    assert!(run.status == 2 && run.text.contains("left out      ./link"), "{} {}{}", run.status, run.text, run.errors);
    assert_eq!(fs::read(to.join("link/x")).expect("a file"), b"evil");
    assert_eq!((fs::read_dir(&outside).expect("a folder").count(), to.join("link").is_symlink()), (0, false));
}

#[test]
fn an_archive_that_is_cut_or_damaged_anywhere_leaves_nothing() {
    let dir = Dir::new();
    dir.file("data/shop/t.ibd", &[7; 3000]);
    dir.file("data/ibdata1", &[8; 70_000]);
    dir.file("data/xtrabackup_checkpoints", b"backup_type = full-backuped\n");
    let data = contents(&dir.path().join("data"));
    let to = dir.path().join("to");
    let tar = tar(&dir, &[]);
    for (archive, end) in [(&tar, members_end(&tar)), (&stream(&data), stream(&data).len() - 1)] {
        for len in (0..end).step_by(997).chain([end]) {
            let run = unpack(&dir.file("a", &archive[..len]), &to);
            assert!(matches!(run.status, 1 | 2) && !to.exists(), "{len} of {}: {}", archive.len(), run.status);
        }
    }
    let archive = stream(&data);
    for place in (0..archive.len()).step_by(499) {
        let mut damaged = archive.clone();
        damaged[place] ^= 0x10;
        let run = unpack(&dir.file("a", &damaged), &to);
        // Bytes of a name have no checksum.
        let is_renamed = run.status == 0;
        assert!(is_renamed || !to.exists(), "{place}: {}", run.errors);
        assert!(!is_renamed || contents(&to).keys().ne(data.keys()), "{place}");
        fs::remove_dir_all(&to).ok();
    }
    // A stream without the files that backup tools send last, and one with shifted bytes.
    let short = [member("ibdata1", &[8; 70_000]), member("shop/t.ibd", &[7; 3000])].concat();
    let moved = [payload(0, "t", 10, b"bytes"), end("t")].concat();
    for (archive, words) in [(short, "it is cut off"), (moved, "instead of byte")] {
        let run = unpack(&dir.file("a", &archive), &to);
        assert!(run.status == 1 && run.errors.contains(words) && !to.exists(), "{} {}", run.status, run.errors);
    }
}

#[test]
fn what_is_there_is_never_touched() {
    let dir = Dir::new();
    let archive = dir.file("a.xb", &member("shop/t.ibd", b"new"));
    dir.file("to/mine", b"mine");
    dir.file("file", b"mine");
    for to in ["to", "file"] {
        let run = unpack(&archive, &dir.path().join(to));
        assert!(run.status == 2 && run.errors.contains("is not empty"), "{}", run.errors);
    }
    assert_eq!(contents(&dir.path().join("to")).len(), 1);
    // A directory that existed before stays, empty.
    fs::create_dir(dir.path().join("empty")).expect("made");
    let run = unpack(
        &dir.file("b.xb", &[member("shop/t.ibd", b"new"), b"garbage".to_vec()].concat()),
        &dir.path().join("empty"),
    );
    assert!(run.status == 1 && contents(&dir.path().join("empty")).is_empty(), "{}", run.errors);
    // Two archives with the same file, input that is no archive, and an interrupted run.
    let two = innokit().arg("unpack").args([&archive, &archive, &dir.path().join("two")]).output().expect("runs");
    assert!(Run::of(&two).errors.contains("in two of the archives"));
    let run = unpack(&dir.file("c", b"no archive"), &dir.path().join("no"));
    assert!(run.status == 2 && run.errors.contains("neither an xbstream nor a tar archive"), "{}", run.errors);
    dir.file("left/innokit-unpack.unfinished", b"");
    let run = unpack(&archive, &dir.path().join("left"));
    assert!(run.status == 2 && run.errors.contains("an interrupted unpack left it"), "{}", run.errors);
    let run = Run::of(&innokit().args(["recover", "--in-place"]).arg(dir.path().join("left")).output().expect("runs"));
    assert!(run.status == 2 && run.errors.contains("innokit unpack was interrupted"), "{}", run.errors);
}

#[test]
fn files_that_a_stream_sends_again_renames_or_removes_are_as_it_says() {
    let dir = Dir::new();
    let archive = [
        member("a", b"first, and longer"),
        member("a", b"second"),
        member("b", b"0123456789"),
        // Partly overwritten, after a gap that must stay.
        [payload(2, "b", 0, b"AB"), chunk(2, b'S', "b", &number(4)), payload(2, "b", 4, b"C"), end("b")].concat(),
        member("c", b"renamed"),
        rename("c", "new/d"),
        member("gone", b"gone"),
        chunk(0, b'D', "gone", &[]),
    ];
    let to = dir.path().join("to");
    let run = unpack(&dir.file("a.xb", &archive.concat()), &to);
    assert_eq!(run.status, 0, "{}", run.errors);
    let expected = [("a", Some("second")), ("b", Some("AB23C56789")), ("new", None), ("new/d", Some("renamed"))];
    let expected = expected.map(|(name, text)| (PathBuf::from(name), text.map(|text| text.as_bytes().to_vec())));
    assert_eq!(contents(&to).into_iter().collect::<Vec<_>>(), expected);
}

/// Names whose parts may lead upwards, be empty, or be the name of the marker.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    const PARTS: [&[u8]; 10] =
        [b"..", b".", b"", b"a", b"b", b"t.ibd", b"t.ibd.gz", b"outside", b"\xFF\0", b"innokit-unpack.unfinished"];
    let part = proptest::sample::select(PARTS.to_vec());
    let known = proptest::sample::select(vec![b"a".to_vec(), b"b/a".to_vec(), b"../outside/kept".to_vec()]);
    prop_oneof![proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join(&b'/')), known]
}

/// A member of a stream, or what happens to one.
fn any_step() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => any_name().prop_map(|name| member(name, b"evil")),
        1 => (any_name(), any_name()).prop_map(|(from, to)| rename(from, to)),
        1 => any_name().prop_map(|name| chunk(0, b'D', name, &[])),
    ]
}

/// A member of a tar archive: a file, a directory, or a link to another member or out of the directory.
fn any_tar_member() -> impl Strategy<Value = Vec<u8>> {
    (any_name(), any_name(), proptest::sample::select(b"0512".to_vec())).prop_map(|(name, link, kind)| {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(&name);
        header[100..108].copy_from_slice(b"0000644\0");
        let size = if kind == b'0' { b"00000000004\0" } else { b"00000000000\0" };
        header[124..136].copy_from_slice(size);
        header[156] = kind;
        header[157..157 + link.len()].copy_from_slice(&link);
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let mut member = header.to_vec();
        if kind == b'0' {
            member.extend(b"evil");
            member.resize(1024, 0);
        }
        member
    })
}

proptest! {
    #[test]
    fn nothing_leads_out_of_the_directory(
        steps in proptest::collection::vec(any_step(), 1..6),
        members in proptest::collection::vec(any_tar_member(), 1..6),
    ) {
        let dir = Dir::new();
        dir.file("outside/kept", b"kept");
        let stream = dir.file("stream", &steps.concat());
        let tar = dir.file("tar", &[members.concat(), vec![0; 1024]].concat());
        let before = contents(dir.path());
        let to = dir.path().join("to");
        for archive in [stream, tar] {
            let done = recovery::unpack(&[archive], &to);
            prop_assert!(done.is_ok() || !to.exists(), "{done:?}");
            if done.is_ok() {
                let made = contents(&to);
                prop_assert!(made.keys().all(|path| !to.join(path).is_symlink()), "{made:?}");
                prop_assert!(!made.contains_key(Path::new("innokit-unpack.unfinished")), "what is whole is not marked");
                fs::remove_dir_all(&to).expect("removed");
            }
            prop_assert!(contents(dir.path()) == before, "something outside changed");
        }
    }
}
