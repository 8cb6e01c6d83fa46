//! Two definitions of a table: what differs, in the words of `SHOW CREATE TABLE`, and which columns mean the same in both.

use format::schema::{ColumnDef, FieldSource, IndexDef, TableDef, Visibility};
use format::show_create::create_table;
use format::value::{ValueKind, ValueType};

/// The lines of both definitions that only one has: `- ` those of A, `+ ` those of B.
pub(super) fn differences(a: &TableDef, b: &TableDef) -> Vec<String> {
    let lines = |table: &TableDef| {
        let mut table = table.clone();
        // The next value is no part of a definition. Servers differ in whether the files have it.
        table.declared.auto_increment = None;
        let text = create_table(&table);
        text.lines().map(|line| line.trim().trim_end_matches(',').to_owned()).collect::<Vec<_>>()
    };
    let (of_a, of_b) = (lines(a), lines(b));
    let gone = of_a.iter().filter(|line| !of_b.contains(line)).map(|line| format!("- {line}"));
    let new = of_b.iter().filter(|line| !of_a.contains(line)).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

/// Whether the records of both have the same fields with the same meaning, so that equal pages are equal rows.
pub(super) fn has_same_records((a, of_a): (&TableDef, &IndexDef), (b, of_b): (&TableDef, &IndexDef)) -> bool {
    let is_same = |(a, b): (&ColumnDef, &ColumnDef)| {
        a.name == b.name
            && is_comparable(a, b)
            && (a.compressed, a.dropped, &a.instant_default) == (b.compressed, b.dropped, &b.instant_default)
    };
    a.columns.len() == b.columns.len()
        && a.columns.iter().zip(&b.columns).all(is_same)
        && of_a.fields == of_b.fields
        && of_a.layout == of_b.layout
}

/// Whether values of both columns are equal if and only if their bytes mean the same.
pub(super) fn is_comparable(a: &ColumnDef, b: &ColumnDef) -> bool {
    // Sources differ in what they call the collation of a number.
    let is_text = matches!(
        ValueType::of(a).kind,
        ValueKind::Char { .. }
            | ValueKind::Text
            | ValueKind::Enum(_)
            | ValueKind::Set(_)
            | ValueKind::Binary { .. }
            | ValueKind::Bytes
    );
    let is_same_text = !is_text || a.collation == b.collation;
    a.sql_type == b.sql_type && is_same_text && a.members == b.members && a.srid == b.srid
}

/// Whether the server shows the column.
pub(super) fn is_shown(column: &ColumnDef) -> bool {
    matches!(column.visibility, Visibility::Visible | Visibility::Invisible) && column.dropped.is_none()
}

/// The key by which rows are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// Columns, by their places in the table.
    Columns(Vec<usize>),
    /// The hidden number of a row: the table has no key.
    RowId,
}

/// The key of a table's rows.
pub(super) fn key_of(index: &IndexDef) -> Option<Key> {
    let fields = index.fields.get(..index.layout.key_fields())?;
    if fields.first()?.source == FieldSource::RowId {
        return Some(Key::RowId);
    }
    let column = |source| match source {
        FieldSource::Column(at) => Some(at),
        _ => None,
    };
    fields.iter().map(|field| column(field.source)).collect::<Option<_>>().map(Key::Columns)
}

/// Why the keys of both cannot be compared, as a clause.
pub(super) fn refuse_keys((a, of_a): (&TableDef, &IndexDef), (b, of_b): (&TableDef, &IndexDef)) -> Result<Key, String> {
    let (Some(key_a), Some(key_b)) = (key_of(of_a), key_of(of_b)) else {
        return Err("the columns of its key are not known".to_owned());
    };
    let (Key::Columns(in_a), Key::Columns(in_b)) = (&key_a, &key_b) else {
        return if key_a == key_b { Ok(key_a) } else { Err("only one of the two has a primary key".to_owned()) };
    };
    let is_same = |(at_a, at_b): (&usize, &usize)| {
        let columns = a.columns.get(*at_a).zip(b.columns.get(*at_b));
        columns.is_some_and(|(a, b)| a.name.eq_ignore_ascii_case(&b.name) && is_comparable(a, b))
    };
    let fields = of_a.fields.iter().zip(&of_b.fields).take(in_a.len());
    let is_ordered = |(a, b): (&format::schema::FieldDef, &format::schema::FieldDef)| {
        (a.prefix, a.descending, a.order) == (b.prefix, b.descending, b.order)
    };
    if in_a.len() == in_b.len() && in_a.iter().zip(in_b).all(is_same) && fields.into_iter().all(is_ordered) {
        return Ok(key_a);
    }
    Err("the primary keys differ".to_owned())
}
