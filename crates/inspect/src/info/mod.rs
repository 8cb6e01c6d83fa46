//! `paths -> heads -> sweep -> Reader -> look -> Sums -> InfoReport`
//!
//! Every file is recognised by its first bytes. Tablespaces are then read from end to end, several in parallel as in a check, and each page
//! is examined while its bytes are in the core's cache. Memory is workers × depth × block size, plus sums per file that do not grow with
//! it: at most [`grid::CELLS_MAX`] cells, the indexes (capped), one set of extent descriptors.

pub mod content_kind;
pub mod grid;
mod header;
mod identity;
mod look;
mod names;
mod pages;
pub mod report;
mod sums;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flow::{Counters, Cursor, FileFailure, FileId, Piece, ReadOptions, Reader, run_workers};
use format::keyring::KeyStore;
use format::page::sdi::SdiKind;
use format::schema::{self, sdi::SdiNames};
use format::{Encryption, Family, PageSize, Scheme, SpaceId};

use self::content_kind::ContentKind;
use crate::info::grid::Grid;
use crate::info::look::{Look, look};
use crate::info::pages::{Descriptors, Pages};
use crate::info::report::{EncryptionInfo, FileInfo, InfoReport, Name, TablespaceInfo};
use crate::info::sums::Sums;
use datadir::file_kind::FileKind;
use datadir::files::{self, File, Metadata};
use datadir::inventory::plain;
use datadir::keys::{KeyFiles, SpaceKey};
use datadir::name::NameHint;
use datadir::page::PageOpener;
use datadir::redo_log::RedoLogs;
use datadir::remote::Missed;
use datadir::space::{self, SpacePart};
use datadir::tablespace::sdi::{self, Objects};
use datadir::tablespace::space::SpaceFile;
use datadir::tablespace::{Opener, Tablespace};
use datadir::{Error, fault, sparse};

/// Options of `info`.
#[derive(Clone, Debug)]
pub struct InfoOptions {
    /// How to read the files.
    pub read: ReadOptions,
    /// Workers.
    pub workers: usize,
    /// Logical page size in bytes; overrides what the files say.
    pub page_size: Option<u32>,
    /// Keys of encrypted pages.
    pub keys: KeyFiles,
    /// Also arrange each file as a [`Grid`].
    pub grid: bool,
}

impl Default for InfoOptions {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { read: ReadOptions::default(), workers, page_size: None, keys: KeyFiles::default(), grid: false }
    }
}

/// Files whose sums are in memory at a time.
const BATCH: usize = 1024;

/// A tablespace being read.
struct SweptSpace {
    /// Its index in the report.
    file: usize,
    path: PathBuf,
    len: u64,
    part: SpacePart,
    pages: Pages,
    /// The first bytes, of an object that is elsewhere; a file here is read again, since a datadir may have a hundred thousand of them.
    head: Option<Vec<u8>>,
    sums: Mutex<Sums>,
}

/// A worker's buffers, reused for every piece.
#[derive(Default)]
struct InfoBuffers {
    looks: Vec<Look>,
    descriptors: Descriptors,
    opener: PageOpener,
}

/// Identifies each of `paths`.
///
/// # Errors
/// Options that cannot work, keys that cannot be read. Unreadable files are in the report.
pub fn info(paths: &[PathBuf], options: &InfoOptions) -> Result<InfoReport, Error> {
    options.read.validate()?;
    let keys = options.keys.read()?;
    let mut files = Vec::with_capacity(paths.len());
    // One for all files: it lists and reads each datadir once.
    let mut redo = RedoLogs::default();
    for batch in paths.chunks(BATCH) {
        let mut targets = Vec::new();
        for path in batch {
            let (file, target) = recognise((path, files.len()), options, &keys, &mut redo);
            files.push(file);
            targets.extend(target);
        }
        sweep(&targets, options)?;
        for target in targets {
            if let Some(file) = files.get_mut(target.file) {
                target.finish(file, &mut redo);
            }
        }
        flow::give_back_memory();
    }
    miss(files::failures_of(paths).into_iter().chain(fault::noted_parts()).collect(), &mut files);
    Ok(InfoReport { files })
}

