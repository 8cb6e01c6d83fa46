//! The reader on a failing device: a fake queue that fails, reorders and shortens reads on demand.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::io;
use std::sync::Mutex;

use innokit_flow::queue::{Completion, OpenQueue, Queue, Request, Threads};
use innokit_flow::{Buffer, FileSet, IoMode, ReadOptions, WholeFile};
use rustix::io::Errno;
use support::{Files, Outcome, options, read_with};

const KIB: usize = 1024;

/// The faults of the device.
#[derive(Debug, Default, Clone)]
struct Faults {
    /// Units of 4096 bytes that cannot be read, as (file, unit).
    bad: Vec<(u32, u64)>,
    /// No read returns more than this, bytes.
    at_most: Option<u32>,
    /// Completes the newest request first, one at a time.
    reverse: bool,
    /// Direct reads are refused, as by some file systems.
    refuse_direct: bool,
    /// Files that cannot be read any more, as (file, from this byte on).
    gone: Vec<(u32, u64)>,
    /// Works for this many requests, then fails permanently.
    breaks_after: Option<usize>,
    /// Loses every request.
    loses: bool,
}

/// Opens faulty queues, and records the buffers registered with them.
#[derive(Debug, Default)]
struct Faulty {
    faults: Faults,
    shown: Mutex<Vec<usize>>,
}

impl OpenQueue for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn open(&self, depth: u32, buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        self.shown.lock().unwrap().extend(buffers.iter().map(|buffer| buffer.bytes().len()));
        assert_eq!(buffers.len(), depth as usize);
        Ok(Box::new(FaultyQueue { faults: self.faults.clone(), taken: Vec::new(), served: 0 }))
    }
}

struct FaultyQueue {
    faults: Faults,
    taken: Vec<Request>,
    served: usize,
}

impl FaultyQueue {
    fn serve(&self, request: &mut Request) -> io::Result<u32> {
        if self.faults.gone.iter().any(|(file, from)| request.file.0 == *file && request.offset >= *from) {
            return Err(io::Error::new(io::ErrorKind::NotFound, WholeFile("replaced".to_owned())));
        }
        if request.handle.is_direct() {
            assert!((request.offset | u64::from(request.start) | u64::from(request.len)).is_multiple_of(4096));
            if self.faults.refuse_direct {
                return Err(Errno::INVAL.into());
            }
        }
        let end = request.offset + u64::from(request.len);
        let hits = |&(file, unit): &(u32, u64)| {
            file == request.file.0 && request.offset < (unit + 1) * 4096 && unit * 4096 < end
        };
        if self.faults.bad.iter().any(hits) {
            return Err(Errno::IO.into());
        }
        let len = request.len.min(self.faults.at_most.unwrap_or(u32::MAX));
        let bytes = request.buffer.range_mut(request.start..request.start + request.len);
        let got = rustix::io::pread(request.handle.fd()?, &mut *bytes, request.offset)?;
        Ok((got as u32).min(len))
    }
}

impl Queue for FaultyQueue {
    fn submit(&mut self, request: Request) {
        if !self.faults.loses {
            self.taken.push(request);
        }
    }

    fn kick(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        if self.faults.breaks_after.is_some_and(|after| self.served >= after) {
            return Err(Errno::BADF.into());
        }
        let count = if self.faults.reverse { 1 } else { self.taken.len() };
        for mut request in self.taken.split_off(self.taken.len().saturating_sub(count)) {
            let result = self.serve(&mut request);
            self.served += 1;
            done.push(Completion { token: request.token, buffer: request.buffer, result });
        }
        Ok(())
    }
}

fn read_faulty(files: &Files, options: &ReadOptions, faults: Faults) -> Outcome {
    read_with(&files.set(), options, 1, &[&Faulty { faults, ..Faulty::default() }])
}

/// An engine that the system forbids, as containers do with `io_uring`.
struct Forbidden;

impl OpenQueue for Forbidden {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn open(&self, _depth: u32, _buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        Err(Errno::PERM.into())
    }
}

