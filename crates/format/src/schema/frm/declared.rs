//! Keys and options from a `.frm` file.

use super::error::FrmError;
use super::key::{ALGORITHM_ASKED_HASH, ALGORITHM_HASH, ALGORITHM_VECTOR, KEY_FULLTEXT, KEY_SPATIAL, KEY_UNIQUE, Key};
use super::reader::Reader;
use super::typed::{OptionLists, Typed};
use crate::bytes::le;
use crate::calendar::day_of;
use crate::charset::{Charset, Reversible};
use crate::kind::Family;
use crate::schema::collations::Collation;
use crate::schema::declared::{Declared, KeyDef, KeyKind, KeyPart};
use crate::schema::quoted::{quoted, quoted_bytes, quoted_name};
use crate::schema::sdi::{prefix_characters, row_format};
use crate::schema::{ColumnDef, Visibility};

/// The first maintenance release of each series that prints the values of all engine options in quotes. 10.11.19 and 11.8.9 were seen to do
/// so, and the changelog of 11.8.9 includes that of 11.4.13. 10.5.23 and 11.8.6 print values as they were written.
const QUOTED_OPTIONS: [u32; 3] = [101_119, 110_413, 110_809];
const KEY_BLOCK_SIZE: u16 = 0x8000;
const ALGORITHM_BTREE: u8 = 1;
/// A typed flag of keys.
const FLAG_IGNORED: u8 = 1;

const OPTION_PACK_KEYS: u16 = 2;
const OPTION_CHECKSUM: u16 = 32;
const OPTION_DELAY_KEY_WRITE: u16 = 64;
const OPTION_NO_PACK_KEYS: u16 = 128;
const OPTION_STATS_PERSISTENT: u16 = 4096;
const OPTION_NO_STATS_PERSISTENT: u16 = 8192;

const AT_MAX_ROWS: usize = 18;
const AT_MIN_ROWS: usize = 22;
const AT_OPTIONS: usize = 30;
const AT_AVG_ROW_LENGTH: usize = 34;
const AT_TRANSACTIONAL: usize = 39;
const AT_ROW_FORMAT: usize = 40;
const AT_STATS_SAMPLE_PAGES: usize = 42;
const AT_STATS_AUTO_RECALC: usize = 44;
const AT_KEY_BLOCK_SIZE: usize = 62;
/// In the form block: length of the table comment, which follows. `COMMENT_ELSEWHERE` means that the comment is too long for this place.
const FORM_COMMENT: usize = 46;
const COMMENT_ELSEWHERE: u8 = 255;

pub(super) struct Source<'f, 'b> {
    pub frm: &'f Reader<'b>,
    pub family: Family,
    pub typed: &'f Typed,
    pub columns: &'f [ColumnDef],
    pub form_at: usize,
}

/// Whether a server of this version, the one that wrote the file, prints the values of all engine options in quotes.
fn quotes_options(version: u32) -> bool {
    let same_series = QUOTED_OPTIONS.iter().find(|first| **first / 100 == version / 100);
    let newest = QUOTED_OPTIONS.last().copied().unwrap_or_default();
    version >= same_series.copied().unwrap_or(newest)
}