/// Notes the files that could not be read to their end.
fn miss(missed: Vec<Missed>, files: &mut Vec<FileInfo>) {
    if missed.is_empty() {
        return;
    }
    let places: HashMap<String, usize> =
        files.iter().enumerate().rev().map(|(place, file)| (file.path.clone(), place)).collect();
    for failed in missed {
        let path = failed.path.to_string_lossy();
        let error = Some(format!("cannot be read: {}", failed.why));
        match places.get(&*path).and_then(|place| files.get_mut(*place)) {
            Some(file) => file.error = file.error.take().or(error),
            None => {
                let what = "cannot be read".to_owned();
                files.push(FileInfo { path: path.into_owned(), what, error, ..FileInfo::default() });
            }
        }
    }
}

fn sweep(targets: &[SweptSpace], options: &InfoOptions) -> Result<(), Error> {
    let set = files::set(targets.iter().map(|target| (target.path.clone(), target.len)));
    let cursor = Cursor::sweep(&set, options.read.block_size);
    let workers = options.workers.clamp(1, usize::try_from(cursor.blocks()).unwrap_or(usize::MAX).max(1));
    let counters = Counters::new(workers);
    let outcomes = run_workers(workers, |worker| {
        let mut reader = Reader::new(&set, &cursor, &options.read, counters.worker(worker))?;
        let mut buffers = InfoBuffers::default();
        while let Some(item) = reader.next() {
            let file = item.as_ref().map_or_else(|failure| failure.file, |piece| piece.file);
            let Some(target) = targets.get(file.0 as usize) else { continue };
            match item {
                Ok(piece) => target.piece(&piece, &mut buffers),
                Err(failure) => target.failure(&failure),
            }
        }
        Ok::<_, flow::ReaderError>(())
    });
    outcomes.into_iter().collect::<Result<(), _>>().map_err(Error::from)
}

/// Recognises a file by its first bytes; returns what to read if it is a tablespace.
fn recognise(
    (path, file): (&Path, usize),
    options: &InfoOptions,
    keys: &KeyStore,
    redo: &mut RedoLogs,
) -> (FileInfo, Option<SweptSpace>) {
    let mut info = FileInfo { path: path.to_string_lossy().into_owned(), ..FileInfo::default() };
    let (meta, len) = match measure(path) {
        Ok(found) => found,
        Err(why) => {
            info.what = "cannot be read".to_owned();
            info.error = Some(why);
            return (info, None);
        }
    };
    info.bytes = len;
    info.bytes_on_disk = meta.bytes_on_disk();
    let head = match pages::head(path, space::LONG_HEAD) {
        Ok(head) => head,
        Err(error) => {
            info.what = "cannot be read".to_owned();
            info.error = Some(plain(&error));
            return (info, None);
        }
    };
    match tablespace(path, &head, len, options, keys) {
        Some((part, pages, wrong_key)) => {
            info.error = wrong_key;
            let grid = options.grid.then(|| Grid::new(part.first_page, part.pages_in(len)));
            let head = files::is_remote(path).then(|| head.get(..space::HEAD).unwrap_or(&head).to_vec());
            let sums = Mutex::new(Sums::new(grid));
            (info, Some(SweptSpace { file, path: path.to_path_buf(), len, part, pages, head, sums }))
        }
        None => {
            let identity = identity::identify(path, &head, len);
            (info.kind, info.what, info.facts) = (Some(identity.kind), identity.what, identity.facts);
            if NameHint::of(path).promises_pages() {
                break_promise(path, &mut info, redo);
            }
            (info, None)
        }
    }
}

/// A file named like a tablespace whose content is not one. A server killed while creating the file leaves it empty or zeroed, and recovery
/// creates it again.
fn break_promise(path: &Path, info: &mut FileInfo, redo: &mut RedoLogs) {
    let hollow = matches!(info.kind, Some(ContentKind::Empty | ContentKind::Zeros));
    let pending = redo.pending_for(path).filter(|_| hollow).map(str::to_owned);
    if NameHint::of(path) == NameHint::Temporary {
        info.what = format!("{}; harmless: the server recreates this file at every start", info.what);
        return;
    }
    match pending {
        Some(why) => info.what = format!("{}; a tablespace that recovery may still write: {why}", info.what),
        None => info.damage = Some("its name is that of a tablespace, but its content is not".to_owned()),
    }
}

