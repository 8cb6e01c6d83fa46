//! Time zones: which offset from UTC a zone has at a moment, as the files in `/usr/share/zoneinfo` (TZif, RFC 9636) say.
//!
//! A file ends with a rule for the years after its last entry (`posix_zone`). Today's files leave nearly everything to it.

use std::path::Path;

use super::posix_zone::Rule;

/// Where the system keeps its zones.
const FOLDER: &str = "/usr/share/zoneinfo";
/// The zone of this machine: a link to a zone, or a copy.
const LOCAL: &str = "/etc/localtime";
const HEADER_LEN: usize = 44;

/// A zone: its offsets from UTC in seconds, east is positive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Zone {
    /// Before the first change.
    first: i64,
    /// Seconds since 1970 at which the offset changes, and the offset from then on.
    changes: Vec<(i64, i64)>,
    /// After the last change.
    rule: Option<Rule>,
}

impl Zone {
    /// A zone that never changes.
    pub fn fixed(offset: i64) -> Self {
        Self { first: offset, ..Self::default() }
    }

    /// The zone with this name, such as `Europe/Berlin`.
    pub fn named(name: &str) -> Result<Self, String> {
        let is_plain = |part: &str| {
            let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"_+-".contains(&letter);
            !part.is_empty() && part.bytes().all(is_letter)
        };
        // Without a dot in it, no name leads out of the folder.
        if !name.split('/').all(is_plain) {
            return Err(format!(
                "{name}: no time zone: give an offset (+01:00), a name (Europe/Berlin), or the word local"
            ));
        }
        Self::in_file(&Path::new(FOLDER).join(name)).ok_or_else(|| {
            format!("{name}: no time zone of that name in {FOLDER}: give the offset from UTC instead, as in +01:00")
        })
    }

    /// The zone of this machine. UTC if it has none set, as for the C library.
    pub fn local() -> Self {
        let named = std::env::var("TZ").ok().filter(|name| !name.is_empty());
        let named = named.and_then(|name| Self::named(name.trim_start_matches(':')).ok());
        named.or_else(|| Self::in_file(Path::new(LOCAL))).unwrap_or_default()
    }

    fn in_file(path: &Path) -> Option<Self> {
        Self::parse(&std::fs::read(path).ok()?)
    }

    /// Reads a TZif file. `None` if it is none.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let head = Head::parse(bytes)?;
        if head.version == 0 {
            return head.zone(bytes.get(HEADER_LEN..)?, 4);
        }
        // The first block is for programs that know only 32 bits. The second one repeats it with 64.
        let second = bytes.get(HEADER_LEN + head.len(4)..)?;
        let (head, body) = (Head::parse(second)?, second.get(HEADER_LEN..)?);
        let footer = std::str::from_utf8(body.get(head.len(8)..)?).ok()?.trim_matches('\n');
        let zone = head.zone(body, 8)?;
        let rule = if footer.is_empty() { None } else { Some(Rule::parse(footer)?) };
        Some(Self { rule, ..zone })
    }

    /// The offset at a moment, both in seconds.
    pub fn offset_at(&self, utc: i64) -> i64 {
        let before = self.changes.partition_point(|(at, _)| *at <= utc);
        match (&self.rule, before.checked_sub(1).and_then(|last| self.changes.get(last))) {
            (Some(rule), _) if before == self.changes.len() => rule.offset_at(utc),
            (_, Some((_, offset))) => *offset,
            (_, None) => self.first,
        }
    }

    /// The offsets with which this zone's clocks showed a time: none where they were put forward over it, two where they were put back.
    pub fn offsets_of(&self, shown: i64) -> Vec<i64> {
        const HOUR: i64 = 3600;
        // No zone is farther from UTC than that, and none changes twice in an hour.
        let mut offsets: Vec<i64> = (-26..=26).map(|hours| self.offset_at(shown + hours * HOUR)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets.retain(|offset| self.offset_at(shown - offset) == *offset);
        offsets
    }
}

