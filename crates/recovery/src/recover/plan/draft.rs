//! Drafts the plan from the log and the first pages of the datadir's files. Whether it can be carried out also depends on other pages, which
//! `run/checked_plan.rs` reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use format::keyring::KeyStore;
use format::{Family, PageId, PageSize, Scheme, SpaceFormat, SpaceHeader, SpaceId};
use redo::apply::{Outcome, Replay};
use redo::mysql::undo_number;
use redo::record::Grammar;

use super::{RecoverPlan, until};
use crate::manifest;
use crate::recover::error::{Result, damaged, failed, refused};
use crate::recover::space::crypt::SpaceCrypt;
use crate::recover::space::doublewrite::{copies_in_area, copies_in_files, copies_of_older_mysql};
use crate::recover::space::head::Head;
use crate::recover::space::log_end::refuse_newer;
use crate::recover::space::{PlannedSpace, cipher_mode};
use crate::recover::survey::rest::LogRest;
use crate::recover::survey::tablespaces::{NewestPage, Survey};
use crate::recover::survey::wanted::Wanted;
use datadir::doublewrite::Copies;
use datadir::files::AskPath;
use datadir::keys::SpaceKey;
use datadir::name::NameHint;
use datadir::page::{PageAt, PageOpener};

/// Least length of a table's file, in pages of the server's page size even if the table's own are smaller. The server refuses a shorter
/// file.
const TABLE_SIZE_MIN: u64 = 4;

/// The highest number of an undo tablespace of MariaDB.
const UNDO_OF_MARIADB_MAX: u32 = 127;

/// Reads the first page of every tablespace. The draft includes tablespaces changed only by the part of the log that is left out.
pub(in crate::recover) fn draft(datadir: &Path, mut wanted: Wanted, keys: &KeyStore) -> Result<RecoverPlan> {
    // Before any file is opened by a name from the log: such a name can lead anywhere.
    if let Some((space, name)) = &wanted.files.strange {
        return refused(format!("tablespace {space} is called `{name}`, which no server would choose"));
    }
    let mut survey = Survey::take(datadir, &wanted, keys)?;
    // The log may not change the dictionary at all, and then nothing below would miss it. No server starts without it.
    if wanted.kind.is_backup && wanted.kind.grammar == Grammar::MySql {
        refuse_without_dictionary(datadir, &survey)?;
    }
    let checkpoint = wanted.checkpoint;
    // If the recovery ends before the log does, some of MariaDB's pages may be newer than the end. Each is checked later.
    match &wanted.rest {
        None => {
            let NewestPage { path, page_no, lsn } = &survey.newest;
            let is_outside = path.is_absolute() && !path.starts_with(datadir);
            refuse_newer(path, is_outside, *page_no, *lsn, wanted.end)?;
        }
        Some(rest) if wanted.kind.grammar == Grammar::MySql => {
            until::check_unlogged(rest, datadir, &survey, wanted.end)?
        }
        Some(_) => {}
    }
    let (system, copies) = system_and_copies(datadir, &mut wanted, &survey)?;
    // Before files are looked for: what the server makes anew may be missing or half empty, and that is no fault.
    wanted.forget_truncated(datadir);
    // Copies from after the end are wiped, and they lie in this tablespace, whether redo changes it or not.
    if wanted.rest.is_some() && !copies.later_than(wanted.end).is_empty() {
        wanted.files.changed.insert(SpaceId::SYSTEM);
    }
    // Out of the survey first: a tablespace that the log makes later may have the name of a dropped one.
    let dropped = survey.without(wanted.dropped_after_base());
    let rest = wanted.rest.as_ref();
    // The files of a base copy that ends before `until` cannot show anything that happened after it.
    let unsure = rest.filter(|rest| !wanted.is_base_before(rest.until));
    unsure.map_or(Ok(()), |rest| until::check_files(rest, datadir, &wanted, &survey))?;
    let find = Find { datadir, wanted: &wanted, survey: &survey, copies: &copies, dropped: &dropped, keys };
    let mut spaces = BTreeMap::new();
    // Tablespaces that change only after the end are checked too.
    let later = rest.map(LogRest::spaces).unwrap_or_default();
    let mut not_in_backup = Vec::new();
    for &space in wanted.files.changed.iter().chain(&later).filter(|space| !wanted.files.deleted.contains(space)) {
        // Before the questions about files: these spaces have none, and would be called missing.
        find.refuse_binlog(space)?;
        if find.is_gone(space) {
            // Its redo counts for nothing, unless the end that was asked for is from before the truncation.
            unsure.map_or(Ok(()), |rest| until::refuse_truncated(rest, space))?;
            continue;
        }
        if find.is_left_out(space)? {
            not_in_backup.push(wanted.files.said.get(&space).cloned().unwrap_or_else(|| format!("tablespace {space}")));
            continue;
        }
        spaces.insert(space, find.space(space, system.logical())?);
    }
    // Last, because it tries the mode on pages whose formats and keys are known only now. Still before anything is written: a wrong mode or key
    // would seal every changed page so that no server opens it.
    cipher_mode::prove(datadir, spaces.values_mut(), survey.files.values().flatten(), wanted.kind.cipher, keys)?;
    Ok(RecoverPlan { wanted, spaces, copies, checkpoint, outside: survey.outside, not_in_backup, dropped })
}