pub(super) fn declared(source: &Source<'_, '_>, keys: &[Key]) -> Result<Declared, FrmError> {
    let Source { frm, typed, columns, .. } = source;
    let version = frm.u32(51, "version")?;
    let lists = OptionLists::parse(&typed.engine_options, quotes_options(version));
    let block_size = frm.u16(AT_KEY_BLOCK_SIZE, "options")?;
    let each = keys.iter().enumerate();
    let keys = each.map(|(number, key)| {
        let flags = typed.key_flags.get(number).copied().unwrap_or(0);
        let own = lists.of_key(columns.len(), number, key.algorithm == ALGORITHM_VECTOR);
        let without_overlaps = typed.without_overlaps(number);
        KeyDef { without_overlaps, ..key_def(key, columns, flags, block_size, own) }
    });
    let keys = keys.collect();
    let implicit = |at: usize| typed.flags.get(at).is_some_and(|flags| flags & 3 == 2);
    let period = typed.period.and_then(|(start, end)| {
        let (start, end) = (columns.get(start)?, columns.get(end)?);
        Some(format!("{} ({}, {})", quoted_name(&typed.period_name), quoted_name(&start.name), quoted_name(&end.name)))
    });
    let extra = Extra::read(frm)?;
    Ok(Declared {
        keys,
        foreign_keys: None,
        auto_increment: None,
        tablespace: None,
        options: options(frm, &lists)?,
        late_options: Vec::new(),
        column_options: lists.of_columns(columns.len()),
        comment: comment(frm, source.form_at, &extra)?,
        is_versioned: typed.system_time.is_some(),
        has_implicit_versioning: typed.system_time.is_some_and(|(start, _)| implicit(start)),
        period,
        is_sequence: is_sequence(columns),
        is_hidden: false,
        partitioning: extra.partitioning(source.family),
    })
}

/// Whether the table is a sequence. A sequence has these columns, and a mark that no other table has.
fn is_sequence(columns: &[ColumnDef]) -> bool {
    const NAMES: [&str; 8] = [
        "next_not_cached_value",
        "minimum_value",
        "maximum_value",
        "start_value",
        "increment",
        "cache_size",
        "cycle_option",
        "cycle_count",
    ];
    columns.len() == NAMES.len() && columns.iter().zip(NAMES).all(|(column, name)| column.name == name)
}

fn key_def(key: &Key, columns: &[ColumnDef], flags: u8, block_size: u16, own: Option<String>) -> KeyDef {
    let kind = if key.name == "PRIMARY" {
        KeyKind::Primary
    } else if key.flags & KEY_FULLTEXT != 0 {
        KeyKind::FullText
    } else if key.flags & KEY_SPATIAL != 0 {
        KeyKind::Spatial
    } else if key.algorithm == ALGORITHM_VECTOR {
        KeyKind::Vector
    } else if key.flags & KEY_UNIQUE != 0 || key.algorithm == ALGORITHM_HASH {
        KeyKind::Unique
    } else {
        KeyKind::Plain
    };
    let whole = matches!(kind, KeyKind::FullText | KeyKind::Spatial | KeyKind::Vector);
    let parts = key.parts.iter().map(|part| {
        let column = columns.get(part.column);
        let prefix = column.filter(|_| !whole && part.len > 0).and_then(|column| prefix_characters(column, part.len));
        KeyPart { column: part.column, prefix, descending: part.descending }
    });
    let mut options = String::new();
    match key.algorithm {
        ALGORITHM_BTREE if !whole => options.push_str(" USING BTREE"),
        ALGORITHM_HASH | ALGORITHM_ASKED_HASH => options.push_str(" USING HASH"),
        _ => {}
    }
    if key.flags & KEY_BLOCK_SIZE != 0 && key.block_size != block_size {
        options.push_str(&format!(" KEY_BLOCK_SIZE={}", key.block_size));
    }
    if !key.comment.is_empty() {
        options.push_str(&format!(" COMMENT {}", quoted(&key.comment)));
    }
    if flags & FLAG_IGNORED != 0 {
        options.push_str(" IGNORED");
    }
    own.iter().for_each(|own| options.extend([" ", own]));
    // A hidden column holds the hash of the key's parts: the user did not declare it.
    let visible =
        |part: &KeyPart| columns.get(part.column).is_none_or(|column| column.visibility != Visibility::Hidden);
    KeyDef { name: key.name.clone(), kind, parts: parts.filter(visible).collect(), without_overlaps: false, options }
}

