//! The doublewrite area of the system tablespace: whole copies of pages that the server may have torn.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use format::bytes::be;
use format::codec::{Scratch, open_page};
use format::keyring::KeyStore;
use format::page::doublewrite::{DoublewriteArea, TRX_SYS_PAGE_NO};
use format::{Lsn, PageId, PageNo, SpaceFormat, SpaceId, Verdict, verify_page};

use super::error::{Result, failed};
use super::log::read;
use crate::source::keys::SpaceKey;

const PAGE_NO: usize = 4;
const PAGE_LSN: usize = 16;
const SPACE_ID: usize = 34;

/// Copies in the doublewrite area, as they lie there: slots of a whole page each.
#[derive(Debug, Default)]
pub(super) struct Copies(Vec<Vec<u8>>);

impl Copies {
    /// Reads the area of the system tablespace at `path`.
    pub fn read(path: &Path, system: &SpaceFormat) -> Result<Self> {
        let size = system.physical().bytes();
        let file = File::open(path).map_err(failed(path, "opening the system tablespace"))?;
        let run = |first: PageNo, pages: usize| {
            let bytes = read(&file, u64::from(first.0) * size as u64, pages * size);
            bytes.map_err(failed(path, "reading the doublewrite area"))
        };
        let trx_sys = run(TRX_SYS_PAGE_NO, 1)?;
        // The page that says where the area is may be torn itself.
        let area = DoublewriteArea::parse(&trx_sys).unwrap_or_else(|| DoublewriteArea::usual(system.logical()));
        let pages = system.extent_pages() as usize;
        let both = [run(area.block1, pages)?, run(area.block2, pages)?];
        let slots = both.iter().flat_map(|bytes| bytes.chunks_exact(size));
        Ok(Self(slots.filter(|slot| be::u64_at(slot, PAGE_LSN) != Some(0)).map(<[u8]>::to_vec).collect()))
    }

    /// The newest sound copy of a page among those that were written between these LSNs.
    pub fn find(&self, id: PageId, format: &SpaceFormat, from: Lsn, to: Lsn) -> Option<&[u8]> {
        let size = format.physical().bytes();
        let copies = self.0.iter().filter_map(|slot| Some((be::u64_at(slot, PAGE_LSN)?, slot.get(..size)?)));
        let sound = copies.filter(|&(lsn, copy)| {
            (from.0..=to.0).contains(&lsn)
                && be::u32_at(copy, PAGE_NO) == Some(id.page_no.0)
                && is_copy_of(copy, id, format)
        });
        sound.max_by_key(|&(lsn, _)| lsn).map(|(_, copy)| copy)
    }

    /// Which pages the copies may be of: by their own word, and where that is hidden inside, by that of `compressed`.
    pub fn ids(&self, compressed: &HashMap<SpaceId, SpaceFormat>) -> Vec<PageId> {
        let mut ids = Vec::new();
        for slot in &self.0 {
            let (Some(space), Some(page_no)) = (be::u32_at(slot, SPACE_ID), be::u32_at(slot, PAGE_NO)) else {
                continue;
            };
            ids.push(PageId::new(space, page_no));
            ids.extend(compressed.keys().map(|space| PageId::new(space.0, page_no)));
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Whether the copy is sound, and of this page also where its tablespace's number is hidden inside.
fn is_copy_of(copy: &[u8], id: PageId, format: &SpaceFormat) -> bool {
    match verify_page(copy, id, format) {
        Verdict::Ok(_) | Verdict::Unverifiable(_) => {}
        _ => return false,
    }
    let key = SpaceKey::unlock(&[], format, &KeyStore::new()).unwrap_or_default();
    let mut scratch = Scratch::new();
    let opened = open_page(copy, id, &key.context(format), &mut scratch);
    opened.is_ok_and(|opened| be::u32_at(opened.page, SPACE_ID) == Some(id.space.0))
}
