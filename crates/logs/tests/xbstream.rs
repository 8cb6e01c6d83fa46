//! The xbstream container: streams of the servers' own tools are read, and faults in a stream are reported.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use innokit_logs::xbstream::{self, Error, Event, MemberId, PATH_LEN_MAX, Parser, Unfinished, payload_head};
use proptest::prelude::*;

/// What `mbstream -c ibdata1 db/t1.ibd db/empty` of MariaDB 10.11.19 wrote; the files hold `x`, `hello page` and nothing.
const BY_MBSTREAM: &str = concat!(
    "58425354434b303100500700000069626461746131010000000000000000000000000000008316dc8c78",
    "58425354434b303100450700000069626461746131",
    "58425354434b303100500900000064622f74312e6962640a000000000000000000000000000000cb8031f1",
    "68656c6c6f2070616765",
    "58425354434b303100450900000064622f74312e696264",
    "58425354434b303100450800000064622f656d707479",
);

/// Five bytes of file `s`: three, a hole of five, two. The CRC was computed by zlib over map and bytes.
const SPARSE: &str = concat!(
    "58425354434b3031005301000000730200000005000000000000000000000000000000e22ae262",
    "000000000300000005000000020000006162636465",
);

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn chunk(flags: u8, code: u8, path: &str, rest: &[u8]) -> Vec<u8> {
    let mut chunk = b"XBSTCK01".to_vec();
    chunk.extend([flags, code]);
    chunk.extend(u32::try_from(path.len()).unwrap().to_be_bytes().into_iter().rev());
    chunk.extend(path.bytes());
    chunk.extend(rest);
    chunk
}

fn number(value: u64) -> Vec<u8> {
    value.to_be_bytes().into_iter().rev().collect()
}

fn payload(flags: u8, path: &str, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let crc = crc_fast::crc32_iso_hdlc(bytes).to_be_bytes().into_iter().rev();
    let rest = [number(bytes.len() as u64), number(offset), crc.collect(), bytes.to_vec()].concat();
    chunk(flags, b'P', path, &rest)
}

fn end(path: &str) -> Vec<u8> {
    chunk(0, b'E', path, &[])
}

fn seek(path: &str, offset: u64) -> Vec<u8> {
    chunk(0, b'S', path, &number(offset))
}

/// An owned event. Adjacent data is joined, so that it does not matter where the input is split.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Data(MemberId, u64, Vec<u8>),
    Other(Event<'static>),
}

type Outcome = (Vec<Said>, Result<Vec<Unfinished>, Error>);

fn read_in_pieces(stream: &[u8], piece: usize) -> Outcome {
    let mut parser = Parser::new();
    let mut said = Vec::new();
    for mut piece in stream.chunks(piece) {
        loop {
            match parser.next_event(&mut piece) {
                Ok(None) => break,
                Ok(Some(event)) => note(&mut said, event),
                Err(error) => {
                    assert_eq!(parser.finish(), Err(error.clone()), "an error stays");
                    return (said, Err(error));
                }
            }
        }
        assert!(piece.is_empty(), "all input is taken before more is asked for");
    }
    assert_eq!(parser.position(), stream.len() as u64);
    (said, parser.finish())
}

fn note(said: &mut Vec<Said>, event: Event<'_>) {
    let other = match event {
        Event::Data { id, offset, bytes } => {
            match said.last_mut() {
                Some(Said::Data(last, start, so_far)) if *last == id && *start + so_far.len() as u64 == offset => {
                    so_far.extend(bytes);
                }
                _ => said.push(Said::Data(id, offset, bytes.to_vec())),
            }
            return;
        }
        Event::Member { id, path, rewrite } => Event::Member { id, path, rewrite },
        Event::Skip { id, offset, len } => Event::Skip { id, offset, len },
        Event::Misplaced { id, position, expected, found } => Event::Misplaced { id, position, expected, found },
        Event::BadChunk { id, position, offset, len, stored, computed } => {
            Event::BadChunk { id, position, offset, len, stored, computed }
        }
        Event::End { id, len } => Event::End { id, len },
        Event::Rename { from, to } => Event::Rename { from, to },
        Event::Remove { path } => Event::Remove { path },
    };
    said.push(Said::Other(other));
}

fn read(stream: &[u8]) -> Outcome {
    let whole = read_in_pieces(stream, stream.len().max(1));
    for piece in [1, 2, 3, 7, 16, 31] {
        assert_eq!(read_in_pieces(stream, piece), whole, "pieces of {piece} bytes");
    }
    whole
}

fn member(id: u64, path: &str) -> Said {
    Said::Other(Event::Member { id: MemberId(id), path: path.as_bytes().into(), rewrite: false })
}

fn data(id: u64, offset: u64, bytes: &str) -> Said {
    Said::Data(MemberId(id), offset, bytes.as_bytes().to_vec())
}

fn ended(id: u64, len: u64) -> Said {
    Said::Other(Event::End { id: MemberId(id), len })
}