#[test]
fn one_bad_unit_costs_one_gap_and_nothing_else() {
    let files = Files::new(&[300 * KIB, 300 * KIB + 77]);
    let options = ReadOptions { block_size: 128 << 10, depth: 3, ..options(IoMode::Direct) };
    for unit in [0, 31, 32, 74, 75] {
        let outcome = read_faulty(&files, &options, Faults { bad: vec![(1, unit)], ..Faults::default() });
        let mut expected = files.contents.clone();
        let start = unit as usize * 4096;
        let end = (start + 4096).min(expected[1].len());
        expected[1][start..end].fill(0);
        assert!(outcome.contents == expected, "unit {unit}");
        let gaps: Vec<_> = outcome.gaps.iter().map(|(file, gap)| (*file, gap.offset, gap.len as usize)).collect();
        assert_eq!(gaps, [(1, start as u64, end - start)]);
        assert_eq!(outcome.gaps[0].1.error.raw_os_error(), Some(5));
        assert_eq!(outcome.counts.bytes_read, files.total() - (end - start) as u64);
        assert_eq!(outcome.counts.pieces_with_gaps, 1);
    }
}

#[test]
fn one_bad_unit_of_a_mebibyte_takes_sixteen_more_requests() {
    let files = Files::new(&[1024 * KIB; 4]);
    let options = ReadOptions { block_size: 1 << 20, ..options(IoMode::Direct) };
    let outcome = read_faulty(&files, &options, Faults { bad: vec![(2, 100)], ..Faults::default() });
    assert_eq!((outcome.counts.requests, outcome.counts.retries), (4 + 16, 16));
    assert_eq!(outcome.gaps.len(), 1);
}

#[test]
fn a_file_that_is_all_bad_is_one_gap_for_each_block() {
    let files = Files::new(&[128 * KIB, 5000]);
    let bad = (0..32).map(|unit| (0, unit)).collect();
    let outcome = read_faulty(&files, &options(IoMode::Direct), Faults { bad, ..Faults::default() });
    let gaps: Vec<_> = outcome.gaps.iter().map(|(file, gap)| (*file, gap.offset, gap.len)).collect();
    assert_eq!(gaps, [(0, 0, 65536), (0, 65536, 65536)]);
    assert!(outcome.contents[1] == files.contents[1]);
}

#[test]
fn completions_in_any_order_are_handed_over_in_order() {
    let files = Files::new(&[400 * KIB, 10, 200 * KIB]);
    for io in [IoMode::Direct, IoMode::Buffered] {
        files.make_cold();
        let outcome = read_faulty(&files, &options(io), Faults { reverse: true, ..Faults::default() });
        assert!(outcome.contents == files.contents);
        assert_eq!(outcome.counts.in_flight_max, 8);
    }
}

#[test]
fn short_reads_are_continued_where_they_stopped() {
    let files = Files::new(&[300 * KIB + 5]);
    for (io, at_most) in [(IoMode::Direct, 12288), (IoMode::Direct, 5000), (IoMode::Buffered, 30_001)] {
        files.make_cold();
        let outcome = read_faulty(&files, &options(io), Faults { at_most: Some(at_most), ..Faults::default() });
        assert!(outcome.contents == files.contents, "{io:?} {at_most}");
        assert!(outcome.counts.retries > 0);
    }
}

#[test]
fn file_system_that_refuses_direct_reads_is_read_through_the_page_cache() {
    let files = Files::new(&[300 * KIB, 10]);
    files.make_cold();
    let outcome = read_faulty(&files, &options(IoMode::Auto), Faults { refuse_direct: true, ..Faults::default() });
    assert!(outcome.contents == files.contents);
    assert_eq!((outcome.counts.bytes_direct, outcome.counts.direct_refused), (0, 2));
}

#[test]
fn forbidden_engine_is_replaced_by_the_next_and_the_note_says_why() {
    let files = Files::new(&[300 * KIB]);
    let outcome = read_with(&files.set(), &options(IoMode::Direct), 1, &[&Forbidden, &Threads]);
    assert!(outcome.contents == files.contents);
    assert_eq!(outcome.engines[0], "pread threads");
    assert!(outcome.notes[0].contains("io_uring does not work here (Operation not permitted"), "{:?}", outcome.notes);
}

#[test]
fn without_any_engine_each_block_says_so_but_the_page_cache_is_still_read() {
    let files = Files::new(&[300 * KIB, 100 * KIB]);
    let outcome = files.while_hot(|| read_with(&files.set(), &options(IoMode::Auto), 1, &[&Forbidden]));
    assert!(outcome.contents == files.contents);
    let outcome = read_with(&files.set(), &options(IoMode::Direct), 1, &[&Forbidden]);
    assert_eq!(outcome.failed.len(), 5 + 2);
    assert!(outcome.failed[0].1.contains("Operation not permitted"), "{:?}", outcome.failed);
}

