//! Arbitrary bytes as a log of MySQL, as its records, and those onto pages: no panic, and the same mini-transactions however the bytes are
//! cut.
//!
//! The first bytes choose the length of the pieces, and the layout and the size of the page; the second says how many places of the page
//! the input overwrites (offset 2 bytes, value 1 byte); the rest is records, whose page is put right, and the payload of blocks.
#![no_main]

use format::checksum::crc32c;
use format::{Family, Lsn, PageId, PageSize, Scheme, SpaceFormat, SpaceId};
use libfuzzer_sys::fuzz_target;
use redo::apply::apply;
use redo::record::mysql::change::Change as MySqlChange;
use redo::mysql::mtr_reader::MtrReader;
use redo::record::{Change, Grammar, PageRecord, RedoRecord, RowStyle};

const HERE: PageId = PageId::new(5, 4);
const PAYLOAD: usize = 496;
/// The first block of all, in which a mini-transaction begins at once.
const START: u64 = 8192;

/// The payload in blocks, the last of which ends the log.
fn blocks(payload: &[u8]) -> Vec<u8> {
    let mut log = Vec::new();
    for (number, data) in payload.chunks(PAYLOAD).chain([[].as_slice()]).enumerate() {
        let mut block = vec![0; 512];
        let lsn = START + 512 * number as u64;
        block[..4].copy_from_slice(&((lsn / 512) as u32 + 1).to_be_bytes());
        let len = if data.len() == PAYLOAD { 512 } else { 12 + data.len() as u16 };
        block[4..6].copy_from_slice(&len.to_be_bytes());
        block[6..8].copy_from_slice(&(if number == 0 { 12_u16 } else { 0 }).to_be_bytes());
        block[8..12].copy_from_slice(&1_u32.to_be_bytes());
        block[12..12 + data.len()].copy_from_slice(data);
        let sum = crc32c(&block[..508]).to_be_bytes();
        block[508..].copy_from_slice(&sum);
        log.extend(block);
    }
    log
}

fn read(log: &[u8], piece: usize) -> Vec<(u64, Vec<u8>)> {
    let mut reader = MtrReader::new(6, Lsn(START + 12), Vec::new());
    let mut found = Vec::new();
    for mut input in log.chunks(piece) {
        while let Some(mtr) = reader.next_mtr(&mut input) {
            assert!(mtr.records().all(|record| record.is_ok()), "what was framed is records");
            let subjects = mtr.grammar.subjects(mtr.bytes).map(|(subject, _)| subject);
            assert!(subjects.eq(mtr.records().flatten().map(|record| record.subject())));
            found.push((mtr.end.0, mtr.bytes.to_vec()));
        }
    }
    found
}

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, places, piece], rest)) = input.split_first_chunk() else { return };
    let size = [4096, 16_384, 65_536][usize::from(choice >> 1) % 3];
    let size = PageSize::new(size).expect("a page size");
    let format = SpaceFormat::new(Family::MySql, Scheme::Classic, size, size, SpaceId(5)).expect("a format");
    let mut page = vec![0; size.bytes()];
    let style = if choice & 1 == 0 { RowStyle::Dynamic } else { RowStyle::Redundant };
    let create = MySqlChange::CreateIndex { page_type: format::fil::PageType::INDEX, style };
    let create = PageRecord { id: HERE, change: Change::MySql(create), bytes: &[] };
    apply(&create, &mut page, &format).expect("an empty page");
    let (overwritten, records) = rest.split_at(rest.len().min(3 * usize::from(places % 64)));
    for place in overwritten.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([place[0], place[1]])) % page.len();
        page[at] = place[2];
    }
    for record in Grammar::MySql.records(records).map_while(Result::ok) {
        let RedoRecord::Page(mut record) = record else { continue };
        record.id = HERE;
        // Whatever is wrong with it, the page is read again.
        apply(&record, &mut page, &format).ok();
    }
    let log = blocks(records);
    assert_eq!(read(&log, log.len()), read(&log, usize::from(piece) + 1), "however it is cut");
});
