//! A range of keys: which pages may hold it, and which rows are in it.

use std::cmp::Ordering;

use format::page::index::IndexPage;
use format::record::{Record, RecordFields};
use format::schema::show_create::type_name;
use format::schema::{FieldSource, IndexDef, KeyOrder, TableDef};
use format::value::{Encoded, ValueType};
use serde::{Deserialize, Serialize};

use crate::tree::ranges::Child;

/// A range of keys as text, not yet for any table in particular. Both values are inclusive; `None` leaves that side open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeyBounds {
    /// The first value of the key's first column.
    pub from: Option<String>,
    /// The last value.
    pub to: Option<String>,
}

impl KeyBounds {
    /// Parses text such as `5..90`, `2024-01-01..`, `..'k'`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (from, to) =
            text.split_once("..").ok_or_else(|| format!("`{text}` is not a range of keys: expected FROM..TO"))?;
        let bound = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok(Self { from: bound(from), to: bound(to) })
    }
}

/// Keys between two values of the key's first column, both inclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first value, in stored form.
    from: Option<Encoded>,
    /// The last value.
    to: Option<Encoded>,
    order: KeyOrder,
    descending: bool,
}

impl KeyRange {
    /// The range in stored form, for the key of `index`.
    ///
    /// # Errors
    /// A value does not fit the key's column, or the order of the key cannot be decided.
    pub fn new(bounds: &KeyBounds, table: &TableDef, index: &IndexDef) -> Result<Self, String> {
        let field = index.fields.first().ok_or("the index has no fields")?;
        let FieldSource::Column(at) = field.source else {
            return Err("the table has no primary key to name a range of".to_owned());
        };
        let column = table.columns.get(at).ok_or("the key is of no column")?;
        if !matches!(field.order, KeyOrder::Bytes | KeyOrder::PaddedBytes | KeyOrder::Float | KeyOrder::Double) {
            let name = &column.name;
            return Err(format!(
                "key column {name} is ordered by its collation, which innokit does not know completely"
            ));
        }
        let value = ValueType::of(column);
        if !value.has_ranges() {
            let of_type = type_name(table.family, column);
            return Err(format!("key column {} is of type {of_type}, of which there are no ranges", column.name));
        }
        let bound = |text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            value.encode(text).map(Some).ok_or_else(|| format!("`{text}` is not a value of key column {}", column.name))
        };
        Ok(Self {
            from: bound(&bounds.from)?,
            to: bound(&bounds.to)?,
            order: field.order,
            descending: field.descending,
        })
    }

    /// Whether a value is before the range, in it or after it, in index order.
    fn side(&self, value: Option<&[u8]>) -> Ordering {
        let compare = |bound: &Option<Encoded>| {
            let (value, bound) = (value?, bound.as_ref()?);
            let order = self.order.compare(value, &bound.stored)?;
            Some(order.then(bound.beyond.reverse()))
        };
        // NULL sorts before all values, and no comparison with it is true: it is not in `..5`.
        let is_null = value.is_none() && (self.from.is_some() || self.to.is_some());
        let side = if is_null || compare(&self.from) == Some(Ordering::Less) {
            Ordering::Less
        } else if compare(&self.to) == Some(Ordering::Greater) {
            Ordering::Greater
        } else {
            Ordering::Equal
        };
        if self.descending { side.reverse() } else { side }
    }

    /// Whether a row is in the range.
    #[must_use]
    pub fn holds(&self, page: &[u8], fields: &RecordFields) -> bool {
        self.side(fields.bytes(page, 0)) == Ordering::Equal
    }

    /// The children that may have rows of the range below them.
    #[must_use]
    pub fn children(&self, page: &IndexPage<'_>, index: &IndexDef, children: Vec<Child>) -> Vec<Child> {
        let mut fields = RecordFields::new();
        let side = |child: &Child, fields: &mut RecordFields| {
            let record = Record::new(page.bytes(), child.origin, page.style(), false)?;
            if record.is_min_rec() {
                return Some(Ordering::Less);
            }
            index.layout.locate(&record, fields).ok()?;
            Some(self.side(fields.bytes(page.bytes(), 0)))
        };
        let sides: Vec<Option<Ordering>> = children.iter().map(|child| side(child, &mut fields)).collect();
        let kept = |(at, child): (usize, Child)| {
            let begins_behind = sides.get(at).copied().flatten() == Some(Ordering::Greater);
            let ends_before = sides.get(at + 1).copied().flatten() == Some(Ordering::Less);
            (!begins_behind && !ends_before).then_some(child)
        };
        children.into_iter().enumerate().filter_map(kept).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_in_no_range_that_has_a_bound() {
        let bound = |byte: u8| Some(Encoded { stored: vec![byte], beyond: Ordering::Equal });
        let range = |from, to, descending| KeyRange { from, to, order: KeyOrder::Bytes, descending };
        for (descending, before) in [(false, Ordering::Less), (true, Ordering::Greater)] {
            assert_eq!(range(None, bound(5), descending).side(None), before);
            assert_eq!(range(bound(5), None, descending).side(None), before);
            assert_eq!(range(None, bound(5), descending).side(Some(&[5])), Ordering::Equal);
            assert_eq!(range(None, None, descending).side(None), Ordering::Equal);
        }
    }
}
