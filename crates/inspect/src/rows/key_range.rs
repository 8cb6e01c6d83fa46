//! A range of keys: which pages may hold it, and which rows are in it.

use std::cmp::Ordering;

use format::page::index::IndexPage;
use format::record::{Record, RecordFields};
use format::schema::{FieldSource, IndexDef, KeyOrder, TableDef};
use format::show_create::type_name;
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

/// One column of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyColumn {
    order: KeyOrder,
    /// The first value, in stored form. None, if this bound has fewer columns.
    from: Option<Encoded>,
    /// The last value.
    to: Option<Encoded>,
}

/// Keys between two values of the key's first columns, both inclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    columns: Vec<KeyColumn>,
    /// All of these columns are.
    descending: bool,
}

impl KeyRange {
    /// The range in stored form, for the key of `index`. Bounds such as `(5,'a')` are values of the first columns of a key that has several.
    ///
    /// # Errors
    /// A value does not fit the key's column, or the order of the key cannot be decided.
    pub fn new(bounds: &KeyBounds, table: &TableDef, index: &IndexDef) -> Result<Self, String> {
        let several = index.declared_parts > 1;
        let parts = |text: &String| parts_of(text, several);
        let [from, to] = [&bounds.from, &bounds.to].map(|bound| bound.as_ref().map_or_else(Vec::new, parts));
        let count = from.len().max(to.len()).max(1);
        if count > index.declared_parts.max(1) {
            return Err(format!("the key has {} columns, and the range {count}", index.declared_parts));
        }
        let column = |at: usize| KeyColumn::new(table, index, at, [from.get(at), to.get(at)]);
        let columns = (0..count).map(column).collect::<Result<_, _>>()?;
        let mut directions = index.fields.iter().take(count).map(|field| field.descending);
        let descending = directions.next().unwrap_or_default();
        if directions.any(|other| other != descending) {
            return Err(
                "the key orders some of these columns upwards and some downwards: such a range is no part of it".into(),
            );
        }
        Ok(Self { columns, descending })
    }

    /// Whether a value is before the range, in it or after it, in index order. `value` returns the bytes of a column, None for NULL.
    fn side<'v>(&self, value: impl Fn(usize) -> Option<&'v [u8]>) -> Ordering {
        let compare = |bound: fn(&KeyColumn) -> &Option<Encoded>| {
            for (at, column) in self.columns.iter().enumerate() {
                let Some(bound) = bound(column) else { break };
                // NULL sorts before all values.
                let Some(value) = value(at) else { return Ordering::Less };
                let order = column.order.compare(value, &bound.stored).unwrap_or(Ordering::Equal);
                let order = order.then(bound.beyond.reverse());
                if order.is_ne() {
                    return order;
                }
            }
            Ordering::Equal
        };
        // No comparison with NULL is true: it is not in `..5`.
        let is_bounded = self.columns.first().is_some_and(|column| column.from.is_some() || column.to.is_some());
        let is_null = is_bounded && value(0).is_none();
        let side = if is_null || compare(|column| &column.from) == Ordering::Less {
            Ordering::Less
        } else if compare(|column| &column.to) == Ordering::Greater {
            Ordering::Greater
        } else {
            Ordering::Equal
        };
        if self.descending { side.reverse() } else { side }
    }

    /// Whether a row is in the range.
    #[must_use]
    pub fn holds(&self, page: &[u8], fields: &RecordFields) -> bool {
        self.side(|at| fields.bytes(page, at)) == Ordering::Equal
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
            Some(self.side(|at| fields.bytes(page.bytes(), at)))
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

impl KeyColumn {
    fn new(table: &TableDef, index: &IndexDef, at: usize, bounds: [Option<&String>; 2]) -> Result<Self, String> {
        let field = index.fields.get(at).ok_or("the index has no fields")?;
        let FieldSource::Column(of) = field.source else {
            return Err("the table has no primary key to name a range of".to_owned());
        };
        let column = table.columns.get(of).ok_or("the key is of no column")?;
        let name = &column.name;
        if !matches!(field.order, KeyOrder::Bytes | KeyOrder::PaddedBytes | KeyOrder::Float | KeyOrder::Double) {
            return Err(format!(
                "key column {name} is ordered by its collation, which innokit does not know completely"
            ));
        }
        let value = ValueType::of(column);
        if !value.has_ranges() {
            let of_type = type_name(table.family, column);
            return Err(format!("key column {name} is of type {of_type}, of which there are no ranges"));
        }
        let [from, to] = bounds.map(|text| {
            let Some(text) = text else { return Ok(None) };
            // Dates may be in quotes, as in SQL.
            let unquoted = || value.encode(text.strip_prefix('\'')?.strip_suffix('\'')?);
            let encoded = value.encode(text).or_else(unquoted);
            encoded.map(Some).ok_or_else(|| format!("`{text}` is not a value of key column {name}"))
        });
        Ok(Self { order: field.order, from: from?, to: to? })
    }
}

/// The values in a bound: `(5,'it''s')` of a key of several columns, or one value.
fn parts_of(text: &str, several: bool) -> Vec<String> {
    let inside = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).filter(|_| several);
    let Some(mut rest) = inside else { return vec![text.to_owned()] };
    let mut parts = Vec::new();
    loop {
        let (part, behind) = match rest.trim_start().strip_prefix('\'') {
            Some(quoted) => quoted_part(quoted),
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (part, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
                (part.trim().to_owned(), behind)
            }
        };
        parts.push(part);
        match behind.trim_start().strip_prefix(',') {
            Some(next) => rest = next,
            None => return parts,
        }
    }
}

