//! The typed values that MariaDB stores after the header of a `.frm` file: column visibility, plugin types, system versioning.

use std::collections::BTreeMap;

use super::error::FrmError;
use super::reader::{HEADER, Reader};
use crate::bytes::le;
use crate::schema::quoted::{quoted, quoted_name};

/// Unknown typed values below this type may be skipped; the others are needed to read the file.
const OPTIONAL_BELOW: u8 = 128;
const APPLICATION_PERIOD: u8 = 3;
const PERIOD_SYSTEM_TIME: u8 = 4;
const KEY_FLAGS: u8 = 5;
const GEOMETRY: u8 = 2;
const FIELD_FLAGS: u8 = 129;
const FIELD_TYPES: u8 = 130;
const ENGINE_OPTIONS: u8 = 128;
const WITHOUT_OVERLAPS: u8 = 131;

/// The values found.
#[derive(Default)]
pub(super) struct Typed {
    /// A byte per column, if any column has one.
    pub flags: Vec<u8>,
    /// Type names, by column number.
    pub types: BTreeMap<usize, Vec<u8>>,
    /// The columns with the start and end of a row's validity.
    pub system_time: Option<(usize, usize)>,
    /// A byte per key, if any key has one.
    pub key_flags: Vec<u8>,
    /// Numbers of keys without overlaps, preceded by their count.
    pub overlaps: Vec<u8>,
    /// Columns of the application-time period.
    pub period: Option<(usize, usize)>,
    /// Its name.
    pub period_name: String,
    /// Engine options of the table, the columns and the keys: [`OptionLists`].
    pub engine_options: Vec<u8>,
    /// Spatial reference systems of the geometry columns, in column order.
    pub srids: Vec<u32>,
}

impl Typed {
    /// The values in the `len` bytes after the header. MySQL stores names there, after a slash, which are not needed.
    pub fn read(frm: &Reader<'_>, len: usize) -> Result<Self, FrmError> {
        let mut typed = Self::default();
        let mut rest = frm.bytes(HEADER, len, "typed values")?;
        if rest.first() == Some(&b'/') {
            return Ok(typed);
        }
        while let Some((kind, after)) = rest.split_first().filter(|_| rest.len() > 1) {
            let truncated = FrmError::Truncated { at: HEADER + len - rest.len(), what: "typed values" };
            let (value_len, after) = length(after).ok_or(truncated.clone())?;
            let (value, after) = after.split_at_checked(value_len).ok_or(truncated.clone())?;
            match *kind {
                FIELD_FLAGS => typed.flags = value.to_vec(),
                FIELD_TYPES => typed.types = field_types(value).ok_or(truncated)?,
                PERIOD_SYSTEM_TIME => {
                    let column = |at| le::u16_at(value, at).map(usize::from);
                    typed.system_time = column(0).zip(column(2));
                }
                KEY_FLAGS => typed.key_flags = value.to_vec(),
                ENGINE_OPTIONS => typed.engine_options = value.to_vec(),
                APPLICATION_PERIOD => typed.set_period(value),
                GEOMETRY => typed.srids = srids(value),
                WITHOUT_OVERLAPS => typed.overlaps = value.to_vec(),
                kind if kind < OPTIONAL_BELOW => {}
                _ => return Err(FrmError::Unknown { what: "values of an unknown type" }),
            }
            rest = after;
        }
        Ok(typed)
    }
}

impl Typed {
    /// Reads the period's name, the name of its condition, and the numbers of two columns.
    fn set_period(&mut self, value: &[u8]) {
        let name = |bytes| packed(bytes).and_then(|(len, rest): (usize, &[u8])| rest.split_at_checked(len));
        let Some((own, rest)) = name(value) else { return };
        let Some((_, columns)) = name(rest) else { return };
        self.period_name = String::from_utf8_lossy(own).into_owned();
        self.period = le::u16_at(columns, 0).zip(le::u16_at(columns, 2)).map(|(a, b)| (a.into(), b.into()));
    }

    /// Whether the key is WITHOUT OVERLAPS. The numbers of these keys follow their count.
    pub fn without_overlaps(&self, key: usize) -> bool {
        let (numbers, _) = self.overlaps.get(2..).unwrap_or(&[]).as_chunks::<2>();
        numbers.iter().any(|number| le::u16_at(number, 0).map(usize::from) == Some(key))
    }
}

/// Engine options of the table, of each column and of each key; each as SQL.
pub(super) struct OptionLists(Vec<Vec<String>>);

/// Flag in a value's length: the value was written in quotes.
const QUOTED: u16 = 0x8000;

