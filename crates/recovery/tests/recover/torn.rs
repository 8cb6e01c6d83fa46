//! Pages that a kill tore: `check` calls them undecided if recovery repairs them, and damage if it ends at them.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use innokit_recovery::{RecoverOptions, recover};
use inspect::report::hurt::{Action, Hurt};
use inspect::{Check, CheckOptions, Finding, Severity};
use tempfile::TempDir;

use crate::files_of;
use crate::server::{copy, datadir};

const PAGE: usize = 16384;
/// The first page of MariaDB's doublewrite area.
const DOUBLEWRITE: usize = 64;
/// Pages tried at either end of each file: the first are old, and the log makes the last.
const PAGES_MAX: usize = 2;

/// A page of a table that recovery changes.
struct Changed {
    file: String,
    number: usize,
    before: Vec<u8>,
    after: Vec<u8>,
}

fn changed_pages(crashed: &Path, recovered: &Path) -> Vec<Changed> {
    let is_table = |name: &String| name.starts_with("shop/") && name.ends_with(".ibd");
    let names = files_of(crashed).into_iter().map(|(name, ..)| name).filter(is_table);
    let mut found = Vec::new();
    for file in names {
        let [before, after] = [crashed, recovered].map(|dir| fs::read(dir.join(&file)).unwrap_or_default());
        let pages = before.chunks_exact(PAGE).zip(after.chunks_exact(PAGE)).enumerate();
        let changed: Vec<_> = pages.skip(1).filter(|(_, (old, new))| old != new).collect();
        let last = changed.len().saturating_sub(PAGES_MAX).max(PAGES_MAX);
        let tried = changed.iter().take(PAGES_MAX).chain(changed.iter().skip(last));
        found.extend(tried.map(|&(number, (old, new))| Changed {
            file: file.clone(),
            number,
            before: old.to_vec(),
            after: new.to_vec(),
        }));
    }
    found
}

/// The finding about this page, and whether recovery can be carried out.
fn judged(dir: &Path, page: &Changed) -> (Finding, bool) {
    let path = dir.join(&page.file).display().to_string();
    let is_it = |finding: &Finding| finding.path == path && finding.page == Some(page.number as u32);
    let check = Check::plan(&[dir.to_path_buf()], CheckOptions::default()).expect("options");
    let report = check.run(None).expect("checks");
    let finding = report.findings.iter().find(|finding| is_it(finding)).unwrap_or_else(|| {
        panic!("{path}, page {}: {:?}", page.number, report.findings);
    });
    let hurt: Vec<_> = report.hurt.iter().filter(|hurt| hurt.path == path).collect();
    let is_put_off = |hurt: &&Hurt| {
        hurt.action == Action::RecoverFirst && hurt.commands[0].starts_with("innokit recover --in-place ")
    };
    assert!(finding.severity != Severity::Undecided || hurt.iter().all(is_put_off), "{hurt:?}");
    // A check of the trees says the same of the page, if it comes by.
    let tables = inspect::tables(&[dir.join(&page.file)], &inspect::TableOptions::default()).expect("checks");
    let by_trees = tables.findings.iter().filter(|found| found.page == Some(page.number as u32));
    for found in by_trees.filter(|_| finding.severity != Severity::Notice) {
        assert_eq!(found.severity, finding.severity, "{found:?}");
    }
    let done = recover(dir, &RecoverOptions { dry_run: true, ..RecoverOptions::default() });
    if let Err(error) = &done {
        assert!(error.is_damage(), "{error}");
    }
    (finding.clone(), done.is_ok())
}

/// Tears pages of a crashed datadir one by one. `put` makes a doublewrite copy, `clear` removes it.
fn assert_torn_pages_are_judged_as_recovery_does(
    name: &str,
    put: impl Fn(&Path, &[u8]),
    clear: impl Fn(&Path),
) -> [usize; 2] {
    let (torn, whole) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    copy(&datadir(name), torn.path());
    let to = whole.path().join("recovered");
    recover(torn.path(), &RecoverOptions { to: Some(to.clone()), ..RecoverOptions::default() }).expect("recovers");
    let pages = changed_pages(torn.path(), &to);
    // The server had written the page that says which others are in use, and was writing those.
    for page in &pages {
        let [from, into] = [to.as_path(), torn.path()].map(|dir| dir.join(&page.file));
        let first = &fs::read(from).expect("reads")[..PAGE];
        File::options().write(true).open(into).expect("opens").write_all_at(first, 0).expect("writes");
    }
    let mut lost_and_made = [0, 0];
    for page in &pages {
        let file = File::options().write(true).open(torn.path().join(&page.file)).expect("opens");
        let write = |bytes: &[u8]| file.write_all_at(bytes, (page.number * PAGE) as u64).expect("writes");
        write(&[&page.after[..PAGE / 2], &[0xA5; PAGE / 2]].concat());
        let (finding, is_recovered) = judged(torn.path(), page);
        let is_damage = finding.severity == Severity::Damage;
        assert_eq!(is_damage, !is_recovered, "{name}: {finding:?}");
        // What was free before the crash need not be repaired.
        let is_free =
            |finding: &Finding| finding.severity == Severity::Notice && finding.message.contains("the page is free");
        assert!(is_damage || is_free(&finding) || finding.message.contains("redo log"), "{finding:?}");
        lost_and_made[usize::from(is_recovered)] += usize::from(!is_free(&finding));
        put(torn.path(), &page.after);
        let (finding, is_recovered) = judged(torn.path(), page);
        let is_put_back = finding.severity == Severity::Undecided && finding.message.contains("doublewrite");
        assert!(is_recovered && (is_put_back || is_free(&finding)), "{name}: {finding:?}");
        clear(torn.path());
        write(&page.before);
    }
    lost_and_made
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn torn_pages_of_mariadb_are_undecided_if_recovery_repairs_them() {
    let slot = |dir: &Path, page: &[u8]| {
        let system = File::options().write(true).open(dir.join("ibdata1")).expect("opens");
        system.write_all_at(page, (DOUBLEWRITE * PAGE) as u64).expect("writes");
    };
    let clear = |dir: &Path| slot(dir, &[0; PAGE]);
    let [lost, made] = assert_torn_pages_are_judged_as_recovery_does("mariadb-16k-crashed", slot, clear);
    assert!(lost > 0 && made > 0, "{lost} {made}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn torn_pages_of_mysql_are_undecided_if_recovery_repairs_them() {
    let path = |dir: &Path| dir.join("#ib_16384_0.dblwr");
    let len = fs::metadata(path(&datadir("mysql-16k-crashed"))).expect("a file").len();
    let put = |dir: &Path, page: &[u8]| {
        let mut file = File::options().append(true).open(path(dir)).expect("opens");
        file.write_all(page).expect("writes");
    };
    let clear = |dir: &Path| {
        let file = File::options().write(true).open(path(dir)).expect("opens");
        file.set_len(len).expect("cut");
    };
    let [lost, made] = assert_torn_pages_are_judged_as_recovery_does("mysql-16k-crashed", put, clear);
    assert!(lost > 0 && made > 0, "{lost} {made}");
}
