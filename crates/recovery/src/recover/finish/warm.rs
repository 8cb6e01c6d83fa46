//! `ib_buffer_pool`: the list of pages that a server loads when it starts, so that its first transactions find them in memory.
//!
//! A server writes the list at shutdown: a line `tablespace,page` for each page in its buffer pool. A killed server leaves no list, or the
//! one from its last shutdown. Its own crash recovery would at least leave the pages changed by the log in the buffer pool; recovery
//! without a server leaves the pool empty. So we list these pages here.
//!
//! All servers read the list in the same way: from the start, as many lines as the buffer pool has pages, then sorted. A single line that
//! is not two numbers invalidates the whole list. Missing pages and tablespaces are skipped.
//!
//! The list is only a hint. Nothing depends on it, and it may be lost at any moment.

use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use format::PageId;

use crate::door;
use crate::recover::error::{Result, failed};
use crate::recover::place::durable::{give, sync_directory_of};
use crate::recover::plan::RecoverPlan;

/// What servers call the list, unless `innodb_buffer_pool_filename` says otherwise.
const LIST: &str = "ib_buffer_pool";
/// The list's name while it is incomplete. The next run overwrites a leftover.
const UNFINISHED: &str = "ib_buffer_pool.incomplete";
/// Upper limit of lines: 256 GiB of 16 KiB pages. More would only make the server read a longer file.
const LINES_MAX: usize = 1 << 24;
/// Bytes read per line. Two 32-bit numbers take half of that.
const LINE_MAX: u64 = 48;

/// The pages that the log changes, by tablespace and number. They include pages that an interrupted run or the server had already written,
/// so that the list is the same however often the run was interrupted. Freed pages are left out: their content in the file was never
/// checked. For a backup there are none, since its own tool would not list any, and it may go to another server.
pub(in crate::recover) fn pages(plan: &RecoverPlan) -> impl Iterator<Item = PageId> {
    let is_there = |id: &PageId| {
        let space = plan.spaces.get(&id.space);
        space.is_some_and(|space| space.format.physical().offset_of(id.page_no.0) < space.len)
    };
    let pages = plan.wanted.pages.load.in_use().filter(move |id| is_there(id) && !plan.copies.is_inside(*id));
    pages.take(if plan.wanted.kind.is_backup { 0 } else { LINES_MAX })
}