/// The format of the system tablespace, and the doublewrite copies, one of which may be that of its first page.
fn system_and_copies(datadir: &Path, wanted: &mut Wanted, survey: &Survey) -> Result<(SpaceFormat, Copies)> {
    let path = datadir.join("ibdata1");
    let sound = Head::read(&path)?.map(|head| head.format);
    let is_torn = sound.is_none();
    // Half a page still says what a page is like, because that never changes.
    let Some(format) = sound.map_or_else(|| Head::format_of_torn(&path), |format| Ok(Some(format)))? else {
        return damaged("the first page of ibdata1 is damaged");
    };
    // The log says which kind of server wrote last. Files that an upgrade left behind do not.
    let copies = match wanted.kind.grammar {
        Grammar::MariaDb => copies_in_area(datadir, &survey.system, &format)?,
        Grammar::MySql if wanted.kind.is_mysql_ring => copies_of_older_mysql(datadir, &survey.system, &format)?,
        Grammar::MySql => copies_in_files(datadir, &format)?,
    };
    if is_torn {
        let at = PageAt { id: PageId::new(SpaceId::SYSTEM.0, 0), format: &format, key: &SpaceKey::None };
        if copies.find(at, wanted.lsns_of_copies(), &mut PageOpener::new()).is_none() {
            return damaged("the first page of ibdata1 is damaged, and there is no copy of it");
        }
        // So that it is restored, even if no redo changes the tablespace.
        wanted.files.changed.insert(SpaceId::SYSTEM);
    }
    Ok((format, copies))
}

/// Fails if a backup of MySQL lacks the dictionary, which the log may not change at all.
fn refuse_without_dictionary(datadir: &Path, survey: &Survey) -> Result<()> {
    const SPACE: SpaceId = SpaceId::MYSQL_DICTIONARY;
    if survey.files.contains_key(&SPACE) {
        return Ok(());
    }
    match survey.unsound_of(datadir, SPACE)? {
        Some(file) => damaged(format!("the first page of {} is damaged", file.display())),
        None => refused("mysql.ibd, the dictionary of MySQL, is missing in the backup"),
    }
}

/// Finds each tablespace's file and format.
struct Find<'p> {
    datadir: &'p Path,
    wanted: &'p Wanted,
    survey: &'p Survey,
    copies: &'p Copies,
    /// Files of dropped tablespaces, which are removed before another tablespace gets such a name.
    dropped: &'p [PathBuf],
    keys: &'p KeyStore,
}

