//! Everything that reads headers, over arbitrary bytes: page 0, files without one, extent descriptors, segment inodes, redo logs.
//!
//! The first byte chooses a repair without which nearly all inputs would be refused at once: a plausible page 0, or the checksums
//! of a redo log's header.
#![no_main]

use format::checksum::crc32c;
use format::page::doublewrite::DoublewriteArea;
use format::page::inode::parse_inodes;
use redo::{LogState, identify, mariadb, mysql};
use format::{ExtentMap, PageId, PageNo, PageSize, SpaceFormat, SpaceHeader, page_in_use, verify_page};
use libfuzzer_sys::fuzz_target;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

fn put_crc(bytes: &mut [u8], start: usize, len: usize) {
    if let Some(crc) = bytes.get(start..start + len).map(crc32c) {
        put(bytes, start + len, &crc.to_be_bytes());
    }
}

fn space(bytes: &[u8]) {
    let formats = [
        SpaceFormat::from_page0(bytes).ok(),
        SpaceFormat::guess(bytes, Some(PageSize::DEFAULT)).map(|guess| guess.format),
    ];
    for format in formats.into_iter().flatten() {
        let mut page = bytes.to_vec();
        page.resize(format.physical().bytes(), 0);
        let _ = verify_page(&page, PageId { space: format.space(), page_no: PageNo(0) }, &format);
        let header = SpaceHeader::parse(&page);
        for first in [PageNo(0), PageNo(format.physical().get()), PageNo::NONE] {
            let (Ok(map), Ok(header)) = (ExtentMap::parse(&page, first, &format), &header) else { continue };
            assert_eq!(map.len(), format.physical().get());
            for page_no in [first, PageNo(first.0.saturating_add(map.len() - 1)), header.free_limit] {
                let _ = page_in_use(page_no, header, &map);
            }
        }
        let _ = (parse_inodes(&page, &format), DoublewriteArea::parse(&page), DoublewriteArea::segment_inode(&page));
    }
}

fn redo(bytes: &[u8]) {
    let _ = identify(bytes);
    let (header, rest) = bytes.split_at_checked(2048).unwrap_or((bytes, &[]));
    if let Ok(file) = mysql::LogFile::parse(header, bytes.len() as u64) {
        if let Ok(place) = mysql::newest_checkpoint(&[file.clone(), file]) {
            assert!(place.offset >= 2048);
            let _ = mysql::state(&place, rest);
        }
    }
    if let Ok(file) = mariadb::LogFile::parse(bytes, bytes.len() as u64) {
        let place = file.checkpoint_place().and_then(|place| usize::try_from(place).ok());
        let at_checkpoint = place.and_then(|place| bytes.get(place..)).unwrap_or(&[]);
        let _ = file.state(at_checkpoint);
        assert_ne!(file.state(&[0; 4096]), Ok(LogState::Undecided), "zeros end every log");
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&repair, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    match repair % 4 {
        1 => {
            put(&mut bytes, 4, &[0; 4]);
            put(&mut bytes, 24, &[0, 8]);
            let id = bytes.get(34..38).map(<[u8]>::to_vec).unwrap_or_default();
            put(&mut bytes, 38, &id);
        }
        2 => {
            bytes.resize(bytes.len().max(4096), 0);
            [0, 512, 1536].into_iter().for_each(|start| put_crc(&mut bytes, start, 508));
        }
        3 => {
            bytes.resize(bytes.len().max(16_384), 0);
            put_crc(&mut bytes, 0, 508);
            [4096, 8192].into_iter().for_each(|start| put_crc(&mut bytes, start, 60));
        }
        _ => {}
    }
    space(&bytes);
    redo(&bytes);
});
