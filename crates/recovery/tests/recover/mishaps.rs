//! Everything that can go wrong: killed recoveries, damage, missing files, a full disk, a running server.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use datadir::keys::KeyFiles;
use format::page::seal::seal_page;
use format::{Lsn, PageId, SpaceFormat, Verdict, verify_page};
use innokit_recovery::{RecoverError, RecoverOptions, recover};
use inspect::{RedoInfo, RedoInfoOptions, redo_info};
use tempfile::TempDir;

use crate::files_of;
use crate::server::{Server, copy, datadir};

/// The datadir that a child process recovers, and up to which LSN.
const CHILD: &str = "INNOKIT_TEST_RECOVERS";
const UNTIL: &str = "INNOKIT_TEST_RECOVERS_UNTIL";
/// The server's key file.
const KEYS: &str = "INNOKIT_TEST_RECOVERS_WITH";
const SHADOW: &str = "innokit-recover.shadow";

/// `INNOKIT_RECOVER_KILLS`, 4 by default.
fn kills() -> u32 {
    std::env::var("INNOKIT_RECOVER_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(4)
}

fn copy_of_crashed() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    copy(&datadir("mariadb-16k-crashed"), dir.path());
    dir
}

/// With the least memory allowed, and in more rounds than needed.
fn in_place(datadir: &Path) -> Result<innokit_recovery::Recovered, RecoverError> {
    in_place_until(datadir, None)
}

pub fn in_place_until(datadir: &Path, until: Option<Lsn>) -> Result<innokit_recovery::Recovered, RecoverError> {
    in_place_with(datadir, until, &KeyFiles::default())
}

pub fn in_place_with(
    datadir: &Path,
    until: Option<Lsn>,
    keys: &KeyFiles,
) -> Result<innokit_recovery::Recovered, RecoverError> {
    let keys = keys.clone();
    recover(
        datadir,
        &RecoverOptions { until, keys, memory: 0, round: 256 << 10, outside: true, ..RecoverOptions::default() },
    )
}

/// The work of a child process; does nothing in the test process itself.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn child() {
    if let Some(datadir) = std::env::var_os(CHILD) {
        let until = std::env::var(UNTIL).ok().map(|lsn| Lsn(lsn.parse().expect("a number")));
        let key_file = std::env::var_os(KEYS).map(|path| (path.into(), None));
        in_place_with(Path::new(&datadir), until, &KeyFiles { key_file, ..KeyFiles::default() }).expect("recovers");
    }
}

/// A child process that recovers the datadir up to an LSN.
pub fn child_until(datadir: &Path, until: Lsn, keys: &KeyFiles) -> Command {
    let mut command = child_with(datadir, keys);
    command.env(UNTIL, until.0.to_string());
    command
}

fn child_with(datadir: &Path, keys: &KeyFiles) -> Command {
    let mut command = child_on(datadir);
    command.envs(keys.key_file.iter().map(|(path, _)| (KEYS, path)));
    command
}

fn child_on(datadir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "mishaps::child"]).env(CHILD, datadir).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Recovers copies of a datadir, kills the recovery over and over, and compares the result with an undisturbed run.
pub fn assert_killed_runs_end_in_the_same_bytes(crashed: &Path, keys: &KeyFiles) {
    let copied = || {
        let dir = TempDir::new().expect("a directory");
        copy(crashed, dir.path());
        dir
    };
    let undisturbed = copied();
    let start = Instant::now();
    assert!(child_with(undisturbed.path(), keys).status().expect("starts").success());
    let took = start.elapsed();
    let expected = files_of(undisturbed.path());
    let (mut cut_off, mut shadows) = (0, 0);
    for number in 0..kills() {
        let dir = copied();
        for kill in 0..2 {
            let mut child = child_with(dir.path(), keys).spawn().expect("starts");
            std::thread::sleep(took * (number + kill) / kills());
            // It may have ended already.
            drop(child.kill());
            cut_off += u32::from(!child.wait().expect("ends").success());
            shadows += u32::from(dir.path().join(SHADOW).exists());
        }
        in_place_with(dir.path(), None, keys).unwrap_or_else(|error| panic!("kill {number}: {error}"));
        assert_eq!(files_of(dir.path()), expected, "kill {number}");
    }
    println!("{cut_off} runs cut off by the clock, {shadows} of them while they wrote; undisturbed it takes {took:?}");
    assert!(cut_off > 0, "no kill came before the end of a run that takes {took:?}");
    let dir = (0..20).map(|_| copied()).find(|dir| killed_while_it_wrote(dir.path(), keys));
    let dir = dir.expect("in 20 runs, none was killed while it wrote");
    in_place_with(dir.path(), None, keys).expect("recovers");
    assert_eq!(files_of(dir.path()), expected, "killed while it wrote");
}

