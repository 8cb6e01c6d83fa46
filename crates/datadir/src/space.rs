//! A file's format and place in its tablespace: decided once, from its first bytes.

use std::path::Path;

use super::keys::SpaceKey;
use super::page::PageAt;
use crate::files::File;
use crate::reading::head_of;
use format::page::view;
use format::{
    HeaderFault, NotTablespace, PageId, PageNo, PageSize, PageType, SpaceFormat, SpaceHeader, SpaceId, Verdict, fil,
    judge_header, verify_page,
};

/// One file of a tablespace (most have just one).
#[derive(Clone, Debug)]
pub struct SpacePart {
    /// How its pages are laid out.
    pub format: SpaceFormat,
    /// The space header, if the file starts with a sound one.
    pub header: Option<SpaceHeader>,
    /// The key for its encrypted pages.
    pub key: SpaceKey,
    /// The key has opened a page of this file, so it is right.
    pub is_key_proven: bool,
    /// Number of the file's first page in the tablespace: 0 except for `ibdata2` and later files.
    pub first_page: u32,
    /// Why the server would refuse the tablespace although page 0's checksum is valid.
    pub fault: Option<HeaderFault>,
}

impl SpacePart {
    /// The place of a page, given its number in the tablespace, with the format and the key that open it.
    #[must_use]
    pub fn at(&self, page_no: PageNo) -> PageAt<'_> {
        PageAt { id: PageId { space: self.format.space(), page_no }, format: &self.format, key: &self.key }
    }

    /// Whether a page with sound bytes may still need opening to be judged.
    #[must_use]
    pub fn has_inside(&self) -> bool {
        self.format.is_page_compressed() || matches!(self.key, SpaceKey::MariaDb(_))
    }

    /// Number of the page at `offset` bytes.
    #[must_use]
    pub fn page_at(&self, offset: u64) -> u32 {
        let index = offset / u64::from(self.format.physical().get());
        self.first_page.wrapping_add(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Byte offset of page `number` in the file. The page must not be in an earlier file.
    #[must_use]
    pub const fn offset_of(&self, number: u32) -> u64 {
        self.format.physical().offset_of(number.saturating_sub(self.first_page))
    }

    /// Whole pages in `len` bytes.
    #[must_use]
    pub fn pages_in(&self, len: u64) -> u64 {
        len / u64::from(self.format.physical().get())
    }
}

/// Whether these first bytes of a file with an unknown name are a tablespace: page 0 is sound, or the presumed pages agree on their numbers
/// beyond chance and most are sound.
#[must_use]
pub fn looks_like_tablespace(head: &[u8]) -> bool {
    const HITS_BEYOND_CHANCE: u32 = 3;
    by_page0(head, None).is_some_and(|part| part.header.is_some_and(|header| header.size > 0))
        || SpaceFormat::guess(head, None).is_some_and(|guess| {
            let pages = head.len() / guess.format.physical().bytes();
            guess.hits >= HITS_BEYOND_CHANCE && 2 * sound_pages(head, guess.first_page_no.0, &guess.format) > pages
        })
}

/// Bytes of a file's head that settle its format if page 0 is sound. A constant, so the answer does not depend on how the file is read.
pub const HEAD: usize = 64 * 1024;

/// Bytes needed if page 0 is not sound: 64 pages of the largest size.
pub const LONG_HEAD: usize = 64 * 64 * 1024;

/// The format stated in page 0, if that is sound.
#[must_use]
pub fn by_page0(head: &[u8], page_size: Option<u32>) -> Option<SpacePart> {
    let format = with_size(SpaceFormat::from_page0(head).ok()?, page_size);
    if !page_is_sound(head, 0, 0, &format) {
        return None;
    }
    let header = head.get(..format.physical().bytes()).and_then(|page0| SpaceHeader::parse(page0).ok());
    let fault = judge_header(head, &format);
    // A header that the server would refuse cannot make the tablespace a temporary one: treat it as ordinary.
    let format = if fault.is_some() && format.is_temporary() { format.with_temporary(false) } else { format };
    let format = outvoted(head, &format).map_or(format, |space| format.with_space(space));
    Some(SpacePart { format, header, key: SpaceKey::None, is_key_proven: false, first_page: 0, fault })
}

/// Pages after page 0 that vote on which tablespace they belong to.
const VOTERS: u32 = 3;

/// The tablespace that all voting pages name, if it is not page 0's and at least two agree: then page 0 is wrong, not they.
fn outvoted(head: &[u8], format: &SpaceFormat) -> Option<SpaceId> {
    let pages = head.chunks_exact(format.physical().bytes()).skip(1).take(VOTERS as usize);
    // Skip pages whose space id is hidden by encryption or compression.
    let votes: Vec<SpaceId> = pages
        .filter(|page| page.iter().any(|byte| *byte != 0) && view::is_readable(page, format))
        .filter_map(fil::space_id)
        .collect();
    let space = *votes.first().filter(|space| **space != format.space())?;
    let other = format.with_space(space);
    let agree = votes.len() >= 2 && votes.iter().all(|vote| *vote == space);
    (agree && (1..=2).all(|index| page_is_sound(head, index, 0, &other))).then_some(space)
}

/// Decides the format of a file without a sound page 0 from its first bytes; more of them give a better answer. If page 0 still states a
/// format, that is used unless more pages are sound in the guessed one. `leader` is the first file of the system tablespace, with the page
/// at which this file should continue it.
///
/// # Errors
/// The file is not a tablespace, and why.
pub fn by_pages(
    head: &[u8],
    page_size: Option<u32>,
    leader: Option<(&SpacePart, u32)>,
) -> Result<SpacePart, NotTablespace> {
    let stated = SpaceFormat::from_page0(head).map(|format| with_size(format, page_size));
    let hint = page_size.and_then(PageSize::new).or_else(|| leader.map(|(part, _)| part.format.logical()));
    let guessed =
        SpaceFormat::guess(head, hint).map(|guess| (with_size(guess.format, page_size), guess.first_page_no.0));
    let (format, first_page) = match (stated, guessed) {
        (Ok(format), Some((other, first))) if sound_pages(head, first, &other) <= sound_pages(head, 0, &format) => {
            (format, 0)
        }
        (_, Some((format, first))) => (leader.filter(|_| first > 0).map_or(format, |(part, _)| part.format), first),
        (Ok(format), None) => (format, 0),
        // Its content does not tell, for example because the tablespace has not reached the file yet; its place does.
        (Err(error), None) => leader.map(|(part, next)| (part.format, next)).ok_or(error)?,
    };
    let key = leader.map(|(part, _)| part.key.clone()).unwrap_or_default();
    let (header, fault) = if first_page == 0 { header_under(head, &format) } else { (None, None) };
    Ok(SpacePart { format, header, key, is_key_proven: false, first_page, fault })
}

/// The header of a page 0 that does not state a usable format but is sound under the one found from later pages; and what is wrong with it.
fn header_under(head: &[u8], format: &SpaceFormat) -> (Option<SpaceHeader>, Option<HeaderFault>) {
    if !page_is_sound(head, 0, 0, format) {
        return (None, None);
    }
    let fault = judge_header(head, format);
    let is_header = view::page_type(head, format) == Some(PageType::FSP_HDR);
    // Another page was written over page 0: it holds no sizes.
    let is_other = matches!(fault, Some(HeaderFault::SpaceIds { .. })) && !is_header;
    let header = head.get(..format.physical().bytes()).and_then(|page0| SpaceHeader::parse(page0).ok());
    (header.filter(|_| !is_other), fault)
}

/// The format of the file at `path` right now, if its page 0 is sound right now.
#[must_use]
pub fn part_now(path: &Path) -> Option<SpacePart> {
    by_page0(&head_of(&File::open(path).ok()?, HEAD).ok()?, None)
}

fn with_size(format: SpaceFormat, page_size: Option<u32>) -> SpaceFormat {
    match page_size.and_then(PageSize::new) {
        Some(size) => format.with_page_size(size),
        None => format,
    }
}

fn page_is_sound(head: &[u8], index: u32, first: u32, format: &SpaceFormat) -> bool {
    let size = format.physical().bytes();
    let Some(page) = head.chunks_exact(size).nth(index as usize) else {
        return false;
    };
    let id = PageId { space: format.space(), page_no: PageNo(first.wrapping_add(index)) };
    matches!(verify_page(page, id, format), Verdict::Ok(_) | Verdict::Unverifiable(_))
}

fn sound_pages(head: &[u8], first: u32, format: &SpaceFormat) -> usize {
    let pages = head.len() / format.physical().bytes();
    (0..pages as u32).filter(|index| page_is_sound(head, *index, first, format)).count()
}