fn options(frm: &Reader<'_>, lists: &OptionLists) -> Result<Vec<String>, FrmError> {
    let flags = frm.u16(AT_OPTIONS, "options")?;
    let mut out = Vec::new();
    let mut add = |name: &str, value: u32| out.push(format!("{name}={value}"));
    for (name, at) in [("MIN_ROWS", AT_MIN_ROWS), ("MAX_ROWS", AT_MAX_ROWS), ("AVG_ROW_LENGTH", AT_AVG_ROW_LENGTH)] {
        match frm.u32(at, "options")? {
            0 => {}
            value => add(name, value),
        }
    }
    let flagged = [
        (OPTION_PACK_KEYS, "PACK_KEYS", 1),
        (OPTION_NO_PACK_KEYS, "PACK_KEYS", 0),
        (OPTION_STATS_PERSISTENT, "STATS_PERSISTENT", 1),
        (OPTION_NO_STATS_PERSISTENT, "STATS_PERSISTENT", 0),
    ];
    flagged.iter().filter(|(flag, ..)| flags & flag != 0).for_each(|(_, name, value)| add(name, *value));
    match frm.u8(AT_STATS_AUTO_RECALC, "options")? {
        1 => add("STATS_AUTO_RECALC", 1),
        2 => add("STATS_AUTO_RECALC", 0),
        _ => {}
    }
    match frm.u16(AT_STATS_SAMPLE_PAGES, "options")? {
        0 => {}
        pages => add("STATS_SAMPLE_PAGES", u32::from(pages)),
    }
    let flagged = [(OPTION_CHECKSUM, "CHECKSUM", 1), (OPTION_DELAY_KEY_WRITE, "DELAY_KEY_WRITE", 1)];
    flagged.iter().filter(|(flag, ..)| flags & flag != 0).for_each(|(_, name, value)| add(name, *value));
    if let Some(format) = row_format(frm.u8(AT_ROW_FORMAT, "row format")?) {
        out.push(format!("ROW_FORMAT={format}"));
    }
    match frm.u8(AT_TRANSACTIONAL, "options")? & 3 {
        1 => out.push("TRANSACTIONAL=0".to_owned()),
        2 => out.push("TRANSACTIONAL=1".to_owned()),
        _ => {}
    }
    match frm.u16(AT_KEY_BLOCK_SIZE, "options")? {
        0 => {}
        size => out.push(format!("KEY_BLOCK_SIZE={size}")),
    }
    out.extend(lists.of_table());
    Ok(out)
}

/// The part of the file after the row image.
struct Extra {
    partitions: String,
    rest: Vec<u8>,
}

impl Extra {
    fn read(frm: &Reader<'_>) -> Result<Self, FrmError> {
        let keys = match frm.u16(14, "keys")? {
            u16::MAX => frm.u32(47, "keys")? as usize,
            len => usize::from(len),
        };
        let at = usize::from(frm.u16(6, "keys")?) + keys + usize::from(frm.u16(16, "defaults")?);
        let len = frm.u32(55, "extra")? as usize;
        let bytes = frm.bytes(at, len, "connection, engine and partitions")?;
        let text = |at: usize| le::u16_at(bytes, at).map_or(at, |len| at + 2 + usize::from(len));
        let at = text(text(0));
        let clause = le::u32_at(bytes, at).unwrap_or(0) as usize;
        let partitions = bytes.get(at + 4..at + 4 + clause).unwrap_or(&[]);
        let partitions = String::from_utf8_lossy(partitions).into_owned();
        Ok(Self { partitions, rest: bytes.get(at + 4 + clause + 2..).unwrap_or(&[]).to_vec() })
    }

    fn partitioning(&self, family: Family) -> Option<String> {
        match family {
            _ if self.partitions.is_empty() => None,
            Family::MariaDb => Some(with_text(&with_moment(&self.partitions))),
            Family::MySql => Some(format!("/*!50100{} */", without_nested_comments(&self.partitions))),
        }
    }
}

