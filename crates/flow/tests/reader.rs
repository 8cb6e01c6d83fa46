//! The reader on real files: every byte once, by the fastest path, whatever happens to the files meanwhile.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};

use innokit_flow::{BLOCK_ALIGN, Counters, Cursor, Engine, FileSet, IoMode, ReadOptions, Reader};
use support::{Files, options, read};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const MODES: [IoMode; 3] = [IoMode::Auto, IoMode::Direct, IoMode::Buffered];

/// Whether `io_uring` works here. Containers often forbid it.
fn engines() -> Vec<Engine> {
    let files = FileSet::new([]);
    let cursor = Cursor::sweep(&files, BLOCK_ALIGN);
    let uring = ReadOptions { engine: Engine::Uring, ..ReadOptions::default() };
    let works = Reader::new(&files, &cursor, &uring, Counters::new(1).worker(0)).is_ok();
    if works { vec![Engine::Uring, Engine::Threads] } else { vec![Engine::Threads] }
}

#[test]
fn any_size_engine_and_mode_gives_the_same_bytes_hot_and_cold() {
    let files = Files::new(&[0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 112 * KIB, MIB + 1, 0, 3 * MIB - 5, 1]);
    let set = files.set();
    for engine in engines() {
        for io in MODES {
            for (block_size, depth, workers) in [(64 * KIB, 1, 1), (64 * KIB, 5, 3), (192 * KIB, 2, 2), (4 * MIB, 3, 1)]
            {
                for cold in [true, false] {
                    if cold {
                        files.make_cold();
                    }
                    let options = ReadOptions { engine, depth, block_size: block_size as u32, ..options(io) };
                    let outcome = read(&set, &options, workers);
                    assert!(outcome.contents == files.contents, "{options:?} cold {cold}");
                    assert!(outcome.failed.is_empty() && outcome.gaps.is_empty(), "{outcome:?}");
                    assert_eq!(outcome.counts.bytes_read, files.total(), "{options:?} cold {cold}");
                    assert_eq!(outcome.counts.retries, 0, "{options:?} cold {cold}");
                    assert!(outcome.counts.in_flight_max <= u64::from(depth));
                }
            }
        }
    }
}

#[test]
fn auto_takes_hot_files_from_the_page_cache_without_an_engine() {
    let files = Files::new(&[3 * MIB, 100, 112 * KIB]);
    let outcome = files.while_hot(|| read(&files.set(), &options(IoMode::Auto), 2));
    assert_eq!(outcome.counts.bytes_cached, files.total());
    assert_eq!((outcome.counts.in_flight_max, outcome.counts.wait_ns), (0, 0));
    assert_eq!(outcome.engines, ["none"; 2]);
}

#[test]
fn auto_and_direct_do_not_fill_the_page_cache() {
    let files = Files::new(&[3 * MIB, 100, 112 * KIB]);
    for io in [IoMode::Auto, IoMode::Direct] {
        files.make_cold();
        assert_eq!(files.cached(), 0);
        let outcome = read(&files.set(), &options(io), 2);
        assert_eq!(outcome.counts.bytes_direct, files.total(), "{io:?}");
        assert_eq!(files.cached(), 0, "{io:?}");
    }
}

#[test]
fn auto_decides_block_by_block() {
    let files = Files::new(&[4 * MIB]);
    files.make_cold();
    let warm = File::open(files.path(0)).unwrap();
    rustix::fs::fadvise(&warm, 0, None, rustix::fs::Advice::Random).unwrap();
    for block in [1, 3] {
        rustix::io::pread(&warm, &mut vec![0; MIB], block * MIB as u64).unwrap();
    }
    let outcome = read(&files.set(), &ReadOptions { block_size: MIB as u32, ..options(IoMode::Auto) }, 1);
    assert_eq!((outcome.counts.bytes_cached, outcome.counts.bytes_direct), (2 * MIB as u64, 2 * MIB as u64));
    assert!(outcome.contents == files.contents);
}

#[test]
fn direct_goes_past_a_hot_cache() {
    let files = Files::new(&[MIB + 1]);
    let outcome = read(&files.set(), &options(IoMode::Direct), 1);
    assert_eq!((outcome.counts.bytes_direct, outcome.counts.opens), (files.total(), 1));
}

#[test]
fn buffered_fills_the_page_cache() {
    let files = Files::new(&[MIB + 1]);
    files.make_cold();
    let outcome = read(&files.set(), &options(IoMode::Buffered), 1);
    assert_eq!(outcome.counts.bytes_direct, 0);
    assert_eq!(files.cached(), files.total());
}

#[test]
fn window_is_full_across_file_borders() {
    let files = Files::new(&[64 * KIB; 40]);
    for engine in engines() {
        let options = ReadOptions { engine, depth: 8, ..options(IoMode::Direct) };
        let outcome = read(&files.set(), &options, 1);
        assert_eq!(outcome.counts.in_flight_max, 8, "{engine:?}");
        assert_eq!(outcome.counts.requests, 40);
        assert_eq!(outcome.counts.opens, 40);
    }
}

