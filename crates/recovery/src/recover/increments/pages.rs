//! The changed pages of an increment: all are read and verified before any is written.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::path::Path;

use format::bytes::be;
use format::fil::{FIL_PAGE_LSN, FIL_PAGE_NEXT, FIL_PAGE_PREV, FIL_PAGE_SPACE_ID, FIL_PAGE_TYPE, PageType};
use format::page::fsp::{FSP_SPACE_FLAGS, FSP_SPACE_ID};
use format::page::seal::seal_mysql;
use format::{Lsn, NotTablespace, PageId, PageSize, SpaceFormat, SpaceId, Verdict, verify_page};
use logs::delta::{Page, Parser};

use super::files::{Delta, IncrementFiles};
use crate::door;
use crate::recover::error::{RecoverError, Result, damaged, failed, refused};
use crate::recover::place::walk::walk;
use crate::recover::space::system::SystemFiles;
use datadir::name::NameHint;
use datadir::reading::read_up_to;

/// MySQL 8.0.30, the first version whose log innokit reads. The server's actual version is in the redo.
const SERVER_VERSION: u32 = 80_030;
/// The version of the format, which has not changed.
const SPACE_VERSION: u32 = 1;
/// Bytes per read.
const PIECE: usize = 1 << 20;

/// Passes the pages of a delta to `take`, in file order.
pub(super) fn read(delta: &Delta, mut take: impl FnMut(&Page<'_>) -> Result<()>) -> Result<()> {
    let path = &delta.path;
    let mut file = door::open_file(path).map_err(failed(path, "opening the changed pages"))?;
    let (mut parser, mut piece) = (Parser::new(delta.meta), vec![0; PIECE]);
    let broken = |error: logs::delta::Error| RecoverError::Damaged(format!("{}: {error}", path.display()));
    loop {
        let len = file.read(&mut piece).map_err(failed(path, "reading the changed pages"))?;
        let mut bytes = piece.get(..len).unwrap_or_default();
        if bytes.is_empty() {
            return parser.finish().map_err(broken);
        }
        while let Some(page) = parser.next_page(&mut bytes).map_err(broken)? {
            take(&page)?;
        }
    }
}

/// The page formats of all tablespaces known so far: first the backup's, then those of each increment.
pub(super) struct Formats {
    formats: HashMap<SpaceId, SpaceFormat>,
    /// Number of pages of the system tablespace before each of its files.
    system: Vec<u64>,
}

impl Formats {
    /// The formats in a backup.
    pub fn of(datadir: &Path) -> Result<Self> {
        let mut formats = HashMap::new();
        walk(datadir, &mut |name, metadata| {
            let is_new = name.extension().is_some_and(|extension| extension == "new");
            let is_known = matches!(
                NameHint::of(name),
                NameHint::Table | NameHint::Dictionary | NameHint::System(1) | NameHint::Undo
            );
            if metadata.is_file() && (is_new || is_known) {
                // The flags are right even if the page is torn: they are in its first sector and never change.
                let format = SpaceFormat::from_page0(&head(&datadir.join(name))?);
                formats.extend(format.ok().map(|format| (format.space(), format)));
            }
            Ok(())
        })?;
        let size = formats.get(&SpaceId::SYSTEM).map_or(1, |format| format.physical().bytes() as u64);
        let more = SystemFiles::find(datadir)?.more();
        let system = std::iter::once(0).chain(more.into_iter().map(|part| part.start / size)).collect();
        Ok(Self { formats, system })
    }

    /// Reads all pages of an increment whose log ends at `end`, and fails if one is damaged. The log changes the tablespaces in `changed`.
    pub fn prove(&mut self, files: &IncrementFiles, end: Lsn, changed: &BTreeSet<SpaceId>) -> Result<()> {
        for delta in &files.deltas {
            self.prove_delta(delta, end, changed)?;
        }
        for (path, name) in &files.made {
            match SpaceFormat::from_page0(&head(&files.dir.join(path))?) {
                Ok(format) => drop(self.formats.insert(format.space(), format)),
                // The server had not written page 0 when the file was copied: it comes from the log.
                Err(NotTablespace::Zero) => {}
                Err(why) => return damaged(format!("{}: {}: {why}", files.dir.join(path).display(), name.display())),
            }
        }
        Ok(())
    }

    fn prove_delta(&mut self, delta: &Delta, end: Lsn, changed: &BTreeSet<SpaceId>) -> Result<()> {
        let first = match NameHint::of(&delta.name) {
            NameHint::System(number) => self.first_of(number).map_or_else(|| unknown_part(delta), Ok)?,
            _ => 0,
        };
        let mut format = self.formats.get(&delta.space).copied();
        let (mut pages, mut has_head) = (0, format.is_some());
        let noted = first_page(delta).and_then(|page| SpaceFormat::from_page0(&page).ok());
        format = format.or(noted);
        read(delta, |page| {
            pages += 1;
            let id = PageId::new(delta.space.0, first.saturating_add(page.number));
            if id.page_no.0 == 0 {
                let own = SpaceFormat::from_page0(page.bytes);
                format = own.ok().filter(|own| own.space() == delta.space).or(format);
                has_head = true;
            }
            // Page 0 of a new tablespace may be in the log alone. xtrabackup notes the page size and flags that it would give.
            let of_server = || self.formats.get(&SpaceId::SYSTEM).map(|system| system.with_space(delta.space));
            let Some(format) = format.or_else(of_server) else { return unknown_space(delta) };
            if format.physical().get() != delta.meta.page_size {
                let (name, size) = (delta.path.display(), format.physical());
                return damaged(format!(
                    "{name}: pages of {} bytes, but those of the tablespace have {size}",
                    delta.meta.page_size
                ));
            }
            judge(delta, page, id, &format, end)
        })?;
        if (pages > 0 || noted.is_some()) && !has_head && !changed.contains(&delta.space) {
            return unknown_space(delta);
        }
        self.formats.extend(format.map(|format| (delta.space, format)));
        Ok(())
    }

    /// The first page of file number `number` of the system tablespace.
    fn first_of(&self, number: u32) -> Option<u32> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        self.system.get(place).and_then(|page| u32::try_from(*page).ok())
    }
}