impl OptionLists {
    /// Each option is a name and a value, both preceded by their lengths; a zero ends a list.
    pub fn parse(mut rest: &[u8], always_quoted: bool) -> Self {
        let (mut lists, mut list) = (Vec::new(), Vec::new());
        while let Some((len, after)) = rest.split_first() {
            if *len == 0 {
                lists.push(std::mem::take(&mut list));
                rest = after;
                continue;
            }
            let Some((name, after)) = after.split_at_checked(usize::from(*len)) else { break };
            let Some(value_len) = le::u16_at(after, 0) else { break };
            let end = 2 + usize::from(value_len & !QUOTED);
            let Some(value) = after.get(2..end) else { break };
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            let value = if always_quoted || value_len & QUOTED != 0 { quoted(&value) } else { value.into_owned() };
            list.push(format!("{}={value}", quoted_name(&name)));
            rest = after.get(end..).unwrap_or(&[]);
        }
        Self(lists)
    }

    /// The options of the table, as one text.
    pub fn of_table(&self) -> Option<String> {
        self.0.first().and_then(|options| as_sql(options, is_known))
    }

    /// The options of each column, of which InnoDB knows none. Empty if there are none.
    pub fn of_columns(&self, columns: usize) -> Vec<String> {
        let of_columns: Vec<String> =
            self.0.iter().skip(1).take(columns).map(|options| as_sql(options, |_| false).unwrap_or_default()).collect();
        if of_columns.iter().all(String::is_empty) { Vec::new() } else { of_columns }
    }

    /// The options of a key. Only a vector index has any that the server knows.
    pub fn of_key(&self, columns: usize, key: usize, is_vector: bool) -> Option<String> {
        self.0.get(1 + columns + key).and_then(|options| as_sql(options, |_| is_vector))
    }
}

/// Whether InnoDB has a table option of this name.
fn is_known(option: &str) -> bool {
    const KNOWN: [&str; 5] =
        ["PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "ATOMIC_WRITES", "ENCRYPTED", "ENCRYPTION_KEY_ID"];
    let name = option.split('=').next().unwrap_or_default().trim_matches('`');
    KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Options in their order. Those that the server does not know it refuses, unless `sql_mode` says otherwise: in its own statement they are in
/// comments. What would end one has a backslash there.
fn as_sql(options: &[String], is_known: impl Fn(&str) -> bool) -> Option<String> {
    let mut words = Vec::new();
    let mut is_in_comment = false;
    for option in options {
        if is_known(option) == is_in_comment {
            words.push(if is_in_comment { "*/".to_owned() } else { "/*".to_owned() });
            is_in_comment = !is_in_comment;
        }
        words.push(if is_in_comment { option.replace("*/", "*\\/") } else { option.clone() });
    }
    words.extend(is_in_comment.then(|| "*/".to_owned()));
    (!words.is_empty()).then(|| words.join(" "))
}

/// A length of one byte, or of two after a zero.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.split_first()? {
        (0, rest) => Some((usize::from(le::u16_at(rest, 0)?), rest.get(2..)?)),
        (len, rest) => Some((usize::from(*len), rest)),
    }
}

/// Packed integer: one byte below 251; 252 is followed by two.
fn packed(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.split_first()? {
        (252, rest) => Some((usize::from(le::u16_at(rest, 0)?), rest.get(2..)?)),
        (value @ 0..=250, rest) => Some((usize::from(*value), rest)),
        _ => None,
    }
}

fn field_types(mut rest: &[u8]) -> Option<BTreeMap<usize, Vec<u8>>> {
    let mut types = BTreeMap::new();
    while !rest.is_empty() {
        let (number, after) = packed(rest)?;
        let (len, after) = packed(after)?;
        let (name, after) = after.split_at_checked(len)?;
        types.insert(number, name.to_vec());
        rest = after;
    }
    Some(types)
}

const GEOMETRY_END: u8 = 0;
const GEOMETRY_STORAGE: u8 = 1;
const GEOMETRY_PRECISION: u8 = 2;
const GEOMETRY_SCALE: u8 = 3;
const GEOMETRY_SRID: u8 = 81;

/// The spatial reference systems. Each geometry column has a list of properties, ended by a zero: a code byte and a value of one byte, or
/// of four bytes for the SRID.
fn srids(mut rest: &[u8]) -> Vec<u32> {
    let (mut out, mut srid) = (Vec::new(), 0);
    while let Some((property, after)) = rest.split_first() {
        let len = match *property {
            GEOMETRY_END => {
                out.push(srid);
                srid = 0;
                0
            }
            GEOMETRY_STORAGE | GEOMETRY_PRECISION | GEOMETRY_SCALE => 1,
            GEOMETRY_SRID => {
                srid = le::u32_at(after, 0).unwrap_or(0);
                4
            }
            _ => break,
        };
        rest = after.get(len..).unwrap_or(&[]);
    }
    out
}
