//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows as many open files as the system permits. The usual limit, 1024, is meant for programs that call `select`.
pub fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    // Failure is ignored: the present limit may be high enough.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok();
}

/// What to do after an error that says that too many files are open.
pub fn advice(error: &str) -> Option<String> {
    let limit = getrlimit(Resource::Nofile).maximum?;
    error.contains("Too many open files").then(|| {
        format!(
            "this process may have {limit} files open; allow more with `ulimit -n` as root, or LimitNOFILE= in its systemd unit"
        )
    })
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
