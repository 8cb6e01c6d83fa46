//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows as many open files as the system permits. The usual limit, 1024, is meant for programs that call `select`.
pub fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    // Failure is ignored: the present limit may be high enough.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok();
}

/// Open files with which every command that writes a datadir or a backup can do its work, whatever the number of tables.
const NEEDED: u64 = 64;

/// Refuses to begin work that would stop in its middle for lack of open files.
pub fn require() -> Result<(), String> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < NEEDED => Err(format!(
            "this process may have {limit} files open, and the command needs {NEEDED}, however many tables there are; nothing was done; \
             {WAY_OUT}"
        )),
        _ => Ok(()),
    }
}

/// How to get more.
const WAY_OUT: &str = "allow more with `ulimit -n` as root, or LimitNOFILE= in its systemd unit";

/// What to do after an error that says that too many files are open.
pub fn advice(error: &str) -> Option<String> {
    let limit = getrlimit(Resource::Nofile).maximum?;
    error.contains("Too many open files").then(|| format!("this process may have {limit} files open; {WAY_OUT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_descriptors_is_advised_on() {
        assert_eq!(advice("t.ibd: opening: Permission denied (os error 13)"), None);
        if getrlimit(Resource::Nofile).maximum.is_some() {
            let advice = advice("t.ibd: opening: Too many open files (os error 24)").expect("advice");
            assert!(advice.contains("ulimit -n"), "{advice}");
        }
    }
}
