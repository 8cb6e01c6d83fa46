//! The serialised dictionary information (SDI) in tablespaces of MySQL 8.0 and later: a B-tree of compressed JSON. This is its only reader:
//! `table` takes fields and roots from it, `info` the names.

use format::fil::PageType;
use format::page::index::IndexPage;
use format::page::lob::{LobReader, Reference};
use format::page::sdi::{self, SdiKind, SdiRecord};
use format::record::RecordFields;
use format::schema::sdi::from_sdi;
use format::schema::{IndexDef, TableDef, builtin};
use format::{PageNo, SpaceFormat};

use super::{Opener, Tablespace};

/// The SDI objects of a tablespace.
#[derive(Debug, Default)]
pub struct Objects {
    /// The kind of each object, and its JSON.
    pub objects: Vec<(SdiKind, Vec<u8>)>,
    /// Why the list may be incomplete: where the tree could not be followed, as a clause.
    pub broken: Option<String>,
}

/// Bytes of all objects of a tablespace. One of a table with 1,017 columns and thousands of partitions has a few million; a thousand records can
/// lead to the same packed megabyte.
const OBJECTS_MAX: usize = 256 << 20;
/// No tree has more levels.
const LEVELS_MAX: u16 = 32;

/// Reads the objects; `None` if the tablespace has no SDI.
#[must_use]
pub fn read(space: &Tablespace, page0: &[u8], opener: &mut Opener) -> Option<Objects> {
    let root = sdi::root(page0, &space.format)?;
    let mut found = Objects::default();
    found.broken = walk(space, root, opener, &mut found.objects).err();
    Some(found)
}

fn walk(
    space: &Tablespace,
    root: PageNo,
    opener: &mut Opener,
    objects: &mut Vec<(SdiKind, Vec<u8>)>,
) -> Result<(), String> {
    let index = builtin::sdi().ok_or("its fields are not known")?;
    let mut fields = RecordFields::new();
    let mut number = leftmost_leaf(space, root, &index, opener)?;
    let mut room = OBJECTS_MAX;
    // No page list is longer than the tablespace.
    for _ in 0..space.pages() {
        let image = space.sound(number.0, opener)?;
        let page = sdi_page(&image, number, &space.format)?;
        let mut seen = 0_u32;
        for record in page.records() {
            let record = record.map_err(|why| format!("page {}: {why}", number.0))?;
            seen += 1;
            if record.is_deleted() {
                continue;
            }
            index.layout.locate(&record, &mut fields).map_err(|why| format!("page {}: {why}", number.0))?;
            let object = SdiRecord::read(&record, &fields).ok_or_else(|| misses_fields(number))?;
            objects.push((object.kind, taken(&mut room, json(space, &object, opener)?)?));
        }
        if seen != u32::from(page.record_count()) {
            return Err(format!("page {} counts {} records, but its list has {seen}", number.0, page.record_count()));
        }
        match page.next() {
            Some(next) => number = next,
            None => return Ok(()),
        }
    }
    Err("its list of pages does not end".to_owned())
}

/// The object, if there is still room for it.
fn taken(room: &mut usize, json: Vec<u8>) -> Result<Vec<u8>, String> {
    let left = room.checked_sub(json.len());
    *room =
        left.ok_or_else(|| format!("its objects are more than {OBJECTS_MAX} bytes long, which no server writes"))?;
    Ok(json)
}

fn misses_fields(number: PageNo) -> String {
    format!("page {}: a record without all fields", number.0)
}

fn sdi_page<'p>(image: &'p [u8], number: PageNo, format: &SpaceFormat) -> Result<IndexPage<'p>, String> {
    let page = IndexPage::parse(image, format).map_err(|why| format!("page {}: {why}", number.0))?;
    let is_sdi = page.page_type() == PageType::SDI;
    if is_sdi { Ok(page) } else { Err(format!("page {} does not belong to it", number.0)) }
}

fn leftmost_leaf(space: &Tablespace, root: PageNo, index: &IndexDef, opener: &mut Opener) -> Result<PageNo, String> {
    let (mut number, mut fields) = (root, RecordFields::new());
    for _ in 0..=LEVELS_MAX {
        let image = space.sound(number.0, opener)?;
        let page = sdi_page(&image, number, &space.format)?;
        if page.is_leaf() {
            return Ok(number);
        }
        let first = page.records().next().and_then(Result::ok);
        let child = first.filter(|first| index.layout.locate(first, &mut fields).is_ok()).and_then(|_| fields.child());
        number = child.ok_or_else(|| format!("page {} leads nowhere", number.0))?;
    }
    Err("its tree is too deep".to_owned())
}

fn json(space: &Tablespace, object: &SdiRecord<'_>, opener: &mut Opener) -> Result<Vec<u8>, String> {
    let mut packed = object.packed.to_vec();
    if let Some(reference) = object.reference {
        let reference = Reference::parse(reference).ok_or("a reference to off-page parts cannot be read")?;
        packed.extend(value(space, reference, opener)?);
    }
    object.json(&packed).map_err(|why| why.to_string())
}

/// Reads an off-page value.
///
/// # Errors
/// Where it cannot be followed, as a clause.
pub fn value(space: &Tablespace, reference: Reference, opener: &mut Opener) -> Result<Vec<u8>, String> {
    let mut reader = LobReader::new(reference, space.format.family(), true);
    while let Some(PageNo(number)) = reader.wants() {
        let page = space.sound(number, opener)?;
        reader.take(&page).map_err(|why| format!("page {number}: {why}"))?;
    }
    Ok(reader.into_value())
}

/// The tables in all sound SDI leaves, found by reading every page: for files whose page 0, or whose pages above the leaves, are damaged.
pub fn tables_in_leaves(space: &Tablespace, opener: &mut Opener) -> Vec<TableDef> {
    let Some(index) = builtin::sdi() else { return Vec::new() };
    let (mut leaves, mut fields, mut tables) = (Vec::new(), RecordFields::new(), Vec::new());
    let pages: Vec<u32> = (1..space.pages()).collect();
    space.each_stored(&pages, |page_no, stored| {
        let Ok(image) = stored.and_then(|stored| space.opened(page_no, stored, opener)) else { return };
        if sdi_page(&image, PageNo(page_no), &space.format).is_ok_and(|page| page.is_leaf()) {
            leaves.push(image);
        }
    });
    for image in leaves {
        let Ok(page) = IndexPage::parse(&image, &space.format) else { continue };
        for record in page.records().map_while(Result::ok).filter(|record| !record.is_deleted()) {
            if index.layout.locate(&record, &mut fields).is_err() {
                continue;
            }
            let object = SdiRecord::read(&record, &fields).filter(|object| object.kind == SdiKind::Table);
            let json = object.and_then(|object| json(space, &object, opener).ok());
            tables.extend(json.and_then(|json| from_sdi(&json).ok()));
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_take_more_than_their_room_are_refused() {
        let mut room = OBJECTS_MAX;
        for _ in 0..4 {
            assert_eq!(taken(&mut room, vec![0; OBJECTS_MAX / 4]).map(|json| json.len()), Ok(OBJECTS_MAX / 4));
        }
        let refused = taken(&mut room, vec![0]).expect_err("no room");
        assert!(refused.contains("268435456 bytes"), "{refused}");
    }
}
