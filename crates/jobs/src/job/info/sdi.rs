//! Names out of a tablespace's own dictionary information (SDI), which MySQL 8.0 and later keep in a B-tree of JSON objects,
//! compressed with zlib. Not read are zip pages, and encrypted ones without their key.
//!
//! Record: type 4, id 8, transaction 6, roll pointer 7, plain length 4, zlib length 4, zlib bytes, or a part of them and a
//! reference to off-page parts (facts: the public sources of MySQL 8.0, dict0sdi and ibd2sdi).

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::ZlibDecoder;
use format::bytes::be;
use format::page::fil::{self, FIL_PAGE_DATA, FIL_PAGE_NEXT, PageType};
use format::page::fsp;
use format::{PageNo, Scheme, SpaceFormat};
use serde_json::Value;

use super::pages::Pages;

/// What the dictionary information of a file says, as far as names go.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    pub tablespace: Option<String>,
    pub tables: Vec<Table>,
    /// Index id to table (its place in `tables`) and name.
    pub indexes: BTreeMap<u64, (usize, String)>,
}

#[derive(Debug)]
pub(super) struct Table {
    pub schema: String,
    pub name: String,
    pub row_format: Option<&'static str>,
}

/// From the end of the extent descriptors to the version and the root page of the SDI.
const SDI_VERSION: usize = 115;
const SDI_ROOT: usize = SDI_VERSION + 4;
const SDI_FLAG: u32 = 1 << 14;

const INFIMUM: usize = 99;
const SUPREMUM: usize = 112;
const PAGE_LEVEL: usize = FIL_PAGE_DATA + 26;
/// From a record's origin down.
const REC_NEXT: usize = 2;
const REC_INFO: usize = 5;
const REC_LENGTHS: usize = 6;
const DELETED: u8 = 0x20;
/// From a record's origin up.
const CHILD: usize = 12;
const ZLIB_BYTES: usize = 33;
const REFERENCE_SIZE: usize = 20;

/// Bounds against damaged or hostile files: pages of one list, levels, bytes of one object inflated.
const PAGES_MAX: usize = 1 << 16;
const LEVELS_MAX: usize = 32;
const JSON_MAX: u64 = 64 << 20;

/// Reads the dictionary information; `None` where the tablespace has none.
///
/// # Errors
/// Why it could not be read, as a clause.
pub(super) fn read(page0: &[u8], format: &SpaceFormat, pages: &Pages) -> Option<Result<Dictionary, String>> {
    if format.family() != format::Family::MySql || format.flags() & SDI_FLAG == 0 {
        return None;
    }
    if format.scheme() == Scheme::Zip {
        return Some(Err("its pages are compressed".to_owned()));
    }
    let end = fsp::xdes_array_end(format.logical(), format.physical());
    let root = be::u32_at(page0, end + SDI_ROOT).filter(|root| *root != 0 && *root != u32::MAX)?;
    Some(walk(root, pages))
}

fn walk(root: u32, pages: &Pages) -> Result<Dictionary, String> {
    let mut dictionary = Dictionary::default();
    let mut number = leftmost_leaf(root, pages)?;
    for _ in 0..PAGES_MAX {
        let page = sdi_page(number, pages)?;
        for origin in records(&page) {
            if let Some(object) = object(&page, origin, pages)? {
                dictionary.add(&object);
            }
        }
        match be::u32_at(&page, FIL_PAGE_NEXT) {
            Some(next) if next != PageNo::NONE.0 => number = next,
            _ => return Ok(dictionary),
        }
    }
    Err("its list of pages does not end".to_owned())
}

fn sdi_page(number: u32, pages: &Pages) -> Result<Vec<u8>, String> {
    let page = pages.sound(number)?;
    match fil::page_type(&page, pages.format()) {
        Some(PageType::SDI) => Ok(page),
        Some(PageType(14..=17)) => Err(format!("page {number} of it is encrypted or page-compressed")),
        _ => Err(format!("page {number} is not a page of it")),
    }
}

fn leftmost_leaf(root: u32, pages: &Pages) -> Result<u32, String> {
    let mut number = root;
    for _ in 0..LEVELS_MAX {
        let page = sdi_page(number, pages)?;
        if be::u16_at(&page, PAGE_LEVEL) == Some(0) {
            return Ok(number);
        }
        let child = records(&page).next().and_then(|origin| be::u32_at(&page, origin + CHILD));
        number = child.ok_or_else(|| format!("page {number} of it leads nowhere"))?;
    }
    Err("its tree is too deep".to_owned())
}

/// The origins of a page's records, in the order of their list. A list that leaves the page or runs in a circle ends: the
/// checksum of the page was right, so the server itself wrote it so.
fn records(page: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let next = move |origin: usize| {
        let delta = be::u16_at(page, origin.checked_sub(REC_NEXT)?)?;
        let next = usize::from((origin as u16).wrapping_add(delta));
        (next > SUPREMUM && next < page.len()).then_some(next)
    };
    std::iter::successors(next(INFIMUM), move |origin| next(*origin)).take(page.len() / REC_INFO)
}