/// Writes the list if the log changes any page. Returns the number of pages of the log in it.
///
/// The pages of an old list follow, since pages that were only read are in no log. They come second because they are as old as the last
/// shutdown, and the server cuts off the end of a list that does not fit in the buffer pool.
pub(in crate::recover) fn write(datadir: &Path, plan: &RecoverPlan) -> Result<u64> {
    let mut pages = pages(plan).peekable();
    let (path, new) = (datadir.join(LIST), datadir.join(UNFINISHED));
    let (old, like) = match fs::metadata(&path) {
        // Not a file, so not written by a server: leave it alone.
        Ok(metadata) if !metadata.is_file() => return Ok(0),
        // What is behind a link may belong to anyone.
        Ok(_) if path.is_symlink() => (door::source(datadir, LIST).ok(), of_server(datadir)?),
        Ok(metadata) => {
            (Some(door::read(datadir, LIST).map_err(failed(&path, "opening the list of pages"))?), metadata)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (None, of_server(datadir)?),
        Err(error) => return Err(failed(&path, "looking at the list of pages")(error)),
    };
    if pages.peek().is_none() {
        return Ok(0);
    }
    let is_known = |id: PageId| plan.wanted.pages.load.has(id) || plan.wanted.files.deleted.contains(&id.space);
    let file = door::replace(datadir, UNFINISHED)
        .map_err(failed(&new, "making the list of pages (--no-warm does without)"))?;
    let lines = write_lines(&file, pages, old, is_known, LINES_MAX).and_then(|lines| file.sync_all().map(|()| lines));
    let lines = lines.map_err(failed(&new, "writing the list of pages (--no-warm does without)"))?;
    give(&file, &new, &like)?;
    // If the name is a link, this replaces the link, not its target: the target may be the list of the datadir that this one was copied
    // from.
    door::rename(datadir, UNFINISHED, LIST).map_err(failed(&path, "replacing the list of pages"))?;
    sync_directory_of(&path)?;
    Ok(lines)
}

fn of_server(datadir: &Path) -> Result<fs::Metadata> {
    let system = datadir.join("ibdata1");
    fs::metadata(&system).map_err(failed(&system, "looking at the file"))
}

/// Writes `pages`, then the pages of the old list that are not `is_known`, at most `max` in all. Returns the number of `pages` written.
fn write_lines(
    file: impl Write,
    pages: impl Iterator<Item = PageId>,
    old: Option<impl Read>,
    is_known: impl Fn(PageId) -> bool,
    max: usize,
) -> io::Result<u64> {
    let mut out = BufWriter::new(file);
    let mut lines = 0;
    for id in pages.take(max) {
        writeln!(out, "{},{}", id.space, id.page_no)?;
        lines += 1;
    }
    let mut old = old.map(BufReader::new);
    let mut left = max - lines;
    while left > 0 {
        let Some(id) = old.as_mut().map(next_page).transpose()?.flatten() else { break };
        if !is_known(id) {
            writeln!(out, "{},{}", id.space, id.page_no)?;
            left -= 1;
        }
    }
    out.flush()?;
    Ok(lines as u64)
}

/// The page on the next line; `None` at the end, or if the line is not a page: a server would reject the whole list.
fn next_page(list: &mut impl BufRead) -> io::Result<Option<PageId>> {
    let mut line = Vec::new();
    while line.iter().all(u8::is_ascii_whitespace) {
        line.clear();
        if list.take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
    }
    let numbers = std::str::from_utf8(&line).ok().and_then(|line| line.trim().split_once(','));
    let page = numbers.and_then(|(space, page_no)| Some(PageId::new(space.parse().ok()?, page_no.parse().ok()?)));
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pages: &[(u32, u32)], old: Option<&str>, max: usize) -> (String, u64) {
        let pages: Vec<PageId> = pages.iter().map(|(space, page_no)| PageId::new(*space, *page_no)).collect();
        let is_known = |id: PageId| pages.contains(&id) || id.space.0 == 9;
        let mut list = Vec::new();
        let lines = write_lines(&mut list, pages.iter().copied(), old.map(str::as_bytes), is_known, max);
        (String::from_utf8(list).expect("digits"), lines.expect("memory takes all"))
    }

    #[test]
    fn the_pages_of_the_log_come_first_and_the_old_ones_once() {
        let pages = [(0, 7), (4, 3)];
        assert_eq!(written(&pages, None, 9), ("0,7\n4,3\n".into(), 2));
        let old = "4,3\n5,1\n9,1\n0,7\n0,5\n";
        assert_eq!(written(&pages, Some(old), 9), ("0,7\n4,3\n5,1\n0,5\n".into(), 2));
        let (once, _) = written(&pages, Some(old), 9);
        assert_eq!(written(&pages, Some(&once), 9), (once, 2), "a second run writes the same");
        assert_eq!(written(&pages, Some(old), 3), ("0,7\n4,3\n5,1\n".into(), 2));
        assert_eq!(written(&pages, Some(old), 1), ("0,7\n".into(), 1));
    }

    #[test]
    fn an_old_list_is_read_until_it_is_none_any_more() {
        let long = format!("5,1\n{}\n5,2\n", "1".repeat(100));
        for (old, kept) in [
            ("5,1\n5,2", "5,1\n5,2\n"),
            ("5,1\nfive,2\n5,3\n", "5,1\n"),
            ("5,4294967295\n5,4294967296\n", "5,4294967295\n"),
            ("\n5,1\n", "5,1\n"),
            (&long, "5,1\n"),
        ] {
            assert_eq!(written(&[(0, 7)], Some(old), 9).0, format!("0,7\n{kept}"), "{old:?}");
        }
    }
}
