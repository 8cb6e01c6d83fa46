//! The columns of a table, and their types.

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsule;
use crate::notebook::html;

/// The columns of a table, in its order. ``pyarrow.schema(schema)`` takes it.
#[pyclass(frozen, module = "innokit")]
#[derive(Clone)]
pub struct Schema(pub SchemaRef);

#[pymethods]
impl Schema {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.0)
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| field.name().clone()).collect()
    }

    #[getter]
    pub fn fields(&self) -> Vec<Field> {
        let of = |field: &std::sync::Arc<arrow_schema::Field>| Field {
            name: field.name().clone(),
            arrow_type: field.data_type().to_string(),
            nullable: field.is_nullable(),
            sql_type: field.metadata().get("innokit.type").cloned(),
        };
        self.0.fields().iter().map(of).collect()
    }

    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __repr__(&self) -> String {
        let lines = self.fields().into_iter().map(|field| format!("{}: {}\n", field.name, field.types()));
        lines.collect::<String>().trim_end().to_owned()
    }
}

/// A column: its name, Arrow type, and type in the server's words (``"decimal(10,2) unsigned"``).
#[pyclass(frozen, get_all, module = "innokit")]
#[derive(Clone)]
pub struct Field {
    name: String,
    arrow_type: String,
    nullable: bool,
    sql_type: Option<String>,
}

impl Field {
    /// A row of an HTML table.
    pub fn row(&self) -> String {
        format!("<tr><td>{}</td><td>{}</td></tr>", html(&self.name), html(&self.types()))
    }

    fn types(&self) -> String {
        let null = if self.nullable { "" } else { " not null" };
        match &self.sql_type {
            Some(sql) => format!("{}{null} ({sql})", self.arrow_type),
            None => format!("{}{null}", self.arrow_type),
        }
    }
}

#[pymethods]
impl Field {
    fn __repr__(&self) -> String {
        format!("Field({:?}, {})", self.name, self.types())
    }
}