/// Length of a file or a block device.
fn measure(path: &Path) -> Result<(Metadata, u64), String> {
    use std::io::{Seek, SeekFrom};
    let meta = files::metadata(path).map_err(|error| plain(&error))?;
    if meta.is_dir() {
        return Err("a directory; name files in it".to_owned());
    }
    if meta.is_file() {
        let len = meta.len();
        return sparse::refused(&meta).map_or(Ok((meta, len)), Err);
    }
    if !meta.is_block_device() {
        return Err("not a regular file".to_owned());
    }
    let len = File::open(path).and_then(|mut device| device.seek(SeekFrom::End(0)));
    len.map(|len| (meta, len)).map_err(|error| plain(&error))
}

/// The format of a file that is a tablespace or part of one; and why the given keys do not open it, if so.
fn tablespace(
    path: &Path,
    head: &[u8],
    len: u64,
    options: &InfoOptions,
    keys: &KeyStore,
) -> Option<(SpacePart, Pages, Option<String>)> {
    let short = head.get(..space::HEAD).unwrap_or(head);
    if let Some(mut part) = space::by_page0(short, options.page_size) {
        let found = SpaceKey::find(short, path, &part.format, keys);
        let wrong_key = found.as_ref().err().map(ToString::to_string);
        part.key = found.unwrap_or_default();
        let pages = Pages::new(path, len, &part);
        return Some((part, pages, wrong_key));
    }
    let hint = NameHint::of(path);
    // Pages in a doublewrite file are numbered too, but it is not a tablespace.
    let expected = hint.promises_pages() || (hint == NameHint::Unknown && space::looks_like_tablespace(head));
    if !expected {
        return None;
    }
    let before = Pages::before(path, options.page_size, keys);
    let leader = before.as_ref().map(|(_, part, next)| (part, *next));
    let part = space::by_pages(head, options.page_size, leader).ok()?;
    let pages = match before {
        Some((mut pages, _, next)) if part.first_page == next => {
            pages.push(path, len);
            pages
        }
        _ => Pages::new(path, len, &part),
    };
    Some((part, pages, None))
}