/// Starts a recovery and kills it once it has begun to write. Returns whether the kill came before it ended.
fn killed_while_it_wrote(datadir: &Path, keys: &KeyFiles) -> bool {
    let mut child = child_with(datadir, keys).spawn().expect("starts");
    let shadow = datadir.join(SHADOW);
    while fs::metadata(&shadow).is_ok_and(|shadow| shadow.len() == 0) || !shadow.exists() {
        if child.try_wait().expect("is ours").is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    drop(child.kill());
    !child.wait().expect("ends").success() && shadow.exists()
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn recovery_that_is_killed_goes_on_and_ends_in_the_same_bytes() {
    assert_killed_runs_end_in_the_same_bytes(&datadir("mariadb-16k-crashed"), &KeyFiles::default());
}

pub fn assert_refused_unchanged(dir: &Path, is_damage: bool, says: &str) {
    assert_refused_unchanged_with(dir, &KeyFiles::default(), is_damage, says);
}

pub fn assert_refused_unchanged_with(dir: &Path, keys: &KeyFiles, is_damage: bool, says: &str) {
    let before = files_of(dir);
    let error = in_place_with(dir, None, keys).expect_err("cannot be recovered");
    assert!(error.is_damage() == is_damage && error.to_string().contains(says), "{error}");
    assert_eq!(files_of(dir), before, "{error}");
}

/// Changes a byte of a file.
pub fn change(path: &Path, offset: u64, mask: u8) {
    let file = File::options().read(true).write(true).open(path).expect("opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("reads");
    file.write_all_at(&[byte[0] ^ mask], offset).expect("writes");
}

pub fn info_of(log: &Path) -> RedoInfo {
    info_with(log, &KeyFiles::default())
}

pub fn info_with(log: &Path, keys: &KeyFiles) -> RedoInfo {
    redo_info(log, &RedoInfoOptions { keys: keys.clone(), ..RedoInfoOptions::default() }).expect("a log")
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_damaged_log_is_refused_before_anything_is_written() {
    let dir = copy_of_crashed();
    let log = dir.path().join("ib_logfile0");
    let info = info_of(&log);
    let (from, end) = (info.checkpoint.lsn, info.end_lsn);
    let place = 12288 + (from + (end - from) / 2 - info.files[0].first_lsn) % info.capacity.expect("a ring");
    change(&log, place, 0x10);
    assert_refused_unchanged(dir.path(), true, "damaged");
    change(&log, place, 0x10);
    change(&log, 9, 1);
    assert_refused_unchanged(dir.path(), true, "ib_logfile0");
    change(&log, 9, 1);
    for slot in [4096, 8192] {
        change(&log, slot + 3, 0xFF);
    }
    assert_refused_unchanged(dir.path(), true, "checkpoint");
    fs::write(&log, []).expect("writes");
    assert_refused_unchanged(dir.path(), true, "ib_logfile0");
    fs::remove_file(&log).expect("removes");
    assert_refused_unchanged(dir.path(), false, "not a datadir");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_log_that_was_cut_off_is_not_taken_for_a_shorter_one() {
    let dir = copy_of_crashed();
    let log = dir.path().join("ib_logfile0");
    let len = fs::metadata(&log).expect("a log").len();
    File::options().write(true).open(&log).expect("opens").set_len(len / 2 - 100).expect("cuts");
    assert_refused_unchanged(dir.path(), true, "ib_logfile0");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_missing_tablespace_is_refused_before_anything_is_written() {
    let dir = copy_of_crashed();
    // The redo of every load changes undo tablespaces.
    for undo in ["undo001", "undo002", "undo003"] {
        fs::remove_file(dir.path().join(undo)).expect("removes");
    }
    assert_refused_unchanged(dir.path(), false, "missing");
    fs::remove_file(dir.path().join("ibdata1")).expect("removes");
    assert_refused_unchanged(dir.path(), false, "not a datadir");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn damaged_pages_that_need_redo_stop_it_and_leave_the_checkpoint() {
    let dir = copy_of_crashed();
    let mut names: Vec<String> = files_of(dir.path()).into_iter().map(|(name, ..)| name).collect();
    names.retain(|name| name.ends_with(".ibd") || name.contains("undo"));
    for path in names.iter().map(|name| dir.path().join(name)) {
        let pages = fs::metadata(&path).expect("a file").len() / 16384;
        (1..pages).for_each(|page| change(&path, page * 16384 + 5000, 1));
    }
    let log = fs::read(dir.path().join("ib_logfile0")).expect("reads");
    // Whether the server had written them is known only once they are read.
    let error = in_place(dir.path()).expect_err("the load changes tables");
    assert!(error.is_damage() && error.to_string().contains("page"), "{error}");
    assert!(fs::read(dir.path().join("ib_logfile0")).expect("reads") == log, "the checkpoint stays");
}

/// Each table of a crashed server, truncated in the middle. The first page of some says that they are longer; in others, the log changes
/// pages past the cut.
pub fn assert_cut_off_tables_are_refused(crashed: &Path) {
    let dir = TempDir::new().expect("a directory");
    copy(crashed, dir.path());
    let mut refused = 0;
    for (name, len, _) in files_of(crashed) {
        if !name.starts_with("shop/") || !name.ends_with(".ibd") || len < 16 * 16384 {
            continue;
        }
        let path = dir.path().join(&name);
        File::options().write(true).open(&path).expect("opens").set_len(len / 2 / 16384 * 16384).expect("cuts");
        let tried = recover(dir.path(), &RecoverOptions { dry_run: true, ..RecoverOptions::default() });
        if let Err(error) = tried {
            let text = error.to_string();
            assert!(error.is_damage() && text.contains(name.trim_start_matches("shop/")), "{name}: {error}");
            refused += u32::from(text.contains("the file was cut off"));
        }
        fs::copy(crashed.join(&name), &path).expect("copies");
    }
    assert!(refused > 0, "the log changes a table whose first page was written");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn tables_that_were_cut_off_are_refused() {
    assert_cut_off_tables_are_refused(&datadir("mariadb-16k-crashed"));
    assert_cut_off_tables_are_refused(&datadir("mysql-16k-crashed"));
}

/// The first page of the system tablespace has a copy in the doublewrite area like every page that the server writes. `copied` puts a page
/// there.
pub fn assert_torn_first_page_is_restored(crashed: &Path, copied: impl Fn(&Path, &[u8])) {
    const SIZE: usize = 16384;
    let (whole, torn) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    copy(crashed, whole.path());
    copy(crashed, torn.path());
    let end = Lsn(in_place(whole.path()).expect("recovers").end_lsn);
    let mut page = fs::read(whole.path().join("ibdata1")).expect("reads");
    page.truncate(SIZE);
    let format = SpaceFormat::from_page0(&page).expect("a tablespace");
    let Verdict::Ok(algorithm) = verify_page(&page, PageId::new(0, 0), &format) else { panic!("page 0 is sound") };
    // It contains all redo, so it may have any LSN up to the end. A server accepts only copies that it can have made since the checkpoint.
    seal_page(&mut page, end, algorithm, &format).expect("seals");
    let system = File::options().write(true).open(torn.path().join("ibdata1")).expect("opens");
    system.write_all_at(&[&page[..SIZE / 2], &[0xA5; SIZE / 2]].concat(), 0).expect("writes");
    copied(torn.path(), &page);
    let done = in_place(torn.path()).expect("recovers");
    assert!(done.pages_restored >= 1, "{done:?}");
    let restored = fs::read(torn.path().join("ibdata1")).expect("reads");
    let is_sound = |bytes: &[u8]| matches!(verify_page(&bytes[..SIZE], PageId::new(0, 0), &format), Verdict::Ok(_));
    assert!(is_sound(&restored) && restored[38..SIZE / 2] == page[38..SIZE / 2]);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_torn_first_page_of_the_system_tablespace_is_restored() {
    assert_torn_first_page_is_restored(&datadir("mariadb-16k-crashed"), |dir, page| {
        let system = File::options().write(true).open(dir.join("ibdata1")).expect("opens");
        system.write_all_at(page, 64 * page.len() as u64).expect("writes");
    });
}

/// Recovers with a file size limit of 1 MiB, which acts like a full disk: it fails when writing blocks whose changes the shadow file has.
fn run_out_of_disk(datadir: &Path) {
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\""]);
    let child = child_on(datadir);
    limited.arg(child.get_program()).args(child.get_args()).env(CHILD, datadir);
    let output = limited.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("bash runs");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success() && text.contains("File too large"), "{text}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_disk_that_takes_no_more_stops_it_and_the_next_run_ends_in_the_same_bytes() {
    let (undisturbed, dir) = (copy_of_crashed(), copy_of_crashed());
    in_place(undisturbed.path()).expect("recovers");
    run_out_of_disk(dir.path());
    in_place(dir.path()).expect("recovers");
    assert_eq!(files_of(dir.path()), files_of(undisturbed.path()));
}

/// If the log was closed except for its checkpoint, the two disagree about where it ends.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_a_run_to_the_end_left_in_its_shadow_is_written_by_one_that_ends_before() {
    let (closed, dir) = (copy_of_crashed(), copy_of_crashed());
    in_place(closed.path()).expect("recovers");
    let [before, mut log] = [dir.path(), closed.path()].map(|dir| fs::read(dir.join("ib_logfile0")).expect("a log"));
    let end = info_of(&dir.path().join("ib_logfile0")).end_lsn;
    log[..12288].copy_from_slice(&before[..12288]);
    fs::write(dir.path().join("ib_logfile0"), log).expect("writes");
    run_out_of_disk(dir.path());
    assert!(dir.path().join(SHADOW).exists());
    let but_for_the_shadow =
        || files_of(dir.path()).into_iter().filter(|(name, ..)| name != SHADOW).collect::<Vec<_>>();
    let left = but_for_the_shadow();
    match in_place_until(dir.path(), Some(Lsn(end - 1))) {
        Ok(done) => assert!(done.pieces_replayed > 0 && done.mtrs_dropped > 0, "{done:?}"),
        // The last record is the one of the newest checkpoint, and no recovery may end before that. The shadow waits for one to the end.
        Err(error) if error.to_string().contains("is before the log's newest checkpoint") => {
            assert!(!error.is_damage() && but_for_the_shadow() == left, "{error}");
            assert!(in_place(dir.path()).expect("recovers").pieces_replayed > 0);
        }
        // The server had already written the last changes. The pages were repaired before that is discovered.
        Err(error) => assert!(!error.is_damage() && but_for_the_shadow() != left, "{error}"),
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_that_runs_is_noticed() {
    let dir = TempDir::new().expect("a directory");
    let server = Server::start(&dir.path().join("data"), &[]);
    let to = dir.path().join("copy");
    for options in [
        RecoverOptions::default(),
        RecoverOptions { dry_run: true, ..RecoverOptions::default() },
        RecoverOptions { to: Some(to.clone()), ..RecoverOptions::default() },
    ] {
        let error = recover(&server.0, &options).expect_err("a server runs");
        assert!(!error.is_damage() && error.to_string().contains("server"), "{error}");
    }
    assert!(!to.exists());
    assert_eq!(server.ask("SELECT 1").trim(), "1", "and does not mind");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_copy_goes_only_where_nothing_is() {
    let dir = TempDir::new().expect("a directory");
    fs::write(dir.path().join("precious"), "x").expect("writes");
    let options = RecoverOptions { to: Some(dir.path().to_path_buf()), ..RecoverOptions::default() };
    let error = recover(&datadir("mariadb-16k-crashed"), &options).expect_err("something is there");
    assert!(error.to_string().contains("not empty"), "{error}");
    assert_eq!(files_of(dir.path()).len(), 1);
}
