//! Every engine of the I/O queue: it reads back what it wrote and synced, and a failure affects only its own request.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use innokit_flow::queue::sim::{SimDevice, SimOptions};
#[cfg(target_os = "linux")]
use innokit_flow::queue::{Aio, Uring};
use innokit_flow::queue::{Completion, KeptFiles, Made, Mapped, OpenQueue, Operation, Queue, Request, Threads};
use innokit_flow::{Buffer, BufferPool, FileHandle, FileId};

const SIZE: u32 = 8192;
const DEPTH: u16 = 4;

/// An engine on a file of 16 blocks of zeros.
struct Bench {
    engine: Box<dyn OpenQueue>,
    handle: FileHandle,
    /// For engines that use the system.
    on_disk: Option<(tempfile::TempDir, File)>,
}

fn benches() -> Vec<Bench> {
    let device = SimDevice::new(SimOptions { jitter: std::time::Duration::from_millis(2), ..SimOptions::default() });
    device.add_file(vec![0; 16 * SIZE as usize]);
    let mut benches = vec![
        on_disk(Box::new(Threads)),
        Bench { engine: Box::new(device), handle: FileHandle::of_engine(), on_disk: None },
    ];
    #[cfg(target_os = "linux")]
    for engine in [Box::new(Uring) as Box<dyn OpenQueue>, Box::new(Aio)] {
        match engine.open(1, &[]) {
            Ok(_) => benches.push(on_disk(engine)),
            Err(error) => eprintln!("{} is left out, it does not work here: {error}", engine.name()),
        }
    }
    benches
}

/// Mapping a file is not among `benches`: it cannot extend one.
fn mapped(writes: bool) -> Bench {
    on_disk(Box::new(Mapped { writes, is_random: false }))
}

fn on_disk(engine: Box<dyn OpenQueue>) -> Bench {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("file");
    let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    let file = open();
    file.set_len(16 * u64::from(SIZE)).unwrap();
    Bench { engine, handle: FileHandle::of_file(open(), false), on_disk: Some((dir, file)) }
}

impl Bench {
    fn request(&self, operation: Operation, block: u64, buffer: Buffer) -> Request {
        let (offset, handle) = (block * u64::from(SIZE), self.handle.clone());
        Request { token: block, operation, file: FileId(0), handle, offset, start: 0, len: SIZE, buffer }
    }
}

fn wait_for_all(queue: &mut dyn Queue, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    while done.len() < count {
        let before = done.len();
        queue.wait(&mut done).unwrap();
        assert!(done.len() > before, "wait returns something while requests are in flight");
    }
    done.sort_by_key(|completion| completion.token);
    done
}

#[test]
fn what_is_written_and_synced_is_what_is_read() {
    for bench in benches().into_iter().chain([mapped(true)]) {
        let mut pool = BufferPool::new(DEPTH, SIZE).unwrap();
        let mut queue = bench.engine.open(u32::from(DEPTH), pool.free()).unwrap();
        for first in (0..16).step_by(DEPTH.into()) {
            for block in first..first + u64::from(DEPTH) {
                let mut buffer = pool.take().unwrap();
                buffer.bytes_mut().fill(block as u8 + 1);
                queue.submit(bench.request(Operation::Write, block, buffer));
            }
            for completion in wait_for_all(&mut *queue, DEPTH.into()) {
                assert_eq!(completion.result.unwrap(), SIZE, "{}", bench.engine.name());
                assert!(completion.buffer.bytes().iter().all(|&byte| u64::from(byte) == completion.token + 1));
                pool.give_back(completion.buffer);
            }
        }
        queue.submit(bench.request(Operation::Sync, 99, Buffer::empty()));
        let sync = wait_for_all(&mut *queue, 1).remove(0);
        assert_eq!((sync.token, sync.result.unwrap(), sync.buffer.bytes().len()), (99, 0, 0));
        for block in 0..4 {
            let mut buffer = pool.take().unwrap();
            buffer.bytes_mut().fill(0xff);
            let mut request = bench.request(Operation::Read, block * 5, buffer);
            (request.start, request.len) = (4096, 4096);
            queue.submit(request);
        }
        for completion in wait_for_all(&mut *queue, 4) {
            assert_eq!(completion.result.unwrap(), 4096);
            assert_eq!(completion.buffer.bytes()[..4096], [0xff; 4096], "outside of what was asked for");
            assert!(completion.buffer.bytes()[4096..].iter().all(|&byte| u64::from(byte) == completion.token + 1));
        }
        if let Some((_, file)) = &bench.on_disk {
            let mut bytes = vec![0; SIZE as usize];
            std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 15 * u64::from(SIZE)).unwrap();
            assert!(bytes.iter().all(|&byte| byte == 16), "{}", bench.engine.name());
        }
    }
}