/// The JSON of one record; `None` for a record marked as deleted.
fn object(page: &[u8], origin: usize, pages: &Pages) -> Result<Option<Value>, String> {
    let record = stored(page, origin).ok_or("a record of it leaves its page")?;
    let Some((local, reference)) = record else { return Ok(None) };
    let mut packed = local.to_vec();
    if let Some(reference) = reference {
        off_page(reference, pages, &mut packed)?;
    }
    let mut json = Vec::new();
    let inflated = ZlibDecoder::new(packed.as_slice()).take(JSON_MAX).read_to_end(&mut json);
    inflated.map_err(|error| format!("it cannot be inflated: {error}"))?;
    serde_json::from_slice(&json).map(Some).map_err(|error| format!("it is not JSON: {error}"))
}

/// A record's zlib bytes on the page, and the reference to the others.
type Stored<'p> = (&'p [u8], Option<&'p [u8]>);

/// Outer `None` where the record leaves the page, inner `None` where it is marked as deleted.
fn stored(page: &[u8], origin: usize) -> Option<Option<Stored<'_>>> {
    let below = |distance: usize| origin.checked_sub(distance).and_then(|at| page.get(at)).copied();
    if below(REC_INFO)? & DELETED != 0 {
        return Some(None);
    }
    let first = below(REC_LENGTHS)?;
    let (len, off_page) = if first & 0x80 == 0 {
        (usize::from(first), false)
    } else {
        (usize::from(first & 0x3F) << 8 | usize::from(below(REC_LENGTHS + 1)?), first & 0x40 != 0)
    };
    let start = origin + ZLIB_BYTES;
    let bytes = page.get(start..start + len)?;
    if off_page {
        let (local, reference) = bytes.split_at_checked(len.checked_sub(REFERENCE_SIZE)?)?;
        Some(Some((local, Some(reference))))
    } else {
        Some(Some((bytes, None)))
    }
}

/// Follows a reference (space 4, page 4, offset 4, flags and length 8): each page holds the length of its part, the next page,
/// and the part.
fn off_page(reference: &[u8], pages: &Pages, packed: &mut Vec<u8>) -> Result<(), String> {
    const PART_LEN: usize = FIL_PAGE_DATA;
    const PART_NEXT: usize = FIL_PAGE_DATA + 4;
    const PART: usize = FIL_PAGE_DATA + 8;
    let mut number = be::u32_at(reference, 4).unwrap_or(u32::MAX);
    let total = packed.len() + be::u32_at(reference, 16).unwrap_or(0) as usize;
    while packed.len() < total && (packed.len() as u64) < JSON_MAX {
        let page = pages.sound(number)?;
        let len = be::u32_at(&page, PART_LEN).unwrap_or(0) as usize;
        let part = page.get(PART..).and_then(|rest| rest.get(..len)).filter(|part| !part.is_empty());
        packed.extend_from_slice(part.ok_or_else(|| format!("page {number} is not a part of it"))?);
        number = be::u32_at(&page, PART_NEXT).unwrap_or(u32::MAX);
    }
    Ok(())
}

impl Dictionary {
    fn add(&mut self, object: &Value) {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(body) = object.get("dd_object") else { return };
        match object.get("dd_object_type").and_then(Value::as_str) {
            Some("Tablespace") => self.tablespace = text(body, "name"),
            Some("Table") => {
                let row_format = body.get("row_format").and_then(Value::as_u64).and_then(row_format);
                self.tables.push(Table {
                    schema: text(body, "schema_ref").unwrap_or_default(),
                    name: text(body, "name").unwrap_or_default(),
                    row_format,
                });
                self.add_indexes(body);
            }
            _ => {}
        }
    }

    fn add_indexes(&mut self, table: &Value) {
        let names: Vec<&str> = list(table, "indexes").filter_map(|index| index.get("name")?.as_str()).collect();
        for (index, name) in list(table, "indexes").zip(&names) {
            self.name_index(index, name);
        }
        for partition in list(table, "partitions") {
            for part in std::iter::once(partition).chain(list(partition, "subpartitions")) {
                for index in list(part, "indexes") {
                    let place = index.get("index_opx").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
                    if let Some(name) = place.and_then(|at| names.get(at)) {
                        self.name_index(index, name);
                    }
                }
            }
        }
    }

    fn name_index(&mut self, index: &Value, name: &str) {
        let options = index.get("se_private_data").and_then(Value::as_str).unwrap_or_default();
        let id = options.split(';').find_map(|option| option.strip_prefix("id=")).and_then(|id| id.parse().ok());
        if let (Some(id), Some(table)) = (id, self.tables.len().checked_sub(1)) {
            self.indexes.insert(id, (table, name.to_owned()));
        }
    }
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The dictionary's numbers of row formats.
fn row_format(number: u64) -> Option<&'static str> {
    Some(match number {
        1 => "FIXED",
        2 => "DYNAMIC",
        3 => "COMPRESSED",
        4 => "REDUNDANT",
        5 => "COMPACT",
        6 => "PAGED",
        _ => return None,
    })
}
