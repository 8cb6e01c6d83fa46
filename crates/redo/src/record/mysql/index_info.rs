//! A record's description of the index it changes: the number of fields in its records, and what each of them is.

use super::cursor::Cursor;
use crate::record::RecordFault;

/// Flags of the new form.
const COMPACT: u8 = 1;
const VERSIONS: u8 = 2;
const INSTANT: u8 = 4;
/// Flag in the field count of the old form: the number of fields before the first ALTER TABLE ... ALGORITHM=INSTANT follows.
const OLD_INSTANT: u16 = 0x8000;
/// Flag of a field: NOT NULL.
const NOT_NULL: u16 = 0x8000;
/// The length given for fields that may exceed 255 bytes.
const LONG: u16 = 0x7FFF;
/// Flags in a field's physical position: what follows.
const ADDED: u16 = 0x8000;
const DROPPED: u16 = 0x4000;
/// More fields than any index has.
const FIELDS_MAX: u16 = 1100;

/// The index changed by a record, as the record describes it. Fields and versions are decoded on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexInfo<'a> {
    /// Whether records have the format of ROW_FORMAT=COMPACT, DYNAMIC and COMPRESSED.
    pub is_compact: bool,
    /// Whether rows have the version of the table in which they were written.
    pub has_versions: bool,
    /// Fields before the first instant ADD COLUMN of a server before 8.0.29.
    pub n_instant: Option<u16>,
    /// Number of fields; 0 if rows state it themselves.
    pub n_fields: u16,
    /// Fields that make a record unique; above the leaves, those of a node pointer without its child.
    pub n_unique: u16,
    /// Two bytes per field.
    fields: &'a [u8],
    versions: &'a [u8],
}

/// The length of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldLen {
    Fixed(usize),
    /// At most 255 bytes.
    Short,
    Long,
}

/// A field of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub is_nullable: bool,
    pub len: FieldLen,
    /// The first table version that has it; 0 is the initial one.
    pub added: u8,
    /// The first table version without it.
    pub dropped: Option<u8>,
}

impl Field {
    /// Whether rows of a version have it.
    pub(crate) fn is_in(&self, version: u8) -> bool {
        self.added <= version && self.dropped.is_none_or(|dropped| dropped > version)
    }
}

/// The fields of an index, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// In the order of the table definition.
    pub logical: Vec<Field>,
    /// For each field in storage order, its index in `logical`.
    pub physical: Vec<usize>,
}

