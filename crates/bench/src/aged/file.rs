//! The tablespace as a file: `extents and leaves -> pages in file order -> bytes`.
//!
//! The levels above the leaves are made here, of full pages side by side, as if they had never been split: one page in about 900.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use format::fil::{FIL_PAGE_NEXT, FIL_PAGE_PREV, PageType};
use format::page::fsp::{
    FSP_FRAG_N_USED, FSP_FREE, FSP_FREE_FRAG, FSP_FREE_LIMIT, FSP_FULL_FRAG, FSP_SEG_ID, FSP_SEG_INODES_FREE,
    FSP_SEG_INODES_FULL, FSP_SIZE, FSP_SPACE_FLAGS, FSP_SPACE_ID, XDES_ARR_OFFSET, xdes_array_end, xdes_size,
};
use format::page::inode::{
    FSEG_ARR_OFFSET, FSEG_FRAG_ARR, FSEG_FREE, FSEG_FULL, FSEG_INODE_PAGE_NODE, FSEG_MAGIC_N, FSEG_NOT_FULL,
    FSEG_NOT_FULL_N_USED, inode_size,
};
use format::page::xdes::{XDES_BITMAP, XDES_FLST_NODE, XDES_ID, XDES_STATE};
use format::{Family, PageNo, PageSize, Scheme, SpaceFormat, SpaceId};

use super::extents::{EXTENT, Extents, Owner, PAGE, State};
use super::leaves::{Leaf, Leaves};
use super::page::{Page, Place, Record, length};
use super::sdi::{self, FLAGS, INDEX_ID, SERVER, SPACE};
use flow::queue::sim::Random;

/// Id of the tree of dictionary information, in every tablespace.
const SDI_INDEX_ID: u64 = u64::MAX;
/// Distance from the end of the extent descriptors to version and root of the dictionary information.
const SDI_VERSION: usize = 115;
/// Marks a used inode.
const SEGMENT_MAGIC: u32 = 97_937_874;
/// Entries of a page above the leaves: 17 bytes each, and half of one for the directory.
const CHILDREN_MAX: usize = 900;
/// Transaction id and roll pointer of every row: a transaction that is over.
const HISTORY: [u8; 13] = [0, 0, 0, 0, 6, 0x17, 0x82, 0, 0, 1, 9, 1, 0x10];

/// A page with records.
enum Content<'c> {
    Leaf(&'c Leaf, Option<u32>, Option<u32>),
    /// Level, children with the keys from which on they hold rows, neighbours.
    Node(u16, Vec<(u32, u32)>, Option<u32>, Option<u32>),
}

/// The pages with fixed places.
pub(super) struct Fixed {
    pub inodes: u32,
    pub sdi: u32,
    pub root: u32,
}

fn format() -> io::Result<SpaceFormat> {
    let size = PageSize::DEFAULT;
    let format = SpaceFormat::new(Family::MySql, Scheme::Classic, size, size, SpaceId(SPACE));
    format.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Writes all pages in file order.
pub(super) fn write(space: &mut Extents, leaves: &Leaves, fixed: &Fixed, out: &mut dyn Write) -> io::Result<()> {
    let format = format()?;
    let contents = contents(space, leaves, fixed.root);
    let space = &*space;
    let lists = Lists::of(space);
    let zeros = vec![0; PAGE as usize];
    for page_no in 0..space.size {
        let page = match contents.get(&page_no) {
            Some(Content::Leaf(leaf, prev, next)) => leaf_page(leaf, *prev, *next),
            Some(Content::Node(level, children, prev, next)) => {
                let mut page = node_page(page_no, *level, children, (*prev, *next));
                if page_no == fixed.root {
                    page.root(SPACE, inode(fixed, Owner::Leaves), inode(fixed, Owner::Top));
                }
                page
            }
            None if page_no.is_multiple_of(PAGE) => descriptors(page_no, space, &lists, fixed),
            None if page_no % PAGE == 1 => Page::new(page_no, PageType::IBUF_BITMAP, SPACE),
            None if page_no == fixed.inodes => inodes(page_no, space),
            None if page_no == fixed.sdi => dictionary(fixed)?,
            None => {
                out.write_all(&zeros)?;
                continue;
            }
        };
        out.write_all(&page.sealed(&format).map_err(io::Error::other)?)?;
    }
    out.flush()
}

/// The leaves, and the levels above them, by page.
fn contents<'c>(space: &mut Extents, leaves: &'c Leaves, root: u32) -> HashMap<u32, Content<'c>> {
    let mut contents = HashMap::new();
    let mut entries: Vec<(u32, u32)> = leaves.in_order().map(|(from, leaf)| (from, leaf.page_no)).collect();
    let page_at = |entries: &[(u32, u32)], at: Option<usize>| entries.get(at?).map(|(_, page_no)| *page_no);
    for (at, (_, leaf)) in leaves.in_order().enumerate() {
        let (prev, next) = (page_at(&entries, at.checked_sub(1)), page_at(&entries, Some(at + 1)));
        contents.insert(leaf.page_no, Content::Leaf(leaf, prev, next));
    }
    let mut level = 1;
    while entries.len() > CHILDREN_MAX {
        let mut hint = 0;
        let mut above = Vec::new();
        for children in entries.chunks(CHILDREN_MAX) {
            hint = space.allocate(Owner::Top, hint + 1, true);
            above.extend(children.first().map(|(from, _)| (*from, hint)));
        }
        for (at, children) in entries.chunks(CHILDREN_MAX).enumerate() {
            let (prev, next) = (page_at(&above, at.checked_sub(1)), page_at(&above, Some(at + 1)));
            if let Some(page_no) = page_at(&above, Some(at)) {
                contents.insert(page_no, Content::Node(level, children.to_vec(), prev, next));
            }
        }
        entries = above;
        level += 1;
    }
    contents.insert(root, Content::Node(level, entries, None, None));
    contents
}

