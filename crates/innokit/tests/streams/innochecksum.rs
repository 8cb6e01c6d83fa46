//! `innokit innochecksum` and MySQL's own `innochecksum` side by side: the same output, files and exit status, except for one table of
//! differences, which `docs/innochecksum.md` repeats.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::common::{Dir, innokit, repository};
use crate::innochecksum_matrix::{Case, Observed, Tool, cases, observe};

/// Sets of options; `-` at the end means reading standard input.
const OPTIONS: [&[&str]; 16] = [
    &[],
    &["-S"],
    &["-v"],
    &["-c"],
    &["-p", "4"],
    &["-s", "3", "-e", "9", "-S", "-D", "dump"],
    &["-a", "1000", "-S", "-D", "dump", "-l", "log"],
    &["-C", "crc32", "-a", "9", "-l", "log"],
    &["-C", "innodb", "-a", "9", "-l", "log"],
    &["-C", "none"],
    &["-w", "none", "-l", "log"],
    &["-w", "innodb", "-a", "1000", "-l", "log"],
    &["-n", "-w", "crc32", "-l", "log"],
    &["-v", "-l", "log", "-s", "2"],
    &["-S", "-"],
    &["-w", "crc32", "-"],
];

/// A permitted difference: the first cell of its row in the documentation, the files it concerns (their names contain one of these), and a
/// test whether an observed difference is this one.
struct Difference {
    name: &'static str,
    files: &'static [&'static str],
    is: fn(&Seen<'_>) -> bool,
}

impl Difference {
    /// It concerns command lines, not files.
    fn is_about_lines(&self) -> bool {
        self.files.iter().all(|part| part.starts_with("line: "))
    }
}

/// An observed difference.
struct Seen<'a> {
    options: &'a [&'a str],
    original: &'a Observed,
    ours: &'a Observed,
}

impl Seen<'_> {
    fn writes(&self) -> bool {
        self.options.contains(&"-w")
    }
}

const DIFFERENCES: [Difference; 10] = [
    Difference { name: "full_crc32", files: &["mariadb"], is: |seen| seen.original.crashed && !seen.ours.crashed },
    Difference {
        name: "page 0 lost",
        files: &["zeroed-page-0-mariadb", "later-file"],
        is: |seen| {
            let wrong_size = seen.original.text("stdout") != seen.ours.text("stdout");
            seen.original.text("stderr").contains("Fail") || seen.writes() || wrong_size
        },
    },
    Difference {
        name: "encrypted pages",
        files: &["mysql-16k-tde/"],
        is: |seen| {
            let told = seen.ours.text("stderr");
            told.contains("were not verified: that needs their key")
                || (seen.writes() && told.contains("Nothing was changed.") && seen.ours.status == Some(1))
        },
    },
    Difference {
        name: "compressed pages",
        files: &["compressed/shop/page_"],
        is: |seen| seen.writes() && seen.original.status == seen.ours.status,
    },
    Difference {
        name: "page that cannot be inflated",
        files: &["not-compressed"],
        is: |seen| {
            seen.original.text("stderr").contains("Page decompress failed")
                || seen.original.text("log").contains("Updated")
        },
    },
    Difference {
        name: "strict check without log",
        files: &["flipped", "stored-checksum", "misplaced", "dblwr", "nearly-zero", "area"],
        is: |seen| seen.options == ["-C", "none"] && seen.original.crashed && seen.ours.status == Some(1),
    },
    Difference {
        name: "doublewrite files",
        files: &["dblwr"],
        is: |seen| {
            // On standard input, no name identifies a doublewrite file. The original then takes the first copy for page 0 of a tablespace,
            // so a crashed server's last writes decide whether it refuses the file, continues with another page size or crashes. Ours asks
            // all copies for the page size. The two cannot be compared; the caller asserts only that ours ends normally.
            let is_nameless = seen.options.last() == Some(&"-");
            seen.ours.status == Some(0)
                || (seen.writes() && seen.ours.text("stderr").contains("doublewrite file"))
                || (is_nameless && seen.ours.status == Some(1))
        },
    },
    Difference {
        name: "misplaced pages of MariaDB",
        files: &["misplaced-mariadb"],
        is: |seen| {
            seen.ours.text("stderr").contains("Fail: page 6 invalid")
                || seen.ours.text("log").contains("page 6 invalid")
        },
    },
    Difference {
        name: "files after standard input",
        files: &["line: - FILE"],
        is: |seen| seen.ours.text("stderr").contains("Fail: page 4 invalid") && seen.ours.status == Some(1),
    },
    Difference {
        name: "not a tablespace",
        files: &["text"],
        is: |seen| seen.ours.status == Some(1) && seen.ours.text("stderr").contains("is not an InnoDB tablespace"),
    },
];

