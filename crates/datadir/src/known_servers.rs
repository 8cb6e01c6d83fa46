//! The servers whose files this build was made for, and what files say of the server that made them.
//!
//! A newer server may write what looks like its predecessor's files and means something else. So where a verdict or a write depends on it, a
//! newer maker is named: a check is undecided, and nothing is written.

use std::path::{Path, PathBuf};

use format::bytes::be;
use format::fil;

use crate::files::File;
use crate::reading::read_up_to;
use crate::server::ServerKind;

/// Where MariaDB notes the server that last upgraded a datadir; the second until 10.11.
const UPGRADE_NOTES: [&str; 2] = ["mariadb_upgrade_info", "mysql_upgrade_info"];
/// Bytes of such a note, at most.
const NOTE_MAX: usize = 256;

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

/// What stands in the table for servers of which no build was at hand.
pub const SOURCES: &str = "none: from the sources";

/// Every known server, newest last. docs/servers.md quotes it.
pub const KNOWN_SERVERS: [KnownServer; 6] = [
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
        kind: ServerKind::MariaDb,
        releases: ((12, 0), (13, 0)),
        tested: SOURCES,
        jobs: "check, info, redo info, recover",
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

    /// The server that made or last upgraded a datadir, and the file that says so. `None`: no file says.
    pub fn of_datadir(root: &Path) -> Option<(PathBuf, Self)> {
        let dictionary = root.join("mysql.ibd");
        if let Ok(head) = File::open(&dictionary).and_then(|file| read_up_to(&file, 0, fil::FIL_PAGE_DATA)) {
            return Self::of_page(&head).map(|maker| (dictionary, maker));
        }
        UPGRADE_NOTES.iter().find_map(|name| {
            let path = root.join(name);
            let note = File::open(&path).and_then(|file| read_up_to(&file, 0, NOTE_MAX)).ok()?;
            let text = String::from_utf8(note).ok()?;
            Some((path, Self::of(text.trim()).filter(|maker| maker.kind == ServerKind::MariaDb)?))
        })
    }

    /// From the first page of a tablespace of MySQL 8.0, which has the server's version where other pages name their neighbours.
    #[must_use]
    pub fn of_page(page0: &[u8]) -> Option<Self> {
        const SPACE_VERSION: u32 = 1;
        let is_versioned = be::u32_at(page0, fil::FIL_PAGE_NEXT)? == SPACE_VERSION;
        Self::of_number(be::u32_at(page0, fil::FIL_PAGE_PREV)?)
            .filter(|maker| is_versioned && maker.kind == ServerKind::MySql)
    }

    /// From the number that servers have for their version: 90704, 101119.
    #[must_use]
    pub const fn of_number(number: u32) -> Option<Self> {
        let release = (number / 10_000, number / 100 % 100);
        let kind = match number {
            // MariaDB 10.0 to 19.x; no MySQL has such a number.
            100_000..=199_999 => ServerKind::MariaDb,
            50_000..=99_999 | 200_000..=999_999 => ServerKind::MySql,
            _ => return None,
        };
        Some(Self { kind, release })
    }

    /// Why nothing is known of its files: it is newer than every known server of its vendor.
    #[must_use]
    pub fn newer(&self) -> Option<String> {
        self.beyond(|_| true)
    }

    /// Why its running server is left alone: it is newer than every server of its vendor that this build was tested with.
    #[must_use]
    pub fn newer_than_tested(&self) -> Option<String> {
        self.beyond(|known| known.tested != SOURCES)
    }

    fn beyond(&self, counts: impl Fn(&KnownServer) -> bool) -> Option<String> {
        let of_vendor = KNOWN_SERVERS.iter().filter(|known| known.kind == self.kind && counts(known));
        let known = of_vendor.map(|known| known.releases.1).max()?;
        let (name, (major, minor)) = (self.kind.name(), self.release);
        (self.release > known)
            .then(|| format!("made by {name} {major}.{minor}: this build knows {name} up to {}.{}", known.0, known.1))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

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
            ("MariaDB 13.1.1", "made by MariaDB 13.1: this build knows MariaDB up to 13.0"),
            ("MySQL 26.7.0", "made by MySQL 26.7: this build knows MySQL up to 9.7"),
            ("MySQL 9.8.0", "made by MySQL 9.8: this build knows MySQL up to 9.7"),
        ] {
            assert_eq!(Maker::of(newer).and_then(|maker| maker.newer()).as_deref(), Some(words));
        }
        let of_sources = Maker::of("MariaDB 12.3.1").expect("a maker");
        assert_eq!(of_sources.newer(), None);
        assert_eq!(
            of_sources.newer_than_tested().as_deref(),
            Some("made by MariaDB 12.3: this build knows MariaDB up to 11.8")
        );
    }

    #[test]
    fn numbers_of_versions_belong_to_one_vendor() {
        for (number, expected) in [
            (50_624, Some((MySql, (5, 6)))),
            (80_015, Some((MySql, (8, 0)))),
            (90_704, Some((MySql, (9, 7)))),
            (260_700, Some((MySql, (26, 7)))),
            (101_119, Some((MariaDb, (10, 11)))),
            (130_001, Some((MariaDb, (13, 0)))),
            (0, None),
            (u32::MAX, None),
        ] {
            assert_eq!(Maker::of_number(number).map(|maker| (maker.kind, maker.release)), expected, "{number}");
        }
    }

    #[test]
    fn a_datadir_names_the_server_that_upgraded_it() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(Maker::of_datadir(dir.path()), None);
        std::fs::write(dir.path().join("mariadb_upgrade_info"), "13.1.2-MariaDB\n").expect("written");
        let (path, maker) = Maker::of_datadir(dir.path()).expect("it says so");
        assert_eq!(
            (path.file_name().and_then(|name| name.to_str()), maker.release),
            (Some("mariadb_upgrade_info"), (13, 1))
        );
        let mut page = [0; 38];
        page[8..12].copy_from_slice(&260_700_u32.to_be_bytes());
        page[12..16].copy_from_slice(&1_u32.to_be_bytes());
        std::fs::write(dir.path().join("mysql.ibd"), page).expect("written");
        assert_eq!(Maker::of_datadir(dir.path()).map(|(_, maker)| maker.release), Some((26, 7)));
        page[15] = 2;
        std::fs::write(dir.path().join("mysql.ibd"), page).expect("written");
        assert_eq!(Maker::of_datadir(dir.path()), None, "no such page has that");
    }
}
