//! The servers whose files this build was made for, and what files say of the server that made them.
//!
//! A newer server may write what looks like its predecessor's files and means something else. So where a verdict or a write depends on it, a
//! newer maker is named: a check is undecided, and nothing is written.

use crate::server::ServerKind;

/// The first two numbers of a version: innovation releases change files with the second.
pub type Release = (u32, u32);

/// The releases of a vendor from one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownServer {
    /// The vendor.
    pub kind: ServerKind,
    /// The first and the last release.
    pub releases: (Release, Release),
    /// What the tests run on: releases of real servers, as users write them.
    pub tested: &'static str,
    /// What this build does with their files: `check` alone, or everything.
    pub jobs: &'static str,
}

/// Every known server, newest last. docs/servers.md quotes it.
pub const KNOWN_SERVERS: [KnownServer; 5] = [
    KnownServer {
        kind: ServerKind::MariaDb,
        releases: ((10, 5), (10, 7)),
        tested: "10.5",
        jobs: "check, table, info, redo info, recover",
    },
    KnownServer {
        kind: ServerKind::MariaDb,
        releases: ((10, 8), (11, 8)),
        tested: "10.11, 11.4, 11.8",
        jobs: "everything",
    },
    KnownServer {
        kind: ServerKind::MySql,
        releases: ((5, 6), (5, 7)),
        tested: "5.6.24 (x86-64), 5.7 (its test files; no server)",
        jobs: "check, table, info",
    },
    KnownServer {
        kind: ServerKind::MySql,
        releases: ((8, 0), (8, 0)),
        tested: "8.0.15",
        jobs: "everything; backup and redo archive from 8.0.30 on",
    },
    KnownServer { kind: ServerKind::MySql, releases: ((8, 1), (9, 7)), tested: "9.7", jobs: "everything" },
];

/// The server that made a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maker {
    /// The vendor.
    pub kind: ServerKind,
    /// The release.
    pub release: Release,
}

impl Maker {
    /// From text that names it: `@@version`, or the field of a log (`MariaDB 10.11.19`, `MySQL 9.7.4`, `Backup 11.8.9-MariaDB`). `None`: it
    /// does not say.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let from = text.find(|letter: char| letter.is_ascii_digit())?;
        let mut numbers = text.get(from..)?.split(|letter: char| !letter.is_ascii_digit());
        let release = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        // A tool that copied a MySQL log overwrites the field with the time.
        let kind = match text {
            _ if text.contains("MariaDB") || text.starts_with("Backup ") => ServerKind::MariaDb,
            _ if text.starts_with("MySQL ") || from == 0 => ServerKind::MySql,
            _ => return None,
        };
        Some(Self { kind, release })
    }

    /// From the beginning of a redo log's file, of either vendor: 32 bytes of text.
    #[must_use]
    pub fn of_log(head: &[u8]) -> Option<Self> {
        let field = head.get(redo::mysql::LOG_HEADER_CREATOR..)?.get(..32)?;
        let text = field.split(|byte| *byte == 0).next()?;
        Self::of(std::str::from_utf8(text).ok()?)
    }

    /// Why nothing is known of its files: it is newer than every known server of its vendor.
    #[must_use]
    pub fn newer(&self) -> Option<String> {
        let known = KNOWN_SERVERS.iter().filter(|known| known.kind == self.kind).map(|known| known.releases.1).max()?;
        let (name, (major, minor)) = (self.kind.name(), self.release);
        (self.release > known)
            .then(|| format!("made by {name} {major}.{minor}: this build knows {name} up to {}.{}", known.0, known.1))
    }
}

#[cfg(test)]
mod tests {
    use super::Maker;
    use crate::server::ServerKind::{MariaDb, MySql};

    #[test]
    fn makers_are_read_from_their_texts() {
        for (text, expected) in [
            ("MariaDB 10.11.19", Some((MariaDb, (10, 11)))),
            ("Backup 11.8.9-MariaDB", Some((MariaDb, (11, 8)))),
            ("11.8.9-MariaDB-log", Some((MariaDb, (11, 8)))),
            ("MySQL 9.7.4", Some((MySql, (9, 7)))),
            ("8.4.3", Some((MySql, (8, 4)))),
            ("xtrabkup 261129 12:30:00", None),
            ("innokit", None),
            ("", None),
            ("MySQL", None),
            ("MySQL 9", None),
            ("MySQL 99999999999.1", None),
        ] {
            assert_eq!(Maker::of(text).map(|maker| (maker.kind, maker.release)), expected, "{text}");
        }
    }

    #[test]
    fn only_newer_ones_are_unknown() {
        for known in ["MariaDB 10.2.1", "MariaDB 11.8.9", "MySQL 9.7.9", "MySQL 5.1.2", "MariaDB 11.2.0"] {
            assert_eq!(Maker::of(known).and_then(|maker| maker.newer()), None, "{known}");
        }
        for (newer, words) in [
            ("MariaDB 12.3.1", "made by MariaDB 12.3: this build knows MariaDB up to 11.8"),
            ("MariaDB 11.9.0", "made by MariaDB 11.9: this build knows MariaDB up to 11.8"),
            ("MySQL 26.7.0", "made by MySQL 26.7: this build knows MySQL up to 9.7"),
            ("MySQL 9.8.0", "made by MySQL 9.8: this build knows MySQL up to 9.7"),
        ] {
            assert_eq!(Maker::of(newer).and_then(|maker| maker.newer()).as_deref(), Some(words));
        }
    }
}