/// The permitted differences that explain an observed one.
fn explain<'d>(name: &str, seen: &Seen<'_>) -> Vec<&'d str> {
    let about = |difference: &&Difference| difference.files.iter().any(|part| name.contains(part));
    DIFFERENCES
        .iter()
        .filter(about)
        .filter(|difference| (difference.is)(seen))
        .map(|difference| difference.name)
        .collect()
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_run_is_the_originals_but_for_the_documented_differences() {
    let cases = cases();
    assert!(cases.len() > 100 && OPTIONS.len() == 16, "{} files", cases.len());
    let queue = Mutex::new(cases.iter());
    let unexplained = Mutex::new(Vec::new());
    let used = Mutex::new(BTreeMap::<&str, usize>::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(case) = { queue.lock().expect("not poisoned").next() } {
                    for options in OPTIONS {
                        let original = observe(Tool::MySql, case, options);
                        let ours = observe(Tool::Ours, case, options);
                        assert!(!ours.crashed, "{} {options:?}", case.name);
                        if original == ours {
                            continue;
                        }
                        let reasons = explain(&case.name, &Seen { options, original: &original, ours: &ours });
                        if reasons.is_empty() {
                            let difference = original.first_difference(&ours);
                            unexplained
                                .lock()
                                .expect("not poisoned")
                                .push(format!("{} {options:?}: {difference}", case.name));
                        }
                        for reason in reasons {
                            *used.lock().expect("not poisoned").entry(reason).or_default() += 1;
                        }
                    }
                }
            });
        }
    });
    let unexplained = unexplained.into_inner().expect("not poisoned");
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
    let used = used.into_inner().expect("not poisoned");
    for difference in DIFFERENCES.iter().filter(|difference| !difference.is_about_lines()) {
        assert!(used.contains_key(difference.name), "{} explains nothing any more", difference.name);
    }
}

#[test]
fn the_documentation_lists_every_difference() {
    let text = std::fs::read_to_string(repository().join("docs/innochecksum.md")).expect("documented");
    for difference in &DIFFERENCES {
        let row = text.lines().find(|line| line.starts_with(&format!("| {} |", difference.name)));
        let reason = row.and_then(|row| row.split('|').nth(4)).unwrap_or_default();
        assert!(reason.trim().len() > 20, "no reason for: {}", difference.name);
    }
}