fn tree_page(page_no: u32, level: u16, prev: Option<u32>, next: Option<u32>) -> Page {
    let mut page = Page::new(page_no, PageType::INDEX, SPACE);
    page.place(&Place { kind: PageType::INDEX, index_id: INDEX_ID, level, prev, next });
    page
}

fn leaf_page(leaf: &Leaf, prev: Option<u32>, next: Option<u32>) -> Page {
    let made: Vec<(Vec<u8>, Vec<u8>)> = leaf
        .rows
        .iter()
        .map(|row| {
            let mut fields = u64::from(row.key).to_be_bytes().to_vec();
            fields.extend(HISTORY);
            fields.extend(text(row.key, row.text));
            (length(usize::from(row.text)), fields)
        })
        .collect();
    let mut page = tree_page(leaf.page_no, 0, prev, next);
    let record = |(lengths, fields)| Record { lengths, fields, is_first_of_level: false };
    page.records(0, made.iter().map(|(lengths, fields)| record((lengths, fields))));
    page
}

/// Letters that differ from row to row, so that no device can compress them to nothing.
fn text(key: u32, len: u16) -> impl Iterator<Item = u8> {
    let mut random = Random::new(u64::from(key));
    std::iter::repeat_with(move || random.number().to_be_bytes())
        .flatten()
        .map(|byte| b'a' + byte % 26)
        .take(usize::from(len))
}

fn node_page(page_no: u32, level: u16, children: &[(u32, u32)], (prev, next): (Option<u32>, Option<u32>)) -> Page {
    let mut page = tree_page(page_no, level, prev, next);
    let made: Vec<Vec<u8>> = children
        .iter()
        .map(|(from, child)| [&u64::from(*from).to_be_bytes()[..], &child.to_be_bytes()].concat())
        .collect();
    let records = made.iter().enumerate().map(|(at, fields)| Record {
        lengths: &[],
        fields,
        is_first_of_level: at == 0 && prev.is_none(),
    });
    page.records(level, records);
    page
}

/// The address of a segment's inode.
fn inode(fixed: &Fixed, owner: Owner) -> (u32, u16) {
    (fixed.inodes, (FSEG_ARR_OFFSET + inode_size(PageSize::DEFAULT) * owner as usize) as u16)
}

/// The list node of an extent.
fn node_of(extent: u32) -> (u32, u16) {
    let per_page = PAGE / EXTENT;
    let at = XDES_ARR_OFFSET + xdes_size(PageSize::DEFAULT) * (extent % per_page) as usize + XDES_FLST_NODE;
    (extent / per_page * PAGE, at as u16)
}

fn ends(list: &[u32]) -> Option<[(u32, u16); 2]> {
    Some([node_of(*list.first()?), node_of(*list.last()?)])
}

/// Each extent's neighbours in the list that it is on.
struct Lists(BTreeMap<u32, (Option<u32>, Option<u32>)>);

impl Lists {
    fn of(space: &Extents) -> Self {
        let mut links = BTreeMap::new();
        let of_space = [&space.free, &space.shared, &space.shared_full];
        let of_segments = space.segments.iter().flat_map(|segment| [&segment.free, &segment.not_full, &segment.full]);
        for list in of_space.into_iter().chain(of_segments) {
            let befores = std::iter::once(None).chain(list.iter().copied().map(Some));
            let afters = list.iter().skip(1).copied().map(Some).chain([None]);
            for ((extent, before), after) in list.iter().zip(befores).zip(afters) {
                links.insert(*extent, (before, after));
            }
        }
        Self(links)
    }
}