fn skip(id: u64, offset: u64, len: u64) -> Said {
    Said::Other(Event::Skip { id: MemberId(id), offset, len })
}

#[test]
fn what_mbstream_writes_is_read() {
    let expected = vec![
        member(0, "ibdata1"),
        data(0, 0, "x"),
        ended(0, 1),
        member(1, "db/t1.ibd"),
        data(1, 0, "hello page"),
        ended(1, 10),
        member(2, "db/empty"),
        ended(2, 0),
    ];
    assert_eq!(read(&hex(BY_MBSTREAM)), (expected, Ok(vec![])));
}

#[test]
fn a_sparse_chunk_places_its_bytes_around_the_hole() {
    let stream = [hex(SPARSE), end("s")].concat();
    let expected = vec![member(0, "s"), data(0, 0, "abc"), skip(0, 3, 5), data(0, 8, "de"), ended(0, 10)];
    assert_eq!(read(&stream), (expected, Ok(vec![])));
}

#[test]
fn a_damaged_sparse_map_is_found_by_the_crc() {
    let mut stream = [hex(SPARSE), end("s")].concat();
    stream[39 + 8] ^= 1;
    let (said, _) = read(&stream);
    assert!(
        said.iter().any(|said| matches!(said, Said::Other(Event::BadChunk { stored: 0x62e2_2ae2, .. }))),
        "{said:?}"
    );
}

#[test]
fn a_sparse_map_for_other_bytes_than_the_chunk_has_is_refused() {
    let mut stream = [hex(SPARSE), end("s")].concat();
    stream[39 + 4] = 4;
    assert_eq!(read(&stream).1, Err(Error::MapMismatch { position: 0, len: 5, mapped: 6 }));
}

#[test]
fn files_may_be_mixed_chunk_by_chunk() {
    let stream =
        [payload(0, "a", 0, b"one"), payload(0, "b", 0, b"two"), payload(0, "a", 3, b"more"), end("a"), end("b")]
            .concat();
    let expected = vec![
        member(0, "a"),
        data(0, 0, "one"),
        member(1, "b"),
        data(1, 0, "two"),
        data(0, 3, "more"),
        ended(0, 7),
        ended(1, 3),
    ];
    assert_eq!(read(&stream), (expected, Ok(vec![])));
}

#[test]
fn a_seek_of_mariadb_is_not_taken_for_a_sparse_chunk() {
    let stream = [payload(0, "a", 0, b"one"), seek("a", 100), payload(0, "a", 100, b"two"), end("a")].concat();
    let expected = vec![member(0, "a"), data(0, 0, "one"), skip(0, 3, 97), data(0, 100, "two"), ended(0, 103)];
    assert_eq!(read(&stream), (expected, Ok(vec![])));
}

#[test]
fn a_chunk_behind_a_seek_is_named_by_its_own_position() {
    let stream = [seek("a", 100), payload(0, "a", 7, b"two"), end("a")].concat();
    let misplaced =
        Event::Misplaced { id: MemberId(0), position: seek("a", 100).len() as u64, expected: 100, found: 7 };
    assert_eq!(read(&stream).0.get(2), Some(&Said::Other(misplaced)));
}

#[test]
fn a_seek_may_end_the_stream() {
    let stream = [payload(0, "a", 0, b"one"), seek("a", 100)].concat();
    let unfinished = Unfinished { id: MemberId(0), path: (*b"a").into(), len: 3 };
    assert_eq!(read(&stream), (vec![member(0, "a"), data(0, 0, "one")], Ok(vec![unfinished])));
}

#[test]
fn rewritten_renamed_and_removed_files_are_told() {
    let renamed = chunk(0, b'R', "a", &[&[3, 0, 0, 0][..], b"new"].concat());
    let stream = [payload(2, "a", 0, b"x"), end("a"), renamed, chunk(0, b'D', "gone", &[])].concat();
    let expected = vec![
        Said::Other(Event::Member { id: MemberId(0), path: (*b"a").into(), rewrite: true }),
        data(0, 0, "x"),
        ended(0, 1),
        Said::Other(Event::Rename { from: (*b"a").into(), to: (*b"new").into() }),
        Said::Other(Event::Remove { path: (*b"gone").into() }),
    ];
    assert_eq!(read(&stream), (expected, Ok(vec![])));
}

#[test]
fn a_wrong_crc_is_reported_and_the_stream_read_on() {
    let mut stream = [payload(0, "a", 0, b"one"), payload(0, "a", 3, b"two"), end("a")].concat();
    let last = payload(0, "a", 0, b"one").len() - 1;
    stream[last] ^= 0x80;
    let (said, outcome) = read(&stream);
    let computed = crc_fast::crc32_iso_hdlc(&[b'o', b'n', b'e' ^ 0x80]);
    let stored = crc_fast::crc32_iso_hdlc(b"one");
    let bad = Event::BadChunk { id: MemberId(0), position: 0, offset: 0, len: 3, stored, computed };
    assert_eq!(said.get(2), Some(&Said::Other(bad)));
    assert_eq!(said.get(3..), Some(&[data(0, 3, "two"), ended(0, 6)][..]));
    assert_eq!(outcome, Ok(vec![]));
}

