//! Which bytes of a log may be taken while a server writes it, on handmade logs: blocks at the live end as a server leaves them, and laps.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail where they must")]

use format::Lsn;
use format::checksum::crc32c;
use innokit_redo::follow::Walk;
use innokit_redo::mariadb::{Checkpoint, Format, LogFile, START_OFFSET};
use innokit_redo::segment::SegmentHeader;

const BLOCK: usize = 4096;
const FIRST: u64 = 12_288;

/// A mini-transaction of one record, `len` bytes in total, with `fill` as content.
fn mtr(len: usize, fill: u8, sequence: u8) -> Vec<u8> {
    // A type, a length in three bytes, and the content: any record of 128 bytes or more, without end marker and checksum.
    let body = len - 5 - 1;
    let length = body - 15;
    assert!((128..16_512).contains(&length), "{len}");
    let mut bytes = vec![0x30, 0x80 | ((length - 128) >> 8) as u8, (length - 128) as u8];
    bytes.resize(1 + body, fill);
    let crc = crc32c(&bytes);
    bytes.push(sequence);
    bytes.extend(crc.to_be_bytes());
    bytes
}

/// A log of `capacity` bytes that starts at LSN 12288.
fn log(capacity: usize) -> LogFile {
    let mut server = vec![0; START_OFFSET];
    server[..4].copy_from_slice(&0x5068_7973_u32.to_be_bytes());
    let (format, checkpoint) =
        (Format::Stream { encrypted: None }, Checkpoint { lsn: Lsn(FIRST), end_lsn: Lsn(FIRST) });
    let header = SegmentHeader { start: Lsn(FIRST), timeline: 1, checkpoint: Some(checkpoint), format };
    let header = header.build(&server).expect("a header");
    LogFile::parse(&header, (START_OFFSET + capacity) as u64).expect("a log")
}

fn chain(lens: &[usize], fill: u8, sequence: u8) -> Vec<u8> {
    lens.iter().flat_map(|len| mtr(*len, fill, sequence)).collect()
}

#[test]
fn stale_mini_transactions_at_the_live_end_are_sound_by_every_test_and_never_taken() {
    let file = log(1 << 20);
    // Earlier redo in blocks 0 to 3. Block 4 is being written, and its buffer still contains the rest of block 3.
    let mut truth = chain(&[200; 100], 1, 1);
    truth.extend(chain(&[300; 20], 2, 1));
    for valid in [1, 3, 7, 10] {
        let start = 4 * BLOCK;
        let before = truth[..start].to_vec();
        // The true stream continues into the block for `valid` mini-transactions.
        let boundary = (0..).map(|n| if n < 100 { n * 200 } else { 20_000 + (n - 100) * 300 });
        let first_in_block = boundary.clone().find(|at| *at >= start).expect("one");
        let live = boundary.clone().nth_back_from(first_in_block, valid);
        let mut image = truth[..live].to_vec();
        // After it, complete stale mini-transactions with correct checksum and marker fill the block.
        let mut stale = 0;
        while image.len() + 400 <= start + BLOCK {
            image.extend(mtr(250, 9, 1));
            stale += 1;
        }
        image.resize(start + BLOCK, 0x55);
        image.resize(start + 3 * BLOCK, 0);
        let walk = Walk::over(&file, Lsn(FIRST), &image);
        assert!(stale > 0 && walk.end() > Lsn(FIRST + live as u64), "a naive follower takes them");
        let (len, _) = walk.up_to(walk.held_back(&file));
        assert!(len <= start && image[..len] == before[..len], "{len} bytes, {start} are sure");
        assert!(len + 300 > start, "and all that is sure is taken, but for what spans the blocks: {len}");
        // The flushed LSN that the server reported before the read is just as safe, and closer to the end.
        let (len, mtrs) = walk.up_to(Lsn(FIRST + live as u64));
        assert!(len == live && mtrs > 0 && image[..len] == truth[..len]);
    }
}

trait BackFrom {
    /// The end of the `count`-th mini-transaction from `from` on.
    fn nth_back_from(self, from: usize, count: usize) -> usize;
}

impl<I: Iterator<Item = usize>> BackFrom for I {
    fn nth_back_from(self, from: usize, count: usize) -> usize {
        self.skip_while(|at| *at < from).nth(count).expect("endless")
    }
}

/// A chain that ends exactly with its block may also be stale. That block waits until the walk gets past the next byte.
#[test]
fn a_chain_that_ends_with_its_block_is_held_back() {
    let file = log(1 << 20);
    let bytes = chain(&[256; 32], 3, 1);
    assert_eq!(bytes.len(), 2 * BLOCK);
    let walk = Walk::over(&file, Lsn(FIRST), &[bytes.clone(), vec![0; BLOCK]].concat());
    assert_eq!(walk.end(), Lsn(FIRST + 2 * BLOCK as u64));
    assert_eq!(walk.up_to(walk.held_back(&file)), (BLOCK, 16));
    let one_more = [bytes, mtr(256, 4, 1), vec![0; BLOCK]].concat();
    let walk = Walk::over(&file, Lsn(FIRST), &one_more);
    assert_eq!(walk.up_to(walk.held_back(&file)), (2 * BLOCK, 32));
    assert!(!walk.is_cut() && Walk::over(&file, Lsn(FIRST), &one_more[..300]).is_cut());
}

#[test]
fn bytes_of_the_next_lap_are_not_taken_for_this_one() {
    let capacity = 64 << 10;
    let file = log(capacity);
    let lap = |number: u8| chain(&[256; 256], 10 + number, u8::from(number.is_multiple_of(2)));
    // The reader is in lap 1, and the server has overwritten its position with lap 2.
    let from = Lsn(FIRST + capacity as u64 + 10 * 256);
    let walk = Walk::over(&file, from, &lap(2)[10 * 256..]);
    assert_eq!((walk.end(), walk.is_cut()), (from, false));
    // In its own lap it continues past the end of the file, where markers change.
    let both = [&lap(1)[10 * 256..], &lap(2)[..]].concat();
    let walk = Walk::over(&file, from, &both);
    assert_eq!(walk.end(), Lsn(from.0 + both.len() as u64));
    let mut straight = both.clone();
    walk.straighten(&mut straight, both.len());
    let read = Walk::over(&LogFile::straight(file.format, from), from, &straight);
    assert_eq!(read.end(), walk.end());
    assert_eq!(
        straight.iter().zip(&both).filter(|(one, other)| one != other).count(),
        246,
        "only the markers of lap 1"
    );
}

#[test]
fn what_fits_is_whole_mini_transactions() {
    let file = log(1 << 20);
    let bytes = chain(&[300; 10], 3, 1);
    let walk = Walk::over(&file, Lsn(FIRST), &bytes);
    assert_eq!(walk.up_to_within(Lsn(u64::MAX), 1000), (900, 3));
    assert_eq!(walk.up_to_within(Lsn(FIRST + 600), 1000), (600, 2));
    assert_eq!(walk.up_to_within(Lsn(FIRST + 599), 1000), (300, 1));
    assert_eq!(walk.up_to_within(Lsn(FIRST + 299), 1000), (0, 0));
}