fn comment(frm: &Reader<'_>, form_at: usize, extra: &Extra) -> Result<String, FrmError> {
    let bytes = match frm.u8(form_at.saturating_add(FORM_COMMENT), "comment")? {
        COMMENT_ELSEWHERE => {
            let len = le::u16_at(&extra.rest, 0).map_or(0, usize::from);
            extra.rest.get(2..2 + len).unwrap_or(&[])
        }
        len => frm.bytes(form_at + FORM_COMMENT + 1, usize::from(len), "comment")?,
    };
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// The clause as it is printed within a version comment, where another comment would end it. The file says which hash KEY uses. It goes
/// without saying unless it is that of servers before 5.5, and then the outer comment is left for it.
fn without_nested_comments(clause: &str) -> String {
    clause
        .replace(" /*!50611 ALGORITHM = 2 */", "")
        .replace(" /*!50611 ALGORITHM = 1 */", " */ /*!50611 ALGORITHM = 1 */ /*!50100")
}

/// An interval starts at a Unix time in the file. The server prints it in the time zone of the session; here it is UTC, as in exports.
fn with_moment(clause: &str) -> String {
    const STARTS: &str = " STARTS ";
    let Some((before, after)) = clause.split_once(STARTS) else { return clause.to_owned() };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = after.split_at(digits);
    match number.parse::<u64>() {
        Ok(seconds) => format!("{before}{STARTS}TIMESTAMP'{}'{rest}", moment(seconds)),
        Err(_) => clause.to_owned(),
    }
}

/// A Unix time as a date and time in UTC.
fn moment(seconds: u64) -> String {
    let (year, month, day) = day_of(u32::try_from(seconds / 86_400).unwrap_or(u32::MAX));
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// In a list of values, text is written as `_latin1 0x61`; the server prints `'a'`, and leaves what is no text as it is.
fn with_text(clause: &str) -> String {
    let mut out = String::with_capacity(clause.len());
    let mut rest = clause;
    while let Some(at) = rest.find(" 0x") {
        let (before, after) = rest.split_at(at);
        let after = after.get(3..).unwrap_or("");
        let digits = after.bytes().take_while(u8::is_ascii_hexdigit).count();
        let charset = before.rfind('_').and_then(|start| Some((start, before.get(start + 1..)?)));
        let charset = charset.and_then(|(start, name)| Some((start, Collation::default_of(name)?)));
        match (charset, bytes_of(after.get(..digits).unwrap_or(""))) {
            (Some((start, collation)), Some(bytes)) if is_text(collation, &bytes) => {
                out.push_str(before.get(..start).unwrap_or(""));
                out.push_str(&quoted_bytes(collation, &bytes));
            }
            _ => {
                out.push_str(before);
                out.push_str(" 0x");
                out.push_str(after.get(..digits).unwrap_or(""));
            }
        }
        rest = after.get(digits..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

fn is_text(collation: u16, bytes: &[u8]) -> bool {
    let charset = match Charset::of(collation) {
        Charset::Binary => Charset::Utf8,
        other => other,
    };
    Reversible::new(charset).is(bytes)
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{quotes_options, with_moment};

    #[test]
    fn an_interval_starts_at_a_moment_and_not_at_a_number() {
        let clause = " PARTITION BY SYSTEM_TIME INTERVAL 1 MONTH STARTS 1612325106 AUTO\nPARTITIONS 3";
        let expected = clause.replace("1612325106", "TIMESTAMP'2021-02-03 04:05:06'");
        assert_eq!(with_moment(clause), expected);
        assert!(with_moment(" STARTS 951782400").ends_with("'2000-02-29 00:00:00'"));
        assert_eq!(with_moment(" PARTITION BY HASH (a)"), " PARTITION BY HASH (a)");
    }

    #[test]
    fn values_are_quoted_by_the_releases_that_do() {
        for version in [101_119, 101_120, 110_413, 110_809, 120_302] {
            assert!(quotes_options(version), "{version}");
        }
        for version in [100_523, 100_624, 101_118, 110_002, 110_412, 110_806] {
            assert!(!quotes_options(version), "{version}");
        }
    }
}