/// The first page that a MySQL server writes when it creates this tablespace. `None` if the tool did not note the flags.
pub(super) fn first_page(delta: &Delta) -> Option<Vec<u8>> {
    let mut page = vec![0; usize::try_from(delta.meta.page_size).ok()?];
    let flags = delta.meta.flags.filter(|_| delta.space != SpaceId::SYSTEM)?;
    be::put_u32(&mut page, FIL_PAGE_PREV, SERVER_VERSION)?;
    be::put_u32(&mut page, FIL_PAGE_NEXT, SPACE_VERSION)?;
    be::put_u16(&mut page, FIL_PAGE_TYPE, PageType::FSP_HDR.0)?;
    be::put_u32(&mut page, FIL_PAGE_SPACE_ID, delta.space.0)?;
    be::put_u32(&mut page, FSP_SPACE_ID, delta.space.0)?;
    be::put_u32(&mut page, FSP_SPACE_FLAGS, flags)?;
    let format = SpaceFormat::from_page0(&page).ok()?;
    seal_mysql(&mut page, PageId::new(delta.space.0, 0), &format, None).ok()?;
    Some(page)
}

/// Fails if a page is damaged or misplaced.
fn judge(delta: &Delta, page: &Page<'_>, id: PageId, format: &SpaceFormat, end: Lsn) -> Result<()> {
    // Copies in the doublewrite area belong to other pages and are not needed.
    if format.is_doublewrite_slot(id) {
        return Ok(());
    }
    let place = format!("{}: at byte {}: page {}", delta.path.display(), page.position, id.page_no);
    match verify_page(page.bytes, id, format) {
        Verdict::Corrupt(why) => damaged(format!("{place} is damaged: {why}")),
        Verdict::Empty => damaged(format!("{place} is damaged: nothing but zeros")),
        _ => match be::u64_at(page.bytes, FIL_PAGE_LSN).map(Lsn).filter(|lsn| *lsn > end) {
            Some(lsn) => damaged(format!("{place} has LSN {lsn}, but the log of the increment ends at LSN {end}")),
            None => Ok(()),
        },
    }
}

fn unknown_space<T>(delta: &Delta) -> Result<T> {
    refused(format!(
        "{}: some pages of tablespace {}, which the backup does not hold: these increments do not belong to it, or one is missing",
        delta.path.display(),
        delta.space
    ))
}

fn unknown_part<T>(delta: &Delta) -> Result<T> {
    let (path, name) = (delta.path.display(), delta.name.display());
    refused(format!("{path}: changed pages of {name}, which the backup does not hold"))
}

/// The first bytes of a tablespace.
fn head(path: &Path) -> Result<Vec<u8>> {
    let bytes = door::open_file(path).and_then(|file| read_up_to(&file, 0, PageSize::MAX.bytes()));
    bytes.map_err(failed(path, "reading the first page"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use logs::delta::Meta;

    use super::*;

    #[test]
    fn the_first_page_is_made_of_the_flags_that_the_tool_noted() {
        let delta = |text: &str| {
            let meta = Meta::parse(text.as_bytes()).expect("a note");
            Delta { path: PathBuf::new(), name: PathBuf::from("db/t.ibd"), meta, space: SpaceId(7) }
        };
        // An ordinary table, a compressed one with pages of 2 KiB, and one in which the pages of the server have 4 KiB.
        let notes = [
            ("page_size = 16384\nzip_size = 0 \nspace_id = 7\nspace_flags = 16417\n", 16384),
            ("page_size = 2048\nzip_size = 2048 \nspace_id = 7\nspace_flags = 16421\n", 2048),
            ("page_size = 4096\nzip_size = 0 \nspace_id = 7\nspace_flags = 16609\n", 4096),
        ];
        for (text, size) in notes {
            let page = first_page(&delta(text)).expect("a page");
            let format = SpaceFormat::from_page0(&page).expect("a tablespace");
            assert_eq!((page.len(), format.physical().bytes(), format.space()), (size, size, SpaceId(7)), "{text}");
            assert!(matches!(verify_page(&page, PageId::new(7, 0), &format), Verdict::Ok(_)), "{text}");
        }
        assert!(first_page(&delta("page_size = 16384\nspace_id = 7\n")).is_none(), "mariadb-backup notes no flags");
    }
}
