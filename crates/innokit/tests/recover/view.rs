//! Commands that read, on a killed server's datadir through a view and on its recovered copy: the same answers. And views of what is no base.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flow::Job;
use format::{Algorithm, Lsn, PageId, Scheme, SpaceFormat, seal_page};
use recovery::{RecoverOptions, View, ViewOptions};
use tempfile::TempDir;

use crate::common::{Run, all_datadirs, copy, innokit};
use crate::view_lab::{assert_shows, is_refused};

const CRASHED: [&str; 2] = ["mariadb-16k-crashed", "mysql-16k-crashed"];

fn run(words: &[&str], path: &Path) -> Run {
    Run::of(&innokit().args(words).arg(path).output().expect("innokit runs"))
}

/// A killed server's datadir, and its recovered copy.
struct Pair {
    dir: TempDir,
    crashed: PathBuf,
    recovered: PathBuf,
}

impl Pair {
    fn of(name: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        let (crashed, recovered) = (dir.path().join("crashed"), dir.path().join("recovered"));
        copy(&all_datadirs().join(name), &crashed);
        let done = run(&["recover", "--no-warm", "--to", recovered.to_str().expect("a name")], &crashed);
        assert_eq!(done.status, 0, "{}", done.errors);
        Self { dir, crashed, recovered }
    }

