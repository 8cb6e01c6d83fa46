//! Kills runs of `innokit` and looks at what they leave.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::ended;
use crate::common::{Run, innokit};

pub const UNFINISHED: &str = "innokit-recover.unfinished";
/// Is there while pages are changed in place.
const SHADOW: &str = "innokit-recover.shadow";
/// Is there while pages are changed in a copy.
const COPIED: &str = "innokit-recover.moved";
/// Attempts to kill a run before it ends.
const TRIES: u32 = 20;

/// Whether a run has begun this copy and not finished it.
pub fn is_marked(dir: &Path) -> bool {
    dir.join(UNFINISHED).exists()
}

/// Whether a run has copied everything to this directory and is changing pages there.
pub fn has_copied(dir: &Path) -> bool {
    dir.join(COPIED).exists() || dir.join(SHADOW).metadata().is_ok_and(|shadow| shadow.len() > 0)
}

/// Starts `innokit` and kills it once `is_time` says so. Returns whether the kill came before it ended.
fn killed(mut command: Command, is_time: &dyn Fn() -> bool) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("innokit runs");
    while !is_time() {
        if child.try_wait().expect("is ours").is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    drop(child.kill());
    !child.wait().expect("ends").success()
}

/// Kills runs of `innokit` until one leaves what the test is about.
pub fn killed_in_some_try(command: &dyn Fn() -> Command, is_time: &dyn Fn() -> bool, counts: &dyn Fn() -> bool) {
    let found = (0..TRIES).any(|_| killed(command(), is_time) && counts());
    assert!(found, "in {TRIES} runs, none was killed in time");
}

/// Asserts that every command refuses the copy `out` and says why.
pub fn is_refused_as_unfinished(folder: &Path, out: &str) {
    let run = |words: &[&str]| ended(innokit().args(words).current_dir(folder));
    let uses: [&[&str]; 5] = [
        &["recover", "--in-place", out],
        &["recover", "--dry-run", out],
        &["recover", "--to", "from_leftover", out],
        &["restore", "--to", "from_leftover", out],
        &["backup", "verify", out],
    ];
    for words in uses {
        let says = |run: &Run| {
            run.errors.contains("interrupted before it finished this copy") && run.errors.contains(UNFINISHED)
        };
        let run = run(words);
        assert!(run.status == 2 && says(&run), "{words:?}: {}: {}{}", run.status, run.text, run.errors);
        assert!(!folder.join("from_leftover").exists() && folder.join(out).join(UNFINISHED).exists(), "{words:?}");
    }
}

/// Asserts that the run refuses its target as left by an interrupted run.
pub fn names_the_leftover(run: &Run) {
    let says = ["the directory is not empty", "an interrupted innokit left an unfinished copy here", UNFINISHED];
    let said = format!("{}{}", run.text, run.errors);
    assert!(run.status == 2 && says.iter().all(|words| said.contains(words)), "{}: {said}", run.status);
}