#[test]
fn a_missing_chunk_is_reported_with_both_places() {
    let first = payload(0, "a", 0, b"one");
    let stream = [first.clone(), payload(0, "a", 6, b"three"), end("a")].concat();
    let misplaced = Event::Misplaced { id: MemberId(0), position: first.len() as u64, expected: 3, found: 6 };
    assert_eq!(read(&stream).0.get(2), Some(&Said::Other(misplaced)));
}

#[test]
fn a_stream_cut_between_chunks_names_the_unfinished_files() {
    let stream = [payload(0, "a", 0, b"one"), payload(0, "b", 0, b"two"), end("a")].concat();
    let unfinished = Unfinished { id: MemberId(1), path: (*b"b").into(), len: 3 };
    assert_eq!(read(&stream).1, Ok(vec![unfinished]));
}

#[test]
fn a_stream_cut_anywhere_in_a_chunk_is_cut_short() {
    let first = payload(0, "a", 0, b"one");
    let stream = [first.clone(), payload(0, "a", 3, b"two")].concat();
    for cut in first.len() + 1..stream.len() {
        let expected = Error::CutShort { position: first.len() as u64, end: cut as u64 };
        assert_eq!(read(&stream[..cut]).1, Err(expected), "cut at {cut}");
    }
}

#[test]
fn what_is_no_chunk_is_refused_where_it_stands() {
    let first = payload(0, "a", 0, b"one");
    assert_eq!(read(b"short").1, Err(Error::NoMagic { position: 0 }));
    let stream = [first.clone(), b"XBSTCK02".to_vec()].concat();
    assert_eq!(read(&stream).1, Err(Error::NoMagic { position: first.len() as u64 }));
    assert_eq!(read(&chunk(0, b'Z', "a", &[])).1, Err(Error::UnknownType { position: 0, code: b'Z' }));
    let path = "a".repeat(512);
    assert_eq!(read(&chunk(0, b'E', &path, &[])).1, Err(Error::PathTooLong { position: 0, len: 512 }));
}

#[test]
fn claims_beyond_all_bounds_are_refused_before_memory_is_taken() {
    let map = chunk(0, b'S', "a", &[&[0, 0, 0x20, 0][..], &[0; 20]].concat());
    assert_eq!(read(&map).1, Err(Error::MapTooLong { position: 0, entries: 0x20_0000 }));
    let far = chunk(0, b'P', "a", &[number(2), number(u64::MAX), vec![0; 4]].concat());
    assert_eq!(read(&far).1, Err(Error::TooLarge { position: 0 }));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic_and_alike_in_any_pieces(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), code in proptest::sample::select(b"PESRDZ".to_vec()), piece in 1usize..40,
    ) {
        let stream = [chunk(0, code, "a", &bytes), hex(BY_MBSTREAM)].concat();
        prop_assert_eq!(read_in_pieces(&stream, piece), read_in_pieces(&stream, stream.len()));
    }

    #[test]
    fn any_damaged_byte_but_in_the_flags_is_found(at in 0usize..200, bit in 0u8..8) {
        let whole = hex(BY_MBSTREAM);
        let at = at % whole.len();
        let flags = whole.windows(8).enumerate().any(|(i, window)| window == b"XBSTCK01" && i + 8 == at);
        prop_assume!(!flags);
        let mut stream = whole.clone();
        stream[at] ^= 1 << bit;
        let (said, outcome) = read_in_pieces(&stream, 64);
        let sound = read_in_pieces(&whole, 64).0;
        let told = said.iter().any(|said| matches!(said, Said::Other(Event::BadChunk { .. } | Event::Misplaced { .. })));
        // A damaged name gives another file. Only a reader that knows the names, or a missing end, reveals it.
        prop_assert!(told || outcome != Ok(vec![]) || said != sound);
    }
}

#[test]
fn what_is_written_is_what_mbstream_writes() {
    let mut stream = Vec::new();
    for (path, bytes) in [("ibdata1", "x"), ("db/t1.ibd", "hello page"), ("db/empty", "")] {
        if !bytes.is_empty() {
            stream.extend(payload_head(path, 0, bytes.as_bytes()).unwrap());
            stream.extend(bytes.as_bytes());
        }
        stream.extend(xbstream::end(path).unwrap());
    }
    assert_eq!(stream, hex(BY_MBSTREAM));
    let long = "x".repeat(PATH_LEN_MAX + 1);
    for path in ["", &long] {
        assert!(payload_head(path, 0, b"x").is_none() && xbstream::end(path).is_none());
    }
    assert!(xbstream::end(&long[1..]).is_some());
}