#[test]
fn a_write_to_the_middle_of_a_buffer_takes_those_bytes_and_grows_the_file() {
    for bench in benches() {
        let mut buffer = Buffer::empty();
        assert!(buffer.bytes_mut().is_empty());
        let mut pool = BufferPool::new(1, SIZE).unwrap();
        let mut queue = bench.engine.open(1, pool.free()).unwrap();
        buffer = pool.take().unwrap();
        buffer.bytes_mut().iter_mut().enumerate().for_each(|(index, byte)| *byte = (index / 512) as u8);
        let mut request = bench.request(Operation::Write, 16, buffer);
        (request.start, request.len) = (512, 1024);
        queue.submit(request);
        let completion = wait_for_all(&mut *queue, 1).remove(0);
        assert_eq!(completion.result.unwrap(), 1024);
        queue.submit(bench.request(Operation::Read, 16, completion.buffer));
        let completion = wait_for_all(&mut *queue, 1).remove(0);
        assert_eq!(completion.result.unwrap(), 1024, "to the end of the file");
        assert_eq!(completion.buffer.bytes()[..1024], [[1; 512], [2; 512]].concat());
    }
}

#[test]
fn a_mapped_file_is_neither_extended_nor_written_unless_it_may_be() {
    let request = |bench: &Bench, operation, start: u64, pool: &mut BufferPool| {
        let mut request = bench.request(operation, 0, pool.take().unwrap());
        request.offset = start;
        let mut queue = bench.engine.open(1, &[]).unwrap();
        queue.submit(request);
        let completion = wait_for_all(&mut *queue, 1).remove(0);
        pool.give_back(completion.buffer);
        completion.result.map_err(|error| error.kind())
    };
    let mut pool = BufferPool::new(1, SIZE).unwrap();
    let (end, half) = (16 * u64::from(SIZE), u64::from(SIZE / 2));
    let bench = mapped(true);
    for operation in [Operation::Read, Operation::Write] {
        assert_eq!(request(&bench, operation, end - half, &mut pool), Ok(SIZE / 2), "to the end of the file");
    }
    assert_eq!(request(&bench, Operation::Read, end, &mut pool), Ok(0));
    assert_eq!(request(&bench, Operation::Write, end, &mut pool), Err(std::io::ErrorKind::WriteZero));
    assert_eq!(request(&bench, Operation::Write, u64::MAX, &mut pool), Err(std::io::ErrorKind::WriteZero));
    assert_eq!(request(&mapped(false), Operation::Read, 0, &mut pool), Ok(SIZE));
    assert_eq!(request(&mapped(false), Operation::Write, 0, &mut pool), Err(std::io::ErrorKind::PermissionDenied));
}

#[test]
fn what_cannot_be_done_fails_by_itself() {
    for mut bench in benches().into_iter().filter(|bench| bench.on_disk.is_some()) {
        // A file open only for reading.
        bench.handle = FileHandle::of_file(File::open("/dev/null").unwrap(), false);
        let mut pool = BufferPool::new(2, SIZE).unwrap();
        let mut queue = bench.engine.open(2, pool.free()).unwrap();
        queue.submit(bench.request(Operation::Write, 0, pool.take().unwrap()));
        queue.submit(bench.request(Operation::Read, 1, pool.take().unwrap()));
        let done = wait_for_all(&mut *queue, 2);
        assert_eq!(done[0].result.as_ref().unwrap_err().raw_os_error(), Some(9), "{}", bench.engine.name());
        assert_eq!(*done[1].result.as_ref().unwrap(), 0);
    }
}

/// File 0 has its own number at every place, and cannot be read beyond the first block; others are not its.
#[derive(Debug)]
struct Numbers;

impl KeptFiles for Numbers {
    fn keeps(&self, file: FileId) -> bool {
        file.0 == 0
    }

    fn read_at(&self, _: FileId, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
        bytes.fill(u8::try_from(offset / u64::from(SIZE)).unwrap());
        if offset < u64::from(SIZE) * 3 { Ok(bytes.len()) } else { Err(std::io::Error::other("not made")) }
    }
}

#[test]
fn bytes_that_are_made_and_bytes_of_a_device_come_through_one_queue() {
    let bench = on_disk(Box::new(Made(Arc::new(Numbers))));
    let (_, file) = bench.on_disk.as_ref().unwrap();
    file.write_all_at(&[9; SIZE as usize], u64::from(SIZE)).unwrap();
    let mut pool = BufferPool::new(DEPTH, SIZE).unwrap();
    let mut queue = bench.engine.open(DEPTH.into(), pool.free()).unwrap();
    for block in 0..4 {
        let request = bench.request(Operation::Read, block, pool.take().unwrap());
        // The second is of the device, where the handle leads.
        queue.submit(Request { file: FileId(u32::from(block == 1)), ..request });
    }
    for done in wait_for_all(queue.as_mut(), 4) {
        let expected = if done.token == 1 { 9 } else { u8::try_from(done.token).unwrap() };
        match done.result {
            Ok(len) => {
                assert!(len == SIZE && done.buffer.bytes().iter().all(|byte| *byte == expected), "{}", done.token)
            }
            Err(error) => assert!(done.token == 3 && error.to_string() == "not made", "{error}"),
        }
        pool.give_back(done.buffer);
    }
    queue.submit(bench.request(Operation::Write, 0, pool.take().unwrap()));
    let [written] = wait_for_all(queue.as_mut(), 1).try_into().unwrap();
    assert_eq!(written.result.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}
