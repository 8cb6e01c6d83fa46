//! Full-text indexes of MySQL, from its dictionary: of a table whose own description of itself is damaged.
//!
//! ```text
//! schemata, tables       -> names
//! columns                -> their names
//! indexes of FULLTEXT    -> name, parser, comment, visibility
//! index_column_usage     -> which columns, in which order
//! ```

use std::collections::HashMap;

use format::schema::quoted::{quoted, quoted_name};

use super::Reader;
use crate::tablespace::Tablespace;

const NAMES: [&str; 5] = ["schemata", "tables", "columns", "indexes", "index_column_usage"];
/// Value of `indexes.type`.
const FULLTEXT: u8 = 4;
/// A BOOL is a signed byte, which InnoDB stores with its sign bit inverted.
const FALSE: u8 = 0x80;

/// A full-text index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FulltextIndex {
    /// Database and table.
    pub table: (String, String),
    /// The index.
    pub name: String,
    /// As it stands in a CREATE TABLE, from `FULLTEXT KEY` on.
    pub definition: String,
}

/// The full-text indexes of user tables in the dictionary `space`, by table, each table's in its order.
///
/// # Errors
/// Why the dictionary cannot be read to its end, as a clause.
pub fn read(space: &Tablespace) -> Result<Vec<FulltextIndex>, String> {
    let mut reader = Reader::open(space, &NAMES)?;
    let (mut schemas, mut tables, mut columns) = (HashMap::new(), HashMap::new(), HashMap::new());
    reader.each("schemata", |row| {
        schemas.extend(row.id("id").zip(row.text("name")));
        Ok(())
    })?;
    reader.each("tables", |row| {
        let schema = row.id("schema_id").and_then(|id| schemas.get(&id));
        if let (Some(id), Some(schema), Some(name)) = (row.id("id"), schema, row.text("name")) {
            tables.insert(id, (schema.clone(), name));
        }
        Ok(())
    })?;
    let mut found: Vec<(u64, Found)> = Vec::new();
    reader.each("indexes", |row| {
        let is_it = row.choice("type") == Some(FULLTEXT);
        let table = row.id("table_id").filter(|_| is_it).and_then(|id| tables.get(&id));
        if let (Some(id), Some(table), Some(name)) = (row.id("id"), table, row.text("name")) {
            let mut options = String::new();
            if let Some(parser) = row.text_option("options", "parser_name") {
                options.push_str(&format!(" WITH PARSER {}", quoted_name(&parser)));
            }
            if let Some(comment) = row.text("comment").filter(|comment| !comment.is_empty()) {
                options.push_str(&format!(" COMMENT {}", quoted(&comment)));
            }
            if row.choice("is_visible") == Some(FALSE) {
                options.push_str(" INVISIBLE");
            }
            found.push((id, Found { table: table.clone(), name, options, columns: Vec::new() }));
        }
        Ok(())
    })?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let places: HashMap<u64, usize> = found.iter().enumerate().map(|(place, (id, _))| (*id, place)).collect();
    reader.each("index_column_usage", |row| {
        let place = row.id("index_id").and_then(|id| places.get(&id));
        let index = place.and_then(|place| found.get_mut(*place));
        // The server adds the column of document numbers.
        if let (Some((_, index)), Some(column), Some(FALSE)) = (index, row.id("column_id"), row.choice("hidden")) {
            index.columns.push((row.number("ordinal_position").unwrap_or(0), column));
            columns.insert(column, String::new());
        }
        Ok(())
    })?;
    reader.each("columns", |row| {
        if let Some(name) = row.id("id").and_then(|id| columns.get_mut(&id)) {
            *name = row.text("name").unwrap_or_default();
        }
        Ok(())
    })?;
    found.sort_by(|(id, a), (other, b)| (&a.table, id).cmp(&(&b.table, other)));
    Ok(found.into_iter().map(|(_, index)| index.defined(&columns)).collect())
}

struct Found {
    table: (String, String),
    name: String,
    options: String,
    /// Ordinal position and id.
    columns: Vec<(u32, u64)>,
}

impl Found {
    fn defined(mut self, names: &HashMap<u64, String>) -> FulltextIndex {
        self.columns.sort_unstable();
        let columns = self.columns.iter().filter_map(|(_, id)| names.get(id)).map(|name| quoted_name(name));
        let columns = columns.collect::<Vec<_>>().join(",");
        let definition = format!("FULLTEXT KEY {} ({columns}){}", quoted_name(&self.name), self.options);
        FulltextIndex { table: self.table, name: self.name, definition }
    }
}