impl SweptSpace {
    fn with_sums<T>(&self, act: impl FnOnce(&mut Sums) -> T) -> T {
        act(&mut self.sums.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Examines the pages of a piece, then adds them to the sums in one step.
    fn piece(&self, piece: &Piece<'_>, buffers: &mut InfoBuffers) {
        let InfoBuffers { looks, descriptors, opener } = buffers;
        let size = self.part.format.physical().bytes();
        let first = self.part.page_at(piece.offset);
        let mut unreadable = Vec::new();
        looks.clear();
        for (bytes, number) in piece.bytes.chunks_exact(size).zip(first..) {
            let in_use = self.pages.use_of(piece.file.0, number, descriptors);
            let start = self.part.offset_of(number);
            let lost = piece
                .gaps
                .iter()
                .find(|gap| gap.offset < start + size as u64 && gap.offset.saturating_add(u64::from(gap.len)) > start);
            match lost {
                Some(gap) => {
                    let words = format!("the device cannot read byte {}: {}", gap.offset, plain(&gap.error));
                    unreadable.push((number, in_use, words));
                }
                None => looks.push(look(bytes, number, &self.part, in_use, opener)),
            }
        }
        let short = piece.bytes.len() < piece.asked as usize;
        self.with_sums(|sums| {
            looks.iter().for_each(|look| sums.add(look));
            for (number, in_use, words) in unreadable {
                sums.add_unreadable(number, in_use, words);
            }
            if short {
                let end = piece.offset + piece.bytes.len() as u64;
                let words = || format!("the file became shorter while it was read: it ends at byte {end}");
                sums.failure.get_or_insert_with(words);
            }
        });
    }

    /// The tablespace's SDI, if it has any.
    fn dictionary(&self, head: &[u8]) -> Option<Dictionary> {
        let pages = u32::try_from(self.part.pages_in(self.len)).unwrap_or(u32::MAX);
        let file = SpaceFile::of(self.path.clone(), FileId(0), self.part.first_page, pages);
        let (format, header, key) = (self.part.format, self.part.header, self.part.key.clone());
        let space = Tablespace { format, header, key, files: vec![file], home: None };
        let Objects { objects, broken } = sdi::read(&space, head, &mut Opener::new())?;
        let mut dictionary = Dictionary { broken, ..Dictionary::default() };
        for (kind, json) in objects {
            match (kind, schema::sdi::names(&json)) {
                (SdiKind::Table, Ok(names)) => dictionary.tables.push(names),
                (SdiKind::Tablespace, Ok(names)) => dictionary.tablespace = Some(names.name),
                (_, Ok(_)) => {}
                (_, Err(why)) => dictionary.broken = dictionary.broken.or_else(|| Some(why.to_string())),
            }
        }
        Some(dictionary)
    }

    fn failure(&self, failure: &FileFailure) {
        self.with_sums(|sums| {
            sums.failure.get_or_insert_with(|| plain(&failure.error));
        });
    }

    /// Turns the sums into the report.
    fn finish(self, file: &mut FileInfo, redo: &mut RedoLogs) {
        let again = || pages::head(&self.path, space::HEAD).unwrap_or_default();
        let head = self.head.as_ref().map_or_else(again, Clone::clone);
        let dictionary = self.dictionary(&head);
        let recovery = redo.pending_for(&self.path).map(str::to_owned);
        let mut sums = self.sums.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (format, header) = (&self.part.format, self.pages.header());
        let page0 = self.part.header.is_some();
        let mut indexes = sums.indexes();
        for row in
            indexes.iter_mut().filter(|row| row.index_id == Some(CHANGE_BUFFER) && format.space() == SpaceId::SYSTEM)
        {
            row.name = Some("change buffer".to_owned());
        }
        let shared = format.family() == Family::MySql && format.flags() & MYSQL_SHARED != 0;
        let mut name = names::by_path(&self.path).filter(|_| !shared);
        let mut hurt = None;
        if let Some(dictionary) = dictionary {
            // Report this only if no page is damaged or locked: those are reported as such already.
            let is_open = sums.counts.unopened == 0 && sums.counts.corrupt == 0;
            hurt =
                dictionary.broken.as_ref().filter(|_| is_open).map(|why| format!("its dictionary information: {why}"));
            if !dictionary.tables.is_empty() || dictionary.broken.is_none() {
                name = Some(named(&dictionary, &mut indexes));
            }
            name.get_or_insert_default().sdi_unread = dictionary.broken;
        }
        if self.part.first_page == 0 && !page0 && sums.counts.corrupt == 0 {
            hurt = Some("page 0 does not say what the file is".to_owned());
        }
        match (hurt, recovery) {
            (Some(words), Some(why)) => file.error = Some(format!("{words} ({why}: crash recovery may yet repair it)")),
            (Some(words), None) => file.damage = Some(words),
            (None, _) => {}
        }
        sums.compression.on = format.is_page_compressed();
        sums.compression.inflated_bytes = sums.counts.compressed * u64::from(format.physical().get());
        let on = format.encryption() != Encryption::None;
        let key = if page0 { header::key_facts(&head, format) } else { Default::default() };
        let space = TablespaceInfo {
            family: family_name(format.family()),
            server_version: page0.then(|| header::server_version(&head, format.family())).flatten(),
            space_id: format.space().0,
            name,
            first_page: self.part.first_page,
            page_size: format.physical().get(),
            logical_page_size: format.logical().get(),
            page_format: scheme_name(format.scheme()),
            flags: page0.then(|| header::flags(format)),
            size_in_header: header.map(|header| header.size),
            free_limit: header.map(|header| header.free_limit.0),
            trailing_bytes: self.len % u64::from(format.physical().get()),
            lsn: sums.lsn(),
            checksums: sums.checksums(),
            page_types: sums.page_types(format.family()),
            indexes,
            indexes_not_listed: sums.indexes_not_listed(),
            pages: sums.counts,
            undecided: sums.undecided,
            encryption: EncryptionInfo { on, pages: sums.counts.encrypted, key },
            compression: sums.compression,
            damaged_pages: sums.damaged.into_values().collect(),
        };
        file.kind = Some(ContentKind::Tablespace);
        file.what = words(&self.path, &self.part, &space);
        file.error = sums.failure.or(file.error.take());
        file.grid = sums.grid;
        file.tablespace = Some(space);
    }
}

/// Names found in a file's SDI.
#[derive(Default)]
struct Dictionary {
    tablespace: Option<String>,
    tables: Vec<SdiNames>,
    /// Why the list may be incomplete.
    broken: Option<String>,
}

/// Takes the names of the file and its indexes from the SDI.
fn named(dictionary: &Dictionary, indexes: &mut [report::IndexRow]) -> Name {
    let by_id: HashMap<u64, (&SdiNames, &str)> = dictionary
        .tables
        .iter()
        .flat_map(|table| table.indexes.iter().map(move |(id, name)| (*id, (table, name.as_str()))))
        .collect();
    for row in indexes {
        let found = row.index_id.filter(|_| row.tree != "SDI").and_then(|id| by_id.get(&id));
        if let Some((table, name)) = found {
            row.name = Some((*name).to_owned());
            row.table = Some(format!("{}.{}", table.schema, table.name));
        }
    }
    let only = dictionary.tables.first().filter(|_| dictionary.tables.len() == 1);
    Name {
        source: "sdi",
        tablespace: dictionary.tablespace.clone(),
        schema: only.map(|table| table.schema.clone()),
        table: only.map(|table| table.name.clone()),
        tables: dictionary.tables.len() as u64,
        row_format: only.and_then(|table| table.row_format),
        sdi_unread: None,
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::MySql => "MySQL",
        Family::MariaDb => "MariaDB",
    }
}

fn scheme_name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Classic => "classic",
        Scheme::Zip => "zip",
        Scheme::FullCrc32 => "full_crc32",
    }
}

