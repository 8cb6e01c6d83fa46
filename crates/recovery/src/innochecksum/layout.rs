//! The layout of a file's pages: from page 0, or from the other pages if page 0 is damaged or missing.

use std::path::{Path, PathBuf};

use format::bytes::{be, is_zero};
use format::{
    Family, NotTablespace, PageId, PageNo, PageSize, Scheme, SpaceFormat, SpaceId, Verdict, fil, verify_page,
};

use super::error::FileError;
use super::input::FileInput;

/// Bytes required at least: the head of the smallest page.
pub const HEAD_MIN: usize = 1024;
/// Bytes that decide the format if page 0 is sound.
const HEAD: usize = 64 * 1024;
/// Bytes that decide it if page 0 is not sound: 64 pages of the largest size.
const LONG_HEAD: usize = 64 * 64 * 1024;
/// Offset of the flags word on page 0.
const FLAGS: usize = 54;

/// How to read a file.
#[derive(Clone, Copy, Debug)]
pub struct FileLayout {
    /// The format of its pages.
    pub format: SpaceFormat,
    /// Number of its first page: 0 except for later files of the system tablespace.
    pub first_page: u32,
    /// Whether this is a doublewrite file (`#ib_16384_0.dblwr`), in which each page names its own tablespace.
    pub copies: bool,
}

impl FileLayout {
    /// Page size in the file, bytes.
    pub fn page_size(&self) -> usize {
        self.format.physical().bytes()
    }

    /// Whether the page at `position` is in the doublewrite area, the second and third extent of the system tablespace. The original skips
    /// it too.
    pub fn is_doublewrite(&self, position: u64) -> bool {
        let extent = u64::from(self.format.extent_pages());
        self.format.space() == SpaceId::SYSTEM
            && self.format.scheme() != Scheme::Zip
            && !self.copies
            && (extent..3 * extent).contains(&(position + u64::from(self.first_page)))
    }

    /// Decides the layout from the first bytes of `input`.
    pub fn find(input: &mut FileInput, flags: Option<u32>) -> Result<Self, FileError> {
        if let Some(size) = doublewrite_file(input.name()) {
            let format = SpaceFormat::new(Family::MySql, Scheme::Classic, size, size, SpaceId::SYSTEM);
            if let Some(format) = format {
                return Ok(Self { format, first_page: 0, copies: true });
            }
        }
        let name = input.name().to_owned();
        let head = input.peek(HEAD)?;
        if let Some(given) = flags {
            return with_flags(head, given, name);
        }
        let stated = SpaceFormat::from_page0(head);
        if let Ok(format) = stated
            && first_page_is_sound(head, &format)
        {
            return Ok(Self { format, first_page: 0, copies: false });
        }
        let head = input.peek(LONG_HEAD)?;
        let layout = from_pages(head, stated);
        if let Some(plain) = plain_pages(head)
            && layout.as_ref().map_or(0, |layout| sound_anywhere(head, &layout.format)) < sound_anywhere(head, &plain)
        {
            return Ok(Self { format: plain, first_page: 0, copies: false });
        }
        layout.map_err(|why| FileError::NotTablespace { path: name, why })
    }
}

/// The format of a file with pages of many tablespaces, such as a renamed doublewrite file. No page gives it, but the pages are sound at
/// one page size only.
fn plain_pages(head: &[u8]) -> Option<SpaceFormat> {
    let sizes = PageSize::ALL.into_iter().filter(|size| size.bytes() >= 4096);
    let formats = sizes.filter_map(|size| SpaceFormat::new(Family::MySql, Scheme::Classic, size, size, SpaceId::NONE));
    formats.max_by_key(|format| sound_anywhere(head, format))
}

/// Number of pages in `head` that are sound in this format, if each belongs where its header says.
fn sound_anywhere(head: &[u8], format: &SpaceFormat) -> usize {
    let is_sound = |page: &&[u8]| {
        let space = fil::space_id(page).unwrap_or(SpaceId::NONE);
        let id = PageId { space, page_no: fil::page_no(page).unwrap_or(PageNo::NONE) };
        matches!(verify_page(page, id, format), Verdict::Ok(_))
    };
    head.chunks_exact(format.physical().bytes()).filter(is_sound).count()
}

/// The layout if page 0 is damaged or missing. The format it states counts unless the pages after it contradict it.
fn from_pages(head: &[u8], stated: Result<SpaceFormat, NotTablespace>) -> Result<FileLayout, NotTablespace> {
    let guessed = SpaceFormat::guess(head, None);
    match (stated, guessed) {
        (Ok(format), Some(guess))
            if guess.format.physical() == format.physical() || sound(head, &format) >= sound(head, &guess.format) =>
        {
            Ok(FileLayout { format, first_page: 0, copies: false })
        }
        (_, Some(guess)) => Ok(FileLayout { format: guess.format, first_page: guess.first_page_no.0, copies: false }),
        (Ok(format), None) => Ok(FileLayout { format, first_page: 0, copies: false }),
        // All zeros are sound at any page size.
        (Err(error), None) => match blank() {
            Some(format) if is_zero(head) => Ok(FileLayout { format, first_page: 0, copies: false }),
            _ => Err(error),
        },
    }
}

fn blank() -> Option<SpaceFormat> {
    let size = PageSize::DEFAULT;
    SpaceFormat::new(Family::MySql, Scheme::Classic, size, size, SpaceId::SYSTEM)
}

fn first_page_is_sound(head: &[u8], format: &SpaceFormat) -> bool {
    sound(head.get(..format.physical().bytes()).unwrap_or(&[]), format) == 1
}

/// Number of sound pages in `head` in this format.
fn sound(head: &[u8], format: &SpaceFormat) -> usize {
    let is_sound = |&(position, page): &(u32, &[u8])| {
        let id = PageId { space: format.space(), page_no: PageNo(position) };
        matches!(verify_page(page, id, format), Verdict::Ok(_) | Verdict::Unverifiable(_))
    };
    (0..).zip(head.chunks_exact(format.physical().bytes())).filter(is_sound).count()
}

/// The format given by flags on the command line. The file's page 0, if it has one, must agree.
fn with_flags(head: &[u8], given: u32, path: PathBuf) -> Result<FileLayout, FileError> {
    let stored = be::u32_at(head, FLAGS).unwrap_or(0);
    let first_page = be::u32_at(head, 4).unwrap_or(0);
    if first_page == 0 && stored != given {
        return Err(FileError::FlagsDiffer { given, stored });
    }
    let mut page0 = head.to_vec();
    let space = be::u32_at(head, 34).unwrap_or(0);
    // The fields every page 0 has: its number, its type, the space id twice, the flags.
    let made = be::put_u32(&mut page0, 4, 0)
        .and_then(|()| be::put_u16(&mut page0, 24, format::PageType::FSP_HDR.0))
        .and_then(|()| be::put_u32(&mut page0, 38, space))
        .and_then(|()| be::put_u32(&mut page0, FLAGS, given));
    let format = match made {
        Some(()) => SpaceFormat::from_page0(&page0),
        None => Err(NotTablespace::TooShort { len: page0.len() }),
    };
    match format {
        Ok(format) => Ok(FileLayout { format, first_page, copies: false }),
        Err(why) => Err(FileError::NotTablespace { path, why }),
    }
}

/// The page size in a name such as `#ib_16384_0.dblwr`.
fn doublewrite_file(name: &Path) -> Option<PageSize> {
    let name = name.file_name()?.to_str()?.strip_prefix("#ib_")?.strip_suffix(".dblwr")?;
    PageSize::new(name.split_once('_')?.0.parse().ok()?)
}