/// The counts in the header of a block.
struct Head {
    version: u8,
    /// UTC and standard flags, leap seconds, changes, kinds of time, bytes of names.
    counts: [usize; 6],
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_LEN).filter(|bytes| bytes.starts_with(b"TZif"))?;
        let mut counts = [0; 6];
        for (count, bytes) in counts.iter_mut().zip(bytes.get(20..)?.chunks_exact(4)) {
            *count = usize::try_from(number(bytes)).ok()?;
        }
        Some(Self { version: *bytes.get(4)?, counts })
    }

    /// Bytes of the block behind its header.
    fn len(&self, time: usize) -> usize {
        let [utc, standard, leaps, changes, kinds, names] = self.counts;
        changes * (time + 1) + kinds * 6 + names + leaps * (time + 4) + standard + utc
    }

    /// The zone in a block with times of this many bytes.
    fn zone(&self, body: &[u8], time: usize) -> Option<Zone> {
        let [_, _, _, changes, kinds, _] = self.counts;
        let (times, rest) = body.split_at_checked(changes * time)?;
        let (which, rest) = rest.split_at_checked(changes)?;
        let offsets: Vec<i64> =
            rest.get(..kinds * 6)?.chunks_exact(6).filter_map(|kind| Some(number(kind.get(..4)?))).collect();
        let change = |(time, which): (&[u8], &u8)| Some((number(time), *offsets.get(usize::from(*which))?));
        let changes = times.chunks_exact(time).zip(which).map(change).collect::<Option<_>>()?;
        Some(Zone { first: *offsets.first()?, changes, rule: None })
    }
}

/// A signed number, the highest byte first.
fn number(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| (number << 8) | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test")]

    use super::*;

    /// A file as `zic -b slim` writes it: summer time of 1916, then a rule.
    fn berlin() -> Vec<u8> {
        let head = |counts: [u32; 6]| {
            let mut bytes = b"TZif2".to_vec();
            bytes.resize(20, 0);
            bytes.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
            bytes
        };
        let mut bytes = head([0, 0, 0, 0, 1, 1]);
        bytes.extend([0; 7]);
        bytes.extend(head([0, 0, 0, 2, 2, 9]));
        bytes.extend([-1_693_706_400_i64, -1_680_483_600].iter().flat_map(|time| time.to_be_bytes()));
        bytes.extend([1, 0]);
        for (offset, is_summer, name) in [(3600_i32, 0_u8, 0_u8), (7200, 1, 4)] {
            bytes.extend(offset.to_be_bytes());
            bytes.extend([is_summer, name]);
        }
        bytes.extend(b"CET\0CEST\0\nCET-1CEST,M3.5.0,M10.5.0/3\n");
        bytes
    }

    #[test]
    fn offsets_come_from_the_entries_and_then_from_the_rule() {
        let zone = Zone::parse(&berlin()).expect("a zone");
        let cases = [
            ("1916-05-01, before summer time", -1_693_706_401, 3600),
            ("1916-05-01, in it", -1_693_706_400, 7200),
            ("2026-03-29T00:59:59Z", 1_774_745_999, 3600),
            ("2026-03-29T01:00:00Z", 1_774_746_000, 7200),
            ("2026-10-25T00:59:59Z", 1_792_889_999, 7200),
            ("2026-10-25T01:00:00Z", 1_792_890_000, 3600),
            ("2026-11-28T06:25:00Z", 1_795_847_100, 3600),
        ];
        for (what, utc, offset) in cases {
            assert_eq!(zone.offset_at(utc), offset, "{what}");
        }
        assert_eq!(zone.offsets_of(1_774_751_400), Vec::<i64>::new(), "2026-03-29 02:30 was on no clock");
        assert_eq!(zone.offsets_of(1_792_895_400), [3600, 7200], "2026-10-25 02:30 was there twice");
        assert_eq!(zone.offsets_of(1_795_850_700), [3600], "2026-11-28 07:25");
        for len in 0..berlin().len() - 1 {
            // A file that is cut off is no zone, or has lost its rule, but is no panic.
            let cut = Zone::parse(berlin().get(..len).expect("shorter"));
            assert_ne!(cut, Some(zone.clone()), "{len}");
        }
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in ["../../etc/localtime", "/etc/localtime", "Europe/../UTC", "", "Europe//Berlin", "Mars/Base"] {
            assert!(Zone::named(name).is_err(), "{name}");
        }
    }
}