#[test]
fn engine_that_breaks_or_loses_requests_fails_the_blocks_instead_of_hanging() {
    let files = Files::new(&[640 * KIB]);
    let options = ReadOptions { depth: 2, ..options(IoMode::Direct) };
    let outcome = read_faulty(&files, &options, Faults { breaks_after: Some(3), reverse: true, ..Faults::default() });
    assert!((6..10).contains(&outcome.failed.len()), "{:?}", outcome.failed);
    let outcome = read_faulty(&files, &options, Faults { loses: true, ..Faults::default() });
    assert_eq!(outcome.failed.len(), 10);
}

#[test]
fn buffers_are_the_bound_on_memory() {
    let files = Files::new(&[4096 * KIB]);
    let engine = Faulty::default();
    let options = ReadOptions { depth: 3, block_size: 128 << 10, ..options(IoMode::Direct) };
    read_with(&files.set(), &options, 2, &[&engine]);
    assert_eq!(*engine.shown.lock().unwrap(), [128 * KIB; 6], "two workers, three buffers each, whatever is read");
    assert_eq!(options.memory_max(), (3 * 128 + 64) * KIB as u64);
}

#[test]
fn an_error_about_the_whole_file_is_never_split_and_ends_the_file() {
    let files = Files::new(&[300 * KIB, 20 * 64 * KIB, 300 * KIB]);
    files.make_cold();
    let faulty =
        Faulty { faults: Faults { gone: vec![(1, 128 * KIB as u64)], ..Faults::default() }, ..Faulty::default() };
    let options = ReadOptions { depth: 3, ..options(IoMode::Direct) };
    let outcome = read_with(&files.set(), &options, 1, &[&faulty]);
    assert_eq!((&outcome.contents[0], &outcome.contents[2]), (&files.contents[0], &files.contents[2]));
    assert_eq!(outcome.contents[1][..128 * KIB], files.contents[1][..128 * KIB]);
    assert_eq!((outcome.failed.len(), outcome.gaps.len()), (18, 0));
    assert!(
        outcome.failed.iter().all(|(_, words)| words.ends_with("cannot be read: replaced")),
        "{:?}",
        outcome.failed
    );
    let sound = 5 + 2 + 5;
    assert!(outcome.counts.requests <= sound + 3, "those in flight, and no others: {}", outcome.counts.requests);
    assert_eq!(outcome.counts.retries, 0);
}

#[test]
fn files_that_bring_an_engine_are_read_with_it_beside_files_of_the_system() {
    let files = Files::new(&[300 * KIB, 70 * KIB, 10]);
    files.make_cold();
    let lengths = files.contents.iter().map(|bytes| bytes.len() as u64);
    let named = (0..).zip(lengths).map(|(file, len)| (files.path(file), len, file == 1));
    let kept = Kept(files.contents[1].clone());
    let set = FileSet::carried_by(Box::new(kept), named);
    for io in [IoMode::Auto, IoMode::Direct, IoMode::Buffered] {
        let outcome = read_with(&set, &options(io), 2, &[]);
        assert_eq!(outcome.contents, files.contents, "{io:?}");
        assert!(outcome.engines.iter().all(|name| ["kept", "none"].contains(name)), "{:?}", outcome.engines);
    }
}

/// Takes the bytes of file 1 from memory; the others have a handle.
#[derive(Debug)]
struct Kept(Vec<u8>);

impl OpenQueue for Kept {
    fn name(&self) -> &'static str {
        "kept"
    }

    fn open(&self, _: u32, _: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(KeptQueue(self.0.clone(), Vec::new())))
    }
}

struct KeptQueue(Vec<u8>, Vec<Request>);

impl Queue for KeptQueue {
    fn submit(&mut self, request: Request) {
        self.1.push(request);
    }

    fn kick(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        for mut request in self.1.drain(..) {
            let target = request.buffer.range_mut(request.start..request.start + request.len);
            let result = if request.file.0 == 1 {
                let from = &self.0[request.offset as usize..];
                let len = from.len().min(target.len());
                target[..len].copy_from_slice(&from[..len]);
                Ok(len as u32)
            } else {
                Ok(rustix::io::pread(request.handle.fd()?, target, request.offset)? as u32)
            };
            done.push(Completion { token: request.token, buffer: request.buffer, result });
        }
        Ok(())
    }
}
