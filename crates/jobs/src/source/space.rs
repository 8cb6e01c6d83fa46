//! A file's format and place: decided once from its first bytes, and the one spot where a page number becomes a file offset.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::keys::SpaceKey;
use format::{NotTablespace, PageId, PageNo, PageSize, SpaceFormat, SpaceHeader, Verdict, verify_page};

/// One file of a tablespace (most have just one).
#[derive(Clone, Debug)]
pub struct Part {
    /// How its pages are laid out.
    pub format: SpaceFormat,
    /// The space header, where this file begins with one and it is sound.
    pub header: Option<SpaceHeader>,
    /// What opens its encrypted pages.
    pub key: SpaceKey,
    /// The key has opened a page of the file: it is the right one.
    pub is_key_proven: bool,
    /// Number of the file's first page within the tablespace: 0 but for `ibdata2` and later files.
    pub first_page: u32,
}

impl Part {
    /// Whether sound bytes may still hold an image that has to be opened to be judged.
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

    /// Whole pages in `len` bytes.
    #[must_use]
    pub fn pages_in(&self, len: u64) -> u64 {
        len / u64::from(self.format.physical().get())
    }
}

/// Whether these first bytes of a file with a strange name are those of a tablespace: page 0 is sound, or what would be its
/// pages agree on their numbers beyond chance, and most of them are sound.
#[must_use]
pub fn looks_like_tablespace(head: &[u8]) -> bool {
    const HITS_BEYOND_CHANCE: u32 = 3;
    by_page0(head, None).is_some_and(|part| part.header.is_some_and(|header| header.size > 0))
        || SpaceFormat::guess(head, None).is_some_and(|guess| {
            let pages = head.len() / guess.format.physical().bytes();
            guess.hits >= HITS_BEYOND_CHANCE && 2 * sound_pages(head, guess.first_page_no.0, &guess.format) > pages
        })
}

/// Bytes of a file's head that settle its format when page 0 is sound. The same for every way of reading, so that the answer is.
pub const HEAD: usize = 64 * 1024;

/// Bytes looked at when page 0 is not: 64 pages of the largest size.
pub const LONG_HEAD: usize = 64 * 64 * 1024;

/// The format that page 0 states, if page 0 is sound.
#[must_use]
pub fn by_page0(head: &[u8], page_size: Option<u32>) -> Option<Part> {
    let format = with_size(SpaceFormat::from_page0(head).ok()?, page_size);
    if !page_is_sound(head, 0, 0, &format) {
        return None;
    }
    let header = head.get(..format.physical().bytes()).and_then(|page0| SpaceHeader::parse(page0).ok());
    Some(Part { format, header, key: SpaceKey::None, is_key_proven: false, first_page: 0 })
}

/// Decides the format of a file without a sound page 0 from as many of its first bytes as there are. What is left of page 0 is
/// believed only as far as the pages behind it agree with it more than with what they say themselves. `leader` is the first file
/// of the system tablespace, and the page with which this file should continue it.
///
/// # Errors
/// The file is not a tablespace, and why.
pub fn by_pages(head: &[u8], page_size: Option<u32>, leader: Option<(&Part, u32)>) -> Result<Part, NotTablespace> {
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
        // Nothing in it tells, as in a file that the space has not reached yet; its place does.
        (Err(error), None) => leader.map(|(part, next)| (part.format, next)).ok_or(error)?,
    };
    let key = leader.map(|(part, _)| part.key.clone()).unwrap_or_default();
    Ok(Part { format, header: None, key, is_key_proven: false, first_page })
}

/// The format that the file at `path` states right now, if its page 0 is sound right now.
#[must_use]
pub fn part_now(path: &Path) -> Option<Part> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD as u64).read_to_end(&mut head).ok()?;
    by_page0(&head, None)
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