impl Find<'_> {
    fn is_mysql(&self) -> bool {
        self.wanted.kind.grammar == Grammar::MySql
    }

    /// MariaDB 12.3 and later log their binary log like pages of two spaces that have no tablespace. The server brings the files up to date
    /// from it; left as they are, they would lack transactions that the tables have.
    fn refuse_binlog(&self, space: SpaceId) -> Result<()> {
        if self.is_mysql() || !SpaceId::MARIADB_BINLOG.contains(&space) {
            return Ok(());
        }
        refused(
            "the redo log changes the binary log within InnoDB (binlog-*.ibb, binlog_storage_engine=innodb), which this build does not \
             recover: start a MariaDB server of the version that wrote it, which recovers both",
        )
    }

    /// Whether a MySQL undo tablespace is gone: it was truncated, and continues under another number.
    fn is_gone(&self, space: SpaceId) -> bool {
        let Some(number) = undo_number(space).filter(|_| self.is_mysql()) else { return false };
        // If no file has any of its numbers, the undo tablespace is elsewhere (innodb_undo_directory), and its redo counts.
        let goes_on = self.survey.files.keys().any(|other| undo_number(*other) == Some(number));
        goes_on && !self.survey.files.contains_key(&space)
    }

    /// Whether the backup does not contain the tablespace: the log covers the whole server. Fails if no backup is without it.
    fn is_left_out(&self, space: SpaceId) -> Result<bool> {
        if !self.wanted.kind.is_backup || self.survey.files.contains_key(&space) || !self.names_of(space).is_empty() {
            return Ok(false);
        }
        // A file whose first page is damaged is in the backup all the same.
        if self.is_mysql() && self.survey.unsound_of(self.datadir, space)?.is_some() {
            return Ok(false);
        }
        // A table may be left out of a backup. Undo may not: the server that starts on it rolls back what was active, and has to find it.
        // MariaDB's log names every tablespace that it changes, but not those of undo.
        let undo = match self.wanted.kind.grammar {
            Grammar::MySql => undo_number(space),
            Grammar::MariaDb => Some(space.0).filter(|number| *number <= UNDO_OF_MARIADB_MAX),
        };
        if let Some(number) = undo.filter(|_| self.is_mysql() || !self.wanted.files.said.contains_key(&space)) {
            return refused(format!(
                "undo tablespace {number} is missing in the backup: without it, what was not committed could not be rolled back"
            ));
        }
        Ok(true)
    }

    /// A tablespace's names, in the order of the log. A backup's files are found by number; there the last name in the log counts only if
    /// the first page of that file had not been written when it was copied.
    fn names_of(&self, space: SpaceId) -> &[PathBuf] {
        let names = self.wanted.names_of(space);
        if !self.wanted.kind.is_backup {
            return names;
        }
        let last = names.last().filter(|_| !self.survey.files.contains_key(&space));
        let last = last.filter(|name| self.wanted.files.owners.get(*name) == Some(&space));
        last.and_then(|name| self.survey.unsound_as(name)).map(std::slice::from_ref).unwrap_or_default()
    }

    fn space(&self, space: SpaceId, logical: PageSize) -> Result<PlannedSpace> {
        // Two things say which file a tablespace is: the names in the log, and the number in each file's first page. Neither is enough. A file keeps
        // its old name if the server died before it renamed it, its first page may be torn or not yet written, and a copied file has the number of
        // its original. So a file is taken if both agree, and if only one of them speaks and nothing contradicts it. Anything else is refused,
        // because redo on the wrong file destroys it.
        let names = self.names_of(space);
        let found = self.survey.files.get(&space).map(Vec::as_slice).unwrap_or_default();
        // Without a name nothing tells which of two files the server uses. With names, they decide below.
        if let (true, [one, other, ..]) = (names.is_empty(), found) {
            let (one, other) = (one.display(), other.display());
            return refused(format!("tablespace {space} is both {one} and {other}: remove the one that is not in use"));
        }
        // MySQL's server finds files by number, and its log need not name them. What is left of a torn first page has to do then.
        let is_by_number = self.is_mysql() || space == SpaceId::SYSTEM;
        let torn = if is_by_number && found.is_empty() { self.survey.unsound_of(self.datadir, space)? } else { None };
        // The last name is the one the file has at the end. Its name now only counts if the log never names it.
        let Some(path) = names.last().or(found.first()).or(torn) else {
            if let Some(name) = self.wanted.files.said.get(&space) {
                return refused(format!("tablespace {space} is missing: the log changes it, and calls it {name}"));
            }
            return refused(format!(
                "tablespace {space} is missing: the log changes it, and no file of the datadir has its number (undo tablespaces that \
                 innodb_undo_directory puts elsewhere can be linked into the datadir)"
            ));
        };
        // First the file that has the name already: an interrupted recovery may have renamed it. Then one that has an earlier name.
        let by_number = found.iter().find(|file| *file == path).or(found.iter().find(|file| names.contains(file)));
        // The number is under a name that the log never gave it: a copy, or renamed by hand. It may not be the file that this log is about.
        if by_number.is_none() && !found.is_empty() {
            let list: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
            let (name, list) = (path.display(), list.join(", "));
            return refused(format!("tablespace {space} should be {name}, but is in {list}"));
        }
        // The newest name first: the server may have renamed the file before it died.
        let here = by_number.or(names.iter().rev().find(|name| self.is_unwritten(space, name)));
        let head = match by_number {
            Some(file) => Head::read(&self.datadir.join(file))?,
            None => self.head_elsewhere(space, here.unwrap_or(path), logical)?,
        };
        let renamed_from = here.filter(|file| *file != path).cloned();
        // The rename would replace a file that the log does not know.
        if renamed_from.is_some() && self.is_taken(path)? {
            return refused(format!(
                "tablespace {space} should be {}, which is another tablespace's file",
                path.display()
            ));
        }
        let is_new = here.is_none() && head.is_none();
        // The size before redo judges the file as it lies; with its redo the page may count pages that only this recovery adds.
        let size_now = head.as_ref().and_then(|head| SpaceHeader::parse(&head.page0).ok()).map_or(0, |now| now.size);
        let page0_now = head.as_ref().map(|head| head.page0.clone());
        let (format, header, page0) = self.after_redo(space, path, head, logical)?;
        // With both states of the page: the log may turn encryption on, and the pages that lie there are still plain.
        let (crypt, format) = SpaceCrypt::find(path, page0_now.as_deref(), &page0, format, self.keys)?;
        let mut len = u64::from(header.size) * format.physical().bytes() as u64;
        // The log may end right after the table was made, when its first page counts no page yet.
        if !names.is_empty() || (self.wanted.kind.is_backup && NameHint::of(path) == NameHint::Table) {
            len = len.max(TABLE_SIZE_MIN * logical.bytes() as u64);
        }
        // From a record of MySQL's log: its server makes the file that long when it reads the record, whatever the first page counts.
        len = len.max(self.wanted.files.extended.get(&space).copied().unwrap_or(0));
        let mut more = Vec::new();
        if space == SpaceId::SYSTEM {
            self.survey.system.check(&format, size_now, header.size)?;
            more = self.survey.system.more();
        }
        let is_trimmed = self.wanted.pages.voids.is_trimmed(space);
        // The system tablespace's files were compared together. A file that the log cuts down may have been cut already.
        if let Some(file) = by_number.filter(|_| space != SpaceId::SYSTEM && !is_trimmed) {
            self.refuse_short(file, u64::from(size_now) * format.physical().bytes() as u64)?;
        }
        Ok(PlannedSpace { path: path.clone(), renamed_from, more, is_new, format, crypt, len, is_trimmed })
    }

    /// Fails if a file is shorter than its own first page says: a server makes it longer before it writes that page. In a backup the first
    /// page may be newer than the end of the file.
    fn refuse_short(&self, file: &Path, expected: u64) -> Result<()> {
        let path = self.datadir.join(file);
        let len = fs::metadata(&path).map_err(failed(&path, "looking at the file"))?.len();
        if len >= expected
            || self.wanted.kind.is_backup
            || self.wanted.later.is_some()
            || manifest::is_there(self.datadir)
        {
            return Ok(());
        }
        damaged(format!(
            "{}: the file was cut off: it has {len} bytes, and {expected} according to its first page",
            file.display()
        ))
    }

    /// Whether this is the tablespace's file although its first page, not yet written, does not say so.
    fn is_unwritten(&self, space: SpaceId, name: &Path) -> bool {
        let path = self.datadir.join(name);
        // A name that the log gave to another tablespace later is that one's file. In a backup files keep the names that they had when they were
        // copied, whatever the log says afterwards.
        let is_its = self.wanted.kind.is_backup || self.wanted.files.owners.get(name) == Some(&space);
        is_its && path.is_file_there() && matches!(Head::read(&path), Ok(None))
    }

    /// Whether a file of this name exists and will keep the name.
    fn is_taken(&self, path: &Path) -> Result<bool> {
        let path_now = self.datadir.join(path);
        if !path_now.is_there() || self.dropped.iter().any(|dropped| dropped == path) {
            return Ok(false);
        }
        // Whose file it is cannot be read, so it is not replaced.
        let Some(head) = Head::read(&path_now)? else { return Ok(true) };
        // It frees the name only if the log's last name for it is another one.
        Ok(self.wanted.names_of(head.format.space()).last().is_none_or(|last| last == path))
    }

    /// The head of a file whose first page is torn, from its doublewrite copy; `None` if the log initializes that page.
    fn head_elsewhere(&self, space: SpaceId, path: &Path, logical: PageSize) -> Result<Option<Head>> {
        let file = self.datadir.join(path);
        let id = PageId::new(space.0, 0);
        // A new tablespace: whatever has its name now must be renamed or removed first.
        if self.wanted.is_made_after_base(space) {
            if self.is_taken(path)? {
                return refused(format!(
                    "tablespace {space} should be {}, which is another tablespace's file",
                    path.display()
                ));
            }
            return Ok(None);
        }
        let other = if file.is_there() { Head::read(&file)? } else { None };
        if let Some(other) = other {
            let other = other.format.space();
            return refused(format!("{} should be tablespace {space}, but is {other}", path.display()));
        }
        // The log makes the page from nothing, so neither a copy nor the file itself is needed.
        if self.wanted.pages.heads.redo(id).is_void {
            return Ok(None);
        }
        if !file.is_there() {
            return refused(format!("{} is missing: the log changes it as tablespace {space}", path.display()));
        }
        let mut opener = PageOpener::new();
        // A torn page does not say its size and scheme, and a copy's checksum holds only under the right ones. No page is larger than the server's.
        for physical in PageSize::ALL.into_iter().filter(|size| *size <= logical) {
            let schemes = [Scheme::FullCrc32, Scheme::Classic, Scheme::Zip];
            let family = if self.is_mysql() { Family::MySql } else { Family::MariaDb };
            for format in
                schemes.iter().filter_map(|scheme| SpaceFormat::new(family, *scheme, logical, physical, space))
            {
                // First pages are never encrypted.
                let (key, lsns) = (SpaceKey::None, self.wanted.lsns_of_copies());
                let at = PageAt { id, format: &format, key: &key };
                let copy = self.copies.find(at, lsns, &mut opener);
                if let Some(head) = copy.and_then(Head::parse) {
                    return Ok(Some(head));
                }
            }
        }
        damaged(format!("the first page of {} is damaged, and there is no copy of it", path.display()))
    }

    /// The format and header that the first page states once its redo is applied, and that page.
    fn after_redo(
        &self,
        space: SpaceId,
        path: &Path,
        head: Option<Head>,
        logical: PageSize,
    ) -> Result<(SpaceFormat, SpaceHeader, Vec<u8>)> {
        let id = PageId::new(space.0, 0);
        let redo = self.wanted.pages.heads.redo(id);
        // A compressed table's pages are smaller, but its first page uses nothing beyond its own size.
        let (family, scheme) =
            if self.is_mysql() { (Family::MySql, Scheme::Classic) } else { (Family::MariaDb, Scheme::FullCrc32) };
        let unknown = SpaceFormat::new(family, scheme, logical, logical, space);
        // The format comes from the page as the log leaves it, not as it lies: later steps read and seal the other pages by it, and a table may have
        // been rebuilt under the same number.
        let is_void = redo.is_void;
        let (format, mut page0) = match (head, unknown) {
            (Some(head), _) if !is_void => (head.format, head.page0),
            (_, Some(unknown)) => (unknown, vec![0; logical.bytes()]),
            (_, None) => return refused(format!("{}: pages of {logical:?} are not known", path.display())),
        };
        let applied = Replay::onto(&mut page0, id, &format).and_then(|mut replay| {
            redo.into_iter().try_for_each(|mtr| replay.apply(&mtr))?;
            replay.finish()
        });
        let (name, page0) = (path.display(), page0);
        match applied {
            Err(error) => damaged(format!("{name}: the first page: {error}")),
            // No server frees the first page of a tablespace that it keeps.
            Ok(Outcome::Freed) => damaged(format!("{name}: the log frees the first page")),
            Ok(_) => match (SpaceFormat::from_page0(&page0), SpaceHeader::parse(&page0)) {
                (Ok(format), Ok(header)) if format.space() == space => {
                    // The flags of MySQL's tables look like those of MariaDB's older ones. Only the log knows the vendor.
                    let format = if self.is_mysql() { format.with_family(Family::MySql) } else { format };
                    Ok((format, header, page0))
                }
                _ => damaged(format!("{name}: with its redo, the first page is not that of tablespace {space}")),
            },
        }
    }
}