impl<'a> IndexInfo<'a> {
    /// Parses the form since 8.0.29.
    pub(crate) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        let (version, flags) = (cursor.byte()?, cursor.byte()?);
        if flags & !(COMPACT | VERSIONS | INSTANT) != 0 || version > 1 {
            return Err(RecordFault::Fields);
        }
        // 8.0.29 listed versions differently.
        if version == 0 && flags & VERSIONS != 0 {
            return Err(RecordFault::EarlyVersions);
        }
        let (is_compact, has_versions) = (flags & COMPACT != 0, flags & VERSIONS != 0);
        let mut info = Self { is_compact, has_versions, ..Self::redundant() };
        if is_compact || has_versions {
            info.n_fields = cursor.u16()?;
        }
        if is_compact {
            info.n_instant = (flags & INSTANT != 0).then(|| cursor.u16()).transpose()?;
            info.parse_fields(cursor)?;
        }
        if has_versions {
            let from = *cursor;
            for _ in 0..cursor.u16()? {
                version_of(cursor)?;
            }
            let len = cursor.position() - from.position();
            info.versions = { from }.take(len)?.get(2..).unwrap_or_default();
        }
        Ok(info)
    }

    /// Parses the form before 8.0.29: nothing at all for REDUNDANT.
    pub(crate) fn parse_old(cursor: &mut Cursor<'a>, is_compact: bool) -> Result<Self, RecordFault> {
        let mut info = Self { is_compact, ..Self::redundant() };
        if is_compact {
            let n_fields = cursor.u16()?;
            info.n_fields = n_fields;
            if n_fields & OLD_INSTANT != 0 {
                info.n_instant = Some(n_fields & !OLD_INSTANT);
                info.n_fields = cursor.u16()?;
            }
            info.parse_fields(cursor)?;
        }
        Ok(info)
    }

    const fn redundant() -> Self {
        let (fields, versions): (&[u8], &[u8]) = (&[], &[]);
        Self { is_compact: false, has_versions: false, n_instant: None, n_fields: 0, n_unique: 0, fields, versions }
    }

    fn parse_fields(&mut self, cursor: &mut Cursor<'a>) -> Result<(), RecordFault> {
        self.n_unique = cursor.u16()?;
        let sane = self.n_fields <= FIELDS_MAX && self.n_unique <= self.n_fields;
        if !sane || self.n_instant.is_some_and(|n_instant| n_instant > self.n_fields) {
            return Err(RecordFault::Fields);
        }
        self.fields = cursor.take(usize::from(self.n_fields) * 2)?;
        Ok(())
    }

    /// Whether it is the clustered index, whose rows have DB_TRX_ID and DB_ROLL_PTR after the unique fields. For leaf pages.
    #[must_use]
    pub const fn is_clustered(&self) -> bool {
        self.n_unique != self.n_fields
    }

    /// Decodes fields and versions.
    pub(crate) fn fields(&self) -> Result<Fields, RecordFault> {
        let unknown = Field { is_nullable: true, len: FieldLen::Long, added: 0, dropped: None };
        let mut logical: Vec<Field> = self.fields.as_chunks::<2>().0.iter().map(|bytes| field_of(*bytes)).collect();
        // REDUNDANT rows state their fields themselves; their positions depend on versions.
        if logical.is_empty() && self.has_versions {
            if self.n_fields > FIELDS_MAX {
                return Err(RecordFault::Fields);
            }
            logical = vec![unknown; usize::from(self.n_fields)];
        }
        let mut places = vec![None; logical.len()];
        let mut cursor = Cursor::new(self.versions);
        while !cursor.is_at_end() {
            let (number, place, added, dropped) = version_of(&mut cursor)?;
            let field = logical.get_mut(number).ok_or(RecordFault::Fields)?;
            (field.added, field.dropped) = (added, dropped);
            *places.get_mut(place).ok_or(RecordFault::Fields)? = Some(number);
        }
        Ok(Fields { physical: fill_places(places, logical.len()), logical })
    }
}

fn field_of([high, low]: [u8; 2]) -> Field {
    let value = u16::from_be_bytes([high, low]);
    let len = match value & !NOT_NULL {
        0 => FieldLen::Short,
        LONG => FieldLen::Long,
        len => FieldLen::Fixed(usize::from(len)),
    };
    Field { is_nullable: value & NOT_NULL == 0, len, added: 0, dropped: None }
}

/// Logical and physical position of a field, and the versions that added and dropped it.
fn version_of(cursor: &mut Cursor<'_>) -> Result<(usize, usize, u8, Option<u8>), RecordFault> {
    let (logical, physical) = (cursor.size()?, cursor.u16()?);
    let added = if physical & ADDED == 0 { 0 } else { cursor.byte()? };
    let dropped = if physical & DROPPED == 0 { None } else { Some(cursor.byte()?) };
    Ok((logical, usize::from(physical & !(ADDED | DROPPED)), added, dropped))
}

/// Fields that are not listed take the lowest free positions, in logical order.
fn fill_places(places: Vec<Option<usize>>, count: usize) -> Vec<usize> {
    let mut is_listed = vec![false; count];
    for number in places.iter().flatten() {
        if let Some(listed) = is_listed.get_mut(*number) {
            *listed = true;
        }
    }
    let mut others = is_listed.iter().enumerate().filter(|(_, listed)| !**listed).map(|(number, _)| number);
    places.into_iter().filter_map(|place| place.or_else(|| others.next())).collect()
}