/// Page 0, or a later page of extent descriptors.
fn descriptors(page_no: u32, space: &Extents, lists: &Lists, fixed: &Fixed) -> Page {
    let mut page = Page::new(page_no, if page_no == 0 { PageType::FSP_HDR } else { PageType::XDES }, SPACE);
    if page_no == 0 {
        header(&mut page, space, fixed);
    }
    let first = page_no / EXTENT;
    let described = space.extents.iter().enumerate().skip(first as usize).take((PAGE / EXTENT) as usize);
    for (number, extent) in described {
        let number = number as u32;
        let at = usize::from(node_of(number).1) - XDES_FLST_NODE;
        let (owner, state) = match extent.state {
            State::Free => (0, 1),
            State::Shared => (0, if extent.used == u64::MAX { 3 } else { 2 }),
            State::Segment(owner) => (owner as u64 + 1, 4),
        };
        page.u64(at + XDES_ID, owner);
        let (before, after) = lists.0.get(&number).copied().unwrap_or((None, None));
        page.address(at + XDES_FLST_NODE, before.map(node_of));
        page.address(at + XDES_FLST_NODE + 6, after.map(node_of));
        page.u32(at + XDES_STATE, state);
        // Two bits for each page, lowest first: free, and one that is always set.
        let bits = (0..EXTENT).fold(0_u128, |bits, page| {
            let free = u128::from(extent.used & (1 << page) == 0);
            bits | (2 | free) << (2 * page)
        });
        let reversed = bits.to_be_bytes();
        let bytes: Vec<u8> = reversed.iter().rev().copied().collect();
        page.put(at + XDES_BITMAP, &bytes);
    }
    page
}

/// The space header.
fn header(page: &mut Page, space: &Extents, fixed: &Fixed) {
    // On page 0 the two links say which server made the file, and how often its tablespace changed its version.
    page.u32(FIL_PAGE_PREV, SERVER);
    page.u32(FIL_PAGE_NEXT, 1);
    page.u32(FSP_SPACE_ID, SPACE);
    page.u32(FSP_SIZE, space.size);
    page.u32(FSP_FREE_LIMIT, space.extents.len() as u32 * EXTENT);
    page.u32(FSP_SPACE_FLAGS, FLAGS);
    page.u32(FSP_FRAG_N_USED, space.shared_used);
    for (at, list) in [(FSP_FREE, &space.free), (FSP_FREE_FRAG, &space.shared), (FSP_FULL_FRAG, &space.shared_full)] {
        page.list(at, list.len(), ends(list));
    }
    page.u64(FSP_SEG_ID, space.segments.len() as u64 + 1);
    page.list(FSP_SEG_INODES_FULL, 0, None);
    let inodes = (fixed.inodes, FSEG_INODE_PAGE_NODE as u16);
    page.list(FSP_SEG_INODES_FREE, 1, Some([inodes, inodes]));
    let end = xdes_array_end(PageSize::DEFAULT, PageSize::DEFAULT);
    page.u32(end + SDI_VERSION, 1);
    page.u32(end + SDI_VERSION + 4, fixed.sdi);
}

/// The page with the segments' inodes.
fn inodes(page_no: u32, space: &Extents) -> Page {
    let mut page = Page::new(page_no, PageType::INODE, SPACE);
    page.address(FSEG_INODE_PAGE_NODE, None);
    page.address(FSEG_INODE_PAGE_NODE + 6, None);
    for (number, segment) in space.segments.iter().enumerate() {
        let at = FSEG_ARR_OFFSET + inode_size(PageSize::DEFAULT) * number;
        page.u64(at, number as u64 + 1);
        page.u32(at + FSEG_NOT_FULL_N_USED, segment.not_full_used);
        for (list, extents) in
            [(FSEG_FREE, &segment.free), (FSEG_NOT_FULL, &segment.not_full), (FSEG_FULL, &segment.full)]
        {
            page.list(at + list, extents.len(), ends(extents));
        }
        page.u32(at + FSEG_MAGIC_N, SEGMENT_MAGIC);
        for (slot, fragment) in segment.fragments.iter().enumerate() {
            page.u32(at + FSEG_FRAG_ARR + 4 * slot, fragment.unwrap_or(PageNo::NONE.0));
        }
    }
    page
}

/// The dictionary information: one page with the table and the tablespace.
fn dictionary(fixed: &Fixed) -> io::Result<Page> {
    let mut page = Page::new(fixed.sdi, PageType::SDI, SPACE);
    page.place(&Place { kind: PageType::SDI, index_id: SDI_INDEX_ID, level: 0, prev: None, next: None });
    page.root(SPACE, inode(fixed, Owner::SdiLeaves), inode(fixed, Owner::SdiTop));
    let mut made = Vec::new();
    for (kind, id, json) in [(1_u32, sdi::TABLE_ID, sdi::table(fixed.root)), (2, 8, sdi::tablespace())] {
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
        packer.write_all(json.as_bytes())?;
        let packed = packer.finish()?;
        let numbers = [(json.len() as u32).to_be_bytes(), (packed.len() as u32).to_be_bytes()].concat();
        let fields = [&kind.to_be_bytes()[..], &u64::from(id).to_be_bytes(), &HISTORY, &numbers, &packed].concat();
        made.push((length(packed.len()), fields));
    }
    let records = made.iter().map(|(lengths, fields)| Record { lengths, fields, is_first_of_level: false });
    page.records(0, records);
    Ok(page)
}