/// MySQL 8.0 and later number undo tablespaces downwards from here: 127 of them, with 400,000 ids each.
const UNDO_LAST: u32 = 0xFFFF_FFEF;
const UNDO_FIRST: u32 = UNDO_LAST - 127 * 400_000 + 1;
const MYSQL_SHARED: u32 = 1 << 11;
/// Index id of the change buffer, in the system tablespace of both families.
const CHANGE_BUFFER: u64 = 0xFFFF_FFFF_0000_0000;

/// The purpose of the tablespace: from its id and flags, then its name.
fn words(path: &Path, part: &SpacePart, space: &TablespaceInfo) -> String {
    let hint = NameHint::of(path);
    let mysql = part.format.family() == Family::MySql;
    let purpose = match part.format.space() {
        _ if part.format.is_temporary() => FileKind::TemporaryTablespace.name(),
        SpaceId::SYSTEM => FileKind::SystemTablespace.name(),
        SpaceId::MYSQL_DICTIONARY if mysql => FileKind::DictionaryTablespace.name(),
        SpaceId(UNDO_FIRST..=UNDO_LAST) if mysql => FileKind::UndoTablespace.name(),
        _ if mysql && part.format.flags() & MYSQL_SHARED != 0 => "general tablespace",
        _ if hint == NameHint::Table => "file-per-table tablespace",
        _ => hint.tablespace_kind().name(),
    };
    let later = if part.first_page > 0 { format!(", from page {} on", part.first_page) } else { String::new() };
    let server = match (&space.server_version, part.format.scheme()) {
        (Some(version), _) => format!("MySQL {version}"),
        (None, Scheme::FullCrc32) => "MariaDB 10.4 or later".to_owned(),
        _ => space.family.to_owned(),
    };
    let size = PageSize::new(space.page_size).map_or_else(String::new, |size| format!(", pages of {size}"));
    format!("{purpose} of {server}{size}{later}")
}