/// A text up to its quote, two of which stand for one, again between quotes; and what is behind it.
fn quoted_part(text: &str) -> (String, &str) {
    let mut part = String::from('\'');
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\'') {
        part.push_str(before);
        part.push('\'');
        match behind.strip_prefix('\'') {
            Some(next) => rest = next,
            None => return (part, behind),
        }
    }
    (part + rest, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(byte: u8) -> Option<Encoded> {
        Some(Encoded { stored: vec![byte], beyond: Ordering::Equal })
    }

    fn column(from: Option<Encoded>, to: Option<Encoded>) -> KeyColumn {
        KeyColumn { order: KeyOrder::Bytes, from, to }
    }

    #[test]
    fn null_is_in_no_range_that_has_a_bound() {
        let side = |from, to, descending, value: Option<&'static [u8]>| {
            KeyRange { columns: vec![column(from, to)], descending }.side(|_| value)
        };
        for (descending, before) in [(false, Ordering::Less), (true, Ordering::Greater)] {
            assert_eq!(side(None, bound(5), descending, None), before);
            assert_eq!(side(bound(5), None, descending, None), before);
            assert_eq!(side(None, bound(5), descending, Some(&[5])), Ordering::Equal);
            assert_eq!(side(None, None, descending, None), Ordering::Equal);
        }
    }

    #[test]
    fn a_range_of_two_columns_is_between_pairs() {
        // From (2,5) to (4): any second value of the last first one.
        let range = KeyRange { columns: vec![column(bound(2), bound(4)), column(bound(5), None)], descending: false };
        let side = |first: &'static [u8], second: &'static [u8]| range.side(|at| Some([first, second][at]));
        assert_eq!(side(&[1], &[9]), Ordering::Less);
        assert_eq!(side(&[2], &[4]), Ordering::Less);
        assert_eq!(side(&[2], &[5]), Ordering::Equal);
        assert_eq!(side(&[3], &[0]), Ordering::Equal);
        assert_eq!(side(&[4], &[255]), Ordering::Equal);
        assert_eq!(side(&[5], &[0]), Ordering::Greater);
    }

    #[test]
    fn values_of_several_columns_stand_in_parentheses() {
        assert_eq!(parts_of("(5, 'a,b',0x01)", true), ["5", "'a,b'", "0x01"]);
        assert_eq!(parts_of("(5,'it''s, or not' , 6)", true), ["5", "'it's, or not'", "6"]);
        assert_eq!(parts_of("(5,'a", true), ["(5,'a"], "no parenthesis at its end");
        assert_eq!(parts_of("('a''b,7)", true), ["'a'b,7"], "no quote at its end");
        assert_eq!(parts_of("(5,6)", false), ["(5,6)"], "one column, which may have such a text");
        assert_eq!(parts_of("5", true), ["5"]);
    }
}