/// Command lines, with FILE for a damaged tablespace and GOOD for an intact one. None asks for help or version.
const COMMAND_LINES: &str = "\
    --bogus FILE|--st 3 FILE|--sta=3 FILE|--skip-count FILE|--enable-count FILE|--loose-bogus FILE|--loose-count FILE|--count=0 FILE|\
    --count=TRUE FILE|--count=on FILE|--count=x FILE|--count= FILE|--skip-count=1 FILE|--skip-count=0 FILE|--enable-count=1 FILE|\
    --disable-count=x FILE|--skip-page FILE|--verbose=2 FILE|-vv FILE|-cv FILE|-c1 FILE|-s5 FILE|-s 5 FILE|-s FILE|--start-page FILE|\
    --start-page= FILE|-s x FILE|--page=3x FILE|--page=1K FILE|--page=-1 FILE|--page=99999999999999999999 FILE|\
    --page=18446744073709551615 FILE|-a -1 FILE|--allow-mismatches=5000000000 FILE|-C bogus FILE|-C FILE|--strict-check= FILE|\
    -C CRC32 FILE|-C crc3 FILE|-C 0 FILE|-C 2 FILE|-C 6 FILE|-C -1 FILE|-C 01 FILE|-C strict_crc32 FILE|-w bogus FILE|-w FILE|--write= FILE|\
    -n FILE|-n -C crc32 FILE|-n -w crc32 -C crc32 FILE|-v -n FILE|-z FILE|-# FILE|-cz FILE|--no-check=0 FILE|-l /nosuch/x FILE|\
    -D /nosuch/x FILE|-l /nosuch/x -D /nosuch/y FILE|-S=1 FILE|--help=1 FILE|--version=1|--skip-help|--maximum-page=3 FILE|- FILE|--print-defaults FILE|\
    --=3 FILE|--- FILE|--autoset-count FILE|--page-type FILE|-p0x3 FILE|-p 03 FILE|-- FILE|-c -- FILE|GOOD -c|GOOD FILE|-a 1 FILE FILE|\
    GOOD nosuch FILE|nosuch FILE|-c nosuch|-l log nosuch|--loose-page=x FILE|--loose-nosuch=3 FILE|--skip-nosuch FILE|-a 2K FILE|-a 1Kx FILE|-a x1 FILE|\
    -a -x FILE|-a +3 FILE|-s 1.5 FILE|-s -0 FILE|--start_page=99 FILE|--Start-Page=3 FILE|--COUNT FILE|--page_type-summary FILE|-e -5 FILE|\
    -p 3 -s 1 -e 9 FILE|-p 4 -e 1 FILE|-s 3 -e 2 FILE|-e 100 -S GOOD|-p 100 -S GOOD|-s 100 -v GOOD|-s|--start-page|-C|--log|-cs|-e 4 FILE|-e 3 FILE|\
    -a 18446744073709551616 FILE|-v -C none -w innodb -s 3 GOOD|-S -D dump GOOD FILE|-w none -c GOOD|-s 24 -|-s 23 -|-c -|- -|-v -l log -p 3 GOOD|\
    directory|-l log directory|-w crc32 -a 9 FILE GOOD";

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn command_lines_are_read_as_the_original_reads_them() {
    let mut used = Vec::new();
    for line in COMMAND_LINES.split('|') {
        let words: Vec<&str> = line.split_whitespace().collect();
        let run = |tool| crate::innochecksum_matrix::command_line(tool, &words);
        let (original, ours) = (run(Tool::MySql), run(Tool::Ours));
        if original != ours {
            let seen = Seen { options: &words, original: &original, ours: &ours };
            let reasons = explain(&format!("line: {line}"), &seen);
            assert!(!reasons.is_empty(), "{line}: {}", original.first_difference(&ours));
            used.extend(reasons);
        }
    }
    for difference in DIFFERENCES.iter().filter(|difference| difference.is_about_lines()) {
        assert!(used.contains(&difference.name), "{} explains nothing any more", difference.name);
    }
    assert!(COMMAND_LINES.split('|').count() > 100);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_locked_file_is_refused_in_the_originals_words() {
    let dir = Dir::new();
    let path = dir.file("t.ibd", &crate::common::fixture("mysql-9.7/zip-1k.ibd"));
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("opened");
    for options in [&["-S"][..], &["-w", "none"], &["-c"]] {
        let run = |tool| {
            // Gathering what a run left opens and closes the file, which drops all POSIX locks that this process holds on it.
            rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("locked");
            crate::innochecksum_matrix::run(tool, dir.path(), options, &["t.ibd"], None)
        };
        let (original, ours) = (run(Tool::MySql), run(Tool::Ours));
        assert!(original == ours, "{options:?}: {}", original.first_difference(&ours));
        assert!(ours.text("stderr").contains("Unable to lock file:: t.ibd\nfcntl: "), "{}", ours.text("stderr"));
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn version_and_help_name_the_program_and_every_option() {
    let run = |option| crate::innochecksum_matrix::run(Tool::Ours, Dir::new().path(), &[option], &[], None);
    let version = run("-V");
    assert_eq!((version.status, version.text("stdout").lines().count()), (Some(0), 1));
    assert!(version.text("stdout").starts_with("innochecksum  Ver 9.7 (innokit "), "{}", version.text("stdout"));
    let help = run("--help");
    let original = crate::innochecksum_matrix::run(Tool::MySql, Dir::new().path(), &["--help"], &[], None);
    let names = |text: &str| {
        let words = text.split_whitespace().filter(|word| word.starts_with("--") && !word.starts_with("---"));
        words.map(|word| word.trim_end_matches('.').split('=').next().unwrap_or(word).to_owned()).collect::<Vec<_>>()
    };
    let ours = names(&help.text("stdout"));
    for name in names(&original.text("stdout")) {
        assert!(ours.contains(&name), "{name}");
    }
    let nothing = crate::innochecksum_matrix::run(Tool::Ours, Dir::new().path(), &[], &[], None);
    assert_eq!((nothing.status, nothing.text("stdout")), (Some(1), help.text("stdout")));
}

/// The original waits for ever.
#[test]
fn a_pipe_is_refused() {
    let dir = Dir::new();
    let pipe = dir.path().join("pipe.ibd");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    for options in [&[][..], &["-w", "crc32"]] {
        let run = innokit().arg("innochecksum").args(options).arg(&pipe).output().expect("innokit runs");
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && errors.contains("not a regular file"), "{errors}");
    }
}

#[test]
fn the_binary_answers_to_the_originals_name() {
    let dir = Dir::new();
    dir.file("t.ibd", &crate::common::fixture("mysql-9.7/zip-1k.ibd"));
    let link = dir.path().join("innochecksum");
    std::os::unix::fs::symlink(crate::common::innokit().get_program(), &link).expect("linked");
    let output = crate::common::program(&link).args(["-c", "t.ibd"]).current_dir(dir.path()).output().expect("runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Number of pages:20\n");
    let output = crate::common::program(&link).arg("-i0").output().expect("runs");
    let expected = format!("innochecksum: [ERROR] {}: unknown option '-0'.\n", link.display());
    assert_eq!((String::from_utf8_lossy(&output.stderr).as_ref(), output.status.code()), (expected.as_str(), Some(1)));
}

/// MySQL's tool cannot read these; MariaDB's can.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadb_tablespaces_get_the_verdict_of_mariadbs_tool() {
    let mut compared = 0;
    for case in cases().iter().filter(|case| case.name.contains("mariadb")) {
        // Its own tool stumbles over the doublewrite area, needs page 0, and does not report missing pages.
        if ["system", "zeroed-page-0"].iter().any(|part| case.name.contains(part)) {
            continue;
        }
        let theirs = observe(Tool::MariaDb, case, &[]);
        let ours = observe(Tool::Ours, case, &[]);
        assert_eq!(theirs.status, ours.status, "{}: {}{}", case.name, theirs.text("stderr"), ours.text("stderr"));
        compared += 1;
    }
    assert!(compared > 25, "{compared}");
}

/// The tables of indexes, without the debugging line that MariaDB's tool prints between them.
fn tables(observed: &Observed) -> Vec<String> {
    let text = observed.text("stdout");
    let details = text.lines().filter(|line| line.contains("index id="));
    let tables =
        text.lines().skip_while(|line| !line.starts_with("index_id")).filter(|line| !line.starts_with("count = "));
    details.chain(tables).map(str::to_owned).collect()
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadbs_index_options_print_what_its_tool_prints() {
    for name in ["dynamic-16k", "dynamic-16k-updated", "redundant-16k", "spatial-16k", "blobs-16k", "zip-8k"] {
        let case = Case::fixture(&format!("mariadb-10.11/{name}.ibd"));
        for options in [&["-S", "-i"][..], &["-S", "-f", "-m", "4"], &["-S", "-i", "-f", "-m", "2"], &["-S", "-m", "3"]]
        {
            let theirs = tables(&observe(Tool::MariaDb, &case, options));
            assert!(theirs.len() > 3, "{name} {options:?}");
            assert_eq!(theirs, tables(&observe(Tool::Ours, &case, options)), "{name} {options:?}");
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_interrupted_rewrite_is_noted_by_a_check_and_completed_by_the_next_write() {
    let dir = Dir::new();
    let path = dir.file("t.ibd", &crate::common::fixture("mysql-9.7/dynamic-16k.ibd"));
    // An incomplete journal: nothing has been written in place yet.
    dir.file("t.ibd.innochecksum-journal", b"INNOKRW1 and no more");
    let run = |options: &[&str]| crate::innochecksum_matrix::run(Tool::Ours, dir.path(), options, &["t.ibd"], None);
    let check = run(&[]);
    assert_eq!(check.status, Some(0));
    assert!(check.text("stderr").contains("was interrupted"), "{}", check.text("stderr"));
    let write = run(&["-w", "none"]);
    assert!(write.text("stderr").contains("completed: 0 pages"), "{}", write.text("stderr"));
    assert!(!dir.path().join("t.ibd.innochecksum-journal").exists());
    assert_eq!(run(&[]).text("stderr"), "");
    assert_eq!(&std::fs::read(path).expect("read")[..4], 0xDEAD_BEEF_u32.to_be_bytes());
}
