//! The files of an archive. A segment's name is `redo.` and its start LSN in 16 hexadecimal digits; from the second timeline on, a dot and
//! the timeline's number follow. `.end` is added for the end record of a closed segment, `.gap` for the reason why a segment does not
//! continue the previous one.

use std::fs;
use std::path::{Path, PathBuf};

use format::Lsn;

use super::error::{Result, failed};

const PREFIX: &str = "redo.";
const LSN_DIGITS: usize = 16;

/// The name of a segment. Segments sort in the order in which they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    pub timeline: u32,
    pub start: Lsn,
}

impl SegmentName {
    fn parse(name: &str) -> Option<Self> {
        let (lsn, timeline) = name.strip_prefix(PREFIX)?.split_at_checked(LSN_DIGITS)?;
        let is_hex = lsn.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let start = Lsn(u64::from_str_radix(lsn, 16).ok().filter(|_| is_hex)?);
        let timeline = match timeline.strip_prefix('.') {
            Some(number) => number.parse().ok().filter(|number| *number > 1)?,
            None if timeline.is_empty() => 1,
            None => return None,
        };
        Some(Self { timeline, start })
    }

    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.to_string())
    }

    pub fn end_path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{self}.end"))
    }

    pub fn gap_path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{self}.gap"))
    }
}

impl std::fmt::Display for SegmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}{:016x}", self.start.0)?;
        if self.timeline > 1 { write!(f, ".{}", self.timeline) } else { Ok(()) }
    }
}

/// The segments of an archive, oldest first.
pub(crate) fn list(dir: &Path) -> Result<Vec<SegmentName>> {
    let entries = fs::read_dir(dir).map_err(failed(dir, "reading the archive"))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed(dir, "reading the archive"))?;
        names.extend(entry.file_name().to_str().and_then(SegmentName::parse));
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_timeline_and_lsn_and_nothing_else_is_one() {
        let names = [(1, 12_288), (1, 0x00ab_cdef_0000), (2, 12_288), (11, 1)];
        let names = names.map(|(timeline, start)| SegmentName { timeline, start: Lsn(start) });
        assert!(names.is_sorted());
        for name in names {
            assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
        }
        assert_eq!(names.map(|name| name.to_string()).last().map(String::as_str), Some("redo.0000000000000001.11"));
        let others = [
            "redo.0000000000003000.end",
            "redo.0000000000003000.new",
            "redo.0000000000003000.1",
            "redo.3000",
            "redo.000000000000300A",
            "redo.+000000000003000",
            "marks",
            "redo.0000000000003000.gap",
        ];
        for other in others {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }
}
