//! Which columns of both are compared, and how their rows are read: the fields of the key, the transaction that wrote the row, the columns.

use std::sync::Arc;

use format::charset::Charset;
use format::schema::{ColumnDef, FieldSource, TableDef};
use format::value::json::is_plain;
use format::value::{Value, ValueKind, ValueType};

use super::definition::{Key, is_comparable, is_shown, refuse_keys};
use super::merge::KeyRule;
use super::stream::RowAt;
use crate::rows::plan::{RowColumn, RowPlan};
use crate::rows::source::{TableSource, TreeSource};

/// A column that is compared.
#[derive(Debug, Clone)]
pub struct DiffColumn {
    /// Its name in B.
    pub name: String,
    /// How to read its bytes.
    pub value: ValueType,
    /// Its definition in B.
    pub definition: ColumnDef,
    /// Whether it is part of the key.
    pub is_key: bool,
}

/// How to compare the rows of a table.
#[derive(Debug, Clone)]
pub struct DiffPlan {
    /// The columns, in B's order.
    pub columns: Vec<DiffColumn>,
    /// Whether the rows have no key but the hidden number that InnoDB gives them.
    pub is_by_row_id: bool,
    /// Columns that are not compared, and why, as clauses.
    pub not_compared: Vec<String>,
    pub(super) rule: KeyRule,
    /// Their places in the definition of A, and in that of B.
    places: Vec<[usize; 2]>,
}

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideOf {
    A,
    B,
}

impl DiffPlan {
    /// Compares the columns that both have.
    ///
    /// # Errors
    /// Why rows cannot be compared, as a clause.
    pub(super) fn new(a: &TableSource, b: &TableSource) -> Result<Self, String> {
        let first = |table: &TableSource| table.trees.first().map(|tree| tree.index.clone());
        let (Some(of_a), Some(of_b)) = (first(a), first(b)) else { return Err("it has no rows in these files".into()) };
        let key = refuse_keys((&a.table, &of_a), (&b.table, &of_b))?;
        let fields = of_b.fields.get(..of_b.layout.key_fields()).unwrap_or_default();
        let rule = KeyRule(fields.iter().map(|field| (field.order, field.descending)).collect());
        let mut plan = Self {
            columns: Vec::new(),
            is_by_row_id: key == Key::RowId,
            not_compared: Vec::new(),
            rule,
            places: Vec::new(),
        };
        let keys = of_b.fields.iter().take(of_b.layout.key_fields());
        let in_key: Vec<FieldSource> = keys.map(|field| field.source).collect();
        for (at, column) in b.table.columns.iter().enumerate().filter(|(_, column)| is_shown(column)) {
            let same = |other: &ColumnDef| is_shown(other) && other.name.eq_ignore_ascii_case(&column.name);
            let Some(in_a) = a.table.columns.iter().position(same) else {
                plan.not_compared.push(format!("{}: not in A", column.name));
                continue;
            };
            let is_stored = of_b.field_of(at).is_some() && of_a.field_of(in_a).is_some();
            let why = match a.table.columns.get(in_a) {
                Some(other) if !is_comparable(other, column) => "of another type",
                _ if !is_stored => "computed when it is read",
                _ => "",
            };
            if !why.is_empty() {
                plan.not_compared.push(format!("{}: {why}", column.name));
                continue;
            }
            plan.places.push([in_a, at]);
            plan.columns.push(DiffColumn {
                name: column.name.clone(),
                value: ValueType::of(column),
                definition: column.clone(),
                is_key: in_key.contains(&FieldSource::Column(at)),
            });
        }
        let left_out = a.table.columns.iter().filter(|column| is_shown(column));
        let left_out = left_out.filter(|column| {
            !b.table.columns.iter().any(|other| is_shown(other) && other.name.eq_ignore_ascii_case(&column.name))
        });
        plan.not_compared.extend(left_out.map(|column| format!("{}: not in B", column.name)));
        Ok(plan)
    }

    /// How to read the rows of a tree of that side.
    pub(super) fn rows(&self, side: SideOf, table: &Arc<TableDef>, tree: &TreeSource) -> Result<Arc<RowPlan>, String> {
        let all = RowPlan::new(table, tree.index.clone(), None)?;
        let hidden = |field: usize, name: &str| RowColumn {
            column: usize::MAX,
            name: name.to_owned(),
            field,
            value: ValueType::new(ValueKind::Unknown, Charset::Binary, None),
            nullable: true,
        };
        let mut columns: Vec<RowColumn> = (0..self.rule.0.len()).map(|field| hidden(field, "of the key")).collect();
        let trx_id = all.index.layout.trx_id().ok_or("its rows do not say which transaction wrote them")?;
        columns.push(hidden(trx_id, "DB_TRX_ID"));
        for [in_a, in_b] in &self.places {
            let at = if side == SideOf::A { in_a } else { in_b };
            let column = all.columns.iter().find(|column| column.column == *at);
            columns.push(column.cloned().ok_or("a column is not in its rows")?);
        }
        let mut plan = RowPlan { columns, ..all.current() };
        if let Some(defaults) = &tree.defaults {
            plan.defaults.clone_from(defaults);
        }
        Ok(Arc::new(plan))
    }

    /// The value of a compared column.
    pub(super) fn get<'r>(&self, row: &'r RowAt, column: usize) -> Option<&'r [u8]> {
        row.get(self.rule.0.len() + 1 + column)
    }

    /// The transaction that wrote the row.
    pub(super) fn transaction(&self, row: &RowAt) -> u64 {
        let bytes = row.get(self.rule.0.len()).unwrap_or_default();
        bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The columns that differ.
    pub(super) fn differing(&self, a: &RowAt, b: &RowAt, out: &mut Vec<usize>) {
        out.clear();
        for (number, column) in self.columns.iter().enumerate() {
            let (a, b) = (self.get(a, number), self.get(b, number));
            if a != b && !a.zip(b).is_some_and(|(a, b)| is_same_value(&column.value, a, b)) {
                out.push(number);
            }
        }
    }
}

/// Whether other bytes mean the same: the padding of a CHAR, the free space in a JSON document.
fn is_same_value(value: &ValueType, a: &[u8], b: &[u8]) -> bool {
    if !matches!(value.kind, ValueKind::Char { .. } | ValueKind::Json) {
        return false;
    }
    match (value.decode(a), value.decode(b)) {
        (Ok(Value::Text(a)), Ok(Value::Text(b))) => a == b,
        (Ok(Value::Json(document_a)), Ok(Value::Json(document_b))) if is_plain(document_a) && is_plain(document_b) => {
            let [mut of_a, mut of_b] = [Vec::new(), Vec::new()];
            value.write_text(a, &mut of_a).is_ok() && value.write_text(b, &mut of_b).is_ok() && of_a == of_b
        }
        _ => false,
    }
}