    /// What a command says of the view and of the copy, with one name for both.
    fn said(&self, words: &[&str]) -> [(i32, String); 2] {
        let [viewed, copied] = [run(&[words, &["--recovered"]].concat(), &self.crashed), run(words, &self.recovered)];
        assert!(viewed.errors.contains("viewing "), "{words:?}: {}", viewed.errors);
        [(viewed, &self.crashed), (copied, &self.recovered)].map(|(run, path)| {
            // Each line of a count ends with the time that it took.
            let untimed = |line: &str| match line.rsplit_once(", ") {
                Some((said, last)) if last.ends_with(" s") => said.to_owned(),
                _ => line.to_owned(),
            };
            let name = path.display().to_string();
            let lines = run.text.lines().map(|line| untimed(line).replace(&name, "DATADIR"));
            // How long it took, and how the bytes were read.
            let is_kept = |line: &String| !["time", "speed", "read"].iter().any(|word| line.starts_with(word));
            (run.status, lines.filter(is_kept).collect::<Vec<_>>().join("\n"))
        })
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_reading_command_says_of_a_view_what_it_says_of_the_recovered_copy() {
    for name in CRASHED {
        let pair = Pair::of(name);
        assert!(assert_shows(&pair.crashed, &pair.recovered, &RecoverOptions::default()) > 100, "{name}");
        for words in [
            &["table", "checksum"][..],
            &["table", "check", "--extended"],
            &["table", "count"],
            &["table", "schema"],
            &["check"],
            &["check", "--level", "structure"],
        ] {
            let [viewed, copied] = pair.said(words);
            assert_eq!(viewed, copied, "{name}: {words:?}");
            // Tables of MySQL with virtual columns have no checksum.
            let has_all = words != ["table", "checksum"] || name.starts_with("mariadb");
            assert!(viewed.0 == 0 || !has_all, "{name}: {words:?}: {}", viewed.1);
        }
    }
}

/// Asserts that each page that a view holds for unchanged since an earlier moment of the base has the same bytes at both, and that some are
/// changed. `options` are those of the later one; with `round`, its records are spilled in several runs.
fn assert_unchanged(base: &Path, earlier: Lsn, options: &RecoverOptions) {
    let view = |recover, since| {
        View::open(base, ViewOptions { recover, since, ..ViewOptions::default() })
            .unwrap_or_else(|error| panic!("a view: {error}"))
    };
    let before = view(RecoverOptions { until: Some(earlier), ..RecoverOptions::default() }, None);
    let later = view(options.clone(), before.lsn());
    let shown = |view: &View, name: &Path| {
        let _in_job = Job::default().enter();
        view.look_through().expect("the only view of this job");
        datadir::files::read(&view.base().join(name)).expect("read")
    };
    let (mut unchanged, mut changed) = (0, 0);
    for name in later.changed().iter().filter(|name| name.extension().is_some_and(|end| end == "ibd")) {
        let (a, b) = (shown(&before, name), shown(&later, name));
        let Ok(format) = SpaceFormat::from_page0(&b) else { continue };
        let size = format.physical().bytes();
        for (number, page) in (0..).zip(b.chunks(size)) {
            if later.is_unchanged(PageId::new(format.space().0, number)) {
                let there = a.get(number as usize * size..).and_then(|rest| rest.get(..page.len()));
                assert!(there.is_none_or(|there| there == page), "{}: page {number} differs", name.display());
                unchanged += 1;
            } else {
                changed += 1;
            }
        }
    }
    assert!(unchanged > 0 && changed > 0, "{unchanged} unchanged, {changed} changed");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_page_that_is_unchanged_between_two_moments_is_the_same_at_both() {
    for name in CRASHED {
        let base = all_datadirs().join(name);
        let end = View::open(&base, ViewOptions::default()).expect("a view").lsn().expect("redo to apply");
        assert_unchanged(&base, Lsn(end.0 - 300_000), &RecoverOptions::default());
        let spilled = RecoverOptions { memory: 0, round: 1 << 20, ..RecoverOptions::default() };
        assert_unchanged(&base, Lsn(end.0 - 100_000), &spilled);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_base_that_is_not_the_logs_is_refused_and_never_shown() {
    for name in CRASHED {
        let pair = Pair::of(name);
        let refused = |datadir: &Path| {
            let viewed = run(&["table", "checksum", "--recovered"], datadir);
            assert_eq!(viewed.status, 2, "{name}: {}{}", viewed.text, viewed.errors);
            assert!(viewed.text.is_empty(), "{name}: {}", viewed.text);
            viewed.errors
        };
        let with = |change: &dyn Fn(&Path)| {
            let changed = pair.dir.path().join("changed");
            copy(&pair.crashed, &changed);
            change(&changed);
            let why = refused(&changed);
            fs::remove_dir_all(changed).expect("removed");
            why
        };
        let log = if name.starts_with("mariadb") { "ib_logfile0" } else { "#innodb_redo" };
        // Without its log, or after somebody else's.
        with(&|base| {
            let path = base.join(log);
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("removed");
        });
        let changed = View::open(&pair.crashed, ViewOptions::default()).expect("a view").changed();
        let table = changed.iter().find(|name| name.extension().is_some_and(|it| it == "ibd")).expect("a table");
        let cut = with(&|base| {
            let file = fs::File::options().write(true).open(base.join(table)).expect("opens");
            file.set_len(65536).expect("cut");
        });
        assert!(cut.contains("was cut off"), "{name}: {cut}");
        // A page of a later time, with a checksum that is right: the first of the system tablespace.
        let aged = with(&|base| age(&base.join("ibdata1"), 0));
        assert!(aged.contains("was written at LSN"), "{name}: {aged}");
        // Further behind, where the plan does not look.
        let later = pair.dir.path().join("later");
        copy(&pair.crashed, &later);
        age(&later.join(table), 5);
        let view = View::open(&later, ViewOptions::default()).expect("a view");
        let in_job = Job::default().enter();
        view.look_through().expect("the only view of this job");
        let error = datadir::files::read(&later.join(table)).expect_err("a page is newer");
        assert!(error.to_string().contains("was written at LSN 1152921504606846976"), "{name}: {error}");
        drop(in_job);
        assert!(refused(pair.dir.path()).contains("neither a datadir"), "{name}");
    }
}

/// Gives a page of a file an LSN beyond every log.
fn age(path: &Path, number: usize) {
    let file = fs::File::options().read(true).write(true).open(path).expect("opens");
    let mut head = vec![0; 65536];
    file.read_exact_at(&mut head, 0).expect("reads");
    let format = SpaceFormat::from_page0(&head).expect("a format");
    let (size, at) = (format.physical().bytes(), number * format.physical().bytes());
    let algorithm = if format.scheme() == Scheme::FullCrc32 { Algorithm::FullCrc32 } else { Algorithm::Crc32 };
    let mut page = vec![0; size];
    file.read_exact_at(&mut page, at as u64).expect("reads");
    seal_page(&mut page, Lsn(1 << 60), algorithm, &format).expect("sealed");
    file.write_all_at(&page, at as u64).expect("writes");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_base_that_changes_under_a_view_is_an_error_of_the_read() {
    let pair = Pair::of("mariadb-16k-crashed");
    let view = View::open(&pair.crashed, ViewOptions::default()).expect("a view");
    view.look_through().expect("the first of this test");
    let changed = view.changed().into_iter().filter(|name| name.extension().is_some_and(|it| it == "ibd"));
    let tables: Vec<PathBuf> = changed.map(|name| pair.crashed.join(name)).collect();
    let [swapped, grown, ..] = tables.as_slice() else { panic!("{tables:?}") };
    let is_readable = |path: &Path| datadir::files::read(path).is_ok();
    assert!(is_readable(swapped) && is_readable(grown));
    let bytes = fs::read(swapped).expect("reads");
    fs::remove_file(swapped).expect("removed");
    fs::write(swapped, &bytes).expect("written");
    let file = fs::File::options().append(true).open(grown).expect("opens");
    file.set_len(file.metadata().expect("is there").len() + 16384).expect("grows");
    assert!(!is_readable(grown), "it has another length");
    assert!(datadir::files::failures().iter().any(|missed| missed.why.contains("was changed while the view was open")));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_view_is_refused_where_it_would_not_be_whole() {
    let pair = Pair::of("mariadb-16k-crashed");
    let of_table = run(&["check", "--live", "--recovered"], &pair.crashed);
    assert!(of_table.status == 2 && of_table.errors.contains("--live"), "{}", of_table.errors);
    let early = RecoverOptions { until: Some(Lsn(1)), ..RecoverOptions::default() };
    assert!(is_refused(&pair.crashed, &early, "checkpoint"));
    let two = Run::of(
        &innokit()
            .args(["table", "count", "--recovered"])
            .args([&pair.crashed, &pair.recovered])
            .output()
            .expect("runs"),
    );
    assert!(two.status == 2 && two.errors.contains("two datadirs"), "{}", two.errors);
    fs::write(pair.crashed.join("innokit-recover.shadow"), "").expect("written");
    assert!(is_refused(&pair.crashed, &RecoverOptions::default(), "interrupted"));
    // The copy has nothing to apply: it is viewed as it lies.
    let clean = run(&["table", "checksum", "--recovered"], &pair.recovered);
    assert!(clean.status == 0 && clean.errors.contains("nothing to apply"), "{}", clean.errors);
}