#[test]
fn each_file_is_opened_once_by_a_worker_that_reads_alone() {
    let files = Files::new(&[MIB, MIB, 1]);
    for io in MODES {
        assert_eq!(read(&files.set(), &options(io), 1).counts.opens, 3, "{io:?}");
    }
}

#[test]
fn hot_pieces_have_the_size_asked_for() {
    let files = Files::new(&[2 * MIB]);
    let options = ReadOptions { block_size: MIB as u32, cached_piece: 256 << 10, ..options(IoMode::Auto) };
    let outcome = files.while_hot(|| read(&files.set(), &options, 1));
    assert_eq!(outcome.counts.requests, 8);
}

#[test]
fn vanished_file_fails_block_by_block_and_the_others_are_read() {
    for io in MODES {
        let files = Files::new(&[100 * KIB, 200 * KIB, 300 * KIB]);
        let set = files.set();
        fs::remove_file(files.path(1)).unwrap();
        let outcome = read(&set, &options(io), 2);
        assert_eq!(outcome.failed.len(), 4, "200 KiB are 4 blocks");
        for (block, message) in &outcome.failed {
            assert_eq!(block.file.0, 1);
            assert!(message.contains("00001 cannot be read: No such file"), "{message}");
        }
        assert!(outcome.contents[0] == files.contents[0] && outcome.contents[2] == files.contents[2]);
        assert_eq!(outcome.counts.bytes_read, 400 * KIB as u64);
    }
}

#[test]
fn directory_in_place_of_a_file_does_not_end_the_run() {
    for io in MODES {
        let files = Files::new(&[100 * KIB, 100]);
        let set = files.set();
        fs::remove_file(files.path(0)).unwrap();
        fs::create_dir(files.path(0)).unwrap();
        let outcome = read(&set, &options(io), 1);
        assert!(outcome.contents[0].iter().all(|&byte| byte == 0));
        assert!(
            outcome.failed.len() == 2 || outcome.gaps.iter().all(|(file, _)| *file == 0) && !outcome.gaps.is_empty()
        );
        assert!(outcome.contents[1] == files.contents[1], "{io:?}");
    }
}

#[test]
fn shrunk_file_comes_short() {
    for io in MODES {
        for left in [0, 1, 65536, 70_000, 131_072] {
            let files = Files::new(&[200 * KIB, 100]);
            let set = files.set();
            OpenOptions::new().write(true).open(files.path(0)).unwrap().set_len(left).unwrap();
            let options = ReadOptions { block_size: 128 << 10, ..options(io) };
            let outcome = read(&set, &options, 1);
            assert_eq!(outcome.counts.bytes_read, left + 100, "{io:?}");
            assert!(outcome.contents[0][..left as usize] == files.contents[0][..left as usize]);
            assert!(outcome.contents[1] == files.contents[1]);
        }
    }
}

#[test]
fn grown_file_is_read_to_the_expected_length() {
    for io in MODES {
        let files = Files::new(&[70_001, 5]);
        let set = files.set();
        OpenOptions::new().append(true).open(files.path(0)).unwrap().write_all(&[9; 100_000]).unwrap();
        let outcome = read(&set, &options(io), 1);
        assert!(outcome.contents == files.contents, "{io:?}");
        assert_eq!((outcome.counts.bytes_read, outcome.counts.retries), (70_006, 0));
    }
}

#[test]
fn holes_are_zeros() {
    let mut files = Files::new(&[0]);
    let mut file = OpenOptions::new().write(true).open(files.path(0)).unwrap();
    file.seek(SeekFrom::Start(3 * MIB as u64 + 7)).unwrap();
    file.write_all(b"end").unwrap();
    files.contents[0] = vec![0; 3 * MIB + 7];
    files.contents[0].extend_from_slice(b"end");
    for io in MODES {
        files.make_cold();
        assert!(read(&files.set(), &options(io), 2).contents == files.contents, "{io:?}");
    }
}

#[test]
fn nothing_to_read_is_the_end() {
    let files = Files::new(&[0, 0]);
    let outcome = read(&files.set(), &options(IoMode::Auto), 2);
    assert_eq!(outcome.counts.opens, 0, "empty files are not even opened");
    assert!(read(&FileSet::new([]), &options(IoMode::Direct), 2).contents.is_empty());
}

#[test]
fn blocks_larger_than_the_buffers_are_refused() {
    let files = Files::new(&[100]);
    let set = files.set();
    let cursor = Cursor::sweep(&set, 2 * BLOCK_ALIGN);
    let refused = Reader::new(&set, &cursor, &options(IoMode::Auto), Counters::new(1).worker(0)).err();
    assert!(refused.unwrap().to_string().contains("block size is 65536"));
}
